//! Adapters: a small file per agent that says how to build its command line and how to read its output.
//!
//! An adapter plans ([`Adapter::plan`]: request → [`Plan`]) and reads ([`OutputReader`]: bytes → events and a
//! [`Reading`]). It never starts a process and never knows who asked. The format is in `docs/adapters.md`.

mod contract;

pub use contract::{
    Adapter, AdapterInfo, Capabilities, Capability, Host, OutputReader, Plan, PlanError, Probe, ReadError,
    ReadProbe, ReaderContext, Reading, RunFile, TEXT_LIMIT,
};
