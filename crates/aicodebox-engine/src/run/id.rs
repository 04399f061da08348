use std::fmt;

use serde::{Deserialize, Serialize};

/// Identifies one run: 32 lower-case hex digits, random.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId([u8; 16]);

impl RunId {
    /// A new random id.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        // getrandom(2) fails only before the kernel's pool is ready or where a sandbox forbids it: then no
        // id, token or temporary name could be trusted either.
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
        Self(bytes)
    }

    /// The id as it is kept.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The id that [`Self::bytes`] gave.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads the 32 hex digits; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16).filter(|_| !c.is_ascii_uppercase());
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By hand: as sixteen numbers it took 4,000 instructions, and a run writes its id five times.
        let digit = |four: u8| b"0123456789abcdef"[usize::from(four)];
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        f.write_str(std::str::from_utf8(&digits).map_err(|_never| fmt::Error)?)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a run id is 32 hex digits"))
    }
}

/// The agent's own name for a conversation, as it reported it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub String);

impl SessionId {
    /// Whether an agent can be given it again: at most 4 KiB, no control character, and nothing that an agent would
    /// take for a flag. Whatever an agent reports is otherwise taken as its id.
    pub fn is_usable(&self) -> bool {
        let id = &self.0;
        (1..=4096).contains(&id.len()) && !id.starts_with('-') && !id.contains(char::is_control)
    }
}

/// Who continues a conversation: one key per Telegram chat and topic, per cron job, else `run`.
/// Together with adapter and workspace it finds the [`SessionId`] to resume.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_printing_and_reading() {
        let id = RunId::random();
        assert_eq!(RunId::parse(&id.to_string()), Some(id));
        assert_ne!(RunId::random(), id);
    }

    #[test]
    fn only_32_lower_case_hex_digits_are_an_id() {
        for bad in [
            "",
            "0",
            "0123456789abcdef0123456789abcdeg",
            "0123456789ABCDEF0123456789abcdef",
            "0123456789abcdef0123456789abcdef0",
        ] {
            assert_eq!(RunId::parse(bad), None, "{bad}");
        }
    }
}
