//! Who is served, and whose calls end.

use nook_base::ActivationDtype;
use nook_base::LayerRange;
use nook_trust::{Ticket, TicketClaim, TrustLevel};
use tokio::sync::oneshot;

use super::scene::*;

#[test]
fn strangers_and_guests_are_refused_and_the_others_get_what_their_trust_allows() {
    let mut scene = Scene::sharing();
    for (peer, expected) in [
        (STRANGER, "refuse a call of stranger: TrustDenied; copies: TrustDenied"),
        (GUEST, "refuse a call of guest: TrustDenied; copies: TrustDenied"),
        (TRUSTED, "serve a call of trusted; whole requests: no; copies: yes"),
        (OWN, "serve a call of own; whole requests: yes; copies: yes"),
    ] {
        let done = scene.does(Event::Call { peer, call: "a call" });
        assert_eq!(done.last().map(String::as_str), Some(expected));
    }
}

#[test]
fn a_call_of_a_blocked_device_is_refused() {
    let mut scene = Scene::sharing();
    scene.levels.insert(TRUSTED, TrustLevel::Blocked);
    let done = scene.does(Event::Call { peer: TRUSTED, call: "a call" });
    assert!(done[0].starts_with("refuse a call of trusted: TrustDenied"), "{done:?}");
}

#[test]
fn what_each_device_hears_follows_from_its_trust() {
    let mut scene = Scene::sharing();
    scene.linked = vec![OWN, TRUSTED, GUEST];
    let all = "ember 0-5, amber 0-5; 2 streams free";
    assert_eq!(scene.tells(GUEST, Event::LinkUp(GUEST)), ["guest hears: nothing is shared"]);
    assert_eq!(
        scene.tells(TRUSTED, Event::LinkUp(TRUSTED)),
        [format!("trusted hears: {all}"), "trusted hears: given: amber".to_owned()]
    );
    assert_eq!(
        scene.tells(OWN, Event::LinkUp(OWN)),
        [
            format!("own hears: {all}"),
            "own hears: whole: ember, amber".to_owned(),
            "own hears: given: amber".to_owned(),
        ]
    );
    // What is given is said once on a link, and again on the next one.
    assert_eq!(scene.tells(TRUSTED, Event::AdvertsChanged), [format!("trusted hears: {all}")]);
    scene.effects(Event::LinkDown(TRUSTED));
    assert_eq!(scene.tells(TRUSTED, Event::LinkUp(TRUSTED)).len(), 2);
    // A device that is its owner's own no more hears for once that nothing is run whole for it.
    scene.levels.insert(OWN, TrustLevel::Trusted);
    scene.effects(Event::PeersChanged);
    let told = scene.tells(OWN, Event::AdvertsChanged);
    assert_eq!(told[1], "own hears: whole: ");
}

#[test]
fn streams_that_are_all_taken_are_told_and_layers_are_not_placed_then() {
    let mut scene = Scene::sharing();
    let (_, terms) = scene.served(TRUSTED);
    let taken: Vec<_> = (0..STREAMS)
        .map(|_| terms.streams.clone().try_acquire_owned().expect("it is free"))
        .collect();
    let told = scene.tells(TRUSTED, Event::AdvertsChanged);
    assert_eq!(told[0], "trusted hears: ember 0-5, amber 0-5; 0 streams free");
    assert!(terms.streams.clone().try_acquire_owned().is_err(), "one more is told that it is busy");
    let refused = ["trusted hears: 0-1 Busy"];
    assert_eq!(scene.on(Event::Place { peer: TRUSTED, wish: wish(0, 2) }), refused);
    drop(taken);
    let told = scene.tells(TRUSTED, Event::AdvertsChanged);
    assert_eq!(told[0], "trusted hears: ember 0-5, amber 0-5; 2 streams free");
}

#[test]
fn calls_of_a_device_that_is_trusted_less_end_and_nothing_is_kept_for_it() {
    let mut scene = Scene::sharing();
    let (own, own_terms) = scene.served(OWN);
    let (trusted, terms) = scene.served(TRUSTED);
    scene.levels.insert(TRUSTED, TrustLevel::Guest);
    assert_eq!(scene.on(Event::PeersChanged), ["forget what is kept for trusted"]);
    assert!(terms.revoked.is_cancelled() && !own_terms.revoked.is_cancelled());
    assert!(trusted.copies.expect("it was trusted").revoked.is_cancelled());
    // Of a device that is still trusted only the whole requests end.
    scene.levels.insert(OWN, TrustLevel::Trusted);
    assert_eq!(scene.on(Event::PeersChanged), ["forget what is kept for own"]);
    assert!(own.own.expect("it was own").revoked.is_cancelled());
    assert!(!own_terms.revoked.is_cancelled());
    assert!(scene.on(Event::PeersChanged).is_empty());
    // Trusted again, it begins anew.
    scene.levels.insert(TRUSTED, TrustLevel::Trusted);
    assert!(!scene.served(TRUSTED).1.revoked.is_cancelled());
}

#[test]
fn two_calls_of_one_device_end_together_and_those_of_another_go_on() {
    let mut scene = Scene::sharing();
    let [first, second] = [scene.served(TRUSTED).1, scene.served(TRUSTED).1];
    let other = scene.served(OWN).1;
    scene.levels.remove(&TRUSTED);
    scene.effects(Event::PeersChanged);
    assert!(first.revoked.is_cancelled() && second.revoked.is_cancelled());
    assert!(!other.revoked.is_cancelled());
}

#[test]
fn a_ticket_that_nobody_has_signed_joins_nothing() {
    let mut scene = Scene::sharing();
    let claim = TicketClaim {
        carrier: TRUSTED,
        host: ME,
        session: 1,
        model: EMBER,
        layers: LayerRange::all(6),
        dtype: ActivationDtype::F32,
        positions_max: 8,
    };
    let ticket = Box::new(Ticket { requester: [5; 32], claim, signature: [[0; 32]; 2] });
    let done = scene.on(Event::Relay { carrier: TRUSTED, ticket, call: "a relay" });
    assert_eq!(done.len(), 1);
    assert!(done[0].starts_with("refuse a relay: "), "{done:?}");
}

#[test]
fn results_go_on_only_to_a_device_that_may_compute_for_this_one() {
    let mut scene = Scene::sharing();
    let (answer, _wait) = oneshot::channel();
    let next = Event::NextHost { peer: TRUSTED, answer };
    assert_eq!(scene.on(next), ["find the link to trusted"]);
    let (answer, _wait) = oneshot::channel();
    assert_eq!(scene.on(Event::NextHost { peer: GUEST, answer }), ["no link: TrustDenied"]);
}

#[test]
fn a_device_may_have_its_own_conversations_dropped_whatever_its_trust() {
    let mut scene = Scene::new();
    let kept = nook_wire::KeptHistory { model: EMBER, position: 4, mark: Default::default() };
    let dropped = ["drop a conversation of guest"];
    assert_eq!(scene.on(Event::DropKept { peer: GUEST, kept }), dropped);
}
