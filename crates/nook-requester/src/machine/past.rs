//! The last replies, in memory: who computed what, who was lost, who took over. Nothing of what was
//! asked or said is here, and nothing of a device that is not paired any more.

use std::collections::VecDeque;

use nook_api::views::{
    DecisionView, HappenedView, PastReplyView, ReplyEndView, ReplyEvent, ReplySpeedView, RouteView,
    ShardState,
};
use nook_base::PeerId;

/// Replies that are remembered; the oldest one goes for the next.
const REPLIES_MAX: usize = 32;

/// Events of one reply that are remembered; what comes later is not.
const HAPPENED_MAX: usize = 32;

/// What a reply tells for the list of past ones.
#[derive(Debug)]
pub(crate) enum Passed {
    /// Something happened.
    Happened(HappenedView),
    /// It ended.
    Ended(ReplyEndView),
}

/// The last replies, the oldest first, each under its number.
#[derive(Debug, Default)]
pub(crate) struct PastReplies {
    replies: VecDeque<(u64, PastReplyView)>,
}

impl Passed {
    /// What of an event is remembered.
    pub(crate) fn of(event: &ReplyEvent) -> Option<Self> {
        let happened = match event {
            ReplyEvent::ShardStatus { device, status: ShardState::Lost } => {
                HappenedView::Lost { device: device.clone() }
            }
            ReplyEvent::ShardStatus { device, status: ShardState::Awaited } => {
                HappenedView::Awaited { device: device.clone() }
            }
            ReplyEvent::ShardStatus { device, status: ShardState::Shared } => {
                HappenedView::Shared { device: device.clone() }
            }
            ReplyEvent::ShardFailover { failover, route } => {
                HappenedView::TookOver { failover: failover.clone(), route: route.clone() }
            }
            ReplyEvent::FallbackToLocal { route } => {
                HappenedView::TookOverHere { route: route.clone() }
            }
            ReplyEvent::Done { summary } => {
                let speed = ReplySpeedView {
                    first_token_ms: summary.first_token_ms,
                    tokens_per_second: summary.tokens_per_second,
                };
                let tokens = summary.completion_tokens;
                return Some(Self::Ended(ReplyEndView::Done { tokens, speed }));
            }
            ReplyEvent::PipelineAborted { code, .. } => {
                return Some(Self::Ended(ReplyEndView::Aborted { code: code.clone() }));
            }
            ReplyEvent::Started { .. }
            | ReplyEvent::TokenDelta { .. }
            | ReplyEvent::ThoughtDelta { .. }
            | ReplyEvent::ShardStatus { .. } => return None,
        };
        Some(Self::Happened(happened))
    }
}

impl PastReplies {
    /// A reply begins.
    pub(crate) fn begin(&mut self, number: u64, decision: &DecisionView, unix: u64) {
        let reply = PastReplyView {
            began: unix,
            model: decision.model.clone(),
            prompt_tokens: decision.prompt_tokens,
            route: decision.route.clone(),
            happened: Vec::new(),
            end: ReplyEndView::UnderWay,
        };
        self.replies.push_back((number, reply));
        if self.replies.len() > REPLIES_MAX {
            self.replies.pop_front();
        }
    }

    /// Something happened to a reply, unless it has ended by then or is forgotten.
    pub(crate) fn note(&mut self, number: u64, passed: Passed) {
        let Some((_, reply)) = self.replies.iter_mut().find(|(of, _)| *of == number) else {
            return;
        };
        if reply.end != ReplyEndView::UnderWay {
            return;
        }
        match passed {
            Passed::Happened(happened) if reply.happened.len() < HAPPENED_MAX => {
                reply.happened.push(happened);
            }
            Passed::Happened(_) => {}
            Passed::Ended(end) => reply.end = end,
        }
    }

    /// Forgets the replies that a device had a part in.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        let id = peer.to_string();
        let has = |route: &RouteView| route.legs.iter().any(|leg| leg.device_id == id);
        self.replies.retain(|(_, reply)| {
            let mut later = reply.happened.iter().filter_map(|happened| match happened {
                HappenedView::TookOver { route, .. } | HappenedView::TookOverHere { route } => {
                    Some(route)
                }
                HappenedView::Lost { .. }
                | HappenedView::Awaited { .. }
                | HappenedView::Shared { .. } => None,
            });
            !has(&reply.route) && !later.any(has)
        });
    }

    /// The newest first.
    pub(crate) fn view(&self) -> Vec<PastReplyView> {
        self.replies.iter().rev().map(|(_, reply)| reply.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use nook_api::views::{FailoverView, LegView};

    use super::*;

    const PC: PeerId = PeerId([1; 32]);
    const ATTIC: PeerId = PeerId([2; 32]);

    fn route(peer: PeerId) -> RouteView {
        let leg = LegView {
            device_id: peer.to_string(),
            device: "a device".to_owned(),
            local: false,
            layers: Some([0, 5]),
            embedding: false,
            head: false,
        };
        RouteView { legs: vec![leg] }
    }

    fn decision(peer: PeerId) -> DecisionView {
        DecisionView {
            model: "ember".to_owned(),
            prompt_tokens: 7,
            because: String::new(),
            route: route(peer),
            topology: String::new(),
            alone: None,
            alone_impossible: None,
            pooled: None,
            whole: None,
            left_out: Vec::new(),
            by_cable: None,
            went: None,
        }
    }

    fn took_over(to: PeerId) -> ReplyEvent {
        let failover = FailoverView {
            from: "Gaming PC".to_owned(),
            to: "Attic".to_owned(),
            pause_ms: 800.0,
            after_tokens: 5,
        };
        ReplyEvent::ShardFailover { failover, route: route(to) }
    }

    fn told(past: &mut PastReplies, number: u64, event: &ReplyEvent) {
        past.note(number, Passed::of(event).expect("it is remembered"));
    }

    fn aborted() -> ReplyEvent {
        let (code, sentence) = ("busy".to_owned(), "A secret.".to_owned());
        ReplyEvent::PipelineAborted { code, sentence, wording: None }
    }

    #[test]
    fn who_was_lost_and_who_took_over_is_remembered_in_order_and_no_word_is() {
        let mut past = PastReplies::default();
        past.begin(1, &decision(PC), 50);
        let lost =
            ReplyEvent::ShardStatus { device: "Gaming PC".to_owned(), status: ShardState::Lost };
        told(&mut past, 1, &lost);
        told(&mut past, 1, &took_over(ATTIC));
        told(&mut past, 1, &aborted());
        // What comes behind the end is not of this reply any more.
        told(&mut past, 1, &lost);
        let view = past.view();
        let kind = |happened: &HappenedView| match happened {
            HappenedView::Lost { device } => format!("{device} was lost"),
            HappenedView::TookOver { failover, .. } => format!("{} took over", failover.to),
            other => format!("{other:?}"),
        };
        let kinds: Vec<_> = view[0].happened.iter().map(kind).collect();
        assert_eq!(kinds, ["Gaming PC was lost", "Attic took over"]);
        assert_eq!(view[0].end, ReplyEndView::Aborted { code: "busy".to_owned() });
        let text = ReplyEvent::TokenDelta { text: "A secret.".to_owned(), tokens: 1 };
        assert!(Passed::of(&text).is_none());
        assert!(!format!("{view:?}").contains("secret"));
    }

    #[test]
    fn the_list_is_bounded_and_a_device_that_is_unpaired_is_in_it_no_more() {
        let mut past = PastReplies::default();
        for number in 0..40 {
            past.begin(number, &decision(PC), number);
        }
        assert_eq!(past.view().len(), REPLIES_MAX);
        assert_eq!(past.view()[0].began, 39);
        (0..40).for_each(|_| told(&mut past, 39, &took_over(ATTIC)));
        assert_eq!(past.view()[0].happened.len(), HAPPENED_MAX);
        past.forget(ATTIC);
        assert_eq!(past.view()[0].began, 38, "the one in which it took over is gone");
        past.forget(PC);
        assert!(past.view().is_empty());
    }
}
