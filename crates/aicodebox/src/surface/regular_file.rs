//! Files in directories that agents write to. An agent could put a pipe in the place of one, which is waited for until
//! the other end is opened, or a link to what only the server may read or write.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use nix::libc;

/// Opens a regular file for reading, without waiting. A link is refused. Blocks only on the disk.
///
/// # Errors
/// When it is missing, not a regular file, or cannot be read.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_as(File::options().read(true), path, libc::O_NOFOLLOW, Metadata::is_file)
}

/// Reads what [`open`] opens, at most `limit` bytes.
///
/// # Errors
/// As [`open`]; also when it is longer.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    bounded(open(path)?, limit)
}

/// Reads a file that its owner may have mounted: a link is followed, because a Kubernetes volume has nothing else, and
/// `/dev/null` is an empty one.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_mounted(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let fits = |found: &Metadata| found.is_file() || found.file_type().is_char_device();
    bounded(open_as(File::options().read(true), path, 0, fits)?, limit)
}

/// Writes a file whole or not at all; what stood in its place is replaced, never written to.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).open(&temporary)?.write_all(bytes)?;
    fs::rename(temporary, path)
}

/// Adds to the end of a file, which is made where it is missing. A link is refused, and nothing is waited for.
///
/// # Errors
/// When it is not a regular file, or cannot be written.
pub(crate) fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let options = &mut File::options();
    open_as(options.append(true).create(true), path, libc::O_NOFOLLOW, Metadata::is_file)?.write_all(bytes)
}

fn open_as(
    options: &mut OpenOptions,
    path: &Path,
    flags: i32,
    fits: impl Fn(&Metadata) -> bool,
) -> io::Result<File> {
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.custom_flags(flags).open(path)?;
    if fits(&file.metadata()?) {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

fn bounded(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn only_a_regular_file_of_some_size_is_read_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        symlink(at("file"), at("link")).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        symlink(at("pipe"), at("link to pipe")).unwrap();
        assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
        assert_eq!(read(&at("file"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        for name in ["link", "pipe", "link to pipe", ".", "missing"] {
            assert!(read(&at(name), 5).is_err(), "{name}");
        }
        assert_eq!(read_mounted(&at("link"), 5).unwrap(), b"12345");
        assert_eq!(read_mounted(Path::new("/dev/null"), 5).unwrap(), b"");
        for name in ["pipe", "link to pipe", "."] {
            assert!(read_mounted(&at(name), 5).is_err(), "{name}");
        }
        assert!(read_mounted(Path::new("/dev/zero"), 5).is_err());
    }

    #[test]
    fn only_a_regular_file_is_added_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        symlink(at("secret"), at("link")).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        assert!(append(&at("pipe"), b"1").is_err(), "nobody reads it");
        let _reader = open_as(File::options().read(true), &at("pipe"), 0, |_| true).unwrap();
        for name in ["link", "pipe", "."] {
            assert!(append(&at(name), b"1").is_err(), "{name}");
        }
        append(&at("file"), b"1").unwrap();
        append(&at("file"), b"2").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"12");
    }

    #[test]
    fn what_is_replaced_is_never_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        symlink(at("secret"), at("a.json")).unwrap();
        symlink(at("secret"), at("a.json.new")).unwrap();
        replace(&at("a.json"), b"1").unwrap();
        mkfifo(&at("a.json.new"), Mode::S_IRWXU).unwrap();
        replace(&at("a.json"), b"2").unwrap();
        assert_eq!(
            (fs::read(at("a.json")).unwrap(), fs::read(at("secret")).unwrap()),
            (b"2".to_vec(), b"secret".to_vec())
        );
    }
}
