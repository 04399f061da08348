use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};

use super::{accounts::Accounts, ownership, places::Places, say};
use crate::config::{Environment, STATE, STATE_DIR};

/// The user of agents, hooks and the server.
const USER: &str = "aicode";
/// Where the engine of the host is, when it is mounted.
const SOCKET: &str = "/var/run/docker.sock";
/// Its group in the image.
const DOCKER: &str = "docker";

/// A user to become.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    /// The number that the image gave to the group of that name.
    pub(super) image_gid: Gid,
    /// Supplementary ones, that of the mounted engine included.
    pub(super) groups: Vec<Gid>,
    pub(super) home: PathBuf,
}

/// Who this box runs as.
pub(super) struct Identity {
    /// `None`: as whoever we are.
    user: Option<User>,
    home: PathBuf,
    state: PathBuf,
}

impl Identity {
    /// As root, the user of the image with the numbers of the workspace's owner and the group of a mounted engine;
    /// else nobody but ourselves. Tells what cannot be had, and goes on.
    pub(super) fn find(places: &Places) -> Self {
        let user = if geteuid().is_root() { follow(&places.workspace) } else { None };
        let (home, state) = places.of_user(user.as_ref());
        Self { user, home, state }
    }

    /// Gives the user what has to be theirs: home and state directory, and an empty workspace that a fresh mount left
    /// to root.
    pub(super) fn settle(&self, places: &Places) {
        let Some(user) = &self.user else { return };
        let empty = fs::read_dir(&places.workspace).is_ok_and(|mut entries| entries.next().is_none());
        if empty {
            ownership::give_root(&places.workspace, user);
        }
        // Each may be a mount of its own, kept from a box whose user had other numbers.
        ownership::give(&self.home, user);
        ownership::give(&self.state, user);
    }

    pub(super) fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// The state directory: an absolute path.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// Puts home and state directory into the environment of everything that is started; the latter where it is named
    /// or another than that of the home.
    pub(super) fn describe(&self, environment: &mut Environment) {
        environment.set("HOME", &self.home);
        if environment.get(STATE_DIR.name).is_some() || self.state != self.home.join(STATE) {
            environment.set(STATE_DIR.name, &self.state);
        }
    }

    /// The names that programs read instead of asking the system.
    pub(super) fn name_user(&self, command: &mut Command) {
        if self.user.is_some() {
            command.env("USER", USER).env("LOGNAME", USER);
        }
    }
}

impl User {
    /// Becomes this user for ever. Only system calls: it runs between fork and exec.
    ///
    /// # Errors
    /// Of the system, and when root could be had back.
    pub(super) fn become_them(&self) -> io::Result<()> {
        setgroups(&self.groups)?;
        setgid(self.gid)?;
        setuid(self.uid)?;
        if setuid(Uid::from_raw(0)).is_ok() {
            return Err(io::Error::from_raw_os_error(nix::libc::EPERM));
        }
        Ok(())
    }

    /// Whether this user can read a file with such permissions, or can make it so.
    pub(super) fn reads(&self, file: &fs::Metadata) -> bool {
        let groups = [self.gid].iter().chain(&self.groups).any(|group| group.as_raw() == file.gid());
        file.uid() == self.uid.as_raw() || file.mode() & 0o004 != 0 || (groups && file.mode() & 0o040 != 0)
    }
}

/// The image's user with the numbers of the mounts.
fn follow(workspace: &Path) -> Option<User> {
    let before = Accounts::read();
    let Some(account) = before.user(USER) else {
        say(format_args!("there is no user {USER}: everything runs as root"));
        return None;
    };
    if !may_change_user() {
        say(format_args!(
            "this root may not become another user (no CAP_SETUID and CAP_SETGID): everything runs as root without \
             these rights; better start the container with --user {}:0",
            account.uid
        ));
        return None;
    }
    let mut accounts = before.clone();
    let (mut uid, mut gid) = (account.uid, account.gid);
    if let Ok(mount) = fs::metadata(workspace)
        && mount.uid() != 0
    {
        uid = mount.uid();
        // Group 0 is what the image's own directories have.
        gid = Some(mount.gid()).filter(|gid| *gid != 0).unwrap_or(gid);
    }
    if (uid, gid) != (account.uid, account.gid) {
        accounts.renumber(USER, uid, gid);
    }
    let socket = fs::metadata(SOCKET).ok().filter(|file| file.file_type().is_socket()).map(|file| file.gid());
    if let Some(socket) = socket {
        accounts.join(USER, socket, DOCKER);
    }
    if let Err(error) = accounts.write(&before) {
        say(format_args!("the numbers of {USER} cannot be written ({error}): they hold without a name"));
    }
    let mut groups = accounts.groups_of(USER);
    groups.extend([gid].into_iter().chain(socket));
    groups.sort_unstable();
    groups.dedup();
    let user = User {
        uid: Uid::from_raw(uid),
        gid: Gid::from_raw(gid),
        image_gid: Gid::from_raw(account.gid),
        groups: groups.into_iter().map(Gid::from_raw).collect(),
        home: account.home,
    };
    if (uid, gid) != (account.uid, account.gid) {
        say(format_args!("{USER} is {uid}:{gid}, the owner of {}", workspace.display()));
    }
    Some(user)
}

/// Whether this root has the two rights that changing the user takes.
fn may_change_user() -> bool {
    const SETGID: u64 = 1 << 6;
    const SETUID: u64 = 1 << 7;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    // Where that cannot be read, the attempt tells.
    bits.is_none_or(|bits| bits & (SETGID | SETUID) == SETGID | SETUID)
}
