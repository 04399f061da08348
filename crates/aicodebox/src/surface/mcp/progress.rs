use std::time::Duration;

use aicodebox_engine::{
    engine::{Events, LiveEvents},
    run::{RunEvent, ToolPhase},
};
use futures_util::FutureExt;
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
/// How often events are asked for per report; each time there are at most about 64 KiB.
const PORTIONS: usize = 16;

/// Tells the client of a call how its run goes: the seconds that it has taken, and what it does.
pub(super) struct Progress {
    /// What the client knows this call by, and what happens in the run; `None` when it has not asked to be told.
    wanted: Option<(ProgressToken, LiveEvents)>,
    begun: Instant,
    ticks: Interval,
    doing: String,
}

impl Progress {
    pub(super) fn new(context: &RequestContext<RoleServer>, events: Events) -> Self {
        let begun = Instant::now();
        let mut ticks = interval_at(begun + FIRST, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let wanted = context.meta.get_progress_token().map(|token| (token, events.live()));
        Self { wanted, begun, ticks, doing: "working".into() }
    }

    /// Waits until the client is to be told, for ever when it has not asked for it. Cancel-safe.
    pub(super) async fn due(&mut self) {
        if self.wanted.is_none() {
            return std::future::pending().await;
        }
        self.ticks.tick().await;
    }

    /// Tells it. Returns when the message is on its way, so that none follows the answer.
    pub(super) async fn tell(&mut self, context: &RequestContext<RoleServer>) {
        self.look();
        let Some((token, _)) = &self.wanted else { return };
        let taken = self.begun.elapsed().as_secs_f64();
        let message = format!("{}, {taken:.0} s", self.doing);
        let progress = ProgressNotificationParam::new(token.clone(), taken).with_message(message);
        if let Err(error) = context.peer.notify_progress(progress).await {
            tracing::debug!(%error, "a progress message could not be sent");
        }
    }

    /// Finds out what the agent does: the tool that it called last, until that has answered.
    fn look(&mut self) {
        let Some((_, events)) = &mut self.wanted else { return };
        for _ in 0..PORTIONS {
            // Only what is there already: nobody waits here.
            let Some(Ok(portion)) = events.next().now_or_never() else { return };
            if portion.is_empty() {
                return;
            }
            for logged in portion {
                if let RunEvent::Tool(tool) = &logged.event {
                    self.doing = match (tool.phase, &tool.name) {
                        (ToolPhase::Start, Some(name)) => {
                            format!("using {}", name.chars().take(100).collect::<String>())
                        }
                        (ToolPhase::Start | ToolPhase::End | ToolPhase::Both, _) => "working".into(),
                    };
                }
            }
        }
    }
}
