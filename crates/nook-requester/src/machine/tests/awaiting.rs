//! Layers without which a reply under way cannot go on.

use std::sync::Arc;

use super::*;
use crate::machine::awaiting::Awaited;

fn layers() -> LayerRange {
    LayerRange::with_len(2, 3)
}

/// A reply is under way, and waits for what the study had.
fn waiting(scene: &mut Scene) -> Arc<Awaited> {
    scene.ask(MODEL);
    let awaited = Arc::new(Awaited { model: MODEL, peer: STUDY, layers: layers() });
    assert_eq!(scene.on(Said::Noted(Note::Awaits(Arc::downgrade(&awaited)))), "");
    awaited
}

#[test]
fn who_is_awaited_is_asked_for_the_same_layers_once_it_is_back_and_again_after_a_restart() {
    let mut scene = Scene::new();
    let awaited = waiting(&mut scene);
    assert_eq!(scene.wait(3), Vec::<String>::new(), "it is away");
    scene.study_offers();
    let asked = [format!("ask to hold {}", layers())];
    assert_eq!(scene.wait(3), asked, "once");
    scene.on(Event::LinkChanged(STUDY));
    assert_eq!(scene.wait(3), asked, "whoever starts anew was asked for nothing");
    scene.on(Event::LinkChanged(STUDY));
    let shards = &mut scene.book.heard.get_mut(&STUDY).expect("it offers").advert.shards;
    shards[0].held = layers();
    assert_eq!(scene.wait(3), Vec::<String>::new(), "it has them");
    drop(awaited);
}

#[test]
fn nobody_is_asked_for_what_no_reply_waits_for_any_more() {
    let mut scene = Scene::new();
    drop(waiting(&mut scene));
    scene.study_offers();
    assert_eq!(scene.wait(3), Vec::<String>::new(), "the reply has ended");
}
