//! The marks of one conversation: a keyed hash of its history at each place where a step ended.
//!
//! Only the requester can compute a mark; here it is only compared. A step must begin with the mark
//! that the one before ended with, and a later call goes on where it names a mark that is known.

use nook_wire::PrefixHash;

/// Prefix hashes in order of their positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    marks: Vec<(u32, PrefixHash)>,
}

impl History {
    /// Bytes that the marks of `positions` positions take at most: one each, and one before them.
    pub(crate) fn bytes_max(positions: u32) -> u64 {
        (u64::from(positions) + 1) * size_of::<(u32, PrefixHash)>() as u64
    }

    /// Bytes that the marks take.
    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&self.marks[..]) as u64
    }

    /// The mark at `position`, where a step began or ended there.
    pub(crate) fn at(&self, position: u32) -> Option<PrefixHash> {
        let index = self.marks.binary_search_by_key(&position, |(position, _)| *position);
        index.ok().and_then(|index| self.marks.get(index)).map(|(_, mark)| *mark)
    }

    /// A step ended at `position`, or the first one begins there.
    pub(crate) fn note(&mut self, position: u32, mark: PrefixHash) {
        self.truncate_below(position);
        self.marks.push((position, mark));
    }

    /// Forgets the marks of positions beyond the first `positions`.
    pub(crate) fn truncate(&mut self, positions: u32) {
        self.truncate_below(positions.saturating_add(1));
    }

    fn truncate_below(&mut self, position: u32) {
        let kept = self.marks.partition_point(|(at, _)| *at < position);
        self.marks.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: u8) -> PrefixHash {
        PrefixHash([number; 16])
    }

    #[test]
    fn marks_are_known_where_steps_ended_and_nowhere_else() {
        let mut history = History::default();
        for (position, number) in [(0, 1), (128, 2), (200, 3), (201, 4)] {
            history.note(position, mark(number));
        }
        assert_eq!(history.at(128), Some(mark(2)));
        assert_eq!(history.at(201), Some(mark(4)));
        assert_eq!((history.at(127), history.at(202)), (None, None));
        assert!(history.bytes() <= History::bytes_max(201));
    }

    #[test]
    fn what_was_cut_is_forgotten_and_what_comes_instead_counts() {
        let mut history = History::default();
        for (position, number) in [(0, 1), (128, 2), (200, 3)] {
            history.note(position, mark(number));
        }
        history.truncate(128);
        assert_eq!((history.at(128), history.at(200)), (Some(mark(2)), None));
        history.truncate(130);
        history.note(131, mark(9));
        assert_eq!((history.at(131), history.at(200)), (Some(mark(9)), None));
        history.truncate(u32::MAX);
        assert_eq!(history.at(131), Some(mark(9)));
        history.truncate(0);
        assert_eq!((history.at(0), history.at(128)), (Some(mark(1)), None));
    }
}
