//! What is told of files: the same over HTTP and MCP.

use aicodebox_engine::workspace::{Listing, Written};
use serde::Serialize;
use utoipa::ToSchema;

/// A directory.
#[derive(Serialize, ToSchema)]
pub(crate) struct ListingAnswer {
    path: String,
    entries: Vec<EntryAnswer>,
    /// There are more than are shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize, ToSchema)]
struct EntryAnswer {
    name: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl From<Listing> for ListingAnswer {
    fn from(listing: Listing) -> Self {
        let entries = listing.entries.into_iter().map(|entry| EntryAnswer {
            name: entry.name,
            r#type: entry.kind.name(),
            size: entry.size,
        });
        let path = if listing.path.is_empty() { "/".into() } else { listing.path };
        Self { path, entries: entries.collect(), truncated: listing.truncated }
    }
}

impl ListingAnswer {
    /// Without the sizes, as the original's MCP had it.
    pub(crate) fn without_sizes(mut self) -> Self {
        for entry in &mut self.entries {
            entry.size = None;
        }
        self
    }
}

/// A file that was written, or deleted (then it has no size).
#[derive(Serialize, ToSchema)]
pub(crate) struct DoneAnswer {
    status: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl DoneAnswer {
    pub(crate) fn written(written: Written) -> Self {
        Self { status: "ok", path: written.path, size: Some(written.size) }
    }

    pub(crate) fn deleted(path: String) -> Self {
        Self { status: "ok", path, size: None }
    }
}
