use std::sync::Arc;

use aicodebox_engine::{
    engine::StoredEvents,
    run::RunId,
    store::{LoggedEvent, StoreError},
};
use axum::{
    extract::{
        Path as UrlPath, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use tokio::time::timeout;
use tracing::warn;
use utoipa::IntoParams;

use super::{Api, Problem, runs};
use crate::surface::{run_event::EventBody, sse};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only the events after this number; the header `Last-Event-ID` wins.
    #[param(minimum = 0)]
    #[serde(default, deserialize_with = "super::query::number")]
    after: Option<u64>,
}

/// The events of a run, as they come, afterwards, and after a restart
///
/// Server-sent events: `id:` is the event's number, `event:` its name (`status`, `session`, `delta`, `message`,
/// `thinking`, `tool`, `usage`, `notice`, `native`, `truncated`, `outcome`), `data:` the schema `RunEvent`, or for
/// `outcome`, which is always the last, the schema `RunRecord`. An event never changes once it has a number. At most
/// 50,000 events and 64 MiB are kept of a run; what is left out is told by one `truncated` before the outcome.
#[utoipa::path(
    get,
    path = "/run/{id}/events",
    operation_id = "followRun",
    tag = "runs",
    params(
        ("id" = String, Path, description = "The run's id", pattern = "^[0-9a-f]{32}$"),
        EventsQuery,
        (
            "Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]*$",
            description = "Number of the last event that was received; a browser sends nothing here before the first",
        ),
    ),
    responses(
        (status = 200, description = "The events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "There is nothing after that number, and nothing will come"),
        (status = 404, description = "No such run"),
        (status = 422, description = "A bad number"),
        (status = 503, description = "The store cannot be read"),
    ),
)]
pub(crate) async fn follow(
    State(api): State<Api>,
    id: Result<UrlPath<String>, PathRejection>,
    query: Result<Query<EventsQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let UrlPath(id) = id.map_err(|_| Problem::no_such_run())?;
    let Query(query) = query?;
    let after = last_event(&headers)?.or(query.after).unwrap_or_default();
    let record = api.record(&id).await?.ok_or_else(Problem::no_such_run)?;
    if record.outcome_sequence > 0 && after >= record.outcome_sequence {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let events = api.engine().events(record.id).stored(after);
    let feed = Feed { api, id: record.id, after, events, over: false };
    Ok(sse::response(stream::unfold(feed, Feed::next)))
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let mut sent = headers.get_all("last-event-id").iter();
    let Some(value) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err(Problem::unprocessable("Last-Event-ID", "is there more than once"));
    }
    match value.to_str().ok().map(str::trim) {
        // A browser sends an empty one when it has seen none.
        Some("") => Ok(None),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            // More than fits is more than there is.
            Ok(Some(number.parse().unwrap_or(u64::MAX)))
        }
        Some(_) | None => Err(Problem::unprocessable("Last-Event-ID", "must be the number of an event")),
    }
}

/// What a stream has still to send. It is asked for more only when the client has taken what it was given, so one that
/// stops reading holds one portion at most.
struct Feed {
    api: Api,
    id: RunId,
    after: u64,
    events: StoredEvents,
    /// The outcome has been sent.
    over: bool,
}

impl Feed {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        match self.portion().await {
            Ok(portion) => portion.map(|bytes| (bytes, self)),
            Err(error) => {
                // The client comes back with the last number that it has.
                warn!(run = %self.id, %error, "a reader of events was cut off");
                None
            }
        }
    }

    async fn portion(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.over {
            return Ok(None);
        }
        let Ok(batch) = timeout(sse::KEEP_ALIVE, self.events.next()).await else {
            return Ok(Some(Bytes::from_static(sse::KEEP_ALIVE_LINE)));
        };
        let batch = batch?;
        if let Some(last) = batch.last() {
            self.after = last.sequence;
            return Ok(Some(frames(&batch)));
        }
        let Some(record) = self.api.engine().get(self.id).await? else { return Ok(None) };
        if record.outcome_sequence <= self.after {
            return Ok(None);
        }
        let mut out = Vec::new();
        let outcome = runs::answer(&self.api, &record);
        sse::event(&mut out, Some(record.outcome_sequence), "outcome", &outcome);
        self.over = true;
        Ok(Some(out.into()))
    }
}

fn frames(batch: &[Arc<LoggedEvent>]) -> Bytes {
    let mut out = Vec::new();
    for logged in batch {
        let (name, body) = EventBody::new(logged);
        sse::event(&mut out, Some(logged.sequence), name, &body);
    }
    out.into()
}
