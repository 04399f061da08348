use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Api, cron, events, health, metrics, openapi, run, runs, status};

/// What needs the token, with its description.
pub(super) fn guarded() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(run::start))
        .routes(routes!(run::result))
        .routes(routes!(runs::show, run::cancel))
        .routes(routes!(events::follow))
        .routes(routes!(runs::list))
        .routes(routes!(status::show))
        .routes(routes!(cron::list))
        .routes(routes!(cron::run))
        .routes(routes!(cron::pause))
        .routes(routes!(cron::resume))
}

/// The probes, which anybody may ask, with their description.
pub(super) fn probes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
}

/// What anybody may read, with its description.
pub(super) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(openapi::show)).routes(routes!(openapi::docs))
}

/// What needs the token unless it is made public, with its description.
pub(super) fn measured() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(metrics::show))
}
