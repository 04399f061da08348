use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use super::{ConfigError, Environment, Reader, variable::*};

/// The scheduler.
#[derive(Clone, Debug)]
pub(crate) struct CronConfig {
    /// The jobs.
    pub(crate) file: PathBuf,
    /// Root of everything that it keeps.
    pub(crate) history: PathBuf,
}

impl CronConfig {
    /// `None` = something is wrong.
    pub(super) fn read(reader: &mut Reader<'_>, state_dir: &Path) -> Option<Self> {
        let file = reader.path(&CRON_FILE);
        if file.is_none() {
            reader.fault(&CRON_FILE, "expected the path of the file of jobs");
        }
        check_zone(reader);
        Some(Self { file: file?, history: cron_history(reader, state_dir) })
    }
}

/// Where the scheduler keeps its history, whether it runs or not.
pub(super) fn cron_history(reader: &Reader<'_>, state_dir: &Path) -> PathBuf {
    reader.path(&CRON_HISTORY_DIR).unwrap_or_else(|| state_dir.join("cron"))
}

/// For commands that say when jobs are due.
///
/// # Errors
/// When `TZ` names no time zone.
pub(crate) fn known_zone(environment: &Environment) -> Result<(), ConfigError> {
    let mut reader = Reader::new(environment);
    check_zone(&mut reader);
    reader.finish(Some(()))
}

/// A zone that nobody knows would be taken for UTC, and every job would run at another hour.
fn check_zone(reader: &mut Reader<'_>) {
    let Some(zone) = reader.text(&TZ) else { return };
    // As the C library has it: a colon may precede the name or path.
    let named = zone.strip_prefix(':').unwrap_or(&zone);
    let known = TimeZone::get(named).is_ok() || TimeZone::posix(named).is_ok() || Path::new(named).is_file();
    if !known {
        reader.fault(&TZ, format_args!("expected a time zone such as Europe/Berlin, found {zone:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_zone_that_nobody_knows_is_not_taken_for_utc() {
        let known = |zone: &str| known_zone(&[("TZ", zone)].into_iter().collect());
        for zone in ["", "Europe/Berlin", ":America/New_York", "UTC", "CET-1CEST,M3.5.0,M10.5.0/3"] {
            assert_eq!(known(zone), Ok(()), "{zone}");
        }
        for zone in ["Europe/Berln", "Mars/X", "/no/such/file"] {
            let ConfigError(faults) = known(zone).unwrap_err();
            assert!(faults[0].starts_with("TZ: ") && faults[0].contains(zone), "{faults:?}");
        }
    }
}
