//! The program `nook` as a person and a script meet it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod command_line;
mod debug;
#[path = "../../../nook-testkit/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "other crates' tests use the rest")]
mod places;
mod privacy;
