//! Logits to one token id.
//!
//! Owns the random numbers of one reply. Order, as in llama.cpp's default chain: repetition penalty
//! → top-k → top-p → min-p → temperature, so top-p and min-p see the model's own probabilities and
//! the expensive steps run over few candidates. The same settings, logits and history give the same
//! tokens: random numbers are ChaCha8 from the seed, ties go to the lower id, and probabilities are
//! computed in `f64` in one fixed order.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Hottest temperature that settings may ask for.
pub const TEMPERATURE_MAX: f32 = 10.0;
/// Strongest repetition penalty, and the reciprocal of the weakest.
pub const PENALTY_MAX: f32 = 10.0;
/// Longest repetition window, in tokens.
pub const WINDOW_MAX: u32 = 1 << 20;

/// A setting that is out of range. The client is to blame.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{field} must be {allowed}, not {value}")]
pub struct SamplerSettingsError {
    /// The setting's name, as in [`SamplerSettings`].
    pub field: &'static str,
    /// What is allowed, for a person.
    pub allowed: &'static str,
    /// What was given.
    pub value: f64,
}

/// What a client or a settings file asks for; absent fields mean the defaults of
/// [`SamplerSettings::new`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RawSamplerSettings {
    /// 0 (greedy) to [`TEMPERATURE_MAX`]; default 0.8.
    pub temperature: Option<f32>,
    /// How many of the likeliest tokens stay, 0 for all; default 40.
    pub top_k: Option<u32>,
    /// The likeliest tokens that together have this probability stay, 1 for all; default 0.95.
    pub top_p: Option<f32>,
    /// Tokens with at least this part of the likeliest one's probability stay, 0 for all; default
    /// 0.05.
    pub min_p: Option<f32>,
    /// How much less likely a token becomes that was used lately (Keskar et al., arXiv
    /// 1909.05858), 1 for not at all; default 1.
    pub repetition_penalty: Option<f32>,
    /// How many of the last tokens count as lately; default 64.
    pub repetition_window: Option<u32>,
}

/// How tokens are chosen. Every value is in range: only [`SamplerSettings::new`] makes one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerSettings {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    repetition_window: u32,
    seed: u64,
}

impl SamplerSettings {
    /// Checks `raw` and fills in llama.cpp's defaults. The seed is the caller's: nothing here makes
    /// chance.
    pub fn new(raw: RawSamplerSettings, seed: u64) -> Result<Self, SamplerSettingsError> {
        let unit = "from 0 to 1";
        let temperature = raw.temperature.unwrap_or(0.8);
        let penalty = raw.repetition_penalty.unwrap_or(1.0);
        let repetition_window = raw.repetition_window.unwrap_or(64);
        if repetition_window > WINDOW_MAX {
            return Err(SamplerSettingsError {
                field: "repetition_window",
                allowed: "at most 1048576",
                value: f64::from(repetition_window),
            });
        }
        Ok(Self {
            temperature: within("temperature", "from 0 to 10", temperature, 0.0, TEMPERATURE_MAX)?,
            top_k: raw.top_k.unwrap_or(40),
            top_p: within("top_p", unit, raw.top_p.unwrap_or(0.95), 0.0, 1.0)?,
            min_p: within("min_p", unit, raw.min_p.unwrap_or(0.05), 0.0, 1.0)?,
            repetition_penalty: within(
                "repetition_penalty",
                "from 0.1 to 10",
                penalty,
                1.0 / PENALTY_MAX,
                PENALTY_MAX,
            )?,
            repetition_window,
            seed,
        })
    }

    /// Always the likeliest token.
    #[must_use]
    pub const fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_window: 0,
            seed: 0,
        }
    }

    /// Whether chance plays no part.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

fn within(
    field: &'static str,
    allowed: &'static str,
    value: f32,
    least: f32,
    most: f32,
) -> Result<f32, SamplerSettingsError> {
    // Written so that NaN fails.
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(SamplerSettingsError { field, allowed, value: f64::from(value) })
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
            candidates: Vec::new(),
            recent: Vec::new(),
        }
    }

    /// Chooses a token. `logits` are by id; `history` are the tokens so far, of which the last
    /// [`RawSamplerSettings::repetition_window`] count. At temperature 0 it is the first index of the
    /// greatest (penalised) logit.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32, SampleError> {
        let settings = self.settings;
        self.note_recent(history);
        let keep = match (settings.is_greedy(), settings.top_k) {
            (true, _) => 1,
            (false, 0) => usize::MAX,
            (false, k) => k as usize,
        };
        self.gather(logits, keep)?;
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
    fn gather(&mut self, logits: &[f32], keep: usize) -> Result<(), SampleError> {
        let penalty = self.settings.repetition_penalty;
        // Up to twice `keep` are collected before the worse half goes, so one pass is enough.
        let room = keep.saturating_mul(2).max(64);
        let mut floor = f32::NEG_INFINITY;
        let mut recent = self.recent.iter().copied().peekable();
        self.candidates.clear();
        for (index, (id, &logit)) in (0_u32..).zip(logits).enumerate() {
            let mut logit = logit;
            if logit.is_nan() || logit == f32::INFINITY {
                return Err(SampleError::NotFinite { index });
            }
            if recent.next_if_eq(&id).is_some() {
                logit = if logit > 0.0 { logit / penalty } else { logit * penalty };
            }
            if logit <= floor {
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
