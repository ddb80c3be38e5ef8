//! Links and pairing on real sockets, named after the rows of the list of hostile inputs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod household;
mod identity;
mod pairing;
mod raw;
mod sessions;
mod transport;
mod ways;
