//! `cargo xtask test`: every check and test as named stages, each timed, with one closing line
//! each.
//!
//! A failing stage does not stop the others, except those that cannot run without it, so that one
//! run tells everything. Nothing is skipped quietly: what did not run says why, and a part that is
//! not in the tree fails the run.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::places::Places;
use crate::process::{Program, cargo};
use crate::setup::{self, Purpose, SetupOptions};
use crate::spent::Meter;
use crate::{deny, say, tidy};

pub(crate) mod build;
mod node;
pub(crate) mod package;
mod pool;
mod python;
mod round;
pub(crate) mod rust;
pub(crate) mod ui;

pub(crate) use self::round::Round;

/// What to test and how.
#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    /// Run these stages only (repeat or separate by commas)
    #[arg(long, value_name = "STAGE", value_delimiter = ',')]
    only: Vec<String>,
    /// Leave these stages out (repeat or separate by commas)
    #[arg(long, value_name = "STAGE", value_delimiter = ',')]
    skip: Vec<String>,
    /// List the stages
    #[arg(long)]
    list: bool,
    /// A part that is not in the tree yet does not fail the run
    #[arg(long)]
    building: bool,
    /// Install missing system packages without asking
    #[arg(long)]
    yes: bool,
}

/// How a stage that did not fail ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All well; the note says what is worth knowing.
    Passed { note: String },
    /// It cannot run on this machine.
    Skipped { because: String },
    /// What it tests is not in the tree.
    NotThere { missing: String },
}

/// How a stage ended.
type Ending = Result<Outcome>;

/// A stage.
struct Stage {
    name: &'static str,
    about: &'static str,
    /// Stages without which this one cannot run; they run first even when not asked for.
    needs: &'static [&'static str],
    /// It waits for a part of its time, and runs beside those that follow.
    beside: bool,
    run: fn(&Round) -> Ending,
}

/// In order; see [`round`] for those that run beside others.
const STAGES: &[Stage] = &[
    stage("setup", "system packages, Node, Python", &[], set_up),
    stage("fmt", "formatting of the Rust code", &[], format),
    stage("spelling", "spelling of code and documents", &[], spelling),
    stage("workflows", "what a public forge is told to run", &[], workflows),
    stage("tidy", "shape of the source, and xtask's own tests", &[], tidy_up),
    stage("ui", "the pages: install, lint, types, tests, build", &[], ui::stage),
    stage("deny", "licences, bans, sources, advisories", &[], deny_check),
    stage("clippy", "lints as errors", &[], clippy),
    stage("doc", "documentation warnings as errors", &[], doc),
    stage("build", "all programs and test programs", &[], build::stage),
    // Behind the compilers, which fill every core: beside them both take twice as long.
    beside("pages", "the pages in a browser: every look, axe, keys alone", &[], ui::pages),
    beside("clients", "foreign programs at the local port", &["build"], clients),
    beside("window", "tray and windows, driven on a private display", &["build"], python::windows),
    stage("rust", "Rust tests of every crate", &["build"], rust::crates),
    stage("pool", "the kernels' thread pool in every order, by loom", &[], pool::stage),
    stage("card", "candle's code for graphics cards, on the processor", &["build"], rust::candle),
    stage(
        "gpu",
        "GPUs of every vendor: kernels, models, workers, households",
        &["build"],
        rust::gpus,
    ),
    stage(
        "household",
        "whole households: parity, faults, namespaces",
        &["build"],
        rust::households,
    ),
    stage("package", ".deb and .rpm; in CI installed, driven, removed", &["build"], package::stage),
];

const fn stage(
    name: &'static str,
    about: &'static str,
    needs: &'static [&'static str],
    run: fn(&Round) -> Ending,
) -> Stage {
    Stage { name, about, needs, beside: false, run }
}

/// A stage that runs beside those that follow.
const fn beside(
    name: &'static str,
    about: &'static str,
    needs: &'static [&'static str],
    run: fn(&Round) -> Ending,
) -> Stage {
    Stage { beside: true, ..stage(name, about, needs, run) }
}

/// Runs the chosen stages; fails when one of them did.
pub(crate) fn test(places: Places, options: &TestOptions) -> Result<()> {
    if options.list {
        for stage in STAGES {
            say::line(&format!("{:<10} {}", stage.name, stage.about));
        }
        return Ok(());
    }
    let chosen = chosen(&options.only, &options.skip)?;
    say_which_source(&places);
    let setup = SetupOptions { yes: options.yes };
    let round = Round::new(places, setup);
    let all = Meter::start();
    let endings = round.run(&chosen);
    for (stage, _, ending) in &endings {
        if let Some(said) = rest_of(ending) {
            say::heading(&format!("what failed in {}", stage.name));
            say::line(&said);
        }
    }
    say::heading("closing lines");
    let mut failed = Vec::new();
    for (stage, took, ending) in &endings {
        say::line(&closing_line(stage.name, *took, ending));
        if is_failure(ending, options.building) {
            failed.push(stage.name);
        }
    }
    say::line(&format!("all stages took {}", all.read()));
    if !failed.is_empty() {
        bail!("failed stages: {}", failed.join(", "));
    }
    Ok(())
}

fn chosen(only: &[String], skip: &[String]) -> Result<Vec<&'static Stage>> {
    for name in only.iter().chain(skip) {
        if !STAGES.iter().any(|stage| stage.name == name) {
            let known = STAGES.iter().map(|stage| stage.name).collect::<Vec<_>>();
            bail!("no stage is called `{name}`; there are: {}", known.join(", "));
        }
    }
    let asked = |stage: &Stage| {
        (only.is_empty() || only.iter().any(|name| name == stage.name))
            && !skip.iter().any(|name| name == stage.name)
    };
    let is_needed =
        |name: &str| STAGES.iter().any(|stage| asked(stage) && stage.needs.contains(&name));
    Ok(STAGES.iter().filter(|stage| asked(stage) || is_needed(stage.name)).collect())
}

fn closing_line(name: &str, took: Duration, ending: &Ending) -> String {
    let (word, note) = match ending {
        Ok(Outcome::Passed { note }) => ("passed", note.clone()),
        Ok(Outcome::Skipped { because }) => ("SKIPPED", because.clone()),
        Ok(Outcome::NotThere { missing }) => ("NOT THERE YET", missing.clone()),
        Err(error) => ("FAILED", first_line(error)),
    };
    let line = format!("stage {name:<10} {word:<13} {:>7.1} s  {note}", took.as_secs_f64());
    line.trim_end().to_owned()
}

/// An error in one line.
fn first_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}

/// What programs of a failed stage wrote last, where that is known.
fn rest_of(ending: &Ending) -> Option<String> {
    let error = format!("{:#}", ending.as_ref().err()?);
    error.split_once('\n').map(|(_, rest)| rest.to_owned())
}

fn is_failure(ending: &Ending, building: bool) -> bool {
    match ending {
        Ok(Outcome::Passed { .. } | Outcome::Skipped { .. }) => false,
        Ok(Outcome::NotThere { .. }) => !building,
        Err(_) => true,
    }
}

/// An old binary that tests new sources has fooled others; the log names what is tested.
fn say_which_source(places: &Places) {
    let git = |args: &[&str]| Program::new("git", &places.root).args(args).output_quietly();
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changes = git(&["status", "--porcelain"]).map_or(0, |list| list.lines().count());
    let commit = commit.map_or_else(|| "no commit known".to_owned(), |id| id.trim().to_owned());
    say::line(&format!("source: {commit}, {changes} changed files"));
    say::line(&format!("target: {}", places.target.display()));
}

fn set_up(round: &Round) -> Ending {
    setup::ensure(&round.places, Purpose::Test, &round.setup)?;
    Ok(Outcome::passed())
}

fn format(round: &Round) -> Ending {
    cargo(&round.places.root).args(["fmt", "--all", "--check"]).test()?;
    Ok(Outcome::passed())
}

fn spelling(round: &Round) -> Ending {
    setup::typos::check(&round.places)?;
    Ok(Outcome::passed())
}

fn workflows(round: &Round) -> Ending {
    let count = setup::workflows::check(&round.places)?;
    Ok(Outcome::Passed { note: format!("{count} definitions") })
}

fn tidy_up(round: &Round) -> Ending {
    // The rules see themselves red in xtask's own tests, one of which runs them on this tree.
    cargo(&round.places.root).args(["test", "--package", "xtask"]).test()?;
    tidy::run(&round.places)?;
    Ok(Outcome::passed())
}

fn clients(round: &Round) -> Ending {
    let mut notes = Vec::new();
    for run in [python::clients, node::clients] {
        match run(round)? {
            Outcome::Passed { note } => notes.push(note),
            other => return Ok(other),
        }
    }
    Ok(Outcome::Passed { note: notes.join(", ") })
}

fn deny_check(round: &Round) -> Ending {
    Ok(Outcome::Passed { note: deny::check(&round.places)? })
}

fn clippy(round: &Round) -> Ending {
    ui::ensure_pages(&round.places)?;
    cargo(&round.places.root)
        .args(["clippy", "--workspace", "--all-targets"])
        .args(build::features(&round.places)?)
        .args(["--", "-D", "warnings"])
        .test()?;
    Ok(Outcome::passed())
}

fn doc(round: &Round) -> Ending {
    ui::ensure_pages(&round.places)?;
    cargo(&round.places.root)
        .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
        .args(build::features(&round.places)?)
        .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")
        .test()?;
    Ok(Outcome::passed())
}

impl Outcome {
    /// All well, nothing to add.
    pub(crate) fn passed() -> Self {
        Self::Passed { note: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str], skip: &[&str]) -> Vec<&'static str> {
        let owned = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        chosen(&owned(only), &owned(skip)).unwrap().iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn all_stages_run_unless_told_otherwise() {
        assert_eq!(names(&[], &[]).len(), STAGES.len());
    }

    #[test]
    fn a_single_stage_brings_what_it_needs() {
        assert_eq!(names(&["window"], &[]), ["build", "window"]);
        assert_eq!(names(&["fmt"], &[]), ["fmt"]);
    }

    #[test]
    fn a_skipped_stage_is_left_out() {
        assert!(!names(&[], &["deny"]).contains(&"deny"));
    }

    #[test]
    fn an_unknown_stage_is_refused_with_the_known_ones() {
        let error = chosen(&["windows".to_owned()], &[]).err().unwrap();
        assert!(error.to_string().contains("household"), "{error}");
    }

    #[test]
    fn needs_come_before_their_users() {
        for (at, stage) in STAGES.iter().enumerate() {
            for need in stage.needs {
                let earlier = STAGES[..at].iter().find(|earlier| earlier.name == *need);
                assert!(!earlier.unwrap().beside, "{need} is waited for by nobody");
            }
        }
    }

    #[test]
    fn a_missing_part_fails_the_run_once_building_is_over() {
        let missing = || Ok(Outcome::NotThere { missing: "ui/package.json".to_owned() });
        assert!(is_failure(&missing(), false));
        assert!(!is_failure(&missing(), true));
        assert!(is_failure(&Err(anyhow::anyhow!("x")), true));
        let line = closing_line("ui", Duration::from_millis(1500), &missing());
        assert_eq!(line, "stage ui         NOT THERE YET     1.5 s  ui/package.json");
    }

    #[test]
    fn a_failed_stage_has_one_closing_line_and_tells_the_rest_before() {
        let ending: Ending = Err(anyhow::anyhow!("`npm` failed: 1\n    | the fault\n    | here"));
        let line = closing_line("ui", Duration::from_millis(1500), &ending);
        assert_eq!(line, "stage ui         FAILED            1.5 s  `npm` failed: 1");
        assert_eq!(rest_of(&ending).as_deref(), Some("    | the fault\n    | here"));
        assert_eq!(rest_of(&Ok(Outcome::passed())), None);
    }
}
