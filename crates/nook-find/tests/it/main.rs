//! The finder, on a network in memory and on the real one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod air;
mod mdns;
#[cfg(unix)]
mod process;
