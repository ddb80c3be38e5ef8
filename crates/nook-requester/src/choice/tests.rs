//! Situations from adverts and estimates, and what follows from them.

mod cable;
mod fetching;
mod gains;
mod room;

use std::path::Path;
use std::time::Duration;

use nook_base::clock;
use nook_base::limits::{ADVERT_LIFE, GUEST_POSITIONS_TYPICAL};
use nook_plan::{BytesPerSecond, Figure, Line, Link, RoundTrip, Speed, Width};
use nook_wire::{Advert, ShardAdvert};

use super::outlook::Present;
use super::*;
use nook_api::views::WhyLeftOut;
use nook_resources::adverts::Heard;
use nook_store::testing::settings_with;

const MODEL: ModelDigest = ModelDigest([1; 32]);
const PLENTY: u64 = 1 << 30;

fn peer(number: u8) -> PeerId {
    PeerId([number; 32])
}

fn ember() -> ModelFile {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");
    ModelFile::open(Path::new(path)).expect("the built-in model")
}

/// A reply by the built-in model of six layers, one of them at each end here.
fn question(pooling: Pooling, facts: Facts) -> Question {
    Question {
        me: Me { id: peer(0), name: "Here".to_owned() },
        model: MODEL,
        file: ember(),
        pooling,
        split: SplitChoice::Planned,
        reach: Reach::House,
        format: ActivationChoice::Always(ActivationDtype::F16),
        ends: Ends { prefix: 1, suffix: 1, width: Width::Free },
        hops_max: 16,
        whole: OffloadPolicy::Refused,
        facts,
    }
}

fn told(memory_free: u64) -> Encoded {
    let held = vec![LayerRange::all(6)];
    let memory_ceiling = memory_free;
    Encoded { prompt: 100, tokens_max: 500, held, memory_free, memory_ceiling, warm: Vec::new() }
}

fn speed(us_per_layer: u64) -> Speed {
    let us = Duration::from_micros;
    Speed {
        decode: Figure::Measured(Line { fixed: us(100), slope: us(us_per_layer) }),
        prefill: Figure::Measured(Line { fixed: us(100), slope: us(us_per_layer / 5) }),
        load: Figure::Measured(BytesPerSecond(1_000_000_000)),
        ends: Figure::Measured(us(500)),
    }
}

fn near() -> Link {
    let (mean, deviation) = (Duration::from_micros(500), Duration::from_micros(50));
    Link {
        round_trip: Figure::Measured(RoundTrip { mean, deviation }),
        bandwidth: Figure::Measured(BytesPerSecond(100_000_000)),
    }
}

/// This device at `here` µs a layer, device 1 at `there`.
fn measured(here: u64, there: u64) -> Facts {
    let known = |us| Known { speed: speed(us), held: Vec::new(), head_held: true };
    Facts {
        speeds: [(Place::Local, known(here)), (Place::Peer(peer(1)), known(there))].into(),
        links: [(peer(1), near())].into(),
        hands: [].into(),
    }
}

fn heard(model: ModelDigest, sharing: bool, age: Duration, now: Instant) -> Heard {
    let layers = LayerRange::with_len(1, 4);
    let shard = ShardAdvert {
        model,
        layers,
        held: LayerRange::with_len(1, 2),
        decode_us_per_layer: None,
        prefill_us_per_layer_token: None,
    };
    let advert = Advert {
        sharing,
        shards: vec![shard],
        streams_free: 3,
        queue_depth: 1,
        memory_free_bytes: PLENTY,
        fetch_bytes: 0,
    };
    Heard { advert, at: now - age, life: ADVERT_LIFE, app_version: String::new() }
}

/// The time of the tests, late enough that an advert can be stale.
fn now() -> Instant {
    clock::now() + 2 * ADVERT_LIFE
}

/// Device 1 offers the middle of the model.
fn book(now: Instant) -> AdvertBook {
    AdvertBook {
        heard: [(peer(1), heard(MODEL, true, Duration::ZERO, now))].into(),
        names: [(peer(1), "There".to_owned())].into(),
        ..AdvertBook::default()
    }
}

fn chosen(question: &Question, memory_free: u64) -> (Choice, DecisionView) {
    let now = now();
    let choice = question.choose(&told(memory_free), &book(now), now);
    let route = |segments: &[Segment]| nook_api::views::RouteView {
        legs: Vec::with_capacity(segments.len()),
    };
    let view = choice.view("ember", 100, |peer| peer.short(), route);
    (choice, view)
}

#[test]
fn each_paired_device_stands_as_adverts_gate_and_conduct_say() {
    let now = now();
    let fresh = |model, sharing| heard(model, sharing, Duration::ZERO, now);
    let mut book = AdvertBook {
        heard: [
            (peer(1), fresh(MODEL, true)),
            (peer(2), fresh(MODEL, false)),
            (peer(3), fresh(ModelDigest([2; 32]), true)),
            (peer(4), heard(MODEL, true, ADVERT_LIFE, now)),
            (peer(6), fresh(MODEL, true)),
            (peer(8), fresh(MODEL, true)),
        ]
        .into(),
        barred: [peer(5)].into(),
        keepers: BTreeSet::new(),
        left_out: [peer(6)].into(),
        suspected: BTreeSet::new(),
        wrong: [(peer(8), MODEL)].into(),
        own: [].into(),
        asleep: [].into(),
        names: (1..=8).map(|number| (peer(number), number.to_string())).collect(),
    };
    let question = question(Pooling::WhenFaster, Facts::default());
    let standings = |book: &AdvertBook| -> Vec<Standing> {
        question.others(&told(PLENTY), book, now).iter().map(|device| device.standing).collect()
    };
    let out = Standing::Out;
    let expected = [
        Standing::Ready,
        out(Out::NotSharing),
        out(Out::OtherFile),
        out(Out::Absent),
        out(Out::NotAllowed),
        out(Out::FailedLately),
        out(Out::Absent),
        out(Out::ComputesWrongly),
    ];
    assert_eq!(standings(&book), expected);
    // Who hung a moment ago stands like who failed.
    (book.left_out, book.suspected) = (book.suspected, book.left_out);
    assert_eq!(standings(&book), expected);
    // Who failed is asked all the same for layers that nobody else offers.
    book.heard.remove(&peer(1));
    assert_eq!(standings(&book)[5], Standing::Ready);
}

#[test]
fn a_device_is_described_by_its_advert_and_what_was_measured_and_nothing_is_invented() {
    let now = now();
    let mut facts = measured(1000, 700);
    let known = facts.speeds.get_mut(&Place::Peer(peer(1))).expect("it is there");
    // It answered for more once than it offers now.
    known.held = vec![LayerRange::with_len(3, 2), LayerRange::with_len(0, 6)];
    let asked = question(Pooling::WhenFaster, facts);
    let device = asked.others(&told(PLENTY), &book(now), now).remove(0);
    assert_eq!(device.computes, [LayerRange::with_len(1, 4)]);
    assert_eq!(device.held, [LayerRange::with_len(3, 2), LayerRange::with_len(1, 2)]);
    assert_eq!((device.streams_free, device.queue_depth), (3, 1));
    assert_eq!((device.memory_free, device.speed, device.link), (PLENTY, speed(700), near()));

    let stranger = question(Pooling::WhenFaster, Facts::default());
    let device = stranger.others(&told(PLENTY), &book(now), now).remove(0);
    assert_eq!((device.speed, device.link), (Speed::default(), Link::default()));

    let costs = stranger.costs();
    let file = ember();
    assert_eq!(costs.layers, 6);
    assert_eq!(costs.row_bytes, 2 * 256);
    let all = file.weight_bytes(&ModelPart::inner(LayerRange::all(6)));
    assert!(costs.layer_bytes * 6 >= all && costs.layer_bytes * 5 < all, "{costs:?}");
    assert!(costs.kv_bytes > 0 && costs.ends_bytes > 0, "{costs:?}");
}

/// The devices of the route for a prompt of which some have kept a beginning.
fn route_of(facts: Facts, book: &AdvertBook, warm: &[(Place, Cached)]) -> Vec<Place> {
    let told = Encoded { prompt: 1000, warm: warm.to_vec(), ..told(PLENTY) };
    let choice = question(Pooling::WhenFaster, facts).choose(&told, book, now());
    assert!(choice.is_planned, "{choice:?}");
    choice.route.segments().iter().map(|segment| segment.place).collect()
}

#[test]
fn what_devices_keep_of_the_prompt_is_weighed_against_computing_it_elsewhere() {
    let (now, here) = (now(), Place::Local);
    let [one, two] = [Place::Peer(peer(1)), Place::Peer(peer(2))];
    // Two helpers that are twice as fast as this device, the first by a little more.
    let mut facts = measured(1000, 500);
    let second = Known { speed: speed(510), ..facts.speeds[&one].clone() };
    facts.speeds.insert(two, second);
    facts.links.insert(peer(2), near());
    let mut house = book(now);
    house.heard.insert(peer(2), heard(MODEL, true, Duration::ZERO, now));
    house.names.insert(peer(2), "There too".to_owned());

    let cold = route_of(facts.clone(), &house, &[]);
    assert!(cold.contains(&one) && !cold.contains(&two), "{cold:?}");
    let cached =
        |first, count| Cached { layers: LayerRange::with_len(first, count), positions: 990 };
    let with_two = [(here, cached(0, 1)), (two, cached(1, 4)), (here, cached(5, 1))];
    assert_eq!(route_of(facts.clone(), &house, &with_two), [here, two, here]);
    // What was begun alone goes on alone, though a fresh prompt would go over the others.
    assert_eq!(route_of(facts.clone(), &house, &[(here, cached(0, 6))]), [here]);
    // Not where that is far slower.
    let slow = measured(20_000, 500);
    assert_eq!(route_of(slow, &book(now), &[(here, cached(0, 6))]), [here, one, here]);
}

#[test]
fn an_unmeasured_device_is_used_only_where_this_one_is_not_enough() {
    let asked = question(Pooling::WhenFaster, Facts::default());
    let (choice, view) = chosen(&asked, PLENTY);
    assert_eq!(choice.route.hops(), 0);
    assert!(view.left_out[0].why.contains("has not been measured"), "{view:?}");
    assert_eq!(view.left_out[0].reason, Some(WhyLeftOut::UnknownSpeed));
    assert_eq!(view.alone_impossible, None);

    // With one byte free and nothing loaded it cannot hold the model; with nothing at all not even
    // its ends, and whoever offers the layers is tried, as before.
    let file = ember();
    let ends = ModelPart { layers: LayerRange::all(0), embedding: true, head: true };
    let now = now();
    let few =
        file.weight_bytes(&ends) + 2 * (asked.costs().layer_bytes + 600 * asked.costs().kv_bytes);
    for (free, because) in [(few, "not enough memory"), (0, "own figures")] {
        let told = Encoded { held: Vec::new(), ..told(free) };
        let choice = asked.choose(&told, &book(now), now);
        assert_eq!(choice.route.hops(), 1, "{free}: {choice:?}");
        assert!(choice.because.contains(because), "{free}: {}", choice.because);
    }
}

#[test]
fn the_faster_one_of_two_measured_ways_is_taken() {
    let slow_here = question(Pooling::WhenFaster, measured(20_000, 1000));
    let (choice, view) = chosen(&slow_here, PLENTY);
    assert_eq!(choice.route.hops(), 1, "{view:?}");
    let (alone, pooled) = (view.alone.expect("possible"), view.pooled.clone().expect("possible"));
    assert!(pooled.prediction.total_ms < alone.total_ms);
    assert!(alone.measured && pooled.prediction.measured, "{alone:?}, {pooled:?}");
    assert!(view.left_out.is_empty(), "{view:?}");

    let slow_there = question(Pooling::WhenFaster, measured(1000, 20_000));
    let (choice, view) = chosen(&slow_there, PLENTY);
    assert_eq!(choice.route.hops(), 0);
    assert!(view.left_out[0].why.starts_with("It is too slow"), "{view:?}");
    let Some(WhyLeftOut::TooSlow { slower_ms }) = view.left_out[0].reason else {
        panic!("{view:?}")
    };
    assert!(slower_ms > 0.0, "{view:?}");
}

#[test]
fn always_takes_whoever_offers_and_what_is_to_stay_here_stays() {
    let mut asked = question(Pooling::Always, measured(1000, 20_000));
    let (choice, view) = chosen(&asked, PLENTY);
    assert_eq!(choice.route.hops(), 1);
    assert!(view.left_out.is_empty(), "it is in use: {view:?}");
    // What the planner thinks of it is told all the same.
    let (alone, pooled) = (view.alone.expect("possible"), view.pooled.clone().expect("possible"));
    assert!(pooled.prediction.total_ms > alone.total_ms);

    asked.reach = Reach::ThisDevice;
    let (choice, view) = chosen(&asked, PLENTY);
    assert_eq!(choice.route.hops(), 0);
    assert_eq!((view.alone, view.pooled), (None, None));
}

#[test]
fn a_slow_measured_way_narrows_the_rows_where_the_owner_leaves_the_choice() {
    let slow = |mbit: u64| {
        let mut facts = measured(3_000, 50);
        let link = facts.links.get_mut(&peer(1)).expect("device 1 has a link");
        link.bandwidth = Figure::Measured(BytesPerSecond(mbit * 125_000));
        facts
    };
    let by_link = ActivationChoice::ByLink;
    for (pooling, mbit, format, expected) in [
        (Pooling::WhenFaster, 1, by_link, ActivationDtype::Q8),
        (Pooling::Always, 1, by_link, ActivationDtype::Q8),
        (Pooling::Always, 1000, by_link, ActivationDtype::F16),
        (Pooling::Always, 1, ActivationChoice::Always(ActivationDtype::F16), ActivationDtype::F16),
        (Pooling::Always, 1, ActivationChoice::Always(ActivationDtype::F32), ActivationDtype::F32),
    ] {
        let question = Question { format, ..question(pooling, slow(mbit)) };
        let (choice, view) = chosen(&question, PLENTY);
        assert_eq!(choice.dtype, expected, "{pooling:?} at {mbit} Mbit/s: {}", view.because);
        assert_eq!(
            view.because.contains("(q8), because the way to There"),
            expected == ActivationDtype::Q8
        );
    }
}

#[test]
fn t12_what_a_host_has_measured_of_itself_counts_until_this_device_has() {
    let now = now();
    let mut book = book(now);
    let shard = &mut book.heard.get_mut(&peer(1)).expect("it is in the book").advert.shards[0];
    shard.decode_us_per_layer = Some(700);
    let speed = |facts| {
        let others = question(Pooling::WhenFaster, facts).others(&told(PLENTY), &book, now);
        others[0].speed
    };
    let told = speed(Facts::default());
    let line = Line { fixed: Duration::ZERO, slope: Duration::from_micros(700) };
    assert_eq!((told.decode, told.prefill), (Figure::Measured(line), Figure::Unknown));
    let facts = measured(300, 200);
    let own = facts.speeds[&Place::Peer(peer(1))].speed;
    assert_eq!(speed(facts), own);
    // The way there is this device's to measure: until then nobody is ranked by what he says.
    let (choice, _) = chosen(&question(Pooling::WhenFaster, Facts::default()), PLENTY);
    assert_eq!(choice.route.hops(), 0);
}

/// Devices 1 and 2 offer the first three layers of the model each, and would hold any three.
fn offer_halves(book: &mut AdvertBook, now: Instant) {
    for number in [1, 2] {
        let mut heard = heard(MODEL, true, Duration::ZERO, now);
        heard.advert.shards[0].layers = LayerRange::with_len(0, 3);
        book.heard.insert(peer(number), heard);
        book.names.insert(peer(number), number.to_string());
    }
}

#[test]
fn the_owner_chooses_how_layers_are_divided_among_a_fast_and_a_slow_device() {
    let now = now();
    let mut book = book(now);
    offer_halves(&mut book, now);
    let mut facts = measured(300, 100);
    let slow = Known { speed: speed(900), held: Vec::new(), head_held: true };
    facts.speeds.insert(Place::Peer(peer(2)), slow);
    facts.links.insert(peer(2), near());
    let told = Encoded::usual(Vec::new(), PLENTY);
    let movable: BTreeSet<PeerId> = [peer(1), peer(2)].into();
    for (split, expected) in [("planned", [3, 1]), ("weighted", [3, 1]), ("uniform", [2, 2])] {
        let split = settings_with("distributed_inference.split", split).inference.split;
        let question = Question { split, ..question(Pooling::Always, facts.clone()) };
        let wanted = question.outlook(&told, &book, &movable, now).wanted.expect("there is room");
        let of = |number| {
            let its = wanted.shares.iter().filter(|it| it.place == Place::Peer(peer(number)));
            its.map(|it| it.layers.len()).sum::<u32>()
        };
        assert_eq!([of(1), of(2)], expected, "{split:?}");
    }
}

#[test]
fn this_device_computes_between_two_others_only_where_its_owner_lets_it() {
    let now = now();
    let mut book = book(now);
    for (number, first, len) in [(1, 1, 1), (2, 3, 2)] {
        let mut heard = heard(MODEL, true, Duration::ZERO, now);
        heard.advert.shards[0].layers = LayerRange::with_len(first, len);
        book.heard.insert(peer(number), heard);
        book.names.insert(peer(number), number.to_string());
    }
    let mut facts = measured(200_000, 200);
    let fast = Known { speed: speed(200), held: Vec::new(), head_held: true };
    facts.speeds.insert(Place::Peer(peer(2)), fast);
    facts.links.insert(peer(2), near());
    for (allowed, helpers) in [(true, vec![1, 2]), (false, vec![2])] {
        let settings = settings_with("distributed_inference.allow_self_as_shard", allowed);
        let ends = crate::machine::replies::ends(&settings.inference);
        let question = Question { ends, ..question(Pooling::WhenFaster, facts.clone()) };
        let choice = question.choose(&told(PLENTY), &book, now);
        let used: Vec<u8> = (1..=2)
            .filter(|number| {
                let place = Place::Peer(peer(*number));
                choice.route.segments().iter().any(|segment| segment.place == place)
            })
            .collect();
        assert_eq!(used, helpers, "allowed: {allowed}");
    }
}

#[test]
fn layers_are_placed_where_nobody_has_them_and_only_on_devices_that_take_wishes() {
    let now = now();
    let mut book = book(now);
    let question = question(Pooling::Always, Facts::default());
    let told = Encoded::usual(Vec::new(), PLENTY);
    let movable: BTreeSet<PeerId> = [peer(1), peer(2)].into();
    let look =
        |book: &AdvertBook, movable: &BTreeSet<PeerId>| question.outlook(&told, book, movable, now);
    assert_eq!(look(&book, &movable).present, Present::AsSet, "one has the whole middle");
    offer_halves(&mut book, now);
    let outlook = look(&book, &movable);
    assert_eq!(outlook.present, Present::Impossible);
    let wanted = outlook.wanted.expect("together they have room");
    let shares: Vec<_> = wanted.shares.iter().map(|it| (it.place, it.layers)).collect();
    let range = LayerRange::with_len;
    let [(Place::Local, first), (one, front), (two, back), (Place::Local, last)] = shares[..]
    else {
        panic!("{shares:?}")
    };
    assert_eq!([first, front, back, last], [range(0, 1), range(1, 2), range(3, 2), range(5, 1)]);
    assert!(one != two && one != Place::Local && two != Place::Local, "{shares:?}");
    let nobody = BTreeSet::new();
    assert_eq!(look(&book, &nobody).wanted, None, "nobody takes wishes");
    // A device offers as many layers as it would hold, and is not asked for more.
    book.heard.remove(&peer(2));
    assert_eq!(look(&book, &movable).wanted, None);
}

#[test]
fn what_is_known_of_paces_is_what_this_device_has_measured() {
    let forecast = question(Pooling::Always, measured(300, 200)).forecast(&book(now()));
    assert_ne!(forecast, nook_pipeline::Forecast::default());
    let mut far = measured(300, 200);
    far.links.clear();
    let local_only = question(Pooling::Always, far).forecast(&book(now()));
    assert_ne!(local_only, forecast, "without the way a device is unknown");
    let nothing = question(Pooling::Always, Facts::default()).forecast(&book(now()));
    assert_eq!(nothing, nook_pipeline::Forecast::default());
}

/// A device of the same person, as the gate and its offers say.
fn own_device(ends_us: Option<u32>) -> nook_resources::adverts::OwnDevice {
    let levels = [(peer(1), nook_trust::TrustLevel::Own)];
    let gate = nook_trust::Gate::new(nook_trust::GatePolicy::DEFAULT, levels);
    let pass = gate.admit(peer(1)).expect("it is own");
    let (ends_held, load_kb_per_s) = (true, None);
    let offer = nook_wire::OffloadOffer { model: MODEL, ends_us, ends_held, load_kb_per_s };
    nook_resources::adverts::OwnDevice { pass, offers: vec![offer] }
}

/// Device 1 offers all layers, and to run everything.
fn own_book(now: Instant, ends_us: Option<u32>) -> AdvertBook {
    let mut book = book(now);
    let heard = book.heard.get_mut(&peer(1)).expect("it is in the book");
    for shard in &mut heard.advert.shards {
        shard.layers = LayerRange::all(6);
        shard.held = LayerRange::all(6);
    }
    AdvertBook { own: [(peer(1), own_device(ends_us))].into(), ..book }
}

fn chosen_from(question: &Question, book: &AdvertBook) -> Choice {
    question.choose(&told(PLENTY), book, now())
}

#[test]
fn a_whole_reply_goes_to_an_own_device_that_is_faster_by_the_usual_margin() {
    let allowed = |here, there| Question {
        whole: OffloadPolicy::OnOwnDevices,
        ..question(Pooling::WhenFaster, measured(here, there))
    };
    let book = own_book(now(), Some(500));
    let choice = chosen_from(&allowed(20_000, 200), &book);
    let whole = choice.whole.expect("it is far faster");
    assert_eq!(whole.peer, peer(1));
    assert!(choice.because.starts_with("There, a device of yours"), "{}", choice.because);
    // Should it be lost, it has no part in what follows.
    assert!(choice.route.segments().iter().all(|segment| segment.place == Place::Local));
    let [only] = choice.segments()[..] else { panic!("one stretch") };
    assert_eq!((only.part, only.place), (ModelPart::whole(6), Place::Peer(peer(1))));
    let view = choice.view(
        "ember",
        100,
        |peer| peer.short(),
        |segments| nook_api::views::RouteView { legs: Vec::with_capacity(segments.len()) },
    );
    let predicted = view.whole.expect("it is told what that takes").prediction;
    assert!(predicted.tokens_per_second > view.alone.expect("alone").tokens_per_second);
    assert!(view.left_out.is_empty(), "{:?}", view.left_out);

    // As fast as this device: told, and not chosen.
    let same = chosen_from(&allowed(200, 200), &book);
    assert_eq!(same.whole, None);
    let Some(Ok(decision)) = same.planned else { panic!("a plan is possible") };
    assert!(decision.whole.is_some());
    // Nobody has measured its ends, which only it can; then it says so, or it is not known.
    let mut unmeasured = allowed(20_000, 200);
    let there = unmeasured.facts.speeds.get_mut(&Place::Peer(peer(1))).expect("it was measured");
    there.speed.ends = Figure::Unknown;
    assert_eq!(chosen_from(&unmeasured, &own_book(now(), None)).whole, None);
    assert!(chosen_from(&unmeasured, &own_book(now(), Some(500))).whole.is_some());
}

#[test]
fn what_an_own_device_has_still_to_load_counts_as_it_says_and_at_the_worst_where_it_does_not() {
    let mut question = Question {
        whole: OffloadPolicy::OnOwnDevices,
        ..question(Pooling::WhenFaster, measured(20_000, 200))
    };
    let there = question.facts.speeds.get_mut(&Place::Peer(peer(1))).expect("it was measured");
    there.speed.load = Figure::Unknown;
    let book = |load_kb_per_s, held| {
        let mut book = own_book(now(), Some(500));
        let own = book.own.get_mut(&peer(1)).expect("it is own");
        own.offers[0] = nook_wire::OffloadOffer { ends_held: held, load_kb_per_s, ..own.offers[0] };
        let heard = book.heard.get_mut(&peer(1)).expect("it is in the book");
        let layers = if held { 6 } else { 0 };
        heard.advert.shards.iter_mut().for_each(|it| it.held = LayerRange::all(layers));
        book
    };
    let whole = |book: &AdvertBook| chosen_from(&question, book).whole;
    assert!(whole(&book(None, true)).is_some(), "nothing is to be loaded");
    assert_eq!(whole(&book(None, false)), None, "that would be a guess");
    let fast = whole(&book(Some(1_000_000), false)).expect("it says how fast it loads");
    let slow = whole(&book(Some(100_000), false)).expect("still faster than here");
    let load = |choice: OffloadChoice| choice.prediction.expect("it was predicted").load;
    assert!(load(slow) > load(fast) && !load(fast).is_zero());
    // Nobody waits for a disk that is slower than the reply.
    assert_eq!(whole(&book(Some(100), false)), None);
}

#[test]
fn no_whole_reply_goes_where_somebody_has_not_said_so() {
    let faster = || measured(20_000, 200);
    let allowed =
        |pooling| Question { whole: OffloadPolicy::OnOwnDevices, ..question(pooling, faster()) };
    for pooling in [Pooling::WhenFaster, Pooling::Always] {
        let own = own_book(now(), Some(500));
        assert!(chosen_from(&allowed(pooling), &own).whole.is_some(), "{pooling:?}");
        let kept = Question { reach: Reach::ThisDevice, ..allowed(pooling) };
        let off = question(pooling, faster());
        for question in [kept, off] {
            assert_eq!(chosen_from(&question, &own).whole, None, "{pooling:?}");
        }
        // It offers layers, as any trusted device does, and no more.
        let trusted = AdvertBook { own: [].into(), ..own.clone() };
        // It offers another model.
        let mut other = own.clone();
        other.own.values_mut().for_each(|own| own.offers[0].model = ModelDigest([9; 32]));
        let wrong = AdvertBook { wrong: [(peer(1), MODEL)].into(), ..own.clone() };
        let mut taken = own.clone();
        taken.heard.values_mut().for_each(|heard| heard.advert.streams_free = 0);
        let mut off = own.clone();
        off.heard.values_mut().for_each(|heard| heard.advert.sharing = false);
        let gone = AdvertBook { heard: [].into(), ..own.clone() };
        for book in [trusted, other, wrong, taken, off, gone] {
            assert_eq!(chosen_from(&allowed(pooling), &book).whole, None, "{book:?}");
        }
    }
    // Unmeasured, it is used where the owner wants others to be used always.
    let unknown = Question { facts: Facts::default(), ..allowed(Pooling::Always) };
    let whole = chosen_from(&unknown, &own_book(now(), None)).whole.expect("always");
    assert_eq!((whole.peer, whole.prediction), (peer(1), None));
    let failed = AdvertBook { left_out: [peer(1)].into(), ..own_book(now(), None) };
    assert_eq!(chosen_from(&unknown, &failed).whole, None);
}
