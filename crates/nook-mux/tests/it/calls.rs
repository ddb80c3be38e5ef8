//! Opening, talking, closing.

use nook_base::{Activation, ActivationDtype, ErrorCode};
use nook_mux::{CallError, Incoming, TensorReader, TensorRecvError};
use nook_wire::{CallId, Kind, Message, TensorError, WireMessage};

use crate::pair::{CALLS_MAX, by_hand, call, chunk, open, pair, rows, step};

#[tokio::test]
async fn each_side_allots_its_own_ids() {
    let (dialer, acceptor) = pair();
    for expected in [1, 3, 5] {
        let ours = dialer.mux.open_call().await.unwrap();
        let theirs = acceptor.mux.open_call().await.unwrap();
        assert_eq!((ours.id(), theirs.id()), (CallId(expected), CallId(expected + 1)));
    }
}

#[tokio::test]
async fn a_step_goes_out_and_its_result_comes_back() {
    let (mut dialer, mut acceptor) = pair();
    // Both ways round: the acceptor may open calls as well.
    for turn in 0..2 {
        let (mut caller, mut callee) = if turn == 0 {
            call(&dialer, &mut acceptor).await
        } else {
            call(&acceptor, &mut dialer).await
        };
        let sent = rows(200, 9);
        let work = async {
            assert_eq!(callee.recv().await, Ok(step(200, true)));
            let got = callee.recv_activation(200, 1024, ActivationDtype::F32);
            let got = got.await.unwrap();
            callee.send_tensor(step(200, true), got.bytes().clone()).await
        };
        let ask = async {
            let sent = caller.send_tensor(step(200, true), sent.clone()).await;
            sent.unwrap();
            assert_eq!(caller.recv().await, Ok(step(200, true)));
            caller.recv_activation(200, 1024, ActivationDtype::F32).await
        };
        let (worked, back) = tokio::join!(work, ask);
        worked.unwrap();
        let whole = Activation::new(200, 1024, ActivationDtype::F32, sent).unwrap();
        assert_eq!(back.unwrap(), whole);
    }
}

#[tokio::test]
async fn logits_arrive_and_no_rows_are_no_chunks() {
    let (dialer, mut acceptor) = pair();
    let (mut caller, mut callee) = call(&dialer, &mut acceptor).await;
    let logits: Vec<f32> = (0..60_000_u16).map(f32::from).collect();
    let bytes: Vec<u8> = logits.iter().flat_map(|x| x.to_le_bytes()).collect();
    callee.send_tensor(step(1, false), bytes.into()).await.unwrap();
    caller.recv().await.unwrap();
    assert_eq!(caller.recv_logits(1, 60_000).await.unwrap(), logits);
    assert!(caller.recv_logits(0, 60_000).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_reader_of_a_tensor_can_be_interrupted_and_taken_up_again() {
    let (dialer, mut acceptor) = pair();
    let (mut caller, mut callee) = call(&dialer, &mut acceptor).await;
    let mut reader = TensorReader::activation(128, 1024, ActivationDtype::F32).unwrap();
    let bytes = rows(128, 3);
    for piece in nook_wire::chunks_of(bytes.clone()) {
        caller.send(Message::Chunk(piece)).await.unwrap();
        // Dropped as soon as it would wait, whatever it has taken by then.
        let read = reader.read(callee.receiver());
        if let Ok(whole) = tokio::time::timeout(std::time::Duration::ZERO, read).await {
            assert_eq!(whole.unwrap().bytes(), &bytes);
            return;
        }
    }
    let whole = reader.read(callee.receiver()).await.unwrap();
    assert_eq!(whole.bytes(), &bytes);
}

#[tokio::test]
async fn something_else_between_the_chunks_is_handed_out_not_swallowed() {
    let (dialer, mut acceptor) = pair();
    let (mut caller, mut callee) = call(&dialer, &mut acceptor).await;
    let refusal = Message::refusal(ErrorCode::OutOfMemory);
    caller.send(refusal.clone()).await.unwrap();
    let got = callee.recv_activation(1, 1024, ActivationDtype::F32).await;
    assert_eq!(got, Err(TensorRecvError::Interrupted(refusal)));

    caller.send(chunk(40)).await.unwrap();
    let got = callee.recv_activation(1, 1024, ActivationDtype::F32).await;
    let gap = TensorError::NotContiguous { expected: 0, offset: 40 };
    assert_eq!(got, Err(TensorRecvError::Tensor(gap)));
}

#[tokio::test]
async fn dropping_a_call_tells_the_other_side_after_what_was_sent() {
    let (dialer, mut acceptor) = pair();
    let (mut caller, mut callee) = call(&dialer, &mut acceptor).await;
    caller.send(Message::Truncate { position: 3 }).await.unwrap();
    drop(caller);
    assert_eq!(callee.recv().await, Ok(Message::Truncate { position: 3 }));
    let code = Some(ErrorCode::Cancelled);
    assert_eq!(callee.recv().await, Err(CallError::Closed { code }));
    assert_eq!(callee.send(open()).await, Err(CallError::Closed { code }));
}

#[tokio::test]
async fn half_a_call_keeps_it_alive_and_closing_says_why() {
    let (dialer, mut acceptor) = pair();
    let (caller, mut callee) = call(&dialer, &mut acceptor).await;
    let (mut sender, receiver) = caller.split();
    drop(receiver);
    sender.send(Message::Truncate { position: 1 }).await.unwrap();
    assert!(callee.recv().await.is_ok());

    let (sender_there, mut receiver_there) = callee.split();
    let code = Some(ErrorCode::TooLong);
    sender_there.close(code);
    assert_eq!(receiver_there.recv().await, Err(CallError::Closed { code }));
    while !sender.is_ended() {
        tokio::task::yield_now().await;
    }
    let end = sender.send(open()).await;
    assert_eq!(end, Err(CallError::Closed { code }));
}

#[tokio::test]
async fn a_call_on_which_nothing_was_said_ends_in_silence() {
    let (end, mut hand) = by_hand();
    drop(end.mux.open_call().await.unwrap());
    let mut second = end.mux.open_call().await.unwrap();
    second.send(open()).await.unwrap();
    let first_heard = hand.read().await.unwrap();
    assert_eq!((first_heard.call, first_heard.seq), (CallId(4), 0));
    assert_eq!(end.mux.calls_open(), 1);
}

#[tokio::test]
async fn calls_beyond_the_limit_are_refused_as_busy_and_the_rest_live() {
    let (mut end, mut hand) = by_hand();
    let mut calls = Vec::new();
    for id in 0..CALLS_MAX as u32 {
        hand.write(2 * id + 1, &open()).await;
        calls.push(end.accept().await);
    }
    let beyond = 2 * CALLS_MAX as u32 + 1;
    hand.write(beyond, &open()).await;
    // What was sent before the refusal was heard is late, not wrong.
    hand.write(beyond, &chunk(0)).await;
    let code = ErrorCode::Busy;
    for (seq, message) in
        [Message::refusal(code), Message::Close { code: Some(code) }].into_iter().enumerate()
    {
        let frame = hand.read().await.unwrap();
        assert_eq!((frame.call, frame.seq), (CallId(beyond), seq as u32));
        assert_eq!(frame.message, message);
    }
    // A place that becomes free is given again.
    calls.pop();
    assert_eq!(hand.read().await.unwrap().message.kind(), Kind::Close);
    hand.write(beyond + 2, &open()).await;
    assert_eq!(end.accept().await.id(), CallId(beyond + 2));
    assert_eq!(end.mux.frames_late(), 1);
}

#[tokio::test]
async fn frames_for_a_closed_call_are_dropped_and_counted() {
    let (mut end, mut hand) = by_hand();
    hand.write(1, &open()).await;
    end.accept().await.close(None);
    assert_eq!(hand.read().await.unwrap().message.kind(), Kind::Close);
    for offset in 0..40 {
        hand.write(1, &chunk(offset)).await;
    }
    // And for one of this side, closed by this side.
    let mut own = end.mux.open_call().await.unwrap();
    own.send(open()).await.unwrap();
    own.close(None);
    hand.write(2, &Message::Opened { position: 0 }).await;
    hand.write(3, &open()).await;
    assert_eq!(end.accept().await.id(), CallId(3));
    assert_eq!(end.mux.frames_late(), 41);
}

#[tokio::test]
async fn control_messages_reach_the_owner() {
    let (dialer, mut acceptor) = pair();
    let sentence = "Bye.".to_owned();
    let leaving = Message::Draining { sentence };
    dialer.mux.send(leaving.clone()).await.unwrap();
    match acceptor.incoming.recv().await {
        Some(Incoming::Control(message)) => assert_eq!(message, leaving),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_the_mux_says_by_itself_cannot_be_sent() {
    let (dialer, mut acceptor) = pair();
    let (mut caller, _callee) = call(&dialer, &mut acceptor).await;
    for message in
        [Message::Credit { chunks: 1 }, Message::Close { code: None }, Message::Ping { nonce: 1 }]
    {
        let kind = message.kind();
        let refused = Err(CallError::NotForCalls { kind });
        assert_eq!(caller.send(message).await, refused);
    }
}
