//! What a front end may ask of a node, and what it is told.
//!
//! [`actions`] lists every action once: its arguments, its answer, and who may ask for it. From that list come
//! the serialisable pair [`Request`] and [`Response`], which window, control socket and command line
//! speak; the methods of [`NodeHandle`] for code in the node's own process, and [`NodeCalls`] for code
//! that reaches the node through a channel; the [`Command`]s that the node's event loop takes; and the
//! window's TypeScript. What a node shows are plain [`views`].
//!
//! The crate starts nothing and does no I/O. It knows the requests that the in-process front ends make
//! of a model ([`GenerateRequest`] and its parts), but neither links, workers nor stores.

mod action;
pub mod actions;
#[cfg(feature = "bindings")]
pub mod bindings;
pub mod doctor;
mod error;
mod generation;
mod handle;
mod path_or_none;
mod plain;
mod requests;
mod restart;
pub mod views;
mod vitals;

pub use action::{Action, Answer, Calls, FrontEnd, UnexpectedResponse};
pub use actions::{
    ACTIONS, ChatCommand, Command, DeviceCommand, ModelCommand, NodeCalls, PortCommand, Request,
    Response, SettingCommand, SharingCommand,
};
pub use error::{NodeError, sentence};
pub use generation::{
    Asker, ChatMessage, Counted, Dialog, EmbedInput, EmbedRequest, Embedded, GenerateRequest,
    LikelyToken, PieceLogprobs, Prompt, Reply, ReplyPiece, Sampling, SamplingParameters, Thinking,
};
pub use handle::{INBOX_COMMANDS_MAX, KeyLookup, NodeHandle, NodeParts, PortKeyHolder};
pub use requests::{
    ChatStart, KeptReply, PairTarget, PauseFor, PortSettings, REPLIES_WAITING_MAX,
    REPLY_EVENTS_MAX, Reach, Sharing, StartedTurn, Turn, TurnText, TurnView,
};
pub use restart::{Again, Restart, RestartWaits};
pub use vitals::{Vitals, WorkerVitals};
