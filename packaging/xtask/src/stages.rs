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
use crate::{deny, outside, say, tidy};

pub(crate) mod build;
mod node;
pub(crate) mod package;
mod pool;
mod python;
pub(crate) mod rust;
pub(crate) mod ui;

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

/// One run of stages.
#[derive(Debug)]
pub(crate) struct Round {
    /// Where things lie.
    pub(crate) places: Places,
    /// What the build stage made; later stages run it.
    pub(crate) built: Option<build::Built>,
    setup: SetupOptions,
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
    run: fn(&mut Round) -> Ending,
}

const STAGES: &[Stage] = &[
    Stage { name: "setup", about: "system packages, Node, Python", needs: &[], run: set_up },
    Stage { name: "fmt", about: "formatting of the Rust code", needs: &[], run: format },
    Stage { name: "spelling", about: "spelling of code and documents", needs: &[], run: spelling },
    Stage {
        name: "workflows",
        about: "what a public forge is told to run",
        needs: &[],
        run: workflows,
    },
    Stage {
        name: "tidy",
        about: "shape of the source, and xtask's own tests",
        needs: &[],
        run: tidy_up,
    },
    Stage {
        name: "ui",
        about: "the pages: install, lint, types, tests, build",
        needs: &[],
        run: ui::stage,
    },
    Stage {
        name: "pages",
        about: "the pages in a browser: every look, axe, keys alone",
        needs: &[],
        run: ui::pages,
    },
    Stage {
        name: "deny",
        about: "licences, bans, sources, advisories",
        needs: &[],
        run: deny_check,
    },
    Stage { name: "clippy", about: "lints as errors", needs: &[], run: clippy },
    Stage { name: "doc", about: "documentation warnings as errors", needs: &[], run: doc },
    Stage { name: "build", about: "all programs and test programs", needs: &[], run: build::stage },
    Stage {
        name: "rust",
        about: "Rust tests of every crate",
        needs: &["build"],
        run: rust::crates,
    },
    Stage {
        name: "pool",
        about: "the kernels' thread pool in every order, by loom",
        needs: &[],
        run: pool::stage,
    },
    Stage {
        name: "card",
        about: "candle's code for graphics cards, on the processor",
        needs: &["build"],
        run: rust::candle,
    },
    Stage {
        name: "gpu",
        about: "GPUs of every vendor: kernels, models, workers, households",
        needs: &["build"],
        run: rust::gpus,
    },
    Stage {
        name: "household",
        about: "whole households: parity, faults, namespaces",
        needs: &["build"],
        run: rust::households,
    },
    Stage {
        name: "clients",
        about: "foreign programs at the local port",
        needs: &["build"],
        run: clients,
    },
    Stage {
        name: "window",
        about: "tray and windows, driven on a private display",
        needs: &["build"],
        run: python::windows,
    },
    Stage {
        name: "package",
        about: ".deb and .rpm; in CI installed, driven, removed",
        needs: &["build"],
        run: package::stage,
    },
];

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
    let mut round = Round { places, built: None, setup };
    let mut endings: Vec<(&Stage, Duration, Ending)> = Vec::new();
    let all = Meter::start();
    for stage in chosen {
        say::heading(&format!("stage {}: {}", stage.name, stage.about));
        let started = outside::now();
        let failed_need = endings
            .iter()
            .find(|(done, _, ending)| ending.is_err() && stage.needs.contains(&done.name));
        let ending = match failed_need {
            Some((need, ..)) => Err(anyhow::anyhow!("not run, because `{}` failed", need.name)),
            None => (stage.run)(&mut round),
        };
        if let Err(error) = &ending {
            say::loud(&format!("stage {} FAILED: {}", stage.name, first_line(error)));
        }
        endings.push((stage, started.elapsed(), ending));
    }
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

fn set_up(round: &mut Round) -> Ending {
    setup::ensure(&round.places, Purpose::Test, &round.setup)?;
    Ok(Outcome::passed())
}

fn format(round: &mut Round) -> Ending {
    cargo(&round.places.root).args(["fmt", "--all", "--check"]).test()?;
    Ok(Outcome::passed())
}

fn spelling(round: &mut Round) -> Ending {
    setup::typos::check(&round.places)?;
    Ok(Outcome::passed())
}

fn workflows(round: &mut Round) -> Ending {
    let count = setup::workflows::check(&round.places)?;
    Ok(Outcome::Passed { note: format!("{count} definitions") })
}

fn tidy_up(round: &mut Round) -> Ending {
    // The rules see themselves red in xtask's own tests, one of which runs them on this tree.
    cargo(&round.places.root).args(["test", "--package", "xtask"]).test()?;
    tidy::run(&round.places)?;
    Ok(Outcome::passed())
}

fn clients(round: &mut Round) -> Ending {
    let mut notes = Vec::new();
    for run in [python::clients, node::clients] {
        match run(round)? {
            Outcome::Passed { note } => notes.push(note),
            other => return Ok(other),
        }
    }
    Ok(Outcome::Passed { note: notes.join(", ") })
}

fn deny_check(round: &mut Round) -> Ending {
    Ok(Outcome::Passed { note: deny::check(&round.places)? })
}

fn clippy(round: &mut Round) -> Ending {
    ui::ensure_pages(&round.places)?;
    cargo(&round.places.root)
        .args(["clippy", "--workspace", "--all-targets"])
        .args(build::features(&round.places)?)
        .args(["--", "-D", "warnings"])
        .test()?;
    Ok(Outcome::passed())
}

fn doc(round: &mut Round) -> Ending {
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
                assert!(STAGES[..at].iter().any(|earlier| earlier.name == *need), "{need}");
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
