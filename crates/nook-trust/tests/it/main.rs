//! Pairing, tickets and the gate, in memory.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod forms;
mod names;
mod pairing;
mod promises;
mod tickets;
