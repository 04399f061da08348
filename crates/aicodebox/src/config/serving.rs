use std::path::{Path, PathBuf};

use super::{
    CallbackConfig, Config, CronConfig, Environment, Foreground, Reader, TelegramAccess, TelegramConfig,
    cron, variable::*, wanted::is_on,
};

/// What `serve` serves: at least one of the first three.
#[derive(Debug)]
pub(crate) struct Modes {
    /// What listens.
    pub(crate) http: Option<Foreground>,
    /// The bot; the HTTP API wins over it.
    pub(crate) telegram: Option<TelegramConfig>,
    /// The scheduler, beside either or alone.
    pub(crate) cron: Option<CronConfig>,
    /// The way to Telegram, for the bot and for notices of the scheduler.
    pub(crate) access: Option<TelegramAccess>,
    /// Where the scheduler keeps its history, on or off.
    pub(crate) cron_history: PathBuf,
    /// Who signs callbacks, and where they may go.
    pub(crate) callbacks: Option<CallbackConfig>,
    /// The bot was asked for and gives way.
    pub(crate) bot_gives_way: bool,
}

impl Modes {
    /// Reads which modes are on, and the configuration of each. `None` when something is wrong.
    fn read(reader: &mut Reader<'_>, state_dir: &Path) -> Option<Self> {
        // Whoever mistyped one wanted it.
        let modes = [&API_MODE, &MCP_MODE, &TELEGRAM_MODE, &CRON_MODE]
            .map(|mode| reader.switch(mode).unwrap_or(true));
        if modes == [false; 4] {
            reader.fault(&API_MODE, "no mode is on, so there is nothing to serve; set it to 1");
        }
        let [api, mcp, telegram, cron] = modes;
        let http = (api || mcp).then(|| Foreground::read(reader, api, mcp)).flatten();
        let access = if telegram || cron { TelegramAccess::read(reader) } else { None };
        let bot = (telegram && !api).then(|| TelegramConfig::read(reader, access.clone(), state_dir));
        let jobs = cron.then(|| CronConfig::read(reader, state_dir));
        let callbacks = CallbackConfig::read(reader);
        Some(Self {
            http,
            telegram: whole(bot)?,
            cron: whole(jobs)?,
            access,
            cron_history: cron::cron_history(reader, state_dir),
            callbacks,
            bot_gives_way: telegram && api,
        })
    }
}

/// What is wanted must be right.
fn whole<T>(wanted: Option<Option<T>>) -> Option<Option<T>> {
    match wanted {
        Some(None) => None,
        Some(right) => Some(right),
        None => Some(None),
    }
}

/// Everything that `serve` needs, as far as variables say it.
pub(crate) struct Serving {
    pub(crate) config: Config,
    /// `None` when something is wrong with one of them, or none has to be on.
    pub(crate) modes: Option<Modes>,
    /// All that is wrong.
    pub(crate) faults: Vec<String>,
}

impl Serving {
    /// Reads it; to serve, a mode must be on.
    pub(crate) fn read(environment: &Environment) -> Self {
        Self::with(environment, true)
    }

    /// Reads what there is: with everything if a mode is on, else what commands need.
    pub(crate) fn look(environment: &Environment) -> Self {
        let modes = [API_MODE, TELEGRAM_MODE, CRON_MODE, MCP_MODE];
        Self::with(environment, modes.iter().any(|mode| is_on(environment, mode)))
    }

    fn with(environment: &Environment, modes: bool) -> Self {
        let mut reader = Reader::new(environment);
        let config = Config::read(&mut reader);
        let modes = if modes { Modes::read(&mut reader, &config.state_dir) } else { None };
        Self { config, modes, faults: reader.faults() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Modes, Vec<String>> {
        let home = [("HOME", "/home/me")];
        let Serving { modes, faults, .. } = Serving::read(&home.iter().chain(variables).copied().collect());
        modes.filter(|_| faults.is_empty()).ok_or(faults)
    }

    const BOT: [(&str, &str); 2] =
        [("AICODEBOX_TELEGRAM_MODE", "1"), ("AICODEBOX_TELEGRAM_MODE_TOKEN", "1:x")];
    const CRON: [(&str, &str); 2] = [("AICODEBOX_CRON_MODE", "1"), ("AICODEBOX_CRON_MODE_FILE", "/jobs.yml")];
    const API: [(&str, &str); 2] = [("AICODEBOX_API_MODE", "1"), ("AICODEBOX_API_MODE_HOST", "127.0.0.1")];

    #[test]
    fn modes_go_together_as_the_contract_says() {
        let modes = read(&[BOT, CRON].concat()).unwrap();
        assert!(modes.http.is_none() && modes.telegram.is_some() && modes.cron.is_some());
        let modes = read(&[BOT, CRON, API].concat()).unwrap();
        assert!(
            modes.http.is_some() && modes.telegram.is_none() && modes.bot_gives_way && modes.access.is_some()
        );
        let mcp = [("AICODEBOX_MCP_MODE", "1"), ("AICODEBOX_MCP_MODE_TOKEN", "t")];
        let modes = read(&[BOT, mcp].concat()).unwrap();
        assert!(matches!(modes.http, Some(Foreground::Mcp(..))) && modes.telegram.is_some());
        let modes = read(&CRON).unwrap();
        assert!(modes.cron.is_some() && modes.access.is_none());
        assert_eq!(modes.cron.unwrap().history, PathBuf::from("/home/me/.aicodebox/cron"));
    }

    #[test]
    fn what_a_mode_needs_is_told_all_at_once() {
        let faults = read(&[
            ("AICODEBOX_TELEGRAM_MODE", "1"),
            ("AICODEBOX_CRON_MODE", "1"),
            ("TELEGRAM_CHAT_ID", "me"),
        ])
        .unwrap_err();
        for name in ["AICODEBOX_TELEGRAM_MODE_TOKEN", "AICODEBOX_CRON_MODE_FILE", "TELEGRAM_CHAT_ID"] {
            assert!(faults.iter().any(|fault| fault.starts_with(&format!("{name}: "))), "{faults:?}");
        }
        assert!(read(&[]).unwrap_err()[0].starts_with("AICODEBOX_API_MODE: no mode is on"));
        for (mode, needed) in [
            ("AICODEBOX_API_MODE", "AICODEBOX_API_MODE_TOKEN"),
            ("AICODEBOX_CRON_MODE", "AICODEBOX_CRON_MODE_FILE"),
        ] {
            let faults = read(&[(mode, "maybe")]).unwrap_err();
            assert!(faults.len() == 2 && faults[0].starts_with(&format!("{mode}: expected")), "{faults:?}");
            assert!(faults[1].starts_with(&format!("{needed}: expected")), "{faults:?}");
        }
    }

    #[test]
    fn one_wrong_value_hides_no_other() {
        let wrong = [
            ("AICODEBOX_API_MODE_HOST", "bad..host"),
            ("AICODEBOX_API_MODE_PORT", "99999"),
            ("AICODEBOX_MCP_MODE_PORT", "abc"),
            ("AICODEBOX_API_MODE_MAX_BODY", "10 bytes"),
            ("AICODEBOX_API_MODE_CORS_ORIGINS", "foo,*"),
            ("AICODEBOX_API_MODE_CHAT_WORKSPACE", "foo"),
            ("AICODEBOX_CRON_MODE_FILE", ""),
        ];
        let modes = [("AICODEBOX_API_MODE", "1"), ("AICODEBOX_CRON_MODE", "1")];
        let environment: Environment =
            modes.iter().chain(&wrong).chain(&[("HOME", "/home/me")]).copied().collect();
        for Serving { faults, .. } in [Serving::read(&environment), Serving::look(&environment)] {
            let names: Vec<_> = faults.iter().filter_map(|fault| Some(fault.split_once(": ")?.0)).collect();
            for (name, _) in wrong {
                assert!(names.contains(&name), "{name} in {faults:#?}");
            }
        }
    }

    #[test]
    fn a_mode_that_is_off_in_words_is_no_fault_of_the_agents_own_interface() {
        let faults = |value| {
            let environment = [("HOME", "/home/me"), ("AICODEBOX_API_MODE", value)];
            Serving::look(&environment.into_iter().collect()).faults.len()
        };
        assert_eq!(faults("0"), 0);
        assert!(faults("1") > 0 && faults("maybe") > 0);
    }
}
