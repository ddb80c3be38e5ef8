//! Models against references and against each other: the same bits whatever the cuts, and what is
//! refused.
//!
//! `fixtures` loads fixture files, which `places` finds; `plain` is the pass that everything is
//! held against. (`fuzz_headers.rs` beside this folder is a program of its own.)

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod batches;
mod card;
mod card_references;
mod edge;
mod executors;
mod families;
mod fixtures;
mod forms;
mod gpu;
mod gpu_beside;
mod gpu_newer;
mod gpu_references;
mod headers;
mod hostile;
mod joined;
mod manifest;
mod mistakes;
mod newer_sessions;
mod partial;
#[path = "../../../nook-testkit/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "other crates' tests use the rest")]
mod places;
mod plain;
mod plain_pass;
mod plain_reference;
mod records;
mod reference;
mod same_bits;
mod sessions;
mod tiny_references;
mod vocabularies;
