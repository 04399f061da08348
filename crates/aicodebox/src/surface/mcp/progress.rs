use std::time::Duration;

use aicodebox_engine::{
    run::{RunEvent, ToolPhase},
    store::EventLog,
};
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// How often a client that asked for it is told that the agent still works: clients give up on a call that is silent
/// for a minute, some after a few seconds.
const EVERY: Duration = Duration::from_secs(2);
/// The first word comes sooner, so that a client knows that the call has arrived.
const FIRST: Duration = Duration::from_millis(250);
/// How many events are looked at per report.
const EVENTS: usize = 1_000;

/// Tells the client of a call how its run goes: the seconds that it has taken, and what it does.
pub(super) struct Progress {
    token: Option<ProgressToken>,
    begun: Instant,
    ticks: Interval,
    seen: u64,
    doing: String,
}

impl Progress {
    pub(super) fn new(context: &RequestContext<RoleServer>) -> Self {
        let begun = Instant::now();
        let mut ticks = interval_at(begun + FIRST, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let token = context.meta.get_progress_token();
        Self { token, begun, ticks, seen: 0, doing: "working".into() }
    }

    /// Waits until the client is to be told, for ever when it has not asked for it. Cancel-safe.
    pub(super) async fn due(&mut self) {
        if self.token.is_none() {
            return std::future::pending().await;
        }
        self.ticks.tick().await;
    }

    /// Tells it. Returns when the message is on its way, so that none follows the answer.
    pub(super) async fn tell(&mut self, context: &RequestContext<RoleServer>, log: &EventLog) {
        let Some(token) = self.token.clone() else { return };
        self.look(log);
        let taken = self.begun.elapsed().as_secs_f64();
        let message = format!("{}, {taken:.0} s", self.doing);
        let progress = ProgressNotificationParam::new(token, taken).with_message(message);
        if let Err(error) = context.peer.notify_progress(progress).await {
            tracing::debug!(%error, "a progress message could not be sent");
        }
    }

    /// Finds out what the agent does: the tool that it called last, until that has answered.
    fn look(&mut self, log: &EventLog) {
        for logged in log.after(self.seen, EVENTS) {
            self.seen = logged.sequence;
            if let RunEvent::Tool(tool) = logged.event {
                self.doing = match (tool.phase, tool.name) {
                    (ToolPhase::Start, Some(name)) => {
                        format!("using {}", name.chars().take(100).collect::<String>())
                    }
                    (ToolPhase::Start | ToolPhase::End | ToolPhase::Both, _) => "working".into(),
                };
            }
        }
    }
}
