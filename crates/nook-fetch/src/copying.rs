//! A model that another device brings, from the first byte to the whole file.
//!
//! Who has the model and how its bytes travel is the caller's knowledge: a [`Bringer`] finds a
//! device, asks it for the rest of the file and hands out what comes. Everything else is as with a
//! download: one place in the [`Folder`], bytes that are made durable and gone on with after a
//! stop, a look at the disk's room, a watch for stalls, tries and their waits. What is whole is
//! here, and whether it is the model that was meant is for the caller to find out before it gets a
//! name: only `nook-model` knows what a digest covers.

use std::future::Future;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::answer::Version;
use crate::error::FetchError;
use crate::fetching::{Fetched, Fetcher, Pin, fetched, judged};
use crate::files::FileOrder;
use crate::folder::{FileKey, Folder};
use crate::held::Held;
use crate::house_source::HouseSource;
use crate::limits::DISK_RESERVE_BYTES;
use crate::part::Left;
use crate::progress::{Phase, Progress};
use crate::seats::{Seat, Seats};
use crate::waiting::{Tries, Waiting, watched};

/// Stands in the note of a part where a server would: all devices of the house have the same file.
const HOUSE: &str = "house";

/// Tries in a row without a new byte for which the bytes that are here are held on to; their waits
/// come to about a minute. Then a device is asked as well whose file of the model has another
/// length, and what is here goes once it has sent something.
const SAME_LENGTH_TRIES: u32 = 6;

/// What is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOrder {
    /// The model.
    pub source: HouseSource,
    /// What its file must be besides.
    pub pin: Pin,
}

/// Brings the bytes of one model, from whichever device has it.
pub trait Bringer: Send {
    /// How bytes are handed out.
    type Bytes: AsRef<[u8]> + Send + 'static;

    /// Chooses the device that is asked next. Returns the length of the model's file there.
    fn choose(&mut self, wish: CopyWish) -> impl Future<Output = Result<u64, Halt>> + Send;

    /// Asks that device for everything from byte `from` on.
    fn ask(&mut self, from: u64) -> impl Future<Output = Result<(), Halt>> + Send;

    /// The next bytes, at least one, and never more than are missing. Dropped while it waits,
    /// nothing is lost that a new [`Bringer::ask`] would not bring.
    fn next(&mut self) -> impl Future<Output = Result<Self::Bytes, Halt>> + Send;

    /// Name of the device that was chosen, for people.
    fn device(&self) -> String;
}

/// Which of several files of one model is wanted: they may differ behind the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyWish {
    /// Length of the file of which a part is here, in bytes: a device that has it comes before all
    /// others.
    pub length: Option<u64>,
    /// Whether a file of another length will do, too.
    pub others_too: bool,
    /// The longest file that may come and that the disk has room for, in bytes. A device with a
    /// longer one is chosen only where no other device has the model.
    pub most: u64,
}

/// Why no bytes come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// Another device can be asked at once.
    Another {
        /// What is wrong with this one.
        why: String,
    },
    /// Nobody else can be asked now, but it may go better in a moment.
    Later {
        /// What is wrong.
        why: String,
    },
    /// As [`Halt::Later`], only because others are being served. That passes by itself, so it is no
    /// failed try, however long it lasts; files that can load have the seat meanwhile.
    Busy {
        /// Who is busy.
        why: String,
    },
    /// No device that has the model is here.
    Nobody,
}

/// What a copy is called and what it must be.
struct Wanted<'a> {
    /// Its place in the folder, and how it is written there.
    place: (FileKey, String),
    /// Bytes under the same mark go on with each other, whoever sent them.
    mark: &'a str,
    /// SHA-256 of the whole file, where it is known before.
    expected: Option<&'a str>,
}

/// A copy under way.
struct Copying<'a, B: Bringer> {
    fetcher: &'a Fetcher,
    bringer: &'a mut B,
    seat: Seat,
    stop: &'a CancellationToken,
    told: &'a watch::Sender<Progress>,
    held: Held,
}

impl Fetcher {
    /// Copies `order` into `folder` with what `bringer` brings, going on where an earlier run
    /// ended, whichever device that came from. `told` hears how far it is. `seat` is given back
    /// whenever all who have the model are busy; then the copy waits for one.
    ///
    /// Ends as [`Fetcher::fetch`] does, and with [`FetchError::Nobody`] while no device that has
    /// the model is here.
    pub async fn copy(
        &self,
        folder: &Folder,
        order: &CopyOrder,
        bringer: &mut impl Bringer,
        seat: Seat,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<Fetched, FetchError> {
        let expected = order.pin.sha256.as_deref();
        let wanted = Wanted {
            place: (order.source.key(), order.source.file()),
            mark: &order.source.model().to_string(),
            expected,
        };
        self.bring(folder, wanted, bringer, seat, (stop, told)).await
    }

    /// Copies the file of `order` into the place where [`Fetcher::fetch_file`] would put it, with
    /// what `bringer` brings. Ends as [`Fetcher::copy`] does; nothing but the file of this length and
    /// digest stays.
    pub async fn bring_file(
        &self,
        folder: &Folder,
        order: &FileOrder,
        bringer: &mut impl Bringer,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<Fetched, FetchError> {
        let expected = Some(order.sha256.as_str());
        let wanted = Wanted { place: order.place(), mark: &order.sha256, expected };
        // Nobody else waits for one of these.
        let Some(seat) = Seats::new(1).take() else { return Err(FetchError::Lost) };
        self.bring(folder, wanted, bringer, seat, (stop, told)).await
    }

    async fn bring(
        &self,
        folder: &Folder,
        wanted: Wanted<'_>,
        bringer: &mut impl Bringer,
        seat: Seat,
        (stop, told): (&CancellationToken, &watch::Sender<Progress>),
    ) -> Result<Fetched, FetchError> {
        let Wanted { place: (key, text), mark, expected } = wanted;
        let part = match self.open(folder, key, text, stop, told).await? {
            Left::Whole(whole) => return judged(whole, expected),
            Left::Part(part) => part,
        };
        let held = Held::of(part);
        let mut copying = Copying { fetcher: self, bringer, seat, stop, told, held };
        if let Err(error) = copying.load(mark).await {
            return Err(copying.held.kept(error).await.0);
        }
        told.send_modify(|progress| progress.phase = Phase::Finishing);
        let whole = copying.held.finish(expected).await?;
        Ok(fetched(whole, expected.is_some()))
    }
}

impl<B: Bringer> Copying<'_, B> {
    /// Tries until every byte is there.
    async fn load(&mut self, mark: &str) -> Result<(), FetchError> {
        let mut tries = Tries::from(self.held.written());
        loop {
            let Some(halt) = self.attempt(mark, tries.count).await? else { return Ok(()) };
            let have = self.held.written();
            tries.note(have);
            let pace = self.fetcher.limits.pace;
            let (stop, told) = (self.stop, self.told);
            let mut waiting = Waiting { pace, seat: &mut self.seat, stop, told };
            waiting.after(halt, &mut tries, have, || self.bringer.device()).await?;
        }
    }

    /// Asks one device, after so many `tries` that brought nothing new; `None` once every byte is
    /// there.
    async fn attempt(&mut self, mark: &str, tries: u32) -> Result<Option<Halt>, FetchError> {
        let stall = self.fetcher.limits.pace.stall;
        self.told.send_modify(|progress| progress.phase = Phase::Asking);
        let wish = self.wish(tries).await?;
        let bytes = match watched(self.stop, stall, self.bringer.choose(wish)).await? {
            Ok(bytes) => bytes,
            Err(halt) => return Ok(Some(halt)),
        };
        let most = self.fetcher.limits.file_bytes_max;
        if bytes > most {
            return Err(FetchError::TooLarge { bytes, most });
        }
        if bytes > wish.most {
            let free = self.held.free(self.fetcher).await?.unwrap_or_default();
            let needed = bytes.saturating_sub(self.held.written());
            return Err(FetchError::NoRoom { needed, free });
        }
        let (mark, server) = (Some(mark.to_owned()), Some(HOUSE.to_owned()));
        let version = Version { validator: mark, server, bytes: Some(bytes), ..Version::default() };
        let have = if self.goes_on(&version) { self.held.written() } else { 0 };
        if have >= bytes {
            return Ok(None);
        }
        if let Err(halt) = watched(self.stop, stall, self.bringer.ask(have)).await? {
            return Ok(Some(halt));
        }
        self.told.send_modify(|progress| {
            *progress = Progress { phase: Phase::Loading, have, bytes: Some(bytes), trouble: None };
        });
        self.take(bytes, version).await
    }

    async fn wish(&self, tries: u32) -> Result<CopyWish, FetchError> {
        let here = self.held.version().filter(|_| self.held.written() > 0);
        let length = here.and_then(|here| here.bytes);
        let most = self.fetcher.limits.file_bytes_max;
        let room = self.held.free(self.fetcher).await?.map_or(most, |free| {
            free.saturating_sub(DISK_RESERVE_BYTES).saturating_add(self.held.written())
        });
        let others_too = tries >= SAME_LENGTH_TRIES;
        Ok(CopyWish { length, others_too, most: most.min(room) })
    }

    /// Whether bytes of `version` go on with those that are here.
    fn goes_on(&self, version: &Version) -> bool {
        self.held.version().is_some_and(|here| here.is_same(version))
    }

    /// Takes bytes of `version` until all `bytes` are there, or none come any more.
    async fn take(&mut self, bytes: u64, version: Version) -> Result<Option<Halt>, FetchError> {
        let stall = self.fetcher.limits.pace.stall;
        loop {
            let piece = match watched(self.stop, stall, self.bringer.next()).await? {
                Ok(piece) => piece,
                Err(halt) => return Ok(Some(halt)),
            };
            // Only now that the other file comes do bytes of one of another length go.
            if !self.goes_on(&version) {
                let version = version.clone();
                self.held.visit(move |part| part.begin(version)).await?;
            }
            let left = bytes.saturating_sub(self.held.written());
            if piece.as_ref().len() as u64 > left {
                self.held.discard().await?;
                return Err(FetchError::TooLong { host: self.bringer.device(), bytes });
            }
            let synced = self.held.synced();
            self.held.visit(move |part| part.append(piece.as_ref())).await?;
            if self.held.synced() > synced {
                self.held.has_room(self.fetcher).await?;
            }
            let have = self.held.written();
            self.told.send_modify(|progress| progress.have = have);
            if have >= bytes {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
