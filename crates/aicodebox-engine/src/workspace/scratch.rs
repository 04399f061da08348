use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::run::{RunId, Workspace};

/// Temporary directories of this process: prompts and schemas in files, workspaces of a single run.
///
/// They lie in `<base>/<instance>/`, whose `lock` file is locked as long as this process lives. What a killed
/// one left behind is found by its free lock and removed at the next start.
#[derive(Clone, Debug)]
pub struct Scratch(Arc<Instance>);

#[derive(Debug)]
struct Instance {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes this process's directory (0700) below `base` and removes those of dead ones. Blocks.
    ///
    /// # Errors
    /// When `base` cannot be made or written.
    pub fn open(base: &Path) -> io::Result<Self> {
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true).create(base)?;
        // Held to the end: without it, another start could take our lock file before we lock it.
        let starting = File::create(base.join("lock"))?;
        starting.lock()?;
        for entry in fs::read_dir(base)?.flatten() {
            sweep(&entry.path());
        }
        let path = base.join(RunId::random().to_string());
        private.create(&path)?;
        let lock = File::create(path.join("lock"))?;
        lock.lock()?;
        Ok(Self(Arc::new(Instance { path, _lock: lock })))
    }

    /// The path that [`Scratch::create`] will give to this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path.join(name)
    }

    /// Makes a private directory that is removed with its guard. Blocks.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub fn create(&self, name: &str) -> io::Result<ScratchDir> {
        let path = self.path(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(ScratchDir(path))
    }

    /// A workspace for one run alone, removed with its last clone. Blocks.
    ///
    /// # Errors
    /// As [`Scratch::create`].
    pub fn workspace(&self) -> io::Result<Workspace> {
        let dir = self.create(&format!("workspace-{}", RunId::random()))?;
        Ok(Workspace { path: dir.0.canonicalize()?, root: false, guard: Some(Arc::new(dir)) })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// A directory that is removed, with all that is in it, when this is dropped. Dropping blocks on the file system.
#[derive(Debug)]
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes an instance whose process is gone; a living one holds its lock.
fn sweep(instance: &Path) {
    match File::open(instance.join("lock")).map(|lock| lock.try_lock()) {
        Ok(Ok(())) => remove(instance),
        // What an earlier try left of one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => remove(instance),
        Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) | Err(_) => {}
    }
}

/// An agent may have taken away the write permission of its directories, as Go's module cache does.
fn remove(path: &Path) {
    let removed = fs::remove_dir_all(path).or_else(|error| {
        if error.kind() != io::ErrorKind::PermissionDenied {
            return Err(error);
        }
        make_writable(path)?;
        fs::remove_dir_all(path)
    });
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a temporary directory could not be removed");
    }
}

/// Gives a directory, and all below it, back to its owner. What links lead to is left as it is.
fn make_writable(dir: &Path) -> io::Result<()> {
    let mut mode = fs::symlink_metadata(dir)?.permissions();
    mode.set_mode(mode.mode() | 0o700);
    fs::set_permissions(dir, mode)?;
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_an_agent_has_closed_are_removed_and_nothing_outside() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o500)).unwrap();
        let dir = base.path().join("closed");
        fs::create_dir_all(dir.join("mod/cache")).unwrap();
        fs::write(dir.join("mod/cache/file"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, dir.join("mod/link")).unwrap();
        for closed in ["mod/cache", "mod"] {
            fs::set_permissions(dir.join(closed), fs::Permissions::from_mode(0o500)).unwrap();
        }
        // Root may do it anyway, so not by `remove` alone.
        make_writable(&dir).unwrap();
        assert_eq!(fs::metadata(dir.join("mod/cache")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o500);
        remove(&dir);
        assert!(!dir.exists());
    }

    #[test]
    fn what_a_dead_process_left_is_removed_and_a_living_one_is_untouched() {
        let base = tempfile::tempdir().unwrap();
        let living = Scratch::open(base.path()).unwrap();
        let kept = living.create("kept").unwrap();
        let dead = base.path().join("0123");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        fs::write(dead.join("prompt"), "secret").unwrap();
        let rest = base.path().join("4567");
        fs::create_dir_all(rest.join("half removed")).unwrap();

        let next = Scratch::open(base.path()).unwrap();

        assert!(!dead.exists() && !rest.exists());
        assert!(kept.path().is_dir());
        let path = next.path("x");
        drop(next);
        assert!(!path.parent().unwrap().exists());
    }
}
