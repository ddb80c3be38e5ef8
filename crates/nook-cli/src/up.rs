//! `nook up`: a node until it is interrupted.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use nook_node::StartError;
use nook_update::{InstallError, RunningProgram};

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
    let program = RunningProgram::this().context("cannot find this program's own file")?;
    recover(&program);
    // Only on Unix does one program take another's place, and a version its own.
    #[cfg(unix)]
    if is_taken_back(&program) {
        return Err(program.become_what_lies_there().into());
    }
    let started = connection::start(home).await;
    if let Err(error) = &started
        && error.downcast_ref().is_some_and(StartError::is_taken)
    {
        noted(program.left());
    }
    let house = started?;
    let again = again(&program);
    match cfg!(unix) {
        true => house.restart().can_be_ordered(again),
        false => house.restart().was_started_as(again),
    }
    let socket = nook_control::socket_name(house.runtime_folder());
    nook_control::serve(house.clone(), &socket, house.tasks())?;
    if !up.no_port {
        // A taken port is a problem of the port, not of the node: it is shown and the node goes on.
        nook_openai::open(house.clone()).await;
    }
    house.restart().come_up();
    noted(program.came_up());
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

fn again(program: &RunningProgram) -> nook_api::Again {
    nook_api::Again { program: program.file().to_owned(), words: program.words().to_owned() }
}

/// Whether this version was started too often without coming up: the one before lies there again.
#[cfg(unix)]
fn is_taken_back(program: &RunningProgram) -> bool {
    match program.starts() {
        Ok(Some(version)) => {
            output::note(format!("this version did not come up three times: {version} is back"));
            true
        }
        Ok(None) => false,
        Err(error) => {
            output::note(format!("note: {error}"));
            false
        }
    }
}

/// What cannot be noted of a version costs it a start, and nothing else.
fn noted(done: Result<(), InstallError>) {
    if let Err(error) = done {
        output::note(format!("note: {error}"));
    }
}

/// A swap that was stopped in the middle is taken back before anything else is started.
fn recover(program: &RunningProgram) {
    match program.recover() {
        Ok(Some(version)) => {
            output::note(format!("an update was stopped in the middle: {version} is back"));
        }
        Err(error) => output::note(format!("note: {error}")),
        Ok(None) => {}
    }
}
