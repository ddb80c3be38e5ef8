//! Updates against a real server on this machine that behaves as badly as it is told, into real
//! folders, with the script of the real package.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../nook-testkit/src/file_server.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use the rest")]
mod file_server;
#[cfg(unix)]
mod installing;
mod kit;
mod looking;
mod models;
#[path = "../../../nook-testkit/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "other crates' tests use the rest")]
mod places;
