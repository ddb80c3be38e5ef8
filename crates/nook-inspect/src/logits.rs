//! Logits of a list of token ids, from the whole model or from separate layer ranges.
//!
//! With cuts, every range is loaded alone, as on a device of its own, and hidden states go from one
//! to the next as frames of the wire with f32 activations: encoded, decoded and put together again.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use nook_base::limits::STEP_TOKENS_MAX;
use nook_base::{Activation, ActivationDtype, LayerRange, ModelPart};
use nook_kernels::{Compute, Isa};
use nook_model::{Input, LoadedModel, LogitRows, ModelFile, Output, Precision, Session};
use nook_wire::{CallId, Message, PrefixHash, StepHead, TensorAssembly, chunks_of, decode, encode};
use serde::Serialize;

use crate::InspectError;

/// What to compute.
#[derive(Debug, Clone)]
pub struct LogitsWish {
    /// The model file.
    pub model: PathBuf,
    /// Token ids, one for each position.
    pub ids: Vec<u32>,
    /// Layers at which a new range begins; empty for the whole model in one.
    pub split: Vec<u32>,
    /// Positions of one step; `None` for as many as a step may have.
    pub chunk: Option<u32>,
    /// Compute threads; `None` for one for each core.
    pub threads: Option<usize>,
    /// Instruction set; `None` for the best of this processor.
    pub instructions: Option<Instructions>,
    /// Where the logits go: row-major positions x vocabulary, f32, little-endian.
    pub out: PathBuf,
}

/// A set of instructions to compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instructions {
    /// What every processor of this kind has.
    Plain,
    /// AVX2.
    Avx2,
    /// AVX-512, with its integer dot products where the kernels use them.
    Avx512,
}

/// What was computed, and how. The logits themselves are in the file.
#[derive(Debug, Clone, Serialize)]
pub struct LogitsView {
    /// The file that was written.
    pub out: String,
    /// Rows.
    pub positions: u32,
    /// Numbers in a row.
    pub vocabulary: u32,
    /// The id of the greatest logit of each row (the lowest of equals); `None` where one is NaN.
    pub argmax: Vec<Option<u32>>,
    /// The parts that computed, in order.
    pub parts: Vec<PartView>,
    /// Positions of one step.
    pub chunk: u32,
    /// Compute threads.
    pub threads: usize,
    /// Instruction set.
    pub isa: &'static str,
}

/// One part of the model.
#[derive(Debug, Clone, Serialize)]
pub struct PartView {
    /// First and last layer; `None` for none.
    pub layers: Option<[u32; 2]>,
    /// Whether it begins with the embedding.
    pub embedding: bool,
    /// Whether it ends with the head.
    pub head: bool,
}

/// Computes the logits of every position and writes them to the file that is asked for.
pub fn logits(wish: &LogitsWish) -> Result<LogitsView, InspectError> {
    if wish.ids.is_empty() {
        return Err(InspectError::NoIds);
    }
    let chunk = wish.chunk.unwrap_or(STEP_TOKENS_MAX);
    if !(1..=STEP_TOKENS_MAX).contains(&chunk) {
        return Err(InspectError::Chunk { got: chunk, max: STEP_TOKENS_MAX });
    }
    let isa = isa(wish.instructions)?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = wish.threads.unwrap_or_else(cores).max(1);
    let layers = ModelFile::open(&wish.model)?.shape().layers;
    let mut stages = Vec::new();
    for part in parts(layers, &wish.split)? {
        stages.push(Stage::load(wish, part, threads, isa)?);
    }
    let vocabulary = stages.first().map_or(0, |stage| stage.model.file().shape().vocabulary);
    let mut rows = Rows { stages, position: 0, out: None, argmax: Vec::new() };
    if let Err(error) = rows.run(wish, chunk, vocabulary) {
        if rows.out.take().is_some() {
            // What was written is not the answer; the error says why there is none.
            let _ = std::fs::remove_file(&wish.out);
        }
        return Err(error);
    }
    Ok(LogitsView {
        out: wish.out.display().to_string(),
        positions: rows.position,
        vocabulary,
        argmax: rows.argmax,
        parts: rows.stages.iter().map(|stage| stage.session.part().into()).collect(),
        chunk,
        threads,
        isa: isa.name(),
    })
}

/// One part of the model, as on a device of its own.
struct Stage {
    model: LoadedModel,
    session: Session,
}

impl Stage {
    fn load(
        wish: &LogitsWish,
        part: ModelPart,
        threads: usize,
        isa: Isa,
    ) -> Result<Self, InspectError> {
        let compute = Compute::with_isa(threads, isa)
            .map_err(|error| InspectError::Threads { reason: error.to_string() })?;
        let mut model =
            LoadedModel::with_compute(ModelFile::open(&wish.model)?, compute, Precision::Auto);
        model.hold(&part)?;
        let positions = u32::try_from(wish.ids.len()).unwrap_or(u32::MAX);
        let session = model.session(part, positions)?;
        Ok(Self { model, session })
    }
}

/// The run in the middle of its work.
struct Rows {
    stages: Vec<Stage>,
    position: u32,
    out: Option<BufWriter<File>>,
    argmax: Vec<Option<u32>>,
}

impl Rows {
    fn run(&mut self, wish: &LogitsWish, chunk: u32, vocabulary: u32) -> Result<(), InspectError> {
        for ids in wish.ids.chunks(chunk as usize) {
            let values = self.step(ids)?;
            self.argmax.extend(values.chunks(vocabulary.max(1) as usize).map(first_greatest));
            self.write(&wish.out, &values).map_err(|source| unwritten(&wish.out, source))?;
            self.position += ids.len() as u32;
        }
        let flushed = self.out.as_mut().map_or(Ok(()), |out| out.flush());
        flushed.map_err(|source| unwritten(&wish.out, source))
    }

    /// The logits of `ids`, through all parts.
    fn step(&mut self, ids: &[u32]) -> Result<Vec<f32>, InspectError> {
        let position = self.position;
        let mut hidden: Option<Vec<f32>> = None;
        for Stage { model, session } in &mut self.stages {
            let input = match &hidden {
                None => Input::Tokens(ids),
                Some(rows) => Input::Hidden(rows),
            };
            let output = session
                .step(model, input, LogitRows::All)
                .map_err(|source| InspectError::Step { position, source })?;
            match output {
                Output::Logits { values, .. } => return Ok(values),
                Output::Hidden(rows) => {
                    let last = session.part().layers.end().checked_sub(1);
                    let layer = last.map_or("none".to_owned(), |last| last.to_string());
                    let width = model.file().shape().row;
                    hidden = Some(across_the_wire(&rows, width, position, &layer)?);
                }
            }
        }
        Ok(Vec::new())
    }

    fn write(&mut self, path: &Path, values: &[f32]) -> io::Result<()> {
        let out = match &mut self.out {
            Some(out) => out,
            none => none.insert(BufWriter::new(File::create(path)?)),
        };
        values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))
    }
}

fn unwritten(path: &Path, source: io::Error) -> InspectError {
    InspectError::File { file: path.to_owned(), done: "written", source }
}

/// The instruction set that is asked for, if this processor has it.
fn isa(wanted: Option<Instructions>) -> Result<Isa, InspectError> {
    let Some(wanted) = wanted else { return Ok(Isa::detect()) };
    let available = Isa::available();
    let found = match wanted {
        Instructions::Plain => Some(Isa::PLAIN),
        Instructions::Avx2 => available.iter().find(|isa| isa.name() == "AVX2").copied(),
        Instructions::Avx512 => {
            available.iter().rfind(|isa| isa.name().starts_with("AVX-512")).copied()
        }
    };
    found.ok_or_else(|| InspectError::Instructions {
        wanted,
        had: available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", "),
    })
}

/// The parts between the cuts, the first with the embedding, the last with the head.
fn parts(layers: u32, split: &[u32]) -> Result<Vec<ModelPart>, InspectError> {
    let cuts: Vec<u32> = std::iter::once(0).chain(split.iter().copied()).chain([layers]).collect();
    let wrong = || {
        let got: Vec<String> = split.iter().map(u32::to_string).collect();
        let last = layers.saturating_sub(1);
        InspectError::Split { got: got.join(","), last, layers }
    };
    cuts.windows(2)
        .map(|pair| match LayerRange::new(pair[0], pair[1]) {
            Ok(range) if !range.is_empty() => Ok(ModelPart {
                layers: range,
                embedding: range.start() == 0,
                head: range.end() == layers,
            }),
            _ => Err(wrong()),
        })
        .collect()
}

/// Sends hidden states through the encoding that devices use between them.
fn across_the_wire(
    rows: &[f32],
    width: u32,
    position: u32,
    layer: &str,
) -> Result<Vec<f32>, InspectError> {
    let dtype = ActivationDtype::F32;
    let unfit = |problem: String| InspectError::Hidden { layer: layer.to_owned(), problem };
    let sent =
        Activation::from_f32(rows, width, dtype).map_err(|error| unfit(error.to_string()))?;
    let head = Message::Step(StepHead {
        step: 0,
        position,
        count: sent.tokens(),
        hidden: sent.hidden(),
        dtype,
        history_before: PrefixHash::default(),
        history_after: PrefixHash::default(),
        bulk: false,
    });
    let mut assembly = None;
    let mut received = None;
    let chunks = chunks_of(sent.bytes().clone()).map(Message::Chunk);
    for (seq, message) in (0..).zip(std::iter::once(head).chain(chunks)) {
        match decode(encode(CallId(1), seq, &message))?.message {
            Message::Step(head) => {
                assembly = Some(TensorAssembly::new(head.count, head.hidden, head.dtype)?);
            }
            Message::Chunk(chunk) => {
                if let Some(assembly) = &mut assembly {
                    received = assembly.take(chunk)?;
                }
            }
            _ => {}
        }
    }
    let received = received.ok_or_else(|| unfit("there are none".to_owned()))?;
    Ok(received.to_f32())
}

/// The first index of the greatest number; `None` when one is NaN.
fn first_greatest(row: &[f32]) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (id, &value) in (0..).zip(row) {
        if value.is_nan() {
            return None;
        }
        if best.is_none_or(|(_, greatest)| value > greatest) {
            best = Some((id, value));
        }
    }
    best.map(|(id, _)| id)
}

impl From<ModelPart> for PartView {
    fn from(part: ModelPart) -> Self {
        let ModelPart { layers, embedding, head } = part;
        let ends = layers.end().checked_sub(1).filter(|_| !layers.is_empty());
        Self { layers: ends.map(|last| [layers.start(), last]), embedding, head }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain instructions",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_make_parts_that_cover_the_model() {
        let shown = |split: &[u32]| {
            let parts = parts(6, split).ok()?;
            Some(parts.iter().map(|part| part.layers.to_string()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(shown(&[]).as_deref(), Some("0-5"));
        assert_eq!(shown(&[2, 4]).as_deref(), Some("0-1 2-3 4-5"));
        for wrong in [&[0][..], &[6], &[7], &[3, 3], &[4, 2]] {
            assert_eq!(shown(wrong), None, "{wrong:?}");
        }
        let ends = parts(6, &[2, 4]).unwrap();
        assert!(ends[0].embedding && !ends[0].head && !ends[1].embedding && ends[2].head);
    }

    #[test]
    fn hidden_states_cross_the_wire_bit_for_bit() {
        // More than one chunk: 300 rows of 512 numbers are 600 KB.
        let rows: Vec<f32> = (0..300 * 512).map(|n| (n as f32).sin() * 1e-3).collect();
        let back = across_the_wire(&rows, 512, 7, "0").unwrap();
        assert!(back.iter().zip(&rows).all(|(a, b)| a.to_bits() == b.to_bits()));
        assert_eq!(back.len(), rows.len());
        assert!(across_the_wire(&[f32::NAN; 4], 4, 0, "3").is_err());
    }

    #[test]
    fn the_greatest_is_the_first_of_equals_and_none_among_nan() {
        assert_eq!(first_greatest(&[1.0, 3.0, 3.0]), Some(1));
        assert_eq!(first_greatest(&[f32::NEG_INFINITY]), Some(0));
        assert_eq!(first_greatest(&[1.0, f32::NAN]), None);
        assert_eq!(first_greatest(&[]), None);
    }
}
