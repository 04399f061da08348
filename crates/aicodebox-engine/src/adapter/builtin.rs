use std::{io, path::Path};

use super::{FileAdapter, LoadErrors};

/// The adapters that are always there, by name.
const BUILTINS: [(&str, &str); 7] = [
    ("demo", include_str!("builtin/demo.toml")),
    ("text", include_str!("builtin/text.toml")),
    ("codex", include_str!("builtin/codex.toml")),
    ("claude", include_str!("builtin/claude.toml")),
    ("pi", include_str!("builtin/pi.toml")),
    ("gemini", include_str!("builtin/gemini.toml")),
    ("opencode", include_str!("builtin/opencode.toml")),
];

/// Why there is no such adapter.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// Neither a built-in nor a file.
    #[error(
        "no adapter '{name}': use {known}, the path of a file that ends in .toml, or a Python class as package.module:Class"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// All built-ins.
        known: String,
    },
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The file is wrong.
    #[error(transparent)]
    Invalid(#[from] LoadErrors),
}

/// Names of the built-in adapters.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|(name, _)| *name)
}

/// The text of a built-in adapter's file.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTINS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Loads an adapter: the name of a built-in, or the path of a file that ends in `.toml`.
///
/// # Errors
/// [`AdapterError`] when there is none, or it is wrong.
pub fn load_adapter(name: &str) -> Result<FileAdapter, AdapterError> {
    if let Some(text) = builtin(name) {
        return Ok(FileAdapter::load(text, name)?);
    }
    if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
        let known = builtin_names().collect::<Vec<_>>().join(", ");
        return Err(AdapterError::Unknown { name: name.to_owned(), known });
    }
    let text =
        std::fs::read_to_string(name).map_err(|error| AdapterError::Read { path: name.to_owned(), error })?;
    Ok(FileAdapter::load(&text, name)?)
}
