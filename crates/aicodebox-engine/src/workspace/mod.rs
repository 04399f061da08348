//! Where runs work: directories beneath one root, opened by the kernel and never by a checked path.

mod root;
mod scratch;

pub use root::{WorkspaceError, Workspaces};
pub use scratch::{Scratch, ScratchDir};
