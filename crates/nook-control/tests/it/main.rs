//! The owner's door over a real socket.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod control;
