use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use aicodebox_engine::{engine::Engine, store::Ledger, workspace::Workspaces};
use jiff::{Timestamp, tz::TimeZone};
use tokio::{
    signal::unix::Signal,
    sync::mpsc,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    CronControl, CronFileError, CronList, CronRefusal, History, Job, JobView,
    clock::{Clock, SystemClock, sleep_until},
    control::Order,
    firing::{Fired, Firing, Means},
    read_jobs,
    timetable::Timetable,
};
use crate::surface::outbox::Outbox;

/// How often the file is looked at. By looking rather than by inotify: a file that is mounted into a container changes
/// without a word.
const LOOK: Duration = Duration::from_secs(2);

/// Jobs that have ended and wait to be noticed.
const ENDINGS: usize = 64;

/// A job, and how its run came to an end.
type Ended = (String, Fired);

/// What a scheduler is built from.
pub(crate) struct CronSetup {
    pub(crate) engine: Engine,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) file: PathBuf,
    pub(crate) history: PathBuf,
    pub(crate) outbox: Option<Outbox>,
    pub(crate) default_chat: Option<i64>,
}

/// Starts jobs when they are due. One task owns all of it, and one timer waits for whatever comes next.
pub(crate) struct Scheduler {
    means: Arc<Means>,
    file: PathBuf,
    zone: TimeZone,
    /// What the file was when it was read.
    seen: Fingerprint,
    /// What is wrong with it now.
    error: Option<String>,
    table: Timetable,
    running: HashMap<String, CancellationToken>,
    ended: mpsc::Sender<Ended>,
    endings: mpsc::Receiver<Ended>,
    orders: mpsc::Receiver<Order>,
    tracker: TaskTracker,
}

/// Changes with the file.
type Fingerprint = Option<(u64, u64, i64, i64)>;

impl Scheduler {
    /// Reads the jobs and what is remembered of them, and marks runs that the last process did not outlive.
    ///
    /// # Errors
    /// When the file is wrong.
    pub(crate) async fn open(setup: CronSetup) -> Result<(Self, CronControl), CronFileError> {
        Self::open_at(setup, Arc::new(SystemClock)).await
    }

    async fn open_at(setup: CronSetup, clock: Arc<dyn Clock>) -> Result<(Self, CronControl), CronFileError> {
        let CronSetup { engine, workspaces, ledger, file, history, outbox, default_chat } = setup;
        let zone = TimeZone::system();
        let (seen, jobs) = read(file.clone(), zone.clone()).await;
        let jobs = jobs?;
        let states = ledger.cron_states().await.unwrap_or_else(|error| {
            tracing::error!(%error, "what the scheduler remembers cannot be read: missed times are not known");
            Vec::new()
        });
        let history = History::new(history);
        let means = Means { engine, workspaces, ledger, history, clock, outbox, default_chat };
        let (control, orders) = CronControl::new();
        let (ended, endings) = mpsc::channel(ENDINGS);
        let mut scheduler = Self {
            means: Arc::new(means),
            file,
            zone,
            seen,
            error: None,
            table: Timetable::default(),
            running: HashMap::new(),
            ended,
            endings,
            orders,
            tracker: TaskTracker::new(),
        };
        let mut states: BTreeMap<_, _> = states.into_iter().collect();
        for (job, state) in &mut states {
            if let Some(directory) = state.running.take() {
                scheduler.interrupted(job.clone(), move |_| Some(directory)).await;
            }
        }
        // A process may die after it has made the directory and before it remembers that: its time is decided again.
        for job in jobs.clone() {
            scheduler.interrupted(job.name.clone(), move |history| history.newest(&job)).await;
        }
        scheduler.table.load(jobs, states, scheduler.now());
        scheduler.store_all().await;
        tracing::info!(jobs = scheduler.table.entries().count(), file = %scheduler.file.display(), "the scheduler is ready");
        Ok((scheduler, control))
    }

    /// Runs until `stop`, then waits until running jobs are written down: the engine ends them. `hangup` = read the
    /// file again.
    pub(crate) async fn run(mut self, stop: CancellationToken, mut hangup: Signal) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let clock = self.means.clock.clone();
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep_until(&*clock, self.table.wake()) => self.fire_due().await,
                Some((job, fired)) = self.endings.recv() => self.job_ended(&job, fired).await,
                Some(order) = self.orders.recv() => self.obey(order).await,
                Some(()) = hangup.recv() => self.reload(true).await,
                _ = look.tick() => self.reload(false).await,
            }
        }
        self.tracker.close();
        let tracker = self.tracker.clone();
        loop {
            tokio::select! {
                biased;
                Some((job, fired)) = self.endings.recv() => self.job_ended(&job, fired).await,
                () = tracker.wait() => break,
            }
        }
    }

    async fn fire_due(&mut self) {
        for due in self.table.due(self.now()) {
            let Some(slot) = due.slot else {
                tracing::warn!(job = due.job, "a time was missed and is passed over");
                self.store(&due.job).await;
                continue;
            };
            if let Some(next) = self.running.get(&due.job) {
                // One that still waits for its workspace gives up, and this one takes its place.
                next.cancel();
                if let Some(state) = self.table.state(&due.job) {
                    state.skipped += 1;
                }
                tracing::warn!(job = due.job, "the job still runs: this time is skipped");
                self.store(&due.job).await;
                continue;
            }
            self.fire(&due.job, Some(slot)).await;
        }
    }

    async fn fire(&mut self, name: &str, slot: Option<Timestamp>) {
        let Some(job) = self.table.get(name).map(|entry| entry.job.clone()) else { return };
        let firing = match Firing::prepare(self.means.clone(), job, slot).await {
            Ok(firing) => firing,
            Err(error) => {
                tracing::error!(job = name, %error, "the job is not run: its history cannot be written");
                self.store(name).await;
                return;
            }
        };
        if let Some(state) = self.table.state(name) {
            state.running = Some(firing.directory().to_owned());
        }
        // Before it starts: whatever happens now, this time will not fire again.
        if !self.store(name).await {
            tracing::error!(job = name, "the job is not run: that it ran could not be remembered");
            return;
        }
        let next = CancellationToken::new();
        self.running.insert(name.to_owned(), next.clone());
        let (ended, name) = (self.ended.clone(), name.to_owned());
        self.tracker.spawn(async move {
            let fired = firing.run(next).await;
            // The scheduler may have gone.
            let _gone = ended.send((name, fired)).await;
        });
    }

    async fn job_ended(&mut self, job: &str, fired: Fired) {
        let token = self.running.remove(job);
        if let Some(state) = self.table.state(job) {
            state.running = None;
        }
        self.store(job).await;
        // The time that made it give up has come and gone; it is that one's turn.
        if fired == Fired::Skipped
            && token.is_some_and(|token| token.is_cancelled())
            && !self.means.engine.draining()
        {
            self.fire(job, Some(self.now())).await;
        }
    }

    async fn obey(&mut self, order: Order) {
        // Whoever asked may have gone.
        match order {
            Order::List(answer) => _ = answer.send(self.list().await),
            Order::Run(job, answer) => {
                let done = if self.table.get(&job).is_none() {
                    Err(CronRefusal::Unknown)
                } else if self.running.contains_key(&job) {
                    Err(CronRefusal::Running)
                } else {
                    self.fire(&job, None).await;
                    Ok(())
                };
                _ = answer.send(done);
            }
            Order::Pause(job, paused, answer) => {
                let known = self.table.pause(&job, paused, self.now());
                if known {
                    self.store(&job).await;
                }
                _ = answer.send(known.then_some(()).ok_or(CronRefusal::Unknown));
            }
        }
    }

    async fn list(&self) -> CronList {
        let history = self.means.history.clone();
        let names: Vec<_> = self.table.entries().map(|entry| entry.job.name.clone()).collect();
        let last = spawn_blocking(move || names.iter().map(|name| history.last(name)).collect::<Vec<_>>());
        let last = last.await.unwrap_or_default();
        let views = self.table.entries().zip(last).map(|(entry, last)| {
            let zone = entry.job.schedule.zone();
            JobView {
                name: entry.job.name.clone(),
                schedule: entry.job.schedule_text.clone(),
                timezone: zone.iana_name().unwrap_or("local").to_owned(),
                enabled: entry.job.enabled,
                paused: entry.state.paused,
                running: self.running.contains_key(&entry.job.name),
                next: entry
                    .next
                    .map(|next| next.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()),
                skipped: entry.state.skipped,
                missed: entry.state.missed,
                last,
            }
        });
        CronList { file: self.file.display().to_string(), error: self.error.clone(), jobs: views.collect() }
    }

    /// Reads the file again, when it has changed or when it is asked. A wrong one changes nothing but what is said.
    async fn reload(&mut self, asked: bool) {
        let path = self.file.clone();
        let now = spawn_blocking(move || fingerprint(&path)).await.unwrap_or_default();
        if !asked && now == self.seen {
            return;
        }
        let (seen, jobs) = read(self.file.clone(), self.zone.clone()).await;
        self.seen = seen;
        match jobs {
            Ok(jobs) => {
                self.error = None;
                self.table.load(jobs, BTreeMap::new(), self.now());
                self.store_all().await;
                tracing::info!(jobs = self.table.entries().count(), "the jobs were read again");
            }
            Err(error) => {
                tracing::error!(file = %self.file.display(), %error, "the file of jobs is wrong: the old jobs stay");
                self.error = Some(error.to_string());
            }
        }
    }

    /// Marks a run of the job that the last process did not outlive, if the one that is found is such a run.
    async fn interrupted(
        &self,
        job: String,
        find: impl FnOnce(&History) -> Option<PathBuf> + Send + 'static,
    ) {
        let (history, now) = (self.means.history.clone(), self.now());
        let marked = spawn_blocking(move || {
            let Some(directory) = find(&history) else { return Ok(()) };
            if history.interrupted(&job, &directory, now)? {
                let directory = directory.display();
                tracing::warn!(job, %directory, "a job was interrupted when the last process ended");
            }
            Ok(())
        });
        if let Err(error) = marked.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            tracing::error!(%error, "an interrupted job could not be marked");
        }
    }

    async fn store_all(&self) {
        let names: Vec<_> = self.table.entries().map(|entry| entry.job.name.clone()).collect();
        for name in names {
            self.store(&name).await;
        }
    }

    /// Whether it is written.
    async fn store(&self, job: &str) -> bool {
        let Some(entry) = self.table.get(job) else { return true };
        let kept = self.means.ledger.keep_cron_state(job.to_owned(), entry.state.clone()).await;
        kept.inspect_err(|error| tracing::error!(job, %error, "the state of a job cannot be stored")).is_ok()
    }

    fn now(&self) -> Timestamp {
        self.means.clock.now()
    }
}

async fn read(file: PathBuf, zone: TimeZone) -> (Fingerprint, Result<Vec<Job>, CronFileError>) {
    let path = file.clone();
    let reading = spawn_blocking(move || (fingerprint(&path), read_jobs(&path, &zone)));
    reading
        .await
        .unwrap_or_else(|error| (None, Err(CronFileError::Unreadable { path: file, why: error.to_string() })))
}

fn fingerprint(path: &Path) -> Fingerprint {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}
