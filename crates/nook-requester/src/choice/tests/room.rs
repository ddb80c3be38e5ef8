//! What this device has room for, and what is said where that is not enough.

use nook_api::views::Wording;
use nook_base::ErrorCode;

use super::*;

/// Nothing of the model is in memory, and at most so many bytes could be had, of which none is
/// free now.
fn with_at_most(memory_ceiling: u64) -> Encoded {
    Encoded { held: Vec::new(), memory_ceiling, ..told(0) }
}

#[test]
fn what_does_not_fit_anywhere_is_refused_with_what_is_missing_and_nothing_else_is() {
    let now = now();
    let asked = question(Pooling::WhenFaster, measured(1000, 500));
    let gone = AdvertBook { heard: [].into(), ..book(now) };
    let refusal = |told: &Encoded, book: &AdvertBook| {
        let choice = asked.choose(told, book, now);
        choice.refusal("Ember", asked.reach, |_| "Desk".to_owned())
    };
    let error = refusal(&with_at_most(1 << 20), &gone).expect("no room, and nobody else");
    assert_eq!(error.code, ErrorCode::ShardUnavailable);
    assert!(error.sentence.ends_with("divided now: Desk is not connected: start it."), "{error}");
    assert!(matches!(error.wording, Some(Wording::NoRoom { free_bytes: 1_048_576, .. })));
    assert_eq!(refusal(&with_at_most(1 << 20), &book(now)), None, "the other device is tried");
    assert_eq!(refusal(&with_at_most(PLENTY), &gone), None, "other programs can make room");

    let asked = Question { reach: Reach::ThisDevice, ..asked };
    let choice = asked.choose(&with_at_most(1 << 20), &book(now), now);
    assert!(choice.because.starts_with("The reply was refused"), "{}", choice.because);
    let error = choice.refusal("Ember", asked.reach, |_| String::new()).expect("no room");
    assert_eq!(error.code, ErrorCode::OutOfMemory);
}

#[test]
fn this_device_stands_in_for_as_many_layers_as_it_has_room_for() {
    let asked = question(Pooling::WhenFaster, measured(1000, 500));
    let now = now();
    let route = asked.cover(&book(now), now).expect("the other device offers the middle");
    assert_eq!(asked.room_here(&with_at_most(PLENTY), &route), u32::MAX, "all of it fits");
    let costs = asked.costs();
    let each = costs.layer_bytes + costs.kv_bytes * 600;
    // Two of its own, two more, and a bit.
    let some = costs.ends_bytes + 4 * each + each / 2;
    assert_eq!(asked.room_here(&with_at_most(some), &route), 2);
    assert_eq!(asked.room_here(&with_at_most(0), &route), 0);
}
