#![expect(unsafe_code, reason = "a misbehaving process needs fork, clone and signal handlers")]

use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    libc,
    unistd::{ForkResult, pipe, read, setsid, write},
};

/// Ends at once, with no cleanup.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Ends by this signal.
pub(crate) fn raise(signal: i32) -> ! {
    // SAFETY: default action, unblocked, then sent to ourselves.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    hang()
}

pub(crate) fn kill_group(signal: i32) -> io::Result<()> {
    // SAFETY: takes integers.
    unsafe { libc::kill(0, signal) };
    Ok(())
}

pub(crate) fn ignore(signal: i32) -> io::Result<()> {
    // SAFETY: no handler of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
    Ok(())
}

static MARKER: OnceLock<String> = OnceLock::new();
static FORKS: AtomicBool = AtomicBool::new(false);

/// On SIGTERM: write the marker and end with 0, or fork a process that is deaf to SIGTERM and go on.
pub(crate) fn on_term(marker: Option<String>) -> io::Result<()> {
    extern "C" fn terminated(_: libc::c_int) {
        match MARKER.get() {
            Some(file) => {
                fs::write(file, "terminated").ok();
                exit(0)
            }
            None => {
                if !FORKS.swap(true, Ordering::Relaxed) && child() {
                    ignore(libc::SIGTERM).ok();
                    hang()
                }
            }
        }
    }
    if let Some(marker) = marker {
        MARKER.set(marker).map_err(|_| io::Error::other("only once"))?;
    }
    // SAFETY: we have one thread, which sleeps when the handler runs.
    unsafe { libc::signal(libc::SIGTERM, terminated as *const () as libc::sighandler_t) };
    Ok(())
}

pub(crate) fn fork(mode: &str) -> io::Result<()> {
    match mode {
        "group" => started(|ready| {
            up(ready);
            hang()
        }),
        "session" => started(|ready| {
            setsid().ok();
            up(ready);
            hang()
        }),
        "nasty" => started(|ready| {
            escape();
            up(ready);
            hang()
        }),
        "stopped" => started(|ready| {
            up(ready);
            // SAFETY: takes an integer.
            unsafe { libc::raise(libc::SIGSTOP) };
            hang()
        }),
        "parent" => sibling(),
        "thread" => started(|ready| {
            let ready = ready.try_clone_to_owned().ok();
            thread::spawn(move || {
                // The main thread is gone a moment later.
                ready.iter().for_each(|ready| up(ready.as_fd()));
                hang()
            });
            // SAFETY: ends this thread alone, and nothing of it is used afterwards.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            hang()
        }),
        "on-term" => on_term(None),
        "bomb" => started(|ready| {
            up(ready);
            bomb(Instant::now() + Duration::from_secs(2))
        }),
        "comet" => started(|ready| {
            escape();
            up(ready);
            loop {
                if !child() {
                    exit(0);
                }
                thread::sleep(Duration::from_micros(200));
            }
        }),
        _ => Err(io::Error::other("no such mode")),
    }
}

/// A process that nobody has a handle on writes the file after that time.
pub(crate) fn later(time: Duration, file: String) -> io::Result<()> {
    started(|ready| {
        escape();
        up(ready);
        thread::sleep(time);
        fs::write(&file, "too late").ok();
        exit(0)
    })
}

/// Double-forked processes that are dead by the time this returns, or a moment later.
pub(crate) fn orphans(count: i32) -> io::Result<()> {
    for _ in 0..count {
        started(|ready| {
            if child() {
                up(ready);
                exit(0);
            }
            exit(0)
        })?;
    }
    Ok(())
}

/// Forks. `true` in the child; `false` in the parent, or when there can be no child.
fn child() -> bool {
    // SAFETY: we have one thread here.
    matches!(unsafe { nix::unistd::fork() }, Ok(ForkResult::Child))
}

/// Starts `what` in a child and returns when it, or a child of it, says that it is up.
fn started(what: impl Fn(std::os::fd::BorrowedFd<'_>)) -> io::Result<()> {
    let (wait, ready) = pipe()?;
    if child() {
        drop(wait);
        what(ready.as_fd());
        exit(0);
    }
    drop(ready);
    come_up(&wait)
}

fn come_up(wait: &OwnedFd) -> io::Result<()> {
    match read(wait, &mut [0])? {
        0 => Err(io::Error::other("did not come up")),
        _ => Ok(()),
    }
}

fn up(ready: std::os::fd::BorrowedFd<'_>) {
    write(ready, b"!").ok();
}

/// Session of its own, double fork, no environment, deaf.
fn escape() {
    setsid().ok();
    if child() {
        ignore(libc::SIGTERM).ok();
        ignore(libc::SIGHUP).ok();
        // SAFETY: we have one thread.
        unsafe { libc::clearenv() };
        setsid().ok();
    } else {
        exit(0);
    }
}

/// A child of our parent.
fn sibling() -> io::Result<()> {
    let (wait, ready) = pipe()?;
    // SAFETY: without CLONE_VM this is fork; we have one thread.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, ptr::null::<u8>(), 0, 0, 0)
    };
    if pid == 0 {
        drop(wait);
        up(ready.as_fd());
        hang();
    }
    drop(ready);
    come_up(&wait)
}

fn bomb(end: Instant) -> ! {
    while Instant::now() < end {
        if child() {
            if std::process::id().is_multiple_of(2) {
                escape();
            }
            if std::process::id().is_multiple_of(16) {
                bomb(end);
            }
            hang();
        }
        thread::sleep(Duration::from_micros(500));
    }
    hang()
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}
