//! `nook up`: a node until it is interrupted.

use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(unix)]
use anyhow::Context as _;
#[cfg(unix)]
use nook_update::RunningProgram;

use crate::arguments::Up;
use crate::endings::Failure;
use crate::{connection, output};

/// Who or what ended the node.
enum End {
    /// Ctrl-C or a polite kill.
    Asked,
    /// The node itself: somebody asked it over the control socket, or a part of it panicked.
    Over,
}

/// Runs a node with its front ends: control socket and, unless switched off, the OpenAI port.
pub(crate) async fn run(home: Option<PathBuf>, up: Up) -> anyhow::Result<ExitCode> {
    #[cfg(unix)]
    let program = RunningProgram::this().context("cannot find this program's own file")?;
    #[cfg(unix)]
    recover(&program);
    let house = connection::start(home).await?;
    #[cfg(unix)]
    house.restart().can_be_ordered(again(&program));
    let socket = nook_control::socket_name(house.runtime_folder());
    nook_control::serve(house.clone(), &socket, house.tasks())?;
    if !up.no_port {
        // A taken port is a problem of the port, not of the node: it is shown and the node goes on.
        nook_openai::open(house.clone()).await;
    }
    let view = house.now();
    output::line(format!("{} ({}) is up", view.me.name, view.me.short_id));
    output::line(format!("devices reach it on port {}", view.me.listen_port));
    if view.port.on {
        output::line(format!("programs on this machine: {} (key: `nook key`)", view.port.base_url));
    }
    for problem in &view.problems {
        output::note(format!("note: {}", problem.sentence));
    }
    if let End::Asked = end_of(&house).await {
        output::note("leaving …");
    }
    house.shut_down().await;
    #[cfg(unix)]
    if house.restart().has_begun() && house.broken().is_none() {
        return Err(program.start_anew(output::note).into());
    }
    match house.broken() {
        Some(panic) => Err(Failure::NodeBroke { part: panic.task, said: panic.message.0 }.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

async fn end_of(house: &nook_api::NodeHandle) -> End {
    tokio::select! {
        () = nook_control::asked_by_the_system() => End::Asked,
        () = house.over() => End::Over,
    }
}

#[cfg(unix)]
fn again(program: &RunningProgram) -> nook_api::Again {
    nook_api::Again { program: program.file().to_owned(), words: program.words().to_owned() }
}

/// A swap that was stopped in the middle is taken back before anything else is started.
#[cfg(unix)]
fn recover(program: &RunningProgram) {
    match program.recover() {
        Ok(Some(version)) => {
            output::note(format!("an update was stopped in the middle: {version} is back"));
        }
        Err(error) => output::note(format!("note: {error}")),
        Ok(None) => {}
    }
}
