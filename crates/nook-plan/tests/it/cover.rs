//! Promises of the greedy cover.

use nook_base::{LayerRange, PeerId};
use nook_plan::{CoverError, Hop, Offer, Uncovered, WhyUncovered, greedy_cover};
use proptest::prelude::*;

fn range(start: u32, end: u32) -> LayerRange {
    LayerRange::with_len(start, end - start)
}

fn offer(peer: u8, start: u32, end: u32, queue_depth: u16, streams_free: u16) -> Offer {
    let layers = range(start, end);
    Offer { peer: PeerId([peer; 32]), layers, held: layers, queue_depth, streams_free }
}

/// `peer:layers` of each hop, or `layer: reason`.
fn show(cover: Result<Vec<Hop>, CoverError>) -> String {
    match cover {
        Ok(hops) => hops
            .iter()
            .map(|hop| format!("{}:{}", hop.peer.0[0], hop.layers))
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn hearthnet_sixteen_layers_take_the_first_and_the_last_of_three_shards() {
    let shards = [offer(1, 0, 8, 0, 1), offer(2, 4, 12, 0, 1), offer(3, 8, 16, 0, 1)];
    assert_eq!(show(greedy_cover(range(0, 16), &shards, 16)), "1:0-7 3:8-15");
}

#[test]
fn the_rule_of_choice_is_queue_then_reach_then_streams_then_id() {
    let middle = range(1, 9);
    let check = |offers: &[Offer], expected: &str| {
        assert_eq!(show(greedy_cover(middle, offers, 16)), expected);
    };
    check(&[offer(1, 0, 9, 2, 1), offer(2, 0, 9, 1, 1)], "2:1-8");
    check(&[offer(1, 1, 8, 1, 1), offer(2, 0, 20, 1, 1), offer(3, 8, 9, 0, 1)], "2:1-8");
    check(&[offer(1, 0, 9, 0, 1), offer(2, 0, 12, 0, 3)], "2:1-8");
    check(&[offer(2, 0, 9, 0, 1), offer(1, 0, 9, 0, 1)], "1:1-8");
    check(&[offer(1, 0, 9, 3, 1), offer(2, 1, 4, 0, 1), offer(3, 3, 9, 1, 1)], "2:1-3 3:4-8");
}

#[test]
fn a_short_idle_shard_is_passed_over_when_the_hops_would_not_suffice() {
    let offers =
        [offer(1, 0, 2, 0, 1), offer(2, 0, 8, 5, 1), offer(3, 2, 5, 0, 1), offer(4, 5, 8, 0, 1)];
    assert_eq!(show(greedy_cover(range(0, 8), &offers, 3)), "1:0-1 3:2-4 4:5-7");
    assert_eq!(show(greedy_cover(range(0, 8), &offers, 2)), "1:0-1 2:2-7");
    assert_eq!(show(greedy_cover(range(0, 8), &offers, 1)), "2:0-7");
}

#[test]
fn absent_busy_and_scattered_are_told_apart() {
    let uncovered = |first_missing_layer, why| {
        Err(CoverError::Uncovered(Uncovered { first_missing_layer, why }))
    };
    let middle = range(0, 8);
    assert_eq!(greedy_cover(middle, &[], 4), uncovered(0, WhyUncovered::NobodyOffers));
    let hole = [offer(1, 0, 3, 0, 1), offer(2, 4, 8, 0, 1)];
    assert_eq!(greedy_cover(middle, &hole, 4), uncovered(3, WhyUncovered::NobodyOffers));
    let busy = [offer(1, 0, 3, 0, 1), offer(2, 2, 8, 0, 0)];
    assert_eq!(greedy_cover(middle, &busy, 4), uncovered(3, WhyUncovered::AllBusy));
    let scattered = [offer(1, 0, 3, 0, 1), offer(2, 3, 6, 0, 1), offer(3, 6, 8, 0, 1)];
    assert_eq!(greedy_cover(middle, &scattered, 2), uncovered(6, WhyUncovered::TooManyHops));
    let one_stream = [offer(1, 0, 4, 0, 1), offer(1, 4, 8, 0, 1)];
    assert_eq!(greedy_cover(middle, &one_stream, 4), uncovered(0, WhyUncovered::AllBusy));
    assert_eq!(greedy_cover(range(3, 3), &[], 0), Ok(Vec::new()));
}

#[test]
fn a_device_with_one_stream_left_is_spent_where_no_other_can_stand_in() {
    let offers = [offer(1, 0, 4, 0, 1), offer(2, 0, 4, 9, 1), offer(1, 4, 8, 0, 1)];
    assert_eq!(show(greedy_cover(range(0, 8), &offers, 4)), "2:0-3 1:4-7");
}

#[test]
fn a_thousand_devices_and_endless_ranges_cost_nothing_notable() {
    let mut offers: Vec<Offer> = (0..1000_u32)
        .map(|i| Offer {
            peer: PeerId([(i % 251) as u8; 32]),
            layers: range(i, i + 3),
            held: range(i, i + 3),
            queue_depth: (i % 7) as u16,
            streams_free: (i % 3) as u16,
        })
        .collect();
    offers.push(offer(7, 0, u32::MAX, 9, 1));
    assert_eq!(show(greedy_cover(range(0, u32::MAX), &offers, 1)), "7:0-4294967294");
    assert!(greedy_cover(range(0, 1000), &offers, 16).is_ok());
}

#[test]
fn idle_devices_with_one_layer_each_do_not_lead_the_search_astray() {
    let mut offers: Vec<Offer> = (0..16)
        .map(|part| offer(part, u32::from(part) * 10, u32::from(part) * 10 + 10, 9, 1))
        .collect();
    for layer in 0..160 {
        offers.extend((100..103).map(|peer| offer(peer, layer, layer + 1, 0, 100)));
    }
    let cover = greedy_cover(range(0, 160), &offers, 16);
    assert_eq!(cover.map(|hops| hops.len()), Ok(16));
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    let one = (0..5_u8, 0..10_u32, 0..6_u32, 0..3_u16, 0..3_u16)
        .prop_map(|(peer, start, len, queue, free)| offer(peer, start, start + len, queue, free));
    // Offers of one device share its streams: make the figure agree.
    prop::collection::vec(one, 0..8).prop_map(|mut offers| {
        for index in 0..offers.len() {
            let first = offers.iter().find(|o| o.peer == offers[index].peer).copied();
            offers[index].streams_free = first.map_or(0, |o| o.streams_free);
        }
        offers
    })
}

/// Whether any choice of offers covers `cursor..end`: every offer tried at every turn.
fn coverable(
    cursor: u32,
    end: u32,
    offers: &[Offer],
    hops_left: usize,
    taken: &mut Vec<PeerId>,
) -> bool {
    if cursor >= end {
        return true;
    }
    if hops_left == 0 {
        return false;
    }
    offers.iter().any(|offer| {
        let used = taken.iter().filter(|peer| **peer == offer.peer).count();
        if !offer.layers.contains_layer(cursor) || used >= usize::from(offer.streams_free) {
            return false;
        }
        taken.push(offer.peer);
        // Stopping short of the reach never helps, but is tried, to be independent of that belief.
        let found = (cursor + 1..=offer.layers.end().min(end))
            .any(|reach| coverable(reach, end, offers, hops_left - 1, taken));
        taken.pop();
        found
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn covers_are_legal_and_exist_exactly_when_any_does(
        offers in offers(), start in 0..8_u32, len in 0..8_u32, hops_max in 0..6_usize,
    ) {
        let middle = range(start, start + len);
        let cover = greedy_cover(middle, &offers, hops_max);
        prop_assert_eq!(
            cover.is_ok(),
            coverable(start, start + len, &offers, hops_max, &mut Vec::new())
        );
        if let Ok(hops) = cover {
            prop_assert!(hops.len() <= hops_max);
            let mut cursor = middle.start();
            for hop in &hops {
                prop_assert!(!hop.layers.is_empty());
                prop_assert_eq!(hop.layers.start(), cursor);
                prop_assert!(offers.iter().any(|o| o.peer == hop.peer && o.layers.contains(hop.layers)));
                let calls = hops.iter().filter(|h| h.peer == hop.peer).count();
                prop_assert!(offers.iter().any(|o| o.peer == hop.peer && calls <= usize::from(o.streams_free)));
                cursor = hop.layers.end();
            }
            prop_assert_eq!(cursor, middle.end());
        }
    }

    #[test]
    fn the_order_of_offers_does_not_matter(
        (offers, shuffled) in offers().prop_flat_map(|o| (Just(o.clone()), Just(o).prop_shuffle())),
        hops_max in 0..6_usize,
    ) {
        let middle = range(0, 8);
        prop_assert_eq!(greedy_cover(middle, &offers, hops_max), greedy_cover(middle, &shuffled, hops_max));
    }
}
