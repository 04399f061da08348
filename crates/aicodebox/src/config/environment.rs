use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
};

use super::{
    VARIABLES,
    variable::{PREFIX, Variable},
};

/// What the names of our variables begin with.
const OURS: &str = "AICODEBOX";

/// The environment as a value: read from the process once, made up in tests.
#[derive(Clone, Default)]
pub(crate) struct Environment(HashMap<OsString, OsString>);

impl Environment {
    /// The environment of this process. `HOME`, where it is missing, is the user's; names with the prefix of this
    /// image are ours.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads it")]
    pub(crate) fn of_process() -> Self {
        let mut variables: HashMap<_, _> = std::env::vars_os().collect();
        if let Some(home) = std::env::home_dir() {
            variables.entry("HOME".into()).or_insert(home.into());
        }
        let mut environment = Self(variables);
        environment.rename();
        environment
    }

    /// Gives each variable that begins with `AICODEBOX_PREFIX` the name that we read. The old name goes where the new
    /// one is known, or a token would reach the agents under it; others may be the agent's own.
    fn rename(&mut self) {
        let Some(prefix) = self.prefix() else { return };
        let theirs: Vec<(OsString, String)> = self
            .0
            .keys()
            .filter_map(|name| {
                let rest = name.to_str()?.strip_prefix(&prefix)?.strip_prefix('_')?;
                (!rest.is_empty()).then(|| (name.clone(), format!("{OURS}_{rest}")))
            })
            .collect();
        for (old, new) in theirs {
            let known = is_known(&new) || is_secret(&new);
            let value = if known { self.0.remove(&old) } else { self.0.get(&old).cloned() };
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.set(new, value);
            }
        }
    }

    /// What else the names of our variables may begin with.
    fn prefix(&self) -> Option<String> {
        self.get(PREFIX.name)?.to_str().filter(|prefix| is_prefix(prefix)).map(str::to_owned)
    }

    /// The names under which the user may have given this variable.
    pub(crate) fn given_names(&self, name: &str) -> Vec<String> {
        let rest = name.strip_prefix(OURS);
        let theirs = self.prefix().zip(rest).map(|(prefix, rest)| prefix + rest);
        [name.to_owned()].into_iter().chain(theirs).collect()
    }

    /// The value of `name`; an empty one counts as unset.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The value of a variable under its name or its alias.
    pub(crate) fn value(&self, variable: &Variable) -> Option<&OsStr> {
        self.get(variable.name).or_else(|| self.get(variable.alias?))
    }

    /// What agents get: everything but the gateway's secrets and the files that hold them. A token of a name
    /// that this version does not know is a secret too.
    pub(crate) fn for_agents(&self) -> HashMap<OsString, OsString> {
        self.0
            .iter()
            .filter(|(name, _)| !name.to_str().is_some_and(is_secret))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// All of it.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Sets one.
    pub(crate) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// Takes the gateway's secrets out, and the names of the files that hold them.
    pub(crate) fn take_secrets(&mut self) -> Vec<(OsString, OsString)> {
        self.0.extract_if(|name, _| name.to_str().is_some_and(is_secret)).collect()
    }

    /// A sentence for each `AICODEBOX_` variable that nothing reads, in the order of their names.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut unknown: Vec<_> = self
            .0
            .keys()
            .filter_map(|name| name.to_str())
            .filter(|name| name.starts_with("AICODEBOX_") && !is_known(name))
            .collect();
        unknown.sort_unstable();
        unknown
            .into_iter()
            .map(|name| {
                let given = |name: &str| self.given_names(name).join(" or ");
                let nearest = nearest(name).map(|near| format!("; did you mean {}?", given(&near)));
                format!("{} is not a variable of aicodebox{}", given(name), nearest.unwrap_or_default())
            })
            .collect()
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// A name as shells have it, and none of ours: that would turn our names into others.
pub(super) fn is_prefix(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(letter)
        && text.chars().all(|c| letter(c) || c.is_ascii_digit())
        && !text.starts_with(OURS)
}

fn is_secret(name: &str) -> bool {
    let declared = VARIABLES.iter().filter(|variable| variable.secret).any(|variable| {
        name.strip_prefix(variable.name).is_some_and(|rest| rest.is_empty() || rest == "_FILE")
    });
    declared || (name.starts_with("AICODEBOX_") && (name.contains("_TOKEN") || name.contains("_SECRET")))
}

fn known_names() -> impl Iterator<Item = String> {
    VARIABLES.iter().flat_map(|variable| {
        [Some(variable.name.to_owned()), variable.alias.map(str::to_owned), variable.file_name()]
            .into_iter()
            .flatten()
    })
}

fn is_known(name: &str) -> bool {
    known_names().any(|known| known == name)
}

/// The known name that is most like `name`, if any is like it at all.
fn nearest(name: &str) -> Option<String> {
    known_names()
        .map(|known| (strsim::damerau_levenshtein(name, &known), known))
        .min()
        .filter(|(distance, known)| distance * 4 <= known.len())
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConfigError};

    #[test]
    fn an_empty_value_counts_as_unset() {
        let environment = Environment::from_iter([("AICODEBOX_API_MODE_TOKEN", "")]);
        assert_eq!(environment.get("AICODEBOX_API_MODE_TOKEN"), None);
    }

    #[test]
    fn names_with_the_images_prefix_are_ours_and_win() {
        let mut environment = Environment::from_iter([
            ("AICODEBOX_PREFIX", "MYBOX"),
            ("AICODEBOX_DEFAULT_MODEL", "of the image"),
            ("MYBOX_DEFAULT_MODEL", "of the user"),
            ("AICODEBOX_CONTAINER_NAME", "mybox"),
            ("MYBOX_CONTAINER_NAME", ""),
            ("MYBOX_API_MODE_TOKEN_FILE", "/t"),
            ("MYBOX_OF_A_LATER_VERSION_TOKEN", "t"),
            ("MYBOX_HOME", "the agent's own"),
            ("MYBOXES_API_MODE", "1"),
        ]);
        environment.rename();
        let get = |name: &str| environment.get(name).and_then(OsStr::to_str);
        assert_eq!(get("AICODEBOX_DEFAULT_MODEL"), Some("of the user"));
        assert_eq!(get("AICODEBOX_CONTAINER_NAME"), Some("mybox"));
        assert_eq!(get("AICODEBOX_API_MODE_TOKEN_FILE"), Some("/t"));
        assert_eq!((get("MYBOX_HOME"), get("AICODEBOX_API_MODE")), (Some("the agent's own"), None));
        let left: Vec<_> =
            environment.0.keys().filter(|name| name.to_str().unwrap().starts_with("MYBOX_")).collect();
        assert_eq!(left, ["MYBOX_HOME"]);
        assert_eq!(
            environment.given_names("AICODEBOX_API_MODE_TOKEN"),
            ["AICODEBOX_API_MODE_TOKEN", "MYBOX_API_MODE_TOKEN"]
        );
        // Once more, in a process that this one starts, it changes nothing.
        let before = environment.0.clone();
        environment.rename();
        assert_eq!(environment.0, before);
    }

    #[test]
    fn a_prefix_of_our_own_takes_nothing_away() {
        for prefix in ["AICODEBOX", "AICODEBOX_API", "9BOX", "MY-BOX"] {
            let token = ("AICODEBOX_API_MODE_TOKEN", "t");
            let mut environment = Environment::from_iter([("AICODEBOX_PREFIX", prefix), token]);
            environment.rename();
            assert!(environment.get(token.0).is_some(), "{prefix}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_known_one() {
        let environment = Environment::from_iter([
            ("AICODEBOX_API_MODE_PROT", "1"),
            ("AICODEBOX_WHOLLY_DIFFERENT_THING", "1"),
            ("AICODEBOX_API_MODE_TOKEN_FILE", "/t"),
            ("AICODE_WORKSPACE", "/w"),
            ("SOMETHING_ELSE", "1"),
        ]);
        assert_eq!(
            environment.warnings(),
            [
                "AICODEBOX_API_MODE_PROT is not a variable of aicodebox; did you mean AICODEBOX_API_MODE_PORT?",
                "AICODEBOX_WHOLLY_DIFFERENT_THING is not a variable of aicodebox",
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_under_the_names_that_the_user_may_have_set() {
        let environment = Environment::from_iter([
            ("HOME", "/home/me"),
            ("AICODEBOX_PREFIX", "MYBOX"),
            ("AICODEBOX_API_MOD", "1"),
            ("AICODEBOX_RUN_TIMEOUT", "3x"),
        ]);
        assert_eq!(
            environment.warnings(),
            [
                "AICODEBOX_API_MOD or MYBOX_API_MOD is not a variable of aicodebox; did you mean AICODEBOX_API_MODE or \
              MYBOX_API_MODE?"
            ]
        );
        let ConfigError(faults) = Config::from_env(&environment).unwrap_err();
        assert!(faults[0].starts_with("AICODEBOX_RUN_TIMEOUT or MYBOX_RUN_TIMEOUT: expected"), "{faults:?}");
    }

    #[test]
    fn agents_get_no_secret_of_the_gateway_but_everything_else() {
        let kept = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "k"),
            ("GITHUB_TOKEN", "g"),
            ("AICODEBOX_WORKSPACE", "/w"),
            ("AICODEBOX_API_MODE_PORT", "1"),
        ];
        let taken = [
            ("AICODEBOX_API_MODE_TOKEN", "t"),
            ("AICODEBOX_API_MODE_TOKEN_FILE", "/t"),
            ("AICODEBOX_TELEGRAM_MODE_TOKEN", "t"),
            ("AICODEBOX_MCP_MODE_TOKEN", "t"),
            ("AICODEBOX_CALLBACK_SECRET", "s"),
            ("AICODEBOX_CALLBACK_SECRET_FILE", "/s"),
            ("AICODEBOX_OF_A_LATER_VERSION_TOKEN", "t"),
        ];
        let environment = Environment::from_iter(kept.into_iter().chain(taken));
        let expected: HashMap<OsString, OsString> =
            kept.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        assert_eq!(environment.for_agents(), expected);
    }
}
