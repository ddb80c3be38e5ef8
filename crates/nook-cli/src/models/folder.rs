//! `nook models folder`: where the models lie, and moving them.
//!
//! The node moves; this asks, shows how far it is, and ends the move when it is interrupted: a move that
//! nobody watches would go on, but a person who presses Ctrl-C wants things as they were.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use nook_control::{FolderName, Request};
use nook_node::views::{ModelsFolderView, MoveState};

use super::{LOOK, size};
use crate::ask::view;
use crate::door::Door;
use crate::output;

pub(super) async fn run(
    door: &Door,
    path: Option<PathBuf>,
    usual: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let to = match path {
        None if !usual => {
            tell(&view(&door.client).await?.models_folder, json);
            return Ok(ExitCode::SUCCESS);
        }
        None => None,
        Some(path) => {
            let whole = std::path::absolute(&path);
            Some(whole.with_context(|| format!("cannot resolve {}", path.display()))?)
        }
    };
    let before = view(&door.client).await?.models_folder.path;
    door.client.ask(Request::MoveModels { to: to.map(FolderName) }).await?;
    tokio::select! {
        biased;
        () = nook_control::asked_by_the_system() => {
            door.client.ask(Request::StopMovingModels).await?;
            wait(door, json).await?;
            let now = view(&door.client).await?.models_folder.path;
            output::note(format!("The move was stopped. The models are in {now}"));
            Ok(ExitCode::FAILURE)
        }
        waited = wait(door, json) => {
            waited?;
            let folder = &view(&door.client).await?.models_folder;
            if let Some(problem) = &folder.problem {
                bail!("{}", problem.sentence);
            }
            if folder.path == before {
                bail!("the move was stopped");
            }
            tell(folder, json);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Shows a move until it is over.
async fn wait(door: &Door, json: bool) -> anyhow::Result<()> {
    let bar = if json { None } else { output::bar() };
    let mut shown = None;
    loop {
        let folder = view(&door.client).await?.models_folder;
        let Some(now) = &folder.moving else {
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            return Ok(());
        };
        if let Some(bar) = &bar {
            bar.set_length(now.bytes);
            bar.set_position(now.done_bytes);
            bar.set_message(state_words(now.state));
        } else if shown != Some(now.state) {
            if json {
                output::json_line(&folder);
            } else {
                output::note(format!("{}: {}", now.to, state_words(now.state)));
            }
        }
        shown = Some(now.state);
        tokio::time::sleep(LOOK).await;
    }
}

fn tell(folder: &ModelsFolderView, json: bool) {
    if json {
        return output::json_line(folder);
    }
    output::line(&folder.path);
    if !folder.there {
        output::note("This folder is not there now. Plug in its disk, or name another one.");
    }
    if !folder.missing.is_empty() {
        output::note(format!("Missing there: {}", folder.missing.join(", ")));
    }
    if let Some(now) = &folder.moving {
        let (done, all) = (size(now.done_bytes), size(now.bytes));
        output::note(format!("Moving to {}: {done} of {all}", now.to));
    }
}

fn state_words(state: MoveState) -> &'static str {
    match state {
        MoveState::Waiting => "waiting until the downloads rest",
        MoveState::Moving => "moving",
        MoveState::Finishing => "clearing the old folder",
    }
}
