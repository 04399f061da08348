use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::Inner;
use crate::{
    adapter::{Adapter, Host},
    process::{Pool, Variables},
    store::Store,
    workspace::Scratch,
};

/// What an engine is built from.
pub struct EngineConfig {
    /// The agent.
    pub adapter: Arc<dyn Adapter>,
    /// Where processes come from.
    pub pool: Pool,
    /// Where runs and sessions are kept.
    pub store: Arc<dyn Store>,
    /// Where temporary files go.
    pub scratch: Scratch,
    /// Home directory of the agent.
    pub home: PathBuf,
    /// The agent's environment, clean of the gateway's secrets.
    pub agent_env: Arc<Variables>,
    /// Whether metered keys are kept from the agent.
    pub subscription: bool,
    /// Program to start instead of the adapter's.
    pub binary: Option<PathBuf>,
    /// Model of a run that names none.
    pub default_model: Option<String>,
    /// Models that are offered instead of the adapter's; empty = those.
    pub models: Arc<[String]>,
    /// Running agents; at least 1.
    pub max_runs: usize,
    /// Runs that wait for a place or for their workspace.
    pub max_queued: usize,
    /// Wall clock limit of a run that names none.
    pub run_timeout: Duration,
    /// No-output limit of a run that names none.
    pub idle_timeout: Option<Duration>,
    /// Agents cannot gain privileges.
    pub no_new_privs: bool,
}

impl Inner {
    /// What a plan may know.
    pub(super) fn host(&self, tmp: &Path, flags: Arc<HashMap<String, bool>>) -> Host {
        Host {
            home: self.config.home.clone(),
            tmp: tmp.to_owned(),
            env: self.config.agent_env.clone(),
            root: nix::unistd::geteuid().is_root(),
            subscription: self.config.subscription,
            binary: self.config.binary.clone(),
            default_model: self.config.default_model.clone(),
            models: self.config.models.clone(),
            flags,
        }
    }
}
