//! The lending side: what this device computes for others, and what it tells them of it.
//!
//! ```text
//! peers, workers, timers ──► HostEvent ──► Host::on (machine) ──► HostEffect ──► the node: tell a peer, …
//!          ▲                                                          └─► HostTask ──► Runner
//!          └─────────────────────── tasks report by events ◄─────────────────────────────┘
//! ```
//!
//! [`Host`] decides and owns what is lent ([`terms`]), the leases, what the workers hold
//! (`residency`), the pause and the ledger; what others ask is noted in the [`Audit`]. The [`Runner`] starts the tasks: `serve` answers a call
//! and passes it to a worker through the `proxy`, joined with other hosts by `chain`; `offload`
//! runs whole requests; `giving` sends model files; `loading` brings the layers of a lease into
//! memory; `sleep` and `look` watch the machine.

mod audit;
mod chain;
mod events;
mod giving;
mod leases;
mod ledger;
mod lent;
mod loading;
mod look;
mod machine;
mod offload;
mod pause;
mod proxy;
mod refusal;
mod residency;
mod runner;
mod serve;
mod sleep;
mod streams;
mod terms;
mod tools;
mod usage;

pub use self::audit::Audit;
pub use self::events::{Fetched, Guests, HostEffect, HostEvent, OwnSpeed, Surroundings};
pub use self::giving::{GivenPackage, GivenRelease, Giving};
pub use self::lent::Lent;
pub use self::machine::{Host, worker_limits};
pub use self::runner::Runner;
pub use self::tools::Tools;
