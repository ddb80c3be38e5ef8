//! `cargo xtask bench engine`: how fast the engine is, against llama.cpp and against its targets.
//!
//! Measures and prints; nothing is asserted, because a busy machine is no failure.
//!
//! - [`nook_tests::models`] keeps the files: random weights in the shapes of real models, written
//!   once.
//! - [`rows`] holds the targets and what was found for each; [`measure`] fills them, arms in turn.
//! - [`ours`] starts this very program again for each measurement, so that memory and page state
//!   are those of a fresh process; [`probe`] is what runs there, and [`engine`] all it knows of the
//!   model crate. [`llama`] does the same with llama.cpp's own bench.
//! - [`spinning`] makes the machine busy, [`bandwidth`] reads memory as fast as it can,
//!   [`report`] prints.

mod bandwidth;
mod engine;
mod llama;
mod measure;
mod ours;
mod probe;
mod report;
mod rows;
mod spinning;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use nook_tests::models;

use crate::llama::LlamaBench;
use crate::measure::{Bench, Sizes};
use crate::models::{Files, Model};
use crate::report::Report;
use crate::rows::Part;

/// Where kept results lie.
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/benchmarks");

/// How fast the engine is on this machine, against llama.cpp and against its targets.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-engine", bin_name = "cargo xtask bench engine")]
struct Arguments {
    /// Fewer rounds, and only the Q4_K_M file of the Llama shape
    #[arg(long)]
    quick: bool,
    /// A model of a few thousand weights: shows that the bench works, not how fast anything is
    #[arg(long)]
    tiny: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Measure only these rows
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROW")]
    only: Vec<Part>,
    /// Measure only these files
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = models::by_name)]
    files: Vec<&'static Model>,
    /// Threads for prefill and decode; the other rows use the largest of these
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Vec<u16>,
    /// Rounds of each measurement [default: 5, or 2 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: Option<u16>,
    /// The llama-bench to compare with; see packaging/README.md
    #[arg(long, value_name = "PATH")]
    llama_bench: Option<PathBuf>,
    /// Where the files of random weights are kept [default: `bench-models` in the target folder]
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// Write `engine-<date>.md` and `.json` too [to packaging/benchmarks unless a folder is given]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true,
          default_missing_value = RESULTS)]
    keep: Option<PathBuf>,
    /// What the machine is called in the report, instead of what the system says
    #[arg(long, value_name = "TEXT")]
    machine: Option<String>,
    /// A remark for the report: what else ran meanwhile
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Do one job and print what was found: how this program starts itself
    #[arg(long, value_name = "JSON", hide = true)]
    probe: Option<String>,
    /// Keep one core busy until standard input ends: how this program starts itself
    #[arg(long, hide = true)]
    spin: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = if arguments.spin {
        spinning::spin_until_input_ends();
        Ok(())
    } else if let Some(job) = &arguments.probe {
        probe::answer(job).map(|found| report::line(&found))
    } else {
        run(&arguments)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::loud(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Before gigabytes are written for a comparison that cannot be made.
    let llama = arguments.llama_bench.as_deref().map(LlamaBench::at).transpose()?;
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    let folder = match &arguments.models {
        Some(folder) => folder.clone(),
        None => models::folder_beside(&program),
    };
    let mut report = Report::begin(arguments);
    let mut bench = Bench {
        program,
        files: Files::in_folder(folder),
        llama,
        sizes: sizes(arguments),
        threads: threads(arguments),
        parts: arguments.only.clone(),
    };
    report.bandwidth = bench.bandwidths();
    report.rows = bench.rows(&chosen_models(arguments), &report.bandwidth);
    report.finish(bench.llama.as_ref());
    if arguments.json {
        report::line(&serde_json::to_string_pretty(&report)?);
    } else {
        report::line(&report.tables());
    }
    if let Some(folder) = &arguments.keep {
        report.save(folder)?;
    }
    Ok(())
}

fn sizes(arguments: &Arguments) -> Sizes {
    let sizes = if arguments.tiny { Sizes::tiny() } else { Sizes::real() };
    let rounds = match (arguments.rounds, arguments.tiny, arguments.quick) {
        (Some(rounds), _, _) => usize::from(rounds),
        (None, true, _) => 1,
        (None, false, true) => 2,
        (None, false, false) => 5,
    };
    Sizes { rounds, ..sizes }
}

/// Ascending, each once.
fn threads(arguments: &Arguments) -> Vec<usize> {
    let mut threads: Vec<usize> = arguments.threads.iter().copied().map(usize::from).collect();
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn chosen_models(arguments: &Arguments) -> Vec<&'static Model> {
    match (&arguments.files[..], arguments.tiny, arguments.quick) {
        ([], true, _) => vec![&models::TINY],
        ([], false, true) => models::ALL.iter().take(1).collect(),
        ([], false, false) => models::ALL.iter().collect(),
        (files, ..) => files.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("bench-engine").chain(words.split_whitespace()))
    }

    #[track_caller]
    fn check_refused(words: &str, part: &str) {
        let said = parsed(words).unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        check_refused("--only decod", "decod");
        check_refused("--files llama-1b-q9", "llama-1b-q9");
        check_refused("--files llama-1b-q9", "llama-1b-q4_k_m");
        check_refused("--threads 0", "0 is not in 1..=256");
        check_refused("--threads 1,two", "two");
        check_refused("--rounds 0", "--rounds");
        check_refused("--llama-bench", "PATH");
    }

    #[test]
    fn results_are_kept_only_when_asked() {
        assert_eq!(parsed("").unwrap().keep, None);
        assert_eq!(parsed("--keep --quick").unwrap().keep, Some(PathBuf::from(RESULTS)));
        assert_eq!(parsed("--keep=there").unwrap().keep, Some(PathBuf::from("there")));
    }

    #[test]
    fn quick_means_one_file_and_few_rounds() {
        let quick = parsed("--quick").unwrap();
        assert_eq!(sizes(&quick).rounds, 2);
        assert_eq!(chosen_models(&quick).len(), 1);
        assert_eq!(chosen_models(&quick)[0].name, "llama-1b-q4_k_m");
        let full = parsed("--threads 2,1,2 --rounds 7").unwrap();
        assert_eq!((sizes(&full).rounds, threads(&full)), (7, vec![1, 2]));
        assert_eq!(chosen_models(&full).len(), models::ALL.len());
        let one = parsed("--quick --files llama-1b-q8_0").unwrap();
        assert_eq!(chosen_models(&one)[0].name, "llama-1b-q8_0");
    }
}
