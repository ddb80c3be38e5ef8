//! The codec: its bytes, its limits, and what it cannot say.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod golden;
mod properties;
mod refusals;
mod vocabulary;
