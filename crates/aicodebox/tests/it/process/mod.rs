//! Launcher, keepers and the supervise loop, with real processes that misbehave.

mod support;

mod output;
