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
use crate::config::{Environment, STATE, named_state_dir};

/// Home of the agents' user in the image.
const HOME: &str = "/home/aicode";

/// Where things are, before anything is known of who may write there.
pub(super) struct Places {
    /// Root of all workspaces.
    pub(super) workspace: PathBuf,
    /// What `HOME` says; `/` is what a container engine says of a user that it does not know.
    home: Option<PathBuf>,
    /// What `AICODEBOX_STATE_DIR` says, absolute.
    state: Option<PathBuf>,
    /// Home of the agents' user in the image.
    image_home: PathBuf,
}

impl Places {
    pub(super) fn of(environment: &Environment) -> Self {
        let path = |name: &str| environment.get(name).map(PathBuf::from);
        Self {
            workspace: path("AICODEBOX_WORKSPACE")
                .or_else(|| path("AICODE_WORKSPACE"))
                .unwrap_or_else(|| "/workspace".into()),
            home: path("HOME").filter(|home| home != Path::new("/")),
            state: named_state_dir(environment),
            image_home: HOME.into(),
        }
    }

    /// Home and state directory of this user, without one of ourselves.
    ///
    /// The home is one that can be written: the user's, the image's, else a temporary one, which is lost with the
    /// container. The state directory is the one that was named, else the first in these homes that exists and can be
    /// written, whether the home around it can or not: on a read-only root it is a mount of its own.
    pub(super) fn of_user(&self, user: Option<&User>) -> (PathBuf, PathBuf) {
        let theirs = user.map(|user| user.home.clone()).or_else(|| self.home.clone());
        let homes: Vec<PathBuf> = theirs.into_iter().chain([self.image_home.clone()]).collect();
        let states = || homes.iter().map(|home| home.join(STATE));
        let mounted = self.state.clone().or_else(|| states().find(|state| writable(state)));
        let home = homes.iter().find(|home| writable(home)).cloned().or_else(|| {
            let home = temporary_home(user.map_or_else(geteuid, |user| user.uid))?;
            let lost = match &mounted {
                Some(state) => {
                    format!("what agents keep there is lost with the container, but not {}", state.display())
                }
                None => "what is kept there, the state directory too, is lost with the container".to_owned(),
            };
            say(format_args!(
                "no home directory can be written, so it is {}: {lost}; mount a volume at {}",
                home.display(),
                self.image_home.display()
            ));
            Some(home)
        });
        let home = home.or_else(|| homes.into_iter().next()).unwrap_or_else(|| self.image_home.clone());
        let state = mounted.unwrap_or_else(|| home.join(STATE));
        (home, state)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::STATE_DIR;

    /// Places with these two homes in a directory of the test.
    fn places(directory: &Path) -> Places {
        let environment = Environment::from_iter([("HOME", directory.join("theirs"))]);
        Places { image_home: directory.join("image"), ..Places::of(&environment) }
    }

    #[test]
    fn the_state_directory_is_the_first_that_is_there_and_can_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let (theirs, image) = (directory.path().join("theirs"), directory.path().join("image"));
        [&theirs, &image].into_iter().for_each(|home| fs::create_dir(home).unwrap());
        let find = || places(directory.path()).of_user(None);
        assert_eq!(find(), (theirs.clone(), theirs.join(STATE)), "where there is none yet");
        fs::create_dir(image.join(STATE)).unwrap();
        assert_eq!(find(), (theirs.clone(), image.join(STATE)));
        fs::create_dir(theirs.join(STATE)).unwrap();
        assert_eq!(find(), (theirs.clone(), theirs.join(STATE)));
        if !geteuid().is_root() {
            fs::set_permissions(theirs.join(STATE), fs::Permissions::from_mode(0o500)).unwrap();
            assert_eq!(find(), (theirs.clone(), image.join(STATE)));
        }
        let named = Environment::from_iter([("HOME", theirs.as_os_str()), (STATE_DIR.name, "kept".as_ref())]);
        let here = std::path::absolute("kept").unwrap();
        assert_eq!(Places::of(&named).of_user(None), (theirs, here));
    }
}
