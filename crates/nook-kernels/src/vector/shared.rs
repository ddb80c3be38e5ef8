//! Sharing the rows of an output among threads.

use crate::compute::Compute;
use crate::shared::SharedOut;

/// Numbers of one output that a thread takes at a time, at least: below that, handing work over
/// costs more than it brings.
const PIECE_MIN: usize = 1 << 13;

/// Cuts `out` into rows of `row` numbers, gives groups of whole rows to the threads, and calls
/// `piece(first_row, rows)` for each group. A rest that is no whole row is left alone. `cost` is
/// how many multiplications a number takes, roughly.
#[allow(unsafe_code, reason = "threads write disjoint parts of one output")]
pub(crate) fn share_rows(
    compute: &Compute,
    out: &mut [f32],
    row: usize,
    cost: usize,
    piece: impl Fn(usize, &mut [f32]) + Sync,
) {
    if row == 0 || out.len() < row {
        return;
    }
    let rows = out.len() / row;
    let group = PIECE_MIN.div_ceil(row).max(rows.div_ceil(4 * compute.threads()));
    let work = out.len().saturating_mul(cost);
    let out = SharedOut::new(out);
    compute.share(rows.div_ceil(group), work, &|index| {
        let first = index * group;
        let count = group.min(rows - first);
        // SAFETY: groups of rows do not overlap, and each index comes once.
        let part = unsafe { out.piece(first * row..(first + count) * row) };
        piece(first, part);
    });
}
