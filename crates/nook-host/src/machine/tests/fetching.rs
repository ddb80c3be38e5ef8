//! Layers that others ask for and this device lacks.

use std::time::Duration;

use nook_base::{ErrorCode, LayerRange};
use nook_resources::catalogue::PartialEntry;
use nook_trust::TrustLevel;
use nook_wire::HaveModel;

use super::scene::*;
use crate::events::Fetched;

/// What a device says that gives ember: 6 layers, 6,000 bytes.
fn given() -> HaveModel {
    HaveModel { model: EMBER, bytes: 6_000, layers: 6, name: "ember".to_owned() }
}

/// A host without any model, which may fetch 4,000 bytes of the one that others give.
fn lacking() -> Scene {
    let mut scene = Scene::new();
    scene.models.clear();
    scene.partial = Partial { room: 4_000, given: vec![given()], ..Partial::default() };
    scene.effects(Event::SharingSet);
    scene
}

fn place(start: u32, end: u32) -> Event {
    Event::Place { peer: TRUSTED, wish: wish(start, end) }
}

fn fetched(start: u32, end: u32, outcome: Fetched) -> Event {
    let layers = LayerRange::new(start, end).expect("in order");
    Event::Fetched { model: EMBER, layers, outcome }
}

/// Layers lie in the file now.
fn arrive(scene: &mut Scene, start: u32, end: u32) {
    let layers = vec![LayerRange::new(start, end).expect("in order")];
    scene.partial.here = vec![PartialEntry { entry: entry(EMBER, "ember"), layers }];
}

fn told(scene: &mut Scene, event: Event) -> Vec<String> {
    let told = scene.tells(TRUSTED, event);
    told.into_iter().filter(|line| !line.contains("streams free")).collect()
}

#[test]
fn what_is_not_here_is_fetched_then_loaded_and_every_state_is_told() {
    let mut scene = lacking();
    let asked = scene.on(place(1, 3));
    let fetch = "fetch 1-2 of ember, first from trusted";
    assert_eq!(asked, ["trusted hears: 1-2 fetched 0 %", fetch]);
    assert_eq!(scene.on(place(1, 3)), ["trusted hears: 1-2 fetched 0 %"], "asked again");
    scene.partial.percent = 40;
    assert_eq!(told(&mut scene, tick()), ["trusted hears: 1-2 fetched 40 %"]);
    assert!(told(&mut scene, tick()).is_empty(), "nothing is new");
    scene.passes(Duration::from_secs(5));
    assert_eq!(told(&mut scene, tick()), ["trusted hears: 1-2 fetched 40 %"], "it still goes on");
    arrive(&mut scene, 1, 3);
    let done = scene.on(fetched(1, 3, Fetched::Present));
    assert_eq!(done[0], "load 1-2 for trusted");
    assert!(done.iter().any(|line| line == "trusted hears: ember 1-2; 2 streams free"), "{done:?}");
    assert!(done.iter().any(|line| line == "of use: ember"), "{done:?}");
}

#[test]
fn layers_that_are_here_already_are_loaded_at_once_and_only_missing_ones_count() {
    let mut scene = lacking();
    arrive(&mut scene, 1, 3);
    assert!(scene.does(place(1, 3)).contains(&"load 1-2 for trusted".to_owned()));
    scene.passes(Duration::from_secs(2));
    // Five layers are 5,000 bytes, of which two are here.
    assert_eq!(told(&mut scene, place(1, 6)), ["trusted hears: 1-5 fetched 0 %"]);
}

#[test]
fn what_may_not_be_fetched_is_refused_with_its_reason() {
    let refusal = |change: &dyn Fn(&mut Scene), start, end| {
        let mut scene = lacking();
        change(&mut scene);
        scene.effects(Event::SharingSet);
        let said = scene.on(place(start, end));
        let hears: Vec<_> = said.iter().filter(|line| !line.contains("streams free")).collect();
        assert!(!said.iter().any(|line| line.starts_with("fetch")), "{said:?}");
        assert_eq!(hears.len(), 1, "{said:?}");
        hears[0].clone()
    };
    let off = |scene: &mut Scene| scene.settings.host.fetch_layers = false;
    assert_eq!(refusal(&off, 1, 3), "trusted hears: 1-2 FetchLimit");
    let full = |scene: &mut Scene| scene.partial.room = 1_999;
    assert_eq!(refusal(&full, 1, 3), "trusted hears: 1-2 FetchLimit");
    let nobody = |scene: &mut Scene| scene.partial.given.clear();
    assert_eq!(refusal(&nobody, 1, 3), "trusted hears: 1-2 FetchFailed");
    assert_eq!(refusal(&|_| (), 5, 7), "trusted hears: 5-6 BadRequest");
    let pinned = |scene: &mut Scene| {
        scene.settings.host.layers = Some(LayerRange::with_len(0, 2));
    };
    assert_eq!(refusal(&pinned, 1, 3), "trusted hears: 1-2 ShardUnavailable");
    let memory =
        |scene: &mut Scene| scene.settings.host.max_lent_memory = Some(nook_store::Megabytes(0));
    assert_eq!(refusal(&memory, 1, 3), "trusted hears: 1-2 OutOfMemory");
}

#[test]
fn a_fetch_that_fails_ends_the_request_with_its_reason() {
    for (outcome, code) in [
        (Fetched::Failed(ErrorCode::DiskFull), "DiskFull"),
        (Fetched::Failed(ErrorCode::FetchFailed), "FetchFailed"),
        (Fetched::Stopped, "FetchFailed"),
    ] {
        let mut scene = lacking();
        scene.effects(place(1, 3));
        let end = told(&mut scene, fetched(1, 3, outcome));
        assert_eq!(end, [format!("trusted hears: 1-2 {code}")]);
        assert!(told(&mut scene, fetched(1, 3, Fetched::Present)).is_empty(), "it is over");
    }
}

#[test]
fn a_fetch_ends_with_the_last_lease_that_waits_for_it() {
    let stop = "stop fetching ember".to_owned();
    // The owner shares no more.
    let mut scene = lacking();
    scene.effects(place(1, 3));
    scene.settings.host.serve_shards = false;
    assert!(scene.does(Event::SharingSet).contains(&stop));
    // The owner wants nothing fetched any more.
    let mut scene = lacking();
    scene.effects(place(1, 3));
    assert!(scene.set(|settings| settings.host.fetch_layers = false).contains(&stop));
    // Whoever asked gives it back.
    let mut scene = lacking();
    scene.effects(place(1, 3));
    assert!(scene.does(place(0, 0)).contains(&stop));
    // It is trusted less; another device waits as well.
    let mut scene = lacking();
    scene.effects(place(1, 3));
    scene.effects(Event::Place { peer: OWN, wish: wish(1, 3) });
    scene.levels.insert(TRUSTED, TrustLevel::Guest);
    assert!(!scene.does(Event::PeersChanged).contains(&stop), "another device waits for them");
    scene.levels.insert(OWN, TrustLevel::Guest);
    assert!(scene.does(Event::PeersChanged).contains(&stop));
}

#[test]
fn what_came_goes_where_somebody_said_no_and_else_stays_for_the_next_time() {
    let forget = "forget what came of ember".to_owned();
    let after = |begun: &dyn Fn(&mut Scene) -> Vec<String>| {
        let mut scene = lacking();
        scene.effects(place(1, 3));
        begun(&mut scene).contains(&forget)
    };
    let shares_no_more = |scene: &mut Scene| {
        scene.settings.host.serve_shards = false;
        scene.does(Event::SharingSet)
    };
    let fetches_no_more =
        |scene: &mut Scene| scene.set(|settings| settings.host.fetch_layers = false);
    let trusts_less = |scene: &mut Scene| {
        scene.levels.insert(TRUSTED, TrustLevel::Guest);
        scene.does(Event::PeersChanged)
    };
    assert!(after(&shares_no_more));
    assert!(after(&fetches_no_more));
    assert!(after(&trusts_less));
    assert!(after(&|scene| scene.does(Event::AsksNoMore(TRUSTED))));
    assert!(!after(&|scene| scene.does(Event::AsksNoMore(OWN))), "nothing was fetched for it");
    let fails = |code| move |scene: &mut Scene| scene.does(fetched(1, 3, Fetched::Failed(code)));
    assert!(after(&fails(ErrorCode::DiskFull)));
    assert!(!after(&fails(ErrorCode::FetchFailed)), "it is gone on with");
    // Given back, because other layers are wanted now: what is here may be of use again.
    assert!(!after(&|scene| scene.does(place(0, 0))));
    // The fetch was over before, or two computers waited.
    assert!(after(&|scene| {
        scene.effects(fetched(1, 3, Fetched::Failed(ErrorCode::FetchFailed)));
        trusts_less(scene)
    }));
    assert!(!after(&|scene| {
        scene.effects(Event::Place { peer: OWN, wish: wish(1, 3) });
        trusts_less(scene)
    }));
    // It was asked for again, and is here.
    assert!(!after(&|scene| {
        scene.effects(fetched(1, 3, Fetched::Failed(ErrorCode::FetchFailed)));
        arrive(scene, 1, 3);
        scene.passes(Duration::from_secs(2));
        scene.effects(place(1, 3));
        shares_no_more(scene)
    }));
}

#[test]
fn what_is_fetched_for_one_that_is_trusted_less_by_then_is_not_loaded() {
    let mut scene = lacking();
    scene.effects(place(1, 3));
    scene.levels.insert(TRUSTED, TrustLevel::Guest);
    arrive(&mut scene, 1, 3);
    let done = scene.on(fetched(1, 3, Fetched::Present));
    assert_eq!(done[0], "trusted hears: 1-2 TrustDenied", "{done:?}");
    assert!(!done.iter().any(|line| line.starts_with("load")), "{done:?}");
}

#[test]
fn the_limits_are_asked_again_when_the_file_says_how_large_the_layers_are() {
    let mut scene = lacking();
    scene.effects(place(1, 3));
    arrive(&mut scene, 1, 3);
    // The claim was 2,000 bytes; the layers of this file are larger than what is lent.
    scene.settings.host.max_lent_memory = Some(nook_store::Megabytes(0));
    let end = told(&mut scene, fetched(1, 3, Fetched::Present));
    assert_eq!(end, ["trusted hears: 1-2 OutOfMemory"]);
}

fn tick() -> Event {
    Event::Tick { own_speed: crate::OwnSpeed::Known }
}
