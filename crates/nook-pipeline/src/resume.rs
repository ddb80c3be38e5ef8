//! Going on where an earlier reply of the same conversation ended, instead of computing it again.
//!
//! A reply that ended in order leaves a [`Trail`]: what was fed, and at which positions every segment
//! of the route ended a step, for only there both sides have a mark. The next prompt resumes at the
//! greatest such position within the tokens that it shares with the trail ([`Trail::resume`]). Every
//! segment is asked for that same position, so position and cache length are one number everywhere.
//! Whoever does not remember it makes all segments begin at 0, once. After a resume no activations of
//! the positions before it are kept here: a device that is lost then is replaced by rebuilding the
//! logs before it from the token ids, as after any log that has forgotten its beginning (`recover`).

use std::time::Instant;

use nook_base::{ActivationDtype, Sensitive};
use nook_plan::Segment;

use crate::fault::{Fault, FaultKind};
use crate::history::HistoryMark;
use crate::pipeline::Pipeline;
use crate::stage::{Phase, Stage};

/// What the hosts of a route may still hold of a conversation. Held in memory only.
#[derive(Debug, Clone)]
pub struct Trail {
    /// Token ids of every position that all segments have computed.
    fed: Sensitive<Vec<u32>>,
    /// Positions at which all segments ended a step, ascending.
    ends: Vec<u32>,
    segments: Vec<Segment>,
    dtype: ActivationDtype,
    key: Sensitive<[u8; 32]>,
    /// That of everything that was fed.
    mark: HistoryMark,
}

/// Where a prompt goes on that begins like an earlier one; made by [`Trail::resume`] alone.
#[derive(Debug, Clone)]
pub struct Resume {
    /// Greater than 0.
    pub(crate) position: u32,
    /// Step ends up to `position`, ascending.
    pub(crate) ends: Vec<u32>,
    pub(crate) key: Sensitive<[u8; 32]>,
}

impl Trail {
    /// Positions that `prompt` need not compute again; 0 when it shares too little. Never all of it:
    /// the next token is chosen from the last position.
    #[must_use]
    pub fn resumable(&self, prompt: &[u32]) -> u32 {
        let pairs = self.fed.iter().zip(prompt);
        let shared = pairs.take_while(|(fed, asked)| fed == asked).count();
        let shared = shared.min(prompt.len().saturating_sub(1));
        let within = self.ends.partition_point(|end| *end as usize <= shared);
        within.checked_sub(1).and_then(|index| self.ends.get(index)).copied().unwrap_or(0)
    }

    /// Where `prompt` goes on, if it shares enough with what was fed.
    #[must_use]
    pub fn resume(mut self, prompt: &[u32]) -> Option<Resume> {
        let position = self.resumable(prompt);
        self.ends.retain(|end| *end <= position);
        (position > 0).then_some(Resume { position, ends: self.ends, key: self.key })
    }

    /// Who holds it, in layer order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// How activations were written.
    #[must_use]
    pub fn dtype(&self) -> ActivationDtype {
        self.dtype
    }

    /// By what the hosts know it: how long it is, and its mark.
    #[must_use]
    pub fn name(&self) -> (u32, HistoryMark) {
        (self.ends.last().copied().unwrap_or(0), self.mark)
    }

    /// Positions held.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.fed.len()
    }
}

impl Resume {
    /// Positions that are not computed again.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position
    }
}

impl Pipeline {
    /// What the hosts hold once their calls were closed in order; `None` while the walk goes on, after
    /// a bad end, and where some segment holds nothing.
    pub fn take_trail(&mut self) -> Option<Trail> {
        self.trail.take()
    }

    /// Whether every segment is between two steps and could be left as it is.
    pub(crate) fn is_between_steps(&self) -> bool {
        self.is_in_order() && self.stages.iter().all(|stage| stage.under_way.is_empty())
    }

    /// Whether nothing is being repaired, relieved or checked.
    pub(crate) fn is_in_order(&self) -> bool {
        let is_well = |stage: &Stage| {
            stage.is_main() && stage.is_open() && !stage.draining && stage.gift.is_none()
        };
        self.stages.iter().all(is_well)
    }

    /// What would be held if every call were closed now.
    pub(crate) fn trail_here(&self) -> Option<Trail> {
        if !self.stages.iter().filter(|stage| stage.is_main()).all(Stage::is_left_in_order) {
            return None;
        }
        let mut lines = self.stages.iter().filter(|stage| stage.is_main()).map(|stage| &stage.ends);
        let mut ends = lines.next()?.clone();
        for others in lines {
            ends.retain(|end| others.binary_search(end).is_ok());
        }
        let last = *ends.last()?;
        Some(Trail {
            fed: Sensitive(self.ids.get(..last as usize)?.to_vec()),
            ends,
            segments: self.places().collect(),
            dtype: self.boundaries.dtype(),
            key: self.settings.history_key.clone(),
            mark: self.marks.at(last),
        })
    }

    /// Whether `fault` says that the host of a stage does not remember what it was asked to go on with.
    pub(crate) fn is_resume_refused(&self, index: usize, fault: &Fault) -> bool {
        let stage = &self.stages[index];
        let is_opening = matches!(stage.phase, Phase::Opening(_));
        stage.from > 0 && is_opening && fault.kind == FaultKind::Reported
    }

    /// Somebody does not remember: everybody begins at 0. No later attempt asks to resume, so this
    /// happens once.
    pub(crate) fn resume_nothing(&mut self, now: Instant) {
        self.measure.resumes_refused += 1;
        self.compute_all_again(self.boundaries.dtype(), now);
    }
}

impl Stage {
    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// Whether a host that is left now keeps what it has for the next call.
    pub(crate) fn is_left_in_order(&self) -> bool {
        let is_idle = self.under_way.is_empty() && self.gift.is_none();
        self.is_main() && self.is_open() && !self.draining && is_idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(fed: &[u32], ends: &[u32]) -> Trail {
        Trail {
            fed: Sensitive(fed.to_vec()),
            ends: ends.to_vec(),
            segments: Vec::new(),
            dtype: ActivationDtype::F32,
            key: Sensitive([1; 32]),
            mark: HistoryMark::EMPTY,
        }
    }

    #[test]
    fn a_prompt_goes_on_at_the_last_common_step_end_and_always_computes_something() {
        let trail = trail(&[1, 2, 3, 4, 5, 6], &[2, 4, 5, 6]);
        let cases: [(&[u32], u32); 8] = [
            (&[1, 2, 3, 4, 5, 6, 7, 8], 6),
            (&[1, 2, 3, 4, 5, 6], 5),
            (&[1, 2, 3, 4, 9, 6, 7], 4),
            (&[1, 2, 3, 9, 9, 9, 9], 2),
            (&[1, 2, 3], 2),
            (&[1, 2], 0),
            (&[9, 2, 3, 4, 5], 0),
            (&[], 0),
        ];
        for (prompt, position) in cases {
            assert_eq!(trail.resumable(prompt), position, "{prompt:?}");
            let resume = trail.clone().resume(prompt);
            assert_eq!(resume.as_ref().map_or(0, Resume::position), position, "{prompt:?}");
            let ends = resume.map_or(Vec::new(), |resume| resume.ends);
            assert!(ends.iter().all(|end| *end <= position), "{prompt:?}: {ends:?}");
        }
    }

    #[test]
    fn debug_output_shows_neither_what_was_fed_nor_the_key() {
        let shown = format!("{:?}", trail(&[424_242], &[1]));
        assert!(!shown.contains("424242") && !shown.contains("[1, 1"), "{shown}");
    }
}
