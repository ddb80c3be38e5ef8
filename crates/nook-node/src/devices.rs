//! Other devices: seen, paired, trusted, connected.

mod joining;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nook_base::limits::ADVERT_LIFE_SILENCES;
use nook_base::{ErrorCode, PeerId, Sensitive, clock};
use nook_find::{Advertisement, Sighting, Tag};
use nook_link::pairing::{NotStored, OfferConfig, OfferError, PairedPeer, PairingEvent, StorePeer};
use nook_link::{KnownPeer, LinkEvent};
use nook_store::{Peer, PeersError};
use nook_trust::pairing::{Introduction, PairingCode};
use nook_trust::purpose::RemoteWhole;
use nook_trust::{DeviceName, Gate, TrustLevel};
use nook_wire::{Advert, Message};
use tokio::sync::oneshot;

use crate::house::{Answer, HouseError, PairTarget};
use crate::state::{Inside, Seen, State, Window};
use crate::views::{DeviceTrouble, DeviceView, PairingView, Trouble, TroubleView, Trust, Wording};
use nook_host::HostEvent;
use nook_requester::Event;
use nook_resources::adverts::{AdvertBook, Heard, OwnDevice};

/// Longest wait for a name typed as an address to be resolved.
const RESOLVE_LIMIT: Duration = Duration::from_secs(5);

/// Wrong codes that a window takes.
const TRIES: u8 = 3;

impl State {
    /// Something was seen, or is gone.
    pub(crate) fn on_sighting(&mut self, sighting: Sighting) {
        match sighting {
            Sighting::Seen { tag, name, addresses, pairing_port, .. } => {
                if let Some(peer) = self.paired_by_tag(tag) {
                    self.links.sighted(peer, addresses.clone());
                }
                let at = clock::unix_seconds();
                self.seen.insert(tag, Seen { name, addresses, pairing_port, at });
            }
            Sighting::Gone { tag } => {
                if let Some(peer) = self.paired_by_tag(tag) {
                    self.links.sighted(peer, Vec::new());
                }
                self.seen.remove(&tag);
            }
        }
    }

    /// Something happened on a link.
    pub(crate) fn on_link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(link) => {
                let peer = link.peer();
                tracing::info!(?peer, remote = %link.remote(), "connected");
                let noted = self.peers.note_reached(peer, link.listens_at(), clock::unix_seconds());
                self.note("peers", noted.err().map(|error| not_saved(&error)));
                self.take_name(peer, &link.hello().device_name);
                if let Some(finder) = &self.finder {
                    finder.reached(&peer);
                }
                self.problems.remove("version");
                self.is_known_again(peer);
                self.ask(Event::LinkChanged(peer));
                self.copies_gone(peer);
                let owed = self.bulletins.linked(peer, link.mux().clone(), &self.tasks);
                owed.into_iter().for_each(|kept| self.say_drop(peer, kept));
                self.tell_host(HostEvent::LinkUp(peer));
            }
            LinkEvent::Down { peer, reason, .. } => {
                tracing::info!(?peer, %reason, "disconnected");
                self.heard.remove(&peer);
                self.ask(Event::LinkChanged(peer));
                self.copies_gone(peer);
                self.tell_host(HostEvent::LinkDown(peer));
                self.bulletins.gone(peer);
                if self.peers.get(peer).is_none() {
                    self.bulletins.forget(peer);
                }
                self.ask(Event::OffersChanged);
                self.publish_book();
            }
            LinkEvent::IncomingCall { peer, call } => {
                self.tell_host(HostEvent::Call { peer, call });
            }
            LinkEvent::Control { peer, message } => self.on_message(peer, message),
            LinkEvent::PinRefused { peer, address, .. } => {
                tracing::warn!(?peer, %address, "something else answers at this device's address");
            }
            LinkEvent::RefusedByPeer { peer } => {
                tracing::warn!(?peer, "it does not know this device any more");
                let forgot = forgot(&self.name_of(peer));
                self.note("refused", [forgot]);
            }
            LinkEvent::VersionMismatch { peer, versions, .. } => {
                let trouble = versions::trouble(&self.name_of(peer), versions);
                self.note("version", [trouble]);
            }
            LinkEvent::SameIdTwice { peer, kept, refused } => {
                let name = self.name_of(peer);
                let words = format!(
                    "Two computers present themselves as {name} ({kept} and {refused}): one was \
                     copied from the other. Remove Inglenook's data folder on the copy."
                );
                let (kept, refused) = (kept.to_string(), refused.to_string());
                let trouble = DeviceTrouble::Twice { kept, refused };
                self.note("twin", [TroubleView::with(&name, words, trouble)]);
            }
        }
    }

    /// A device that connects knows this one. It did not when it was dialled between the two moments in
    /// which either side of a pairing is stored.
    fn is_known_again(&mut self, peer: PeerId) {
        let forgot = forgot(&self.name_of(peer));
        if let Some(troubles) = self.problems.get_mut("refused") {
            troubles.retain(|trouble| *trouble != forgot);
        }
    }

    /// A device that was renamed says so when it connects.
    fn take_name(&mut self, peer: PeerId, said: &str) {
        let name = DeviceName::sanitised(said);
        if self.peers.get(peer).is_some_and(|known| known.name != name) {
            let renamed = self.peers.rename(peer, name);
            self.note("peers", renamed.err().map(|error| not_saved(&error)));
            self.publish_book();
        }
    }

    fn on_message(&mut self, peer: PeerId, message: Message) {
        match message {
            Message::Place(wish) => self.tell_host(HostEvent::Place { peer, wish }),
            Message::Placed(placed) => self.ask(Event::Placed(peer, placed)),
            Message::DropKept(kept) => self.tell_host(HostEvent::DropKept { peer, kept }),
            Message::Advert(advert) => {
                let shards = |advert: &Advert| (advert.shards.clone(), advert.memory_free_bytes);
                let before = self.heard.get(&peer).map(|heard| shards(&heard.advert));
                if before != Some(shards(&advert)) {
                    self.ask(Event::OffersChanged);
                }
                let silent_max = self.settings.settings().inference.shard_health_timeout;
                let life = silent_max.saturating_mul(ADVERT_LIFE_SILENCES);
                let link = self.links.link(peer);
                let app_version = link.map(|it| it.hello().app_version.clone()).unwrap_or_default();
                let heard = Heard { advert, at: clock::now(), life, app_version };
                self.heard.insert(peer, heard);
                self.publish_book();
            }
            Message::WholeOffers(offers) => self.ask(Event::WholeOffers(peer, offers)),
            Message::Have(have) => self.on_have(peer, have),
            Message::Draining { .. } => {
                self.heard.remove(&peer);
                self.publish_book();
            }
            other => {
                tracing::debug!(?peer, message = ?nook_wire::WireMessage::kind(&other), "ignored")
            }
        }
    }

    /// Publishes what replies may route by. Only devices that the gate lets compute are in it.
    pub(crate) fn publish_book(&mut self) {
        let may_compute =
            |peer: &PeerId| self.gate.check(*peer, nook_trust::Purpose::Borrow).is_ok();
        let on = self.settings.settings().inference.enabled;
        let paired = self.peers.list().iter().map(|peer| peer.id);
        let (admitted, barred): (BTreeSet<_>, BTreeSet<_>) = paired.partition(may_compute);
        let keepers = if on { admitted } else { BTreeSet::new() };
        let hears = |peer: &PeerId| keepers.contains(peer) && self.links.link(*peer).is_some();
        let heard = self.heard.iter().filter(|(peer, _)| hears(peer));
        let book = AdvertBook {
            heard: heard.map(|(peer, heard)| (*peer, heard.clone())).collect(),
            barred,
            keepers,
            left_out: self.requester.left_out(clock::now()),
            suspected: self.requester.suspected(clock::now()),
            wrong: self.requester.wrong(clock::now()),
            own: self.own_devices(),
            names: self
                .peers
                .list()
                .iter()
                .map(|peer| (peer.id, peer.name.as_str().to_owned()))
                .collect(),
        };
        self.book.send_replace(Arc::new(book));
    }

    /// Devices of the same person that would run whole requests of this one, where its owner wants that.
    fn own_devices(&self) -> BTreeMap<PeerId, OwnDevice> {
        let inference = &self.settings.settings().inference;
        if !inference.enabled || !inference.whole_on_own_devices {
            return BTreeMap::new();
        }
        let own = |peer: &PeerId| {
            let pass = self.gate.admit::<RemoteWhole>(*peer).ok()?;
            let offers = self.links.link(*peer).and(self.requester.whole_offers(*peer))?;
            let offers = offers.offers.clone();
            Some((*peer, OwnDevice { pass, offers }))
        };
        self.peers.list().iter().filter_map(|peer| own(&peer.id)).collect()
    }

    /// Tells links, gate and finder who is paired now.
    pub(crate) fn peers_changed(&mut self) {
        let settings = self.settings.settings();
        self.gate = Gate::new(settings.gate, self.peers.levels());
        self.tell_host(HostEvent::PeersChanged);
        self.publish_book();
        self.drop_of_barred();
        self.publish_holders();
        let connectable = self.peers.list().iter().filter(|peer| peer.level.may_connect());
        let known = connectable
            .map(|peer| KnownPeer { id: peer.id, addresses: peer.addresses.clone() })
            .collect();
        self.links.set_peers(known);
        if let Some(finder) = &self.finder {
            finder.set_paired(self.peers.list().iter().map(|peer| &peer.id));
        }
        for (tag, seen) in &self.seen {
            if let Some(peer) = self.paired_by_tag(*tag) {
                self.links.sighted(peer, seen.addresses.clone());
            }
        }
        self.tell_host(HostEvent::AdvertsChanged);
    }

    /// Opens a pairing window.
    pub(crate) fn show_code(&mut self) -> Result<PairingView, HouseError> {
        if self.window.is_some() {
            return self.pairing_view().ok_or_else(|| ErrorCode::RateLimited.into());
        }
        let config = OfferConfig {
            listen: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            port: 0,
            introduction: self.introduction(),
        };
        let (offer, mut events) =
            self.pairing.offer(config, self.storing(), &self.tasks).map_err(|error| {
                let (code, wording) = match &error {
                    OfferError::Refused { .. } => (ErrorCode::RateLimited, Wording::Code),
                    OfferError::Port { .. } => (ErrorCode::BadRequest, Wording::NoPairingPort),
                };
                HouseError::new(code, error.to_string()).worded(wording)
            })?;
        self.windows += 1;
        let number = self.windows;
        let left = offer.expires.saturating_duration_since(clock::now()).as_secs();
        let expires = clock::unix_seconds().saturating_add(left);
        self.window = Some(Window { number, offer, tries_left: TRIES, expires });
        let inside = self.inside.clone();
        self.tasks.spawn_until_cancelled("pairing-window", async move {
            while let Some(event) = events.recv().await {
                if inside.send(Inside::Window { number, event }).await.is_err() {
                    return;
                }
            }
        });
        self.announce();
        self.pairing_view().ok_or_else(|| ErrorCode::RateLimited.into())
    }

    /// Closes the pairing window.
    pub(crate) fn cancel_pairing(&mut self) {
        self.window = None;
        self.announce();
    }

    /// Something happened at a pairing window.
    pub(crate) fn on_window(&mut self, number: u64, event: PairingEvent) {
        let Some(window) = self.window.as_mut().filter(|window| window.number == number) else {
            return;
        };
        match event {
            PairingEvent::WrongCode { tries_left } => window.tries_left = tries_left,
            last => {
                tracing::info!(outcome = window_outcome(&last), "the pairing window is closed");
                self.window = None;
                self.announce();
            }
        }
    }

    /// Pairs with a device that shows a code; the answer comes when both sides have stored it.
    pub(crate) fn join(
        &mut self,
        target: PairTarget,
        code: &Sensitive<String>,
        answer: Answer<DeviceView>,
    ) {
        let code = match PairingCode::parse(code) {
            Ok(code) => code,
            Err(error) => {
                let _ = answer.send(Err(bad(error.to_string()).worded(Wording::NotSixDigits)));
                return;
            }
        };
        let (pairing, storing) = (self.pairing.clone(), self.storing());
        let (introduction, known) = (self.introduction(), self.pairing_addresses(&target));
        let view = self.view.subscribe();
        self.tasks.spawn_until_cancelled("pairing-join", async move {
            let outcome = async {
                let addresses = match known {
                    Some(addresses) => addresses,
                    None => resolve(&target).await?,
                };
                let peer = pairing
                    .join(&addresses, &code, introduction, &storing)
                    .await
                    .map_err(joining::refusal)?;
                let id = peer.id.to_string();
                // The loop published the new device before it told the exchange that it is stored.
                let house = view.borrow().clone();
                let device = house.devices.iter().find(|device| device.id == id).cloned();
                device.ok_or_else(|| HouseError::from(ErrorCode::NotFound))
            };
            let _ = answer.send(outcome.await);
        });
    }

    /// Stores a device that was just proven; whether it is durable.
    pub(crate) fn store_peer(&mut self, peer: PairedPeer) -> bool {
        let now = clock::unix_seconds();
        let level = self
            .peers
            .get(peer.id)
            .map_or(TrustLevel::Guest, |known| known.level.max(TrustLevel::Guest));
        let stored = self.peers.add(Peer {
            id: peer.id,
            name: peer.name,
            level,
            addresses: peer.addresses,
            paired_at: now,
            last_seen: Some(now),
        });
        match stored {
            Ok(()) => {
                tracing::info!(peer = ?peer.id, "paired");
                self.problems.remove("refused");
                self.peers_changed();
                true
            }
            Err(error) => {
                tracing::error!(%error, "a new device could not be saved");
                self.note("peers", [not_saved(&error)]);
                false
            }
        }
    }

    /// Sets how far a device is trusted.
    pub(crate) fn set_trust(&mut self, device: &str, trust: Trust) -> Result<(), HouseError> {
        let id = self.paired(device)?;
        self.peers.set_level(id, level(trust)).map_err(|error| bad(error.to_string()))?;
        self.peers_changed();
        Ok(())
    }

    /// Unpairs a device.
    pub(crate) fn forget(&mut self, device: &str) -> Result<(), HouseError> {
        let id = self.paired(device)?;
        self.peers.remove(id).map_err(|error| bad(error.to_string()))?;
        self.heard.remove(&id);
        self.ask(Event::Unpaired(id));
        self.bulletins.forget(id);
        self.peers_changed();
        Ok(())
    }

    /// Tells the neighbourhood what this device is seen as.
    pub(crate) fn announce(&self) {
        if let Some(finder) = &self.finder {
            finder.advertise(self.advertisement());
        }
    }

    pub(crate) fn advertisement(&self) -> Advertisement {
        let name = self.settings.settings().device.name.as_ref();
        Advertisement {
            port: self.listen_port,
            protocol: crate::PROTOCOL,
            pairing_port: self.window.as_ref().map(|window| window.offer.port),
            name: name.map(|name| name.as_str().to_owned()),
        }
    }

    pub(crate) fn pairing_view(&self) -> Option<PairingView> {
        let window = self.window.as_ref()?;
        let port = window.offer.port;
        let mut addresses: Vec<_> =
            own_addresses().into_iter().map(|ip| SocketAddr::new(ip, port).to_string()).collect();
        if self.settings.settings().network.loopback || addresses.is_empty() {
            addresses.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port).to_string());
        }
        Some(PairingView {
            // Plain digits: how they are spaced is each door's choice.
            code: window.offer.code.shown().replace(char::is_whitespace, ""),
            addresses,
            expires: window.expires,
            tries_left: window.tries_left,
        })
    }

    /// The callback that makes a pairing durable before it counts.
    fn storing(&self) -> StorePeer {
        let inside = self.inside.clone();
        Arc::new(move |peer| {
            let inside = inside.clone();
            Box::pin(async move {
                let (stored, wait) = oneshot::channel();
                inside.send(Inside::Store { peer, stored }).await.map_err(|_| NotStored)?;
                if wait.await.unwrap_or(false) { Ok(()) } else { Err(NotStored) }
            })
        })
    }

    fn introduction(&self) -> Introduction {
        let version = u8::try_from(crate::PROTOCOL).unwrap_or(u8::MAX);
        Introduction {
            name: DeviceName::sanitised(&self.me.name),
            app_version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: (version, version),
            port: self.listen_port,
        }
    }

    /// Addresses of the pairing window of a device that was seen.
    fn pairing_addresses(&self, target: &PairTarget) -> Option<Vec<SocketAddr>> {
        let with_port = |seen: &Seen| {
            let port = seen.pairing_port?;
            Some(seen.addresses.iter().map(|at| SocketAddr::new(at.ip(), port)).collect())
        };
        match target {
            PairTarget::Seen(id) => {
                let (_, seen) = self.seen.iter().find(|(tag, _)| {
                    tag.to_string() == *id
                        || id.parse::<PeerId>().is_ok_and(|peer| tag.matches(&peer))
                })?;
                with_port(seen)
            }
            PairTarget::Address(text) => {
                let ip: IpAddr = text.trim().parse().ok()?;
                let at_ip = |seen: &&Seen| seen.addresses.iter().any(|at| at.ip() == ip);
                with_port(self.seen.values().find(at_ip)?)
            }
        }
    }

    fn paired_by_tag(&self, tag: Tag) -> Option<PeerId> {
        self.peers.list().iter().map(|peer| peer.id).find(|id| tag.matches(id))
    }

    /// A paired device by id, short id, name, or a unique beginning of its name.
    pub(crate) fn paired(&self, text: &str) -> Result<PeerId, HouseError> {
        let lower = text.trim().to_lowercase();
        let list = self.peers.list();
        let exact = list.iter().find(|peer| {
            peer.id.to_string().eq_ignore_ascii_case(&lower)
                || peer.id.short().eq_ignore_ascii_case(&lower)
        });
        let named: Vec<_> =
            list.iter().filter(|peer| peer.name.as_str().to_lowercase() == lower).collect();
        let begins: Vec<_> = list
            .iter()
            .filter(|peer| {
                !lower.is_empty() && peer.name.as_str().to_lowercase().starts_with(&lower)
            })
            .collect();
        match (exact, named.as_slice(), begins.as_slice()) {
            (Some(peer), ..) => Ok(peer.id),
            (None, [one], _) | (None, [], [one]) => Ok(one.id),
            (None, [], []) => Err(HouseError::new(
                ErrorCode::NotFound,
                format!("No device {text:?} is paired with this one."),
            )
            .worded(Wording::NoSuchDevice { name: text.to_owned() })),
            _ => Err(bad(format!("Several devices are called {text:?}: give the id instead."))),
        }
    }

    pub(crate) fn name_of(&self, peer: PeerId) -> String {
        self.peers.get(peer).map_or_else(|| peer.short(), |peer| peer.name.as_str().to_owned())
    }

    /// Sets the problems of one subject; none clears it.
    pub(crate) fn note(
        &mut self,
        subject: &'static str,
        troubles: impl IntoIterator<Item = TroubleView>,
    ) {
        let troubles: Vec<TroubleView> = troubles.into_iter().collect();
        if troubles.is_empty() {
            self.problems.remove(subject);
        } else {
            self.problems.insert(subject, troubles);
        }
    }
}

fn forgot(name: &str) -> TroubleView {
    let words = format!("{name} does not know this device any more: pair them again.");
    TroubleView::with(name, words, DeviceTrouble::Forgot)
}

/// The list of paired devices is not on the disk as it is here.
fn not_saved(error: &PeersError) -> TroubleView {
    TroubleView::of_error(error, Trouble::DevicesNotSaved { reason: error.to_string().into() })
}

/// Resolves a typed address. The port is that of the pairing window, shown beside the code.
async fn resolve(target: &PairTarget) -> Result<Vec<SocketAddr>, HouseError> {
    let PairTarget::Address(text) = target else {
        return Err(HouseError::new(
            ErrorCode::NotFound,
            "That device does not show a code now. Choose Show a code there, or type its address.",
        )
        .worded(Wording::NoCodeShown));
    };
    let text = text.trim();
    let found = tokio::time::timeout(RESOLVE_LIMIT, tokio::net::lookup_host(text)).await;
    match found {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        _ => Err(bad(format!(
            "{text:?} is not an address with a port, as shown beside the code: 192.168.1.20:40123."
        ))
        .worded(Wording::NoAddress { typed: text.to_owned() })),
    }
}

fn bad(sentence: String) -> HouseError {
    HouseError::new(ErrorCode::BadRequest, sentence)
}

fn window_outcome(event: &PairingEvent) -> &'static str {
    match event {
        PairingEvent::WrongCode { .. } => "wrong code",
        PairingEvent::Paired { .. } => "paired",
        PairingEvent::NotStored => "not stored",
        PairingEvent::Burnt => "three wrong codes",
        PairingEvent::Expired => "time over",
        PairingEvent::Cancelled => "cancelled",
    }
}

/// Addresses of this machine that another one of the household could reach, IPv4 first.
fn own_addresses() -> Vec<IpAddr> {
    let mut addresses = nook_find::own_addresses();
    addresses.sort();
    addresses
}

pub(crate) fn trust(level: TrustLevel) -> Trust {
    match level {
        TrustLevel::Blocked => Trust::Blocked,
        TrustLevel::Unknown => Trust::Unknown,
        TrustLevel::Guest => Trust::Guest,
        TrustLevel::Trusted => Trust::Trusted,
        TrustLevel::Own => Trust::Own,
    }
}

fn level(trust: Trust) -> TrustLevel {
    match trust {
        Trust::Blocked => TrustLevel::Blocked,
        Trust::Unknown => TrustLevel::Unknown,
        Trust::Guest => TrustLevel::Guest,
        Trust::Trusted => TrustLevel::Trusted,
        Trust::Own => TrustLevel::Own,
    }
}
