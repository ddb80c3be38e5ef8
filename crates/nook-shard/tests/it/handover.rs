//! A conversation moves from one worker to another, with the very bits, or the taker says that it
//! does not.

use bytes::Bytes;
use nook_base::ErrorCode;
use nook_wire::{KvPieceHead, Message, WorkerMessage};

use crate::host::{Host, Opening, Refused, Talk, answer, bits, layers, mark};

const PLENTY: u64 = 1 << 30;

fn part() -> nook_base::LayerRange {
    layers(1, 2)
}

/// Asks for all that is remembered of a conversation.
async fn given(talk: &mut Talk) -> Result<Vec<(KvPieceHead, Bytes)>, Refused> {
    talk.call.send(Message::RequestKvCache.into()).await.unwrap();
    let mut pieces = Vec::new();
    loop {
        let WorkerMessage::Peer(Message::KvCachePiece(head)) = answer(&mut talk.call).await? else {
            panic!("something else than what is remembered");
        };
        let bytes = talk.call.recv_kv_piece(&head).await.unwrap();
        pieces.push((head, bytes));
        if head.is_last() {
            return Ok(pieces);
        }
    }
}

/// Gives a conversation what another remembered.
async fn taken(talk: &mut Talk, pieces: &[(KvPieceHead, Bytes)]) -> Result<u32, Refused> {
    for (head, bytes) in pieces {
        let head = Message::KvCachePiece(*head).into();
        // Whoever refuses one piece has closed the call before the next.
        let _ = talk.call.send_tensor(head, bytes.clone()).await;
    }
    match answer(&mut talk.call).await? {
        WorkerMessage::Peer(Message::KvCacheTaken { position }) => Ok(position),
        other => panic!("what was given was answered by {other:?}"),
    }
}

/// A conversation of 300 rows and a few more.
async fn talk(host: &Host) -> Talk {
    let mut talk = host.open(Opening::of(1, part())).await.unwrap().seeded(5);
    talk.walk(&[128, 128, 44, 1, 1]).await.unwrap();
    talk
}

#[tokio::test]
async fn a_conversation_goes_on_elsewhere_with_the_bits_of_one_that_never_moved() {
    let (old, new) = (Host::start(4, PLENTY).await, Host::start(4, PLENTY).await);
    let mut before = talk(&old).await;
    let pieces = given(&mut before).await.unwrap();
    let last = pieces.last().unwrap().0;
    assert_eq!((last.position, last.mark), (302, mark(5, 302)));
    let mut after = new.open(Opening::of(2, part())).await.unwrap().seeded(5);
    assert_eq!(taken(&mut after, &pieces).await, Ok(302));
    after.position = 302;
    let got = after.walk(&[1, 1, 40]).await.unwrap();
    assert_eq!(bits(&got), bits(&old.alone(part(), 5, 344)[302 * 64..]));
    assert_eq!(new.status().await.steps_done, 3, "nothing was computed twice");
    // The giver still has it, and goes on with it too.
    assert_eq!(bits(&before.step(1).await.unwrap()), bits(&old.alone(part(), 5, 303)[302 * 64..]));
    // And the taker may keep it for turn two like its own.
    let point = after.point();
    after.close();
    new.until("what is retained", |status| status.parked == 1).await;
    let again = Opening { resume: Some(point), ..Opening::of(2, part()) };
    assert!(new.open(again).await.is_ok());
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let (old, new) = (Host::start(4, PLENTY).await, Host::start(4, PLENTY).await);
    let mut before = talk(&old).await;
    let pieces = given(&mut before).await.unwrap();
    let (head, bytes) = pieces[0].clone();
    let one = |head, bytes| vec![(head, bytes)];
    let cut = bytes.slice(..bytes.len() - 1);
    let spoiled: Bytes = bytes.iter().map(|byte| byte ^ 0x55).collect();
    let longer = KvPieceHead { position: 601, ..head };
    let cases = [
        (one(KvPieceHead { first: 1, ..head }, bytes.clone()), part(), "a gap"),
        (one(KvPieceHead { bytes: head.bytes - 1, ..head }, cut), part(), "cut"),
        (one(head, spoiled), part(), "noise"),
        (one(longer, bytes.clone()), part(), "beyond the window"),
        (
            one(KvPieceHead { count: 1, position: 1, ..head }, bytes.clone()),
            part(),
            "a false count",
        ),
        (one(head, bytes.clone()), layers(1, 3), "more layers"),
        (one(head, bytes.clone()), layers(2, 2), "other layers"),
        (one(head, bytes), layers(1, 1), "fewer layers"),
    ];
    for (pieces, layers, what) in cases {
        let mut after = new.open(Opening::of(2, layers)).await.unwrap().seeded(5);
        let refused = taken(&mut after, &pieces).await.err();
        let codes = [ErrorCode::HistoryMismatch, ErrorCode::BadRequest];
        assert!(refused.is_some_and(|refused| codes.contains(&refused.0)), "{what}: {refused:?}");
    }
    new.until("the end of all", |status| status.sessions == 0).await;
    let status = new.status().await;
    assert_eq!((status.parked, status.cache_bytes), (0, 0));
}

#[tokio::test]
async fn nothing_is_given_where_nothing_is_remembered() {
    let host = Host::start(4, PLENTY).await;
    let mut talk = host.open(Opening::of(1, part())).await.unwrap();
    assert_eq!(given(&mut talk).await.err(), Some(Refused(ErrorCode::HistoryMismatch)));
}
