//! Which rounds begin, and what they measure.

use nook_base::clock;

use super::*;

#[test]
fn a_probe_asks_for_few_layers_and_two_lengths() {
    let lengths = |len| -> Vec<u32> {
        beginnings(LayerRange::with_len(3, len), 1).iter().map(|it| it.len()).collect()
    };
    assert_eq!(lengths(40), [8, 4]);
    assert_eq!(lengths(4), [4, 2]);
    assert_eq!(lengths(1), [1]);
    assert_eq!(lengths(0), [0; 0]);
    assert!(beginnings(LayerRange::with_len(3, 9), 1).iter().all(|it| it.start() == 3));
    // Layers of 400 MB, and of more than is loaded: two of them are needed.
    let lengths_of = |bytes| -> Vec<u32> {
        beginnings(LayerRange::with_len(0, 40), bytes).iter().map(|it| it.len()).collect()
    };
    assert_eq!(lengths_of(400 << 20), [2, 1]);
    assert_eq!(lengths_of(200 << 20), [5, 2]);
    assert_eq!(lengths_of(u64::MAX), [2, 1]);
}

const MODEL: ModelDigest = ModelDigest([1; 32]);

/// The built-in model, to be measured.
fn wanted() -> Wanted {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");
    let file = ModelFile::open(path.as_ref()).expect("the built-in model");
    let place = nook_resources::file_place::FilePlace::new(path.into());
    let listed = Listed { name: "ember".to_owned(), digest: MODEL, path: place };
    Wanted { listed, file, aim: Aim::Measure }
}

#[test]
fn a_device_is_asked_once_an_hour_for_each_model_and_what_is_remembered_is_bounded() {
    let (mut probing, now) = (Probing::default(), clock::now());
    assert!(probing.is_due(Place::Local, MODEL, now));
    let device = |model| Probed::Device(Place::Local, model, Asked::Measured);
    probing.take(device(MODEL), now);
    assert!(!probing.is_due(Place::Local, MODEL, now + PROBE_EVERY - Duration::from_secs(1)));
    assert!(probing.is_due(Place::Local, MODEL, now + PROBE_EVERY));
    assert!(probing.is_due(Place::Local, ModelDigest([2; 32]), now), "another model");
    for number in 0..ESTIMATES_MAX as u64 {
        let mut model = ModelDigest([0; 32]);
        model.0[..8].copy_from_slice(&number.to_le_bytes());
        probing.take(device(model), now + Duration::from_secs(1));
    }
    assert_eq!(probing.due.len(), ESTIMATES_MAX);
    assert!(probing.is_due(Place::Local, MODEL, now + Duration::from_secs(2)), "forgotten");
}

#[test]
fn a_device_that_was_not_measured_is_asked_again_after_a_minute() {
    let (mut probing, now) = (Probing::default(), clock::now());
    for (asked, is_wanted_again) in [(Asked::InVain, true), (Asked::Measured, false)] {
        probing.want(wanted());
        let number = probing.begin(CancellationToken::new());
        probing.take(Probed::Device(Place::Local, MODEL, asked), now);
        assert!(!probing.is_due(Place::Local, MODEL, now));
        assert_eq!(probing.is_due(Place::Local, MODEL, now + PROBE_AGAIN), is_wanted_again);
        probing.take(Probed::Round(number), now);
        assert!(probing.wanted.is_none());
        assert_eq!(probing.again.is_some(), is_wanted_again);
    }
}

#[test]
fn a_model_that_is_gone_is_measured_no_more_and_not_tried_again() {
    let mut probing = Probing::default();
    probing.want(wanted());
    probing.again = Some((clock::now(), wanted()));
    probing.keep_only(|model| model == MODEL);
    assert!(probing.wanted.is_some() && probing.again.is_some());
    probing.keep_only(|_| false);
    assert!(probing.wanted.is_none() && probing.again.is_none());
}

#[test]
fn this_device_measuring_itself_leaves_what_is_tried_again() {
    let (mut probing, now) = (Probing::default(), clock::now());
    probing.want(wanted());
    let number = probing.begin(CancellationToken::new());
    probing.take(Probed::Device(Place::Local, MODEL, Asked::InVain), now);
    probing.take(Probed::Round(number), now);
    assert!(probing.again.is_some());
    let own = probing.begin(CancellationToken::new());
    probing.is_own = true;
    // A reply that is refused meanwhile, say, wants its model measured.
    probing.want(wanted());
    probing.take(Probed::Round(own), now);
    assert!(probing.running.is_none());
    assert!(probing.again.is_some() && probing.wanted.is_some());
}

#[test]
fn what_is_wanted_while_a_round_is_under_way_begins_another_one() {
    let (mut probing, now) = (Probing::default(), clock::now());
    for (anew, stays) in [(true, true), (false, false)] {
        probing.want(wanted());
        let number = probing.begin(CancellationToken::new());
        if anew {
            probing.want(wanted());
        }
        probing.take(Probed::Round(number), now);
        assert_eq!(probing.wanted.is_some(), stays);
    }
}

#[test]
fn a_reply_ends_the_round_and_the_end_of_that_round_is_not_the_end_of_the_next() {
    let mut probing = Probing { idle_looks: 9, ..Probing::default() };
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let number = probing.begin(first.clone());
    probing.stop();
    assert!(first.is_cancelled() && probing.running.is_none());
    assert_eq!(probing.idle_looks, 0, "idleness is counted anew");
    let next = probing.begin(second.clone());
    probing.take(Probed::Round(number), clock::now());
    assert!(probing.running.is_some() && !second.is_cancelled());
    probing.take(Probed::Round(next), clock::now());
    assert!(probing.running.is_none());
}

#[test]
fn the_line_goes_through_the_least_disturbed_steps_of_both_stretches() {
    let us = Duration::from_micros;
    let done = |times: &[(u32, u32)]| Done::of(times);
    // Cold first, disturbed in between.
    let small = done(&[(1, 900), (1, 300), (1, 800), (64, 7000), (64, 6600)]);
    let large = done(&[(1, 500), (1, 700), (1, 501), (64, 13_000), (64, 15_000)]);
    let (two, four) = (LayerRange::with_len(1, 2), LayerRange::with_len(1, 4));
    let probe = line(10, [&(two, small.clone()), &(four, large)]).expect("all is there");
    assert_eq!(probe.decode, [(2, us(300)), (4, us(500))]);
    assert_eq!(probe.prefill, [(128, us(6600)), (256, us(13_000))]);
    let without = done(&[(1, 500), (4, 900)]);
    assert_eq!(line(10, [&(two, small), &(four, without)]), None);
}

#[test]
fn many_rows_say_something_of_prefill_and_of_the_way() {
    for hidden in [1, 256, 2048, 8192, 32_768] {
        let rows = rows(hidden);
        assert!((PREFILL_ROWS_MIN..=STEP_TOKENS_MAX).contains(&rows), "{hidden}: {rows}");
        let moved = 2 * u64::from(rows) * DTYPE.row_bytes(hidden) as u64;
        assert!(moved >= LARGE_TRANSFER_BYTES || rows == STEP_TOKENS_MAX, "{hidden}: {moved}");
    }
}
