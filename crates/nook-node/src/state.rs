//! Everything that the event loop owns. Nobody else writes to it; others hold handles or snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_find::Finder;
use nook_link::Links;
use nook_link::pairing::{Pairing, PairingOffer};
use nook_store::{Home, MeasuredFile, PortKeys, SettingsFile};
use tokio::sync::{mpsc, watch};

use crate::awake::Awake;
use crate::card_watch::CardWatch;
use crate::chats::ChatBook;
use crate::devices::{DeviceEvent, Devices};
use crate::fits::KnownFits;
use crate::kept_privacy::KeptPrivacy;
use crate::machine_seen::MachineSeen;
use crate::meters::Meters;
use crate::outbox::Outbox;
use crate::quiet::Quiet;
use crate::updates::NewVersionsHere;
use crate::waking::Looks;
use crate::ways::WayNow;
use nook_api::Restart;
use nook_api::views::{HouseholdView, KeyPlace, PortView, TroubleView};
use nook_host::{Host, Runner as HostRunner};
use nook_library::{ModelLibrary, Runner as LibraryRunner};
use nook_machine::Rest;
use nook_requester::Me;
use nook_requester::{Requester, Runner};
use nook_resources::adverts::AdvertBook;
use nook_resources::workers::Workers;

/// The pairing window of this device; closed when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct OpenWindow {
    pub(crate) offer: Option<PairingOffer>,
    /// How many were opened.
    pub(crate) count: u64,
}

/// The node.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) me: Me,
    pub(crate) key_place: KeyPlace,
    // Held for its lock too: no second node uses this home.
    pub(crate) home: Home,
    pub(crate) settings: SettingsFile,
    /// Other devices: who is seen, paired, trusted and linked.
    pub(crate) devices: Devices,
    /// What programs at the port must present; doors hold receivers of it.
    pub(crate) port_keys: watch::Sender<PortKeys>,
    pub(crate) links: Links,
    pub(crate) listen_port: u16,
    pub(crate) finder: Option<Finder>,
    pub(crate) pairing: Arc<Pairing>,
    pub(crate) pairing_window: OpenWindow,
    pub(crate) book: watch::Sender<Arc<AdvertBook>>,
    /// What is said to the devices that are linked.
    pub(crate) outbox: Outbox,
    /// Which way each link goes.
    pub(crate) ways: BTreeMap<PeerId, WayNow>,
    /// Whether the graphics cards are left alone.
    pub(crate) cards: CardWatch,
    /// What this computer is and how it is; a task looks from time to time.
    pub(crate) machine: watch::Sender<MachineSeen>,
    /// What this device computes for others.
    pub(crate) host: Host,
    pub(crate) host_runner: HostRunner,
    /// When the loop looked around last.
    pub(crate) looks: Looks,
    /// Whether this machine is needed, and what holds its rest off meanwhile.
    pub(crate) awake: Awake,
    pub(crate) rest: watch::Sender<Rest>,
    pub(crate) meters: Meters,
    /// The asking side, and what carries out its work.
    pub(crate) requester: Requester,
    pub(crate) runner: Runner,
    /// What was measured, kept over a restart.
    pub(crate) measured: MeasuredFile,
    /// What was measured of how much a helper could read.
    pub(crate) privacy: KeptPrivacy,
    /// Whether memory is to be given back.
    pub(crate) quiet: Quiet,
    pub(crate) workers: Workers,
    /// The models of this device, and what carries out its work.
    pub(crate) library: ModelLibrary,
    pub(crate) library_runner: LibraryRunner,
    /// Which models the household has memory for.
    pub(crate) fits: KnownFits,
    pub(crate) chats: ChatBook,
    pub(crate) port: PortView,
    /// Problems by subject; the newest of each.
    pub(crate) problems: BTreeMap<&'static str, Vec<TroubleView>>,
    /// Where tasks of pairings report.
    pub(crate) device_events: mpsc::Sender<DeviceEvent>,
    pub(crate) view: watch::Sender<Arc<HouseholdView>>,
    /// What is known of new versions of the program.
    pub(crate) updates: NewVersionsHere,
    /// Whether the program is to start anew once nothing is under way.
    pub(crate) restart: Arc<Restart>,
    pub(crate) tasks: Tasks,
}
