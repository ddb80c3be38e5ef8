//! `nook models folder`: where the models lie, and moving them.
//!
//! The node moves; this asks, shows how far it is, and ends the move when it is interrupted: a move
//! that nobody watches would go on, but a person who presses Ctrl-C wants things as they were. Once
//! everything is in the new folder it is too late for that, and this says so by what it shows: the
//! new folder.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
use nook_api::NodeCalls as _;
use nook_api::views::{ModelsFolderView, MoveState};
use nook_control::ClientError;

use super::{LOOK, size};
use crate::ask::view;
use crate::connection::Connection;
use crate::output;

pub(super) async fn run(
    connection: &Connection,
    path: Option<PathBuf>,
    usual: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let to = match path {
        None if !usual => {
            tell(&view(&connection.client).await?.models_folder, json);
            return Ok(ExitCode::SUCCESS);
        }
        None => None,
        Some(path) => {
            let whole = std::path::absolute(&path);
            Some(whole.with_context(|| format!("cannot resolve {}", path.display()))?)
        }
    };
    let before = view(&connection.client).await?.models_folder.path;
    let is_named = to.as_ref().is_some_and(|to| to.display().to_string() == before);
    let mut shown = Shown::new(json);
    // Kept when this is interrupted: what was asked for may be on its way.
    let asking = connection.client.move_models(to);
    tokio::pin!(asking);
    let interrupted = tokio::select! {
        biased;
        // Listened for before anything moves.
        () = nook_control::asked_by_the_system() => true,
        moved = shown.ask(connection, asking.as_mut()) => {
            moved?;
            false
        }
    };
    if interrupted {
        shown.stop(connection, asking).await?;
    }
    drop(shown);
    let folder = &view(&connection.client).await?.models_folder;
    if let Some(problem) = &folder.problem {
        bail!("{}", problem.sentence);
    }
    // What was there already, and was named again, has not moved; neither has what was stopped,
    // here or at another front end. Too late to be stopped is a move that clears the old folder.
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
    /// Whether the node has said if it moves them.
    is_answered: bool,
}

impl Shown {
    fn new(json: bool) -> Self {
        Self { bar: if json { None } else { output::bar() }, json, state: None, is_answered: false }
    }

    /// Has the models moved by `asking` for it, and shows that until it is over. The node answers
    /// once the downloads rest and all was looked at.
    async fn ask(
        &mut self,
        connection: &Connection,
        mut asking: Pin<&mut impl Future<Output = Result<(), ClientError>>>,
    ) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                answered = &mut asking => {
                    self.is_answered = true;
                    answered?;
                    return self.until_over(connection).await;
                }
                looked = async {
                    let looked = self.look(connection).await;
                    tokio::time::sleep(LOOK).await;
                    looked
                } => {
                    looked?;
                }
            }
        }
    }

    /// Ends what is `asking` for a move, or the move, and shows that until it is over. A wish to
    /// stop may overtake the one to move: it is said until that is answered, and once behind it.
    async fn stop(
        &mut self,
        connection: &Connection,
        mut asking: Pin<&mut impl Future<Output = Result<(), ClientError>>>,
    ) -> anyhow::Result<()> {
        while !self.is_answered {
            connection.client.stop_moving_models().await?;
            // Also a refusal is an answer: then nothing moves.
            self.is_answered = tokio::time::timeout(LOOK, &mut asking).await.is_ok();
        }
        connection.client.stop_moving_models().await?;
        self.until_over(connection).await
    }

    async fn until_over(&mut self, connection: &Connection) -> anyhow::Result<()> {
        while self.look(connection).await? {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Shows how far it is; whether it is under way.
    async fn look(&mut self, connection: &Connection) -> anyhow::Result<bool> {
        let folder = view(&connection.client).await?.models_folder;
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
