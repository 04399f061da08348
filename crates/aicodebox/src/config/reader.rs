use std::{ffi::OsStr, fmt, fs::File, io::Read, path::PathBuf};

use secrecy::SecretString;

use super::{
    Environment, parse,
    variable::{Fallback, Variable},
};

/// A secret's file may have this many bytes.
const SECRET_LIMIT: u64 = 64 << 10;

/// Everything that is wrong with the configuration, one sentence each. Never a secret's value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(pub(crate) Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is wrong:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ConfigError {}

/// Reads variables and remembers what was wrong with them, so that all of it can be told at once.
pub(crate) struct Reader<'a> {
    environment: &'a Environment,
    errors: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(environment: &'a Environment) -> Self {
        Self { environment, errors: Vec::new() }
    }

    pub(crate) fn environment(&self) -> &'a Environment {
        self.environment
    }

    /// The value, if nothing was wrong.
    ///
    /// # Errors
    /// All that was wrong.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, ConfigError> {
        value.filter(|_| self.errors.is_empty()).ok_or(ConfigError(self.errors))
    }

    /// All that was wrong.
    pub(crate) fn faults(self) -> Vec<String> {
        self.errors
    }

    /// Remembers one more fault.
    pub(crate) fn fault(&mut self, variable: &Variable, what: impl fmt::Display) {
        self.fault_of(variable.name, what);
    }

    /// The same of a name that no variable has as its own.
    pub(crate) fn fault_of(&mut self, name: &str, what: impl fmt::Display) {
        let names = self.environment.given_names(name).join(" or ");
        self.errors.push(format!("{names}: {what}"));
    }

    /// Whether the user has set it.
    pub(crate) fn is_set(&self, variable: &Variable) -> bool {
        self.environment.value(variable).is_some()
    }

    /// Whether the user has named a file for this secret.
    pub(crate) fn has_file(&self, variable: &Variable) -> bool {
        variable.file_name().is_some_and(|name| self.environment.get(&name).is_some())
    }

    /// The value or its default text, read by `parse`. `None` when there is neither, or when it is wrong; the
    /// latter is remembered.
    fn parsed<T>(
        &mut self,
        variable: &Variable,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = match (self.environment.value(variable), variable.fallback) {
            (Some(value), _) => value,
            (None, Fallback::Text(text)) => OsStr::new(text),
            (None, Fallback::Nothing | Fallback::Derived(_)) => return None,
        };
        let parsed = value.to_str().and_then(|text| parse(text.trim()));
        if parsed.is_none() {
            self.fault(variable, format_args!("expected {expected}, found {value:?}"));
        }
        parsed
    }

    pub(crate) fn boolean(&mut self, variable: &Variable) -> bool {
        self.switch(variable).unwrap_or_default()
    }

    /// A boolean; `None` when it is wrong.
    pub(crate) fn switch(&mut self, variable: &Variable) -> Option<bool> {
        self.parsed(variable, "1, true, yes or on, or 0, false, no or off", parse::boolean)
    }

    pub(crate) fn duration(&mut self, variable: &Variable) -> std::time::Duration {
        self.parsed(variable, "a duration such as 30s, 5m, 2h or 7d", parse::duration).unwrap_or_default()
    }

    pub(crate) fn limit(&mut self, variable: &Variable) -> Option<std::time::Duration> {
        self.parsed(variable, "a duration such as 30s, 5m, 2h or 7d, or off", parse::limit).flatten()
    }

    pub(crate) fn size(&mut self, variable: &Variable) -> u64 {
        self.parsed(variable, "a size such as 512KiB, 10MiB or 2GiB", parse::size).unwrap_or_default()
    }

    pub(crate) fn count(&mut self, variable: &Variable) -> usize {
        self.parsed(variable, "a whole number from 1", parse::count).unwrap_or_default()
    }

    pub(crate) fn number(&mut self, variable: &Variable) -> usize {
        self.parsed(variable, "a whole number from 0", parse::number).unwrap_or_default()
    }

    pub(crate) fn port(&mut self, variable: &Variable) -> u16 {
        self.parsed(variable, "a port from 0 to 65535", parse::port).unwrap_or_default()
    }

    /// An address; `None` when it is wrong.
    pub(crate) fn address(&mut self, variable: &Variable) -> Option<std::net::IpAddr> {
        self.parsed(variable, "an IP address or localhost", parse::address)
    }

    /// The number of a chat; `None` when there is none, or when it is wrong.
    pub(crate) fn chat(&mut self, variable: &Variable) -> Option<i64> {
        self.parsed(variable, "the number of a chat", |text| text.parse().ok())
    }

    pub(crate) fn list(&mut self, variable: &Variable) -> Vec<String> {
        self.parsed(variable, "words separated by commas", |text| Some(parse::list(text))).unwrap_or_default()
    }

    pub(crate) fn text(&mut self, variable: &Variable) -> Option<String> {
        self.parsed(variable, "text in UTF-8", |text| Some(text.to_owned()))
    }

    /// One of these words.
    pub(crate) fn word<T: Copy>(&mut self, variable: &Variable, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<_> = words.iter().map(|(name, _)| *name).collect();
        let expected = match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        };
        self.parsed(variable, &expected, |text| {
            words.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, word)| *word)
        })
    }

    /// A path, as it is or its default.
    pub(crate) fn path(&self, variable: &Variable) -> Option<PathBuf> {
        match (self.environment.value(variable), variable.fallback) {
            (Some(value), _) => Some(value.into()),
            (None, Fallback::Text(text)) => Some(text.into()),
            (None, Fallback::Nothing | Fallback::Derived(_)) => None,
        }
    }

    /// A secret, from the variable or from the file that `<name>_FILE` names, without the line break at its end. One
    /// that nobody could ever send in a header is a fault.
    pub(crate) fn secret(&mut self, variable: &Variable) -> Option<SecretString> {
        let direct = self.environment.value(variable);
        let file_name = variable.file_name()?;
        let file = self.environment.get(&file_name);
        let text = match (direct, file) {
            (None, None) => return None,
            (Some(_), Some(_)) => Err(format!("set it or {file_name}, not both")),
            (Some(value), None) => {
                value.to_str().map(str::to_owned).ok_or("expected text in UTF-8".to_owned())
            }
            (None, Some(path)) => read_secret(path),
        };
        let told_of = if direct.is_some() { variable.name } else { &file_name };
        match text.and_then(sendable) {
            Ok(text) => Some(text.into()),
            Err(error) => {
                self.fault_of(told_of, error);
                None
            }
        }
    }
}

/// A blank at an end is lost on the way, and a line break ends the header.
fn sendable(secret: String) -> Result<String, String> {
    if secret.contains(char::is_control) {
        return Err("expected one line without control characters".to_owned());
    }
    if secret.trim() != secret {
        return Err("expected no blanks at its ends".to_owned());
    }
    Ok(secret)
}

/// What the file of a secret holds, without the line break at its end.
///
/// # Errors
/// A sentence that names the file, when it cannot be read, is empty or longer than 64 KiB.
pub(crate) fn read_secret(path: &OsStr) -> Result<String, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(SECRET_LIMIT + 1).read_to_string(&mut text))
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if text.len() as u64 > SECRET_LIMIT {
        return Err(format!("{} is longer than {SECRET_LIMIT} bytes", path.display()));
    }
    let secret =
        text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    if secret.is_empty() {
        return Err(format!("{} is empty", path.display()));
    }
    Ok(secret.to_owned())
}
