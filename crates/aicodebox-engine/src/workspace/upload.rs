use std::{
    ffi::{OsStr, OsString},
    fs::{File, Permissions},
    io,
    os::unix::fs::{FileExt, PermissionsExt},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::BytesMut;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions};

use super::{
    FileError,
    files::{Condition, Root, off_the_reactor},
    open_file::tag,
};
use crate::run::RunId;

/// How much is gathered before it is written.
const CHUNK: usize = 256 << 10;
/// An upload that has not grown for so long was left behind by a server that was killed.
const DEAD: Duration = Duration::from_secs(86_400);
const SUFFIX: &str = ".upload";

/// A file on its way to the disk: it grows under a temporary name beside its place and takes that at the end, whole
/// or not at all. Dropping it before removes it (a short unlink, on the dropping thread).
#[derive(Debug)]
pub struct Upload {
    target: Target,
    temporary: Arc<Temporary>,
    limit: u64,
    written: u64,
    gathered: BytesMut,
}

/// A file that has reached its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its path below the root.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Its entity tag.
    pub tag: String,
}

/// The place that a file is to take.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) root: Arc<Root>,
    pub(super) parent: Arc<Dir>,
    pub(super) leaf: OsString,
    /// Below the root.
    pub(super) path: PathBuf,
    pub(super) shown: String,
    pub(super) condition: Condition,
}

#[derive(Debug)]
struct Temporary {
    parent: Arc<Dir>,
    name: OsString,
    file: File,
}

impl Upload {
    /// Blocks.
    pub(super) fn begin(target: Target, limit: u64) -> Result<Self, FileError> {
        target.check()?;
        let temporary = Temporary::create(&target).map_err(|source| FileError::of(source, &target.shown))?;
        let temporary = Arc::new(temporary);
        Ok(Self { target, temporary, limit, written: 0, gathered: BytesMut::new() })
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// `TooLarge`, `Full`, and whatever the system says. Then the upload is good for nothing more.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let size = self.written + (self.gathered.len() + bytes.len()) as u64;
        if size > self.limit {
            return Err(FileError::TooLarge { path: self.target.shown.clone(), limit: self.limit });
        }
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= CHUNK {
            self.write().await?;
        }
        Ok(())
    }

    /// Puts the file in its place: over a file or a link that is there, with the permissions of that file.
    ///
    /// # Errors
    /// `Condition`, `IsDirectory` or `NotRegular` when the place has changed meanwhile.
    pub async fn finish(mut self) -> Result<Written, FileError> {
        self.write().await?;
        let path = self.target.shown.clone();
        off_the_reactor(&path, move || Ok(self.take_place())).await?
    }

    async fn write(&mut self) -> Result<(), FileError> {
        let bytes = self.gathered.split().freeze();
        let (temporary, at) = (self.temporary.clone(), self.written);
        self.written += bytes.len() as u64;
        off_the_reactor(&self.target.shown, move || temporary.file.write_all_at(&bytes, at)).await
    }

    fn take_place(self) -> Result<Written, FileError> {
        let Self { target, temporary, written, .. } = self;
        let failed = |source| FileError::of(source, &target.shown);
        // No other upload of ours comes between the look and the rename.
        let _order = target.root.order();
        if let Some(replaced) = target.check()?.filter(Metadata::is_file) {
            let mode = Permissions::from_mode(replaced.mode() & 0o777);
            temporary.file.set_permissions(mode).map_err(failed)?;
        }
        target.parent.rename(&temporary.name, &target.parent, &target.leaf).map_err(failed)?;
        let metadata =
            temporary.file.try_clone().and_then(|file| cap_std::fs::File::from_std(file).metadata());
        let tag = tag(&metadata.map_err(failed)?);
        Ok(Written { path: target.shown.clone(), size: written, tag })
    }
}

impl Target {
    /// What is at the place now, unless a file cannot or must not be put there.
    pub(super) fn check(&self) -> Result<Option<Metadata>, FileError> {
        let found = match self.parent.symlink_metadata(&self.leaf) {
            Ok(metadata) if metadata.is_dir() => return Err(FileError::IsDirectory(self.shown.clone())),
            // It could be replaced without opening it, but whoever waits at its other end would wait for ever.
            Ok(metadata) if !metadata.is_file() && !metadata.is_symlink() => {
                return Err(FileError::NotRegular(self.shown.clone()));
            }
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileError::of(error, &self.shown)),
        };
        self.root.require(&self.condition, &self.path, &self.shown)?;
        Ok(found)
    }
}

/// Whether this is the name of an upload on its way.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    let id = name.to_str().and_then(|name| name.strip_prefix('.')).and_then(|name| name.strip_suffix(SUFFIX));
    id.and_then(RunId::parse).is_some()
}

/// Removes an upload that was left behind.
pub(super) fn clear_away(parent: &Dir, name: &OsStr) {
    let age = parent.symlink_metadata(name).and_then(|metadata| metadata.modified()).ok();
    let age = age.and_then(|modified| modified.into_std().elapsed().ok());
    if age.is_some_and(|age| age > DEAD)
        && let Err(error) = parent.remove_file(name)
    {
        tracing::debug!(%error, "an upload that was left behind could not be removed");
    }
}

impl Temporary {
    fn create(target: &Target) -> io::Result<Self> {
        let name = OsString::from(format!(".{}{SUFFIX}", RunId::random()));
        let mut options = OpenOptions::new();
        let file = target.parent.open_with(&name, options.write(true).create_new(true))?.into_std();
        Ok(Self { parent: target.parent.clone(), name, file })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = self.parent.remove_file(&self.name)
            // It has taken its place.
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the temporary file of an upload could not be removed");
        }
    }
}
