//! What a model says differently when its activations travel in fewer bits.
//!
//! A model is cut as a household cuts it: the first and the last layer here, the middle on two
//! helpers, so that every row is rounded three times. Its own text, drawn at random from what the
//! uncut model predicts, is read once in each format; logits of every position are compared with
//! those of f32. Then each format continues the same beginnings greedily. What is rounded is
//! exactly what would be sent: [`nook_base::Activation`] writes and reads it.

use std::path::Path;

use anyhow::bail;
use nook_base::{Activation, ActivationDtype, LayerRange, ModelPart};
use nook_model::{
    Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision, Session,
};
use serde::Serialize;

/// How much is compared.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Texts.
    pub texts: u32,
    /// Tokens of each.
    pub tokens: u32,
    /// Tokens of each beginning that is continued.
    pub beginning: u32,
}

impl Sample {
    /// What figures are told from.
    pub const FULL: Self = Self { texts: 8, tokens: 96, beginning: 24 };
    /// What shows that it works.
    pub const QUICK: Self = Self { texts: 2, tokens: 24, beginning: 8 };
}

/// One format over one model, against f32.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fidelity {
    /// The format.
    pub dtype: ActivationDtype,
    /// Positions whose logits were compared.
    pub positions: usize,
    /// Root of the mean square of the differences, as a part of the logits' own spread.
    pub rms: f64,
    /// The largest difference, as a part of the same.
    pub max: f64,
    /// Share of positions whose likeliest token is the same.
    pub same_argmax: f64,
    /// Share of greedy continuations that are the same to their end.
    pub same_continuations: f64,
    /// Mean share of a greedy continuation before it differs.
    pub same_beginnings: f64,
    /// Rows that some span of layers gave back as they had come, bit for bit. The check of arrivals
    /// takes such a row for a copy, so there must be none.
    pub unchanged_rows: usize,
}

/// A model in four parts.
struct Divided<'a> {
    model: &'a LoadedModel,
    parts: Vec<ModelPart>,
    hidden: u32,
}

/// One conversation over all parts, in one format.
struct Walk<'a> {
    divided: &'a Divided<'a>,
    dtype: ActivationDtype,
    sessions: Vec<Session>,
    unchanged_rows: usize,
}

/// Compares every format with f32 over the model in `file`.
pub fn measure(file: &Path, sample: Sample) -> anyhow::Result<Vec<Fidelity>> {
    let options = LoadOptions { threads: 2, precision: Precision::Auto };
    let mut model = LoadedModel::new(ModelFile::open(file)?, options)?;
    let shape = model.file().shape().clone();
    model.hold(&ModelPart::whole(shape.layers))?;
    let divided = Divided { model: &model, parts: parts(shape.layers), hidden: shape.row };
    let start = model.file().header().number("tokenizer.ggml.bos_token_id")?.unwrap_or(1);
    let texts: Vec<Vec<u32>> = (0..sample.texts)
        .map(|number| divided.text(start.min(shape.vocabulary - 1), sample.tokens, number))
        .collect::<anyhow::Result<_>>()?;
    let exact = divided.read(ActivationDtype::F32, &texts, sample)?;
    let formats = ActivationDtype::ALL.into_iter();
    formats.map(|dtype| Ok(divided.read(dtype, &texts, sample)?.against(&exact, dtype))).collect()
}

/// What a format made of all texts.
struct Reading {
    /// Of every position of every text, row by row.
    logits: Vec<f32>,
    vocabulary: usize,
    continuations: Vec<Vec<u32>>,
    unchanged_rows: usize,
}

impl Divided<'_> {
    fn walk(&self, dtype: ActivationDtype, positions: u32) -> anyhow::Result<Walk<'_>> {
        let session = |part: &ModelPart| self.model.session(*part, positions);
        let sessions = self.parts.iter().map(session).collect::<Result<_, _>>()?;
        Ok(Walk { divided: self, dtype, sessions, unchanged_rows: 0 })
    }

    /// `tokens` tokens that the uncut model might have said after `start`.
    fn text(&self, start: u32, tokens: u32, number: u32) -> anyhow::Result<Vec<u32>> {
        let mut walk = self.walk(ActivationDtype::F32, tokens)?;
        let mut chance = Chance::of(number);
        let mut text = vec![start];
        while (text.len() as u32) < tokens {
            let last = text.last().copied().unwrap_or(start);
            let logits = walk.step(&[last])?;
            text.push(drawn(&logits, chance.next()));
        }
        Ok(text)
    }

    fn read(
        &self,
        dtype: ActivationDtype,
        texts: &[Vec<u32>],
        sample: Sample,
    ) -> anyhow::Result<Reading> {
        let mut reading = Reading {
            logits: Vec::new(),
            vocabulary: self.model.file().shape().vocabulary as usize,
            continuations: Vec::new(),
            unchanged_rows: 0,
        };
        for text in texts {
            let mut walk = self.walk(dtype, sample.tokens)?;
            reading.logits.extend(walk.step(text)?);
            reading.unchanged_rows += walk.unchanged_rows;
            let beginning = &text[..text.len().min(sample.beginning as usize)];
            let more = sample.tokens.saturating_sub(sample.beginning);
            reading.continuations.push(self.greedy(dtype, beginning, more)?);
        }
        Ok(reading)
    }

    fn greedy(
        &self,
        dtype: ActivationDtype,
        beginning: &[u32],
        more: u32,
    ) -> anyhow::Result<Vec<u32>> {
        let mut walk = self.walk(dtype, beginning.len() as u32 + more)?;
        let vocabulary = self.model.file().shape().vocabulary as usize;
        let mut said = Vec::new();
        let mut next = beginning.to_vec();
        for _ in 0..more {
            let logits = walk.step(&next)?;
            next = vec![likeliest(&logits[logits.len() - vocabulary..])];
            said.extend_from_slice(&next);
        }
        Ok(said)
    }
}

impl Walk<'_> {
    /// The logits of every token in `ids`.
    fn step(&mut self, ids: &[u32]) -> anyhow::Result<Vec<f32>> {
        let Divided { model, hidden, .. } = *self.divided;
        let mut rows: Option<Activation> = None;
        for session in &mut self.sessions {
            let numbers = rows.as_ref().map(Activation::to_f32);
            let input = numbers.as_deref().map_or(Input::Tokens(ids), Input::Hidden);
            match session.step(model, input, LogitRows::All)? {
                Output::Logits { values, .. } => return Ok(values),
                Output::Hidden(values) => {
                    let sent = Activation::from_f32(&values, hidden, self.dtype)?;
                    self.unchanged_rows +=
                        rows.as_ref().map_or(0, |before| equal_rows(before, &sent));
                    rows = Some(sent);
                }
            }
        }
        bail!("no part has the head")
    }
}

impl Reading {
    fn against(&self, exact: &Self, dtype: ActivationDtype) -> Fidelity {
        let width = self.vocabulary.max(1);
        let count = exact.logits.len().max(1) as f64;
        let mean = exact.logits.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
        let square = |x: f64| x * x;
        let spread =
            (exact.logits.iter().map(|x| square(f64::from(*x) - mean)).sum::<f64>() / count).sqrt();
        let apart: Vec<f64> =
            self.logits.iter().zip(&exact.logits).map(|(x, y)| f64::from((x - y).abs())).collect();
        let rows = || self.logits.chunks_exact(width).zip(exact.logits.chunks_exact(width));
        let positions = rows().count();
        let same = rows().filter(|(one, other)| likeliest(one) == likeliest(other)).count();
        let shared: Vec<f64> = self
            .continuations
            .iter()
            .zip(&exact.continuations)
            .map(|(one, other)| {
                let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
                same as f64 / other.len().max(1) as f64
            })
            .collect();
        let texts = shared.len().max(1) as f64;
        let whole = shared.iter().filter(|share| **share >= 1.0).count();
        Fidelity {
            dtype,
            positions,
            rms: (apart.iter().map(|x| square(*x)).sum::<f64>() / count).sqrt() / spread,
            max: apart.iter().fold(0.0_f64, |most, x| most.max(*x)) / spread,
            same_argmax: same as f64 / positions.max(1) as f64,
            same_continuations: whole as f64 / texts,
            same_beginnings: shared.iter().sum::<f64>() / texts,
            unchanged_rows: self.unchanged_rows,
        }
    }
}

/// Ends of one layer, and two halves between.
fn parts(layers: u32) -> Vec<ModelPart> {
    let last = layers.saturating_sub(1);
    let mut cuts = vec![0, 1.min(last), layers.div_ceil(2).min(last), last, layers];
    cuts.dedup();
    let pairs = cuts.iter().zip(cuts.iter().skip(1));
    pairs
        .map(|(from, to)| ModelPart {
            layers: LayerRange::with_len(*from, to - from),
            embedding: *from == 0,
            head: *to == layers,
        })
        .collect()
}

fn equal_rows(before: &Activation, after: &Activation) -> usize {
    let row = before.dtype().row_bytes(before.hidden()).max(1);
    let pairs = before.bytes().chunks_exact(row).zip(after.bytes().chunks_exact(row));
    pairs.filter(|(before, after)| before == after).count()
}

fn likeliest(logits: &[f32]) -> u32 {
    let ids = (0_u32..).zip(logits);
    ids.max_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(id, _)| id)
}

/// The token at `chance` (0 to 1) of the distribution that `logits` are.
fn drawn(logits: &[f32], chance: f64) -> u32 {
    let most = logits.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
    let weights = || logits.iter().map(|x| f64::from(x - most).exp());
    let mut left = chance * weights().sum::<f64>();
    for (id, weight) in (0_u32..).zip(weights()) {
        left -= weight;
        if left < 0.0 {
            return id;
        }
    }
    likeliest(logits)
}

/// Numbers from 0 to 1 that are the same in every run (splitmix64, Steele, Lea and Flood 2014).
struct Chance(u64);

impl Chance {
    fn of(number: u32) -> Self {
        Self(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The upper half has the better bits, and f64 holds all of it.
        (x >> 32) as f64 / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_every_layer_once_however_few_there_are() {
        for layers in 1..9 {
            let parts = parts(layers);
            let covered: Vec<u32> = parts.iter().flat_map(|part| part.layers.iter()).collect();
            assert_eq!(covered, (0..layers).collect::<Vec<_>>());
            assert!(parts[0].embedding && parts[parts.len() - 1].head);
        }
        assert_eq!(parts(16).len(), 4);
    }

    #[test]
    fn what_is_likely_is_drawn_and_what_is_impossible_is_not() {
        let logits = [0.0, f32::NEG_INFINITY, 2.0];
        assert_eq!(likeliest(&logits), 2);
        let mut chance = Chance::of(3);
        let draws: Vec<u32> = (0..1000).map(|_| drawn(&logits, chance.next())).collect();
        let count = |id| draws.iter().filter(|drawn| **drawn == id).count();
        assert_eq!(count(1), 0);
        assert!((800..960).contains(&count(2)), "{}", count(2));
    }

    #[test]
    fn a_reading_is_its_own_equal_and_differences_are_told_in_parts_of_the_spread() {
        let reading = |logits: Vec<f32>, said: Vec<u32>| Reading {
            logits,
            vocabulary: 2,
            continuations: vec![said],
            unchanged_rows: 0,
        };
        let exact = reading(vec![1.0, -1.0, 1.0, -1.0], vec![5, 6, 7, 8]);
        let same = exact.against(&exact, ActivationDtype::F32);
        assert_eq!((same.rms, same.max, same.same_argmax), (0.0, 0.0, 1.0));
        assert_eq!((same.same_continuations, same.same_beginnings), (1.0, 1.0));
        let other = reading(vec![1.0, -1.0, -1.0, 1.0], vec![5, 9, 7, 8]);
        let other = other.against(&exact, ActivationDtype::Q8);
        assert_eq!((other.max, other.same_argmax), (2.0, 0.5));
        assert_eq!((other.same_continuations, other.same_beginnings), (0.0, 0.25));
    }
}
