//! Inglenook: the tray app and its window.
//!
//! A thin front end over `nook-node`. `starting` starts the node and its other front ends,
//! `running` stays beside it and decides what follows its end, `tray` and `window` show it,
//! `commands` are what the page may ask for, `replies` streams what the model says, `leaving` ends
//! everything in order. Started as `inglenook worker` it is the worker process instead, before
//! anything of a window is touched.

// On Windows a released tray app opens no terminal; a debug build does, for its log.
#![cfg_attr(all(windows, not(debug_assertions)), windows_subsystem = "windows")]

mod app;
mod arguments;
mod ask_keys;
mod asks;
mod background;
#[cfg(test)]
mod bindings;
mod coalesce;
mod coming_up;
mod commands;
mod desktop_notices;
mod graphics;
#[cfg(test)]
mod household;
mod icons;
mod leaving;
mod log_file;
mod login_start;
mod news;
mod notices;
mod opening;
mod page_commands;
mod page_paths;
mod page_requests;
mod page_watch;
mod port_test;
mod replies;
mod running;
mod saving;
mod second_start;
mod start_again;
mod starting;
mod texts;
mod tray;
mod tray_host;
mod trial;
mod web_view;
mod window;

use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::Context as _;
use nook_update::RunningProgram;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::arguments::Arguments;
use crate::log_file::LogFile;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    if words.nth(1).as_deref() == Some(OsStr::new("worker")) {
        return nook_node::worker_main(&words.collect::<Vec<_>>());
    }
    nook_node::no_core_dumps();
    start_log();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let own = RunningProgram::this().context("this program's own file cannot be found")?;
    match own.recover() {
        Ok(Some(version)) => {
            tracing::warn!("an update was stopped in the middle: {version} is back")
        }
        Ok(None) => {}
        Err(error) => tracing::error!(%error, "an update was stopped in the middle"),
    }
    let mut arguments = Arguments::read(std::env::args_os().skip(1));
    let choices = nook_node::window_choices(None);
    arguments.safe_graphics |= choices.safe_graphics;
    graphics::prepare(&own, arguments.safe_graphics)?;
    let program = tauri::generate_context!();
    if second_start::is_handed_over(&program.config().identifier) {
        return Ok(());
    }
    web_view::ensure(choices.language.as_deref())?;
    trial::starts(&own)?;
    app::run(program, own, arguments, choices.language.as_deref())
}

fn start_log() {
    let filter = nook_node::log_filter("info");
    let to_terminal = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(nook_base::env::may_colour(&std::io::stderr()));
    // Without a data folder there is no house either, which the window says.
    let to_file = nook_node::data_folder(None).ok().map(|data| {
        let file = Mutex::new(LogFile::new(data));
        tracing_subscriber::fmt::layer().with_writer(file).with_ansi(false)
    });
    // Fails only when a subscriber is set already, which cannot be this early.
    let _ = tracing_subscriber::registry()
        .with(tracing_subscriber::EnvFilter::new(filter))
        .with(to_terminal)
        .with(to_file)
        .try_init();
    log_file::note_panics();
}
