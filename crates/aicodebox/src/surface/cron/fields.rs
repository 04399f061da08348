use std::{fmt, str::FromStr, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_saphyr::Spanned;

use crate::config::parse;

/// The settings of a job, or those at the root, with the line of each. Read by hand rather than by a derived struct:
/// a fault names its line, its job and its field, and all of them are told at once.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<Setting>);

#[derive(Clone, Debug)]
struct Setting {
    name: String,
    line: u64,
    /// As it was written; `None` = null.
    text: Option<String>,
}

/// Something wrong in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// From 1.
    pub(crate) line: u64,
    /// What and where.
    pub(crate) what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Reads the settings of one job, or its defaults, and remembers what is wrong.
pub(super) struct FieldReader<'a> {
    /// `job x`, `job number 3` or `the defaults`.
    pub(super) whose: String,
    own: &'a Fields,
    defaults: Option<&'a Fields>,
    faults: &'a mut Vec<Fault>,
    /// Where the settings begin.
    line: u64,
}

impl Fields {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.text.as_deref()
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.text(name).filter(|text| !text.trim().is_empty())
    }

    pub(super) fn add(&mut self, name: String, value: Spanned<Option<String>>) {
        self.0.push(Setting { name, line: value.referenced.line(), text: value.value });
    }

    fn get(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.name == name)
    }
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(
        whose: String,
        line: u64,
        own: &'a Fields,
        defaults: Option<&'a Fields>,
        faults: &'a mut Vec<Fault>,
    ) -> Self {
        Self { whose, own, defaults, faults, line }
    }

    /// Remembers a fault of the field.
    pub(super) fn fault(&mut self, name: &str, what: impl fmt::Display) {
        let found = self.own.get(name).or_else(|| self.defaults?.get(name));
        let line = found.map_or(self.line, |setting| setting.line);
        self.faults.push(Fault { line, what: format!("{}: {name}: {what}", self.whose) });
    }

    /// Refuses names that are not among these, and those that come twice.
    pub(super) fn only(&mut self, known: &[&str]) {
        for (index, setting) in self.own.0.iter().enumerate() {
            let what = if !known.contains(&setting.name.as_str()) {
                let near = known.iter().min_by_key(|known| strsim::damerau_levenshtein(known, &setting.name));
                let near = near.filter(|near| strsim::damerau_levenshtein(near, &setting.name) <= 3);
                format!(
                    "is not known{}",
                    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
                )
            } else if self.own.0[..index].iter().any(|before| before.name == setting.name) {
                "is given twice".to_owned()
            } else {
                continue;
            };
            self.faults.push(Fault {
                line: setting.line,
                what: format!("{}: {}: {what}", self.whose, setting.name),
            });
        }
    }

    /// The text of the field: the job's own, else the root's. Empty = not given.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.own.given(name).or_else(|| self.defaults?.given(name))
    }

    /// The text of a field with two names: the job's own under either, else the root's. Both in one place is a fault.
    pub(super) fn one_of(&mut self, names: [&str; 2]) -> Option<&'a str> {
        let [first, second] = names;
        if self.own.given(first).is_some() && self.own.given(second).is_some() {
            self.fault(second, format_args!("means the same as {first}: give one of them"));
        }
        let given = |fields: &'a Fields| names.into_iter().find_map(|name| fields.given(name));
        given(self.own).or_else(|| given(self.defaults?))
    }

    /// The field, read by `read`; what it cannot read is a fault.
    pub(super) fn read<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let value = read(text.trim());
        if value.is_none() {
            self.fault(name, format_args!("expected {expected}, found {text:?}"));
        }
        value
    }

    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        self.read(name, "true or false", parse::boolean)
    }

    pub(super) fn duration(&mut self, name: &str) -> Option<Duration> {
        let longer = |text: &str| parse::duration(text).filter(|duration| !duration.is_zero());
        self.read(name, "a duration such as 30s, 5m, 2h or 7d", longer)
    }

    pub(super) fn number<T: FromStr>(&mut self, name: &str, expected: &str) -> Option<T> {
        self.read(name, expected, |text| text.parse().ok())
    }

    /// The text of a field that must be there.
    pub(super) fn required(&mut self, name: &str) -> Option<&'a str> {
        let text = self.text(name);
        if text.is_none() {
            self.fault(name, "is required");
        }
        text
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Settings;

        impl<'de> Visitor<'de> for Settings {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings, each `name: value`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some(name) = map.next_key::<String>()? {
                    fields.add(name, map.next_value()?);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Settings)
    }
}
