//! The asking side: this device's own replies, from a front end's request to the devices that
//! compute them.
//!
//! ```text
//!              ┌──────────── Requester ────────────┐
//! Event ─────> │ queue · conduct · estimates       │ ──> Effect ──> node (peers, views, disk)
//!   ^          │ idle probes · layer placement     │      │
//!   │          └───────────────────────────────────┘      └────> Runner (tasks)
//!   └── tasks: one per reply, probe round, placement look ───────────┘
//! ```
//!
//! [`Requester`] is a state machine: [`Requester::on`] takes an event and what others own at that
//! moment ([`Surroundings`]), and says what is to be done. It starts no task, reads no clock, no
//! disk and no network. [`Runner`] turns the effects that are work into tasks, which report back as
//! events. It does not know the side that lends.

mod choice;
mod machine;
mod metrics;
mod prompt;
mod reply;
mod runner;
mod views_of;

pub use crate::choice::outlook::PROMPT_TOKENS_USUAL;
pub use crate::choice::{REPLY_TOKENS_EXPECTED, costs};
pub use crate::machine::{
    Effect, Event, Lending, LentLayers, Report, Requester, Surroundings, Task,
};
pub use crate::reply::Me;
pub use crate::runner::Runner;
