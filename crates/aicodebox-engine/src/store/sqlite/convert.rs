//! How our values lie in columns.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::types::{FromSqlError, Type};
use serde::{Serialize, de::DeserializeOwned};

use crate::run::RunId;

/// A time as a column has it: milliseconds since 1970.
pub(super) fn to_millis(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub(super) fn from_millis(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// A count or number as a column has it; none of ours is that large.
pub(super) fn to_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn from_integer(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Where something numbered lies among what belongs to a run.
pub(super) fn place(run: i64, number: u64) -> i64 {
    (run << 16) + i64::from(u16::try_from(number).unwrap_or(u16::MAX))
}

pub(super) fn path_bytes(path: &Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

pub(super) fn to_path(bytes: Vec<u8>) -> PathBuf {
    <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into()
}

pub(super) fn to_id(bytes: [u8; 16]) -> RunId {
    RunId::from_bytes(bytes)
}

/// Our own types as JSON; none of them can fail.
pub(super) fn to_json<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| damaged(error.to_string()))
}

/// What was read is not what was written.
pub(super) fn damaged(what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, FromSqlError::Other(what.into()).into())
}
