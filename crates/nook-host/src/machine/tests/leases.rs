//! Layers that other devices ask for: granted, refused, loaded and ended.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_base::{ErrorCode, LayerRange};
use nook_trust::TrustLevel;
use nook_wire::{GpuHolding, PlaceState};

use super::scene::*;
use crate::events::{HostEffect, HostTask};
use crate::leases::Progress;
use crate::residency::Surveyed;

fn place(start: u32, end: u32) -> Event {
    Event::Place { peer: TRUSTED, wish: wish(start, end) }
}

fn progress(number: u64, state: PlaceState) -> Event {
    Event::Placing(Progress { peer: TRUSTED, model: EMBER, number, state })
}

/// A host that holds the first two layers for the trusted device.
fn holding() -> Scene {
    let mut scene = Scene::sharing();
    scene.effects(place(0, 2));
    scene.effects(progress(1, PlaceState::Held));
    scene
}

fn placed(scene: &mut Scene, event: Event) -> Vec<String> {
    let told = scene.tells(TRUSTED, event);
    told.into_iter().filter(|line| !line.contains("streams free")).collect()
}

#[test]
fn a_grant_loads_and_every_state_is_told() {
    let mut scene = Scene::sharing();
    assert_eq!(scene.does(place(0, 2)), ["load 0-1 for trusted"]);
    assert_eq!(placed(&mut scene, place(0, 2)), ["trusted hears: 0-1 0 %"], "asked again");
    let loading = progress(1, PlaceState::Loading { percent: 50 });
    assert_eq!(scene.on(loading), ["trusted hears: 0-1 50 %"]);
    assert_eq!(placed(&mut scene, place(0, 2)), ["trusted hears: 0-1 50 %"]);
    assert_eq!(
        scene.on(progress(1, PlaceState::Held)),
        ["trusted hears: 0-1 held", "ask the workers"]
    );
}

#[test]
fn what_cannot_be_held_is_refused_with_its_reason() {
    let refused = |scene: &mut Scene, event: Event| placed(scene, event);
    let mut scene = Scene::sharing();
    assert_eq!(refused(&mut scene, place(4, 7)), ["trusted hears: 4-6 BadRequest"]);
    let mut other = wish(0, 2);
    other.model = nook_base::ModelDigest([99; 32]);
    let unknown = Event::Place { peer: TRUSTED, wish: other };
    assert_eq!(refused(&mut scene, unknown), ["trusted hears: 0-1 FetchFailed"], "nobody gives it");
    scene.linked.push(GUEST);
    let guest = scene.on(Event::Place { peer: GUEST, wish: wish(0, 2) });
    assert_eq!(guest, ["guest hears: 0-1 TrustDenied"]);
    scene.effects(place(0, 2));
    assert_eq!(refused(&mut scene, place(1, 3)), ["trusted hears: 1-2 RateLimited"]);
    scene.passes(Duration::from_secs(2));
    let moved = scene.does(place(1, 3));
    assert_eq!(moved.len(), 1, "{moved:?}");
    assert!(moved[0].starts_with("free [") && moved[0].ends_with("load 1-2 for trusted"));
    // The owner named other layers.
    scene.settings.host.layers = Some(LayerRange::with_len(0, 1));
    scene.passes(Duration::from_secs(2));
    assert_eq!(refused(&mut scene, place(3, 5)), ["trusted hears: 3-4 ShardUnavailable"]);
}

#[test]
fn memory_bounds_what_is_placed() {
    let mut scene = Scene::sharing();
    scene.settings.host.max_lent_memory = Some(nook_store::Megabytes(0));
    assert_eq!(placed(&mut scene, place(0, 2)), ["trusted hears: 0-1 OutOfMemory"]);
    let mut scene = Scene::sharing();
    let tight =
        Surveyed { models: Vec::new(), available: 1, cards: BTreeMap::new(), watches_cards: false };
    scene.effects(Event::Surveyed(tight));
    assert_eq!(placed(&mut scene, place(0, 2)), ["trusted hears: 0-1 OutOfMemory"]);
}

#[test]
fn a_card_that_computes_takes_layers_that_the_memory_has_no_room_for() {
    let mut scene = Scene::sharing();
    scene.settings.host.max_lent_memory = Some(nook_store::Megabytes(0));
    let with_card = |bytes, used| {
        let on_gpu = GpuHolding { layers: 1, bytes: used, ..GpuHolding::default() };
        let mut status = status(LayerRange::with_len(0, 0), 0, 0);
        status.on_gpu = on_gpu;
        let (models, cards) = (vec![(EMBER, Some(status))], BTreeMap::from([(EMBER, bytes)]));
        Event::Surveyed(Surveyed { models, available: 1, cards, watches_cards: false })
    };
    scene.effects(with_card(1 << 30, 1 << 30));
    assert_eq!(placed(&mut scene, place(0, 2)), ["trusted hears: 0-1 OutOfMemory"], "it is full");
    scene.effects(with_card(1 << 30, 0));
    assert_eq!(scene.does(place(0, 2)), ["load 0-1 for trusted"]);
}

#[test]
fn a_lease_ends_when_nobody_uses_it() {
    let mut scene = holding();
    let idle = scene.settings.host.shard_eviction_idle;
    let held = || status(LayerRange::with_len(0, 2), 0, 0);
    scene.passes(idle - Duration::from_secs(1));
    let in_use = status(LayerRange::with_len(0, 2), 1, 1);
    assert!(placed(&mut scene, surveyed(in_use)).is_empty(), "a conversation of a guest uses it");
    scene.passes(idle - Duration::from_secs(1));
    assert!(placed(&mut scene, surveyed(held())).is_empty());
    scene.passes(Duration::from_secs(1));
    let done = scene.does(surveyed(held()));
    assert!(done.contains(&"release 0-1 of ember".to_owned()), "{done:?}");
    assert!(scene.does(surveyed(held())).is_empty(), "it is freed once");
}

#[test]
fn a_lease_that_ends_tells_its_device_and_waits_with_freeing_for_conversations() {
    let mut scene = holding();
    scene.passes(scene.settings.host.shard_eviction_idle);
    let own_reply = status(LayerRange::with_len(0, 2), 1, 0);
    let effects = scene.effects(surveyed(own_reply));
    let releases = |effects: &[Effect]| {
        effects.iter().any(|it| matches!(it, HostEffect::Run(HostTask::Release { .. })))
    };
    assert!(!releases(&effects), "a conversation is held");
    let gone = status(LayerRange::with_len(0, 2), 0, 0);
    assert!(releases(&scene.effects(surveyed(gone))));
}

#[test]
fn tight_memory_trust_and_a_worker_that_ended_end_a_lease() {
    let told = "trusted hears: 0-1 ShardUnavailable".to_owned();
    let held = || status(LayerRange::with_len(0, 2), 0, 0);
    let mut scene = holding();
    scene.passes(Duration::from_secs(1));
    let tight = Surveyed {
        models: vec![(EMBER, Some(held()))],
        available: 1,
        cards: BTreeMap::new(),
        watches_cards: false,
    };
    assert_eq!(placed(&mut scene, Event::Surveyed(tight)), std::slice::from_ref(&told));

    let mut scene = holding();
    scene.levels.insert(TRUSTED, TrustLevel::Guest);
    assert!(scene.tells(TRUSTED, surveyed(held())).contains(&told));

    let mut scene = holding();
    let ended = Surveyed {
        models: Vec::new(),
        available: u64::MAX,
        cards: BTreeMap::new(),
        watches_cards: false,
    };
    scene.passes(Duration::from_secs(3));
    assert_eq!(placed(&mut scene, Event::Surveyed(ended)), [told]);
}

#[test]
fn a_lease_that_is_given_back_ends_without_an_answer() {
    let mut scene = holding();
    let back = Event::Place { peer: TRUSTED, wish: wish(0, 0) };
    assert!(placed(&mut scene, back).is_empty());
    let done = scene.does(surveyed(status(LayerRange::with_len(0, 2), 0, 0)));
    assert!(done.contains(&"release 0-1 of ember".to_owned()), "{done:?}");
}

#[test]
fn a_loading_that_fails_ends_the_lease_and_one_that_is_over_says_nothing() {
    let mut scene = Scene::sharing();
    scene.effects(place(0, 2));
    let failed = PlaceState::Refused { code: ErrorCode::WorkerCrashed };
    assert_eq!(placed(&mut scene, progress(1, failed)), ["trusted hears: 0-1 WorkerCrashed"]);
    assert!(scene.on(progress(1, PlaceState::Held)).is_empty(), "that lease is over");
}

#[test]
fn sharing_that_ends_ends_every_lease_and_cuts_its_loading() {
    let mut scene = Scene::sharing();
    let loading = scene.effects(place(0, 2));
    let cut = loading.iter().find_map(|effect| match effect {
        HostEffect::Run(HostTask::Load { cut, .. }) => Some(cut.clone()),
        _ => None,
    });
    scene.settings.host.serve_shards = false;
    let told = scene.tells(TRUSTED, Event::SharingSet);
    assert_eq!(told[0], "trusted hears: 0-1 ShardUnavailable");
    assert!(cut.expect("it was loading").is_cancelled());
}

#[test]
fn layers_that_could_not_be_freed_are_freed_later() {
    let mut scene = Scene::sharing();
    scene.effects(Event::Owed { model: EMBER, layers: LayerRange::with_len(3, 2) });
    let done = scene.does(surveyed(status(LayerRange::with_len(3, 2), 0, 0)));
    assert!(done.contains(&"release 3-4 of ember".to_owned()), "{done:?}");
}
