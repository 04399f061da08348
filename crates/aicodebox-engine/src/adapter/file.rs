use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    contract::{
        Adapter, AdapterInfo, Capabilities, Host, OutputReader, Plan, PlanError, Probe, ReaderContext,
        VersionProbe,
    },
    draft::{Draft, Refusal},
    field::Field,
    group::uses_prompt,
    load,
    load_error::LoadErrors,
    program,
    progress::Progress,
    reader::FileReader,
    spec::{Format, Spec},
    values::Values,
};
use crate::{
    BoxFuture,
    process::{Launch, Stdin, variables},
    run::{RunRequest, SessionChoice},
};

/// Bytes of all arguments and variables together. The kernel's own limit is a quarter of the stack's limit,
/// usually 2 MiB.
pub(super) const MAX_ARGV_AND_ENV: usize = 1 << 20;

/// An adapter that is a file.
#[derive(Clone, Debug)]
pub struct FileAdapter {
    spec: Arc<Spec>,
    info: AdapterInfo,
}

impl FileAdapter {
    /// Reads, checks and compiles a file. `origin` names it in messages.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with line and column.
    pub fn load(text: &str, origin: &str) -> Result<Self, LoadErrors> {
        let spec = load::load(text, origin)?;
        Ok(Self { info: info(&spec), spec: Arc::new(spec) })
    }

    /// What the file makes of a request, before a program is looked for.
    ///
    /// # Errors
    /// [`Refusal`] when this agent cannot carry it out.
    pub fn draft(&self, request: &RunRequest, host: &Host) -> Result<Draft, Refusal> {
        self.spec.draft(request, host)
    }

    fn plan_now(&self, request: &RunRequest, host: &Host) -> Result<Plan, PlanError> {
        let mut draft = self.draft(request, host)?;
        let launch = self.launch(&mut draft, host, &request.workspace.path)?;
        let words = launch.args.iter().map(|word| word.len() + 1);
        let variables = launch.env.iter().map(|(name, value)| name.len() + value.len() + 2);
        let bytes: usize = words.chain(variables).sum();
        if bytes > MAX_ARGV_AND_ENV {
            let field = self.longest_in_argv(&Values::of(request));
            let message =
                format!("{field}: arguments and environment have {bytes} bytes, at most {MAX_ARGV_AND_ENV}");
            return Err(PlanError::TooLong { field, message });
        }
        let Draft { files, notices, ignored, .. } = draft;
        Ok(Plan { launch, files, notices, ignored, quiet: self.spec.quiet, ticket: None })
    }

    /// The field that has most bytes in the command line.
    fn longest_in_argv(&self, values: &Values) -> &'static str {
        let argv = &self.spec.argv;
        let fields = Field::ALL.into_iter().filter(|field| argv.iter().any(|group| group.uses(*field)));
        let lengths = fields.map(|field| (values.text(field).len(), field.name()));
        let prompt =
            argv.iter().any(|group| uses_prompt(&group.body)).then_some((values.prompt.len(), "prompt"));
        lengths.chain(prompt).max().map_or("env", |(_, name)| name)
    }

    /// Takes command line, input and environment out of a draft.
    pub(super) fn launch(&self, draft: &mut Draft, host: &Host, cwd: &Path) -> Result<Launch, PlanError> {
        let program = program::find(self.spec.binary.as_deref(), host)?;
        let mut env = host.env.as_ref().clone();
        env.extend(variables([("TERM", "dumb"), ("NO_COLOR", "1")]));
        env.extend(variables(draft.env.drain(..)));
        for name in &draft.unset {
            env.remove(OsStr::new(name));
        }
        Ok(Launch {
            program,
            args: draft.argv.drain(..).map(OsString::from).collect(),
            env,
            cwd: cwd.to_owned(),
            stdin: draft.stdin.take().map_or(Stdin::Null, |text| Stdin::Bytes(text.into_bytes())),
            stop: self.spec.stop,
            rlimits: Vec::new(),
            no_new_privs: false,
        })
    }

    pub(super) fn file_reader(&self, context: ReaderContext<'_>) -> FileReader {
        let ReaderContext { request, resumes, baseline, ticket: _, events } = context;
        // An agent that continues its last session reports counters of that session, which nobody knows.
        let resumes =
            resumes || (self.spec.continues() && matches!(request.session, SessionChoice::Continue));
        let values = Values::of(request);
        let wants_schema = values.has(Field::JsonSchema);
        let progress = Progress::new(Arc::clone(&self.spec), events, resumes, baseline);
        FileReader::new(progress, values.set_of_terms(), wants_schema)
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }
}

impl Adapter for FileAdapter {
    fn info(&self) -> &AdapterInfo {
        &self.info
    }

    fn plan<'a>(&'a self, request: &'a RunRequest, host: &'a Host) -> BoxFuture<'a, Result<Plan, PlanError>> {
        Box::pin(std::future::ready(self.plan_now(request, host)))
    }

    fn program(&self, host: &Host) -> Result<PathBuf, PlanError> {
        program::find(self.spec.binary.as_deref(), host)
    }

    fn probes(&self, host: &Host) -> Vec<Probe> {
        self.flag_probes(host).unwrap_or_default()
    }

    fn version_probe(&self, host: &Host) -> Option<VersionProbe> {
        self.version_question(host)
    }

    fn reader(&self, context: ReaderContext<'_>) -> Box<dyn OutputReader> {
        Box::new(self.file_reader(context))
    }
}

fn info(spec: &Spec) -> AdapterInfo {
    let acts = |action: fn(&super::rule::Rule) -> bool| spec.rules.iter().any(action);
    let capabilities = Capabilities {
        fields: Field::ALL.into_iter().map(|field| (field.name(), spec.capability(field))).collect(),
        streaming: spec.format == Format::Text || acts(|rule| rule.delta.is_some()),
        sessions: spec.reports_session(),
        tool_events: acts(|rule| rule.tool.is_some()),
        usage: acts(|rule| rule.usage.is_some()),
        structured: spec.has_structured(),
    };
    AdapterInfo {
        name: spec.name.clone(),
        binary: spec.binary.clone(),
        tested: spec.tested.clone(),
        models: spec.models.list.clone(),
        default_model: spec.models.default.clone(),
        efforts: spec.models.efforts.iter().map(|(ours, _)| ours.clone()).collect(),
        keeps_prefix: spec.models.keep_prefix,
        has_sessions: capabilities.sessions || spec.continues(),
        capabilities,
        metered: spec.metered.clone(),
        auth_hint: spec.auth_hint.clone(),
        state_paths: spec.state_paths.clone(),
    }
}
