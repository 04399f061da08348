use std::path::PathBuf;

use nix::libc;

use super::{Launch, message::Stage};

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("{}: not found; is the agent installed?", .0.display())]
    NotFound(PathBuf),
    /// It is there, and what should run it is not.
    #[error("{}: cannot be executed: the interpreter that it names (after #! in a script) was not found", .0.display())]
    NoInterpreter(PathBuf),
    /// The program may not or cannot be executed.
    #[error("{}: cannot be executed: {reason}", program.display())]
    NotExecutable {
        /// The program.
        program: PathBuf,
        /// The system's word for it.
        reason: &'static str,
    },
    /// The working directory cannot be entered.
    #[error("{}: cannot be used as working directory: {reason}", cwd.display())]
    Cwd {
        /// The directory.
        cwd: PathBuf,
        /// The system's word for it.
        reason: &'static str,
    },
    /// Arguments and environment together, or one of them, are longer than the system takes.
    #[error("the command line is too long: {bytes} bytes of arguments and environment")]
    TooBig {
        /// Their length.
        bytes: usize,
    },
    /// An argument or a variable holds a NUL byte.
    #[error("an argument or a variable holds a NUL byte")]
    Nul,
    /// Launcher or keeper died before the program was started, or nothing came of it in time.
    #[error("the process that starts agents was lost: {0}")]
    Lost(String),
    /// Anything else that the system refused.
    #[error("{}: cannot be started ({step}): {reason}", program.display())]
    Other {
        /// The program.
        program: PathBuf,
        /// Which step failed.
        step: &'static str,
        /// The system's word for it.
        reason: &'static str,
    },
    /// The server itself lacks something: descriptors, memory.
    #[error("no pipes for the process: {0}")]
    Pipes(#[from] std::io::Error),
}

impl SpawnError {
    /// The exit code that a shell would report: 127 not found, 126 for everything else.
    pub fn code(&self) -> i32 {
        match self {
            Self::NotFound(_) | Self::NoInterpreter(_) => 127,
            Self::NotExecutable { .. }
            | Self::Cwd { .. }
            | Self::TooBig { .. }
            | Self::Nul
            | Self::Lost(_)
            | Self::Other { .. }
            | Self::Pipes(_) => 126,
        }
    }

    pub(super) fn from_report(launch: &Launch, stage: Stage, errno: i32) -> Self {
        let program = launch.program.clone();
        let reason = nix::Error::from_raw(errno).desc();
        let step = match stage {
            Stage::Cwd => return Self::Cwd { cwd: launch.cwd.clone(), reason },
            Stage::Exec => match errno {
                libc::ENOENT if program.exists() => return Self::NoInterpreter(program),
                libc::ENOENT | libc::ENOTDIR => return Self::NotFound(program),
                libc::E2BIG => return Self::TooBig { bytes: length(launch) },
                _ => return Self::NotExecutable { program, reason },
            },
            Stage::Fork => "fork",
            Stage::Group => "process group",
            Stage::Stdio => "standard streams",
            Stage::Limits => "resource limits",
            Stage::Privileges => "no new privileges",
        };
        Self::Other { program, step, reason }
    }
}

/// Bytes of arguments and environment.
pub(super) fn length(launch: &Launch) -> usize {
    let args = launch.args.iter().map(|arg| arg.len() + 1);
    let env = launch.env.iter().map(|(name, value)| name.len() + value.len() + 2);
    args.chain(env).sum()
}
