//! Damaged model files, and what must be true of each: shared by the test `fuzz_headers` and the
//! example of that name, which runs more cases.
//!
//! Case `n` of a seed is always the same file: a sound header ([`sound`]: synthetic models of
//! several formats, and the edge files), damaged a little ([`damage`]) in its parts or its bytes.
//! It is refused with an error, or it is a file whose tensors lie where a second reader
//! ([`second`]) finds them, whole, inside and apart; and then it opens as a model or is refused,
//! and a model computes finite logits or an error. Nothing panics, and memory stays within the
//! limits below.

#![allow(clippy::unwrap_used, dead_code, reason = "test code outside `#[test]` functions")]

#[path = "fuzz/damage.rs"]
mod damage;
#[path = "fuzz/second.rs"]
mod second;
#[path = "fuzz/sound.rs"]
mod sound;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use nook_base::ModelPart;
use nook_kernels::Compute;
use nook_model::gguf::Header;
use nook_model::{Input, LoadedModel, LogitRows, ModelFile, Output, Precision};
use peak_alloc::PeakAlloc;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use sound::Sound;

/// Counts every allocation of the program, so that a case can be held to a limit.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What reading a header of a file may take: some times the file, as a byte of it can become a list
/// entry of three words, and a fixed part.
fn header_memory_max(file_bytes: usize) -> usize {
    16 * file_bytes + (1 << 16)
}

/// What a model of a small file may take, from opening it to the logits of one token.
const MODEL_MEMORY_MAX: usize = 64 << 20;

/// Most cases that are told about; a mistake that breaks all of them is told once.
const FAILURES_MAX: usize = 20;

/// What became of many cases.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Cases by their ending.
    pub(crate) endings: BTreeMap<String, u64>,
    /// Cases that broke a promise, with the promise.
    pub(crate) failures: Vec<String>,
    /// Most memory that reading a header took, in bytes.
    pub(crate) header_memory: usize,
    /// Most memory that a model took, in bytes.
    pub(crate) model_memory: usize,
}

/// The cases of one seed.
pub(crate) struct Fuzz {
    seed: u64,
    /// Synthetic files, then edge files.
    sound: Vec<Sound>,
    synthetic: usize,
    folder: tempfile::TempDir,
}

impl Fuzz {
    pub(crate) fn new(seed: u64) -> Self {
        let sound = sound::all();
        let synthetic = sound.iter().filter(|sound| sound.parts.is_some()).count();
        Self { seed, sound, synthetic, folder: tempfile::tempdir().unwrap() }
    }

    /// Runs case `index` and counts it. A panic is a broken promise.
    pub(crate) fn run(&self, index: u64, tally: &mut Tally) {
        let bytes = self.case(index);
        let ending = catch_unwind(AssertUnwindSafe(|| self.ending(&bytes, tally)));
        let broken = match ending {
            Ok(Ok(ending)) => {
                *tally.endings.entry(ending).or_default() += 1;
                return;
            }
            Ok(Err(broken)) => broken,
            Err(_) => "it panicked".to_owned(),
        };
        if tally.failures.len() < FAILURES_MAX {
            tally.failures.push(format!("case {index} of seed {}: {broken}", self.seed));
        }
    }

    /// The damaged file of case `index`.
    pub(crate) fn case(&self, index: u64) -> Vec<u8> {
        // The generator mixes its seed, so neighbours have nothing in common.
        let mut random = StdRng::seed_from_u64(self.seed ^ index.rotate_left(32));
        let sound = self.pick(&mut random);
        let mut bytes = match &sound.parts {
            Some(parts) if random.random_range(0..3) > 0 => {
                let mut parts = parts.clone();
                for _ in 0..few(&mut random) {
                    damage::parts(&mut parts, &mut random);
                }
                parts.bytes()
            }
            _ => sound.header.clone(),
        };
        if sound.parts.is_none() || random.random_range(0..3) == 0 || bytes == sound.header {
            for _ in 0..few(&mut random) {
                damage::bytes(&mut bytes, &mut random);
            }
        }
        bytes.extend_from_slice(&sound.data);
        bytes
    }

    /// A sound file to damage: a synthetic one in two of three cases.
    fn pick(&self, random: &mut StdRng) -> &Sound {
        let (synthetic, edge) = self.sound.split_at(self.synthetic);
        let from = if edge.is_empty() || random.random_range(0..3) > 0 { synthetic } else { edge };
        &from[random.random_range(0..from.len())]
    }

    /// How the file ends: refused (where, and for what), or computed. An error is a broken promise.
    fn ending(&self, bytes: &[u8], tally: &mut Tally) -> Result<String, String> {
        let (read, taken) = measured(|| Header::read(bytes, bytes.len() as u64));
        tally.header_memory = tally.header_memory.max(taken);
        if taken > header_memory_max(bytes.len()) {
            return Err(format!("reading its header took {taken} bytes"));
        }
        let header = match read {
            Ok(header) => header,
            Err(fault) => return Ok(format!("header refused: {}", kind(&fault))),
        };
        second::check(&header, bytes)?;
        let _ = header.into_vocabulary();
        let path = self.folder.path().join("case.gguf");
        std::fs::write(&path, bytes).unwrap();
        let mut ending = Ok(String::new());
        for (precision, sane) in [(Precision::Fast, SANE_IN_HALVES), (Precision::Full, SANE)] {
            let (ended, taken) = measured(|| model(&path, bytes, precision, sane));
            tally.model_memory = tally.model_memory.max(taken);
            if taken > MODEL_MEMORY_MAX {
                return Err(format!("its model took {taken} bytes"));
            }
            ending = Ok(ended?);
        }
        ending
    }
}

/// How often to damage: mostly once, so that some of it gets far.
fn few(random: &mut StdRng) -> usize {
    [1, 1, 1, 2, 3][random.random_range(0..5)]
}

/// Weights below this give finite logits in single precision.
const SANE: f32 = 1e6;

/// Weights below this give finite logits where keys and values are held in half precision, which
/// ends at 65,504: they are sums of 64 products of two weights.
const SANE_IN_HALVES: f32 = 8.0;

/// Opens the file as a model, loads all of it and computes one token.
fn model(path: &Path, bytes: &[u8], precision: Precision, sane: f32) -> Result<String, String> {
    let opened = |file: ModelFile| -> Result<_, nook_model::ModelError> {
        file.digest()?;
        let part = ModelPart::whole(file.shape().layers);
        let _ = (file.quantisation(), file.weight_bytes(&part), file.cache_bytes(part.layers, 1));
        let mut model = LoadedModel::with_compute(file, Compute::new(1).unwrap(), precision);
        model.hold(&part)?;
        let session = model.session(part, 1)?;
        Ok((model, session))
    };
    let file = match ModelFile::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(format!("model refused: {}", kind(&error.fault))),
    };
    let (model, mut session) = match opened(file) {
        Ok(both) => both,
        Err(error) => return Ok(format!("not loaded: {}", kind(&error.fault))),
    };
    let vocabulary = model.file().shape().vocabulary;
    let token = 1.min(vocabulary - 1);
    match session.step(&model, Input::Tokens(&[token]), LogitRows::All) {
        Ok(Output::Logits { values, .. }) if values.len() == vocabulary as usize => {
            match values.iter().all(|logit| logit.is_finite()) {
                true => Ok("computed".to_owned()),
                false if !sane_weights(model.file().header(), bytes, sane) => {
                    Ok("computed from weights that are no numbers".to_owned())
                }
                false => Err("its logits are no numbers".to_owned()),
            }
        }
        Ok(other) => Err(format!("a step gave {other:?}")),
        Err(error) => Ok(format!("not computed: {}", kind(&error))),
    }
}

/// Whether all weights are finite and not so large that a sum of them could not be.
fn sane_weights(header: &Header, bytes: &[u8], limit: f32) -> bool {
    header.tensors().iter().all(|tensor| {
        let Some(format) = tensor.kind.format() else {
            return false;
        };
        let elements: u64 = tensor.dimensions.iter().product();
        let mut numbers = vec![0.0; elements as usize];
        format.decode(&bytes[tensor.start as usize..][..tensor.bytes as usize], &mut numbers);
        numbers.iter().all(|number: &f32| number.abs() < limit)
    })
}

/// What `work` yields, and the most memory it held at once, in bytes.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let yielded = work();
    (yielded, MEMORY.peak_usage().saturating_sub(before))
}

/// The name of an error's variant.
fn kind(error: &impl std::fmt::Debug) -> String {
    let shown = format!("{error:?}");
    shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
