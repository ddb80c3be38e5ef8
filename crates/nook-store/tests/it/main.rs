//! What is kept on disk: settings, identity, paired devices, chats, model files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod audit;
mod behaviour;
mod chats;
mod keyring;
mod kill;
mod lent_days;
mod library;
mod measured;
mod moving;
mod peers;
#[path = "../../../nook-testkit/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "other crates' tests use the rest")]
mod places;
mod privacy;
mod settings;
mod touched;
