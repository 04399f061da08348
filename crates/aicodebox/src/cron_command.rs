//! `aicodebox cron`: looks at a file of jobs without running any.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Subcommand;
use jiff::{Timestamp, tz::TimeZone};

use crate::surface::cron::{CronFileError, Job, read_jobs};

/// Looks at files of jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Say what is wrong with a file of jobs, with line, job and field
    Check {
        /// The file
        file: PathBuf,
    },
    /// Say when its jobs are due next
    Next {
        /// The file
        file: PathBuf,
        /// How many times of each job
        #[arg(short = 'n', long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
        number: u16,
    },
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CronCommandError {
    #[error(transparent)]
    File(#[from] CronFileError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl CronCommand {
    /// Carries it out.
    ///
    /// # Errors
    /// When the file is wrong, or the answer cannot be written.
    pub(crate) fn run(self, out: &mut impl Write) -> Result<(), CronCommandError> {
        match self {
            Self::Check { file } => {
                let jobs = jobs(&file)?;
                let off = jobs.iter().filter(|job| !job.enabled).count();
                let off = if off == 0 { String::new() } else { format!(", {off} of them not enabled") };
                let names: Vec<_> = jobs.iter().map(|job| job.name.as_str()).collect();
                writeln!(out, "{}: {} jobs{off}: {}", file.display(), jobs.len(), names.join(", "))?;
            }
            Self::Next { file, number } => {
                for job in jobs(&file)? {
                    writeln!(out, "{} ({})", job.name, job.schedule_text)?;
                    let mut at = Timestamp::now();
                    for _ in 0..number {
                        let Some(next) = job.schedule.after(at) else { break };
                        at = next;
                        let wall = at.to_zoned(job.schedule.zone().clone());
                        writeln!(out, "  {}", wall.strftime("%a %Y-%m-%d %H:%M:%S %:z"))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn jobs(path: &Path) -> Result<Vec<Job>, CronCommandError> {
    Ok(read_jobs(path, &TimeZone::system())?)
}
