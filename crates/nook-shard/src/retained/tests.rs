//! What is found again and by whom, and what goes when. Used by the test run alone.

use nook_base::{LayerRange, clock};
use nook_wire::PrefixHash;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A conversation of so many positions.
#[derive(Debug, PartialEq)]
struct Length(u32);

impl Resumable for Length {
    fn position(&self) -> u32 {
        self.0
    }

    fn can_resume(&self, position: u32, positions_max: u32) -> bool {
        position <= self.0 && positions_max <= 1_000
    }
}

fn key(guest: u8) -> RetainedKey {
    let part = ModelPart::inner(LayerRange::with_len(1, 2));
    let requester = match guest {
        0 => Requester::Owner,
        number => Requester::Guest(PeerId([number; 32])),
    };
    RetainedKey { requester, model: ModelDigest([1; 32]), part, dtype: ActivationDtype::F16 }
}

fn mark(number: u8) -> PrefixHash {
    PrefixHash([number; 16])
}

/// Prefix hashes at the ends of steps.
fn kept(marks: &[(u32, u8)]) -> Kept<Length> {
    let mut history = History::default();
    for (position, number) in marks {
        history.note(*position, mark(*number));
    }
    Kept { session: Length(marks.last().map_or(0, |(position, _)| *position)), history }
}

fn bytes(of: u64) -> DeviceBytes {
    DeviceBytes::in_memory(of)
}

fn lengths(evicted: &Evicted<Length>) -> Vec<u32> {
    evicted.iter().map(|kept| kept.session.0).collect()
}

#[test]
fn a_conversation_is_found_by_its_requester_part_format_and_mark_and_by_nothing_less() {
    let mut retained = Retained::default();
    retained.park(key(1), kept(&[(0, 1), (40, 2), (41, 3)]), bytes(100), clock::now());
    let point = |position, number| ResumePoint { position, mark: mark(number), copy: false };
    let mine = key(1);
    assert_eq!(retained.find(&mine, point(41, 3), 500), Some(0));
    assert_eq!(retained.find(&mine, point(40, 2), 500), Some(0));
    for (position, number) in [(41, 2), (40, 3), (39, 2), (42, 3), (u32::MAX, 3)] {
        assert_eq!(retained.find(&mine, point(position, number), 500), None, "{position} {number}");
    }
    let others = [
        key(2),
        key(0),
        RetainedKey { model: ModelDigest([2; 32]), ..mine },
        RetainedKey { part: ModelPart::inner(LayerRange::with_len(1, 3)), ..mine },
        RetainedKey { part: ModelPart { head: true, ..mine.part }, ..mine },
        RetainedKey { dtype: ActivationDtype::F32, ..mine },
    ];
    for other in others {
        assert_eq!(retained.find(&other, point(41, 3), 500), None, "{other:?}");
    }
    assert_eq!(retained.find(&mine, point(41, 3), 1_001), None, "a window that it cannot have");
}

#[test]
fn of_several_the_one_that_forgets_least_is_found() {
    let mut retained = Retained::default();
    for last in [90, 50, 70] {
        retained.park(key(1), kept(&[(40, 2), (last, 3)]), bytes(100), clock::now());
    }
    let found = retained
        .find(&key(1), ResumePoint { position: 40, mark: mark(2), copy: false }, 500)
        .unwrap();
    assert_eq!(retained.take(found).map(|kept| kept.session), Some(Length(50)));
    assert_eq!(retained.len(), 2);
    assert!(retained.take(2).is_none());
}

#[test]
fn no_more_are_kept_than_the_limit_and_the_longest_unused_go() {
    let mut retained = Retained::default();
    let mut evicted = Vec::new();
    for length in 1..=PARKED_MAX as u32 + 2 {
        evicted.extend(retained.park(key(1), kept(&[(length, 1)]), bytes(10), clock::now()));
    }
    assert_eq!((retained.len(), retained.bytes()), (PARKED_MAX, 10 * PARKED_MAX as u64));
    assert_eq!(lengths(&evicted), [1, 2]);
}

#[test]
fn what_this_device_keeps_for_itself_has_a_limit_of_its_own() {
    let mut retained = Retained::default();
    let now = clock::now();
    let most = OWN_PARKED_BYTES_MAX;
    assert!(retained.park(key(0), kept(&[(1, 1)]), bytes(most / 2), now).is_empty());
    assert!(retained.park(key(7), kept(&[(2, 1)]), bytes(most), now).is_empty());
    assert!(retained.park(key(0), kept(&[(3, 1)]), bytes(most / 2), now).is_empty());
    assert_eq!(lengths(&retained.park(key(0), kept(&[(4, 1)]), bytes(1), now)), [1]);
    // Larger than the limit: everything of ours goes, itself last, and the guest's stays.
    assert_eq!(lengths(&retained.park(key(0), kept(&[(5, 1)]), bytes(u64::MAX), now)), [3, 4, 5]);
    assert_eq!((retained.len(), retained.bytes()), (1, most));
}

#[test]
fn memory_is_given_back_oldest_first_and_only_of_guests() {
    let mut retained = Retained::default();
    for (guest, length) in [(1, 1), (0, 2), (2, 3), (1, 4)] {
        retained.park(key(guest), kept(&[(length, 1)]), bytes(100), clock::now());
    }
    assert_eq!(retained.lent_bytes(), bytes(300));
    assert_eq!(lengths(&retained.shrink_lent(bytes(300), false)), [0_u32; 0]);
    assert_eq!(lengths(&retained.shrink_lent(bytes(150), false)), [1, 3]);
    assert_eq!(lengths(&retained.shrink_lent(bytes(0), false)), [4]);
    assert_eq!(retained.bytes(), 100);
}

#[test]
fn what_was_not_used_for_its_life_goes() {
    let mut retained = Retained::default();
    let start = clock::now();
    retained.park(key(1), kept(&[(1, 1)]), bytes(100), start);
    retained.park(key(0), kept(&[(2, 1)]), bytes(100), start + MINUTE);
    assert_eq!(lengths(&retained.expire(start + 2 * MINUTE, 3 * MINUTE)), [0_u32; 0]);
    assert_eq!(lengths(&retained.expire(start + 3 * MINUTE, 3 * MINUTE)), [1]);
    // A clock that seems to run backwards frees nothing.
    assert_eq!(lengths(&retained.expire(start, 3 * MINUTE)), [0_u32; 0]);
    assert_eq!(lengths(&retained.expire(start + 4 * MINUTE, 3 * MINUTE)), [2]);
}

#[test]
fn a_device_is_forgotten_alone_or_with_all_others_and_the_owner_is_not() {
    let mut retained = Retained::default();
    for (guest, length) in [(1, 1), (0, 2), (2, 3), (1, 4), (3, 5)] {
        retained.park(key(guest), kept(&[(length, 1)]), bytes(100), clock::now());
    }
    assert_eq!(lengths(&retained.forget(Some(PeerId([1; 32])))), [1, 4]);
    assert_eq!(lengths(&retained.forget(Some(PeerId([1; 32])))), [0_u32; 0]);
    assert_eq!(lengths(&retained.forget(None)), [3, 5]);
    assert_eq!(lengths(&retained.clear()), [2]);
}

fn named(position: u32, number: u8) -> KeptHistory {
    KeptHistory { model: ModelDigest([1; 32]), position, mark: mark(number) }
}

#[test]
fn what_is_named_goes_of_every_part_and_nothing_of_anybody_else() {
    let mut retained = Retained::default();
    let other_part = RetainedKey { part: ModelPart::inner(LayerRange::with_len(3, 1)), ..key(1) };
    let other_model = RetainedKey { model: ModelDigest([2; 32]), ..key(1) };
    let marks = [(0, 1), (40, 2), (50, 3)];
    for of in [key(1), other_part, key(2), key(0), other_model] {
        retained.park(of, kept(&marks), bytes(100), clock::now());
    }
    retained.park(key(1), kept(&[(0, 1), (40, 2), (60, 4)]), bytes(100), clock::now());
    let now = clock::now();
    let gone = retained.drop_kept(Requester::Guest(PeerId([1; 32])), named(50, 3), now);
    assert_eq!((lengths(&gone), retained.len()), (vec![50, 50], 4));
    assert_eq!(retained.lent_bytes(), bytes(300), "another guest, another model, another end");
    let gone = retained.drop_kept(Requester::Owner, named(50, 3), now);
    assert_eq!((lengths(&gone), retained.len()), (vec![50], 3));
}

#[test]
fn what_is_named_before_it_comes_is_not_kept_of_any_part() {
    let mut retained = Retained::default();
    let (guest, now) = (Requester::Guest(PeerId([1; 32])), clock::now());
    let marks = [(0, 1), (50, 3)];
    let part =
        |start| RetainedKey { part: ModelPart::inner(LayerRange::with_len(start, 1)), ..key(1) };
    // One part is kept when the word comes, two come behind it.
    assert!(retained.park(part(1), kept(&marks), bytes(1), now).is_empty());
    assert_eq!(lengths(&retained.drop_kept(guest, named(50, 3), now)), [50]);
    assert!(retained.park(key(2), kept(&marks), bytes(1), now).is_empty(), "somebody else's");
    for start in [2, 3] {
        assert_eq!(
            lengths(&retained.park(part(start), kept(&marks), bytes(1), now)),
            [50],
            "{start}"
        );
    }
    // So do those that went on behind it, and another conversation of that guest is kept.
    assert_eq!(
        lengths(&retained.park(key(1), kept(&[(0, 1), (50, 3), (60, 4)]), bytes(1), now)),
        [60]
    );
    assert!(retained.park(key(1), kept(&[(0, 1), (50, 4)]), bytes(1), now).is_empty());
    assert_eq!(retained.len(), 2);
}

#[test]
fn what_was_named_is_remembered_for_its_time_and_up_to_a_limit() {
    let mut retained = Retained::default();
    let (guest, start) = (Requester::Guest(PeerId([1; 32])), clock::now());
    let is_kept = |retained: &mut Retained<Length>, at| {
        retained.park(key(1), kept(&[(50, 3)]), bytes(1), at).is_empty()
    };
    retained.drop_kept(guest, named(50, 3), start);
    retained.expire(start + 2 * MINUTE, 3 * MINUTE);
    assert!(!is_kept(&mut retained, start + 2 * MINUTE));
    retained.expire(start + 3 * MINUTE, 3 * MINUTE);
    assert!(is_kept(&mut retained, start + 3 * MINUTE), "the same was said again, much later");
    // The same name twice is one; of many the oldest are forgotten.
    for number in 0..2 * DROPPED_MAX as u32 {
        retained.drop_kept(guest, named(number, 9), start);
        retained.drop_kept(guest, named(number, 9), start);
    }
    assert_eq!(retained.dropped.len(), DROPPED_MAX);
    let last = 2 * DROPPED_MAX as u32 - 1;
    assert!(!retained.park(key(1), kept(&[(last, 9)]), bytes(1), start).is_empty());
    assert!(retained.park(key(1), kept(&[(1, 9)]), bytes(1), start).is_empty());
}

#[test]
fn of_two_memories_only_the_one_with_too_much_is_made_room_in() {
    let of = |memory, gpu| DeviceBytes { memory, gpu };
    let all = || {
        let mut retained = Retained::default();
        for (length, bytes) in [(1, of(90, 0)), (2, of(10, 50)), (3, of(0, 50)), (4, of(40, 0))] {
            retained.park(key(1), kept(&[(length, 1)]), bytes, clock::now());
        }
        retained
    };
    assert_eq!(lengths(&all().shrink_lent(of(200, 60), false)), [2]);
    assert_eq!(lengths(&all().shrink_lent(of(50, 200), false)), [1]);
    assert_eq!(lengths(&all().shrink_lent(of(200, 0), false)), [2, 3]);
    // In one memory together they are 240.
    assert_eq!(lengths(&all().shrink_lent(of(200, 0), true)), [1]);
    assert_eq!(lengths(&all().shrink_lent(of(100, 0), true)), [1, 2]);
}
