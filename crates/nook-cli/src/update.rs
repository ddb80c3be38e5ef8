//! `nook update`: looks for a new version, and puts it in place.
//!
//! The command prepares everything, then asks a node that runs to start anew: the node waits until
//! nothing is under way, leaves in order, swaps the files and becomes the new program. The command
//! watches that from outside, as a program of the old version ([`restart`]). If the new one does not
//! come up, it puts the files back and sees to it that a node runs again.

mod process;
mod restart;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_api::NodeCalls as _;
use nook_control::Client;
use nook_update::{Claim, InstallError, Installed, Offer, Portable, UpdateError, Updates};
use semver::Version;
use tokio::task::spawn_blocking;

use crate::arguments::Update;
use crate::{connection, output};
use restart::Restart;

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
    /// The program that is to run again if the new version does not come up, with its words; empty
    /// where the node is to say it.
    again: Vec<OsString>,
    /// Longest wait for what is under way.
    wait: Duration,
    /// Longest wait for a process that is there and does not come up.
    patience: Duration,
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
        wait: Duration::from_secs(60 * u64::from(wish.wait)),
        patience: wish.patience.map_or(watch::START_LIMIT, Duration::from_secs),
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
        if client.is_running().await {
            let words = client.started_as().await.unwrap_or_default();
            refuse_other_program(&words, &prefix)?;
        }
        self.bring(&client, &offer).await;
        let archive = self.download(&claim, &offer).await?;
        let (running, version) = (self.running.clone(), offer.version.clone());
        at(&prefix, move |it| it.prepare(&archive, &running, &version)).await?;
        if client.is_running().await {
            let start = Restart::new(self, &client, &prefix, &offer.version, &claim);
            start.run().await?;
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

/// A node that runs another program than one of the package below `prefix` would be ordered to start
/// anew and come back as what it was. `words`: how it is started again, as far as it says so.
fn refuse_other_program(words: &[String], prefix: &Path) -> anyhow::Result<()> {
    let Some(program) = words.first().map(Path::new) else { return Ok(()) };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match Installed::of(&real(program)) {
        Installed::Portable { prefix: other } if real(&other) == real(prefix) => Ok(()),
        _ => bail!(
            "the node that runs here is {}, which is none of the programs below {}: end it first, \
             or update it as it was installed",
            program.display(),
            prefix.display()
        ),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_updated_only_where_its_program_is_one_of_the_package() {
        let folder = tempfile::tempdir().unwrap();
        let installed = |name: &str, program: &str| {
            let prefix = folder.path().join(name);
            let list = prefix.join("share/doc/inglenook/installed.txt");
            std::fs::create_dir_all(list.parent().unwrap()).unwrap();
            std::fs::create_dir_all(prefix.join("bin")).unwrap();
            std::fs::write(list, "").unwrap();
            std::fs::write(prefix.join("bin").join(program), "").unwrap();
            prefix
        };
        let (mine, other) = (installed("mine", "nook"), installed("other", "nook"));
        std::fs::write(folder.path().join("nook"), "").unwrap();
        let refused = |program: PathBuf| {
            let word = program.to_str().unwrap().to_owned();
            refuse_other_program(&[word], &mine).map_err(|error| error.to_string())
        };
        assert_eq!(refused(mine.join("bin/nook")), Ok(()));
        for program in [other.join("bin/nook"), folder.path().join("nook")] {
            let sentence = refused(program.clone()).unwrap_err();
            assert!(sentence.contains(program.to_str().unwrap()), "{sentence}");
        }
        // A node that does not say it is an older version, or none that goes on by itself.
        assert!(refuse_other_program(&[], &mine).is_ok());
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(mine.join("bin/nook"), &link).unwrap();
            assert_eq!(refused(link), Ok(()), "a link to a program of the package");
        }
    }
}
