//! Adapters: a small file per agent that says how to build its command line and how to read its output.
//!
//! An adapter plans ([`Adapter::plan`]: request → [`Plan`]) and reads ([`OutputReader`]: bytes → events and a
//! [`Reading`]). It never starts a process and never knows who asked. The format is in `docs/adapters.md`. Adapters that
//! are Python classes are in [`python`]; those need a process to be asked.
//!
//! A file is checked and compiled when it is loaded ([`FileAdapter::load`]). Planning goes from `draft` (which
//! channel a field takes) over `filling` (placeholders) to `file` (program, environment); reading goes from
//! `reader` (bytes to lines, lines to rules) over `progress` (what a rule does) to `verdict`.

mod ansi;
mod answer;
mod builtin;
mod clip;
mod condition;
mod contract;
mod draft;
mod fault;
mod field;
mod file;
mod filling;
mod group;
mod json;
mod load;
mod load_channels;
mod load_error;
mod load_faults;
mod load_prompt;
mod load_rules;
mod matching;
mod model;
mod node;
mod object_line;
mod pattern;
mod pointer;
mod probe;
mod program;
mod progress;
pub mod python;
mod reader;
mod rehearse;
mod replay;
mod rule;
mod source;
mod spec;
mod usage;
mod values;
mod verdict;
mod words;

pub use builtin::{AdapterError, builtin, builtin_names, load_adapter};
pub use contract::{
    Adapter, AdapterInfo, Capabilities, Capability, Host, OutputReader, Plan, PlanError, Probe, ReadError,
    ReadProbe, ReadVersion, ReaderContext, Reading, RunFile, TEXT_LIMIT, VersionProbe, WHOLE_REQUEST,
};
pub use draft::{Draft, Refusal};
pub use fault::fault_in;
pub use file::FileAdapter;
pub use load_error::{LoadError, LoadErrors};
pub use rehearse::rehearse;
pub use replay::{Recording, replay};
