use std::sync::LazyLock;

use aicodebox_engine::{
    run::{Failure, FailureKind, RunOutcome, Workspace},
    workspace::{Files, Workspaces},
};
use regex::Regex;
use tokio::task::spawn_blocking;

use super::{
    complaint::complaint,
    outbox::{Attachment, FILE_LIMIT, RichText, render},
};

/// Files that one answer may send.
const FILES: usize = 10;
/// Bytes of an agent's standard error that people are shown.
const STDERR_SHOWN: usize = 1_500;

#[expect(clippy::unwrap_used, reason = "the pattern is right, or no test passes")]
static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[SEND_FILE:\s*([^\]\n]{1,4096}?)\s*\]").unwrap());

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
    let paths: Vec<_> =
        TAG.captures_iter(markdown).filter_map(|found| Some(found.get(1)?.as_str().to_owned())).collect();
    let source =
        if paths.is_empty() { markdown.to_owned() } else { TAG.replace_all(markdown, "").trim().to_owned() };
    (render(&source), source, paths)
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

    #[tokio::test]
    async fn an_answer_may_be_a_file_alone() {
        let (_folder, workspaces) = place();
        let answer = Answer::prepare("[SEND_FILE: plot.png]", workspaces.resolve("chat").ok()).await;
        assert!(answer.text.is_blank() && !answer.is_empty());
    }
}
