//! Models on their way here: which run, how far they are, and taking in what is whole.
//!
//! The list is the store's and outlives the program; `nook-fetch` loads each file in a task of its own,
//! from servers or with what other devices of the house bring (`copies`); what is whole is checked by the
//! same eyes as an import (`models`) and moves into the library. Doors ask through [`State::pull`] and
//! [`State::change_download`], and see [`DownloadView`]s whose figures change at each look of the house
//! loop, once a second. A window may close and a node may restart: what was to run goes on.

mod copies;
mod endings;
mod shown;
mod troubles;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use nook_base::{ErrorCode, PeerId, clock, env};
use nook_fetch::{
    Catalogue, CopyOrder, Fetcher, FileKey, Folder, HouseSource, Hubs, Limits, Order, Pin,
    Progress, Pulse, Room as _, Seat, Seats, Source, SystemRoom,
};
use nook_store::{DownloadEntry, DownloadWish, Home, ModelEntry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::house::HouseError;
use crate::models::sentence;
use crate::start::StartError;
use crate::state::{Inside, State};
use crate::views::{DownloadAsk, DownloadView, Problem, Trouble, TroubleView};

pub(crate) use endings::Stocked;

/// Downloads that run at once; further ones wait until one ends, or waits for a device that is busy. More
/// would only share the line.
const RUNNING_MAX: usize = 2;

/// Names the server behind `hf:`, as for other programs.
const HUB_VARIABLE: &str = "HF_ENDPOINT";

/// Names servers that are asked where that one does not give a file.
const MIRRORS_VARIABLE: &str = "INGLENOOK_MIRRORS";

/// Free room is told in these steps, so that the house does not change with every log line.
const ROOM_GRAIN_BYTES: u64 = 100 << 20;

/// The downloads of this node.
#[derive(Debug)]
pub(crate) struct Downloads {
    list: nook_store::Downloads,
    catalogue: Catalogue,
    fetcher: Fetcher,
    folder: Folder,
    /// Those with a task, by key; also such as are in the list no more, until their files are gone.
    under_way: BTreeMap<String, UnderWay>,
    /// The tasks of those that run hold them.
    seats: Seats,
    /// Whether one could begin and found no seat.
    lacks_seat: bool,
    /// Why those that failed did, by key.
    troubles: BTreeMap<String, Problem>,
    disk_free: Option<u64>,
    /// What the variables for the servers say, where that cannot be used.
    hub_problem: Option<String>,
    /// Files of downloads that were deleted while a node left or was killed.
    orphans: Vec<FileKey>,
}

/// A download with a task.
#[derive(Debug)]
struct UnderWay {
    stop: CancellationToken,
    told: watch::Receiver<Progress>,
    /// As it was at the last look.
    shown: Progress,
    pulse: Pulse,
    stage: Stage,
    /// The device that alone has brought its bytes, once they are here.
    giver: Option<PeerId>,
}

/// What is to be done for an entry of the list.
#[derive(Debug)]
enum Work {
    /// Fetch it from servers.
    Fetch(Order),
    /// Copy it from devices of the house.
    Copy(CopyOrder),
}

/// What its task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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
    /// Reads the list of `home`; the files lie in `folder`. Nothing runs yet.
    pub(crate) fn open(home: &Home, folder: PathBuf) -> Result<Self, StartError> {
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
        Ok(Self {
            list,
            catalogue,
            fetcher: Fetcher::new(hubs, Limits::USUAL, Arc::new(SystemRoom)),
            folder,
            orphans,
            under_way: BTreeMap::new(),
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

    /// Takes a look at how far those that run are. Whether one can begin that found no seat: nobody says when
    /// a copy gives its seat back.
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
    fn find(&self, wanted: &str) -> Option<&DownloadEntry> {
        let entries = self.list.entries();
        let by_key = entries.iter().find(|entry| entry.key == wanted);
        by_key.or_else(|| entries.iter().find(|entry| entry.name.eq_ignore_ascii_case(wanted)))
    }

    /// What is done for an entry of the list. The catalogue's pin counts as it is now.
    fn work(&self, entry: &DownloadEntry) -> Result<Work, String> {
        let changed = || "the list of downloads was changed by hand; delete this entry".to_owned();
        if HouseSource::is_meant_by(&entry.source) {
            let source: HouseSource = entry.source.parse().map_err(|_| changed())?;
            let meant = source.entry().and_then(|id| self.catalogue.get(id));
            let pin = meant.map(|meant| meant.order.pin.clone()).unwrap_or_default();
            let is_its_key = source.key().as_str() == entry.key;
            return is_its_key.then_some(Work::Copy(CopyOrder { source, pin })).ok_or_else(changed);
        }
        let source: Source = entry.source.parse().map_err(|error| format!("{error}"))?;
        let pin = self.catalogue.of_source(&source).map(|it| it.order.pin.clone());
        if source.key().as_str() != entry.key {
            return Err(changed());
        }
        Ok(Work::Fetch(Order { source, pin: pin.unwrap_or_default() }))
    }

    /// The next one to begin, of those that `can` begin.
    fn next(&self, can: impl Fn(&DownloadEntry) -> bool) -> Option<DownloadEntry> {
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
    fn new(stop: CancellationToken, told: watch::Receiver<Progress>, stage: Stage) -> Self {
        let shown = told.borrow().clone();
        Self { stop, told, shown, pulse: Pulse::default(), stage, giver: None }
    }
}

impl State {
    /// Begins a download, or resumes the one of the same file.
    pub(crate) fn pull(
        &mut self,
        wanted: &str,
        name: Option<&str>,
    ) -> Result<DownloadView, HouseError> {
        let (order, usual_name) = self.order_for(wanted)?;
        let key = order.source.key();
        let known = self.downloads.find(key.as_str()).map(|entry| entry.name.clone());
        let name = match (name, known) {
            (None, Some(known)) => known,
            (name, _) => self.name_for(name.or(usual_name.as_deref()), &order.source)?,
        };
        let entry = DownloadEntry {
            key: key.as_str().to_owned(),
            source: order.source.to_string(),
            name,
            wish: DownloadWish::Run,
            added: clock::unix_seconds(),
        };
        self.downloads.list.put(entry).map_err(|error| refused(&error.to_string()))?;
        self.downloads.troubles.remove(key.as_str());
        tracing::info!(download = key.as_str(), "asked for");
        self.start_downloads();
        let view = self.download_views().into_iter().find(|view| view.key == key.as_str());
        view.ok_or_else(|| refused("the download is not in the list"))
    }

    /// Pauses, resumes, cancels or deletes a download.
    pub(crate) fn change_download(
        &mut self,
        wanted: &str,
        ask: DownloadAsk,
    ) -> Result<(), HouseError> {
        let Some(entry) = self.downloads.find(wanted).cloned() else {
            let shown: String = wanted.chars().take(80).flat_map(char::escape_debug).collect();
            return Err(HouseError::new(
                ErrorCode::NotFound,
                format!("No download is called `{shown}`; nook models lists them."),
            ));
        };
        let key = entry.key.clone();
        let wish = match ask {
            DownloadAsk::Delete => {
                self.check_in_reach()?;
                return self.delete_download(&key);
            }
            DownloadAsk::Resume => DownloadWish::Run,
            DownloadAsk::Pause => DownloadWish::Pause,
            DownloadAsk::Cancel => DownloadWish::Cancel,
        };
        self.wish_download(entry, wish)?;
        self.downloads.troubles.remove(&key);
        if ask != DownloadAsk::Resume
            && let Some(under_way) = self.downloads.under_way.get_mut(&key)
            && under_way.stage == Stage::Loading
        {
            under_way.stage = Stage::Stopping;
            under_way.stop.cancel();
        }
        self.start_downloads();
        Ok(())
    }

    /// Begins what waits, as far as there are seats.
    pub(crate) fn start_downloads(&mut self) {
        if let Some(problem) = self.downloads.hub_problem.take() {
            let trouble = Trouble::DownloadServer { reason: problem.clone() };
            self.note("downloads", [TroubleView::new(problem, trouble)]);
        }
        self.go_on_moving();
        if self.moving.holds() {
            return;
        }
        self.delete_orphans();
        self.downloads.lacks_seat = false;
        while let Some(entry) = self.downloads.next(|entry| self.can_begin(entry)) {
            let Some(seat) = self.downloads.seats.take() else {
                self.downloads.lacks_seat = true;
                return;
            };
            match self.downloads.work(&entry) {
                Ok(Work::Fetch(order)) => self.begin_download(entry.key, order, seat),
                Ok(Work::Copy(order)) => self.begin_copy(entry.key, order, seat),
                Err(why) => {
                    self.downloads.troubles.insert(entry.key, refused(&why).into());
                }
            }
        }
    }

    /// Lists `key` as loading, with what is on the disk of its `file`; what stops it, and where it tells its
    /// progress.
    fn list_loading(
        &mut self,
        key: &str,
        file: &FileKey,
    ) -> (CancellationToken, watch::Sender<Progress>) {
        let stop = self.tasks.token().child_token();
        let have = self.downloads.folder.bytes_of(file);
        let (tell, told) = watch::channel(Progress { have, ..Progress::default() });
        let under_way = UnderWay::new(stop.clone(), told, Stage::Loading);
        self.downloads.under_way.insert(key.to_owned(), under_way);
        (stop, tell)
    }

    fn begin_download(&mut self, key: String, order: Order, seat: Seat) {
        let (stop, tell) = self.list_loading(&key, &order.source.key());
        let (fetcher, folder) = (self.downloads.fetcher.clone(), self.downloads.folder.clone());
        let inside = self.inside.clone();
        // It watches its own token, a child of the node's, so that what came is made durable first.
        self.tasks.spawn("download", async move {
            let outcome = fetcher.fetch(&folder, &order, &stop, &tell).await;
            // Whoever hears of the end looks whom the seat is for.
            drop(seat);
            // A closed inbox means that the node is leaving; the file is found again then.
            let _ = inside.send(Inside::Downloaded { key, outcome: Box::new(outcome) }).await;
        });
    }

    /// What `wanted` means, and what such a model is called here.
    fn order_for(&self, wanted: &str) -> Result<(Order, Option<String>), HouseError> {
        let catalogue = &self.downloads.catalogue;
        if let Some(entry) = catalogue.get(wanted.trim()) {
            return Ok((entry.order.clone(), Some(entry.id.clone())));
        }
        let parsed: Result<Source, _> = wanted.parse();
        let source = parsed.map_err(|error| {
            let ids: Vec<&str> = catalogue.entries().iter().map(|it| it.id.as_str()).collect();
            refused(&format!("{error}; or one of the catalogue: {}", ids.join(", ")))
        })?;
        Ok(match catalogue.of_source(&source) {
            Some(entry) => (entry.order.clone(), Some(entry.id.clone())),
            None => (Order { source, pin: Pin::default() }, None),
        })
    }

    /// A name that the model can have once it is here, known before anything is loaded.
    fn name_for(&self, wished: Option<&str>, source: &Source) -> Result<String, HouseError> {
        let file = Path::new(source.file_name());
        let wishes = |model: &&ModelEntry| {
            wished.is_some_and(|wished| model.name.eq_ignore_ascii_case(wished))
        };
        let name = match self.library.models().iter().find(wishes) {
            // Whoever lost a model's file may fetch it again; another model gets a number at the end.
            Some(lost) if self.is_lost(lost) => lost.name.clone(),
            _ => {
                let name = self.library.name_for(wished, file);
                name.map_err(|error| refused(&error.to_string()))?
            }
        };
        let is_taken = |entry: &DownloadEntry| entry.name.eq_ignore_ascii_case(&name);
        let key = source.key();
        let mut others = self.downloads.list.entries().iter().filter(|it| it.key != key.as_str());
        if others.any(is_taken) {
            return Err(refused(&format!(
                "a download is called `{name}` already; choose another name"
            )));
        }
        Ok(name)
    }

    fn wish_download(
        &mut self,
        entry: DownloadEntry,
        wish: DownloadWish,
    ) -> Result<(), HouseError> {
        let entry = DownloadEntry { wish, ..entry };
        self.downloads.list.put(entry).map_err(|error| refused(&error.to_string()))
    }
}

/// Room on the disk of `folder`, in steps. Waits for the disk.
pub(crate) fn disk_free(folder: &Path) -> Option<u64> {
    let free = SystemRoom.free(folder).ok()?;
    Some(free / ROOM_GRAIN_BYTES * ROOM_GRAIN_BYTES)
}

fn refused(why: &str) -> HouseError {
    HouseError::new(ErrorCode::BadRequest, sentence(why))
}
