//! What is read from a real machine.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod machine;
#[path = "../../../nook-testkit/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "other crates' tests use the rest")]
mod places;
