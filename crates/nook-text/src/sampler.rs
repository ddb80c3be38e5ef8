//! Logits to one token id.
//!
//! Owns the random numbers of one reply, and how often it used which token. Order, as in
//! llama.cpp's default chain: what a grammar forbids goes, then biases and penalties → top-k →
//! top-p → min-p → temperature, so top-p and min-p see the model's own probabilities and the
//! expensive steps run over few candidates. Frequency and presence penalties are OpenAI's: they
//! count the tokens of the reply, not of the prompt. The same settings, logits and history give the
//! same tokens: random numbers are ChaCha8 from the seed, ties go to the lower id, and
//! probabilities are computed in `f64` in one fixed order.

use std::collections::BTreeMap;

use nook_base::Sensitive;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::grammar::TokenMask;

mod logprobs;
mod settings;

pub use logprobs::{LOGPROBS_MAX, TokenLogprobs, logprobs};
pub use settings::{
    COUNT_PENALTY_MAX, PENALTY_MAX, SamplerSettings, SamplerSettingsError, SamplingParameters,
    TEMPERATURE_MAX, WINDOW_MAX,
};

/// Most tokens of one reply that may be biased; more are refused. OpenAI allows 300.
pub const BIASES_MAX: usize = 1024;
/// Strongest bias, for or against.
pub const BIAS_MAX: f32 = 100.0;

/// What is wrong with a list of biases. The client is to blame.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BiasError {
    /// More than [`BIASES_MAX`].
    #[error("there are {count} biases, at most {BIASES_MAX} are allowed")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// Stronger than [`BIAS_MAX`], or no number.
    #[error("a bias must be from -{BIAS_MAX} to {BIAS_MAX}, not {value}")]
    OutOfRange {
        /// What was given.
        value: f32,
    },
}

/// Why no token can be chosen. The model's output is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// There are no logits, or all are minus infinity.
    #[error("the model offers no token")]
    NoCandidate,
    /// A logit is NaN or plus infinity.
    #[error("logit {index} is not a usable number")]
    NotFinite {
        /// The token's id.
        index: usize,
    },
}

/// A token that may be chosen.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    logit: f32,
}

/// What is added to a token's logit.
#[derive(Debug, Clone, Copy, Default)]
struct Shift {
    /// As the client asked.
    bias: f32,
    /// How often the reply has the token.
    count: u32,
}

impl Shift {
    fn of(self, settings: &SamplerSettings) -> f32 {
        if self.count == 0 {
            return self.bias;
        }
        #[expect(clippy::cast_precision_loss, reason = "a reply has fewer tokens than 2^24")]
        let count = self.count as f32;
        self.bias - count * settings.frequency_penalty - settings.presence_penalty
    }
}

/// Logits that are passed over together when none of them can be chosen: most of a vocabulary of
/// 150,000 at each token.
const STRIDE: usize = 64;

/// Best first; the lower id first among equals.
fn by_rank(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// Keeps the `keep` best and returns the logit of the last of them.
fn cut_to(candidates: &mut Vec<Candidate>, keep: usize) -> f32 {
    let (_, last, _) = candidates.select_nth_unstable_by(keep - 1, by_rank);
    let floor = last.logit;
    candidates.truncate(keep);
    floor
}

/// Chooses the tokens of one reply.
#[derive(Debug)]
pub struct Sampler {
    settings: SamplerSettings,
    random: ChaCha8Rng,
    /// By token: how its logit changes, without the repetition penalty.
    shifts: Sensitive<BTreeMap<u32, Shift>>,
    // Both are kept only to spare an allocation for each token.
    candidates: Vec<Candidate>,
    recent: Vec<u32>,
}

impl Sampler {
    /// A sampler at the start of its random numbers.
    #[must_use]
    pub fn new(settings: SamplerSettings) -> Self {
        Self {
            settings,
            random: ChaCha8Rng::seed_from_u64(settings.seed),
            shifts: BTreeMap::new().into(),
            candidates: Vec::new(),
            recent: Vec::new(),
        }
    }

    /// The sampler with something added to the logits of these tokens; at 100 a token is all but
    /// certain, at -100 it all but never comes. Ids outside the vocabulary do nothing.
    pub fn with_biases(mut self, biases: &[(u32, f32)]) -> Result<Self, BiasError> {
        if biases.len() > BIASES_MAX {
            return Err(BiasError::TooMany { count: biases.len() });
        }
        for &(id, value) in biases {
            // Written so that NaN fails.
            if !(-BIAS_MAX..=BIAS_MAX).contains(&value) {
                return Err(BiasError::OutOfRange { value });
            }
            self.shifts.0.entry(id).or_default().bias = value;
        }
        Ok(self)
    }

    /// The sampler that all but never chooses any of `tokens`, whatever was added to them. Those beyond
    /// [`BIASES_MAX`], together with what has a bias already, are left.
    #[must_use]
    pub fn without(mut self, tokens: &[u32]) -> Self {
        for id in tokens.iter().take(BIASES_MAX.saturating_sub(self.shifts.0.len())) {
            // As a bias: another device that goes on with this reply is told of it like of any other.
            self.shifts.0.entry(*id).or_default().bias = -BIAS_MAX;
        }
        self
    }

    /// How it chooses.
    #[must_use]
    pub fn settings(&self) -> &SamplerSettings {
        &self.settings
    }

    /// What is added to the logits of which tokens, as [`Self::with_biases`] was told; ascending.
    pub fn biases(&self) -> impl Iterator<Item = (u32, f32)> {
        self.shifts
            .iter()
            .filter(|(_, shift)| shift.bias != 0.0)
            .map(|(id, shift)| (*id, shift.bias))
    }

    /// Goes on behind tokens that the same sampler has chosen elsewhere: what it chooses next is
    /// what it would have chosen there.
    pub fn go_on_after(&mut self, chosen: &[u32]) {
        for id in chosen {
            if self.draws() {
                self.random.next_u64();
            }
            self.count(*id);
        }
    }

    /// Chooses a token, with nothing forbidden: see [`Self::sample_within`].
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32, SampleError> {
        self.sample_within(logits, history, None)
    }

    /// Chooses a token. `logits` are by id; `history` are the tokens so far, of which the last
    /// [`SamplingParameters::repetition_window`] count; only what is in `allowed` can be chosen. At
    /// temperature 0 it is the first index of the greatest (biased, penalised) logit.
    pub fn sample_within(
        &mut self,
        logits: &[f32],
        history: &[u32],
        allowed: Option<&TokenMask>,
    ) -> Result<u32, SampleError> {
        let id = self.choose(logits, history, allowed)?;
        self.count(id);
        Ok(id)
    }

    /// Notes that the reply has this token once more.
    fn count(&mut self, id: u32) {
        if self.settings.frequency_penalty != 0.0 || self.settings.presence_penalty != 0.0 {
            let shift = self.shifts.0.entry(id).or_default();
            shift.count = shift.count.saturating_add(1);
        }
    }

    /// Whether each token takes a random number.
    fn draws(&self) -> bool {
        !self.settings.is_greedy() && self.settings.top_k != 1
    }

    fn choose(
        &mut self,
        logits: &[f32],
        history: &[u32],
        allowed: Option<&TokenMask>,
    ) -> Result<u32, SampleError> {
        let settings = self.settings;
        self.note_recent(history);
        let keep = match (settings.is_greedy(), settings.top_k) {
            (true, _) => 1,
            (false, 0) => usize::MAX,
            (false, k) => k as usize,
        };
        self.gather(logits, keep, allowed)?;
        if self.candidates.is_empty() {
            return Err(SampleError::NoCandidate);
        }
        if keep == 1 {
            return Ok(self.candidates[0].id);
        }
        self.keep_top_p();
        let best = self.best_logit();
        if settings.min_p > 0.0 {
            let floor = best + settings.min_p.ln();
            self.candidates.retain(|candidate| candidate.logit >= floor);
        }
        Ok(self.draw(best))
    }

    fn note_recent(&mut self, history: &[u32]) {
        self.recent.clear();
        if self.settings.repetition_penalty == 1.0 {
            return;
        }
        let window = (self.settings.repetition_window as usize).min(history.len());
        self.recent.extend_from_slice(&history[history.len() - window..]);
        self.recent.sort_unstable();
        self.recent.dedup();
    }

    /// Fills `candidates` with the `keep` best tokens; a single one is exactly the first maximum.
    fn gather(
        &mut self,
        logits: &[f32],
        keep: usize,
        allowed: Option<&TokenMask>,
    ) -> Result<(), SampleError> {
        let penalty = self.settings.repetition_penalty;
        // Up to twice `keep` are collected before the worse half goes, so one pass is enough.
        let room = keep.saturating_mul(2).max(64);
        let mut floor = f32::NEG_INFINITY;
        let mut recent = self.recent.iter().copied().peekable();
        let mut shifts = self.shifts.iter().peekable();
        self.candidates.clear();
        let changed = recent.peek().is_some() || shifts.peek().is_some();
        let mut next = 0;
        while let Some(&logit) = logits.get(next) {
            if !changed && next % STRIDE == 0 && floor > f32::NEG_INFINITY {
                let ahead = &logits[next..logits.len().min(next + STRIDE)];
                // Without a way out of the loop, so that it is done in vectors. A NaN is not below
                // anything, so it is met underneath.
                if ahead.iter().fold(true, |below, logit| below & (*logit <= floor)) {
                    next += ahead.len();
                    continue;
                }
            }
            let (index, id, mut logit) = (next, next as u32, logit);
            next += 1;
            if logit.is_nan() || logit == f32::INFINITY {
                return Err(SampleError::NotFinite { index });
            }
            if recent.next_if_eq(&id).is_some() {
                logit = if logit > 0.0 { logit / penalty } else { logit * penalty };
            }
            if let Some((_, shift)) = shifts.next_if(|(shifted, _)| **shifted == id) {
                logit += shift.of(&self.settings);
            }
            if logit <= floor || allowed.is_some_and(|mask| !mask.allows(id)) {
                continue;
            }
            // `-0.0` and `0.0` are equal logits and must tie.
            self.candidates.push(Candidate { id, logit: logit + 0.0 });
            if self.candidates.len() == room && keep < room {
                floor = cut_to(&mut self.candidates, keep);
            }
        }
        if keep < self.candidates.len() {
            cut_to(&mut self.candidates, keep);
        }
        Ok(())
    }

    fn best_logit(&self) -> f32 {
        self.candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max)
    }

    /// Keeps the likeliest candidates whose probabilities reach top-p, at least one.
    fn keep_top_p(&mut self) {
        let top_p = f64::from(self.settings.top_p);
        if top_p >= 1.0 {
            return;
        }
        // One order for the sum, whatever the selection left.
        self.candidates.sort_unstable_by_key(|candidate| candidate.id);
        let best = self.best_logit();
        let weight = |candidate: &Candidate| f64::from(candidate.logit - best).exp();
        let wanted = top_p * self.candidates.iter().map(weight).sum::<f64>();
        // Sorting all of a 150,000 token vocabulary costs more than the rest together: sort a head
        // that is long enough in nearly every case, and grow it if not.
        let mut sorted = 0;
        let mut head = 256;
        let mut reached = 0.0;
        while sorted < self.candidates.len() {
            head = head.min(self.candidates.len());
            if head < self.candidates.len() {
                self.candidates[sorted..].select_nth_unstable_by(head - sorted, by_rank);
            }
            self.candidates[sorted..head].sort_unstable_by(by_rank);
            for index in sorted..head {
                reached += weight(&self.candidates[index]);
                if reached >= wanted {
                    self.candidates.truncate(index + 1);
                    return;
                }
            }
            sorted = head;
            head = head.saturating_mul(8);
        }
    }

    /// Draws one candidate by its probability at the set temperature.
    fn draw(&mut self, best: f32) -> u32 {
        self.candidates.sort_unstable_by_key(|candidate| candidate.id);
        let temperature = f64::from(self.settings.temperature);
        let weight =
            |candidate: &Candidate| (f64::from(candidate.logit - best) / temperature).exp();
        let total: f64 = self.candidates.iter().map(weight).sum();
        // 53 random bits: every f64 in [0, 1) of that grid is equally likely.
        let unit = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut left = unit * total;
        let mut chosen = None;
        for candidate in &self.candidates {
            let weight = weight(candidate);
            if weight > 0.0 {
                chosen = Some(candidate.id);
                left -= weight;
                if left < 0.0 {
                    break;
                }
            }
        }
        // The best candidate has weight 1, so there is always one.
        chosen.unwrap_or(self.candidates[0].id)
    }
}
