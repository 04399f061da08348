//! The HTTP API.
//!
//! [`router()`] is all of it as one service and [`serve()`] puts that on a socket. A request goes through request id and
//! log ([`request_id`]), CORS and token ([`auth`]); handlers answer with their own JSON or with a [`Problem`]. The
//! handler of a synchronous run owns the run's handle: when the client leaves ([`socket`]), the handler is dropped, and
//! with it the handle, which cancels the run. A request that is answered before its body was read is read to its end
//! all the same ([`inflow`]).

mod api;
mod auth;
mod body;
mod conditions;
mod cron;
mod events;
mod files;
mod health;
mod idempotency;
mod inflow;
mod local;
mod long_answer;
mod metrics;
mod openapi;
mod problem;
mod query;
mod range;
mod request_id;
mod router;
mod routes;
mod run;
mod run_request;
mod runs;
mod server;
mod socket;
mod status;

pub(crate) use api::Api;
pub(crate) use body::read_json;
pub(crate) use local::{callers, refusal};
pub(crate) use problem::Problem;
pub(crate) use router::{alone, router};
pub(crate) use server::serve;
