use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use nix::libc;

use super::{Config, Environment};

/// The auth file may have this many bytes.
const LIMIT: u64 = 256 << 10;

/// Where nothing says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Config {
    /// The environment of agents: ours without the gateway's secrets, `<state>/bin` first on its `PATH`, and on top
    /// what the auth file says. And a sentence for each line of that file which does not hold.
    pub(crate) fn agent_environment(
        &self,
        environment: &Environment,
    ) -> (HashMap<OsString, OsString>, Vec<String>) {
        let mut variables = environment.for_agents();
        let path = path_with_programs(environment.get("PATH"), &self.state_dir);
        variables.insert("PATH".into(), path);
        let file = self.state_dir.join(format!(".{}-auth", self.container_name));
        let (lines, warnings) = match read(&file) {
            Ok(text) => parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Default::default(),
            Err(error) => (Vec::new(), vec![format!("it cannot be read: {error}")]),
        };
        variables.extend(lines.into_iter().map(|(name, value)| (name.into(), value.into())));
        let warnings = warnings.iter().map(|what| format!("{}: {what}", file.display())).collect();
        (variables, warnings)
    }
}

/// A `PATH` on which `<state>/bin` comes first: the programs that a user of this box has added for agents.
pub(crate) fn path_with_programs(path: Option<&OsStr>, state: &Path) -> OsString {
    let mut all = state.join("bin").into_os_string();
    all.push(":");
    all.push(path.unwrap_or(OsStr::new(PATH)));
    all
}

/// A regular file, opened without waiting: an agent could have put a pipe there.
fn read(path: &Path) -> io::Result<String> {
    let file = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut text = String::new();
    file.take(LIMIT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LIMIT {
        return Err(io::Error::other(format!("longer than {LIMIT} bytes")));
    }
    Ok(text)
}

/// Reads `KEY=VALUE` lines, with `export` before and quotes around the value as one likes. Nothing is ever executed or
/// expanded. The second list says what was left out, without any value.
fn parse(text: &str) -> (Vec<(String, String)>, Vec<String>) {
    let (mut variables, mut warnings) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let assignment = line.strip_prefix("export ").unwrap_or(line).trim_start();
        match assignment.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, _)) if is_refused(name) => {
                warnings.push(format!("line {number}: {name} is not for this file to set"));
            }
            Some((name, value)) => match unquote(value) {
                Some(value) => variables.push((name.to_owned(), value)),
                None => warnings.push(format!("line {number}: the quotes of {name} do not match")),
            },
            None => warnings.push(format!("line {number}: expected NAME=value")),
        }
    }
    (variables, warnings)
}

fn is_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letters) && name.chars().all(|c| letters(c) || c.is_ascii_digit())
}

/// What decides which programs and libraries run, and what is the gateway's own; Python's too, because the gateway runs
/// adapter classes with it.
fn is_refused(name: &str) -> bool {
    ["AICODEBOX_", "LD_", "PYTHON"].iter().any(|prefix| name.starts_with(prefix))
        || ["PATH", "HOME", "BASH_ENV", "ENV"].contains(&name)
}

/// The value without its quotes; inside double ones a backslash protects a quote, a dollar, a backtick or itself.
fn unquote(value: &str) -> Option<String> {
    let value = value.trim();
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.strip_suffix('\'').filter(|inner| !inner.contains('\'')).map(str::to_owned);
    }
    let Some(rest) = value.strip_prefix('"') else { return Some(value.to_owned()) };
    let (mut inner, mut rest) = (String::new(), rest.chars());
    while let Some(c) = rest.next() {
        match c {
            '"' => return rest.next().is_none().then_some(inner),
            '\\' => match rest.next()? {
                escaped @ ('"' | '\\' | '$' | '`') => inner.push(escaped),
                other => inner.extend(['\\', other]),
            },
            other => inner.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_never_executed() {
        let text = r#"
# comment
OPENAI_API_KEY=sk-1
export ANTHROPIC_API_KEY="sk \"2\" \n"
 SINGLE='a $(touch /tmp/x) "b"'
EMPTY=
PLAIN=$(touch /tmp/x) `id` # not a comment
"#;
        let (variables, warnings) = parse(text);
        let expected = [
            ("OPENAI_API_KEY", "sk-1"),
            ("ANTHROPIC_API_KEY", "sk \"2\" \\n"),
            ("SINGLE", "a $(touch /tmp/x) \"b\""),
            ("EMPTY", ""),
            ("PLAIN", "$(touch /tmp/x) `id` # not a comment"),
        ];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn what_decides_what_runs_is_refused_by_name_and_no_value_is_told() {
        let text = "AICODEBOX_API_MODE_TOKEN=hush\nLD_PRELOAD=hush\nexport PATH=hush\nHOME=hush\nBASH_ENV=hush\n\
                    PYTHONPATH=hush\nrm -rf hush\nX='hush\n";
        let (variables, warnings) = parse(text);
        assert!(variables.is_empty(), "{variables:?}");
        assert_eq!(warnings.len(), 8, "{warnings:?}");
        assert!(!warnings.concat().contains("hush"), "{warnings:?}");
    }

    #[test]
    fn the_file_is_for_agents_alone_and_a_pipe_in_its_place_stops_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path();
        let environment = Environment::from_iter([
            ("PATH", "/bin"),
            ("AICODEBOX_STATE_DIR", state.to_str().unwrap()),
            ("AICODEBOX_CONTAINER_NAME", "mybox"),
        ]);
        let config = Config::from_env(&environment).unwrap();
        fs::write(state.join(".mybox-auth"), "KEY=k\nPATH=/evil\n").unwrap();
        let (variables, warnings) = config.agent_environment(&environment);
        let get = |name: &str| variables[OsStr::new(name)].to_str().unwrap().to_owned();
        assert_eq!((get("KEY"), get("PATH")), ("k".into(), format!("{}/bin:/bin", state.display())));
        assert_eq!(warnings.len(), 1);

        fs::remove_file(state.join(".mybox-auth")).unwrap();
        nix::unistd::mkfifo(&state.join(".mybox-auth"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (variables, warnings) = config.agent_environment(&environment);
        assert!(!variables.contains_key(OsStr::new("KEY")) && warnings.len() == 1, "{warnings:?}");
    }
}
