//! The conditional headers, as far as a file has what they speak of: entity tags, no dates.

use aicodebox_engine::workspace::{Condition, FileError, OpenFile};
use axum::http::{HeaderMap, HeaderName, header};

/// What `If-Match` or `If-None-Match: *` want of the file that is to be replaced or deleted.
pub(super) fn of_change(headers: &HeaderMap) -> Condition {
    match tags(headers, &header::IF_MATCH) {
        Some(Tags::Any) => return Condition::Exists,
        Some(Tags::These(tags)) => return Condition::Tagged(tags),
        None => {}
    }
    match tags(headers, &header::IF_NONE_MATCH) {
        Some(Tags::Any) => Condition::Missing,
        // To replace a file only if it is none of these is nothing that anybody wants.
        Some(Tags::These(_)) | None => Condition::Always,
    }
}

/// Refuses to read a file that is no longer what `If-Match` says.
pub(super) fn require_unchanged(headers: &HeaderMap, file: &OpenFile) -> Result<(), FileError> {
    match tags(headers, &header::IF_MATCH) {
        Some(Tags::These(tags)) if !tags.contains(&file.tag) => Err(FileError::Condition(file.path.clone())),
        Some(Tags::These(_) | Tags::Any) | None => Ok(()),
    }
}

/// Whether the client has this already (`If-None-Match`).
pub(super) fn known(headers: &HeaderMap, tag: &str) -> bool {
    match tags(headers, &header::IF_NONE_MATCH) {
        Some(Tags::Any) => true,
        Some(Tags::These(tags)) => tags.iter().any(|known| known.trim_start_matches("W/") == tag),
        None => false,
    }
}

enum Tags {
    Any,
    These(Vec<String>),
}

/// Our tags have no comma in them, so that a list can be cut at commas.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Option<Tags> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let tags: Vec<_> = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(|tag| tag.trim().to_owned())
        .collect();
    Some(if tags.iter().any(|tag| tag == "*") { Tags::Any } else { Tags::These(tags) })
}
