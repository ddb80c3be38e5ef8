//! `nook up`: a node until it is interrupted.

use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(unix)]
use anyhow::Context as _;
#[cfg(unix)]
use nook_update::{Installed, Portable};

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

/// The program that runs, by its file when it started: what lies there later may be a newer one.
#[cfg(unix)]
struct Program {
    file: PathBuf,
    words: Vec<std::ffi::OsString>,
}

/// Runs a node with its front ends: control socket and, unless switched off, the OpenAI port.
pub(crate) async fn run(home: Option<PathBuf>, up: Up) -> anyhow::Result<ExitCode> {
    #[cfg(unix)]
    let program = Program::this()?;
    #[cfg(unix)]
    program.recover();
    let house = connection::start(home).await?;
    #[cfg(unix)]
    house.restart().can_be_ordered();
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
    if house.restart().is_ordered() && house.broken().is_none() {
        return Err(program.start_anew().into());
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
impl Program {
    fn this() -> anyhow::Result<Self> {
        let file = std::env::current_exe().context("cannot find this program's own file")?;
        Ok(Self { file, words: std::env::args_os().skip(1).collect() })
    }

    /// The installed package that it belongs to, if it is one that it looks after itself.
    fn portable(&self) -> Option<Portable> {
        match Installed::of(&self.file) {
            Installed::Portable { prefix } => Some(Portable::at(&prefix)),
            Installed::Managed(_) | Installed::Built => None,
        }
    }

    /// A swap that was stopped in the middle is taken back before anything else is started.
    fn recover(&self) {
        match self.portable().map(|portable| portable.recover()) {
            Some(Ok(Some(version))) => {
                output::note(format!("an update was stopped in the middle: {version} is back"));
            }
            Some(Err(error)) => output::note(format!("note: {error}")),
            Some(Ok(None)) | None => {}
        }
    }

    /// Between two nodes: swaps what an update has prepared, and becomes the program that lies
    /// there then, in the same process. Returns only if that cannot be done.
    fn start_anew(&self) -> std::io::Error {
        use std::os::unix::process::CommandExt as _;
        let portable = self.portable();
        if let Some(Err(error)) = portable.as_ref().map(Portable::finish) {
            output::note(format!("the update did not work: {error}"));
        }
        let become_it = || std::process::Command::new(&self.file).args(&self.words).exec();
        let error = become_it();
        // The file is none that the system can start: the one before was.
        match portable.map(|portable| portable.back()) {
            Some(Ok(_)) => become_it(),
            _ => error,
        }
    }
}
