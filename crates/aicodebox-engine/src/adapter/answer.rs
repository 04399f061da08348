use super::{clip::Clip, contract::TEXT_LIMIT};

/// The text of the answer while it comes: the last segment that has any, whole messages before deltas.
#[derive(Debug)]
pub(super) struct Answer {
    /// What follows begins a new segment.
    boundary: bool,
    messages: Clip,
    has_message: bool,
    deltas: Clip,
    /// Deltas came since the last message: the next message repeats them.
    streamed: bool,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            boundary: false,
            messages: Clip::new(TEXT_LIMIT),
            has_message: false,
            deltas: Clip::new(TEXT_LIMIT),
            streamed: false,
        }
    }
}

impl Answer {
    /// What follows is a new segment; it replaces this one as soon as it has text.
    pub(super) fn boundary(&mut self) {
        self.boundary = true;
    }

    /// Takes a piece of text.
    pub(super) fn delta(&mut self, text: &str) {
        self.begin();
        self.streamed = true;
        if !self.has_message {
            self.deltas.push(text);
        }
    }

    /// Takes a whole message and returns whether deltas have already carried it.
    pub(super) fn message(&mut self, text: &str) -> bool {
        self.begin();
        if self.has_message {
            self.messages.push("\n");
        }
        self.messages.push(text);
        self.has_message = true;
        self.deltas.clear();
        std::mem::take(&mut self.streamed)
    }

    fn begin(&mut self) {
        if std::mem::take(&mut self.boundary) {
            self.messages.clear();
            self.has_message = false;
            self.deltas.clear();
        }
    }

    /// The answer, and whether its middle was left out.
    pub(super) fn into_text(self) -> (String, bool) {
        let text = if self.has_message { self.messages } else { self.deltas };
        let cut = text.is_cut();
        (text.into_text(), cut)
    }
}
