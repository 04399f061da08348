//! What server, launcher and keepers say to each other: postcard behind a length, over stream sockets (a launch
//! may be longer than any datagram). Both ends are the same program, so there are no versions.

use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

use super::{Launch, Rlimit, StopPlan};

/// The longest message. `execve` refuses far less (about 2 MiB with the usual stack limit).
pub(super) const MAX_MESSAGE: usize = 4 << 20;

/// Bytes of a length.
pub(super) const HEADER: usize = 4;

/// From the server to the launcher.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum LauncherOrder {
    /// Fork a keeper that serves the socket which comes along.
    Keep { id: u64 },
    /// This keeper does not answer: kill it.
    Kill { id: u64 },
}

/// From the launcher to the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum LauncherReport {
    /// It is set up.
    Ready,
    /// This keeper is dead, and so is what it left, except for these pids.
    Gone { id: u64, stuck: Vec<i32> },
}

/// From the server to a keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order<'a> {
    /// Start a leader on the three descriptors that come along.
    #[serde(borrow)]
    Start(Start<'a>),
    /// Signal the leader; kill everything when the grace is over.
    Stop(StopPlan),
    /// Kill everything.
    Kill,
}

/// From a keeper to the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The leader has executed its program.
    Started { pid: i32 },
    /// There is no leader.
    NotStarted { stage: Stage, errno: i32 },
    /// `waitpid` says that nothing is left, or the sweep has given up.
    Ended(Ended),
}

/// The end of a run, as its keeper saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// Wait status of the leader; `None` when it could not be reaped.
    pub(super) status: Option<i32>,
    /// Processes that the sweep killed, the leader not counted.
    pub(super) swept: u32,
    /// What is left. Not empty = this keeper ends.
    pub(super) stuck: Vec<i32>,
    /// An order to stop arrived before the leader had ended.
    pub(super) stopped: bool,
    /// The launcher is gone: the keeper stopped the run by itself, and ends.
    pub(super) abandoned: bool,
}

/// Where the start of a leader failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    Fork,
    Group,
    Stdio,
    Cwd,
    Limits,
    Privileges,
    Exec,
}

/// A [`Launch`] in the form that `execve` wants it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start<'a> {
    /// Program, working directory, arguments, environment (`NAME=value`), each ended by NUL.
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    /// How many of them are arguments.
    pub(super) args: usize,
    pub(super) rlimits: Vec<Rlimit>,
    pub(super) no_new_privs: bool,
}

/// The words of a [`Start`]. `None` when one of them contains a NUL.
pub(super) fn text_of(launch: &Launch) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(4096);
    let mut word = |parts: &[&[u8]]| {
        for part in parts {
            if part.contains(&0) {
                return None;
            }
            text.extend_from_slice(part);
        }
        text.push(0);
        Some(())
    };
    word(&[launch.program.as_os_str().as_bytes()])?;
    word(&[launch.cwd.as_os_str().as_bytes()])?;
    for arg in &launch.args {
        word(&[arg.as_bytes()])?;
    }
    for (name, value) in &launch.env {
        word(&[name.as_bytes(), b"=", value.as_bytes()])?;
    }
    Some(text)
}

/// Bytes that are written and read in one piece; serde takes a plain slice byte by byte.
#[derive(Debug)]
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Self)
    }
}

/// A message behind its length. `None` when it is too long.
pub(super) fn encode(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut bytes = postcard::to_extend(message, vec![0; HEADER]).ok()?;
    let length = u32::try_from(bytes.len() - HEADER).ok().filter(|length| *length as usize <= MAX_MESSAGE)?;
    bytes.get_mut(..HEADER)?.copy_from_slice(&length.to_le_bytes());
    Some(bytes)
}

/// Length of the message that begins with this header. `None` when it is too long.
pub(super) fn length(header: [u8; HEADER]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(header)).ok().filter(|length| *length <= MAX_MESSAGE)
}

/// Takes the first whole message out of `bytes`, or `None` while it is not complete.
pub(super) fn take<T: DeserializeOwned>(bytes: &mut Vec<u8>) -> std::io::Result<Option<T>> {
    let Some(header) = bytes.first_chunk() else { return Ok(None) };
    let length = length(*header).ok_or(std::io::ErrorKind::InvalidData)?;
    let Some(body) = bytes.get(HEADER..HEADER + length) else { return Ok(None) };
    let message = postcard::from_bytes(body).map_err(std::io::Error::other)?;
    bytes.drain(..HEADER + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_whole() {
        let ended = Ended { swept: 3, stuck: vec![7], ..Ended::default() };
        let mut bytes = encode(&Report::Started { pid: 70_000 }).unwrap();
        bytes.extend(encode(&Report::Ended(ended.clone())).unwrap());
        let last = bytes.pop().unwrap();
        assert!(matches!(take(&mut bytes), Ok(Some(Report::Started { pid: 70_000 }))));
        assert!(matches!(take::<Report>(&mut bytes), Ok(None)));
        bytes.push(last);
        assert!(matches!(take(&mut bytes), Ok(Some(Report::Ended(found))) if found == ended));
        assert!(bytes.is_empty());
    }

    #[test]
    fn too_long_is_refused_on_both_sides() {
        assert!(encode(&Text(&vec![0; MAX_MESSAGE + 1])).is_none());
        assert!(take::<Report>(&mut u32::MAX.to_le_bytes().to_vec()).is_err());
    }
}
