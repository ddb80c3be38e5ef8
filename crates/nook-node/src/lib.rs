//! The node: one event loop that owns the house, and a cheap [`House`] handle for the doors.
//!
//! [`start()`] reads the home and starts the parts (`start`); the loop (`running`) owns the `state`
//! and handles one thing at a time: commands of doors (`house`), what links and discovery report
//! (`devices`), what linked devices are told (`bulletins`), calls of other devices (`sharing`, `lending`, `forwarding`, `whole`; counted by `tally`; held back by `holding_back`, which asks
//! `pausing`), replies (`replies`, `reply`), where
//! they are computed (`choice`, by what `gauges` and `probing` have measured), which layers lie where
//! (`placing`), model files from the network, of other devices and of other programs (`downloads`, `copying`, `found`) and whether they fit (`fits`), kept conversations (`chats`), vectors for texts (`embed`), what the owner chooses (`preferences`). What doors show is
//! made in one place (`present`, `status_line`) from plain types ([`views`]).
//! [`inspect`] looks into model files, and [`settings`] shows and changes settings, without a running node.

mod adverts;
mod bulletins;
mod catalogue;
mod chats;
mod choice;
mod copying;
mod devices;
pub mod doctor;
mod downloads;
mod dropping;
mod embed;
mod fits;
mod forwarding;
mod found;
mod gauges;
mod holding_back;
mod holdings;
pub mod house;
pub mod inspect;
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
pub mod settings;
mod sharing;
mod shelf;
mod sleeping;
mod start;
mod state;
mod status_line;
mod tally;
pub mod views;
mod vitals;
mod waking;
mod whole;
mod workers;

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
const PROTOCOL: u16 = nook_wire::WIRE_VERSION as u16;
