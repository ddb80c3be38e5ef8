//! What a takeover cost: from the moment that somebody waited in vain to the next token.
//!
//! A takeover is complete with the first token that needed it. Only then its pause is known, and
//! then it is reported, just before the token is chosen.

use std::time::{Duration, Instant};

use nook_base::PeerId;

use crate::measure::{Failover, Takeover};
use crate::message::Report;
use crate::pipeline::Pipeline;
use crate::stage::{Phase, Stage};

impl Pipeline {
    /// The stage at `index` goes from `from` to somebody else.
    pub(crate) fn note_takeover(&mut self, index: usize, from: PeerId, since: Instant) {
        let layers = self.stages[index].layers();
        self.takeovers.push(Takeover { from, layers, since });
    }

    /// A token can be chosen from the first `end` positions: reports the takeovers that it needed.
    pub(crate) fn settle_takeovers(&mut self, end: u32, now: Instant) {
        for mut takeover in std::mem::take(&mut self.takeovers) {
            let span: Vec<&Stage> = self
                .stages
                .iter()
                .filter(|stage| stage.is_main() && !stage.is_end())
                .filter(|stage| takeover.layers.contains(stage.layers()))
                .collect();
            let has_hosts = span.iter().all(|stage| matches!(stage.phase, Phase::Open(_)));
            if !has_hosts || span.last().is_none_or(|last| last.done < end) {
                // This token came from what the lost device had answered. The wait begins with it.
                takeover.since = takeover.since.max(now);
                self.takeovers.push(takeover);
                continue;
            }
            let failover = Failover {
                from: takeover.from,
                to: span.iter().map(|stage| stage.place()).collect(),
                layers: takeover.layers,
                pause: now.checked_duration_since(takeover.since).unwrap_or(Duration::ZERO),
            };
            self.measure.failovers.push(failover.clone());
            self.report(Report::ShardFailover {
                from: failover.from,
                to: failover.to,
                layers: failover.layers,
                pause: failover.pause,
            });
        }
    }
}
