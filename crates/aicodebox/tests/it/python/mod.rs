//! Adapters that are Python classes, from the class to the outcome of a run.

pub(crate) mod fixture;
mod http;
mod loading;
mod reading;
mod starting;
mod unruly;
