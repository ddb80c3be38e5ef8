//! What this device has memory for, and what a person is told where that is not enough.
//!
//! The planner counts what is free now. A reply that nobody else helps with is tried beyond that,
//! up to the most that this machine could make free; where even that is too little, trying would
//! only load until nothing is left for anybody, so it is refused beforehand, with what is missing.

use nook_api::NodeError;
use nook_api::views::{NoHelp, WhyNoHelp, Wording};
use nook_base::{ErrorCode, LayerRange, ModelPart, PeerId};
use nook_plan::{Impossible, LeftOut, Out, Place, Route, Situation, Why, predict};
use nook_resources::memory::memory_ceiling_beside;

use super::{Choice, Encoded, Question, held_bytes};
use nook_api::Reach;

/// What this device lacks for making a reply alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Memory, in bytes.
    Room {
        /// What the reply needs.
        needs: u64,
        /// What this device could give it.
        free: u64,
    },
    /// Layers: only the ends of the model are here.
    Layers,
    /// Layers that it computes itself, whoever computes the rest: they are on their way.
    Ends,
}

impl Question {
    /// Bytes that this device's worker could take at the very most, which has the layers that were
    /// told in memory, and may use `card` bytes of a card's own. Asks the system, and may wait for
    /// it.
    pub(crate) fn memory_ceiling(&self, told: &Encoded, card: u64) -> u64 {
        let (here, card) = self.with_card(&told.held, card);
        memory_ceiling_beside(here).saturating_add(card)
    }

    /// What this device lacks for making the reply alone; absent where it can, or could.
    pub(super) fn lack(&self, told: &Encoded) -> Option<Lack> {
        if !self.has_ends() {
            return Some(Lack::Ends);
        }
        let (model, request) = (self.costs(), self.request(told));
        let here = nook_plan::Device { memory_free: told.memory_ceiling, ..self.here(told) };
        let situation = Situation { model: &model, request: &request, here: &here, others: &[] };
        match predict(&situation, &Route::alone(model.layers).ok()?) {
            Err(Impossible::NoRoom { needs, free, .. }) => Some(Lack::Room { needs, free }),
            Err(Impossible::NotComputed { .. }) => Some(Lack::Layers),
            _ => None,
        }
    }

    /// Whether the layers are here that this device computes itself of every reply.
    pub(super) fn has_ends(&self) -> bool {
        let layers = self.file.shape().layers;
        let (prefix, suffix) = (self.ends.prefix.min(layers), self.ends.suffix.min(layers));
        let start = ModelPart { layers: LayerRange::all(prefix), embedding: true, head: false };
        let end = LayerRange::with_len(layers - suffix, suffix);
        let end = ModelPart { layers: end, embedding: false, head: true };
        self.file.has_part(&start) && self.file.has_part(&end)
    }

    /// Layers besides those of `route` that this device could compute, should other devices leave.
    pub(crate) fn room_here(&self, told: &Encoded, route: &Route) -> u32 {
        if self.lack(told).is_none() {
            return u32::MAX;
        }
        let (model, request) = (self.costs(), self.request(told));
        let caches = model.kv_bytes.saturating_mul(u64::from(request.positions));
        let each = model.layer_bytes.saturating_add(caches).max(1);
        // Layers in memory may be others than those that are taken over: then they make room.
        let room = told.memory_ceiling.saturating_add(held_bytes(&self.file, &told.held));
        let layers = room.saturating_sub(model.ends_bytes) / each;
        let here = route.segments().iter().filter(|segment| segment.place == Place::Local);
        let here: u64 = here.map(|segment| u64::from(segment.part.layers.len())).sum();
        u32::try_from(layers.saturating_sub(here)).unwrap_or(u32::MAX)
    }
}

impl Choice {
    /// Why the reply cannot be made, in words that say what to do; absent where it can be tried.
    pub(crate) fn refusal(
        &self,
        model: &str,
        reach: Reach,
        name: impl Fn(PeerId) -> String,
    ) -> Option<NodeError> {
        let lack = self.lack?;
        let left_out = match &self.planned {
            Some(Err(none)) => &none.left_out[..],
            Some(Ok(decision)) => &decision.left_out[..],
            None => &[],
        };
        let others: Vec<NoHelp> = left_out
            .iter()
            .map(|LeftOut { peer, why }| NoHelp { device: name(*peer), why: why_no_help(*why) })
            .collect();
        let only_here = reach == Reach::ThisDevice;
        let (sentence, model) = (sentence((model, lack), &others, only_here), model.to_owned());
        let (code, wording) = match lack {
            Lack::Ends => (ErrorCode::BadModel, Wording::EndsOnTheirWay { model }),
            Lack::Layers => {
                (ErrorCode::ShardUnavailable, Wording::OnlyEnds { model, others, only_here })
            }
            Lack::Room { needs, free } => {
                let code =
                    if only_here { ErrorCode::OutOfMemory } else { ErrorCode::ShardUnavailable };
                let (needs_bytes, free_bytes) = (needs, free);
                (code, Wording::NoRoom { model, needs_bytes, free_bytes, others, only_here })
            }
        };
        Some(NodeError::new(code, sentence).worded(wording))
    }
}

/// What was refused, and what to do.
fn sentence((model, lack): (&str, Lack), others: &[NoHelp], only_here: bool) -> String {
    let lack = match lack {
        Lack::Ends => {
            return format!(
                "What this computer needs of {model} is still on its way; nook models says how far \
                 it is."
            );
        }
        Lack::Layers => format!(
            "Only the ends of {model} are on this computer, and other devices compute the rest."
        ),
        Lack::Room { needs, free } => {
            let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
            let (needs, free) = (megabytes(needs), megabytes(free));
            format!(
                "{model} needs {needs} MB of memory for this reply, and this computer has {free} MB \
                 for it."
            )
        }
    };
    if only_here {
        return format!("{lack} Let other devices help with this chat, or choose a smaller model.");
    }
    if others.is_empty() {
        return format!("{lack} Pair another computer that helps, or choose a smaller model.");
    }
    let each = others.iter().map(|other| {
        let why = words(other.why);
        format!("{} {why}", other.device)
    });
    let each: Vec<String> = each.collect();
    format!("{lack} It cannot be divided now: {}.", each.join("; "))
}

fn words(why: WhyNoHelp) -> &'static str {
    match why {
        WhyNoHelp::Absent => "is not connected: start it",
        WhyNoHelp::NotSharing => "does not share: switch sharing on there",
        WhyNoHelp::NotAllowed => "may not help: raise its trust level",
        WhyNoHelp::Leaving => "is pausing or leaving",
        WhyNoHelp::OtherFile => "does not have this model, and may not get it",
        WhyNoHelp::LacksLayers => "is about to get its part of the model: ask again in a moment",
        WhyNoHelp::Refused => "refused a moment ago",
        WhyNoHelp::FailedLately => "failed a moment ago",
        WhyNoHelp::ComputesWrongly => "computes this model wrongly",
        WhyNoHelp::TooLittle => "does not lend enough for the rest",
    }
}

fn why_no_help(why: Why) -> WhyNoHelp {
    let Why::Out(out) = why else { return WhyNoHelp::TooLittle };
    match out {
        Out::Absent => WhyNoHelp::Absent,
        Out::NotSharing => WhyNoHelp::NotSharing,
        Out::NotAllowed => WhyNoHelp::NotAllowed,
        Out::Leaving => WhyNoHelp::Leaving,
        Out::OtherFile => WhyNoHelp::OtherFile,
        Out::LacksLayers => WhyNoHelp::LacksLayers,
        Out::Refused => WhyNoHelp::Refused,
        Out::FailedLately => WhyNoHelp::FailedLately,
        Out::ComputesWrongly => WhyNoHelp::ComputesWrongly,
    }
}

/// What is said of a reply that ended because `device` is gone, after it had said something.
pub(crate) fn device_gone(device: String) -> NodeError {
    let sentence = format!(
        "{device} computed a part of this reply and is gone, and no other device can take over. \
         What was said is kept: let the reply go on when {device} is back."
    );
    NodeError::new(ErrorCode::ShardUnavailable, sentence).worded(Wording::DeviceGone { device })
}
