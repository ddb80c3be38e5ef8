//! Where the bytes of ranges go: to their place, through their check, into the record.
//!
//! Everything here waits for the disk and runs on threads that may.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;

use super::{FileRange, RangeCheck, RangeRecord};
use crate::error::FetchError;
use crate::limits::Limits;
use crate::sparse::SparseFile;

/// Longest gap between two ranges that are asked for together, in bytes: the gap travels too.
/// Tensors are aligned to 32 bytes, in odd files to some kilobytes; asking twice costs a round
/// trip, in which a slow link carries about as much.
pub(super) const GAP_BYTES_MAX: u64 = 4096;

/// Ranges that are taken.
#[derive(Debug)]
pub(super) struct Sink<R: RangeRecord> {
    file: SparseFile,
    record: R,
    limits: Limits,
    /// Those that are missing, in the order of the file.
    left: VecDeque<FileRange>,
    /// Bytes of `left`.
    left_bytes: u64,
    /// Bytes of ranges that came and were checked.
    have: u64,
    /// Of the first one of `left`, as far as it has come.
    begun: Option<(R::Check, u64)>,
    /// The place of the next byte, and the end of what was asked for.
    due: Range<u64>,
    /// Checked, and not durable yet.
    checked: Vec<u32>,
    /// Bytes that were written since the last look at the disk.
    unsynced: u64,
}

/// What came of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More are to come of what was asked for.
    Due,
    /// The same, and what came so far was made durable.
    Synced,
    /// All that was asked for is here.
    Over,
    /// These are not the bytes that were asked for.
    Wrong,
}

impl<R: RangeRecord> Sink<R> {
    /// Nothing of `ranges` is here yet.
    pub(super) fn new(
        file: SparseFile,
        mut ranges: Vec<FileRange>,
        record: R,
        limits: Limits,
    ) -> Result<Self, FetchError> {
        let most = limits.file_bytes_max;
        let mut left_bytes = 0_u64;
        for FileRange { start, bytes, .. } in &ranges {
            let end = start.saturating_add(*bytes);
            if end > most {
                return Err(FetchError::TooLarge { bytes: end, most });
            }
            left_bytes = left_bytes.saturating_add(*bytes);
        }
        ranges.sort_by_key(|range| (range.start, range.number));
        // A range of no bytes is here without anybody having sent it.
        let checked = ranges.iter().filter(|range| range.bytes == 0).map(|it| it.number).collect();
        ranges.retain(|range| range.bytes > 0);
        Ok(Self {
            file,
            record,
            limits,
            left: ranges.into(),
            left_bytes,
            have: 0,
            begun: None,
            due: 0..0,
            checked,
            unsynced: 0,
        })
    }

    /// The bytes that are asked for next: missing ranges that lie behind one another. What had come
    /// of the first one counts no more. `None` once nothing is missing.
    pub(super) fn begin_span(&mut self) -> Option<Range<u64>> {
        self.begun = None;
        let first = self.left.front()?;
        let (start, mut end) = (first.start, first.end());
        for range in self.left.iter().skip(1) {
            let is_near = range.start >= end && range.start - end <= GAP_BYTES_MAX;
            if !is_near {
                break;
            }
            end = range.end();
        }
        self.due = start..end;
        Some(start..end)
    }

    /// Takes the next bytes of what was asked for.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Verdict, FetchError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(range) = self.left.front().copied().filter(|_| !self.due.is_empty()) else {
                return Ok(Verdict::Wrong);
            };
            let is_gap = self.due.start < range.start;
            let until = if is_gap { range.start } else { range.end() };
            let count = usize::try_from(until - self.due.start).unwrap_or(usize::MAX);
            let (now, behind) = rest.split_at(count.min(rest.len()));
            if !is_gap {
                self.write(&range, now)?;
            }
            self.due.start = self.due.start.saturating_add(now.len() as u64);
            rest = behind;
            if !is_gap && self.due.start == range.end() && !self.finish(&range) {
                return Ok(Verdict::Wrong);
            }
        }
        let is_over = self.due.is_empty();
        let is_much = self.unsynced >= self.limits.sync_every_bytes;
        if is_much {
            self.keep()?;
        }
        Ok(match (is_over, is_much) {
            (true, _) => Verdict::Over,
            (false, true) => Verdict::Synced,
            (false, false) => Verdict::Due,
        })
    }

    /// Makes what was checked durable, and records it.
    pub(super) fn keep(&mut self) -> Result<(), FetchError> {
        self.unsynced = 0;
        if self.checked.is_empty() {
            return Ok(());
        }
        self.file.sync()?;
        self.record.record(&self.checked)?;
        self.checked.clear();
        Ok(())
    }

    /// Bytes of missing ranges, those that are on their way included.
    pub(super) fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Bytes that have come.
    pub(super) fn have(&self) -> u64 {
        self.have.saturating_add(self.begun.as_ref().map_or(0, |(_, done)| *done))
    }

    pub(super) fn folder(&self) -> &Path {
        self.file.folder()
    }

    pub(super) fn into_parts(self) -> (SparseFile, R) {
        (self.file, self.record)
    }

    fn write(&mut self, range: &FileRange, bytes: &[u8]) -> Result<(), FetchError> {
        self.file.write_at(self.due.start, bytes)?;
        let (check, done) = self.begun.get_or_insert_with(|| (self.record.check(range.number), 0));
        check.update(bytes);
        *done = done.saturating_add(bytes.len() as u64);
        self.unsynced = self.unsynced.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Every byte of the first missing range has come; whether they are right.
    fn finish(&mut self, range: &FileRange) -> bool {
        let holds = self.begun.take().is_some_and(|(check, _)| check.holds());
        if holds {
            self.left.pop_front();
            self.left_bytes = self.left_bytes.saturating_sub(range.bytes);
            self.have = self.have.saturating_add(range.bytes);
            self.checked.push(range.number);
        }
        holds
    }
}

impl FileRange {
    /// The byte behind it.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }
}
