//! How a connection ends, and that nobody waits after that.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, Stream};
use nook_base::ErrorCode;
use nook_base::limits::CREDIT_WINDOW;
use nook_base::tasks::Tasks;
use nook_mux::{CallError, CloseReason, Mux, MuxClosed, Side};
use nook_wire::{CallId, FrameParts, Message, encode};

use crate::pair::{PATIENT, by_hand, call, chunk, config, open, pair, spawn};

#[tokio::test]
async fn when_the_other_side_vanishes_every_wait_ends() {
    let (mut end, mut hand) = by_hand();
    hand.write(1, &open()).await;
    let mut receiving = end.accept().await;
    receiving.recv().await.unwrap();
    let mut sending = end.mux.open_call().await.unwrap();
    sending.send(open()).await.unwrap();
    for offset in 0..u64::from(CREDIT_WINDOW) {
        sending.send(chunk(offset)).await.unwrap();
    }
    let mux = end.mux.clone();
    let waits = async {
        tokio::join!(receiving.recv(), sending.send(chunk(0)), mux.closed(), end.incoming.recv(),)
    };
    let vanish = async {
        tokio::task::yield_now().await;
        drop(hand);
    };
    let ((received, sent, reason, incoming), ()) = tokio::join!(waits, vanish);
    let reason_of = |error: CallError| match error {
        CallError::ConnectionLost { reason } => reason,
        other => panic!("{other:?}"),
    };
    // An in-memory pipe reports a vanished reader as an end or as a broken pipe, whichever is met.
    assert!(matches!(reason, CloseReason::Eof | CloseReason::Io { .. }));
    assert_eq!(reason_of(received.unwrap_err()), reason);
    assert_eq!(reason_of(sent.unwrap_err()), reason);
    assert!(incoming.is_none());
    assert!(end.mux.is_closed());
    let refused = end.mux.open_call().await.unwrap_err();
    assert_eq!(refused, MuxClosed { reason: reason.clone() });
    let sentence = String::new();
    let refused = end.mux.send(Message::Draining { sentence }).await;
    assert_eq!(refused, Err(MuxClosed { reason }));
}

#[tokio::test]
async fn what_came_before_the_end_is_still_handed_out() {
    let (mut end, mut hand) = by_hand();
    hand.write(1, &open()).await;
    hand.write(1, &Message::Truncate { position: 4 }).await;
    let mut call = end.accept().await;
    drop(hand);
    end.mux.closed().await;
    assert_eq!(call.recv().await, Ok(open()));
    assert_eq!(call.recv().await, Ok(Message::Truncate { position: 4 }));
    assert!(call.recv().await.is_err());
}

#[tokio::test]
async fn closing_says_why_and_what_was_sent_before_it() {
    let (dialer, mut acceptor) = pair();
    let (_caller, mut callee) = call(&dialer, &mut acceptor).await;
    let code = Some(ErrorCode::VersionMismatch);
    let refusal = Message::refusal(ErrorCode::VersionMismatch);
    dialer.mux.send(refusal.clone()).await.unwrap();
    dialer.mux.close(code);
    dialer.mux.close(None);
    assert_eq!(dialer.mux.closed().await, CloseReason::Local { code });
    let reason = CloseReason::Remote { code };
    assert_eq!(acceptor.mux.closed().await, reason);
    let lost = CallError::ConnectionLost { reason };
    assert_eq!(callee.recv().await, Err(lost));
    match acceptor.incoming.recv().await {
        Some(nook_mux::Incoming::Control(message)) => assert_eq!(message, refusal),
        other => panic!("{other:?}"),
    }
    assert!(acceptor.incoming.recv().await.is_none());
}

#[tokio::test]
async fn what_was_sent_without_waiting_is_heard_although_the_end_follows_at_once() {
    let (dialer, mut acceptor) = pair();
    let code = Some(ErrorCode::TrustDenied);
    let word = |number: usize| Message::Draining { sentence: number.to_string() };
    // As many as there is room for: the connection's task has had no moment to write any.
    let taken = (0..).take_while(|number| dialer.mux.try_send(&word(*number))).count();
    assert!(taken > 0);
    dialer.mux.close(code);
    assert!(!dialer.mux.try_send(&word(taken)), "it is over");
    for number in 0..taken {
        match acceptor.incoming.recv().await {
            Some(nook_mux::Incoming::Control(message)) => assert_eq!(message, word(number)),
            other => panic!("{other:?}"),
        }
    }
    assert!(acceptor.incoming.recv().await.is_none());
    assert_eq!(acceptor.mux.closed().await, CloseReason::Remote { code });
}

#[tokio::test]
async fn shutting_down_leaves_no_task_behind_even_when_nobody_reads() {
    let (end, hand) = by_hand();
    let mut call = end.mux.open_call().await.unwrap();
    call.send(open()).await.unwrap();
    let receive = spawn(async move { call.recv().await });
    assert!(end.tasks.shut_down(Duration::from_secs(10)).await);
    let lost = CallError::ConnectionLost { reason: CloseReason::ShutDown };
    assert_eq!(receive.await.unwrap(), Err(lost));
    drop(hand);

    let (dialer, acceptor) = pair();
    assert!(dialer.tasks.shut_down(Duration::from_secs(10)).await);
    let told = CloseReason::Remote { code: None };
    assert_eq!(acceptor.mux.closed().await, told);
}

#[test]
fn a_connection_whose_runtime_ended_ends_for_its_waiters_too() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (first, second) = (runtime().unwrap(), runtime().unwrap());
    // The task was spawned and never ran.
    let (end, _hand) = first.block_on(async { by_hand() });
    drop(first);
    let reason = second.block_on(end.mux.closed());
    assert_eq!(reason, CloseReason::ShutDown);
}

#[tokio::test]
async fn a_call_that_comes_in_the_moment_of_closing_is_not_opened() {
    let tasks = Tasks::new();
    let mux = Arc::new(OnceLock::new());
    let closing = ClosesWithACall { mux: Arc::clone(&mux), told: false };
    let (handle, mut incoming) = Mux::start(closing, config(Side::Acceptor, PATIENT), &tasks);
    mux.set(handle.clone()).unwrap();
    // The end was told to all calls that there were. One more would wait for it without an end.
    assert!(incoming.recv().await.is_none());
    assert_eq!(handle.closed().await, CloseReason::Local { code: None });
    assert_eq!(handle.calls_open(), 0);
}

/// A stream whose only frame opens a call, and comes right after its connection was closed.
struct ClosesWithACall {
    mux: Arc<OnceLock<Mux<Message>>>,
    told: bool,
}

impl Stream for ClosesWithACall {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::replace(&mut self.told, true) {
            return Poll::Ready(None);
        }
        self.mux.get().expect("set before the task runs").close(None);
        Poll::Ready(Some(Ok(encode(CallId(1), 0, &open()))))
    }
}

impl Sink<FrameParts> for ClosesWithACall {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, _: FrameParts) -> io::Result<()> {
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
