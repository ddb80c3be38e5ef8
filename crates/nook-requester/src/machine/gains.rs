//! What each device brings, as it was found last, for people: see `choice::gains`.
//!
//! It is found while nobody waits for a reply, together with where layers would do most good, and
//! stays until the next look: a household that rests keeps what was found.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nook_api::views::GainView;
use nook_base::{ModelDigest, PeerId};
use nook_resources::adverts::Heard;

use crate::choice::gains::Gain;
use crate::machine::{Requester, Surroundings};

/// Time between two looks while nothing changes: what was measured meanwhile counts then.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What was found last, of the model that was used last.
#[derive(Debug, Default)]
pub(crate) struct Gains {
    found: Option<(ModelDigest, Vec<Gain>)>,
    looked: Option<Instant>,
}

impl Gains {
    /// Whether `model` is to be looked at; from then on it counts as looked at.
    pub(crate) fn begin_if_due(
        &mut self,
        model: ModelDigest,
        is_changed: bool,
        now: Instant,
    ) -> bool {
        let is_other = self.found.as_ref().is_none_or(|(of, _)| *of != model);
        let is_early = |looked: Instant| now.saturating_duration_since(looked) < LOOK_EVERY;
        let is_due = is_other || is_changed || !self.looked.is_some_and(is_early);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }

    /// A look has ended.
    pub(crate) fn take(&mut self, model: ModelDigest, found: Vec<Gain>) {
        self.found = Some((model, found));
    }

    /// A device is not paired any more.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        if let Some((_, found)) = &mut self.found {
            found.retain(|gain| gain.peer != peer);
        }
    }
}

/// Adverts of devices that may not compute for this one, as far as they still count.
pub(super) fn guests(around: &Surroundings<'_>) -> BTreeMap<PeerId, Heard> {
    let book = around.book;
    let is_guest = |(peer, heard): &(&PeerId, &Heard)| {
        book.barred.contains(peer) && heard.is_fresh(around.now)
    };
    around.heard.iter().filter(is_guest).map(|(peer, heard)| (*peer, heard.clone())).collect()
}

impl Requester {
    /// What each device brings, for front ends; nothing before the first reply with a model that is
    /// still here.
    pub fn gain_views(&self, around: &Surroundings<'_>) -> Vec<GainView> {
        let Some((model, found)) = &self.gains.found else { return Vec::new() };
        let Some(entry) = around.entry(*model) else { return Vec::new() };
        let known = found.iter().filter(|gain| (around.is_paired)(gain.peer));
        let view = |gain: &Gain| GainView {
            device_id: gain.peer.to_string(),
            device: around.book.name(&gain.peer),
            model: entry.listed.name.clone(),
            with_it: gain.with_it,
            without_it: gain.without_it,
            measured: gain.is_measured,
        };
        known.map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    #[test]
    fn a_look_is_due_once_for_each_model_and_again_when_something_changed_or_time_went_by() {
        let (mut gains, now) = (Gains::default(), clock::now());
        let [one, other] = [ModelDigest([1; 32]), ModelDigest([2; 32])];
        assert!(gains.begin_if_due(one, false, now));
        gains.take(one, Vec::new());
        assert!(!gains.begin_if_due(one, false, now));
        assert!(gains.begin_if_due(one, true, now), "the household changed");
        assert!(gains.begin_if_due(other, false, now), "another model");
        assert!(!gains.begin_if_due(one, false, now + LOOK_EVERY / 2));
        assert!(gains.begin_if_due(one, false, now + LOOK_EVERY));
    }

    #[test]
    fn nothing_is_kept_of_a_device_that_is_unpaired() {
        let [stays, goes] = [PeerId([1; 32]), PeerId([2; 32])];
        let gain = |peer| Gain { peer, with_it: 2.0, without_it: Some(1.0), is_measured: true };
        let mut gains = Gains::default();
        gains.take(ModelDigest([1; 32]), vec![gain(stays), gain(goes)]);
        gains.forget(goes);
        assert_eq!(gains.found, Some((ModelDigest([1; 32]), vec![gain(stays)])));
    }
}
