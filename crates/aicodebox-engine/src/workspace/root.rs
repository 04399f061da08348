use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_std::{ambient_authority, fs::Dir};
use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use tokio::task::spawn_blocking;

use super::{
    Files,
    path::{BadPath, relative, shown},
};
use crate::run::Workspace;

/// The root of all workspaces, held open: what is resolved beneath it cannot leave it, whatever links an agent
/// has made there in the meantime (openat2 with RESOLVE_BENEATH, through cap-std).
#[derive(Debug)]
pub struct Workspaces {
    files: Files,
    path: PathBuf,
}

/// Why a path is no workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It begins with `/`.
    #[error("the workspace '{0}' is absolute: give a path below the workspace root")]
    Absolute(String),
    /// It contains `..`, or a link leads out of the root.
    #[error("the workspace '{0}' leads out of the workspace root")]
    Escapes(String),
    /// It names something that is no directory.
    #[error("the workspace '{0}' is not a directory")]
    NotADirectory(String),
    /// The system refused.
    #[error("the workspace '{path}' cannot be used: {source}")]
    Io {
        /// The path as it was given.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl Workspaces {
    /// Opens the root; it must exist.
    ///
    /// # Errors
    /// When it is missing, no directory, or not readable.
    pub fn open(root: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        let path = path_of(dir.as_fd())?;
        Ok(Self { files: Files::new(dir), path })
    }

    /// Canonical path of the root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files below the root.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The root as a workspace.
    pub fn root(&self) -> Workspace {
        Workspace { path: self.path.clone(), root: true, guard: None }
    }

    /// The directory `path` below the root; missing ones are made. Empty and `.` are the root itself.
    /// Blocks on the file system.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn resolve(&self, path: &str) -> Result<Workspace, WorkspaceError> {
        let shown = || shown(path);
        let clean = relative(path).map_err(|reason| match reason {
            BadPath::Absolute => WorkspaceError::Absolute(shown()),
            BadPath::Escapes => WorkspaceError::Escapes(shown()),
        })?;
        let dir = self.files.dir();
        if clean.as_os_str().is_empty() {
            return Ok(self.root());
        }
        let opened = match dir.open_dir(&clean) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                dir.create_dir_all(&clean).and_then(|()| dir.open_dir(&clean))
            }
            other => other,
        };
        let path = opened.and_then(|dir| path_of(dir.as_fd())).map_err(|source| match source.kind() {
            // cap-std reports a path that a link leads out of the sandbox as a denied permission without an
            // operating system's number.
            io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => {
                WorkspaceError::Escapes(shown())
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                WorkspaceError::NotADirectory(shown())
            }
            _ => WorkspaceError::Io { path: shown(), source },
        })?;
        // A link may lead back to the root; then it is the root, with the root's rules.
        Ok(Workspace { root: path == self.path, path, guard: None })
    }

    /// As [`Workspaces::resolve`], but without ever waiting for the file system: `None` when the kernel cannot answer
    /// from memory (Linux 5.12), or when it is no directory that exists.
    fn resolve_cached(&self, path: &str) -> Option<Workspace> {
        let clean = relative(path).ok()?;
        if clean.as_os_str().is_empty() {
            return Some(self.root());
        }
        let open = |links| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::CACHED | links;
            openat2(self.files.dir(), &clean, flags, Mode::empty(), resolve)
        };
        // Where no link is on the way, the path as it stands is the canonical one: asking for it takes longer than all else.
        let path = match open(ResolveFlags::NO_SYMLINKS) {
            Err(Errno::LOOP) => path_of(open(ResolveFlags::NO_MAGICLINKS).ok()?.as_fd()).ok()?,
            opened => opened.map(|_dir| self.path.join(&clean)).ok()?,
        };
        Some(Workspace { root: path == self.path, path, guard: None })
    }

    /// [`Workspaces::resolve`], off the reactor unless the kernel can answer from memory.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub async fn find(self: &Arc<Self>, path: String) -> Result<Workspace, WorkspaceError> {
        if let Some(known) = self.resolve_cached(&path) {
            return Ok(known);
        }
        let (all, named) = (self.clone(), shown(&path));
        let resolved = spawn_blocking(move || all.resolve(&path)).await;
        resolved.unwrap_or_else(|error| Err(WorkspaceError::Io { path: named, source: error.into() }))
    }

    /// Whether new entries can be made in the root (readiness). Blocks on the file system.
    pub fn writable(&self) -> bool {
        nix::unistd::faccessat(
            self.files.dir(),
            ".",
            nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK,
            nix::fcntl::AtFlags::AT_EACCESS,
        )
        .is_ok()
    }
}

/// Canonical path of an open directory: asked of the kernel, so that it cannot be another one's.
fn path_of(dir: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn root() -> (tempfile::TempDir, Workspaces) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        let workspaces = Workspaces::open(&dir.path().join("root")).unwrap();
        (dir, workspaces)
    }

    #[test]
    fn directories_below_the_root_are_made_and_canonical() {
        let (_dir, workspaces) = root();
        let made = workspaces.resolve("./a//b/.").unwrap();
        assert_eq!(made.path, workspaces.path().join("a/b"));
        assert!(!made.root && made.path.is_dir());
        assert_eq!(workspaces.resolve("a/b").unwrap().path, made.path);
        assert_eq!(workspaces.resolve_cached("a//b").unwrap().path, made.path);
        assert!(workspaces.resolve_cached("a/missing").is_none());
        for root in ["", ".", "./"] {
            assert!(workspaces.resolve_cached(root).unwrap().root);
            let resolved = workspaces.resolve(root).unwrap();
            assert!(resolved.root && resolved.path == workspaces.path(), "{resolved:?}");
        }
    }

    #[test]
    fn nothing_leads_out_of_the_root() {
        let (dir, workspaces) = root();
        // M18: the original compared strings, and took `root-evil` for a part of `root`.
        fs::create_dir(dir.path().join("root-evil")).unwrap();
        symlink(dir.path().join("root-evil"), workspaces.path().join("sibling")).unwrap();
        symlink("/etc", workspaces.path().join("etc")).unwrap();
        symlink("../root-evil", workspaces.path().join("relative")).unwrap();
        symlink("/nonexistent", workspaces.path().join("dangling")).unwrap();
        assert!(matches!(workspaces.resolve("/etc"), Err(WorkspaceError::Absolute(_))));
        for path in
            ["..", "a/../..", "a/../b", "sibling", "sibling/x", "etc", "relative", "dangling", "dangling/x"]
        {
            let got = workspaces.resolve(path);
            assert!(matches!(got, Err(WorkspaceError::Escapes(_))), "{path}: {got:?}");
            assert!(workspaces.resolve_cached(path).is_none(), "{path}");
        }
        assert!(!dir.path().join("root-evil/x").exists());
    }

    #[test]
    fn a_link_within_the_root_is_followed_to_one_canonical_path() {
        let (_dir, workspaces) = root();
        let real = workspaces.resolve("real").unwrap();
        symlink("real", workspaces.path().join("link")).unwrap();
        symlink(".", workspaces.path().join("self")).unwrap();
        assert_eq!(workspaces.resolve("link").unwrap().path, real.path);
        assert_eq!(workspaces.resolve_cached("link").unwrap().path, real.path);
        assert_eq!(workspaces.resolve_cached("self/real").unwrap().path, real.path);
        assert!(workspaces.resolve("self").unwrap().root);
        assert!(workspaces.resolve_cached("self").unwrap().root);
    }

    #[test]
    fn a_file_is_no_workspace() {
        let (_dir, workspaces) = root();
        fs::write(workspaces.path().join("file"), "").unwrap();
        for path in ["file", "file/x"] {
            assert!(matches!(workspaces.resolve(path), Err(WorkspaceError::NotADirectory(_))), "{path}");
            assert!(workspaces.resolve_cached(path).is_none(), "{path}");
        }
    }
}
