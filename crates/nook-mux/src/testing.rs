//! Real calls without a network, for tests of crates that speak over them.

use std::any::Any;

use nook_base::tasks::Tasks;
use nook_wire::{Message, WireMessage};

use crate::{Call, Incoming, Mux, MuxConfig, PingPolicy, Side, framed};

/// Bytes that lie between the two ends.
const PIPE_BYTES: usize = 1 << 16;

/// The two ends of one call, and what keeps their connection open.
///
/// # Panics
///
/// When the connection in memory does not come up, which fails the test that asked for it.
pub async fn call<M: WireMessage>(tasks: &Tasks) -> (Call<M>, Call<M>, Box<dyn Any>) {
    let (here, there) = tokio::io::duplex(PIPE_BYTES);
    let config = |side| MuxConfig { side, ping: PingPolicy::WORKER, calls_max: 4 };
    let (dialer, control) = Mux::<M>::start(framed(here), config(Side::Dialer), tasks);
    let (acceptor, mut incoming) = Mux::<M>::start(framed(there), config(Side::Acceptor), tasks);
    let mut near = dialer.open_call().await.expect("a new connection");
    near.send(M::from_peer(Message::Truncate { position: 0 })).await.expect("a new call");
    let Some(Incoming::Call(mut far)) = incoming.recv().await else { panic!("no call came") };
    far.recv().await.expect("what opened it");
    (near, far, Box::new((dialer, control, acceptor, incoming)))
}
