//! What this device has room for, and what is said where that is not enough.

use nook_api::views::Wording;
use nook_base::ErrorCode;
use nook_model::Presence;

use super::*;

/// Nothing of the model is in memory, and at most so many bytes could be had, of which none is
/// free now.
fn with_at_most(memory_ceiling: u64) -> Encoded {
    Encoded { held: Vec::new(), memory_ceiling, ..told(0) }
}

#[test]
fn what_does_not_fit_anywhere_is_refused_with_what_is_missing_and_nothing_else_is() {
    let now = now();
    let asked = question(Pooling::WhenFaster, measured(1000, 500));
    let gone = AdvertBook { heard: [].into(), ..book(now) };
    let refusal = |told: &Encoded, book: &AdvertBook| {
        let choice = asked.choose(told, book, now);
        choice.refusal("Ember", asked.reach, |_| "Desk".to_owned())
    };
    let error = refusal(&with_at_most(1 << 20), &gone).expect("no room, and nobody else");
    assert_eq!(error.code, ErrorCode::ShardUnavailable);
    assert!(error.sentence.ends_with("divided now: Desk is not connected: start it."), "{error}");
    assert!(matches!(error.wording, Some(Wording::NoRoom { free_bytes: 1_048_576, .. })));
    assert_eq!(refusal(&with_at_most(1 << 20), &book(now)), None, "the other device is tried");
    assert_eq!(refusal(&with_at_most(PLENTY), &gone), None, "other programs can make room");

    let asked = Question { reach: Reach::ThisDevice, ..asked };
    let choice = asked.choose(&with_at_most(1 << 20), &book(now), now);
    assert!(choice.because.starts_with("The reply was refused"), "{}", choice.because);
    let error = choice.refusal("Ember", asked.reach, |_| String::new()).expect("no room");
    assert_eq!(error.code, ErrorCode::OutOfMemory);
}

#[test]
fn this_device_stands_in_for_as_many_layers_as_it_has_room_for() {
    let asked = question(Pooling::WhenFaster, measured(1000, 500));
    let now = now();
    let route = asked.cover(&book(now), now).expect("the other device offers the middle");
    assert_eq!(asked.room_here(&with_at_most(PLENTY), &route), u32::MAX, "all of it fits");
    let costs = asked.costs();
    let each = costs.layer_bytes + costs.kv_bytes * 600;
    // Two of its own, two more, and a bit.
    let some = costs.ends_bytes + 4 * each + each / 2;
    assert_eq!(asked.room_here(&with_at_most(some), &route), 2);
    assert_eq!(asked.room_here(&with_at_most(0), &route), 0);
}

/// The built-in model, of which only the layers in front of `prefix` and the last are here.
fn ends_of_ember(folder: &Path, prefix: u32) -> ModelFile {
    let whole = ember();
    let path = folder.join("ends.gguf");
    let mut presence = Presence::new(&whole.manifest().expect("a whole file"));
    let start = ModelPart { layers: LayerRange::all(prefix), embedding: true, head: false };
    let end = ModelPart { layers: LayerRange::with_len(5, 1), embedding: false, head: true };
    for range in [start, end].iter().flat_map(|part| whole.ranges_of(part)) {
        presence.mark(range.number).expect("a tensor of the model");
    }
    presence.store(&path).expect("a record");
    std::fs::copy(whole.path(), &path).expect("a copy");
    ModelFile::open(&path).expect("a partial file")
}

#[test]
fn who_has_only_its_ends_asks_others_or_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = ends_of_ember(folder.path(), 2);
    let now = now();
    let gone = || AdvertBook { heard: [].into(), ..book(now) };
    for pooling in [Pooling::WhenFaster, Pooling::Always] {
        let asked = Question { file: file.clone(), ..question(pooling, measured(1, 5000)) };
        assert_eq!(asked.layers_here(), [LayerRange::all(2), LayerRange::with_len(5, 1)]);
        let choice = asked.choose(&told(PLENTY), &book(now), now);
        assert_eq!(choice.refusal("Ember", asked.reach, |_| String::new()), None);
        assert!(choice.route.hops() > 0, "however slow the others are");
        let choice = asked.choose(&told(PLENTY), &gone(), now);
        let error = choice.refusal("Ember", asked.reach, |_| "Desk".to_owned()).expect("alone");
        assert_eq!(error.code, ErrorCode::ShardUnavailable);
        assert!(error.sentence.starts_with("Only the ends of Ember are on this"), "{error}");
        assert!(error.sentence.ends_with("Desk is not connected: start it."), "{error}");
        assert!(matches!(error.wording, Some(Wording::OnlyEnds { only_here: false, .. })));
    }
    let alone = Question {
        file: file.clone(),
        reach: Reach::ThisDevice,
        ..question(Pooling::WhenFaster, measured(1, 5000))
    };
    let choice = alone.choose(&told(PLENTY), &book(now), now);
    let error = choice.refusal("Ember", alone.reach, |_| String::new()).expect("only ends");
    assert!(matches!(error.wording, Some(Wording::OnlyEnds { only_here: true, .. })), "{error}");

    // The owner wants more to stay here than has come.
    let ends = Ends { prefix: 3, suffix: 1, width: Width::Free };
    for pooling in [Pooling::WhenFaster, Pooling::Always] {
        let file = file.clone();
        let more = Question { file, ends, ..question(pooling, measured(1, 5000)) };
        let choice = more.choose(&told(PLENTY), &book(now), now);
        let error = choice.refusal("Ember", more.reach, |_| String::new()).expect("on their way");
        assert!(matches!(error.wording, Some(Wording::EndsOnTheirWay { .. })), "{error}");
    }
}

#[test]
fn who_has_only_its_ends_gets_more_where_the_others_have_not_the_memory_for_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = ends_of_ember(folder.path(), 2);
    let now = now();
    let asked = Question { file, ..question(Pooling::WhenFaster, measured(5000, 1)) };
    let costs = asked.costs();
    let each = costs.layer_bytes + costs.kv_bytes * 600;
    let lacking = |layers: u64, told: &Encoded| {
        let mut book = book(now);
        let heard = book.heard.get_mut(&peer(1)).expect("it is in the book");
        heard.advert.memory_free_bytes = layers * each;
        // Nothing of it is in memory there.
        heard.advert.shards[0].held = LayerRange::with_len(1, 0);
        let outlook = asked.outlook(told, &book, &BTreeSet::from([peer(1)]), now);
        let layers = outlook.lacking.iter().flat_map(|layers| layers.iter());
        layers.filter(|layer| ![0, 1, 5].contains(layer)).count()
    };
    assert_eq!(lacking(4, &told(PLENTY)), 0, "all between fits there");
    assert_eq!(lacking(2, &told(PLENTY)), 1, "of three layers that are not here, one");
    assert_eq!(lacking(2, &with_at_most(0)), 0, "nor is there memory here");
}
