use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

use bytes::Bytes;
use cap_std::fs::{Metadata, MetadataExt};

use super::{FileError, files::off_the_reactor};

/// How much is read at once: what a reader of a file of any size holds in memory.
const CHUNK: u64 = 256 << 10;

/// A regular file, open for reading.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// Its path below the root.
    pub path: String,
    /// Bytes, when it was opened.
    pub size: u64,
    /// Changes with each change of the content.
    pub tag: String,
    file: Arc<File>,
}

impl OpenFile {
    pub(super) fn new(path: String, metadata: &Metadata, file: File) -> Self {
        Self { path, size: metadata.len(), tag: tag(metadata), file: Arc::new(file) }
    }

    /// The next piece of the bytes from `start` up to `end`; at most 256 KiB, empty only at `end`.
    ///
    /// # Errors
    /// When it cannot be read, or has become shorter than it was when it was opened.
    pub async fn chunk(&self, start: u64, end: u64) -> Result<Bytes, FileError> {
        let file = self.file.clone();
        let length = end.saturating_sub(start).min(CHUNK) as usize;
        off_the_reactor(&self.path, move || {
            let mut buffer = vec![0; length];
            let read = file.read_at(&mut buffer, start)?;
            if read == 0 && length > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer.truncate(read);
            Ok(buffer.into())
        })
        .await
    }

    /// All of it.
    ///
    /// # Errors
    /// `TooLarge` beyond `limit` bytes, and as [`OpenFile::chunk`].
    pub async fn read(&self, limit: u64) -> Result<Vec<u8>, FileError> {
        if self.size > limit {
            return Err(FileError::TooLarge { path: self.path.clone(), limit });
        }
        let mut whole = Vec::new();
        while (whole.len() as u64) < self.size {
            whole.extend_from_slice(&self.chunk(whole.len() as u64, self.size).await?);
        }
        Ok(whole)
    }
}

/// Tells two states of a file apart, in the shape of an HTTP entity tag. A file that was replaced has another inode;
/// one that was written in place has another time, unless that happened twice within a tick of the clock.
pub(super) fn tag(metadata: &Metadata) -> String {
    let modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    format!("\"{:x}-{:x}-{modified:x}\"", metadata.ino(), metadata.len())
}
