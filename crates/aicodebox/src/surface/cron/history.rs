use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{Timestamp, tz::TimeZone};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{CronMessage, Job, Keep, messages::Messages};
use crate::surface::{outbox::Delivery, regular_file};

/// So many bytes at the end of a job's file are looked at for its last line: the file itself grows for ever.
const LAST_LINE: u64 = 64 << 10;
/// A directory whose name is further in the future was not made by us, also not before the clock was set.
const AHEAD: Duration = Duration::from_secs(86_400);
/// A longer file of JSON is none of ours: an instruction has at most 1 MiB, 6 bytes of JSON for each at worst.
const JSON_LIMIT: u64 = 8 << 20;

/// Everything that the scheduler leaves on the disk for people and agents: a directory for each run, a line for each in
/// the job's own file, and which messages told of it. Agents can write there, so nothing in it is waited for, followed
/// elsewhere, or believed to be short. All methods block on the disk.
#[derive(Clone, Debug)]
pub(crate) struct History {
    root: PathBuf,
    messages: Messages,
}

/// The directory of one run, and what the next one is told of those before.
#[derive(Clone, Debug)]
pub(super) struct RunDirectory {
    pub(super) path: PathBuf,
    meta: Value,
    previous: Option<PathBuf>,
    older: String,
}

/// How a run ended, for its directory.
pub(super) struct Ended<'a> {
    pub(super) at: Timestamp,
    pub(super) status: &'a str,
    pub(super) text: &'a str,
    pub(super) stdout: &'a str,
    pub(super) stderr: &'a str,
    /// More for `meta.json`.
    pub(super) more: Value,
}

impl History {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { messages: Messages::new(root.join("telegram_messages.json")), root }
    }

    /// Makes the directory of a run that begins at `now`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn begin(&self, job: &Job, now: Timestamp, meta: &Value) -> io::Result<RunDirectory> {
        let place = self.root.join("history").join(slug(&job.workspace));
        fs::create_dir_all(&place)?;
        let previous = self.runs_of(job)?.pop();
        // One that was started by hand may fall into the same second.
        let last = previous.as_deref().and_then(begun).filter(|last| *last < now + AHEAD);
        let mut at = last.map_or(now, |last| now.max(last + Duration::from_secs(1)));
        let path = loop {
            let path = place.join(format!("{}-{}", at.strftime("%Y%m%d-%H%M%S"), job.name));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => at += Duration::from_secs(1),
                made => break made.map(|()| path)?,
            }
        };
        let mut own = json!({ "job": job.name, "status": "running", "startedAt": now.to_string() });
        merge(&mut own, meta);
        write_json(&path.join("meta.json"), &own)?;
        // With its time in full: `*-report` would be the runs of `weekly-report` as well.
        let older = place.join(format!("????????-??????-{}", job.name)).display().to_string();
        Ok(RunDirectory { path, meta: own, previous, older })
    }

    /// Writes down how it ended.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn end(&self, directory: &RunDirectory, job: &Job, ended: &Ended<'_>) -> io::Result<()> {
        let mut meta = directory.meta.clone();
        merge(&mut meta, &json!({ "status": ended.status, "endedAt": ended.at.to_string() }));
        merge(&mut meta, &ended.more);
        regular_file::replace(&directory.path.join("stdout.log"), ended.stdout.as_bytes())?;
        regular_file::replace(&directory.path.join("stderr.log"), ended.stderr.as_bytes())?;
        regular_file::replace(&directory.path.join("result.txt"), ended.text.as_bytes())?;
        write_json(&directory.path.join("meta.json"), &meta)?;
        self.line(&job.name, &directory.path, meta)?;
        self.prune(job, ended.at)
    }

    /// Marks a run that the process did not outlive; `false` = it had come to its end.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn interrupted(&self, job: &str, directory: &Path, now: Timestamp) -> io::Result<bool> {
        let path = directory.join("meta.json");
        // Where there is none that can be read, it was not even begun.
        let written = read_json(&path);
        let mut meta: Value = written.unwrap_or_else(|| json!({ "job": job, "status": "running" }));
        if meta["status"] != "running" {
            return Ok(false);
        }
        merge(&mut meta, &json!({ "status": "interrupted", "endedAt": now.to_string() }));
        write_json(&path, &meta)?;
        self.line(job, directory, meta)?;
        Ok(true)
    }

    /// The directory of a job's newest run.
    pub(super) fn newest(&self, job: &Job) -> Option<PathBuf> {
        self.runs_of(job).ok()?.pop()
    }

    /// Writes down who was told.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn told(&self, directory: &Path, job: &str, delivery: &Delivery) -> io::Result<()> {
        write_json(&directory.join("telegram.json"), &serde_json::to_value(delivery)?)?;
        self.messages.add(directory, job, delivery)
    }

    /// What a message in Telegram told of.
    pub(crate) fn message(&self, chat: i64, message: i32) -> Option<CronMessage> {
        self.messages.find(chat, message)
    }

    /// The last line of a job's file; `None` also when it has more than 64 KiB.
    pub(super) fn last(&self, job: &str) -> Option<Value> {
        let mut file = regular_file::open(&self.root.join(format!("{job}.jsonl"))).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINE))).ok()?;
        let mut end = Vec::new();
        file.take(LAST_LINE).read_to_end(&mut end).ok()?;
        serde_json::from_slice(end.trim_ascii_end().rsplit(|byte| *byte == b'\n').next()?).ok()
    }

    fn line(&self, job: &str, directory: &Path, mut meta: Value) -> io::Result<()> {
        if let Some(meta) = meta.as_object_mut() {
            meta.shift_remove("instruction");
        }
        merge(&mut meta, &json!({ "historyDir": directory.display().to_string() }));
        regular_file::append(&self.root.join(format!("{job}.jsonl")), format!("{meta}\n").as_bytes())
    }

    /// The directories of a job's runs in its workspace, oldest first.
    fn runs_of(&self, job: &Job) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.root.join("history").join(slug(&job.workspace)))?;
        let mut runs: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| name(path).and_then(|name| name.get(16..)) == Some(job.name.as_str()))
            .filter(|path| begun(path).is_some())
            .collect();
        runs.sort_unstable();
        Ok(runs)
    }

    fn prune(&self, job: &Job, now: Timestamp) -> io::Result<()> {
        let Some(keep) = job.keep else { return Ok(()) };
        let runs = self.runs_of(job)?;
        let old = |path: &PathBuf| match keep {
            Keep::Runs(_) => true,
            Keep::For(time) => begun(path).is_some_and(|at| at + time < now),
        };
        let candidates = match keep {
            Keep::Runs(number) => runs.len().saturating_sub(number),
            // The newest stays, whatever its age: the next run is told of it.
            Keep::For(_) => runs.len().saturating_sub(1),
        };
        runs[..candidates].iter().filter(|path| old(path)).try_for_each(fs::remove_dir_all)
    }
}

impl RunDirectory {
    /// What the agent is told, in its prompt: the one channel that a continued conversation has as well.
    pub(super) fn hint(&self) -> String {
        match &self.previous {
            None => String::new(),
            Some(previous) => format!(
                "\n\n[History of this job: the previous run is in {} (meta.json, result.txt, stdout.log, stderr.log); \
                 all runs: {}]",
                previous.display(),
                self.older
            ),
        }
    }
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// When a run began, by the name of its directory.
fn begun(path: &Path) -> Option<Timestamp> {
    let at = jiff::civil::DateTime::strptime("%Y%m%d-%H%M%S", name(path)?.get(..15)?).ok()?;
    TimeZone::UTC.to_timestamp(at).ok()
}

/// A workspace as the name of a directory.
fn slug(workspace: &str) -> String {
    let trimmed = workspace.trim_start_matches("./").trim_matches('/');
    if trimmed.is_empty() || trimmed == "." {
        return "root".to_owned();
    }
    trimmed.chars().map(|c| if c.is_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' }).collect()
}

fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        into.extend(
            from.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), value.clone())),
        );
    }
}

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&regular_file::read(path, JSON_LIMIT).ok()?).ok()
}

/// Whole or not at all: a reader never sees half of it.
pub(super) fn write_json(path: &Path, value: &Value) -> io::Result<()> {
    regular_file::replace(path, format!("{value:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;
    use crate::surface::cron::parse_jobs;

    fn job(keep: &str) -> Job {
        let text =
            format!("jobs: [{{name: a, schedule: '@daily', instruction: x, keep: {keep}, workspace: w/x}}]");
        parse_jobs(&text, &TimeZone::UTC).unwrap().remove(0)
    }

    fn run(history: &History, job: &Job, at: Timestamp) -> RunDirectory {
        let directory = history.begin(job, at, &json!({ "instruction": "x" })).unwrap();
        let ended = Ended {
            at,
            status: "completed",
            text: "done",
            stdout: "out",
            stderr: "",
            more: json!({ "exitCode": 0 }),
        };
        history.end(&directory, job, &ended).unwrap();
        directory
    }

    #[test]
    fn a_run_is_found_again_and_the_next_is_told_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path().to_owned());
        let now: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
        let first = run(&history, &job("9"), now);
        assert_eq!(first.path, folder.path().join("history/w-x/20260203-040506-a"));
        assert_eq!(first.hint(), "");
        let second = run(&history, &job("9"), now);
        assert!(second.path.ends_with("20260203-040507-a"), "a second of its own");
        assert!(
            second.hint().contains(first.path.to_str().unwrap())
                && second.hint().contains("w-x/????????-??????-a]")
        );
        let meta: Value = serde_json::from_slice(&fs::read(first.path.join("meta.json")).unwrap()).unwrap();
        assert_eq!((&meta["status"], &meta["exitCode"]), (&json!("completed"), &json!(0)));
        assert_eq!(fs::read_to_string(folder.path().join("a.jsonl")).unwrap().lines().count(), 2);
        assert_eq!(history.last("a").unwrap()["historyDir"], json!(second.path.to_str().unwrap()));
        // An agent's own, at the end of all times.
        fs::create_dir(folder.path().join("history/w-x/99991231-235959-a")).unwrap();
        assert!(run(&history, &job("9"), now + Duration::from_secs(9)).path.ends_with("20260203-040515-a"));
    }

    #[test]
    fn the_last_line_is_found_without_reading_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path().to_owned());
        let path = folder.path().join("a.jsonl");
        assert_eq!(history.last("a"), None);
        for (text, last) in [
            ("", None),
            ("{\"run\": 1}\n", Some(json!({ "run": 1 }))),
            ("{\"run\": 1}\n{\"run\": 2}\n", Some(json!({ "run": 2 }))),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(history.last("a"), last, "{text:?}");
        }
        // 1 TB of holes: who reads it from the beginning does not come to an end.
        let mut file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\n{\"run\": 3}\n").unwrap();
        assert_eq!(history.last("a"), Some(json!({ "run": 3 })));
    }

    #[test]
    fn only_what_still_runs_becomes_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path().to_owned());
        let now: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
        let done = run(&history, &job("9"), now);
        let cut = history.begin(&job("9"), now, &Value::Null).unwrap();
        assert!(!history.interrupted("a", &done.path, now).unwrap());
        assert!(history.interrupted("a", &cut.path, now).unwrap());
        let status = |directory: &RunDirectory| {
            let meta: Value =
                serde_json::from_slice(&fs::read(directory.path.join("meta.json")).unwrap()).unwrap();
            meta["status"].as_str().unwrap().to_owned()
        };
        assert_eq!((status(&done), status(&cut)), ("completed".into(), "interrupted".into()));
    }

    #[test]
    fn f11_pipes_of_an_agent_are_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path().to_owned());
        let now: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
        let pipe = |path: &Path| {
            // What stands there may be a file of ours.
            let _gone = fs::remove_file(path);
            mkfifo(path, Mode::S_IRWXU).unwrap();
        };
        for name in ["a.jsonl", "telegram_messages.json"] {
            pipe(&folder.path().join(name));
        }
        assert_eq!((history.last("a"), history.message(5, 7)), (None, None));
        let directory = history.begin(&job("9"), now, &Value::Null).unwrap();
        for name in ["stdout.log", "result.txt.new", "meta.json", "meta.json.new", "telegram.json.new"] {
            pipe(&directory.path.join(name));
        }
        assert!(history.interrupted("a", &directory.path, now).is_err(), "there is no file for its line");
        fs::remove_file(folder.path().join("a.jsonl")).unwrap();
        let ended =
            Ended { at: now, status: "completed", text: "done", stdout: "", stderr: "", more: json!({}) };
        history.end(&directory, &job("9"), &ended).unwrap();
        assert_eq!(fs::read_to_string(directory.path.join("result.txt")).unwrap(), "done");
        let delivery = Delivery { chat: 5, messages: vec![7], failure: None };
        history.told(&directory.path, "a", &delivery).unwrap();
        assert_eq!(history.message(5, 7).unwrap().job, "a");
    }

    #[test]
    fn history_is_kept_by_number_or_by_age() {
        let start: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
        for (keep, left) in [("3", 3), ("2d", 3), ("100", 6)] {
            let folder = tempfile::tempdir().unwrap();
            let history = History::new(folder.path().to_owned());
            for day in 0..6 {
                run(&history, &job(keep), start + Duration::from_secs(day * 86_400));
            }
            assert_eq!(history.runs_of(&job(keep)).unwrap().len(), left, "{keep}");
        }
    }
}
