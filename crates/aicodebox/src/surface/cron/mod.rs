//! The scheduler: jobs of a file, run by the engine when they are due.
//!
//! [`Schedule`] knows when; the timetable decides, in a state that is stored before anything starts; the [`Scheduler`]
//! waits, and starts firings; each firing runs one agent and writes its directory of the [`History`]. What is told of it in
//! Telegram is delivered when the job's next time may already come.

mod clock;
mod control;
mod fields;
mod file;
mod firing;
mod history;
mod job;
mod messages;
mod normalise;
mod notice;
mod schedule;
mod scheduler;
mod timetable;

pub(crate) use control::{CronControl, CronList, CronRefusal, JobView};
#[cfg(test)]
use file::parse_jobs;
pub(crate) use file::{CronFileError, read_jobs};
pub(crate) use history::History;
pub(crate) use job::{Job, Keep, Missed, Recipient};
pub(crate) use messages::CronMessage;
pub(crate) use schedule::Schedule;
pub(crate) use scheduler::{CronSetup, Scheduler};
