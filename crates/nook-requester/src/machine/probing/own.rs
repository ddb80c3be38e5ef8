//! A device that lends measures itself once, before anybody has asked, so that its adverts carry
//! real speeds.
//!
//! Only while nothing else goes on: no reply of its own, no stream of a guest, nothing that holds
//! lending back (which is where the owner says how busy is too busy), and, whatever the owner lends
//! on, not on battery and not under a window that fills the screen. It costs one load of at most
//! eight layers, and of norm and head where all layers are lent, because then devices of the same
//! person may have whole requests run here; within the cap on lending and what the machine has
//! free, and a few steps of random numbers, at most once an hour and model for as long as something
//! is not known. All of it is loaded and computed as a guest's would be, and given back afterwards.
//! What was measured is kept over a restart (`crate::machine::keeping`), so that a device does this
//! at its first use and not at each start.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_base::{LayerRange, ModelPart};
use nook_plan::Place;

use super::call::Failed;
use super::{Aim, Prober, Wanted, stretches};
use crate::machine::records::Note;
use crate::machine::{Effect, LentLayers, Requester, Surroundings};
use nook_resources::memory::memory_free;
use nook_resources::open_models::Listed;

/// Memory that stays free while this device measures itself, in bytes: nobody waits for what it
/// finds.
const SPARE_BYTES: u64 = 1 << 30;

/// How often the layers are asked to be freed, and the pause between two times.
const RELEASE_TRIES_MAX: u32 = 5;

/// See [`RELEASE_TRIES_MAX`].
const RELEASE_PAUSE: Duration = Duration::from_millis(100);

impl Requester {
    /// Whether something is lent of which this device does not know how fast it computes it.
    pub fn is_unmeasured(&self, around: &Surroundings<'_>) -> bool {
        self.unmeasured(around).is_some()
    }

    /// Measures the first such model, if the machine has nothing else to do.
    pub(super) fn probe_own(&mut self, around: &Surroundings<'_>) -> Vec<Effect> {
        let Some(lending) = around.lending.filter(|lending| lending.is_at_rest) else {
            return Vec::new();
        };
        let entry =
            self.unmeasured(around).and_then(|lent| Some((lent, around.entry(lent.model)?)));
        let Some((lent, entry)) = entry else { return Vec::new() };
        let (listed, file) = (entry.listed.clone(), entry.file.clone());
        let layers = stretches(lent.layers, &file).first().copied().unwrap_or(LayerRange::all(0));
        let needed = match lends_whole(lent, around) {
            true => file.weight_bytes(&ModelPart { embedding: true, head: true, layers }),
            false => file.weight_bytes(&ModelPart::inner(layers)),
        };
        if needed.saturating_add(SPARE_BYTES) > lending.memory_free {
            return Vec::new();
        }
        let wanted = Wanted { listed, file, aim: Aim::Own };
        let targets = BTreeMap::from([(Place::Local, lent.layers)]);
        // Where lending ends meanwhile, its worker ends with it.
        let used = Effect::UsesLent(lent.model);
        vec![used, self.begin_round(wanted, (targets, BTreeMap::new()), around)]
    }

    fn unmeasured(&self, around: &Surroundings<'_>) -> Option<LentLayers> {
        let lent = around.lending?.lent.iter().copied();
        lent.into_iter().find(|lent| {
            let speed = self.estimates.speed(Place::Local, lent.model);
            let is_unknown = speed.decode.is_unknown()
                || speed.prefill.is_unknown()
                || (speed.ends.is_unknown() && lends_whole(*lent, around));
            is_unknown && self.probing.is_due(Place::Local, lent.model, around.now)
        })
    }
}

/// Whether all layers of a model are lent.
fn lends_whole(lent: LentLayers, around: &Surroundings<'_>) -> bool {
    around.entry(lent.model).is_some_and(|entry| lent.layers == LayerRange::all(entry.layers()))
}

impl Prober {
    /// This device's own layers, as a guest would have them computed.
    pub(super) async fn own(&self, layers: LayerRange) -> Result<(), Failed> {
        let Listed { digest, path, name } = &self.round.wanted.listed;
        let all = self.stretches(layers);
        let Some(largest) = all.first().copied() else { return Ok(()) };
        let worker = self.tools.workers.get(*digest, name).await.map_err(|_| Failed::Gone)?;
        let held = worker.status().await.map_err(|_| Failed::Gone)?.held;
        let loaded = path
            .with(async |file| worker.load_for(self.round.me, &file, *digest, largest).await)
            .await;
        let took = loaded.map_err(|_| Failed::Refused)?.took;
        if held.is_empty() {
            let bytes = self.round.wanted.file.weight_bytes(&ModelPart::inner(largest));
            self.tell_loaded(bytes, took).await;
        }
        let measured = async {
            let mut points = Vec::new();
            for stretch in all {
                let part = ModelPart::inner(stretch);
                let call = worker.open_call_for(self.round.me).await.map_err(|_| Failed::Gone)?;
                let done = self.steps(part).over_host(call, *digest).await?;
                self.tell_visits(Place::Local, part, &done).await;
                points.push((stretch, done));
            }
            self.tell_line(Place::Local, &points).await;
            if layers == LayerRange::all(self.round.wanted.file.shape().layers) {
                let part = self.head();
                let call = worker.open_call_for(self.round.me).await.map_err(|_| Failed::Gone)?;
                let done = self.steps(part).over_worker(call, part).await?;
                self.tell_visits(Place::Local, part, &done).await;
            }
            Ok(())
        };
        let outcome = measured.await;
        if held.iter().any(|held| !held.intersection(largest).is_empty()) {
            // Somebody has used them lately, and they go when that is long enough ago.
            return outcome;
        }
        for _ in 0..RELEASE_TRIES_MAX {
            // Refused while a conversation is held: the own one for a moment, or somebody else's,
            // who needs the layers. Then they go when nobody uses them any more.
            if worker.release(largest).await.is_ok() {
                break;
            }
            tokio::time::sleep(RELEASE_PAUSE).await;
        }
        outcome
    }

    /// Whether the machine has room for what [`Self::own`] loads of `layers`, with norm and head.
    pub(super) async fn has_memory(&self, layers: LayerRange) -> bool {
        let layers = self.stretches(layers).first().copied().unwrap_or(LayerRange::all(0));
        let part = ModelPart { embedding: false, head: true, layers };
        let needed = self.round.wanted.file.weight_bytes(&part).saturating_add(SPARE_BYTES);
        // Asking the system may wait for it.
        tokio::task::spawn_blocking(memory_free).await.is_ok_and(|free| free >= needed)
    }

    /// How fast weights came into the memory of this device.
    async fn tell_loaded(&self, bytes: u64, took: Duration) {
        let (place, model) = (Place::Local, self.round.wanted.listed.digest);
        self.tell(Note::Opened { place, model, bytes, took }).await;
    }
}
