use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, Request, State, rejection::PathRejection},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use serde_json::json;

use super::{
    chats::{Begun, Chats},
    error::ApiError,
    headers::Headers,
    request::ChatRequest,
    response::{Answer, Completion, UsagePart},
    responses::{ResponseObject, ResponsesRequest},
};
use crate::{
    config::{Access, ApiConfig},
    surface::{
        callers::Callers,
        http::{self, read_json},
        sse,
        token::{Token, bearer},
    },
};

/// The routes, below `/v1` and `/openai/v1`. Every path there answers errors in OpenAI's shape, also those that lead
/// nowhere.
pub(crate) fn routes(chats: Chats, config: &ApiConfig) -> Router {
    let below = Router::new()
        .route("/models", get(list_models))
        .route("/models/{*id}", get(show_model))
        .route("/chat/completions", post(complete))
        .route("/responses", post(respond))
        .route("/", any(unknown_path))
        .route("/{*path}", any(unknown_path))
        .method_not_allowed_fallback(wrong_method)
        .with_state(chats);
    let routes = ["/v1", "/openai/v1"].into_iter().fold(Router::new(), |routes, prefix| {
        // Nesting leaves out the prefix with a slash and nothing behind it.
        routes.nest(prefix, below.clone()).route(&format!("{prefix}/"), any(unknown_path))
    });
    match (&config.access, http::callers(config)) {
        (Access::Token(token), _) => routes.layer(from_fn_with_state(Token::new(token), require)),
        (Access::Open, Some(callers)) => routes.layer(from_fn_with_state(callers, admit)),
        (Access::Open, None) => routes,
    }
}

/// Lets a request through that comes from this machine.
async fn admit(State(callers): State<Arc<Callers>>, request: Request, next: Next) -> Response {
    match callers.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(stranger) => {
            let (status, message) = http::refusal(stranger);
            ApiError::new(status, None, message).into_response()
        }
    }
}

async fn require(State(token): State<Token>, request: Request, next: Next) -> Response {
    let (code, message) = match bearer(request.headers()) {
        Some(candidate) if token.matches(candidate) => return next.run(request).await,
        Some(_) => ("invalid_api_key", "the bearer token is wrong"),
        None => ("missing_api_key", "a bearer token is needed: send `Authorization: Bearer <token>`"),
    };
    let mut response = ApiError::new(StatusCode::UNAUTHORIZED, Some(code), message).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

async fn unknown_path() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, Some("unknown_url"), "there is nothing at this path")
}

/// The router adds `Allow`.
async fn wrong_method(method: Method) -> ApiError {
    let message = format!("{method} is not allowed here");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, Some("method_not_allowed"), message)
}

/// `GET /models`.
async fn list_models(State(chats): State<Chats>) -> Response {
    Json(json!({"object": "list", "data": chats.models().list()})).into_response()
}

/// `GET /models/{id}`; an id may hold slashes.
async fn show_model(
    State(chats): State<Chats>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::invalid("id", error))?;
    let model = chats.models().find(&id).ok_or_else(|| ApiError::no_such_model(&id))?;
    Ok(Json(model).into_response())
}

/// `POST /chat/completions`. When the client leaves, hyper drops this future or the stream that it gave: the run's
/// handle goes with it, which cancels the run, queued or not.
async fn complete(State(chats): State<Chats>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let mut headers = Headers::read(&parts.headers)?;
    let (schema, detach) = (headers.json_schema.take(), headers.detach);
    let asides = headers.asides.unwrap_or(chats.asides());
    let bytes = read_json(&parts.headers, body, chats.max_body()).await?;
    // Boxed: it is large, and may become a task.
    let accepting = Box::pin({
        let chats = chats.clone();
        async move {
            let request =
                Chats::read(bytes, move |body| ChatRequest::from_object(body, schema, asides)).await?;
            let request = Arc::new(request);
            let begun = chats.begin(&request, headers, "chatcmpl-").await?;
            Ok((request, begun))
        }
    });
    let (request, mut begun) = chats.accept(detach, accepting).await?;
    let extra = std::mem::take(&mut begun.headers);
    let answered = match request.stream {
        None => whole(&chats, begun).await,
        Some(options) => {
            let mut stream = chats.stream(begun, options);
            stream.until_first().await.map(|()| sse::response(stream.pieces()))
        }
    };
    let mut response = answered.unwrap_or_else(ApiError::into_response);
    response.headers_mut().extend(extra);
    Ok(response)
}

async fn whole(chats: &Chats, mut begun: Begun) -> Result<Response, ApiError> {
    let outcome = chats.outcome(&mut begun).await?;
    let answer = Answer::new(&outcome, begun.shape);
    let usage = UsagePart::new(&outcome, begun.prompt_bytes, &answer);
    Ok(Json(Completion::new(&begun.head, &answer, usage, &outcome)).into_response())
}

/// `POST /responses`.
async fn respond(State(chats): State<Chats>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let mut headers = Headers::read(&parts.headers)?;
    let (schema, detach) = (headers.json_schema.take(), headers.detach);
    let asides = headers.asides.unwrap_or(chats.asides());
    let bytes = read_json(&parts.headers, body, chats.max_body()).await?;
    // Boxed: it is large, and may become a task.
    let accepting = Box::pin({
        let chats = chats.clone();
        async move {
            let request =
                Chats::read(bytes, move |body| ResponsesRequest::read(body, schema, asides)).await?;
            let begun = chats.begin(&request.chat, headers, "resp_").await;
            Ok((begun.map_err(|error| request.explain(error))?, request))
        }
    });
    let (mut begun, request) = chats.accept(detach, accepting).await?;
    let extra = std::mem::take(&mut begun.headers);
    let answered = chats.outcome(&mut begun).await.map(|outcome| {
        let answer = Answer::new(&outcome, begun.shape);
        let usage = UsagePart::new(&outcome, begun.prompt_bytes, &answer);
        Json(ResponseObject::new(&begun.head, &request, answer, usage)).into_response()
    });
    let mut response = answered.unwrap_or_else(|error| request.explain(error).into_response());
    response.headers_mut().extend(extra);
    Ok(response)
}
