//! What the configuration names, looked at before anything is begun: so that all that is wrong is told at once.

use aicodebox_engine::{
    adapter::{Adapter, load_adapter},
    workspace::Workspaces,
};
use jiff::tz::TimeZone;

use crate::{
    config::{Config, ConfigError, Environment, Foreground, Modes, Serving},
    serve::ServeError,
    setup::SetupError,
    surface::{cron::read_jobs, telegram::TelegramFile},
};

/// Everything that `serve` needs. Blocks on the disk.
///
/// # Errors
/// All that is wrong with it, in variables and in what they name.
pub(crate) fn for_serving(environment: &Environment) -> Result<(Config, Modes), ConfigError> {
    let serving = Serving::read(environment);
    let faults = all_faults(&serving);
    match serving.modes {
        Some(modes) if faults.is_empty() => Ok((serving.config, modes)),
        Some(_) | None => Err(ConfigError(faults)),
    }
}

/// What [`for_serving`] would say; where no mode is on, what commands need is enough. Blocks on the disk.
///
/// # Errors
/// All that is wrong.
pub(crate) fn check(environment: &Environment) -> Result<(), ConfigError> {
    let faults = all_faults(&Serving::look(environment));
    if faults.is_empty() { Ok(()) } else { Err(ConfigError(faults)) }
}

fn all_faults(serving: &Serving) -> Vec<String> {
    let named = faults_of_what_is_named(serving);
    serving.faults.iter().cloned().chain(named.iter().map(ToString::to_string)).collect()
}

/// What is begun later fails with these too, should anything change until then.
fn faults_of_what_is_named(Serving { config, modes, .. }: &Serving) -> Vec<ServeError> {
    let mut faults = Vec::new();
    let offers_models =
        matches!(modes, Some(Modes { http: Some(Foreground::Api(..)), .. })) && config.models.is_empty();
    // A Python class can be asked only by a process of its own.
    if !config.has_python_adapter() {
        match load_adapter(&config.adapter) {
            Err(error) => faults.push(SetupError::Adapter(error).into()),
            Ok(adapter) if offers_models && adapter.info().models.is_empty() => {
                faults.push(ServeError::NoModels(adapter.info().name.clone()));
            }
            Ok(_) => {}
        }
    }
    let Some(modes) = modes else { return faults };
    if let Err(source) = Workspaces::open(&config.workspace) {
        faults.push(SetupError::Workspace { path: config.workspace.clone(), source }.into());
    }
    if let Some(wanted) = &modes.cron
        && let Err(error) = read_jobs(&wanted.file, &TimeZone::system())
    {
        faults.push(error.into());
    }
    if let Some(wanted) = &modes.telegram
        && let Err(error) = TelegramFile::read(&wanted.file, wanted.access.only_chat)
    {
        faults.push(error.into());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_variables_name_is_looked_at_with_them() {
        let environment: Environment = [
            ("HOME", "/home/me"),
            ("AICODEBOX_API_MODE", "1"),
            ("AICODEBOX_API_MODE_HOST", "127.0.0.1"),
            ("AICODEBOX_RUN_TIMEOUT", "3x"),
            ("AICODEBOX_ADAPTER", "codex"),
            ("AICODEBOX_WORKSPACE", "/no/workspace"),
            ("AICODEBOX_CRON_MODE", "1"),
            ("AICODEBOX_CRON_MODE_FILE", "/no/jobs.yml"),
        ]
        .into_iter()
        .collect();
        let ConfigError(faults) = for_serving(&environment).map(drop).unwrap_err();
        for part in ["RUN_TIMEOUT: ", "AVAILABLE_MODELS: ", "/no/workspace", "/no/jobs.yml"] {
            assert!(faults.iter().any(|fault| fault.contains(part)), "{part} in {faults:#?}");
        }
        assert_eq!(check(&environment).unwrap_err().0, faults);
    }

    #[test]
    fn an_adapter_that_cannot_be_loaded_is_told_with_the_rest() {
        let environment =
            [("HOME", "/home/me"), ("AICODEBOX_ADAPTER", "nosuch"), ("AICODEBOX_MAX_QUEUED_RUNS", "-1")];
        let ConfigError(faults) = check(&environment.into_iter().collect()).unwrap_err();
        assert!(faults.len() == 2 && faults[1].starts_with("AICODEBOX_ADAPTER: "), "{faults:?}");
    }
}
