//! The planner's promises, on households made by hand and drawn ones.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod choosing;
mod cover;
mod learning;
mod placing;
mod planning;
mod route;
mod rows;
