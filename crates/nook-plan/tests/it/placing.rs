//! Promises of placement and of splits.

use std::time::Duration;

use nook_base::{LayerRange, PeerId};
use nook_plan::synthetic::Household;
use nook_plan::{
    Aim, BytesPerSecond, Device, Ends, EndsHeld, Execution, Figure, Line, Link, ModelCosts, Owner,
    Place, Placement, PlacementError, Request, RoundTrip, Situation, Speed, Split, Standing, Width,
    place, plan,
};

const LAYERS: u32 = 26;
const LAYER_BYTES: u64 = 100_000_000;

fn model() -> ModelCosts {
    ModelCosts {
        layers: LAYERS,
        layer_bytes: LAYER_BYTES,
        kv_bytes: 1000,
        ends_bytes: 0,
        row_bytes: 4096,
        uncuttable: vec![],
    }
}

/// A device that holds nothing and has room for that many layers: µs for a layer of decode.
fn device(number: u8, decode_us: u64, room: u64, trip_us: u64) -> Device {
    let decode =
        Line { fixed: Duration::from_micros(200), slope: Duration::from_micros(decode_us) };
    let prefill =
        Line { fixed: Duration::from_micros(200), slope: Duration::from_micros(decode_us) / 10 };
    let mean = Duration::from_micros(trip_us);
    Device {
        place: if number == 0 { Place::Local } else { Place::Peer(PeerId([number; 32])) },
        standing: Standing::Ready,
        owner: Owner::Another,
        computes: vec![LayerRange::all(LAYERS)],
        held: vec![],
        ends: EndsHeld::InMemory,
        cached: vec![],
        memory_free: room * (LAYER_BYTES + 1_000_000),
        streams_free: 4,
        queue_depth: 0,
        wait: None,
        speed: Speed {
            decode: Figure::Measured(decode),
            prefill: Figure::Measured(prefill),
            load: Figure::Measured(BytesPerSecond(1_000_000_000)),
            ends: Figure::Measured(Duration::from_millis(1)),
        },
        hands_to: Vec::new(),
        link: Link {
            round_trip: Figure::Measured(RoundTrip { mean, deviation: Duration::ZERO }),
            bandwidth: Figure::Measured(BytesPerSecond(100_000_000)),
        },
    }
}

fn request() -> Request {
    Request { ends: Ends { prefix: 1, suffix: 1, width: Width::Fixed }, ..Request::usual(200, 200) }
}

fn placed(
    request: &Request,
    devices: &[Device],
    aim: Aim,
    split: Split,
) -> Result<Placement, PlacementError> {
    let model = model();
    let (here, others) = devices.split_first().expect("every caller passes this device");
    place(&Situation { model: &model, request, here, others }, aim, split)
}

/// `device:layers` of each share in layer order.
fn shown(placement: &Placement) -> String {
    let shares = placement.shares();
    let shares = shares.iter().map(|share| match share.place {
        Place::Local => format!("here:{}", share.layers),
        Place::Peer(peer) => format!("{}:{}", peer.0[0], share.layers),
    });
    shares.collect::<Vec<_>>().join(" ")
}

#[test]
fn splits_can_be_chosen() {
    let devices = [device(0, 2000, 3, 0), device(1, 100, 14, 500), device(2, 300, 30, 500)];
    let split = |split, aim| shown(&placed(&request(), &devices, aim, split).unwrap());
    assert_eq!(split(Split::Uniform, Aim::OneReply), "here:0-0 1:1-12 2:13-24 here:25-25");
    // Three to one by speed would be 18 and 6; 14 fit.
    assert_eq!(split(Split::CapacityWeighted, Aim::OneReply), "here:0-0 1:1-14 2:15-24 here:25-25");
    assert_eq!(split(Split::Planned, Aim::OneReply), "here:0-0 1:1-14 2:15-24 here:25-25");
}

#[test]
fn one_reply_wants_the_fastest_and_many_replies_want_all_busy() {
    let devices = [device(0, 500, 3, 0), device(1, 100, 30, 500), device(2, 200, 30, 500)];
    let aimed = |aim| placed(&request(), &devices, aim, Split::Planned).unwrap();
    let (one, many) = (aimed(Aim::OneReply), aimed(Aim::ManyReplies));
    assert_eq!(shown(&one), "here:0-0 1:1-24 here:25-25");
    assert_eq!(shown(&many), "here:0-0 1:1-16 2:17-24 here:25-25");
    assert!(many.busiest < one.busiest && many.prediction.total > one.prediction.total);
}

#[test]
fn a_device_whose_hop_costs_more_than_it_saves_gets_no_layers() {
    let near = [device(0, 500, 30, 0), device(1, 200, 30, 300), device(2, 190, 12, 300)];
    let mut far = near.clone();
    far[2].link.round_trip =
        Figure::Measured(RoundTrip { mean: Duration::from_millis(80), deviation: Duration::ZERO });
    let free = Request { ends: Ends { prefix: 1, suffix: 1, width: Width::Free }, ..request() };
    for devices in [&near, &far] {
        let planned = placed(&free, devices, Aim::OneReply, Split::Planned).unwrap();
        assert!(shown(&planned).contains("1:"), "{}", shown(&planned));
        assert!(!shown(&planned).contains("2:"), "{}", shown(&planned));
        // Weighted by capacity nobody is left out, and it shows.
        let weighted = placed(&free, devices, Aim::OneReply, Split::CapacityWeighted).unwrap();
        assert!(weighted.prediction.total > planned.prediction.total);
    }
}

#[test]
fn nothing_is_split_when_alone_is_faster_and_loading_is_told_apart() {
    let mut devices = [device(0, 200, 30, 0), device(1, 190, 30, 5000)];
    let free = Request { ends: Ends { prefix: 1, suffix: 1, width: Width::Free }, ..request() };
    let alone = placed(&free, &devices, Aim::OneReply, Split::Planned).unwrap();
    assert_eq!(shown(&alone), "here:0-25");
    assert_eq!(alone.moving, Duration::from_millis(2600));
    assert_eq!(alone.prediction.load, Duration::ZERO);
    devices[0].held = vec![LayerRange::all(LAYERS)];
    let held = placed(&free, &devices, Aim::OneReply, Split::Planned).unwrap();
    assert_eq!((held.moving, held.prediction), (Duration::ZERO, alone.prediction));
}

#[test]
fn devices_keep_the_layers_that_they_hold() {
    let mut devices = [device(0, 2000, 3, 0), device(1, 100, 12, 500), device(2, 100, 12, 500)];
    devices[1].held = vec![LayerRange::new(13, 25).unwrap()];
    devices[2].held = vec![LayerRange::new(1, 13).unwrap()];
    for device in &mut devices[1..] {
        device.memory_free = 12 * 1_000_000;
    }
    let placement = placed(&request(), &devices, Aim::OneReply, Split::Planned).unwrap();
    assert_eq!(shown(&placement), "here:0-0 2:1-12 1:13-24 here:25-25");
}

#[test]
fn what_does_not_fit_is_said() {
    let devices = [device(0, 500, 10, 0), device(1, 200, 10, 300)];
    let outcome = placed(&request(), &devices, Aim::OneReply, Split::Planned);
    assert_eq!(outcome, Err(PlacementError::NoRoom));
    let uniform = placed(&request(), &devices, Aim::OneReply, Split::Uniform);
    assert!(matches!(uniform, Err(PlacementError::Impossible(_))), "{uniform:?}");
}

#[test]
fn placements_of_drawn_households_lose_to_no_other_split_and_to_no_plan() {
    let mut compared = 0;
    for seed in 0..200 {
        let household = Household::draw(seed, 2 + (seed % 11) as usize);
        let situation = household.situation();
        let Ok(planned) = place(&situation, Aim::OneReply, Split::Planned) else { continue };
        for split in [Split::Uniform, Split::CapacityWeighted] {
            if let Ok(other) = place(&situation, Aim::OneReply, split) {
                compared += 1;
                assert!(planned.prediction.total <= other.prediction.total, "seed {seed}");
            }
        }
        let busy = place(&situation, Aim::ManyReplies, Split::Planned).unwrap();
        assert!(busy.busiest <= planned.busiest, "seed {seed}");
        // A cold request over the placement, loading aside, is no slower than its own plan.
        if let Ok(decision) = plan(&situation)
            && let (Execution::Route(_), 0) =
                (&decision.plan.execution, decision.plan.prediction.resumed)
        {
            let routed = decision.plan.prediction;
            let loaded = routed.total - routed.load;
            assert!(planned.prediction.total <= loaded * 102 / 100, "seed {seed}");
        }
    }
    assert!(compared > 20, "{compared}");
}
