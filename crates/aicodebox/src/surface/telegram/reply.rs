use std::fs;

use super::incoming::Reply;
use crate::surface::cron::CronMessage;

/// Bytes of a job's result that an agent is shown again; the rest is in the history.
const RESULT_SHOWN: usize = 16 << 10;
/// Bytes of a quoted message.
const QUOTE_SHOWN: usize = 8 << 10;

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
    let read = |name: &str| fs::read_to_string(told.history_dir.join(name)).unwrap_or_default();
    let meta: serde_json::Value = serde_json::from_str(&read("meta.json")).unwrap_or_default();
    let instruction = meta["instruction"].as_str().unwrap_or("(not known any more)");
    let result = read("result.txt");
    format!(
        "[This answers the notice of the scheduled job {}.\nIts instruction:\n{instruction}\n\nIts result:\n{}\n\n\
         Its history directory: {} (meta.json, result.txt, stdout.log, stderr.log)]\n\n{text}",
        told.job,
        clipped(&result, RESULT_SHOWN),
        told.history_dir.display()
    )
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
    use super::*;

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
