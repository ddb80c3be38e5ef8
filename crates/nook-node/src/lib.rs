//! The node: one event loop that owns the house, and a cheap [`House`] handle for the doors.
//!
//! [`start()`] reads the home and starts the parts (`start`); the loop (`running`) owns the `state`
//! and handles one thing at a time: commands of front ends (`house`), what links and discovery
//! report (`devices`), what linked devices are told (`bulletins`). What this device computes for
//! others is decided by `host`, which `hosting` joins to the loop; its own replies, what is measured
//! and which layers lie where by `requester`, which `asking` joins to it. Both compute with
//! `resources`. Model files come from the network, from other devices and from other programs
//! (`downloads`, `copying`, `found`); `fits` says which fit. Conversations are kept by `chats`; what
//! the owner chooses by `preferences`. What front ends show is made in one place (`present`,
//! `status_line`) from plain types ([`views`]). [`inspect`] looks into model files without a running
//! node.

mod asking;
mod bulletins;
mod chats;
mod copying;
mod devices;
pub mod doctor;
mod downloads;
mod fits;
mod found;
mod host;
mod hosting;
pub mod house;
pub mod inspect;
mod log;
mod meters;
mod mishaps;
mod models;
mod moving;
mod port;
mod preferences;
mod present;
mod quiet;
mod requester;
mod resources;
mod running;
mod start;
mod state;
mod status_line;
#[cfg(all(feature = "test-panics", debug_assertions))]
mod test_panics;
pub mod views;
mod vitals;
mod waking;

pub use house::{
    ChatMessage, ChatStart, Dialog, EmbedInput, EmbedRequest, Embedded, GenerateRequest, House,
    HouseError, KeptReply, LikelyToken, PairTarget, PauseFor, PieceOdds, PortSettings, Prompt,
    Reach, Reply, ReplyPiece, Sampling, Sharing, StartedTurn, Turn, TurnText,
};
pub use log::log_filter;
pub use nook_machine::seconds_to_clock;
pub use nook_plan::even_split;
pub use nook_shard::{WorkerCommand, worker_main};
pub use nook_store::PortKeyHolder;
pub use start::{
    HouseOptions, StartError, WindowChoices, data_folder, runtime_folder, start, window_choices,
};
pub use status_line::{pause_words, status_line};
pub use vitals::{Vitals, WorkerVitals};

/// The protocol version that this program speaks with other devices.
const PROTOCOL: u16 = nook_wire::PROTOCOL_VERSION;
