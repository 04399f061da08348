use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use aicodebox_engine::{
    engine::Engine,
    store::{CronState, Ledger},
    workspace::Workspaces,
};
use jiff::{Timestamp, tz::TimeZone};
use tokio::{
    signal::unix::Signal,
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    CronControl, CronFileError, CronList, CronRefusal, History, Job, JobView,
    clock::{Clock, SystemClock, sleep_until},
    control::Order,
    firing::{Fired, Firing, Means},
    notice::Notifier,
    read_jobs,
    timetable::Timetable,
};
use crate::surface::outbox::Outbox;

/// How often the file is looked at. By looking rather than by inotify: a file that is mounted into a container changes
/// without a word.
const LOOK: Duration = Duration::from_secs(2);

/// Jobs that have ended and wait to be noticed.
const ENDINGS: usize = 64;

/// How long notices may still take when the server goes down and all runs have ended.
const DRAIN: Duration = Duration::from_secs(1);
/// How long it may take to write down which of them were not delivered.
const REST: Duration = Duration::from_millis(500);

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
    /// Runs, and the delivery of their notices.
    tracker: TaskTracker,
    /// What is not delivered now will not be.
    last_call: CancellationToken,
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
        let mut states = kept_states(&*ledger).await;
        let history = History::new(history);
        let notifier = outbox.map(|outbox| Notifier::new(outbox, default_chat, history.clone()));
        let means = Means { engine, workspaces, ledger, history, clock, notifier };
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
            last_call: CancellationToken::new(),
        };
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

    /// Runs until `going` ends, then waits until running jobs are written down, at most until 1.5 s after `stop`: the
    /// engine has ended them by then. `hangup` = read the file again.
    pub(crate) async fn run(mut self, going: CancellationToken, stop: CancellationToken, mut hangup: Signal) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let clock = self.means.clock.clone();
            tokio::select! {
                () = going.cancelled() => break,
                () = sleep_until(&*clock, self.table.wake()) => self.fire_due().await,
                Some((job, fired)) = self.endings.recv() => self.job_ended(&job, fired).await,
                Some(order) = self.orders.recv() => self.obey(order).await,
                Some(()) = hangup.recv() => self.reload(true).await,
                _ = look.tick() => self.reload(false).await,
            }
        }
        self.tracker.close();
        let tracker = self.tracker.clone();
        let mut late = std::pin::pin!(async {
            stop.cancelled().await;
            sleep(DRAIN).await;
        });
        loop {
            tokio::select! {
                biased;
                Some((job, fired)) = self.endings.recv() => self.job_ended(&job, fired).await,
                () = tracker.wait() => return,
                () = &mut late => break,
            }
        }
        self.last_call.cancel();
        if timeout(REST, tracker.wait()).await.is_err() {
            tracing::error!(
                left = tracker.len(),
                "some jobs or their notices could not be written down in time"
            );
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
            // The log says why a job is not started; its next time comes.
            let _logged = self.fire(&due.job, Some(slot)).await;
        }
    }

    /// Starts a job.
    ///
    /// # Errors
    /// Why it is not started; the log says so as well.
    async fn fire(&mut self, name: &str, slot: Option<Timestamp>) -> Result<(), CronRefusal> {
        let job = self.table.get(name).map(|entry| entry.job.clone()).ok_or(CronRefusal::Unknown)?;
        let firing = match Firing::prepare(self.means.clone(), job, slot).await {
            Ok(firing) => firing,
            Err(error) => {
                tracing::error!(job = name, %error, "the job is not run: its history cannot be written");
                self.store(name).await;
                let why = format!("the job was not started: its history cannot be written: {error}");
                return Err(CronRefusal::Failed(why));
            }
        };
        if let Some(state) = self.table.state(name) {
            state.running = Some(firing.directory().to_owned());
        }
        // Before it starts: whatever happens now, this time will not fire again.
        if !self.store(name).await {
            if let Some(state) = self.table.state(name) {
                state.running = None;
            }
            let why = "the job was not started: that it runs could not be stored";
            tracing::error!(job = name, why);
            firing.failed(why).await;
            return Err(CronRefusal::Failed(why.to_owned()));
        }
        let next = CancellationToken::new();
        self.running.insert(name.to_owned(), next.clone());
        let (means, last_call) = (self.means.clone(), self.last_call.clone());
        let (ended, name) = (self.ended.clone(), name.to_owned());
        self.tracker.spawn(async move {
            let (fired, notice) = firing.run(next).await;
            // The scheduler may have gone.
            let _gone = ended.send((name, fired)).await;
            if let (Some(notice), Some(notifier)) = (notice, &means.notifier) {
                notifier.deliver(notice, &last_call).await;
            }
        });
        Ok(())
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
            let _logged = self.fire(job, Some(self.now())).await;
        }
    }

    async fn obey(&mut self, order: Order) {
        // Whoever asked may have gone.
        match order {
            Order::List(answer) => self.list(answer),
            Order::Run(job, answer) => {
                let done = if self.running.contains_key(&job) {
                    Err(CronRefusal::Running)
                } else {
                    self.fire(&job, None).await
                };
                _ = answer.send(done);
            }
            Order::Pause(job, paused, answer) => {
                let done = if !self.table.pause(&job, paused, self.now()) {
                    Err(CronRefusal::Unknown)
                } else if self.store(&job).await {
                    Ok(())
                } else {
                    let why = "this could not be stored: it lasts until the next start only";
                    Err(CronRefusal::Failed(why.to_owned()))
                };
                _ = answer.send(done);
            }
        }
    }

    /// The disk is asked for the last runs elsewhere: it may take long, and jobs are due.
    fn list(&self, answer: oneshot::Sender<CronList>) {
        let views = self.table.entries().map(|entry| {
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
                last: None,
            }
        });
        let mut list = CronList {
            file: self.file.display().to_string(),
            error: self.error.clone(),
            jobs: views.collect(),
        };
        let history = self.means.history.clone();
        spawn_blocking(move || {
            for job in &mut list.jobs {
                job.last = history.last(&job.name);
            }
            // Whoever asked may have gone.
            let _gone = answer.send(list);
        });
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
                let now = self.now();
                // A job that comes back is still paused, if it was; its times begin now.
                let mut kept = kept_states(&*self.means.ledger).await;
                kept.values_mut().for_each(|state| state.decided = now.as_millisecond());
                self.table.load(jobs, kept, now);
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

async fn kept_states(ledger: &dyn Ledger) -> BTreeMap<String, CronState> {
    let states = ledger.cron_states().await.unwrap_or_else(|error| {
        tracing::error!(%error, "what the scheduler remembers cannot be read: pauses and missed times are not known");
        Vec::new()
    });
    states.into_iter().collect()
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
