//! Devices that are late: what suspicion costs, and what it saves.

use std::time::Duration;

use nook_base::ErrorCode;
use nook_pipeline::{FallBack, FirstWords, HEDGES_MAX, Report, ShardState, SpotCheck};
use nook_plan::Place;

use crate::case::{Case, End, Fault, PeerCase, peer};
use crate::scenario::{at, finishes, held, house, is_degraded, with};
use crate::toy;
use crate::world::run;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_hiccup_without_a_spare_costs_no_hand_over() {
    let mut case = with(&[(120, Fault::Stall(0, Duration::from_millis(900)))]);
    case.peers.truncate(1);
    let outcome = finishes(&case);
    assert!(outcome.measure.failovers.is_empty() && outcome.measure.fallbacks_to_local == 0);
    let degraded = outcome.reports.iter().filter(|report| is_degraded(report));
    assert_eq!(degraded.count(), 1);
}

#[test]
fn a_hiccup_with_a_spare_costs_no_hand_over_either() {
    // Late after half a second; the spare would need some 70 ms for the replay.
    let outcome = finishes(&with(&[(120, Fault::Stall(0, ms(550)))]));
    assert!(outcome.measure.failovers.is_empty());
    assert_eq!(outcome.places[1], at(0));
    assert_eq!(outcome.attempts[3], at(3), "a replay had begun there");
    assert_eq!(outcome.superseded, 1, "and it was told to forget");
    assert_eq!((outcome.measure.hedges, outcome.measure.hedges_won), (1, 0));
    let states: Vec<ShardState> = outcome
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::ShardStatus { state, .. } => Some(*state),
            _ => None,
        })
        .collect();
    assert_eq!(states, [ShardState::Online, ShardState::Late, ShardState::Online]);
}

#[test]
fn a_silent_helper_is_replaced_by_the_spare_that_answers_first() {
    for fault in [Fault::Stall(0, ms(900)), Fault::BlackHole(0)] {
        let outcome = finishes(&Case { reply: 400, ..with(&[(120, fault)]) });
        assert_eq!(outcome.places[1], at(3));
        let [failover] = &outcome.measure.failovers[..] else { panic!("{fault:?}") };
        assert_eq!((failover.from, &failover.to[..]), (peer(0), &[at(3)][..]));
        // From the step that was not answered to the next token: deadline and replay.
        assert!(failover.pause > ms(500) && failover.pause < ms(700), "{failover:?}");
        let gaps = outcome.times.windows(2).map(|pair| pair[1] - pair[0]);
        let longest = gaps.max().expect("more than one token");
        assert!(longest >= failover.pause && longest < failover.pause + ms(10));
        // What it still says comes for a closed call.
        assert_eq!((outcome.measure.hedges, outcome.measure.hedges_won), (1, 1));
        let is_late = matches!(fault, Fault::Stall(..));
        assert_eq!(outcome.measure.late_frames, u32::from(is_late));
        assert_eq!(outcome.superseded, 1);
    }
}

#[test]
fn a_spare_that_dies_during_its_replay_leaves_the_late_device_in_its_place() {
    for second in 121..135 {
        let mut case = with(&[(120, Fault::Stall(0, ms(2_000))), (second, Fault::Kill(1))]);
        case.peers = vec![held(&[(0, 8)]), held(&[(0, 8)])];
        case.fall_back = FallBack::Refuse;
        finishes(&case);
    }
}

/// The first token waits for the check of the prompt. All of the prompt is answered when its device
/// dies, so whoever comes next says nothing new; it falls silent, and nor does its hedge.
#[test]
fn a_silent_device_that_only_repeats_is_replaced_by_the_hedge_that_has_repeated_all() {
    let mut replaced = 0;
    for (dies, silent) in (20..60).flat_map(|dies| (1..12).map(move |then| (dies, dies + then))) {
        let mut case = with(&[(dies, Fault::Kill(0)), (silent, Fault::BlackHole(3))]);
        case.spot_check = SpotCheck { first_words: FirstWords::Checked, ..SpotCheck::OFF };
        case.peers = vec![held(&[(0, 8)]); 6];
        let outcome = finishes(&case);
        replaced += outcome.measure.failovers.iter().filter(|it| it.from == peer(3)).count();
    }
    assert!(replaced > 0);
}

#[test]
fn the_late_device_may_die_while_its_spare_is_replayed() {
    for second in 121..135 {
        let outcome = finishes(&with(&[(120, Fault::BlackHole(0)), (second, Fault::Kill(0))]));
        assert_eq!(outcome.places[1], at(3));
        assert_eq!(outcome.measure.failovers.len(), 1, "{second}");
    }
}

#[test]
fn two_devices_may_be_late_at_once_and_a_span_may_have_two_rivals() {
    let mut case = with(&[(100, Fault::BlackHole(0)), (100, Fault::BlackHole(1))]);
    case.peers = vec![held(&[(0, 4)]), held(&[(4, 8)])];
    case.peers.extend([held(&[(0, 2)]), held(&[(2, 4)]), held(&[(4, 6)]), held(&[(6, 8)])]);
    let outcome = finishes(&case);
    assert_eq!(outcome.measure.failovers.len(), 2);
    assert_eq!(outcome.places, [Place::Local, at(2), at(3), at(4), at(5), Place::Local]);
}

#[test]
fn this_device_begins_with_the_layers_of_a_late_one_only_after_more_than_a_hiccup() {
    let case = |delay| {
        let mut case = with(&[(120, Fault::Stall(0, ms(delay)))]);
        case.peers.truncate(1);
        case
    };
    // Half a second, then a second more.
    assert_eq!(finishes(&case(1_400)).attempts.len(), 3);
    let outcome = finishes(&case(5_000));
    assert_eq!(outcome.places, [Place::Local; 3]);
    assert_eq!(outcome.measure.fallbacks_to_local, 1);
    // Late, but before our own worker has caught up.
    let outcome = finishes(&case(1_501));
    assert_eq!((outcome.attempts.len(), outcome.places[1]), (4, at(0)));
    assert_eq!(outcome.measure.fallbacks_to_local, 0);
}

#[test]
fn who_is_heard_from_is_not_late() {
    let outcome = finishes(&with(&[(120, Fault::Trickle(0, ms(4_000)))]));
    assert_eq!((outcome.attempts.len(), outcome.places[1]), (3, at(0)));
    assert!(!outcome.reports.iter().any(is_degraded));
}

#[test]
fn who_splits_an_answer_finer_than_it_has_pieces_is_late() {
    let outcome = finishes(&with(&[(120, Fault::Trickle(0, ms(60_000)))]));
    assert_eq!(outcome.attempts.len(), 4, "a hedge began");
    assert_ne!(outcome.places[1], at(0));
    assert!(outcome.reports.iter().any(is_degraded));
}

#[test]
fn a_device_that_stutters_without_end_is_left_for_good() {
    let mut case = house();
    case.reply = 400;
    case.prompt = vec![7];
    // Once its pace knows the stutter it is not late any more; so each is longer than the last.
    case.faults =
        (0..30).map(|n| (100 + n * 60, Fault::Stall(0, ms(501 + n as u64 * 300)))).collect();
    case.peers.truncate(1);
    case.peers.push(held(&[(0, 8)]));
    case.peers[1].step_us = 40_000;
    let outcome = finishes(&case);
    assert!(outcome.superseded as u32 <= HEDGES_MAX + 1);
}

#[test]
fn a_history_that_is_forgotten_cannot_be_replayed_beside_so_the_late_device_is_left() {
    let mut case = with(&[(120, Fault::BlackHole(0))]);
    case.replay_log_bytes_max = 0;
    let outcome = finishes(&case);
    assert_eq!(outcome.places[1], at(3));
    assert_eq!(outcome.measure.failovers.len(), 1);
}

#[test]
fn the_pause_of_a_death_in_prefill_lasts_until_the_first_token() {
    let case = |fault: Option<Fault>| {
        let mut case: Case = house();
        case.prompt = (1..=300).collect();
        case.faults = fault.map(|fault| (8, fault)).into_iter().collect();
        case
    };
    let undisturbed = finishes(&case(None)).times[0];
    let outcome = finishes(&case(Some(Fault::Kill(0))));
    let [failover] = &outcome.measure.failovers[..] else { panic!() };
    // It died at the very start, so nearly all of the prompt was computed again.
    assert!(failover.pause > undisturbed.mul_f64(0.8), "{:?} {undisturbed:?}", failover.pause);
    assert!(failover.pause <= outcome.times[0]);
    let told = outcome.reports.iter().find_map(|report| match report {
        Report::ShardFailover { pause, .. } => Some(*pause),
        _ => None,
    });
    assert_eq!(told, Some(failover.pause));
}

#[test]
fn a_token_that_comes_from_what_the_dead_had_answered_does_not_end_the_pause() {
    let mut early = 0;
    for event in 100..130 {
        let mut case = with(&[(event, Fault::Kill(0))]);
        case.peers = vec![held(&[(0, 4)]), held(&[(4, 8)]), held(&[(0, 4)])];
        // The second hop is still at the last step when the first one dies, and the spare has some
        // 60 positions to compute.
        case.peers[1].step_us = 20_000;
        case.peers[2].step_us = 5_000;
        let outcome = finishes(&case);
        let [failover] = &outcome.measure.failovers[..] else { panic!("{event}") };
        assert!(failover.pause > ms(200), "{event}: {failover:?}");
        early += usize::from(failover.pause < ms(300));
    }
    assert!(early > 0);
}

#[test]
fn everybody_falls_silent_and_the_prompt_ends() {
    let mut case = house();
    case.faults = (0..4).map(|index| (100, Fault::BlackHole(index))).collect();
    case.fall_back = FallBack::Refuse;
    let outcome = run(&case);
    assert_eq!(outcome.end, End::Aborted(ErrorCode::PipelineStalled));
    assert!(toy::reply(8, &case.prompt, case.reply).starts_with(&outcome.tokens));
    case.fall_back = FallBack::Allow;
    finishes(&case);
}

/// Device 0 becomes slower in the middle of a long reply; what its paces were is known or not.
fn slower(times: u64, knows_paces: bool) -> Case {
    let mut case = with(&[(120, Fault::Slow(0, times))]);
    case.reply = 400;
    case.knows_paces = knows_paces;
    case.peers.iter_mut().for_each(|peer| peer.step_us = 3_000);
    case
}

#[test]
fn a_device_that_became_twenty_times_slower_is_left_for_an_idle_spare() {
    let outcome = finishes(&slower(20, true));
    assert_eq!(outcome.places[1], at(3));
    assert_eq!((outcome.measure.hedges, outcome.measure.hedges_won), (1, 1));
    let [failover] = &outcome.measure.failovers[..] else { panic!("{:?}", outcome.measure) };
    assert_eq!((failover.from, &failover.to[..]), (peer(0), &[at(3)][..]));
    // It answered all the while, so nobody waited for the replay.
    assert!(failover.pause < ms(130), "{failover:?}");
    let lost = |report: &Report| {
        matches!(report, Report::ShardStatus { state: ShardState::Lost | ShardState::Late, .. })
    };
    assert!(!outcome.reports.iter().any(lost), "slow is neither lost nor late");
    let longest = outcome.times.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(longest < Some(ms(130)), "{longest:?}");
    let kept = finishes(&slower(20, false));
    assert_eq!(kept.places[1], at(0), "what nobody has measured is not compared");
}

#[test]
fn a_device_that_became_a_little_slower_stays() {
    for times in [2, 3] {
        let outcome = finishes(&slower(times, true));
        assert_eq!((outcome.places[1], outcome.attempts.len()), (at(0), 3), "{times}");
    }
}

#[test]
fn a_slow_device_stays_where_a_move_would_not_pay() {
    let spare = |step_us: u64, prompt: u32| {
        let mut case = slower(20, true);
        case.peers[3].step_us = step_us;
        case.peers.truncate(4);
        case.peers[1].step_us = step_us;
        case.peers[2].step_us = step_us;
        case.prompt = (1..=prompt).collect();
        finishes(&case).places[1]
    };
    assert_eq!(spare(27_000, 30), at(0), "the spare is hardly faster");
    assert_ne!(spare(3_000, 30), at(0));
    // 64 positions of 60 ms are not worth the replay of 2,000.
    assert_eq!(spare(3_000, 2_000), at(0));
}

#[test]
fn a_slow_device_is_left_for_a_fast_one_that_loads_though_a_slow_one_need_not() {
    let mut case = slower(100, true);
    case.peers.iter_mut().skip(1).for_each(|spare| spare.step_us = 150_000);
    case.peers[3] = PeerCase { is_cold: true, step_us: 3_000, ..held(&[(0, 8)]) };
    assert_eq!(finishes(&case).places[1], at(3));
}

#[test]
fn a_slow_device_stays_when_whoever_was_to_follow_dies() {
    for second in 130..190 {
        let mut case = slower(20, true);
        case.peers = vec![held(&[(0, 8)]), held(&[(0, 8)])];
        case.faults.push((second, Fault::Kill(1)));
        finishes(&case);
    }
}
