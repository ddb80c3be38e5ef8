//! Which layers of a model are lent.

use nook_base::{LayerRange, ModelPart};
use nook_store::HostSettings;

use crate::lending::Lent;
use crate::placing::window;
use crate::resources::catalogue::Entry;

/// Positions for which a guest's cache is counted when it is decided how many layers fit.
const TYPICAL_POSITIONS: u32 = 4096;

/// What of this model is lent within `bytes_max`: the layers that the owner chose, else all that fit, placed
/// where others `asked` for them, then where the fewest others offer some.
pub(crate) fn lent(
    entry: &Entry,
    host: &HostSettings,
    bytes_max: u64,
    others: &[LayerRange],
    asked: &[LayerRange],
) -> Option<Lent> {
    let all = LayerRange::all(entry.layers());
    let layers = match host.layers {
        Some(chosen) => all.intersection(chosen),
        None => {
            let fits = layers_that_fit(entry, bytes_max, host.max_concurrent_streams);
            window(all, fits, others, asked)
        }
    };
    (!layers.is_empty()).then(|| Lent {
        model: entry.digest(),
        name: entry.listed.name.clone(),
        path: entry.listed.path.clone(),
        layers,
    })
}

/// How many layers fit into `bytes_max` with the caches of all streams.
fn layers_that_fit(entry: &Entry, bytes_max: u64, streams: u32) -> u32 {
    let positions = entry.file.shape().context_length.min(TYPICAL_POSITIONS);
    let one = |layer| {
        let range = LayerRange::with_len(layer, 1);
        let caches = entry.file.cache_bytes(range, positions).saturating_mul(streams.into());
        entry.file.weight_bytes(&ModelPart::inner(range)).saturating_add(caches)
    };
    let largest = (0..entry.layers()).map(one).max().unwrap_or(u64::MAX).max(1);
    u32::try_from(bytes_max / largest).unwrap_or(u32::MAX).min(entry.layers())
}
