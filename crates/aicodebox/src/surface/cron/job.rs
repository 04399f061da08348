use std::time::Duration;

use super::Schedule;

/// One job of the file.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Unique among the jobs.
    pub(crate) name: String,
    /// When it is due.
    pub(crate) schedule: Schedule,
    /// The same as it was written.
    pub(crate) schedule_text: String,
    /// What the agent is to do, with its places still open.
    pub(crate) instruction: String,
    /// Below the workspace root.
    pub(crate) workspace: String,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) append_system_prompt: Option<String>,
    /// Whether each run begins a new conversation.
    pub(crate) no_continue: bool,
    /// Who is told how it went.
    pub(crate) recipient: Recipient,
    /// Wall clock limit; else the engine's.
    pub(crate) timeout: Option<Duration>,
    pub(crate) enabled: bool,
    pub(crate) missed: Missed,
    /// How much of its history is kept; `None` = all.
    pub(crate) keep: Option<Keep>,
}

/// Who is told in Telegram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The one allowed chat, if there is one.
    Default,
    /// Nobody.
    None,
    /// This chat.
    Chat(i64),
}

/// What becomes of a time at which nothing ran that could have fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// It is passed over.
    Skip,
    /// However many were missed, the job runs once.
    RunOnce,
}

/// How much history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// This many runs.
    Runs(usize),
    /// The runs of this time.
    For(Duration),
}

impl Job {
    /// The instruction with its places filled: `{system_datetime}`, `{job_name}`, `{workspace}`.
    pub(crate) fn fill(&self, now: jiff::Timestamp, workspace: &str) -> String {
        let now = now.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        let places =
            [("{system_datetime}", now.as_str()), ("{job_name}", &self.name), ("{workspace}", workspace)];
        let mut filled = String::with_capacity(self.instruction.len());
        let mut rest = self.instruction.as_str();
        // In one pass: what was filled in is not looked at again.
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let place = places.iter().find(|(place, _)| rest.starts_with(place));
            let (put, taken) = place.map_or(("{", 1), |(place, value)| (*value, place.len()));
            filled.push_str(put);
            rest = &rest[taken..];
        }
        filled + rest
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    #[test]
    fn places_are_filled_once_and_other_braces_stay() {
        let text = "jobs: [{name: a, schedule: '@daily', instruction: '{job_name} {workspace} {system_datetime} {x} {'}]";
        let jobs = super::super::parse_jobs(text, &TimeZone::UTC).unwrap();
        let now = "2026-02-03T04:05:06Z".parse().unwrap();
        assert_eq!(jobs[0].fill(now, "/w/{job_name}"), "a /w/{job_name} 2026-02-03 04:05:06 UTC {x} {");
    }
}
