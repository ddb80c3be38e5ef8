//! Credit, priorities, and who waits for whom.

use std::any::Any;

use nook_base::limits::{CHUNK_BYTES, CREDIT_WINDOW};
use nook_base::{ActivationDtype, ErrorCode};
use nook_mux::{CallError, TrySendError};
use nook_wire::{CallId, Kind, Message, PIECE_BYTES_MAX, Piece, WireMessage};

use crate::pair::{by_hand, call, chunk, open, pair, relay, rows, spawn, step};

#[tokio::test]
async fn t5_a_stalled_reader_slows_only_its_own_call() {
    let (dialer, mut acceptor) = pair();
    let (mut stalled, _never_read) = call(&dialer, &mut acceptor).await;
    let (mut lively, mut reader) = call(&dialer, &mut acceptor).await;
    // As far as credit goes, and then further: this sender now waits.
    let stuck = spawn(async move {
        let big = rows(512, 1);
        for _ in 0..10 {
            stalled.send_tensor(step(512, true), big.clone()).await?;
        }
        Ok::<(), CallError>(())
    });
    for _ in 0..20 {
        let talk = async { lively.send_tensor(step(100, false), rows(100, 2)).await };
        let listen = async {
            reader.recv().await.unwrap();
            reader.recv_activation(100, 1024, ActivationDtype::F32).await
        };
        let (sent, got) = tokio::join!(talk, listen);
        sent.unwrap();
        assert_eq!(got.unwrap().bytes(), &rows(100, 2));
    }
    assert!(!stuck.is_finished());
    acceptor.mux.close(None);
    let lost = stuck.await.unwrap().unwrap_err();
    assert!(matches!(lost, CallError::ConnectionLost { .. }));
}

/// Eight MiB each way at once through a pipe of 64 KiB, on one call and on two.
async fn both_ways_at_once() {
    let (dialer, mut acceptor) = pair();
    let (left, right) = call(&dialer, &mut acceptor).await;
    let mut ends = Vec::new();
    for end in [left, right] {
        let (mut sender, mut receiver) = end.split();
        ends.push(spawn(async move {
            // Both send everything before either looks at what came.
            for fill in 0..4 {
                let sent = sender.send_tensor(step(512, fill % 2 == 0), rows(512, fill));
                sent.await.expect("the call lives");
            }
            Box::new(sender) as Box<dyn Any + Send>
        }));
        ends.push(spawn(async move {
            for fill in 0..4 {
                receiver.recv().await.expect("the head comes");
                let got = receiver.recv_activation(512, 1024, ActivationDtype::F32);
                let got = got.await.expect("the tensor comes");
                assert_eq!(got.bytes(), &rows(512, fill));
            }
            Box::new(receiver) as Box<dyn Any + Send>
        }));
    }
    // Each half is kept until all are through: a call lives as long as one of its halves.
    let mut halves = Vec::new();
    for end in ends {
        halves.push(end.await.expect("no half fails"));
    }
}

#[tokio::test]
async fn eight_mib_cross_both_ways_at_once_over_a_64_kib_pipe() {
    both_ways_at_once().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_so_they_do_on_two_threads() {
    both_ways_at_once().await;
}

#[tokio::test]
async fn credit_comes_from_the_consumer_not_from_the_reader_of_frames() {
    let (mut end, mut hand) = by_hand();
    hand.write(1, &open()).await;
    let mut call = end.accept().await;
    call.recv().await.unwrap();
    for offset in 0..u64::from(CREDIT_WINDOW) {
        hand.write(1, &chunk(offset)).await;
    }
    // Everything has arrived once the answer to a later ping is here, and still no credit.
    hand.write(0, &Message::Ping { nonce: 5 }).await;
    let pong = hand.read().await.unwrap().message;
    assert_eq!(pong, Message::Pong { nonce: 5 });
    for _ in 0..CREDIT_WINDOW / 2 {
        call.recv().await.unwrap();
    }
    let credit = hand.read().await.unwrap();
    let half = Message::Credit { chunks: CREDIT_WINDOW / 2 };
    assert_eq!((credit.call, credit.message), (CallId(1), half));
}

#[tokio::test]
async fn full_and_ended_are_two_answers() {
    let (end, mut hand) = by_hand();
    let mut call = end.mux.open_call().await.unwrap();
    call.send(open()).await.unwrap();
    // Nobody reads: the window is spent although the pipe would take more of these tiny chunks.
    let mut sent = 0;
    loop {
        match call.try_send(chunk(sent)) {
            Ok(()) => sent += 1,
            Err(TrySendError::Full(back)) => {
                assert_eq!(back, chunk(sent));
                if sent == u64::from(CREDIT_WINDOW) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            Err(ended) => panic!("{ended:?}"),
        }
    }
    // What is no chunk needs no credit.
    call.send(Message::Truncate { position: 1 }).await.unwrap();
    // Credit wakes the sender.
    let waiting = call.send(chunk(99));
    let grant = async {
        hand.write(2, &Message::Credit { chunks: 1 }).await;
    };
    let (waited, ()) = tokio::join!(waiting, grant);
    waited.unwrap();
    let code = Some(ErrorCode::Draining);
    hand.write(2, &Message::Close { code }).await;
    while !call.is_ended() {
        tokio::task::yield_now().await;
    }
    let ended = TrySendError::Ended(CallError::Closed { code });
    assert_eq!(call.try_send(chunk(0)), Err(ended));
}

#[tokio::test]
async fn a_queue_ends_at_its_limit_and_only_for_its_call() {
    let (end, mut hand) = by_hand();
    let mut bulk = end.mux.open_call().await.unwrap();
    let mut full = end.mux.open_call().await.unwrap();
    let mut other = end.mux.open_call().await.unwrap();
    // A chunk larger than the pipe, and nobody reads: from here on nothing more can be written.
    bulk.send_tensor(step(64, true), rows(64, 1)).await.unwrap();
    tokio::task::yield_now().await;
    let message = Message::Truncate { position: 1 };
    let mut sent = 0;
    while full.try_send(message.clone()).is_ok() {
        sent += 1;
        assert!(sent < 100, "the queue has no end");
    }
    other.send(message.clone()).await.unwrap();
    // Once it is read, the waiting sender goes on.
    let waiting = full.send(message);
    let read = async { while hand.read().await.unwrap().call != CallId(4) {} };
    let (waited, ()) = tokio::join!(waiting, read);
    waited.unwrap();
}

#[tokio::test]
async fn a_send_that_is_dropped_while_it_waits_sends_nothing() {
    let (end, mut hand) = by_hand();
    let mut call = end.mux.open_call().await.unwrap();
    call.send(open()).await.unwrap();
    for offset in 0..u64::from(CREDIT_WINDOW) {
        call.send(chunk(offset)).await.unwrap();
    }
    let waiting = call.send(chunk(1000));
    let dropped = tokio::time::timeout(std::time::Duration::ZERO, waiting).await;
    assert!(dropped.is_err());
    call.close(None);
    let mut chunks = 0;
    while let Some(frame) = hand.read().await {
        match frame.message.kind() {
            Kind::Chunk => chunks += 1,
            Kind::Close => break,
            _ => {}
        }
    }
    assert_eq!(chunks, CREDIT_WINDOW);
}

#[tokio::test]
async fn decode_overtakes_prefill_and_no_call_overtakes_itself() {
    // Steps that one host hands to another stand in the same lanes as those of a requester.
    for opening in [open(), relay()] {
        let (end, mut hand) = by_hand();
        let mut prefill = end.mux.open_call().await.unwrap();
        let mut decode = end.mux.open_call().await.unwrap();
        prefill.send(opening.clone()).await.unwrap();
        decode.send(opening).await.unwrap();
        // Six chunks of prefill stand in line before the decode step is even made.
        let bulk = rows(384, 1);
        assert_eq!(bulk.len(), 6 * CHUNK_BYTES);
        prefill.send_tensor(step(384, true), bulk).await.unwrap();
        prefill.send(Message::Truncate { position: 9 }).await.unwrap();
        decode.send_tensor(step(1, false), rows(1, 2)).await.unwrap();
        let mut seen = Vec::new();
        let mut due = std::collections::HashMap::new();
        while seen.last() != Some(&(2, Kind::Truncate)) {
            let frame = hand.read().await.unwrap();
            let seq: &mut u32 = due.entry(frame.call).or_default();
            assert_eq!(frame.seq, *seq, "frames of one call stay in order");
            *seq += 1;
            seen.push((frame.call.0, frame.message.kind()));
        }
        let decoded = seen.iter().position(|seen| *seen == (4, Kind::Chunk));
        let chunks_before =
            seen[..decoded.unwrap()].iter().filter(|seen| **seen == (2, Kind::Chunk));
        // One chunk may already be on its way into the pipe.
        assert!(chunks_before.count() <= 1, "{seen:?}");
        assert_eq!(seen.iter().filter(|seen| **seen == (2, Kind::Chunk)).count(), 6);
    }
}

#[tokio::test]
async fn decode_and_prefill_overtake_files() {
    let (end, mut hand) = by_hand();
    let mut file = end.mux.open_call().await.unwrap();
    let mut prefill = end.mux.open_call().await.unwrap();
    let mut decode = end.mux.open_call().await.unwrap();
    // Four chunks of a file stand in line before anything else is even made.
    let piece = Message::Piece(Piece { from: 0, bytes: PIECE_BYTES_MAX });
    file.send_tensor(piece, vec![7; PIECE_BYTES_MAX as usize].into()).await.unwrap();
    prefill.send_tensor(step(384, true), rows(384, 1)).await.unwrap();
    decode.send_tensor(step(1, false), rows(1, 2)).await.unwrap();
    let mut chunks = Vec::new();
    while chunks.len() < 4 + 6 + 1 {
        let frame = hand.read().await.unwrap();
        if frame.message.kind() == Kind::Chunk {
            chunks.push(frame.call.0);
        }
    }
    // A chunk of each may already be on its way into the pipe when the next comes.
    let file_before = |call| {
        let last = chunks.iter().rposition(|it| *it == call).unwrap();
        chunks[..last].iter().filter(|it| **it == 2).count()
    };
    assert!(file_before(4) <= 1 && file_before(6) <= 1, "{chunks:?}");
    assert_eq!(chunks.iter().filter(|it| **it == 2).count(), 4);
}

#[tokio::test]
async fn bulk_calls_take_turns() {
    let (end, mut hand) = by_hand();
    let mut calls = Vec::new();
    for _ in 0..2 {
        let mut call = end.mux.open_call().await.unwrap();
        call.send_tensor(step(256, true), rows(256, 1)).await.unwrap();
        calls.push(call);
    }
    let mut order = Vec::new();
    while order.len() < 8 {
        let frame = hand.read().await.unwrap();
        if frame.message.kind() == Kind::Chunk {
            order.push(frame.call.0);
        }
    }
    assert!(order.windows(3).skip(1).all(|w| w != [2; 3] && w != [4; 3]), "{order:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_keep_their_tensors_apart() {
    let (dialer, mut acceptor) = pair();
    let mut echoes = Vec::new();
    let mut askers = Vec::new();
    for fill in 0..16_u8 {
        let (mut caller, mut callee) = call(&dialer, &mut acceptor).await;
        echoes.push(spawn(async move {
            while let Ok(Message::Step(head)) = callee.recv().await {
                let got = callee.recv_activation(head.count, head.hidden, head.dtype);
                let bytes = got.await.unwrap().bytes().clone();
                let back = callee.send_tensor(Message::Step(head), bytes);
                back.await.unwrap();
            }
        }));
        askers.push(spawn(async move {
            for turn in 0..10 {
                let count = 1 + u32::from(fill) * turn;
                let (head, bytes) = (step(count, count > 1), rows(count, fill));
                caller.send_tensor(head.clone(), bytes.clone()).await.unwrap();
                assert_eq!(caller.recv().await, Ok(head));
                let got = caller.recv_activation(count, 1024, ActivationDtype::F32);
                assert_eq!(got.await.unwrap().bytes(), &bytes);
            }
        }));
    }
    for asker in askers {
        asker.await.unwrap();
    }
    for echo in echoes {
        echo.await.unwrap();
    }
    while dialer.mux.calls_open() + acceptor.mux.calls_open() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(dialer.mux.frames_late() + acceptor.mux.frames_late(), 0);
}
