use std::{
    ffi::{CStr, c_char},
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

use nix::{libc, sched::CloneFlags};

use super::message::{Stage, Start};

/// Bytes of stack between `clone` and `execve`: a few dozen system calls, no allocation.
const STACK: usize = 64 << 10;

/// Starts leaders, one at a time, as `posix_spawn` does: the child borrows our memory until it has executed its
/// program, and we sleep meanwhile. So there are no page tables to copy, an error comes back in a variable, and
/// all that would stick to a keeper (group, directory, limits, privileges, mask) is set in the leader.
pub(super) struct Spawner {
    stack: Box<[u8]>,
}

/// Why there is no leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) stage: Stage,
    pub(super) errno: i32,
}

impl Spawner {
    pub(super) fn new() -> Self {
        Self { stack: vec![0; STACK].into_boxed_slice() }
    }

    /// Returns when the program is executed, or could not be.
    pub(super) fn start(
        &mut self,
        start: &Start<'_>,
        stdio: &[OwnedFd; 3],
    ) -> io::Result<Result<i32, Refused>> {
        let exec = Exec::new(start, stdio)?;
        let failed = [AtomicI32::new(0), AtomicI32::new(0)];
        let child = Box::new(|| {
            let refused = exec.run();
            failed[0].store(refused.stage as i32 + 1, Ordering::Relaxed);
            failed[1].store(refused.errno, Ordering::Relaxed);
            127
        });
        let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
        #[expect(unsafe_code, reason = "vfork on a stack of its own")]
        // SAFETY: we are single-threaded and suspended until the child has executed or ended, so it has `exec`,
        // `failed` and the stack for itself. It makes system calls only: no allocation, no lock, no panic.
        let cloned = unsafe { nix::sched::clone(child, &mut self.stack, flags, Some(libc::SIGCHLD)) };
        let pid = match cloned {
            Ok(pid) => pid.as_raw(),
            Err(errno) => return Ok(Err(Refused { stage: Stage::Fork, errno: errno as i32 })),
        };
        let Some(stage) = stage(failed[0].load(Ordering::Relaxed)) else { return Ok(Ok(pid)) };
        // It has ended, or is about to: reaped here, it is no child of the run.
        while super::sys::wait(Some(pid)) == super::sys::Waited::Alive {
            std::thread::yield_now();
        }
        Ok(Err(Refused { stage, errno: failed[1].load(Ordering::Relaxed) }))
    }
}

fn stage(number: i32) -> Option<Stage> {
    [Stage::Fork, Stage::Group, Stage::Stdio, Stage::Cwd, Stage::Limits, Stage::Privileges, Stage::Exec]
        .into_iter()
        .find(|stage| *stage as i32 + 1 == number)
}

/// What the child needs, made before there is a child.
struct Exec<'a> {
    program: &'a CStr,
    cwd: &'a CStr,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    stdio: [i32; 3],
    start: &'a Start<'a>,
}

impl<'a> Exec<'a> {
    fn new(start: &'a Start<'a>, stdio: &[OwnedFd; 3]) -> io::Result<Self> {
        let mut rest = start.text.0;
        let mut word = || {
            let word = CStr::from_bytes_until_nul(rest).ok()?;
            rest = rest.get(word.to_bytes_with_nul().len()..)?;
            Some(word)
        };
        let (Some(program), Some(cwd)) = (word(), word()) else {
            return Err(io::Error::other("a launch without program or directory"));
        };
        let mut argv: Vec<_> = std::iter::from_fn(&mut word).take(start.args).map(CStr::as_ptr).collect();
        let mut envp: Vec<_> = std::iter::from_fn(word).map(CStr::as_ptr).collect();
        argv.push(ptr::null());
        envp.push(ptr::null());
        let stdio = stdio.each_ref().map(AsRawFd::as_raw_fd);
        Ok(Self { program, cwd, argv, envp, stdio, start })
    }

    /// Runs in the child. Returns only when a step fails.
    #[expect(unsafe_code, reason = "between vfork and execve only plain system calls are allowed")]
    fn run(&self) -> Refused {
        let refused = |stage| Refused { stage, errno: nix::Error::last_raw() };
        // SAFETY: every pointer is to memory that our suspended parent keeps: C strings, arrays of them that end
        // with NULL, and integers. The calls change this process alone, whose descriptors are a copy.
        unsafe {
            // A group of its own, or an agent's kill(0, …) would hit the keepers.
            if libc::setpgid(0, 0) != 0 {
                return refused(Stage::Group);
            }
            for (target, fd) in (0..).zip(self.stdio) {
                if libc::dup2(fd, target) != target {
                    return refused(Stage::Stdio);
                }
            }
            // Kernels before 5.11 do not know the flag; all that we open ourselves is close-on-exec anyway.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            if libc::chdir(self.cwd.as_ptr()) != 0 {
                return refused(Stage::Cwd);
            }
            for limit in &self.start.rlimits {
                let value = libc::rlimit { rlim_cur: limit.value, rlim_max: limit.value };
                if libc::setrlimit(limit.resource as _, &raw const value) != 0 {
                    return refused(Stage::Limits);
                }
            }
            if self.start.no_new_privs && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
                return refused(Stage::Privileges);
            }
            // Last, so that no signal finds a half-made process. Inherited, the mask would make the agent deaf
            // to its stop signal: all dispositions are default already.
            let mut none = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            libc::execve(self.program.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
        }
        refused(Stage::Exec)
    }
}
