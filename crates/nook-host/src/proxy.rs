//! The worker proxy, between a guest and our worker: messages pass as they are, until one of the
//! two ends the call, or the owner wants the machine back.
//!
//! Leaving in order ("draining") takes at most [`DRAIN_LIMIT`]: the guest is told, what it has sent
//! before is computed and answered, nothing new is taken, and the call ends with
//! [`ErrorCode::Draining`]. The guest then computes the layers elsewhere from what it kept; or it
//! asks for what the worker remembers, which is passed on like any answer, in the same time. Every
//! message goes through here, so this is also where the steps under way are counted.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nook_base::ErrorCode;
use nook_mux::{Call, CallError, CallReceiver, CallSender};
use nook_store::AuditWhy;
use nook_wire::{Message, PrefixHash, ResultHead, StepHead, WireMessage, WorkerMessage};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::chain::Member;
use super::chain::feed::{Fed, Feed};
use super::chain::outlet::{Noted, Notice, Outlet};
use super::streams::Activity;

/// Longest time that steps under way may still take when the owner wants the machine back. The
/// owner comes first: whatever is not answered by then is not answered. With the end of the worker
/// after it, the memory is free within two seconds.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_millis(750);

/// Longest wait for a guest without a step under way to ask for what is remembered, or to leave: a
/// round trip of a bad link. Beyond it the guest computes everything again.
const ASK_LIMIT: Duration = Duration::from_millis(250);

/// Notices from the one direction to the other that may wait; the one waits beyond them.
const NOTICES_MAX: usize = 2;

/// What joins a call with other hosts: see `chain`.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) member: Member,
    pub(crate) arrival: oneshot::Receiver<Call<Message>>,
    /// Where it is noted whether the call does something.
    pub(crate) activity: Activity,
}

/// What is under way on one call. Both directions run in one task; only their futures are two.
struct Traffic {
    activity: Activity,
    steps_in: AtomicU64,
    results_out: AtomicU64,
    /// Whether a step has begun to come in and its last chunk has not.
    half_in: AtomicBool,
    /// Whether a result has begun to go out and its last chunk has not.
    half_out: AtomicBool,
    draining: AtomicBool,
    handing: AtomicU8,
    /// Whether results go on to another host, so that their steps' marks are needed.
    forwards: AtomicBool,
    /// Never held across an await.
    noted: Mutex<Noted>,
    /// Something above has changed.
    changed: Notify,
}

/// The guest has not asked for what is remembered.
const NOT_ASKED: u8 = 0;
/// It has.
const ASKED: u8 = 1;
/// All of it is on its way to the guest.
const HANDED_OVER: u8 = 2;

/// Passes messages until either side ends the call, `until` asks to finish, or `revoked` to stop.
/// Each answer's head is shown to `seen`. Why it ended, where the guest had not had enough.
pub(crate) async fn pass(
    guest: Call<Message>,
    worker: Call<WorkerMessage>,
    Ends { member, arrival, activity }: Ends,
    (until, revoked): (&CancellationToken, &CancellationToken),
    seen: impl Fn(&ResultHead),
) -> Option<AuditWhy> {
    let (mut to_guest, mut from_guest) = guest.split();
    let (mut to_worker, mut from_worker) = worker.split();
    let traffic = Traffic::new(activity);
    let (mut feed, mut outlet) = (Feed::new(arrival), Outlet::new(member.book()));
    let (notices, mut noticed) = mpsc::channel(NOTICES_MAX);
    let (ended, why): (Result<Infallible, CallError>, _) = tokio::select! {
        biased;
        () = revoked.cancelled() => {
            (closed(ErrorCode::TrustDenied), Some(AuditWhy::TooLittleTrust))
        }
        () = drained(&traffic, until) => (closed(ErrorCode::Draining), Some(AuditWhy::Leaving)),
        ended = inward(
            (&mut from_guest, &mut feed),
            &mut to_worker,
            &traffic,
            (&member, notices),
        ) => (ended, None),
        ended = outward(
            &mut from_worker,
            (&mut to_guest, &mut outlet, &mut noticed),
            (&traffic, until),
            seen,
        ) => (ended, Some(AuditWhy::Failed)),
    };
    let Err(end) = ended;
    let code = match end {
        CallError::Closed { code } => code,
        CallError::ConnectionLost { .. } => Some(ErrorCode::WorkerCrashed),
        CallError::NotForCalls { .. } => Some(ErrorCode::BadRequest),
    };
    // Closing a call that has ended already does nothing.
    to_guest.close(code);
    to_worker.close(code);
    why
}

fn closed(code: ErrorCode) -> Result<Infallible, CallError> {
    Err(CallError::Closed { code: Some(code) })
}

async fn inward(
    (from_guest, feed): (&mut CallReceiver<Message>, &mut Feed),
    to_worker: &mut CallSender<WorkerMessage>,
    traffic: &Traffic,
    (member, notices): (&Member, mpsc::Sender<Notice>),
) -> Result<Infallible, CallError> {
    // A step that crossed the goodbye: the guest computes it elsewhere, and this call only waits
    // for what came before.
    let mut has_crossed = false;
    loop {
        let message = match feed.next(from_guest).await? {
            Fed::Message(message) => message,
            Fed::Forward(_) if traffic.forwards.load(Ordering::Relaxed) => {
                return closed(ErrorCode::BadRequest);
            }
            Fed::Forward(ticket) => {
                let notice = match member.relay(&ticket).await {
                    Ok(call) => {
                        traffic.forwards.store(true, Ordering::Relaxed);
                        Notice::Onward { call, next: ticket.claim.host }
                    }
                    Err(code) => Notice::Broken(code),
                };
                // The other direction ends only with this one.
                let _ = notices.send(notice).await;
                continue;
            }
            Fed::Ended(code) => {
                let _ = notices.send(Notice::Broken(code)).await;
                continue;
            }
        };
        traffic.activity.hears();
        match &message {
            Message::Step(_) if traffic.is_draining() => {
                has_crossed = true;
                continue;
            }
            Message::Chunk(_) if has_crossed => continue,
            Message::Step(head) => {
                traffic.step_begins();
                if !traffic.note(head) {
                    return closed(ErrorCode::BadRequest);
                }
            }
            // Those of what another host remembered begin no computing, and nothing answers them.
            Message::Chunk(chunk) if chunk.last && traffic.is_half_in() => traffic.step_is_in(),
            Message::RequestKvCache => {
                has_crossed = false;
                traffic.hand(ASKED);
            }
            _ => {}
        }
        to_worker.send(WorkerMessage::from_peer(message)).await?;
    }
}

async fn outward(
    from_worker: &mut CallReceiver<WorkerMessage>,
    (to_guest, outlet, noticed): (
        &mut CallSender<Message>,
        &mut Outlet,
        &mut mpsc::Receiver<Notice>,
    ),
    (traffic, until): (&Traffic, &CancellationToken),
    seen: impl Fn(&ResultHead),
) -> Result<Infallible, CallError> {
    // The piece of what is remembered whose bytes are under way.
    let mut piece = None;
    loop {
        // Nothing may come between a head and its chunks, the goodbye neither.
        let may_say_goodbye = !traffic.is_draining() && !traffic.is_half_out();
        let message = tokio::select! {
            biased;
            () = until.cancelled(), if may_say_goodbye => {
                let sentence = "The owner of that device wants it back.".to_owned();
                to_guest.send(Message::Draining { sentence }).await?;
                traffic.drain();
                continue;
            }
            Some(notice) = noticed.recv(), if !traffic.is_half_out() && piece.is_none() => {
                outlet.heed(notice, to_guest).await?;
                continue;
            }
            code = outlet.broken(), if piece.is_none() => {
                outlet.heed(Notice::Broken(code), to_guest).await?;
                continue;
            }
            message = from_worker.recv() => message?,
        };
        // By the protocol a worker never says anything else on a guest's call; should it, nothing
        // of it leaves this machine.
        let Ok(message) = message.into_peer() else {
            return closed(ErrorCode::WorkerCrashed);
        };
        let is_last = matches!(&message, Message::Chunk(chunk) if chunk.last);
        let mut marks = None;
        match &message {
            Message::Result(head) => {
                seen(head);
                traffic.result_begins();
                marks = traffic.marks_of(head.step);
            }
            Message::KvCachePiece(head) => piece = Some(head.is_last()),
            _ => {}
        }
        outlet.deliver(message, marks, to_guest).await?;
        match piece.take_if(|_| is_last) {
            Some(true) => traffic.hand(HANDED_OVER),
            Some(false) => {}
            None if is_last && piece.is_none() => traffic.result_is_out(),
            None => {}
        }
    }
}

/// Waits until the owner wants the machine back, and then for the steps under way and for what the
/// guest asks for, but not for long.
async fn drained(traffic: &Traffic, until: &CancellationToken) {
    until.cancelled().await;
    let done = async {
        traffic.becomes(Traffic::is_idle).await;
        let asked = traffic.becomes(|traffic| traffic.handing() != NOT_ASKED);
        if tokio::time::timeout(ASK_LIMIT, asked).await.is_ok() {
            traffic.becomes(|traffic| traffic.handing() == HANDED_OVER).await;
        }
    };
    if tokio::time::timeout(DRAIN_LIMIT, done).await.is_err() {
        tracing::info!("a step took too long to be waited for; its guest computes it elsewhere");
    }
}

impl Traffic {
    fn new(activity: Activity) -> Self {
        Self {
            activity,
            steps_in: AtomicU64::default(),
            results_out: AtomicU64::default(),
            half_in: AtomicBool::default(),
            half_out: AtomicBool::default(),
            draining: AtomicBool::default(),
            handing: AtomicU8::default(),
            forwards: AtomicBool::default(),
            noted: Mutex::default(),
            changed: Notify::default(),
        }
    }

    /// Waits until `holds`.
    async fn becomes(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            if holds(self) {
                return;
            }
            changed.await;
        }
    }

    fn hand(&self, stage: u8) {
        self.handing.store(stage, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn handing(&self) -> u8 {
        self.handing.load(Ordering::Relaxed)
    }

    fn step_begins(&self) {
        self.steps_in.fetch_add(1, Ordering::Relaxed);
        self.half_in.store(true, Ordering::Relaxed);
    }

    /// Remembers the marks of a step whose result will go on; whether there was room.
    fn note(&self, head: &StepHead) -> bool {
        !self.forwards.load(Ordering::Relaxed)
            || self.noted.lock().unwrap_or_else(PoisonError::into_inner).note(head)
    }

    fn marks_of(&self, step: u64) -> Option<(PrefixHash, PrefixHash)> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).take(step)
    }

    fn step_is_in(&self) {
        self.half_in.store(false, Ordering::Relaxed);
        self.activity.computes();
    }

    fn is_half_in(&self) -> bool {
        self.half_in.load(Ordering::Relaxed)
    }

    fn result_begins(&self) {
        self.half_out.store(true, Ordering::Relaxed);
    }

    fn result_is_out(&self) {
        self.half_out.store(false, Ordering::Relaxed);
        self.results_out.fetch_add(1, Ordering::Relaxed);
        if self.waiting() <= self.not_begun() {
            self.activity.rests();
        }
        self.changed.notify_one();
    }

    fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn is_half_out(&self) -> bool {
        self.half_out.load(Ordering::Relaxed)
    }

    /// Whether the guest has heard the goodbye and has every answer that it may still expect. A
    /// step whose rows are still on their way in is not waited for: it was not begun.
    fn is_idle(&self) -> bool {
        self.is_draining() && self.waiting() <= self.not_begun()
    }

    fn waiting(&self) -> u64 {
        let steps_in = self.steps_in.load(Ordering::Relaxed);
        steps_in.saturating_sub(self.results_out.load(Ordering::Relaxed))
    }

    fn not_begun(&self) -> u64 {
        u64::from(self.is_half_in())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;
    use nook_base::tasks::Tasks;
    use nook_base::{ActivationDtype, PeerId, clock};
    use nook_mux::testing::call;
    use nook_wire::{KvPieceHead, PrefixHash, ResultHead, StepHead};

    use super::*;
    use crate::streams::{IDLE_MIN, Streams};

    /// A guest and a worker, and the proxy between them.
    struct Scene {
        guest: Call<Message>,
        worker: Call<WorkerMessage>,
        until: CancellationToken,
        revoked: CancellationToken,
        /// Where it is noted whether the call does something.
        streams: Streams,
        tasks: Tasks,
        // The connections end with their handles.
        _open: Box<dyn std::any::Any>,
    }

    async fn scene() -> Scene {
        let tasks = Tasks::new();
        let (guest, inner, guest_link) = call::<Message>(&tasks).await;
        let (outer, worker, worker_link) = call::<WorkerMessage>(&tasks).await;
        let (until, revoked) = (CancellationToken::new(), CancellationToken::new());
        let tokens = (until.clone(), revoked.clone());
        let (_, mut ends) = crate::chain::tests::joinable();
        let streams = Streams::default();
        ends.activity = streams.begin(PeerId([8; 32]), CancellationToken::new());
        let passing = async move {
            pass(inner, outer, ends, (&tokens.0, &tokens.1), |_| ()).await;
        };
        tasks.spawn("proxy", passing);
        let _open = Box::new((guest_link, worker_link));
        Scene { guest, worker, until, revoked, streams, tasks, _open }
    }

    pub(crate) const ROW: Bytes = Bytes::from_static(&[1; 8]);

    pub(crate) fn step(step: u64) -> Message {
        Message::Step(StepHead {
            step,
            position: u32::try_from(step).unwrap_or(0),
            count: 1,
            hidden: 2,
            dtype: ActivationDtype::F32,
            history_before: PrefixHash::default(),
            history_after: PrefixHash::default(),
            bulk: false,
        })
    }

    pub(crate) fn result(step: u64) -> WorkerMessage {
        WorkerMessage::Peer(Message::Result(ResultHead {
            step,
            position: u32::try_from(step).unwrap_or(0),
            count: 1,
            hidden: 2,
            dtype: ActivationDtype::F32,
            compute_us: 1,
            queue_us: 1,
            bulk: false,
        }))
    }

    pub(crate) async fn heard(call: &mut Call<Message>) -> String {
        match call.recv().await {
            Ok(Message::Result(head)) => format!("result {}", head.step),
            Ok(Message::Chunk(_)) => "rows".to_owned(),
            Ok(Message::KvCachePiece(head)) => format!("caches {}", head.first),
            Ok(Message::Draining { .. }) => "goodbye".to_owned(),
            Ok(Message::Onward { code }) => format!("onward: {code:?}"),
            Ok(Message::Passed(passed)) => format!("passed {}", passed.step),
            Ok(_) => "something else".to_owned(),
            Err(CallError::Closed { code }) => format!("closed: {code:?}"),
            Err(_) => "lost".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_step_under_way_is_answered_and_one_that_crosses_the_goodbye_is_not() {
        let mut scene = scene().await;
        scene.guest.send_tensor(step(0), ROW).await.unwrap();
        for _ in 0..2 {
            scene.worker.recv().await.unwrap();
        }
        scene.until.cancel();
        assert_eq!(heard(&mut scene.guest).await, "goodbye");
        scene.guest.send_tensor(step(1), ROW).await.unwrap();
        scene.worker.send_tensor(result(0), ROW).await.unwrap();
        assert_eq!(heard(&mut scene.guest).await, "result 0");
        assert_eq!(heard(&mut scene.guest).await, "rows");
        assert_eq!(heard(&mut scene.guest).await, "closed: Some(Draining)");
        // The worker was told nothing of the second step.
        assert!(matches!(scene.worker.recv().await, Err(CallError::Closed { .. })));
        scene.tasks.cancel();
    }

    #[tokio::test]
    async fn a_call_with_nothing_under_way_ends_at_once() {
        let mut scene = scene().await;
        scene.guest.send_tensor(step(0), ROW).await.unwrap();
        scene.worker.send_tensor(result(0), ROW).await.unwrap();
        assert_eq!(heard(&mut scene.guest).await, "result 0");
        assert_eq!(heard(&mut scene.guest).await, "rows");
        scene.until.cancel();
        assert_eq!(heard(&mut scene.guest).await, "goodbye");
        assert_eq!(heard(&mut scene.guest).await, "closed: Some(Draining)");
        scene.tasks.cancel();
    }

    #[tokio::test]
    async fn what_is_remembered_is_passed_on_behind_the_last_answer() {
        let mut scene = scene().await;
        scene.guest.send_tensor(step(0), ROW).await.unwrap();
        for _ in 0..2 {
            scene.worker.recv().await.unwrap();
        }
        scene.until.cancel();
        assert_eq!(heard(&mut scene.guest).await, "goodbye");
        // It crosses the goodbye, and does not hold up what comes behind it.
        scene.guest.send_tensor(step(1), ROW).await.unwrap();
        scene.guest.send(Message::RequestKvCache).await.unwrap();
        scene.worker.send_tensor(result(0), ROW).await.unwrap();
        let asked = scene.worker.recv().await.unwrap();
        assert_eq!(asked, WorkerMessage::Peer(Message::RequestKvCache));
        for (first, position) in [(0, 2), (1, 2)] {
            let mark = PrefixHash::default();
            let head = KvPieceHead { first, count: 1, bytes: ROW.len() as u64, position, mark };
            let head = WorkerMessage::Peer(Message::KvCachePiece(head));
            scene.worker.send_tensor(head, ROW).await.unwrap();
        }
        for expected in ["result 0", "rows", "caches 0", "rows", "caches 1", "rows"] {
            assert_eq!(heard(&mut scene.guest).await, expected);
        }
        assert_eq!(heard(&mut scene.guest).await, "closed: Some(Draining)");
        scene.tasks.cancel();
    }

    #[tokio::test]
    async fn a_stream_that_was_given_what_another_host_remembered_rests_and_a_step_computes() {
        let mut scene = scene().await;
        let mark = PrefixHash::default();
        let head = KvPieceHead { first: 0, count: 1, bytes: ROW.len() as u64, position: 2, mark };
        scene.guest.send_tensor(Message::KvCachePiece(head), ROW).await.unwrap();
        for _ in 0..2 {
            scene.worker.recv().await.unwrap();
        }
        let gives_way =
            |scene: &Scene| scene.streams.rests(PeerId([8; 32]), clock::now() + IDLE_MIN);
        assert!(gives_way(&scene), "nothing is computed");
        scene.guest.send_tensor(step(0), ROW).await.unwrap();
        for _ in 0..2 {
            scene.worker.recv().await.unwrap();
        }
        assert!(!gives_way(&scene));
        scene.tasks.cancel();
    }

    #[tokio::test]
    async fn a_step_that_is_never_answered_does_not_keep_the_machine() {
        let mut scene = scene().await;
        scene.guest.send_tensor(step(0), ROW).await.unwrap();
        for _ in 0..2 {
            scene.worker.recv().await.unwrap();
        }
        scene.until.cancel();
        assert_eq!(heard(&mut scene.guest).await, "goodbye");
        assert_eq!(heard(&mut scene.guest).await, "closed: Some(Draining)");
        scene.tasks.cancel();
    }

    #[tokio::test]
    async fn a_guest_that_is_trusted_no_more_is_not_waited_for() {
        let mut scene = scene().await;
        scene.guest.send_tensor(step(0), ROW).await.unwrap();
        scene.worker.recv().await.unwrap();
        scene.revoked.cancel();
        assert_eq!(heard(&mut scene.guest).await, "closed: Some(TrustDenied)");
        scene.tasks.cancel();
    }
}
