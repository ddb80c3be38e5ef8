//! What noise on the activations does to a model: whether it writes the same reply, and how well it
//! predicts a text.
//!
//! The noise is added where the activations leave for a helper, to every position, and all layers
//! behind it compute with what came. The reply is the model's own without noise, always its most
//! likely token; of it is counted how many tokens are still the most likely ones with noise, each
//! behind the tokens of that reply. So one other token does not make all behind it count as other.

use nook_base::ActivationDtype;
use nook_base::ModelPart;
use nook_model::{Input, LoadedModel, LogitRows, Output};

use crate::PrivacyError;
use crate::sent::{Content, Sent};
use crate::walk::{self, Walk};

/// Tokens of the text that the reply goes on from.
const PROMPT_TOKENS: usize = 32;

/// Most tokens of the reply.
const REPLY_TOKENS: usize = 64;

/// Most tokens of the text whose perplexity is measured.
const TEXT_TOKENS: usize = 384;

/// Most positions that a measurement of noise goes through at once: the longer of the two.
pub(crate) const POSITIONS_MAX: usize = TEXT_TOKENS;

/// How often each level is measured, with other dice each time.
const ROUNDS: u64 = 3;

/// A text and a reply at one cut.
pub(crate) struct Quality<'a> {
    model: &'a LoadedModel,
    rest: ModelPart,
    text: Sequence,
    reply: Sequence,
}

/// Some tokens, their activations at the cut, and from which position on predictions count.
struct Sequence {
    ids: Vec<u32>,
    rows: Vec<f32>,
    from: usize,
}

/// How good a model still is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kept {
    /// Share of the reply's tokens that are still the most likely ones.
    pub(crate) reply: f64,
    /// Perplexity on the text.
    pub(crate) perplexity: f64,
}

impl<'a> Quality<'a> {
    /// At the end of `parts`, behind `layers_before` layers; `held_out` begins with `special` tokens
    /// that are no text, and a reply ends before `eos`.
    pub(crate) fn new(
        model: &'a LoadedModel,
        (parts, layers_before): (&[ModelPart], u32),
        (held_out, special): (&[u32], usize),
        eos: Option<u32>,
    ) -> Result<Self, PrivacyError> {
        let shape = model.file().shape();
        let context = shape.context_length as usize;
        let text = held_out[..held_out.len().min(TEXT_TOKENS).min(context)].to_vec();
        let prompt = &held_out[..held_out.len().min(special + PROMPT_TOKENS).min(context / 2)];
        let reply = reply(model, prompt, REPLY_TOKENS.min(context - prompt.len()), eos)?;
        let sequence = |ids: Vec<u32>, from: usize| {
            let rows = Walk::new(vec![&ids]).through_all(model, parts)?.to_vec();
            Ok::<_, PrivacyError>(Sequence { ids, rows, from })
        };
        Ok(Self {
            model,
            rest: walk::rest_from(layers_before, shape.layers),
            text: sequence(text, special)?,
            reply: sequence([prompt, &reply].concat(), prompt.len().saturating_sub(1))?,
        })
    }

    /// Tokens of text and of the reply that are measured.
    pub(crate) fn tokens(&self) -> (u32, u32) {
        let count = |it: &Sequence| it.ids.len().saturating_sub(it.from + 1);
        let count = |it| u32::try_from(count(it)).unwrap_or(u32::MAX);
        (count(&self.text), count(&self.reply))
    }

    /// How good the model is when `sent` is what travels.
    pub(crate) fn kept(&self, sent: Sent) -> Result<Kept, PrivacyError> {
        let rounds = if matches!(sent.content, Content::Noise(0.0)) { 1 } else { ROUNDS };
        let (mut same, mut all, mut nats, mut predicted) = (0_usize, 0_usize, 0.0, 0_usize);
        for seed in 0..rounds {
            self.predictions(&self.text, sent, seed, &mut |next, row| {
                nats -= log_share(row, next);
                predicted += 1;
            })?;
            self.predictions(&self.reply, sent, seed, &mut |next, row| {
                same += usize::from(walk::greatest(row) == Some(next));
                all += 1;
            })?;
        }
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        Ok(Kept { reply: share(same, all), perplexity: (nats / predicted.max(1) as f64).exp() })
    }

    /// Calls `each` with every next token that counts and the logits before it.
    fn predictions(
        &self,
        sequence: &Sequence,
        sent: Sent,
        seed: u64,
        each: &mut dyn FnMut(u32, &[f32]),
    ) -> Result<(), PrivacyError> {
        let width = self.model.file().shape().row as usize;
        // Where the format does not hold such numbers, f32 travels, as on the wire; the noise stays.
        let wide = Sent { format: ActivationDtype::F32, ..sent };
        let received = |sent: Sent| sent.received(&sequence.rows, width, seed);
        let came = received(sent).or_else(|| received(wide)).ok_or(PrivacyError::NotFinite)?;
        let mut at = 0;
        walk::logits(self.model, self.rest, Input::Hidden(&came), &mut |row| {
            if let Some(next) = sequence.ids.get(at + 1).filter(|_| at >= sequence.from) {
                each(*next, row);
            }
            at += 1;
        })
    }
}

/// What the model goes on with behind `prompt`, always the most likely token: at least one, at most
/// `most`, ending before `eos`.
fn reply(
    model: &LoadedModel,
    prompt: &[u32],
    most: usize,
    eos: Option<u32>,
) -> Result<Vec<u32>, PrivacyError> {
    let part = ModelPart::whole(model.file().shape().layers);
    let positions = u32::try_from(prompt.len() + most).unwrap_or(u32::MAX);
    let mut session = model.session(part, positions)?;
    let mut reply: Vec<u32> = Vec::new();
    while reply.len() < most {
        let input = reply.last().map_or(prompt, std::slice::from_ref);
        let output = session.step(model, Input::Tokens(input), LogitRows::Last)?;
        let Output::Logits { values, .. } = output else { return Err(PrivacyError::Size) };
        match walk::greatest(&values) {
            Some(next) if Some(next) != eos || reply.is_empty() => reply.push(next),
            _ => break,
        }
    }
    Ok(reply)
}

/// The logarithm of the share that softmax gives to `id`.
fn log_share(row: &[f32], id: u32) -> f64 {
    let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|logit| f64::from(logit - greatest).exp()).sum();
    let own = row.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
    f64::from(own - greatest) - sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_softmax() {
        let row = [1.0_f32, 1.0, 1.0, 1.0];
        assert!((log_share(&row, 2).exp() - 0.25).abs() < 1e-9);
        let row = [1000.0_f32, 0.0];
        assert!((log_share(&row, 0)).abs() < 1e-9);
    }
}
