//! The owner's own door to a running node: `nook` in a second terminal, scripts, the tray's helper.
//!
//! JSON lines over a Unix socket (named pipe on Windows) in a folder that only this user can enter:
//! whoever can open it could also read the node's files, so there is no further key. It is apart
//! from the OpenAI port because that port's keys are handed to other programs, and a program that
//! may ask for replies must not be able to pair devices or raise trust.
//!
//! One [`Ask`] a connection. A request of `nook-api` is answered with one line; a reply with a line
//! for each event until the last one, and closing the connection stops it. [`Client`] has all
//! requests as methods ([`nook_api::NodeCalls`]).

mod client;
mod ending;
mod protocol;
mod server;
mod socket;

pub use client::{Client, ClientError, ReplyLines};
pub use ending::asked_by_the_system;
pub use protocol::{Ask, Ids, Line, ReplyRequest, RequestMessage};
pub use server::{ControlError, serve};
pub use socket::socket_name;
