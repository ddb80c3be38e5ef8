//! What answers teach, and what they do not.

use nook_base::{ModelPart, clock};
use nook_plan::{Figure, LARGE_TRANSFER_BYTES};

use super::*;

const MODEL: ModelDigest = ModelDigest([1; 32]);
const ROW: u64 = 512;

fn peer(number: u8) -> PeerId {
    PeerId([number; 32])
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn visit(place: Place, part: ModelPart, rows: u32, compute: u64) -> HopVisit {
    HopVisit {
        place,
        part,
        rows,
        logits: part.head,
        compute: ms(compute),
        queue: Duration::ZERO,
        wire: ms(5),
        overlapped: false,
        forwarded: false,
    }
}

fn inner(start: u32, len: u32) -> ModelPart {
    ModelPart::inner(LayerRange::with_len(start, len))
}

fn speed(estimates: &Estimates, place: Place, now: Instant) -> Speed {
    estimates.facts(MODEL, now).speeds.get(&place).cloned().unwrap_or_default().speed
}

/// What one row through `layers` layers takes.
fn decode(speed: Speed, layers: u64) -> Option<Duration> {
    speed.decode.measured().map(|line| line.at(layers))
}

#[test]
fn the_first_answer_of_layers_finds_them_cold_and_does_not_rank_the_device() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let there = Place::Peer(peer(1));
    estimates.observe(MODEL, &visit(there, inner(2, 4), 1, 900), ROW, now);
    assert!(speed(&estimates, there, now).decode.is_unknown());
    estimates.observe(MODEL, &visit(there, inner(2, 4), 1, 8), ROW, now);
    assert_eq!(decode(speed(&estimates, there, now), 4), Some(ms(8)));
    // Another stretch is cold again; so is the same one after a long rest.
    estimates.observe(MODEL, &visit(there, inner(10, 4), 1, 900), ROW, now);
    let later = now + HELD_LIMIT;
    estimates.observe(MODEL, &visit(there, inner(2, 4), 1, 900), ROW, later);
    assert_eq!(decode(speed(&estimates, there, later), 4), Some(ms(8)));
}

#[test]
fn layers_count_as_held_for_a_while_after_they_answered() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let there = Place::Peer(peer(1));
    estimates.observe(MODEL, &visit(there, inner(2, 4), 1, 8), ROW, now);
    estimates.observe(MODEL, &visit(there, inner(2, 2), 1, 8), ROW, now);
    let held = |of: &Estimates, now| of.facts(MODEL, now).speeds[&there].held.clone();
    assert!(held(&estimates, now).contains(&LayerRange::with_len(2, 4)));
    assert_eq!(held(&estimates, now + HELD_LIMIT), []);
    estimates.forget_held(peer(2));
    assert!(!held(&estimates, now).is_empty(), "another device");
    estimates.forget_held(peer(1));
    assert_eq!(held(&estimates, now), []);
    assert_eq!(estimates.facts(ModelDigest([2; 32]), now).speeds.len(), 0, "another model");
}

#[test]
fn norm_and_head_are_not_taken_for_layers() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let whole = ModelPart { layers: LayerRange::all(6), embedding: true, head: true };
    let head = ModelPart { layers: LayerRange::with_len(6, 0), embedding: false, head: true };
    for _ in 0..3 {
        estimates.observe(MODEL, &visit(Place::Local, whole, 1, 20), ROW, now);
    }
    // Their share is not known yet, so these said nothing.
    assert!(speed(&estimates, Place::Local, now).decode.is_unknown());
    estimates.observe(MODEL, &visit(Place::Local, head, 1, 8), ROW, now);
    estimates.observe(MODEL, &visit(Place::Local, whole, 1, 20), ROW, now);
    let known = speed(&estimates, Place::Local, now);
    assert_eq!(known.ends, Figure::Measured(ms(8)));
    assert_eq!(decode(known, 6), Some(ms(12)));
}

#[test]
fn what_a_whole_token_takes_beyond_known_layers_is_norm_and_head() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let whole = ModelPart { layers: LayerRange::all(6), embedding: true, head: true };
    let probe = Probe {
        layer_bytes: 1,
        decode: [(2, ms(4)), (4, ms(8))],
        prefill: [(128, ms(40)), (256, ms(80))],
    };
    estimates.seed((Place::Local, MODEL), &probe, now);
    let ends = |estimates: &Estimates| speed(estimates, Place::Local, now).ends.measured();
    // The first finds everything cold, and one of many rows is no token.
    estimates.observe(MODEL, &visit(Place::Local, whole, 1, 900), ROW, now);
    estimates.observe(MODEL, &visit(Place::Local, whole, 64, 900), ROW, now);
    // Faster than its layers are known to be: that says nothing of what comes behind them.
    estimates.observe(MODEL, &visit(Place::Local, whole, 1, 11), ROW, now);
    assert_eq!(ends(&estimates), None);
    estimates.observe(MODEL, &visit(Place::Local, whole, 1, 17), ROW, now);
    assert_eq!(ends(&estimates), Some(ms(5)));
    assert_eq!(decode(speed(&estimates, Place::Local, now), 6), Some(ms(12)));
    // From then on it is the layers that such tokens tell of.
    estimates.observe(MODEL, &visit(Place::Local, whole, 1, 29), ROW, now);
    assert_eq!(ends(&estimates), Some(ms(5)));
    assert!(decode(speed(&estimates, Place::Local, now), 6) > Some(ms(12)));
}

#[test]
fn the_way_is_told_by_steps_that_did_not_travel_while_others_were_computed() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let there = Place::Peer(peer(1));
    let rows = u32::try_from(LARGE_TRANSFER_BYTES / ROW).expect("a small number");
    estimates.observe(MODEL, &visit(there, inner(0, 2), 1, 3), ROW, now);
    let large = |wire, overlapped| HopVisit {
        wire: ms(wire),
        overlapped,
        ..visit(there, inner(0, 2), rows, 3)
    };
    estimates.observe(MODEL, &large(6, true), ROW, now);
    assert!(estimates.link(peer(1)).bandwidth.is_unknown());
    estimates.observe(MODEL, &large(105, false), ROW, now);
    let link = estimates.link(peer(1));
    assert_eq!(link.round_trip.measured().map(|trip| trip.mean), Some(ms(5)));
    let rate = link.bandwidth.measured().expect("a large transfer").0;
    // There and back in 100 ms.
    assert_eq!(rate, 20 * LARGE_TRANSFER_BYTES);
    assert!(estimates.link(peer(2)).round_trip.is_unknown());
}

#[test]
fn a_call_that_is_accepted_at_once_has_loaded_nothing() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let key = (Place::Peer(peer(1)), MODEL);
    estimates.observe_load(key, 1_000_000_000, ms(1), now);
    estimates.observe_load(key, 0, ms(1000), now);
    assert!(speed(&estimates, key.0, now).load.is_unknown());
    estimates.observe_load(key, 1_000_000_000, ms(2000), now);
    assert_eq!(speed(&estimates, key.0, now).load.measured().map(|rate| rate.0), Some(500_000_000));
}

#[test]
fn beyond_the_limit_the_device_heard_of_least_lately_is_forgotten() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let id = |number: u64| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        PeerId(bytes)
    };
    let max = ESTIMATES_MAX as u64;
    let mut hear = |number, at| {
        let visit = visit(Place::Peer(id(number)), inner(0, 1), 1, 3);
        estimates.observe(MODEL, &visit, ROW, now + ms(at));
    };
    (0..max).for_each(|number| hear(number, number));
    // The first one is heard of again before one comes for whom there is no room.
    hear(0, max);
    hear(max, max + 1);
    assert_eq!((estimates.speeds.len(), estimates.links.len()), (ESTIMATES_MAX, ESTIMATES_MAX));
    let knows = |number| estimates.links.contains_key(&id(number));
    assert!(knows(0) && !knows(1) && knows(max), "the one heard of least lately went");
    estimates.forget(id(max));
    assert_eq!(
        (estimates.speeds.len(), estimates.links.len()),
        (ESTIMATES_MAX - 1, ESTIMATES_MAX - 1)
    );
}

#[test]
fn the_line_of_a_probe_keeps_its_shape_through_a_long_reply() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let there = Place::Peer(peer(1));
    estimates.observe_load((there, MODEL), 1_000_000_000, ms(2000), now);
    // 10 ms for each visit and 5 for each layer.
    let probe = Probe {
        layer_bytes: 100,
        decode: [(2, ms(20)), (4, ms(30))],
        prefill: [(128, ms(100)), (256, ms(190))],
    };
    estimates.seed((there, MODEL), &probe, now);
    for _ in 0..200 {
        estimates.observe(MODEL, &visit(there, inner(0, 4), 1, 60), ROW, now);
    }
    // Twice as slow by now, and a single layer still costs half of that.
    let known = speed(&estimates, there, now);
    assert_eq!(decode(known, 4).map(|took| took.as_millis()), Some(60));
    assert_eq!(decode(known, 1).map(|took| took.as_millis()), Some(30));
    assert!(known.load.measured().is_some(), "a probe does not forget the loading");
}

#[test]
fn who_hands_results_to_whom_is_known_until_it_is_known_otherwise() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let mut heard = |from, to, stands| {
        estimates.observe_joint(&Joint { from: peer(from), to: peer(to), stands }, now);
        let facts = estimates.facts(MODEL, now);
        [1, 2, 3].map(|number| facts.hands_to(peer(number)).len())
    };
    assert_eq!(heard(1, 2, true), [1, 0, 0]);
    assert_eq!(heard(1, 3, true), [2, 0, 0]);
    assert_eq!(heard(2, 3, true), [2, 1, 0]);
    assert_eq!(heard(1, 2, false), [1, 1, 0]);
    estimates.forget(peer(3));
    assert!(estimates.facts(MODEL, now).hands.is_empty());
}

#[test]
fn a_step_that_went_from_host_to_host_measures_computing_and_no_way() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let there = Place::Peer(peer(1));
    let step = HopVisit { forwarded: true, ..visit(there, inner(0, 2), 1, 3) };
    (0..4).for_each(|_| estimates.observe(MODEL, &step, ROW, now));
    assert!(estimates.link(peer(1)).round_trip.is_unknown());
    assert!(!speed(&estimates, there, now).decode.is_unknown());
}

#[test]
fn what_was_measured_between_other_addresses_is_forgotten_at_once() {
    let (mut estimates, now) = (Estimates::default(), clock::now());
    let ends = |last: u8| [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, last])];
    let there = Place::Peer(peer(1));
    let large = HopVisit { wire: ms(105), ..visit(there, inner(0, 2), 512, 3) };
    let observe = |estimates: &mut Estimates| {
        estimates.observe(MODEL, &visit(there, inner(0, 2), 1, 3), ROW, now);
        estimates.observe(MODEL, &large, 1 << 20, now);
        estimates.link(peer(1))
    };
    estimates.way_taken(peer(1), ends(2), None, now);
    let measured = observe(&mut estimates);
    assert!(!measured.round_trip.is_unknown() && !measured.bandwidth.is_unknown());
    estimates.way_taken(peer(1), ends(2), None, now);
    assert_eq!(estimates.link(peer(1)), measured, "the same way again");
    estimates.way_taken(peer(1), ends(3), None, now);
    assert_eq!(estimates.link(peer(1)), Link::default());
    // What was found out before the link went there counts from the beginning.
    estimates.way_taken(peer(1), ends(4), Some(&measured), now);
    assert_eq!(estimates.link(peer(1)), measured);
    assert_eq!(estimates.facts(MODEL, now).links[&peer(1)], measured);
}

#[test]
fn a_way_of_an_earlier_run_counts_where_the_link_goes_the_same_way() {
    let now = clock::now();
    let ends = |last: u8| [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, last])];
    let mut estimate = LinkEstimate::default();
    estimate.observe_round_trip(ms(3));
    let kept = estimate.link();
    for (before, linked, counts) in [
        (Some(ends(2)), Some(ends(2)), true),
        (Some(ends(2)), Some(ends(3)), false),
        (Some(ends(2)), None, true),
        (None, Some(ends(2)), true),
    ] {
        let expected = if counts { kept } else { Link::default() };
        // The link may stand before the file was read, or after.
        let mut read_first = Estimates::default();
        read_first.restore_link(peer(1), (&kept, before), now);
        let mut linked_first = Estimates::default();
        for estimates in [&mut read_first, &mut linked_first] {
            if let Some(linked) = linked {
                estimates.way_taken(peer(1), linked, None, now);
            }
        }
        linked_first.restore_link(peer(1), (&kept, before), now);
        assert_eq!(read_first.link(peer(1)), expected, "{before:?} {linked:?}");
        assert_eq!(linked_first.link(peer(1)), expected, "{before:?} {linked:?}");
    }
}
