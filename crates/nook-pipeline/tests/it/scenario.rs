//! Single misfortunes, each with what users and counters must see of it.

use std::collections::BTreeSet;
use std::time::Duration;

use nook_base::{ActivationDtype, ErrorCode, LayerRange, PeerId};
use nook_pipeline::{FallBack, QUEUED_CHUNKS_MAX, RECOVERIES_MAX, Report, ShardState, SpotCheck};
use nook_plan::Place;

use crate::case::{Case, End, Fault, Garbage, Hands, Outcome, PeerCase, peer};
use crate::toy;
use crate::world::run;

pub(crate) fn held(ranges: &[(u32, u32)]) -> PeerCase {
    PeerCase {
        ranges: ranges
            .iter()
            .map(|(start, end)| LayerRange::with_len(*start, end - start))
            .collect(),
        streams: 2,
        step_us: 1_000,
        is_cold: false,
    }
}

/// Eight layers; 0 has the whole middle, 1 and 2 a half each, 3 all again.
pub(crate) fn house() -> Case {
    Case {
        layers: 8,
        prefix: 1,
        suffix: 1,
        peers: vec![held(&[(0, 8)]), held(&[(0, 4)]), held(&[(4, 8)]), held(&[(0, 8)])],
        prompt: (1..=30).collect(),
        reply: 40,
        chunk: 8,
        window: 2,
        dtype: ActivationDtype::F16,
        failovers_max: 2,
        fall_back: FallBack::Allow,
        room_here: u32::MAX,
        only_ends: false,
        replay_log_bytes_max: 1 << 20,
        spot_check: SpotCheck::OFF,
        faults: Vec::new(),
        giving: None,
        echo: None,
        adverts_outlive: false,
        knows_paces: false,
        step_here: None,
        forward: Hands::Nobody,
        seed: 11,
    }
}

pub(crate) fn with(faults: &[(usize, Fault)]) -> Case {
    Case { faults: faults.to_vec(), ..house() }
}

/// Runs to the end and expects the whole, undisturbed reply.
pub(crate) fn finishes(case: &Case) -> Outcome {
    let outcome = run(case);
    assert_eq!(outcome.end, End::Done);
    assert_eq!(outcome.tokens, toy::reply(case.layers, &case.prompt, case.reply));
    outcome
}

pub(crate) fn at(index: usize) -> Place {
    Place::Peer(peer(index))
}

pub(crate) fn is_degraded(report: &Report) -> bool {
    let states = [ShardState::Degraded, ShardState::Late];
    matches!(report, Report::ShardStatus { state, .. } if states.contains(state))
}

#[test]
fn an_undisturbed_walk_reports_nothing_but_its_start() {
    let outcome = finishes(&house());
    let online = Report::ShardStatus {
        peer: peer(0),
        layers: LayerRange::with_len(1, 6),
        state: ShardState::Online,
    };
    assert_eq!(outcome.reports, [online]);
    let measure = outcome.measure;
    assert!(measure.construct.is_some() && measure.first_token > measure.construct);
    assert!(measure.failovers.is_empty());
    let hop = measure.hops[1];
    assert_eq!((hop.place, hop.decode.steps), (at(0), 39));
    assert_eq!(hop.prefill.positions, 30);
    // A step that waits behind another is not charged for the time of both.
    let prefill_us = hop.prefill.compute_us + hop.prefill.queue_us + hop.prefill.wire_us;
    assert!(u128::from(prefill_us) <= measure.first_token.unwrap().as_micros());
    // The host claims to have computed for more than an hour; it is believed what really passed.
    assert_eq!((hop.decode.queue_us, hop.decode.wire_us), (0, 0));
    assert!(hop.decode.compute_us < 39 * 3_000);
}

#[test]
fn prefill_chunks_flow_one_hop_behind_the_other() {
    let mut case = house();
    case.peers = vec![held(&[(0, 4)]), held(&[(4, 8)])];
    let outcome = finishes(&case);
    let sent = |attempt, position| {
        let found = outcome.sends.iter().position(|(a, p, _)| (*a, *p) == (attempt, position));
        found.unwrap_or_else(|| panic!("{position} went to {attempt}"))
    };
    // Attempts 1 to 4 are prefix, two hops, suffix.
    assert!(
        sent(2, 8) < sent(3, 0),
        "the first hop has its second chunk while it computes the first"
    );
    assert!(sent(2, 16) < sent(4, 0), "and its third before the first has come through");
    assert!(sent(3, 8) < sent(4, 8));
}

#[test]
fn a_killed_helper_is_replaced_by_the_next_and_the_pause_is_told() {
    // Event 100 is in the middle of decode.
    let outcome = finishes(&with(&[(100, Fault::Kill(0))]));
    let to = vec![at(3)];
    assert!(matches!(
        &outcome.reports[..],
        [
            Report::ShardStatus { state: ShardState::Online, .. },
            Report::ShardStatus { state: ShardState::Lost, .. },
            Report::ShardStatus { state: ShardState::Online, .. },
            Report::ShardFailover { from, to: now, .. },
        ] if *from == peer(0) && *now == to
    ));
    let failover = &outcome.measure.failovers[0];
    assert!(failover.pause > Duration::ZERO && failover.pause < Duration::from_millis(500));
}

#[test]
fn one_span_may_go_to_two_helpers_whose_boundary_is_rebuilt() {
    let outcome = finishes(&with(&[(100, Fault::Kill(0)), (100, Fault::Kill(3))]));
    assert_eq!(outcome.places, [Place::Local, at(1), at(2), Place::Local]);
    let failover = &outcome.measure.failovers[0];
    assert_eq!(failover.to, [at(1), at(2)]);
}

#[test]
fn the_replacement_may_be_killed_too_even_while_it_is_replayed() {
    for second in 100..115 {
        let outcome = finishes(&with(&[(100, Fault::Kill(0)), (second, Fault::Kill(3))]));
        assert!(outcome.measure.fallbacks_to_local == 0);
    }
}

#[test]
fn after_the_failovers_allowed_this_device_is_preferred_to_a_spare() {
    let kills = [(60, Fault::Kill(0)), (90, Fault::Kill(3)), (130, Fault::Kill(1))];
    let mut case = with(&kills);
    case.peers = vec![held(&[(0, 8)]); 5];
    let outcome = finishes(&case);
    assert_eq!(outcome.measure.fallbacks_to_local, 1);
    let local = Report::FallbackToLocal { layers: LayerRange::with_len(1, 6) };
    assert!(outcome.reports.contains(&local));
    assert_eq!(outcome.places, [Place::Local; 3]);

    case.failovers_max = 3;
    let outcome = finishes(&case);
    assert_eq!(outcome.measure.fallbacks_to_local, 0);
    assert_eq!(outcome.measure.failovers.len(), 3);
}

#[test]
fn a_stream_that_one_span_took_is_not_offered_to_the_next() {
    let mut case = with(&[(80, Fault::Kill(0)), (80, Fault::Kill(3))]);
    // Queues make 0 and 3 the first choice, and then 6, whose one stream suffices for one of them.
    case.peers = vec![held(&[(4, 8)]); 7];
    case.peers[0] = held(&[(0, 4)]);
    case.peers[1] = held(&[(0, 4)]);
    case.peers[6] = held(&[(0, 4), (4, 8)]);
    case.peers[6].streams = 1;
    let outcome = finishes(&case);
    assert!(outcome.places.contains(&at(6)));
    assert_eq!(outcome.measure.failovers.len(), 2);
    assert!(!outcome.reports.iter().any(is_degraded));
}

#[test]
fn a_late_only_holder_gets_a_second_chance() {
    let mut case = with(&[(80, Fault::Stall(0, Duration::from_secs(80)))]);
    case.peers.truncate(1);
    case.fall_back = FallBack::Refuse;
    let outcome = finishes(&case);
    assert_eq!(outcome.measure.failovers[0].to, [at(0)]);
}

#[test]
fn helpers_beyond_number_that_refuse_are_not_asked_for_ever() {
    let mut case = house();
    case.peers = vec![held(&[(0, 8)]); 60];
    case.faults = (0..60).map(|index| (1, Fault::Kill(index))).collect();
    case.failovers_max = u32::MAX;
    // Offers are made by the dead as well: their adverts have not expired.
    case.adverts_outlive = true;
    let opened = |outcome: &Outcome| outcome.attempts.len();
    let outcome = finishes(&case);
    assert_eq!(outcome.measure.fallbacks_to_local, 1);
    assert_eq!(opened(&outcome), 3 + RECOVERIES_MAX + 1);

    case.fall_back = FallBack::Refuse;
    let outcome = run(&case);
    assert_eq!(outcome.end, End::Aborted(ErrorCode::ShardUnavailable));
    assert_eq!(opened(&outcome), 3 + RECOVERIES_MAX);
}

#[test]
fn a_fast_hop_does_not_run_far_ahead_of_a_slow_one() {
    let mut case = house();
    case.prompt = (1..=200).collect();
    case.peers = vec![held(&[(0, 4)]), held(&[(4, 8)])];
    case.peers[0].step_us = 10;
    case.peers[1].step_us = 20_000;
    let outcome = finishes(&case);
    let (mut ahead, mut behind) = (0, 0);
    for (attempt, position, count) in &outcome.sends {
        match attempt {
            2 => ahead = position + count,
            3 => behind = position + count,
            _ => {}
        }
        assert!(ahead <= behind + case.chunk * (QUEUED_CHUNKS_MAX + 1));
    }
}

#[test]
fn two_helpers_that_die_at_once_are_both_replaced() {
    let mut case = with(&[(80, Fault::Kill(0)), (80, Fault::Kill(3))]);
    // Queues make 0 and 3 the first choice.
    case.peers = vec![held(&[(0, 4)]), held(&[(4, 8)]), held(&[(0, 4)]), held(&[(4, 8)])];
    let outcome = finishes(&case);
    assert_eq!(outcome.places, [Place::Local, at(2), at(1), Place::Local]);
    assert_eq!(outcome.measure.failovers.len(), 2);
}

#[test]
fn the_only_holder_dies_and_this_device_may_not_stand_in() {
    let mut case = with(&[(80, Fault::Kill(0))]);
    case.peers.truncate(1);
    case.fall_back = FallBack::Refuse;
    let outcome = run(&case);
    assert_eq!(outcome.end, End::Aborted(ErrorCode::ShardUnavailable));
    assert!(!outcome.tokens.is_empty(), "the reply so far is kept");
}

#[test]
fn a_reply_waits_for_the_only_device_that_can_go_on() {
    let away = |minutes: u64| {
        let mut case = with(&[(80, Fault::Away(0, Duration::from_secs(60 * minutes)))]);
        case.peers.truncate(1);
        case
    };
    let mut case = away(4);
    case.room_here = 5;
    let outcome = finishes(&case);
    assert_eq!(outcome.measure.fallbacks_to_local, 0, "no room for six layers");
    let states: Vec<ShardState> = outcome
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::ShardStatus { state, .. } => Some(*state),
            _ => None,
        })
        .collect();
    let online = ShardState::Online;
    assert_eq!(states, [online, ShardState::Lost, ShardState::Awaited, online]);
    assert!(*outcome.times.last().expect("tokens") > Duration::from_secs(240));

    case.room_here = 6;
    assert_eq!(finishes(&case).measure.fallbacks_to_local, 1, "room for all that is missing");

    // Room enough, and none of the weights.
    case.only_ends = true;
    assert_eq!(finishes(&case).measure.fallbacks_to_local, 0);
    case.only_ends = false;

    let mut case = away(6);
    case.room_here = 0;
    let outcome = run(&case);
    assert_eq!(outcome.end, End::Aborted(ErrorCode::ShardUnavailable));
    assert!(!outcome.tokens.is_empty(), "the reply so far is kept");
    assert_eq!(outcome.missing, Some(LayerRange::with_len(1, 6)));
}

#[test]
fn every_device_that_is_awaited_is_named() {
    let away = |host| (80, Fault::Away(host, Duration::from_secs(60)));
    let mut case = with(&[away(0), away(1)]);
    case.peers = vec![held(&[(0, 4)]), held(&[(4, 8)])];
    case.room_here = 0;
    let outcome = finishes(&case);
    let awaited: BTreeSet<PeerId> = outcome
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::ShardStatus { peer: who, state: ShardState::Awaited, .. } => Some(*who),
            _ => None,
        })
        .collect();
    assert_eq!(awaited, [peer(0), peer(1)].into());
}

#[test]
fn a_silent_only_holder_ends_as_stalled_after_a_second_chance() {
    let mut case = with(&[(80, Fault::BlackHole(0))]);
    case.peers.truncate(1);
    case.fall_back = FallBack::Refuse;
    assert_eq!(run(&case).end, End::Aborted(ErrorCode::PipelineStalled));
}

#[test]
fn every_result_sent_again_late_changes_nothing() {
    for later in [0, 1, 5, 20] {
        let mut case = house();
        case.echo = Some(Duration::from_millis(later));
        let outcome = finishes(&case);
        assert!(outcome.measure.late_frames > 0);
        assert!(outcome.measure.failovers.is_empty());
    }
}

#[test]
fn garbage_is_refused_counted_and_computed_elsewhere() {
    let kinds = [
        Garbage::NotANumber,
        Garbage::Zero,
        Garbage::Copy,
        Garbage::RowMissing,
        Garbage::OtherType,
        Garbage::OtherPosition,
        Garbage::FutureStep,
    ];
    for garbage in kinds {
        for event in [5, 100] {
            let outcome = finishes(&with(&[(event, Fault::Corrupt(0, garbage))]));
            assert_eq!(outcome.measure.corrupt_activations, 1, "{garbage:?}");
            assert_eq!(outcome.places[1], at(3), "{garbage:?}");
        }
    }
}

#[test]
fn a_full_helper_is_passed_over_without_counting_as_a_failure() {
    let mut case = with(&[(90, Fault::Full(3)), (100, Fault::Kill(0))]);
    case.failovers_max = 1;
    let outcome = finishes(&case);
    // A second failure would have brought the layers here.
    assert_eq!(outcome.places, [Place::Local, at(1), at(2), Place::Local]);
    assert_eq!(outcome.measure.failovers.len(), 1);
    assert!(outcome.reports.iter().any(is_degraded));
}

#[test]
fn a_helper_that_leaves_is_left_between_two_steps() {
    let outcome = finishes(&with(&[(100, Fault::Drain(0))]));
    assert_eq!(outcome.places[1], at(3));
    assert_eq!(outcome.measure.late_frames, 0);
    let lost =
        |report: &Report| matches!(report, Report::ShardStatus { state: ShardState::Lost, .. });
    assert!(!outcome.reports.iter().any(lost));
}

#[test]
fn our_own_worker_starts_again_once_and_then_its_code_is_the_end() {
    let once = finishes(&with(&[(100, Fault::LocalCrash)]));
    assert!(once.measure.failovers.is_empty());
    let twice = run(&with(&[(100, Fault::LocalCrash), (140, Fault::LocalCrash)]));
    assert_eq!(twice.end, End::Aborted(ErrorCode::WorkerCrashed));
}

#[test]
fn where_this_device_cannot_stand_in_its_reason_is_the_end_only_when_no_helper_is_left() {
    let mut case = with(&[
        (0, Fault::LocalRefusesMiddle),
        (60, Fault::Kill(0)),
        (90, Fault::Kill(3)),
        (130, Fault::Kill(1)),
    ]);
    assert_eq!(run(&case).end, End::Aborted(ErrorCode::OutOfMemory));
    case.peers.push(held(&[(0, 8)]));
    finishes(&case);
}

#[test]
fn a_forgotten_history_is_rebuilt_from_the_tokens() {
    let mut case = with(&[(100, Fault::Kill(0))]);
    case.peers = vec![held(&[(0, 4)]), held(&[(4, 8)]), held(&[(0, 8)])];
    case.faults = vec![(130, Fault::Kill(1))];
    case.replay_log_bytes_max = 0;
    let outcome = finishes(&case);
    // The prefix starts again for the second hop's sake, and the first hop with it.
    assert_eq!(outcome.places, [Place::Local, at(0), at(2), Place::Local]);
    let from_zero = outcome.sends.iter().filter(|(_, position, _)| *position == 0);
    assert_eq!(from_zero.count(), 4 + 3);
}

#[test]
fn cancel_closes_everything_at_once() {
    for event in 0..60 {
        let outcome = run(&with(&[(event, Fault::Cancel)]));
        assert_eq!(outcome.end, End::Aborted(ErrorCode::Cancelled));
    }
}

#[test]
fn a_prompt_that_cannot_be_is_refused_whole() {
    let mut case = house();
    case.prompt.clear();
    assert_eq!(run(&case).end, End::Aborted(ErrorCode::BadRequest));
}

#[test]
fn alone_is_a_walk_of_one_stage() {
    let mut case = house();
    case.peers.clear();
    let outcome = finishes(&case);
    assert_eq!(outcome.places, [Place::Local]);
    assert!(outcome.reports.is_empty());
}

#[test]
fn who_has_the_layers_in_memory_goes_before_who_would_load_them() {
    let mut case = with(&[(120, Fault::Kill(0))]);
    let cold = PeerCase { is_cold: true, ..held(&[(0, 8)]) };
    // The cold one has the shorter queue.
    case.peers = vec![held(&[(0, 8)]), cold, held(&[(0, 8)])];
    let outcome = finishes(&case);
    assert_eq!(outcome.places[1], at(2));
}

#[test]
fn this_device_goes_on_where_it_is_ready_before_another_has_loaded_the_layers() {
    let after = |step_here| {
        let mut case = with(&[(120, Fault::Kill(0))]);
        let cold = PeerCase { is_cold: true, ..held(&[(0, 8)]) };
        case.peers = vec![held(&[(0, 8)]), cold];
        case.knows_paces = true;
        case.step_here = step_here;
        finishes(&case).places[1]
    };
    assert_eq!(after(Some(Duration::from_millis(5))), Place::Local);
    assert_eq!(after(Some(Duration::from_secs(1))), at(1), "six layers take six seconds");
    assert_eq!(after(None), at(1), "nothing is known of this device");
}
