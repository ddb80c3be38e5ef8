//! What this node and the other devices of the house give each other of a release: the signed list
//! of versions, and packages that one of them has downloaded. So the house needs each once from the
//! internet, and a computer that reaches no server hears of new versions all the same.

use std::sync::Arc;
use std::time::Duration;

use nook_api::views::UpdatesView;
use nook_api::{Answer, NodeError};
use nook_base::{ErrorCode, PeerId};
use nook_host::{GivenPackage, GivenRelease};
use nook_library::Giver;
use nook_store::NewVersions;
use nook_trust::Purpose;
use nook_update::{HeldRelease, Offer, Refusal, SeenError, UpdateError, Updates};
use nook_wire::{Message, Releases};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::bringing::{FromHouse, list_of};
use super::watch::Event;
use super::{UpdateEvent, claim, refused, sha256_of};
use crate::givers::giver_of;
use crate::state::State;

/// Longest wait for a list and its signature.
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// Why a list of another device was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    /// It did not come.
    #[error("{0}")]
    Device(String),
    /// It came, and is not believed or cannot be kept.
    #[error(transparent)]
    Here(#[from] UpdateError),
}

impl State {
    /// What front ends show of new versions.
    pub(crate) fn updates_view(&self) -> UpdatesView {
        let mut view = self.updates.view(&self.restart);
        if let Some(newer) = &mut view.newer {
            let sha256 = self.updates.offer.as_ref().and_then(|it| sha256_of(&it.package.sha256));
            let givers = sha256.map(|sha256| self.givers(sha256)).unwrap_or_default();
            newer.device = givers.into_iter().next().map(|giver| giver.name);
        }
        view
    }

    /// A linked device says what it has of a release.
    pub(crate) fn on_releases(&mut self, peer: PeerId, releases: Releases) {
        self.updates.house.heard(peer, releases);
        self.look_in_house();
    }

    /// A device is linked no more.
    pub(crate) fn release_gone(&mut self, peer: PeerId) {
        self.updates.house.gone(peer);
    }

    /// A device is linked from now on.
    pub(crate) fn tell_release_to(&self, peer: PeerId) {
        let may_know = self.devices.gate().check(peer, Purpose::CopyModels).is_ok();
        let told = self.updates.given.told();
        if may_know && told.serial > 0 {
            self.outbox.post(peer, Message::Releases(told));
        }
    }

    /// What is held of a release, or who may know of it, has changed.
    pub(crate) fn tell_release(&self) {
        self.outbox.peers().into_iter().for_each(|peer| self.tell_release_to(peer));
    }

    /// Takes a newer list from another device, where one has it and the owner wants to hear of new
    /// versions at all.
    pub(super) fn look_in_house(&mut self) {
        let source = self.updates.source.clone();
        let (Some(source), Some(running)) = (source, self.updates.running.clone()) else { return };
        if self.settings.settings().updates.new_versions == NewVersions::Off {
            return;
        }
        let (devices, links) = (&self.devices, &self.links);
        let gives = |peer| giver_of(devices, links, peer).is_some();
        let asked = self.updates.house.ask(self.updates.known, gives);
        let Some((peer, said)) = asked else { return };
        let Some(giver) = giver_of(&self.devices, &self.links, peer) else { return };
        let (installed, events) = (self.updates.installed.clone(), self.updates.events.clone());
        let traffic = self.updates.traffic.clone();
        self.tasks.spawn_until_cancelled("list-of-the-house", async move {
            let taken = async {
                // First: while another process looks or installs, nobody is asked.
                let claim = claim(&source).await?;
                let list = tokio::time::timeout(LIST_LIMIT, list_of(&giver, &said, traffic)).await;
                let list = list.unwrap_or_else(|_| Err("it did not come in time".to_owned()));
                let (list, signature) = list.map_err(NotTaken::Device)?;
                let take = move || -> Result<_, UpdateError> {
                    let manifest = source.take(&claim, &list, &signature)?;
                    Ok(Updates::offer(&manifest, &running, &installed)?)
                };
                let taken = tokio::task::spawn_blocking(take).await;
                Ok(taken.unwrap_or(Err(UpdateError::Lost))?)
            };
            let taken = taken.await;
            let event = UpdateEvent::Taken { from: giver.name, serial: said.serial, taken };
            // Nobody reads it where the node has gone meanwhile.
            let _ = events.send(event).await;
        });
    }

    pub(super) fn on_taken(
        &mut self,
        from: &str,
        serial: u64,
        taken: Result<Option<Offer>, NotTaken>,
    ) {
        let offer = match taken {
            Ok(offer) => offer,
            // The list is right, and has nothing for this program.
            Err(NotTaken::Here(UpdateError::Refused(
                Refusal::Downgrade { .. } | Refusal::NoPackage { .. },
            ))) => None,
            // Another process looks just now: asked again in a moment.
            Err(NotTaken::Here(UpdateError::Seen(SeenError::Busy))) => {
                self.updates.house.taken(None);
                return;
            }
            Err(error) => {
                tracing::warn!(from, serial, %error, "a list of versions was not taken");
                self.updates.house.taken(Some(serial));
                return;
            }
        };
        tracing::info!(from, serial, "took a list of versions");
        self.updates.house.taken(None);
        self.updates.known = self.updates.known.max(serial);
        let version = offer.as_ref().map(|offer| offer.version.clone());
        self.show_offer(offer);
        self.watch_event(Event::Heard(version));
        self.read_held();
    }

    /// Reads anew what is held of a release.
    pub(crate) fn read_held(&self) {
        let Some(source) = self.updates.source.clone() else { return };
        let events = self.updates.events.clone();
        self.tasks.spawn_until_cancelled("held-release", async move {
            if let Ok(held) = tokio::task::spawn_blocking(move || source.held_release()).await {
                let _ = events.send(UpdateEvent::Held(held.map(Box::new))).await;
            }
        });
    }

    pub(super) fn on_held(&mut self, held: Option<Box<HeldRelease>>) {
        let given = held.map(|held| given(*held)).unwrap_or_default();
        self.updates.known = self.updates.known.max(given.serial);
        if *self.updates.given == given {
            return;
        }
        self.updates.given = Arc::new(given);
        self.updates.giving.give_release(self.updates.given.clone());
        self.tell_release();
    }

    /// Takes the package with this SHA-256, in hexadecimal, from devices that have it, for whoever
    /// installs it.
    pub(crate) fn bring_update(&self, sha256: &str, answer: Answer<()>) {
        let none = || NodeError::new(ErrorCode::NotFound, "No device of the house has it.");
        let (Some(source), Some(digest)) = (self.updates.source.clone(), sha256_of(sha256)) else {
            drop(answer.send(Err(refused("That names no package of a release."))));
            return;
        };
        let (givers, hexadecimal) = (self.givers(digest), sha256.to_owned());
        if givers.is_empty() {
            drop(answer.send(Err(none())));
            return;
        }
        let traffic = self.updates.traffic.clone();
        self.tasks.spawn_until_cancelled("package-of-the-house", async move {
            let mut answer = answer;
            let brought = async {
                let list = source.clone();
                let held =
                    tokio::task::spawn_blocking(move || list.held_release()).await.ok().flatten();
                let packages = held.map(|held| held.manifest.packages).unwrap_or_default();
                let package = packages.into_iter().find(|it| it.sha256 == hexadecimal);
                let package = package.ok_or_else(none)?;
                let mut from = FromHouse::new(package.clone(), digest, givers, traffic);
                let (stop, told) = (CancellationToken::new(), watch::Sender::default());
                let brought = source.bring(&package, &mut from, &stop, &told).await;
                brought.map_err(|error| refused(&error.to_string()))
            };
            // Whoever asked may leave: what came until then stays.
            let brought = tokio::select! {
                brought = brought => brought,
                () = answer.closed() => return,
            };
            let _ = answer.send(brought);
        });
    }

    fn givers(&self, sha256: [u8; 32]) -> Vec<Giver> {
        let giver = |peer| giver_of(&self.devices, &self.links, peer);
        self.updates.house.with_package(sha256).into_iter().filter_map(giver).collect()
    }
}

fn given(held: HeldRelease) -> GivenRelease {
    let HeldRelease { manifest, list, signature, packages } = held;
    let package = |(package, path): (nook_update::Package, _)| {
        Some(GivenPackage { sha256: sha256_of(&package.sha256)?, path, bytes: package.bytes })
    };
    GivenRelease {
        serial: manifest.serial,
        list: list.into(),
        signature: signature.into(),
        packages: packages.into_iter().filter_map(package).collect(),
    }
}
