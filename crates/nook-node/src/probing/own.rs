//! A device that lends measures itself once, before anybody has asked, so that its adverts carry real speeds.
//!
//! Only while nothing else goes on: no reply of its own, no stream of a guest, nothing that holds lending
//! back (which is where the owner says how busy is too busy), and, whatever the owner lends on, not on
//! battery and not under a window that fills the screen. It costs one load of at most eight layers, and of
//! norm and head where all layers are lent, because then devices of the same person may have whole requests
//! run here; within the cap on lending and what the machine has free, and a few steps of random numbers, at
//! most once an hour and model for as long as something is not known. All of it is loaded and computed as a
//! guest's would be, and given back afterwards. What was measured is kept over a restart (`crate::keeping`), so that a
//! device does this at its first use and not at each start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nook_base::{LayerRange, ModelPart};
use nook_machine::Conditions;
use nook_plan::Place;

use super::call::Failed;
use super::{Aim, Round, Wanted, stretches};
use crate::host::Lent;
use crate::records::Note;
use crate::shelf::Listed;
use crate::state::{Inside, State};

/// Memory that stays free while this device measures itself, in bytes: nobody waits for what it finds.
const SPARE_BYTES: u64 = 1 << 30;

/// How often the layers are asked to be freed, and the pause between two times.
const RELEASE_TRIES_MAX: u32 = 5;

/// See [`RELEASE_TRIES_MAX`].
const RELEASE_PAUSE: Duration = Duration::from_millis(100);

impl State {
    /// Whether something is lent of which this device does not know how fast it computes it.
    pub(crate) fn is_unmeasured(&self, now: Instant) -> bool {
        self.unmeasured(now).is_some()
    }

    /// Measures the first such model, if the machine has nothing else to do.
    pub(super) fn probe_own(&mut self, now: Instant) {
        let is_free = self.host.streams() == 0
            && self.host.conditions(now).is_some_and(|conditions| is_at_rest(&conditions));
        let Some(lent) = self.unmeasured(now).filter(|_| is_free).cloned() else { return };
        let Some(entry) = self.catalogue.iter().find(|entry| entry.digest() == lent.model) else {
            return;
        };
        let (listed, file) = (entry.listed.clone(), entry.file.clone());
        let layers = stretches(lent.layers).first().copied().unwrap_or(LayerRange::all(0));
        let needed = match self.lends_whole(&lent) {
            true => file.weight_bytes(&ModelPart { embedding: true, head: true, layers }),
            false => file.weight_bytes(&ModelPart::inner(layers)),
        };
        if needed.saturating_add(SPARE_BYTES) > self.host.residency().available() {
            return;
        }
        // Where lending ends meanwhile, its worker ends with it.
        self.host.note_served(lent.model);
        let wanted = Wanted { listed, file, aim: Aim::Own };
        let targets = BTreeMap::from([(Place::Local, lent.layers)]);
        self.begin_round(wanted, targets, BTreeMap::new());
    }

    fn unmeasured(&self, now: Instant) -> Option<&Lent> {
        self.host.lent().iter().find(|lent| {
            let speed = self.gauges.speed(Place::Local, lent.model);
            let is_unknown = speed.decode.is_unknown()
                || speed.prefill.is_unknown()
                || (speed.ends.is_unknown() && self.lends_whole(lent));
            is_unknown && self.probing.is_due(Place::Local, lent.model, now)
        })
    }

    /// Whether all layers of a model are lent.
    fn lends_whole(&self, lent: &Lent) -> bool {
        let entry = self.catalogue.iter().find(|entry| entry.digest() == lent.model);
        entry.is_some_and(|entry| lent.layers == LayerRange::all(entry.layers()))
    }
}

impl Round {
    /// This device's own layers, as a guest would have them computed.
    pub(super) async fn own(&self, layers: LayerRange) -> Result<(), Failed> {
        let Listed { digest, path, name } = &self.wanted.listed;
        let all = stretches(layers);
        let Some(largest) = all.first().copied() else { return Ok(()) };
        let worker = self.workers.get(*digest, name).await.map_err(|_| Failed::Gone)?;
        let held = worker.status().await.map_err(|_| Failed::Gone)?.held;
        let loaded =
            path.with(async |file| worker.load_for(self.me, &file, *digest, largest).await).await;
        let took = loaded.map_err(|_| Failed::Refused)?.took;
        if held.is_empty() {
            let bytes = self.wanted.file.weight_bytes(&ModelPart::inner(largest));
            self.tell_loaded(bytes, took).await;
        }
        let measured = async {
            let mut points = Vec::new();
            for stretch in all {
                let part = ModelPart::inner(stretch);
                let call = worker.open_call_for(self.me).await.map_err(|_| Failed::Gone)?;
                let done = self.steps(part).over_host(call, *digest).await?;
                self.tell_visits(Place::Local, part, &done).await;
                points.push((stretch, done));
            }
            self.tell_line(Place::Local, &points).await;
            if layers == LayerRange::all(self.wanted.file.shape().layers) {
                let part = self.head();
                let call = worker.open_call_for(self.me).await.map_err(|_| Failed::Gone)?;
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
            // Refused while a conversation is held: the own one for a moment, or somebody else's, who needs
            // the layers. Then they go when nobody uses them any more.
            if worker.release(largest).await.is_ok() {
                break;
            }
            tokio::time::sleep(RELEASE_PAUSE).await;
        }
        outcome
    }

    /// How fast weights came into the memory of this device.
    async fn tell_loaded(&self, bytes: u64, took: Duration) {
        let (place, model) = (Place::Local, self.wanted.listed.digest);
        // As everything that a round tells.
        let _ = self.house.send(Inside::Conduct(Note::Opened { place, model, bytes, took })).await;
    }
}

/// Whether nobody would miss what it takes, as far as the machine says.
fn is_at_rest(conditions: &Conditions) -> bool {
    conditions.on_battery != Some(true) && conditions.full_screen != Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_on_battery_or_in_a_game_is_left_in_peace() {
        let rest =
            Conditions { on_battery: None, others_load: None, full_screen: None, minute_of_day: 0 };
        assert!(is_at_rest(&rest), "what the machine does not say holds nothing up");
        let mains = Conditions { on_battery: Some(false), full_screen: Some(false), ..rest };
        assert!(is_at_rest(&mains));
        for used in [
            Conditions { on_battery: Some(true), ..rest },
            Conditions { full_screen: Some(true), ..rest },
        ] {
            assert!(!is_at_rest(&used), "{used:?}");
        }
    }
}
