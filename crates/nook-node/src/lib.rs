//! The node: one event loop that owns what this device is and knows; `nook-api` has the handle to
//! it.
//!
//! [`start()`] reads the home and starts the parts (`start`); the loop (`running`) owns the `state`
//! and handles one thing at a time: commands of front ends (`dispatch`), what links and discovery
//! report goes to `devices`, which `linking` joins to it; what linked devices are told to
//! `outbox`. What this device computes for others is decided by `host`, which `hosting` joins to
//! the loop; its own replies, what is measured and which layers lie where by `requester`, which
//! `asking` joins to it. Both compute with `resources`. The models of this device, those that are
//! on their way and the folder of all of them belong to `nook-library`, which `library` joins to
//! it; `fits` says which fit. `updates` looks for new versions of the program, on a server and at
//! other devices. Conversations are kept by `chats`; what the owner chooses by
//! `preferences`. What front ends show is made in one place (`present`, `status_line`) from the
//! plain types of `nook-api`.

mod asked_here;
mod asking;
mod awake;
mod card_watch;
mod chats;
mod computing;
mod devices;
mod dispatch;
mod doctor;
mod facts;
mod fits;
mod givers;
mod hosting;
mod kept_privacy;
mod library;
mod linking;
mod log;
mod machine_seen;
mod meters;
mod mishaps;
mod outbox;
mod port;
mod preferences;
mod present;
mod privacy;
mod quiet;
mod rates;
mod running;
pub mod settings;
mod start;
mod state;
mod status_line;
#[cfg(all(feature = "test-panics", debug_assertions))]
mod test_panics;
mod updates;
mod vitals;
mod waking;
mod ways;

use std::ffi::OsString;
use std::process::ExitCode;

pub use log::log_filter;
pub use nook_machine::seconds_to_clock;
pub use nook_plan::even_split;
pub use nook_resources::memory::memory_free;
pub use nook_shard::confinement::no_core_dumps;
pub use nook_shard::{WorkerCommand, cuda_worker_beside};
pub use start::{
    NodeOptions, StartError, WindowChoices, data_folder, process_of, runtime_folder, start,
    window_choices,
};
pub use status_line::{pause_words, status_line};

/// The protocol version that this program speaks with other devices.
const PROTOCOL: u16 = nook_wire::PROTOCOL_VERSION;

/// What a process that looks for devices may take of memory beside what it starts with, in bytes.
/// What it holds at most (see `nook-find`) takes a few MiB.
const DISCOVERY_BYTES: u64 = 64 << 20;

/// Runs this program as a process of a node's, to its end: as a worker, as one that works on what
/// strangers wrote, or as one that looks for devices. `arguments` are those after `worker`.
#[must_use]
pub fn worker_main(arguments: &[OsString]) -> ExitCode {
    match arguments {
        [flag] if flag == nook_resources::sandbox::SANDBOX_FLAG => {
            nook_resources::sandbox::sandbox_main()
        }
        [flag, where_to_look @ ..] if flag == nook_find::DISCOVERY_FLAG => {
            // Its node says of its workers what this system leaves open.
            let _ = nook_shard::confinement::listener(DISCOVERY_BYTES);
            nook_find::discovery_main(where_to_look)
        }
        _ => nook_shard::worker_main(arguments),
    }
}
