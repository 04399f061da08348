use std::{
    collections::VecDeque,
    ffi::OsString,
    fs,
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::Command,
    thread::sleep,
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::{
        prctl,
        resource::{Resource, getrlimit},
    },
};

use crate::fork;

type Steps = VecDeque<OsString>;

/// Carries out all steps; what is left to do may grow meanwhile.
pub(crate) fn run(steps: &mut Steps) -> io::Result<()> {
    while let Some(step) = steps.pop_front() {
        let step = step.into_string().map_err(|_| io::Error::other("a step that is not UTF-8"))?;
        one(&step, steps).map_err(|error| io::Error::other(format!("{step}: {error}")))?;
    }
    Ok(())
}

fn one(step: &str, steps: &mut Steps) -> io::Result<()> {
    match step {
        "--say" => print(&[text(steps)?.as_bytes(), b"\n"].concat()),
        "--print" => print(text(steps)?.as_bytes()),
        "--stdout" => fill(io::stdout().lock(), size(steps)?),
        "--stderr" => fill(io::stderr().lock(), size(steps)?),
        "--long-line" => {
            fill(io::stdout().lock(), size(steps)?)?;
            print(b"\n")
        }
        "--split-utf8" => "é€😀\n".as_bytes().iter().try_for_each(|byte| {
            print(&[*byte])?;
            sleep(Duration::from_millis(3));
            Ok(())
        }),
        "--latin1" => print(b"caf\xe9\n"),
        "--replay" => print(&fs::read(text(steps)?)?),
        "--echo-stdin" => echo(),
        "--stdin-length" => {
            let length = io::copy(&mut io::stdin().lock(), &mut io::sink())?;
            print(format!("{length}\n").as_bytes())
        }
        "--steps-from-stdin" => {
            let mut lines = String::new();
            io::stdin().lock().read_to_string(&mut lines)?;
            // A line is a step and the rest of it one value, except where a step takes more.
            for line in lines.lines().rev().filter(|line| line.starts_with("--")) {
                let limit = if line.starts_with("--later ") { 3 } else { 2 };
                let words: Vec<&str> = line.splitn(limit, ' ').collect();
                words.iter().rev().for_each(|word| steps.push_front(word.into()));
            }
            Ok(())
        }
        "--close-stdin" => Ok(nix::unistd::close(0)?),
        "--close-stdout" => Ok(nix::unistd::close(1).and(nix::unistd::close(2))?),
        "--exit" => fork::exit(number(steps)?),
        "--signal" => fork::raise(number(steps)?),
        "--kill-group" => fork::kill_group(number(steps)?),
        "--hang" => loop {
            sleep(Duration::from_secs(3600));
        },
        "--sleep" => {
            sleep(Duration::from_millis(number(steps)? as u64));
            Ok(())
        }
        "--wait-file" => {
            let file = text(steps)?;
            while !Path::new(&file).exists() {
                sleep(Duration::from_millis(2));
            }
            Ok(())
        }
        "--fds" => descriptors(),
        "--status" => print(&fs::read("/proc/self/status")?),
        "--env" => print(&fs::read("/proc/self/environ")?),
        "--args" => print(&fs::read("/proc/self/cmdline")?),
        "--cwd" => print(std::env::current_dir()?.as_os_str().as_bytes()),
        "--limits" => {
            let (core, _) = getrlimit(Resource::RLIMIT_CORE)?;
            let (files, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
            let oom = fs::read_to_string("/proc/self/oom_score_adj")?;
            print(format!("core {core} files {files} oom {oom}").as_bytes())
        }
        "--lock" => lock(&text(steps)?),
        "--nondumpable" => Ok(prctl::set_dumpable(false)?),
        "--become-root" => Ok(nix::unistd::setuid(nix::unistd::Uid::from_raw(0))?),
        "--ignore" => fork::ignore(number(steps)?),
        "--on-term" => fork::on_term(Some(text(steps)?)),
        "--fork" => fork::fork(&text(steps)?),
        "--later" => {
            let time = Duration::from_millis(number(steps)? as u64);
            fork::later(time, text(steps)?)
        }
        "--orphans" => fork::orphans(number(steps)?),
        "--exec" => {
            let program = text(steps)?;
            Err(Command::new(program).args(steps.drain(..)).env_clear().exec())
        }
        _ => Err(io::Error::other("no such step")),
    }
}

fn text(steps: &mut Steps) -> io::Result<String> {
    let word = steps.pop_front().ok_or_else(|| io::Error::other("needs a value"))?;
    word.into_string().map_err(|_| io::Error::other("its value is not UTF-8"))
}

fn number(steps: &mut Steps) -> io::Result<i32> {
    text(steps)?.parse().map_err(io::Error::other)
}

fn size(steps: &mut Steps) -> io::Result<u64> {
    let text = text(steps)?;
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 10),
        Some(b'm') => (&text[..text.len() - 1], 20),
        Some(b'g') => (&text[..text.len() - 1], 30),
        _ => (text.as_str(), 0),
    };
    Ok(digits.parse::<u64>().map_err(io::Error::other)? << shift)
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Piece by piece, as they come.
fn echo() -> io::Result<()> {
    let mut piece = [0; 4096];
    loop {
        match io::stdin().lock().read(&mut piece)? {
            0 => return Ok(()),
            length => print(&piece[..length])?,
        }
    }
}

/// Bytes that tell where they are: the alphabet, again and again.
fn fill(mut to: impl Write, mut size: u64) -> io::Result<()> {
    let block: Vec<u8> = (b'a'..=b'z').cycle().take(26 << 11).collect();
    while size > 0 {
        let part = &block[..block.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
        to.write_all(part)?;
        size -= part.len() as u64;
    }
    to.flush()
}

/// Open descriptors, sorted, without the one that lists them.
fn descriptors() -> io::Result<()> {
    let directory =
        nix::dir::Dir::open("/proc/self/fd", nix::fcntl::OFlag::O_DIRECTORY, nix::sys::stat::Mode::empty())?;
    let own = directory.as_raw_fd();
    let mut fds: Vec<i32> = directory
        .into_iter()
        .filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse().ok())
        .filter(|fd| *fd != own)
        .collect();
    fds.sort_unstable();
    print(format!("{fds:?}\n").as_bytes())
}

/// Every process that comes from us keeps the lock, until the last of them is gone: what a test looks at.
fn lock(file: &str) -> io::Result<()> {
    let file = fs::File::options().create(true).append(true).open(file)?;
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)?;
    std::mem::forget(lock);
    Ok(())
}
