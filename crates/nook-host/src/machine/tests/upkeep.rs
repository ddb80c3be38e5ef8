//! Adverts in time, models that go, limits, looks at the machine and the ledger.

use std::time::Duration;

use nook_base::LayerRange;
use nook_base::limits::ADVERT_INTERVAL;

use super::scene::*;
use crate::events::OwnSpeed;

#[test]
fn a_model_that_is_gone_is_neither_lent_nor_given_nor_placed() {
    let mut scene = Scene::sharing();
    let (_, before) = scene.served(TRUSTED);
    scene.models.retain(|entry| entry.digest() == EMBER);
    assert_eq!(
        scene.on(Event::ModelsChanged),
        [
            "from now on given: ",
            "trusted hears: ember 0-5; 2 streams free",
            "trusted hears: given: ",
        ]
    );
    let mut gone = wish(0, 2);
    gone.model = AMBER;
    let refused = ["trusted hears: 0-1 FetchFailed"];
    assert_eq!(scene.on(Event::Place { peer: TRUSTED, wish: gone }), refused);
    assert!(!before.until.is_cancelled(), "streams that run go on");
    assert_eq!(scene.served(TRUSTED).1.lent.len(), 1, "new calls see what is left");
}

#[test]
fn a_burst_of_streams_is_one_advert_more() {
    let mut scene = Scene::sharing();
    scene.passes(Duration::from_secs(1));
    let told = scene.on(Event::StreamChanged);
    assert_eq!(told.last().map(String::as_str), Some("ask the workers"));
    assert_eq!(told.len(), 3, "{told:?}");
    scene.passes(Duration::from_millis(40));
    assert_eq!(scene.on(Event::StreamChanged), ["advertise in 60 ms"]);
    assert!(scene.on(Event::StreamChanged).is_empty(), "one waits already");
    assert_eq!(scene.tells(TRUSTED, Event::AdvertDue).len(), 1);
    assert_eq!(scene.on(Event::StreamChanged), ["advertise in 100 ms"]);
}

#[test]
fn adverts_are_repeated_before_they_grow_old() {
    let mut scene = Scene::sharing();
    scene.passes(ADVERT_INTERVAL - Duration::from_millis(1));
    assert!(scene.tells(TRUSTED, Event::Tick { own_speed: OwnSpeed::Known }).is_empty());
    scene.passes(Duration::from_millis(1));
    assert_eq!(scene.tells(TRUSTED, Event::Tick { own_speed: OwnSpeed::Known }).len(), 1);
}

#[test]
fn a_change_in_what_the_workers_hold_is_told_and_no_change_is_not() {
    let mut scene = Scene::sharing();
    let held = || surveyed(status(LayerRange::with_len(0, 2), 0, 0));
    assert_eq!(scene.tells(TRUSTED, held()).len(), 1);
    assert!(scene.tells(TRUSTED, held()).is_empty());
}

#[test]
fn the_workers_are_asked_once_until_they_answer() {
    let mut scene = Scene::sharing();
    let tick = || Event::Tick { own_speed: OwnSpeed::Known };
    let asks = |done: &[String]| done.contains(&"ask the workers".to_owned());
    assert!(asks(&scene.does(tick())));
    assert!(!asks(&scene.does(tick())));
    scene.effects(surveyed(status(LayerRange::all(6), 0, 0)));
    assert!(asks(&scene.does(tick())));
}

#[test]
fn limits_are_told_when_they_change_and_again_where_they_were_not_taken() {
    let mut scene = Scene::sharing();
    let held = || surveyed(status(LayerRange::all(6), 0, 0));
    let limits =
        |done: Vec<String>| done.iter().filter(|line| line.starts_with("limit workers")).count();
    assert_eq!(limits(scene.does(held())), 1);
    assert_eq!(limits(scene.does(held())), 0);
    scene.effects(Event::LimitsNotTaken);
    assert_eq!(limits(scene.does(held())), 1);
}

#[test]
fn the_machine_is_looked_at_only_while_something_depends_on_it() {
    let look = "look at the machine".to_owned();
    let tick = |own_speed| Event::Tick { own_speed };
    let mut scene = Scene::sharing();
    assert!(scene.does(tick(OwnSpeed::Known)).contains(&look), "the owner pauses on battery");
    scene.passes(Duration::from_secs(9));
    assert!(!scene.does(tick(OwnSpeed::Known)).contains(&look), "it is looked at already");
    scene.effects(Event::Looked(None));
    assert!(scene.does(tick(OwnSpeed::Known)).contains(&look));
    scene.effects(Event::Looked(None));
    scene.settings.host.pause.on_battery = false;
    scene.passes(Duration::from_secs(9));
    assert!(!scene.does(tick(OwnSpeed::Known)).contains(&look));
    assert!(scene.does(tick(OwnSpeed::Unknown)).contains(&look), "it would measure itself");
    scene.effects(Event::Looked(None));
    scene.settings.host.serve_shards = false;
    scene.effects(Event::SharingSet);
    scene.passes(Duration::from_secs(9));
    assert!(!scene.does(tick(OwnSpeed::Unknown)).contains(&look), "nothing is shared");
}

#[test]
fn what_guests_were_answered_is_counted_for_the_day() {
    let mut scene = Scene::sharing();
    let (_, terms) = scene.served(TRUSTED);
    let tick = || Event::Tick { own_speed: OwnSpeed::Known };
    let guest = terms.usage.enter(TRUSTED);
    assert_eq!(scene.host.guests(), [(TRUSTED, 1)].into());
    terms.usage.add(3);
    let saved = "save [(20000, 3)]".to_owned();
    assert!(scene.does(tick()).contains(&saved));
    terms.usage.add(1);
    let saves = |done: Vec<String>| done.iter().any(|line| line.starts_with("save"));
    assert!(!saves(scene.does(tick())), "not for every token");
    drop(guest);
    assert!(saves(scene.does(tick())), "at once when the last guest has gone");
    assert_eq!(scene.host.lent_days().iter().map(|it| it.tokens).sum::<u64>(), 4);
    assert_eq!(scene.host.streams(), 0);
}

#[test]
fn steps_of_guests_tell_how_fast_this_device_is() {
    let mut scene = Scene::sharing();
    let measured = Event::Measured { model: EMBER, visits: Vec::new() };
    assert_eq!(scene.on(measured), ["measured: 0 steps of ember"]);
}
