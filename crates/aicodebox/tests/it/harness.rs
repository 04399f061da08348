//! A real server for a test: the real program on a free port, with directories of its own, gone at the end.
//!
//! ```no_run
//! Server::new().start().run(json!({"prompt": "echo hi"})).status(200).field("/text", "hi\n");
//! ```

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::{fs::chown, process::CommandExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, geteuid},
};
use serde_json::Value;

/// A user and a group to whom nothing belongs.
const NOBODY: u32 = 65_534;

/// How long a test waits for what must come.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// An adapter whose agent is the shell and whose prompt is the script. Its answer is what the script prints.
pub(crate) const SHELL: &str = r#"
schema = 1
name   = "shell"
binary = "/bin/sh"
[models]
list = ["small", "large"]
[run]
argv  = ["-c", 'eval "$(cat)"', "shell", { when = "model", args = ["{model}"] }, { each = "extra_args", args = ["{item}"] }, { each = "images", args = ["{item}"] }]
stdin = "{prompt}"
[output]
format = "text"
[fallback]
effort = "drop"
system_prompt = "drop"
append_system_prompt = "drop"
tools = "drop"
no_tools = "drop"
"#;

/// The same, but the script prints our own event lines, and it has sessions.
pub(crate) const EVENTS: &str = r#"
schema = 1
name   = "events"
binary = "/bin/sh"
[models]
list = ["small"]
[run]
argv  = ["-c", 'eval "$(cat)"', "events", { when = "resume", args = ["resumed:{resume}"] }]
stdin = "{prompt}"
[output]
format = "events"
[fallback]
model = "drop"
effort = "drop"
"#;

/// What a test wants of its server.
#[derive(Clone)]
pub(crate) struct Server {
    adapter: String,
    env: BTreeMap<String, String>,
    token: Option<String>,
    unprivileged: bool,
    under_init: bool,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            adapter: SHELL.to_owned(),
            env: BTreeMap::new(),
            token: None,
            unprivileged: false,
            under_init: false,
        }
    }

    /// As the entrypoint of a box starts it.
    pub(crate) fn under_init(self) -> Self {
        Self { under_init: true, ..self }
    }

    /// Not as root, also where the test is: root reads and writes what others may not.
    pub(crate) fn unprivileged(self) -> Self {
        Self { unprivileged: true, ..self }
    }

    /// Another adapter file.
    pub(crate) fn adapter(self, toml: &str) -> Self {
        Self { adapter: toml.to_owned(), ..self }
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// A token, which all requests then carry.
    pub(crate) fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self.env("AICODEBOX_API_MODE_TOKEN", token)
    }

    /// Starts it and waits until it listens.
    pub(crate) fn start(self) -> Running {
        let home = Arc::new(Home::new(&self.adapter));
        self.start_in(&home)
    }

    /// The same in directories that are there already.
    pub(crate) fn start_in(self, home: &Arc<Home>) -> Running {
        let mut command = home.serving(if self.under_init { "entrypoint" } else { "serve" });
        if self.unprivileged && geteuid().is_root() {
            home.give_to_nobody(&mut command);
        }
        let mut child = command
            .env("LOG_FORMAT", "json")
            .envs(&self.env)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Log::follow(child.stderr.take().unwrap());
        let line = log.wait("listening");
        let address = line["address"].as_str().unwrap().parse().unwrap();
        Running { child, home: home.clone(), log, address, server: self }
    }
}

/// The directories of one box, and its program.
pub(crate) struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new(adapter: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["home", "workspace"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("adapter.toml"), adapter).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// Gives everything here to a user without any rights, who will run the command.
    fn give_to_nobody(&self, command: &mut Command) {
        // Where the build lies, that user may not look.
        let program = self.path("aicodebox");
        fs::copy(command.get_program(), &program).unwrap();
        for path in [self.path(""), self.path("home"), self.path("workspace"), self.path("adapter.toml")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut theirs = Command::new(program);
        theirs.args(command.get_args()).env_clear();
        theirs.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        theirs.current_dir(self.path("")).uid(NOBODY).gid(NOBODY);
        *command = theirs;
    }

    /// The program that is to serve on a free port.
    pub(crate) fn serve(&self) -> Command {
        self.serving("serve")
    }

    fn serving(&self, name: &str) -> Command {
        let mut command = self.command(name);
        command
            .env("AICODEBOX_API_MODE", "1")
            .env("AICODEBOX_API_MODE_HOST", "127.0.0.1")
            .env("AICODEBOX_API_MODE_PORT", "0");
        command
    }

    /// The program with a clean environment.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aicodebox"));
        command
            .arg(name)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("AICODEBOX_ADAPTER", self.path("adapter.toml"))
            .env("AICODEBOX_WORKSPACE", self.path("workspace"))
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }
}

/// What a program printed to its end.
pub(crate) struct Finished(Output);

impl Finished {
    /// Runs it to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self(command.output().unwrap())
    }

    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.0.status.code(), Some(code), "{}\n{}", self.stdout(), self.stderr());
        self
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

/// The lines of a server's log, as they come.
#[derive(Clone)]
pub(crate) struct Log(Arc<(Mutex<Lines>, Condvar)>);

#[derive(Default)]
struct Lines {
    lines: Vec<Value>,
    ended: bool,
}

impl Log {
    pub(crate) fn follow(stderr: impl Read + Send + 'static) -> Self {
        let log = Self(Arc::default());
        let filled = log.clone();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let parsed = serde_json::from_str(&line).unwrap_or(Value::String(line));
                filled.0.0.lock().unwrap().lines.push(parsed);
                filled.0.1.notify_all();
            }
            filled.0.0.lock().unwrap().ended = true;
            filled.0.1.notify_all();
        });
        log
    }

    /// Waits for a line with this message.
    pub(crate) fn wait(&self, message: &str) -> Value {
        let (lock, news) = &*self.0;
        let mut lines = lock.lock().unwrap();
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(line) = lines.lines.iter().find(|line| line["message"] == message) {
                return line.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!lines.ended && !left.is_zero(), "no {message:?} in {:#?}", lines.lines);
            lines = news.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// Everything so far, as text.
    pub(crate) fn text(&self) -> String {
        self.0.0.lock().unwrap().lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A server that runs. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    home: Arc<Home>,
    pub(crate) log: Log,
    pub(crate) address: SocketAddr,
    server: Server,
}

/// A server that has ended, with its directories.
pub(crate) struct Stopped {
    home: Arc<Home>,
    server: Server,
}

impl Stopped {
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn start_again(self) -> Running {
        self.server.start_in(&self.home)
    }
}

impl Running {
    pub(crate) fn workspace(&self) -> PathBuf {
        self.home.path("workspace")
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Kills it without a word, and starts another in its directories.
    pub(crate) fn restart(self) -> Running {
        let (server, home) = (self.server.clone(), self.home.clone());
        drop(self);
        server.start_in(&home)
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stopped(mut self) -> Stopped {
        self.signal(Signal::SIGTERM);
        let status = self.ended();
        assert!(status.success(), "{status}");
        Stopped { home: self.home.clone(), server: self.server.clone() }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// `POST /run`.
    pub(crate) fn run(&self, body: Value) -> Answer {
        self.send("POST", "/run", &[], Some(body.to_string()))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], None)
    }

    /// One request on a connection of its own. JSON is declared where there is a body and no other type is.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        Answer::read(self.open(method, path, headers, body))
    }

    /// Sends a request and leaves the answer to the caller.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> TcpStream {
        let has = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !has("host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(token) = self.server.token.as_ref().filter(|_| !has("authorization")) {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if let Some(body) = &body {
            if !has("content-type") {
                head.push_str("Content-Type: application/json\r\n");
            }
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.unwrap_or_default().as_bytes()).unwrap();
        stream
    }

    /// Waits for a file that an agent writes in the workspace root, and gives what is in it.
    pub(crate) fn wait_for_file(&self, name: &str) -> String {
        let path = self.workspace().join(name);
        eventually(&format!("{} exists", path.display()), || {
            fs::read_to_string(&path).ok().filter(|text| !text.is_empty())
        })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits for the end of the server.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        eventually("the server ends", || self.child.try_wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if thread::panicking() {
            eprintln!("log of the server:\n{}", self.log.text());
        }
    }
}

/// One request to a server that may be gone; none = it is. No token.
pub(crate) fn try_send(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut bytes = Vec::new();
    try_open(address, method, path, body)?.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    // A server that is killed may leave half an answer, which is none.
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    (length.parse() == Ok(body.len())).then(|| (status, body.to_owned()))
}

/// The same, with the answer left to the caller.
pub(crate) fn try_open(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    Some(stream)
}

/// An HTTP answer, to be checked.
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Reads all of it.
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let end = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {end:?} {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self { status, headers, body: body.to_owned() }
    }

    pub(crate) fn status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Checks the value at a JSON pointer.
    pub(crate) fn field(self, pointer: &str, value: impl Into<Value>) -> Self {
        assert_eq!(self.json().pointer(pointer), Some(&value.into()), "{pointer} of {}", self.body);
        self
    }

    /// Checks the names at the top of the answer, in whatever order.
    pub(crate) fn names(self, expected: &[&str]) -> Self {
        let json = self.json();
        let mut names: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = expected.to_vec();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected, "{}", self.body);
        self
    }

    /// A text in the answer.
    pub(crate) fn text(&self, pointer: &str) -> String {
        let json = self.json();
        let text = json.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("{pointer} of {}", self.body)).to_owned()
    }

    /// Checks that it is a problem document of this status, and gives its detail.
    pub(crate) fn problem(self, status: u16) -> String {
        let answer = self.status(status);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()), "{:?}", answer.headers);
        let promised = match status {
            401 => Some("www-authenticate"),
            405 => Some("allow"),
            429 | 503 => Some("retry-after"),
            _ => None,
        };
        assert!(promised.is_none_or(|name| answer.header(name).is_some()), "{:?}", answer.headers);
        let answer = answer.field("/status", status).field("/type", "about:blank");
        assert!(!answer.text("/title").is_empty());
        answer.text("/detail")
    }
}

/// Waits until there is something, by asking again and again.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "it never happened that {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process lives; one that only waits to be reaped does not.
pub(crate) fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or("Z");
    !matches!(state, "Z" | "X")
}

/// Waits until this process is gone.
pub(crate) fn gone(pid: i32) {
    eventually(&format!("{pid} is gone"), || (!alive(pid)).then_some(()));
}
