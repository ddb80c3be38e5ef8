//! `nook models folder`: where the models lie, and moving them.
//!
//! The node moves; this asks, shows how far it is, and ends the move when it is interrupted: a move that
//! nobody watches would go on, but a person who presses Ctrl-C wants things as they were. Once everything is
//! in the new folder it is too late for that, and this says so by what it shows: the new folder.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
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
    let is_named = to.as_ref().is_some_and(|to| to.display().to_string() == before);
    let mut shown = Shown::new(json);
    let interrupted = tokio::select! {
        biased;
        // Listened for before anything moves.
        () = nook_control::asked_by_the_system() => true,
        moved = shown.ask(door, to) => {
            moved?;
            false
        }
    };
    if interrupted {
        door.client.ask(Request::StopMovingModels).await?;
        shown.until_over(door).await?;
    }
    drop(shown);
    let folder = &view(&door.client).await?.models_folder;
    if let Some(problem) = &folder.problem {
        bail!("{}", problem.sentence);
    }
    // What was there already, and was named again, has not moved; neither has what was stopped, here or at
    // another door. Too late to be stopped is a move that clears the old folder.
    if folder.path == before && (interrupted || !is_named) {
        output::note(format!("The move was stopped. The models are in {before}"));
        return Ok(ExitCode::FAILURE);
    }
    tell(folder, json);
    Ok(ExitCode::SUCCESS)
}

/// A move as it is shown.
struct Shown {
    /// Only on a terminal, and for people.
    bar: Option<ProgressBar>,
    json: bool,
    state: Option<MoveState>,
}

impl Shown {
    fn new(json: bool) -> Self {
        Self { bar: if json { None } else { output::bar() }, json, state: None }
    }

    /// Has the models moved to `to`, and shows that until it is over. The node answers once the downloads
    /// rest and all was looked at.
    async fn ask(&mut self, door: &Door, to: Option<PathBuf>) -> anyhow::Result<()> {
        let asking = door.client.ask(Request::MoveModels { to: to.map(FolderName) });
        tokio::pin!(asking);
        loop {
            tokio::select! {
                answered = &mut asking => {
                    answered?;
                    return self.until_over(door).await;
                }
                looked = async {
                    let looked = self.look(door).await;
                    tokio::time::sleep(LOOK).await;
                    looked
                } => {
                    looked?;
                }
            }
        }
    }

    async fn until_over(&mut self, door: &Door) -> anyhow::Result<()> {
        while self.look(door).await? {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Shows how far it is; whether it is under way.
    async fn look(&mut self, door: &Door) -> anyhow::Result<bool> {
        let folder = view(&door.client).await?.models_folder;
        let Some(now) = &folder.moving else { return Ok(false) };
        match &self.bar {
            Some(bar) => {
                bar.set_length(now.bytes);
                bar.set_position(now.done_bytes);
                bar.set_message(state_words(now.state));
            }
            None if self.state == Some(now.state) => {}
            None if self.json => output::json_line(&folder),
            None => output::note(format!("{}: {}", now.to, state_words(now.state))),
        }
        self.state = Some(now.state);
        Ok(true)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
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
