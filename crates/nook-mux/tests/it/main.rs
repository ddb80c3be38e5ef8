//! Two ends of a connection over an in-memory pipe, and one end against hand-made frames.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod ends;
mod flow;
mod forwarding;
mod framing;
mod liveness;
mod moving;
mod pair;
mod violations;
