//! How likely the model found a token, and what it found likelier.
//!
//! These are the model's own log probabilities, over its whole vocabulary: biases, penalties,
//! temperature and a grammar change which token is chosen, not what the model thought of it.

use nook_base::Sensitive;

/// Most alternatives of one token; OpenAI allows 20.
pub const LOGPROBS_MAX: usize = 20;

/// The logprobs of one chosen token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// Natural logarithm of the chosen token's probability.
    pub chosen: f32,
    /// The likeliest tokens, best first, each with its logarithm; ties go to the lower id.
    pub top: Sensitive<Vec<(u32, f32)>>,
}

/// The logprobs of token `id` under `logits`, with the `top` likeliest tokens (at most
/// [`LOGPROBS_MAX`]). `None` for an id without a logit, and when no logit is a number.
#[must_use]
pub fn logprobs(logits: &[f32], id: u32, top: usize) -> Option<TokenLogprobs> {
    let own = *logits.get(id as usize)?;
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if !best.is_finite() {
        return None;
    }
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - best).exp()).sum();
    let whole = f64::from(best) + sum.ln();
    #[expect(clippy::cast_possible_truncation, reason = "a logarithm needs no more digits")]
    let of = |logit: f32| (f64::from(logit) - whole) as f32;
    let mut likeliest: Vec<(u32, f32)> = Vec::new();
    let keep = top.min(LOGPROBS_MAX);
    for (other, &logit) in (0_u32..).zip(logits) {
        let least = likeliest.last().map_or(f32::NEG_INFINITY, |(_, least)| *least);
        if likeliest.len() == keep && logit <= least {
            continue;
        }
        let place = likeliest.partition_point(|(_, better)| *better >= logit);
        likeliest.insert(place, (other, logit));
        likeliest.truncate(keep);
    }
    let top = likeliest.into_iter().map(|(other, logit)| (other, of(logit))).collect();
    Some(TokenLogprobs { chosen: of(own), top: Sensitive(top) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_are_logarithms_of_the_models_own_probabilities() {
        // Probabilities 0.5, 0.3, 0.15, 0.05, all logits moved by the same amount.
        let logits = [0.15_f32, 0.5, 0.05, 0.3].map(|share| share.ln() + 7.0);
        let found = logprobs(&logits, 2, 2).unwrap();
        assert!((found.chosen.exp() - 0.05).abs() < 1e-5, "{found:?}");
        let ids: Vec<u32> = found.top.iter().map(|(id, _)| *id).collect();
        let shares: f32 = found.top.iter().map(|(_, log)| log.exp()).sum();
        assert_eq!(ids, [1, 3]);
        assert!((shares - 0.8).abs() < 1e-5);
    }

    #[test]
    fn ties_go_to_the_lower_id_and_impossible_tokens_stay_impossible() {
        let found = logprobs(&[1.0, 1.0, f32::NEG_INFINITY, 1.0], 2, 2).unwrap();
        assert_eq!(found.chosen, f32::NEG_INFINITY);
        assert_eq!(found.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(logprobs(&[0.0], 1, 1), None);
        assert_eq!(logprobs(&[f32::NEG_INFINITY], 0, 1), None);
        assert!(logprobs(&[0.0; 4], 0, 0).unwrap().top.is_empty());
    }
}
