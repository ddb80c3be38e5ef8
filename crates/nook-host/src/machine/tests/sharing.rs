//! Sharing on and off, pauses, settings, sleep and the end of the node.

use std::collections::BTreeSet;
use std::time::Duration;

use nook_machine::Conditions;
use nook_store::Pooling;
use tokio::sync::oneshot;

use super::scene::*;
use crate::events::{Guests, OwnSpeed};
use nook_api::views::PauseReason;

const ALL: &str = "trusted hears: ember 0-5, amber 0-5; 2 streams free";

const BATTERY: Conditions = Conditions {
    on_battery: Some(true),
    others_load: None,
    others_card_load: None,
    full_screen: None,
    minute_of_day: 720,
};

const MAINS: Conditions = Conditions { on_battery: Some(false), ..BATTERY };

#[test]
fn sharing_that_is_on_is_told_and_calls_are_served() {
    let mut scene = Scene::new();
    let begun =
        ["watch for sleeps: On", "from now on given: amber", ALL, "trusted hears: given: amber"];
    assert_eq!(scene.on(Event::SharingSet), begun);
    assert_eq!(
        scene.on(Event::Call { peer: TRUSTED, call: "a call" }),
        ["stop measuring", "serve a call of trusted; whole requests: no; copies: yes"]
    );
}

/// I-9.
#[test]
fn sharing_that_is_off_serves_nobody_and_says_so() {
    let mut scene = Scene::new();
    scene.settings.host.serve_shards = false;
    assert_eq!(
        scene.on(Event::SharingSet),
        [
            "watch for sleeps: Off",
            // Giving models is a switch of its own.
            "from now on given: amber",
            "trusted hears: nothing is shared",
            "trusted hears: given: amber",
        ]
    );
    let refused = ["refuse a call of trusted: SwitchedOff; copies: yes"];
    assert_eq!(scene.on(Event::Call { peer: TRUSTED, call: "a call" }), refused);
    let refused = ["trusted hears: 0-1 SwitchedOff"];
    assert_eq!(scene.on(Event::Place { peer: TRUSTED, wish: wish(0, 2) }), refused);
    assert_eq!(scene.host.lent(), []);
    scene.settings.network.give_models = false;
    let nothing = ["trusted hears: nothing is shared", "trusted hears: given: "];
    assert_eq!(scene.tells(TRUSTED, Event::AdvertsChanged), nothing);
    let refused = ["refuse a call of trusted: SwitchedOff; copies: SwitchedOff"];
    assert_eq!(scene.on(Event::Call { peer: TRUSTED, call: "a call" }), refused);
}

#[test]
fn pooling_that_is_off_lends_nothing_either() {
    let mut scene = Scene::new();
    scene.settings.inference.enabled = false;
    let told = scene.tells(TRUSTED, Event::SharingSet);
    assert_eq!(told[0], "trusted hears: nothing is shared");
}

#[test]
fn sharing_that_is_switched_off_drains_and_then_frees_the_memory() {
    let mut scene = Scene::sharing();
    let (_, terms) = scene.served(TRUSTED);
    scene.settings.host.serve_shards = false;
    assert_eq!(
        scene.on(Event::SharingSet),
        [
            "drain 2 streams",
            "forget what is kept for others",
            "watch for sleeps: Off",
            "from now on given: amber",
            "trusted hears: nothing is shared",
        ]
    );
    assert!(terms.until.is_cancelled() && !terms.revoked.is_cancelled(), "its step ends in order");
    // A reply of this device may use the same worker.
    scene.replies = 1;
    let drained = BTreeSet::from([EMBER]);
    assert_eq!(scene.on(Event::Drained(drained)), ["free ember unless in use"]);
    scene.replies = 0;
    assert_eq!(scene.on(Event::ReplyEnded), ["free ember"]);
    assert!(scene.on(Event::ReplyEnded).is_empty(), "nothing is owed any more");
}

#[test]
fn sharing_that_is_on_again_when_the_old_terms_have_drained_takes_back_only_what_nobody_asks_for() {
    let mut scene = Scene::sharing();
    scene.settings.host.serve_shards = false;
    scene.effects(Event::SharingSet);
    scene.settings.host.serve_shards = true;
    scene.effects(Event::SharingSet);
    scene.effects(Event::Place { peer: TRUSTED, wish: wish(2, 4) });
    let drained = scene.on(Event::Drained(BTreeSet::from([EMBER])));
    assert_eq!(drained, ["advertise in 100 ms"], "its streams are free");
    let held = surveyed(status(nook_base::LayerRange::all(6), 0, 0));
    let done = scene.does(held);
    assert!(done.contains(&"release 0-1, 4-5 of ember".to_owned()), "{done:?}");
}

#[test]
fn the_owners_pause_lends_nothing_and_the_switch_stays_on() {
    let mut scene = Scene::sharing();
    scene.settings.host.pause.until = scene.unix_seconds + 60;
    let paused = ["drain 2 streams", "forget what is kept for others", "watch for sleeps: On"];
    assert_eq!(scene.does(Event::PauseSet), paused);
    assert_eq!(scene.host.paused(), Some(PauseReason::Owner));
    assert!(scene.does(Event::PauseSet).is_empty(), "nothing has changed");
    scene.passes(Duration::from_secs(61));
    let ticked = scene.on(Event::Tick { own_speed: OwnSpeed::Known });
    assert!(ticked.contains(&ALL.to_owned()), "{ticked:?}");
    assert_eq!(scene.host.paused(), None);
}

#[test]
fn a_battery_pauses_and_mains_must_last() {
    let mut scene = Scene::sharing();
    let paused = ["drain 2 streams", "forget what is kept for others", "watch for sleeps: On"];
    assert_eq!(scene.does(Event::Looked(Some(BATTERY))), paused);
    assert!(scene.does(Event::Looked(Some(MAINS))).is_empty());
    assert!(scene.does(Event::Looked(None)).is_empty(), "a look that failed has seen nothing");
    assert_eq!(scene.host.paused(), Some(PauseReason::Battery));
    scene.passes(Duration::from_secs(60));
    assert_eq!(scene.does(Event::Looked(Some(MAINS))), ["watch for sleeps: On"]);
    assert_eq!(scene.host.paused(), None);
}

#[test]
fn what_the_machine_did_before_sharing_was_off_does_not_pause_it_when_it_is_on_again() {
    let mut scene = Scene::sharing();
    scene.effects(Event::Looked(Some(BATTERY)));
    assert_eq!(scene.host.paused(), Some(PauseReason::Battery));
    scene.settings.host.serve_shards = false;
    scene.effects(Event::SharingSet);
    scene.effects(Event::Tick { own_speed: OwnSpeed::Known });
    scene.passes(Duration::from_secs(3600));
    scene.settings.host.serve_shards = true;
    let begun = scene.on(Event::SharingSet);
    assert!(begun.contains(&ALL.to_owned()), "{begun:?}");
    assert_eq!(scene.host.paused(), None);
    let ticked = scene.does(Event::Tick { own_speed: OwnSpeed::Known });
    assert!(ticked.contains(&"look at the machine".to_owned()), "{ticked:?}");
    scene.effects(Event::Looked(Some(BATTERY)));
    assert_eq!(scene.host.paused(), Some(PauseReason::Battery), "it still is so");
}

#[test]
fn settings_that_do_not_touch_lending_disturb_nobody() {
    let mut scene = Scene::sharing();
    let (_, terms) = scene.served(TRUSTED);
    let changed = scene.set(|settings| {
        settings.inference.pooling = Pooling::Always;
        // Nothing of it holds now.
        settings.host.pause.in_full_screen = true;
    });
    assert!(changed.is_empty(), "{changed:?}");
    assert!(!terms.until.is_cancelled());
}

#[test]
fn a_new_cap_and_new_streams_begin_new_terms_under_which_the_old_streams_still_end() {
    let mut scene = Scene::sharing();
    let (_, terms) = scene.served(TRUSTED);
    let _stream = terms.streams.clone().try_acquire_owned().expect("it is free");
    let changed =
        scene.set(|settings| settings.host.max_lent_memory = Some(nook_store::Megabytes(2_147)));
    let drained = ["drain 2 streams", "forget what is kept for others", "watch for sleeps: On"];
    assert_eq!(changed[..3], drained);
    assert_eq!(changed[3], "limit workers: 3 streams, 2147000000 bytes");
    assert!(terms.until.is_cancelled());
    // The stream that still ends counts.
    let told = scene.tells(TRUSTED, Event::AdvertsChanged);
    assert!(told[0].ends_with("1 streams free"), "{told:?}");
    let changed = scene.set(|settings| settings.host.max_concurrent_streams = 5);
    assert_eq!(changed[0], "drain 2 streams", "those of before");
    assert_eq!(changed[3], "limit workers: 6 streams, 2147000000 bytes");
    assert_eq!(scene.host.streams_max(), 5);
}

#[test]
fn memory_that_is_wanted_back_is_freed_at_once_or_when_guests_have_drained() {
    let mut scene = Scene::sharing();
    scene.settings.host.pause.until = scene.unix_seconds + 60;
    scene.effects(Event::PauseSet);
    assert!(scene.on(Event::MemoryWanted { guests: Guests::Draining }).is_empty());
    assert_eq!(scene.on(Event::Drained(BTreeSet::new())), ["free ember, amber"]);
    assert_eq!(scene.on(Event::MemoryWanted { guests: Guests::None }), ["free ember, amber"]);
}

#[test]
fn memory_that_is_wanted_back_is_also_that_of_a_model_which_was_deleted() {
    let mut scene = Scene::sharing();
    scene.on(surveyed(status(nook_base::LayerRange::all(6), 0, 0)));
    scene.models.retain(|entry| entry.digest() != EMBER);
    scene.settings.host.pause.until = scene.unix_seconds + 60;
    scene.effects(Event::PauseSet);
    assert_eq!(scene.on(Event::MemoryWanted { guests: Guests::None }), ["free ember, amber"]);
}

#[test]
fn a_sleep_is_announced_before_it_and_over_after_it() {
    let mut scene = Scene::sharing();
    let (ready, _wait) = oneshot::channel();
    assert_eq!(
        scene.does(Event::SleepNear { ready }),
        [
            "drain 2 streams",
            "forget what is kept for others",
            "watch for sleeps: On",
            "what waits is said now",
            "drain 2 streams, then say ready",
        ]
    );
    assert_eq!(scene.host.paused(), Some(PauseReason::Sleep));
    let refused = ["refuse a call of trusted: SwitchedOff; copies: yes"];
    assert_eq!(scene.on(Event::Call { peer: TRUSTED, call: "a call" }), refused);
    assert_eq!(scene.does(Event::SleepOver), ["watch for sleeps: On", "look for devices"]);
    assert_eq!(scene.host.paused(), None);
}

#[test]
fn a_sleep_while_nothing_is_shared_is_held_up_by_nothing_but_streams_that_end() {
    let mut scene = Scene::new();
    scene.settings.host.serve_shards = false;
    scene.effects(Event::SharingSet);
    let (ready, _wait) = oneshot::channel();
    let done = scene.does(Event::SleepNear { ready });
    let end = ["what waits is said now", "drain 2 streams, then say ready"];
    assert_eq!(done[done.len() - 2..], end);
    assert!(!done.contains(&"drain 2 streams".to_owned()));
}

#[test]
fn a_node_that_leaves_drains_and_writes_down_what_was_lent() {
    let mut scene = Scene::sharing();
    let (_, terms) = scene.served(TRUSTED);
    terms.usage.add(7);
    assert_eq!(scene.on(Event::Leave), ["drain 2 streams"]);
    assert!(terms.until.is_cancelled());
    let refused = ["refuse a call of trusted: SwitchedOff; copies: yes"];
    assert_eq!(scene.on(Event::Call { peer: TRUSTED, call: "a call" }), refused);
    assert_eq!(scene.on(Event::Left), ["save [(20000, 7)]"]);
    assert!(scene.on(Event::Leave).is_empty(), "nothing is lent any more");
}
