use std::io;

use nix::errno::Errno;

use super::path::{BadPath, shown};

/// Why a file could not be listed, read, written or deleted. The text names the path as the caller gave it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path begins with `/`.
    #[error("the path is absolute: {0}: give a path below the workspace root")]
    Absolute(String),
    /// The path contains `..`, or a link leads out of the root; an absolute one counts as such wherever it leads.
    #[error("the path leads out of the workspace root, or by an absolute link: {0}")]
    Escapes(String),
    /// The file system has no such names: too long, or with a zero byte in it.
    #[error("not a possible file name: {0}")]
    BadName(String),
    /// There is nothing, or only a link to nothing.
    #[error("not found: {0}")]
    NotFound(String),
    /// A file is needed and this is a directory.
    #[error("is a directory: {0}")]
    IsDirectory(String),
    /// A directory is needed and this, or a part of the path, is something else.
    #[error("not a directory: {0}")]
    NotADirectory(String),
    /// A FIFO, a socket or a device. Opening one can block for ever or do harm, so nothing is read or written.
    #[error("not a regular file: {0}")]
    NotRegular(String),
    /// The [`super::Condition`] does not hold.
    #[error("the file has changed, or is not what the request expects: {0}")]
    Condition(String),
    /// The file is larger than the caller allows.
    #[error("the file is larger than {limit} bytes: {path}")]
    TooLarge {
        /// The path.
        path: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file system lets us not.
    #[error("permission denied: {0}")]
    Denied(String),
    /// The disk or a quota is full.
    #[error("no space left on the file system: {0}")]
    Full(String),
    /// The system refused for another reason.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl FileError {
    pub(super) fn bad(reason: BadPath, path: &str) -> Self {
        match reason {
            BadPath::Absolute => Self::Absolute(shown(path)),
            BadPath::Escapes => Self::Escapes(shown(path)),
        }
    }

    /// What the system's error means for somebody who gave this path.
    pub(super) fn of(source: io::Error, path: &str) -> Self {
        let path = shown(path);
        match (source.kind(), source.raw_os_error().map(Errno::from_raw)) {
            // cap-std reports a link that leads out of the sandbox without an operating system's number.
            (io::ErrorKind::PermissionDenied, None) => Self::Escapes(path),
            (_, Some(Errno::ENOENT | Errno::ELOOP)) => Self::NotFound(path),
            (_, Some(Errno::ENOTDIR | Errno::EEXIST)) => Self::NotADirectory(path),
            (_, Some(Errno::EISDIR)) => Self::IsDirectory(path),
            // A socket, or a FIFO or device without anybody behind it.
            (_, Some(Errno::ENXIO | Errno::ENODEV)) => Self::NotRegular(path),
            (_, Some(Errno::EACCES | Errno::EPERM | Errno::EROFS)) => Self::Denied(path),
            (_, Some(Errno::ENOSPC | Errno::EDQUOT)) => Self::Full(path),
            (_, Some(Errno::ENAMETOOLONG | Errno::EINVAL)) | (io::ErrorKind::InvalidInput, None) => {
                Self::BadName(path)
            }
            _ => Self::Io { path, source },
        }
    }

    /// The same for somebody who looks for something: a path through a file leads to nothing.
    pub(super) fn of_looking(source: io::Error, path: &str) -> Self {
        match Self::of(source, path) {
            Self::NotADirectory(path) => Self::NotFound(path),
            other => other,
        }
    }
}
