//! Conversations that begin alike share the beginning: one copies it, the other goes on as if
//! alone.

use nook_base::ErrorCode;
use nook_wire::ResumePoint;

use crate::host::{Host, Opening, Refused, bits, layers, point};

const PLENTY: u64 = 1 << 30;

fn part() -> nook_base::LayerRange {
    layers(1, 2)
}

fn copy_of(peer: u8, point: ResumePoint) -> Opening {
    let resume = Some(ResumePoint { copy: true, ..point });
    Opening { resume, ..Opening::of(peer, part()) }
}

#[tokio::test]
async fn a_beginning_is_copied_and_the_conversation_that_had_it_goes_on_too() {
    let host = Host::start(4, PLENTY).await;
    let mut first = host.open(Opening::of(1, part())).await.unwrap().seeded(5);
    first.walk(&[128, 60, 1]).await.unwrap();
    let end = first.point();
    first.close();
    host.until("what is retained", |status| status.parked == 1 && status.sessions == 0).await;
    let steps = host.status().await.steps_done;
    // Two others begin with its first 128 positions, at once.
    let mut second = host.open(copy_of(1, point(5, 128))).await.unwrap().seeded(5);
    let mut third = host.open(copy_of(1, point(5, 128))).await.unwrap().seeded(5);
    assert_eq!(host.status().await.parked, 1, "it is still there");
    let expected = host.alone(part(), 5, 230);
    for talk in [&mut second, &mut third] {
        assert_eq!(talk.position, 128);
        let got = talk.walk(&[40, 1]).await.unwrap();
        assert_eq!(bits(&got), bits(&expected[128 * 64..169 * 64]));
    }
    assert_eq!(host.status().await.steps_done - steps, 4, "the beginning was not computed again");
    // And the first one goes on at its own end, for the last time: that is no copy.
    let again = Opening { resume: Some(end), ..Opening::of(1, part()) };
    let mut first = host.open(again).await.unwrap().seeded(5);
    assert_eq!(bits(&first.walk(&[41]).await.unwrap()), bits(&expected[189 * 64..]));
    assert_eq!(host.status().await.parked, 0);
}

#[tokio::test]
async fn nobody_else_gets_a_copy_and_none_is_made_of_what_is_not_there() {
    let host = Host::start(4, PLENTY).await;
    let mut first = host.open(Opening::of(1, part())).await.unwrap().seeded(5);
    first.walk(&[128, 1]).await.unwrap();
    first.close();
    host.until("what is retained", |status| status.parked == 1).await;
    let elsewhere = Opening { layers: layers(2, 2), ..copy_of(1, point(5, 128)) };
    let other = [
        copy_of(2, point(5, 128)),
        copy_of(1, point(6, 128)),
        copy_of(1, point(5, 127)),
        elsewhere,
    ];
    for opening in other {
        let refused = host.open(opening).await.err();
        assert_eq!(refused, Some(Refused(ErrorCode::HistoryMismatch)), "{opening:?}");
    }
    assert_eq!(host.status().await.parked, 1);
}
