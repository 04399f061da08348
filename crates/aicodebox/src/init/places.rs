use std::{
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    unistd::{AccessFlags, Uid, faccessat, geteuid},
};

use super::{identity::User, say};
use crate::config::Environment;

/// Home of the agents' user in the image.
const HOME: &str = "/home/aicode";

/// Where things are, before anything is known of who may write there.
pub(super) struct Places {
    /// Root of all workspaces.
    pub(super) workspace: PathBuf,
    /// What `HOME` says; `/` is what a container engine says of a user that it does not know.
    home: Option<PathBuf>,
    /// What `AICODEBOX_STATE_DIR` says.
    state: Option<PathBuf>,
}

impl Places {
    pub(super) fn of(environment: &Environment) -> Self {
        let path = |name: &str| environment.get(name).map(PathBuf::from);
        Self {
            workspace: path("AICODEBOX_WORKSPACE")
                .or_else(|| path("AICODE_WORKSPACE"))
                .unwrap_or_else(|| "/workspace".into()),
            home: path("HOME").filter(|home| home != Path::new("/")),
            state: path("AICODEBOX_STATE_DIR"),
        }
    }

    /// The state directory of a user with this home.
    pub(super) fn state(&self, home: &Path) -> PathBuf {
        self.state.clone().unwrap_or_else(|| home.join(".aicodebox"))
    }

    /// A home that can be written: the user's, the image's, else a temporary one, which is lost with the container.
    pub(super) fn home(&self, user: Option<&User>) -> PathBuf {
        let theirs = user.map(|user| user.home.clone()).or_else(|| self.home.clone());
        let known = [theirs.clone(), Some(HOME.into())].into_iter().flatten();
        if let Some(home) = known.into_iter().find(|home| writable(home)) {
            return home;
        }
        let uid = user.map_or_else(geteuid, |user| user.uid);
        match temporary_home(uid) {
            Some(home) => {
                say(format_args!(
                    "no home directory can be written, so it is {}, and what is kept there is lost with the container; \
                     mount a volume at {HOME}",
                    home.display()
                ));
                home
            }
            None => theirs.unwrap_or_else(|| HOME.into()),
        }
    }
}

/// Whether this user may write there. Root may everywhere but on a read-only file system.
fn writable(directory: &Path) -> bool {
    faccessat(AT_FDCWD, directory, AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok()
}

/// A directory of this user's alone. One that somebody else has made is not used.
fn temporary_home(uid: Uid) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/tmp/aicodebox-{uid}"));
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => nix::unistd::chown(&path, Some(uid), None).ok()?,
        Err(_) => {
            let found = fs::symlink_metadata(&path).ok()?;
            let theirs = found.is_dir() && found.uid() == uid.as_raw() && found.mode().trailing_zeros() >= 6;
            if !theirs {
                return None;
            }
        }
    }
    Some(path)
}
