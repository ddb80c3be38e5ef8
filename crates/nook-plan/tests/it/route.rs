//! Promises of a route: every layer once, in order, and both ends at home.

use nook_base::{LayerRange, ModelPart, PeerId};
use nook_plan::{End, Hop, Place, Route, RouteError, Segment, Topology, even_split};
use proptest::prelude::*;

const HELPER: PeerId = PeerId([7; 32]);

fn part(start: u32, end: u32, embedding: bool, head: bool) -> ModelPart {
    ModelPart { layers: LayerRange::with_len(start, end - start), embedding, head }
}

fn local(part: ModelPart) -> Segment {
    Segment { part, place: Place::Local }
}

fn remote(part: ModelPart) -> Segment {
    Segment { part, place: Place::Peer(HELPER) }
}

fn refusal(segments: &[Segment]) -> RouteError {
    Route::new(8, segments.to_vec()).expect_err("every caller passes a wrong shape")
}

#[test]
fn a_shape_that_is_no_route_is_refused_by_name() {
    let head = local(part(6, 8, false, true));
    let first = local(part(0, 2, true, false));
    let middle = remote(part(2, 6, false, false));
    assert!(Route::new(8, vec![first, middle, head]).is_ok());

    assert_eq!(refusal(&[]), RouteError::Empty);
    assert_eq!(refusal(&[first, head]), RouteError::Gap { layer: 2 });
    let early = remote(part(1, 6, false, false));
    assert_eq!(refusal(&[first, early, head]), RouteError::Overlap { layer: 1 });
    let short = local(part(6, 7, false, true));
    assert_eq!(refusal(&[first, middle, short]), RouteError::Gap { layer: 7 });
    let long = local(part(6, 9, false, true));
    let beyond = RouteError::BeyondTheModel { end: 9, layers: 8 };
    assert_eq!(refusal(&[first, middle, long]), beyond);
    let nothing = remote(part(2, 2, false, false));
    let empty = RouteError::EmptySegment { index: 1 };
    assert_eq!(refusal(&[first, nothing, middle, head]), empty);
}

#[test]
fn neither_end_goes_to_another_device() {
    let on_another = |end| RouteError::EndOnAnotherDevice { end, peer: HELPER };
    let cases = [
        (vec![remote(part(0, 8, true, true))], on_another(End::Embedding)),
        (
            vec![remote(part(0, 4, true, false)), local(part(4, 8, false, true))],
            on_another(End::Embedding),
        ),
        (
            // Without the embedding flag, the first place would still be the one that embeds.
            vec![remote(part(0, 4, false, false)), local(part(4, 8, false, true))],
            on_another(End::Embedding),
        ),
        (
            vec![local(part(0, 4, true, false)), remote(part(4, 8, false, true))],
            on_another(End::Head),
        ),
        (
            vec![
                local(part(0, 2, true, false)),
                remote(part(2, 6, false, true)),
                local(part(6, 8, false, true)),
            ],
            on_another(End::Head),
        ),
        (
            vec![local(part(0, 4, true, false)), local(part(4, 8, true, true))],
            RouteError::EndMisplaced { end: End::Embedding, index: 1 },
        ),
        (
            vec![local(part(0, 8, true, false))],
            RouteError::EndMisplaced { end: End::Head, index: 0 },
        ),
    ];
    for (segments, expected) in cases {
        assert_eq!(refusal(&segments), expected);
    }
}

#[test]
fn a_route_has_no_more_hops_than_the_limit() {
    let route = |hops: u32| {
        let topology = Topology::new(hops + 2, 1, 1).unwrap();
        let hops: Vec<Hop> = (1..=hops)
            .map(|layer| Hop { peer: HELPER, layers: LayerRange::with_len(layer, 1) })
            .collect();
        Route::boomerang(topology, &hops)
    };
    assert_eq!(route(16).unwrap().hops(), 16);
    assert_eq!(route(17), Err(RouteError::TooManyHops { hops: 17 }));
}

#[test]
fn without_hops_everything_runs_here_in_one_call() {
    let alone = Route::boomerang(Topology::or_alone(2, 1, 1).unwrap(), &[]).unwrap();
    assert_eq!(alone, Route::alone(2).unwrap());
    assert_eq!(alone.segments().len(), 1);
    let embedding_only = Topology::new(4, 0, 0).unwrap();
    let hop = Hop { peer: HELPER, layers: LayerRange::all(4) };
    let route = Route::boomerang(embedding_only, &[hop]).unwrap();
    assert_eq!(route.segments().len(), 3);
}

proptest! {
    #[test]
    fn every_even_split_of_every_topology_is_a_route(
        layers in 1..80_u32, prefix in 0..4_u32, suffix in 0..4_u32, helpers in 1..16_usize,
    ) {
        let topology = Topology::or_alone(layers, prefix, suffix).unwrap();
        let hops: Vec<Hop> = even_split(topology.middle(), helpers)
            .into_iter()
            .map(|layers| Hop { peer: HELPER, layers })
            .collect();
        let lens: Vec<u32> = hops.iter().map(|hop| hop.layers.len()).collect();
        prop_assert!(lens.iter().max().unwrap_or(&0) - lens.iter().min().unwrap_or(&0) <= 1);
        prop_assert!(Route::boomerang(topology, &hops).is_ok());
    }
}
