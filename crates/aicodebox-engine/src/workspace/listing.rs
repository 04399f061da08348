use std::{collections::BinaryHeap, ffi::OsString, io};

use cap_std::fs::{Dir, FileType};

use super::upload;

/// At most this many entries of a directory are listed: the first ones by name.
pub const MAX_ENTRIES: usize = 10_000;

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The directory's path below the root; empty = the root.
    pub path: String,
    /// Sorted by the bytes of their names.
    pub entries: Vec<Entry>,
    /// Whether there are more than [`MAX_ENTRIES`].
    pub truncated: bool,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name; what is not UTF-8 in it is replaced.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes; only of regular files.
    pub size: Option<u64>,
}

/// What a name stands for. A link is never followed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file; without a size a FIFO, a socket or a device, which nobody can read or write here.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
}

impl EntryKind {
    /// The word on every wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
            Self::Link => "link",
        }
    }
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        if kind.is_dir() {
            Self::Dir
        } else if kind.is_symlink() {
            Self::Link
        } else {
            Self::File
        }
    }
}

/// Lists an open directory. Memory is bounded, time is not: every name must be seen to find the first ones. Uploads
/// are not in it, and one whose server was killed is cleared away: nobody else would ever find it.
pub(super) fn list(dir: &Dir, path: String) -> io::Result<Listing> {
    let mut first: BinaryHeap<OsString> = BinaryHeap::new();
    let mut truncated = false;
    for entry in dir.entries()? {
        let name = entry?.file_name();
        if upload::is_temporary(&name) {
            upload::clear_away(dir, &name);
            continue;
        }
        first.push(name);
        if first.len() > MAX_ENTRIES {
            first.pop();
            truncated = true;
        }
    }
    // A name that is gone by now was deleted meanwhile.
    let entries = first.into_sorted_vec().into_iter().filter_map(|name| entry(dir, &name).ok()).collect();
    Ok(Listing { path, entries, truncated })
}

fn entry(dir: &Dir, name: &OsString) -> io::Result<Entry> {
    let metadata = dir.symlink_metadata(name)?;
    Ok(Entry {
        name: name.to_string_lossy().into_owned(),
        kind: metadata.file_type().into(),
        size: metadata.is_file().then(|| metadata.len()),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn a_huge_directory_is_cut_after_the_first_names_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for number in (0..MAX_ENTRIES + 2).rev() {
            File::create(folder.path().join(format!("{number:05}"))).unwrap();
        }
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let listing = list(&dir, String::new()).unwrap();
        assert!(listing.truncated);
        assert_eq!(listing.entries.len(), MAX_ENTRIES);
        let names: Vec<_> = [0, MAX_ENTRIES - 1].map(|at| listing.entries[at].name.clone()).into();
        assert_eq!(names, ["00000", "09999"]);
    }
}
