//! Boards over real connections in memory.

use std::sync::Arc;

use nook_mux::{Incoming, MuxConfig, PingPolicy, Side, framed};
use nook_wire::{Advert, WholeOffers};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use super::*;

const PEER: PeerId = PeerId([1; 32]);

type Heard = (Mux<Message>, mpsc::Receiver<Incoming<Message>>);

fn mux(stream: DuplexStream, side: Side, tasks: &Tasks) -> Heard {
    let config = MuxConfig { side, ping: PingPolicy::WORKER, calls_max: 4 };
    Mux::start(framed(stream), config, tasks)
}

/// An advert that its number tells apart.
fn advert(number: u16) -> Message {
    Message::Advert(Advert {
        sharing: true,
        shards: Vec::new(),
        streams_free: number,
        queue_depth: 0,
        memory_free_bytes: 0,
    })
}

/// The number of the next advert; other words are passed over.
async fn next_advert(incoming: &mut mpsc::Receiver<Incoming<Message>>) -> u16 {
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
    let (here, there) = tokio::io::duplex(1 << 16);
    let (near, _control) = mux(here, Side::Dialer, &tasks);
    let (_far, mut incoming) = mux(there, Side::Acceptor, &tasks);
    let mut bulletins = Bulletins::default();
    bulletins.linked(PEER, near, &tasks);
    let bulletins = Arc::new(bulletins);
    let mut last = 0;
    for round in 1..=20 {
        let (first, bulletins) = (last + 1, Arc::clone(&bulletins));
        // As the house loop does it: in a task, and several of them without a pause.
        tasks.spawn("loop", async move {
            for number in first..=round * WORDS {
                bulletins.post(PEER, advert(number));
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
    let mut bulletins = Bulletins::default();
    bulletins.linked(PEER, near, &tasks);
    bulletins.post(PEER, advert(1));
    // The task waits for room with it.
    tokio::task::yield_now().await;
    for number in 2..=9 {
        bulletins.post(PEER, advert(number));
        bulletins.post(PEER, Message::WholeOffers(WholeOffers::default()));
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
    assert_eq!(heard, ["advert 9", "WholeOffers"]);
    tasks.cancel();
}

#[tokio::test]
async fn a_link_that_is_back_hears_nothing_of_the_one_before() {
    let tasks = Tasks::new();
    let mut bulletins = Bulletins::default();
    bulletins.post(PEER, advert(1));
    assert!(bulletins.peers().is_empty());
    let mut number = 1;
    for _ in 0..2 {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (near, _control) = mux(here, Side::Dialer, &tasks);
        let (_far, mut incoming) = mux(there, Side::Acceptor, &tasks);
        bulletins.linked(PEER, near, &tasks);
        assert_eq!(bulletins.peers(), [PEER]);
        number += 1;
        bulletins.post(PEER, advert(number));
        assert_eq!(next_advert(&mut incoming).await, number);
        bulletins.gone(PEER);
    }
    tasks.cancel();
}
