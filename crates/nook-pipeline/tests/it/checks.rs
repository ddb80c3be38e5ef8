//! Answers that cannot be right, or are not: what is noticed, and what becomes of the reply.

use std::time::Duration;

use nook_base::ActivationDtype;
use nook_pipeline::{Corrupt, FallBack, FirstWords, Report, SpotCheck};
use nook_plan::Place;

use crate::case::{Case, End, Fault, Garbage, Giving, Outcome, peer};
use crate::scenario::{at, finishes, held, house, with};
use crate::world::{run, run_after};

/// Every chunk is drawn, so one of each span is checked.
const ALWAYS: SpotCheck = SpotCheck { share_ppm: 1_000_000, ..SpotCheck::OFF };

/// The first token waits until all of the prompt was computed twice.
const WAITING: SpotCheck = SpotCheck { first_words: FirstWords::Checked, ..SpotCheck::OFF };

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
            Report::ShardSuspect { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        assert_eq!(reason, Some(Corrupt::MuchLarger));
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
            case.spot_check = SpotCheck { share_ppm, random, ..SpotCheck::OFF };
            finishes(&case).measure.spot_checks
        };
        (0..400).map(run).sum()
    };
    assert_eq!(checked(0), 0);
    // Four chunks of one span: a chance of 5 % each is a chance of 20 % in all.
    let some = checked(50_000);
    assert!((50..110).contains(&some), "{some} of 400");
}

/// Tokens of a reply that goes on until every check is through.
const LONG: usize = 250;

/// A second turn of a chat, checked for certain, and the first one that it follows.
fn checked_second_turn(random: u64) -> (Case, Outcome) {
    let said = finishes(&house());
    let mut next = house();
    next.prompt.extend(&said.tokens);
    next.prompt.extend(900..920);
    next.reply = LONG;
    next.spot_check = SpotCheck { random, ..ALWAYS };
    (next, said)
}

#[test]
fn a_span_that_goes_on_with_an_earlier_reply_is_checked_where_it_goes_on() {
    for random in 0..40 {
        let (case, said) = checked_second_turn(random);
        let held = (house().prompt.len() + house().reply - 1) as u32;
        let outcome = run_after(&case, said.prefix, said.kept);
        assert_eq!(outcome.end, End::Done);
        assert_eq!(outcome.tokens, crate::toy::reply(case.layers, &case.prompt, case.reply));
        assert_eq!((outcome.measure.resumed, outcome.measure.resumes_refused), (held, 0));
        assert_eq!((outcome.measure.spot_checks, outcome.measure.contradictions), (1, 0));
        // The stage before the span computed its past again, and the span's own host did not.
        let first_of = |attempt| outcome.sends.iter().find(|(it, ..)| *it == attempt);
        assert_eq!(first_of(1).map(|(_, position, _)| *position), Some(0));
        assert_eq!(first_of(2).map(|(_, position, _)| *position), Some(held));
        // What is left behind is as good as after any turn.
        let mut third = case.clone();
        third.prompt.extend(&outcome.tokens);
        third.prompt.push(77);
        third.spot_check = SpotCheck::OFF;
        let again = run_after(&third, outcome.prefix, outcome.kept);
        assert_eq!(again.tokens, crate::toy::reply(third.layers, &third.prompt, third.reply));
        assert!(again.measure.resumed > held && again.measure.resumes_refused == 0);
    }
}

#[test]
fn a_device_that_lies_only_after_it_went_on_is_found() {
    for random in 0..40 {
        let (mut case, said) = checked_second_turn(random);
        case.faults = vec![(0, Fault::Lie(0))];
        case.peers.truncate(1);
        let outcome = run_after(&case, said.prefix, said.kept);
        assert_eq!((outcome.measure.contradictions, suspects(&outcome)), (1, 1), "{random}");
        assert_eq!(outcome.places, [Place::Local; 3]);
    }
}

#[test]
fn a_replay_is_compared_with_what_was_answered_before() {
    let mut compared = 0;
    for random in 0..40 {
        let mut case = with(&[(100, Fault::Kill(0))]);
        case.reply = LONG;
        case.spot_check = SpotCheck { random, ..ALWAYS };
        let outcome = finishes(&case);
        assert_eq!(outcome.places[1], at(3));
        assert_eq!(
            (outcome.measure.spot_checks, outcome.measure.contradictions),
            (2, 0),
            "{random}"
        );
        // Nobody else was asked for the second, unless it fell on what nobody had answered: three
        // calls, a verifier, and the replacement.
        compared += u32::from(outcome.attempts.len() == 5);
    }
    assert!(compared > 20, "{compared} of 40");
}

#[test]
fn a_replacement_that_lies_is_found_by_its_replay() {
    let (mut found, mut in_time) = (0, 0);
    for random in 0..40 {
        let mut case = with(&[(95, Fault::Lie(3)), (100, Fault::Kill(0))]);
        case.reply = LONG;
        case.spot_check = SpotCheck { random, ..ALWAYS };
        let outcome = run(&case);
        assert_eq!(outcome.end, End::Done);
        if outcome.measure.contradictions == 0 {
            // Drawn was a chunk of which nothing but its last row was used, and only the first is
            // wrong.
            continue;
        }
        found += 1;
        assert!(!outcome.places.contains(&at(3)), "{random}: {:?}", outcome.places);
        let of_liar = |report: &Report| matches!(report, Report::ShardSuspect { peer: it, .. } if *it == peer(3));
        assert!(outcome.reports.iter().any(of_liar), "{random}");
        let reply = crate::toy::reply(case.layers, &case.prompt, case.reply);
        in_time += u32::from(outcome.tokens == reply);
    }
    assert!(found > 25 && in_time > 20, "{found} and {in_time} of 40");
}

#[test]
fn what_follows_a_hand_over_is_checked_too() {
    for (lies, found) in [(None, 0), (Some((95, Fault::Lie(3))), 1)] {
        let mut case = with(&[(100, Fault::Drain(0))]);
        case.faults.extend(lies);
        case.reply = LONG;
        case.giving = Some((Giving::Works, Duration::from_micros(1)));
        case.spot_check = SpotCheck { random: 4, ..ALWAYS };
        let outcome = run(&case);
        assert_eq!((outcome.end, outcome.measure.handovers), (End::Done, 1));
        assert!(outcome.measure.spot_checks >= 2, "{:?}", outcome.measure);
        assert_eq!(outcome.measure.contradictions, found);
    }
}

#[test]
fn no_word_of_a_device_that_is_contradicted_is_chosen_where_the_first_one_waits() {
    for peers in [1, 3] {
        for random in 0..40 {
            let mut case = with_a_liar(random);
            case.peers = vec![held(&[(0, 8)]); peers];
            case.spot_check = SpotCheck { random, ..WAITING };
            let outcome = run(&case);
            assert_eq!((outcome.end, outcome.measure.contradictions), (End::Done, 1));
            assert_eq!(suspects(&outcome), 1);
            assert!(!outcome.places.contains(&at(0)), "{:?}", outcome.places);
            let reply = crate::toy::reply(case.layers, &case.prompt, case.reply);
            assert_eq!(outcome.tokens, reply, "{peers} {random}");
        }
    }
}

#[test]
fn the_first_token_waits_for_the_check_and_for_nothing_else() {
    let at_once = finishes(&house());
    let mut case = house();
    case.spot_check = WAITING;
    let checked = finishes(&case);
    assert_eq!((checked.measure.spot_checks, checked.measure.contradictions), (1, 0));
    assert!(checked.measure.first_token > at_once.measure.first_token);
    // Two that compute behind one another are both checked.
    case.peers = vec![held(&[(0, 4)]), held(&[(4, 8)]), held(&[(0, 8)])];
    assert_eq!(finishes(&case).measure.spot_checks, 2);
    // Where nobody could compute it again, or all was computed here, nothing is waited for.
    case.peers = vec![held(&[(0, 8)])];
    case.fall_back = FallBack::Refuse;
    assert_eq!(finishes(&case).measure.spot_checks, 0);
    case.peers = Vec::new();
    case.fall_back = FallBack::Allow;
    assert_eq!(finishes(&case).measure.spot_checks, 0);
}

#[test]
fn whatever_befalls_a_reply_whose_first_token_waits_it_comes_in_the_end() {
    let faults = [
        Fault::Kill(0),
        Fault::BlackHole(0),
        Fault::Drain(0),
        Fault::LocalCrash,
        Fault::Overflow(0),
        Fault::OffersUnanswered,
        Fault::Kill(3),
        Fault::BlackHole(3),
    ];
    for fault in faults {
        for event in 0..60 {
            let mut case = with(&[(event, fault)]);
            case.spot_check = SpotCheck { random: 9, ..WAITING };
            assert_eq!(finishes(&case).measure.contradictions, 0, "{fault:?} at {event}");
        }
    }
}

#[test]
fn a_second_turn_waits_for_its_check_too() {
    let (mut case, said) = checked_second_turn(3);
    case.spot_check = WAITING;
    let outcome = run_after(&case, said.prefix, said.kept);
    assert_eq!((outcome.end, outcome.measure.spot_checks), (End::Done, 1));
    assert_eq!(outcome.tokens, crate::toy::reply(case.layers, &case.prompt, case.reply));
}

#[test]
fn a_device_that_lies_only_in_the_reply_is_found_by_its_steps() {
    let mut found = 0;
    for random in 0..40 {
        let mut case = with(&[(110, Fault::Lie(0))]);
        case.reply = LONG;
        // A step in twenty.
        case.spot_check = SpotCheck { decode_ppm: 50_000, random, ..SpotCheck::OFF };
        let outcome = run(&case);
        assert_eq!(outcome.end, End::Done);
        found += u32::from(outcome.measure.contradictions == 1);
        if outcome.measure.contradictions > 0 {
            assert_eq!(suspects(&outcome), 1);
            assert!(!outcome.places.contains(&at(0)), "{:?}", outcome.places);
        }
        // What was said before anything was wrong stays as it was.
        let reply = crate::toy::reply(case.layers, &case.prompt, case.reply);
        assert_eq!(outcome.tokens[..5], reply[..5]);
    }
    assert!(found > 35, "{found} of 40");
}

#[test]
fn a_check_of_a_step_covers_all_that_came_since_the_last_one() {
    let mut found = 0;
    for random in 0..40 {
        // One step alone is wrong, and hardly ever is it the one that is drawn.
        let mut case = with(&[(110, Fault::Corrupt(0, Garbage::Nudged))]);
        case.reply = LONG;
        case.spot_check = SpotCheck { decode_ppm: 50_000, random, ..SpotCheck::OFF };
        let outcome = run(&case);
        assert_eq!(outcome.end, End::Done);
        found += u32::from(outcome.measure.contradictions == 1);
    }
    assert!(found > 35, "{found} of 40");
}

#[test]
fn steps_of_honest_devices_pass_every_check() {
    let mut case = house();
    case.reply = LONG;
    case.spot_check = SpotCheck { decode_ppm: 50_000, random: 2, ..ALWAYS };
    let outcome = finishes(&case);
    assert!(outcome.measure.spot_checks > 2, "{:?}", outcome.measure.spot_checks);
    assert_eq!((outcome.measure.contradictions, suspects(&outcome)), (0, 0));
    case.spot_check = SpotCheck::OFF;
    assert_eq!(finishes(&case).measure.spot_checks, 0);
}
