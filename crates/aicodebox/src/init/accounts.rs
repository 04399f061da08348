//! The lines of `/etc/passwd` and `/etc/group`, read and changed by ourselves: `usermod` refuses numbers that are
//! taken and users that are logged in, and takes a lock that a read-only root does not have.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// Users and groups of this system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accounts {
    passwd: Vec<Vec<String>>,
    group: Vec<Vec<String>>,
}

/// A line of `/etc/passwd`, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: PathBuf,
}

impl Accounts {
    /// Those of `/etc`; where a file cannot be read, there are none.
    pub(super) fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&text(PASSWD), &text(GROUP))
    }

    fn parse(passwd: &str, group: &str) -> Self {
        let lines =
            |text: &str| text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect();
        Self { passwd: lines(passwd), group: lines(group) }
    }

    /// The user of this name.
    pub(super) fn user(&self, name: &str) -> Option<Account> {
        let line = line(&self.passwd, name)?;
        Some(Account {
            uid: line.get(2)?.parse().ok()?,
            gid: line.get(3)?.parse().ok()?,
            home: line.get(5)?.into(),
        })
    }

    /// The groups that name this user as a member.
    pub(super) fn groups_of(&self, user: &str) -> Vec<u32> {
        let names_user = |line: &&Vec<String>| {
            line.get(3).is_some_and(|members| members.split(',').any(|name| name == user))
        };
        self.group.iter().filter(names_user).filter_map(|line| line.get(2)?.parse().ok()).collect()
    }

    /// Gives a user and the group of the same name other numbers. A group that has the number already stays: then it
    /// is merely the user's primary one.
    pub(super) fn renumber(&mut self, name: &str, uid: u32, gid: u32) {
        set(&mut self.passwd, name, 2, uid);
        set(&mut self.passwd, name, 3, gid);
        if self.group_name(gid).is_none() {
            set(&mut self.group, name, 2, gid);
        }
    }

    /// Makes a user a member of the group with this number: of the one that has it, else of `group`, which gets it.
    pub(super) fn join(&mut self, user: &str, gid: u32, group: &str) {
        let name = self.group_name(gid).unwrap_or_else(|| {
            set(&mut self.group, group, 2, gid);
            group.to_owned()
        });
        let line = self.group.iter_mut().find(|line| line.first() == Some(&name));
        if let Some(members) = line.and_then(|line| line.get_mut(3))
            && !members.split(',').any(|member| member == user)
        {
            if !members.is_empty() {
                members.push(',');
            }
            members.push_str(user);
        }
    }

    fn group_name(&self, gid: u32) -> Option<String> {
        let gid = gid.to_string();
        self.group.iter().find(|line| line.get(2) == Some(&gid))?.first().cloned()
    }

    /// Writes what differs from `before`.
    ///
    /// # Errors
    /// Of the file system: a read-only root, most likely.
    pub(super) fn write(&self, before: &Self) -> io::Result<()> {
        for (path, lines, old) in
            [(PASSWD, &self.passwd, &before.passwd), (GROUP, &self.group, &before.group)]
        {
            if lines != old {
                replace(Path::new(path), &text(lines))?;
            }
        }
        Ok(())
    }
}

fn line<'a>(lines: &'a [Vec<String>], name: &str) -> Option<&'a Vec<String>> {
    lines.iter().find(|line| line.first().is_some_and(|first| first == name))
}

fn set(lines: &mut [Vec<String>], name: &str, field: usize, number: u32) {
    let line = lines.iter_mut().find(|line| line.first().is_some_and(|first| first == name));
    if let Some(value) = line.and_then(|line| line.get_mut(field)) {
        *value = number.to_string();
    }
}

fn text(lines: &[Vec<String>]) -> String {
    lines.iter().map(|line| line.join(":") + "\n").collect()
}

/// Whole or not at all: whoever looks up a user meanwhile must find all of them.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile_beside(path)?;
    file.1.write_all(text.as_bytes())?;
    file.1.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.1.sync_all()?;
    fs::rename(&file.0, path)
}

fn tempfile_beside(path: &Path) -> io::Result<(PathBuf, fs::File)> {
    let new = path.with_extension("aicodebox");
    // Of an init that was killed between.
    fs::remove_file(&new).ok();
    let file = fs::File::options().write(true).create_new(true).open(&new)?;
    Ok((new, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\naicode:x:1000:1000::/home/aicode:/bin/bash\nodd line\n";
    const GROUP: &str = "root:x:0:\nstaff:x:50:\ndocker:x:999:aicode\naicode:x:1000:\n";

    fn accounts() -> Accounts {
        Accounts::parse(PASSWD, GROUP)
    }

    #[test]
    fn what_is_not_changed_stays_as_it_was() {
        assert_eq!((text(&accounts().passwd), text(&accounts().group)), (PASSWD.into(), GROUP.into()));
        let user = accounts().user("aicode").unwrap();
        assert_eq!(user, Account { uid: 1000, gid: 1000, home: "/home/aicode".into() });
        assert_eq!(accounts().user("odd line"), None);
        assert_eq!(accounts().groups_of("aicode"), [999]);
    }

    #[test]
    fn a_user_follows_the_numbers_of_a_mount() {
        let mut accounts = accounts();
        accounts.renumber("aicode", 1234, 1235);
        assert!(text(&accounts.passwd).contains("aicode:x:1234:1235::/home/aicode:/bin/bash\n"));
        assert!(text(&accounts.group).ends_with("aicode:x:1235:\n"));
    }

    #[test]
    fn a_group_number_that_is_taken_stays_with_its_group() {
        let mut accounts = accounts();
        accounts.renumber("aicode", 501, 50);
        assert!(text(&accounts.passwd).contains("aicode:x:501:50:"));
        assert_eq!(text(&accounts.group), GROUP);
    }

    #[test]
    fn the_group_of_a_socket_is_joined_by_its_number() {
        let mut renumbered = accounts();
        renumbered.join("aicode", 998, "docker");
        assert!(text(&renumbered.group).contains("docker:x:998:aicode\n"));
        let mut joined = accounts();
        joined.join("aicode", 50, "docker");
        assert!(text(&joined.group).contains("staff:x:50:aicode\ndocker:x:999:aicode\n"));
        assert_eq!(joined.groups_of("aicode"), [50, 999]);
    }
}
