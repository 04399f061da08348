use secrecy::SecretString;
use url::Host;

use super::{Reader, variable::*};

/// Callbacks, where there is a key to sign them with.
#[derive(Debug)]
pub(crate) struct CallbackConfig {
    pub(crate) secret: SecretString,
    /// Hosts that they may reach whatever their address.
    pub(crate) hosts: Vec<String>,
}

impl CallbackConfig {
    /// `None` = there are none, or the key is wrong.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (secret, hosts) = (reader.secret(&CALLBACK_SECRET), hosts(reader));
        Some(Self { secret: secret?, hosts })
    }
}

fn hosts(reader: &mut Reader<'_>) -> Vec<String> {
    let hosts = reader.list(&CALLBACK_ALLOWED_HOSTS);
    // As it stands in a URL; a port is no part of it, and a pattern would match nothing.
    let is_host = |host: &str| {
        !host.contains('*') && Host::parse(host).is_ok_and(|parsed| parsed.to_string() == host.to_lowercase())
    };
    for host in hosts.iter().filter(|host| !is_host(host)) {
        reader.fault(
            &CALLBACK_ALLOWED_HOSTS,
            format_args!("expected hosts such as hooks.example, 10.0.0.7 or [fd00::7], found {host:?}"),
        );
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, Environment};

    fn read(variables: &[(&str, &str)]) -> Result<Option<CallbackConfig>, ConfigError> {
        let environment: Environment = variables.iter().copied().collect();
        let mut reader = Reader::new(&environment);
        let config = CallbackConfig::read(&mut reader);
        reader.finish(Some(config))
    }

    #[test]
    fn hosts_are_such_as_stand_in_a_url() {
        let name = "AICODEBOX_CALLBACK_ALLOWED_HOSTS";
        for wrong in ["good.example,http://x/", "good.example:80", "*", "fd00::7"] {
            let ConfigError(faults) = read(&[(name, wrong)]).unwrap_err();
            assert!(faults.len() == 1 && faults[0].starts_with(&format!("{name}: expected")), "{faults:?}");
        }
        let hosts = "hooks.example, Receiver, 10.0.0.7, [fd00::7], localhost";
        let config = read(&[(name, hosts), ("AICODEBOX_CALLBACK_SECRET", "hush")]).unwrap().unwrap();
        assert_eq!(config.hosts.len(), 5);
        assert!(read(&[(name, hosts)]).unwrap().is_none(), "nobody signs");
    }

    #[test]
    fn a_secret_that_nobody_could_send_is_refused_and_not_shown() {
        for wrong in [" hush", "hush ", "hu\nsh", "hush\n", "hu\tsh", "hu\u{7f}sh"] {
            let ConfigError(faults) = read(&[("AICODEBOX_CALLBACK_SECRET", wrong)]).unwrap_err();
            assert!(
                faults.len() == 1 && faults[0].starts_with("AICODEBOX_CALLBACK_SECRET: expected"),
                "{faults:?}"
            );
            assert!(!faults[0].contains("hu"), "{faults:?}");
            let file = tempfile::NamedTempFile::new().unwrap();
            let path = file.path().to_str().unwrap();
            std::fs::write(path, format!("{wrong}\n")).unwrap();
            assert!(read(&[("AICODEBOX_CALLBACK_SECRET_FILE", path)]).is_err(), "{wrong:?}");
            std::fs::write(path, "hu sh\n").unwrap();
            assert!(read(&[("AICODEBOX_CALLBACK_SECRET_FILE", path)]).is_ok());
        }
    }
}
