//! A program at a terminal of its own.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use nix::pty::openpty;

use crate::harness::eventually;

/// The program at a terminal of its own.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Runs `ours` as the leader of a session whose terminal is new.
    pub(crate) fn open(ours: &Command) -> Self {
        let pty = openpty(None, None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait"])
            .arg(ours.get_program())
            .args(ours.get_args())
            .env_clear()
            .envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(ours.get_current_dir().unwrap())
            .stdin(end())
            .stdout(end())
            .stderr(end());
        let child = command.spawn().unwrap();
        // Ours is closed, so that the screen ends when the program's do.
        drop(command);
        drop(pty.slave);
        let mut output = File::from(pty.master.try_clone().unwrap());
        let screen = Arc::new(Mutex::new(String::new()));
        let filled = screen.clone();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut chunk) {
                filled.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..length]));
            }
        });
        Self { child, keyboard: pty.master.into(), screen }
    }

    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    pub(crate) fn wait_for(&self, text: &str) {
        eventually(&format!("{text:?} is on the screen"), || {
            self.screen.lock().unwrap().contains(text).then_some(())
        });
    }

    pub(crate) fn press(&mut self, key: &[u8]) {
        self.keyboard.write_all(key).unwrap();
    }

    /// Its window gets another size.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let words = ["rows".to_owned(), rows.to_string(), "columns".to_owned(), columns.to_string()];
        let window = Stdio::from(self.keyboard.try_clone().unwrap());
        assert!(Command::new("stty").args(words).stdin(window).status().unwrap().success());
    }

    /// How the program ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
        eventually("the program ends", || self.ended()).code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        self.child.wait().unwrap();
        if thread::panicking() {
            eprintln!("the screen:\n{}", self.screen.lock().unwrap());
        }
    }
}
