//! `/files`: the workspaces' files. Bodies are streamed both ways, so that a file of any size costs no memory.

use aicodebox_engine::workspace::{FileError, Found, OpenFile, Written};
use axum::{
    Json,
    body::{Body, HttpBody},
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use http_body_util::BodyExt;

use super::{Api, Problem, conditions, range::Range};
use crate::surface::{
    body::{BodyError, require_plain},
    file_answer::{DoneAnswer, ListingAnswer},
};

type UrlPath = Result<Path<String>, PathRejection>;

/// The root
#[utoipa::path(
    get,
    path = "/files",
    operation_id = "listRoot",
    tag = "files",
    responses((status = 200, description = "What is in it", body = ListingAnswer)),
)]
pub(crate) async fn root(State(api): State<Api>, headers: HeaderMap) -> Result<Response, Problem> {
    show(&api, "", &headers).await
}

/// A directory's listing, or a file
///
/// `HEAD` gives the same without the body. `Range`, `If-Range`, `If-Match` and `If-None-Match` are honoured.
#[utoipa::path(
    get,
    path = "/files/{path}",
    operation_id = "getFile",
    tag = "files",
    params(("path" = String, Path, description = "Below the root; may hold slashes")),
    responses(
        (status = 200, description = "The listing, or the bytes", content(
            (ListingAnswer = "application/json"),
            (String = "*/*"),
        )),
        (status = 206, description = "The part of the file that was asked for", content((String = "*/*"))),
        (status = 304, description = "The file is still the same"),
        (status = 400, description = "The path leads out of the root, or to what is neither a file nor a directory"),
        (status = 403, description = "The file system does not allow it"),
        (status = 404, description = "There is nothing"),
        (status = 412, description = "`If-Match` does not hold"),
        (status = 416, description = "The file has none of the range"),
        (status = 500, description = "The file system failed"),
    ),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    path: UrlPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    show(&api, &named(path)?, &headers).await
}

async fn show(api: &Api, path: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    match api.files().find(path).await? {
        Found::Directory(listing) => Ok(Json(ListingAnswer::from(listing)).into_response()),
        Found::File(file) => send(file, headers),
    }
}

/// Write a file
///
/// The body becomes the file, none an empty one; missing directories are made. `If-Match` and `If-None-Match: *` are
/// honoured, `Content-Range` and `Content-Encoding` are refused.
#[utoipa::path(
    put,
    path = "/files/{path}",
    operation_id = "putFile",
    tag = "files",
    params(("path" = String, Path, description = "Below the root; may hold slashes")),
    request_body(content = Option<Vec<u8>>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "It is written", body = DoneAnswer),
        (status = 400, description = "The path leads out of the root, or is no file's; or only a part of it was sent"),
        (status = 403, description = "The file system does not allow it"),
        (status = 404, description = "A link on the way leads nowhere"),
        (status = 412, description = "A condition does not hold"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is encoded"),
        (status = 500, description = "The file system failed"),
        (status = 507, description = "The disk or a quota is full"),
    ),
)]
pub(crate) async fn put(
    State(api): State<Api>,
    path: UrlPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let written = receive(&api, path, &headers, body).await?;
    let tag = value(&written.tag);
    Ok(([(header::ETAG, tag)], Json(DoneAnswer::written(written))).into_response())
}

async fn receive(api: &Api, path: UrlPath, headers: &HeaderMap, mut body: Body) -> Result<Written, Problem> {
    let (path, limit) = (named(path)?, api.max_body() as u64);
    require_plain(headers)?;
    if headers.contains_key(header::CONTENT_RANGE) {
        // The part would become the file (RFC 9110, 14.5).
        let detail = "a part of a file cannot be written: send all of it";
        return Err(Problem::field(StatusCode::BAD_REQUEST, "Content-Range", detail));
    }
    if body.size_hint().lower() > limit {
        return Err(FileError::TooLarge { path, limit }.into());
    }
    let mut upload = api.files().write(&path, limit, conditions::of_change(headers)).await?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(error.into()))?;
        if let Some(bytes) = frame.data_ref() {
            upload.push(bytes).await?;
        }
    }
    Ok(upload.finish().await?)
}

/// Delete a file
///
/// A link is deleted, and not what it leads to; a directory is not. `If-Match` is honoured.
#[utoipa::path(
    delete,
    path = "/files/{path}",
    operation_id = "deleteFile",
    tag = "files",
    params(("path" = String, Path, description = "Below the root; may hold slashes")),
    responses(
        (status = 200, description = "It is gone", body = DoneAnswer),
        (status = 400, description = "The path leads out of the root, or to a directory"),
        (status = 403, description = "The file system does not allow it"),
        (status = 404, description = "There is nothing"),
        (status = 412, description = "A condition does not hold"),
        (status = 500, description = "The file system failed"),
    ),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    path: UrlPath,
    headers: HeaderMap,
) -> Result<Json<DoneAnswer>, Problem> {
    let deleted = api.files().delete(&named(path)?, conditions::of_change(&headers)).await?;
    Ok(Json(DoneAnswer::deleted(deleted)))
}

fn named(path: UrlPath) -> Result<String, Problem> {
    let Path(path) = path.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.body_text()))?;
    Ok(path)
}

/// The file, or the part of it that is asked for, or that it has not changed.
fn send(file: OpenFile, headers: &HeaderMap) -> Result<Response, Problem> {
    conditions::require_unchanged(headers, &file)?;
    let (status, start, end) = if conditions::known(headers, &file.tag) {
        (StatusCode::NOT_MODIFIED, 0, 0)
    } else {
        match Range::of(headers, &file) {
            Range::Whole => (StatusCode::OK, 0, file.size),
            Range::Part { start, end } => (StatusCode::PARTIAL_CONTENT, start, end),
            Range::Beyond => return Ok(beyond(&file)),
        }
    };
    let mut answer = HeaderMap::from_iter([
        (header::ETAG, value(&file.tag)),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        // An agent's web page must not become a page of this server, which could then call it.
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
    ]);
    if status == StatusCode::NOT_MODIFIED {
        // That of the file, or none; the router would say 0.
        answer.insert(header::CONTENT_LENGTH, file.size.into());
        return Ok((status, answer).into_response());
    }
    answer.insert(header::CONTENT_TYPE, content_type(&file.path));
    answer.insert(header::CONTENT_LENGTH, (end - start).into());
    if status == StatusCode::PARTIAL_CONTENT {
        answer.insert(header::CONTENT_RANGE, value(&format!("bytes {start}-{}/{}", end - 1, file.size)));
    }
    Ok((status, answer, body(file, start, end)).into_response())
}

fn beyond(file: &OpenFile) -> Response {
    let detail = format!("the file has {} bytes: {}", file.size, file.path);
    let whole = value(&format!("bytes */{}", file.size));
    let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, detail);
    ([(header::CONTENT_RANGE, whole)], problem).into_response()
}

/// The bytes as the client takes them. A file that has become shorter meanwhile ends the connection: a short answer
/// must not look like a whole one.
fn body(file: OpenFile, start: u64, end: u64) -> Body {
    Body::from_stream(stream::try_unfold((file, start), move |(file, at)| async move {
        if at >= end {
            return Ok::<_, FileError>(None);
        }
        let bytes = file.chunk(at, end).await?;
        let next = at + bytes.len() as u64;
        Ok(Some((bytes, (file, next))))
    }))
}

fn content_type(path: &str) -> HeaderValue {
    let guessed = mime_guess::from_path(path).first_or_octet_stream();
    let text = guessed.type_() == mime_guess::mime::TEXT;
    value(&if text { format!("{guessed}; charset=utf-8") } else { guessed.to_string() })
}

/// What we make ourselves is always a header's value.
fn value(text: &str) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::Absolute(_)
            | FileError::Escapes(_)
            | FileError::BadName(_)
            | FileError::IsDirectory(_)
            | FileError::NotADirectory(_)
            | FileError::NotRegular(_) => StatusCode::BAD_REQUEST,
            FileError::Denied(_) => StatusCode::FORBIDDEN,
            FileError::NotFound(_) => StatusCode::NOT_FOUND,
            FileError::Condition(_) => StatusCode::PRECONDITION_FAILED,
            FileError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            FileError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            FileError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
