//! Where runs work: directories beneath one root, and the files there, opened by the kernel and never by a checked
//! path.

mod file_error;
mod files;
mod listing;
mod open_file;
mod path;
mod root;
mod scratch;
mod upload;

pub use file_error::FileError;
pub use files::{Condition, Files, Found};
pub use listing::{Entry, EntryKind, Listing, MAX_ENTRIES};
pub use open_file::OpenFile;
pub use root::{WorkspaceError, Workspaces};
pub use scratch::{Scratch, ScratchDir};
pub use upload::{Upload, Written};
