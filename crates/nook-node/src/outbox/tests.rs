//! Boards over real connections in memory.

use std::sync::Arc;

use nook_base::{ErrorCode, LayerRange, ModelDigest};
use nook_mux::{Incoming, MuxConfig, PingPolicy, Side, framed};
use nook_wire::{Advert, OffloadOffers, PlaceState, Placed, PlacementRequest, PrefixHash};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use super::*;

const PEER: PeerId = PeerId([1; 32]);

type Hearing = mpsc::Receiver<Incoming<Message>>;
type Heard = (Mux<Message>, Hearing);

fn mux(stream: DuplexStream, side: Side, tasks: &Tasks) -> Heard {
    let config = MuxConfig { side, ping: PingPolicy::WORKER, calls_max: 4 };
    Mux::start(framed(stream), config, tasks)
}

/// Outbox with a link, what else has to live for it, and what is heard at its other end.
fn linked(tasks: &Tasks) -> (Outbox, Heard, Hearing) {
    let (here, there) = tokio::io::duplex(1 << 16);
    let (near, control) = mux(here, Side::Dialer, tasks);
    let (far, incoming) = mux(there, Side::Acceptor, tasks);
    let mut outbox = Outbox::default();
    assert!(outbox.linked(PEER, near, tasks).is_empty());
    (outbox, (far, control), incoming)
}

/// An advert that its number tells apart.
fn advert(number: u16) -> Message {
    Message::Advert(Advert {
        sharing: true,
        shards: Vec::new(),
        streams_free: number,
        queue_depth: 0,
        memory_free_bytes: 0,
        fetch_bytes: 0,
    })
}

/// The number of the next advert; other words are passed over.
async fn next_advert(incoming: &mut Hearing) -> u16 {
    loop {
        match incoming.recv().await.expect("the connection lives") {
            Incoming::Control(Message::Advert(advert)) => return advert.streams_free,
            Incoming::Control(_) => {}
            Incoming::Call(_) => panic!("nobody calls"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_said_last_is_heard_last() {
    // No more than may wait at the other end.
    const WORDS: u16 = 40;
    let tasks = Tasks::new();
    let (outbox, _ends, mut incoming) = linked(&tasks);
    let outbox = Arc::new(outbox);
    let mut last = 0;
    for round in 1..=20 {
        let (first, outbox) = (last + 1, Arc::clone(&outbox));
        // As the node's event loop does it: in a task, and several of them without a pause.
        tasks.spawn("loop", async move {
            for number in first..=round * WORDS {
                outbox.post(PEER, advert(number));
                if number % 4 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        while last < round * WORDS {
            let next = next_advert(&mut incoming).await;
            assert!(next > last, "{next} was heard behind {last}");
            last = next;
        }
    }
    tasks.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_had_no_room_hears_the_newest_of_each_kind_once() {
    let tasks = Tasks::new();
    let (here, there) = tokio::io::duplex(64);
    let (near, _control) = mux(here, Side::Dialer, &tasks);
    // Nobody reads at the other end yet, and what may wait waits.
    let filling = Message::Draining { sentence: String::new() };
    // (Paused time passes only when nobody has anything to do.)
    let moment = Duration::from_millis(1);
    while tokio::time::timeout(moment, near.send(filling.clone())).await.is_ok() {}
    let mut outbox = Outbox::default();
    assert!(outbox.linked(PEER, near, &tasks).is_empty());
    outbox.post(PEER, advert(1));
    // The task waits for room with it.
    tokio::task::yield_now().await;
    for number in 2..=9 {
        outbox.post(PEER, advert(number));
        outbox.post(PEER, Message::OffloadOffers(OffloadOffers::default()));
    }
    tokio::time::advance(ROOM_LIMIT + Duration::from_secs(1)).await;
    tokio::task::yield_now().await;
    let (heard, mut words) = mpsc::channel(2);
    let (_far, mut incoming) = mux(there, Side::Acceptor, &tasks);
    // A task like the connection's, so that it takes as much as that one brings.
    tasks.spawn("reader", async move {
        while let Some(Incoming::Control(message)) = incoming.recv().await {
            let word = match message {
                Message::Draining { .. } => continue,
                Message::Advert(advert) => format!("advert {}", advert.streams_free),
                other => format!("{:?}", other.kind()),
            };
            if heard.send(word).await.is_err() {
                return;
            }
        }
    });
    let heard = [words.recv().await, words.recv().await].map(Option::unwrap);
    assert_eq!(heard, ["advert 9", "OffloadOffers"]);
    tasks.cancel();
}

#[tokio::test]
async fn a_link_that_is_back_hears_nothing_of_the_one_before() {
    let tasks = Tasks::new();
    let mut outbox = Outbox::default();
    outbox.post(PEER, advert(1));
    assert!(outbox.peers().is_empty());
    let mut number = 1;
    for _ in 0..2 {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (near, _control) = mux(here, Side::Dialer, &tasks);
        let (_far, mut incoming) = mux(there, Side::Acceptor, &tasks);
        assert!(outbox.linked(PEER, near, &tasks).is_empty());
        assert_eq!(outbox.peers(), [PEER]);
        number += 1;
        outbox.post(PEER, advert(number));
        assert_eq!(next_advert(&mut incoming).await, number);
        outbox.gone(PEER);
    }
    tasks.cancel();
}

fn kept(position: u32) -> KeptHistory {
    KeptHistory { model: ModelDigest([3; 32]), position, mark: PrefixHash([9; 16]) }
}

fn wish(model: u8, start: u32) -> Message {
    let layers = LayerRange::with_len(start, 2);
    Message::Place(PlacementRequest { model: ModelDigest([model; 32]), layers })
}

fn answer(model: u8, state: PlaceState) -> Message {
    let layers = LayerRange::with_len(1, 2);
    Message::Placed(Placed { model: ModelDigest([model; 32]), layers, state })
}

/// What would be said after these were posted without a pause.
fn waiting(posted: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let mut words = Words::default();
    posted.into_iter().for_each(|message| words.post(message));
    words.waiting.into_iter().map(|word| word.message).collect()
}

#[test]
fn of_each_model_the_newest_wish_and_the_newest_answer_wait_and_every_drop() {
    let loading = |percent| answer(1, PlaceState::Loading { percent });
    let refused = answer(2, PlaceState::Refused { code: ErrorCode::Busy });
    let said = waiting([
        wish(1, 0),
        Message::DropKept(kept(1)),
        wish(2, 0),
        loading(10),
        advert(1),
        wish(1, 4),
        Message::DropKept(kept(2)),
        refused.clone(),
        advert(2),
        loading(20),
        Message::DropKept(kept(1)),
        answer(1, PlaceState::Held),
    ]);
    let expected = [
        wish(2, 0),
        wish(1, 4),
        Message::DropKept(kept(2)),
        refused,
        advert(2),
        Message::DropKept(kept(1)),
        answer(1, PlaceState::Held),
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_device_that_takes_nothing_makes_no_more_wait_than_the_limit() {
    let count = u32::try_from(WORDS_MAX).unwrap() + 3;
    let drops = (0..count).map(|position| Message::DropKept(kept(position)));
    let said = waiting(std::iter::once(advert(1)).chain(drops));
    assert_eq!(said.len(), WORDS_MAX + 1, "the others of its kind go, and no other");
    assert_eq!((&said[0], &said[1]), (&advert(1), &Message::DropKept(kept(3))));
    let mut outbox = Outbox::default();
    (0..count).for_each(|position| outbox.owe(PEER, kept(position)));
    assert_eq!((outbox.owed[&PEER].len(), outbox.owed[&PEER][0]), (WORDS_MAX, kept(3)));
    outbox.forget(PEER);
    assert!(outbox.owed.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_drop_is_heard_in_order_though_other_words_overtake_each_other() {
    // Fewer words than may wait at the other end, which may get no turn on a busy machine.
    const ROUNDS: u32 = 30;
    let tasks = Tasks::new();
    let (outbox, _ends, mut incoming) = linked(&tasks);
    tasks.spawn("loop", async move {
        for round in 0..ROUNDS {
            outbox.post(PEER, Message::DropKept(kept(round)));
            outbox.post(PEER, wish(1, round));
            tokio::task::yield_now().await;
        }
        std::future::pending::<()>().await;
    });
    let (mut dropped, mut wished) = (Vec::new(), Vec::new());
    while dropped.len() < ROUNDS as usize || wished.last() != Some(&(ROUNDS - 1)) {
        match incoming.recv().await {
            Some(Incoming::Control(Message::DropKept(kept))) => dropped.push(kept.position),
            Some(Incoming::Control(Message::Place(wish))) => wished.push(wish.layers.start()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(dropped, (0..ROUNDS).collect::<Vec<_>>());
    assert!(wished.is_sorted(), "{wished:?}");
    tasks.cancel();
}

#[tokio::test]
async fn what_a_link_was_not_rid_of_is_dropped_on_the_next_and_the_rest_is_not_said_again() {
    let tasks = Tasks::new();
    let (here, _there) = tokio::io::duplex(1 << 16);
    let (near, _control) = mux(here, Side::Dialer, &tasks);
    let mut outbox = Outbox::default();
    outbox.owe(PEER, kept(1));
    assert_eq!(outbox.linked(PEER, near.clone(), &tasks), [kept(1)]);
    // Its task has had no moment yet.
    outbox.post(PEER, Message::DropKept(kept(2)));
    outbox.post(PEER, advert(1));
    outbox.post(PEER, Message::DropKept(kept(3)));
    outbox.gone(PEER);
    assert_eq!(outbox.linked(PEER, near, &tasks), [kept(2), kept(3)]);
    assert!(outbox.linked[&PEER].board.first().is_none());
    tasks.cancel();
}

/// What the boards still keep for [`PEER`] of what it was told to drop.
fn on_the_way(outbox: &Outbox) -> usize {
    outbox.linked[&PEER].board.words().on_the_way.len()
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_link_has_taken_is_dropped_on_the_next() {
    let tasks = Tasks::new();
    // Room for all of it, and nobody at the other end who answers.
    let (here, _there) = tokio::io::duplex(1 << 16);
    let (near, _control) = mux(here, Side::Dialer, &tasks);
    let mut outbox = Outbox::default();
    assert!(outbox.linked(PEER, near.clone(), &tasks).is_empty());
    let drops = || (1..=3).map(kept);
    drops().for_each(|kept| outbox.post(PEER, Message::DropKept(kept)));
    while outbox.linked[&PEER].board.first().is_some() {
        tokio::task::yield_now().await;
    }
    near.closed().await;
    outbox.gone(PEER);
    let (here, there) = tokio::io::duplex(1 << 16);
    let (near, _control) = mux(here, Side::Dialer, &tasks);
    let (_far, mut incoming) = mux(there, Side::Acceptor, &tasks);
    let owed = outbox.linked(PEER, near, &tasks);
    assert_eq!(owed, drops().collect::<Vec<_>>());
    owed.into_iter().for_each(|kept| outbox.post(PEER, Message::DropKept(kept)));
    for expected in drops() {
        let said = incoming.recv().await;
        let Some(Incoming::Control(Message::DropKept(said))) = said else { panic!("{said:?}") };
        assert_eq!(said, expected);
    }
    // The answer to the question behind them; paused time passes only when all else is done.
    tokio::time::sleep(BREATH).await;
    outbox.gone(PEER);
    assert!(outbox.owed.is_empty(), "it was heard");
    tasks.cancel();
}

#[tokio::test(start_paused = true)]
async fn no_more_is_on_the_way_than_the_other_end_may_let_wait() {
    let tasks = Tasks::new();
    let (here, there) = tokio::io::duplex(1 << 16);
    let (near, _control) = mux(here, Side::Dialer, &tasks);
    let mut outbox = Outbox::default();
    assert!(outbox.linked(PEER, near, &tasks).is_empty());
    let count = u32::try_from(WORDS_MAX).unwrap();
    (0..count).for_each(|position| outbox.post(PEER, Message::DropKept(kept(position))));
    // A link that stands still for a while, as on a bad Wi-Fi: what was said then arrives at once.
    tokio::time::sleep(10 * BREATH).await;
    assert_eq!(on_the_way(&outbox), BREATH_WORDS);
    let (_far, mut incoming) = mux(there, Side::Acceptor, &tasks);
    for position in 0..count {
        let said = incoming.recv().await;
        let Some(Incoming::Control(Message::DropKept(said))) = said else { panic!("{said:?}") };
        assert_eq!(said, kept(position));
    }
    tasks.cancel();
}

#[tokio::test]
async fn what_is_said_before_a_link_is_closed_is_heard_before_its_end() {
    let tasks = Tasks::new();
    let (here, there) = tokio::io::duplex(1 << 16);
    let (near, _control) = mux(here, Side::Dialer, &tasks);
    let (_far, mut incoming) = mux(there, Side::Acceptor, &tasks);
    let mut outbox = Outbox::default();
    assert!(outbox.linked(PEER, near.clone(), &tasks).is_empty());
    for position in 0..9 {
        outbox.post(PEER, Message::DropKept(kept(position)));
    }
    outbox.say_now(PEER);
    near.close(Some(ErrorCode::TrustDenied));
    for position in 0..9 {
        let said = incoming.recv().await;
        let Some(Incoming::Control(Message::DropKept(said))) = said else { panic!("{said:?}") };
        assert_eq!(said, kept(position));
    }
    assert!(incoming.recv().await.is_none());
    assert!(outbox.linked[&PEER].board.first().is_none(), "all of it was said");
    tasks.cancel();
}
