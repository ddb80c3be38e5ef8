//! New versions of this program: when this node looks for one, and what front ends show of it.
//!
//! [`watch`] decides when. Looking is `nook-update`'s. Installing is left to `nook update --now`, the
//! program of the portable package beside this one: it outlives this node, which it asks to start
//! anew, and puts the old version back if the new one does not come up. What one device of the house
//! has, the others take from it: [`sharing`].

mod bringing;
mod house;
mod sharing;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use nook_api::views::{CatalogueEditionView, NewerView, UpdateTrouble, UpdateWay, UpdatesView};
use nook_api::{Again, NodeError, Restart, sentence};
use nook_base::{ErrorCode, clock};
use nook_fetch::Catalogue;
use nook_host::{GivenRelease, Giving};
use nook_library::LibraryEvent;
use nook_resources::traffic::Traffic;
use nook_update::{
    Claim, HeldRelease, Installed, Offer, PackageKind, Portable, Refusal, SeenError, UpdateError,
    Updates,
};
use semver::Version;
use tokio::sync::mpsc;

use crate::state::State;
use house::House;
use sharing::NotTaken;
use watch::{Effect, Event, Watch};

/// What the last run of the installing program said.
const SAID_FILE: &str = "update.log";

/// Most bytes of it that are shown.
const SAID_BYTES_MAX: u64 = 2048;

/// What comes back from looking and from installing.
#[derive(Debug)]
pub(crate) enum UpdateEvent {
    /// A look has ended.
    Looked(Result<Option<Offer>, UpdateError>),
    /// Somebody was asked for the list of models; absent where there is none.
    Models(Result<Option<Catalogue>, UpdateError>),
    /// The installing program has ended while this node still runs; what it said where it failed.
    InstallEnded(Result<(), String>),
    /// What is held here of a release was read anew.
    Held(Option<Box<HeldRelease>>),
    /// A device of the house was asked for its list.
    Taken {
        /// Its name.
        from: String,
        /// The number that it said of the list.
        serial: u64,
        /// The newer version in it, if there is one.
        taken: Result<Option<Offer>, NotTaken>,
    },
}

/// What this node knows of new versions.
#[derive(Debug)]
pub(crate) struct NewVersionsHere {
    watch: Watch,
    /// Where they come from; absent where nobody can be asked.
    source: Option<Arc<Updates>>,
    running: Option<Version>,
    /// A version that did not come up here.
    failed: Option<Version>,
    /// What this program came from.
    installed: Installed,
    events: mpsc::Sender<UpdateEvent>,
    shown: UpdatesView,
    /// The newer version that is shown.
    offer: Option<Offer>,
    /// The highest serial number of a list that was seen here.
    known: u64,
    house: House,
    /// What other devices are given.
    given: Arc<GivenRelease>,
    giving: Giving,
    traffic: Traffic,
    /// The list of models that was taken before this start, until it is in use.
    held_models: Option<Catalogue>,
    /// Why the last look brought no list of models.
    models_trouble: Option<String>,
}

impl NewVersionsHere {
    /// For the data folder `data` and the file of this program.
    pub(crate) fn of(
        (data, program): (&Path, &Path),
        events: mpsc::Sender<UpdateEvent>,
        (giving, traffic): (Giving, Traffic),
    ) -> Self {
        let source = Updates::usual(data).inspect_err(|error| {
            tracing::warn!(%error, "nobody can be asked for new versions");
        });
        let source = source.ok().filter(Updates::can_be_asked).map(Arc::new);
        // A file that is damaged is told when somebody looks.
        let seen = source.as_ref().and_then(|source| source.seen().ok()).unwrap_or_default();
        let installed = Installed::of(program);
        let failed = failed_here(&installed).or_else(|| seen.failed.clone());
        let trouble = failed.as_ref().map(taken_back);
        let shown = UpdatesView {
            trouble,
            can_look: source.is_some(),
            looked: Some(seen.checked).filter(|at| *at > 0),
            ..UpdatesView::default()
        };
        let running = nook_base::VERSION.parse().ok();
        let watch = Watch::new(seen.checked, failed.clone());
        let held_models = source.as_ref().and_then(|source| source.held_catalogue());
        Self {
            watch,
            source,
            running,
            failed,
            installed,
            events,
            shown,
            offer: None,
            known: seen.serial,
            house: House::default(),
            given: Arc::default(),
            giving,
            traffic,
            held_models,
            models_trouble: None,
        }
    }

    /// What front ends show of a program that starts itself again like this.
    fn view(&self, restart: &Restart) -> UpdatesView {
        let way = match &self.installed {
            Installed::Portable { .. } if restart.again().is_some() => UpdateWay::Itself,
            Installed::Managed(PackageKind::Deb) => UpdateWay::Apt,
            Installed::Managed(PackageKind::Rpm) => UpdateWay::Dnf,
            Installed::Managed(PackageKind::Zip) => UpdateWay::Unpack,
            Installed::Portable { .. } | Installed::Managed(_) => UpdateWay::Open,
            Installed::Built => UpdateWay::Build,
        };
        UpdatesView { is_looking: self.watch.is_looking(), way, ..self.shown.clone() }
    }
}

/// A version that was put in place and did not come up, whoever put the one before back.
fn failed_here(installed: &Installed) -> Option<Version> {
    let Installed::Portable { prefix } = installed else { return None };
    Portable::at(prefix).taken_back()?.parse().ok()
}

fn taken_back(version: &Version) -> UpdateTrouble {
    UpdateTrouble::TakenBack { version: version.to_string() }
}

fn newer(offer: Offer) -> NewerView {
    let Offer { version, package, notes, .. } = offer;
    let (version, file, bytes) = (version.to_string(), package.file, package.bytes);
    NewerView { version, file, bytes, notes, device: None }
}

impl State {
    /// Time has passed.
    pub(crate) fn watch_versions(&mut self) {
        self.look_in_house();
        if self.updates.source.is_none() || self.updates.shown.is_installing {
            return;
        }
        let choice = self.settings.settings().updates.new_versions;
        let is_busy = self.work_running() > 0
            || self.requester.replies_waiting() > 0
            || self.host.streams() > 0;
        self.watch_event(Event::Tick { choice, is_busy });
    }

    /// A person wants to know now.
    pub(crate) fn look_for_update(&mut self) -> Result<(), NodeError> {
        if self.updates.source.is_none() {
            return Err(refused(&UpdateError::Nowhere.to_string()));
        }
        self.watch_event(Event::Asked);
        Ok(())
    }

    /// A person wants the version that was found.
    pub(crate) fn install_update(&mut self) -> Result<(), NodeError> {
        let Some(newer) = &self.updates.shown.newer else {
            return Err(refused("No newer version is known. Look for one first."));
        };
        if self.updates.view(&self.restart).way != UpdateWay::Itself {
            let by_hand = self.updates.installed.by_hand(&newer.file);
            return Err(refused(&format!("To install it, {by_hand}.")));
        }
        self.install();
        Ok(())
    }

    pub(crate) fn on_update(&mut self, event: UpdateEvent) {
        match event {
            UpdateEvent::Looked(Ok(offer)) => {
                let version = offer.as_ref().map(|offer| offer.version.clone());
                self.show_offer(offer);
                self.watch_event(Event::Looked(version));
                self.read_held();
            }
            // This program is newer than the list, as one is that was built from the source.
            UpdateEvent::Looked(Err(UpdateError::Refused(Refusal::Downgrade { .. }))) => {
                self.on_update(UpdateEvent::Looked(Ok(None)));
            }
            // Another process looks, or installs: what it finds is found again later.
            UpdateEvent::Looked(Err(UpdateError::Seen(SeenError::Busy))) => {
                self.watch_event(Event::LookFailed);
            }
            UpdateEvent::Looked(Err(error)) => {
                tracing::info!(%error, "could not look for a new version");
                let reason = sentence(&error.to_string());
                self.updates.shown.trouble = Some(UpdateTrouble::NotLooked { reason });
                self.watch_event(Event::LookFailed);
            }
            UpdateEvent::Models(Ok(found)) => {
                self.updates.models_trouble = None;
                found.into_iter().for_each(|catalogue| self.take_catalogue(catalogue));
            }
            UpdateEvent::Models(Err(error)) => {
                tracing::info!(%error, "no newer list of models was taken");
                self.updates.models_trouble = Some(sentence(&error.to_string()));
            }
            // There is nothing to install any more: the list has changed meanwhile.
            UpdateEvent::InstallEnded(Ok(())) => {
                self.updates.shown.is_installing = false;
                self.watch_event(Event::Asked);
            }
            UpdateEvent::InstallEnded(Err(said)) => {
                tracing::warn!(said, "the new version was not installed");
                self.updates.shown.is_installing = false;
                let reason = sentence(&said);
                self.updates.shown.trouble = Some(UpdateTrouble::NotInstalled { reason });
            }
            UpdateEvent::Held(held) => self.on_held(held),
            UpdateEvent::Taken { from, serial, taken } => self.on_taken(&from, serial, taken),
        }
    }

    /// Shows what a list has that was believed just now.
    fn show_offer(&mut self, offer: Option<Offer>) {
        let shown = &mut self.updates.shown;
        shown.newer = offer.clone().map(newer);
        shown.looked = Some(clock::unix_seconds());
        let version = offer.as_ref().map(|offer| &offer.version);
        let failed = self.updates.failed.as_ref();
        shown.trouble = failed.filter(|failed| version == Some(failed)).map(taken_back);
        self.updates.offer = offer;
    }

    /// Uses the list of models that was taken before this start.
    pub(crate) fn use_held_catalogue(&mut self) {
        let held = self.updates.held_models.take();
        held.into_iter().for_each(|catalogue| self.take_catalogue(catalogue));
    }

    fn take_catalogue(&mut self, catalogue: Catalogue) {
        self.tell_library(LibraryEvent::CatalogueCame(Box::new(catalogue)));
        self.look_at_fits();
    }

    /// Which list of models is in use, for front ends.
    pub(crate) fn catalogue_edition(&self) -> CatalogueEditionView {
        let catalogue = self.library.catalogue();
        CatalogueEditionView {
            written: catalogue.written(),
            built_in: catalogue.is_built_in(),
            trouble: self.updates.models_trouble.clone(),
        }
    }

    fn watch_event(&mut self, event: Event) {
        for effect in self.updates.watch.on(event, clock::unix_seconds()) {
            match effect {
                Effect::Look => self.look(),
                Effect::Install(version) => {
                    tracing::info!(%version, "a new version is to be installed");
                    self.install();
                }
            }
        }
    }

    fn look(&self) {
        let NewVersionsHere { source, running, installed, events, .. } = &self.updates;
        let (Some(source), Some(running)) = (source.clone(), running.clone()) else { return };
        let (installed, events) = (installed.clone(), events.clone());
        self.tasks.spawn_until_cancelled("look-for-update", async move {
            let (looked, models) = look(&source, &running, &installed).await;
            // Nobody reads it where the node has gone meanwhile.
            let _ = events.send(UpdateEvent::Looked(looked)).await;
            if let Some(models) = models {
                let _ = events.send(UpdateEvent::Models(models)).await;
            }
        });
    }

    /// Starts the program that installs; it goes on while this node starts anew.
    fn install(&mut self) {
        let Some(again) = self.restart.again().cloned() else { return };
        let Installed::Portable { prefix } = self.updates.installed.clone() else { return };
        if std::mem::replace(&mut self.updates.shown.is_installing, true) {
            return;
        }
        self.updates.shown.trouble = None;
        let (data, events) = (self.home.data().to_owned(), self.updates.events.clone());
        self.tasks.spawn_until_cancelled("install-update", async move {
            let ended = install(Portable::at(&prefix).program(), data, again).await;
            let _ = events.send(UpdateEvent::InstallEnded(ended)).await;
        });
    }
}

type Looked = Result<Option<Offer>, UpdateError>;
type Models = Result<Option<Catalogue>, UpdateError>;

/// Asks for the list of versions, and where somebody answers for that of models too.
async fn look(
    source: &Arc<Updates>,
    running: &Version,
    installed: &Installed,
) -> (Looked, Option<Models>) {
    let claim = match claim(source).await {
        Ok(claim) => claim,
        Err(error) => return (Err(error), None),
    };
    let looked = source.look(&claim, running, installed).await;
    let models = match &looked {
        Ok(_) | Err(UpdateError::Refused(_)) => Some(source.renew_catalogue(&claim).await),
        Err(_) => None,
    };
    (looked, models)
}

/// The right to look, on a thread that may wait for the disk.
async fn claim(source: &Arc<Updates>) -> Result<Claim, UpdateError> {
    let source = source.clone();
    let claim = tokio::task::spawn_blocking(move || source.claim()).await;
    Ok(claim.map_err(|_| UpdateError::Lost)??)
}

/// Runs `nook update --now` to its end; what it said where that did not work. Where it works, this
/// process has become another program long before.
async fn install(program: PathBuf, data: PathBuf, again: Again) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    // A file and no pipe: the one end of a pipe would be gone with this program.
    let said = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(data.join(SAID_FILE))
        .map_err(failed)?;
    let mut command = tokio::process::Command::new(program);
    command.arg("--home").arg(data).args(["update", "--now", "--again"]);
    let words = std::iter::once(OsString::from(again.program)).chain(again.words);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(said.try_clone().map_err(failed)?);
    // What is meant for this program, Ctrl-C for instance, is not meant for that one.
    #[cfg(unix)]
    command.process_group(0);
    let status = command.status().await.map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    Err(last_of(said).unwrap_or_else(|| format!("`nook update --now` ended with {status}")))
}

/// The last line of what `nook` said, without the word that it puts before an error.
fn last_of(mut said: File) -> Option<String> {
    let length = said.seek(std::io::SeekFrom::End(0)).ok()?;
    said.seek(std::io::SeekFrom::Start(length.saturating_sub(SAID_BYTES_MAX))).ok()?;
    let mut bytes = Vec::new();
    said.take(SAID_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(last.trim().trim_start_matches("error: ").to_owned())
}

/// The 32 bytes of a SHA-256 in hexadecimal.
fn sha256_of(text: &str) -> Option<[u8; 32]> {
    data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

fn refused(sentence: &str) -> NodeError {
    NodeError::new(ErrorCode::BadRequest, nook_api::sentence(sentence))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn why_it_was_not_installed_is_the_last_thing_that_the_command_said() {
        let last = |said: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(said.as_bytes()).unwrap();
            last_of(file)
        };
        let said = "downloading new.tar.gz (73.4 MB)\nerror: the disk is full\n\n";
        assert_eq!(last(said).as_deref(), Some("the disk is full"));
        assert_eq!(
            last(&format!("{}\n{said}", "x".repeat(9000))).as_deref(),
            Some("the disk is full")
        );
        assert_eq!(last(" \n"), None);
    }
}
