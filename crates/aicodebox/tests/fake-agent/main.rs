//! An agent that misbehaves on request: its arguments are steps, carried out in order. It is built for tests
//! only (feature `fake-agent`) and never installed.
//!
//! A step that starts something returns when that is up, so that what a later `--say` prints is a signal.
//! Sizes take the suffixes k, m and g. The steps:
//!
//! ```text
//! --say TEXT            a line on stdout              --exit N              end with this code
//! --print TEXT          the same without its end      --signal N            end by this signal
//! --stdout SIZE         that many bytes               --kill-group N        this signal to the whole group
//! --stderr SIZE         that many bytes               --hang                for ever
//! --long-line SIZE      one line of that length       --sleep MS            for so long
//! --split-utf8          é€😀, byte by byte             --wait-file FILE      until it exists
//! --latin1              a line that is not UTF-8      --fds, --status, --env, --args, --cwd, --limits
//! --replay FILE         its content                                         what we are, on stdout
//! --echo-stdin          stdin to stdout, to its end   --lock FILE           lock it; heirs keep the lock
//! --stdin-length        how much there was            --nondumpable         hide from /proc
//! --close-stdin         without reading it            --ignore N            ignore this signal
//! --close-stdout        and stderr                    --on-term FILE        on SIGTERM write FILE and end with 0
//! --steps-from-stdin    further steps, one a line     --fork MODE           start something, see below
//! --later MS FILE       an escaped process writes     --orphans N           leave so many dead ones behind
//!                       FILE after that time          --exec PROGRAM ...    become it, with no environment
//! --become-root         where the file is set-user-id
//! ```
//!
//! `--fork` starts a process that sleeps for ever and inherits all descriptors: `group` in our process group,
//! `session` in one of its own, `nasty` also double-forked, deaf to SIGTERM and without environment, `stopped` by
//! SIGSTOP, `parent` as our sibling (`CLONE_PARENT`), `thread` a dead main thread with a living one beside it,
//! `on-term` only when we get SIGTERM. Or many: `bomb` forks for 2 s and half of them escape, `comet` forks and
//! ends all the time.

mod fork;
mod steps;

use std::{collections::VecDeque, ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    let mut steps: VecDeque<OsString> = std::env::args_os().skip(1).collect();
    match steps::run(&mut steps) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fake-agent: {error}");
            ExitCode::from(99)
        }
    }
}
