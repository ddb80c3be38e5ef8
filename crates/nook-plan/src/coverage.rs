//! Where a host that cannot hold a whole model is needed most.

use nook_base::LayerRange;

/// The `len` contiguous layers of `all` that `others` cover least, so that a household which could
/// hold a model together ends up doing so (Petals' rule: take the under-represented layers).
///
/// Among equally needed places the first one wins. A `len` of 0 gives an empty range, one beyond
/// `all` gives all of it.
#[must_use]
pub fn least_covered(all: LayerRange, len: u32, others: &[LayerRange]) -> LayerRange {
    let len = len.min(all.len());
    let holders =
        |layer: u32| others.iter().filter(|other| other.contains_layer(layer)).count() as u64;
    let counts: Vec<u64> = all.iter().map(holders).collect();
    // A window is needed most when it holds the least covered layers; the sum of the counts decides.
    let mut sum: u64 = counts.iter().take(len as usize).sum();
    let (mut best_sum, mut best_start) = (sum, all.start());
    for start in 1..=(all.len() - len) {
        let (gone, come) = (start as usize - 1, (start + len) as usize - 1);
        if len > 0 {
            sum = sum - counts[gone] + counts[come];
        }
        if sum < best_sum {
            (best_sum, best_start) = (sum, all.start() + start);
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
}
