//! What is measured and placed before anybody has asked.

use nook_plan::Probe;

use super::*;

/// The study has no layer of the model, and would fetch some.
fn study_lacks(scene: &mut Scene) {
    scene.study_offers();
    let heard = scene.book.heard.get_mut(&STUDY).expect("it offers");
    heard.advert.shards.clear();
    heard.advert.fetch_bytes = 1 << 30;
}

fn outlook(present: Present) -> Said {
    Said::Outlook(MODEL, Some(Box::new(Outlook { present, wanted: None, lacking: Vec::new() })))
}

fn prediction() -> Prediction {
    Prediction {
        first_token: Duration::ZERO,
        load: Duration::ZERO,
        token: Duration::from_millis(10),
        total: Duration::from_secs(10),
        resumed: 0,
        basis: Basis::Measured,
    }
}

fn placed(layers: LayerRange, state: PlaceState) -> Event {
    Event::Placed(STUDY, Placed { model: MODEL, layers, state })
}

#[test]
fn a_device_that_begins_to_be_of_use_is_measured_and_placed_before_anybody_asks() {
    let mut scene = Scene::new();
    assert_eq!(scene.wait(10), Vec::<String>::new(), "there is nobody");
    scene.study_offers();
    let begun = scene.wait(3);
    assert!(begun.iter().any(|line| line.contains("probe")), "{begun:?}");
    assert!(begun.iter().any(|line| line.contains("look at placement")), "{begun:?}");
    let number = scene.rounds[0].number;
    scene.on(Said::Probed(Probed::Round(number)));
    let later = scene.wait(30);
    assert!(!later.iter().any(|line| line.contains("probe")), "the same helpers: {later:?}");
    // It goes and comes back, and was not measured yet.
    comes_back(&mut scene);
    assert!(scene.wait(3).iter().any(|line| line.contains("probe")));
    let number = scene.rounds[1].number;
    scene.on(Said::Noted(measured()));
    scene.on(Said::Probed(Probed::Round(number)));
    comes_back(&mut scene);
    let later = scene.wait(10);
    assert!(!later.iter().any(|line| line.contains("probe")), "it is known: {later:?}");
}

fn comes_back(scene: &mut Scene) {
    let heard = scene.book.heard.remove(&STUDY).expect("it was there");
    scene.wait(1);
    scene.book.heard.insert(STUDY, heard);
}

/// How fast the study computes the model.
fn measured() -> Note {
    let us = Duration::from_micros;
    let probe = Probe {
        layer_bytes: 1_000,
        decode: [(2, us(300)), (4, us(500))],
        prefill: [(128, us(6_600)), (256, us(13_000))],
    };
    Note::Probed { place: Place::Peer(STUDY), model: MODEL, probe }
}

#[test]
fn nobody_is_measured_who_may_not_compute_and_nothing_while_pooling_is_off() {
    let mut scene = Scene::new();
    scene.study_offers();
    scene.book.barred.insert(STUDY);
    assert_eq!(scene.wait(5), Vec::<String>::new());
    scene.book.barred.clear();
    scene.settings.inference.enabled = false;
    assert_eq!(scene.wait(5), Vec::<String>::new());
    scene.settings.inference.enabled = true;
    assert!(!scene.wait(3).is_empty());
}

#[test]
fn another_model_that_becomes_the_usual_one_is_made_ready_too() {
    let mut scene = Scene::new();
    scene.study_offers();
    scene.wait(3);
    let number = scene.rounds[0].number;
    scene.on(Said::Probed(Probed::Round(number)));
    let mut added = scene.models[0].clone();
    (added.listed.digest, added.built_in, added.added) = (ModelDigest([7; 32]), false, 5);
    scene.models.push(added);
    assert!(scene.wait(3).iter().any(|line| line.contains("probe")));
}

#[test]
fn a_device_that_would_fetch_layers_gets_a_few_is_measured_and_only_then_asked_for_more() {
    let mut scene = Scene::new();
    study_lacks(&mut scene);
    scene.wait(3);
    let present = || outlook(Present::Predicted(prediction()));
    let few = LayerRange::with_len(1, 4);
    assert_eq!(scene.on(present()), format!("ask to hold {few}"), "four are small here");
    assert_eq!(scene.on(present()), "", "it has not answered yet");
    assert_eq!(scene.requester.fetching(STUDY, scene.now), None);
    scene.on(placed(few, PlaceState::Fetching { percent: 40 }));
    assert_eq!(scene.requester.fetching(STUDY, scene.now), Some(40));
    let later = scene.now + Duration::from_secs(15);
    assert_eq!(scene.requester.fetching(STUDY, later), None, "it says nothing any more");
    let number = scene.rounds[0].number;
    scene.on(Said::Probed(Probed::Round(number)));
    // They are there: it is measured.
    scene.study_offers();
    scene.on(placed(few, PlaceState::Held));
    assert_eq!(scene.requester.fetching(STUDY, scene.now), None);
    let measured = scene.wait(3);
    assert!(measured.iter().any(|line| line.contains("probe")), "{measured:?}");
    assert_eq!(scene.on(present()), "", "it has layers now");
}

#[test]
fn a_device_with_one_layer_of_those_it_was_to_get_is_asked_for_them_again_whatever_it_showed() {
    let mut scene = Scene::new();
    study_lacks(&mut scene);
    scene.wait(3);
    let present = || outlook(Present::Predicted(prediction()));
    let few = LayerRange::with_len(1, 4);
    // Whoever gave it the others left; it was measured with the one that had come.
    let came = |scene: &mut Scene, layers| {
        scene.study_offers();
        let heard = scene.book.heard.get_mut(&STUDY).expect("it offers");
        heard.advert.fetch_bytes = 1 << 30;
        let shard = heard.advert.shards.first_mut().expect("it has layers");
        shard.layers = LayerRange::with_len(1, layers);
    };
    came(&mut scene, 1);
    let took = Duration::from_millis(3);
    let probe = Probe {
        layer_bytes: 1 << 20,
        decode: [(1, took), (2, took * 2)],
        prefill: [(256, took), (512, took * 2)],
    };
    scene.on(Said::Noted(Note::Probed { place: Place::Peer(STUDY), model: MODEL, probe }));
    assert_eq!(scene.on(present()), format!("ask to hold {few}"));
    let mut scene = Scene::new();
    came(&mut scene, 2);
    scene.wait(3);
    assert_eq!(scene.on(present()), "", "a line goes through two");
}

#[test]
fn where_nobody_can_make_a_reply_without_it_a_device_is_asked_for_all_at_once() {
    let mut scene = Scene::new();
    study_lacks(&mut scene);
    scene.wait(3);
    let layers = LayerRange::with_len(1, 4);
    let shares = vec![Share { place: Place::Peer(STUDY), layers }];
    let wanted = Wanted { shares, prediction: prediction(), moving: Duration::ZERO };
    let impossible =
        Outlook { present: Present::Impossible, wanted: Some(wanted), lacking: Vec::new() };
    let said = Said::Outlook(MODEL, Some(Box::new(impossible)));
    assert_eq!(scene.on(said), format!("ask to hold {layers}"));
}

#[test]
fn layers_that_did_not_come_are_asked_for_again_after_a_minute_and_a_no_counts_longer() {
    for (code, again_after) in [
        (ErrorCode::FetchFailed, 60),
        (ErrorCode::DiskFull, 60),
        (ErrorCode::FetchLimit, 600),
        (ErrorCode::BadModel, 600),
    ] {
        let mut scene = Scene::new();
        study_lacks(&mut scene);
        scene.wait(3);
        let present = || outlook(Present::Predicted(prediction()));
        let asked = scene.on(present());
        let few = LayerRange::with_len(1, 4);
        assert_eq!(asked, format!("ask to hold {few}"));
        scene.on(placed(few, PlaceState::Refused { code }));
        assert_eq!(scene.on(present()), "", "{code}");
        scene.now += Duration::from_secs(again_after - 1);
        assert_eq!(scene.on(present()), "", "{code}");
        scene.now += Duration::from_secs(1);
        assert_eq!(scene.on(present()), asked, "{code}");
    }
}

#[test]
fn layers_that_an_owner_let_go_of_in_the_middle_are_asked_for_again_at_once() {
    let mut scene = Scene::new();
    study_lacks(&mut scene);
    scene.wait(3);
    let present = || outlook(Present::Predicted(prediction()));
    let few = LayerRange::with_len(1, 4);
    scene.on(present());
    let let_go = PlaceState::Refused { code: ErrorCode::ShardUnavailable };
    for state in [PlaceState::Fetching { percent: 40 }, PlaceState::Loading { percent: 0 }] {
        scene.on(placed(few, state));
        scene.on(placed(few, let_go));
        assert_eq!(scene.on(present()), format!("ask to hold {few}"), "{state:?}");
    }
    // What was refused before anything had begun is a refusal.
    scene.on(placed(few, let_go));
    assert_eq!(scene.on(present()), "");
}
