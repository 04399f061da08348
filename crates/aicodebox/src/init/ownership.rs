//! Who owns what, without following a link: agents write in these directories, and this runs as root.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    dir::Dir,
    fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::{FileStat, Mode, fstat, fstatat},
    unistd::{Gid, Uid, fchown, fchownat},
};

use super::{identity::User, say};

/// A home with a million files must not keep a container from starting.
const LIMIT: Duration = Duration::from_secs(10);

/// Gives a directory that root owns, itself alone, to the user: a mount that the engine has just made.
pub(super) fn give_root(directory: &Path, user: &User) {
    let Ok(opened) = open(AT_FDCWD, directory, ResolveFlag::RESOLVE_NO_SYMLINKS) else { return };
    let ours = fstat(&opened).is_ok_and(|stat| stat.st_uid == 0);
    if ours && let Err(error) = fchown(&opened, Some(user.uid), Some(user.gid)) {
        say(format_args!("{} cannot be given to the agents' user: {error}", directory.display()));
    }
}

/// Gives a directory to the user, and everything on the same file system below it that its owner had: the user under
/// other numbers. What others own stays theirs, so a hard link to a file of root's gives nothing away. Of root's
/// directory, only itself.
pub(super) fn give(directory: &Path, user: &User) {
    let Ok(opened) = open(AT_FDCWD, directory, ResolveFlag::RESOLVE_NO_SYMLINKS) else { return };
    let Ok(stat) = fstat(&opened) else { return };
    if stat.st_uid == 0 {
        return give_root(directory, user);
    }
    if stat.st_uid == user.uid.as_raw() {
        return;
    }
    let old = (stat.st_uid, user.image_gid.as_raw());
    let walk = Walk { old, uid: user.uid, gid: user.gid, end: Instant::now() + LIMIT };
    let device = stat.st_dev;
    // The directory itself at last: until then, a start that was cut short is made good by the next one.
    let done = opened.try_clone().and_then(|below| walk.enter(below, device));
    let done = done.and_then(|()| walk.give(opened.as_fd(), Path::new(""), &stat));
    if let Err(error) = done {
        say(format_args!("not everything in {} is the agents' user's now: {error}", directory.display()));
    }
}

struct Walk {
    old: (u32, u32),
    uid: Uid,
    gid: Gid,
    end: Instant,
}

impl Walk {
    /// Everything in `directory`, depth first. Each level holds two descriptors; the depth is bounded by their limit.
    fn enter(&self, directory: OwnedFd, device: u64) -> io::Result<()> {
        if Instant::now() > self.end {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long"));
        }
        let mut entries = Dir::from_fd(directory.try_clone()?)?;
        for entry in entries.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            // What is gone by now needs no owner.
            let Ok(stat) = fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) else { continue };
            if stat.st_dev != device {
                continue;
            }
            let path = Path::new(OsStr::from_bytes(name.to_bytes()));
            self.give(directory.as_fd(), path, &stat)?;
            let is_directory = stat.st_mode & nix::libc::S_IFMT == nix::libc::S_IFDIR;
            if is_directory && let Ok(below) = open(directory.as_fd(), path, ResolveFlag::RESOLVE_BENEATH) {
                self.enter(below, device)?;
            }
        }
        Ok(())
    }

    fn give(&self, directory: BorrowedFd<'_>, name: &Path, stat: &FileStat) -> io::Result<()> {
        let uid = (stat.st_uid == self.old.0).then_some(self.uid);
        let gid = (stat.st_gid == self.old.1).then_some(self.gid);
        if uid.is_none() {
            return Ok(());
        }
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW | AtFlags::AT_EMPTY_PATH;
        Ok(fchownat(directory, name, uid, gid, flags)?)
    }
}

fn open(base: BorrowedFd<'_>, path: &Path, resolve: ResolveFlag) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
    let how = OpenHow::new().flags(flags).mode(Mode::empty()).resolve(resolve);
    Ok(openat2(base, path, how)?)
}
