//! Streams are counted exactly, and who is too many is told so at once.

use std::sync::Arc;

use nook_base::ErrorCode;
use tokio::sync::{Barrier, mpsc};

use crate::host::{Host, Opening, Refused, layers};

const OPENERS: usize = 1_000;
const STREAMS: u16 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t10_a_thousand_openers_at_once_get_exactly_the_streams_that_there_are() {
    let host = Arc::new(Host::start(STREAMS, 1 << 30).await);
    let start = Arc::new(Barrier::new(OPENERS));
    let (tell, mut told) = mpsc::channel(OPENERS);
    let part = layers(1, 2);
    for _ in 0..OPENERS {
        let (host, start, tell) = (Arc::clone(&host), Arc::clone(&start), tell.clone());
        host.clone().tasks.spawn("opener", async move {
            start.wait().await;
            let _ = tell.send(host.open(Opening::of(1, part)).await).await;
        });
    }
    drop(tell);
    let mut open = Vec::new();
    for _ in 0..OPENERS {
        match told.recv().await.expect("every opener is answered") {
            Ok(talk) => open.push(talk),
            Err(refused) => assert_eq!(refused, Refused(ErrorCode::Busy)),
        }
    }
    assert_eq!(open.len(), usize::from(STREAMS));
    let status = host.status().await;
    assert_eq!((status.guest_sessions, status.sessions), (STREAMS, STREAMS));
    // Each that ends makes room for one, and the streams that ran go on.
    drop(open.pop());
    host.until("a free stream", |status| status.guest_sessions == STREAMS - 1).await;
    open.push(host.open(Opening::of(1, part)).await.unwrap());
    assert_eq!(host.open(Opening::of(1, part)).await.err(), Some(Refused(ErrorCode::Busy)));
    for (seed, talk) in (0..).zip(open) {
        let mut talk = talk.seeded(seed);
        assert!(talk.step(1).await.is_ok());
    }
    host.until("the end of all", |status| status.sessions == 0).await;
}

#[tokio::test]
async fn busy_is_answered_while_the_model_computes() {
    let host = Host::start(1, 1 << 30).await;
    let part = layers(0, 4);
    let mut only = host.open(Opening::of(1, part)).await.unwrap();
    only.send(500).await.unwrap();
    let refused = host.open(Opening::of(2, part)).await.err();
    assert_eq!(refused, Some(Refused(ErrorCode::Busy)));
    assert!(only.receive().await.is_ok());
}
