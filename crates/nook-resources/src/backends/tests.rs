//! What is chosen, measured next and told, for facts that are made up.

use nook_plan::Line;

use super::*;

const MODEL: ModelDigest = ModelDigest([1; 32]);

fn gpu(number: u32, kind: GpuKind) -> GpuReport {
    GpuReport {
        number,
        name: format!("Card {number}"),
        api: "vulkan".to_owned(),
        driver: "Mesa 25".to_owned(),
        kind,
        memory: None,
    }
}

/// Takes so many microseconds for each layer of a token or of a prompt's token.
fn measurement(device: String, micros: u64) -> Measurement {
    let line = Line { fixed: Duration::ZERO, slope: Duration::from_micros(micros) };
    let pace = Pace { decode: line, prefill: line };
    Measurement {
        model: MODEL,
        device,
        pace,
        layers: 32,
        uncuttable: Vec::new(),
        weight_bytes: 4 << 30,
        at: 1,
    }
}

fn facts(gpus: Vec<GpuReport>, measured: Vec<Measurement>) -> Facts {
    Facts { gpus: Some(gpus), measured, used: BTreeSet::from([MODEL]), ..Facts::default() }
}

fn backend(facts: &Facts, wanted: Backend) -> Backend {
    facts.placed(wanted, MODEL, clock::now()).backend
}

#[test]
fn what_was_measured_to_be_sooner_is_chosen_and_only_by_itself() {
    let card = gpu(0, GpuKind::Discrete);
    for (micros, chosen) in [(50, Backend::GpuAt(0)), (90, Backend::Native), (200, Backend::Native)]
    {
        let measured = vec![measurement(cpu(), 100), measurement(device_of(&card), micros)];
        let facts = facts(vec![card.clone()], measured);
        assert_eq!(backend(&facts, Backend::Auto), chosen, "{micros}");
        assert_eq!(
            facts.placed(Backend::Auto, MODEL, clock::now()).falls_back,
            chosen != Backend::Native
        );
        for named in [Backend::Native, Backend::GpuAt(0), Backend::GpuAt(5), Backend::Candle] {
            let placed = facts.placed(named, MODEL, clock::now());
            assert_eq!(placed, Placed { backend: named, falls_back: false });
        }
        assert_eq!(backend(&facts, Backend::Gpu), Backend::GpuAt(0), "always, however slow");
    }
}

#[test]
fn a_software_adapter_is_neither_measured_nor_chosen() {
    let soft = gpu(0, GpuKind::Software);
    let measured = vec![measurement(cpu(), 100), measurement(device_of(&soft), 1)];
    let facts = facts(vec![soft.clone()], measured);
    assert_eq!(backend(&facts, Backend::Auto), Backend::Native);
    assert_eq!(backend(&facts, Backend::Gpu), Backend::Gpu, "the worker says that there is none");
    assert_eq!(facts.standing(&soft, Backend::Auto, clock::now()), GpuUse::Software);
    assert!(facts.wish(Backend::Auto, |_| true, clock::now()).is_none());
}

#[test]
fn nothing_is_chosen_that_was_not_measured_with_this_driver() {
    let card = gpu(0, GpuKind::Discrete);
    let other = GpuReport { driver: "Mesa 26".to_owned(), ..card.clone() };
    let measured = vec![measurement(cpu(), 100), measurement(device_of(&card), 10)];
    let now = clock::now();
    let updated = facts(vec![other], measured.clone());
    assert_eq!(backend(&updated, Backend::Auto), Backend::Native);
    let unseen = Facts { gpus: None, ..facts(Vec::new(), measured) };
    assert_eq!(backend(&unseen, Backend::Auto), Backend::Native);
    assert!(unseen.wish(Backend::Auto, |_| true, now) == Some(Wish::Survey));
    assert!(
        unseen.wish(Backend::Native, |_| true, now).is_none(),
        "who wants the CPU loads no driver"
    );
    let unused = Facts::default();
    assert!(unused.wish(Backend::Auto, |_| true, now).is_none(), "nothing was computed yet");
}

/// As in Gemma 3n, whose late layers read what two earlier ones remember.
#[test]
fn layers_that_cannot_be_cut_from_each_other_count_as_fitting_together_or_not_at_all() {
    let cuttable = measurement("card".to_owned(), 50);
    let late = Measurement { uncuttable: (20..32).collect(), ..cuttable.clone() };
    // A layer takes 128 MiB, and 70 % of a card are for layers.
    let there = |layers: u64, measured| {
        let memory = (layers * (128 << 20)) * 100 / 70 + (1 << 20);
        layers_there(Some(memory), measured)
    };
    for layers in [0, 12, 19, 31, 32, 40] {
        assert_eq!(u64::from(there(layers, &cuttable)), layers.min(32));
    }
    for (layers, together) in [(0, 0), (12, 12), (18, 18), (19, 19), (31, 19), (32, 32)] {
        assert_eq!(there(layers, &late), together, "room for {layers}");
    }
    let early = Measurement { uncuttable: (1..20).collect(), ..cuttable.clone() };
    for (layers, together) in [(5, 5), (12, 12), (19, 12), (20, 20), (26, 26), (32, 32)] {
        assert_eq!(there(layers, &early), together, "room for {layers}");
    }
    assert_eq!(layers_there(None, &late), 32);
}

#[test]
fn a_card_is_chosen_for_what_fits_there_and_not_where_there_is_no_kernel() {
    // Of 32 layers of 128 MiB each.
    for (gib, chosen) in [(8, Backend::GpuAt(0)), (4, Backend::GpuAt(0)), (1, Backend::Native)] {
        let small = GpuReport { memory: Some(gib << 30), ..gpu(0, GpuKind::Discrete) };
        let measured = vec![measurement(cpu(), 100), measurement(device_of(&small), 10)];
        let facts = facts(vec![small], measured);
        assert_eq!(backend(&facts, Backend::Auto), chosen, "{gib} GiB");
        let wanted = facts.placed(Backend::Gpu, MODEL, clock::now());
        assert_eq!(wanted, Placed { backend: Backend::GpuAt(0), falls_back: true });
    }
    let card = gpu(0, GpuKind::Discrete);
    let measured = vec![measurement(cpu(), 100), measurement(device_of(&card), 10)];
    let known = Backends::default();
    *known.lock() = facts(vec![card], measured);
    let placed = known.begin(Backend::Auto, MODEL);
    assert_eq!(placed, Placed { backend: Backend::GpuAt(0), falls_back: true });
    known.fell_back(placed, MODEL);
    assert_eq!(known.placed(Backend::Auto, MODEL).backend, Backend::Native);
    let standing = &known.standings(Backend::Auto).unwrap()[0];
    assert!(matches!(&standing.used, GpuUse::Unfit { .. }), "{standing:?}");
}

#[test]
fn a_gpu_whose_worker_ended_rests_and_a_named_one_is_not_ours_to_rest() {
    let card = gpu(0, GpuKind::Discrete);
    let known = Backends::default();
    let measured = vec![measurement(cpu(), 100), measurement(device_of(&card), 10)];
    *known.lock() = facts(vec![card], measured);
    let measured = known.begin(Backend::Auto, MODEL);
    assert_eq!(known.crashed(known.placed(Backend::GpuAt(0), MODEL), "signal 11"), None);
    assert_eq!(known.crashed(known.placed(Backend::Native, MODEL), "signal 11"), None);
    assert_eq!(known.crashed(measured, "signal 11"), Some(Duration::from_secs(120)));
    assert_eq!(known.begin(Backend::Auto, MODEL).backend, Backend::Native);
    let standing = &known.standings(Backend::Auto).unwrap()[0];
    let resting = GpuUse::Resting { minutes: 2, reason: "signal 11".to_owned() };
    assert_eq!(standing.used, resting);
    let later = clock::now() + Duration::from_secs(121);
    assert_eq!(known.lock().placed(Backend::Auto, MODEL, later), measured);
}

#[test]
fn who_needs_a_worker_ends_what_is_being_measured() {
    let known = Backends::default();
    let token = CancellationToken::new();
    known.lock().running = Some(token.clone());
    known.disturb();
    assert!(token.is_cancelled());
}

#[test]
fn how_a_gpu_stands_is_told_with_both_speeds() {
    let card = gpu(0, GpuKind::Integrated);
    let measured = vec![measurement(cpu(), 100), measurement(device_of(&card), 125)];
    let facts = facts(vec![card.clone()], measured);
    let now = clock::now();
    let GpuUse::Measured { is_used: false, cpu, gpu: speed } =
        facts.standing(&card, Backend::Auto, now)
    else {
        panic!("{:?}", facts.standing(&card, Backend::Auto, now));
    };
    assert!((cpu / speed - 1.25).abs() < 1e-6, "{cpu} {speed}");
    assert_eq!(facts.standing(&card, Backend::Native, now), GpuUse::NotChosen);
    assert_eq!(facts.standing(&card, Backend::GpuAt(0), now), GpuUse::Chosen);
    let fresh = self::facts(vec![card.clone()], Vec::new());
    assert_eq!(fresh.standing(&card, Backend::Auto, now), GpuUse::Unmeasured);
}

#[test]
fn the_processor_is_measured_first_then_each_card_and_each_once() {
    let cards =
        vec![gpu(0, GpuKind::Software), gpu(1, GpuKind::Integrated), gpu(2, GpuKind::Discrete)];
    let mut facts = facts(cards.clone(), Vec::new());
    let now = clock::now();
    let wish = |facts: &Facts| facts.wish(Backend::Auto, |_| true, now);
    assert_eq!(facts.wish(Backend::Auto, |_| false, now), None, "its file is not here");
    for (backend, device) in [
        (Backend::Native, cpu()),
        (Backend::GpuAt(1), device_of(&cards[1])),
        (Backend::GpuAt(2), device_of(&cards[2])),
    ] {
        assert_eq!(wish(&facts), Some(Wish::Measure(MODEL, backend)));
        facts.measured.push(measurement(device, 100));
    }
    assert_eq!(wish(&facts), None);
    facts.measured.pop();
    facts.rests.note(2, "signal 11", now);
    assert_eq!(wish(&facts), None, "a card that failed is left alone for a while");
}

#[test]
fn the_memory_of_a_card_counts_where_the_card_was_chosen_and_is_its_own() {
    let of = |kind, micros, wanted| {
        let card = GpuReport { memory: Some(8 << 30), ..gpu(0, kind) };
        let measured = vec![measurement(cpu(), 100), measurement(device_of(&card), micros)];
        let known = Backends::default();
        *known.lock() = facts(vec![card], measured);
        known.want(wanted);
        let bytes = known.card_bytes(MODEL);
        assert_eq!(known.cards().get(&MODEL).copied().unwrap_or(0), bytes);
        bytes
    };
    let most = (8 << 30) / 100 * MEMORY_PERCENT;
    assert_eq!(of(GpuKind::Discrete, 10, Backend::Auto), most);
    assert_eq!(of(GpuKind::Discrete, 200, Backend::Auto), 0, "the CPU is faster");
    assert_eq!(of(GpuKind::Discrete, 200, Backend::Gpu), most);
    assert_eq!(of(GpuKind::Discrete, 10, Backend::GpuAt(0)), most);
    assert_eq!(of(GpuKind::Discrete, 10, Backend::Native), 0);
    assert_eq!(of(GpuKind::Integrated, 10, Backend::Auto), 0, "it has the computer's memory");
}

#[test]
fn a_card_that_is_left_alone_computes_only_where_its_owner_says_so() {
    let cards = [gpu(0, GpuKind::Discrete), gpu(1, GpuKind::Integrated)];
    let measured = vec![
        measurement(cpu(), 100),
        measurement(device_of(&cards[0]), 10),
        measurement(device_of(&cards[1]), 50),
    ];
    let known = Backends::default();
    assert!(!known.watches_cards());
    *known.lock() = facts(cards.to_vec(), measured);
    let placed = |wanted| known.placed(wanted, MODEL).backend;
    assert_eq!(placed(Backend::Auto), Backend::GpuAt(0));
    assert!(known.watches_cards());
    let battery = Some(Spared::Battery);
    assert!(known.spare_cards(battery) && !known.spare_cards(battery));
    assert!(known.watches_cards(), "else nobody would see that it is over");
    assert_eq!(placed(Backend::Auto), Backend::GpuAt(1), "it is part of the processor");
    assert_eq!(placed(Backend::Gpu), Backend::GpuAt(0), "always");
    let standings = known.standings(Backend::Auto).unwrap();
    assert_eq!(standings[0].used, GpuUse::Spared(Spared::Battery));
    assert!(matches!(standings[1].used, GpuUse::Measured { is_used: true, .. }), "{standings:?}");
    assert!(known.spare_cards(Some(Spared::OtherPrograms)));
    assert_eq!(placed(Backend::Auto), Backend::GpuAt(1));
    assert!(known.spare_cards(None));
    assert_eq!(placed(Backend::Auto), Backend::GpuAt(0));
}
