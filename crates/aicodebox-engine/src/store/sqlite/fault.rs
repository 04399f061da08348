use std::path::Path;

use rusqlite::{Error, ErrorCode};

use crate::store::StoreError;

/// What happened, where, and what to do.
pub(super) fn explain(error: &Error, path: &Path) -> StoreError {
    let path = path.display();
    StoreError(match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => format!("the disk is full: {path} cannot grow; free some space"),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            format!("{path} cannot be written ({error}): is its disk read-only?")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            format!("{path} is damaged ({error}): restart the server, which sets it aside")
        }
        _ => format!("{path}: {error}"),
    })
}

/// Whether the file is no database that could be used.
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
