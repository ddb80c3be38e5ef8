//! How a bench program begins and ends, and how thorough it is.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use nook_base::tasks::Tasks;
use tokio::sync::oneshot;

use crate::report;

/// Longest wait for the tasks of this process to end.
const LEAVE_LIMIT: Duration = Duration::from_secs(3);

/// How thorough a bench is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Few rounds and small models: shows that the bench works, not how fast anything is.
    Quick,
    /// What figures are told from.
    Full,
}

impl Effort {
    /// What `--quick` says.
    #[must_use]
    pub fn of(quick: bool) -> Self {
        if quick { Self::Quick } else { Self::Full }
    }
}

/// Runs a bench on a runtime as the product has it: everything that is measured runs on its
/// workers. The bench is a task, since a future on the main thread would be woken across threads at
/// every step, which no reply of the product is. Whatever it starts belongs to the `Tasks` that it
/// is given.
pub fn run<B, F>(bench: B) -> ExitCode
where
    B: FnOnce(Tasks) -> F,
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report::loud(&format!("cannot start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(async { as_task(bench).await }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::loud(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Fails unless a program to measure is named; `bench` is what `cargo xtask bench` calls this one.
pub fn needs_a_product(bench: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        nook_base::env::raw("NOOK_BIN").is_some(),
        "NOOK_BIN names no program to measure; `cargo xtask bench {bench}` builds and names it"
    );
    Ok(())
}

async fn as_task<B, F>(bench: B) -> anyhow::Result<()>
where
    B: FnOnce(Tasks) -> F,
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let tasks = Tasks::new();
    let (told, outcome) = oneshot::channel();
    let work = bench(tasks.child());
    tasks.spawn("bench", async move {
        // The receiver waits below.
        let _ = told.send(work.await);
    });
    let outcome = outcome.await.context("the bench itself failed")?;
    tasks.shut_down(LEAVE_LIMIT).await;
    outcome
}
