//! One measurement, in a process of its own.
//!
//! A [`Job`] comes in as JSON on the command line; what was found goes out as one JSON line.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use nook_base::clock;
use nook_tests::resident::Resident;
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, Stream};

/// What to measure, on which file, with how many threads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) file: PathBuf,
    pub(crate) threads: usize,
    pub(crate) task: Task,
}

/// What to measure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Task {
    /// A prompt in one step, then tokens one by one behind `context` positions; a count of 0 leaves
    /// its half out. Finds [`Speed`].
    Speed { prompt: u32, context: u32, tokens: u32 },
    /// Tokens one by one behind `near` and behind `far` positions, which are filled in steps of
    /// `chunk`. Finds [`Pair`].
    Depth { near: u32, far: u32, chunk: u32, tokens: u32 },
    /// One stream alone, then `streams` of them in one pass for each token. Finds [`Pair`] of
    /// tokens per second over all streams.
    Streams { streams: u32, context: u32, tokens: u32 },
    /// From opening the file to the logits of the first token. Finds [`Loaded`].
    Load,
}

/// Tokens per second, and the memory that it took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Speed {
    pub(crate) prefill: Option<f64>,
    pub(crate) decode: Option<f64>,
    /// Bytes in memory at the end, and at most; `None` where the system does not say.
    pub(crate) resident: Option<(u64, u64)>,
    /// Bytes of the key-value cache when it was largest.
    pub(crate) cache_bytes: u64,
}

/// Tokens per second in two situations.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Pair {
    pub(crate) first: f64,
    pub(crate) second: f64,
}

/// How long it took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) seconds: f64,
}

/// Does the job that `json` describes; what was found, as JSON.
pub(crate) fn answer(json: &str) -> anyhow::Result<String> {
    let job: Job = serde_json::from_str(json).context("the job is not understood")?;
    let found = match job.task {
        Task::Speed { prompt, context, tokens } => {
            serde_json::to_string(&speed(&job, prompt, context, tokens)?)
        }
        Task::Depth { near, far, chunk, tokens } => {
            serde_json::to_string(&depth(&job, near, far, chunk, tokens)?)
        }
        Task::Streams { streams, context, tokens } => {
            serde_json::to_string(&together(&job, streams, context, tokens)?)
        }
        Task::Load => serde_json::to_string(&load(&job)?),
    };
    Ok(found?)
}

/// As llama-bench does, everything runs once before it counts.
fn speed(job: &Job, prompt: u32, context: u32, tokens: u32) -> anyhow::Result<Speed> {
    let engine = Engine::load(&job.file, job.threads)?;
    let mut stream = engine.stream(prompt.max(context.saturating_add(tokens)).max(1))?;
    let (mut prefill, mut decode) = (None, None);
    let mut cache_bytes = 0;
    if prompt > 0 {
        let mut whole = || {
            stream.truncate(0)?;
            let speed = per_second(prompt, || engine.feed(&mut stream, prompt))?;
            cache_bytes = stream.cache_bytes();
            anyhow::Ok(speed)
        };
        whole()?;
        prefill = Some(whole()?);
        stream.truncate(0)?;
    }
    if tokens > 0 {
        if context > 0 {
            engine.feed(&mut stream, context)?;
        }
        engine.feed(&mut stream, 1)?;
        stream.truncate(context)?;
        decode = Some(one_by_one(&engine, &mut stream, tokens)?);
        cache_bytes = cache_bytes.max(stream.cache_bytes());
    }
    let resident = Resident::of_this_process().map(|Resident { now, peak }| (now, peak));
    Ok(Speed { prefill, decode, resident, cache_bytes })
}

fn depth(job: &Job, near: u32, far: u32, chunk: u32, tokens: u32) -> anyhow::Result<Pair> {
    ensure!(near.saturating_add(tokens) < far && chunk > 0, "{far} positions are not far");
    let engine = Engine::load(&job.file, job.threads)?;
    let mut stream = engine.stream(far.saturating_add(tokens).saturating_add(1))?;
    engine.feed(&mut stream, near)?;
    engine.feed(&mut stream, 1)?;
    stream.truncate(near)?;
    let first = one_by_one(&engine, &mut stream, tokens)?;
    let mut position = near.saturating_add(tokens);
    while position < far {
        let step = chunk.min(far - position);
        engine.feed(&mut stream, step)?;
        position += step;
    }
    engine.feed(&mut stream, 1)?;
    stream.truncate(far)?;
    let second = one_by_one(&engine, &mut stream, tokens)?;
    Ok(Pair { first, second })
}

fn together(job: &Job, count: u32, context: u32, tokens: u32) -> anyhow::Result<Pair> {
    let engine = Engine::load(&job.file, job.threads)?;
    let limit = context.saturating_add(tokens).saturating_add(1);
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = engine.stream(limit)?;
        engine.feed(&mut stream, context)?;
        streams.push(stream);
    }
    // Both arms go through the same call, so that they differ in the number of streams alone.
    let arm = |streams: &mut [Stream]| {
        let of_all = u32::try_from(streams.len())?.saturating_mul(tokens);
        engine.feed_together(streams)?;
        rewind(streams, context)?;
        let speed =
            per_second(of_all, || (0..tokens).try_for_each(|_| engine.feed_together(streams)))?;
        rewind(streams, context)?;
        anyhow::Ok(speed)
    };
    let first = arm(streams.get_mut(..1).context("there is no stream")?)?;
    let second = arm(&mut streams)?;
    Ok(Pair { first, second })
}

fn rewind(streams: &mut [Stream], context: u32) -> anyhow::Result<()> {
    streams.iter_mut().try_for_each(|stream| stream.truncate(context))
}

fn load(job: &Job) -> anyhow::Result<Loaded> {
    // Once through, so that the page cache is warm whatever ran before.
    let mut file = std::fs::File::open(&job.file)
        .with_context(|| format!("cannot read {}", job.file.display()))?;
    std::io::copy(&mut file, &mut std::io::sink())?;
    let started = clock::now();
    let engine = Engine::load(&job.file, job.threads)?;
    let mut stream = engine.stream(1)?;
    engine.feed(&mut stream, 1)?;
    Ok(Loaded { seconds: started.elapsed().as_secs_f64() })
}

fn one_by_one(engine: &Engine, stream: &mut Stream, tokens: u32) -> anyhow::Result<f64> {
    per_second(tokens, || (0..tokens).try_for_each(|_| engine.feed(stream, 1)))
}

fn per_second(tokens: u32, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let started = clock::now();
    work()?;
    Ok(f64::from(tokens) / started.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{Files, TINY};

    #[track_caller]
    fn answered(task: Task) -> anyhow::Result<serde_json::Value> {
        let folder = tempfile::tempdir()?;
        let file = Files::in_folder(folder.path().to_owned()).ensure(&TINY)?;
        let job = serde_json::to_string(&Job { file, threads: 2, task })?;
        Ok(serde_json::from_str(&answer(&job)?)?)
    }

    #[test]
    fn each_job_tells_its_figures() {
        let speed = answered(Task::Speed { prompt: 8, context: 4, tokens: 2 }).unwrap();
        assert!(speed["prefill"].as_f64() > Some(0.0), "{speed}");
        assert!(speed["decode"].as_f64() > Some(0.0), "{speed}");
        assert!(speed["cache_bytes"].as_u64() > Some(0), "{speed}");
        let depth = answered(Task::Depth { near: 4, far: 40, chunk: 16, tokens: 2 }).unwrap();
        assert!(depth["second"].as_f64() > Some(0.0), "{depth}");
        let load = answered(Task::Load).unwrap();
        assert!(load["seconds"].as_f64() > Some(0.0), "{load}");
    }

    #[test]
    fn a_half_that_is_not_wanted_is_left_out() {
        let speed = answered(Task::Speed { prompt: 0, context: 4, tokens: 2 }).unwrap();
        assert!(speed["prefill"].is_null() && speed["decode"].is_f64(), "{speed}");
        let speed = answered(Task::Speed { prompt: 4, context: 4, tokens: 0 }).unwrap();
        assert!(speed["prefill"].is_f64() && speed["decode"].is_null(), "{speed}");
    }

    #[test]
    fn what_cannot_be_done_is_an_error() {
        assert!(answer("{}").unwrap_err().to_string().contains("not understood"));
        let near = Task::Depth { near: 40, far: 40, chunk: 16, tokens: 2 };
        assert!(answered(near).unwrap_err().to_string().contains("not far"));
        let none = Task::Streams { streams: 0, context: 4, tokens: 2 };
        assert!(answered(none).unwrap_err().to_string().contains("no stream"));
    }
}
