use std::{
    collections::HashMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use super::Inner;
use crate::{
    adapter::{Host, Probe},
    process::{Flow, Limits, Output, Stop, Stream},
    run::EndedBy,
};

/// How long the program may take to answer a question.
const LIMIT: Duration = Duration::from_secs(10);

/// How soon a program that did not answer all in time is asked again.
const AGAIN: Duration = Duration::from_secs(60);

/// The answers of the agent's program, asked again when the program was replaced.
#[derive(Default)]
pub(super) struct Prober(Mutex<Option<Answers>>);

struct Answers {
    version: Version,
    flags: Arc<HashMap<String, bool>>,
    /// Some are missing until it is asked again then.
    again: Option<Instant>,
}

/// What tells one version of a program from another without running it.
#[derive(PartialEq, Eq)]
struct Version {
    path: PathBuf,
    modified: (i64, i64),
    size: u64,
}

impl Version {
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self { path: path.to_owned(), modified: (file.mtime(), file.mtime_nsec()), size: file.size() })
    }
}

impl Inner {
    /// Asks now, so that the first run need not wait.
    pub(super) async fn probe(&self) {
        self.flags().await;
    }

    /// Which flags the program knows. Waits for the answers if it was never asked, or was replaced.
    pub(super) async fn flags(&self) -> Arc<HashMap<String, bool>> {
        let host = self.host(&self.config.scratch.path("probe"), Arc::default());
        let probes = self.config.adapter.probes(&host);
        if probes.is_empty() {
            return host.flags;
        }
        // One that is missing knows nothing; the plan will say so.
        let version = self.config.adapter.program(&host).ok().as_deref().and_then(Version::of);
        let Some(version) = version else { return host.flags };
        // Held while asking: others wait for these answers rather than ask too.
        let mut answers = self.prober.0.lock().await;
        let stands = |known: &&Answers| {
            known.version == version && known.again.is_none_or(|again| Instant::now() < again)
        };
        if let Some(known) = answers.as_ref().filter(stands) {
            return known.flags.clone();
        }
        let (flags, all) = self.ask(probes, &host).await;
        let (flags, again) = (Arc::new(flags), (!all).then(|| Instant::now() + AGAIN));
        *answers = Some(Answers { version, flags: flags.clone(), again });
        flags
    }

    /// The flags, and whether every question was answered: half an answer lacks flags that the program knows.
    async fn ask(&self, probes: Vec<Probe>, host: &Host) -> (HashMap<String, bool>, bool) {
        let (mut flags, mut all) = (HashMap::new(), true);
        let limits = Limits { deadline: Some(LIMIT), idle: None };
        for probe in probes {
            let mut launch = probe.launch;
            launch.cwd.clone_from(&host.home);
            match self.config.pool.supervise(launch, limits, &Stop::default(), &mut Ignored).await {
                Ok(exit) if exit.ended_by == EndedBy::Itself => {
                    flags.extend((probe.read)(&(exit.stdout.to_string() + "\n" + &exit.stderr.to_string())))
                }
                // Flags that nobody answered for count as known.
                Ok(exit) => {
                    all = false;
                    tracing::warn!(ended_by = ?exit.ended_by, "the agent did not say in time which flags it knows");
                }
                Err(error) => {
                    all = false;
                    tracing::warn!(%error, "the agent could not be asked for its flags");
                }
            }
        }
        (flags, all)
    }
}

/// The answer is read from what the supervisor keeps of both streams.
struct Ignored;

impl Output for Ignored {
    fn started(&mut self, _pid: i32) {}

    fn feed(&mut self, _stream: Stream, _bytes: &[u8]) -> Flow {
        Flow::Go
    }
}
