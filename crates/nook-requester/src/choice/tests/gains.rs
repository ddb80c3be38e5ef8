//! What each device brings.

use std::collections::BTreeMap;

use super::*;
use crate::choice::gains::Gain;

fn gains(question: &Question, book: &AdvertBook, guests: &BTreeMap<PeerId, Heard>) -> Vec<Gain> {
    question.gains(&told(PLENTY), book, guests, now())
}

/// Nobody is known by an advert.
fn nobody() -> AdvertBook {
    AdvertBook { heard: [].into(), ..book(now()) }
}

#[test]
fn a_device_that_helps_is_set_against_the_reply_without_it() {
    let question = question(Pooling::WhenFaster, measured(20_000, 1_000));
    let found = gains(&question, &book(now()), &BTreeMap::new());
    let [gain] = found[..] else { panic!("one device offers layers: {found:?}") };
    assert_eq!((gain.peer, gain.is_measured), (peer(1), true));
    let without = gain.without_it.expect("this computer can do it alone");
    assert!(gain.with_it > 2.0 * without, "{gain:?}");
}

#[test]
fn a_device_that_would_slow_the_reply_down_is_told_as_that() {
    let question = question(Pooling::WhenFaster, measured(1_000, 20_000));
    let found = gains(&question, &book(now()), &BTreeMap::new());
    let [gain] = found[..] else { panic!("one device offers layers: {found:?}") };
    assert!(gain.with_it < gain.without_it.expect("alone"), "{gain:?}");
}

#[test]
fn a_guest_is_counted_as_if_it_were_allowed_and_the_plan_does_without_it() {
    let facts = measured(20_000, 1_000);
    let now = now();
    let allowed = gains(&question(Pooling::WhenFaster, facts.clone()), &book(now), &[].into());
    let barred = AdvertBook { barred: [peer(1)].into(), ..nobody() };
    let guests = [(peer(1), heard(MODEL, true, Duration::ZERO, now))].into();
    let question = question(Pooling::WhenFaster, facts);
    assert_eq!(gains(&question, &barred, &guests), allowed);
    assert!(gains(&question, &barred, &[].into()).is_empty(), "it says nothing of itself");
    let choice = question.choose(&told(PLENTY), &barred, now);
    assert!(choice.segments().iter().all(|segment| segment.place == Place::Local));
}

#[test]
fn what_nobody_measured_is_told_as_that_and_who_offers_nothing_brings_nothing() {
    let mut facts = measured(20_000, 1_000);
    facts.links.clear();
    let now = now();
    let found = gains(&question(Pooling::WhenFaster, facts), &book(now), &[].into());
    assert!(found.iter().all(|gain| !gain.is_measured), "{found:?}");
    let question = question(Pooling::WhenFaster, measured(20_000, 1_000));
    assert!(gains(&question, &nobody(), &[].into()).is_empty());
    let other = [(peer(1), heard(ModelDigest([2; 32]), true, Duration::ZERO, now))].into();
    assert!(gains(&question, &nobody(), &other).is_empty(), "of another model");
}
