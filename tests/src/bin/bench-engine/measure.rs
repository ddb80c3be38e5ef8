//! Takes the samples, arms in turn, and makes the rows of them.
//!
//! A row that cannot be measured says why and the next one follows: the bench of a half-built
//! engine is as useful as that of a whole one.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::llama::LlamaBench;
use crate::models::{Files, Model};
use crate::probe::{Job, Loaded, Pair, Speed, Task};
use crate::report::{Bandwidth, loud};
use crate::rows::{Part, Row};
use crate::spinning::Spinning;
use crate::{bandwidth, ours};

/// Processes that spin in the row of the busy machine.
const SPINNING: usize = 2;

/// Rounds of the memory row: it hardly varies.
const MEMORY_ROUNDS_MAX: usize = 2;

/// How much is computed in one measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) rounds: usize,
    /// Tokens of the prompt, and of each step that fills a long context.
    pub(crate) prompt: u32,
    /// Positions before the first token that counts.
    pub(crate) context: u32,
    /// Tokens that count.
    pub(crate) tokens: u32,
    /// Positions of the row of many positions.
    pub(crate) far: u32,
    /// Streams that decode together.
    pub(crate) streams: u32,
    /// Bytes of memory that are read to learn how fast it is.
    pub(crate) read_bytes: usize,
}

/// Everything that measuring needs.
#[derive(Debug)]
pub(crate) struct Bench {
    /// This program.
    pub(crate) program: PathBuf,
    pub(crate) files: Files,
    pub(crate) llama: Option<LlamaBench>,
    pub(crate) sizes: Sizes,
    /// Ascending, not empty.
    pub(crate) threads: Vec<usize>,
    /// What to measure; empty means all.
    pub(crate) parts: Vec<Part>,
}

/// Samples of one file with one number of threads; those of one round stand at the same place.
#[derive(Debug, Default)]
struct Samples {
    ours: Arm,
    llama: Arm,
    llama_plain: Arm,
}

#[derive(Debug, Default)]
struct Arm {
    prefill: Vec<f64>,
    decode: Vec<f64>,
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Ours,
    Llama,
    /// llama.cpp with weights as they are in the file.
    LlamaPlain,
}

impl Sizes {
    /// Those of the design's table.
    pub(crate) fn real() -> Self {
        let read_bytes = 1 << 30;
        Self { rounds: 5, prompt: 512, context: 64, tokens: 64, far: 4000, streams: 8, read_bytes }
    }

    /// For a model of a few thousand weights.
    pub(crate) fn tiny() -> Self {
        let read_bytes = 1 << 20;
        Self { rounds: 1, prompt: 32, context: 8, tokens: 4, far: 128, streams: 3, read_bytes }
    }
}

impl Bench {
    /// How fast memory is read, for each number of threads, if a row wants to know.
    pub(crate) fn bandwidths(&self) -> Vec<Bandwidth> {
        if !self.wants(Part::Decode) {
            return Vec::new();
        }
        loud("reading memory");
        let read = |threads: &usize| {
            let bytes_per_second = bandwidth::bytes_per_second(*threads, self.sizes.read_bytes)?;
            Some(Bandwidth { threads: *threads, bytes_per_second })
        };
        self.threads.iter().filter_map(read).collect()
    }

    /// All rows that are wanted, of `models`.
    pub(crate) fn rows(&mut self, models: &[&'static Model], limits: &[Bandwidth]) -> Vec<Row> {
        let mut rows = Vec::new();
        for (index, model) in models.iter().enumerate() {
            let file = match self.files.ensure(model) {
                Ok(file) => file,
                Err(error) => {
                    loud(&format!("{}: {error:#}", model.title));
                    rows.push(Row::open(self.first_part(), model.title, 0, format!("{error:#}")));
                    continue;
                }
            };
            self.speed_rows(model, &file, limits, &mut rows);
            // The others tell of the engine, not of a format: one file says it all.
            let parts = [Part::Streams, Part::Depth, Part::Memory, Part::Load, Part::Busy];
            for part in parts.into_iter().filter(|part| index == 0 || *part == Part::Memory) {
                if self.wants(part) {
                    rows.push(self.other_row(part, model, &file));
                }
            }
        }
        rows
    }

    fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn first_part(&self) -> Part {
        self.parts.first().copied().unwrap_or(Part::Decode)
    }

    fn threads_most(&self) -> usize {
        self.threads.last().copied().unwrap_or(1)
    }

    fn speed_rows(
        &self,
        model: &'static Model,
        file: &Path,
        limits: &[Bandwidth],
        rows: &mut Vec<Row>,
    ) {
        let parts = [Part::Decode, Part::Prefill].into_iter().filter(|part| self.wants(*part));
        let parts: Vec<Part> = parts.collect();
        if parts.is_empty() {
            return;
        }
        for &threads in &self.threads {
            let (samples, failure) = self.samples(model, file, threads);
            let limit = limits.iter().find(|limit| limit.threads == threads);
            for &part in &parts {
                let mut row = samples.row(part, model.title, threads);
                if part == Part::Decode {
                    let file_bytes = length(file).ok();
                    row.of_bandwidth =
                        row.ours.zip(limit).zip(file_bytes).map(|((ours, limit), bytes)| {
                            ours.median * bytes / limit.bytes_per_second
                        });
                }
                row.note = failure.clone().or_else(|| {
                    self.llama.is_none().then(|| "no llama-bench was given".to_owned())
                });
                rows.push(row);
            }
        }
    }

    /// Rounds of all arms, each round beginning with another one; and why an arm stopped, if one
    /// did.
    fn samples(&self, model: &Model, file: &Path, threads: usize) -> (Samples, Option<String>) {
        let mut samples = Samples::default();
        let mut arms = vec![Who::Ours];
        if self.llama.is_some() {
            arms.extend([Who::Llama, Who::LlamaPlain]);
        }
        let mut failures: Vec<String> = Vec::new();
        for round in 0..self.sizes.rounds {
            if arms.is_empty() {
                break;
            }
            // Whoever is first meets the machine as the last one left it: they take turns.
            arms.rotate_left(usize::from(round > 0));
            arms.retain(|who| {
                let what = format!("{}, {threads} threads, round {}", model.title, round + 1);
                match self.sample(*who, file, threads, &mut samples) {
                    Ok(told) => loud(&format!("{what}: {who:?} {told}")),
                    Err(error) => {
                        loud(&format!("{what}: {who:?}: {error:#}"));
                        failures.push(format!("{error:#}"));
                        return false;
                    }
                }
                true
            });
        }
        (samples, (!failures.is_empty()).then(|| failures.join("; ")))
    }

    /// One sample of one arm; the figures in words.
    fn sample(
        &self,
        who: Who,
        file: &Path,
        threads: usize,
        samples: &mut Samples,
    ) -> anyhow::Result<String> {
        let prompt = if self.wants(Part::Prefill) { self.sizes.prompt } else { 0 };
        let tokens = if self.wants(Part::Decode) { self.sizes.tokens } else { 0 };
        let (prefill, decode) = match who {
            Who::Ours => {
                let task = Task::Speed { prompt, context: self.sizes.context, tokens };
                let speed: Speed = self.found(file, threads, task)?;
                (speed.prefill, speed.decode)
            }
            Who::Llama | Who::LlamaPlain => {
                let llama = self.llama.as_ref().context("no llama-bench was given")?;
                let repack = who == Who::Llama;
                let speed = llama.speed(file, threads, repack, prompt, tokens)?;
                (speed.prefill, speed.decode)
            }
        };
        let arm = match who {
            Who::Ours => &mut samples.ours,
            Who::Llama => &mut samples.llama,
            Who::LlamaPlain => &mut samples.llama_plain,
        };
        arm.prefill.extend(prefill);
        arm.decode.extend(decode);
        let told = |speed: Option<f64>| speed.map_or("-".to_owned(), |speed| format!("{speed:.1}"));
        Ok(format!("prefill {}, decode {}", told(prefill), told(decode)))
    }

    fn other_row(&self, part: Part, model: &'static Model, file: &Path) -> Row {
        let threads = self.threads_most();
        loud(&format!("{}: {part:?}", model.title));
        let row = match part {
            Part::Streams | Part::Depth => self.pair_row(part, model.title, file, threads),
            Part::Memory => self.memory_row(model.title, file, threads),
            Part::Load => self.load_row(model.title, file, threads),
            Part::Busy => self.busy_row(model.title, file, threads),
            Part::Decode | Part::Prefill => Err(anyhow::anyhow!("measured with the speeds")),
        };
        row.unwrap_or_else(|error| Row::open(part, model.title, threads, format!("{error:#}")))
    }

    /// Two situations in one process.
    fn pair_row(
        &self,
        part: Part,
        title: &'static str,
        file: &Path,
        threads: usize,
    ) -> anyhow::Result<Row> {
        let Sizes { prompt, context, tokens, far, streams, .. } = self.sizes;
        let (task, what) = match part {
            Part::Streams => (Task::Streams { streams, context, tokens }, "one stream"),
            _ => (Task::Depth { near: context, far, chunk: prompt, tokens }, "few positions"),
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for _ in 0..self.sizes.rounds {
            let pair: Pair = self.found(file, threads, task.clone())?;
            before.push(pair.first);
            after.push(pair.second);
        }
        Ok(Row::compared(part, title, threads, &after, &[(what, &before)]))
    }

    fn memory_row(&self, title: &'static str, file: &Path, threads: usize) -> anyhow::Result<Row> {
        let Sizes { prompt, context, tokens, .. } = self.sizes;
        let bytes = length(file)?;
        let (mut most, mut at_end, mut caches) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.sizes.rounds.min(MEMORY_ROUNDS_MAX) {
            let task = Task::Speed { prompt, context, tokens };
            let speed: Speed = self.found(file, threads, task)?;
            let (now, peak) = speed.resident.context("this system does not tell memory in use")?;
            let without_cache = |bytes: u64| bytes.saturating_sub(speed.cache_bytes) as f64 / 1e6;
            most.push(without_cache(peak));
            at_end.push(without_cache(now));
            caches.push(speed.cache_bytes as f64 / 1e6);
        }
        let files = vec![bytes / 1e6; most.len()];
        let row = Row::compared(Part::Memory, title, threads, &most, &[("file", &files)]);
        let last = |samples: &[f64]| samples.last().copied().unwrap_or(0.0);
        let note = format!(
            "most ever, without {:.0} MB of cache; at the end {:.0} MB",
            last(&caches),
            last(&at_end)
        );
        Ok(Row { note: Some(note), ..row })
    }

    fn load_row(&self, title: &'static str, file: &Path, threads: usize) -> anyhow::Result<Row> {
        let mut seconds = Vec::new();
        for _ in 0..self.sizes.rounds {
            let loaded: Loaded = self.found(file, threads, Task::Load)?;
            seconds.push(loaded.seconds);
        }
        Ok(Row::alone(Part::Load, title, threads, &seconds))
    }

    fn busy_row(&self, title: &'static str, file: &Path, threads: usize) -> anyhow::Result<Row> {
        let Sizes { context, tokens, .. } = self.sizes;
        let decode = || {
            let task = Task::Speed { prompt: 0, context, tokens };
            let speed: Speed = self.found(file, threads, task)?;
            speed.decode.context("a measurement told no speed")
        };
        let (mut idle, mut busy) = (Vec::new(), Vec::new());
        for _ in 0..self.sizes.rounds {
            idle.push(decode()?);
            let spinning = Spinning::start(&self.program, SPINNING)?;
            busy.push(decode()?);
            drop(spinning);
        }
        Ok(Row::compared(Part::Busy, title, threads, &busy, &[("idle", &idle)]))
    }

    fn found<T: serde::de::DeserializeOwned>(
        &self,
        file: &Path,
        threads: usize,
        task: Task,
    ) -> anyhow::Result<T> {
        ours::found(&self.program, &Job { file: file.to_owned(), threads, task })
    }
}

impl Samples {
    fn row(&self, part: Part, title: &'static str, threads: usize) -> Row {
        let of = |arm: &'_ Arm| {
            if part == Part::Prefill { arm.prefill.clone() } else { arm.decode.clone() }
        };
        let (ours, llama, plain) = (of(&self.ours), of(&self.llama), of(&self.llama_plain));
        let default = ("llama.cpp", &llama[..]);
        let without = ("without repacking", &plain[..]);
        // The design compares decoding with llama.cpp as it comes, prefill with its faster way.
        let mut row = match part {
            Part::Prefill => Row::compared(part, title, threads, &ours, &[default, without]),
            _ => Row::compared(part, title, threads, &ours, &[default]),
        };
        if part == Part::Decode && !plain.is_empty() {
            let told = Row::compared(part, title, threads, &ours, &[without]).against;
            row.against.extend(told);
        }
        row
    }
}

fn length(file: &Path) -> anyhow::Result<f64> {
    let found =
        std::fs::metadata(file).with_context(|| format!("cannot look at {}", file.display()))?;
    Ok(found.len() as f64)
}
