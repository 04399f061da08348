use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

use super::contract::{Host, PlanError};

/// Finds the program that the configuration names, else that of the file.
pub(super) fn find(binary: Option<&str>, host: &Host) -> Result<PathBuf, PlanError> {
    let Some(name) = host.binary.as_deref().or(binary.map(Path::new)) else {
        let message = "the adapter names no program: set AICODEBOX_AGENT_BINARY".to_owned();
        return Err(PlanError::Program { code: 127, message });
    };
    locate(name, host.var("PATH"))
}

/// Finds a program as a shell does: a name without `/` on this PATH, where only absolute directories count, since a
/// relative one would be the workspace, which the agent can write.
pub(super) fn locate(name: &Path, path: Option<&OsStr>) -> Result<PathBuf, PlanError> {
    if name.components().count() > 1 || name.is_absolute() {
        let path = std::path::absolute(name).unwrap_or_else(|_| name.to_owned());
        return match check(&path) {
            Found::Program => Ok(path),
            Found::NotExecutable => Err(not_executable(&path)),
            Found::Nothing => {
                let message = format!("{}: no such file", path.display());
                Err(PlanError::Program { code: 127, message })
            }
        };
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut blocked = None;
    for directory in std::env::split_paths(path).filter(|directory| directory.is_absolute()) {
        let candidate = directory.join(name);
        match check(&candidate) {
            Found::Program => return Ok(candidate),
            Found::NotExecutable => blocked = blocked.or(Some(candidate)),
            Found::Nothing => {}
        }
    }
    Err(blocked.as_deref().map_or_else(
        || {
            let message = format!(
                "{}: not found on the agent's PATH ({}); install it, or set AICODEBOX_ADAPTER_BINARY",
                name.display(),
                path.to_string_lossy()
            );
            PlanError::Program { code: 127, message }
        },
        not_executable,
    ))
}

fn not_executable(path: &Path) -> PlanError {
    PlanError::Program { code: 126, message: format!("{}: may not be executed", path.display()) }
}

enum Found {
    Program,
    NotExecutable,
    Nothing,
}

fn check(path: &Path) -> Found {
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => match access(path, AccessFlags::X_OK) {
            Ok(()) => Found::Program,
            Err(_) => Found::NotExecutable,
        },
        Ok(_) => Found::NotExecutable,
        Err(_) => Found::Nothing,
    }
}
