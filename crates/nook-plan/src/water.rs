//! Memory-capped water-filling: shares in proportion to speed, none above its room.
//!
//! What a full device cannot take is poured over the others again in proportion, until nothing runs
//! over. All devices then finish a step at the same time, except those that are full.

/// One device to pour into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vessel {
    /// Layers that fit.
    pub(crate) room: u32,
    /// Time of one layer in ns.
    pub(crate) layer: u64,
}

/// How many of `layers` each vessel gets; `None` when they do not all fit.
pub(crate) fn fill(layers: u32, vessels: &[Vessel]) -> Option<Vec<u32>> {
    let rate = |vessel: &Vessel| 1.0 / (vessel.layer.max(1) as f64);
    let mut shares: Vec<f64> = vec![0.0; vessels.len()];
    let mut full = vec![false; vessels.len()];
    loop {
        let fixed: f64 = (0..vessels.len()).filter(|at| full[*at]).map(|at| shares[at]).sum();
        let open = || (0..vessels.len()).filter(|at| !full[*at]);
        let rates: f64 = open().map(|at| rate(&vessels[at])).sum();
        let left = f64::from(layers) - fixed;
        let mut ran_over = false;
        for at in open().collect::<Vec<_>>() {
            shares[at] = left * rate(&vessels[at]) / rates;
            if shares[at] > f64::from(vessels[at].room) {
                shares[at] = f64::from(vessels[at].room);
                full[at] = true;
                ran_over = true;
            }
        }
        if !ran_over {
            break;
        }
    }
    whole(layers, &shares, vessels)
}

/// Whole layers: each share rounded down, and the rest one by one to whoever then is done first.
fn whole(layers: u32, shares: &[f64], vessels: &[Vessel]) -> Option<Vec<u32>> {
    let mut counts: Vec<u32> = shares.iter().map(|share| share.floor() as u32).collect();
    let sum: u32 = counts.iter().sum();
    for _ in sum..layers {
        let with_room = (0..counts.len()).filter(|at| counts[*at] < vessels[*at].room);
        let done = |at: &usize| vessels[*at].layer.saturating_mul(u64::from(counts[*at]) + 1);
        let next = with_room.min_by_key(done)?;
        counts[next] += 1;
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(layers: u32, vessels: &[(u32, u64)]) -> Option<Vec<u32>> {
        let vessels: Vec<Vessel> =
            vessels.iter().map(|(room, layer)| Vessel { room: *room, layer: *layer }).collect();
        fill(layers, &vessels)
    }

    #[test]
    fn shares_follow_speed_until_memory_is_full() {
        assert_eq!(filled(30, &[(99, 10), (99, 20)]), Some(vec![20, 10]));
        assert_eq!(filled(30, &[(8, 10), (99, 20), (99, 20)]), Some(vec![8, 11, 11]));
        assert_eq!(filled(30, &[(8, 10), (9, 10), (99, 100)]), Some(vec![8, 9, 13]));
        assert_eq!(filled(7, &[(99, 10), (99, 10), (99, 10)]), Some(vec![3, 2, 2]));
        assert_eq!(filled(1, &[(99, 1000), (0, 1), (99, 10)]), Some(vec![0, 0, 1]));
    }

    #[test]
    fn what_does_not_fit_is_not_poured() {
        assert_eq!(filled(30, &[(8, 10), (9, 10)]), None);
        assert_eq!(filled(1, &[]), None);
        assert_eq!(filled(0, &[]), Some(vec![]));
        assert_eq!(filled(17, &[(8, 1), (9, 1_000_000)]), Some(vec![8, 9]));
    }
}
