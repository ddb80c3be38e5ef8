//! Promises of the planner on households made by hand, each for one thing that went wrong
//! elsewhere.

use std::time::Duration;

use nook_base::{LayerRange, PeerId};
use nook_plan::{
    Because, BytesPerSecond, Cached, Decision, Device, Ends, EndsHeld, Execution, Figure, Line,
    Link, ModelCosts, OffloadPolicy, Out, Owner, Place, Request, RoundTrip, Shape, Situation,
    Speed, Standing, Why, Width, plan,
};

const MS: Duration = Duration::from_millis(1);
const LAYERS: u32 = 32;
const LAYER_BYTES: u64 = 100_000_000;
const KV_BYTES: u64 = 4_000;

fn model() -> ModelCosts {
    ModelCosts {
        layers: LAYERS,
        layer_bytes: LAYER_BYTES,
        kv_bytes: KV_BYTES,
        ends_bytes: 300_000_000,
        row_bytes: 8192,
        uncuttable: vec![],
    }
}

fn range(start: u32, end: u32) -> LayerRange {
    LayerRange::with_len(start, end - start)
}

/// A device with every layer in memory and nothing else to do: µs for a layer of decode, ns for a
/// layer and row of prefill.
fn device(number: u8, decode_us: u64, prefill_ns: u64) -> Device {
    let all = vec![LayerRange::all(LAYERS)];
    Device {
        place: if number == 0 { Place::Local } else { Place::Peer(PeerId([number; 32])) },
        standing: Standing::Ready,
        owner: Owner::Another,
        computes: all.clone(),
        held: all,
        ends: EndsHeld::InMemory,
        cached: vec![],
        memory_free: 10_000_000_000,
        streams_free: 4,
        queue_depth: 0,
        wait: None,
        speed: Speed {
            decode: Figure::Measured(Line {
                fixed: MS / 2,
                slope: Duration::from_micros(decode_us),
            }),
            prefill: Figure::Measured(Line {
                fixed: MS / 2,
                slope: Duration::from_nanos(prefill_ns),
            }),
            load: Figure::Measured(BytesPerSecond(1_000_000_000)),
            ends: Figure::Measured(5 * MS),
        },
        hands_to: Vec::new(),
        link: link(1000),
    }
}

/// A link of this many µs and a gigabit.
fn link(micros: u64) -> Link {
    let mean = Duration::from_micros(micros);
    Link {
        round_trip: Figure::Measured(RoundTrip { mean, deviation: mean / 10 }),
        bandwidth: Figure::Measured(BytesPerSecond(110_000_000)),
    }
}

fn decide(request: &Request, here: &Device, others: &[Device]) -> Decision {
    let model = model();
    plan(&Situation { model: &model, request, here, others }).expect("a plan is possible")
}

fn why(decision: &Decision, number: u8) -> Why {
    let left = decision.left_out.iter().find(|left| left.peer == PeerId([number; 32]));
    left.expect("the device is left out").why
}

fn peers(decision: &Decision) -> Vec<u8> {
    decision.plan.peers().iter().map(|peer| peer.0[0]).collect()
}

const CHAT: (u32, u32) = (300, 300);

fn chat() -> Request {
    Request::usual(CHAT.0, CHAT.1)
}

#[test]
fn a_fast_computer_in_the_house_makes_the_laptop_fast_and_both_speeds_are_told() {
    let decision = decide(&chat(), &device(0, 4000, 1_000_000), &[device(1, 300, 20_000)]);
    assert_eq!((decision.because, peers(&decision)), (Because::PoolIsFaster, vec![1]));
    assert_eq!(decision.plan.shape, Shape::BothEnds { prefix: 1, suffix: 1 });
    let alone = decision.alone.unwrap();
    let pooled = decision.plan.prediction;
    assert!(pooled.tokens_per_second() > 3.0 * alone.tokens_per_second());
    // Two layers and the ends here, 30 there, one way there and back.
    assert!(pooled.token.abs_diff(Duration::from_micros(24_600)) < MS, "{:?}", pooled.token);
}

#[test]
fn a_small_share_does_not_make_a_slow_device_cheap() {
    let here = device(0, 2000, 200_000);
    let mut far = device(1, 1900, 190_000);
    far.link = link(643_000);
    let mut old = device(2, 9000, 900_000);
    old.link = link(300);
    let decision = decide(&chat(), &here, &[far, old]);
    assert_eq!(decision.because, Because::AloneIsFaster);
    assert!(matches!(why(&decision, 1), Why::HopCostsMoreThanItSaves { .. }), "{decision:?}");
    assert!(matches!(why(&decision, 2), Why::TooSlow { .. }), "{decision:?}");
}

#[test]
fn three_equal_machines_on_wifi_are_no_pool() {
    // 68 tokens a second alone, and 13 ms for each hop.
    let others: Vec<Device> = (1..=3)
        .map(|number| Device { link: link(13_000), ..device(number, 300, 20_000) })
        .collect();
    let decision = decide(&chat(), &device(0, 300, 20_000), &others);
    assert_eq!(decision.because, Because::AloneIsFaster);
    assert_eq!(decision.left_out.len(), 3);
}

#[test]
fn the_prompt_decides_between_fast_reading_and_fast_writing() {
    // One streams weights fast, the other computes fast.
    let here = Device { memory_free: 900_000_000, held: vec![], ..device(0, 3000, 2_000_000) };
    let writer = device(1, 250, 600_000);
    let reader = device(2, 1500, 8_000);
    let others = [writer, reader];
    let asked = |prompt, reply| peers(&decide(&Request::usual(prompt, reply), &here, &others));
    assert_eq!(asked(20, 1500), [1]);
    assert_eq!(asked(8000, 20), [2]);
}

#[test]
fn loading_is_priced_once_and_for_this_device_too() {
    let here = Device { held: vec![], ..device(0, 1000, 50_000) };
    let there = device(1, 1100, 50_000);
    // 3.2 GB at 1 GB/s before the first token here; a little slower and ready at once there.
    let decision = decide(&chat(), &here, std::slice::from_ref(&there));
    assert_eq!(decision.because, Because::PoolIsFaster);
    assert_eq!(decision.alone.unwrap().load, Duration::from_millis(3200));
    assert_eq!(peers(&decision), [1]);
    let cold = Device { held: vec![], ..device(2, 500, 20_000) };
    let slow_disk = Speed { load: Figure::Measured(BytesPerSecond(40_000_000)), ..cold.speed };
    let cold = Device { speed: slow_disk, ..cold };
    let here = device(0, 1000, 50_000);
    let short = decide(&chat(), &here, std::slice::from_ref(&cold));
    assert!(matches!(why(&short, 2), Why::LoadingTakesTooLong { .. }), "{short:?}");
    let long = decide(&Request::usual(300, 60_000), &here, &[cold]);
    assert_eq!(peers(&long), [2]);
}

#[test]
fn the_same_request_fits_again_where_memory_is_exactly_full() {
    // The layers are there; only caches come on top, and there is room for just these.
    let request = chat();
    let here = Device { memory_free: 300_000_000, held: vec![], ..device(0, 3000, 500_000) };
    let caches = 30 * KV_BYTES * u64::from(request.positions);
    let full = |memory_free| Device {
        memory_free,
        computes: vec![range(1, 31)],
        held: vec![range(1, 31)],
        ..device(1, 300, 20_000)
    };
    assert_eq!(peers(&decide(&request, &here, &[full(caches)])), [1]);
    let model = model();
    let others = [full(caches - 1)];
    let none = plan(&Situation { model: &model, request: &request, here: &here, others: &others });
    let none = none.unwrap_err();
    assert_eq!(none.first_missing_layer, None, "the layers are there: room is what lacks");
}

#[test]
fn a_long_prompt_takes_its_caches_into_the_memory_of_the_card() {
    let here = device(0, 4000, 400_000);
    // 24 layers' weights fit into the card; with the caches of 8,111 positions 18 do.
    let card = Device { held: vec![], memory_free: 24 * LAYER_BYTES, ..device(1, 200, 8_000) };
    let layers = |request: &Request| {
        let decision = decide(request, &here, std::slice::from_ref(&card));
        let Execution::Route(route) = decision.plan.execution else { panic!("a whole request") };
        let there = route.segments().iter().filter(|segment| segment.place != Place::Local);
        there.map(|segment| segment.part.layers.len()).sum::<u32>()
    };
    assert_eq!(layers(&Request { positions: 400, ..Request::usual(100, 300) }), 23);
    assert_eq!(layers(&Request { positions: 8_411, ..Request::usual(8_111, 300) }), 17);
}

#[test]
fn unknown_is_never_free_never_excluded_and_not_set_against_known() {
    let unknown = Device { speed: Speed::default(), ..device(1, 0, 0) };
    let decision = decide(&chat(), &device(0, 4000, 1_000_000), std::slice::from_ref(&unknown));
    assert_eq!(decision.because, Because::NobodyElseCan);
    assert_eq!(why(&decision, 1), Why::UnknownSpeed);
    // Alone is impossible: now it is used, at its worst, and the plan says so.
    let small = Device { memory_free: 400_000_000, held: vec![], ..device(0, 4000, 1_000_000) };
    let decision = decide(&chat(), &small, std::slice::from_ref(&unknown));
    assert_eq!(decision.because, Because::AloneIsImpossible);
    assert_eq!(decision.plan.prediction.basis, nook_plan::Basis::Assumed);
    assert!(decision.plan.prediction.token > 1000 * MS);
    // With a measured device that can do it as well, the unknown one waits for its probe.
    let known = device(2, 5000, 1_000_000);
    let decision = decide(&chat(), &small, &[unknown, known]);
    assert_eq!(peers(&decision), [2]);
    assert_eq!(why(&decision, 1), Why::UnknownSpeed);
    // A link without figures makes a device just as unknown.
    let dark = Device { link: Link::default(), ..device(3, 300, 20_000) };
    let decision = decide(&chat(), &device(0, 4000, 1_000_000), &[dark]);
    assert_eq!(why(&decision, 3), Why::UnknownSpeed);
}

#[test]
fn a_warm_beginning_is_part_of_the_price_and_all_or_nothing() {
    let request = Request::usual(9_200, 100);
    let mut here = device(0, 4000, 1_000_000);
    let warm = |number, layers, positions| Device {
        cached: vec![Cached { layers, positions }],
        ..device(number, 600, 60_000)
    };
    here.cached = vec![
        Cached { layers: range(0, 1), positions: 9_000 },
        Cached { layers: range(31, 32), positions: 9_000 },
    ];
    let fast = device(2, 400, 40_000);
    let turn_two = [warm(1, range(1, 31), 9_000), fast.clone()];
    let decision = decide(&request, &here, &turn_two);
    assert_eq!((peers(&decision), decision.plan.prediction.resumed), (vec![1], 9_000));
    // One stage of the old route holds nothing: the others' caches are worth nothing.
    let mut forgot = here.clone();
    forgot.cached.pop();
    let decision = decide(&request, &forgot, &turn_two);
    assert_eq!(decision.plan.prediction.resumed, 0);
    assert!(peers(&decision).contains(&2), "{decision:?}");
    // Price and not pin: for a short history the faster device is better anyway.
    let short = [warm(1, range(1, 31), 30), fast];
    let mut here_short = here;
    for cached in &mut here_short.cached {
        cached.positions = 30;
    }
    assert!(peers(&decide(&request, &here_short, &short)).contains(&2));
}

#[test]
fn streams_and_queues_are_looked_at_inside_the_search() {
    let here = Device { memory_free: 300_000_000, held: vec![], ..device(0, 3000, 500_000) };
    let half = |number, layers: LayerRange, streams_free| Device {
        computes: vec![layers],
        held: vec![layers],
        streams_free,
        ..device(number, 300, 20_000)
    };
    let busy = half(1, range(1, 31), 0);
    let parts = [half(2, range(1, 16), 1), half(3, range(16, 31), 1)];
    let decision = decide(&chat(), &here, &[busy.clone(), parts[0].clone(), parts[1].clone()]);
    assert_eq!(peers(&decision), [2, 3]);
    assert_eq!(why(&decision, 1), Why::StreamsTaken);
    let queue = Device { queue_depth: 6, streams_free: 1, ..busy };
    let decision = decide(&chat(), &here, &[queue, parts[0].clone(), parts[1].clone()]);
    assert_eq!(peers(&decision), [2, 3], "six steps wait at the first");
}

#[test]
fn what_the_node_knows_is_passed_on_as_it_is() {
    let outs = [
        Out::Absent,
        Out::NotSharing,
        Out::NotAllowed,
        Out::Leaving,
        Out::OtherFile,
        Out::LacksLayers,
        Out::Refused,
        Out::FailedLately,
        Out::ComputesWrongly,
    ];
    let others: Vec<Device> = (1..)
        .zip(outs)
        .map(|(number, out)| Device { standing: Standing::Out(out), ..device(number, 1, 1) })
        .collect();
    let full = Device { memory_free: 5, held: vec![], ..device(20, 300, 20_000) };
    let nothing = Device { computes: vec![], held: vec![], ..device(21, 300, 20_000) };
    let others = [others, vec![full, nothing]].concat();
    let decision = decide(&chat(), &device(0, 4000, 1_000_000), &others);
    assert_eq!(decision.because, Because::NobodyElseCan);
    for (number, out) in (1..).zip(outs) {
        assert_eq!(why(&decision, number), Why::Out(out));
    }
    assert!(matches!(why(&decision, 20), Why::Full { free: 5, .. }));
    assert_eq!(why(&decision, 21), Why::NothingToCompute);
}

#[test]
fn a_layer_that_nobody_has_is_named_and_is_not_called_lack_of_memory() {
    let model = model();
    let request = chat();
    let here = Device { computes: vec![range(0, 1), range(31, 32)], ..device(0, 1000, 50_000) };
    let part = Device { computes: vec![range(1, 20)], ..device(1, 300, 20_000) };
    let others = [part];
    let situation = Situation { model: &model, request: &request, here: &here, others: &others };
    let none = plan(&situation).unwrap_err();
    assert_eq!(none.first_missing_layer, Some(20));
    assert_eq!(none.left_out[0].why, Why::DoesNotFitIn);
}

#[test]
fn cuts_that_the_family_forbids_are_not_made() {
    let request = chat();
    let here = device(0, 4000, 1_000_000);
    let others = [Device { computes: vec![range(3, 29)], ..device(1, 300, 20_000) }];
    let cut = |uncuttable: Vec<u32>| {
        let model = ModelCosts { uncuttable, ..model() };
        let situation =
            Situation { model: &model, request: &request, here: &here, others: &others };
        let Execution::Route(route) = plan(&situation).unwrap().plan.execution else {
            panic!("whole")
        };
        route.segments()[1].part.layers
    };
    assert_eq!(cut(vec![]), range(3, 29));
    assert_eq!(cut(vec![3, 4, 5, 29]), range(6, 28));
}

#[test]
fn each_topology_can_be_demanded_and_is_kept() {
    let here = device(0, 2000, 200_000);
    let others = [device(1, 300, 20_000)];
    let shape = |prefix, suffix| {
        let ends = Ends { prefix, suffix, width: Width::Fixed };
        decide(&Request { ends, ..chat() }, &here, &others).plan.shape
    };
    assert_eq!(shape(4, 0), Shape::PrefixOwned { layers: 4 });
    assert_eq!(shape(0, 4), Shape::SuffixOwned { from: 28 });
    assert_eq!(shape(3, 4), Shape::BothEnds { prefix: 3, suffix: 4 });
    assert_eq!(shape(0, 0), Shape::EndsWithoutLayers);
    assert_eq!(shape(32, 0), Shape::Alone);
    let wide = Device { computes: vec![range(8, 32)], ..others[0].clone() };
    let ends = Ends { prefix: 1, suffix: 0, width: Width::EndsOnly };
    let decision = decide(&Request { ends, ..chat() }, &here, &[wide]);
    assert_eq!(decision.plan.shape, Shape::PrefixOwned { layers: 8 });
}

#[test]
fn a_whole_request_goes_only_to_ones_own_device_and_only_where_allowed() {
    let here = device(0, 4000, 1_000_000);
    let mine = Device { owner: Owner::Me, link: link(30_000), ..device(1, 300, 20_000) };
    let theirs = Device { owner: Owner::Another, link: link(30_000), ..device(2, 200, 20_000) };
    let others = [mine, theirs];
    let request = Request { whole: OffloadPolicy::OnOwnDevices, ..chat() };
    let decision = decide(&request, &here, &others);
    assert_eq!(decision.plan.shape, Shape::OffloadPolicy { peer: PeerId([1; 32]) });
    assert_eq!(decision.because, Because::OwnDeviceIsFaster);
    assert_eq!(decision.whole.as_ref(), Some(&decision.plan));
    let refused = decide(&chat(), &here, &others);
    assert!(matches!(refused.plan.execution, Execution::Route(_)));
    assert_eq!((refused.whole, refused.plan.clone()), (None, decision.pooled.unwrap()));
    assert!(decision.plan.prediction.total < refused.plan.prediction.total);
}

#[test]
fn a_whole_request_leaves_only_where_it_gains_as_much_as_a_pool_must() {
    let request = Request { whole: OffloadPolicy::OnOwnDevices, ..chat() };
    let mine = |decode: u64, micros| Device {
        owner: Owner::Me,
        link: link(micros),
        ..device(1, decode, 20_000)
    };
    // As fast as this device, or hardly faster: the words stay here.
    for decode in [4000, 3960] {
        let decision = decide(&request, &device(0, 4000, 20_000), &[mine(decode, 1_000)]);
        assert_eq!(decision.plan.shape, Shape::Alone, "{decode}");
        assert!(decision.whole.is_some(), "it is told what it would have taken");
    }
    // Whether it is worth it is a question to the pool that keeps the words here, and to this
    // device.
    let here = Device { memory_free: 10_000_000_000, ..device(0, 305, 20_000) };
    let slow = Device { memory_free: 10_000_000_000, ..device(0, 4000, 1_000_000) };
    let near = mine(300, 10);
    let decision = decide(&request, &slow, std::slice::from_ref(&near));
    let (pool, whole) = (decision.pooled.unwrap().prediction, decision.whole.unwrap().prediction);
    let is_worth_it = whole.total.as_nanos() * 102 < pool.total.as_nanos() * 100;
    assert_eq!(
        matches!(decision.plan.execution, Execution::Offload(_)),
        is_worth_it,
        "{pool:?} {whole:?}"
    );
    let decision = decide(&request, &here, &[near]);
    assert!(matches!(decision.plan.execution, Execution::Route(_)), "{decision:?}");
    // A device that was never measured is no reason to let words leave, where this one can do it.
    let unknown = Device { speed: Speed::default(), ..mine(300, 10) };
    let decision = decide(&request, &slow, &[unknown]);
    assert_eq!((decision.plan.shape, decision.whole), (Shape::Alone, None));
}

#[test]
fn the_whole_model_must_fit_where_the_whole_request_goes() {
    let request = Request { whole: OffloadPolicy::OnOwnDevices, ..chat() };
    let here = device(0, 4000, 1_000_000);
    let mine = Device { owner: Owner::Me, ..device(1, 300, 20_000) };
    let full = Device { held: vec![], memory_free: 100_000_000, ..mine.clone() };
    let partly = Device { computes: vec![range(1, 32)], ..mine.clone() };
    let taken = Device { streams_free: 0, ..mine.clone() };
    let away = Device { standing: Standing::Out(Out::Absent), ..mine.clone() };
    for device in [full, partly, taken, away] {
        assert_eq!(
            decide(&request, &here, std::slice::from_ref(&device)).whole,
            None,
            "{device:?}"
        );
    }
    assert!(decide(&request, &here, &[mine]).whole.is_some());
}

#[test]
fn the_hops_of_a_route_are_limited_inside_the_search() {
    let here = Device { memory_free: 300_000_000, held: vec![], ..device(0, 3000, 500_000) };
    let part = |number, layers: LayerRange, decode| Device {
        computes: vec![layers],
        held: vec![layers],
        ..device(number, decode, 20_000)
    };
    let others = [
        part(1, range(1, 11), 200),
        part(2, range(11, 21), 200),
        part(3, range(21, 31), 200),
        part(4, range(1, 31), 2000),
    ];
    let used = |hops_max| peers(&decide(&Request { hops_max, ..chat() }, &here, &others));
    assert_eq!(used(3), [1, 2, 3]);
    // The three short ones are alike; with two hops one of them can still help the long one.
    assert!(matches!(used(2)[..], [1..=3, 4]), "{:?}", used(2));
    assert_eq!(used(1), [4]);
}

/// Two devices that share the middle, of which the first hands its results to the second or not.
fn pair_of_hosts(hands_to: &[u8]) -> [Device; 2] {
    let hands_to = hands_to.iter().map(|number| PeerId([*number; 32])).collect();
    let half = |number, start| Device {
        computes: vec![LayerRange::with_len(start, 15)],
        held: vec![LayerRange::with_len(start, 15)],
        ..device(number, 300, 20_000)
    };
    let one = Device { hands_to, link: link(6_000), ..half(1, 1) };
    [one, Device { link: link(2_000), ..half(2, 16) }]
}

#[test]
fn hosts_that_hand_results_on_spare_half_of_the_shorter_way() {
    let here = device(0, 4000, 1_000_000);
    let token = |hands_to: &[u8]| {
        let decision = decide(&chat(), &here, &pair_of_hosts(hands_to));
        assert_eq!(peers(&decision), [1, 2]);
        decision.plan.prediction
    };
    let star = token(&[]);
    assert_eq!(token(&[3]), star, "a device that is not in the execution");
    let chain = token(&[2]);
    // Half of 2 ms, its deviation of 0.2 ms and the overhead of a hop, and a row on the way.
    let saved = star.token - chain.token;
    assert!(saved.abs_diff(Duration::from_micros(1_200)) < MS / 5, "{saved:?}");
    let first = star.first_token - chain.first_token;
    assert!(first >= saved && chain.total < star.total, "{first:?}");
    // The other way round nothing is handed on.
    let [one, two] = pair_of_hosts(&[]);
    let back = Device { hands_to: vec![PeerId([1; 32])], ..two };
    assert_eq!(decide(&chat(), &here, &[one, back]).plan.prediction, star);
}

#[test]
fn the_search_finds_the_chain_that_trying_all_walks_finds() {
    let layers = 7;
    let model = ModelCosts { layers, ..model() };
    let all = vec![LayerRange::all(layers)];
    let small = |number, decode, micros, hands_to: &[u8]| Device {
        computes: all.clone(),
        held: all.clone(),
        // Room for three of the layers.
        memory_free: if number == 0 {
            10_000_000_000
        } else {
            3 * (model.layer_bytes + 50_000_000)
        },
        link: link(micros),
        hands_to: hands_to.iter().map(|number| PeerId([*number; 32])).collect(),
        ..device(number, decode, 20_000)
    };
    let here = small(0, 9_000, 0, &[]);
    let request = chat();
    for hands in [[&[][..], &[], &[]], [&[2], &[], &[]], [&[3], &[1], &[]], [&[2], &[3], &[1]]] {
        let others = [
            small(1, 300, 4_000, hands[0]),
            small(2, 350, 5_000, hands[1]),
            small(3, 250, 9_000, hands[2]),
        ];
        let others = &others[..];
        let situation = Situation { model: &model, request: &request, here: &here, others };
        let best = nook_plan::synthetic::cheapest(&situation, false).expect("few enough walks");
        let (_, best) = best.expect("a execution is possible");
        let found = plan(&situation).expect("a plan is possible").plan.prediction;
        assert!(found.total <= best.total.mul_f64(1.001), "{hands:?}: {found:?} {best:?}");
    }
}
