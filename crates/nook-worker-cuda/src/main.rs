//! `nook-worker-cuda`: the worker process of `nook`, with candle's code for NVIDIA's cards.
//!
//! It is started by a node as `nook worker` is (`worker`), and by `nook bench` to measure a card
//! (`bench`, with what to measure as JSON). A program with CUDA's code does not start without NVIDIA's
//! driver, so this one is apart, and whoever starts it says so.

use std::io::Write as _;
use std::process::ExitCode;

/// Exit status for a command line that is not understood.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let told = match words.next().as_deref().and_then(|word| word.to_str()) {
        Some("worker") => return nook_shard::worker_main(&words.collect::<Vec<_>>()),
        Some("bench") => words.next().and_then(|wish| wish.into_string().ok()),
        _ => None,
    };
    let Some(wish) = told else {
        let _ = writeln!(std::io::stderr(), "nook-worker-cuda is started by nook and Inglenook");
        return USAGE.into();
    };
    match nook_inspect::bench_as_told(&wish) {
        Ok(figures) => {
            let written = writeln!(std::io::stdout(), "{figures}");
            if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
