use aicodebox_engine::run::{Finish, RunId, RunOutcome, Tokens};
use serde::Serialize;
use serde_json::{Value, json};

use super::translate::Shape;
use crate::surface::run_answer::{self, AttemptPart};

/// About how many bytes of text are one token, where an agent does not count.
const BYTES_PER_TOKEN: usize = 4;

/// What every part of an answer carries.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// `chatcmpl-` and the id of the run.
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    /// The model, as the client wrote it.
    pub(crate) model: String,
}

/// The assistant's message.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) content: Option<String>,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) finish: &'static str,
}

/// A call, as the client gets it.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    r#type: &'static str,
    pub(crate) function: Function,
}

/// Which function, and its arguments as JSON text.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// What was consumed, in OpenAI's words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct UsagePart {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens_details: Option<CompletionDetails>,
    /// The agent does not count: these are guesses by length.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

/// A whole answer.
#[derive(Serialize)]
pub(crate) struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: UsagePart,
    #[serde(skip_serializing_if = "Option::is_none")]
    aicodebox_attempts: Option<Vec<AttemptPart<'a>>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: MessagePart<'a>,
    logprobs: (),
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct MessagePart<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: (),
    /// Citations, which agents do not give; clients expect the list.
    annotations: [(); 0],
    #[serde(skip_serializing_if = "<[ToolCall]>::is_empty")]
    tool_calls: &'a [ToolCall],
}

impl Answer {
    /// The answer of a run that went well.
    pub(crate) fn new(outcome: &RunOutcome, shape: Shape) -> Self {
        let plain = |content: String| {
            let finish = match outcome.finish {
                // The agent's own tools are its own affair.
                Finish::Stop | Finish::Tool => "stop",
                Finish::Length => "length",
                Finish::ContentFilter => "content_filter",
            };
            Self { content: Some(content), calls: Vec::new(), finish }
        };
        let parsed = outcome.parsed.as_ref();
        match (shape, parsed) {
            (Shape::Text, _) | (_, None) => plain(outcome.text.clone()),
            (Shape::Json, Some(value)) => plain(value.to_string()),
            (Shape::Tools, Some(value)) => match value.get("tool_calls").and_then(Value::as_array) {
                Some(calls) => {
                    let calls = calls.iter().map(ToolCall::new).collect();
                    Self { content: None, calls, finish: "tool_calls" }
                }
                None => plain(value.get("content").and_then(Value::as_str).unwrap_or_default().to_owned()),
            },
        }
    }

    fn bytes(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.function.name.len() + call.function.arguments.len());
        self.content.as_ref().map_or(0, String::len) + calls.sum::<usize>()
    }
}

impl ToolCall {
    fn new(call: &Value) -> Self {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let arguments = call.get("arguments").map(Value::to_string).unwrap_or_default();
        let id = format!("call_{}", &RunId::random().to_string()[..24]);
        Self { id, r#type: "function", function: Function { name, arguments } }
    }
}

impl UsagePart {
    /// What the agent counted; what it did not is estimated by length.
    pub(crate) fn new(outcome: &RunOutcome, prompt_bytes: usize, answer: &Answer) -> Self {
        let tokens = outcome.usage.as_ref().map_or(Tokens::default(), |usage| usage.tokens);
        let estimate = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN).max(1) as u64;
        let prompt_tokens = tokens.input.unwrap_or_else(|| estimate(prompt_bytes));
        let completion_tokens = tokens.output.unwrap_or_else(|| estimate(answer.bytes()));
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens.saturating_add(completion_tokens),
            prompt_tokens_details: tokens.cache_read.map(|cached_tokens| PromptDetails { cached_tokens }),
            completion_tokens_details: tokens
                .reasoning
                .map(|reasoning_tokens| CompletionDetails { reasoning_tokens }),
            estimated: tokens.input.is_none() || tokens.output.is_none(),
        }
    }
}

impl UsagePart {
    /// The same in the words of `/responses`.
    pub(crate) fn as_of_responses(&self) -> Value {
        let mut usage = json!({
            "input_tokens": self.prompt_tokens,
            "input_tokens_details": {"cached_tokens": self.prompt_tokens_details.map_or(0, |details| details.cached_tokens)},
            "output_tokens": self.completion_tokens,
            "output_tokens_details":
                {"reasoning_tokens": self.completion_tokens_details.map_or(0, |details| details.reasoning_tokens)},
            "total_tokens": self.total_tokens,
        });
        if self.estimated {
            usage["estimated"] = true.into();
        }
        usage
    }
}

impl<'a> Completion<'a> {
    /// The whole answer; the attempts are told where the answer had to meet a form.
    pub(crate) fn new(head: &'a Head, answer: &'a Answer, usage: UsagePart, outcome: &'a RunOutcome) -> Self {
        Self {
            id: &head.id,
            object: "chat.completion",
            created: head.created,
            model: &head.model,
            choices: [Choice {
                index: 0,
                message: MessagePart {
                    role: "assistant",
                    content: answer.content.as_deref(),
                    refusal: (),
                    annotations: [],
                    tool_calls: &answer.calls,
                },
                logprobs: (),
                finish_reason: answer.finish,
            }],
            usage,
            aicodebox_attempts: outcome.parsed.is_some().then(|| run_answer::attempts(outcome)),
        }
    }
}
