//! Measures what it costs to pass chunks on: `cargo run --release -p nook-mux --example
//! forwarding`.
//!
//! Three figures, each for one chunk of 256 KiB and as the median of rounds: decode and encode
//! alone; a chunk over one socket; a chunk over two sockets with a relay between them, as a worker
//! proxy stands between a peer and the worker. It uses only what every version of the crate has, so
//! the same file measures an older commit.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that reports to a person")]

#[cfg(unix)]
fn main() {
    measure::run();
}

#[cfg(not(unix))]
fn main() {
    println!("it measures Unix sockets, which this system has not");
}

#[cfg(unix)]
mod measure {
    use std::hint::black_box;
    use std::time::Duration;

    use bytes::Bytes;
    use nook_base::clock;
    use nook_base::tasks::Tasks;
    use nook_mux::{Call, Incoming, Mux, MuxConfig, PingPolicy, Side, framed};
    use nook_wire::{
        CallId, Chunk, Message, WireMessage, WorkerMessage, decode, encode, encode_unsent,
    };
    use tokio::net::UnixStream;

    const CHUNK_BYTES: usize = 256 << 10;
    const ROUNDS: usize = 31;
    /// Passes of the codec in a round.
    const PASSES: u32 = 1000;
    /// Chunks over a socket in a round: enough for credit to flow many times.
    const CHUNKS: u32 = 400;

    pub(super) fn run() {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
        show("decode and encode", (0..ROUNDS).map(|_| codec()).collect());
        let over = |relays| (0..ROUNDS).map(|_| runtime.block_on(sockets(relays))).collect();
        show("one socket", over(false));
        show("relay over two sockets", over(true));
    }

    /// What one pass took, in µs: half of the rounds took less, a tenth less than the second
    /// figure.
    fn show(name: &str, mut rounds: Vec<f64>) {
        rounds.sort_by(f64::total_cmp);
        let (median, quick) = (rounds[ROUNDS / 2], rounds[ROUNDS / 10]);
        println!("{name:24} median {median:7.1} us, tenth {quick:7.1} us for each 256 KiB");
    }

    fn each(took: Duration, count: u32) -> f64 {
        took.as_secs_f64() * 1e6 / f64::from(count)
    }

    fn chunk(bytes: &Bytes) -> Message {
        Message::Chunk(Chunk { offset: 0, bytes: bytes.clone(), last: false })
    }

    /// A peer's frame becomes a frame for the worker.
    fn codec() -> f64 {
        let frame = encode(CallId(1), 0, &chunk(&vec![7; CHUNK_BYTES].into()));
        let started = clock::now();
        for seq in 0..PASSES {
            let message = decode::<Message>(black_box(frame.clone())).unwrap().message;
            let onward = WorkerMessage::from_peer(message);
            black_box(encode_unsent(CallId(3), &onward).with_seq(seq));
        }
        each(started.elapsed(), PASSES)
    }

    /// Many chunks to a consumer that takes them at once, directly or over a relay.
    async fn sockets(relays: bool) -> f64 {
        let tasks = Tasks::new();
        let (mut peer, mut arrived) = call::<Message>(&tasks).await;
        let bytes = vec![7; CHUNK_BYTES].into();
        let sent = async {
            for _ in 0..CHUNKS {
                peer.send(chunk(&bytes)).await.unwrap();
            }
        };
        let started = clock::now();
        if relays {
            let (mut worker, mut taken) = call::<WorkerMessage>(&tasks).await;
            let passed_on = async {
                for _ in 0..CHUNKS {
                    let message = arrived.recv().await.unwrap();
                    worker.send(WorkerMessage::from_peer(message)).await.unwrap();
                }
            };
            tokio::join!(sent, passed_on, take(&mut taken));
        } else {
            tokio::join!(sent, take(&mut arrived));
        }
        let took = started.elapsed();
        tasks.shut_down(Duration::from_secs(1)).await;
        each(took, CHUNKS)
    }

    async fn take<M: WireMessage>(call: &mut Call<M>) {
        for _ in 0..CHUNKS {
            black_box(call.recv().await.unwrap());
        }
    }

    /// The two ends of a call over a socket of its own.
    async fn call<M: WireMessage>(tasks: &Tasks) -> (Call<M>, Call<M>) {
        let (near, far) = UnixStream::pair().unwrap();
        let config = |side| MuxConfig { side, ping: PingPolicy::WORKER, calls_max: 4 };
        let (dialer, _) = Mux::<M>::start(framed(near), config(Side::Dialer), tasks);
        let (_, mut incoming) = Mux::<M>::start(framed(far), config(Side::Acceptor), tasks);
        let mut caller = dialer.open_call().await.unwrap();
        caller.send(M::from_peer(Message::Truncate { position: 0 })).await.unwrap();
        let Some(Incoming::Call(mut callee)) = incoming.recv().await else { panic!("no call") };
        callee.recv().await.unwrap();
        (caller, callee)
    }
}
