//! Answers that cannot be right, or are not: what is noticed, and what becomes of the reply.

use nook_base::ActivationDtype;
use nook_pipeline::{FallBack, Report, SpotCheck};
use nook_plan::Place;

use crate::case::{Case, Fault, Garbage, Outcome, peer};
use crate::scenario::{at, finishes, held, house, with};
use crate::world::run;

/// Every chunk is drawn, so one of each span is checked.
const ALWAYS: SpotCheck = SpotCheck { share_ppm: 1_000_000, random: 0 };

fn suspects(outcome: &Outcome) -> usize {
    let suspect = |report: &&Report| matches!(report, Report::ShardSuspect { .. });
    outcome.reports.iter().filter(suspect).count()
}

#[test]
fn an_overflow_of_f16_is_repeated_in_f32_and_is_nobodys_fault() {
    for event in [5, 30, 100] {
        let outcome = finishes(&with(&[(event, Fault::Overflow(0))]));
        assert_eq!(outcome.measure.f16_overflows, 1);
        assert_eq!(outcome.places, [Place::Local, at(0), Place::Local]);
        assert!(outcome.measure.failovers.is_empty() && suspects(&outcome) == 0);
        assert_eq!(outcome.measure.corrupt_activations, 0);
        assert!(outcome.reports.contains(&Report::ActivationsWidened));
    }
}

#[test]
fn who_speaks_of_overflow_though_the_format_is_f32_has_failed() {
    let mut case = with(&[(100, Fault::Error(0, nook_base::ErrorCode::ActivationOverflow))]);
    case.dtype = ActivationDtype::F32;
    let outcome = finishes(&case);
    assert_eq!((outcome.measure.f16_overflows, outcome.places[1]), (0, at(3)));
}

#[test]
fn an_answer_a_thousand_times_too_large_is_refused_from_the_first_chunk_on() {
    for event in [5, 100] {
        let garbage = Garbage::Thousandfold;
        let mut case = with(&[(event, Fault::Corrupt(0, garbage))]);
        case.dtype = ActivationDtype::F32;
        let outcome = finishes(&case);
        assert_eq!((outcome.measure.corrupt_activations, outcome.places[1]), (1, at(3)));
        let reason = outcome.reports.iter().find_map(|report| match report {
            Report::ShardSuspect { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        let expected = "a row of the result is much larger than these layers make it";
        assert_eq!(reason, Some(expected));
    }
}

#[test]
fn honest_devices_pass_every_spot_check() {
    for random in 0..40 {
        let mut case = house();
        case.spot_check = SpotCheck { random, ..ALWAYS };
        let outcome = finishes(&case);
        assert_eq!((outcome.measure.spot_checks, outcome.measure.contradictions), (1, 0));
        assert_eq!(outcome.places[1], at(0));
        assert!(outcome.measure.failovers.is_empty() && suspects(&outcome) == 0);
    }
}

fn with_a_liar(random: u64) -> Case {
    let mut case = with(&[(0, Fault::Lie(0))]);
    case.prompt = (1..=100).collect();
    case.spot_check = SpotCheck { random, ..ALWAYS };
    case
}

#[test]
fn a_device_that_this_one_contradicts_is_out_and_what_was_built_on_it_is_computed_again() {
    let mut in_time = 0;
    for random in 0..40 {
        let mut case = with_a_liar(random);
        case.peers = vec![held(&[(0, 8)])];
        let outcome = run(&case);
        assert_eq!(outcome.measure.contradictions, 1);
        assert_eq!(outcome.places, [Place::Local; 3]);
        assert_eq!(suspects(&outcome), 1);
        // Found before the first token was chosen, the whole reply is right.
        let reply = crate::toy::reply(case.layers, &case.prompt, case.reply);
        in_time += u32::from(outcome.tokens == reply);
    }
    assert!(in_time > 10, "{in_time} of 40");
}

#[test]
fn where_two_devices_contradict_each_other_a_third_computes() {
    let mut case = with_a_liar(3);
    case.peers = vec![held(&[(0, 8)]); 3];
    case.fall_back = FallBack::Refuse;
    let outcome = run(&case);
    assert_eq!((outcome.measure.contradictions, outcome.places[1]), (1, at(2)));
    let of_liar =
        |report: &Report| matches!(report, Report::ShardSuspect { peer: it, .. } if *it == peer(0));
    assert!(outcome.reports.iter().any(of_liar));
}

#[test]
fn a_late_device_that_has_a_witness_is_relieved_by_it() {
    let mut case = with(&[(12, Fault::BlackHole(0))]);
    case.prompt = (1..=200).collect();
    case.spot_check = SpotCheck { random: 1, ..ALWAYS };
    let outcome = finishes(&case);
    assert_eq!(outcome.measure.failovers.len(), 1);
}

#[test]
fn chance_decides_how_much_is_checked() {
    let checked = |share_ppm| -> u32 {
        let run = |random| {
            let mut case = house();
            case.spot_check = SpotCheck { share_ppm, random };
            finishes(&case).measure.spot_checks
        };
        (0..400).map(run).sum()
    };
    assert_eq!(checked(0), 0);
    // Four chunks of one span: a chance of 5 % each is a chance of 20 % in all.
    let some = checked(50_000);
    assert!((50..110).contains(&some), "{some} of 400");
}
