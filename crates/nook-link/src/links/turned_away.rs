//! Connections that the main port refused, counted by where they came from.
//!
//! For the owner's list of what was asked, so that a flood costs a few numbers: between two looks
//! only so many sources are told apart, and all others count together.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use nook_base::PeerId;

/// Sources that are told apart between two looks.
const SOURCES_MAX: usize = 16;

/// Why connections were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyTurnedAway {
    /// No key of a device that is paired and not blocked.
    NotPaired,
    /// Too many from there have not proved who they are.
    TooMany,
}

/// Refused connections of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnedAway {
    /// Where they came from; of IPv6 the network. Absent for sources that are not told apart.
    pub from: Option<IpAddr>,
    /// The device that the last of them said to be. Nobody has proved that.
    pub claims: Option<PeerId>,
    /// Why.
    pub why: WhyTurnedAway,
    /// How many.
    pub times: u64,
}

/// Counts them. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct TurnedAwayCounts {
    // Guards a short map; never held across an await.
    counts: Arc<Mutex<BTreeMap<Source, Count>>>,
}

type Source = (Option<IpAddr>, WhyTurnedAway);

/// Of one source: how many, and who the last one said to be.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    times: u64,
    claims: Option<PeerId>,
}

impl TurnedAwayCounts {
    pub(super) fn note(&self, from: IpAddr, why: WhyTurnedAway, claims: Option<PeerId>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let source = (Some(from), why);
        let is_told_apart = counts.contains_key(&source) || counts.len() < SOURCES_MAX;
        let key = if is_told_apart { source } else { (None, why) };
        let count = counts.entry(key).or_default();
        count.times = count.times.saturating_add(1);
        count.claims = claims.filter(|_| is_told_apart);
    }

    /// What was counted since the last look.
    pub(super) fn take(&self) -> Vec<TurnedAway> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *counts).into_iter();
        let shown =
            |((from, why), Count { times, claims })| TurnedAway { from, claims, why, times };
        all.map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t2_a_flood_from_everywhere_is_a_few_numbers() {
        let counts = TurnedAwayCounts::default();
        let claims = Some(PeerId([1; 32]));
        for n in 0..2_000_u32 {
            let [_, _, high, low] = n.to_be_bytes();
            counts.note(IpAddr::from([10, 0, high, low]), WhyTurnedAway::NotPaired, claims);
        }
        let all = counts.take();
        assert_eq!(all.len(), SOURCES_MAX + 1);
        assert_eq!(all.iter().map(|it| it.times).sum::<u64>(), 2_000);
        let others = all.iter().find(|it| it.from.is_none()).copied();
        let times = 2_000 - SOURCES_MAX as u64;
        let why = WhyTurnedAway::NotPaired;
        assert_eq!(others, Some(TurnedAway { from: None, claims: None, why, times }));
        assert!(counts.take().is_empty());
    }
}
