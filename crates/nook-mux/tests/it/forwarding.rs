//! What is passed on between a peer and a worker is not copied on its way.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use nook_base::tasks::Tasks;
use nook_mux::{Call, Incoming, Mux, Side, framed};
use nook_wire::{Chunk, Message, WireMessage, WorkerMessage};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::pair::{PATIENT, config, open};

/// Room in memory for whole frames: a socket that takes all it is given.
const PIPE_BYTES: usize = 4 << 20;

/// Bytes of each payload here.
const CHUNK_BYTES: usize = 256 << 10;

/// A socket that remembers which memory it was told to write from.
struct Watched {
    io: DuplexStream,
    written: Written,
}

/// Start and length of each slice.
type Written = Arc<Mutex<Vec<(usize, usize)>>>;

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let seen = slices.iter().map(|slice| (slice.as_ptr() as usize, slice.len()));
        self.written.lock().unwrap().extend(seen);
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A call over a connection of its own, whose opening was taken, and the memory that its caller
/// writes from.
async fn call<M: WireMessage>(tasks: &Tasks) -> (Call<M>, Call<M>, Written) {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let written = Written::default();
    let near = framed(Watched { io: near, written: Arc::clone(&written) });
    let (dialer, _) = Mux::<M>::start(near, config(Side::Dialer, PATIENT), tasks);
    let (_, mut incoming) = Mux::<M>::start(framed(far), config(Side::Acceptor, PATIENT), tasks);
    let mut caller = dialer.open_call().await.unwrap();
    caller.send(M::from_peer(open())).await.unwrap();
    let Some(Incoming::Call(mut callee)) = incoming.recv().await else { panic!("no call") };
    callee.recv().await.unwrap();
    // A connection lives as long as its tasks and does without its handles.
    (caller, callee, written)
}

/// Sends three chunks on the first connection, passes each on to the second as a worker proxy does,
/// and takes it there.
async fn check<From: WireMessage, To: WireMessage>() {
    let tasks = Tasks::new();
    let (mut from, mut proxy_in, _) = call::<From>(&tasks).await;
    let (mut proxy_out, mut to, written) = call::<To>(&tasks).await;
    for number in 0..3 {
        let bytes = vec![number as u8; CHUNK_BYTES].into();
        let sent = Chunk { offset: number * CHUNK_BYTES as u64, bytes, last: number == 2 };
        from.send(From::from_peer(Message::Chunk(sent.clone()))).await.unwrap();

        let came = proxy_in.recv().await.unwrap().into_peer().unwrap();
        let Message::Chunk(chunk) = &came else { panic!("{came:?}") };
        let place = (chunk.bytes.as_ptr() as usize, CHUNK_BYTES);
        proxy_out.send(To::from_peer(came)).await.unwrap();

        let arrived = to.recv().await.unwrap().into_peer().unwrap();
        assert_eq!(arrived, Message::Chunk(sent));
        assert!(written.lock().unwrap().contains(&place), "chunk {number} was copied");
    }
}

#[tokio::test]
async fn a_chunk_goes_from_a_peer_to_the_worker_without_a_copy() {
    check::<Message, WorkerMessage>().await;
}

#[tokio::test]
async fn a_chunk_goes_from_the_worker_to_a_peer_without_a_copy() {
    check::<WorkerMessage, Message>().await;
}
