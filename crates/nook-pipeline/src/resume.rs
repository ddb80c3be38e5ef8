//! Going on where an earlier reply of the same conversation ended, instead of computing it again.
//!
//! A reply that ended in order leaves a [`PrefixCacheEntry`]: what was fed, and at which positions
//! every segment of the route ended a step, for only there both sides have a mark. The next prompt
//! resumes at the greatest such position within the tokens that it shares with the entry
//! ([`PrefixCacheEntry::resume`]). Every segment is asked for that same position, so position and
//! cache length are one number everywhere. Whoever does not remember it makes all segments begin at
//! 0, once. After a resume no activations of the positions before it are kept here: a device that
//! is lost then is replaced by rebuilding the logs before it from the token ids, as after any log
//! that has forgotten its beginning (`recover`).

use std::time::Instant;

use nook_base::Sensitive;

use crate::fault::{Fault, FaultKind};
use crate::pipeline::Pipeline;
use crate::prefix_cache::PrefixCacheEntry;
use crate::stage::{Phase, Stage};

impl Pipeline {
    /// What the hosts hold once their calls were closed in order; `None` while the walk goes on,
    /// after a bad end, and where some segment holds nothing.
    pub fn take_prefix(&mut self) -> Option<PrefixCacheEntry> {
        self.prefix.take()
    }

    /// Whether every segment is between two steps and could be left as it is.
    pub(crate) fn is_between_steps(&self) -> bool {
        self.is_in_order() && self.stages.iter().all(|stage| stage.under_way.is_empty())
    }

    /// Whether nothing is being repaired, relieved or checked.
    pub(crate) fn is_in_order(&self) -> bool {
        let is_well = |stage: &Stage| {
            stage.is_main() && stage.is_open() && !stage.draining && stage.migration.is_none()
        };
        self.stages.iter().all(is_well)
    }

    /// What would be held if every call were closed now.
    pub(crate) fn prefix_here(&self) -> Option<PrefixCacheEntry> {
        if !self.stages.iter().filter(|stage| stage.is_main()).all(Stage::is_left_in_order) {
            return None;
        }
        let mut lines = self.stages.iter().filter(|stage| stage.is_main()).map(|stage| &stage.ends);
        let mut ends = lines.next()?.clone();
        for others in lines {
            ends.retain(|end| others.binary_search(end).is_ok());
        }
        let last = *ends.last()?;
        Some(PrefixCacheEntry {
            fed: Sensitive(self.ids.get(..last as usize)?.to_vec()),
            ends,
            segments: self.places().collect(),
            dtype: self.replay_logs.dtype(),
            key: self.settings.history_key.clone(),
            mark: self.marks.at(last),
        })
    }

    /// Whether `fault` says that the host of a stage does not remember what it was asked to go on
    /// with.
    pub(crate) fn is_resume_refused(&self, index: usize, fault: &Fault) -> bool {
        let stage = &self.stages[index];
        let is_opening = matches!(stage.phase, Phase::Opening(_));
        stage.from > 0 && is_opening && fault.kind == FaultKind::Reported
    }

    /// Somebody does not remember: everybody begins at 0. No later attempt asks to resume, so this
    /// happens once.
    pub(crate) fn resume_nothing(&mut self, now: Instant) {
        self.measure.resumes_refused += 1;
        self.compute_all_again(self.replay_logs.dtype(), now);
    }
}

impl Stage {
    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// Whether a host that is left now keeps what it has for the next call.
    pub(crate) fn is_left_in_order(&self) -> bool {
        let is_idle = self.under_way.is_empty() && self.migration.is_none();
        self.is_main() && self.is_open() && !self.draining && is_idle
    }
}
