//! Where a host that cannot hold a whole model is needed most.

use nook_base::LayerRange;

/// The `len` contiguous layers of `all` that `others` cover least, so that a household which could
/// hold a model together ends up doing so (Petals' rule: take the under-represented layers).
///
/// Among equally needed places the first one wins. A `len` of 0 gives an empty range, one beyond
/// `all` gives all of it.
#[must_use]
pub fn least_covered(all: LayerRange, len: u32, others: &[LayerRange]) -> LayerRange {
    most_needed(all, len, others, &[])
}

/// As [`least_covered`], for a host that several devices asked to hold layers at the same time:
/// among places that are covered equally little it takes the one that was asked for most, layers of
/// every ask counted. Covered comes before asked, so that nobody's ask leaves a hole for everybody.
#[must_use]
pub fn most_needed(
    all: LayerRange,
    len: u32,
    others: &[LayerRange],
    asked: &[LayerRange],
) -> LayerRange {
    let len = len.min(all.len());
    let count = |ranges: &[LayerRange], layer: u32| {
        ranges.iter().filter(|range| range.contains_layer(layer)).count() as u64
    };
    let counts: Vec<(u64, u64)> =
        all.iter().map(|layer| (count(others, layer), count(asked, layer))).collect();
    // A window is needed most when its layers have the fewest holders in sum, then the most asks.
    let first = counts.iter().take(len as usize);
    let (mut held, mut wanted) =
        first.fold((0, 0), |(held, wanted), (h, w)| (held + h, wanted + w));
    let rank = |held: u64, wanted: u64| (held, std::cmp::Reverse(wanted));
    let (mut best, mut best_start) = (rank(held, wanted), all.start());
    for start in 1..=(all.len() - len) {
        let (gone, come) = (start as usize - 1, (start + len) as usize - 1);
        if len > 0 {
            held = held - counts[gone].0 + counts[come].0;
            wanted = wanted - counts[gone].1 + counts[come].1;
        }
        if rank(held, wanted) < best {
            (best, best_start) = (rank(held, wanted), all.start() + start);
        }
    }
    LayerRange::with_len(best_start, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, end: u32) -> LayerRange {
        LayerRange::new(start, end).unwrap()
    }

    #[test]
    fn the_gap_of_the_others_is_taken() {
        let all = LayerRange::all(16);
        assert_eq!(least_covered(all, 6, &[]), range(0, 6));
        assert_eq!(least_covered(all, 6, &[range(0, 6)]), range(6, 12));
        assert_eq!(least_covered(all, 6, &[range(0, 6), range(10, 16)]), range(4, 10));
        assert_eq!(least_covered(all, 99, &[range(0, 6)]), all);
        assert!(least_covered(all, 0, &[]).is_empty());
        assert!(least_covered(LayerRange::all(0), 3, &[]).is_empty());
    }

    #[test]
    fn holes_come_before_wishes_and_wishes_before_the_first_place() {
        let all = LayerRange::all(16);
        let asks = [range(8, 16), range(10, 14), range(0, 4)];
        assert_eq!(most_needed(all, 4, &[], &asks), range(10, 14));
        assert_eq!(most_needed(all, 4, &[range(8, 16)], &asks), range(0, 4));
        assert_eq!(most_needed(all, 6, &[range(0, 10)], &[range(0, 6)]), range(10, 16));
    }
}
