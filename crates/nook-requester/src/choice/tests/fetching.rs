//! Devices that lack the model and would fetch layers of it, and divisions that leave none.

use super::*;

/// Device 1 has another model, and would fetch so much of this one.
fn lacking(now: Instant, fetch_bytes: u64) -> AdvertBook {
    let mut heard = heard(ModelDigest([2; 32]), true, Duration::ZERO, now);
    heard.advert.fetch_bytes = fetch_bytes;
    AdvertBook {
        heard: [(peer(1), heard)].into(),
        names: [(peer(1), "There".to_owned())].into(),
        ..AdvertBook::default()
    }
}

/// Layers that device 1 should hold of the model.
fn share(question: &Question, book: &AdvertBook, movable: &BTreeSet<PeerId>) -> u32 {
    let told = Encoded::usual(vec![LayerRange::all(6)], PLENTY);
    let outlook = question.outlook(&told, book, movable, now());
    let shares = outlook.wanted.into_iter().flat_map(|wanted| wanted.shares);
    let of_it = shares.filter(|share| share.place == Place::Peer(peer(1)));
    of_it.map(|share| share.layers.len()).sum()
}

#[test]
fn a_device_that_would_fetch_layers_counts_for_placement_and_not_for_a_reply() {
    let (now, movable) = (now(), BTreeSet::from([peer(1)]));
    let question = question(Pooling::WhenFaster, measured(20_000, 200));
    let layer = question.costs().layer_bytes;
    let book = lacking(now, 100 * layer);
    let choice = question.choose(&told(PLENTY), &book, now);
    assert_eq!(choice.route.hops(), 0, "it has nothing yet");
    let Some(Ok(decision)) = &choice.planned else { panic!("it can be made alone") };
    let [out] = decision.left_out[..] else { panic!("{:?}", decision.left_out) };
    assert_eq!(out.why, nook_plan::Why::Out(Out::LacksLayers));
    assert_eq!(share(&question, &book, &movable), 4, "all but the two ends");
    assert_eq!(share(&question, &book, &BTreeSet::new()), 0, "it has refused");
    assert_eq!(
        share(&question, &lacking(now, 2 * layer), &movable),
        2,
        "its disk has room for two"
    );
    assert_eq!(share(&question, &lacking(now, layer - 1), &movable), 0);
    assert_eq!(share(&question, &lacking(now, 0), &movable), 0, "it fetches nothing");
}

#[test]
fn memory_bounds_what_is_to_be_fetched_as_the_host_will_count_it() {
    let (now, movable) = (now(), BTreeSet::from([peer(1)]));
    let question = question(Pooling::WhenFaster, measured(20_000, 200));
    let costs = question.costs();
    let positions = u64::from(question.file.shape().context_length.min(GUEST_POSITIONS_TYPICAL));
    // Three streams are free and one is taken, each with a cache of its own.
    let each = costs.layer_bytes + 4 * costs.kv_bytes * positions;
    let mut book = lacking(now, 100 * costs.layer_bytes);
    let heard = book.heard.get_mut(&peer(1)).expect("it is in the book");
    heard.advert.memory_free_bytes = 3 * each + each / 2;
    assert_eq!(share(&question, &book, &movable), 3);
}

#[test]
fn ends_that_leave_no_layer_to_others_are_named() {
    let ends = Ends { prefix: 4, suffix: 2, width: Width::Free };
    let question = Question { ends, ..question(Pooling::WhenFaster, measured(20_000, 200)) };
    let (choice, view) = chosen(&question, PLENTY);
    assert_eq!(choice.route.hops(), 0);
    assert!(view.because.contains("first 4 and the last 2 layers"), "{}", view.because);
    assert!(view.because.contains("local_prefix_layers"), "{}", view.because);
    assert_eq!(view.topology, "everything here");
    assert!(view.alone.is_some(), "what it takes is predicted all the same");
}
