//! `nook bench`: the devices of this computer, each measured with the same model in a process of its
//! own, side by side.
//!
//! A driver may crash or hang: then that device has no figures and the others do. What is measured
//! is in `nook_inspect`.

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_base::Backend;
use nook_inspect::{BenchView, BenchWish, BenchedModel};
use serde::Serialize;
use serde_json::json;
use sysinfo::System;
use tokio::process::Command;

use crate::arguments::Bench;
use crate::output;

/// Longest time for one device. A large model on a slow disk takes minutes; a driver that hangs
/// takes all of it.
const DEVICE_LIMIT: Duration = Duration::from_secs(1800);

/// What `--save` writes.
#[derive(Debug, Serialize)]
struct Report {
    inglenook: &'static str,
    /// Seconds since 1970.
    measured_at: u64,
    machine: Machine,
    model: BenchedModel,
    prompt_tokens: u32,
    reply_tokens: u32,
    streams: u32,
    devices: Vec<Measured>,
}

#[derive(Debug, Serialize)]
struct Machine {
    processor: String,
    cores: usize,
    memory_bytes: u64,
    system: String,
}

/// One device: its figures, or why there are none.
#[derive(Debug, Serialize)]
struct Measured {
    asked: String,
    #[serde(flatten)]
    figures: Option<Figures>,
    problem: Option<String>,
}

/// A [`BenchView`] with what is left of its logits.
#[derive(Debug, Serialize)]
struct Figures {
    #[serde(flatten)]
    view: BenchView,
    /// How far its logits are from the first device's; absent for that one.
    #[serde(flatten)]
    off: Option<Off>,
}

/// How far logits are from others, over the root mean square of those.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Off {
    /// Root mean square of the differences.
    logits_off: f64,
    /// The largest difference.
    logits_off_max: f64,
}

pub(crate) async fn run(wish: Bench) -> anyhow::Result<ExitCode> {
    if wish.alone {
        return alone(&wish);
    }
    let model = nook_inspect::benched_model(&wish.model)?;
    let mut devices = Vec::new();
    let mut first: Option<Vec<f32>> = None;
    for backend in &wish.backend {
        if !wish.json {
            output::note(format!("measuring {backend}"));
        }
        let (figures, problem) = match in_a_process(&wish, *backend).await {
            Ok(view) => (Some(compared(view, &mut first)), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        devices.push(Measured { asked: backend.to_string(), figures, problem });
    }
    let report = Report {
        inglenook: nook_base::VERSION,
        measured_at: nook_base::clock::unix_seconds(),
        machine: Machine::this(),
        model,
        prompt_tokens: wish.prompt,
        reply_tokens: wish.tokens,
        streams: wish.streams,
        devices,
    };
    if let Some(file) = &wish.save {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if wish.json {
        output::json(&report)
    } else {
        show(&report, &wish)
    }
    let any = report.devices.iter().any(|device| device.figures.is_some());
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures the one device in this process.
fn alone(wish: &Bench) -> anyhow::Result<ExitCode> {
    let [backend] = wish.backend[..] else { bail!("one device at a time") };
    let view = nook_inspect::bench(&wish_of(wish, backend))?;
    output::json_line(&json!(view));
    Ok(ExitCode::SUCCESS)
}

fn wish_of(wish: &Bench, backend: Backend) -> BenchWish {
    BenchWish {
        model: wish.model.clone(),
        backend,
        prompt: wish.prompt,
        tokens: wish.tokens,
        streams: wish.streams,
        threads: wish.threads,
    }
}

/// The process that measures `backend`: this program, or the one beside it that has the code.
fn measuring(wish: &Bench, backend: Backend) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find this program")?;
    if matches!(backend, Backend::CandleCuda(_))
        && let Some(program) = nook_node::cuda_worker_beside(&program)
    {
        let mut command = Command::new(program);
        command.arg("bench").arg(serde_json::to_string(&wish_of(wish, backend))?);
        return Ok(command);
    }
    let mut command = Command::new(program);
    command.arg("bench").arg(&wish.model).args(["--alone", "--backend", &backend.to_string()]);
    for (option, value) in
        [("--prompt", wish.prompt), ("--tokens", wish.tokens), ("--streams", wish.streams)]
    {
        command.args([option, &value.to_string()]);
    }
    if let Some(threads) = wish.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    Ok(command)
}

async fn in_a_process(wish: &Bench, backend: Backend) -> anyhow::Result<BenchView> {
    let mut command = measuring(wish, backend)?;
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(DEVICE_LIMIT, command.output()).await;
    let minutes = DEVICE_LIMIT.as_secs() / 60;
    let output = ended.with_context(|| format!("it took more than {minutes} minutes"))??;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let sentence = said.lines().rev().find(|line| !line.trim().is_empty());
        // Where the file lies is nobody's business who gets the report.
        let file = wish.model.display().to_string();
        let sentence = sentence.map(|line| line.trim_start_matches("error: "));
        let sentence = sentence.map(|line| line.replace(&file, "the model"));
        bail!("{}", sentence.unwrap_or_else(|| output.status.to_string()));
    }
    serde_json::from_slice(&output.stdout).context("what it said cannot be read")
}

/// Takes the logits out of `view`, as far as they are not what all others are compared with.
fn compared(mut view: BenchView, first: &mut Option<Vec<f32>>) -> Figures {
    let logits = std::mem::take(&mut view.logits);
    let off = first.as_ref().map(|first| Off::of(&logits, first));
    first.get_or_insert(logits);
    Figures { view, off }
}

impl Off {
    /// How far `got` is from `expected`.
    fn of(got: &[f32], expected: &[f32]) -> Self {
        if got.len() != expected.len() {
            return Self { logits_off: f64::INFINITY, logits_off_max: f64::INFINITY };
        }
        let root_mean_square = |numbers: &mut dyn Iterator<Item = f64>| {
            let sum: f64 = numbers.map(|number| number * number).sum();
            (sum / expected.len().max(1) as f64).sqrt()
        };
        let differences = || got.iter().zip(expected).map(|(a, b)| f64::from(*a) - f64::from(*b));
        let size = root_mean_square(&mut expected.iter().map(|it| f64::from(*it)));
        let size = size.max(f64::MIN_POSITIVE);
        // `f64::max` leaves out what is no number; such a logit is as far off as can be.
        let most = differences()
            .map(f64::abs)
            .fold(0.0, |most, it| if it.is_nan() { f64::INFINITY } else { it.max(most) });
        let logits_off = root_mean_square(&mut differences()) / size;
        Self { logits_off, logits_off_max: most / size }
    }
}

fn show(report: &Report, wish: &Bench) {
    let Report { machine, model, .. } = report;
    let megabytes = |bytes: u64| (bytes >> 20).to_string();
    output::line(format!(
        "{} ({} {}, {} layers, {} MB) on {}, {} cores, {}",
        output::plain(&model.name),
        output::plain(&model.architecture),
        output::plain(&model.quantisation),
        model.layers,
        megabytes(model.weight_bytes),
        machine.processor,
        machine.cores,
        machine.system,
    ));
    let unknown = || "-".to_owned();
    let row = |device: &Measured| match &device.figures {
        Some(Figures { view, off }) => vec![
            view.backend.clone(),
            format!("{:.1}", view.prompt_per_second),
            format!("{:.1}", view.tokens_per_second),
            format!("{:.1}", view.streams_per_second),
            view.memory_bytes.map_or_else(unknown, megabytes),
            view.gpu_bytes.map_or_else(unknown, megabytes),
            off.map_or_else(unknown, |off| format!("{:.1e}", off.logits_off)),
            off.map_or_else(unknown, |off| format!("{:.1e}", off.logits_off_max)),
            output::plain(&view.device),
        ],
        None => {
            let problem = device.problem.clone().unwrap_or_default();
            let figures = std::iter::repeat_with(unknown).take(7);
            [device.asked.clone()].into_iter().chain(figures).chain([problem]).collect()
        }
    };
    let rows: Vec<Vec<String>> = report.devices.iter().map(row).collect();
    let prompt = format!("PROMPT OF {}", wish.prompt);
    let streams = format!("{} AT ONCE", wish.streams);
    output::table(
        &[
            "DEVICE",
            &prompt,
            "TOKENS",
            &streams,
            "MB",
            "MB OF CARD",
            "OFF",
            "AT MOST",
            "WHAT IT IS",
        ],
        &rows,
    );
    output::line("Prompt, tokens and all at once: tokens a second, the best of three rounds.");
    output::line(
        "Off: how far the logits are from those of the first device, as a part of their size; at most: \
         the one that is farthest.",
    );
    if let Some(file) = &wish.save {
        output::line(format!("Kept in {}", file.display()));
    }
}

impl Machine {
    fn this() -> Self {
        let mut system = System::new().ok();
        if let Some(system) = &mut system {
            system.refresh_memory();
            system.refresh_cpu_all();
        }
        let processor = system.as_ref().and_then(|system| system.cpus().first());
        let unknown = || "an unknown processor".to_owned();
        Self {
            processor: processor.map_or_else(unknown, |cpu| cpu.brand().trim().to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: system.as_ref().map_or(0, System::total_memory),
            system: System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_compared_as_a_whole_and_by_the_one_that_is_farthest() {
        let expected = [3.0, -3.0, 3.0, -3.0];
        assert_eq!(Off::of(&expected, &expected), Off { logits_off: 0.0, logits_off_max: 0.0 });
        let off = Off::of(&[3.0, -3.0, 3.0, 3.0], &expected);
        assert_eq!(off, Off { logits_off: 1.0, logits_off_max: 2.0 });
        let odd = Off::of(&[3.0, f32::NAN, 3.0, -3.0], &expected);
        assert!(odd.logits_off.is_nan() && odd.logits_off_max.is_infinite(), "{odd:?}");
        assert!(Off::of(&[], &expected).logits_off.is_infinite());
    }
}
