//! One host's two ends of a chain, with real calls on both sides of it. Whole chains over real
//! links are tested from outside.

use nook_api::views;
use nook_base::limits::CREDIT_WINDOW;
use nook_base::tasks::Tasks;
use nook_base::{ActivationDtype, LayerRange, ModelDigest};
use nook_mux::testing::call;
use nook_mux::{CallError, CallSender};
use nook_store::AuditList;
use nook_trust::purpose::Lend;
use nook_trust::{Admitted, Gate, GatePolicy, TrustLevel};
use nook_wire::{Chunk, KvPieceHead, Passed, PrefixHash, ResultHead, StepHead, WorkerMessage};
use tokio::sync::oneshot::error::TryRecvError;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::chain::outlet::{Noted, Notice, Outlet, STEPS_NOTED_MAX};
use crate::proxy::tests::{ROW, heard, result, step};
use crate::proxy::{Ends, pass};
use crate::streams::Streams;
use nook_resources::traffic::Traffic;

const HERE: PeerId = PeerId([7; 32]);
const GUEST: PeerId = PeerId([1; 32]);
const CARRIER: PeerId = PeerId([2; 32]);

fn open() -> Open {
    Open {
        session: 40,
        model: ModelDigest([4; 32]),
        layers: LayerRange::with_len(3, 2),
        dtype: ActivationDtype::F32,
        positions_max: 64,
        resume: None,
    }
}

fn claim() -> TicketClaim {
    let Open { session, model, layers, dtype, positions_max, .. } = open();
    TicketClaim { carrier: CARRIER, host: HERE, session, model, layers, dtype, positions_max }
}

fn admitted(peer: PeerId) -> Admitted<Lend> {
    let gate = Gate::new(GatePolicy::DEFAULT, [(peer, TrustLevel::Trusted)]);
    gate.admit(peer).expect("it is trusted")
}

/// A guest's call that could become a part of a chain, and where that would be decided.
pub(crate) fn joinable() -> (Chains, Ends) {
    let book = watch::channel(Arc::default()).1;
    let chains = Chains::new(HERE, mpsc::channel(1).0, book, NamedCalls::default());
    let (member, arrival) = chains.member(&admitted(GUEST), open());
    let activity = Streams::default().begin(GUEST, CancellationToken::new());
    (chains, Ends { member, arrival, activity })
}

struct Scene {
    chains: Chains,
    guest: Call<Message>,
    worker: Call<WorkerMessage>,
    tasks: Tasks,
    _open: Vec<Box<dyn std::any::Any>>,
}

async fn scene() -> Scene {
    let tasks = Tasks::new();
    let (guest, inner, guest_link) = call::<Message>(&tasks).await;
    let (outer, worker, worker_link) = call::<WorkerMessage>(&tasks).await;
    let (chains, ends) = joinable();
    tasks.spawn("passage", async move {
        let (until, revoked) = (CancellationToken::new(), CancellationToken::new());
        pass(inner, outer, ends, (&until, &revoked), |_| ()).await;
    });
    Scene { chains, guest, worker, tasks, _open: vec![guest_link, worker_link] }
}

impl Scene {
    /// The carrier's end of a relay, and what became of it here.
    async fn relay(
        &mut self,
        who: PeerId,
        claim: &TicketClaim,
    ) -> (Call<Message>, Option<ErrorCode>) {
        let (near, far, link) = call::<Message>(&self.tasks).await;
        self._open.push(link);
        let refused = match join(&self.chains.named, &admitted(who), claim, far) {
            Ok(()) => None,
            Err((far, error)) => {
                let code = error.code;
                refuse(far, error).await;
                Some(code)
            }
        };
        (near, refused)
    }

    async fn worker_hears(&mut self) -> String {
        match self.worker.recv().await {
            Ok(WorkerMessage::Peer(Message::Step(head))) => format!("step {}", head.step),
            Ok(WorkerMessage::Peer(Message::Chunk(_))) => "rows".to_owned(),
            Ok(_) => "something else".to_owned(),
            Err(CallError::Closed { code }) => format!("closed: {code:?}"),
            Err(_) => "lost".to_owned(),
        }
    }
}

#[tokio::test]
async fn a_carriers_steps_are_computed_and_answered_to_the_requester() {
    let mut scene = scene().await;
    let (mut carrier, refused) = scene.relay(GUEST, &claim()).await;
    assert_eq!(refused, None);
    assert_eq!(heard(&mut carrier).await, "onward: None");
    carrier.send_tensor(step(0), ROW).await.unwrap();
    assert_eq!(scene.worker_hears().await, "step 0");
    assert_eq!(scene.worker_hears().await, "rows");
    scene.worker.send_tensor(result(0), ROW).await.unwrap();
    assert_eq!(heard(&mut scene.guest).await, "result 0");
    assert_eq!(heard(&mut scene.guest).await, "rows");
    // When the carrier is gone the requester hears it, and its call is still there.
    carrier.close(None);
    assert_eq!(heard(&mut scene.guest).await, "onward: Some(ShardUnavailable)");
    scene.guest.send_tensor(step(1), ROW).await.unwrap();
    assert_eq!(heard(&mut scene.guest).await, "closed: Some(BadRequest)", "one source of steps");
    scene.tasks.cancel();
}

#[tokio::test]
async fn a_ticket_for_another_call_or_another_time_joins_nothing() {
    let mut scene = scene().await;
    let bent = [
        TicketClaim { layers: LayerRange::with_len(3, 1), ..claim() },
        TicketClaim { layers: LayerRange::with_len(2, 3), ..claim() },
        TicketClaim { model: ModelDigest([5; 32]), ..claim() },
        TicketClaim { dtype: ActivationDtype::F16, ..claim() },
        TicketClaim { positions_max: 65, ..claim() },
    ];
    for claim in bent {
        assert_eq!(scene.relay(GUEST, &claim).await.1, Some(ErrorCode::BadRequest), "{claim:?}");
    }
    let unknown = TicketClaim { session: 41, ..claim() };
    assert_eq!(scene.relay(GUEST, &unknown).await.1, Some(ErrorCode::NotFound));
    // The same words by another requester mean a call of that one.
    assert_eq!(scene.relay(CARRIER, &claim()).await.1, Some(ErrorCode::NotFound));
    // Shown twice, it is good once.
    let (mut carrier, refused) = scene.relay(GUEST, &claim()).await;
    assert_eq!((refused, heard(&mut carrier).await), (None, "onward: None".to_owned()));
    assert_eq!(scene.relay(GUEST, &claim()).await.1, Some(ErrorCode::NotFound));
    scene.tasks.cancel();
}

#[tokio::test]
async fn a_call_that_has_begun_or_is_over_takes_no_carrier() {
    let mut begun = scene().await;
    begun.guest.send_tensor(step(0), ROW).await.unwrap();
    assert_eq!(begun.worker_hears().await, "step 0");
    assert_eq!(begun.relay(GUEST, &claim()).await.1, Some(ErrorCode::NotFound));
    begun.tasks.cancel();

    let Scene { chains, guest, mut worker, tasks, .. } = scene().await;
    guest.close(None);
    assert!(worker.recv().await.is_err());
    // The name goes with the passage, which ends when it has told the worker.
    while !chains.named.all().is_empty() {
        tokio::task::yield_now().await;
    }
    let (_near, far, _link) = call::<Message>(&tasks).await;
    let refused =
        join(&chains.named, &admitted(GUEST), &claim(), far).map_err(|(_, error)| error.code);
    assert_eq!(refused, Err(ErrorCode::NotFound));
    tasks.cancel();
}

#[tokio::test]
async fn a_second_call_of_the_same_name_takes_nothing_from_the_first() {
    let mut scene = scene().await;
    let (second, mut arrival) = scene.chains.member(&admitted(GUEST), open());
    // The same word of another requester is another name.
    let (others, mut of_other) = scene.chains.member(&admitted(CARRIER), open());
    assert_eq!(scene.chains.named.all().len(), 2);
    assert!(arrival.try_recv().is_err_and(|error| error == TryRecvError::Closed));
    assert!(of_other.try_recv().is_err_and(|error| error == TryRecvError::Empty));
    // Its end takes no name away, and the ticket means the first call still.
    drop(second);
    drop(others);
    let (mut carrier, refused) = scene.relay(GUEST, &claim()).await;
    assert_eq!((refused, heard(&mut carrier).await), (None, "onward: None".to_owned()));
    // Also once it has its carrier.
    let (late, mut arrival) = scene.chains.member(&admitted(GUEST), open());
    assert!(arrival.try_recv().is_err_and(|error| error == TryRecvError::Closed));
    assert_eq!(scene.relay(GUEST, &claim()).await.1, Some(ErrorCode::NotFound));
    drop(late);
    carrier.send_tensor(step(0), ROW).await.unwrap();
    assert_eq!(scene.worker_hears().await, "step 0");
    scene.tasks.cancel();
}

#[tokio::test]
async fn a_carrier_may_bring_steps_and_nothing_else() {
    let mut scene = scene().await;
    let (mut carrier, _) = scene.relay(GUEST, &claim()).await;
    assert_eq!(heard(&mut carrier).await, "onward: None");
    carrier.send(Message::Truncate { position: 0 }).await.unwrap();
    assert_eq!(heard(&mut scene.guest).await, "onward: Some(BadRequest)");
    // It had brought no step, so the requester goes on by itself.
    scene.guest.send_tensor(step(0), ROW).await.unwrap();
    assert_eq!(scene.worker_hears().await, "step 0");
    scene.tasks.cancel();
}

/// An outlet whose results go on.
struct GoingOn {
    outlet: Outlet,
    to_guest: CallSender<Message>,
    guest: Call<Message>,
    next: Call<Message>,
    tasks: Tasks,
    _open: Vec<Box<dyn std::any::Any>>,
}

async fn going_on() -> GoingOn {
    let tasks = Tasks::new();
    let (relay, next, relay_link) = call::<Message>(&tasks).await;
    let (inner, mut guest, guest_link) = call::<Message>(&tasks).await;
    let mut outlet = Outlet::new(watch::channel(Arc::default()).1);
    let (mut to_guest, unread) = inner.split();
    outlet.heed(Notice::Onward { call: relay, next: CARRIER }, &mut to_guest).await.unwrap();
    assert_eq!(heard(&mut guest).await, "onward: None");
    let open: Vec<Box<dyn std::any::Any>> = vec![relay_link, guest_link, Box::new(unread)];
    GoingOn { outlet, to_guest, guest, next, tasks, _open: open }
}

const BEFORE: PrefixHash = PrefixHash([3; 16]);
const AFTER: PrefixHash = PrefixHash([4; 16]);

fn result_head(step: u64, count: u32, bulk: bool) -> ResultHead {
    ResultHead {
        step,
        position: 8,
        count,
        hidden: 2,
        dtype: ActivationDtype::F32,
        compute_us: 6,
        queue_us: 7,
        bulk,
    }
}

impl GoingOn {
    async fn deliver(&mut self, message: Message) -> Result<(), CallError> {
        self.outlet.deliver(message, Some((BEFORE, AFTER)), &mut self.to_guest).await
    }
}

fn chunk(offset: u64, len: usize, last: bool) -> Message {
    Message::Chunk(Chunk { offset, bytes: vec![5; len].into(), last })
}

#[tokio::test]
async fn a_result_goes_on_as_the_step_that_follows_and_the_guest_hears_no_rows() {
    for bulk in [false, true] {
        let mut on = going_on().await;
        on.deliver(Message::Result(result_head(9, 1, bulk))).await.unwrap();
        on.deliver(chunk(0, 8, true)).await.unwrap();
        let Ok(Message::Step(head)) = on.next.recv().await else { panic!("no step came") };
        let expected = StepHead {
            step: 9,
            position: 8,
            count: 1,
            hidden: 2,
            dtype: ActivationDtype::F32,
            history_before: BEFORE,
            history_after: AFTER,
            bulk,
        };
        assert_eq!(head, expected, "the lane too is that of the result");
        assert_eq!(heard(&mut on.next).await, "rows");
        let passed = Passed { step: 9, compute_us: 6, queue_us: 7 };
        assert_eq!(on.guest.recv().await, Ok(Message::Passed(passed)));
        // What is no result is for the guest.
        on.deliver(Message::refusal(ErrorCode::OutOfMemory)).await.unwrap();
        assert!(matches!(on.guest.recv().await, Ok(Message::Error(_))));
        on.tasks.cancel();
    }
}

#[tokio::test]
async fn what_is_remembered_goes_to_the_guest_alone() {
    let mut on = going_on().await;
    for first in [0, 1] {
        let head = KvPieceHead { first, count: 1, bytes: 16, position: 2, mark: AFTER };
        on.deliver(Message::KvCachePiece(head)).await.unwrap();
        on.deliver(chunk(0, 8, false)).await.unwrap();
        on.deliver(chunk(8, 8, true)).await.unwrap();
        for expected in [format!("caches {first}"), "rows".to_owned(), "rows".to_owned()] {
            assert_eq!(heard(&mut on.guest).await, expected);
        }
    }
    // The next host gets the result behind it, and nothing before that.
    on.deliver(Message::Result(result_head(9, 1, false))).await.unwrap();
    on.deliver(chunk(0, 8, true)).await.unwrap();
    assert!(matches!(on.next.recv().await, Ok(Message::Step(_))));
    assert_eq!(heard(&mut on.guest).await, "passed 9");
    on.tasks.cancel();
}

#[tokio::test]
async fn a_slow_next_host_stops_this_one_after_a_window_of_chunks() {
    let mut on = going_on().await;
    let count = CREDIT_WINDOW + 4;
    on.deliver(Message::Result(result_head(9, count, true))).await.unwrap();
    let mut sent = 0;
    while sent < count {
        let next = on.deliver(chunk(u64::from(sent) * 8, 8, false));
        // Nothing here waits for time: either it is taken now, or there is no credit.
        if tokio::time::timeout(Duration::ZERO, next).await.is_err() {
            break;
        }
        sent += 1;
    }
    assert_eq!(sent, CREDIT_WINDOW, "no more than credit allows is held between the two");
    // As soon as the next host takes some, it goes on.
    assert!(matches!(on.next.recv().await, Ok(Message::Step(_))));
    for _ in 0..CREDIT_WINDOW {
        assert_eq!(heard(&mut on.next).await, "rows");
    }
    on.deliver(chunk(u64::from(sent) * 8, 8, false)).await.unwrap();
    assert_eq!(heard(&mut on.next).await, "rows");
    on.tasks.cancel();
}

#[tokio::test]
async fn when_the_next_host_is_gone_results_go_nowhere_and_the_guest_is_told_once() {
    let GoingOn { mut outlet, mut to_guest, mut guest, next, tasks, _open } = going_on().await;
    next.close(Some(ErrorCode::Busy));
    // Noticed between two results; the passage tells the guest.
    assert_eq!(outlet.broken().await, ErrorCode::Busy);
    let late = [Message::Result(result_head(9, 1, false)), chunk(0, 8, true)];
    for message in late.into_iter().chain([Message::refusal(ErrorCode::TooLong)]) {
        outlet.deliver(message, Some((BEFORE, AFTER)), &mut to_guest).await.unwrap();
    }
    assert!(matches!(guest.recv().await, Ok(Message::Error(_))), "something came before it");
    tasks.cancel();

    // Noticed in the middle of one.
    let GoingOn { mut outlet, mut to_guest, mut guest, next, tasks, _open } = going_on().await;
    let head = Message::Result(result_head(9, 2, false));
    outlet.deliver(head, Some((BEFORE, AFTER)), &mut to_guest).await.unwrap();
    next.close(Some(ErrorCode::Draining));
    let mut offset = 0;
    while outlet.goes_on() {
        outlet.deliver(chunk(offset, 8, false), None, &mut to_guest).await.unwrap();
        offset += 8;
        tokio::task::yield_now().await;
    }
    assert_eq!(heard(&mut guest).await, "onward: Some(Draining)");
    tasks.cancel();
}

#[tokio::test]
async fn a_device_that_is_trusted_no_more_gets_nothing_more() {
    let tasks = Tasks::new();
    let (relay, mut next, _relay_link) = call::<Message>(&tasks).await;
    let (inner, mut guest, _guest_link) = call::<Message>(&tasks).await;
    let (book, heard_book) = watch::channel(Arc::new(AdvertBook::default()));
    let mut outlet = Outlet::new(heard_book);
    let (mut to_guest, _unread) = inner.split();
    outlet.heed(Notice::Onward { call: relay, next: CARRIER }, &mut to_guest).await.unwrap();
    assert_eq!(heard(&mut guest).await, "onward: None");
    let barred = [CARRIER].into();
    book.send_replace(Arc::new(AdvertBook { barred, ..AdvertBook::default() }));
    assert_eq!(outlet.broken().await, ErrorCode::TrustDenied);
    assert_eq!(heard(&mut next).await, "closed: Some(Cancelled)");
    tasks.cancel();
}

#[test]
fn no_more_steps_are_noted_than_their_limit_and_each_answers_its_own() {
    let head = |number: u64| match step(number) {
        Message::Step(head) => head,
        _ => panic!("a step"),
    };
    let mut noted = Noted::default();
    for number in 0..STEPS_NOTED_MAX as u64 {
        assert!(noted.note(&head(number)));
    }
    assert!(!noted.note(&head(64)));
    assert!(noted.take(0).is_some());
    assert_eq!(noted.take(5), None, "out of turn");
}

#[tokio::test(start_paused = true)]
async fn a_call_on_which_nothing_is_asked_is_refused_after_the_limit() {
    let tasks = Tasks::new();
    // What opened the call was read; nothing follows it.
    let (mut near, silent, _link) = call::<Message>(&tasks).await;
    let audit = Audit::new(AuditList::default(), watch::channel(Arc::default()).1);
    let tools = || (Giving::new(Traffic::default()), mpsc::channel(1).0, audit.clone());
    let refusal = || (error(ErrorCode::TrustDenied, ""), AuditWhy::TooLittleTrust);
    let nobody = || (CARRIER, Err(error(ErrorCode::TrustDenied, "")));
    tasks.spawn("refuse", relay_or_refuse(nobody(), silent, refusal(), tools()));
    let told = tokio::time::timeout(Duration::from_secs(3600), near.recv()).await;
    let Ok(Ok(Message::Error(told))) = told else { panic!("it waits for ever") };
    assert_eq!(told.code, ErrorCode::PipelineStalled);
    assert_eq!(heard(&mut near).await, "closed: Some(PipelineStalled)");
    // One that asks is answered as before.
    let (mut near, far, _link) = call::<Message>(&tasks).await;
    near.send(Message::Open(open())).await.unwrap();
    relay_or_refuse(nobody(), far, refusal(), tools()).await;
    let Ok(Message::Error(told)) = near.recv().await else { panic!("no answer") };
    assert_eq!(told.code, ErrorCode::TrustDenied);
    let noted = audit.view(clock::now(), clock::unix_seconds());
    let [one] = noted.as_slice() else { panic!("{noted:?}") };
    let why = views::AuditWhy::TooLittleTrust;
    assert_eq!(one.outcome, views::AuditOutcome::Refused { why });
    assert_eq!(one.device_id, Some(CARRIER.to_string()));
    tasks.cancel();
}
