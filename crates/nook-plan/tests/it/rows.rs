//! When rows travel in fewer bits: only where the way is what takes the time, and that was
//! measured.

use std::time::Duration;

use nook_base::{LayerRange, ModelPart, PeerId};
use nook_plan::{
    BANDWIDTH_ASSUMED, BytesPerSecond, Device, EndsHeld, Execution, Figure, Line, Link, ModelCosts,
    NARROW_GAIN_MIN_PERCENT, NarrowRows, Owner, Place, Request, RoundTrip, Route, Rows, Segment,
    Situation, Speed, Standing, plan, plan_with_rows, predict, rows_on,
};
use proptest::prelude::*;

const LAYERS: u32 = 16;
const WIDTH: u64 = 2048;
const MBIT: u64 = 125_000;

fn model() -> ModelCosts {
    ModelCosts {
        layers: LAYERS,
        layer_bytes: 60_000_000,
        kv_bytes: 2_000,
        ends_bytes: 150_000_000,
        row_bytes: 2 * WIDTH,
        uncuttable: vec![],
    }
}

/// A device with every layer in memory: µs for a layer of decode, and the way to it.
fn device(number: u8, decode_us: u64, bandwidth: Figure<BytesPerSecond>) -> Device {
    let all = vec![LayerRange::all(LAYERS)];
    let us = Duration::from_micros;
    let mean = us(2_000);
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
            decode: Figure::Measured(Line { fixed: us(300), slope: us(decode_us) }),
            prefill: Figure::Measured(Line { fixed: us(300), slope: us(decode_us / 10 + 1) }),
            load: Figure::Measured(BytesPerSecond(1_000_000_000)),
            ends: Figure::Measured(us(3_000)),
        },
        link: Link {
            round_trip: Figure::Measured(RoundTrip { mean, deviation: mean / 10 }),
            bandwidth,
        },
        hands_to: Vec::new(),
    }
}

fn measured(mbit: u64) -> Figure<BytesPerSecond> {
    Figure::Measured(BytesPerSecond(mbit * MBIT))
}

/// What is chosen for a prompt of 500 tokens between this device and one helper.
fn chosen(here_us: u64, there: &Device) -> (Execution, Rows) {
    let (model, request) = (model(), Request::usual(500, 200));
    let here = device(0, here_us, Figure::Unknown);
    let others = [there.clone()];
    let situation = Situation { model: &model, request: &request, here: &here, others: &others };
    let narrow = NarrowRows { row_bytes: WIDTH / 32 * 34 };
    let (decision, rows) = plan_with_rows(&situation, &narrow);
    let decision = decision.expect("this device alone can do it");
    if rows == Rows::Wide {
        assert_eq!(Ok(&decision), plan(&situation).as_ref(), "the usual plan is what it would be");
    }
    (decision.plan.execution, rows)
}

fn hops(execution: &Execution) -> usize {
    match execution {
        Execution::Route(route) => route.hops(),
        Execution::Offload(_) => panic!("no whole request was allowed"),
    }
}

#[test]
fn a_slow_way_to_a_fast_device_is_narrowed_and_a_fast_way_is_not() {
    let (execution, rows) = chosen(2_000, &device(1, 300, measured(8)));
    assert_eq!(hops(&execution), 1);
    let Rows::Narrow(narrowed) = rows else { panic!("not narrowed") };
    assert_eq!(narrowed.slowest, PeerId([1; 32]));
    assert!((NARROW_GAIN_MIN_PERCENT..50).contains(&narrowed.saved_percent), "{narrowed:?}");
    let (execution, rows) = chosen(2_000, &device(1, 300, measured(1000)));
    assert_eq!((hops(&execution), rows), (1, Rows::Wide));
}

#[test]
fn a_slow_way_that_is_not_what_takes_the_time_is_left_as_it_is() {
    // The helper itself is slow, too: bytes are a small part.
    let (execution, rows) = chosen(400_000, &device(1, 40_000, measured(8)));
    assert_eq!((hops(&execution), rows), (1, Rows::Wide));
}

#[test]
fn a_way_that_nobody_measured_keeps_the_usual_format() {
    assert_eq!(chosen(2_000, &device(1, 300, Figure::Unknown)).1, Rows::Wide);
}

#[test]
fn on_a_settled_route_too_only_a_measured_way_counts() {
    let part = |from, to| ModelPart {
        layers: LayerRange::with_len(from, to - from),
        embedding: from == 0,
        head: to == LAYERS,
    };
    let there = Place::Peer(PeerId([1; 32]));
    let cuts = [(0, 1, Place::Local), (1, 15, there), (15, LAYERS, Place::Local)];
    let segments = cuts.map(|(from, to, place)| Segment { part: part(from, to), place });
    let route = Route::new(LAYERS, segments.to_vec()).unwrap();
    let rows = |bandwidth| {
        let (model, request) = (model(), Request::usual(500, 200));
        let (here, others) = (device(0, 100, Figure::Unknown), [device(1, 100, bandwidth)]);
        let situation =
            Situation { model: &model, request: &request, here: &here, others: &others };
        let narrow = NarrowRows { row_bytes: WIDTH / 32 * 34 };
        rows_on(&route, &situation, &narrow)
    };
    // The same figure, once measured and once assumed.
    assert!(matches!(rows(Figure::Measured(BANDWIDTH_ASSUMED)), Rows::Narrow(_)));
    assert_eq!(rows(Figure::Unknown), Rows::Wide);
}

#[test]
fn a_reply_that_stays_at_home_is_never_narrowed() {
    let (execution, rows) = chosen(200, &device(1, 300, measured(1)));
    assert_eq!((hops(&execution), rows), (0, Rows::Wide));
}

proptest! {
    #[test]
    fn what_is_narrowed_gains_what_was_asked_for_by_the_planner_s_own_figures(
        here_us in 100_u64..100_000, there_us in 50_u64..50_000, mbit in 1_u64..2_000,
    ) {
        let there = device(1, there_us, measured(mbit));
        let (execution, rows) = chosen(here_us, &there);
        let Execution::Route(route) = &execution else { panic!("no whole request was allowed") };
        let (model, request) = (model(), Request::usual(500, 200));
        let narrow_model = ModelCosts { row_bytes: WIDTH / 32 * 34, ..model.clone() };
        let here = device(0, here_us, Figure::Unknown);
        let others = [there];
        let wide = Situation { model: &model, request: &request, here: &here, others: &others };
        let narrow = Situation { model: &narrow_model, ..wide };
        let usual = plan(&wide).unwrap().plan.prediction.total;
        let with = plan(&narrow).unwrap().plan.prediction.total;
        let saved = 1.0 - with.as_secs_f64() / usual.as_secs_f64();
        let asked = f64::from(NARROW_GAIN_MIN_PERCENT) / 100.0;
        match rows {
            Rows::Narrow(narrowed) => {
                prop_assert!(route.hops() > 0);
                prop_assert!(saved >= asked && predict(&narrow, route).unwrap().total == with);
                prop_assert!((saved * 100.0 - f64::from(narrowed.saved_percent)).abs() < 1.01);
            }
            Rows::Wide => prop_assert!(saved < asked + 1e-9, "{saved}"),
        }
        // A route that is settled is judged by the same rule.
        let rows_there = NarrowRows { row_bytes: WIDTH / 32 * 34 };
        let settled = rows_on(route, &wide, &rows_there);
        prop_assert!(route.hops() > 0 || settled == Rows::Wide);
        let alone = rows_on(&Route::alone(LAYERS).unwrap(), &wide, &rows_there);
        prop_assert_eq!(alone, Rows::Wide);
    }
}
