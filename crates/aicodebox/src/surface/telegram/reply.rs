use std::{io::Read, path::Path};

use super::incoming::Reply;
use crate::surface::{cron::CronMessage, regular_file};

/// Bytes of a job's result that an agent is shown again; the rest is in the history.
const RESULT_SHOWN: usize = 16 << 10;
/// Bytes of a quoted message.
const QUOTE_SHOWN: usize = 8 << 10;
/// Bytes of a run's `meta.json`, which has the instruction.
const META_LIMIT: u64 = 1 << 20;

/// A text that answers a message, with what it answers before it.
pub(super) fn with_quote(reply: &Reply, text: &str) -> String {
    let quoted = clipped(&reply.text, QUOTE_SHOWN);
    let what = match (reply.kind, quoted.is_empty()) {
        ("message", true) => return text.to_owned(),
        (kind, true) => format!("[This answers a {kind}.]"),
        ("message", false) => format!("[This answers the message:\n{quoted}]"),
        (kind, false) => format!("[This answers a {kind} with the text:\n{quoted}]"),
    };
    format!("{what}\n\n{text}")
}

/// A text that answers the notice of a job, with all that is known of that run. Blocks.
pub(super) fn with_job(told: &CronMessage, text: &str) -> String {
    let meta = regular_file::read(&told.history_dir.join("meta.json"), META_LIMIT).unwrap_or_default();
    let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap_or_default();
    let instruction = meta["instruction"].as_str().unwrap_or("(not known any more)");
    let result = begin(&told.history_dir.join("result.txt"));
    format!(
        "[This answers the notice of the scheduled job {}.\nIts instruction:\n{instruction}\n\nIts result:\n{}\n\n\
         Its history directory: {} (meta.json, result.txt, stdout.log, stderr.log)]\n\n{text}",
        told.job,
        clipped(&result, RESULT_SHOWN),
        told.history_dir.display()
    )
}

/// As much of a file as is shown of it, and a little more where there is more.
fn begin(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read =
        regular_file::open(path).and_then(|file| file.take(RESULT_SHOWN as u64 + 8).read_to_end(&mut bytes));
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
}

fn clipped(text: &str, limit: usize) -> String {
    let text = text.trim();
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n[… cut]", &text[..end])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_answer_to_a_job_waits_for_no_pipe_and_reads_no_more_than_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let told =
            CronMessage { chat_id: 5, message_id: 1, job: "a".into(), history_dir: folder.path().to_owned() };
        nix::unistd::mkfifo(&folder.path().join("meta.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let result = fs::File::create(folder.path().join("result.txt")).unwrap();
        result.set_len(1 << 40).unwrap();
        let text = with_job(&told, "And?");
        assert!(text.contains("(not known any more)") && text.contains("[… cut]"));
        assert!(text.len() < RESULT_SHOWN + 1_000 && text.ends_with("And?"), "{}", text.len());
    }

    #[test]
    fn what_is_answered_stands_before_the_answer() {
        let reply = |kind, text: &str| Reply { message: 1, kind, text: text.to_owned() };
        assert_eq!(with_quote(&reply("message", "2 + 2?"), "4"), "[This answers the message:\n2 + 2?]\n\n4");
        assert_eq!(with_quote(&reply("photo", ""), "Nice"), "[This answers a photo.]\n\nNice");
        assert_eq!(with_quote(&reply("message", ""), "Hm"), "Hm");
        let long = with_quote(&reply("message", &"é".repeat(QUOTE_SHOWN)), "x");
        assert!(long.contains("[… cut]") && long.len() < QUOTE_SHOWN + 100);
    }
}
