//! A whole request on one other device of the same person: the only exchange in which token ids
//! cross.
//!
//! ```text
//! host      ──WHOLE OFFERS──► asker                       on the connection, as adverts are
//! asker     ──WHOLE ASK─────► host                        counts and settings, no ids
//! asker     ◄──OPENED──────── host                        its own gate let the asker in
//! asker     ──CHUNK…────────► host                        only now: prompt ids, then biases
//! asker     ◄──WHOLE TOKENS── host  ◄──CHUNK──            each token, as it is chosen
//! asker     ◄──WHOLE END───── host                        and the name of what is kept of it
//! asker     ──CLOSE─────────► host                        without a code: the name was heard
//! ```
//!
//! Everywhere else invariant I-2 holds: the heads here carry no ids either, and the ids are bytes
//! of chunks that only [`ids_for_own_device`] makes and [`IdsAssembly`] reads. Who may use these
//! two, and with which proof, is the node's affair; `cargo xtask tidy` lists the files that may
//! name them.

use bytes::{BufMut, Bytes, BytesMut};
use nook_base::{ModelDigest, PrefixHash, Sensitive};
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::chunk::Chunk;
use crate::tensor::{Pieces, TensorError};

/// Most models in one [`OffloadOffers`]; the sender leaves out the rest, the receiver refuses more.
pub const WHOLE_OFFERS_MAX: usize = 64;

/// Most tokens of a prompt; more than any model's window. A longer one is refused before anything
/// is allocated for it.
pub const WHOLE_PROMPT_MAX: u32 = 1 << 22;

/// Most biased tokens, as `nook-text` takes them; more are refused.
pub const WHOLE_BIASES_MAX: u32 = 1024;

/// Most tokens under one [`OffloadTokens`]; more are refused.
pub const WHOLE_TOKENS_MAX: u32 = 64;

/// Bytes of an id, and of the bias behind it.
const NUMBER_BYTES: usize = 4;

/// Models that this device would run whole for the one that it tells; replaces what it said before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadOffers {
    /// The models; none: nothing any more.
    #[serde(
        serialize_with = "bounded::write_list::<WHOLE_OFFERS_MAX, _, _>",
        deserialize_with = "bounded::read_list::<WHOLE_OFFERS_MAX, _, _>"
    )]
    pub offers: Vec<OffloadOffer>,
}

/// A model that would be run whole. How fast its layers are is in the advert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadOffer {
    /// The model.
    pub model: ModelDigest,
    /// Measured time of norm, head and embedding for one token, in µs; `None`: not measured.
    pub ends_us: Option<u32>,
    /// Whether they are in memory already.
    pub ends_held: bool,
    /// Measured speed at which weights that are not in memory come there, in thousands of bytes per
    /// second; `None`: not measured.
    pub load_kb_per_s: Option<u32>,
}

/// Please run this request, from its token ids to the tokens of the reply. First on a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffloadRequest {
    /// The model.
    pub model: ModelDigest,
    /// Tokens of the prompt, whose ids follow once the host has said OPENED.
    pub prompt: u32,
    /// Biased tokens, which follow behind them.
    pub biases: u32,
    /// Most tokens of the reply.
    pub tokens_max: u32,
    /// Positions that the host may remember of an earlier request that begins alike; 0: none. A
    /// guess: the host compares and begins where it can.
    pub resume: u32,
    /// How tokens are chosen, by chance from a seed: the same request gives the same reply
    /// anywhere.
    pub sampling: OffloadSampling,
}

/// How tokens are chosen; the meanings and limits are those of `nook-text`'s sampler.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OffloadSampling {
    /// Seed of the random numbers.
    pub seed: u64,
    /// 0: always the likeliest.
    pub temperature: f32,
    /// How many of the likeliest stay; 0: all.
    pub top_k: u32,
    /// The likeliest that together have this probability stay.
    pub top_p: f32,
    /// Those with at least this part of the likeliest one's probability stay.
    pub min_p: f32,
    /// How much less likely a token becomes that was used lately.
    pub repetition_penalty: f32,
    /// How many of the last tokens count as lately.
    pub repetition_window: u32,
    /// Taken off a logit for each time that the reply has the token.
    pub frequency_penalty: f32,
    /// Taken off a logit once the reply has the token.
    pub presence_penalty: f32,
}

/// Tokens of the reply follow in a chunk; or none do, and the host only says how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadTokens {
    /// Positions computed for this request so far; what was remembered is not among them.
    pub positions: u32,
    /// Tokens that follow, at most [`WHOLE_TOKENS_MAX`].
    pub count: u32,
    /// Time spent computing since the last such message, in µs.
    pub compute_us: u32,
    /// Time spent waiting for a turn since then, in µs.
    pub queue_us: u32,
}

/// How a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OffloadFinish {
    /// The model ended its turn.
    Stop,
    /// The limit of tokens was reached.
    Length,
}

/// Names what the host keeps of a request, for the next one that begins alike to go on with.
///
/// Only the host can make the hash; the asker returns it when nobody will go on
/// ([`crate::KeptHistory`]). What the asker has not heard the name of is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadKept {
    /// Positions that are kept: of the prompt and of the reply.
    pub position: u32,
    /// Prefix hash of the history up to there.
    pub mark: PrefixHash,
}

/// What follows a [`OffloadRequest`].
#[derive(Debug, Clone, PartialEq)]
pub struct OffloadIds {
    /// The ids of the prompt, or of tokens.
    pub ids: Sensitive<Vec<u32>>,
    /// What is added to the logits of which tokens.
    pub biases: Sensitive<Vec<(u32, f32)>>,
}

/// Puts ids together from their chunks. `Debug` shows no id.
#[derive(Debug)]
pub struct IdsAssembly {
    ids: usize,
    pieces: Pieces,
}

/// The bytes of ids, and of biases behind them, for a device of the same person and for nobody
/// else.
#[must_use]
pub fn ids_for_own_device(ids: &[u32], biases: &[(u32, f32)]) -> Bytes {
    let mut bytes = BytesMut::with_capacity((ids.len() + 2 * biases.len()) * NUMBER_BYTES);
    ids.iter().for_each(|id| bytes.put_u32_le(*id));
    for (id, bias) in biases {
        bytes.put_u32_le(*id);
        bytes.put_f32_le(*bias);
    }
    bytes.freeze()
}

impl IdsAssembly {
    /// Starts what follows `ask`; nothing is allocated yet.
    pub fn of_ask(ask: &OffloadRequest) -> Result<Self, TensorError> {
        if !(1..=WHOLE_PROMPT_MAX).contains(&ask.prompt) {
            return Err(TensorError::CountOutOfRange { count: ask.prompt });
        }
        if ask.biases > WHOLE_BIASES_MAX {
            return Err(TensorError::CountOutOfRange { count: ask.biases });
        }
        Ok(Self::new(ask.prompt, ask.biases))
    }

    /// Starts the tokens under `head`, of which there is one at least.
    pub fn of_tokens(head: &OffloadTokens) -> Result<Self, TensorError> {
        if !(1..=WHOLE_TOKENS_MAX).contains(&head.count) {
            return Err(TensorError::CountOutOfRange { count: head.count });
        }
        Ok(Self::new(head.count, 0))
    }

    fn new(ids: u32, biases: u32) -> Self {
        // Both are within their limits, so this is far below what a machine counts to.
        let (ids, biases) = (ids as usize, biases as usize);
        let bytes = ids.saturating_add(biases.saturating_mul(2)).saturating_mul(NUMBER_BYTES);
        Self { ids, pieces: Pieces::new(bytes) }
    }

    /// Adds the next chunk. Returns everything with the last one.
    pub fn take(&mut self, chunk: Chunk) -> Result<Option<OffloadIds>, TensorError> {
        let Some(bytes) = self.pieces.take(chunk)? else {
            return Ok(None);
        };
        let (numbers, _) = bytes.as_chunks::<NUMBER_BYTES>();
        let (ids, biases) = numbers.split_at_checked(self.ids).unwrap_or((numbers, &[]));
        let (pairs, _) = biases.as_chunks::<2>();
        Ok(Some(OffloadIds {
            ids: Sensitive(ids.iter().map(|id| u32::from_le_bytes(*id)).collect()),
            biases: Sensitive(
                pairs
                    .iter()
                    .map(|[id, bias]| (u32::from_le_bytes(*id), f32::from_le_bytes(*bias)))
                    .collect(),
            ),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(prompt: u32, biases: u32) -> OffloadRequest {
        OffloadRequest {
            model: ModelDigest([7; 32]),
            prompt,
            biases,
            tokens_max: 9,
            resume: 0,
            sampling: OffloadSampling {
                seed: 1,
                temperature: 0.0,
                top_k: 40,
                top_p: 0.95,
                min_p: 0.05,
                repetition_penalty: 1.0,
                repetition_window: 64,
                frequency_penalty: 0.0,
                presence_penalty: 0.0,
            },
        }
    }

    #[test]
    fn ids_and_biases_come_back_as_they_were_cut_and_not_one_more() {
        let ids: Vec<u32> = (0..200_000).map(|id| id * 21_474).collect();
        let biases = [(5, -100.0), (u32::MAX, 0.5)];
        let mut assembly = IdsAssembly::of_ask(&ask(200_000, 2)).unwrap();
        let mut whole = None;
        for chunk in crate::chunks_of(ids_for_own_device(&ids, &biases)) {
            assert_eq!(whole, None, "before the last chunk");
            whole = assembly.take(chunk).unwrap();
        }
        let whole = whole.expect("all came");
        assert_eq!((&whole.ids.0, &whole.biases.0[..]), (&ids, &biases[..]));
        assert!(!format!("{whole:?} {assembly:?}").contains("21474"), "no id in Debug output");
        let late = crate::chunks_of(ids_for_own_device(&[1], &[])).next().unwrap();
        assert!(assembly.take(late).is_err());
    }

    #[test]
    fn counts_that_cannot_be_are_refused_before_anything_is_held() {
        let refused = |prompt, biases| IdsAssembly::of_ask(&ask(prompt, biases)).is_err();
        assert!(refused(0, 0) && refused(WHOLE_PROMPT_MAX + 1, 0) && refused(u32::MAX, 0));
        assert!(refused(1, WHOLE_BIASES_MAX + 1) && !refused(1, WHOLE_BIASES_MAX));
        let tokens = |count| OffloadTokens { positions: 9, count, compute_us: 0, queue_us: 0 };
        assert!(IdsAssembly::of_tokens(&tokens(0)).is_err());
        assert!(IdsAssembly::of_tokens(&tokens(WHOLE_TOKENS_MAX + 1)).is_err());
        let mut short = IdsAssembly::of_tokens(&tokens(2)).unwrap();
        let chunk = crate::chunks_of(ids_for_own_device(&[1], &[])).next().unwrap();
        assert!(short.take(chunk).is_err(), "one id where two were said");
    }
}
