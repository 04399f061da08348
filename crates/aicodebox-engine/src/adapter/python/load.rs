use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    super::program,
    adapter::PythonAdapter,
    bridge::{Bridge, Start, StartError},
    link::{NotReady, Wires},
};
use crate::process::{Launch, Pool, Stdin, StopPlan, Variables};

/// Why a Python adapter cannot be used. Every message says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PythonError {
    /// Not of the form `package.module:Class`.
    #[error("{0:?} names no Python adapter: it must be package.module:Class")]
    Spec(String),
    /// There is no `python3`.
    #[error("a Python adapter needs python3, 3.10 or newer, and there is none on the PATH ({0})")]
    NoPython(String),
    /// The process could not be started.
    #[error("the Python adapter's process cannot be started: {0}")]
    Spawn(String),
    /// The package with the bridge is missing.
    #[error(
        "python3 has no package aicodebox with the adapter interface (0.17 or newer): install it with \
         `python3 -m pip install` from docker/python, or name its directory in PYTHONPATH. python3 says: {0}"
    )]
    NoPackage(String),
    /// The class cannot be loaded, in Python's own words.
    #[error(
        "the Python adapter {spec} cannot be loaded: {message}. It is looked for in PYTHONPATH and in site-packages"
    )]
    Class {
        /// `package.module:Class`.
        spec: String,
        /// Python's words.
        message: String,
    },
    /// The module was not imported in time.
    #[error(
        "the Python adapter {0} was not ready after 20 s: does its module wait for something when it is imported?"
    )]
    Silent(String),
}

/// Loads a class: starts its process, imports it, and asks it who it is.
///
/// `environment` is the agent's, clean of the gateway's secrets: what the hooks see in `os.environ`. `path` is where
/// `python3` is looked for: not the agent's `PATH`, on which an agent may put programs. The process holds one place of the pool, and a second one for as long as it is replaced:
/// the pool needs two more than there may be runs.
///
/// # Errors
/// [`PythonError`].
pub async fn load_python(
    spec: &str,
    pool: Pool,
    environment: Arc<Variables>,
    path: Option<&OsStr>,
) -> Result<PythonAdapter, PythonError> {
    let parts = spec.split_once(':').filter(|(module, class)| is_path(module) && is_path(class));
    if parts.is_none() {
        return Err(PythonError::Spec(spec.to_owned()));
    }
    let python = program::locate(Path::new("python3"), path)
        .map_err(|_| PythonError::NoPython(path.unwrap_or_default().to_string_lossy().into_owned()))?;
    let mut environment = Variables::clone(&environment);
    if let Some(paths) = environment.get_mut(OsStr::new("PYTHONPATH")) {
        let whole = absolute(paths).map_err(|error| PythonError::Spawn(format!("PYTHONPATH: {error}")))?;
        *paths = whole.into();
    }
    let launch = launch(python, spec, environment);
    let start: Start = Box::new(move || {
        let (pool, launch) = (pool.clone(), launch.clone());
        Box::pin(async move {
            let mut process = pool.spawn(launch).await.map_err(|error| error.to_string())?;
            let streams = (process.take_stdin(), process.take_stdout(), process.take_stderr());
            let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
                return Err("it has no pipes".to_owned());
            };
            Ok(Wires {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout.map_err(|error| error.to_string())?),
                stderr: Box::new(stderr.map_err(|error| error.to_string())?),
                process: Box::new(process),
            })
        })
    });
    let (bridge, ready) = Bridge::start(start).await.map_err(|error| explain(spec, error))?;
    tracing::debug!(adapter = ready.name, version = ready.version, "Python adapter {spec} loaded");
    Ok(PythonAdapter::new(ready, bridge))
}

/// The process runs in `/`, while relative paths are meant from the directory that the server was started in. Empty ones
/// would be that directory itself, mostly by a stray colon: they are left out.
fn absolute(paths: &OsStr) -> Result<OsString, Box<dyn std::error::Error>> {
    let given = std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty());
    let whole = given.map(std::path::absolute).collect::<io::Result<Vec<_>>>()?;
    Ok(std::env::join_paths(whole)?)
}

fn is_path(name: &str) -> bool {
    name.split('.')
        .all(|part| !part.is_empty() && !part.starts_with('-') && !part.contains(char::is_whitespace))
}

fn launch(python: PathBuf, spec: &str, environment: Variables) -> Launch {
    Launch {
        // UTF-8 whatever the locale says; by a flag, since a variable would reach the agents.
        args: [
            python.as_os_str(),
            "-X".as_ref(),
            "utf8".as_ref(),
            // Not what an agent may have put into its home.
            "-s".as_ref(),
            "-m".as_ref(),
            "aicodebox.bridge".as_ref(),
            spec.as_ref(),
        ]
        .map(OsStr::to_owned)
        .to_vec(),
        program: python,
        env: environment,
        // `-m` looks for modules in the working directory first: it must not be one that agents write to.
        cwd: PathBuf::from("/"),
        stdin: Stdin::Piped,
        stop: StopPlan::default(),
        rlimits: Vec::new(),
        no_new_privs: false,
    }
}

fn explain(spec: &str, error: StartError) -> PythonError {
    match error {
        StartError::Spawn(message) => PythonError::Spawn(message),
        StartError::NotReady(NotReady::Failed(message)) => {
            PythonError::Class { spec: spec.to_owned(), message }
        }
        StartError::NotReady(NotReady::Silent) => PythonError::Silent(spec.to_owned()),
        StartError::NotReady(NotReady::Ended(words)) => {
            let last = words.lines().last().unwrap_or("nothing").to_owned();
            if last.contains("No module named") && last.contains("aicodebox") {
                PythonError::NoPackage(last)
            } else {
                PythonError::Class { spec: spec.to_owned(), message: format!("python3 ended: {last}") }
            }
        }
    }
}
