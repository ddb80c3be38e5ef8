//! What a reply leaves with the hosts of its route, and where the next prompt goes on with it.
//!
//! `resume` makes a [`PrefixCacheEntry`] when a reply ends, and acts on a [`Resume`] when the next
//! one begins.

use nook_base::{ActivationDtype, PrefixHash, Sensitive};
use nook_plan::Segment;

/// What the hosts of a route may still hold of a conversation. Held in memory only.
#[derive(Debug, Clone)]
pub struct PrefixCacheEntry {
    /// Token ids of every position that all segments have computed.
    pub(crate) fed: Sensitive<Vec<u32>>,
    /// Positions at which all segments ended a step, ascending.
    pub(crate) ends: Vec<u32>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) dtype: ActivationDtype,
    pub(crate) key: Sensitive<[u8; 32]>,
    /// That of everything that was fed.
    pub(crate) mark: PrefixHash,
}

/// Where a prompt goes on that begins like an earlier one; made by [`PrefixCacheEntry::resume`]
/// alone.
#[derive(Debug, Clone)]
pub struct Resume {
    /// Greater than 0.
    pub(crate) position: u32,
    /// Step ends up to `position`, ascending.
    pub(crate) ends: Vec<u32>,
    pub(crate) key: Sensitive<[u8; 32]>,
}

impl PrefixCacheEntry {
    /// Positions that `prompt` need not compute again; 0 when it shares too little. Never all of
    /// it: the next token is chosen from the last position.
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
    pub fn name(&self) -> (u32, PrefixHash) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(fed: &[u32], ends: &[u32]) -> PrefixCacheEntry {
        PrefixCacheEntry {
            fed: Sensitive(fed.to_vec()),
            ends: ends.to_vec(),
            segments: Vec::new(),
            dtype: ActivationDtype::F32,
            key: Sensitive([1; 32]),
            mark: PrefixHash::EMPTY,
        }
    }

    #[test]
    fn a_prompt_goes_on_at_the_last_common_step_end_and_always_computes_something() {
        let prefix = prefix(&[1, 2, 3, 4, 5, 6], &[2, 4, 5, 6]);
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
            assert_eq!(prefix.resumable(prompt), position, "{prompt:?}");
            let resume = prefix.clone().resume(prompt);
            assert_eq!(resume.as_ref().map_or(0, Resume::position), position, "{prompt:?}");
            let ends = resume.map_or(Vec::new(), |resume| resume.ends);
            assert!(ends.iter().all(|end| *end <= position), "{prompt:?}: {ends:?}");
        }
    }

    #[test]
    fn debug_output_shows_neither_what_was_fed_nor_the_key() {
        let shown = format!("{:?}", prefix(&[424_242], &[1]));
        assert!(!shown.contains("424242") && !shown.contains("[1, 1"), "{shown}");
    }
}
