//! One measurement from beginning to end.
//!
//! The attacked text goes through the model once, with the activations kept at every cut. What a
//! helper would receive of them is made in every format, and three attacks read it cut by cut. The
//! fourth, replay, then computes each candidate once for all cuts and ways of sending together.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nalgebra::DMatrix;
use nook_base::{ActivationDtype, ModelPart, clock};
use nook_model::{Input, LoadOptions, LoadedModel, ModelFile, Precision};

use crate::PrivacyError;
use crate::attacks::probe::Probe;
use crate::attacks::replay::{Match, compare_all};
use crate::attacks::{lens, nearest};
use crate::candidates::{Candidates, embeddings};
use crate::cuts::Cuts;
use crate::quality::Quality;
use crate::sent::{Content, Sent};
use crate::texts::Texts;
use crate::view::{
    Control, Controls, CutView, FormatView, Highest, MeasuredModel, NoiseLevel, NoiseView,
    PrivacyView, Recovered, VERSION,
};
use crate::walk::{self, Walk, Walks};

/// Fewest tokens that are attacked.
pub const TOKENS_MIN: u32 = 4;

/// Most tokens that are attacked: each has a session of its own.
pub const TOKENS_MAX: u32 = 256;

/// Fewest tokens among which an attack looks, as far as the model has so many.
pub const CANDIDATES_MIN: u32 = 64;

/// For each token that is right, as many are tried at least where nobody says how many: among few
/// others, a right one is found by luck.
const WRONG_BESIDE_RIGHT: usize = 8;

/// Most tokens among which an attack looks: their embeddings are in memory.
pub const CANDIDATES_MAX: u32 = 4096;

/// Noise that is measured, as a part of the root mean square of an activation.
pub const NOISE_LEVELS: [f32; 8] = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Tokens that replay tries when nobody says how many: as many as this allows, in products of a
/// weight and a number. On two cores of a laptop that is some minutes.
const REPLAY_WORK: f64 = 1e13;

/// Candidates that are tried where that allows it.
const CANDIDATES_USUAL: u32 = 2048;

/// Most tokens that a probe learns from.
const LEARNT_TOKENS: usize = 2048;

/// Tokens of a piece of the text that a probe learns from.
const LEARNT_WINDOW: usize = 256;

/// Most bytes of the activations that probes learn from.
const LEARNT_BYTES: usize = 256 << 20;

/// What must be read from the embedding itself, or the attacks do not work.
const POSITIVE_MIN: f64 = 0.99;

/// What may be read from random numbers by chance. Some tokens are frequent, so it is not zero.
const NEGATIVE_MAX: f64 = 0.1;

/// The same at a single place. Where few tokens are attacked, an attack that always says the same one
/// is right about one of them.
const NEGATIVE_PLACE_MAX: f64 = 0.3;

/// Fewest random rows at each place: of few, chance reads too much too easily.
const RANDOM_ROWS: usize = 64;

/// Noise helps where no attack reads more than this, and at least [`KEPT_MIN`] of a reply stays.
const READ_MAX: f64 = 0.5;

/// See [`READ_MAX`].
const KEPT_MIN: f64 = 0.9;

/// What to measure.
#[derive(Debug, Clone)]
pub struct MeasureWish {
    /// The model file.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Measures one model on the processor, and tells `progress` how far it is.
///
/// # Errors
///
/// See [`PrivacyError`]: files that are no models, models that cannot be cut, layers that do not
/// exist.
pub fn measure(
    wish: &MeasureWish,
    progress: &dyn Fn(Progress),
) -> Result<PrivacyView, PrivacyError> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = wish.threads.unwrap_or_else(cores).max(1);
    let file = ModelFile::open(&wish.model)?;
    let cuts = Cuts::of(&file, wish.layers.as_deref())?;
    let texts = Texts::of(&file, &wish.model)?;
    let ids = attacked(&texts, file.shape().context_length, wish.tokens)?;
    let options = LoadOptions { threads, precision: Precision::Auto };
    let mut model = LoadedModel::new(file.clone(), options)?;
    model.hold(&ModelPart::whole(file.shape().layers))?;
    let meter = Meter { model, parts: cuts.parts(), cuts, ids, texts };
    meter.run(wish, progress)
}

/// As many tokens of the public text as are wanted and fit.
fn attacked(texts: &Texts, context: u32, wanted: u32) -> Result<Vec<u32>, PrivacyError> {
    let wanted = wanted.clamp(TOKENS_MIN, TOKENS_MAX) as usize + texts.special;
    let end = wanted.min(texts.held_out.len()).min(context as usize);
    if end < TOKENS_MIN as usize + texts.special {
        return Err(PrivacyError::TooShort { context, least: TOKENS_MIN + 1 });
    }
    Ok(texts.held_out[..end].to_vec())
}

/// A model and a text in the middle of a measurement.
struct Meter {
    model: LoadedModel,
    cuts: Cuts,
    parts: Vec<ModelPart>,
    /// The attacked text, with what stands before it.
    ids: Vec<u32>,
    texts: Texts,
}

/// What was sent at one cut in one way, and what was read of it.
struct Trial {
    cut: usize,
    sent: Sent,
    recovered: Recovered,
    next: f64,
}

/// The trials of one measurement, replay's comparisons in the same order, and what was too large to
/// be sent.
#[derive(Default)]
struct Trials {
    done: Vec<Trial>,
    too_large: Vec<(usize, Sent)>,
    /// By cut.
    matches: Vec<Vec<Match>>,
}

impl Meter {
    fn run(
        &self,
        wish: &MeasureWish,
        progress: &dyn Fn(Progress),
    ) -> Result<PrivacyView, PrivacyError> {
        let (own, likely) = self.choices()?;
        let wanted = wish.candidates.unwrap_or_else(|| self.usual_candidates());
        let wanted = wanted.clamp(CANDIDATES_MIN, CANDIDATES_MAX) as usize;
        let candidates = Candidates::choose(&self.model, wanted, self.right(), &likely)?;
        let learnt = self.learnt();
        let mut trials = self.read(wish.noise, &candidates, (&learnt, &own), progress)?;
        self.replay(&candidates, &mut trials, progress)?;
        let noise = if wish.noise { Some(self.noise(&trials, progress)?) } else { None };
        let cuts = self.cut_views(&trials);
        let highest = Highest::of(&cuts).ok_or(PrivacyError::NotFinite)?;
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Ok(PrivacyView {
            version: VERSION,
            inglenook: nook_base::VERSION.to_owned(),
            measured_at: clock::unix_seconds(),
            model: measured(self.model.file()),
            tokens: count(self.right().len()),
            learnt_tokens: count(learnt.iter().map(|window| window.len() - 1).sum()),
            candidates: count(candidates.ids.len()),
            controls: controls(&trials),
            cuts,
            meaning: highest.meaning(candidates.ids.len(), self.model.file().shape().vocabulary),
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

    /// As many candidates as take some minutes, but enough wrong ones beside each right one.
    fn usual_candidates(&self) -> u32 {
        let file = self.model.file();
        // About one weight a byte: more is said of small models than of large ones.
        let weights = file.weight_bytes(&ModelPart::whole(file.shape().layers)) as f64;
        let allowed = REPLAY_WORK / (weights * self.right().len() as f64).max(1.0);
        let right: BTreeSet<&u32> = self.right().iter().collect();
        let least = u32::try_from(WRONG_BESIDE_RIGHT * right.len()).unwrap_or(CANDIDATES_USUAL);
        let least = least.clamp(CANDIDATES_MIN, CANDIDATES_USUAL);
        (allowed as u32).clamp(least, CANDIDATES_USUAL)
    }

    /// The pieces of text that a probe learns from.
    fn learnt(&self) -> Vec<&[u32]> {
        let bytes = self.parts.len() * self.width() * size_of::<f32>();
        let most = LEARNT_TOKENS.min(LEARNT_BYTES / bytes.max(1)).max(LEARNT_WINDOW);
        let window = LEARNT_WINDOW.min(self.model.file().shape().context_length as usize).max(2);
        let all = &self.texts.learnt[..self.texts.learnt.len().min(most)];
        all.chunks(window).filter(|window| window.len() > 1).collect()
    }

    /// Everything but replay.
    fn read(
        &self,
        noise: bool,
        candidates: &Candidates,
        (learnt, own): (&[&[u32]], &[Option<u32>]),
        progress: &dyn Fn(Progress),
    ) -> Result<Trials, PrivacyError> {
        let width = self.width();
        let positions = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let at_cuts =
            Walk::new(&self.model, &self.parts, positions)?.read(&self.model, &self.ids)?;
        let (learnt_ids, mut examples) = self.examples(learnt)?;
        let targets = embeddings(&self.model, &learnt_ids)?;
        let mut trials = Trials::default();
        let of = u32::try_from(at_cuts.len()).unwrap_or(u32::MAX);
        for (cut, rows) in at_cuts.iter().enumerate() {
            progress(Progress::Cuts { done: u32::try_from(cut).unwrap_or(of), of });
            let rows = &rows[self.texts.special * width..];
            let examples = std::mem::take(&mut examples[cut]);
            let examples = DMatrix::from_row_slice(learnt_ids.len(), width, &examples);
            let probe = Probe::learn(examples, targets.clone()).ok_or(PrivacyError::NotFinite)?;
            trials.matches.push(Vec::new());
            for sent in self.ways(cut, rows, noise) {
                let Some(received) = sent.received(rows, width, cut as u64) else {
                    trials.too_large.push((cut, sent));
                    continue;
                };
                let matrix = DMatrix::from_row_slice(self.right().len(), width, &received);
                let guessed = lens::guess(&self.model, &received)?;
                trials.done.push(Trial {
                    cut,
                    sent,
                    recovered: Recovered {
                        nearest: self.share(&nearest::guess(candidates, &matrix)),
                        probe: self.share(&probe.guess(candidates, &matrix)),
                        lens: share(&guessed, self.right().iter().copied().map(Some)),
                        replay: 0.0,
                    },
                    next: share(&guessed, own.iter().copied()),
                });
                trials.matches[cut].push(Match::new(sent.format, received, width));
            }
        }
        progress(Progress::Cuts { done: of, of });
        Ok(trials)
    }

    /// The activations of `learnt` at each cut with the tokens that they are of. The first position
    /// of each piece is left out: there, some models have numbers like nowhere else.
    fn examples(&self, learnt: &[&[u32]]) -> Result<(Vec<u32>, Vec<Vec<f32>>), PrivacyError> {
        let mut ids = Vec::new();
        let mut examples = vec![Vec::new(); self.parts.len()];
        for window in learnt {
            let positions = u32::try_from(window.len()).unwrap_or(u32::MAX);
            let read = Walk::new(&self.model, &self.parts, positions)?.read(&self.model, window)?;
            ids.extend_from_slice(&window[1..]);
            for (all, rows) in examples.iter_mut().zip(read) {
                all.extend_from_slice(&rows[self.width()..]);
            }
        }
        Ok((ids, examples))
    }

    /// The ways in which `rows` are sent at the cut `cut`.
    fn ways(&self, cut: usize, rows: &[f32], noise: bool) -> Vec<Sent> {
        let plain = |format| Sent { format, content: Content::Plain };
        let mut ways: Vec<Sent> =
            [ActivationDtype::F32, ActivationDtype::F16, ActivationDtype::Q8].map(plain).to_vec();
        let rounds = RANDOM_ROWS.div_ceil(self.right().len().max(1)) as u64;
        let random = |round| Sent { format: ActivationDtype::F32, content: Content::Random(round) };
        ways.extend((0..rounds).map(random));
        if noise && cut == self.cuts.of_noise() {
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

    /// Computes every candidate behind every attacked position and compares.
    fn replay(
        &self,
        candidates: &Candidates,
        trials: &mut Trials,
        progress: &dyn Fn(Progress),
    ) -> Result<(), PrivacyError> {
        let mut walks = Walks::new(&self.model, &self.parts, &self.ids, self.texts.special)?;
        let of = u32::try_from(candidates.ids.len()).unwrap_or(u32::MAX);
        for (done, id) in (0..).zip(&candidates.ids) {
            progress(Progress::Replay { done, of });
            let at_cuts = walks.try_with(&self.model, *id)?;
            for (matches, rows) in trials.matches.iter_mut().zip(&at_cuts) {
                compare_all(matches, *id, rows);
            }
        }
        progress(Progress::Replay { done: of, of });
        let guessed = trials.matches.iter().flatten();
        for (trial, guesses) in trials.done.iter_mut().zip(guessed) {
            let guesses: Vec<Option<u32>> = guesses.guesses().collect();
            trial.recovered.replay = share(&guesses, self.right().iter().copied().map(Some));
        }
        Ok(())
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

    fn cut_views(&self, trials: &Trials) -> Vec<CutView> {
        let views = self.cuts.before().iter().enumerate().map(|(cut, layers_before)| {
            let plain = |sent: &Sent| sent.content == Content::Plain;
            let here = trials.done.iter().filter(|it| it.cut == cut && plain(&it.sent));
            let too_large = trials.too_large.iter().filter(|(at, sent)| *at == cut && plain(sent));
            CutView {
                layers_before: *layers_before,
                formats: here
                    .map(|it| FormatView {
                        format: it.sent.format,
                        recovered: it.recovered,
                        next: it.next,
                    })
                    .collect(),
                too_large_for: too_large.map(|(_, sent)| sent.format).collect(),
            }
        });
        views.collect()
    }

    /// The share of the attacked tokens that were guessed.
    fn share(&self, guesses: &[u32]) -> f64 {
        let guesses: Vec<Option<u32>> = guesses.iter().copied().map(Some).collect();
        share(&guesses, self.right().iter().copied().map(Some))
    }
}

/// The share of `right` that was guessed.
fn share(guesses: &[Option<u32>], right: impl Iterator<Item = Option<u32>>) -> f64 {
    let same = guesses.iter().zip(right).filter(|(guess, right)| **guess == *right).count();
    same as f64 / guesses.len().max(1) as f64
}

fn controls(trials: &Trials) -> Controls {
    let plain = Sent { format: ActivationDtype::F32, content: Content::Plain };
    let embedding = trials.done.iter().find(|trial| trial.cut == 0 && trial.sent == plain);
    let mut read = embedding.map_or_else(Recovered::default, |trial| trial.recovered);
    // Replay goes through all the layers: where it read less at one place, something is broken.
    for trial in trials.done.iter().filter(|trial| trial.sent == plain) {
        read.replay = read.replay.min(trial.recovered.replay);
    }
    let is_random = |trial: &&Trial| matches!(trial.sent.content, Content::Random(_));
    let random: Vec<&Trial> = trials.done.iter().filter(is_random).collect();
    let mean = |of: &dyn Fn(&Trial) -> bool| {
        let of: Vec<_> = random.iter().filter(|it| of(it)).map(|it| it.recovered).collect();
        Recovered::mean(&of)
    };
    let by_chance = mean(&|_| true);
    // One place that is broken must not hide among the others.
    let at_worst = random.iter().map(|it| mean(&|other| other.cut == it.cut).highest().1);
    let at_worst = at_worst.fold(0.0, f64::max);
    Controls {
        positive: Control {
            recovered: read,
            limit: POSITIVE_MIN,
            passed: read.nearest.min(read.replay) >= POSITIVE_MIN,
        },
        negative: Control {
            recovered: by_chance,
            limit: NEGATIVE_MAX,
            passed: by_chance.highest().1 <= NEGATIVE_MAX && at_worst <= NEGATIVE_PLACE_MAX,
        },
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

fn measured(file: &ModelFile) -> MeasuredModel {
    let shape = file.shape();
    MeasuredModel {
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

    #[test]
    fn controls_fail_where_an_attack_does_not_work_or_reads_from_nothing() {
        let trial = |cut, content, replay| Trial {
            cut,
            sent: Sent { format: ActivationDtype::F32, content },
            recovered: Recovered { nearest: replay, replay, ..Recovered::default() },
            next: 0.0,
        };
        let of = |positive, inner, negative| {
            let done = vec![
                trial(0, Content::Plain, positive),
                trial(1, Content::Plain, inner),
                trial(0, Content::Random(0), 0.0),
                trial(1, Content::Random(0), negative),
            ];
            let controls = controls(&Trials { done, ..Trials::default() });
            (controls.positive.passed, controls.negative.passed)
        };
        assert_eq!(of(1.0, 1.0, 0.04), (true, true));
        assert_eq!(of(0.9, 1.0, 0.04), (false, true));
        assert_eq!(of(1.0, 0.9, 0.04), (false, true), "replay broke behind the embedding");
        assert_eq!(of(1.0, 1.0, 0.3), (true, false));
    }
}
