//! Which bytes of a partial file may be read.
//!
//! Owned by the [`super::Reader`] of a file that has a record of present tensors. Another process
//! may add tensors to the file meanwhile, so the record is read again whenever something is not
//! known to be present.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Fault;
use crate::gguf::Header;
use crate::presence::Presence;

/// The tensors of a file, and which of them are known to be present.
#[derive(Debug)]
pub(crate) struct Partial {
    /// Where the model file lay when it was opened.
    path: PathBuf,
    tensors: Vec<Span>,
    /// What was last known; bits are only ever added. Locked while the record is read again, too:
    /// threads that load together then read it once each at most.
    known: Mutex<Presence>,
}

/// Where one tensor lies.
#[derive(Debug)]
struct Span {
    name: String,
    start: u64,
    end: u64,
}

impl Partial {
    /// What `record` says of the file at `path`, which has `file_bytes` bytes and this header.
    pub(super) fn new(
        path: &Path,
        record: Presence,
        file_bytes: u64,
        header: &Header,
    ) -> Result<Self, Fault> {
        record.check_is_of(file_bytes, header)?;
        let spans = header.tensors().iter().map(|tensor| Span {
            name: tensor.name.clone(),
            start: tensor.start,
            end: tensor.start + tensor.bytes,
        });
        Ok(Self { path: path.to_owned(), tensors: spans.collect(), known: Mutex::new(record) })
    }

    /// Fails when `length` bytes from `at` on touch a tensor that is absent.
    pub(super) fn check(&self, at: u64, length: u64) -> Result<(), Fault> {
        let end = at.saturating_add(length);
        let first = self.tensors.partition_point(|tensor| tensor.end <= at);
        let behind = self.tensors.partition_point(|tensor| tensor.start < end);
        match self.absent(first as u32..behind.max(first) as u32)?.first() {
            Some(number) => Err(Fault::Absent { what: self.name_of(*number) }),
            None => Ok(()),
        }
    }

    /// Those of the tensors `numbers` that are absent, also by the record as it is now.
    pub(crate) fn absent(&self, numbers: impl IntoIterator<Item = u32>) -> Result<Vec<u32>, Fault> {
        let mut known = self.known();
        let mut absent: Vec<u32> = numbers.into_iter().filter(|at| !known.has(*at)).collect();
        if !absent.is_empty() {
            self.refresh(&mut known)?;
            absent.retain(|number| !known.has(*number));
        }
        Ok(absent)
    }

    /// What is present, by the record as it is now. Where the record cannot be used any more, what
    /// was known before: that stays present.
    pub(crate) fn now(&self) -> Presence {
        let mut known = self.known();
        if !known.is_complete()
            && let Err(fault) = self.refresh(&mut known)
        {
            tracing::warn!(file = %self.path.display(), %fault, "the record cannot be read again");
        }
        known.clone()
    }

    fn refresh(&self, known: &mut Presence) -> Result<(), Fault> {
        match Presence::load(&self.path)? {
            Some(record) if record.is_same_record(known) => known.add(&record),
            // The record of another file: that one has other tensors than the file that is open.
            Some(_) => return Err(Fault::Changed),
            // The file was moved or removed. Nothing is added to the one that is open.
            None => {}
        }
        Ok(())
    }

    fn name_of(&self, number: u32) -> String {
        let name = self.tensors.get(number as usize).map_or("", |tensor| tensor.name.as_str());
        format!("the tensor {name}")
    }

    fn known(&self) -> MutexGuard<'_, Presence> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
