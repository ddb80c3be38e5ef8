//! The promise of a walk: whatever happens to the helpers, the tokens are those of an undisturbed
//! run, or the prompt ends with a clear code. Never a hang, never a call left open, never a token
//! id on another device.
//!
//! `world` is a house in simulated time that checks every action; here are the misfortunes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod case;
mod chain;
mod checks;
mod door;
mod drawn;
mod giving;
mod late;
mod mishap;
mod overlap;
mod resume;
mod scenario;
mod toy;
mod world;

use std::time::Duration;

use case::{Case, End, Fault, Garbage, Hands, IN_USE, PeerCase};
use nook_base::{ActivationDtype, ErrorCode, LayerRange};
use nook_pipeline::{FallBack, FirstWords, HEDGES_MAX, SpotCheck};
use proptest::prelude::*;
use world::run;

/// Two or three complete rows of helpers, each row cut somewhere else, and some who hold anything.
fn peers(layers: u32) -> impl Strategy<Value = Vec<PeerCase>> {
    let row = prop::collection::btree_set(1..layers, 0..4).prop_map(move |cuts| {
        let starts = [0].into_iter().chain(cuts.clone());
        let ends = cuts.into_iter().chain([layers]);
        let ranges = starts.zip(ends).map(|(start, end)| LayerRange::with_len(start, end - start));
        ranges.map(|range| vec![range]).collect::<Vec<_>>()
    });
    let range = (0..layers, 1..=layers).prop_map(|(start, len)| LayerRange::with_len(start, len));
    let others = prop::collection::vec(prop::collection::vec(range, 1..3), 0..3);
    let held = (prop::collection::vec(row, 1..4), others)
        .prop_map(|(rows, others)| rows.into_iter().flatten().chain(others).collect::<Vec<_>>());
    let shares = prop::collection::vec((1..4_u16, 50..5_000_u64), 15);
    (held, shares).prop_map(|(held, shares)| {
        let peers = held.into_iter().zip(shares);
        let peer = |(ranges, (streams, step_us))| PeerCase {
            ranges,
            streams,
            step_us,
            is_cold: step_us % 3 == 0,
        };
        peers.map(peer).collect()
    })
}

fn garbage() -> impl Strategy<Value = Garbage> {
    prop_oneof![
        Just(Garbage::NotANumber),
        Just(Garbage::Zero),
        Just(Garbage::Copy),
        Just(Garbage::RowMissing),
        Just(Garbage::OtherType),
        Just(Garbage::OtherPosition),
        Just(Garbage::FutureStep),
    ]
}

/// What can be done to helpers and to the link with them.
fn helper_fault() -> impl Strategy<Value = Fault> {
    let index = prop_oneof![2 => IN_USE..IN_USE + 4, 1 => 0..12_usize];
    let codes = prop::sample::select(ErrorCode::ALL.to_vec());
    prop_oneof![
        3 => index.clone().prop_map(Fault::Kill),
        2 => index.clone().prop_map(Fault::BlackHole),
        2 => (index.clone(), 10..60_000_u64)
            .prop_map(|(index, ms)| Fault::Stall(index, Duration::from_millis(ms))),
        1 => (index.clone(), 10..20_000_u64)
            .prop_map(|(index, ms)| Fault::Trickle(index, Duration::from_millis(ms))),
        2 => (index.clone(), codes).prop_map(|(index, code)| Fault::Error(index, code)),
        2 => (index.clone(), garbage()).prop_map(|(index, garbage)| Fault::Corrupt(index, garbage)),
        2 => (index.clone(), 2..40_u64).prop_map(|(index, times)| Fault::Slow(index, times)),
        1 => index.clone().prop_map(Fault::Full),
        1 => index.clone().prop_map(Fault::Overflow),
        1 => index.clone().prop_map(Fault::CutOff),
        1 => index.prop_map(Fault::Drain),
        1 => Just(Fault::OffersUnanswered),
    ]
}

/// What makes a device late or slow, and nothing else.
fn lateness() -> impl Strategy<Value = Fault> {
    let index = || prop_oneof![2 => IN_USE..IN_USE + 4, 1 => 0..12_usize];
    prop_oneof![
        3 => (index(), 300..20_000_u64)
            .prop_map(|(index, ms)| Fault::Stall(index, Duration::from_millis(ms))),
        2 => (index(), 5..60_u64).prop_map(|(index, times)| Fault::Slow(index, times)),
        1 => (index(), 300..20_000_u64)
            .prop_map(|(index, ms)| Fault::Trickle(index, Duration::from_millis(ms))),
        1 => index().prop_map(Fault::BlackHole),
    ]
}

/// Devices that are gone for a while, all together for less than a reply waits.
fn absence() -> impl Strategy<Value = Fault> {
    let index = prop_oneof![2 => IN_USE..IN_USE + 4, 1 => 0..12_usize];
    (index, 1..40_u64).prop_map(|(index, seconds)| Fault::Away(index, Duration::from_secs(seconds)))
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        8 => helper_fault(),
        1 => Just(Fault::LocalCrash),
        1 => Just(Fault::LocalRefusesMiddle),
        1 => Just(Fault::Cancel),
    ]
}

fn case(fault: impl Strategy<Value = Fault>) -> impl Strategy<Value = Case> {
    let model = (3..14_u32, 0..3_u32, 0..3_u32);
    let text = (prop::collection::vec(0..900_u32, 1..60), 1..25_usize);
    let dtype = prop::sample::select(&ActivationDtype::ALL[..]);
    let steps = (1..12_u32, 1..4_usize, dtype);
    let retained = prop_oneof![Just(1 << 20), 0..2_000_usize];
    let rules = (0..4_u32, any::<bool>(), retained, prop_oneof![Just(0), Just(200_000)]);
    let faults = prop::collection::vec((0..200_usize, fault), 1..8);
    let echo = prop::option::of((0..20_000_u64).prop_map(Duration::from_millis));
    let giving = prop::option::of((giving::any(), Just(Duration::from_micros(1))));
    let echo = (echo, giving);
    (model, text, steps, rules, faults, echo, any::<u64>()).prop_flat_map(
        |(model, text, steps, rules, faults, echo, seed)| {
            peers(model.0).prop_map(move |peers| Case {
                layers: model.0,
                prefix: model.1,
                suffix: model.2,
                peers,
                prompt: text.0.clone(),
                reply: text.1,
                chunk: steps.0,
                window: steps.1,
                dtype: steps.2,
                failovers_max: rules.0,
                fall_back: if rules.1 { FallBack::Allow } else { FallBack::Refuse },
                room_here: if seed % 7 == 0 { (seed >> 24) as u32 % model.0 } else { u32::MAX },
                only_ends: seed % 11 == 0,
                replay_log_bytes_max: rules.2,
                spot_check: SpotCheck {
                    share_ppm: rules.3,
                    decode_ppm: if seed % 4 == 0 { rules.3 } else { 0 },
                    random: seed,
                    first_words: if seed % 13 < 4 {
                        FirstWords::Checked
                    } else {
                        FirstWords::AtOnce
                    },
                },
                faults: faults.clone(),
                giving: echo.1,
                echo: echo.0,
                adverts_outlive: seed % 3 == 0,
                knows_paces: seed % 2 == 0,
                step_here: (seed % 5 == 0).then(|| Duration::from_micros((seed >> 16) % 100_000)),
                forward: [Hands::Nobody, Hands::Everybody, Hands::Some][(seed >> 8) as usize % 3],
                seed,
            })
        },
    )
}

/// This device may compute whatever it must.
fn stands_in(case: Case) -> Case {
    Case { fall_back: FallBack::Allow, room_here: u32::MAX, only_ends: false, ..case }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tokens_are_those_of_an_undisturbed_run_or_the_end_is_clear(case in case(any_fault())) {
        let outcome = run(&case);
        let reply = toy::reply(case.layers, &case.prompt, case.reply);
        prop_assert!(reply.starts_with(&outcome.tokens), "{:?} is not of {:?}", outcome.tokens, reply);
        if outcome.end == End::Done {
            prop_assert_eq!(outcome.tokens.len(), reply.len());
        }
        prop_assert_eq!(outcome.measure.contradictions, 0);
        if case.only_ends {
            prop_assert_eq!(outcome.measure.fallbacks_to_local, 0);
        }
        prop_assert!(outcome.measure.hedges <= HEDGES_MAX);
        prop_assert!(outcome.measure.hedges_won <= outcome.measure.hedges);
    }

    /// Devices stutter, crawl and fall silent, and are not lost otherwise: whoever is asked beside
    /// them may answer first or not, and no position is ever taken from both.
    #[test]
    fn whoever_answers_first_the_tokens_are_those_of_an_undisturbed_run(case in case(lateness())) {
        let case = stands_in(case);
        let outcome = run(&case);
        prop_assert_eq!(outcome.end, End::Done);
        prop_assert_eq!(outcome.tokens, toy::reply(case.layers, &case.prompt, case.reply));
        prop_assert!(outcome.measure.hedges <= HEDGES_MAX);
        prop_assert!(outcome.measure.hedges_won as usize <= outcome.measure.failovers.len());
        prop_assert_eq!(outcome.measure.contradictions, 0);
    }

    #[test]
    fn where_this_device_may_stand_in_no_helper_can_stop_a_reply(case in case(helper_fault())) {
        let case = stands_in(case);
        let outcome = run(&case);
        prop_assert_eq!(outcome.end, End::Done);
        prop_assert_eq!(outcome.tokens, toy::reply(case.layers, &case.prompt, case.reply));
    }

    /// This device has no room for any layer of others, and the others restart.
    #[test]
    fn a_reply_that_has_begun_goes_on_when_who_is_needed_comes_back(case in case(absence())) {
        let mut case =
            Case { fall_back: FallBack::Allow, room_here: 0, adverts_outlive: false, ..case };
        // What was cut for two devices may come back to one, which then has both halves.
        case.peers.iter_mut().for_each(|peer| peer.streams = 16);
        let outcome = run(&case);
        if outcome.tokens.is_empty() {
            prop_assert_eq!(outcome.end, End::Aborted(ErrorCode::ShardUnavailable));
        } else {
            prop_assert_eq!(outcome.end, End::Done);
        }
        let reply = toy::reply(case.layers, &case.prompt, case.reply);
        prop_assert!(outcome.tokens.is_empty() || outcome.tokens == reply);
    }
}
