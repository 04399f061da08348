use std::path::Path;

use aicodebox_engine::{
    engine::{RunHandle, WhenBusy},
    run::{Origin, RunId, RunOutcome, RunRequest, RunStatus, SessionChoice, SessionId, Workspace},
    store::RunRecord,
};
use serde_json::{Value, json};

use super::{
    arguments::{RunArguments, RunName},
    handler::{Call, Handler},
    progress::Progress,
    reply::{Refusal, Reply},
};
use crate::surface::{
    body::given,
    check,
    complaint::complaint,
    records::Records,
    run_answer::{RunAnswer, Shape},
};

/// How much of what the agent wrote to standard error a model is told.
const STDERR: usize = 4 << 10;

impl Handler {
    /// Runs the agent for as long as somebody waits.
    pub(super) async fn run_prompt(&self, arguments: RunArguments, call: &Call) -> Result<Reply, Refusal> {
        let shape = shape(&arguments);
        let mut run = self.begin(arguments, false).await?;
        let mut progress = Progress::new(&call.context, run.events());
        let outcome = loop {
            tokio::select! {
                outcome = run.outcome() => break outcome,
                // The handle goes with this future, and with the handle the run.
                () = call.given_up() => return Err("the call was cancelled, and the run with it".into()),
                () = progress.due() => {}
            }
            // Told to the end before anything else is looked at: a message cut short could come after the answer.
            tokio::select! {
                () = progress.tell(&call.context) => {}
                () = call.given_up() => {}
            }
        };
        let outcome = outcome.ok_or("the server went down before the run ended")?;
        let value = self.value(&run.workspace, &outcome, shape);
        match outcome.failure() {
            None => Ok(Reply { text: answer(&outcome), value }),
            Some(_) => Err(Refusal { text: account(&outcome), value: Some(value) }),
        }
    }

    /// Lets a run go on by itself.
    pub(super) async fn start_run(&self, arguments: RunArguments) -> Result<Reply, Refusal> {
        let handler = self.clone();
        let accepting = async move { handler.begin(arguments, true).await };
        let run = self.engine.accept(true, accepting).await?;
        let standing = running(run.id, &run.workspace);
        Ok(Reply { text: standing.to_string(), value: standing })
    }

    /// How a run stands. That it failed is no failure of this call.
    pub(super) async fn get_run(&self, name: &RunName) -> Result<Reply, Refusal> {
        let record = self.record(name).await?;
        let Some(outcome) = &record.outcome else {
            let standing = running(record.id, &record.workspace);
            return Ok(Reply { text: standing.to_string(), value: standing });
        };
        // Another surface may have started it.
        let shape = Shape { schema: Shape::from_note(&record.note).schema, ..VALUE };
        let value = self.value(&record.workspace, outcome, shape);
        let text = if outcome.failure().is_none() { answer(outcome) } else { account(outcome) };
        Ok(Reply { text, value })
    }

    pub(super) async fn cancel_run(&self, name: &RunName) -> Result<Reply, Refusal> {
        let record = self.record(name).await?;
        // One that has ended keeps its status.
        let status = self.engine.cancel(record.id).await.unwrap_or_else(|| record.status());
        let value = json!({"runId": record.id, "status": status.name()});
        Ok(Reply { text: value.to_string(), value })
    }

    async fn begin(&self, arguments: RunArguments, detach: bool) -> Result<RunHandle, Refusal> {
        if arguments.prompt.trim().is_empty() {
            return Err("prompt: must not be empty".into());
        }
        let note = shape(&arguments).to_note();
        let session = match given(arguments.resume) {
            Some(id) => SessionChoice::Resume(SessionId(id)),
            None if arguments.no_continue.unwrap_or(true) => SessionChoice::Fresh { keep: false },
            None => SessionChoice::Continue,
        };
        let json_schema = arguments.json_schema.map(schema).transpose()?;
        let check = check::by_schema(json_schema.as_ref()).await;
        let check = check.map_err(|wrong| format!("json_schema: {wrong}"))?;
        let request = RunRequest {
            session,
            detach,
            note,
            model: given(arguments.model),
            effort: given(arguments.thinking),
            system_prompt: given(arguments.system_prompt),
            append_system_prompt: given(arguments.append_system_prompt),
            json_schema,
            check,
            ..RunRequest::new(arguments.prompt, self.workspace(arguments.workspace).await?, Origin::Mcp)
        };
        Ok(self.engine.start(request, WhenBusy::Wait).await?)
    }

    async fn workspace(&self, path: Option<String>) -> Result<Workspace, Refusal> {
        Ok(self.workspaces.find(path.unwrap_or_default()).await?)
    }

    async fn record(&self, name: &RunName) -> Result<RunRecord, Refusal> {
        let id = RunId::parse(&name.run_id).ok_or("run_id: a run's id is 32 hex digits")?;
        let record = self.engine.get(id).await?;
        Ok(record.ok_or_else(|| format!("there is no run {id}, or it has been forgotten"))?)
    }

    /// The same answer that `/run` gives.
    fn value(&self, workspace: &Path, outcome: &RunOutcome, shape: Shape) -> Value {
        let backend = &self.engine.adapter().name;
        let records = Records::default();
        let answer = RunAnswer::new(workspace, outcome, &records, backend, shape);
        serde_json::to_value(answer.with_status(outcome.status())).unwrap_or_default()
    }
}

/// What is told of every run.
const VALUE: Shape = Shape { verbose: true, schema: false, events: false, raw: false };

fn shape(arguments: &RunArguments) -> Shape {
    Shape { schema: arguments.json_schema.is_some(), ..VALUE }
}

fn running(id: RunId, workspace: &Path) -> Value {
    json!({"runId": id, "workspace": workspace.display().to_string(), "status": RunStatus::Running.name()})
}

/// The answer as a text; JSON where that was asked for.
fn answer(outcome: &RunOutcome) -> String {
    outcome.parsed.as_ref().map_or_else(|| outcome.text.clone(), Value::to_string)
}

/// What went wrong, in the order in which it helps: why, what the agent complained of, how far it came.
fn account(outcome: &RunOutcome) -> String {
    let message = outcome.failure().map_or("", |failure| &failure.message);
    let mut account = match outcome.exit_code {
        0 => message.to_owned(),
        code => format!("exit code {code}: {message}"),
    };
    if let Some(stderr) = complaint(outcome, STDERR, &account) {
        account.push_str("\n\nStandard error of the agent:\n");
        account.push_str(&stderr);
    }
    if !outcome.text.is_empty() {
        account.push_str("\n\nIts answer so far:\n");
        account.push_str(&outcome.text);
    }
    account
}

/// The schema itself, also where a model sent its text.
fn schema(given: Value) -> Result<Value, Refusal> {
    match given {
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| format!("json_schema: a JSON Schema is an object: {error}").into()),
        schema => Ok(schema),
    }
}
