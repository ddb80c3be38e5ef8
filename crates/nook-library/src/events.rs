//! What happens to the models of this device, what the library knows of the rest of the node, and
//! what it wants done.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use nook_api::views::{CapabilitiesView, DownloadView, FoundView, HubView, ModelView, TroubleView};
use nook_api::{Answer, ModelCommand, NodeError};
use nook_base::{ModelDigest, PeerId};
use nook_fetch::{
    Catalogue, CopyOrder, FetchError, Fetched, Fetcher, FileKey, Folder, Order, Progress, Search,
    Seat,
};
use nook_resources::catalogue::Entry;
use nook_resources::traffic::Traffic;
use nook_store::{Library, ModelsMove, SettingValue, Staged, Stager, Stamps};
use nook_wire::Have;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::copies::{Giver, Holders};
use crate::folder::{Brought, FolderSeen, MoveProgress, NotBrought};
use crate::judging::Checked;
use crate::kept_ends::KeptEnds;
use crate::on_disk::DownloadsLook;
use crate::part_job::{PartEnd, PartJob};
use crate::partial::PartialModel;
use crate::parts::{PartNotice, PartWish};
use crate::rereading::{Reread, RereadJob};

/// Something that happened.
#[derive(Debug)]
pub enum LibraryEvent {
    /// The node has started.
    Started,
    /// A second has passed.
    Tick,
    /// A front end asks for something.
    Asked(ModelCommand),
    /// A device says which models it gives.
    Have(PeerId, Have),
    /// A link is new or gone: what was said on an earlier one is void.
    LinkChanged(PeerId),
    /// Devices are trusted differently.
    TrustChanged,
    /// A search for models has ended.
    Searched {
        /// What it found, or why nothing.
        found: Box<Result<HubView, NodeError>>,
        /// Whoever asked.
        answer: Answer<HubView>,
    },
    /// A file was checked and may join the list.
    Imported {
        /// What it is.
        staged: Box<Result<Staged, NodeError>>,
        /// The name that was wished for.
        name: Option<String>,
        /// Whoever asked.
        answer: Answer<ModelView>,
    },
    /// A download ended, with its file or without.
    Downloaded {
        /// Its key.
        key: String,
        /// How.
        outcome: Box<Result<Fetched, FetchError>>,
        /// The device that alone has brought its bytes, if one has.
        giver: Option<PeerId>,
    },
    /// A file that was downloaded was checked.
    Checked(Box<Checked>),
    /// The files of a download that was deleted are gone.
    Deleted {
        /// Its key.
        key: String,
    },
    /// The models are in another folder, or stay.
    Brought(Box<Result<Brought, NotBrought>>),
    /// The setting for the folder was changed, or could not be.
    FolderChosen(Result<Option<PathBuf>, NodeError>),
    /// What a move left is gone; what the models' files are now.
    Cleared(Stamps),
    /// The file of a model was read again.
    Reread {
        /// The model.
        model: ModelDigest,
        /// What came of it.
        reread: Reread,
    },
    /// The folder of the models was looked at; nothing, where the look failed.
    FolderSeen(Option<Box<FolderSeen>>),
    /// A list of models came from outside, and was checked.
    CatalogueCame(Box<Catalogue>),
    /// Layers are wanted that may not be here: [`LibraryEffect::Part`] tells what became of it. A
    /// second wish for the same model widens the first.
    TakePart(PartWish),
    /// Layers of this model are wanted no more. What came stays, and each wish fails at once.
    StopPart(ModelDigest),
    /// The same, and what came goes.
    ForgetPart(ModelDigest),
    /// Partial models that are of use now: none of them goes to make room for others.
    PartsNeeded(BTreeSet<ModelDigest>),
    /// So many bytes may all partial models take together.
    PartsCap(u64),
    /// So many layers of each model stay on this device.
    EndsKept(KeptEnds),
    /// A job that takes layers has ended.
    PartEnded(Box<PartEnd>),
    /// A partial model was deleted, or is still there.
    PartDeleted {
        /// The model.
        model: ModelDigest,
        /// What is still there.
        partial: Option<Box<PartialModel>>,
    },
}

/// What the library sees of the node.
pub struct Surroundings<'a> {
    /// Now, for speeds.
    pub now: Instant,
    /// Seconds since 1970.
    pub unix: u64,
    /// The paired device that a person means by a name.
    pub paired: &'a dyn Fn(&str) -> Result<PeerId, NodeError>,
    /// What a device is called.
    pub name_of: &'a dyn Fn(PeerId) -> String,
    /// The link to a device from which this one may copy models, if it is there.
    pub giver: &'a dyn Fn(PeerId) -> Option<Giver>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("unix", &self.unix).finish_non_exhaustive()
    }
}

/// Something to be done, in this order.
#[derive(Debug)]
pub enum LibraryEffect {
    /// Models came or went: what is lent and what fits hang on that.
    ModelsChanged,
    /// The problems of one subject are these now.
    Note(&'static str, Vec<TroubleView>),
    /// The view is made current before anything that follows: whoever is answered looks at it next.
    Show,
    /// `models.folder` is set to this; [`LibraryEvent::FolderChosen`] tells how that went.
    ChooseFolder(SettingValue),
    /// A front end is answered.
    Answer(Answered),
    /// What became of a wish for layers: for whoever wished.
    Part(PartNotice),
    /// Work that takes time; for the runner.
    Run(Job),
}

/// An answer for a front end, and where it goes.
#[derive(Debug)]
pub enum Answered {
    /// Done, or why not.
    Done(Answer<()>, Result<(), NodeError>),
    /// A download was begun.
    Download(Answer<DownloadView>, Result<DownloadView, NodeError>),
    /// Models were searched for; whether each fits is for the node to say.
    Hub(Answer<HubView>, Result<HubView, NodeError>),
    /// A model joined the list.
    Model(Answer<ModelView>, Result<ModelDigest, NodeError>),
}

/// Work that takes time. Each ends with the event that is named.
#[derive(Debug)]
pub enum Job {
    /// Fetch a file from servers: [`LibraryEvent::Downloaded`].
    Fetch {
        /// Key of the download.
        key: String,
        /// What to fetch.
        order: Order,
        /// The permit to run.
        seat: Seat,
        /// How it runs.
        transfer: Transfer,
    },
    /// Copy a file from other devices of the household: [`LibraryEvent::Downloaded`].
    Copy {
        /// Key of the download.
        key: String,
        /// What to copy.
        order: CopyOrder,
        /// The permit to run.
        seat: Seat,
        /// How it runs.
        transfer: Transfer,
        /// Who can be asked.
        holders: watch::Receiver<Arc<Holders>>,
        /// Whom the owner wants to be asked first.
        first: Option<PeerId>,
        /// Whether files are to travel slowly.
        traffic: Traffic,
        /// The folder of the partial models: what is in there is not asked for.
        parts: Folder,
    },
    /// Search the hub for models: [`LibraryEvent::Searched`].
    Search {
        /// For what.
        search: Search,
        /// What asks.
        fetcher: Fetcher,
        /// Whoever asked.
        answer: Answer<HubView>,
    },
    /// Check that a file that came is the model that was wanted: [`LibraryEvent::Checked`].
    Check {
        /// Key of the download.
        key: String,
        /// The file.
        fetched: Fetched,
        /// The model, where it is known.
        wanted: Option<ModelDigest>,
        /// Where it goes.
        stager: Stager,
    },
    /// Delete the files of a download: [`LibraryEvent::Deleted`].
    Delete {
        /// Its key.
        key: FileKey,
        /// Where they lie.
        folder: Folder,
    },
    /// Check a file of the owner: [`LibraryEvent::Imported`].
    Import {
        /// The file.
        file: PathBuf,
        /// The name that is wished for.
        name: Option<String>,
        /// Whoever asks.
        answer: Answer<ModelView>,
        /// What checks it.
        stager: Stager,
    },
    /// Bring the models to another folder: [`LibraryEvent::Brought`]. Whoever asked is answered by
    /// the job, as soon as it is known whether it can be done.
    Bring {
        /// What is listed.
        library: Library,
        /// The folder; absent: the usual one.
        to: Option<PathBuf>,
        /// Models whose file moves, and where to.
        wanted: Vec<(ModelDigest, PathBuf)>,
        /// Ends it and takes everything back.
        stop: CancellationToken,
        /// Where it tells how far it is.
        tell: watch::Sender<MoveProgress>,
        /// Whoever asked.
        answer: Answer<()>,
    },
    /// End a move, all of which is in the new place: [`LibraryEvent::Cleared`].
    Settle(ModelsMove),
    /// Take a move back: [`LibraryEvent::Cleared`].
    Undo(ModelsMove),
    /// End the worker of a model once it is idle: it keeps a file open that was deleted, or lay
    /// elsewhere. No event.
    CloseWhenIdle(ModelDigest),
    /// Look at the folder of the models: [`LibraryEvent::FolderSeen`].
    LookAtFolder {
        /// What is listed.
        library: Library,
        /// The downloads that no job has in hand.
        downloads: DownloadsLook,
        /// Whether its disk was away at the last look; absent while models move, when no header is
        /// read.
        is_away: Option<bool>,
        /// Whether all headers are to be read.
        reads_all: bool,
    },
    /// Read all of a file again: [`LibraryEvent::Reread`].
    Reread(RereadJob),
    /// Take layers of a model: [`LibraryEvent::PartEnded`].
    TakePart(Box<PartJob>),
    /// Delete a partial model: [`LibraryEvent::PartDeleted`].
    DeletePart {
        /// The model.
        model: ModelDigest,
        /// Where it lies.
        folder: Folder,
    },
    /// Delete a partial model in a folder that was left. No event.
    LeavePart {
        /// The model.
        model: ModelDigest,
        /// Where it lies.
        folder: Folder,
    },
    /// Look for models of other programs. No event: it answers by itself.
    LookElsewhere {
        /// Files that are listed here.
        here: Vec<PathBuf>,
        /// Whoever asks.
        answer: Answer<Vec<FoundView>>,
    },
    /// Read what a model can. No event: it answers by itself.
    ReadCapabilities {
        /// The model.
        entry: Box<Entry>,
        /// Whoever asks.
        answer: Answer<CapabilitiesView>,
    },
}

/// How a file is transferred.
#[derive(Debug)]
pub struct Transfer {
    /// What fetches it.
    pub(crate) fetcher: Fetcher,
    /// Where its parts lie.
    pub(crate) folder: Folder,
    /// Ends it; what came is made durable.
    pub(crate) stop: CancellationToken,
    /// Where it tells how far it is.
    pub(crate) tell: watch::Sender<Progress>,
}
