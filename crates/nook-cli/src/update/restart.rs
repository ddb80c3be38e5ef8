//! The node that runs becomes the new version, or the old one comes back and runs.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_api::{NodeCalls as _, RestartWaits};
use nook_base::{ErrorCode, clock};
use nook_control::{Client, ClientError};
use nook_update::{Claim, Portable, SwapStage};
use semver::Version;
use tokio::task::spawn_blocking;

use super::process::{self, Running};
use super::watch::{Fault, KEEPER_LIMIT, Patience, START_LIMIT, Seen, Step, Waiting, Watch};
use super::{Run, at, version_of};
use crate::output;

/// How often it is looked how far that is.
const LOOK: Duration = Duration::from_millis(200);

/// Longest wait for a node to leave that was asked to: its own limits are shorter.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);

/// One restart of a node as another version.
pub(super) struct Restart<'a> {
    run: &'a Run,
    client: &'a Client,
    prefix: &'a Path,
    new: &'a Version,
    claim: &'a Claim,
    patience: Patience,
    /// How the program that runs the node is started again, as the node says; empty before it did.
    again: Vec<OsString>,
    /// The process of the node.
    node: Option<Running>,
}

impl<'a> Restart<'a> {
    /// The node that `client` reaches is to become the version `new`, which lies ready below
    /// `prefix`.
    pub(super) fn new(
        run: &'a Run,
        client: &'a Client,
        prefix: &'a Path,
        new: &'a Version,
        claim: &'a Claim,
    ) -> Self {
        let patience = Patience::new(clock::now(), run.wait);
        let again = run.again.clone();
        Self { run, client, prefix, new, claim, patience, again, node: None }
    }

    /// Ends when the new version has come up; with an error where the old one is back, or stayed.
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        self.node = self.process().await;
        if self.again.is_empty() {
            let again = self.client.started_as().await.unwrap_or_default();
            self.again = again.into_iter().map(OsString::from).collect();
        }
        self.order().await?;
        if !self.run.json {
            let minutes = self.run.wait.as_secs() / 60;
            output::note(format!(
                "the node starts anew once nothing is under way; that is waited for {minutes} minutes"
            ));
        }
        let mut watch = Watch::new(self.run.patience);
        loop {
            let seen = self.look().await?;
            match watch.on(seen, clock::now()) {
                Step::Wait => {}
                Step::Order => {
                    // It counts for seconds only.
                    let waits = self.order().await?;
                    self.wait_for(&waits.unwrap_or_default()).await?;
                }
                Step::Done => return Ok(()),
                Step::TakenBack => return self.taken_back().await,
                Step::Failed(fault) => return self.put_back(fault).await,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn look(&self) -> anyhow::Result<Seen> {
        Ok(match version_of(self.client).await {
            Some(version) if version == self.new.to_string() => {
                let has_come_up = match self.client.has_come_up().await {
                    // A version that does not know the question has nothing else to say.
                    Err(ClientError::Refused(_)) => true,
                    answer => answer.unwrap_or_default(),
                };
                Seen::New { has_come_up }
            }
            Some(_) => Seen::Old(at(self.prefix, Portable::stage_of_swap).await?),
            // It had come up, and somebody has ended it already.
            None if at(self.prefix, Portable::has_come_up).await? => {
                Seen::New { has_come_up: true }
            }
            None => Seen::Nobody { is_alive: self.process().await.is_some() },
        })
    }

    /// Orders the restart; what it waits for. A node that leaves just now answers no more, or that
    /// it is being closed: neither is a refusal, and what comes of it shows.
    async fn order(&self) -> anyhow::Result<Option<RestartWaits>> {
        match self.client.restart_when_quiet().await {
            Ok(waits) => Ok(Some(waits)),
            Err(error @ ClientError::Refused(_)) if !is_leaving(&error) => {
                at(self.prefix, Portable::abandon).await?;
                bail!("{error} Or end it first, then run `nook update --now` again.")
            }
            Err(_) => Ok(None),
        }
    }

    /// Says what is waited for, or gives up where that took too long: the new version stays ready.
    async fn wait_for(&mut self, waits: &RestartWaits) -> anyhow::Result<()> {
        let what = match self.patience.on(waits, clock::now()) {
            Waiting::GoOn(Some(what)) if !self.run.json => {
                output::note(format!("waiting for {what}"));
                return Ok(());
            }
            Waiting::GoOn(_) => return Ok(()),
            Waiting::Enough(what) => Some(what),
            Waiting::Stays => None,
        };
        // What has begun to leave meanwhile does not answer, and is watched to its end.
        if self.client.call_off_restart().await.is_err() {
            return Ok(());
        }
        let Some(what) = what else {
            bail!(
                "version {} was not put in place, because the node has nothing under way and does \
                 not start anew. It is downloaded: end the node, then run `nook update --now` again",
                self.new
            )
        };
        bail!(
            "version {} was not put in place, because the node still waits for {what}. It is downloaded: \
             run `nook update --now` again later, or with a longer --wait. To cut that off, run \
             `nook down` before",
            self.new
        )
    }

    /// The old version runs again, and the files are its own.
    async fn taken_back(&self) -> anyhow::Result<()> {
        let (to, from) = (self.new, &self.run.running);
        let taken_back = at(self.prefix, |it| Ok(it.taken_back())).await?;
        if taken_back.is_some_and(|version| version == to.to_string()) {
            self.note_failed();
            bail!("version {to} did not come up and took itself back; {from} runs again");
        }
        bail!("version {to} did not get into place; {from} runs again, as before")
    }

    /// What cannot be noted is tried again: a pity, and no reason to stop.
    fn note_failed(&self) {
        drop(self.run.updates.note_failed(self.claim, self.new));
    }

    /// The new version does not come up: the old one comes back, and runs again.
    async fn put_back(&self, fault: Fault) -> anyhow::Result<()> {
        let (to, from) = (self.new, &self.run.running);
        self.end(fault).await;
        match at(self.prefix, Portable::stage_of_swap).await? {
            SwapStage::Prepared => {
                at(self.prefix, Portable::abandon).await?;
                bail!("the node ended before it could start anew; nothing was changed");
            }
            SwapStage::Done => {
                at(self.prefix, Portable::take_back).await?;
                self.note_failed();
            }
            // Its last start has put the files back, and ended.
            SwapStage::Nothing => self.note_failed(),
        }
        let did = fault.words();
        // Whoever looks after the node may start it by itself.
        if !self.until_it_answers(KEEPER_LIMIT).await {
            self.start_program()?;
            if !self.until_it_answers(START_LIMIT).await {
                bail!(
                    "version {to} did not come up: {did}. {from} is back, but no node runs: start it with \
                     `nook up`, or start the app"
                );
            }
        }
        bail!("version {to} did not come up: {did}. {from} is back and runs")
    }

    /// Ends what is left of the new version, which holds the data folder.
    async fn end(&self, fault: Fault) {
        if fault == Fault::Half {
            let left = async {
                let _ = self.client.shut_down().await;
                while self.process().await.is_some() {
                    tokio::time::sleep(LOOK).await;
                }
            };
            if tokio::time::timeout(LEAVE_LIMIT, left).await.is_ok() {
                return;
            }
        }
        // Only the process that the node was: another one was started by somebody who looks after it.
        if let Some(node) = self.node {
            let _ = spawn_blocking(move || node.end()).await;
        }
    }

    /// The process that had the data folder last, if it is there.
    async fn process(&self) -> Option<Running> {
        let home = self.run.home.clone();
        spawn_blocking(move || process::of(home.as_deref())).await.ok().flatten()
    }

    async fn until_it_answers(&self, limit: Duration) -> bool {
        let began = clock::now();
        while version_of(self.client).await.is_none() {
            if began.elapsed() > limit {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// Starts the program that ran the node; it goes on without this command.
    fn start_program(&self) -> anyhow::Result<()> {
        let mut command = match self.again.split_first() {
            Some((program, words)) => {
                let mut command = std::process::Command::new(program);
                command.args(words);
                command
            }
            None => {
                let mut command = std::process::Command::new(Portable::at(self.prefix).program());
                if let Some(home) = &self.run.home {
                    command.arg("--home").arg(home);
                }
                command.arg("up");
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C at this command is not meant for it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn().context("the node could not be started again")?;
        Ok(())
    }
}

impl Fault {
    /// What the version did in place of coming up.
    fn words(self) -> &'static str {
        match self {
            Self::Ended => "it ended",
            Self::Hangs => "it runs and does not answer",
            Self::Half => "its node runs, and the rest of it does not come",
        }
    }
}

/// Whether the node takes no order because it leaves already, as it was ordered to or by itself.
fn is_leaving(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem) if problem.code == ErrorCode::Draining.name())
}

#[cfg(test)]
mod tests {
    use nook_api::NodeError;

    use super::*;

    #[test]
    fn a_node_that_leaves_already_refuses_nothing() {
        let refused = |error: NodeError| ClientError::Refused(error.into());
        assert!(is_leaving(&refused(NodeError::gone())));
        assert!(!is_leaving(&refused(NodeError::from(ErrorCode::Busy))));
    }
}
