//! The replay log of one segment: the activations that were put into it, in the bytes that were
//! sent.
//!
//! A stage appends what the stage before it answered and takes steps from it. A new attempt at the
//! stage takes the bytes of the same steps again from position 0. The log is contiguous by
//! construction.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use nook_base::{Activation, ActivationDtype};

/// Rows of positions `first..end`, all `hidden` wide and written as `dtype`.
pub(crate) struct ReplayLog {
    pieces: VecDeque<Piece>,
    hidden: u32,
    dtype: ActivationDtype,
    first: u32,
    end: u32,
    bytes: usize,
}

struct Piece {
    position: u32,
    rows: Activation,
}

impl Piece {
    fn end(&self) -> u32 {
        self.position + self.rows.tokens()
    }
}

impl ReplayLog {
    pub(crate) fn new(hidden: u32, dtype: ActivationDtype) -> Self {
        Self::forgotten(hidden, dtype, 0)
    }

    /// A log whose first `positions` positions are not here.
    pub(crate) fn forgotten(hidden: u32, dtype: ActivationDtype, positions: u32) -> Self {
        let (first, end) = (positions, positions);
        Self { pieces: VecDeque::new(), hidden, dtype, first, end, bytes: 0 }
    }

    /// Adds the rows of the next positions; `rows` has this log's width and type.
    pub(crate) fn append(&mut self, rows: Activation) {
        let rows = alone(rows);
        self.bytes += rows.bytes().len();
        let position = self.end;
        self.end = position.saturating_add(rows.tokens());
        self.pieces.push_back(Piece { position, rows });
    }

    /// Forgets everything before `position`, as far as whole pieces go.
    pub(crate) fn forget_before(&mut self, position: u32) {
        while let Some(piece) = self.pieces.front()
            && piece.end() <= position
        {
            self.first = piece.end();
            self.bytes -= piece.rows.bytes().len();
            self.pieces.pop_front();
        }
    }

    /// Positions ever appended, or known to have been.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether everything since position 0 is here.
    pub(crate) fn is_complete(&self) -> bool {
        self.first == 0
    }

    /// The rows of positions `position..position + count`; `None` when one of them is not here.
    /// Shares the bytes when they lie in one piece.
    pub(crate) fn rows(&self, position: u32, count: u32) -> Option<Activation> {
        let end = position.checked_add(count)?;
        if count == 0 || position < self.first || end > self.end {
            return None;
        }
        let start = self.pieces.partition_point(|piece| piece.end() <= position);
        let part = |piece: &Piece| {
            piece.rows.rows(position.saturating_sub(piece.position), end - piece.position)
        };
        let first = part(self.pieces.get(start)?);
        if first.tokens() == count {
            return Some(first);
        }
        let mut bytes = BytesMut::with_capacity(first.bytes().len() * 2);
        for piece in self.pieces.iter().skip(start) {
            if piece.position >= end {
                break;
            }
            bytes.extend_from_slice(part(piece).bytes());
        }
        self.assemble(count, bytes.freeze())
    }

    fn assemble(&self, count: u32, bytes: Bytes) -> Option<Activation> {
        Activation::new(count, self.hidden, self.dtype, bytes).ok()
    }
}

/// The same rows in memory of their own. What came in one frame is a slice of the buffer that the
/// frame was read into, with room for many: kept as it is, a row of 1 KB would hold some 64 KB,
/// counted as one.
fn alone(rows: Activation) -> Activation {
    let bytes = Bytes::copy_from_slice(rows.bytes());
    Activation::new(rows.tokens(), rows.hidden(), rows.dtype(), bytes).unwrap_or(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Row of position `p` is `[p, p + 0.5]`.
    fn log(lengths: &[u32]) -> ReplayLog {
        let mut log = ReplayLog::new(2, ActivationDtype::F32);
        for length in lengths {
            let rows: Vec<f32> =
                (log.end..log.end + length).flat_map(|p| [p as f32, p as f32 + 0.5]).collect();
            log.append(Activation::from_f32(&rows, 2, ActivationDtype::F32).unwrap());
        }
        log
    }

    #[test]
    fn a_row_that_is_kept_holds_no_more_memory_than_is_counted() {
        // As a connection reads: one row at the beginning of a buffer for many.
        let buffer = Bytes::from(vec![0; 64 << 10]);
        let row = Activation::new(1, 2, ActivationDtype::F32, buffer.slice(..8)).unwrap();
        let mut log = ReplayLog::new(2, ActivationDtype::F32);
        log.append(row);
        assert_eq!((log.bytes(), log.rows(0, 1).unwrap().bytes().len()), (8, 8));
        assert!(buffer.is_unique(), "the buffer is nobody else's any more");
    }

    proptest! {
        #[test]
        fn any_stretch_comes_back_as_it_was_put_in(
            lengths in prop::collection::vec(1..6_u32, 0..8), position in 0..40_u32, count in 0..40_u32,
            forget in 0..40_u32,
        ) {
            let mut log = log(&lengths);
            let total: u32 = lengths.iter().sum();
            log.forget_before(forget);
            let held: usize = log.pieces.iter().map(|piece| piece.rows.bytes().len()).sum();
            prop_assert_eq!(log.bytes(), held);
            prop_assert_eq!(log.end(), total);
            prop_assert!(log.first <= forget);
            let fits = count > 0 && position >= log.first && position + count <= total;
            let rows = log.rows(position, count);
            prop_assert_eq!(rows.is_some(), fits);
            if let Some(rows) = rows {
                let expected: Vec<f32> = (position..position + count)
                    .flat_map(|p| [p as f32, p as f32 + 0.5])
                    .collect();
                prop_assert_eq!(rows.to_f32(), expected);
            }
        }
    }
}
