//! Every way of breaking the protocol ends the connection with its name, and says so.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use nook_base::ErrorCode;
use nook_base::limits::CREDIT_WINDOW;
use nook_base::tasks::Tasks;
use nook_mux::{CloseReason, Mux, Side, Violation, framed};
use nook_wire::{CallId, CreditError, DecodeError, Kind, Message, SeqError, decode, encode};

use tokio::io::AsyncWriteExt;

use crate::pair::{Hand, PATIENT, by_hand, chunk, config, open, step};

/// Call 1 is open and accepted, then `frames` come: the connection ends with `violation`, and the
/// other side is told its code.
async fn check(frames: Vec<Bytes>, violation: Violation) {
    let (mut end, mut hand) = by_hand();
    hand.write(1, &open()).await;
    let _call = end.accept().await;
    for frame in frames {
        hand.write_raw(frame).await;
    }
    let reason = end.mux.closed().await;
    assert_eq!(reason, CloseReason::Violation { violation });
    let told = told(&mut hand).await;
    assert_eq!(told, violation.code(), "{violation}");
}

/// The code that the other side is told in ERROR and again in CLOSE.
async fn told(hand: &mut Hand) -> ErrorCode {
    loop {
        let frame = hand.read().await.expect("the violation is told");
        if let (CallId(0), Message::Error(error)) = (frame.call, frame.message) {
            let code = Some(error.code);
            let close = hand.read().await.expect("CLOSE follows");
            assert_eq!(close.message, Message::Close { code });
            assert!(hand.read().await.is_none(), "nothing follows CLOSE");
            return error.code;
        }
    }
}

fn frame(call: u32, seq: u32, message: &Message) -> Bytes {
    encode(CallId(call), seq, message)
}

#[tokio::test]
async fn t6_a_hole_in_the_numbers_closes() {
    let call = CallId(1);
    for got in [0, 2, 3] {
        let error = SeqError::Gap { expected: 1, got };
        check(vec![frame(1, got, &step(1, false))], Violation::Sequence { call, error }).await;
    }
    let error = SeqError::Gap { expected: 0, got: 1 };
    let call = CallId::CONNECTION;
    check(vec![frame(0, 1, &Message::Ping { nonce: 1 })], Violation::Sequence { call, error })
        .await;
}

#[tokio::test]
async fn a_chunk_beyond_the_window_closes() {
    let frames = (0..=CREDIT_WINDOW).map(|n| frame(1, n + 1, &chunk(u64::from(n)))).collect();
    let (call, error) = (CallId(1), CreditError::Overrun);
    check(frames, Violation::Credit { call, error }).await;
}

#[tokio::test]
async fn credit_for_nothing_closes() {
    let error = CreditError::Overgrant { granted: 1, owed: 0 };
    let call = CallId(1);
    check(vec![frame(1, 1, &Message::Credit { chunks: 1 })], Violation::Credit { call, error })
        .await;
}

#[tokio::test]
async fn a_flood_that_nobody_takes_closes() {
    let flood = |call| -> Vec<Bytes> {
        let message = if call == 0 {
            Message::refusal(ErrorCode::Busy)
        } else {
            Message::Truncate { position: 0 }
        };
        let first = call;
        (0..100).map(|n| frame(call, first + n, &message)).collect()
    };
    for id in [0, 1] {
        let call = CallId(id);
        check(flood(id), Violation::InboxOverrun { call }).await;
    }
}

#[tokio::test]
async fn a_call_that_was_never_opened_closes() {
    let call = CallId(2);
    check(vec![frame(2, 0, &Message::Opened { position: 0 })], Violation::UnknownCall { call })
        .await;
    let call = CallId(3);
    let kind = Kind::Chunk;
    check(vec![frame(3, 0, &chunk(0))], Violation::BadOpening { call, kind }).await;
}

#[tokio::test]
async fn more_refused_calls_than_can_be_answered_close() {
    let opens = (0..2000).map(|n| frame(2 * n + 3, 0, &open())).collect();
    check(opens, Violation::RefusalFlood).await;
}

#[tokio::test]
async fn bytes_that_are_no_frame_close() {
    let changed = |at: usize, byte: u8| {
        let mut bytes = frame(1, 1, &Message::Truncate { position: 3 }).to_vec();
        bytes[at] = byte;
        vec![Bytes::from(bytes)]
    };
    let kind = Kind::Truncate;
    for (frames, error) in [
        (changed(0, 9), DecodeError::WrongVersion { got: 9 }),
        (changed(1, 0x45), DecodeError::UnknownKind { number: 0x45 }),
        (changed(1, 0x3f), DecodeError::UnknownKind { number: 0x3f }),
        (changed(3, 1), DecodeError::UnknownFlags { kind, flags: 1 }),
        (
            changed(12, 0xff),
            DecodeError::BodyTooLong { kind, claimed: 0xff00_0001, max: kind.body_bytes_max() },
        ),
        (changed(16, 0xff), DecodeError::BadBody { kind }),
    ] {
        check(frames, Violation::Frame { error }).await;
    }
}

#[tokio::test]
async fn the_reason_reaches_a_sender_that_has_much_more_under_way() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dial = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
    let (far, near) = tokio::join!(dial, listener.accept());
    let (mut far, near) = (far.unwrap(), near.unwrap().0);
    let tasks = Tasks::new();
    let (mux, _incoming) =
        Mux::<Message>::start(framed(near), config(Side::Acceptor, PATIENT), &tasks);
    let mut bytes = frame(0, 0, &Message::Ping { nonce: 1 }).to_vec();
    bytes[0] = 9;
    bytes.extend(vec![0; 300 << 10]);
    far.write_all(&bytes).await.unwrap();
    let error = DecodeError::WrongVersion { got: 9 };
    let violation = Violation::Frame { error };
    assert_eq!(mux.closed().await, CloseReason::Violation { violation });
    far.shutdown().await.unwrap();
    assert!(tasks.shut_down(Duration::from_secs(10)).await);
    let mut said = framed(far);
    let mut last = None;
    while let Some(frame) = said.next().await {
        last = Some(frame.unwrap());
    }
    let code = Some(ErrorCode::VersionMismatch);
    let close = decode::<Message>(last.unwrap()).unwrap().message;
    assert_eq!(close, Message::Close { code });
}
