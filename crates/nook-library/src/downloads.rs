//! Models on their way here: which run, and how far they are.
//!
//! The list is the store's and outlives the program. Jobs load each file, from servers or with what
//! other devices of the household bring; what is whole is checked as an import is, and moves into
//! the library. A window may close and a node may restart: what was to run goes on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use nook_api::sentence;
use nook_api::views::Problem;
use nook_base::{Extent, ModelDigest, PeerId, env};
use nook_fetch::{
    Catalogue, CopyOrder, Fetcher, FileKey, Folder, HouseSource, Hubs, Limits, Order, Progress,
    Pulse, Room as _, Seats, Source, SystemRoom,
};
use nook_store::{DownloadEntry, DownloadWish, Home};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::OpenError;
use crate::joining::join;
use crate::on_disk::{DownloadsLook, Seen};

/// Downloads that run at once; further ones wait until one ends, or waits for a device that is
/// busy. More would only share the line.
pub const RUNNING_MAX: usize = 2;

/// Names the server behind `hf:`, as for other programs.
const HUB_VARIABLE: &str = "HF_ENDPOINT";

/// Names servers that are asked where that one does not give a file.
const MIRRORS_VARIABLE: &str = "INGLENOOK_MIRRORS";

/// Free room is told in these steps, so that the view does not change with every log line.
const ROOM_GRAIN_BYTES: u64 = 100 << 20;

/// The downloads of this node.
#[derive(Debug)]
pub(crate) struct Downloads {
    pub(crate) list: nook_store::Downloads,
    pub(crate) catalogue: Catalogue,
    pub(crate) fetcher: Fetcher,
    pub(crate) folder: Folder,
    /// Those with a task, by key; also such as are in the list no more, until their files are gone.
    pub(crate) under_way: BTreeMap<String, UnderWay>,
    /// What lies on the disk of the others, as far as it is known.
    pub(crate) on_disk: Seen,
    /// The tasks of those that run hold them.
    pub(crate) seats: Seats,
    /// Whether one could begin and found no seat.
    pub(crate) lacks_seat: bool,
    /// Why those that failed did, by key.
    pub(crate) troubles: BTreeMap<String, Problem>,
    pub(crate) disk_free: Option<u64>,
    /// What the variables for the servers say, where that cannot be used.
    pub(crate) hub_problem: Option<String>,
    /// Files of downloads that were deleted while a node left or was killed.
    pub(crate) orphans: Vec<FileKey>,
}

/// A download with a task.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) stop: CancellationToken,
    pub(crate) told: watch::Receiver<Progress>,
    /// As it was at the last look.
    pub(crate) shown: Progress,
    pub(crate) pulse: Pulse,
    pub(crate) stage: Stage,
    /// The device that alone has brought its bytes, once they are here.
    pub(crate) giver: Option<PeerId>,
}

/// What is to be done for an entry of the list.
#[derive(Debug)]
pub(crate) enum Work {
    /// Fetch it from servers.
    Fetch(Order),
    /// Copy it from devices of the house.
    Copy(CopyOrder),
    /// Take its ends from devices of the house.
    TakeEnds(HouseSource),
}

/// What its task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Fetches.
    Loading,
    /// Was told to end.
    Stopping,
    /// Was told to end, and its files are to go; or deletes them. Asked for again meanwhile, the
    /// download begins when this is over.
    Deleting,
    /// Has the file and checks what it is.
    Checking,
}

impl Downloads {
    /// Reads the list of `home`; the files lie in `folder`. Nothing runs yet. Waits for the disk.
    pub(crate) fn open(home: &Home, folder: PathBuf) -> Result<Self, OpenError> {
        let list = nook_store::Downloads::load(home)?;
        let catalogue = Catalogue::built_in()?;
        let (first, more) = (env::text(HUB_VARIABLE), env::text(MIRRORS_VARIABLE));
        let (hubs, hub_problem) = match Hubs::read(first.as_deref(), more.as_deref()) {
            Ok(hubs) => (hubs, None),
            Err(error) => (Hubs::usual(), Some(sentence(&error.to_string()))),
        };
        let folder = Folder::at(folder);
        let is_listed = |key: &FileKey| list.entries().iter().any(|it| it.key == key.as_str());
        let orphans = folder.keys().into_iter().filter(|key| !is_listed(key)).collect();
        let on_disk = DownloadsLook::new(folder.clone(), list.entries().to_vec()).look();
        Ok(Self {
            list,
            catalogue,
            fetcher: Fetcher::new(hubs, Limits::USUAL, Arc::new(SystemRoom)).joining(join),
            folder,
            orphans,
            under_way: BTreeMap::new(),
            on_disk,
            seats: Seats::new(RUNNING_MAX),
            lacks_seat: false,
            troubles: BTreeMap::new(),
            disk_free: disk_free(home.data()),
            hub_problem,
        })
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Room on the disk, as it was at the last look.
    pub(crate) fn disk_free(&self) -> Option<u64> {
        self.disk_free
    }

    /// Lets those that run end, though they are to go on: nothing is written then.
    pub(crate) fn rest(&mut self) {
        for under_way in self.under_way.values_mut().filter(|it| it.stage == Stage::Loading) {
            under_way.stage = Stage::Stopping;
            under_way.stop.cancel();
        }
    }

    /// Whether no task has to do with the files.
    pub(crate) fn is_still(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The files lie there now.
    pub(crate) fn keep_in(&mut self, folder: PathBuf) {
        self.folder = Folder::at(folder);
    }

    /// Takes a look at how far those that run are. Whether one can begin that found no seat: nobody
    /// says when a copy gives its seat back.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        for under_way in self.under_way.values_mut() {
            under_way.shown = under_way.told.borrow_and_update().clone();
            under_way.pulse.look(now, under_way.shown.have);
        }
        self.lacks_seat && self.seats.has_free()
    }

    /// That much room was seen on the disk.
    pub(crate) fn note_disk_free(&mut self, disk_free: Option<u64>) {
        self.disk_free = disk_free;
    }

    /// The download that a person means: its key, or the name of the model to be.
    pub(crate) fn find(&self, wanted: &str) -> Option<&DownloadEntry> {
        let entries = self.list.entries();
        let by_key = entries.iter().find(|entry| entry.key == wanted);
        by_key.or_else(|| entries.iter().find(|entry| entry.name.eq_ignore_ascii_case(wanted)))
    }

    /// What is done for an entry of the list. The catalogue's pin counts as it is now.
    pub(crate) fn work(&self, entry: &DownloadEntry) -> Result<Work, String> {
        let changed = || "the list of downloads was changed by hand; delete this entry".to_owned();
        if HouseSource::is_meant_by(&entry.source) {
            let source: HouseSource = entry.source.parse().map_err(|_| changed())?;
            let meant = source.entry().and_then(|id| self.catalogue.get(id));
            let pin = meant.map(|meant| meant.order.pin.clone()).unwrap_or_default();
            let is_its_key = source.key().as_str() == entry.key;
            let work = match source.extent() {
                Extent::Whole => Work::Copy(CopyOrder { source, pin }),
                Extent::Ends => Work::TakeEnds(source),
            };
            return is_its_key.then_some(work).ok_or_else(changed);
        }
        let source: Source = entry.source.parse().map_err(|error| format!("{error}"))?;
        let pin = self.catalogue.of_source(&source).map(|it| it.order.pin.clone());
        if source.key().as_str() != entry.key {
            return Err(changed());
        }
        Ok(Work::Fetch(Order { source, pin: pin.unwrap_or_default() }))
    }

    /// The next one to begin, of those that `can` begin.
    pub(crate) fn next(&self, can: impl Fn(&DownloadEntry) -> bool) -> Option<DownloadEntry> {
        let waits = |entry: &&DownloadEntry| {
            entry.wish == DownloadWish::Run
                && !self.under_way.contains_key(&entry.key)
                && !self.troubles.contains_key(&entry.key)
                && can(entry)
        };
        self.list.entries().iter().find(waits).cloned()
    }
}

impl UnderWay {
    pub(crate) fn new(
        stop: CancellationToken,
        told: watch::Receiver<Progress>,
        stage: Stage,
    ) -> Self {
        let shown = told.borrow().clone();
        Self { stop, told, shown, pulse: Pulse::default(), stage, giver: None }
    }
}

/// Room on the disk of `folder`, in steps. Waits for the disk.
pub(crate) fn disk_free(folder: &Path) -> Option<u64> {
    let free = SystemRoom.free(folder).ok()?;
    Some(free / ROOM_GRAIN_BYTES * ROOM_GRAIN_BYTES)
}

impl Downloads {
    /// The copy of so much of this model, if it is in the list.
    pub(crate) fn copy_of(&self, model: ModelDigest, extent: Extent) -> Option<&DownloadEntry> {
        let is_it = |source: HouseSource| source.model() == model && source.extent() == extent;
        let entries = self.list.entries().iter();
        let mut copies = entries.filter(|entry| entry.source.parse().is_ok_and(is_it));
        copies.next()
    }
}

/// The model that an entry of the list copies from the household.
pub(crate) fn copied(entry: &DownloadEntry) -> Option<ModelDigest> {
    entry.source.parse::<HouseSource>().ok().map(|source| source.model())
}
