//! `cargo xtask soak`: a household lives for ten minutes while devices are killed, frozen and
//! drained.
//!
//! Two nodes ask, three lend, one more answers alone what the others should have said; all are real
//! processes with real links ([`house`]). Conversations follow one another in [`talk`] while
//! [`trouble`] does to the lending nodes what a household does. Half-way and at the end everything
//! must be as it was before ([`census`]): no stream, task or file left over, no more memory than
//! half-way, and every reply either the undisturbed one or ended with a code. What was found is a
//! [`report`]; a broken promise ends the program in an error.
//!
//! With `--as-installed` nothing is set: the lending nodes get their part of a larger model by
//! themselves, and whether others are used is the planner's choice, as in a home. Then the asker
//! makes each reply that others helped with once more, alone, and the two are compared ([`speed`]);
//! that is told, and judged only with `--no-hangs`. Each device has a share of this machine's cores
//! to itself, where the system lets it have one, and each asker one conversation at a time.
//!
//! Conversations and faults are drawn from the seed. Which token a fault meets is the machine's
//! chance, so a seed narrows a search and repeats no run.

mod census;
mod house;
mod report;
mod speed;
mod talk;
mod trouble;
mod witness;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use nook_base::clock;
use nook_base::tasks::Tasks;
use nook_tests::report::loud;
use tokio::sync::{mpsc, oneshot};

use crate::census::Census;
use crate::house::House;
use crate::report::{Life, Report};
use crate::talk::{Conversation, Ending, References, Talk};
use crate::trouble::Kinds;

/// Longest wait for the tasks of this process to end.
const LEAVE_LIMIT: Duration = Duration::from_secs(3);

/// Conversations that each asking node has at a time: as many as it makes replies.
const TOGETHER: u32 = 4;

/// The same for devices as they are installed: one person before each.
const TOGETHER_INSTALLED: u32 = 1;

/// Endings that may wait to be written down; a conversation beyond them waits.
const ENDINGS_MAX: usize = 64;

/// Of so many conversations one more is held before the first census, so that caches are filled.
const WARM_UP: u32 = 10;

/// Fewest conversations of the warm-up.
const WARM_UP_MIN: u32 = 8;

/// Lives with a household for a while, hurts it, and looks whether anything is left over.
#[derive(Debug, Clone, Parser)]
#[command(name = "soak", bin_name = "cargo xtask soak")]
struct Arguments {
    /// How long the household is disturbed
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,
    /// Conversations over that time
    #[arg(long, value_name = "N", default_value_t = 200)]
    conversations: u32,
    /// What conversations and faults are drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Devices as they are installed: nothing is set, only those that ask have the model, and they are
    /// slow. Otherwise everybody has the built-in one, and others are always used
    #[arg(long)]
    as_installed: bool,
    /// Devices come, go, sleep for more than five seconds and pause; none hangs for a moment, and no
    /// worker is hurt alone
    #[arg(long)]
    no_hangs: bool,
    /// Print the report as JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn kinds(&self) -> Kinds {
        if self.no_hangs { Kinds::NoHangs } else { Kinds::All }
    }

    fn span(&self) -> Duration {
        // A week is more than anybody waits for; a negative or absurd wish is none.
        Duration::try_from_secs_f64(self.minutes.clamp(0.0, 10_080.0) * 60.0).unwrap_or_default()
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            loud(&format!("cannot start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(soaked(arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            loud(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether every promise held.
async fn soaked(arguments: Arguments) -> anyhow::Result<bool> {
    let tasks = Tasks::new();
    let (told, outcome) = oneshot::channel();
    let inner = tasks.child();
    tasks.spawn("soak", async move {
        // The receiver waits below.
        let _ = told.send(run(&arguments, &inner).await);
    });
    let outcome = outcome.await.context("the soak itself failed")?;
    tasks.shut_down(LEAVE_LIMIT).await;
    outcome
}

async fn run(arguments: &Arguments, tasks: &Tasks) -> anyhow::Result<bool> {
    let began = clock::now();
    let mut house = House::start(arguments.as_installed).await?;
    let talk = Arc::new(Talk {
        asking: house.asking(),
        references: References::of(house.reference()),
        model: house.model(),
        measures: arguments.as_installed,
        witness: house.witness(),
    });
    loud("warming up, undisturbed");
    let warm_up = WARM_UP_MIN.max(arguments.conversations / WARM_UP);
    let early = hold(arguments.seed, 0..warm_up, Duration::ZERO, &talk, tasks);
    let early = early.collect().await;
    let mut censuses = vec![Census::take(&house, None).await.context("the census before")?];

    let (mut endings, mut faults) = (Vec::new(), BTreeMap::new());
    let (half, span) = (arguments.conversations / 2, arguments.span() / 2);
    for (round, first) in (0..).zip([warm_up, warm_up.saturating_add(half)]) {
        loud(&format!("disturbing the household, half {}", round + 1));
        let seed = arguments.seed.wrapping_add(round);
        let held = hold(arguments.seed, first..first.saturating_add(half), span, &talk, tasks);
        let troubles = trouble::make(&mut house, arguments.kinds(), seed, span);
        let (made, ended) = tokio::join!(troubles, held.collect());
        for (fault, count) in made.context("a fault could not be made")? {
            *faults.entry(fault).or_default() += count;
        }
        endings.extend(ended);
        let census = Census::take(&house, censuses.first()).await;
        censuses.push(census.context("a census between or after")?);
    }

    let panics = house.panics();
    let (span, keeps) = (arguments.span(), house.keeps());
    let life = Life { span, keeps, foretells: arguments.no_hangs && house.has_shares() };
    let report = Report::of(&early, &endings, faults, censuses, panics, life);
    report.print(arguments.json, clock::now().duration_since(began))?;
    Ok(report.is_good())
}

/// Conversations under way.
struct Held {
    endings: mpsc::Receiver<Ending>,
}

impl Held {
    /// Waits for all of them.
    async fn collect(mut self) -> Vec<Ending> {
        let mut all = Vec::new();
        while let Some(ending) = self.endings.recv().await {
            if ending.is_bad() {
                loud(&format!("{ending}"));
            }
            all.push(ending);
        }
        all
    }
}

/// Begins the conversations `numbers`, evenly over `span`, no more at a time than can be answered.
fn hold(
    seed: u64,
    numbers: std::ops::Range<u32>,
    span: Duration,
    talk: &Arc<Talk>,
    tasks: &Tasks,
) -> Held {
    let (tell, endings) = mpsc::channel(ENDINGS_MAX);
    let (start, count) = (clock::now(), numbers.end.saturating_sub(numbers.start).max(1));
    let together = if talk.measures { TOGETHER_INSTALLED } else { TOGETHER };
    let askers = u32::try_from(talk.asking.len()).unwrap_or(1) * together;
    for seat in 0..askers {
        let own: Vec<u32> = numbers.clone().skip(seat as usize).step_by(askers as usize).collect();
        let (tell, talk, first) = (tell.clone(), Arc::clone(talk), numbers.start);
        tasks.spawn("conversations", async move {
            for number in own {
                let at = start + span.mul_f64(f64::from(number - first) / f64::from(count));
                tokio::time::sleep_until(at.into()).await;
                let conversation = Conversation::draw(seed, number, seat as usize);
                for ending in talk.hold(&conversation).await {
                    if tell.send(ending).await.is_err() {
                        return;
                    }
                }
            }
        });
    }
    Held { endings }
}
