//! The kernels' promises. (`heap.rs` beside this folder is a program of its own.)

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod attention;
mod attention_cache;
mod blocks;
#[path = "../../../nook-testkit/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "other crates' tests use the rest")]
mod places;
mod products;
mod vector;
