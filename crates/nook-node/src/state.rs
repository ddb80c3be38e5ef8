//! Everything the house loop owns. Nobody else writes to it; others hold handles or snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, LayerRange, ModelDigest, PeerId};
use nook_fetch::{FetchError, Fetched};
use nook_find::{Finder, Tag};
use nook_link::pairing::{PairedPeer, Pairing, PairingEvent, PairingOffer};
use nook_link::{Link, Links};
use nook_machine::{Conditions, Machine};
use nook_mux::Call;
use nook_store::{Home, Library, MeasuredFile, Peers, PortKeys, SettingsFile, Staged};
use nook_trust::{Gate, Ticket};
use nook_wire::Message;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::bulletins::Bulletins;
use crate::chats::ChatBook;
use crate::copying::Copies;
use crate::downloads::{Downloads, Stocked};
use crate::fits::Fits;
use crate::holding_back::HoldingBack;
use crate::holdings::{Holdings, Surveyed};
use crate::house::{Answer, GenerateRequest, HouseError, Reply, Sharing};
use crate::meters::Meters;
use crate::moving::{Brought, FolderSeen, Moving, NotBrought};
use crate::placing::{Leases, Progress};
use crate::quiet::Quiet;
use crate::requester::records::Note;
use crate::requester::reply::Me;
use crate::requester::{Requester, Runner};
use crate::resources::adverts::{AdvertBook, Heard};
use crate::resources::catalogue::Entry;
use crate::resources::shelf::Shelf;
use crate::resources::workers::Workers;
use crate::tally::Tally;
use crate::views::{HouseView, KeyPlace, ModelView, PortView, TroubleView};
use crate::whole::Wholes;

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
    /// A guest's stream began or ended.
    Lending,
    /// That is to be told now.
    AdvertDue,
    /// What was lent of these models has drained.
    Drained(BTreeSet<ModelDigest>),
    /// The workers have said what they hold.
    Surveyed(Surveyed),
    /// Layers that another device asked for come into memory, are there, or will not be.
    Placing(Progress),
    /// Layers that are to be freed once no conversation is held.
    Owed(ModelDigest, LayerRange),
    /// The machine was looked at; without conditions, the look failed.
    Looked(Box<Machine>, Option<Conditions>),
    /// The machine is about to sleep, and waits a moment for `ready`.
    SleepNear { ready: oneshot::Sender<()> },
    /// It is awake again.
    SleepOver,
    /// A guest's results are to go on to this device.
    NextHost { peer: PeerId, answer: oneshot::Sender<Result<Link, ErrorCode>> },
    /// A device brings steps in another's name.
    Relay { carrier: PeerId, ticket: Box<Ticket>, call: Call<Message> },
    /// A temporary conversation made room for another.
    ChatEnded(i64),
    /// What a guest was answered tells how fast this device is.
    Conduct(Note),
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

/// Lending as it stands; at first nothing is lent.
#[derive(Debug)]
pub(crate) struct Lending {
    /// What the owner chose.
    pub(crate) sharing: Sharing,
    /// Absent while nothing is lent, by choice or because lending is held back.
    pub(crate) terms: Option<crate::lending::Terms>,
    pub(crate) streams_max: u16,
    /// One permit a stream, over all models and workers. It outlives the terms, so that streams which
    /// still end under old ones count; a new one is made only when the number itself changes.
    pub(crate) streams: Arc<Semaphore>,
    /// Whether an advert waits for its moment.
    pub(crate) tells_soon: bool,
    /// Who is helped now, and how much. It outlives the terms, as streams that still end do.
    pub(crate) usage: crate::lending::Usage,
    /// Ends the calls of one device when it is trusted less.
    pub(crate) guests: BTreeMap<PeerId, CancellationToken>,
    /// Models whose memory is to be freed once no reply of this device needs it.
    pub(crate) owed: BTreeSet<ModelDigest>,
}

impl Default for Lending {
    fn default() -> Self {
        Self {
            sharing: Sharing::default(),
            terms: None,
            streams_max: 0,
            streams: Arc::new(Semaphore::new(0)),
            tells_soon: false,
            usage: crate::lending::Usage::default(),
            guests: BTreeMap::new(),
            owed: BTreeSet::new(),
        }
    }
}

/// The house.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) me: Me,
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
    pub(crate) lending: Lending,
    pub(crate) holding_back: HoldingBack,
    /// Layers that other devices asked this one to hold.
    pub(crate) leases: Leases,
    pub(crate) meters: Meters,
    /// Whole requests between this device and others of the same person.
    pub(crate) whole: Wholes,
    /// Models that this device gives to others, and takes from them.
    pub(crate) copies: Copies,
    /// What this device's workers hold.
    pub(crate) holdings: Holdings,
    /// The asking side, and what carries out its work.
    pub(crate) requester: Requester,
    pub(crate) runner: Runner,
    /// What was measured, kept over a restart.
    pub(crate) measured: MeasuredFile,
    /// How much was computed for others.
    pub(crate) tally: Tally,
    /// Whether memory is to be given back.
    pub(crate) quiet: Quiet,
    pub(crate) workers: Workers,
    /// The models that are open.
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
    /// Problems by subject; the newest of each.
    pub(crate) problems: BTreeMap<&'static str, Vec<TroubleView>>,
    pub(crate) advertised_at: Option<Instant>,
    pub(crate) inside: mpsc::Sender<Inside>,
    pub(crate) view: watch::Sender<Arc<HouseView>>,
    pub(crate) tasks: Tasks,
}
