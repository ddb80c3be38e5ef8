//! What requests are made of: plain data that front ends make and read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nook_base::{ReplyChoices, Sensitive};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::generation::ReplyPiece;

/// Reply events that may wait for a slow reader. A reader that is slower still slows the reply; one
/// that takes nothing for too long ends it.
pub const REPLY_EVENTS_MAX: usize = 256;

/// Replies that may wait until one under way ends, of the owner, and as many of all programs
/// together: chat windows of other programs ask for titles and tags in bursts. One more is refused
/// as busy.
pub const REPLIES_WAITING_MAX: usize = 16;

/// Derives what every serialisable part of a request has.
macro_rules! part {
    ($(#[$meta:meta])* $kind:ident $name:ident $body:tt) => {
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
        #[serde(rename_all = "snake_case")]
        $(#[$meta])*
        pub $kind $name $body
    };
}

/// How the local port is to be opened. Stays in the node's process.
#[derive(Debug, Clone)]
pub struct PortSettings {
    /// Whether it is to be open at all.
    pub on: bool,
    /// Where; an address of this machine alone unless it is `exposed`.
    pub address: SocketAddr,
    /// Whether the owner lets other machines of the network reach it.
    pub exposed: bool,
    /// What other machines may call this one, besides its addresses.
    pub host_names: Vec<String>,
    /// The main bearer key.
    pub key: Sensitive<String>,
    /// Web origins that may use it.
    pub allowed_origins: Vec<String>,
    /// Other names by which it may be called.
    pub allowed_hosts: Vec<String>,
}

impl PortSettings {
    /// Where a program on this machine reaches a port that listens at `address`.
    #[must_use]
    pub fn from_here(address: SocketAddr) -> SocketAddr {
        let ip: IpAddr = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, address.port())
    }
}

part! {
/// Which device to pair with.
#[derive(PartialEq, Eq)]
#[serde(tag = "kind", content = "at")]
enum PairTarget {
    /// A device in the list, by the id shown there.
    Seen(String),
    /// A typed address, `host:port` or `host` of a device that shows a code.
    Address(String),
}
}

part! {
/// Whether this device lends layers.
#[derive(Copy, PartialEq, Eq, Default)]
enum Sharing {
    /// Offer layers to devices that the gate lets in.
    On,
    /// Offer nothing.
    #[default]
    Off,
}
}

part! {
/// For how long the owner wants nothing to be lent.
#[derive(Copy, PartialEq, Eq)]
enum PauseFor {
    /// One hour from now.
    Hour,
    /// Until six o'clock of the next morning.
    UntilTomorrow,
}
}

part! {
/// Where a reply may be computed.
#[derive(Copy, PartialEq, Eq)]
enum Reach {
    /// On this device and those that the gate lets in.
    House,
    /// On this device only.
    ThisDevice,
}
}

part! {
/// Where a message goes in the tree of a conversation, and how it is answered.
struct Turn {
    /// The conversation; absent starts one.
    pub conversation: Option<i64>,
    /// What a conversation that starts with this turn is to be like.
    pub start: ChatStart,
    /// What is said, and after what.
    pub text: TurnText,
    /// Name of the model.
    pub model: String,
    /// Where it may be computed. A conversation that is kept to this device stays on it whatever
    /// stands here.
    pub reach: Reach,
}
}

part! {
/// What a new conversation is to be like.
#[derive(Default)]
struct ChatStart {
    /// It is never written to the disk and gone when the program ends.
    pub temporary: bool,
    /// What the model is told before the first message; may be empty.
    #[serde(with = "crate::plain")]
    #[cfg_attr(feature = "bindings", ts(type = "string"))]
    pub instructions: Sensitive<String>,
    /// How its replies are made, where that is not as the settings say.
    #[serde(default)]
    pub choices: ReplyChoices,
}
}

part! {
/// What a turn says.
#[serde(tag = "kind", content = "message")]
enum TurnText {
    /// A new message of the person.
    New {
        /// What they say.
        #[serde(with = "crate::plain")]
        #[cfg_attr(feature = "bindings", ts(type = "string"))]
        text: Sensitive<String>,
        /// The message that it follows; absent makes it a beginning, beside others where there are.
        parent: Option<i64>,
    },
    /// Another answer to this message of the person.
    Again(i64),
    /// The rest of this reply, which was cut.
    More(i64),
}
}

/// A turn that is under way.
#[derive(Debug)]
pub struct StartedTurn {
    /// The conversation.
    pub conversation: i64,
    /// The person's message that is answered.
    pub user_message: i64,
    /// The message that the reply fills; it is saved while it grows.
    pub reply_message: i64,
    /// The reply; it may wait for its turn first.
    pub reply: KeptReply,
}

part! {
/// A turn that is under way, without its reply: that comes as events.
#[derive(Copy, PartialEq, Eq)]
struct TurnView {
    /// The conversation.
    pub conversation: i64,
    /// The person's message that is answered.
    pub user_message: i64,
    /// The message that the reply fills; also what stops it.
    pub reply_message: i64,
}
}

impl From<&StartedTurn> for TurnView {
    fn from(turn: &StartedTurn) -> Self {
        Self {
            conversation: turn.conversation,
            user_message: turn.user_message,
            reply_message: turn.reply_message,
        }
    }
}

/// A reply that is kept while it is made. Dropping it stops the reply, also one that waits for its turn or
/// whose model is being opened.
#[derive(Debug)]
pub struct KeptReply {
    /// Events in order, closed after `done` or `pipeline_aborted`.
    pub events: mpsc::Receiver<ReplyPiece>,
}
