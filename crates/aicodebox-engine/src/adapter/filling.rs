use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{
    condition::Term,
    contract::{Host, RunFile},
    draft::{Draft, Refusal, refuse},
    field::PROMPT_FILE,
    group::{Group, Shape, Slots},
    spec::{Content, FileText, Spec, Variable},
    values::Values,
    words::{Encoder, Part, Slot, Words},
};
use crate::run::Notice;

/// The kernel takes arguments and variables up to this many bytes, the final NUL not counted.
pub(super) const MAX_WORD: usize = 131_071;

/// Fills the placeholders of a file with the values of one request.
pub(super) struct Filling<'a> {
    spec: &'a Spec,
    values: &'a Values,
    /// The conditions that hold.
    set: u32,
    host: &'a Host,
    draft: &'a mut Draft,
}

impl<'a> Filling<'a> {
    pub(super) fn new(spec: &'a Spec, values: &'a Values, host: &'a Host, draft: &'a mut Draft) -> Self {
        Self { spec, values, set: values.set_of_terms(), host, draft }
    }

    pub(super) fn fill(mut self) -> Result<(), Refusal> {
        let spec = self.spec;
        let set = self.set;
        for file in spec.files.iter().filter(|file| file.when.holds(set)) {
            let text = match &file.content {
                Content::Text(words) => self.words(words, None),
                Content::Json(parts) => self.merged(parts),
            };
            let run_file = RunFile { path: self.path(file), text, temporary: file.path.is_none() };
            self.draft.files.push(run_file);
        }
        let program = self.host.binary.as_ref().map(|path| path.to_string_lossy().into_owned());
        self.draft.argv.extend(program.or_else(|| spec.binary.clone()));
        for group in &spec.argv {
            for item in self.items(group) {
                for words in &group.body {
                    let word = self.words(words, item);
                    self.check("argv", &word, words)?;
                    self.draft.argv.push(word);
                }
            }
        }
        self.draft.stdin = spec.stdin.as_ref().map(|words| self.words(words, None));
        for (name, variable) in &spec.env {
            self.variable(name, variable)?;
        }
        if self.values.holds(Term::Subscription) {
            self.draft.unset.extend(spec.metered.iter().cloned());
        }
        Ok(())
    }

    fn variable(&mut self, name: &str, variable: &Variable) -> Result<(), Refusal> {
        let value = match variable {
            Variable::Remove => {
                self.draft.unset.push(name.to_owned());
                return Ok(());
            }
            Variable::Text { when, .. } | Variable::Json { when, .. } | Variable::Alias { when, .. }
                if !when.holds(self.set) =>
            {
                return Ok(());
            }
            Variable::Text { text, .. } => {
                let value = self.words(text, None);
                self.check("env", &value, text)?;
                value
            }
            Variable::Json { parts, .. } => {
                let value = self.merged(parts);
                self.check("env", &value, parts.as_slice())?;
                value
            }
            Variable::Alias { from, .. } => {
                let Some(value) = from.iter().find_map(|name| self.host.var(name)) else { return Ok(()) };
                value.to_string_lossy().into_owned()
            }
        };
        self.draft.env.push((name.to_owned(), value));
        Ok(())
    }

    /// The times that a group is there: none, once, or once per element of a list.
    fn items<T>(&mut self, group: &Group<T>) -> Vec<Option<&'a str>> {
        if !group.when.holds(self.set) {
            return Vec::new();
        }
        if let Some(flag) = group.probe.as_ref().filter(|flag| self.host.flags.get(*flag) == Some(&false)) {
            let message = format!("{flag} is not known to this {} and was left out", self.spec.name);
            self.draft.notices.push(Notice { code: "ignored".into(), message });
            return Vec::new();
        }
        match group.each {
            None => vec![None],
            Some(field) => self.values.list(field).iter().map(|item| Some(item.as_str())).collect(),
        }
    }

    fn words(&mut self, words: &Words, item: Option<&str>) -> String {
        let mut text = String::new();
        for part in &words.0 {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Value { slot, file, encoder } => {
                    text.push_str(&self.value(*slot, *file, *encoder, item))
                }
            }
        }
        text
    }

    fn value(&mut self, slot: Slot, file: bool, encoder: Encoder, item: Option<&str>) -> String {
        let text = match slot {
            Slot::Prompt => self.values.prompt.clone(),
            Slot::Field(field) => match encoder {
                Encoder::Csv => self.values.list(field).join(","),
                Encoder::Quoted if !file => return quoted(&self.values.json(field)),
                Encoder::Plain | Encoder::Quoted => self.values.text(field),
            },
            Slot::Item(_) => item.unwrap_or_default().to_owned(),
            Slot::Home => self.host.home.to_string_lossy().into_owned(),
            Slot::Tmp => self.host.tmp.to_string_lossy().into_owned(),
            Slot::File(index) => {
                let path = self.spec.files.get(index).map(|file| self.path(file));
                path.unwrap_or_default().to_string_lossy().into_owned()
            }
        };
        let text = if file { self.temporary(slot, text) } else { text };
        match encoder {
            Encoder::Quoted => quoted(&Value::String(text)),
            Encoder::Plain | Encoder::Csv => text,
        }
    }

    /// The path of a temporary file with that text.
    fn temporary(&mut self, slot: Slot, text: String) -> String {
        let name = match slot {
            Slot::Field(field) | Slot::Item(field) => field.file_name(),
            Slot::Prompt | Slot::Home | Slot::Tmp | Slot::File(_) => PROMPT_FILE.to_owned(),
        };
        let path = self.host.tmp.join(name);
        if !self.draft.files.iter().any(|file| file.path == path) {
            self.draft.files.push(RunFile { path: path.clone(), text, temporary: true });
        }
        path.to_string_lossy().into_owned()
    }

    fn path(&self, file: &FileText) -> PathBuf {
        match &file.path {
            Some(path) => self.host.home.join(path),
            None => self.host.tmp.join(&file.name),
        }
    }

    /// The parts that are there, merged in order into one JSON text.
    fn merged(&mut self, parts: &[Group<Shape>]) -> String {
        let mut document = Value::Object(Map::new());
        for part in parts {
            for item in self.items(part) {
                let value = self.shape(&part.body, item);
                merge(&mut document, value);
            }
        }
        document.to_string()
    }

    fn shape(&mut self, shape: &Shape, item: Option<&str>) -> Value {
        match shape {
            Shape::Literal(value) => value.clone(),
            Shape::Text(words) => Value::String(self.words(words, item)),
            Shape::List(items) => items.iter().map(|shape| self.shape(shape, item)).collect(),
            Shape::Table(entries) => {
                let entry = |(key, value): &(Words, Shape)| (self.words(key, item), self.shape(value, item));
                Value::Object(entries.iter().map(entry).collect())
            }
        }
    }

    /// Whether the kernel takes that word; if not, names the field that is to blame.
    fn check(&self, channel: &'static str, word: &str, part: &(impl Slots + ?Sized)) -> Result<(), Refusal> {
        let blame = || {
            let mut longest = (0, channel);
            part.slots(&mut |slot| {
                let (length, name) = match slot {
                    Slot::Prompt => (self.values.prompt.len(), "prompt"),
                    Slot::Field(field) | Slot::Item(field) => (self.values.text(field).len(), field.name()),
                    Slot::Home | Slot::Tmp | Slot::File(_) => (0, channel),
                };
                longest = longest.max((length, name));
            });
            longest.1
        };
        if word.len() > MAX_WORD {
            let what = if channel == "argv" { "argument" } else { "variable" };
            let why = format!("{what} longer than {MAX_WORD} bytes");
            return Err(Refusal { field: blame(), why, length: Some(format!("{} bytes", word.len())) });
        }
        if word.contains('\0') {
            return Err(refuse(blame(), "must not contain a NUL character"));
        }
        Ok(())
    }
}

/// As JSON. TOML reads the same, but for DEL, which it does not take as it is.
fn quoted(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007f")
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(mine) if mine.is_object() && value.is_object() => merge(mine, value),
                    _ => {
                        into.insert(key, value);
                    }
                }
            }
        }
        (into, from) => *into = from,
    }
}
