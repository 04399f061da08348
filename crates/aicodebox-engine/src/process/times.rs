//! Every time limit of the supervision, in one place. The sum for a cancelled run: grace + sweep ≤ 3 s; for a
//! shutdown, which has 10 s before a container is killed: 4 s grace, 1 s sweep, 1 s store, 2 s init.

use std::time::Duration;

/// Grace after the polite signal, unless the adapter's stop plan says otherwise: cancel, hang-up, limits.
pub const GRACE: Duration = Duration::from_secs(2);

/// Grace when the server goes down.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(4);

/// How long an agent may linger after its final event.
pub const FINISHED_GRACE: Duration = Duration::from_secs(2);

/// How long a pipe is read after the last process of the run is gone: only a process outside the tree can
/// still hold it.
pub const DRAIN: Duration = Duration::from_secs(2);

/// The sweep gives up after this, and the run is stuck.
pub const SWEEP: Duration = Duration::from_secs(10);

/// Pause between two rounds of SIGKILL. The death of a child ends it early.
pub(super) const SWEEP_ROUND: Duration = Duration::from_millis(2);

/// How long `sudo -n` may take to kill what the agent's user may not.
pub(super) const SUDO: Duration = Duration::from_secs(2);

/// How long a keeper may take from the order to the start of the program.
pub(super) const START: Duration = Duration::from_secs(10);

/// How long a keeper holds back that the program is started: that of an agent which ends at once goes out together with
/// the end, and wakes the server once instead of twice.
pub(super) const HELD: Duration = Duration::from_millis(1);

/// A keeper that has not reported this long after its last limit is wedged: the launcher kills it.
pub(super) const WEDGED: Duration = Duration::from_secs(2);

/// How long the launcher may take to report that it killed what a dead keeper left.
pub(super) const ADOPTION: Duration = Duration::from_secs(12);

/// How long the launcher waits for its keepers when the server is gone, before it kills them.
pub(super) const FAREWELL: Duration = Duration::from_secs(12);

/// Pause before a launcher is started again; it doubles with each one that does not live.
pub(super) const RESTART: Duration = Duration::from_millis(20);

/// The longest of these pauses. A launcher that lived longer than this ended for a new reason.
pub(super) const RESTART_MAX: Duration = Duration::from_secs(5);
