//! A second prompt that begins like the first: only what is new is computed, whatever is remembered
//! and whatever happens, and the tokens are those of a prompt computed whole.

use nook_base::{ErrorCode, LayerRange};
use nook_plan::Place;
use proptest::prelude::*;

use crate::case::{Case, End, Fault, Outcome, peer};
use crate::scenario::{at, finishes, held, house, with};
use crate::world::run_after;
use crate::{any_fault, case, toy};

/// What somebody says next, in a conversation of `case` that was said to its end.
fn next_turn(case: &Case, said: &Outcome, more: &[u32]) -> Case {
    let mut next = case.clone();
    next.prompt.extend(&said.tokens);
    next.prompt.extend(more);
    next.faults.clear();
    next
}

/// Runs the second turn and expects the reply that a whole computation gives.
fn go_on(case: &Case, said: Outcome) -> Outcome {
    let outcome = run_after(case, said.prefix, said.kept);
    assert_eq!(outcome.end, End::Done);
    assert_eq!(outcome.tokens, toy::reply(case.layers, &case.prompt, case.reply));
    outcome
}

/// The lowest position that any attempt was sent.
fn first_sent(outcome: &Outcome) -> u32 {
    outcome.sends.iter().map(|(_, position, _)| *position).min().unwrap_or(0)
}

#[test]
fn turn_two_computes_only_what_is_new() {
    let case = house();
    let said = finishes(&case);
    let held = (case.prompt.len() + case.reply - 1) as u32;
    let next = next_turn(&case, &said, &[900, 901, 902]);
    let outcome = go_on(&next, said);
    assert_eq!((outcome.measure.resumed, outcome.measure.resumes_refused), (held, 0));
    assert_eq!(first_sent(&outcome), held);
    assert_eq!(outcome.places, [Place::Local, at(0), Place::Local]);
    // The last token of turn one, three new ones, and the reply but its last.
    let new = (1 + 3 + case.reply - 1) as u64;
    for hop in &outcome.measure.hops {
        assert_eq!(hop.prefill.positions + hop.decode.positions, new, "{hop:?}");
    }
    // And so on: what turn two left behind is as good as what turn one did.
    let third = next_turn(&next, &outcome, &[77]);
    let held = (next.prompt.len() + next.reply - 1) as u32;
    assert_eq!(go_on(&third, outcome).measure.resumed, held);
}

#[test]
fn asking_again_and_editing_go_on_at_the_last_common_step_end() {
    let case = house();
    let mut edited = case.clone();
    edited.prompt.splice(20.., [1, 2, 3, 4, 5]);
    // Chunks of eight: steps of the prompt end at 8, 16, 24 and 30.
    for (next, expected) in [(case.clone(), 24), (edited, 16)] {
        let outcome = go_on(&next, finishes(&case));
        assert_eq!((outcome.measure.resumed, first_sent(&outcome)), (expected, expected));
    }
}

#[test]
fn where_one_host_has_forgotten_all_begin_at_0_exactly_once() {
    for forgetful in [Place::Local, at(0)] {
        let case = house();
        let mut said = finishes(&case);
        said.kept.retain(|host| host.place != forgetful);
        let next = next_turn(&case, &said, &[5, 6]);
        let outcome = go_on(&next, said);
        assert_eq!((outcome.measure.resumed, outcome.measure.resumes_refused), (0, 1));
        assert_eq!(outcome.attempts.len(), 6, "three calls, and three again");
        assert_eq!(outcome.places, [Place::Local, at(0), Place::Local], "nobody is to blame");
        assert_eq!(outcome.measure.hops.len(), 3);
    }
}

#[test]
fn a_helper_that_dies_in_turn_two_is_replaced_by_computing_the_prompt_again() {
    for event in [0, 3, 6, 20, 60, 100] {
        let case = house();
        let said = finishes(&case);
        let mut next = next_turn(&case, &said, &[5, 6, 7]);
        next.faults = vec![(event, Fault::Kill(0))];
        let outcome = go_on(&next, said);
        assert_eq!(outcome.places, [Place::Local, at(3), Place::Local], "event {event}");
        assert_eq!(first_sent(&outcome), 0);
        // What is left behind after that is whole again.
        let third = next_turn(&next, &outcome, &[8]);
        let again = Case { faults: vec![(0, Fault::Kill(0))], ..third };
        assert!(go_on(&again, outcome).measure.resumed > 0, "event {event}");
    }
}

#[test]
fn only_positions_where_every_host_ended_a_step_are_asked_for() {
    // Whoever took over has read the past in chunks, so its steps ended elsewhere than those of
    // others.
    let case = with(&[(100, Fault::Kill(0))]);
    for cut in 9..65 {
        let said = finishes(&case);
        let mut next = next_turn(&case, &said, &[]);
        next.prompt.truncate(cut);
        next.prompt.extend([905, 906]);
        let outcome = go_on(&next, said);
        assert_eq!(outcome.measure.resumes_refused, 0, "cut at {cut}");
        assert!(outcome.measure.resumed >= 8, "cut at {cut}");
    }
}

#[test]
fn stopping_between_two_tokens_leaves_as_much_as_finishing() {
    for event in 20..60 {
        let case = with(&[(event, Fault::Cancel)]);
        let stopped = run_after(&case, None, Vec::new());
        assert_eq!(stopped.end, End::Aborted(ErrorCode::Cancelled));
        if stopped.tokens.is_empty() {
            continue;
        }
        let mut next = next_turn(&case, &stopped, &[5, 6]);
        next.reply = 5;
        let fed = (case.prompt.len() + stopped.tokens.len() - 1) as u32;
        let outcome = go_on(&next, stopped);
        assert!([fed, fed + 1].contains(&outcome.measure.resumed), "event {event}");
    }
}

#[test]
fn stopping_while_the_prompt_is_read_leaves_what_was_read() {
    let mut stopped_in_the_middle = 0;
    for event in 4..40 {
        let mut case = with(&[(event, Fault::Cancel)]);
        case.prompt = (1..=200).collect();
        let stopped = run_after(&case, None, Vec::new());
        assert_eq!(stopped.end, End::Aborted(ErrorCode::Cancelled));
        assert!(stopped.tokens.is_empty(), "event {event} is before the first token");
        let read = stopped.prefix.as_ref().map_or(0, |prefix| prefix.positions() as u32);
        assert_eq!(read % case.chunk, 0, "event {event}");
        stopped_in_the_middle += u32::from(read > 0);
        // Asked again, it goes on there.
        let again = Case { faults: Vec::new(), reply: 5, ..case };
        if read > 0 {
            assert_eq!(go_on(&again, stopped).measure.resumed, read, "event {event}");
        }
    }
    assert!(stopped_in_the_middle > 20, "{stopped_in_the_middle}");
}

#[test]
fn what_ended_badly_leaves_nothing() {
    let mut case = with(&[(100, Fault::Kill(0))]);
    case.peers = vec![held(&[(0, 8)])];
    case.fall_back = nook_pipeline::FallBack::Refuse;
    let outcome = run_after(&case, None, Vec::new());
    assert!(outcome.end != End::Done && outcome.prefix.is_none() && outcome.kept.is_empty());
    let early = run_after(&with(&[(2, Fault::Cancel)]), None, Vec::new());
    assert!(early.prefix.is_none() && early.kept.is_empty());
}

#[test]
fn a_trail_names_who_took_over() {
    let case = with(&[(100, Fault::Kill(0))]);
    let said = finishes(&case);
    let places: Vec<_> = said.prefix.iter().flat_map(|prefix| prefix.segments()).copied().collect();
    assert_eq!(places[1].place, Place::Peer(peer(3)));
    assert!(places[1].part.layers.contains(LayerRange::with_len(1, 6)));
    let mut next = next_turn(&case, &said, &[4]);
    next.peers[0].streams = 0;
    assert!(go_on(&next, said).measure.resumed > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Both turns may be disturbed, and any host may have forgotten.
    #[test]
    fn turn_two_is_the_turn_two_of_an_undisturbed_house_or_its_end_is_clear(
        case in case(any_fault()), later in prop::collection::vec((0..150_usize, any_fault()), 0..4),
        cut in 0..80_usize, more in prop::collection::vec(0..900_u32, 1..20), forgets in 0..12_usize,
    ) {
        let said = run_after(&case, None, Vec::new());
        let mut next = next_turn(&case, &said, &[]);
        next.prompt.truncate(cut.max(1));
        next.prompt.extend(&more);
        next.faults = later;
        let mut kept = said.kept;
        if forgets < kept.len() {
            kept.remove(forgets);
        }
        let outcome = run_after(&next, said.prefix, kept);
        let reply = toy::reply(next.layers, &next.prompt, next.reply);
        prop_assert!(reply.starts_with(&outcome.tokens), "{:?} is not of {:?}", outcome.tokens, reply);
        if outcome.end == End::Done {
            prop_assert_eq!(outcome.tokens.len(), reply.len());
        }
        prop_assert!(outcome.measure.resumes_refused <= 1);
        prop_assert_eq!(outcome.measure.contradictions, 0);
    }
}
