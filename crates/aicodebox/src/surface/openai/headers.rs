use std::time::Duration;

use axum::http::HeaderMap;
use serde_json::Value;

use super::error::ApiError;
use crate::config::ChatAsides;

/// Longest limit that a caller may set.
const MAX_LIMIT: Duration = Duration::from_secs(30 * 86_400);

/// What callers say by headers, because OpenAI's body has no place for it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Headers {
    pub(crate) workspace: Option<String>,
    /// Go on with the last session of the workspace.
    pub(crate) continues: bool,
    /// Go on with this session.
    pub(crate) resume: Option<String>,
    pub(crate) append_system_prompt: Option<String>,
    pub(crate) extra_args: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    /// Names of the agent's own tools that it may use, if the header was sent.
    pub(crate) tools: Option<Vec<String>>,
    /// Whether the agent's own tools are off.
    pub(crate) no_tools: Option<bool>,
    pub(crate) json_schema: Option<Value>,
    /// Let the run go on when the client leaves.
    pub(crate) detach: bool,
    /// Whether it is a question beside the conversation, if the header was sent.
    pub(crate) asides: Option<ChatAsides>,
}

impl Headers {
    /// Reads them.
    ///
    /// # Errors
    /// 400 naming the header.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        let all = Names(headers);
        Ok(Self {
            workspace: all.text(&["x-aicodebox-workspace", "x-claude-workspace"])?,
            continues: all.boolean(&["x-aicodebox-continue", "x-claude-continue"])?.unwrap_or_default(),
            resume: all.text(&["x-aicodebox-resume"])?,
            append_system_prompt: all
                .text(&["x-aicodebox-append-system-prompt", "x-claude-append-system-prompt"])?,
            extra_args: all.list(&["x-aicodebox-extra-args"])?.unwrap_or_default(),
            timeout: all.seconds(&["x-aicodebox-timeout-seconds"])?,
            tools: all.list(&["x-aicodebox-tools-allowlist"])?,
            no_tools: all.boolean(&["x-aicodebox-no-tools"])?,
            json_schema: all.object(&["x-aicodebox-json-schema"])?,
            detach: all.boolean(&["x-aicodebox-detach"])?.unwrap_or_default(),
            asides: all
                .boolean(&["x-aicodebox-aside"])?
                .map(|aside| if aside { ChatAsides::Always } else { ChatAsides::Never }),
        })
    }
}

impl Headers {
    /// The same for a question beside the conversation: it is asked in no session, in nobody's workspace, and with no
    /// tool.
    pub(super) fn aside(self) -> Self {
        Self { workspace: None, continues: false, resume: None, tools: None, ..self }
    }
}

/// Headers that have several names; the first that is sent and not empty counts.
struct Names<'a>(&'a HeaderMap);

type Found = Option<(&'static str, String)>;

impl Names<'_> {
    fn find(&self, names: &[&'static str]) -> Result<Found, ApiError> {
        for name in names {
            let mut sent = self.0.get_all(*name).iter();
            let Some(value) = sent.next() else { continue };
            if sent.next().is_some() {
                return Err(ApiError::invalid(*name, "is there more than once"));
            }
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| ApiError::invalid(*name, "must be UTF-8"))?
                .trim();
            if !text.is_empty() {
                return Ok(Some((*name, text.to_owned())));
            }
        }
        Ok(None)
    }

    fn text(&self, names: &[&'static str]) -> Result<Option<String>, ApiError> {
        Ok(self.find(names)?.map(|(_, text)| text))
    }

    fn boolean(&self, names: &[&'static str]) -> Result<Option<bool>, ApiError> {
        let Some((name, text)) = self.find(names)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(Some(true)),
            "0" | "false" | "no" | "off" => Ok(Some(false)),
            _ => Err(ApiError::invalid(name, "must be 1, true, yes or on, or 0, false, no or off")),
        }
    }

    fn seconds(&self, names: &[&'static str]) -> Result<Option<Duration>, ApiError> {
        let Some((name, text)) = self.find(names)? else { return Ok(None) };
        let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match seconds.filter(|limit| !limit.is_zero() && *limit <= MAX_LIMIT) {
            Some(limit) => Ok(Some(limit)),
            None => {
                let most = MAX_LIMIT.as_secs();
                Err(ApiError::invalid(name, format_args!("must be a number more than 0 and at most {most}")))
            }
        }
    }

    /// A JSON array of strings, or words separated by commas.
    fn list(&self, names: &[&'static str]) -> Result<Option<Vec<String>>, ApiError> {
        let Some((name, text)) = self.find(names)? else { return Ok(None) };
        if text.starts_with('[') {
            return serde_json::from_str(&text).map(Some).map_err(|_| {
                ApiError::invalid(name, "must be a JSON array of strings, or words and commas")
            });
        }
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Ok(Some(words.map(str::to_owned).collect()))
    }

    fn object(&self, names: &[&'static str]) -> Result<Option<Value>, ApiError> {
        let Some((name, text)) = self.find(names)? else { return Ok(None) };
        match serde_json::from_str(&text) {
            Ok(value @ Value::Object(_)) => Ok(Some(value)),
            Ok(_) => Err(ApiError::invalid(name, "must be a JSON object")),
            Err(error) => Err(ApiError::invalid(name, format_args!("is not valid JSON: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn read(sent: &[(&'static str, &'static str)]) -> Result<Headers, ApiError> {
        Headers::read(
            &sent
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect(),
        )
    }

    #[test]
    fn all_are_read() {
        let read = read(&[
            ("x-aicodebox-workspace", "a/b"),
            ("x-aicodebox-continue", "Yes"),
            ("x-aicodebox-resume", "s1"),
            ("x-claude-append-system-prompt", "more"),
            ("x-aicodebox-extra-args", r#"["--a", "b,c"]"#),
            ("x-aicodebox-timeout-seconds", "1.5"),
            ("x-aicodebox-tools-allowlist", "Read, Bash,"),
            ("x-aicodebox-no-tools", "0"),
            ("x-aicodebox-json-schema", r#"{"type":"object"}"#),
            ("x-aicodebox-detach", "on"),
            ("x-aicodebox-aside", "0"),
        ]);
        let expected = Headers {
            workspace: Some("a/b".into()),
            continues: true,
            resume: Some("s1".into()),
            append_system_prompt: Some("more".into()),
            extra_args: vec!["--a".into(), "b,c".into()],
            timeout: Some(Duration::from_millis(1500)),
            tools: Some(vec!["Read".into(), "Bash".into()]),
            no_tools: Some(false),
            json_schema: Some(json!({"type": "object"})),
            detach: true,
            asides: Some(ChatAsides::Never),
        };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn an_older_name_gives_way_and_an_empty_value_is_none() {
        let both = read(&[("x-claude-workspace", "old"), ("x-aicodebox-workspace", "new")]).unwrap();
        assert_eq!(both.workspace.as_deref(), Some("new"));
        assert_eq!(read(&[("x-aicodebox-resume", "  ")]), Ok(Headers::default()));
    }

    #[test]
    fn none_is_taken_of_two_values() {
        let name = "x-aicodebox-workspace";
        let mut headers =
            HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("a"))]);
        headers.append(name, HeaderValue::from_static("b"));
        let error = Headers::read(&headers).unwrap_err();
        assert_eq!(serde_json::to_value(error.object()).unwrap()["param"], name);
    }

    #[test]
    fn a_bad_value_names_its_header() {
        for (name, value) in [
            ("x-aicodebox-continue", "maybe"),
            ("x-aicodebox-no-tools", "2"),
            ("x-aicodebox-timeout-seconds", "-1"),
            ("x-aicodebox-timeout-seconds", "soon"),
            ("x-aicodebox-timeout-seconds", "nan"),
            ("x-aicodebox-extra-args", "[1]"),
            ("x-aicodebox-json-schema", "[]"),
            ("x-aicodebox-json-schema", "{"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            let object = serde_json::to_value(error.object()).unwrap();
            assert_eq!(object["param"], name, "{value}");
        }
    }
}
