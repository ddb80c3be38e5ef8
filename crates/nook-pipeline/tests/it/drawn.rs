//! Houses that were drawn by chance once and found a fault, so that each run meets them.

use std::time::Duration;

use nook_base::{ActivationDtype, LayerRange};
use nook_pipeline::{FallBack, SpotCheck};

use crate::case::{Case, Fault, Giving, Hands, PeerCase};
use crate::toy;
use crate::world::run;

/// Two devices compare what a third one computes, one behind the other. The second has compared
/// enough while the first is in the middle of a step that nobody needs: that call is not closed as
/// one that is in order.
#[test]
fn a_verifier_that_is_in_the_middle_of_a_step_is_not_left_in_order() {
    // First layer, end, streams, microseconds for a step.
    let peers = [
        (0, 1, 1, 50),
        (1, 3, 1, 50),
        (3, 7, 1, 50),
        (0, 1, 1, 50),
        (1, 5, 2, 50),
        (5, 7, 1, 50),
        (0, 3, 1, 352),
        (3, 4, 1, 50),
        (4, 7, 1, 50),
        (1, 2, 2, 2056),
    ];
    let peer = |(start, end, streams, step_us)| PeerCase {
        ranges: vec![LayerRange::with_len(start, end - start)],
        streams,
        step_us,
        is_cold: false,
    };
    let seed = 14_173_052_364_574_550_610;
    let case = Case {
        layers: 7,
        prefix: 1,
        suffix: 2,
        peers: peers.map(peer).into(),
        prompt: vec![
            895, 416, 678, 326, 0, 611, 484, 658, 228, 657, 570, 30, 779, 523, 502, 640, 195, 701,
            300, 370, 693, 69, 617, 653,
        ],
        reply: 16,
        chunk: 6,
        window: 1,
        dtype: ActivationDtype::Q8,
        failovers_max: 3,
        fall_back: FallBack::Refuse,
        room_here: u32::MAX,
        only_ends: false,
        replay_log_bytes_max: 1_491,
        spot_check: SpotCheck { share_ppm: 200_000, random: seed, ..SpotCheck::OFF },
        faults: vec![
            (38, Fault::LocalCrash),
            (193, Fault::LocalCrash),
            (11, Fault::Drain(1_001)),
            (133, Fault::BlackHole(1_003)),
            (51, Fault::LocalRefusesMiddle),
        ],
        giving: Some((Giving::Works, Duration::from_micros(1))),
        echo: None,
        adverts_outlive: true,
        knows_paces: true,
        step_here: Some(Duration::from_micros(2_809)),
        forward: Hands::Some,
        seed,
    };
    let reply = toy::reply(case.layers, &case.prompt, case.reply);
    assert!(reply.starts_with(&run(&case).tokens));
}
