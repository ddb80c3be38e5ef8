//! Taking the tensors of some layers from other devices: who is asked for them.
//!
//! Unlike a copy of a whole file, the bytes prove themselves range by range, so any device that
//! gives the model will do at any moment. One that sent wrong bytes is asked for nothing more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nook_base::{ModelDigest, PeerId};
use nook_fetch::{Ask, Halt, RangeSource};
use nook_resources::traffic::Traffic;
use nook_wire::Document;
use tokio::sync::watch;

use crate::copies::{Holder, Holders};
use crate::taking::Asking;

/// Brings ranges of one model from the devices that have it.
#[derive(Debug)]
pub(crate) struct PartTaker {
    asking: Asking,
    /// Whom to ask first.
    first: BTreeSet<PeerId>,
    /// Devices that sent wrong bytes.
    liars: BTreeSet<PeerId>,
}

impl PartTaker {
    pub(crate) fn new(
        model: ModelDigest,
        holders: watch::Receiver<Arc<Holders>>,
        first: BTreeSet<PeerId>,
        traffic: Traffic,
    ) -> Self {
        Self { asking: Asking::new(model, holders, traffic), first, liars: BTreeSet::new() }
    }

    /// The device that is asked now.
    pub(crate) fn chosen(&self) -> Option<PeerId> {
        self.asking.chosen.as_ref().map(|(peer, _)| *peer)
    }

    /// Name of that device, for people.
    pub(crate) fn name(&self) -> String {
        self.asking.device()
    }

    /// This device sent wrong bytes, as is known only now.
    pub(crate) fn blame_peer(&mut self, peer: PeerId) {
        if self.chosen() == Some(peer) {
            self.asking.fail("it sent something else than was asked for");
        }
        self.liars.insert(peer);
    }

    /// Devices that sent wrong bytes.
    pub(crate) fn into_liars(self) -> BTreeSet<PeerId> {
        self.liars
    }

    /// Who is asked first: the lowest.
    fn rank(&self, peer: PeerId, rtt: Duration) -> (bool, Duration) {
        (!self.first.contains(&peer), rtt)
    }
}

impl RangeSource for PartTaker {
    type Bytes = Bytes;

    async fn choose(&mut self) -> Result<(), Halt> {
        let model = self.asking.model();
        let holders = self.asking.holders.borrow().clone();
        let gives = |peer: PeerId| holders.get(&peer).is_some_and(|it| it.model(model).is_some());
        if self.asking.is_idle() && self.chosen().is_some_and(gives) {
            return Ok(());
        }
        self.asking.give_up();
        let liars = self.liars.clone();
        let has = |peer, it: &Holder| !liars.contains(&peer) && it.model(model).is_some();
        let Some(holders) = self.asking.wait_for_holders(&has).await else {
            return Err(Halt::Nobody);
        };
        let having = holders
            .iter()
            .filter(|(peer, holder)| has(**peer, holder) && !self.asking.has_failed(**peer));
        let rtt = |holder: &Holder| holder.giver.link.rtt().unwrap_or(Duration::MAX);
        let chosen = having.min_by_key(|(peer, holder)| self.rank(**peer, rtt(holder)));
        let Some((peer, holder)) = chosen else { return Err(self.asking.begin_anew()) };
        tracing::info!(?peer, ?model, "taking layers of a model");
        self.asking.chosen = Some((*peer, holder.clone()));
        Ok(())
    }

    async fn ask(&mut self, ask: Ask) -> Result<(), Halt> {
        match ask {
            Ask::Manifest(range) => self.asking.ask(Document::Manifest, range).await,
            Ask::File(range) => self.asking.ask(Document::File, range).await,
        }
    }

    async fn next(&mut self) -> Result<Bytes, Halt> {
        match self.asking.piece().await {
            Ok((_, bytes)) => Ok(bytes),
            Err(why) => Err(self.asking.fail(why)),
        }
    }

    fn blame(&mut self) {
        if let Some(peer) = self.chosen() {
            self.blame_peer(peer);
        }
    }

    fn device(&self) -> String {
        self.asking.device()
    }
}
