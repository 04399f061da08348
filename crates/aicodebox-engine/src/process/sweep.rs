use std::{
    fs, io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    leader::Spawner,
    message::{Start, Text},
    sys::{self, Waited},
    times,
};

/// The most pids that a report names, and that sudo is given at once.
const NAMED: usize = 64;

/// How long SIGKILL alone is tried before `sudo`.
const PATIENCE: Duration = Duration::from_millis(20);

/// The direct children of this process, zombies too. Descendants are no concern: when their parents are dead,
/// they are ours.
pub fn children() -> Vec<i32> {
    let me = std::process::id();
    match fs::read_to_string(format!("/proc/self/task/{me}/children")) {
        Ok(pids) => pids.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // A kernel without CONFIG_PROC_CHILDREN.
        Err(_) => children_by_parent(me),
    }
}

fn children_by_parent(parent: u32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: i32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything, also parentheses.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Kills a child that is not reaped yet. Returns whether we were allowed to.
pub(super) fn kill_child(pid: i32) -> bool {
    // 0, -1 and negative numbers address groups, or everybody.
    pid > 1 && kill(Pid::from_raw(pid), Signal::SIGKILL) != Err(nix::Error::EPERM)
}

/// How a sweep ended.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Wait status of the leader, if it was reaped here.
    pub(super) leader: Option<i32>,
    /// Processes other than the leader that SIGKILL ended.
    pub(super) killed: u32,
    /// What is left; empty = `waitpid` said that there is nothing.
    pub(super) stuck: Vec<i32>,
}

/// SIGKILL to the direct children, again and again, until there are none. Only that proves that no descendant is
/// left: the kernel hands the children of a dead process to us before its parent can reap it.
pub(super) fn sweep(leader: i32, spawner: &mut Spawner) -> io::Result<Swept> {
    let begin = Instant::now();
    let mut swept = Swept::default();
    let mut sudo = Sudo::default();
    loop {
        // While sudo runs, nothing else is reaped: a pid that it was given must not become another process.
        let only = sudo.running();
        let mut reaped = false;
        loop {
            match sys::wait(only) {
                Waited::Child { pid, .. } if Some(pid) == only => break sudo.running = None,
                Waited::None if only.is_some() => break sudo.running = None,
                Waited::Child { pid, status } => {
                    reaped = true;
                    if pid == leader {
                        swept.leader = Some(status);
                    } else {
                        swept.killed += u32::from(status & 0x7f == Signal::SIGKILL as i32);
                    }
                }
                Waited::Alive => break,
                Waited::None => return Ok(swept),
            }
        }
        let left = children();
        // Until sudo has become root altogether, it is ours to kill as well.
        let spared = sudo.running();
        let denied: Vec<i32> =
            left.iter().copied().filter(|pid| Some(*pid) != spared && !kill_child(*pid)).collect();
        let past = begin.elapsed();
        if past > times::SWEEP {
            swept.stuck = left.into_iter().take(NAMED).collect();
            return Ok(swept);
        }
        if !denied.is_empty() && past > PATIENCE {
            sudo.kill(&denied, spawner);
        }
        // Against a thousand processes that fork, whoever sleeps loses its turn.
        if !reaped {
            sys::poll(&mut [], Some(times::SWEEP_ROUND))?;
        }
    }
}

/// `sudo -n kill`, for children that an agent with passwordless sudo made root's. Each of them is tried once: when it has
/// died, its own children come to us, and are new.
#[derive(Default)]
struct Sudo {
    running: Option<(i32, Instant)>,
    given: Vec<i32>,
}

impl Sudo {
    fn running(&self) -> Option<i32> {
        self.running.filter(|(_pid, since)| since.elapsed() < times::SUDO).map(|(pid, _since)| pid)
    }

    fn kill(&mut self, pids: &[i32], spawner: &mut Spawner) {
        let new = pids.iter().copied().filter(|pid| !self.given.contains(pid));
        let new: Vec<i32> = new.take(NAMED).collect();
        if self.running().is_none() && !new.is_empty() {
            self.running = start_sudo(&new, spawner).map(|pid| (pid, Instant::now()));
            self.given.extend(new);
        }
    }
}

fn start_sudo(pids: &[i32], spawner: &mut Spawner) -> Option<i32> {
    // The shell's own `kill`: the program is not everywhere.
    let args = ["sudo", "-n", "--", "/bin/sh", "-c", "kill -9 \"$@\"", "sh"];
    let mut words: Vec<String> = ["/usr/bin/sudo", "/"].into_iter().chain(args).map(str::to_owned).collect();
    words.extend(pids.iter().map(i32::to_string));
    let count = words.len() - 2;
    words.push("PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
    let text = words.join("\0") + "\0";
    let start = Start { text: Text(text.as_bytes()), args: count, rlimits: Vec::new(), no_new_privs: false };
    spawner.start(&start, &[null()?, null()?, null()?]).ok()?.ok()
}

fn null() -> Option<OwnedFd> {
    fs::File::options().read(true).write(true).open("/dev/null").ok().map(OwnedFd::from)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_are_found_without_the_kernel_s_list() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(children_by_parent(std::process::id()), [pid]);
        assert_eq!(parent_of(pid), Some(std::process::id()));
        assert!(kill_child(pid) && !child.wait().unwrap().success());
        assert!(children_by_parent(std::process::id()).is_empty());
        assert_eq!(parent_of(pid), None);
    }

    #[test]
    fn groups_and_everybody_are_never_killed() {
        assert!([-1, 0, 1].iter().all(|pid| !kill_child(*pid)));
    }
}
