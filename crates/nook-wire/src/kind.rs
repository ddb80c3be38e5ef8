//! What frames there are: one table with the number of each kind and where it may stand.
//!
//! The numbers below [`LOCAL_FIRST`] are spoken between devices, the others between a node and its
//! own worker. `tests/it/golden.rs` holds one frame of each kind byte by byte.

use std::fmt;

use nook_base::limits::{CHUNK_BYTES_MAX, FRAME_BODY_BYTES_MAX};

/// Longest body of a frame that is no chunk, in bytes. A longer one is refused from its header.
pub const CONTROL_BODY_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a chunk's head: one 64-bit varint.
pub const CHUNK_HEAD_BYTES_MAX: usize = 10;

/// Header flag: the chunk is the last of its tensor. The flag 1 (zstd) is reserved and refused.
pub const FLAG_LAST_CHUNK: u16 = 2;

/// The first number of the kinds that never leave this machine.
const LOCAL_FIRST: u8 = 0x40;

/// Which call of a connection a frame belongs to; 0 is the connection itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u32);

/// Where a frame may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On the connection itself.
    Connection,
    /// On a call.
    Call,
    /// On either.
    Either,
}

/// Makes [`Kind`] and all that is said of a kind from one table.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $place:ident;)*) => {
        /// What a body holds. The number is the second byte of the frame.
        ///
        /// Kinds from 0x40 are spoken only between a node and its own worker.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $name = $number,)*
        }

        impl Kind {
            /// Every kind that this version understands, peers' kinds first.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$name),*];

            /// The kind with this number, if this version has one.
            #[must_use]
            pub fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            fn place(self) -> Place {
                match self {
                    $(Self::$name => Place::$place,)*
                }
            }
        }
    };
}

kinds! {
    /// Who speaks, and which protocol.
    Hello = 0x01, Connection;
    /// What a host holds and has room for.
    Advert = 0x02, Connection;
    /// Please hold these layers in memory.
    Place = 0x03, Connection;
    /// What became of that.
    Placed = 0x04, Connection;
    /// Please compute these layers for a session.
    Open = 0x05, Call;
    /// The session is open.
    Opened = 0x06, Call;
    /// The head of a step; its activation follows in chunks.
    Step = 0x07, Call;
    /// A piece of a tensor.
    Chunk = 0x08, Call;
    /// The head of a step's result; its activation follows in chunks.
    Result = 0x09, Call;
    /// Forget the positions from here on.
    Truncate = 0x0a, Call;
    /// More chunks may be sent.
    Credit = 0x0b, Call;
    /// The call, or on call 0 the connection, ends.
    Close = 0x0c, Either;
    /// Something was refused.
    Error = 0x0d, Either;
    /// The device is leaving.
    Draining = 0x0e, Either;
    /// Are you there?
    Ping = 0x12, Connection;
    /// I am.
    Pong = 0x13, Connection;
    /// Please send the KV cache of this call.
    RequestKvCache = 0x30, Call;
    /// The head of a piece of it; its bytes follow in chunks.
    KvCachePiece = 0x31, Call;
    /// All pieces were taken.
    KvCacheTaken = 0x32, Call;
    /// What the owner of the sender allows between the two devices.
    HelpTerms = 0x34, Connection;
    /// Nobody will go on with what is kept of a conversation.
    DropKept = 0x33, Connection;
    /// Before HELLO: a message of a size, whose answer is measured.
    Trial = 0x14, Connection;
    /// The link goes on over another connection.
    Move = 0x15, Connection;
    /// Hand the results of this call to another host.
    Forward = 0x18, Call;
    /// The steps of a requester's call come here.
    Relay = 0x19, Call;
    /// The way from host to host stands, or does not.
    Onward = 0x1a, Call;
    /// A result has gone on to the next host.
    Passed = 0x1b, Call;
    /// What people know the sender by, and how it is.
    DeviceFacts = 0x35, Connection;
    /// To a device of the same person: models that it would run whole.
    OffloadOffers = 0x38, Connection;
    /// To a device of the same person: please run this whole request.
    OffloadRequest = 0x39, Call;
    /// The head of tokens of its reply; they follow in chunks.
    OffloadTokens = 0x3a, Call;
    /// The reply is whole.
    OffloadEnd = 0x3b, Call;
    /// Models that the sender gives.
    Have = 0x10, Connection;
    /// Please send these bytes of a model's file.
    Want = 0x0f, Call;
    /// The head of some of those bytes; they follow in chunks.
    Piece = 0x11, Call;
    /// A signed list of versions that the sender has, and packages of it.
    Releases = 0x16, Connection;
    /// Please send these bytes of the list or of a package.
    WantRelease = 0x17, Call;
    /// Local: proof that the other end is our own worker.
    Auth = 0x40, Either;
    /// Local: limits that the worker keeps.
    Configure = 0x41, Either;
    /// Local: load a part of a model.
    Load = 0x42, Either;
    /// Local: the part is in memory.
    Loaded = 0x43, Either;
    /// Local: open a session that may include the model's ends.
    OpenLocal = 0x44, Either;
    /// Local: a step that starts from token ids.
    Tokens = 0x45, Either;
    /// Local: a step that starts from an activation and ends in logits.
    StepLogits = 0x46, Either;
    /// Local: the head of logits; they follow in chunks of f32.
    Logits = 0x47, Either;
    /// Local: free the weights.
    Unload = 0x48, Either;
    /// Local: they are freed.
    Unloaded = 0x49, Either;
    /// Local: how are you?
    Status = 0x4a, Either;
    /// Local: the answer.
    StatusReport = 0x4b, Either;
    /// Local: which device the call is served for.
    OnBehalf = 0x4c, Either;
    /// Local: keep nothing of a device's conversations.
    Forget = 0x4d, Either;
    /// Local: free layers that were loaded for other devices.
    Release = 0x58, Either;
    /// Local: drop what is kept of one conversation.
    DropKeptOf = 0x59, Either;
    /// Local: which GPUs are there?
    ListGpus = 0x5a, Either;
    /// Local: the answer.
    Gpus = 0x5b, Either;
}

impl Kind {
    /// Whether it is spoken only between a node and its own worker.
    #[must_use]
    pub fn is_local(self) -> bool {
        self as u8 >= LOCAL_FIRST
    }

    /// Whether a frame of this kind may stand on `call`.
    #[must_use]
    pub fn fits(self, call: CallId) -> bool {
        match self.place() {
            Place::Connection => call == CallId::CONNECTION,
            Place::Call => call != CallId::CONNECTION,
            Place::Either => true,
        }
    }

    /// Longest body of this kind, in bytes.
    #[must_use]
    pub fn body_bytes_max(self) -> usize {
        let max = match self {
            Self::Chunk => CHUNK_BYTES_MAX + CHUNK_HEAD_BYTES_MAX,
            _ => CONTROL_BODY_BYTES_MAX,
        };
        max.min(FRAME_BODY_BYTES_MAX)
    }

    /// Flags that mean something on this kind.
    pub(crate) fn flags_known(self) -> u16 {
        match self {
            Self::Chunk => FLAG_LAST_CHUNK,
            _ => 0,
        }
    }
}

impl CallId {
    /// The connection itself.
    pub const CONNECTION: Self = Self(0);
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}", self.0)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
