//! Everything the house loop owns. Nobody else writes to it; others hold handles or snapshots.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use nook_base::tasks::Tasks;
use nook_base::{ModelDigest, PeerId};
use nook_fetch::{FetchError, Fetched};
use nook_find::{Finder, Tag};
use nook_link::Links;
use nook_link::pairing::{PairedPeer, Pairing, PairingEvent, PairingOffer};
use nook_store::{Home, Library, Peers, PortKeys, SettingsFile, Staged};
use nook_trust::{DeviceKey, Gate};
use tokio::sync::{mpsc, oneshot, watch};

use crate::adverts::{AdvertBook, Heard};
use crate::bulletins::Bulletins;
use crate::catalogue::Entry;
use crate::chats::ChatBook;
use crate::choice::outlook::Outlook;
use crate::copying::Copies;
use crate::downloads::{Downloads, Stocked};
use crate::fits::Fits;
use crate::gauges::Gauges;
use crate::host::{Host, Runner};
use crate::house::{Answer, GenerateRequest, HouseError, Reply};
use crate::keeping::Keeping;
use crate::meters::Meters;
use crate::moving::{Brought, FolderSeen, Moving, NotBrought};
use crate::placing::Wishes;
use crate::probing::{Probed, Probing};
use crate::quiet::Quiet;
use crate::records::{Note, Records};
use crate::reply::{Me, Unwanted};
use crate::shelf::Shelf;
use crate::views::{DecisionView, HouseView, KeyPlace, ModelView, PortView, TroubleView};
use crate::waking::Looks;
use crate::whole::Wholes;
use crate::workers::Workers;

/// What happens inside the node, besides commands, links and sightings.
#[derive(Debug)]
pub(crate) enum Inside {
    /// The other side of a pairing is proven; store it before anybody is told.
    Store { peer: PairedPeer, stored: oneshot::Sender<bool> },
    /// Something happened at the pairing window with this number.
    Window { number: u64, event: PairingEvent },
    /// A model was checked and may be listed.
    Imported {
        staged: Box<Result<Staged, HouseError>>,
        name: Option<String>,
        answer: Answer<ModelView>,
    },
    /// A download ended, with its file or without.
    Downloaded { key: String, outcome: Box<Result<Fetched, FetchError>> },
    /// A copy from another device ended; who alone has brought its bytes, if one device has.
    Copied { key: String, outcome: Box<Result<Fetched, FetchError>>, giver: Option<PeerId> },
    /// The files of a download that was deleted are gone.
    Deleted { key: String },
    /// A file that was downloaded was checked and may be listed.
    Stocked(Box<Stocked>),
    /// The models are in another folder, or stay; without a reason, whoever asked has it.
    Brought(Box<Result<Brought, NotBrought>>),
    /// What a move left is gone.
    Cleared,
    /// The folder of the models was looked at; nothing, where the look failed.
    FolderSeen(Option<Box<FolderSeen>>),
    /// A kept conversation wants a reply.
    Generate {
        request: Box<GenerateRequest>,
        conversation: Option<i64>,
        /// Told as soon as it has a place, be it in the queue.
        placed: oneshot::Sender<()>,
        answer: Answer<Reply>,
    },
    /// A reply of this device ended.
    ReplyEnded,
    /// How the usual reply with a model could be divided; nothing when that could not be seen.
    Outlook(ModelDigest, Option<Box<Outlook>>),
    /// Devices are being measured.
    Probed(Probed),
    /// Nobody will go on with what these replies with a model left.
    Unwanted(ModelDigest, Unwanted),
    /// A temporary conversation made room for another.
    ChatEnded(i64),
    /// A reply has something to tell about the devices that compute for it.
    Conduct(Note),
}

/// A reply that waits for its turn.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Box<GenerateRequest>,
    /// The kept conversation that it belongs to.
    pub(crate) conversation: Option<i64>,
    pub(crate) answer: Answer<Reply>,
}

/// A device that was seen by mDNS.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: Option<String>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) pairing_port: Option<u16>,
    pub(crate) at: u64,
}

/// The open pairing window of this device.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) number: u64,
    pub(crate) offer: PairingOffer,
    pub(crate) tries_left: u8,
    pub(crate) expires: u64,
}

/// The house.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) me: Me,
    /// Signs the tickets of this device's replies.
    pub(crate) key: Arc<DeviceKey>,
    pub(crate) key_place: KeyPlace,
    // Held for its lock too: no second node uses this home.
    pub(crate) home: Home,
    pub(crate) settings: SettingsFile,
    pub(crate) peers: Peers,
    pub(crate) gate: Gate,
    /// What programs at the port must present; doors hold receivers of it.
    pub(crate) port_keys: watch::Sender<PortKeys>,
    pub(crate) links: Links,
    pub(crate) listen_port: u16,
    pub(crate) finder: Option<Finder>,
    pub(crate) pairing: Arc<Pairing>,
    pub(crate) window: Option<Window>,
    pub(crate) windows: u64,
    pub(crate) seen: BTreeMap<Tag, Seen>,
    pub(crate) heard: BTreeMap<PeerId, Heard>,
    pub(crate) book: watch::Sender<Arc<AdvertBook>>,
    /// What is said to the devices that are linked.
    pub(crate) bulletins: Bulletins,
    /// What this device computes for others.
    pub(crate) host: Host,
    pub(crate) host_runner: Runner,
    /// When the loop looked around last.
    pub(crate) looks: Looks,
    /// Layers that this device asks others to hold.
    pub(crate) wishes: Wishes,
    pub(crate) meters: Meters,
    /// Whole requests between this device and others of the same person.
    pub(crate) whole: Wholes,
    /// Models that this device takes from others.
    pub(crate) copies: Copies,
    /// How other devices did in the replies of this one.
    pub(crate) records: Records,
    /// What of that is kept over a restart.
    pub(crate) keeping: Keeping,
    /// How fast the devices compute, and how far away they are.
    pub(crate) gauges: Gauges,
    /// The last reply and what was decided for it.
    pub(crate) last_decision: Option<(u64, DecisionView)>,
    pub(crate) probing: Probing,
    /// Whether memory is to be given back.
    pub(crate) quiet: Quiet,
    pub(crate) workers: Workers,
    pub(crate) shelf: Shelf,
    pub(crate) library: Library,
    pub(crate) catalogue: Vec<Entry>,
    pub(crate) downloads: Downloads,
    /// Where the models lie, beside what the library knows.
    pub(crate) moving: Moving,
    /// Which models the household has memory for.
    pub(crate) fits: Fits,
    pub(crate) chats: ChatBook,
    pub(crate) port: PortView,
    /// Each reply under way holds a clone, so that whatever ends it is counted.
    pub(crate) replies: Arc<()>,
    /// Replies that wait for one of those to end, in order; at most [`REPLIES_WAITING_MAX`].
    ///
    /// [`REPLIES_WAITING_MAX`]: crate::house::REPLIES_WAITING_MAX
    pub(crate) waiting: VecDeque<Waiting>,
    /// Problems by subject; the newest of each.
    pub(crate) problems: BTreeMap<&'static str, Vec<TroubleView>>,
    pub(crate) inside: mpsc::Sender<Inside>,
    pub(crate) view: watch::Sender<Arc<HouseView>>,
    pub(crate) tasks: Tasks,
}

impl State {
    /// Replies of this device that are under way.
    pub(crate) fn replies_running(&self) -> usize {
        Arc::strong_count(&self.replies).saturating_sub(1)
    }
}
