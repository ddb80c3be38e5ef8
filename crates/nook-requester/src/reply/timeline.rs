//! Who did what for a reply: the generation's figures as the doors show them.

use nook_base::PeerId;
use nook_pipeline::{HopMeasure, StepSums};
use nook_plan::Place;

use crate::reply::sink::ReplySink;
use nook_api::views::{PartView, WorkView};

const US_PER_MS: f64 = 1e3;

impl ReplySink {
    /// Every device that answered a step; those that were lost come first.
    pub(crate) fn timeline(&self, hops: &[HopMeasure], prompt_tokens: u32) -> Vec<PartView> {
        let used = hops.iter().filter(|hop| hop.prefill.steps + hop.decode.steps > 0);
        used.map(|hop| self.part(hop, prompt_tokens)).collect()
    }

    fn part(&self, hop: &HopMeasure, prompt_tokens: u32) -> PartView {
        let id: PeerId = match hop.place {
            Place::Local => self.me.id,
            Place::Peer(peer) => peer,
        };
        // While the history is the prompt, the first token is computed; the step behind the last
        // token that was told leads to none.
        let token = |positions: u32| {
            positions.saturating_sub(prompt_tokens).saturating_add(1).min(self.tokens)
        };
        let (first, last) = hop.history.unwrap_or_default();
        PartView {
            device_id: id.to_string(),
            device: self.name(hop.place),
            local: hop.place == Place::Local,
            layers: (!hop.layers.is_empty()).then(|| [hop.layers.start(), hop.layers.end() - 1]),
            first_token: token(first),
            last_token: token(last),
            prompt: work(&hop.prefill),
            reply: work(&hop.decode),
            bytes_out: hop.bytes_out,
            bytes_in: hop.bytes_in,
        }
    }
}

fn work(sums: &StepSums) -> WorkView {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    WorkView {
        steps: count(sums.steps),
        positions: count(sums.positions),
        compute_ms: sums.compute_us as f64 / US_PER_MS,
        queue_ms: sums.queue_us as f64 / US_PER_MS,
        network_ms: sums.wire_us as f64 / US_PER_MS,
    }
}
