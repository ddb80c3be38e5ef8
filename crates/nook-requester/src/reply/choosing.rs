//! Which token comes next: the sampler, and what holds the reply to its form.
//!
//! The mask for a token is worked out beside the model's own step, on a thread that may block; the
//! generation waits for it only where it takes longer. Everything here stays on the asking device.

use nook_base::{ErrorCode, Sensitive};
use nook_text::{
    Allowed, Constraint, GrammarError, SampleError, Sampler, TokenLogprobs, Tokenizer,
};
use tokio::task::JoinHandle;

use nook_api::{LikelyToken, PieceLogprobs};

/// Chooses the tokens of one reply.
#[derive(Debug)]
pub(crate) struct Chooser {
    sampler: Sampler,
    alternatives: Option<usize>,
    guide: Guide,
}

/// What was chosen.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// A token; the `last` one where nothing may come behind it.
    Token { id: u32, logprobs: Option<ChosenLogprobs>, last: bool },
    /// Nothing: the form is complete.
    Complete,
}

/// How likely the chosen token was.
#[derive(Debug)]
pub(crate) struct ChosenLogprobs {
    id: u32,
    logprobs: TokenLogprobs,
}

/// Why nothing could be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChooseError {
    #[error("{0}")]
    Logits(SampleError),
    #[error("{0}")]
    Form(GrammarError),
}

/// What holds a reply to its form.
#[derive(Debug)]
enum Guide {
    /// It may say anything.
    None,
    /// The tokens that may come next are being worked out.
    Working(JoinHandle<(Constraint, Result<Allowed, GrammarError>)>),
}

impl Chooser {
    pub(crate) fn new(
        sampler: Sampler,
        constraint: Option<Constraint>,
        alternatives: Option<usize>,
    ) -> Self {
        let guide = constraint.map_or(Guide::None, Guide::work);
        Self { sampler, alternatives, guide }
    }

    /// Chooses by `logits` after `history`.
    pub(crate) async fn choose(
        &mut self,
        logits: &[f32],
        history: &[u32],
    ) -> Result<Chosen, ChooseError> {
        let mut constraint = None;
        let mut mask = None;
        if let Guide::Working(work) = std::mem::replace(&mut self.guide, Guide::None) {
            let lost = |_| ChooseError::Form(GrammarError::Lost);
            let (held, allowed) = work.await.map_err(lost)?;
            constraint = Some(held);
            match allowed.map_err(ChooseError::Form)? {
                Allowed::Anything => {}
                Allowed::These(tokens) => mask = Some(tokens),
                Allowed::Nothing => return Ok(Chosen::Complete),
            }
        }
        let id = self
            .sampler
            .sample_within(logits, history, mask.as_ref())
            .map_err(ChooseError::Logits)?;
        let logprobs = self.alternatives.and_then(|top| {
            nook_text::sampler::logprobs(logits, id, top)
                .map(|logprobs| ChosenLogprobs { id, logprobs })
        });
        let mut last = false;
        if let Some(mut constraint) = constraint {
            constraint.accept(id).map_err(ChooseError::Form)?;
            last = constraint.is_complete();
            if !last {
                self.guide = Guide::work(constraint);
            }
        }
        Ok(Chosen::Token { id, logprobs, last })
    }
}

impl Guide {
    /// Begins to work out what may come next. It takes milliseconds and ends by itself, so a reply
    /// that is dropped meanwhile leaves nothing behind.
    fn work(mut constraint: Constraint) -> Self {
        Self::Working(tokio::task::spawn_blocking(move || {
            let allowed = constraint.allowed();
            (constraint, allowed)
        }))
    }
}

impl ChosenLogprobs {
    /// With the bytes of its tokens.
    pub(crate) fn spelt(self, tokenizer: &Tokenizer) -> PieceLogprobs {
        let token = |id: u32, logarithm: f32| LikelyToken {
            bytes: Sensitive(tokenizer.decode_bytes_with_control(id).to_owned()),
            logarithm,
        };
        PieceLogprobs {
            chosen: token(self.id, self.logprobs.chosen),
            top: self.logprobs.top.iter().map(|(id, logarithm)| token(*id, *logarithm)).collect(),
        }
    }
}

impl ChooseError {
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Logits(_) => ErrorCode::CorruptActivation,
            // The form came from the client, and was accepted: it is too much for the limits.
            Self::Form(_) => ErrorCode::BadRequest,
        }
    }
}
