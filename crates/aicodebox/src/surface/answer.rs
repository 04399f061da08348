use aicodebox_engine::{
    run::{Failure, FailureKind, RunOutcome, Workspace},
    workspace::{Files, Workspaces},
};
use tokio::task::spawn_blocking;

use super::{
    complaint::complaint,
    outbox::{Attachment, FILE_LIMIT, RichText, render},
};

/// Files that one answer may send.
const FILES: usize = 10;
/// Bytes of an agent's standard error that people are shown.
const STDERR_SHOWN: usize = 1_500;

/// Begin of a tag that sends a file.
const TAG: &str = "[SEND_FILE:";
/// Bytes of a path in a tag.
const PATH_LIMIT: usize = 4_096;

/// An agent's answer as people get it: its text without the tags that send files, and the files.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: RichText,
    /// Markdown.
    pub(crate) source: String,
    pub(crate) files: Vec<Attachment>,
}

impl Answer {
    /// Takes the tags out of an answer and opens what they name, beneath the run's own workspace and nowhere else. A
    /// file that cannot be sent is said at the end.
    pub(crate) async fn prepare(markdown: &str, workspace: Option<Workspace>) -> Self {
        let whole = markdown.to_owned();
        let Ok((mut text, source, paths)) = spawn_blocking(move || read(&whole)).await else {
            // A fault in the reading costs the styles, not the answer.
            return Self { text: RichText::plain(markdown), source: markdown.to_owned(), files: Vec::new() };
        };
        if paths.is_empty() {
            return Self { text, source, files: Vec::new() };
        }
        let root = workspace.and_then(|workspace| Workspaces::open(&workspace.path).ok());
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for (index, path) in paths.iter().enumerate() {
            let file = match &root {
                _ if index >= FILES => Err(format!("an answer sends at most {FILES} files")),
                Some(root) => attachment(root.files(), path).await,
                None => Err("there is no workspace".to_owned()),
            };
            match file {
                Ok(file) => files.push(file),
                Err(problem) => problems.push(format!("⚠ {path} was not sent: {problem}")),
            }
        }
        if !problems.is_empty() {
            let gap = if text.is_blank() { "" } else { "\n\n" };
            text = text.then(RichText::plain(&format!("{gap}{}", problems.join("\n"))));
        }
        Self { text, source, files }
    }

    /// Whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_blank() && self.files.is_empty()
    }
}

/// An answer's text as it is shown, the same as Markdown, and what its tags name. Takes seconds for megabytes.
fn read(markdown: &str) -> (RichText, String, Vec<String>) {
    let (mut source, mut paths) = (String::with_capacity(markdown.len()), Vec::new());
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once(TAG) {
        source.push_str(before);
        rest = after;
        match path(after) {
            Some((path, after)) => {
                paths.push(path.to_owned());
                rest = after;
            }
            None => source.push_str(TAG),
        }
    }
    source.push_str(rest);
    if !paths.is_empty() {
        source = source.trim().to_owned();
    }
    (render(&source), source, paths)
}

/// The path in a tag that has begun, and what comes after the tag.
fn path(text: &str) -> Option<(&str, &str)> {
    // No further than a path may be long: an answer may begin a hundred thousand tags and end none.
    let near = (0..4).find_map(|less| text.get(..PATH_LIMIT - less)).unwrap_or(text);
    let (path, _) = near.split_once(']')?;
    let after = text.get(path.len() + 1..)?;
    let path = path.trim();
    (!path.is_empty() && !path.contains('\n')).then_some((path, after))
}

/// A file of a workspace, to be sent.
///
/// # Errors
/// Why it cannot be, for people.
pub(crate) async fn attachment(files: &Files, path: &str) -> Result<Attachment, String> {
    let file = files.open(path).await.map_err(|error| error.to_string())?;
    if file.size > FILE_LIMIT {
        return Err(format!("it has {} MB, and Telegram takes 50", file.size / 1_000_000));
    }
    if file.size == 0 {
        return Err("it is empty".to_owned());
    }
    let bytes = file.read(FILE_LIMIT).await.map_err(|error| error.to_string())?;
    let name = file.path.rsplit('/').next().unwrap_or("file").to_owned();
    Ok(Attachment { name, bytes: bytes.into() })
}

/// A failure as people are told of it in a chat (architecture: the table of failures); `outcome` = of the run, if there
/// was one.
pub(crate) fn failure_text(failure: &Failure, outcome: Option<&RunOutcome>) -> String {
    let message = &failure.message;
    match &failure.kind {
        FailureKind::Cancelled => "⏹ Cancelled.".to_owned(),
        FailureKind::Busy => format!("⏳ {message}"),
        FailureKind::QueueFull => format!("⚠ Too busy: {message}"),
        FailureKind::Deadline | FailureKind::Idle => {
            format!("⌛ {message}\nThe conversation is kept: write again to go on.")
        }
        FailureKind::Shutdown => "⚠ I was restarted while working on this. Please send it again.".to_owned(),
        FailureKind::Exit(_)
        | FailureKind::Signal(_)
        | FailureKind::NoFinalEvent
        | FailureKind::Spawn { .. } => {
            match outcome.and_then(|outcome| complaint(outcome, STDERR_SHOWN, message)) {
                Some(stderr) => format!("⚠ {message}\n\n{stderr}"),
                None => format!("⚠ {message}"),
            }
        }
        FailureKind::Invalid { .. }
        | FailureKind::TooLong { .. }
        | FailureKind::Budget
        | FailureKind::Storage
        | FailureKind::Stuck
        | FailureKind::Agent(_)
        | FailureKind::Schema => format!("⚠ {message}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn place() -> (tempfile::TempDir, Workspaces) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["root/chat", "root/other"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("root/chat/plot.png"), "png").unwrap();
        fs::write(folder.path().join("root/other/secret.txt"), "secret").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("root/chat/link")).unwrap();
        let workspaces = Workspaces::open(&folder.path().join("root")).unwrap();
        (folder, workspaces)
    }

    #[tokio::test]
    async fn files_are_sent_from_the_own_workspace_only_and_tags_are_removed() {
        let (_folder, workspaces) = place();
        let chat = workspaces.resolve("chat").unwrap();
        let text = "Here: [SEND_FILE: plot.png]\n[SEND_FILE: ../other/secret.txt] [SEND_FILE:link] [SEND_FILE: /etc/passwd]\nDone";
        let answer = Answer::prepare(text, Some(chat)).await;
        assert_eq!(answer.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["plot.png"]);
        assert!(!answer.source.contains("SEND_FILE") && answer.source.starts_with("Here:"));
        for path in ["../other/secret.txt", "link", "/etc/passwd"] {
            assert!(answer.text.text().contains(&format!("⚠ {path} was not sent")), "{:?}", answer.text);
        }
    }

    #[test]
    fn tags_are_found_wherever_they_are_and_only_whole_ones() {
        let tags = |text: &str| (read(text).2.join(","), read(text).1);
        for (text, paths, rest) in [
            ("a [SEND_FILE:b c] d", "b c", "a  d"),
            ("[SEND_FILE: \n é.png \n]", "é.png", ""),
            ("[SEND_FILE: a[SEND_FILE: b]", "a[SEND_FILE: b", ""),
            (
                "[SEND_FILE: a\nb] [SEND_FILE: ] [SEND_FILE:c",
                "",
                "[SEND_FILE: a\nb] [SEND_FILE: ] [SEND_FILE:c",
            ),
        ] {
            assert_eq!(tags(text), (paths.to_owned(), rest.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn tags_that_never_end_take_no_time() {
        let text = format!("`{}`", "[SEND_FILE:".repeat(20_000));
        let begun = std::time::Instant::now();
        assert!(read(&text).2.is_empty());
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn an_answer_may_be_a_file_alone() {
        let (_folder, workspaces) = place();
        let answer = Answer::prepare("[SEND_FILE: plot.png]", workspaces.resolve("chat").ok()).await;
        assert!(answer.text.is_blank() && !answer.is_empty());
    }
}
