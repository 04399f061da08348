use std::time::Duration;

use aicodebox_engine::workspace::{Condition, FileError, Files};
use futures_util::StreamExt;
use teloxide_core::{net::Download, prelude::Requester};
use tokio::time::timeout;

use super::incoming::Upload;
use crate::surface::outbox::{Client, TelegramError};

/// Bytes of a file that a bot may fetch.
const FETCH_LIMIT: u64 = 20 << 20;
/// Bytes of a file's name.
const NAME_LIMIT: usize = 120;
/// Files of one name in a workspace.
const SAME_NAME: usize = 1_000;
/// How long a download may stand still.
const STALLED: Duration = Duration::from_secs(60);

/// Fetches a file and puts it into the workspace under a safe name that is free there; gives that name.
///
/// # Errors
/// Why not, for people.
pub(super) async fn save(client: &Client, files: &Files, upload: &Upload) -> Result<String, String> {
    // Telegram's own answer to this is no number that helps anybody.
    if upload.size > FETCH_LIMIT && upload.size != u64::from(u32::MAX) {
        let megabytes = upload.size.div_ceil(1 << 20);
        return Err(format!("{} has {megabytes} MB; Telegram gives bots at most 20", upload.name));
    }
    let failed = |error: &dyn std::fmt::Display| format!("{} could not be saved: {error}", upload.name);
    let found = client
        .bot()
        .get_file(upload.file.clone())
        .await
        .map_err(|error| failed(&TelegramError::from(error)))?;
    let name = safe(&upload.name);
    for number in 1..=SAME_NAME {
        let path = numbered(&name, number);
        let mut target = match files.write(&path, FETCH_LIMIT, Condition::Missing).await {
            Ok(target) => target,
            Err(FileError::Condition(_) | FileError::IsDirectory(_) | FileError::NotRegular(_)) => continue,
            Err(error) => return Err(failed(&error)),
        };
        let mut stream = client.bot().download_file_stream(&found.path);
        while let Some(chunk) =
            timeout(STALLED, stream.next()).await.map_err(|_late| failed(&"Telegram sends no more"))?
        {
            // The library has taken the token out of the address.
            let chunk = chunk.map_err(|error| failed(&error))?;
            target.push(&chunk).await.map_err(|error| failed(&error))?;
        }
        match target.finish().await {
            Ok(_) => return Ok(path),
            Err(FileError::Condition(_)) => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Err(failed(&"there are too many files of that name"))
}

/// A name that is a file's in any directory: no separators, nothing hidden, not too long.
fn safe(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = name
        .chars()
        .map(|c| {
            if c.is_control() || matches!(c, '"' | '\'' | '`' | '$' | '<' | '>' | '|' | ':' | '*' | '?') {
                '_'
            } else {
                c
            }
        })
        .collect();
    let clean = clean.trim().trim_start_matches(['.', '-']).trim_end_matches('.');
    let (stem, extension) = match clean.rsplit_once('.') {
        Some((stem, extension)) if extension.len() <= 16 => (stem, format!(".{extension}")),
        Some(_) | None => (clean, String::new()),
    };
    let room = NAME_LIMIT - extension.len();
    let end = (0..=room.min(stem.len())).rev().find(|at| stem.is_char_boundary(*at)).unwrap_or(0);
    if end == 0 { format!("file{extension}") } else { format!("{}{extension}", &stem[..end]) }
}

/// `name.txt`, `name_2.txt`, …
fn numbered(name: &str, number: usize) -> String {
    if number == 1 {
        return name.to_owned();
    }
    match name.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}_{number}.{extension}"),
        None => format!("{name}_{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_safe() {
        for (given, safe_name) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("..\\windows\\x.exe", "x.exe"),
            (".bashrc", "bashrc"),
            ("--help", "help"),
            ("a\nb'c.txt", "a_b_c.txt"),
            ("", "file"),
            ("...", "file"),
            (".", "file"),
            ("日本語.txt", "日本語.txt"),
        ] {
            assert_eq!(safe(given), safe_name, "{given:?}");
        }
        let long = safe(&format!("{}.txt", "é".repeat(500)));
        assert!(long.len() <= NAME_LIMIT && long.ends_with(".txt"));
        assert_eq!(
            (numbered("a.txt", 1), numbered("a.txt", 3), numbered("a", 2)),
            ("a.txt".into(), "a_3.txt".into(), "a_2".into())
        );
    }
}
