//! A connection goes on over other streams under its open calls.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use nook_base::ActivationDtype;
use nook_base::tasks::Tasks;
use nook_mux::{
    ByteMeter, Call, CloseReason, FramedBytes, Mover, Mux, NotMoved, Side, Violation, framed,
    metered,
};
use nook_wire::{Message, Move, encode};
use tokio::io::DuplexStream;

use crate::pair::{
    CALLS_MAX, End, Hand, PATIENT, PIPE_BYTES, call, config, open, rows, spawn, step,
};

type Stream = FramedBytes<DuplexStream>;

struct Movable {
    end: End,
    mover: Mover<Stream>,
}

fn movable(side: Side, io: DuplexStream) -> Movable {
    let tasks = Tasks::new();
    let (mux, incoming, mover) =
        Mux::start_movable(framed(io), config(side, PATIENT), &tasks, ByteMeter::default());
    Movable { end: End { mux, incoming, tasks }, mover }
}

fn movable_pair() -> (Movable, Movable) {
    let (dialer, acceptor) = tokio::io::duplex(PIPE_BYTES);
    (movable(Side::Dialer, dialer), movable(Side::Acceptor, acceptor))
}

/// The last message of a stream that is left.
fn leaving(nonce: u64) -> Message {
    Message::Move(Move { nonce, found: None })
}

/// The rows behind a head.
async fn tensor(call: &mut Call<Message>) -> Bytes {
    call.recv_activation(100, 1024, ActivationDtype::F32).await.expect("whole").bytes().clone()
}

/// Both go on over a new pipe.
async fn go_on(lead: &Mover<Stream>, follow: &Mover<Stream>, nonce: u64) -> Result<(), NotMoved> {
    let (one, other) = tokio::io::duplex(PIPE_BYTES);
    follow.expect(nonce);
    let meter = ByteMeter::default();
    let leads = lead.lead(framed(one), &meter, nonce);
    let follows = follow.follow(framed(other), &meter, nonce);
    let (led, followed) = tokio::join!(leads, follows);
    led.and(followed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_run_through_many_moves_and_nothing_is_lost_doubled_or_overtaken() {
    let (one, mut other) = movable_pair();
    let mut calls = Vec::new();
    for fill in 0..u8::try_from(CALLS_MAX / 4).expect("few") {
        let (mut caller, mut callee) = call(&one.end, &mut other.end).await;
        // Steps of several chunks there, and each back as it came.
        calls.push(spawn(async move {
            for round in 0..30_u8 {
                let sent = rows(100, fill.wrapping_mul(31).wrapping_add(round));
                let head = step(100, round % 2 == 0);
                caller.send_tensor(head.clone(), sent.clone()).await.expect("it goes out");
                assert_eq!(caller.recv().await, Ok(head));
                assert_eq!(tensor(&mut caller).await, sent);
            }
        }));
        calls.push(spawn(async move {
            for _ in 0..30 {
                let head = callee.recv().await.expect("a head");
                let bytes = tensor(&mut callee).await;
                callee.send_tensor(head, bytes).await.expect("it goes back");
            }
        }));
    }
    let mut moves = 0;
    while calls.iter().any(|call| !call.is_finished()) {
        moves += 1;
        let (lead, follow) =
            if moves % 3 == 0 { (&other.mover, &one.mover) } else { (&one.mover, &other.mover) };
        go_on(lead, follow, moves).await.expect("both are there");
    }
    for call in calls {
        call.await.expect("nothing was lost, doubled or overtaken");
    }
    assert!(moves > 1, "{moves}");
    assert!(!one.end.mux.is_closed() && !other.end.mux.is_closed());
}

#[tokio::test]
async fn what_was_left_is_closed_and_the_way_is_measured_anew() {
    let tasks = Tasks::new();
    let (dialer, acceptor) = tokio::io::duplex(PIPE_BYTES);
    let (first, meter) = metered(dialer);
    let (mux, _incoming, lead) = Mux::<Message>::start_movable(
        framed(first),
        config(Side::Dialer, PATIENT),
        &tasks,
        meter.clone(),
    );
    let (_, _others, follow) = Mux::<Message>::start_movable(
        framed(acceptor),
        config(Side::Acceptor, PATIENT),
        &tasks,
        ByteMeter::default(),
    );
    while mux.rtt().is_none() {
        tokio::task::yield_now().await;
    }
    let (next, other) = tokio::io::duplex(PIPE_BYTES);
    let (next, counted) = metered(next);
    let uncounted = ByteMeter::default();
    let moved = tokio::join!(
        lead.lead(framed(next), &counted, 7),
        follow.follow(framed(other), &uncounted, 7)
    );
    assert_eq!(moved, (Ok(()), Ok(())));
    let before = meter.written();
    assert_eq!(mux.round_trip().await, Ok(()));
    assert!(meter.written() > before && counted.written() > 0, "it counts for the connection");
    while mux.rtt().is_none() {
        assert_eq!(mux.round_trip().await, Ok(()));
    }
}

/// The other end of a stream that a mux goes on with.
struct Scene {
    one: Movable,
    hand: Hand,
}

fn scene() -> Scene {
    let (hand, end) = tokio::io::duplex(PIPE_BYTES);
    Scene { one: movable(Side::Acceptor, end), hand: Hand::new(hand) }
}

#[tokio::test]
async fn t4_a_move_that_nobody_offered_ends_the_connection() {
    for offered in [None, Some(6)] {
        let Scene { one, mut hand } = scene();
        let _standby = offered.map(|nonce| {
            one.mover.expect(nonce);
            let (stream, other) = tokio::io::duplex(PIPE_BYTES);
            let mover = one.mover.clone();
            spawn(async move {
                let moved = mover.follow(framed(stream), &ByteMeter::default(), nonce).await;
                drop(other);
                moved
            })
        });
        hand.write(0, &leaving(5)).await;
        let violation = Violation::UnknownMove;
        assert_eq!(one.end.mux.closed().await, CloseReason::Violation { violation });
    }
    let Scene { one, mut hand } = scene();
    hand.write(0, &leaving(0)).await;
    let violation = Violation::UnknownMove;
    assert_eq!(one.end.mux.closed().await, CloseReason::Violation { violation });
}

#[tokio::test]
async fn a_move_that_comes_before_its_stream_waits_for_it() {
    let Scene { mut one, mut hand } = scene();
    one.mover.expect(5);
    hand.write(0, &leaving(5)).await;
    let (stream, other) = tokio::io::duplex(PIPE_BYTES);
    let mut other = framed(other);
    // The next frames of the other side are there before it is known.
    let first = encode(nook_wire::CallId(1), 0, &open());
    futures_util::SinkExt::send(&mut other, first.into()).await.expect("there is room");
    let mover = one.mover.clone();
    let moved = spawn(async move { mover.follow(framed(stream), &ByteMeter::default(), 5).await });
    assert_eq!(one.end.accept().await.recv().await, Ok(open()));
    let last = loop {
        let frame = hand.read().await.expect("its MOVE is the last here");
        if frame.message == leaving(5) {
            break hand.read().await;
        }
    };
    assert_eq!(last, None, "the stream that was left is closed");
    assert_eq!(moved.await.expect("it ran"), Ok(()));
    assert!(other.next().await.is_some(), "it says more there");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_gone_on_with_is_given_back_and_the_connection_stays() {
    let Scene { one, mut hand } = scene();
    one.mover.expect(5);
    let (stream, other) = tokio::io::duplex(PIPE_BYTES);
    let meter = ByteMeter::default();
    let waits = one.mover.follow(framed(stream), &meter, 5);
    let asks = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // One at a time.
        let (second, _) = tokio::io::duplex(PIPE_BYTES);
        one.mover.follow(framed(second), &meter, 6).await
    };
    assert_eq!(tokio::join!(waits, asks), (Err(NotMoved), Err(NotMoved)));
    let mut other: Stream = framed(other);
    assert!(other.next().await.is_none());
    hand.write(0, &Message::Ping { nonce: 9 }).await;
    assert_eq!(hand.read().await.expect("it lives").message, Message::Pong { nonce: 9 });
    // Too late: where the other side goes on nobody is.
    hand.write(0, &leaving(5)).await;
    let violation = Violation::UnknownMove;
    assert_eq!(one.end.mux.closed().await, CloseReason::Violation { violation });
}

#[tokio::test]
async fn a_next_stream_that_breaks_ends_the_connection() {
    let (one, other) = movable_pair();
    let (stream, far) = tokio::io::duplex(PIPE_BYTES);
    let (near, gone) = tokio::io::duplex(PIPE_BYTES);
    drop((far, gone));
    other.mover.expect(5);
    let meter = ByteMeter::default();
    let _ = tokio::join!(
        one.mover.lead(framed(stream), &meter, 5),
        other.mover.follow(framed(near), &meter, 5)
    );
    let _: (CloseReason, CloseReason) = tokio::join!(one.end.mux.closed(), other.end.mux.closed());
}
