//! `nook`: Inglenook without a window, for headless machines, scripts and tinkerers.
//!
//! A thin front end: arguments are read in `arguments`, every command talks to a node over the
//! control socket (`connection` connects to the running one, or starts one for the length of the
//! command), and `output` is the only place that prints, `endings` knows the exit statuses. `debug`,
//! `bench`, `privacy` and `manual` need no node: they look into files, and at the command line itself. Started as
//! `nook worker` it is the worker process, as `nook measurer` the one of the privacy meter
//! (`measuring`).

mod arguments;
mod ask;
mod asked;
mod bench;
mod chat;
mod connection;
mod debug;
mod down;
mod endings;
mod generate;
mod helping;
mod house;
mod keys;
mod manual;
mod measuring;
mod models;
mod output;
#[cfg(test)]
mod pages;
mod pipeline;
mod privacy;
mod settings;
mod timeline;
mod up;
mod update;
mod waking;

use std::ffi::OsStr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use nook_base::env;

use crate::arguments::{Arguments, Command};

/// How long a command whose work is done waits for threads that look at disks and drivers. One that
/// does not answer, an unplugged network disk for instance, holds nobody up for longer.
const BLOCKED_LIMIT: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    // Words are not always Unicode; `Arguments` says of which one that matters.
    let mut words = std::env::args_os();
    let first = words.nth(1);
    if first.as_deref() == Some(OsStr::new("worker")) {
        return nook_node::worker_main(&words.collect::<Vec<_>>());
    }
    if first.as_deref() == Some(OsStr::new(measuring::WORD)) {
        start_log("warn");
        return measuring::run();
    }
    nook_node::no_core_dumps();
    let arguments = Arguments::parse();
    start_log(if matches!(arguments.command, Command::Up(_)) { "info" } else { "warn" });
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::problem(&anyhow::Error::new(error).context("cannot start the runtime"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(arguments)).unwrap_or_else(|error| {
        output::problem(&error);
        endings::exit_code(&error)
    });
    runtime.shutdown_timeout(BLOCKED_LIMIT);
    code
}

async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let home = arguments.home.clone();
    match arguments.command {
        Command::Up(up) => up::run(home, up).await,
        Command::Down(wish) => down::run(home, wish).await,
        Command::Pair(pair) => ask::pair(home, pair).await,
        Command::Devices(devices) => ask::devices(home, devices).await,
        Command::Share(share) => ask::share(home, share).await,
        Command::Models(models) => models::run(home, models).await,
        Command::Doctor(doctor) => ask::doctor(home, doctor).await,
        Command::Settings(wish) => settings::run(home, wish).await,
        Command::Key(wish) => keys::run(home, wish).await,
        Command::Generate(wish) => generate::run(home, wish).await,
        Command::Chat(chat) => chat::run(home, chat).await,
        Command::House(house) => house::run(house).await,
        Command::Update(wish) => update::run(home, wish).await,
        Command::Debug(debug) => debug::run(debug),
        Command::Bench(bench) => bench::run(bench).await,
        Command::Privacy(wish) => privacy::run(home, wish).await,
        Command::Completions { shell } => manual::completions(shell),
        Command::Manual { folder } => manual::write(&folder),
    }
}

/// The log goes to standard error, so that what a command prints can be piped.
fn start_log(usual: &str) {
    let filter = nook_node::log_filter(usual);
    // Fails only when a subscriber is set already, which cannot be this early.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(env::may_colour(&std::io::stderr()))
        .try_init();
}
