//! The images of a conversation, as files in the chat's workspace.

use std::path::PathBuf;

use aicodebox_engine::{
    run::Workspace,
    workspace::{Condition, FileError, Workspaces},
};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::error::ApiError;
use crate::fetch::Fetcher;

/// Where they are, below the workspace. Hidden, so that agents which look around do not stumble over it.
const DIRECTORY: &str = ".aicodebox/images";
/// Largest image, in bytes.
const MAX_BYTES: usize = 20 << 20;
/// At most so many in one request.
const MAX_IMAGES: usize = 64;
/// Base64 as clients write it: with its padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An image that the agent can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedImage {
    /// Absolute.
    pub(crate) path: PathBuf,
    /// From the workspace.
    pub(crate) relative: String,
}

/// Gets the images at these URLs and saves each under the name of its content, so that the same conversation always
/// speaks of the same files.
///
/// # Errors
/// 400 for one that cannot be had or is none.
pub(crate) async fn save(
    urls: &[String],
    workspace: &Workspace,
    root: &Workspaces,
    fetcher: &Fetcher,
) -> Result<Vec<SavedImage>, ApiError> {
    if urls.len() > MAX_IMAGES {
        return Err(bad(format_args!("there are {} of them; at most {MAX_IMAGES} are accepted", urls.len())));
    }
    let mut saved = Vec::with_capacity(urls.len());
    for url in urls {
        let bytes = load(url, fetcher).await?;
        let extension = kind(&bytes)
            .ok_or_else(|| bad(format_args!("what is at {} is no PNG, JPEG, GIF or WebP", shown(url))))?;
        let hex = name_of(bytes.clone()).await?;
        let relative = format!("{DIRECTORY}/{hex}.{extension}");
        write(workspace, root, &relative, &bytes).await?;
        saved.push(SavedImage { path: workspace.path.join(&relative), relative });
    }
    Ok(saved)
}

/// The content's own name. An image may have 20 MiB: that is no work for the reactor.
async fn name_of(bytes: Bytes) -> Result<String, ApiError> {
    let hash = spawn_blocking(move || Sha256::digest(&bytes)).await.map_err(bad)?;
    Ok(hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

async fn load(url: &str, fetcher: &Fetcher) -> Result<Bytes, ApiError> {
    let Some(data) = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")).map(|_| &url[5..])
    else {
        return fetcher
            .get(url, MAX_BYTES)
            .await
            .map_err(|error| bad(format_args!("the image at {} cannot be had: {error}", shown(url))));
    };
    let (meta, payload) = data.split_once(',').ok_or_else(|| bad("the data: URL has no comma"))?;
    if !meta.to_ascii_lowercase().ends_with(";base64") {
        return Err(bad("a data: URL must be base64"));
    }
    if payload.len() / 4 * 3 > MAX_BYTES {
        return Err(bad(format_args!("it is longer than {MAX_BYTES} bytes")));
    }
    let payload = payload.to_owned();
    let decoded = spawn_blocking(move || {
        let clean: Vec<u8> = payload.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        BASE64.decode(clean)
    });
    match decoded.await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(error)) => Err(bad(format_args!("the data: URL is not valid base64: {error}"))),
        Err(error) => Err(bad(error)),
    }
}

/// Writes it below the root where the workspace is there, so that no link of an agent leads out.
async fn write(
    workspace: &Workspace,
    root: &Workspaces,
    relative: &str,
    bytes: &[u8],
) -> Result<(), ApiError> {
    let below = workspace.path.strip_prefix(root.path()).ok().and_then(|below| below.to_str());
    let (files, path) = match below.filter(|_| !workspace.ephemeral()) {
        Some("") => (root.files().clone(), relative.to_owned()),
        Some(below) => (root.files().clone(), format!("{below}/{relative}")),
        None => {
            let directory = workspace.path.clone();
            let opened = spawn_blocking(move || Workspaces::open(&directory)).await;
            let opened = opened.unwrap_or_else(|error| Err(std::io::Error::other(error)));
            let opened =
                opened.map_err(|error| not_saved(&format!("the workspace cannot be opened: {error}")))?;
            (opened.files().clone(), relative.to_owned())
        }
    };
    let written = async {
        let mut upload = files.write(&path, bytes.len() as u64, Condition::Always).await?;
        upload.push(bytes).await?;
        upload.finish().await
    };
    written.await.map(|_written| ()).map_err(|error: FileError| not_saved(&error.to_string()))
}

/// The extension of what the bytes are, by how they begin. What a server calls them says little.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("png"),
        [0xff, 0xd8, 0xff, ..] => Some("jpg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("webp"),
        _ => None,
    }
}

/// A URL as it is told in errors: without its query, which may hold a signature, and short.
fn shown(url: &str) -> String {
    if url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        return "the data: URL".to_owned();
    }
    url.split(['?', '#']).next().unwrap_or_default().chars().take(200).collect()
}

fn bad(detail: impl std::fmt::Display) -> ApiError {
    ApiError::invalid("image_url", detail)
}

fn not_saved(detail: &str) -> ApiError {
    let message = format!("an image cannot be saved in the workspace: {detail}");
    ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, Some("storage"), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    async fn saved(url: &str) -> Result<(tempfile::TempDir, SavedImage), ApiError> {
        let directory = tempfile::tempdir().unwrap();
        let root = Workspaces::open(directory.path()).unwrap();
        let chat = root.resolve("chat").unwrap();
        let images = save(&[url.to_owned()], &chat, &root, &Fetcher::new(Vec::new())).await?;
        Ok((directory, images.into_iter().next().unwrap()))
    }

    #[tokio::test]
    async fn a_data_url_becomes_a_file_named_by_its_content() {
        let (_directory, image) = saved(&format!("data:image/png;base64,{PNG}")).await.unwrap();
        assert!(image.relative.starts_with(".aicodebox/images/") && image.relative.ends_with(".png"));
        assert!(image.path.ends_with(format!("chat/{}", image.relative)));
        assert_eq!(std::fs::read(&image.path).unwrap(), BASE64.decode(PNG).unwrap());
        let spaced = format!("DATA:image/png;base64,{}\n{}", &PNG[..40], PNG[40..].trim_end_matches('='));
        let (_other, again) = saved(&spaced).await.unwrap();
        assert_eq!(again.relative, image.relative);
    }

    #[tokio::test]
    async fn what_is_no_image_is_refused() {
        for url in [
            "data:image/png;base64,AAAA",
            "data:image/png;base64,!!!!",
            "data:image/png,AAAA",
            "data:image/png",
            "http://127.0.0.1/x.png",
            "http://[::ffff:10.0.0.1]/x.png",
            "file:///etc/passwd",
            "x",
            "",
        ] {
            assert!(saved(url).await.is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn a_link_does_not_lead_the_image_out_of_the_root() {
        let (outside, inside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = Workspaces::open(inside.path()).unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join(".aicodebox")).unwrap();
        let url = format!("data:image/png;base64,{PNG}");
        let refused = save(&[url], &root.root(), &root, &Fetcher::new(Vec::new())).await;
        assert!(refused.is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
