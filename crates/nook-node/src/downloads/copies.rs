//! Downloads whose bytes another device of the house brings: asking for one, running it, and the check that
//! it is the model that was meant.

use std::collections::BTreeMap;
use std::path::Path;

use nook_base::{ErrorCode, ModelDigest, PeerId, clock};
use nook_fetch::{CopyOrder, FetchError, Fetched, HouseSource, Seat};
use nook_model::{Fault, ModelError, ModelFile};
use nook_store::{DownloadEntry, DownloadWish};
use nook_wire::HaveModel;

use super::{refused, troubles};
use crate::copying::Holder;
use crate::copying::taking::Taker;
use crate::house::HouseError;
use crate::state::{Inside, State};
use crate::views::{DownloadTrouble, DownloadView, Wording};

/// Digits of a digest that are enough to mean a model.
const DIGITS_MIN: usize = 8;

/// What is there is not the model that was asked for, or no model that can be used here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Its digest is another one: the device that brought it has not told the truth.
    Other,
    /// Why it cannot be used, though nobody may be to blame.
    NoModel(String),
    /// Why it could not be looked at: a fault of this device, which says nothing about the file.
    Unread(String),
}

/// What a file is: one look at all of it, also where this version cannot use the model.
pub(super) fn judge(path: &Path, wanted: Option<ModelDigest>) -> Result<ModelDigest, Unfit> {
    let opened = ModelFile::open(path);
    let found = match (&opened, wanted) {
        (Ok(file), _) => file.digest(),
        (Err(_), Some(_)) => ModelFile::digest_at(path),
        (Err(error), None) => Err(error.clone()),
    };
    let may_pass = |error: &ModelError| matches!(error.fault, Fault::Read { .. } | Fault::Changed);
    let is_known = !found.as_ref().is_err_and(may_pass);
    if is_known && wanted.is_some_and(|wanted| found.as_ref() != Ok(&wanted)) {
        return Err(Unfit::Other);
    }
    opened.and(found).map_err(|error| match may_pass(&error) {
        true => Unfit::Unread(error.to_string()),
        false => Unfit::NoModel(error.to_string()),
    })
}

impl State {
    /// Begins to copy a model of another device, or goes on with that.
    pub(crate) fn copy_model(
        &mut self,
        wanted: &str,
        from: Option<String>,
    ) -> Result<DownloadView, HouseError> {
        let first = from.map(|device| self.paired(&device)).transpose()?;
        let meant = self.meant_in_house(wanted.trim(), first)?;
        if let Some(here) = self.library.get(meant.model).filter(|here| !self.is_lost(here)) {
            return Err(refused(&format!("this model is here already, as {}", here.name)));
        }
        let entry = self.downloads.catalogue.get(wanted.trim()).map(|entry| entry.id.clone());
        let known = self.downloads.copy_of(meant.model).cloned();
        // A part that is here already keeps its key, which hangs on the name that it was first heard under.
        let before = known.as_ref().and_then(|known| known.source.parse::<HouseSource>().ok());
        let said = before.as_ref().map_or(meant.name.as_str(), HouseSource::name);
        let source = HouseSource::new(meant.model, said);
        let source = match &entry {
            Some(id) => source.meant_as(id),
            None => source,
        };
        let key = source.key().as_str().to_owned();
        let listed = DownloadEntry {
            key: key.clone(),
            source: source.to_string(),
            name: known.map_or_else(|| self.name_of_copy(&source), |known| known.name),
            wish: DownloadWish::Run,
            added: clock::unix_seconds(),
        };
        self.downloads.list.put(listed).map_err(|error| refused(&error.to_string()))?;
        self.downloads.troubles.remove(&key);
        match first {
            Some(first) => self.copies.first.insert(key.clone(), first),
            None => self.copies.first.remove(&key),
        };
        tracing::info!(download = key, "asked for, from the house");
        self.start_downloads();
        // Whoever asks looks at the list next, and may be quick.
        self.publish();
        let view = self.download_views().into_iter().find(|view| view.key == key);
        view.ok_or_else(|| refused("the copy is not in the list"))
    }

    /// The one model of other devices that a person means by `wanted`.
    fn meant_in_house(&self, wanted: &str, only: Option<PeerId>) -> Result<HaveModel, HouseError> {
        let lower = wanted.to_lowercase();
        let holders = self.copies.holders.borrow().clone();
        let asked = holders.iter().filter(|(peer, _)| only.is_none_or(|only| only == **peer));
        let is_meant = |have: &&HaveModel| {
            let digest = have.model.to_string();
            let begins = lower.len() >= DIGITS_MIN && digest.starts_with(&lower);
            begins || have.name.eq_ignore_ascii_case(wanted)
        };
        let all = asked.flat_map(|(_, holder)| holder.models.iter().filter(is_meant));
        let mut found: BTreeMap<[u8; 32], &HaveModel> = BTreeMap::new();
        // Under the name that the list of the house shows: the first.
        all.for_each(|it| _ = found.entry(it.model.0).or_insert(it));
        let mut found = found.into_values();
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(one), Some(other)) => Err(refused(&format!(
                "devices of the house have different models of this name: {} and {}; give the digest instead, or one device",
                one.model.short(),
                other.model.short()
            ))
            .worded(Wording::TwoModels {
                one: one.model.short(),
                other: other.model.short(),
            })),
            (None, _) => {
                let shown: String = wanted.chars().take(80).flat_map(char::escape_debug).collect();
                Err(HouseError::new(
                    ErrorCode::NotFound,
                    format!(
                        "No device that may give models to this one has `{shown}` now; nook models copy lists what there is."
                    ),
                )
                .worded(Wording::Download { trouble: DownloadTrouble::NobodyHasIt }))
            }
        }
    }

    /// A name that the model can have here: like its name there, with a number where that is taken.
    fn name_of_copy(&self, source: &HouseSource) -> String {
        let file = |name: &str| format!("{name}.gguf");
        let is_free = |name: &String| {
            self.downloads.list.entries().iter().all(|it| !it.name.eq_ignore_ascii_case(name))
        };
        let numbered = (2_u32..).map(|number| format!("{}-{number}", source.name()));
        let wishes = std::iter::once(source.name().to_owned()).chain(numbered);
        let names =
            wishes.filter_map(|wish| self.library.name_for(None, Path::new(&file(&wish))).ok());
        // The list of downloads is shorter than the numbers.
        names.into_iter().find(is_free).unwrap_or_else(|| source.name().to_owned())
    }

    pub(super) fn begin_copy(&mut self, key: String, order: CopyOrder, seat: Seat) {
        let (stop, tell) = self.list_loading(&key, &order.source.key());
        let (fetcher, folder) = (self.downloads.fetcher.clone(), self.downloads.folder.clone());
        let holders = self.copies.holders.subscribe();
        let first = self.copies.first.get(&key).copied();
        let model = order.source.model();
        let mut taker = Taker::new(model, holders, first, self.copies.traffic.clone());
        let inside = self.inside.clone();
        // It watches its own token, as a download does.
        self.tasks.spawn("copy", async move {
            let outcome = fetcher.copy(&folder, &order, &mut taker, seat, &stop, &tell).await;
            let (outcome, giver) = (Box::new(outcome), taker.only_device());
            // A closed inbox means that the node is leaving; the file is found again then.
            let _ = inside.send(Inside::Copied { key, outcome, giver }).await;
        });
    }

    /// A copy's task has ended.
    pub(crate) fn on_copied(
        &mut self,
        key: &str,
        outcome: Result<Fetched, FetchError>,
        giver: Option<PeerId>,
    ) {
        if let Some(under_way) = self.downloads.under_way.get_mut(key) {
            under_way.giver = giver;
        }
        self.on_downloaded(key, outcome);
    }

    /// What came is something else than what was asked for. It is deleted already.
    pub(super) fn wrong_copy(&mut self, key: &str) {
        let giver = self.downloads.under_way.get(key).and_then(|it| it.giver);
        let device = giver.map(|giver| self.name_of(giver));
        self.fail_download(key, troubles::of_copy(device), super::endings::AtNextStart::Rests);
        if let Some(giver) = giver {
            self.disbelieve(giver);
        }
    }

    /// Whether a device that has it can be asked now, or none has to be; so for everything that is no copy.
    pub(super) fn can_begin(&self, entry: &DownloadEntry) -> bool {
        let Ok(source) = entry.source.parse::<HouseSource>() else { return true };
        let has = |holder: &Holder| holder.model(source.model()).is_some();
        self.copies.holders.borrow().values().any(has) || self.downloads.folder.has_whole(&source)
    }
}

impl super::Downloads {
    /// The copy of this model, if it is in the list.
    pub(crate) fn copy_of(&self, model: ModelDigest) -> Option<&DownloadEntry> {
        self.list.entries().iter().find(|entry| copied(entry) == Some(model))
    }
}

/// The model that an entry of the list copies from the house.
pub(super) fn copied(entry: &DownloadEntry) -> Option<ModelDigest> {
    entry.source.parse::<HouseSource>().ok().map(|source| source.model())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ember() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf"))
    }

    #[test]
    fn what_came_is_the_model_that_was_meant_or_somebody_is_to_blame() {
        let digest = judge(ember(), None).unwrap();
        assert_eq!(judge(ember(), Some(digest)), Ok(digest));
        assert_eq!(judge(ember(), Some(ModelDigest([7; 32]))), Err(Unfit::Other));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let good = std::fs::read(ember()).unwrap();
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for wrong in [&flipped[..], &good[..good.len() / 2], b"GGUF", b""] {
            std::fs::write(&path, wrong).unwrap();
            assert_eq!(judge(&path, Some(digest)), Err(Unfit::Other), "{} bytes", wrong.len());
        }
        // Without a word of anybody about it there is nobody to blame.
        assert!(matches!(judge(&path, None), Err(Unfit::NoModel(_))));
    }

    #[test]
    fn a_file_that_cannot_be_read_says_nothing_about_who_brought_it() {
        let folder = tempfile::tempdir().unwrap();
        let away = folder.path().join("on a disk that was unplugged.gguf");
        for wanted in [None, Some(ModelDigest([7; 32]))] {
            assert!(matches!(judge(&away, wanted), Err(Unfit::Unread(_))), "{wanted:?}");
        }
    }

    #[test]
    fn a_model_that_this_version_does_not_understand_is_nobodys_lie() {
        let key = b"general.architecture";
        let mut other = std::fs::read(ember()).unwrap();
        let at = other.windows(key.len()).position(|it| it == key).unwrap();
        // Behind the key: the kind of the value, its length, its first letter.
        other[at + key.len() + 4 + 8] = b'~';
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        std::fs::write(&path, &other).unwrap();
        let digest = ModelFile::digest_at(&path).unwrap();
        assert!(matches!(judge(&path, Some(digest)), Err(Unfit::NoModel(_))));
    }
}
