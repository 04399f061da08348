use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::tz::TimeZone;
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use serde_saphyr::Spanned;

use super::{
    Job, Keep, Missed, Recipient, Schedule,
    fields::{Fault, FieldReader, Fields},
};
use crate::surface::regular_file;

/// A file of jobs may have this many bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// What may stand at the root, as a default for all jobs.
const DEFAULTS: &[&str] = &[
    "workspace",
    "model",
    "effort",
    "thinking",
    "system_prompt",
    "append_system_prompt",
    "no_continue",
    "telegram_chat_id",
    "timezone",
    "timeout",
    "enabled",
    "missed",
    "keep",
];
/// Two names of the same.
const EFFORT: [&str; 2] = ["effort", "thinking"];
/// What only a job has.
const OWN: &[&str] = &["name", "schedule", "instruction"];

/// Why a file gives no jobs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CronFileError {
    /// Nothing of it could be read.
    #[error("{path} cannot be read: {why}", path = .path.display())]
    Unreadable { path: PathBuf, why: String },
    /// Everything that is wrong in it.
    #[error("{path} is wrong:\n{faults}", path = .path.display(), faults = lines(.faults))]
    Wrong { path: PathBuf, faults: Vec<Fault> },
}

fn lines(faults: &[Fault]) -> String {
    let lines: Vec<_> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Reads the jobs of a file, at most 1 MiB; `zone` is that of jobs that name none. Blocks.
///
/// # Errors
/// When it cannot be read, and everything that is wrong in it.
pub(crate) fn read_jobs(path: &Path, zone: &TimeZone) -> Result<Vec<Job>, CronFileError> {
    let unreadable = |why| CronFileError::Unreadable { path: path.to_owned(), why };
    let bytes =
        regular_file::read_mounted(path, FILE_LIMIT).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_wrong| unreadable("it is not UTF-8".to_owned()))?;
    parse_jobs(&text, zone).map_err(|faults| CronFileError::Wrong { path: path.to_owned(), faults })
}

/// Reads the jobs of a text.
///
/// # Errors
/// Everything that is wrong in it.
pub(super) fn parse_jobs(text: &str, zone: &TimeZone) -> Result<Vec<Job>, Vec<Fault>> {
    let root: Root = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        vec![Fault { line, what: unreadable(text, line, &message(&error.to_string())) }]
    })?;
    let mut faults = Vec::new();
    let mut defaults = FieldReader::new("the defaults".into(), 1, &root.defaults, None, &mut faults);
    defaults.only(DEFAULTS);
    defaults.one_of(EFFORT);
    let mut jobs: Vec<Job> = Vec::new();
    for (index, fields) in root.jobs.iter().enumerate() {
        let whose = match fields.value.text("name") {
            Some(name) => format!("job {name}"),
            None => format!("job number {}", index + 1),
        };
        let line = fields.referenced.line();
        let mut reader = FieldReader::new(whose, line, &fields.value, Some(&root.defaults), &mut faults);
        reader.only(&[OWN, DEFAULTS].concat());
        let Some(job) = job(&mut reader, zone) else { continue };
        if jobs.iter().any(|other| other.name == job.name) {
            reader.fault("name", "another job has it");
        }
        jobs.push(job);
    }
    faults.sort_by_key(|fault| fault.line);
    if faults.is_empty() { Ok(jobs) } else { Err(faults) }
}

/// `None` = what is wrong has been told.
fn job(reader: &mut FieldReader<'_>, zone: &TimeZone) -> Option<Job> {
    let name = reader.required("name").map(str::to_owned);
    let valid = |name: &String| {
        name.len() <= 64 && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-'))
    };
    if name.as_ref().is_some_and(|name| !valid(name)) {
        reader.fault("name", "expected at most 64 letters, digits, _ or -");
    }
    let zone = match reader.text("timezone") {
        None => zone.clone(),
        Some(name) => TimeZone::get(name.trim()).unwrap_or_else(|_| {
            reader.fault("timezone", format_args!("there is no time zone {name:?}; say e.g. Europe/Berlin"));
            TimeZone::UTC
        }),
    };
    let schedule_text = reader.required("schedule").map(str::to_owned);
    let schedule = schedule_text
        .as_ref()
        .and_then(|text| Schedule::parse(text, zone).map_err(|wrong| reader.fault("schedule", wrong)).ok());
    let instruction = reader.required("instruction").map(str::to_owned);
    let text = |reader: &FieldReader<'_>, name| reader.text(name).map(str::to_owned);
    let recipient = reader.number::<i64>("telegram_chat_id", "the number of a chat, or 0 for none");
    let missed = reader.read("missed", "skip or run_once", |text| match text {
        "skip" => Some(Missed::Skip),
        "run_once" => Some(Missed::RunOnce),
        _ => None,
    });
    let keep = reader.read("keep", "a number of runs such as 50, or a time such as 30d", |text| {
        let runs = text.parse().ok().filter(|runs| *runs > 0).map(Keep::Runs);
        let duration =
            || crate::config::parse::duration(text).filter(|kept| *kept >= Duration::from_secs(60));
        runs.or_else(|| duration().map(Keep::For))
    });
    let workspace = text(reader, "workspace").unwrap_or_else(|| ".".to_owned());
    let outside = workspace.split('/').any(|part| part == "..");
    if workspace.starts_with('/') || outside {
        reader.fault("workspace", "must be a path below the workspace root");
    }
    let no_continue = reader.boolean("no_continue");
    let timeout = reader.duration("timeout");
    let enabled = reader.boolean("enabled");
    let effort = reader.one_of(EFFORT).map(str::to_owned);
    Some(Job {
        model: text(reader, "model"),
        effort,
        system_prompt: text(reader, "system_prompt"),
        append_system_prompt: text(reader, "append_system_prompt"),
        name: name?,
        schedule: schedule?,
        schedule_text: schedule_text?,
        instruction: instruction?,
        workspace,
        no_continue: no_continue.unwrap_or_default(),
        recipient: match recipient {
            None => Recipient::Default,
            Some(0) => Recipient::None,
            Some(chat) => Recipient::Chat(chat),
        },
        timeout,
        enabled: enabled.unwrap_or(true),
        missed: missed.unwrap_or(Missed::Skip),
        keep,
    })
}

/// The first line of the parser's message, without its place: its pictures of the file are not for a log.
fn message(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end_matches(':');
    let line = line.strip_prefix("error: ").unwrap_or(line);
    match line.split_once(": ") {
        Some((place, what)) if place.starts_with("line ") => what.to_owned(),
        Some(_) | None => line.to_owned(),
    }
}

/// What is wrong with a text that cannot be read as YAML, with the job and the field of its line as far as they show.
fn unreadable(text: &str, line: u64, message: &str) -> String {
    let lines: Vec<_> = text.lines().take(usize::try_from(line).unwrap_or(usize::MAX)).collect();
    let Some(last) = lines.last().filter(|line| !line.trim().is_empty()) else { return message.to_owned() };
    let setting = |line: &&str| {
        let (name, value) = line.trim_start().trim_start_matches("- ").split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let mut told = String::new();
    // Its job's name stands above, from the line on that begins the job.
    let begins = lines.iter().rposition(|line| line.trim_start().starts_with("- ")).unwrap_or_default();
    let job = lines.iter().skip(begins).filter_map(setting).find(|(name, _)| name == "name");
    if let Some((_, job)) = job.filter(|_| last.starts_with([' ', '-'])) {
        told += &format!("job {job}: ");
    }
    let known = |name: &String| OWN.contains(&name.as_str()) || DEFAULTS.contains(&name.as_str());
    let Some((name, value)) = setting(last).filter(|(name, _)| known(name)) else { return told + message };
    match value.chars().next().filter(|first| "*&!@%`{[".contains(*first)) {
        Some(first) => {
            told + &format!("{name}: a value that begins with {first} must be quoted: {name}: '{value}'")
        }
        None => told + &format!("{name}: {message}"),
    }
}

/// The whole file.
#[derive(Debug)]
struct Root {
    jobs: Vec<Spanned<Fields>>,
    defaults: Fields,
}

impl<'de> Deserialize<'de> for Root {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Root;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`jobs:` with a list of jobs")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Root, A::Error> {
                let (mut jobs, mut defaults) = (None, Fields::default());
                while let Some(name) = map.next_key::<String>()? {
                    if name == "jobs" {
                        jobs = Some(map.next_value::<Option<Vec<Spanned<Fields>>>>()?.unwrap_or_default());
                    } else {
                        let value: Spanned<Option<String>> = map.next_value()?;
                        defaults.add(name, value);
                    }
                }
                let jobs = jobs.ok_or_else(|| de::Error::custom("`jobs:` with a list of jobs is missing"))?;
                Ok(Root { jobs, defaults })
            }
        }

        deserializer.deserialize_map(Parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let faults = parse_jobs(text, &TimeZone::UTC).unwrap_err();
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_job_has_what_it_says_else_what_the_root_says() {
        let text = "
model: large
timezone: Europe/Berlin
telegram_chat_id: -1001
jobs:
  - name: 007
    schedule: 0 9 * * mon-fri
    instruction: |
      Look at {workspace}
      and report.
  - name: weekly_report
    schedule: '@weekly'
    instruction: Report
    model: small
    thinking: high
    telegram_chat_id: 0
    no_continue: yes
    missed: run_once
    keep: 14d
    timeout: 30m
    enabled: false
    workspace: reports
";
        let jobs = parse_jobs(text, &TimeZone::UTC).unwrap();
        assert_eq!(jobs.len(), 2);
        let (first, second) = (&jobs[0], &jobs[1]);
        assert_eq!(
            (first.name.as_str(), first.instruction.as_str()),
            ("007", "Look at {workspace}\nand report.\n")
        );
        assert_eq!(first.model.as_deref(), Some("large"));
        assert_eq!((first.workspace.as_str(), first.recipient), (".", Recipient::Chat(-1001)));
        assert_eq!(first.schedule.zone().iana_name(), Some("Europe/Berlin"));
        assert!(first.enabled && !first.no_continue && first.keep.is_none());
        assert_eq!((second.model.as_deref(), second.effort.as_deref()), (Some("small"), Some("high")));
        assert_eq!((second.recipient, second.missed), (Recipient::None, Missed::RunOnce));
        assert_eq!(second.keep, Some(Keep::For(Duration::from_secs(14 * 86_400))));
        assert_eq!(second.timeout, Some(Duration::from_secs(1_800)));
        assert!(!second.enabled && second.no_continue);
    }

    #[test]
    fn every_fault_is_told_with_line_job_and_field() {
        let text = "\
modle: large
jobs:
  - name: a
    schedule: 61 * * * *
    instruction: x
    timout: 5m
  - name: a b
    schedule: 0 9 * * *
    instruction: x
    keep: 0
    workspace: ../other
    missed: later
  - schedule: 0 9 * * *
    timezone: Europe/Berln
";
        let faults = faults(text);
        let expected = [
            "line 1: the defaults: modle: is not known; did you mean model?",
            "line 4: job a: schedule: minute",
            "line 6: job a: timout: is not known; did you mean timeout?",
            "line 7: job a b: name: expected",
            "line 10: job a b: keep: expected",
            "line 11: job a b: workspace: must be",
            "line 12: job a b: missed: expected skip or run_once, found \"later\"",
            "line 13: job number 3: name: is required",
            "line 13: job number 3: instruction: is required",
            "line 14: job number 3: timezone: there is no time zone",
        ];
        assert_eq!(faults.len(), expected.len(), "{faults:#?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.starts_with(expected), "{fault:?} is not {expected:?}");
        }
    }

    #[test]
    fn an_own_effort_goes_before_that_of_the_root_whatever_it_is_called() {
        let job = |root: &str, own: &str| {
            let text = format!("{root}\njobs:\n  - {{name: a, schedule: '@daily', instruction: x, {own}}}\n");
            parse_jobs(&text, &TimeZone::UTC).map(|jobs| jobs[0].effort.clone().unwrap_or_default())
        };
        assert_eq!(job("effort: low", "thinking: high").unwrap(), "high");
        assert_eq!(job("thinking: low", "effort: high").unwrap(), "high");
        assert_eq!(job("thinking: low", "model: m").unwrap(), "low");
        let twice = "means the same as effort: give one of them";
        let told = |faults: Vec<Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own = told(job("", "effort: low, thinking: high").unwrap_err());
        assert_eq!(own, [format!("line 3: job a: thinking: {twice}")]);
        let root = told(job("effort: low\nthinking: high", "model: m").unwrap_err());
        assert_eq!(root, [format!("line 2: the defaults: thinking: {twice}")]);
    }

    #[test]
    fn a_value_without_quotes_is_told_what_it_lacks() {
        let with = |setting: &str| {
            format!(
                "jobs:\n  - name: b\n    schedule: '@daily'\n    instruction: x\n  - name: a\n    {setting}\n    model: x\n"
            )
        };
        for (name, value) in [
            ("schedule", "* * * * *"),
            ("schedule", "*/5 * * * *"),
            ("schedule", "@daily"),
            ("instruction", "{workspace}"),
            ("instruction", "{workspace} is to be looked at"),
        ] {
            let first = &value[..1];
            let told = format!(
                "line 6: job a: {name}: a value that begins with {first} must be quoted: {name}: '{value}'"
            );
            assert_eq!(faults(&with(&format!("{name}: {value}"))), [told]);
        }
        let colon = &faults(&with("instruction: look: at this"))[0];
        assert!(colon.starts_with("line 6: job a: instruction: "), "{colon}");
        assert_eq!(colon.matches("line ").count(), 1, "{colon}");
        let root = &faults("model: {x}\njobs:\n  - {name: a, schedule: '@daily', instruction: x}\n")[0];
        assert!(root.starts_with("line 1: model: a value that begins with {"), "{root}");
        let flow = &faults("jobs: [{name: a, schedule: *, instruction: x}]\n")[0];
        assert!(flow.starts_with("line 1: ") && !flow.contains("jobs: "), "{flow}");
    }

    #[test]
    fn names_are_unique_and_yaml_faults_have_a_line() {
        let twice = "jobs:\n  - {name: a, schedule: '@daily', instruction: x}\n  - {name: a, schedule: '@daily', instruction: y}\n";
        assert_eq!(faults(twice), ["line 3: job a: name: another job has it"]);
        assert!(faults("jobs:\n  - name: [\n").iter().all(|fault| fault.starts_with("line ")), "not YAML");
        assert!(faults("job: x\n")[0].contains("jobs"));
        assert_eq!(parse_jobs("jobs:\n", &TimeZone::UTC).unwrap().len(), 0);
    }
}
