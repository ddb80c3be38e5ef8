//! The node: one event loop that owns what this device is and knows; `nook-api` has the handle to it.
//!
//! [`start()`] reads the home and starts the parts (`start`); the loop (`running`) owns the `state`
//! and handles one thing at a time: commands of front ends (`dispatch`), what links and discovery report
//! (`devices`), what linked devices are told (`bulletins`), calls of other devices (`sharing`, `lending`, `forwarding`, `whole`; counted by `tally`; held back by `holding_back`, which asks
//! `pausing`), replies (`replies`, `reply`), where
//! they are computed (`choice`, by what `gauges` and `probing` have measured), which layers lie where
//! (`placing`), model files from the network, of other devices and of other programs (`downloads`, `copying`, `found`) and whether they fit (`fits`), kept conversations (`chats`), vectors for texts (`embed`), what the owner chooses (`preferences`). What doors show is
//! made in one place (`present`, `status_line`) from the plain types of `nook-api`.

mod adverts;
mod bulletins;
mod catalogue;
mod chats;
mod choice;
mod copying;
mod devices;
mod dispatch;
mod doctor;
mod downloads;
mod dropping;
mod embed;
mod fits;
mod forwarding;
mod found;
mod gauges;
mod holding_back;
mod holdings;
mod house;
mod keeping;
mod lending;
mod log;
mod meters;
mod models;
mod moving;
mod passage;
mod pausing;
mod placing;
mod port;
mod preferences;
mod present;
mod probing;
mod prompt;
mod quiet;
mod records;
mod replies;
pub mod reply;
mod running;
mod sharing;
mod shelf;
mod sleeping;
mod start;
mod state;
mod status_line;
mod tally;
mod views_of;
mod vitals;
mod waking;
mod whole;
mod workers;

pub(crate) use nook_api::views;

pub use log::log_filter;
pub use nook_machine::seconds_to_clock;
pub use nook_plan::even_split;
pub use nook_shard::{WorkerCommand, worker_main};
pub use start::{
    HouseOptions, StartError, WindowChoices, data_folder, runtime_folder, start, window_choices,
};
pub use status_line::{pause_words, status_line};

/// The protocol version that this program speaks with other devices.
const PROTOCOL: u16 = nook_wire::WIRE_VERSION as u16;
