use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt};
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::server_side_http::ServerSseMessage,
        streamable_http_server::session::{
            SessionId, SessionManager,
            local::{LocalSessionManager, LocalSessionManagerError, SessionConfig},
        },
    },
};

/// Sessions at the same time. One more takes the place of the one that has been idle for longest.
const MAX_SESSIONS: usize = 1_024;
/// How long a client may take from its first request to its introduction.
const INTRODUCTION: Duration = Duration::from_secs(60);

/// The sessions of the 2025 revisions, bounded in number. One that has had no open stream for too long is given up when
/// another one begins.
///
/// rmcp's own limit of idle time counts messages, so that it ends a session, and the run in it, whose agent works
/// quietly for five minutes. Here a session with an open stream is never idle.
#[derive(Debug)]
pub(super) struct Sessions {
    local: LocalSessionManager,
    known: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// What is too long.
    idle: Duration,
}

#[derive(Debug)]
struct Session {
    /// Open streams, and when there last was one.
    use_: Mutex<(usize, Instant)>,
}

/// No session can be begun.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error("all {MAX_SESSIONS} sessions are in use")]
    Full,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl Sessions {
    /// No sessions yet; `idle` = how long one stays without an open stream.
    pub(super) fn new(idle: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        let mut config = SessionConfig::default();
        config.keep_alive = None;
        config.init_timeout = Some(INTRODUCTION);
        // A dropped response cancels its call, so there is nothing to come back for.
        config.sse_retry = None;
        config.completed_cache_ttl = Duration::ZERO;
        local.session_config = config;
        Self { local, known: Mutex::default(), idle }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note that the session is in use, until what this gives is dropped.
    fn enter(&self, id: &SessionId) -> Option<InUse> {
        let session = self.known().get(id)?.clone();
        session.change(|open| open + 1);
        Some(InUse(session))
    }

    /// Takes out the sessions that are to make room for another one.
    ///
    /// # Errors
    /// When there is no room and all are in use.
    fn outdated(&self) -> Result<Vec<SessionId>, SessionsError> {
        let mut known = self.known();
        let mut idle: Vec<_> =
            known.iter().filter_map(|(id, session)| Some((session.idle()?, id.clone()))).collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        let too_many = (known.len() + 1).saturating_sub(MAX_SESSIONS);
        if idle.len() < too_many {
            return Err(SessionsError::Full);
        }
        let outdated: Vec<_> = idle
            .into_iter()
            .enumerate()
            .filter(|(place, (since, _))| *place < too_many || since.elapsed() >= self.idle)
            .map(|(_, (_, id))| id)
            .collect();
        for id in &outdated {
            known.remove(id);
        }
        Ok(outdated)
    }
}

impl Session {
    fn new() -> Self {
        Self { use_: Mutex::new((0, Instant::now())) }
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let mut used = self.use_.lock().unwrap_or_else(PoisonError::into_inner);
        *used = (change(used.0), Instant::now());
    }

    /// Since when; `None` while a stream is open.
    fn idle(&self) -> Option<Instant> {
        let used = self.use_.lock().unwrap_or_else(PoisonError::into_inner);
        (used.0 == 0).then_some(used.1)
    }
}

struct InUse(Arc<Session>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.change(|open| open.saturating_sub(1));
    }
}

/// The stream, which keeps its session in use.
fn held<S: Stream>(stream: S, held: Option<InUse>) -> impl Stream<Item = S::Item> {
    stream.map(move |message| {
        let _ = &held;
        message
    })
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        for id in self.outdated()? {
            self.local.close_session(&id).await?;
        }
        let (id, transport) = self.local.create_session().await?;
        self.known().insert(id.clone(), Arc::new(Session::new()));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.known().remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.enter(id);
        Ok(held(self.local.create_stream(id, message).await?, in_use))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        let _in_use = self.enter(id);
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.enter(id);
        Ok(held(self.local.create_standalone_stream(id).await?, in_use))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.enter(id);
        Ok(held(self.local.resume(id, last_event_id).await?, in_use))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_in_use_keeps_its_place_and_an_idle_one_makes_room() {
        let sessions = Sessions::new(Duration::from_secs(60));
        let mut transports = Vec::new();
        let (first, transport) = sessions.create_session().await.unwrap();
        transports.push(transport);
        let in_use = sessions.enter(&first).unwrap();
        let (second, transport) = sessions.create_session().await.unwrap();
        transports.push(transport);
        for _ in 2..MAX_SESSIONS {
            transports.push(sessions.create_session().await.unwrap().1);
        }
        transports.push(sessions.create_session().await.unwrap().1);
        assert!(sessions.has_session(&first).await.unwrap());
        assert!(!sessions.has_session(&second).await.unwrap());

        drop(in_use);
        // The first one was in use until just now, so the third goes.
        transports.push(sessions.create_session().await.unwrap().1);
        assert!(sessions.has_session(&first).await.unwrap());

        let ids: Vec<_> = sessions.known().keys().cloned().collect();
        let all: Vec<_> = ids.iter().map(|id| sessions.enter(id)).collect();
        assert!(matches!(sessions.create_session().await, Err(SessionsError::Full)));
        drop(all);
        assert!(sessions.create_session().await.is_ok());
    }
}
