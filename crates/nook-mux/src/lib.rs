//! Calls multiplexed over one framed byte stream.
//!
//! ```text
//! Call::send ─► per-call queue ─┐                      ┌─► per-call inbox ─► Call::recv
//! Mux::send  ─► control queue ──┼─► connection task ◄──┤
//!               pings, credit ──┘   (owns the stream)  └─► Incoming (new calls, control)
//! ```
//!
//! One task per connection owns the stream and polls reading and writing side by side: neither
//! waits for the other, and neither waits for a consumer. What bounds the memory between the ends
//! is credit: a sender of chunks may be [`nook_base::limits::CREDIT_WINDOW`] chunks ahead of the
//! consumer that takes them, so a slow consumer slows its own call and no other, and a call holds
//! at most that many chunks here. Frames of one call stay in order; between calls, decode goes
//! ahead of prefill.
//!
//! Generic over the vocabulary: `Mux<nook_wire::Message>` between devices,
//! `Mux<nook_wire::WorkerMessage>` between a node and its worker. The stream is anything that
//! carries one frame per item: a WebSocket, or [`framed()`] over a socket or pipe.

mod call;
mod config;
mod connection;
mod framed;
mod liveness;
mod meter;
mod moving;
mod mux;
mod reason;
mod shared;
mod state;
mod tensor;
#[cfg(feature = "testing")]
pub mod testing;

pub use call::{Call, CallReceiver, CallSender};
pub use config::{MuxConfig, PingPolicy, Side};
pub use framed::{FramedBytes, framed};
pub use meter::{ByteMeter, Metered, metered};
pub use moving::{Mover, NotMoved};
pub use mux::{Incoming, Mux};
pub use reason::{CallError, CloseReason, MuxClosed, TensorRecvError, TrySendError, Violation};
pub use tensor::{Assembly, TensorReader};
