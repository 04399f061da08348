use std::time::{SystemTime, UNIX_EPOCH};

use aicodebox_engine::adapter::{AdapterInfo, Capability};
use serde::Serialize;

use super::error::ApiError;

/// The models that this box offers, and what is meant by the names that clients send.
#[derive(Debug)]
pub(crate) struct Models {
    listed: Vec<String>,
    /// The adapter's name: as a model, it means the default.
    agent: String,
    keeps_prefix: bool,
    /// Whether the agent can be told a model at all.
    has_channel: bool,
    /// Whether only listed models are accepted.
    strict: bool,
    /// Seconds since 1970; clients want to know when a model was made, and nobody does.
    created: u64,
}

/// A model as `/models` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
}

impl Models {
    /// The configured models, or those of the adapter.
    pub(crate) fn new(agent: &AdapterInfo, configured: &[String], strict: bool) -> Self {
        let listed = if configured.is_empty() { &agent.models } else { configured };
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            listed: listed.to_vec(),
            agent: agent.name.clone(),
            keeps_prefix: agent.keeps_prefix,
            has_channel: agent.capabilities.fields.get("model") != Some(&Capability::Refuse),
            strict,
            created,
        }
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<Model<'_>> {
        self.listed.iter().map(|id| self.shown(id)).collect()
    }

    /// One of them, or the default by the agent's name.
    pub(crate) fn find(&self, id: &str) -> Option<Model<'_>> {
        let known = self.listed.iter().find(|listed| *listed == id);
        known.or(Some(&self.agent).filter(|agent| *agent == id)).map(|id| self.shown(id))
    }

    /// The model of the run for what the client asked; `None` = the agent uses its default. A provider before it is
    /// left there: whether it is cut is the adapter's affair.
    ///
    /// # Errors
    /// 404 for a model that is not listed, if only those are accepted.
    pub(crate) fn choose(&self, asked: &str) -> Result<Option<String>, ApiError> {
        let bare = asked.split_once('/').map_or(asked, |(_, rest)| rest);
        if self.is_listed(asked) || (!self.keeps_prefix && self.is_listed(bare)) {
            // One that the operator gave a name to, of an agent that has no choice.
            return Ok(Some(asked.to_owned()).filter(|_| self.has_channel));
        }
        if asked == self.agent || bare == self.agent {
            return Ok(None);
        }
        if self.strict {
            return Err(ApiError::no_such_model(asked));
        }
        Ok(Some(asked.to_owned()))
    }

    fn is_listed(&self, name: &str) -> bool {
        self.listed.iter().any(|listed| listed == name)
    }

    fn shown<'a>(&'a self, id: &'a str) -> Model<'a> {
        Model { id, object: "model", created: self.created, owned_by: &self.agent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(keeps_prefix: bool, strict: bool) -> Models {
        Models {
            listed: vec!["gpt-5".into(), "other/listed".into()],
            agent: "codex".into(),
            keeps_prefix,
            has_channel: true,
            strict,
            created: 0,
        }
    }

    #[test]
    fn names_are_understood() {
        let cuts = models(false, false);
        for (asked, told) in [
            ("gpt-5", Some("gpt-5")),
            ("openai/gpt-5", Some("openai/gpt-5")),
            ("other/listed", Some("other/listed")),
            ("a/b/c", Some("a/b/c")),
            ("unknown", Some("unknown")),
            ("codex", None),
            ("aicodebox/codex", None),
        ] {
            assert_eq!(cuts.choose(asked).unwrap().as_deref(), told, "{asked}");
        }
        let keeps = models(true, false);
        assert_eq!(keeps.choose("openai/gpt-5").unwrap().as_deref(), Some("openai/gpt-5"));
        assert_eq!(keeps.choose("aicodebox/codex").unwrap(), None);
    }

    #[test]
    fn strict_means_listed_or_the_agents_own_name() {
        let strict = models(false, true);
        for good in ["gpt-5", "openai/gpt-5", "other/listed", "codex"] {
            assert!(strict.choose(good).is_ok(), "{good}");
        }
        assert!(strict.choose("nope").is_err());
    }

    #[test]
    fn an_agent_without_a_choice_is_told_no_listed_model() {
        let models = Models { has_channel: false, ..models(false, false) };
        assert_eq!(models.choose("gpt-5").unwrap(), None);
        assert_eq!(models.choose("else").unwrap().as_deref(), Some("else"));
    }
}
