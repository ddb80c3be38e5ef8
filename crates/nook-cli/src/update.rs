//! `nook update`: looks for a new version, and puts it in place.
//!
//! The command prepares everything, then asks a node that runs to start anew: the node waits until
//! nothing is under way, leaves in order, swaps the files and becomes the new program. The command
//! watches that from outside, as a program of the old version. If the new one does not answer, it
//! puts the files back and sees to it that a node runs again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nook_api::NodeCalls as _;
use nook_base::{ErrorCode, clock};
use nook_control::{Client, ClientError};
use nook_update::{
    Claim, InstallError, Installed, Offer, Portable, SwapStage, UpdateError, Updates,
};
use semver::Version;
use tokio::task::spawn_blocking;

use crate::arguments::Update;
use crate::{connection, output};

/// Longest wait for a node to answer whose process is there: a slow computer that has just started
/// takes its time.
const START_LIMIT: Duration = Duration::from_secs(300);

/// Longest wait for whoever looks after the node (systemd waits ten seconds) to start it again once
/// its process has gone.
const KEEPER_LIMIT: Duration = Duration::from_secs(15);

/// How often it is looked how far that is.
const LOOK: Duration = Duration::from_millis(200);

/// What a look came to, as JSON.
#[derive(serde::Serialize)]
struct Found<'a> {
    running: String,
    newer: Option<String>,
    file: Option<&'a str>,
    notes: Option<&'a str>,
    installed: bool,
}

/// One run of the command.
struct Run {
    home: Option<PathBuf>,
    running: Version,
    installed: Installed,
    updates: Updates,
    json: bool,
    /// The program that is to run again if the new version does not come up, with its words.
    again: Vec<OsString>,
}

/// Since when nobody has answered.
#[derive(Default)]
struct Silence {
    silent: Option<Instant>,
    /// Since when there is no process either.
    gone: Option<Instant>,
}

/// Does what was wished.
pub(crate) async fn run(home: Option<PathBuf>, wish: Update) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let data = nook_node::data_folder(home.as_deref())?;
    let run = Run {
        home,
        running: nook_base::VERSION.parse().context("this program's own version is odd")?,
        installed: Installed::of(&program),
        updates: Updates::usual(&data)?,
        json: wish.json,
        again: wish.again,
    };
    if wish.undo {
        run.undo().await?;
    } else {
        run.update(wish.now).await?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Run {
    async fn update(&self, now: bool) -> anyhow::Result<()> {
        let updates = self.updates.clone();
        let claim = spawn_blocking(move || updates.claim()).await??;
        let Some(offer) = self.look(&claim).await? else {
            self.say(None, false);
            return Ok(());
        };
        let prefix = match &self.installed {
            Installed::Portable { prefix } if now => prefix.clone(),
            _ => {
                self.say(Some(&offer), false);
                return Ok(());
            }
        };
        let client = connection::client(self.home.as_ref())?;
        self.bring(&client, &offer).await;
        let archive = self.download(&claim, &offer).await?;
        let (running, version) = (self.running.clone(), offer.version.clone());
        at(&prefix, move |it| it.prepare(&archive, &running, &version)).await?;
        if client.is_running().await {
            self.restart(&client, &prefix, &offer.version, &claim).await?;
        } else {
            at(&prefix, Portable::finish).await?;
        }
        let (updates, package) = (self.updates.clone(), offer.package.clone());
        spawn_blocking(move || updates.clear_downloads(&claim, &package)).await?;
        self.say(Some(&offer), true);
        Ok(())
    }

    /// The newer version, from the server; where none answers, from the list that is held here: the
    /// node may have taken a newer one from another device.
    async fn look(&self, claim: &Claim) -> anyhow::Result<Option<Offer>> {
        let error = match self.updates.look(claim, &self.running, &self.installed).await {
            Err(error @ UpdateError::Fetch(_)) => error,
            looked => return Ok(looked?),
        };
        let updates = self.updates.clone();
        let held = spawn_blocking(move || updates.held_release()).await?;
        let offer = held.map(|it| Updates::offer(&it.manifest, &self.running, &self.installed));
        let Some(offer) = offer.and_then(Result::ok).flatten() else { return Err(error.into()) };
        if !self.json {
            output::note(format!("{error}. The list that this computer has is used."));
        }
        Ok(Some(offer))
    }

    /// Lets the node take the package from a device of the house, if one has it. What does not come
    /// from there comes from the internet.
    async fn bring(&self, client: &Client, offer: &Offer) {
        if !client.is_running().await {
            return;
        }
        match client.bring_update(offer.package.sha256.clone()).await {
            Ok(()) if !self.json => output::note("the package came from a device of the house"),
            Ok(()) => {}
            Err(error) => tracing::info!(%error, "no device of the house gives the package"),
        }
    }

    async fn download(&self, claim: &Claim, offer: &Offer) -> anyhow::Result<PathBuf> {
        let stop = tokio_util::sync::CancellationToken::new();
        let told = tokio::sync::watch::Sender::default();
        let held = self.updates.has_whole(&offer.package);
        if !self.json && !held {
            let (file, megabytes) = (&offer.package.file, offer.package.bytes as f64 / 1e6);
            output::note(format!("downloading {file} ({megabytes:.1} MB)"));
        }
        Ok(self.updates.fetch(claim, offer, &stop, &told).await?.path)
    }

    /// Lets the node that runs become the new version; ends with the old one where that fails.
    async fn restart(
        &self,
        client: &Client,
        prefix: &Path,
        new: &Version,
        claim: &Claim,
    ) -> anyhow::Result<()> {
        let to = &new.to_string();
        self.order(client, prefix).await?;
        if !self.json {
            output::note("the node starts anew once nothing is under way");
        }
        let mut silence = Silence::default();
        loop {
            match (version_of(client).await, at(prefix, Portable::stage_of_swap).await?) {
                (Some(version), _) if version == *to => return Ok(()),
                // It took the swap back by itself, and goes on.
                (Some(version), SwapStage::Nothing) => {
                    bail!("version {to} did not get into place; {version} runs again, as before");
                }
                (Some(_), _) => {
                    silence = Silence::default();
                    // It counts for seconds only.
                    self.order(client, prefix).await?;
                }
                (None, stage) => {
                    if silence.is_the_end(clock::now(), self.is_alive().await) {
                        if stage == SwapStage::Done {
                            // What cannot be noted is tried again: a pity, and no reason to stop.
                            drop(self.updates.note_failed(claim, new));
                        }
                        return self.put_back(client, prefix, (stage, to)).await;
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Orders the restart. A node that leaves just now answers no more, or that it is being closed:
    /// neither is a refusal, and what comes of it shows.
    async fn order(&self, client: &Client, prefix: &Path) -> anyhow::Result<()> {
        match client.restart_when_quiet().await {
            Err(error @ ClientError::Refused(_)) if !is_leaving(&error) => {
                at(prefix, Portable::abandon).await?;
                bail!("{error} Or end it first, then run `nook update --now` again.");
            }
            _ => Ok(()),
        }
    }

    /// Whether the process of the node is there: the one that had the data folder last.
    async fn is_alive(&self) -> bool {
        let home = self.home.clone();
        let look = spawn_blocking(move || {
            let process = nook_node::process_of(home.as_deref());
            process.is_some_and(is_alive)
        });
        look.await.unwrap_or(false)
    }

    /// The node of the new version does not answer: the old one comes back, and runs again.
    async fn put_back(
        &self,
        client: &Client,
        prefix: &Path,
        (stage, to): (SwapStage, &str),
    ) -> anyhow::Result<()> {
        if stage != SwapStage::Done {
            at(prefix, Portable::abandon).await?;
            bail!("the node ended before it could start anew; nothing was changed");
        }
        at(prefix, Portable::back).await?;
        // Whoever looks after the node may start it by itself.
        if !until_it_answers(client, KEEPER_LIMIT).await {
            self.start_node(prefix)?;
            if !until_it_answers(client, START_LIMIT).await {
                bail!(
                    "version {to} did not come up. {} is back, but no node runs: start it with `nook up`",
                    self.running
                );
            }
        }
        bail!("version {to} did not come up; {} is back and runs", self.running)
    }

    /// Starts a node that goes on without this command.
    fn start_node(&self, prefix: &Path) -> anyhow::Result<()> {
        let mut command = match self.again.split_first() {
            Some((program, words)) => {
                let mut command = std::process::Command::new(program);
                command.args(words);
                command
            }
            None => {
                let mut command = std::process::Command::new(Portable::at(prefix).program());
                if let Some(home) = &self.home {
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

    /// Puts the version back that was here before.
    async fn undo(&self) -> anyhow::Result<()> {
        let Installed::Portable { prefix } = &self.installed else {
            bail!(
                "this Inglenook did not come as the portable package; install the earlier version by hand"
            );
        };
        let updates = self.updates.clone();
        let _claim = spawn_blocking(move || updates.claim()).await??;
        let client = connection::client(self.home.as_ref())?;
        if client.is_running().await {
            bail!("a node runs: end it first, then run `nook update --undo` again");
        }
        let version = at(prefix, Portable::back).await?;
        match self.json {
            true => output::json(&serde_json::json!({ "version": version })),
            false => output::line(format!("Version {version} is back.")),
        }
        Ok(())
    }

    fn say(&self, offer: Option<&Offer>, installed: bool) {
        let notes = offer.and_then(|offer| offer.notes.get("en")).map(String::as_str);
        if self.json {
            output::json(&Found {
                running: self.running.to_string(),
                newer: offer.map(|offer| offer.version.to_string()),
                file: offer.map(|offer| offer.package.file.as_str()),
                notes,
                installed,
            });
            return;
        }
        let Some(Offer { version, package, .. }) = offer else {
            output::line(format!("{} is the newest version.", self.running));
            return;
        };
        if installed {
            output::line(format!("Version {version} is in place."));
            return;
        }
        output::line(format!("Version {version} is there; {} runs here.", self.running));
        if let Some(notes) = notes {
            output::line(notes);
        }
        output::line(format!("To install it, {}.", self.installed.by_hand(&package.file)));
    }
}

impl Silence {
    /// Nobody answers at `now`; whether nobody will any more.
    fn is_the_end(&mut self, now: Instant, is_alive: bool) -> bool {
        let silent = *self.silent.get_or_insert(now);
        if is_alive {
            self.gone = None;
            return now.saturating_duration_since(silent) > START_LIMIT;
        }
        now.saturating_duration_since(*self.gone.get_or_insert(now)) > KEEPER_LIMIT
    }
}

/// Whether the node takes no order because it leaves already, as it was ordered to or by itself.
fn is_leaving(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem) if problem.code == ErrorCode::Draining.name())
}

/// Whether there is such a process. One that has ended and that nobody has asked about is none.
fn is_alive(process: u32) -> bool {
    use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};
    let Ok(mut system) = System::new() else { return false };
    let process = Pid::from_u32(process);
    let (only, nothing) = (ProcessesToUpdate::Some(&[process]), ProcessRefreshKind::nothing());
    system.refresh_processes_specifics(only, true, nothing);
    system
        .process(process)
        .is_some_and(|it| !matches!(it.status(), ProcessStatus::Zombie | ProcessStatus::Dead))
}

/// Does something with the installed package, on a thread that may wait for the disk.
async fn at<T: Send + 'static>(
    prefix: &Path,
    deed: impl FnOnce(&Portable) -> Result<T, InstallError> + Send + 'static,
) -> anyhow::Result<T> {
    let portable = Portable::at(prefix);
    Ok(spawn_blocking(move || deed(&portable)).await??)
}

/// The version of the node that answers, if one does.
async fn version_of(client: &Client) -> Option<String> {
    client.view().await.ok().map(|view| view.me.app_version)
}

async fn until_it_answers(client: &Client, limit: Duration) -> bool {
    let began = clock::now();
    while version_of(client).await.is_none() {
        if began.elapsed() > limit {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
    true
}

#[cfg(test)]
mod tests {
    use nook_api::NodeError;

    use super::*;

    #[test]
    fn a_slow_start_is_waited_for_and_a_process_that_has_gone_is_not() {
        let start = clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut slow = Silence::default();
        assert!((0..=300).all(|second| !slow.is_the_end(at(second), true)));
        assert!(slow.is_the_end(at(301), true), "it hangs");
        let mut gone = Silence::default();
        assert!((0..=15).all(|second| !gone.is_the_end(at(second), false)));
        assert!(gone.is_the_end(at(16), false));
        // Started again by whoever looks after it, and ended again, more than once.
        let mut again = Silence::default();
        assert!((0..100).all(|second| !again.is_the_end(at(second), second % 12 == 0)));
    }

    #[test]
    fn a_node_that_leaves_already_refuses_nothing() {
        let refused = |error: NodeError| ClientError::Refused(error.into());
        assert!(is_leaving(&refused(NodeError::gone())));
        assert!(!is_leaving(&refused(NodeError::from(ErrorCode::Busy))));
    }

    #[test]
    fn this_process_is_alive_and_one_that_has_ended_is_not() {
        assert!(is_alive(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = child.id();
        // Nobody has asked how it ended: its number is still taken.
        while is_alive(process) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(process));
    }
}
