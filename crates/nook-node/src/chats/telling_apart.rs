//! Tells what a model thinks from what it says, while a kept reply grows.
//!
//! Takes the pieces of a reply as they are made and gives those that doors are shown: thinking as
//! events of its own, with how long it took, and text without its marks.

use std::time::Instant;

use nook_base::{Sensitive, clock};
use nook_text::{ReplyForm, Said, SaidParser};

use nook_api::ReplyPiece;
use nook_api::views::ReplyEvent;

/// How long a model has thought.
#[derive(Debug)]
pub(super) struct Thinking {
    /// Before this part of the reply, in milliseconds.
    before: u64,
    /// Since when it thinks now; from the first word, so that reading the prompt does not count.
    since: Option<Instant>,
}

/// The reader of one reply.
#[derive(Debug)]
pub(super) struct Apart {
    parser: SaidParser,
    thinking: Thinking,
    tokens: u32,
}

impl Thinking {
    /// A reply that goes on has thought for `before` milliseconds.
    pub(super) fn after(before: u64) -> Self {
        Self { before, since: None }
    }

    fn passed(&mut self) -> u64 {
        let now = clock::now();
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since).as_millis();
        self.before.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

impl Apart {
    pub(super) fn new(form: ReplyForm, thinking: Thinking) -> Self {
        Self { parser: SaidParser::new(form), thinking, tokens: 0 }
    }

    /// What doors are shown of a piece, in order: nothing of a token whose text is not certain yet.
    /// An end comes last, behind what was held back.
    pub(super) fn told(&mut self, piece: ReplyPiece) -> Vec<ReplyPiece> {
        let ReplyPiece { event, ids, logprobs, stopped } = piece;
        match event {
            ReplyEvent::TokenDelta { text, tokens } => {
                self.tokens = tokens;
                let said = self.parser.push(&text);
                let mut shown = self.shown(said);
                if let Some(first) = shown.first_mut() {
                    (first.ids, first.logprobs) = (ids, logprobs);
                }
                shown
            }
            ReplyEvent::Done { .. } | ReplyEvent::PipelineAborted { .. } => {
                let said = self.parser.finish();
                let mut shown = self.shown(said);
                shown.push(ReplyPiece { event, ids, logprobs, stopped });
                shown
            }
            event => vec![ReplyPiece { event, ids, logprobs, stopped }],
        }
    }

    fn shown(&mut self, said: Vec<Said>) -> Vec<ReplyPiece> {
        let tokens = self.tokens;
        let mut shown = Vec::with_capacity(said.len());
        for said in said {
            let event = match said {
                Said::Text(text) => ReplyEvent::TokenDelta { text, tokens },
                Said::Thought(text) => {
                    ReplyEvent::ThoughtDelta { text, tokens, ms: self.thinking.passed() }
                }
                // Kept chats offer no tools, so their form knows no calls.
                Said::Call { .. } | Said::Arguments { .. } => continue,
            };
            let ids = Sensitive(Vec::new());
            shown.push(ReplyPiece { event, ids, logprobs: None, stopped: None });
        }
        shown
    }
}
