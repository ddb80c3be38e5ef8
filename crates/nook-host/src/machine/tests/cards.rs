//! Graphics memory with a cap of its own: what is advertised, granted and told to the workers.

use std::collections::BTreeMap;

use nook_base::{DeviceBytes, LayerRange};
use nook_store::Megabytes;
use nook_wire::{GpuHolding, Message};

use super::scene::*;
use crate::events::HostEffect;
use crate::residency::Surveyed;

const MB: u64 = 1_000_000;

/// The cap on the computer's memory of a scene.
const MEMORY: u64 = 1_073 * MB;

/// The worker of ember says what of a card with 1 GiB for it is used and lent.
fn with_card(bytes: u64, lent_bytes: u64) -> Event {
    let mut status = status(LayerRange::with_len(0, 0), 0, 0);
    status.on_gpu = GpuHolding { layers: 1, bytes, lent_bytes, ..GpuHolding::default() };
    let (models, cards) = (vec![(EMBER, Some(status))], BTreeMap::from([(EMBER, 1 << 30)]));
    Event::Surveyed(Surveyed { models, available: 8 << 30, cards, watches_cards: false })
}

fn cap(scene: &mut Scene, megabytes: Option<u64>) {
    // The key is `max_lent_gpu_memory_mb`.
    scene.set(|settings| settings.host.max_lent_gpu_memory = megabytes.map(Megabytes));
}

/// Bytes beside the computer's memory that an advert says are free.
fn card_bytes_told(scene: &mut Scene) -> u64 {
    let effects = scene.effects(Event::AdvertsChanged);
    let advert = effects.into_iter().find_map(|effect| match effect {
        HostEffect::Tell(TRUSTED, Message::Advert(advert)) => Some(advert),
        _ => None,
    });
    advert.expect("the trusted device is told").memory_free_bytes - MEMORY
}

/// What the workers are told of what one that starts may have lent.
fn told_workers(effects: Vec<Effect>) -> Option<DeviceBytes> {
    effects.into_iter().find_map(|effect| match effect {
        HostEffect::LimitWorkers(_, shares) => Some(shares.rest),
        _ => None,
    })
}

#[test]
fn no_more_graphics_memory_is_advertised_than_its_cap_leaves() {
    let mut scene = Scene::sharing();
    scene.effects(with_card(0, 0));
    assert_eq!(card_bytes_told(&mut scene), 1 << 30, "no cap: all that is free");
    cap(&mut scene, Some(300));
    assert_eq!(card_bytes_told(&mut scene), 4 * (64 << 20), "in whole 64 MiB");
    scene.effects(with_card(200 * MB, 200 * MB));
    assert_eq!(card_bytes_told(&mut scene), 64 << 20);
    // What this device itself has there leaves less of the card, and all of the cap.
    scene.effects(with_card(600 * MB, 0));
    assert_eq!(card_bytes_told(&mut scene), 4 * (64 << 20));
    cap(&mut scene, Some(0));
    assert_eq!(card_bytes_told(&mut scene), 0);
    cap(&mut scene, None);
    assert_eq!(card_bytes_told(&mut scene), 7 * (64 << 20));
}

#[test]
fn no_more_layers_are_granted_or_offered_for_a_card_than_its_cap_allows() {
    let mut scene = Scene::sharing();
    scene.effects(with_card(0, 0));
    scene.set(|settings| settings.host.max_lent_memory = Some(Megabytes(0)));
    assert!(!scene.host.lent().is_empty(), "no cap of its own");
    cap(&mut scene, Some(0));
    let place = || Event::Place { peer: TRUSTED, wish: wish(0, 2) };
    let refused = scene.tells(TRUSTED, place());
    assert!(refused.contains(&"trusted hears: 0-1 OutOfMemory".to_owned()), "{refused:?}");
    assert!(scene.host.lent().is_empty(), "nothing is offered either");
    scene.passes(std::time::Duration::from_secs(2));
    cap(&mut scene, Some(500));
    assert!(!scene.host.lent().is_empty());
    assert_eq!(scene.does(place()), ["load 0-1 for trusted"]);
}

#[test]
fn a_cap_that_is_changed_is_told_to_the_workers_at_once() {
    let mut scene = Scene::sharing();
    let of = |gpu| Some(DeviceBytes { memory: MEMORY, gpu });
    assert_eq!(told_workers(scene.effects(with_card(0, 0))), of(u64::MAX));
    let before = Box::new(scene.settings.clone());
    scene.settings.host.max_lent_gpu_memory = Some(Megabytes(300));
    assert_eq!(told_workers(scene.effects(Event::SettingsChanged { before })), of(300 * MB));
    assert_eq!(told_workers(scene.effects(with_card(100 * MB, 100 * MB))), of(200 * MB));
    assert_eq!(told_workers(scene.effects(with_card(100 * MB, 100 * MB))), None, "it is known");
}
