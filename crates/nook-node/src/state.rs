//! Everything the house loop owns. Nobody else writes to it; others hold handles or snapshots.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_fetch::{FetchError, Fetched};
use nook_find::{Finder, Tag};
use nook_link::Links;
use nook_link::pairing::{PairedPeer, Pairing, PairingEvent, PairingOffer};
use nook_store::{Home, Library, MeasuredFile, Peers, PortKeys, SettingsFile, Staged};
use nook_trust::Gate;
use tokio::sync::{mpsc, oneshot, watch};

use crate::bulletins::Bulletins;
use crate::chats::ChatBook;
use crate::copying::Copies;
use crate::downloads::{Downloads, Stocked};
use crate::fits::Fits;
use crate::house::{Answer, GenerateRequest, HouseError, Reply};
use crate::meters::Meters;
use crate::moving::{Brought, FolderSeen, Moving, NotBrought};
use crate::quiet::Quiet;
use crate::views::{HouseView, KeyPlace, ModelView, PortView, TroubleView};
use crate::waking::Looks;
use nook_host::{Host, Runner as HostRunner};
use nook_requester::Me;
use nook_requester::{Requester, Runner};
use nook_resources::adverts::{AdvertBook, Heard};
use nook_resources::catalogue::Entry;
use nook_resources::workers::Workers;

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
    /// A temporary conversation made room for another.
    ChatEnded(i64),
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
    pub(crate) host_runner: HostRunner,
    /// When the loop looked around last.
    pub(crate) looks: Looks,
    pub(crate) meters: Meters,
    /// Models that this device takes from others.
    pub(crate) copies: Copies,
    /// The asking side, and what carries out its work.
    pub(crate) requester: Requester,
    pub(crate) runner: Runner,
    /// What was measured, kept over a restart.
    pub(crate) measured: MeasuredFile,
    /// Whether memory is to be given back.
    pub(crate) quiet: Quiet,
    pub(crate) workers: Workers,
    /// The models that are open.
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
    pub(crate) inside: mpsc::Sender<Inside>,
    pub(crate) view: watch::Sender<Arc<HouseView>>,
    pub(crate) tasks: Tasks,
}
