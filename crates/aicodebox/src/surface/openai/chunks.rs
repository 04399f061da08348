use serde::Serialize;
use serde_json::{Value, json};

use super::{
    error::ApiError,
    response::{Answer, Head, UsagePart},
};

/// Writes the chunks of one answer. Everything that they have in common is written once, so that a delta costs little
/// more than the escaping of its text.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Up to the delta.
    before: Vec<u8>,
    /// From after the delta up to the reason of the end.
    between: &'static [u8],
    /// From after that reason to the end of the chunk.
    after: &'static [u8],
    /// Up to the choices of a chunk that has none.
    head: Vec<u8>,
}

impl Chunks {
    /// A writer for this answer; with `usage`, every chunk says that it has none.
    pub(crate) fn new(head: &Head, usage: bool) -> Self {
        let common = json!({
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
        });
        let mut text = b"data: ".to_vec();
        append(&mut text, &common);
        // Over the closing brace.
        text.pop();
        text.extend_from_slice(b",\"choices\":[");
        let mut before = text.clone();
        before.extend_from_slice(b"{\"index\":0,\"delta\":");
        let after: &[u8] = if usage { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" };
        Self { before, between: b",\"logprobs\":null,\"finish_reason\":", after, head: text }
    }

    /// The first chunk.
    pub(crate) fn role(&self, out: &mut Vec<u8>) {
        self.chunk(out, None, |out| {
            out.extend_from_slice(br#"{"role":"assistant","content":"","refusal":null}"#);
        });
    }

    /// A piece of text.
    pub(crate) fn text(&self, out: &mut Vec<u8>, text: &str) {
        self.chunk(out, None, |out| {
            out.extend_from_slice(b"{\"content\":");
            append(out, &text);
            out.push(b'}');
        });
    }

    /// A whole answer and its end.
    pub(crate) fn answer(&self, out: &mut Vec<u8>, answer: &Answer) {
        if let Some(content) = answer.content.as_deref().filter(|content| !content.is_empty()) {
            self.text(out, content);
        }
        for (index, call) in answer.calls.iter().enumerate() {
            // Everything but the arguments first, as OpenAI does: clients rely on it.
            let function = json!({"name": call.function.name, "arguments": ""});
            self.delta(
                out,
                &json!({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}),
            );
            let function = json!({"arguments": call.function.arguments});
            self.delta(out, &json!({"tool_calls": [{"index": index, "function": function}]}));
        }
        self.finish(out, answer.finish);
    }

    /// The end of the answer.
    pub(crate) fn finish(&self, out: &mut Vec<u8>, reason: &str) {
        self.chunk(out, Some(reason), |out| out.extend_from_slice(b"{}"));
    }

    /// What was consumed.
    pub(crate) fn usage(&self, out: &mut Vec<u8>, usage: &UsagePart) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"],\"usage\":");
        append(out, usage);
        out.extend_from_slice(b"}\n\n");
    }

    fn delta(&self, out: &mut Vec<u8>, delta: &Value) {
        self.chunk(out, None, |out| append(out, delta));
    }

    fn chunk(&self, out: &mut Vec<u8>, finish: Option<&str>, delta: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(&self.before);
        delta(out);
        out.extend_from_slice(self.between);
        append(out, &finish);
        out.extend_from_slice(self.after);
    }
}

/// A failure after the stream began.
pub(crate) fn error(out: &mut Vec<u8>, error: &ApiError) {
    out.extend_from_slice(b"data: {\"error\":");
    append(out, &error.object());
    out.extend_from_slice(b"}\n\n");
}

/// The end of every stream.
pub(crate) fn done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: [DONE]\n\n");
}

fn append(out: &mut Vec<u8>, value: &impl Serialize) {
    // Neither a vector nor these values can fail to be written.
    _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_one_line_of_json() {
        let head = Head { id: "chatcmpl-1".into(), created: 7, model: "a\"b".into() };
        let read = |usage: bool, write: &dyn Fn(&Chunks, &mut Vec<u8>)| -> Value {
            let mut out = Vec::new();
            write(&Chunks::new(&head, usage), &mut out);
            let text = String::from_utf8(out).unwrap();
            let line = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
            assert!(!line.contains('\n'));
            serde_json::from_str(line).unwrap()
        };
        assert_eq!(
            read(false, &|chunks, out| chunks.text(out, "x\n\u{2028}\"")),
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "a\"b", "choices":
                [{"index": 0, "delta": {"content": "x\n\u{2028}\""}, "logprobs": null, "finish_reason": null}]})
        );
        let finish = read(true, &|chunks, out| chunks.finish(out, "stop"));
        assert_eq!(finish["choices"][0]["finish_reason"], "stop");
        assert_eq!(finish["choices"][0]["delta"], json!({}));
        assert!(finish.as_object().unwrap()["usage"].is_null());
    }
}
