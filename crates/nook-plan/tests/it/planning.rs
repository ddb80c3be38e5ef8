//! Promises of the planner over drawn households, against trying every route, and against the
//! greedy cover.

use nook_base::{LayerRange, ModelPart};
use nook_plan::synthetic::{Household, cheapest, verify};
use nook_plan::{
    BytesPerSecond, Figure, Hop, Line, Offer, OffloadPolicy, Place, RoundTrip, Route, Segment,
    Speed, Standing, Topology, Width, greedy_cover, plan, predict,
};
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn every_plan_keeps_every_promise() {
    for seed in 0..300 {
        let household = Household::draw(seed, 2 + (seed % 11) as usize);
        let situation = household.situation();
        let decision = plan(&situation);
        assert_eq!(verify(&situation, &decision), vec![], "seed {seed}: {decision:#?}");
    }
}

#[test]
fn small_households_get_plans_within_five_percent_of_the_best() {
    let (mut compared, mut impossible) = (0, 0);
    for seed in 5000..5400_u64 {
        let mut household = Household::small(seed, 2 + (seed % 3) as usize, 5);
        household.request.whole = OffloadPolicy::Refused;
        let situation = household.situation();
        let decision = plan(&situation).ok();
        let mut best = cheapest(&situation, true).expect("few enough walks");
        if best.is_none() && decision.as_ref().is_some_and(|decision| decision.alone.is_err()) {
            best = cheapest(&situation, false).expect("few enough walks");
        }
        let found = decision.and_then(|decision| decision.pooled);
        match (best, found) {
            (None, None) => impossible += 1,
            (Some((route, best)), Some(found)) => {
                compared += 1;
                let ratio = found.prediction.total.as_secs_f64() / best.total.as_secs_f64();
                assert!(ratio < 1.05, "seed {seed}: {ratio}\nbest {route:?}\nfound {found:?}");
            }
            (best, found) => panic!("seed {seed}: possible {best:?}, found {found:?}"),
        }
    }
    // The draw must contain both kinds, or nothing was compared.
    assert!(compared > 200 && impossible > 20, "{compared} compared, {impossible} impossible");
}

/// The route of the greedy cover over devices that hold everything they offer.
fn greedy(household: &Household) -> Option<Route> {
    let offers: Vec<Offer> = household
        .others
        .iter()
        .filter(|device| device.standing == Standing::Ready)
        .flat_map(|device| {
            let peer = device.peer().expect("the others are peers");
            device.computes.iter().map(move |layers| Offer {
                peer,
                layers: *layers,
                held: *layers,
                queue_depth: device.queue_depth,
                streams_free: device.streams_free,
            })
        })
        .collect();
    let ends = household.request.ends;
    let topology = Topology::new(household.model.layers, ends.prefix, ends.suffix).ok()?;
    let hops = greedy_cover(topology.middle(), &offers, household.request.hops_max).ok()?;
    Route::boomerang(topology, &hops).ok()
}

#[test]
fn wherever_the_greedy_cover_finds_a_walk_the_plan_is_no_dearer() {
    let mut compared = 0;
    for seed in 0..400 {
        let mut household = Household::draw(seed, 2 + (seed % 7) as usize);
        let Some(route) = greedy(&household) else { continue };
        // Unknown figures are planned with only where nothing else is left; that is another
        // promise.
        household.others.retain(|device| !device.speed.decode.is_unknown());
        household.others.retain(|device| !device.link.round_trip.is_unknown());
        let situation = household.situation();
        let Ok(reference) = predict(&situation, &route) else { continue };
        let decision = plan(&situation).expect("the greedy execution is possible");
        let pooled = decision.pooled.expect("the greedy execution is possible");
        let pooled = pooled.prediction.total;
        assert!(pooled <= reference.total, "seed {seed}: {pooled:?} {:?}", reference.total);
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn a_given_route_is_priced_only_when_it_is_legal_here() {
    let household = Household::draw(3, 4);
    let situation = household.situation();
    let layers = household.model.layers;
    let stranger = Hop {
        peer: nook_base::PeerId([0xEE; 32]),
        layers: LayerRange::new(1, layers - 1).unwrap(),
    };
    let topology = Topology::new(layers, 1, 1).unwrap();
    let route = Route::boomerang(topology, &[stranger]).unwrap();
    let refused = predict(&situation, &route).unwrap_err().to_string();
    assert!(refused.contains("may not be asked"), "{refused}");
    let short = Route::alone(layers - 1).unwrap();
    let refused = predict(&situation, &short).unwrap_err().to_string();
    assert!(refused.contains("the model"), "{refused}");
}

/// Numbers at the edges of their types.
fn edge() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX / 2), any::<u64>()]
}

fn edge_time() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), Just(Duration::MAX), edge().prop_map(Duration::from_nanos)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn t12_no_figure_however_mad_makes_the_planner_fail_or_break_a_promise(
        seed in any::<u64>(), devices in 1..6_usize, numbers in prop::collection::vec(edge(), 12),
        times in prop::collection::vec(edge_time(), 6), halves in any::<u32>(),
    ) {
        let mut household = Household::small(seed, devices, 6);
        let pick = |at: usize| numbers[at % numbers.len()];
        for (at, device) in household.others.iter_mut().enumerate() {
            device.memory_free = pick(at);
            device.queue_depth = pick(at + 1) as u16;
            device.streams_free = pick(at + 2) as u16;
            device.wait = (pick(at) % 2 == 0).then_some(times[at % times.len()]);
            let (fixed, slope) = (times[(at + 1) % times.len()], times[(at + 2) % times.len()]);
            let line = Figure::Measured(Line { fixed, slope });
            let load = Figure::Measured(BytesPerSecond(pick(at + 3)));
            device.speed = Speed { decode: line, prefill: line, load, ends: Figure::Unknown };
            device.link.bandwidth = Figure::Measured(BytesPerSecond(pick(at + 4)));
            let trip = RoundTrip { mean: slope, deviation: fixed };
            device.link.round_trip = Figure::Measured(trip);
        }
        household.model.layer_bytes = pick(5);
        household.model.kv_bytes = pick(6);
        household.model.row_bytes = pick(7);
        household.model.ends_bytes = pick(8);
        household.request.prompt = halves & 0xffff;
        household.request.reply = halves >> 16;
        household.request.positions = pick(9) as u32;
        household.request.chunk = pick(10) as u32;
        household.request.positions = household.request.positions.max(household.request.prompt);
        let situation = household.situation();
        let decision = plan(&situation);
        // Sums of such numbers overflow in the plain arithmetic of `verify`; these are the promises
        // that can be asked without it.
        prop_assert_eq!(&plan(&situation), &decision);
        if let Ok(decision) = &decision && let Ok(alone) = &decision.alone {
            prop_assert!(decision.plan.prediction.total <= alone.total);
        }
    }

    #[test]
    fn the_same_household_in_another_order_gets_the_same_plan(seed in any::<u64>(), turn in 0..11_usize) {
        let household = Household::draw(seed, 12);
        let mut turned = household.clone();
        turned.others.rotate_left(turn);
        prop_assert_eq!(plan(&household.situation()), plan(&turned.situation()));
    }

    #[test]
    fn a_faster_device_never_makes_the_plan_slower(seed in 0..4000_u64, which in 0..5_usize) {
        let mut household = Household::small(seed, 6, 8);
        household.request.ends.width = Width::Free;
        let before = plan(&household.situation()).map(|decision| decision.pooled);
        let device = &mut household.others[which];
        if let Figure::Measured(line) = device.speed.decode {
            let line = Line { fixed: line.fixed / 2, slope: line.slope / 2 };
            device.speed.decode = Figure::Measured(line);
        }
        device.memory_free *= 2;
        let after = plan(&household.situation()).map(|decision| decision.pooled);
        if let (Ok(Some(before)), Ok(Some(after))) = (before, after) {
            prop_assert!(after.prediction.total <= before.prediction.total * 101 / 100);
        }
    }
}

#[test]
fn a_walk_that_returns_to_a_device_counts_its_memory_once_over() {
    // One device with two pieces apart and room for caches of both, and not a byte more.
    let mut household = Household::small(1, 3, 6);
    let model = &mut household.model;
    (model.layer_bytes, model.kv_bytes, model.uncuttable) = (1000, 1, vec![]);
    household.request = nook_plan::Request::usual(10, 10);
    let range = |start, end| LayerRange::new(start, end).unwrap();
    let pieces = [vec![range(1, 2), range(3, 5)], vec![range(2, 3)]];
    let speed = household.here.speed;
    for (device, pieces) in household.others.iter_mut().zip(pieces) {
        device.standing = Standing::Ready;
        (device.computes, device.held, device.cached) = (pieces.clone(), pieces, vec![]);
        device.speed = speed;
        device.link.round_trip =
            Figure::Measured(RoundTrip { mean: Duration::ZERO, deviation: Duration::ZERO });
        device.link.bandwidth = Figure::Measured(BytesPerSecond(1_000_000_000));
        (device.streams_free, device.queue_depth, device.wait) = (2, 0, None);
        device.memory_free = 60;
    }
    household.here.computes = vec![range(0, 1), range(5, 6)];
    let decision = plan(&household.situation()).expect("A, B, A is a execution");
    assert_eq!(decision.plan.peers().len(), 2);
    household.others[0].memory_free = 59;
    assert!(plan(&household.situation()).is_err());
    household.others[0].memory_free = 60;
    household.others[0].streams_free = 1;
    assert!(plan(&household.situation()).is_err());
}

#[test]
fn this_device_may_stand_between_two_others_only_where_the_request_says_so() {
    let mut household = Household::small(1, 3, 6);
    household.model.uncuttable = vec![];
    household.request = nook_plan::Request::usual(10, 10);
    household.here.memory_free = u64::MAX;
    let range = |start, end| LayerRange::new(start, end).unwrap();
    let speed = household.here.speed;
    for (device, layers) in household.others.iter_mut().zip([range(1, 2), range(4, 5)]) {
        device.standing = Standing::Ready;
        (device.computes, device.held) = (vec![layers], vec![layers]);
        (device.streams_free, device.memory_free, device.speed) = (1, u64::MAX, speed);
    }
    let part = |layers, embedding, head| ModelPart { layers, embedding, head };
    let places = [household.others[0].place, household.others[1].place];
    let segments = vec![
        Segment { part: part(range(0, 1), true, false), place: Place::Local },
        Segment { part: part(range(1, 2), false, false), place: places[0] },
        Segment { part: part(range(2, 4), false, false), place: Place::Local },
        Segment { part: part(range(4, 5), false, false), place: places[1] },
        Segment { part: part(range(5, 6), false, true), place: Place::Local },
    ];
    let route = Route::new(6, segments).unwrap();
    assert!(predict(&household.situation(), &route).is_ok());
    household.request.ends.width = Width::EndsOnly;
    assert!(predict(&household.situation(), &route).is_err());
    let pooled = plan(&household.situation()).ok().and_then(|decision| decision.pooled);
    assert!(pooled.is_some_and(|plan| plan.peers().len() == 1));
}
