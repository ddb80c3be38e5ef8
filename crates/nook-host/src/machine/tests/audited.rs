//! What the state machine notes of what others ask: layers that are held, and refusals.

use std::time::Duration;

use nook_api::views::{AuditAsked, AuditEntryView, AuditOutcome, AuditWhy};
use nook_base::ErrorCode;
use nook_trust::TrustLevel;
use nook_wire::PlaceState;

use super::scene::*;
use crate::events::HostTask;
use crate::leases::Progress;

fn place(peer: nook_base::PeerId, start: u32, end: u32) -> Event {
    Event::Place { peer, wish: wish(start, end) }
}

fn progress(number: u64, state: PlaceState) -> Event {
    Event::Placing(Progress { peer: TRUSTED, model: EMBER, number, state })
}

fn noted(scene: &Scene) -> Vec<AuditEntryView> {
    scene.host.audit(scene.now, scene.unix_seconds)
}

fn one(scene: &Scene) -> AuditEntryView {
    let all = noted(scene);
    let [one] = all.as_slice() else { panic!("{all:?}") };
    one.clone()
}

#[test]
fn layers_that_are_held_are_noted_with_their_bytes_until_they_are_given_back() {
    let mut scene = Scene::sharing();
    let began = scene.unix_seconds;
    scene.effects(place(TRUSTED, 0, 2));
    scene.effects(progress(1, PlaceState::Held));
    scene.passes(Duration::from_secs(90));
    scene.effects(place(TRUSTED, 0, 2));
    let held = one(&scene);
    assert_eq!((held.asked, held.outcome), (AuditAsked::Hold, AuditOutcome::UnderWay));
    assert_eq!((held.model.as_deref(), held.layers), (Some("ember"), Some([0, 1])));
    assert_eq!((held.first, held.milliseconds, held.tokens), (began, 90_000, 0));
    assert!(held.bytes > 100_000, "{held:?}");
    scene.effects(place(TRUSTED, 0, 0));
    let given_back = one(&scene);
    assert_eq!(given_back.outcome, AuditOutcome::Served);
    assert_eq!((given_back.bytes, given_back.last), (held.bytes, began + 90));
}

#[test]
fn what_ends_from_here_says_why_and_a_failed_loading_is_a_refusal() {
    let mut scene = Scene::sharing();
    scene.effects(place(TRUSTED, 0, 2));
    scene.settings.host.serve_shards = false;
    scene.effects(Event::SharingSet);
    assert_eq!(one(&scene).outcome, AuditOutcome::Cut { why: AuditWhy::Leaving });

    let mut scene = Scene::sharing();
    scene.effects(place(TRUSTED, 0, 2));
    scene.levels.insert(TRUSTED, TrustLevel::Guest);
    scene.effects(Event::PeersChanged);
    assert_eq!(one(&scene).outcome, AuditOutcome::Cut { why: AuditWhy::TooLittleTrust });

    let mut scene = Scene::sharing();
    scene.effects(place(TRUSTED, 0, 2));
    scene.effects(progress(1, PlaceState::Refused { code: ErrorCode::OutOfMemory }));
    assert_eq!(one(&scene).outcome, AuditOutcome::Refused { why: AuditWhy::NoRoom });
}

#[test]
fn a_device_that_is_refused_again_and_again_is_one_entry_for_each_reason() {
    let mut scene = Scene::sharing();
    for _ in 0..50 {
        scene.effects(place(GUEST, 0, 2));
    }
    scene.settings.host.pause.until = scene.unix_seconds + 60;
    scene.effects(Event::PauseSet);
    scene.effects(place(TRUSTED, 0, 2));
    scene.settings.host.serve_shards = false;
    scene.effects(Event::SharingSet);
    scene.effects(place(TRUSTED, 0, 2));
    let mut seen: Vec<_> = noted(&scene).iter().map(|it| (it.outcome, it.times)).collect();
    seen.reverse();
    let refused = |why, times| (AuditOutcome::Refused { why }, times);
    let expected = [
        refused(AuditWhy::TooLittleTrust, 50),
        refused(AuditWhy::Paused, 1),
        refused(AuditWhy::SwitchedOff, 1),
    ];
    assert_eq!(seen, expected);
    // What the task of such a call notes, once it knows what was asked.
    let refused = scene.effects(Event::Call { peer: TRUSTED, call: "a call" });
    let told = refused.iter().find_map(|effect| match effect {
        crate::events::HostEffect::Run(HostTask::Refuse { why, .. }) => Some(*why),
        _ => None,
    });
    assert_eq!(told, Some(nook_store::AuditWhy::SwitchedOff));
}

#[test]
fn it_is_written_down_from_time_to_time_and_when_it_is_forgotten() {
    let mut scene = Scene::sharing();
    scene.effects(place(GUEST, 0, 2));
    let tick = || Event::Tick { own_speed: crate::events::OwnSpeed::Known };
    let saves = |lines: Vec<String>| lines.into_iter().any(|line| line == "save 1 entries");
    assert!(saves(scene.on(tick())));
    assert!(!saves(scene.on(tick())));
    assert!(scene.on(Event::AuditCleared).contains(&"save 0 entries".to_owned()));
    assert!(noted(&scene).is_empty());
}
