//! The devices this one is paired with, and how far each is trusted.
//!
//! One file, `peers.json`; every change is on the disk before it counts, so pairing shows success
//! only for what survives a power cut. A damaged file is an error: guessing would mean to trust too
//! many or to forget the house.

use std::net::SocketAddr;
use std::path::PathBuf;

use nook_base::{PeerId, WakeAddress};
use nook_trust::{DeviceName, TrustLevel};
use serde::{Deserialize, Serialize};

use crate::durable::FileError;
use crate::home::Home;
use crate::json::{self, DocumentError};

const FILE: &str = "peers.json";
const VERSION: u64 = 1;

/// Most paired devices; a further pairing is refused.
pub const PEERS_MAX: usize = 128;

/// Most addresses remembered for one device; the one that worked longest ago is forgotten.
pub const PEER_ADDRESSES_MAX: usize = 8;

/// "Last seen" is written at most this often, in seconds: it is shown in minutes.
const LAST_SEEN_GRAIN_SECONDS: u64 = 60;

/// A paired device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Which device.
    pub id: PeerId,
    /// What it calls itself, or what the owner of this machine calls it.
    pub name: DeviceName,
    /// How far the owner of this machine trusts it.
    pub level: TrustLevel,
    /// Where it was reached, the latest success first.
    pub addresses: Vec<SocketAddr>,
    /// When it was paired, in seconds since 1970.
    pub paired_at: u64,
    /// When it was last connected, in seconds since 1970.
    pub last_seen: Option<u64>,
    /// What the owner of this machine has said about helping each other.
    pub help: HelpAnswer,
    /// Where it said that this machine may wake it; none where it does not want that.
    pub wake: Vec<WakeAddress>,
    /// How many seconds it took to be there when it was woken last.
    pub woke_seconds: Option<u32>,
}

/// What the owner has answered to *May these two computers help each other?*
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelpAnswer {
    /// Nothing yet: the question is open.
    Open,
    /// What follows from the level of trust.
    #[default]
    ByTrust,
    /// This machine helps the other one and does not ask it for help.
    OnlyThis,
}

/// The paired devices of one home.
#[derive(Debug)]
pub struct Peers {
    path: PathBuf,
    peers: Vec<Peer>,
}

/// A list of devices that cannot be read or changed. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeersError {
    /// The file cannot be used.
    #[error("the list of paired devices cannot be used, so no device is let in: {0}")]
    Document(#[from] DocumentError),
    /// The change could not be saved.
    #[error("the list of paired devices was not changed: {0}")]
    Save(#[from] FileError),
    /// No such device.
    #[error("{id:?} is not paired with this device")]
    NotPaired {
        /// Which one.
        id: PeerId,
    },
    /// The list is full.
    #[error("{PEERS_MAX} devices are paired already; remove one first")]
    Full,
    /// A paired device is at least a guest, or blocked.
    #[error("a paired device cannot be `{level}`")]
    NoSuchLevel {
        /// The level asked for.
        level: TrustLevel,
    },
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    peers: Vec<PeerEntry>,
}

/// A peer as it stands in the file.
#[derive(Serialize, Deserialize)]
struct PeerEntry {
    id: String,
    name: String,
    level: TrustLevel,
    addresses: Vec<SocketAddr>,
    paired_at: u64,
    last_seen: Option<u64>,
    #[serde(default)]
    help: HelpAnswer,
    #[serde(default)]
    wake: Vec<WakeAddress>,
    #[serde(default)]
    woke_seconds: Option<u32>,
}

impl Peers {
    /// Reads the paired devices of `home`; a missing file means none.
    pub fn load(home: &Home) -> Result<Self, PeersError> {
        let path = home.file(FILE);
        let document: Option<Document> = json::load(&path, VERSION)?;
        let mut peers: Vec<Peer> = Vec::new();
        for entry in document.map(|document| document.peers).unwrap_or_default() {
            let peer = understand(entry).map_err(|reason| json::damaged(&path, reason))?;
            if peers.iter().any(|other| other.id == peer.id) {
                let reason = format!("{:?} stands there twice", peer.id);
                return Err(json::damaged(&path, reason).into());
            }
            peers.push(peer);
        }
        if peers.len() > PEERS_MAX {
            let reason = format!("{} devices, at most {PEERS_MAX} are possible", peers.len());
            return Err(json::damaged(&path, reason).into());
        }
        Ok(Self { path, peers })
    }

    /// All paired devices, in the order of pairing.
    #[must_use]
    pub fn list(&self) -> &[Peer] {
        &self.peers
    }

    /// The device `id`, if it is paired.
    #[must_use]
    pub fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.id == id)
    }

    /// Id and level of each device, for the gate.
    pub fn levels(&self) -> impl Iterator<Item = (PeerId, TrustLevel)> + '_ {
        self.peers.iter().map(|peer| (peer.id, peer.level))
    }

    /// Adds a device that was just paired. One that was paired before keeps its place and its
    /// remembered addresses, and gets the new name and level.
    pub fn add(&mut self, peer: Peer) -> Result<(), PeersError> {
        check_level(peer.level)?;
        self.change(|peers| {
            let is_full = peers.len() >= PEERS_MAX;
            match peers.iter_mut().find(|known| known.id == peer.id) {
                Some(known) => {
                    let mut addresses = peer.addresses.clone();
                    addresses.append(&mut known.addresses);
                    *known = Peer { addresses, ..peer };
                    tidy_addresses(&mut known.addresses);
                }
                None if is_full => return Err(PeersError::Full),
                None => {
                    let mut peer = peer;
                    tidy_addresses(&mut peer.addresses);
                    peers.push(peer);
                }
            }
            Ok(())
        })
    }

    /// Sets how far a device is trusted, and what the owner says about helping each other.
    pub fn set_level(
        &mut self,
        id: PeerId,
        level: TrustLevel,
        help: HelpAnswer,
    ) -> Result<(), PeersError> {
        check_level(level)?;
        self.change_one(id, |peer| (peer.level, peer.help) = (level, help))
    }

    /// The devices that this one helps and does not ask for help.
    pub fn only_helped(&self) -> impl Iterator<Item = PeerId> + '_ {
        let only = self.peers.iter().filter(|peer| peer.help == HelpAnswer::OnlyThis);
        only.map(|peer| peer.id)
    }

    /// Gives a device another name on this machine.
    pub fn rename(&mut self, id: PeerId, name: DeviceName) -> Result<(), PeersError> {
        self.change_one(id, |peer| peer.name = name)
    }

    /// Forgets a device: it must be paired again.
    pub fn remove(&mut self, id: PeerId) -> Result<(), PeersError> {
        self.change(|peers| {
            let before = peers.len();
            peers.retain(|peer| peer.id != id);
            if peers.len() == before {
                return Err(PeersError::NotPaired { id });
            }
            Ok(())
        })
    }

    /// Notes that a device was reached at `address` at `now` (seconds since 1970). Written only
    /// when that is news.
    pub fn note_reached(
        &mut self,
        id: PeerId,
        address: Option<SocketAddr>,
        now: u64,
    ) -> Result<(), PeersError> {
        let peer = self.get(id).ok_or(PeersError::NotPaired { id })?;
        let is_first = address.is_none() || peer.addresses.first() == address.as_ref();
        // A clock that was set back makes news too, else the stamp would stay in the future.
        let is_fresh =
            peer.last_seen.is_some_and(|seen| now.abs_diff(seen) < LAST_SEEN_GRAIN_SECONDS);
        if is_first && is_fresh {
            return Ok(());
        }
        self.change_one(id, |peer| {
            peer.last_seen = Some(now);
            if let Some(address) = address {
                peer.addresses.insert(0, address);
                tidy_addresses(&mut peer.addresses);
            }
        })
    }

    /// Notes where a device may be woken. Written only when that is news.
    pub fn note_wake(&mut self, id: PeerId, wake: Vec<WakeAddress>) -> Result<(), PeersError> {
        let peer = self.get(id).ok_or(PeersError::NotPaired { id })?;
        if peer.wake == wake {
            return Ok(());
        }
        self.change_one(id, |peer| peer.wake = wake)
    }

    /// Notes how long it took to wake a device.
    pub fn note_woken(&mut self, id: PeerId, seconds: u32) -> Result<(), PeersError> {
        self.change_one(id, |peer| peer.woke_seconds = Some(seconds))
    }

    fn change_one(&mut self, id: PeerId, change: impl FnOnce(&mut Peer)) -> Result<(), PeersError> {
        self.change(|peers| {
            let peer =
                peers.iter_mut().find(|peer| peer.id == id).ok_or(PeersError::NotPaired { id })?;
            change(peer);
            Ok(())
        })
    }

    /// Changes a copy, saves it, and only then lets it count.
    fn change(
        &mut self,
        change: impl FnOnce(&mut Vec<Peer>) -> Result<(), PeersError>,
    ) -> Result<(), PeersError> {
        let mut peers = self.peers.clone();
        change(&mut peers)?;
        let document =
            Document { version: VERSION, peers: peers.iter().map(PeerEntry::from).collect() };
        json::save(&self.path, &document)?;
        self.peers = peers;
        Ok(())
    }
}

impl From<&Peer> for PeerEntry {
    fn from(peer: &Peer) -> Self {
        Self {
            id: peer.id.to_string(),
            name: peer.name.as_str().to_owned(),
            level: peer.level,
            addresses: peer.addresses.clone(),
            paired_at: peer.paired_at,
            last_seen: peer.last_seen,
            help: peer.help,
            wake: peer.wake.clone(),
            woke_seconds: peer.woke_seconds,
        }
    }
}

fn understand(entry: PeerEntry) -> Result<Peer, String> {
    let id: PeerId = entry
        .id
        .parse()
        .map_err(|error| format!("`{}` is no device id: {error}", entry.id.escape_debug()))?;
    check_level(entry.level).map_err(|error| format!("{id:?}: {error}"))?;
    let mut addresses = entry.addresses;
    tidy_addresses(&mut addresses);
    Ok(Peer {
        id,
        name: DeviceName::sanitised(&entry.name),
        level: entry.level,
        addresses,
        paired_at: entry.paired_at,
        last_seen: entry.last_seen,
        help: entry.help,
        wake: entry.wake,
        woke_seconds: entry.woke_seconds,
    })
}

fn check_level(level: TrustLevel) -> Result<(), PeersError> {
    if level == TrustLevel::Unknown {
        return Err(PeersError::NoSuchLevel { level });
    }
    Ok(())
}

/// Each address once, the first mention counts, at most [`PEER_ADDRESSES_MAX`].
fn tidy_addresses(addresses: &mut Vec<SocketAddr>) {
    let mut kept: Vec<SocketAddr> = Vec::new();
    addresses.retain(|address| {
        let is_new = !kept.contains(address) && kept.len() < PEER_ADDRESSES_MAX;
        if is_new {
            kept.push(*address);
        }
        is_new
    });
}
