//! Wishes: what counts as asked, as refused, and as better.

use nook_plan::Prediction;

use nook_base::clock;

use super::*;

fn prediction(seconds: u64, basis: Basis) -> Prediction {
    Prediction {
        first_token: Duration::ZERO,
        load: Duration::ZERO,
        token: Duration::from_millis(10),
        total: Duration::from_secs(seconds),
        resumed: 0,
        basis,
    }
}

/// Looks with these times of the present placement against 10 s; `M` for a move.
fn verdicts(present: &[Present], basis: Basis) -> String {
    let mut wishes = Wishes::default();
    let mut look = |present: &Present| {
        let prediction = prediction(10, basis);
        let wanted = Wanted { shares: Vec::new(), prediction, moving: Duration::ZERO };
        match wishes.weigh(&Outlook {
            present: *present,
            wanted: Some(wanted),
            lacking: Vec::new(),
        }) {
            Verdict::Stay => '-',
            Verdict::Move => 'M',
        }
    };
    present.iter().map(&mut look).collect()
}

#[test]
fn only_what_is_much_better_three_times_in_a_row_is_asked_for() {
    let slow = Present::Predicted(prediction(20, Basis::Measured));
    let near = Present::Predicted(prediction(11, Basis::Measured));
    assert_eq!(verdicts(&[slow; 3], Basis::Measured), "--M");
    assert_eq!(verdicts(&[slow, slow, near, slow], Basis::Measured), "----");
    assert_eq!(verdicts(&[near; 9], Basis::Measured), "---------");
}

#[test]
fn what_was_measured_is_never_set_against_what_is_assumed() {
    let slow = |basis| Present::Predicted(prediction(20, basis));
    assert_eq!(verdicts(&[slow(Basis::Measured); 4], Basis::Assumed), "----");
    assert_eq!(verdicts(&[slow(Basis::Assumed); 3], Basis::Assumed), "--M");
}

#[test]
fn what_does_not_work_is_left_at_once_and_what_the_owner_set_is_left_alone() {
    assert_eq!(verdicts(&[Present::Impossible], Basis::Assumed), "M");
    assert_eq!(verdicts(&[Present::AsSet; 4], Basis::Measured), "----");
}

#[test]
fn a_refusal_counts_until_something_is_new() {
    let (mut wishes, now) = (Wishes::default(), clock::now());
    let (desk, model) = (PeerId([1; 32]), ModelDigest([2; 32]));
    let layers = LayerRange::with_len(1, 4);
    let offer = |memory_free| Some(Offer { layers: vec![layers], memory_free, fetch_bytes: 0 });
    let state = Some(PlaceState::Refused { code: ErrorCode::OutOfMemory });
    wishes.asked.insert(desk, Wish { model, layers, state, sent: now, at: now, offer: offer(5) });
    assert!(wishes.refused(desk, offer(5).as_ref(), now));
    assert!(!wishes.refused(desk, offer(6).as_ref(), now), "it has more memory");
    assert!(!wishes.refused(desk, offer(5).as_ref(), now + REFUSAL_LIFE));
    let wish = PlacementRequest { model, layers };
    assert!(!wishes.is_asked(desk, wish, now), "a no is no answer to wait for");
    let state = Some(PlaceState::Held);
    wishes.asked.insert(desk, Wish { model, layers, state, sent: now, at: now, offer: offer(5) });
    assert!(wishes.is_asked(desk, wish, now));
    assert!(!wishes.is_asked(desk, wish, now + SHOWN_LIMIT));
}
