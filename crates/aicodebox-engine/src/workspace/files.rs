use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cap_std::fs::{Dir, Metadata, OpenOptions, OpenOptionsExt};
use nix::fcntl::OFlag;

use super::{
    FileError, Listing, OpenFile, Upload, listing,
    open_file::tag,
    path::{relative, shown},
    upload::Target,
};

/// The files below a root that is held open. Nothing here ever leaves that root, whatever links an agent makes: every
/// path is opened beneath it by the kernel, in one step. Only regular files are read and written, so that no FIFO can
/// hold anybody up; and all of it happens off the reactor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Files(Arc<Root>);

/// The root, and the order of those who change names in it.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) dir: Dir,
    order: Mutex<()>,
}

/// What a path leads to.
#[derive(Debug)]
pub enum Found {
    /// A directory.
    Directory(Listing),
    /// A regular file.
    File(OpenFile),
}

/// What must hold for a file to be replaced or deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// There is a file.
    Exists,
    /// There is none.
    Missing,
    /// There is one with one of these tags ([`OpenFile::tag`]).
    Tagged(Vec<String>),
}

impl Files {
    pub(super) fn new(dir: Dir) -> Self {
        Self(Arc::new(Root { dir, order: Mutex::new(()) }))
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.0.dir
    }

    /// Opens what is at `path`: a directory is listed. Links are followed below the root. Empty = the root.
    ///
    /// # Errors
    /// `NotFound`, `NotRegular`, `Escapes`, … see [`FileError`].
    pub async fn find(&self, path: &str) -> Result<Found, FileError> {
        let (root, path) = (self.0.clone(), path.to_owned());
        off_the_reactor(&path.clone(), move || Ok(root.find(&path))).await?
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// `NotADirectory`, and as [`Files::find`].
    pub async fn list(&self, path: &str) -> Result<Listing, FileError> {
        match self.find(path).await? {
            Found::Directory(listing) => Ok(listing),
            Found::File(file) => Err(FileError::NotADirectory(file.path)),
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// `IsDirectory`, and as [`Files::find`].
    pub async fn open(&self, path: &str) -> Result<OpenFile, FileError> {
        match self.find(path).await? {
            Found::Directory(_) => Err(FileError::IsDirectory(shown(path))),
            Found::File(file) => Ok(file),
        }
    }

    /// Begins to write a file of at most `limit` bytes; missing directories are made. A link at the place will be
    /// replaced, not followed.
    ///
    /// # Errors
    /// `IsDirectory`, `NotRegular`, `NotADirectory`, `Condition`, `Denied`, … see [`FileError`].
    pub async fn write(&self, path: &str, limit: u64, condition: Condition) -> Result<Upload, FileError> {
        let (root, path) = (self.0.clone(), path.to_owned());
        off_the_reactor(&path.clone(), move || {
            Ok(root.target(&path, condition, true).and_then(|target| Upload::begin(target, limit)))
        })
        .await?
    }

    /// Deletes a file, a link (not what it leads to), or a FIFO, a socket or a device. Gives its path below the root.
    ///
    /// # Errors
    /// `IsDirectory`, `NotFound`, `Condition`, … see [`FileError`].
    pub async fn delete(&self, path: &str, condition: Condition) -> Result<String, FileError> {
        let (root, path) = (self.0.clone(), path.to_owned());
        off_the_reactor(&path.clone(), move || Ok(root.delete(&path, condition))).await?
    }
}

impl Root {
    /// Holds up others who change names; a look and a change under it are one step among ours.
    pub(super) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, path: &str) -> Result<Found, FileError> {
        let clean = relative(path).map_err(|reason| FileError::bad(reason, path))?;
        let failed = |source| FileError::of_looking(source, path);
        let named = clean.to_string_lossy().into_owned();
        if clean.as_os_str().is_empty() {
            return listing::list(&self.dir, named).map(Found::Directory).map_err(failed);
        }
        let mut options = OpenOptions::new();
        // Non-blocking: opening a FIFO waits for its other end otherwise, which froze the original (M26).
        options.read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
        let file = self.dir.open_with(&clean, &options).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            let dir = Dir::from_std_file(file.into_std());
            listing::list(&dir, named).map(Found::Directory).map_err(failed)
        } else if metadata.is_file() {
            Ok(Found::File(OpenFile::new(named, &metadata, file.into_std())))
        } else {
            Err(FileError::NotRegular(shown(path)))
        }
    }

    /// The place of `path`, with its directory open; `make` = make that where it is missing.
    fn target(self: Arc<Self>, path: &str, condition: Condition, make: bool) -> Result<Target, FileError> {
        let clean = relative(path).map_err(|reason| FileError::bad(reason, path))?;
        let Some(leaf) = clean.file_name().filter(|_| !names_a_directory(path)) else {
            return Err(FileError::IsDirectory(shown(path)));
        };
        let parent = clean.parent().unwrap_or(Path::new(""));
        let failed = |source| {
            if make { FileError::of(source, path) } else { FileError::of_looking(source, path) }
        };
        let named = clean.to_string_lossy().into_owned();
        let opened = if parent.as_os_str().is_empty() {
            self.dir.try_clone()
        } else {
            match self.dir.open_dir(parent) {
                Err(missing) if make && missing.kind() == io::ErrorKind::NotFound => {
                    // What is refused must leave nothing behind.
                    self.require(&condition, &clean, &named)?;
                    self.dir.create_dir_all(parent).and_then(|()| self.dir.open_dir(parent))
                }
                opened => opened,
            }
        };
        Ok(Target {
            parent: Arc::new(opened.map_err(failed)?),
            leaf: leaf.to_owned(),
            shown: named,
            path: clean.clone(),
            condition,
            root: self,
        })
    }

    fn delete(self: Arc<Self>, path: &str, condition: Condition) -> Result<String, FileError> {
        let target = self.clone().target(path, condition, false)?;
        let failed = |source| FileError::of_looking(source, path);
        let _order = self.order();
        if target.parent.symlink_metadata(&target.leaf).map_err(failed)?.is_dir() {
            return Err(FileError::IsDirectory(target.shown));
        }
        self.require(&target.condition, &target.path, &target.shown)?;
        target.parent.remove_file(&target.leaf).map_err(failed)?;
        Ok(target.shown)
    }

    /// Refuses when the condition does not hold for what a reader of `path` would find now.
    pub(super) fn require(&self, condition: &Condition, path: &Path, named: &str) -> Result<(), FileError> {
        let now = || self.dir.metadata(path).ok().filter(Metadata::is_file);
        let holds = match condition {
            Condition::Always => true,
            Condition::Exists => now().is_some(),
            // A link is something too, wherever it leads: fuzzing replaced one to a directory.
            Condition::Missing => self.dir.symlink_metadata(path).is_err(),
            Condition::Tagged(tags) => now().is_some_and(|found| tags.contains(&tag(&found))),
        };
        if holds { Ok(()) } else { Err(FileError::Condition(named.to_owned())) }
    }
}

/// Whether the path says by its end that it means a directory.
fn names_a_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.")
}

/// Does what blocks on the file system on a thread for that.
pub(super) async fn off_the_reactor<T: Send + 'static>(
    path: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, FileError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|source| FileError::of(source, path)),
        Err(error) => Err(FileError::Io { path: shown(path), source: error.into() }),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        path::PathBuf,
        time::{Duration, SystemTime},
    };

    use cap_std::ambient_authority;
    use nix::sys::stat::Mode;
    use tokio::time::timeout;

    use super::*;
    use crate::workspace::EntryKind;

    struct Place {
        folder: tempfile::TempDir,
        files: Files,
    }

    /// A root beside a directory whose name begins with the root's, and links out of it (F7, F10).
    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        for name in ["root", "root-evil"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("root-evil/secret"), "secret").unwrap();
        let root = folder.path().join("root");
        symlink("../root-evil", root.join("sibling")).unwrap();
        symlink("/etc", root.join("etc")).unwrap();
        symlink("/etc/hostname", root.join("leaf")).unwrap();
        symlink("../root-evil/made", root.join("dangling")).unwrap();
        let files = Files::new(Dir::open_ambient_dir(root, ambient_authority()).unwrap());
        Place { folder, files }
    }

    impl Place {
        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join("root").join(name)
        }

        async fn put(&self, path: &str, text: &str, condition: Condition) -> Result<String, FileError> {
            let mut upload = self.files.write(path, 100, condition).await?;
            upload.push(text.as_bytes()).await?;
            Ok(upload.finish().await?.tag)
        }

        async fn read(&self, path: &str) -> Result<String, FileError> {
            let whole = self.files.open(path).await?.read(100).await?;
            Ok(String::from_utf8(whole).unwrap())
        }
    }

    #[tokio::test]
    async fn nothing_leads_out_of_the_root() {
        let place = place();
        for path in ["../root-evil/secret", "a/../../x", "sibling/secret", "sibling", "etc/hostname", "leaf"]
        {
            let found = place.files.find(path).await;
            assert!(matches!(found, Err(FileError::Escapes(_))), "{path}: {found:?}");
        }
        for path in ["../x", "sibling/x", "etc/x", "dangling/x", "sibling/made/x"] {
            let put = place.put(path, "x", Condition::Always).await;
            assert!(
                matches!(put, Err(FileError::Escapes(_) | FileError::NotADirectory(_))),
                "{path}: {put:?}"
            );
            let deleted = place.files.delete(path, Condition::Always).await;
            assert!(
                matches!(deleted, Err(FileError::Escapes(_) | FileError::NotFound(_))),
                "{path}: {deleted:?}"
            );
        }
        assert!(matches!(place.files.find("/etc/hostname").await, Err(FileError::Absolute(_))));
        let outside: Vec<_> = fs::read_dir(place.folder.path().join("root-evil")).unwrap().collect();
        assert_eq!(outside.len(), 1, "{outside:?}");
    }

    #[tokio::test]
    async fn a_link_is_in_the_way_of_what_must_be_new() {
        let place = place();
        symlink(".", place.path("here")).unwrap();
        for link in ["here", "here/here", "sibling", "leaf", "dangling"] {
            let put = place.put(link, "x", Condition::Missing).await;
            assert!(matches!(put, Err(FileError::Condition(_))), "{link}: {put:?}");
            assert!(place.path(link).is_symlink(), "{link}");
        }
        place.put("here/new", "x", Condition::Missing).await.unwrap();
        assert_eq!(place.read("new").await.unwrap(), "x");
    }

    #[tokio::test]
    async fn a_link_is_replaced_or_deleted_and_never_what_it_leads_to() {
        let place = place();
        fs::write(place.path("real"), "real").unwrap();
        symlink("real", place.path("link")).unwrap();
        assert_eq!(place.read("link").await.unwrap(), "real");

        for link in ["link", "dangling", "leaf"] {
            place.put(link, "new", Condition::Always).await.unwrap();
            assert!(place.path(link).symlink_metadata().unwrap().is_file(), "{link}");
        }
        assert_eq!(place.read("real").await.unwrap(), "real");
        assert!(!place.folder.path().join("root-evil/made").exists());

        symlink("real", place.path("second")).unwrap();
        assert_eq!(place.files.delete("./second", Condition::Always).await.unwrap(), "second");
        place.files.delete("sibling", Condition::Always).await.unwrap();
        assert!(place.path("real").exists() && place.folder.path().join("root-evil/secret").exists());
    }

    #[tokio::test]
    async fn a_fifo_holds_nobody_up() {
        let place = place();
        nix::unistd::mkfifo(&place.path("fifo"), Mode::S_IRWXU).unwrap();
        let soon = Duration::from_secs(10);
        let found = timeout(soon, place.files.find("fifo")).await.unwrap();
        assert!(matches!(found, Err(FileError::NotRegular(_))), "{found:?}");
        let put = timeout(soon, place.put("fifo", "x", Condition::Always)).await.unwrap();
        assert!(matches!(put, Err(FileError::NotRegular(_))), "{put:?}");
        place.files.delete("fifo", Condition::Always).await.unwrap();
        assert!(!place.path("fifo").exists());
    }

    #[tokio::test]
    async fn a_file_is_written_whole_or_not_at_all() {
        let place = place();
        place.put("a/b/c", "one", Condition::Always).await.unwrap();
        fs::set_permissions(place.path("a/b/c"), fs::Permissions::from_mode(0o750)).unwrap();
        let mut upload = place.files.write("a/b/c", 100, Condition::Always).await.unwrap();
        upload.push(b"two").await.unwrap();
        assert_eq!(place.read("a/b/c").await.unwrap(), "one");
        upload.finish().await.unwrap();
        assert_eq!(place.read("a/b/c").await.unwrap(), "two");
        assert_eq!(place.path("a/b/c").metadata().unwrap().permissions().mode() & 0o777, 0o750);

        let mut given_up = place.files.write("a/b/d", 3, Condition::Always).await.unwrap();
        assert!(matches!(given_up.push(b"four").await, Err(FileError::TooLarge { limit: 3, .. })));
        drop(given_up);
        let names: Vec<_> = place.files.list("a/b").await.unwrap().entries;
        assert_eq!(names.len(), 1, "{names:?}");

        for (path, wanted) in
            [("a", "is a directory: a"), ("new/", "is a directory: new/"), ("", "is a directory: ")]
        {
            let error = place.put(path, "x", Condition::Always).await.unwrap_err().to_string();
            assert_eq!(error, wanted);
        }
        let through = place.put("a/b/c/x", "x", Condition::Always).await;
        assert!(matches!(through, Err(FileError::NotADirectory(_))), "{through:?}");
    }

    #[tokio::test]
    async fn a_condition_is_kept_until_the_last_moment() {
        let place = place();
        let first = place.put("f", "1", Condition::Missing).await.unwrap();
        let tagged = |tag: &str| Condition::Tagged(vec!["\"other\"".into(), tag.into()]);
        assert!(matches!(place.put("f", "x", Condition::Missing).await, Err(FileError::Condition(_))));
        assert!(matches!(place.put("g", "x", Condition::Exists).await, Err(FileError::Condition(_))));

        let upload = place.files.write("f", 100, tagged(&first)).await.unwrap();
        let second = place.put("f", "2", tagged(&first)).await.unwrap();
        assert_ne!(first, second);
        assert!(matches!(upload.finish().await, Err(FileError::Condition(_))));
        assert!(matches!(place.files.delete("f", tagged(&first)).await, Err(FileError::Condition(_))));
        assert_eq!(place.read("f").await.unwrap(), "2");
        place.files.delete("f", tagged(&second)).await.unwrap();
        let gone = place.files.open("f").await.unwrap_err();
        assert_eq!(gone.to_string(), "not found: f");
    }

    #[tokio::test]
    async fn what_is_refused_makes_no_directory() {
        let place = place();
        for condition in [Condition::Exists, Condition::Tagged(vec!["\"x\"".into()])] {
            let put = place.put("new/deep/f", "x", condition).await;
            assert!(matches!(put, Err(FileError::Condition(_))), "{put:?}");
            assert!(!place.path("new").exists());
        }
        place.put("new/deep/f", "x", Condition::Missing).await.unwrap();
    }

    #[tokio::test]
    async fn an_upload_is_not_listed_and_goes_a_day_after_its_server_was_killed() {
        let place = place();
        let _begun = place.files.write("b/f", 100, Condition::Always).await.unwrap();
        let day = Duration::from_secs(86_400);
        let dead = |number: u32, age: Duration| {
            let path = place.path(&format!("b/.{number:032x}.upload"));
            let file = fs::File::create(&path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
            path
        };
        let (young, old) = (dead(1, day / 2), dead(2, day * 2));
        place.put("b/.short.upload", "x", Condition::Always).await.unwrap();
        let listing = place.files.list("b").await.unwrap();
        let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, [".short.upload"]);
        assert!(young.exists() && !old.exists());
    }

    #[tokio::test]
    async fn a_listing_is_sorted_and_follows_no_link() {
        let place = place();
        place.put("b/x", "12345", Condition::Always).await.unwrap();
        place.put("a", "1", Condition::Always).await.unwrap();
        let listing = place.files.list("").await.unwrap();
        let shown: Vec<_> =
            listing.entries.iter().map(|entry| (entry.name.as_str(), entry.kind, entry.size)).collect();
        let link = |name| (name, EntryKind::Link, None);
        assert_eq!(
            shown,
            [
                ("a", EntryKind::File, Some(1)),
                ("b", EntryKind::Dir, None),
                link("dangling"),
                link("etc"),
                link("leaf"),
                link("sibling"),
            ]
        );
        assert_eq!(place.files.list("./b/").await.unwrap().path, "b");
        assert!(matches!(place.files.list("a").await, Err(FileError::NotADirectory(_))));
    }
}
