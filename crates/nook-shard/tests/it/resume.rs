//! Turn two: a conversation goes on where its last call ended, or the caller is told that it
//! cannot.

use nook_base::{ActivationDtype, ErrorCode, LayerRange, ModelPart, PeerId, Sensitive};
use nook_model::{Input, LogitRows, Output};
use nook_mux::Call;
use nook_wire::{KeptHistory, LocalMessage, Message, ResumePoint, WorkerMessage};

use crate::host::{
    Host, MODEL, Opening, Refused, Talk, WINDOW, answer, bits, layers, limits, mark, own, point,
};

const PLENTY: u64 = 1 << 30;
const FORGOTTEN: Refused = Refused(ErrorCode::HistoryMismatch);

fn part() -> LayerRange {
    layers(1, 2)
}

/// A conversation of `seed` with `peer`: 40 rows, then three more, closed cleanly.
async fn first_turn(host: &Host, peer: u8, seed: u32) -> ResumePoint {
    let before = host.status().await.parked;
    let mut talk = host.open(Opening::of(peer, part())).await.unwrap().seeded(seed);
    let got = talk.walk(&[40, 1, 1, 1]).await.unwrap();
    assert_eq!(bits(&got), bits(&host.alone(part(), seed, 43)));
    let end = talk.point();
    talk.close();
    host.until("what is retained", |status| status.parked == before + 1 && status.sessions == 0)
        .await;
    end
}

fn again(peer: u8, resume: ResumePoint) -> Opening {
    Opening { resume: Some(resume), ..Opening::of(peer, part()) }
}

#[tokio::test]
async fn a_second_turn_computes_only_what_is_new_and_has_the_bits_of_one_that_never_paused() {
    let host = Host::start(4, PLENTY).await;
    let end = first_turn(&host, 1, 5).await;
    let kept = host.status().await;
    assert_eq!((kept.parked, kept.cache_bytes, kept.sessions), (1, 0, 0));
    assert!(kept.parked_bytes > 0);
    // At the end of the first turn, with a larger window.
    let wider = Opening { positions_max: WINDOW + 50, ..again(1, end) };
    let mut talk = host.open(wider).await.unwrap().seeded(5);
    assert_eq!(talk.position, 43);
    let got = talk.walk(&[20, 1]).await.unwrap();
    assert_eq!(bits(&got), bits(&host.alone(part(), 5, 64)[43 * 64..]));
    let status = host.status().await;
    assert_eq!((status.parked, status.parked_bytes), (0, 0));
    assert_eq!(status.steps_done - kept.steps_done, 2);
    talk.close();
    host.until("what is retained", |status| status.parked == 1).await;
    // Regenerated or edited: back to where the prompt of the first turn ended.
    let mut talk = host.open(again(1, point(5, 40))).await.unwrap().seeded(5);
    let got = talk.walk(&[1, 2]).await.unwrap();
    assert_eq!(bits(&got), bits(&host.alone(part(), 5, 43)[40 * 64..]));
}

#[tokio::test]
async fn t7_a_conversation_is_found_by_nobody_else_and_under_no_other_name() {
    let host = Host::start(4, PLENTY).await;
    let end = first_turn(&host, 1, 5).await;
    let f16 = ActivationDtype::F16;
    let refused = [
        again(2, end),
        Opening { peer: None, ..again(1, end) },
        Opening { layers: layers(1, 3), ..again(1, end) },
        Opening { layers: layers(2, 2), ..again(1, end) },
        Opening { dtype: f16, ..again(1, end) },
        Opening { positions_max: 42, ..again(1, end) },
        again(1, point(6, 43)),
        again(1, ResumePoint { position: 42, ..end }),
        again(1, ResumePoint { position: 44, ..end }),
        again(1, ResumePoint { position: u32::MAX, ..end }),
        // No step ended there.
        again(1, point(5, 39)),
    ];
    for opening in refused {
        assert_eq!(host.open(opening).await.err(), Some(FORGOTTEN), "{opening:?}");
    }
    // None of them took or changed anything.
    assert_eq!(host.status().await.parked, 1);
    let mut talk = host.open(again(1, end)).await.unwrap().seeded(5);
    assert_eq!(bits(&talk.step(1).await.unwrap()), bits(&host.alone(part(), 5, 44)[43 * 64..]));
    // It is out now; a second call does not get it too, and from 0 all goes well.
    assert_eq!(host.open(again(1, end)).await.err(), Some(FORGOTTEN));
    let mut anew = host.open(Opening::of(1, part())).await.unwrap().seeded(5);
    assert_eq!(bits(&anew.step(43).await.unwrap()), bits(&host.alone(part(), 5, 43)));
}

#[tokio::test]
async fn t7_a_step_after_the_return_must_continue_the_very_history() {
    let host = Host::start(4, PLENTY).await;
    let end = first_turn(&host, 1, 5).await;
    let mut talk = host.open(again(1, end)).await.unwrap().seeded(6);
    assert_eq!(talk.step(1).await.unwrap_err(), FORGOTTEN, "another conversation's rows");
    let end = first_turn(&host, 1, 5).await;
    let mut talk = host.open(again(1, end)).await.unwrap().seeded(5);
    talk.position = 44;
    assert_eq!(talk.step(1).await.unwrap_err(), FORGOTTEN, "a hole");
}

#[tokio::test]
async fn only_a_clean_end_of_a_known_guest_keeps_anything() {
    let host = Host::start(4, PLENTY).await;
    for (peer, code) in [(Some(1), Some(ErrorCode::Cancelled)), (None, None)] {
        let mut talk = host.open(Opening::of(peer, part())).await.unwrap().seeded(5);
        talk.step(3).await.unwrap();
        talk.call.close(code);
    }
    // Dropped, failed, and closed before anything was said.
    let mut dropped = host.open(Opening::of(1, part())).await.unwrap();
    dropped.step(3).await.unwrap();
    drop(dropped);
    let mut failed = host.open(Opening::of(1, part())).await.unwrap();
    failed.position = 9;
    assert_eq!(failed.step(1).await.unwrap_err(), FORGOTTEN);
    host.open(Opening::of(1, part())).await.unwrap().close();
    host.until("the end of all", |status| status.sessions == 0).await;
    let status = host.status().await;
    assert_eq!((status.parked, status.parked_bytes, status.cache_bytes), (0, 0, 0));
}

#[tokio::test]
async fn what_is_kept_makes_room_for_whoever_comes_and_can_be_forgotten() {
    // WorkerState for two and a half conversations of this window.
    let host = Host::start(4, PLENTY).await;
    let talk = host.open(Opening::of(1, part())).await.unwrap();
    let one = host.status().await.cache_bytes;
    drop(talk);
    host.until("its end", |status| status.sessions == 0).await;
    host.worker.configure(limits(4, one * 5 / 2)).await;
    let mut ends = Vec::new();
    for seed in 1..=5 {
        ends.push(first_turn(&host, 1, seed).await);
    }
    let kept = host.status().await;
    assert!(kept.parked == 5 && kept.parked_bytes < one, "{kept:?}");
    // Two that run leave room for some of them only, and those used longest ago go.
    let _first = host.open(Opening::of(2, part())).await.unwrap();
    let _second = host.open(Opening::of(2, part())).await.unwrap();
    let fewer = host.status().await;
    assert!(fewer.cache_bytes + fewer.parked_bytes <= one * 5 / 2, "{fewer:?}");
    let third = host.open(Opening::of(2, part())).await.err();
    assert_eq!(third, Some(Refused(ErrorCode::OutOfMemory)));
    host.worker.forget(Some(PeerId([2; 32]))).await;
    assert_eq!(host.status().await.parked, fewer.parked);
    host.worker.forget(Some(PeerId([1; 32]))).await;
    host.until("the forgetting", |status| status.parked == 0).await;
    assert_eq!(host.open(again(1, ends[4])).await.err(), Some(FORGOTTEN));
}

#[tokio::test]
async fn the_own_conversation_goes_on_too_and_no_guest_gets_at_it() {
    let host = Host::start(4, PLENTY).await;
    let ids: Vec<u32> = (0..30).map(|index| index * 7 % 272).collect();
    let turn = async |call: &mut Call<WorkerMessage>, from: u32, to: u32| {
        let tokens = LocalMessage::Tokens {
            step: 0,
            position: from,
            ids: Sensitive(ids[from as usize..to as usize].to_vec()),
            history_before: mark(8, from),
            history_after: mark(8, to),
            rows: LogitRows::All,
        };
        call.send(tokens.into()).await.unwrap();
        let WorkerMessage::Local(LocalMessage::Logits { count, vocabulary, .. }) =
            answer(call).await.unwrap()
        else {
            panic!("ids are answered by logits");
        };
        call.recv_logits(count, vocabulary).await.unwrap()
    };
    let mut session = host.model.session(ModelPart::whole(4), WINDOW).unwrap();
    let expected = session.step(&host.model, Input::Tokens(&ids), LogitRows::All).unwrap();
    let Output::Logits { values: expected, .. } = expected else { panic!("the part has the head") };
    let mut call = host.worker.open_call().await.unwrap();
    call.send(own(None)).await.unwrap();
    answer(&mut call).await.unwrap();
    let mut got = turn(&mut call, 0, 20).await;
    call.close(None);
    host.until("what is retained", |status| status.parked == 1).await;
    host.worker.forget(None).await;
    let whole = Opening { resume: Some(point(8, 20)), ..Opening::of(1, layers(0, 4)) };
    assert_eq!(host.open(whole).await.err(), Some(FORGOTTEN));
    let mut call = host.worker.open_call().await.unwrap();
    call.send(own(Some(point(8, 20)))).await.unwrap();
    let opened = answer(&mut call).await.unwrap();
    assert_eq!(opened, WorkerMessage::Peer(Message::Opened { position: 20 }));
    got.extend(turn(&mut call, 20, 30).await);
    assert_eq!(bits(&got), bits(&expected));
    call.close(None);
    host.until("what is retained", |status| status.parked == 1).await;
    // A call in a guest's name stays the guest's, also where the own node asks for the whole model:
    // what the owner has kept is not found, and it counts as lent.
    let mut call = host.worker.open_call_for(PeerId([3; 32])).await.unwrap();
    call.send(own(Some(point(8, 30)))).await.unwrap();
    assert_eq!(answer(&mut call).await.err(), Some(FORGOTTEN));
    let mut call = host.worker.open_call_for(PeerId([3; 32])).await.unwrap();
    call.send(own(None)).await.unwrap();
    let opened = answer(&mut call).await.unwrap();
    assert_eq!(opened, WorkerMessage::Peer(Message::Opened { position: 0 }));
    let status = host.status().await;
    assert_eq!((status.guest_sessions, status.parked), (1, 1));
}

#[tokio::test]
async fn what_its_requester_drops_is_freed_at_once_and_nothing_else() {
    let host = Host::start(4, PLENTY).await;
    let (end, stays) = (first_turn(&host, 1, 5).await, first_turn(&host, 1, 6).await);
    let kept = host.status().await;
    let named = KeptHistory { model: MODEL, position: end.position, mark: end.mark };
    // Who names it counts, and so does every part of the name.
    for (peer, named) in [
        (Some(PeerId([2; 32])), named),
        (None, named),
        (Some(PeerId([1; 32])), KeptHistory { position: 42, ..named }),
        (Some(PeerId([1; 32])), KeptHistory { mark: stays.mark, position: 40, ..named }),
    ] {
        host.worker.drop_kept(peer, named).await;
    }
    assert_eq!(host.status().await, kept);
    host.worker.drop_kept(Some(PeerId([1; 32])), named).await;
    host.until("the end of one", |status| status.parked == 1).await;
    assert_eq!(host.status().await.parked_bytes, kept.parked_bytes / 2);
    assert_eq!(host.open(again(1, end)).await.err(), Some(FORGOTTEN));
    assert!(host.open(again(1, stays)).await.is_ok());
    // Named while its calls run, one for each part, none of them is kept when they end.
    let mut talks = Vec::new();
    for part in [part(), layers(3, 1)] {
        let mut talk = host.open(Opening::of(1, part)).await.unwrap().seeded(7);
        talk.step(8).await.unwrap();
        talks.push(talk);
    }
    let end = talks[0].point();
    let named = KeptHistory { model: MODEL, position: end.position, mark: end.mark };
    host.worker.drop_kept(Some(PeerId([1; 32])), named).await;
    talks.into_iter().for_each(Talk::close);
    host.until("the end of all", |status| status.sessions == 0).await;
    assert_eq!(host.status().await.parked, 0);
    assert_eq!(host.open(again(1, end)).await.err(), Some(FORGOTTEN));
}

#[tokio::test]
async fn a_worker_outlives_a_flood_of_drops() {
    let host = Host::start(4, PLENTY).await;
    let end = first_turn(&host, 1, 5).await;
    let peer = Some(PeerId([1; 32]));
    let named = KeptHistory { model: MODEL, position: end.position, mark: end.mark };
    for position in 1000..3000 {
        host.worker.drop_kept(peer, KeptHistory { position, ..named }).await;
    }
    assert_eq!(host.status().await.parked, 1);
    host.worker.drop_kept(peer, named).await;
    host.until("the end of it", |status| status.parked == 0).await;
}
