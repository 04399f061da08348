use std::{cell::RefCell, fmt, ops::Range};

/// Everything that is wrong with an adapter file, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadErrors {
    /// The file's path, or the built-in's name.
    pub origin: String,
    /// At least one.
    pub errors: Vec<LoadError>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Which part of the file, and what is wrong with it.
    pub message: String,
}

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{}:{}: {}", self.origin, error.line, error.column, error.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadErrors {}

/// Collects errors while a file is read, so that all of them are told at once.
pub(super) struct Sink<'t> {
    text: &'t str,
    found: RefCell<Vec<(usize, String)>>,
}

impl<'t> Sink<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, found: RefCell::default() }
    }

    /// Notes an error at that span of the file.
    pub(super) fn push(&self, span: &Range<usize>, message: impl Into<String>) {
        self.found.borrow_mut().push((span.start, message.into()));
    }

    /// Fails with everything that was found so far.
    pub(super) fn check(&self, origin: &str) -> Result<(), LoadErrors> {
        let mut found = self.found.borrow().clone();
        if found.is_empty() {
            return Ok(());
        }
        found.sort_by_key(|(start, _)| *start);
        found.dedup();
        let place = |(start, message): (usize, String)| {
            let before = self.text.get(..start).unwrap_or(self.text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            LoadError { line, column, message }
        };
        Err(LoadErrors { origin: origin.to_owned(), errors: found.into_iter().map(place).collect() })
    }
}
