//! The worker process that holds the layers of one model.
//!
//! Two halves in one crate, because they are two ends of one socket: [`worker_main`] is what runs
//! in the process, [`Worker`] is how its node starts it, talks to it and ends it. A crash of the
//! process, or running out of memory there, never takes the node down.

mod account;
mod batch_window;
mod caches;
mod compute;
pub mod confinement;
mod copies;
mod failure;
mod history;
mod lent;
mod line;
mod link;
mod opening;
mod over;
mod pace;
mod place;
mod process;
mod program;
mod retained;
mod serve;
#[cfg(all(feature = "test-faults", debug_assertions))]
mod test_faults;
mod worker;
mod worker_state;

pub use nook_wire::PassCounts;
pub use process::{LoadedPart, Worker, WorkerEnd, WorkerError, WorkerLimits, WorkerStatus};
pub use program::{CUDA_WORKER, WorkerCommand, WorkerStartError, cuda_worker_beside};
pub use worker::{GPU_LOST_EXIT, worker_main, worker_status};

/// Threads for the forward pass: the cores of this machine, or what `INGLENOOK_THREADS` says.
#[must_use]
pub fn threads() -> usize {
    nook_base::env::text("INGLENOOK_THREADS")
        .and_then(|text| text.parse().ok())
        .filter(|threads| (1..=1024).contains(threads))
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into))
}

/// Calls between a node and one of its workers: every stream of this device and of guests, and a
/// few for questions.
const CALLS_MAX: usize = 256;

fn mux_config(side: nook_mux::Side) -> nook_mux::MuxConfig {
    nook_mux::MuxConfig { side, ping: nook_mux::PingPolicy::WORKER, calls_max: CALLS_MAX }
}
