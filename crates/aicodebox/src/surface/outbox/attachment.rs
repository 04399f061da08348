use bytes::Bytes;

/// Bytes of a file that a bot may send.
pub(crate) const FILE_LIMIT: u64 = 50_000_000;
/// Bytes of a picture; a larger one goes as a document.
const PHOTO_LIMIT: usize = 10_000_000;

/// A file to send, in memory: a second try needs it again.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
}

/// How Telegram shows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Photo,
    Video,
    Document,
}

impl Attachment {
    /// Whether it is shown as something else than a document.
    pub(super) fn shown(&self) -> bool {
        self.kind() != Kind::Document
    }

    pub(super) fn kind(&self) -> Kind {
        let extension = self.name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        match extension.as_deref() {
            Some("jpg" | "jpeg" | "png" | "webp") if self.bytes.len() <= PHOTO_LIMIT => Kind::Photo,
            Some("mp4" | "mov" | "m4v") => Kind::Video,
            Some(_) | None => Kind::Document,
        }
    }
}
