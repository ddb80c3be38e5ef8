//! One measurement from beginning to end, with the weights in memory.
//!
//! The attacked text goes through the model, and so does the one that probes learn from, with the
//! activations of one cut at a time. What a helper would receive of them is made in every format,
//! and three attacks read it. The fourth, replay, then computes each candidate for all cuts and ways
//! of sending together, for as many positions at once as there is memory for
//! ([`crate::budget`]).

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use nalgebra::DMatrix;
use nook_base::{ActivationDtype, ModelDigest, ModelPart, clock};
use nook_model::{Input, LoadedModel, ModelFile};
use serde::{Deserialize, Serialize};

use crate::PrivacyError;
use crate::attacks::probe::Probe;
use crate::attacks::replay::{Match, compare_all};
use crate::attacks::{lens, nearest};
use crate::budget::Plan;
use crate::candidates::Candidates;
use crate::cuts::Cuts;
use crate::quality::Quality;
use crate::sent::{Content, Sent};
use crate::texts::Texts;
use crate::trials::{Trial, Trials, share};
use crate::view::{Highest, MeasuredModel, NoiseLevel, NoiseView, PrivacyView, Recovered, VERSION};
use crate::walk::{self, Tries, Walk};

/// Fewest tokens that are attacked.
pub const TOKENS_MIN: u32 = 4;

/// Most tokens that are attacked: each has a session of its own.
pub const TOKENS_MAX: u32 = 256;

/// Fewest tokens among which an attack looks, as far as the model has so many.
pub const CANDIDATES_MIN: u32 = 64;

/// Most tokens among which an attack looks: their embeddings are in memory.
pub const CANDIDATES_MAX: u32 = 4096;

/// Noise that is measured, as a part of the root mean square of an activation.
pub const NOISE_LEVELS: [f32; 8] = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Tokens of a piece of the text that a probe learns from.
const LEARNT_WINDOW: usize = 256;

/// Fewest random rows at each place: of few, chance reads too much too easily.
const RANDOM_ROWS: usize = 64;

/// Noise helps where no attack reads more than this, and at least [`KEPT_MIN`] of a reply stays.
const READ_MAX: f64 = 0.5;

/// See [`READ_MAX`].
const KEPT_MIN: f64 = 0.9;

/// What to measure.
#[derive(Clone, Serialize, Deserialize)]
pub struct MeasureWish {
    /// The model file.
    #[serde(with = "nook_base::paths::lossless")]
    pub model: PathBuf,
    /// Layers before which to measure; `None` for a choice. The embedding, as a control, and the
    /// end of the last layer are always measured.
    pub layers: Option<Vec<u32>>,
    /// Tokens to attack: from [`TOKENS_MIN`] to [`TOKENS_MAX`], as far as the model takes so many.
    pub tokens: u32,
    /// Tokens among which attacks look; `None` for as many as a few minutes allow.
    pub candidates: Option<u32>,
    /// Whether to measure what noise does.
    pub noise: bool,
    /// Compute threads; `None` for one for each core.
    pub threads: Option<usize>,
}

/// How far a measurement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Places at which everything but replay is done.
    Cuts {
        /// So many.
        done: u32,
        /// Of all.
        of: u32,
    },
    /// Candidates that replay has tried.
    Replay {
        /// So many.
        done: u32,
        /// Of all.
        of: u32,
    },
    /// Levels of noise whose effect on replies is known.
    Noise {
        /// So many.
        done: u32,
        /// Of all.
        of: u32,
    },
}

impl Progress {
    /// The stage as a number, and how much of it is done, in thousandths.
    #[must_use]
    pub fn thousandths(self) -> (u8, u64) {
        let (stage, done, of) = match self {
            Self::Cuts { done, of } => (0, done, of),
            Self::Replay { done, of } => (1, done, of),
            Self::Noise { done, of } => (2, done, of),
        };
        (stage, u64::from(done) * 1000 / u64::from(of.max(1)))
    }
}

impl fmt::Debug for MeasureWish {
    /// Where the file lies is nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model: _, layers, tokens, candidates, noise, threads } = self;
        f.debug_struct("MeasureWish")
            .field("layers", layers)
            .field("tokens", tokens)
            .field("candidates", candidates)
            .field("noise", noise)
            .field("threads", threads)
            .finish_non_exhaustive()
    }
}

/// A model and a text in the middle of a measurement.
pub(crate) struct Meter {
    pub(crate) model: LoadedModel,
    pub(crate) cuts: Cuts,
    pub(crate) parts: Vec<ModelPart>,
    /// The attacked text, with what stands before it.
    pub(crate) ids: Vec<u32>,
    pub(crate) texts: Texts,
    /// Tokens among which attacks look.
    pub(crate) candidates: usize,
    pub(crate) noise: bool,
    pub(crate) plan: Plan,
}

/// Most ways of sending at one place: three formats, as many random rows as the controls need, and
/// where noise is measured every level of it.
pub(crate) fn ways_max(tokens: usize, noise: bool) -> usize {
    3 + random_rounds(tokens) + if noise { NOISE_LEVELS.len() } else { 0 }
}

fn random_rounds(tokens: usize) -> usize {
    RANDOM_ROWS.div_ceil(tokens.max(1))
}

impl Meter {
    /// Measures the model of the file with this digest.
    pub(crate) fn run(
        &self,
        digest: ModelDigest,
        progress: &dyn Fn(Progress),
    ) -> Result<PrivacyView, PrivacyError> {
        let (own, likely) = self.choices()?;
        let learnt = self.learnt();
        let chosen = Candidates::choose(&self.model, self.candidates, self.right(), &likely)?;
        let mut trials = self.read(&chosen, (&learnt, &own), progress)?;
        let candidates = chosen.into_ids();
        self.replay(&candidates, &mut trials, progress)?;
        let noise = if self.noise { Some(self.noise(&trials, progress)?) } else { None };
        let cuts = trials.cut_views(self.cuts.before());
        let highest = Highest::of(&cuts).ok_or(PrivacyError::NotFinite)?;
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Ok(PrivacyView {
            version: VERSION,
            inglenook: nook_base::VERSION.to_owned(),
            measured_at: clock::unix_seconds(),
            model: measured(self.model.file(), digest),
            tokens: count(self.right().len()),
            learnt_tokens: count(learnt.iter().map(|window| window.len() - 1).sum()),
            candidates: count(candidates.len()),
            controls: trials.controls(),
            cuts,
            meaning: highest.meaning(candidates.len(), self.model.file().shape().vocabulary),
            highest,
            noise,
        })
    }

    /// The attacked tokens.
    fn right(&self) -> &[u32] {
        &self.ids[self.texts.special..]
    }

    fn width(&self) -> usize {
        self.model.file().shape().row.max(1) as usize
    }

    /// The token that the model itself would write behind each attacked one, and all of these.
    fn choices(&self) -> Result<(Vec<Option<u32>>, Vec<u32>), PrivacyError> {
        let part = ModelPart::whole(self.model.file().shape().layers);
        let mut own = Vec::new();
        walk::logits(&self.model, part, Input::Tokens(&self.ids), &mut |row| {
            own.push(walk::greatest(row));
        })?;
        own.drain(..self.texts.special.min(own.len()));
        let likely = own.iter().copied().flatten().collect();
        Ok((own, likely))
    }

    /// The pieces of text that a probe learns from.
    fn learnt(&self) -> Vec<&[u32]> {
        let most = usize::try_from(self.plan.learnt).unwrap_or(usize::MAX);
        let all = &self.texts.learnt[..self.texts.learnt.len().min(most)];
        let window = learnt_window(self.model.file().shape().context_length);
        all.chunks(window).filter(|window| window.len() > 1).collect()
    }

    /// Everything but replay.
    fn read(
        &self,
        candidates: &Candidates,
        (learnt, own): (&[&[u32]], &[Option<u32>]),
        progress: &dyn Fn(Progress),
    ) -> Result<Trials, PrivacyError> {
        let width = self.width();
        let mut attacked = Walk::new(vec![&self.ids]);
        let mut examples = Walk::new(learnt.to_vec());
        let mut targets: Option<DMatrix<f32>> = None;
        let mut trials = Trials::default();
        let of = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        for (cut, part) in self.parts.iter().enumerate() {
            progress(Progress::Cuts { done: u32::try_from(cut).unwrap_or(of), of });
            let examples = of_pieces(learnt, examples.through(&self.model, *part)?, width);
            // What comes out of the first part is the embedding.
            let targets = targets.get_or_insert_with(|| examples.clone());
            let probe = Probe::learn(examples, targets.clone()).ok_or(PrivacyError::NotFinite)?;
            let rows = &attacked.through(&self.model, *part)?[self.texts.special * width..];
            for sent in self.ways(cut, rows) {
                let Some(received) = sent.received(rows, width, cut as u64) else {
                    trials.too_large.push((cut, sent));
                    continue;
                };
                let guessed = lens::guess(&self.model, &received)?;
                let received = DMatrix::from_row_slice(self.right().len(), width, &received);
                trials.done.push(Trial {
                    cut,
                    sent,
                    recovered: Recovered {
                        nearest: self.share(&nearest::guess(candidates, &received)),
                        probe: self.share(&probe.guess(candidates, &received)),
                        lens: share(&guessed, self.right().iter().copied().map(Some)),
                        replay: 0.0,
                    },
                    next: share(&guessed, own.iter().copied()),
                });
            }
        }
        progress(Progress::Cuts { done: of, of });
        Ok(trials)
    }

    /// The ways in which `rows` are sent at the cut `cut`.
    fn ways(&self, cut: usize, rows: &[f32]) -> Vec<Sent> {
        let plain = |format| Sent { format, content: Content::Plain };
        let mut ways: Vec<Sent> =
            [ActivationDtype::F32, ActivationDtype::F16, ActivationDtype::Q8].map(plain).to_vec();
        let rounds = random_rounds(self.right().len()) as u64;
        let random = |round| Sent { format: ActivationDtype::F32, content: Content::Random(round) };
        ways.extend((0..rounds).map(random));
        if self.noise && cut == self.cuts.of_noise() {
            let format = self.noise_format(rows);
            ways.extend(NOISE_LEVELS.map(|level| Sent { format, content: Content::Noise(level) }));
        }
        ways
    }

    /// The usual format of the wire, if also the loudest noise fits it.
    fn noise_format(&self, rows: &[f32]) -> ActivationDtype {
        let loudest = Content::Noise(NOISE_LEVELS.into_iter().fold(0.0, f32::max));
        let format = ActivationDtype::F16;
        let fits = Sent { format, content: loudest }.received(rows, self.width(), 0).is_some();
        if fits { format } else { ActivationDtype::F32 }
    }

    /// Computes every candidate behind every attacked position and compares, some positions at a
    /// time.
    fn replay(
        &self,
        candidates: &[u32],
        trials: &mut Trials,
        progress: &dyn Fn(Progress),
    ) -> Result<(), PrivacyError> {
        let (first, last) = (self.texts.special, self.ids.len());
        let round = usize::try_from(self.plan.round).unwrap_or(usize::MAX).max(1);
        let rounds: Vec<_> =
            (first..last).step_by(round).map(|at| at..last.min(at.saturating_add(round))).collect();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let of = count(candidates.len() * rounds.len());
        let mut guesses: Vec<Vec<Option<u32>>> = vec![Vec::new(); trials.done.len()];
        for (nth, positions) in rounds.into_iter().enumerate() {
            let mut matches = self.matches(trials, positions.clone())?;
            let mut tries = Tries::new(&self.model, &self.parts, &self.ids, positions)?;
            for (done, id) in candidates.iter().enumerate() {
                progress(Progress::Replay { done: count(nth * candidates.len() + done), of });
                let mut compare =
                    |cut: usize, rows: &[f32]| compare_all(&mut matches[cut], *id, rows);
                tries.with(&self.model, *id, &mut compare)?;
            }
            for (guesses, of) in guesses.iter_mut().zip(matches.iter().flatten()) {
                guesses.extend(of.guesses());
            }
        }
        progress(Progress::Replay { done: of, of });
        for (trial, guesses) in trials.done.iter_mut().zip(guesses) {
            trial.recovered.replay = share(&guesses, self.right().iter().copied().map(Some));
        }
        Ok(())
    }

    /// What a helper received at `positions`, for each of `trials`, by cut.
    fn matches(
        &self,
        trials: &Trials,
        positions: Range<usize>,
    ) -> Result<Vec<Vec<Match>>, PrivacyError> {
        let (width, special) = (self.width(), self.texts.special);
        let these = (positions.start - special) * width..(positions.end - special) * width;
        let mut attacked = Walk::new(vec![&self.ids]);
        let mut matches = Vec::with_capacity(self.parts.len());
        for (cut, part) in self.parts.iter().enumerate() {
            let rows = &attacked.through(&self.model, *part)?[special * width..];
            let here = trials.done.iter().filter(|trial| trial.cut == cut);
            let of = here.map(|trial| {
                // The whole of it, as before: noise is that of its place in the text.
                let received = trial.sent.received(rows, width, cut as u64);
                let received = received.ok_or(PrivacyError::NotFinite)?;
                Ok(Match::new(trial.sent.format, received[these.clone()].to_vec(), width))
            });
            matches.push(of.collect::<Result<Vec<_>, PrivacyError>>()?);
        }
        Ok(matches)
    }

    /// What noise does to replies beside what it does to the attacks.
    fn noise(
        &self,
        trials: &Trials,
        progress: &dyn Fn(Progress),
    ) -> Result<NoiseView, PrivacyError> {
        let cut = self.cuts.of_noise();
        let layers_before = self.cuts.before()[cut];
        let text = (&self.texts.held_out[..], self.texts.special);
        let parts = (&self.parts[..=cut], layers_before);
        let quality = Quality::new(&self.model, parts, text, self.texts.eos)?;
        let mut levels = Vec::new();
        let mut format = ActivationDtype::F16;
        let of = NOISE_LEVELS.len() as u32;
        for trial in trials.done.iter().filter(|trial| trial.cut == cut) {
            let Content::Noise(level) = trial.sent.content else { continue };
            progress(Progress::Noise { done: levels.len() as u32, of });
            let kept = quality.kept(trial.sent)?;
            format = trial.sent.format;
            levels.push(NoiseLevel {
                noise: rounded(level),
                recovered: trial.recovered,
                reply_kept: kept.reply,
                perplexity: kept.perplexity,
            });
        }
        progress(Progress::Noise { done: of, of });
        let (text_tokens, reply_tokens) = quality.tokens();
        let helps = helps(&levels);
        Ok(NoiseView { layers_before, format, text_tokens, reply_tokens, levels, helps })
    }

    /// The share of the attacked tokens that were guessed.
    fn share(&self, guesses: &[u32]) -> f64 {
        let guesses: Vec<Option<u32>> = guesses.iter().copied().map(Some).collect();
        share(&guesses, self.right().iter().copied().map(Some))
    }
}

/// Whether some noise keeps most tokens from every attack and leaves most of a reply as it was.
fn helps(levels: &[NoiseLevel]) -> bool {
    levels
        .iter()
        .any(|level| level.recovered.highest().1 <= READ_MAX && level.reply_kept >= KEPT_MIN)
}

/// `level` as it was written: f32 has more digits.
fn rounded(level: f32) -> f64 {
    (f64::from(level) * 1e6).round() / 1e6
}

/// Positions of one piece of the text that a probe learns from.
pub(crate) fn learnt_window(context: u32) -> usize {
    LEARNT_WINDOW.min(context as usize).max(2)
}

/// `rows` of all `pieces`, one behind the other, without the first position of each: there, some
/// models have numbers like nowhere else.
fn of_pieces(pieces: &[&[u32]], rows: &[f32], width: usize) -> DMatrix<f32> {
    let firsts = pieces.iter().scan(0, |from, piece| {
        let first = *from;
        *from += piece.len();
        Some(first + 1..first + piece.len())
    });
    let at: Vec<usize> = firsts.flatten().collect();
    DMatrix::from_fn(at.len(), width, |row, column| rows[at[row] * width + column])
}

fn measured(file: &ModelFile, digest: ModelDigest) -> MeasuredModel {
    let shape = file.shape();
    MeasuredModel {
        digest: digest.to_string(),
        name: file.name().to_owned(),
        architecture: file.architecture().to_owned(),
        quantisation: file.quantisation(),
        layers: shape.layers,
        row: shape.row,
        vocabulary: shape.vocabulary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_helps_only_where_little_is_read_and_replies_stay() {
        let level = |replay, reply_kept| NoiseLevel {
            noise: 0.1,
            recovered: Recovered { replay, ..Recovered::default() },
            reply_kept,
            perplexity: 1.0,
        };
        assert!(!helps(&[level(1.0, 1.0), level(0.6, 0.95), level(0.2, 0.5)]));
        assert!(helps(&[level(1.0, 1.0), level(0.4, 0.95)]));
    }
}
