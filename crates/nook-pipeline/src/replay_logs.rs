//! The replay logs between segments, each named by the layer that it lies before.
//!
//! A segment takes its rows from the log before its first layer and answers into the log behind its
//! last one. The name is the layer, so a span that is divided anew, or computed by two devices at
//! once, reads and writes the same log. The first answer for a position is kept, so all later
//! segments see one history. Owned by the pipeline.

use std::collections::{BTreeMap, BTreeSet};

use nook_base::{Activation, ActivationDtype};

use crate::replay_log::ReplayLog;

pub(crate) struct ReplayLogs {
    logs: BTreeMap<u32, ReplayLog>,
    hidden: u32,
    dtype: ActivationDtype,
}

/// What became of an answer's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// Positions that nobody had.
    New,
    /// All of them were here already.
    Known,
    /// Positions before them are missing, so they were not taken.
    Gap,
}

impl ReplayLogs {
    pub(crate) fn new(hidden: u32, dtype: ActivationDtype) -> Self {
        Self { logs: BTreeMap::new(), hidden, dtype }
    }

    /// How the numbers of every log are written.
    pub(crate) fn dtype(&self) -> ActivationDtype {
        self.dtype
    }

    /// Width of every row, in numbers.
    pub(crate) fn hidden(&self) -> u32 {
        self.hidden
    }

    pub(crate) fn get(&self, layer: u32) -> Option<&ReplayLog> {
        self.logs.get(&layer)
    }

    /// Positions ever put into the log before `layer`.
    pub(crate) fn end(&self, layer: u32) -> u32 {
        self.get(layer).map_or(0, ReplayLog::end)
    }

    /// Makes an empty log before `layer`, if there is none.
    pub(crate) fn ensure(&mut self, layer: u32) {
        let (hidden, dtype) = (self.hidden, self.dtype);
        self.logs.entry(layer).or_insert_with(|| ReplayLog::new(hidden, dtype));
    }

    /// Forgets all of the log before `layer`; its producer starts again.
    pub(crate) fn clear(&mut self, layer: u32) {
        if let Some(log) = self.logs.get_mut(&layer) {
            *log = ReplayLog::new(self.hidden, self.dtype);
        }
    }

    /// Forgets everything; from now on numbers are written as `dtype`.
    pub(crate) fn restart(&mut self, dtype: ActivationDtype) {
        self.dtype = dtype;
        for log in self.logs.values_mut() {
            *log = ReplayLog::new(self.hidden, dtype);
        }
    }

    /// What lies before `position` is held by the hosts already, and not here, in the logs before
    /// layers `beyond` one; in all of them where there is none.
    pub(crate) fn resume_at(&mut self, position: u32, beyond: Option<u32>) {
        let resumes = |layer: &u32| beyond.is_none_or(|beyond| *layer > beyond);
        for (_, log) in self.logs.iter_mut().filter(|(layer, _)| resumes(layer)) {
            *log = ReplayLog::forgotten(self.hidden, self.dtype, position);
        }
    }

    /// Drops the logs that nobody reads.
    pub(crate) fn keep(&mut self, read: &BTreeSet<u32>) {
        self.logs.retain(|layer, _| read.contains(layer));
    }

    /// Adds the rows of positions from `position` on, as far as they are not known.
    pub(crate) fn append(&mut self, layer: u32, position: u32, rows: &Activation) -> Appended {
        let Some(log) = self.logs.get_mut(&layer) else {
            return Appended::Gap;
        };
        let Some(known) = log.end().checked_sub(position) else {
            return Appended::Gap;
        };
        if known >= rows.tokens() {
            return Appended::Known;
        }
        log.append(rows.rows(known, rows.tokens()));
        Appended::New
    }

    /// Forgets what lies before `position`, as far as whole pieces go.
    pub(crate) fn forget_before(&mut self, layer: u32, position: u32) {
        if let Some(log) = self.logs.get_mut(&layer) {
            log.forget_before(position);
        }
    }

    /// Bytes held by all logs.
    pub(crate) fn bytes(&self) -> usize {
        self.logs.values().map(ReplayLog::bytes).sum()
    }

    /// Every log with its layer.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &ReplayLog)> {
        self.logs.iter().map(|(layer, log)| (*layer, log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(numbers: &[f32]) -> Activation {
        Activation::from_f32(numbers, 1, ActivationDtype::F32).unwrap()
    }

    #[test]
    fn the_first_answer_for_a_position_stays_and_no_hole_can_arise() {
        let mut logs = ReplayLogs::new(1, ActivationDtype::F32);
        assert_eq!(logs.append(3, 0, &rows(&[9.0])), Appended::Gap, "nobody reads it");
        logs.ensure(3);
        assert_eq!(logs.append(3, 1, &rows(&[9.0])), Appended::Gap);
        assert_eq!(logs.append(3, 0, &rows(&[1.0, 2.0])), Appended::New);
        assert_eq!(logs.append(3, 0, &rows(&[8.0, 8.0])), Appended::Known);
        assert_eq!(logs.append(3, 1, &rows(&[8.0, 3.0])), Appended::New);
        let kept = logs.get(3).and_then(|log| log.rows(0, 3)).unwrap();
        assert_eq!(kept.to_f32(), [1.0, 2.0, 3.0]);
        assert_eq!(logs.append(3, 5, &rows(&[1.0])), Appended::Gap);
    }

    #[test]
    fn a_log_that_nobody_reads_is_dropped_and_a_restart_keeps_none() {
        let mut logs = ReplayLogs::new(1, ActivationDtype::F32);
        logs.ensure(1);
        logs.ensure(2);
        logs.append(1, 0, &rows(&[1.0]));
        logs.keep(&BTreeSet::from([1]));
        assert!(logs.get(2).is_none() && logs.end(1) == 1);
        logs.restart(ActivationDtype::F16);
        assert_eq!((logs.end(1), logs.bytes(), logs.dtype()), (0, 0, ActivationDtype::F16));
    }
}
