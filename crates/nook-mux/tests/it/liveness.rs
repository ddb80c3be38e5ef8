//! Pings, silence and distance. The clock of these tests is paused: waiting takes no time.

use std::time::Duration;

use futures_util::StreamExt;
use nook_base::tasks::Tasks;
use nook_mux::{CloseReason, Mux, PingPolicy, Side, framed, metered};
use nook_wire::{CallId, FrameParts, Kind, Message, encode};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::pair::{Hand, PATIENT, PIPE_BYTES, by_hand_with, chunk, config, open, pair_with, spawn};

#[tokio::test(start_paused = true)]
async fn silence_closes_fast_while_a_call_is_open_and_slowly_otherwise() {
    for (call_open, at_least, at_most) in [(true, 900, 1500), (false, 59_000, 76_000)] {
        let (end, mut hand) = by_hand_with(PingPolicy::LINK);
        let started = Instant::now();
        let call = end.mux.open_call().await.unwrap();
        let call = call_open.then_some(call);
        let reads = spawn(async move { while hand.read().await.is_some() {} });
        let reason = end.mux.closed().await;
        assert_eq!(reason, CloseReason::PingsMissed { misses: 4 });
        let took = started.elapsed().as_millis();
        assert!((at_least..=at_most).contains(&took), "{took} ms");
        drop(call);
        reads.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_opens_after_a_long_quiet_is_watched_at_once() {
    let (end, mut hand) = by_hand_with(PingPolicy::LINK);
    // The hand answers until the call opens, then it is silent.
    for _ in 0..3 {
        if let Some(bytes) = hand.pipe.next().await {
            let ping = nook_wire::decode::<Message>(bytes.unwrap()).unwrap().message;
            if let Message::Ping { nonce } = ping {
                hand.write(0, &Message::Pong { nonce }).await;
            }
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let opened = Instant::now();
    let call = end.mux.open_call().await.unwrap();
    let reads = spawn(async move { while hand.read().await.is_some() {} });
    end.mux.closed().await;
    let took = opened.elapsed().as_millis();
    assert!(took <= 1500, "{took} ms");
    drop(call);
    reads.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_ends_with_nothing_to_say_stay_connected() {
    let (dialer, acceptor) = pair_with(PingPolicy::LINK);
    let call = dialer.mux.open_call().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!dialer.mux.is_closed() && !acceptor.mux.is_closed());
    assert!(dialer.mux.rtt().is_some() && acceptor.mux.rtt().is_some());
    drop(call);
}

#[tokio::test(start_paused = true)]
async fn whoever_sends_is_alive_even_without_answering() {
    let (mut end, hand) = by_hand_with(PingPolicy::LINK);
    let (mut reading, mut writing) = split(hand);
    let drained = spawn(async move { while reading.next().await.is_some() {} });
    writing.send(1, &open()).await;
    let _call = end.accept().await;
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(450)).await;
        writing.send(1, &Message::Truncate { position: 1 }).await;
        let Ok(_) = tokio::time::timeout(Duration::ZERO, end.mux.closed()).await else {
            continue;
        };
        panic!("it was alive");
    }
    drop((writing, drained));
}

#[tokio::test(start_paused = true)]
async fn half_a_frame_on_a_slow_link_is_a_sign_of_life() {
    let (mut far, near) = tokio::io::duplex(PIPE_BYTES);
    let (near, meter) = metered(near);
    let tasks = Tasks::new();
    let config = config(Side::Acceptor, PingPolicy::LINK);
    let (mux, _incoming) = Mux::<Message>::start_metered(framed(near), config, &tasks, meter);
    let call = mux.open_call().await.unwrap();
    let frame = encode(CallId(1), 0, &chunk(0));
    // One byte each 400 ms: the frame takes ten seconds.
    for byte in &frame[..frame.len() - 1] {
        tokio::time::sleep(Duration::from_millis(400)).await;
        far.write_all(&[*byte]).await.unwrap();
        assert!(!mux.is_closed());
    }
    // And silence after it is silence.
    let reason = mux.closed().await;
    assert_eq!(reason, CloseReason::PingsMissed { misses: 4 });
    drop(call);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_but_never_reads_what_we_write_is_given_up() {
    let (end, mut hand) = by_hand_with(PingPolicy::LINK);
    let mut call = end.mux.open_call().await.unwrap();
    let send = spawn(async move {
        let big = crate::pair::rows(512, 1);
        let sent = call.send_tensor(crate::pair::step(512, true), big).await;
        (sent, call)
    });
    // It talks all the time, but the pipe towards it stays full.
    let reason = loop {
        hand.write(0, &Message::Ping { nonce: 1 }).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        if let Ok(reason) = tokio::time::timeout(Duration::ZERO, end.mux.closed()).await {
            break reason;
        }
    };
    assert_eq!(reason, CloseReason::WriteStalled { seconds: 10 });
    // Its queue held the whole tensor, so the sender itself was never stuck.
    let (_, mut call) = send.await.unwrap();
    assert!(call.recv().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stalled_write_on_a_metered_link_is_noticed_after_one_limit() {
    let (far, near) = tokio::io::duplex(PIPE_BYTES);
    let (near, meter) = metered(near);
    let tasks = Tasks::new();
    let config = config(Side::Acceptor, PATIENT);
    let (mux, _incoming) = Mux::<Message>::start_metered(framed(near), config, &tasks, meter);
    let mut call = mux.open_call().await.unwrap();
    let started = Instant::now();
    // What fills the pipe is written before the stall begins, and is no progress within it.
    let big = crate::pair::rows(512, 1);
    call.send_tensor(crate::pair::step(512, true), big).await.unwrap();
    let reason = mux.closed().await;
    assert_eq!(reason, CloseReason::WriteStalled { seconds: 10 });
    // The clock stands still but for the timers.
    assert_eq!(started.elapsed().as_secs(), 10);
    drop(far);
}

#[tokio::test]
async fn the_distance_is_known_soon_after_the_start() {
    let (dialer, acceptor) = pair_with(PATIENT);
    while dialer.mux.rtt().is_none() || acceptor.mux.rtt().is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn pings_are_answered_while_bulk_waits() {
    let (end, mut hand) = by_hand_with(PATIENT);
    let mut call = end.mux.open_call().await.unwrap();
    let (head, bulk) = (crate::pair::step(384, true), crate::pair::rows(384, 1));
    call.send_tensor(head, bulk).await.unwrap();
    hand.write(0, &Message::Ping { nonce: 7 }).await;
    let mut chunks = 0;
    loop {
        match hand.read().await.unwrap().message {
            Message::Pong { nonce: 7 } => break,
            Message::Chunk(_) => chunks += 1,
            _ => {}
        }
    }
    assert!(chunks <= 2, "{chunks} chunks went first");
}

/// A hand that writes while another task reads.
struct Writing {
    pipe:
        futures_util::stream::SplitSink<nook_mux::FramedBytes<tokio::io::DuplexStream>, FrameParts>,
    seq: u32,
}

fn split(
    hand: Hand,
) -> (futures_util::stream::SplitStream<nook_mux::FramedBytes<tokio::io::DuplexStream>>, Writing) {
    let (sink, stream) = hand.pipe.split();
    (stream, Writing { pipe: sink, seq: 0 })
}

impl Writing {
    async fn send(&mut self, call: u32, message: &Message) {
        use futures_util::SinkExt;
        let frame = encode(CallId(call), self.seq, message);
        self.seq += 1;
        self.pipe.send(frame.into()).await.expect("the end is there");
    }
}

#[test]
fn kinds_of_liveness_belong_to_the_connection() {
    for kind in [Kind::Ping, Kind::Pong] {
        assert!(kind.fits(CallId::CONNECTION) && !kind.fits(CallId(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_trip_is_over_when_what_was_sent_before_it_is_there() {
    let (end, mut hand) = by_hand_with(PATIENT);
    let word = Message::Draining { sentence: String::new() };
    end.mux.send(word.clone()).await.unwrap();
    let mux = end.mux.clone();
    let asked = spawn(async move { mux.round_trip().await });
    let mut said = Vec::new();
    let mut questions = Vec::new();
    // The first answer is lost, as where two questions came before one could be written.
    while questions.len() < 2 {
        let bytes = hand.pipe.next().await.expect("the connection lives").unwrap();
        match nook_wire::decode::<Message>(bytes).unwrap().message {
            // Those that find the distance are numbered from 1, and go ahead of everything.
            Message::Ping { nonce } if nonce < 1 << 63 => {}
            Message::Ping { nonce } => questions.push(nonce),
            message => said.push(message),
        }
        assert!(!asked.is_finished());
    }
    assert_eq!((said, questions[0]), (vec![word], questions[1]));
    hand.write(0, &Message::Pong { nonce: questions[0] }).await;
    assert!(asked.await.unwrap().is_ok());
    // Nobody answers any more.
    let mux = end.mux.clone();
    let asked = spawn(async move { mux.round_trip().await });
    drop(hand);
    assert!(asked.await.unwrap().is_err());
}
