//! Ranges of a model's file from other devices, each checked by itself.
//!
//! A helper that lacks the layers that it is asked for takes the tensors of those layers and
//! nothing else. Who has the model and how its bytes travel is the caller's knowledge: a
//! [`RangeSource`] finds a device and brings what it is asked for. What the bytes must be is the
//! caller's knowledge too: a [`RangeRecord`] checks each range and keeps the list of those that are
//! here. This module decides what is asked for next, writes it to its place in a [`SparseFile`],
//! and goes on with another device when one has gone.
//!
//! ```text
//! RangeSource ──bytes──► write ──► check ──► sync ──► RangeRecord: these ranges are here
//!                          └ wrong: blame the device, take the range from another one
//! ```
//!
//! A range comes from one device from its first byte to its last, so wrong bytes have one culprit.
//! Ranges that lie behind one another are asked for together: an answer for each of the hundreds of
//! tensors of a part would cost a round trip each.

mod sink;

use std::future::Future;
use std::ops::Range;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use self::sink::{Sink, Verdict};
use crate::copying::Halt;
use crate::error::FetchError;
use crate::fetching::Fetcher;
use crate::limits::DISK_RESERVE_BYTES;
use crate::progress::{Phase, Progress};
use crate::seats::Seat;
use crate::sparse::SparseFile;
use crate::waiting::{Tries, Waiting, watched};

/// Bytes of a file that are here all together, once they were checked, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    /// What the caller calls it.
    pub number: u32,
    /// Its first byte.
    pub start: u64,
    /// How many.
    pub bytes: u64,
}

/// The ranges that are missing, and what they may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangesOrder {
    /// The ranges, each once.
    pub ranges: Vec<FileRange>,
    /// Most bytes that they may come to together; more are refused before anything is asked for.
    pub bytes_max: u64,
}

/// A document that is taken into memory: a manifest, or the header of a file.
#[derive(Debug, Clone, Copy)]
pub struct DocumentOrder {
    /// How its bytes are asked for.
    pub ask: fn(Range<u64>) -> Ask,
    /// Bytes at its beginning that say how long it is. No such document is shorter.
    pub prefix_bytes: u64,
    /// Longest one that is taken, in bytes; a device that claims a longer one sends wrong bytes.
    pub bytes_max: u64,
}

/// What a device is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// These bytes of the model's manifest.
    Manifest(Range<u64>),
    /// These bytes of the model's file.
    File(Range<u64>),
}

/// Brings bytes of one model, from whichever device has it.
pub trait RangeSource: Send {
    /// How bytes are handed out.
    type Bytes: AsRef<[u8]> + Send + 'static;

    /// Chooses the device that is asked from now on.
    fn choose(&mut self) -> impl Future<Output = Result<(), Halt>> + Send;

    /// Asks that device; everything that it was asked for before has come.
    fn ask(&mut self, ask: Ask) -> impl Future<Output = Result<(), Halt>> + Send;

    /// The next bytes, at least one, and never more than are missing. Dropped while it waits,
    /// nothing is lost that a new [`RangeSource::ask`] would not bring.
    fn next(&mut self) -> impl Future<Output = Result<Self::Bytes, Halt>> + Send;

    /// What the chosen device sent is wrong: it is never chosen again.
    fn blame(&mut self);

    /// Name of the device that was chosen, for people.
    fn device(&self) -> String;
}

/// Knows what each range must be, and keeps the list of those that are here. Runs on threads that
/// may wait.
pub trait RangeRecord: Send + 'static {
    /// Checks one range.
    type Check: RangeCheck;

    /// A check for the range `number`, from its first byte on.
    fn check(&self, number: u32) -> Self::Check;

    /// Notes that these ranges are here. Their bytes are durable already.
    fn record(&mut self, numbers: &[u32]) -> Result<(), FetchError>;
}

/// Sees the bytes of one range, in order.
pub trait RangeCheck: Send + 'static {
    /// The next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// Whether all of them were those that were meant.
    fn holds(self) -> bool;
}

/// What a fetch of ranges or of a document waits with.
#[derive(Debug)]
pub struct Conditions<'a> {
    /// The permit to run; given back while every device that has the model is busy.
    pub seat: &'a mut Seat,
    /// Ends it at any moment.
    pub stop: &'a CancellationToken,
    /// Where it tells how far it is.
    pub told: &'a watch::Sender<Progress>,
}

impl Conditions<'_> {
    /// The same for one more fetch.
    pub fn again(&mut self) -> Conditions<'_> {
        Conditions { seat: &mut *self.seat, stop: self.stop, told: self.told }
    }

    fn waiting(&mut self, fetcher: &Fetcher) -> Waiting<'_> {
        let (seat, stop, told) = (&mut *self.seat, self.stop, self.told);
        Waiting { pace: fetcher.limits.pace, seat, stop, told }
    }
}

impl Fetcher {
    /// Takes the missing ranges of `order` into `file`, which already has its length. Each range
    /// is checked by `record`, which also hears when ranges are durable: after each
    /// `sync_every_bytes` of the limits, and at every end. What was not recorded is taken again by
    /// the next run.
    ///
    /// Ends early with [`FetchError::OverCap`], [`FetchError::NoRoom`], [`FetchError::Disk`],
    /// [`FetchError::Stopped`], [`FetchError::GaveUp`], with [`FetchError::Nobody`] while no device
    /// that has the model is here, and with [`FetchError::WrongBytes`] where the last one that was
    /// here sent something else.
    pub async fn take_ranges<S: RangeSource, R: RangeRecord>(
        &self,
        file: SparseFile,
        order: RangesOrder,
        record: R,
        source: &mut S,
        mut conditions: Conditions<'_>,
    ) -> Result<(SparseFile, R), FetchError> {
        let sink = Sink::new(file, order.ranges, record, self.limits)?;
        let (needed, most) = (sink.left_bytes(), order.bytes_max);
        if needed > most {
            return Err(FetchError::OverCap { needed, most });
        }
        conditions.told.send_modify(|told| {
            *told = Progress { phase: Phase::Asking, have: 0, bytes: Some(needed), trouble: None };
        });
        let mut taking = Taking { fetcher: self, source, sink: Some(sink), wrong: None };
        let loaded = taking.load(&mut conditions).await;
        // What came is recorded before anybody hears of the end.
        let kept = match taking.sink {
            Some(_) => taking.visit(Sink::keep).await,
            None => Err(FetchError::Lost),
        };
        loaded?;
        kept?;
        taking.sink.map(Sink::into_parts).ok_or(FetchError::Lost)
    }

    /// Takes a document into memory, whole from one device. `length_of` reads its length from its
    /// first bytes, `read` checks all of them; where one of the two finds nothing, the device that
    /// sent them is to blame.
    ///
    /// Ends early as [`Fetcher::take_ranges`] does.
    pub async fn take_document<S: RangeSource, T: Send>(
        &self,
        order: DocumentOrder,
        length_of: impl Fn(&[u8]) -> Option<u64> + Send,
        read: impl Fn(Vec<u8>) -> Option<T> + Send,
        source: &mut S,
        mut conditions: Conditions<'_>,
    ) -> Result<T, FetchError> {
        let (mut tries, mut wrong) = (Tries::default(), None);
        loop {
            let taken = self.document(order, &length_of, source, &conditions).await?;
            let halt = match taken {
                Ok(bytes) => match bytes.and_then(&read) {
                    Some(document) => return Ok(document),
                    None => blamed(source, &mut wrong),
                },
                Err(halt) => halt,
            };
            let waiting = &mut conditions.waiting(self);
            let waited = waiting.after(halt, &mut tries, 0, || source.device()).await;
            waited.map_err(|error| of_last(error, &mut wrong))?;
        }
    }

    /// The bytes of a document from the device that is chosen next; `None` where it sent something
    /// that is none.
    async fn document<S: RangeSource>(
        &self,
        order: DocumentOrder,
        length_of: &(impl Fn(&[u8]) -> Option<u64> + Send),
        source: &mut S,
        conditions: &Conditions<'_>,
    ) -> Result<Result<Option<Vec<u8>>, Halt>, FetchError> {
        let (stop, stall) = (conditions.stop, self.limits.pace.stall);
        conditions.told.send_modify(|told| told.phase = Phase::Asking);
        if let Err(halt) = watched(stop, stall, source.choose()).await? {
            return Ok(Err(halt));
        }
        let mut bytes = Vec::new();
        let mut end = order.prefix_bytes.min(order.bytes_max);
        loop {
            let from = bytes.len() as u64;
            if let Err(halt) = watched(stop, stall, source.ask((order.ask)(from..end))).await? {
                return Ok(Err(halt));
            }
            while (bytes.len() as u64) < end {
                match watched(stop, stall, source.next()).await? {
                    Ok(more) => bytes.extend_from_slice(more.as_ref()),
                    Err(halt) => return Ok(Err(halt)),
                }
            }
            match length_of(&bytes).filter(|bytes| *bytes <= order.bytes_max) {
                Some(length) if length == bytes.len() as u64 => return Ok(Ok(Some(bytes))),
                Some(length) if length > end => end = length,
                _ => return Ok(Ok(None)),
            }
        }
    }
}

/// Ranges on their way.
struct Taking<'a, S, R: RangeRecord> {
    fetcher: &'a Fetcher,
    source: &'a mut S,
    /// Away while it visits the disk.
    sink: Option<Sink<R>>,
    /// The last device that sent something else than what was asked for, for people.
    wrong: Option<String>,
}

impl<S: RangeSource, R: RangeRecord> Taking<'_, S, R> {
    /// Tries until every range is here.
    async fn load(&mut self, conditions: &mut Conditions<'_>) -> Result<(), FetchError> {
        self.has_room().await?;
        let mut tries = Tries::from(self.have());
        loop {
            let Some(halt) = self.attempt(conditions).await? else { return Ok(()) };
            let have = self.have();
            tries.note(have);
            let waiting = &mut conditions.waiting(self.fetcher);
            let waited = waiting.after(halt, &mut tries, have, || self.source.device()).await;
            waited.map_err(|error| of_last(error, &mut self.wrong))?;
        }
    }

    /// Asks one device for one run of ranges after the other; `None` once every range is here.
    async fn attempt(&mut self, conditions: &Conditions<'_>) -> Result<Option<Halt>, FetchError> {
        let (stop, stall) = (conditions.stop, self.fetcher.limits.pace.stall);
        conditions.told.send_modify(|told| told.phase = Phase::Asking);
        if self.left_bytes() == 0 {
            return Ok(None);
        }
        if let Err(halt) = watched(stop, stall, self.source.choose()).await? {
            return Ok(Some(halt));
        }
        loop {
            let span = self.sink.as_mut().ok_or(FetchError::Lost)?.begin_span();
            let Some(span) = span else { return Ok(None) };
            if let Err(halt) = watched(stop, stall, self.source.ask(Ask::File(span))).await? {
                return Ok(Some(halt));
            }
            conditions.told.send_modify(|told| {
                (told.phase, told.trouble) = (Phase::Loading, None);
            });
            if let Some(halt) = self.take_span(conditions).await? {
                return Ok(Some(halt));
            }
        }
    }

    /// Takes what was asked for; `None` once all of it is here.
    async fn take_span(&mut self, conditions: &Conditions<'_>) -> Result<Option<Halt>, FetchError> {
        let (stop, stall) = (conditions.stop, self.fetcher.limits.pace.stall);
        loop {
            let piece = match watched(stop, stall, self.source.next()).await? {
                Ok(piece) => piece,
                Err(halt) => return Ok(Some(halt)),
            };
            let verdict = self.visit(move |sink| sink.take(piece.as_ref())).await?;
            let have = self.have();
            conditions.told.send_modify(|told| told.have = have);
            match verdict {
                Verdict::Due => {}
                Verdict::Synced => self.has_room().await?,
                Verdict::Over => return Ok(None),
                Verdict::Wrong => return Ok(Some(blamed(self.source, &mut self.wrong))),
            }
        }
    }

    /// Visits the disk with what was taken.
    async fn visit<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Sink<R>) -> Result<T, FetchError> + Send + 'static,
    ) -> Result<T, FetchError> {
        let mut sink = self.sink.take().ok_or(FetchError::Lost)?;
        let visit = spawn_blocking(move || {
            let outcome = work(&mut sink);
            (sink, outcome)
        });
        let (sink, outcome) = visit.await.map_err(|_| FetchError::Lost)?;
        self.sink = Some(sink);
        outcome
    }

    /// Whether what is still to come leaves the reserve free. Where the system does not say, a full
    /// disk is noticed when it is full.
    async fn has_room(&self) -> Result<(), FetchError> {
        let sink = self.sink.as_ref().ok_or(FetchError::Lost)?;
        let left = sink.left_bytes();
        let (folder, room) = (sink.folder().to_owned(), self.fetcher.room.clone());
        if left == 0 {
            return Ok(());
        }
        // A file whose holes take room has all of its room already.
        let needed = if SparseFile::counts_holes() { 0 } else { left };
        let free = spawn_blocking(move || room.free(&folder)).await;
        match free.map_err(|_| FetchError::Lost)? {
            Ok(free) if free < needed.saturating_add(DISK_RESERVE_BYTES) => {
                Err(FetchError::NoRoom { needed, free })
            }
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::debug!(%error, "the system does not say how much room there is");
                Ok(())
            }
        }
    }

    fn have(&self) -> u64 {
        self.sink.as_ref().map_or(0, Sink::have)
    }

    fn left_bytes(&self) -> u64 {
        self.sink.as_ref().map_or(0, Sink::left_bytes)
    }
}

/// The chosen device sent wrong bytes: another one can be asked at once.
fn blamed(source: &mut impl RangeSource, wrong: &mut Option<String>) -> Halt {
    let device = source.device();
    source.blame();
    tracing::warn!(device, "what it sent is not what was asked for");
    *wrong = Some(device);
    Halt::Another { why: "it sent something else than what was asked for".to_owned() }
}

/// That nobody is left means something else where somebody was blamed.
fn of_last(error: FetchError, wrong: &mut Option<String>) -> FetchError {
    match (error, wrong.take()) {
        (FetchError::Nobody, Some(device)) => FetchError::WrongBytes { device },
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests;
