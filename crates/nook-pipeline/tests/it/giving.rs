//! A device that leaves gives what it remembers to whoever takes its layers.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_base::ErrorCode;
use nook_pipeline::{AttemptId, Event, KvMigration, PrefixHash, Report, ShardState};
use nook_plan::Place;
use proptest::prelude::*;

use crate::case::{Case, Fault, Giving, Outcome};
use crate::scenario::{at, finishes, held, house, is_degraded};
use crate::world::World;

/// Said to take no time, so that it is chosen.
const AT_ONCE: Duration = Duration::from_micros(1);

pub(crate) fn any() -> impl Strategy<Value = Giving> {
    prop_oneof![
        4 => Just(Giving::Works),
        1 => Just(Giving::NotGiven),
        1 => Just(Giving::Silent),
        1 => Just(Giving::Broken),
        1 => Just(Giving::NotUnderstood),
        1 => Just(Giving::Refused),
        1 => Just(Giving::Unanswered),
    ]
}

impl World {
    /// The host of a call says beside its goodbye that it would give what it remembers.
    pub(crate) fn offer_caches(&mut self, attempt: AttemptId, delay: Duration) {
        if let Some((_, takes)) = self.case.giving {
            self.after(delay, Some(attempt), Event::KvCacheOffered { attempt, takes });
        }
    }

    /// A host that leaves is asked for what it remembers.
    pub(crate) fn give(&mut self, attempt: AttemptId) {
        let (giving, _) = self.case.giving.expect("asked though nothing was offered");
        let delay = Duration::from_micros(100 + self.chance(3_000));
        let host = self.hosts.get(&attempt).expect("only what was opened");
        assert!(host.draining && !host.closed, "asked of somebody who does not leave");
        assert_ne!(host.place, Place::Local, "this device does not leave");
        // After all that it has answered, without what crossed the goodbye.
        let at = self.now.max(host.silent_from) + delay;
        let event = match giving {
            Giving::Silent => return,
            Giving::NotGiven => {
                let code = ErrorCode::BadRequest;
                Event::Failed { attempt, code, sentence: "no".to_owned() }
            }
            Giving::Broken => Event::Lost { attempt },
            _ => {
                let mut toy = host.toy.clone();
                if let Some(position) = host.crossed_at {
                    toy.truncate(position);
                }
                let position = toy.len;
                let mark = host.marks.get(&position).copied().unwrap_or(PrefixHash::EMPTY);
                self.coming.insert(attempt, (toy, mark));
                Event::KvCacheReceived { attempt, position, mark }
            }
        };
        self.at(at, Some(attempt), event);
    }

    /// A host is given what the one behind the call `from` remembered.
    pub(crate) fn take(&mut self, attempt: AttemptId, from: AttemptId) {
        let (toy, mark) = self.given.get(&from).expect("it came and was not forgotten").clone();
        let delay = Duration::from_micros(100 + self.chance(3_000));
        let (giving, _) = self.case.giving.expect("something was given");
        let host = self.hosts.get_mut(&attempt).expect("only what was opened");
        assert!(host.open && !host.closed && host.toy.len == 0, "it remembers something else");
        assert_eq!(host.toy.part(), toy.part(), "other layers");
        let event = match giving {
            Giving::Unanswered => return,
            Giving::NotUnderstood => Event::KvCacheImported { attempt, position: 0 },
            Giving::Refused => {
                let code = ErrorCode::HistoryMismatch;
                Event::Failed { attempt, code, sentence: "no".to_owned() }
            }
            _ => {
                let position = toy.len;
                host.toy = toy;
                host.mark = mark;
                host.marks = BTreeMap::from([(position, mark)]);
                Event::KvCacheImported { attempt, position }
            }
        };
        self.after(delay, Some(attempt), event);
    }
}

/// Whoever has the middle leaves in the middle of the reply.
fn leaves(giving: Giving) -> Case {
    let faults = vec![(100, Fault::Drain(0))];
    Case { giving: Some((giving, AT_ONCE)), faults, ..house() }
}

/// Times that somebody began at position 0.
fn beginnings(outcome: &Outcome) -> usize {
    outcome.sends.iter().filter(|(_, position, _)| *position == 0).count()
}

fn is_lost(report: &Report) -> bool {
    matches!(report, Report::ShardStatus { state: ShardState::Lost, .. })
}

fn news(outcome: &Outcome) -> Vec<KvMigration> {
    let news = |report: &Report| match report {
        Report::KvMigration { news, .. } => Some(*news),
        _ => None,
    };
    outcome.reports.iter().filter_map(news).collect()
}

#[test]
fn what_a_leaving_helper_remembers_goes_to_the_next_and_nothing_is_computed_twice() {
    let outcome = finishes(&leaves(Giving::Works));
    assert_eq!(outcome.places[1], at(3));
    assert_eq!((outcome.measure.handovers, beginnings(&outcome)), (1, 3));
    assert!(outcome.reports.iter().any(is_degraded) && !outcome.reports.iter().any(is_lost));
    assert_eq!(outcome.measure.failovers.len(), 1);
    let news = news(&outcome);
    assert!(matches!(
        news[..],
        [KvMigration::Chosen { replay: Some(_), is_cheaper: true, .. }, KvMigration::Moved { .. }]
    ));
    // The next prompt may go on there.
    assert!(outcome.prefix.is_some());
}

#[test]
fn where_nobody_else_has_the_layers_this_device_takes_what_was_remembered() {
    let mut case = leaves(Giving::Works);
    case.peers.truncate(1);
    let outcome = finishes(&case);
    assert_eq!(outcome.places, [Place::Local; 3]);
    assert_eq!((outcome.measure.handovers, beginnings(&outcome)), (1, 3));
    assert_eq!(outcome.measure.fallbacks_to_local, 1);
}

#[test]
fn whatever_goes_wrong_with_a_hand_over_is_nobodys_fault_and_ends_in_a_replay() {
    let ways = [
        Giving::NotGiven,
        Giving::Silent,
        Giving::Broken,
        Giving::NotUnderstood,
        Giving::Refused,
        Giving::Unanswered,
    ];
    for giving in ways {
        let outcome = finishes(&leaves(giving));
        assert_eq!(outcome.places[1], at(3), "{giving:?}");
        assert_eq!((outcome.measure.handovers, beginnings(&outcome)), (0, 4), "{giving:?}");
        assert!(!outcome.reports.iter().any(is_lost), "{giving:?}");
        assert_eq!(news(&outcome).last(), Some(&KvMigration::GivenUp), "{giving:?}");
    }
}

#[test]
fn the_cheaper_of_moving_and_computing_again_is_done() {
    let mut case = leaves(Giving::Works);
    case.giving = Some((Giving::Works, Duration::from_secs(60)));
    let outcome = finishes(&case);
    assert_eq!((outcome.measure.handovers, beginnings(&outcome)), (0, 4));
    assert!(matches!(news(&outcome)[..], [KvMigration::Chosen { is_cheaper: false, .. }]));
    // Where the activations are not all here, computing again would begin far before these layers.
    case.replay_log_bytes_max = 0;
    let outcome = finishes(&case);
    assert_eq!((outcome.measure.handovers, beginnings(&outcome)), (1, 3));
    assert!(matches!(
        news(&outcome)[0],
        KvMigration::Chosen { replay: None, is_cheaper: true, .. }
    ));
}

#[test]
fn what_one_helper_remembers_is_not_divided_among_several() {
    let mut case = leaves(Giving::Works);
    case.peers = vec![held(&[(0, 8)]), held(&[(0, 4)]), held(&[(4, 8)])];
    let outcome = finishes(&case);
    assert_eq!(outcome.places, [Place::Local, at(1), at(2), Place::Local]);
    assert_eq!(outcome.measure.handovers, 0);
}

#[test]
fn whoever_was_given_it_may_die_at_any_moment() {
    for second in 100..125 {
        let mut case = leaves(Giving::Works);
        case.faults.push((second, Fault::Kill(3)));
        finishes(&case);
        // And so may whoever gives it.
        let mut case = leaves(Giving::Works);
        case.faults.push((second, Fault::Kill(0)));
        finishes(&case);
    }
}

#[test]
fn a_reply_that_is_stopped_meanwhile_leaves_nothing_behind() {
    for event in 100..125 {
        for giving in [Giving::Works, Giving::Silent, Giving::Unanswered] {
            let mut case = leaves(giving);
            case.faults.push((event, Fault::Cancel));
            crate::world::run(&case);
        }
    }
}

#[test]
fn a_device_that_says_goodbye_twice_is_asked_once() {
    for second in 101..106 {
        let mut case = house();
        case.faults = vec![(100, Fault::Drain(0)), (second, Fault::Drain(0))];
        case.giving = Some((Giving::Works, AT_ONCE));
        let outcome = finishes(&case);
        assert_eq!(outcome.measure.handovers, 1, "{second}");
    }
}
