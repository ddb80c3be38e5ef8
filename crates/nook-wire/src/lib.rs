//! Bytes to messages and back. No I/O, no clock, no runtime.
//!
//! A *frame* is a 16-byte [`Header`] and a body. [`encode`] makes one from a message, [`decode`]
//! reads one and refuses everything that is not exactly right before it allocates for it. [`Kind`]
//! is the table of all frames.
//!
//! Two vocabularies share one codec through [`WireMessage`]. [`Message`] is all that may cross
//! between two devices and has no field for token ids, text or logits (invariant I-2; the one
//! exchange in which ids cross, as bytes of chunks and to a device of the same person, is
//! [`offload`]). [`WorkerMessage`] adds what a node says to its own worker process. A connection is
//! generic over one of them, so a frame of the wrong vocabulary is refused where bytes become a
//! message.
//!
//! Beside the codec stand the small state machines that both ends of a call need: [`SeqCheck`] and
//! [`SeqCounter`] (a hole is an error), [`SendWindow`] and [`ReceiveWindow`] (credit),
//! [`chunks_of`], [`TensorAssembly`] and [`LogitsAssembly`] (tensors in pieces).

mod body;
mod bounded;
pub mod chunk;
pub mod copying;
pub mod credit;
pub mod error;
pub mod facts;
pub mod forward;
pub mod frame;
pub mod gpus;
pub mod greeting;
pub mod header;
pub mod help;
pub mod kind;
pub mod kv_migration;
pub mod local;
pub mod message;
pub mod offload;
pub mod placing;
pub mod releases;
pub mod seq;
pub mod session;
pub mod tensor;
pub mod trial;
pub mod version;

pub use chunk::Chunk;
pub use copying::{
    Document, HAVE_MODELS_MAX, HAVE_NAME_BYTES_MAX, Have, HaveModel, PIECE_BYTES_MAX, Piece,
    PieceAssembly, PieceError, Want,
};
pub use credit::{CreditError, CreditWindow, ReceiveWindow, SendWindow};
pub use error::{DecodeError, WIRE_VERSION};
pub use facts::{DeviceFacts, FACTS_SINCE, HARDWARE_BYTES_MAX, PowerNow};
pub use forward::Passed;
pub use frame::{EncodedFrame, Frame, FrameParts, decode, encode, encode_unsent};
pub use gpus::{GPUS_MAX, GpuHolding, GpuKind, GpuReport};
pub use greeting::{Advert, Hello, ShardAdvert};
pub use header::{HEADER_BYTES, Header};
pub use help::{HelpTerms, SharingNow, WAKE_ADDRESSES_MAX};
pub use kind::{CallId, Kind};
pub use kv_migration::{KV_PIECE_BYTES_MAX, KeptHistory, KvPieceAssembly, KvPieceHead};
pub use local::{LocalMessage, PassCounts, WorkerMessage};
pub use message::{Message, WireError, WireMessage};
/// Parts of messages that other crates know without the wire.
pub use nook_base::{LogitRows, PrefixHash, Ticket, TicketClaim};
pub use offload::{
    IdsAssembly, OffloadFinish, OffloadIds, OffloadKept, OffloadOffer, OffloadOffers,
    OffloadRequest, OffloadSampling, OffloadTokens, ids_for_own_device,
};
pub use placing::{PlaceState, Placed, PlacementRequest};
pub use releases::{RELEASE_PACKAGES_MAX, ReleaseDocument, Releases, WantRelease};
pub use seq::{SeqCheck, SeqCounter, SeqError};
pub use session::{Open, ResultHead, ResumePoint, StepHead};
pub use tensor::{LogitsAssembly, TensorAssembly, TensorError, chunks_of};
pub use trial::{Move, TRIAL_BACK_MAX, TRIAL_PADDING_MAX, Trial, WayFigures};
pub use version::{
    NoVersions, Outdated, PROTOCOL_VERSION, PROTOCOL_VERSION_OLDEST, ProtocolRange, VersionMismatch,
};
