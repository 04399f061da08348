use super::{
    contract::{Host, PlanError, Probe, VersionProbe},
    draft::Draft,
    file::FileAdapter,
    group::Group,
    spec::{Content, Spec, Variable},
};
use crate::{
    process::Launch,
    run::{Origin, RunRequest, Workspace},
};

impl FileAdapter {
    /// What to ask for the flags that groups depend on: the help text once, or each flag by itself where the help
    /// does not tell.
    pub(super) fn flag_probes(&self, host: &Host) -> Result<Vec<Probe>, PlanError> {
        let flags = self.spec().probed_flags();
        let Some(probe) = self.spec().probe.as_ref().filter(|_| !flags.is_empty()) else {
            return Ok(Vec::new());
        };
        let Some(absent) = &probe.absent else {
            let launch = self.question(host, &probe.args)?;
            let read = move |answer: &str| {
                // No answer says nothing of any flag.
                let known = |flag: &String| (flag.clone(), has_word(answer, flag));
                if answer.trim().is_empty() { Vec::new() } else { flags.iter().map(known).collect() }
            };
            return Ok(vec![Probe { launch, read: Box::new(read) }]);
        };
        let ask = |flag: String| {
            let args: Vec<String> = probe.args.iter().cloned().chain([flag.clone()]).collect();
            let absent = absent.clone();
            let read = move |answer: &str| vec![(flag.clone(), !absent.is_match(answer))];
            Ok(Probe { launch: self.question(host, &args)?, read: Box::new(read) })
        };
        flags.into_iter().map(ask).collect()
    }

    pub(super) fn version_question(&self, host: &Host) -> Option<VersionProbe> {
        let version = self.spec().probe.as_ref()?.version.clone()?;
        let launch = self.question(host, &["--version".to_owned()]).ok()?;
        let read = move |answer: &str| {
            let found = |line: &str| Some(version.captures(line.trim())?.get(1)?.as_str().to_owned());
            answer.lines().find_map(found)
        };
        Some(VersionProbe { launch, read: Box::new(read) })
    }

    /// The program with these arguments, no input, and the environment of a run that asks for nothing.
    fn question(&self, host: &Host, args: &[String]) -> Result<Launch, PlanError> {
        let workspace = Workspace { path: host.home.clone(), root: false, guard: None };
        let base = self.draft(&RunRequest::new("", workspace, Origin::Cli), host)?;
        let argv = base.argv.first().into_iter().chain(args).cloned().collect();
        self.launch(&mut Draft { argv, stdin: None, ..base }, host, &host.home)
    }
}

impl Spec {
    /// Every flag that a group asks for, once.
    fn probed_flags(&self) -> Vec<String> {
        fn of<T>(groups: &[Group<T>]) -> Vec<&String> {
            groups.iter().filter_map(|group| group.probe.as_ref()).collect()
        }
        let env = self.env.iter().flat_map(|(_, variable)| match variable {
            Variable::Json { parts, .. } => of(parts),
            Variable::Remove | Variable::Text { .. } | Variable::Alias { .. } => Vec::new(),
        });
        let files = self.files.iter().flat_map(|file| match &file.content {
            Content::Json(parts) => of(parts),
            Content::Text(_) => Vec::new(),
        });
        let mut flags: Vec<String> = Vec::new();
        for flag in of(&self.argv).into_iter().chain(env).chain(files) {
            if !flags.contains(flag) {
                flags.push(flag.clone());
            }
        }
        flags
    }
}

/// Whether `word` stands in `text` by itself: `--effort` is not in `--effort-level`, `-m` is not in `--model`.
fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(inside) && !text[at + word.len()..].starts_with(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_a_whole_word() {
        let help = "  -m, --model <NAME>\n  --effort-level\n  [--json|--text]\n  --out=FILE";
        for flag in ["-m", "--model", "--json", "--text", "--out", "--effort-level"] {
            assert!(has_word(help, flag), "{flag}");
        }
        for flag in ["--effort", "-mode", "--mod", "-o", "--level", "model"] {
            assert!(!has_word(help, flag), "{flag}");
        }
    }
}
