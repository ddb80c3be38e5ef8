//! Whether a reply is made whole on another device of the same person, and on which.
//!
//! The planner compares it with this device and with every division; what stands here is the
//! owner's part: only devices of the advert book's `own` come into question, which is empty unless
//! the owner has switched such requests on.

use std::time::Instant;

use nook_base::PeerId;
use nook_plan::{Because, Decision, Execution, NoPlan, Plan, Prediction};
use nook_store::Pooling;

use super::Question;
use nook_resources::adverts::AdvertBook;

/// A whole request elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffloadChoice {
    pub(crate) peer: PeerId,
    /// What it was predicted to take; absent where it was chosen whatever it takes.
    pub(crate) prediction: Option<Prediction>,
}

impl OffloadChoice {
    fn of(plan: &Plan) -> Option<Self> {
        match &plan.execution {
            Execution::Offload(whole) => {
                Some(Self { peer: whole.peer(), prediction: Some(plan.prediction) })
            }
            Execution::Route(_) => None,
        }
    }
}

impl Question {
    /// The device that is to run everything, if one is.
    pub(super) fn choose_whole(
        &self,
        planned: &Result<Decision, NoPlan>,
        book: &AdvertBook,
        now: Instant,
    ) -> Option<OffloadChoice> {
        let decision = planned.as_ref().ok();
        match self.pooling {
            Pooling::WhenFaster => OffloadChoice::of(&decision?.plan),
            // The fastest, if that is known, else the first that would do it.
            Pooling::Always => {
                let fastest = decision.and_then(|decision| decision.whole.as_ref());
                fastest.and_then(OffloadChoice::of).or_else(|| {
                    let mut able = book.own.keys().filter(|peer| self.is_able(**peer, book, now));
                    able.next().map(|peer| OffloadChoice { peer: *peer, prediction: None })
                })
            }
        }
    }

    /// Why everything goes to that device, and what that means, in words.
    pub(super) fn because_whole(
        &self,
        whole: &OffloadChoice,
        planned: &Result<Decision, NoPlan>,
        book: &AdvertBook,
    ) -> String {
        let name = book.name(&whole.peer);
        let because = planned.as_ref().ok().map(|decision| decision.because);
        let why = match (self.pooling, because) {
            (Pooling::Always, _) => {
                ", as the settings distributed_inference.pooling and whole_on_own_devices say"
            }
            (Pooling::WhenFaster, Some(Because::AloneIsImpossible)) => {
                ", because this computer has not enough memory to make it alone"
            }
            (Pooling::WhenFaster, _) => ": that is faster than here, and than any division",
        };
        format!("{name}, a device of yours, makes the whole reply{why}. It sees what is said.")
    }

    /// Whether `peer` offers to run this model whole and can be asked now.
    fn is_able(&self, peer: PeerId, book: &AdvertBook, now: Instant) -> bool {
        let offers = book.own.get(&peer).is_some_and(|own| own.offer(self.model).is_some());
        let heard = book.heard.get(&peer).filter(|heard| heard.is_fresh(now));
        let is_free =
            heard.is_some_and(|heard| heard.advert.sharing && heard.advert.streams_free > 0);
        let is_trusted = !book.wrong.contains(&(peer, self.model)) && !book.is_last_choice(peer);
        offers && is_free && is_trusted
    }
}
