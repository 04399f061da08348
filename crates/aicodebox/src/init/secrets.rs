use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use nix::unistd::getpid;

use super::{identity::Identity, say};
use crate::config::{Environment, read_secret};

/// The gateway's secrets on their way from the environment to the server, by a pipe: in the server's environment an
/// agent could read them in `/proc` between its start and its first instruction.
pub(super) struct Secrets(Vec<(OsString, OsString)>);

impl Secrets {
    /// Takes them out of the environment of everything that is started. Warns of those that another PID 1 still shows.
    pub(super) fn take(environment: &mut Environment) -> Self {
        let secrets = Self(environment.take_secrets());
        if getpid().as_raw() != 1 {
            secrets.warn_of_foreign_init(environment);
        }
        secrets
    }

    /// Replaces the `…_FILE` names by what the files hold: after this, nobody but root need be able to read them.
    /// One that cannot be read stays, and the server says what is wrong with it.
    pub(super) fn read_files(&mut self, identity: &Identity) {
        // An empty value is no value.
        self.0.retain(|(_, value)| !value.is_empty());
        let given: Vec<OsString> = self.0.iter().map(|(name, _)| name.clone()).collect();
        for (name, value) in &mut self.0 {
            let Some(plain) = name.as_bytes().strip_suffix(b"_FILE") else { continue };
            let plain = OsStr::from_bytes(plain);
            // Both at once are a mistake, which the server tells.
            if given.iter().any(|name| name == plain) {
                continue;
            }
            if let Ok(secret) = read_secret(value)
                && !secret.contains('\0')
            {
                warn_of_readers(name, value, identity);
                (*name, *value) = (plain.to_owned(), secret.into());
            }
        }
    }

    /// `NAME=value`, each with a NUL at its end.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in &self.0 {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b'=');
            bytes.extend_from_slice(value.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    /// With `docker run --init` the engine's PID 1 keeps its environment, for every process of its user to read.
    fn warn_of_foreign_init(&self, environment: &Environment) {
        let Ok(shown) = fs::read("/proc/1/environ") else { return };
        let shown: Vec<_> = shown.split(|byte| *byte == 0).collect();
        for (name, value) in self.0.iter().filter(|(name, _)| !name.as_bytes().ends_with(b"_FILE")) {
            for name in environment.given_names(&name.to_string_lossy()) {
                let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
                if !shown.contains(&entry.as_slice()) {
                    continue;
                }
                say(format_args!(
                    "agents may read {name} in the environment of PID 1, which is not this program: name a file in \
                     {name}_FILE instead, or start the container without --init"
                ));
            }
        }
    }
}

fn warn_of_readers(name: &OsStr, path: &OsStr, identity: &Identity) {
    let Ok(file) = fs::metadata(path) else { return };
    // Without another user to become, agents are who we are, and we could read it.
    if identity.user().is_none_or(|user| user.reads(&file)) {
        say(format_args!(
            "agents can read {}, the file of {}: make it root's with mode 0400, and start the container as root",
            path.display(),
            name.display()
        ));
    }
}

/// What [`Secrets::encode`] wrote.
pub(crate) fn decode(bytes: &[u8]) -> impl Iterator<Item = (OsString, OsString)> {
    bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let middle = entry.iter().position(|byte| *byte == b'=')?;
        let (name, value) = entry.split_at(middle);
        Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value.get(1..)?.to_vec())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_arrives() {
        let pairs = [("AICODEBOX_API_MODE_TOKEN", "a=b\n c"), ("AICODEBOX_CALLBACK_SECRET", "")]
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let secrets = Secrets(pairs.to_vec());
        assert_eq!(decode(&secrets.encode()).collect::<Vec<_>>(), pairs);
        assert_eq!(decode(b"").count(), 0);
    }
}
