//! `nook up`: a node until it is interrupted.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::arguments::Up;
use crate::{door, output};

/// Runs a node with its doors: control socket and, unless switched off, the OpenAI port.
pub(crate) async fn run(home: Option<PathBuf>, up: Up) -> anyhow::Result<ExitCode> {
    let house = door::start(home).await?;
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
    interrupted(&house).await;
    output::note("leaving …");
    house.shut_down().await;
    Ok(ExitCode::SUCCESS)
}

/// Waits for Ctrl-C, a polite kill, or a shutdown asked over the control socket.
async fn interrupted(house: &nook_api::NodeHandle) {
    let mut view = house.view();
    let gone = async move { while view.changed().await.is_ok() {} };
    tokio::select! {
        () = nook_control::asked_by_the_system() => {}
        () = gone => {}
    }
}
