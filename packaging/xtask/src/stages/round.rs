//! One run of the chosen stages: in order, and some of them beside the others.
//!
//! Windows, browsers and foreign programs wait for a part of their time, in which compilers and
//! models can compute. So the stages of the first kind run one after another beside those of the
//! second. Each begins no earlier than the list has come to it, so that what it needs is there.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::build::Built;
use super::{Ending, Stage, first_line};
use crate::places::Places;
use crate::say::Voice;
use crate::setup::SetupOptions;
use crate::{outside, say};

/// What the stages of one run share.
#[derive(Debug)]
pub(crate) struct Round {
    /// Where things lie.
    pub(crate) places: Places,
    /// What the build stage made; later stages run it.
    pub(super) built: OnceLock<Built>,
    pub(super) setup: SetupOptions,
}

/// A stage that has ended: what it was, how long it took, how it went.
pub(super) type Ended = (&'static Stage, Duration, Ending);

impl Round {
    pub(super) const fn new(places: Places, setup: SetupOptions) -> Self {
        Self { places, built: OnceLock::new(), setup }
    }

    /// What the build stage made.
    pub(crate) fn built(&self) -> Result<&Built> {
        self.built.get().context("nothing was built")
    }

    /// Runs all of `chosen`, and gives them in their order.
    pub(super) fn run(&self, chosen: &[&'static Stage]) -> Vec<Ended> {
        let mut ended = if has_company(chosen) {
            self.in_two_rows(chosen)
        } else {
            let mut ended = Vec::new();
            for stage in chosen {
                let one = self.one(stage, why_not(stage, &ended));
                ended.push(one);
            }
            ended
        };
        let place = |stage: &Stage| chosen.iter().position(|other| other.name == stage.name);
        ended.sort_by_key(|(stage, ..)| place(stage));
        ended
    }

    fn in_two_rows(&self, chosen: &[&'static Stage]) -> Vec<Ended> {
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(chosen.len());
            let beside = scope.spawn(move || self.row_beside(&receiver));
            let mut ended = Vec::new();
            for stage in chosen {
                let why_not = why_not(stage, &ended);
                if stage.beside {
                    // The row beside ends only when nothing more can come.
                    let _ = sender.send((*stage, why_not));
                } else {
                    let one = self.one(stage, why_not);
                    ended.push(one);
                }
            }
            drop(sender);
            ended.extend(beside.join().expect("a stage reports what went wrong"));
            ended
        })
    }

    fn row_beside(&self, stages: &Receiver<(&'static Stage, Option<anyhow::Error>)>) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Ok((stage, why_not)) = stages.recv() {
            Voice::of(stage.name).take();
            ended.push(self.one(stage, why_not));
        }
        ended
    }

    fn one(&self, stage: &'static Stage, why_not: Option<anyhow::Error>) -> Ended {
        say::heading(&format!("stage {}: {}", stage.name, stage.about));
        let started = outside::now();
        let ending = why_not.map_or_else(|| (stage.run)(self), Err);
        if let Err(error) = &ending {
            say::loud(&format!("stage {} FAILED: {}", stage.name, first_line(error)));
        }
        (stage, started.elapsed(), ending)
    }
}

/// Whether a stage that may run beside others has any to run beside.
fn has_company(chosen: &[&Stage]) -> bool {
    let first = chosen.iter().position(|stage| stage.beside);
    first.is_some_and(|first| chosen[first..].iter().any(|stage| !stage.beside))
}

/// Why a stage cannot run: something failed that it needs. Whatever a stage needs is in the row
/// that waits for each of its stages, as the list's own test sees to.
fn why_not(stage: &Stage, ended: &[Ended]) -> Option<anyhow::Error> {
    let failed =
        ended.iter().find(|(done, _, ending)| ending.is_err() && stage.needs.contains(&done.name));
    failed.map(|(need, ..)| anyhow::anyhow!("not run, because `{}` failed", need.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::Outcome;

    const fn stage(name: &'static str, beside: bool, run: fn(&Round) -> Ending) -> Stage {
        Stage { name, about: "", needs: &[], beside, run }
    }

    fn round() -> Round {
        Round::new(Places::find().unwrap(), SetupOptions { yes: false })
    }

    fn passes(_: &Round) -> Ending {
        Ok(Outcome::passed())
    }

    #[test]
    fn stages_beside_others_need_others() {
        const WINDOW: &Stage = &stage("window", true, passes);
        const RUST: &Stage = &stage("rust", false, passes);
        assert!(has_company(&[WINDOW, RUST]));
        assert!(!has_company(&[RUST, WINDOW]), "nothing is left to run beside");
        assert!(!has_company(&[RUST]) && !has_company(&[]));
    }

    /// Two stages that each end only when the other has begun.
    #[test]
    fn both_rows_run_at_once_and_are_told_in_the_order_of_the_list() {
        static BEGUN: (OnceLock<()>, OnceLock<()>) = (OnceLock::new(), OnceLock::new());
        const WINDOW: &Stage = &stage("window", true, |_| {
            let _ = BEGUN.0.set(());
            BEGUN.1.wait();
            assert!(Voice::here().is_beside());
            Ok(Outcome::passed())
        });
        const RUST: &Stage = &stage("rust", false, |_| {
            let _ = BEGUN.1.set(());
            BEGUN.0.wait();
            assert!(!Voice::here().is_beside());
            Ok(Outcome::passed())
        });
        let ended = round().run(&[WINDOW, RUST]);
        let names: Vec<_> = ended.iter().map(|(stage, ..)| stage.name).collect();
        assert_eq!(names, ["window", "rust"]);
        assert!(ended.iter().all(|(.., ending)| ending.is_ok()));
    }

    #[test]
    fn nothing_runs_without_what_it_needs_in_either_row() {
        const BUILD: &Stage = &stage("build", false, |_| Err(anyhow::anyhow!("no compiler")));
        const WINDOW: &Stage =
            &Stage { needs: &["build"], ..stage("window", true, |_| unreachable!("not run")) };
        const RUST: &Stage =
            &Stage { needs: &["build"], ..stage("rust", false, |_| unreachable!("not run")) };
        for chosen in [&[BUILD, WINDOW, RUST][..], &[BUILD, WINDOW], &[BUILD, RUST]] {
            let ended = round().run(chosen);
            assert_eq!(ended.len(), chosen.len());
            for (stage, _, ending) in &ended[1..] {
                let why = ending.as_ref().unwrap_err().to_string();
                assert_eq!(why, "not run, because `build` failed", "{}", stage.name);
            }
        }
    }
}
