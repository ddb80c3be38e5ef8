//! Where the node meets other devices: what links and discovery report, and what is done about it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use nook_api::views::{PairingView, TroubleView, Wording};
use nook_api::{Answer, NodeError, Sharing, sentence};
use nook_base::{ErrorCode, PeerId, Sensitive, WakeAddress, clock};
use nook_find::{Advertisement, OwnInterfaces};
use nook_host::HostEvent;
use nook_library::LibraryEvent;
use nook_link::LinkEvent;
use nook_link::pairing::{NotStored, OfferConfig, OfferError, StorePeer};
use nook_resources::adverts::{AdvertBook, OwnDevice};
use nook_store::Peer;
use nook_trust::DeviceName;
use nook_trust::pairing::Introduction;
use nook_trust::purpose::RemoteWhole;
use nook_wire::SharingNow;
use tokio::sync::oneshot;

use crate::devices::{
    DeviceEffect, DeviceEvent, Join, LinkMoved, LinkUp, Surroundings, Window, refusal, resolve,
};
use crate::state::State;

/// Wrong codes that a window takes.
const TRIES: u8 = 3;

impl State {
    /// Something happened to other devices.
    pub(crate) fn tell_devices(&mut self, event: DeviceEvent) {
        let around = surroundings(&self.settings);
        for effect in self.devices.on(event, &around) {
            self.perform_for_devices(effect);
        }
    }

    fn perform_for_devices(&mut self, effect: DeviceEffect) {
        match effect {
            DeviceEffect::Connect(known) => {
                self.links.set_peers(known);
                if let Some(finder) = &self.finder {
                    finder.set_paired(self.devices.peers().list().iter().map(|peer| &peer.id));
                }
            }
            DeviceEffect::Dial(peer, addresses) => self.links.sighted(peer, addresses),
            DeviceEffect::Call(peer, addresses) => self.call(peer, addresses),
            DeviceEffect::Reached(peer) => {
                if let Some(finder) = &self.finder {
                    finder.reached(&peer);
                }
            }
            DeviceEffect::Announce => self.announce(),
            DeviceEffect::OpenWindow(answer) => self.open_window(answer),
            DeviceEffect::CloseWindow => self.pairing_window.offer = None,
            DeviceEffect::Join(join) => self.join(*join),
            DeviceEffect::TrustChanged => {
                self.tell_host(HostEvent::PeersChanged);
                self.publish_book();
                self.drop_of_barred();
                self.tell_library(LibraryEvent::TrustChanged);
                self.tell_release();
            }
            DeviceEffect::PublishBook => self.publish_book(),
            DeviceEffect::Host(event) => self.tell_host(event),
            DeviceEffect::Requester(event) => self.ask(event),
            DeviceEffect::Library(event) => self.tell_library(event),
            DeviceEffect::Releases(peer, releases) => self.on_releases(peer, releases),
            DeviceEffect::DropOutbox(peer) => self.outbox.forget(peer),
            DeviceEffect::Note(subject, troubles) => self.note(subject, troubles),
            DeviceEffect::Show => self.publish(),
            // Whoever waited may have left.
            DeviceEffect::Stored(stored, durable) => drop(stored.send(durable)),
            DeviceEffect::ShareAndAnswer(answer) => {
                let done = self.set_sharing(Sharing::On);
                self.answer(answer, done);
            }
            DeviceEffect::Answer(answer, done) => self.answer(answer, done),
            DeviceEffect::AnswerWoken(answer, woken) => self.answer(answer, woken),
            DeviceEffect::AnswerCode(answer, code) => self.answer(answer, code),
            DeviceEffect::AnswerJoin(answer, error) => drop(answer.send(Err(error))),
        }
    }

    /// Something happened on a link.
    pub(crate) fn on_link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(link) => {
                let peer = link.peer();
                let hello = link.hello();
                let (name, app_version) = (hello.device_name.clone(), hello.app_version.clone());
                let listens_at = link.listens_at();
                let interfaces = OwnInterfaces::read();
                let wake_from = interfaces.towards(link.remote());
                self.way_taken(&link, None, &interfaces);
                let up = LinkUp { peer, listens_at, name, app_version, wake_from };
                self.tell_devices(DeviceEvent::LinkUp(up));
                let owed = self.outbox.linked(peer, link.mux().clone(), &self.tasks);
                owed.into_iter().for_each(|kept| self.say_drop(peer, kept));
                self.tell_release_to(peer);
                self.tell_host(HostEvent::LinkUp(peer));
            }
            LinkEvent::Moved { link, found } => {
                let interfaces = OwnInterfaces::read();
                let (peer, listens_at) = (link.peer(), link.listens_at());
                let wake_from = interfaces.towards(link.remote());
                self.way_taken(&link, found, &interfaces);
                self.tell_devices(DeviceEvent::LinkMoved(LinkMoved {
                    peer,
                    listens_at,
                    wake_from,
                }));
            }
            LinkEvent::Down { peer, reason, .. } => {
                tracing::info!(?peer, %reason, "disconnected");
                self.ways.remove(&peer);
                self.outbox.gone(peer);
                self.release_gone(peer);
                self.tell_devices(DeviceEvent::LinkDown(peer));
            }
            LinkEvent::IncomingCall { peer, call } => {
                self.tell_host(HostEvent::Call { peer, call });
            }
            LinkEvent::Control { peer, message } => {
                self.tell_devices(DeviceEvent::Said(peer, message));
            }
            LinkEvent::PinRefused { peer, address, .. } => {
                tracing::warn!(?peer, %address, "something else answers at this device's address");
            }
            LinkEvent::RefusedByPeer { peer } => self.tell_devices(DeviceEvent::RefusedBy(peer)),
            LinkEvent::VersionMismatch { peer, versions, .. } => {
                self.tell_devices(DeviceEvent::VersionMismatch(peer, versions));
            }
            LinkEvent::SameIdTwice { peer, kept, refused } => {
                self.tell_devices(DeviceEvent::SameIdTwice { peer, kept, refused });
            }
        }
    }

    /// Publishes what replies may route by. Only devices that the gate lets compute are in it.
    pub(crate) fn publish_book(&mut self) {
        let may_compute =
            |peer: &PeerId| self.devices.gate().check(*peer, nook_trust::Purpose::Borrow).is_ok();
        let on = self.settings.settings().inference.enabled;
        let paired = self.devices.peers().list().iter().map(|peer| peer.id);
        let (admitted, barred): (BTreeSet<_>, BTreeSet<_>) = paired.partition(may_compute);
        let keepers = if on { admitted } else { BTreeSet::new() };
        let wakes = self.settings.settings().network.wake_helpers;
        let sleeps = |peer: &Peer| {
            let may_compute = keepers.contains(&peer.id) && !peer.wake.is_empty();
            let is_away = self.links.link(peer.id).is_none();
            wakes && may_compute && is_away && !self.devices.has_overslept(peer.id)
        };
        let known = self.devices.peers().list();
        let took =
            |peer: &Peer| (peer.id, peer.woke_seconds.map(|it| Duration::from_secs(it.into())));
        let asleep = known.iter().filter(|peer| sleeps(peer)).map(took).collect();
        let hears = |peer: &PeerId| keepers.contains(peer) && self.links.link(*peer).is_some();
        let heard = self.devices.heard().iter().filter(|(peer, _)| hears(peer));
        let book = AdvertBook {
            heard: heard.map(|(peer, heard)| (*peer, heard.clone())).collect(),
            barred,
            keepers,
            left_out: self.requester.left_out(clock::now()),
            suspected: self.requester.suspected(clock::now()),
            wrong: self.requester.wrong(clock::now()),
            own: self.own_devices(),
            asleep,
            names: self
                .devices
                .peers()
                .list()
                .iter()
                .map(|peer| (peer.id, peer.name.as_str().to_owned()))
                .collect(),
        };
        self.book.send_replace(Arc::new(book));
    }

    /// Devices of the same person that would run whole requests of this one, where its owner wants
    /// that.
    fn own_devices(&self) -> BTreeMap<PeerId, OwnDevice> {
        let inference = &self.settings.settings().inference;
        if !inference.enabled || !inference.whole_on_own_devices {
            return BTreeMap::new();
        }
        let own = |peer: &PeerId| {
            let pass = self.devices.gate().admit::<RemoteWhole>(*peer).ok()?;
            let offers = self.links.link(*peer).and(self.requester.whole_offers(*peer))?;
            let offers = offers.offers.clone();
            Some((*peer, OwnDevice { pass, offers }))
        };
        self.devices.peers().list().iter().filter_map(|peer| own(&peer.id)).collect()
    }

    fn open_window(&mut self, answer: Answer<PairingView>) {
        let config = OfferConfig {
            listen: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            port: 0,
            introduction: self.introduction(),
        };
        let (offer, mut events) = match self.pairing.offer(config, self.storing(), &self.tasks) {
            Ok(opened) => opened,
            Err(error) => {
                let _ = answer.send(Err(no_window(&error)));
                return;
            }
        };
        self.pairing_window.count += 1;
        let number = self.pairing_window.count;
        let left = offer.expires.saturating_duration_since(clock::now()).as_secs();
        let window = Window {
            number,
            code: Sensitive(offer.code.shown().replace(char::is_whitespace, "")),
            port: offer.port,
            tries_left: TRIES,
            expires: clock::unix_seconds().saturating_add(left),
        };
        self.pairing_window.offer = Some(offer);
        let window_events = self.device_events.clone();
        self.tasks.spawn_until_cancelled("pairing-window", async move {
            while let Some(event) = events.recv().await {
                if window_events.send(DeviceEvent::Window(number, event)).await.is_err() {
                    return;
                }
            }
        });
        self.tell_devices(DeviceEvent::WindowOpened(window, answer));
    }

    fn join(&self, join: Join) {
        let Join { target, code, addresses, answer } = join;
        let (pairing, storing) = (self.pairing.clone(), self.storing());
        let (introduction, view) = (self.introduction(), self.view.subscribe());
        self.tasks.spawn_until_cancelled("pairing-join", async move {
            let outcome = async {
                let addresses = match addresses {
                    Some(addresses) => addresses,
                    None => resolve(&target).await?,
                };
                let joined = pairing.join(&addresses, &code, introduction, &storing).await;
                let id = joined.map_err(refusal)?.id.to_string();
                // The loop published the new device before it told the exchange that it is stored.
                let shown = view.borrow().clone();
                let device = shown.devices.iter().find(|device| device.id == id).cloned();
                device.ok_or_else(|| NodeError::from(ErrorCode::NotFound))
            };
            let _ = answer.send(outcome.await);
        });
    }

    /// A device that may sleep is dialled without waiting, and called where it can be.
    fn call(&self, peer: PeerId, addresses: Vec<WakeAddress>) {
        self.links.network_changed();
        if addresses.is_empty() {
            return;
        }
        let events = self.device_events.clone();
        self.tasks.spawn_until_cancelled("wake", async move {
            let called = tokio::task::spawn_blocking(move || nook_find::wake(&addresses)).await;
            if let Ok(Err(why)) = called {
                // A node that is leaving wakes nobody.
                let _ = events.send(DeviceEvent::NotCalled(peer, why)).await;
            }
        });
    }

    /// Tells each linked device what the owner of this one allows it, where that has changed.
    pub(crate) fn tell_terms(&mut self) {
        let sharing = match (self.host.sharing(), self.host.paused()) {
            (Sharing::Off, _) => SharingNow::Off,
            (Sharing::On, Some(_)) => SharingNow::Paused,
            (Sharing::On, None) => SharingNow::On,
        };
        let settings = self.settings.settings();
        for peer in self.devices.peers().list() {
            self.outbox.post_terms(peer.id, self.devices.own_terms(peer, sharing, settings));
        }
    }

    /// The open pairing window, for front ends.
    pub(crate) fn pairing_view(&self) -> Option<PairingView> {
        self.devices.pairing_view(&surroundings(&self.settings))
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
            pairing_port: self.devices.pairing_port(),
            name: name.map(|name| name.as_str().to_owned()),
        }
    }

    /// The callback that makes a pairing durable before it counts.
    fn storing(&self) -> StorePeer {
        let events = self.device_events.clone();
        Arc::new(move |peer| {
            let events = events.clone();
            Box::pin(async move {
                let (stored, wait) = oneshot::channel();
                events.send(DeviceEvent::Store(peer, stored)).await.map_err(|_| NotStored)?;
                if wait.await.unwrap_or(false) { Ok(()) } else { Err(NotStored) }
            })
        })
    }

    fn introduction(&self) -> Introduction {
        let spoken = [nook_wire::PROTOCOL_VERSION_OLDEST, crate::PROTOCOL];
        let [oldest, newest] = spoken.map(|version| u8::try_from(version).unwrap_or(u8::MAX));
        Introduction {
            name: DeviceName::sanitised(&self.me.name),
            app_version: nook_base::VERSION.to_owned(),
            protocol: (oldest, newest),
            port: self.listen_port,
        }
    }

    /// What a device is called.
    pub(crate) fn name_of(&self, peer: PeerId) -> String {
        self.devices.name_of(peer)
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

/// What the devices see of the node now.
fn surroundings(settings: &nook_store::SettingsFile) -> Surroundings<'_> {
    Surroundings { now: clock::now(), unix: clock::unix_seconds(), settings: settings.settings() }
}

/// Why no pairing window was opened.
fn no_window(error: &OfferError) -> NodeError {
    let (code, wording) = match error {
        OfferError::Refused { .. } => (ErrorCode::RateLimited, Wording::Code),
        OfferError::Port { .. } => (ErrorCode::BadRequest, Wording::NoPairingPort),
    };
    NodeError::new(code, sentence(&error.to_string())).worded(wording)
}
