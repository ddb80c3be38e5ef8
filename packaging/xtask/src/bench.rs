//! Builds a bench program of the `tests` package with optimisation and runs it.

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::outside;
use crate::places::Places;
use crate::process::{cargo, npm};
use crate::stages::ui;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// What to measure
    #[arg(value_enum)]
    name: Bench,
    /// Passed on to the bench; `-- --help` tells what it knows
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// A bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bench {
    /// What other machines in the middle of a model cost: the program `bench-walk`
    Walk,
    /// What a household gains by computing together: the program `bench-pipeline`
    Pipeline,
    /// From fresh installations to a reply of all: the program `bench-home`
    Home,
    /// What strangers and hostile programs cost a node that helps: the program `bench-flood`
    Flood,
    /// How fast the engine is, alone and against llama.cpp: the program `bench-engine`
    Engine,
    /// What a long reply costs the window's page while it streams, in Chromium: frames and memory
    Window,
}

/// Runs one bench.
pub(crate) fn bench(places: &Places, options: &BenchOptions) -> Result<()> {
    if options.name == Bench::Window {
        return bench_window(places, &options.args);
    }
    let mut program = cargo(&places.root).args(run_arguments(options.name));
    if options.name != Bench::Engine {
        // They measure `nook` as it is shipped, so that is built first.
        cargo(&places.root).args(["build", "--release", "--package", "nook-cli"]).run()?;
        let nook = places.target.join("release").join(crate::launch::NOOK);
        program = program.env("NOOK_BIN", nook);
    }
    program.args(&options.args).run()
}

fn bench_window(places: &Places, args: &[String]) -> Result<()> {
    let browser = outside::find_browser().context(
        "there is no Chromium: install chromium or Google Chrome, or name one in CHROMIUM",
    )?;
    ui::install(&places.ui())?;
    npm(&places.ui()).args(["run", "bench", "--"]).args(args).env("CHROMIUM", browser).run()
}

/// What Cargo is told, up to where the arguments of the bench begin.
fn run_arguments(bench: Bench) -> Vec<&'static str> {
    let mut arguments = vec!["run", "--release", "--package", "nook-tests"];
    arguments.extend(match bench {
        Bench::Walk => &["--bin", "bench-walk"][..],
        Bench::Pipeline => &["--bin", "bench-pipeline"],
        Bench::Home => &["--bin", "bench-home"],
        Bench::Flood => &["--bin", "bench-flood"],
        // Only kernels and model are built: whoever tunes them waits for nothing else.
        Bench::Engine => &["--no-default-features", "--bin", "bench-engine"],
        Bench::Window => &[],
    });
    arguments.push("--");
    arguments
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: BenchOptions,
    }

    fn parsed(words: &[&str]) -> Result<BenchOptions, clap::Error> {
        Line::try_parse_from([&["xtask"], words].concat()).map(|line| line.options)
    }

    #[test]
    fn the_arguments_of_a_bench_are_its_own() {
        let options = parsed(&["engine", "--quick", "--only", "decode"]).unwrap();
        assert_eq!(options.name, Bench::Engine);
        assert_eq!(options.args, ["--quick", "--only", "decode"]);
        assert_eq!(parsed(&["engine", "--", "--help"]).unwrap().args, ["--help"]);
    }

    #[test]
    fn an_unknown_bench_is_refused_and_the_known_are_named() {
        let said = parsed(&["motor"]).unwrap_err().to_string();
        assert!(
            said.contains("motor") && said.contains("walk, pipeline, home, flood, engine, window"),
            "{said}"
        );
    }

    #[test]
    fn the_bench_of_the_engine_builds_no_household() {
        assert!(run_arguments(Bench::Engine).contains(&"--no-default-features"));
        assert!(!run_arguments(Bench::Walk).contains(&"--no-default-features"));
    }
}
