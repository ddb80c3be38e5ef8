//! Which layers of a model are lent: what the owner allows, what fits, and what others ask for.

use nook_base::limits::GUEST_POSITIONS_TYPICAL;
use nook_base::{LayerRange, ModelDigest, ModelPart};
use nook_plan::{least_covered, most_needed};

use nook_resources::catalogue::Entry;
use nook_resources::file_place::FilePlace;

/// A model as it is lent: which file, and which of its layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lent {
    /// Its digest.
    pub model: ModelDigest,
    /// Its name here.
    pub name: String,
    /// Where its file is.
    pub path: FilePlace,
    /// Which of its layers.
    pub layers: LayerRange,
}

/// What the owner sets about lending one model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LendingLimits {
    /// The layers that the owner chose, if any.
    pub chosen: Option<LayerRange>,
    /// Bytes for weights and caches of guests.
    pub bytes_max: u64,
    /// Streams at once.
    pub streams: u32,
}

/// What of the layers `here` of `entry` is lent: those that the owner chose, else all that fit,
/// placed where others `asked` for them, then where the fewest `others` offer some.
pub(crate) fn lent_of(
    (entry, here): (&Entry, LayerRange),
    limits: LendingLimits,
    others: &[LayerRange],
    asked: &[LayerRange],
) -> Option<Lent> {
    // What is asked for and still on its way moves nothing yet.
    let asked: Vec<LayerRange> = asked.iter().map(|range| here.intersection(*range)).collect();
    let layers = match limits.chosen {
        Some(chosen) => here.intersection(chosen),
        None => window(here, layers_that_fit(entry, limits), others, &asked),
    };
    (!layers.is_empty()).then(|| Lent {
        model: entry.digest(),
        name: entry.listed.name.clone(),
        path: entry.listed.path.clone(),
        layers,
    })
}

/// How many layers fit into the limit with the caches of all streams.
fn layers_that_fit(entry: &Entry, limits: LendingLimits) -> u32 {
    let positions = entry.file.shape().context_length.min(GUEST_POSITIONS_TYPICAL);
    let one = |layer| {
        let range = LayerRange::with_len(layer, 1);
        let caches = entry.file.cache_bytes(range, positions).saturating_mul(limits.streams.into());
        entry.file.weight_bytes(&ModelPart::inner(range)).saturating_add(caches)
    };
    let largest = (0..entry.layers()).map(one).max().unwrap_or(u64::MAX).max(1);
    u32::try_from(limits.bytes_max / largest).unwrap_or(u32::MAX).min(entry.layers())
}

/// Which `len` layers a host offers whom others asked for some: those that were asked for, and more
/// where the fewest `others` have them. What does not fit together goes to the layers with the
/// fewest holders.
fn window(all: LayerRange, len: u32, others: &[LayerRange], asked: &[LayerRange]) -> LayerRange {
    match hull(asked) {
        Some(hull) if hull.len() <= len && all.contains(hull) => {
            // Every window of that length in here has all that was asked for.
            let start = hull.end().saturating_sub(len).max(all.start());
            let end = hull.start().saturating_add(len).min(all.end());
            let around = LayerRange::new(start, end).unwrap_or(hull);
            least_covered(around, len, others)
        }
        _ => most_needed(all, len, others, asked),
    }
}

/// Which stretch of the layers that are here is lent, where not all are: one with everything that
/// was `asked` for, else the longest.
pub(crate) fn stretch(here: &[LayerRange], asked: &[LayerRange]) -> Option<LayerRange> {
    let with_all =
        hull(asked).and_then(|hull| here.iter().find(|stretch| stretch.contains(hull))).copied();
    // Of equals the first.
    with_all.or_else(|| here.iter().rev().max_by_key(|stretch| stretch.len()).copied())
}

/// From the first layer of any to the last.
pub(crate) fn hull(ranges: &[LayerRange]) -> Option<LayerRange> {
    let ranges = ranges.iter().filter(|range| !range.is_empty());
    let start = ranges.clone().map(|range| range.start()).min()?;
    let end = ranges.map(|range| range.end()).max()?;
    LayerRange::new(start, end).ok()
}

/// The parts of `range` that lie in none of `kept`.
pub(crate) fn without(range: LayerRange, kept: &[LayerRange]) -> Vec<LayerRange> {
    let free = range.iter().filter(|layer| !kept.iter().any(|kept| kept.contains_layer(*layer)));
    LayerRange::joined(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, end: u32) -> LayerRange {
        LayerRange::new(start, end).expect("in order")
    }

    #[test]
    fn what_was_asked_for_is_offered_with_more_where_the_others_have_least() {
        let all = LayerRange::all(16);
        assert_eq!(window(all, 6, &[], &[]), range(0, 6));
        assert_eq!(window(all, 6, &[], &[range(4, 7)]), range(1, 7));
        assert_eq!(window(all, 6, &[range(0, 4)], &[range(4, 7)]), range(4, 10));
        assert_eq!(window(all, 6, &[], &[range(4, 6), range(8, 10)]), range(4, 10));
        assert_eq!(window(all, 6, &[], &[range(14, 16)]), range(10, 16));
        assert_eq!(window(all, 0, &[], &[range(4, 6)]), range(0, 0));
    }

    #[test]
    fn asks_that_do_not_fit_together_yield_to_the_layers_that_fewest_hold() {
        let all = LayerRange::all(16);
        let asked = [range(0, 4), range(8, 12)];
        assert_eq!(window(all, 4, &[range(0, 6)], &asked), range(8, 12));
        assert_eq!(window(all, 4, &[range(8, 16)], &asked), range(0, 4));
    }

    #[test]
    fn of_layers_with_gaps_the_stretch_is_lent_that_was_asked_for() {
        let here = [range(1, 3), range(5, 9), range(10, 14)];
        assert_eq!(stretch(&here, &[]), Some(range(5, 9)));
        assert_eq!(stretch(&here, &[range(1, 2)]), Some(range(1, 3)));
        assert_eq!(stretch(&here, &[range(1, 2), range(6, 7)]), Some(range(5, 9)));
        assert_eq!(stretch(&[], &[range(1, 2)]), None);
    }

    #[test]
    fn what_is_kept_is_not_freed() {
        assert_eq!(without(range(2, 8), &[]), [range(2, 8)]);
        assert_eq!(without(range(2, 8), &[range(4, 5)]), [range(2, 4), range(5, 8)]);
        assert_eq!(without(range(2, 8), &[range(0, 9)]), []);
    }
}
