//! Links to devices: one stands, goes another way, or has ended.

use std::net::SocketAddr;

use nook_base::{PeerId, WakeAddress};
use nook_host::HostEvent;
use nook_library::LibraryEvent;
use nook_requester::Event;

use super::{DeviceEffect, Devices, PEERS, Surroundings, TWIN, not_saved};

/// What a link that stands says of the other device.
#[derive(Debug)]
pub(crate) struct LinkUp {
    pub(crate) peer: PeerId,
    /// Where it takes links.
    pub(crate) listens_at: Option<SocketAddr>,
    /// What it calls itself: untrusted text.
    pub(crate) name: String,
    /// Its program's version: untrusted text.
    pub(crate) app_version: String,
    /// How this device is woken from there.
    pub(crate) wake_from: Vec<WakeAddress>,
}

/// Where a link goes now.
#[derive(Debug)]
pub(crate) struct LinkMoved {
    pub(crate) peer: PeerId,
    /// Where the device takes links.
    pub(crate) listens_at: Option<SocketAddr>,
    /// How this device is woken from there.
    pub(crate) wake_from: Vec<WakeAddress>,
}

impl Devices {
    pub(super) fn on_link_up(&mut self, up: LinkUp, around: &Surroundings<'_>) {
        let LinkUp { peer, listens_at, name, app_version, wake_from } = up;
        if self.peers.get(peer).is_none() {
            // Unpaired while the link came up: it ends by itself, and is no device of the list.
            return;
        }
        self.linked.insert(peer, app_version);
        self.wake_from.insert(peer, wake_from);
        let noted = self.peers.note_reached(peer, listens_at, around.unix);
        self.note(PEERS, noted.err().map(|error| not_saved(&error)));
        self.take_name(peer, &name);
        self.woke(peer, around);
        self.push(DeviceEffect::Reached(peer));
        // It may not have known this device when it was dialled between the two moments in which
        // either side of a pairing is stored.
        self.clear_troubles(peer);
        self.push(DeviceEffect::Requester(Event::LinkChanged(peer)));
        self.push(DeviceEffect::Library(LibraryEvent::LinkChanged(peer)));
    }

    /// The link goes another way: it is the same device, and nothing that it said is void.
    pub(super) fn on_link_moved(&mut self, moved: LinkMoved, around: &Surroundings<'_>) {
        let LinkMoved { peer, listens_at, wake_from } = moved;
        if self.peers.get(peer).is_none() {
            return;
        }
        self.wake_from.insert(peer, wake_from);
        let noted = self.peers.note_reached(peer, listens_at, around.unix);
        self.note(PEERS, noted.err().map(|error| not_saved(&error)));
        self.push(DeviceEffect::Reached(peer));
        self.push(DeviceEffect::Show);
    }

    pub(super) fn on_link_down(&mut self, peer: PeerId) {
        self.linked.remove(&peer);
        self.heard.remove(&peer);
        self.terms.remove(&peer);
        self.facts.remove(&peer);
        self.wake_from.remove(&peer);
        self.new_names.remove(&peer);
        // A copy that is still there tries again, and is told again.
        self.note_of(TWIN, peer, None);
        self.push(DeviceEffect::Requester(Event::LinkChanged(peer)));
        self.push(DeviceEffect::Library(LibraryEvent::LinkChanged(peer)));
        self.push(DeviceEffect::Host(HostEvent::LinkDown(peer)));
        if self.peers.get(peer).is_none() {
            self.push(DeviceEffect::DropOutbox(peer));
        }
        self.push(DeviceEffect::Requester(Event::OffersChanged));
        self.push(DeviceEffect::PublishBook);
    }
}
