//! The models of this device as a state machine.

mod catalogue;
mod endings;
mod ends;
mod fetching;
mod folder;
mod folder_looks;
mod household_copies;
mod household_shown;
mod listing;
mod parts;
mod rereading;
mod shown;
#[cfg(test)]
mod tests;

use std::path::Path;

use nook_api::views::TroubleView;
use nook_api::{Answer, ModelCommand, NodeError};
use nook_base::Extent;
use nook_resources::catalogue::Entry;
use nook_resources::traffic::Traffic;
use nook_store::{Home, Library};
use tokio_util::sync::CancellationToken;

use crate::copies::Copies;
use crate::downloads::Downloads;
use crate::error::OpenError;
use crate::events::{Answered, Job, LibraryEffect, LibraryEvent, Surroundings};
use crate::folder::Moving;
use crate::kept_ends::KeptEnds;
use crate::parts::Parts;
use crate::reading;
use crate::rereading::Rereading;
use crate::searching;

/// What the problems of models that cannot be used are noted under.
const MODELS: &str = "models";

/// The models of this device.
#[derive(Debug)]
pub struct ModelLibrary {
    /// The list, as it is on the disk.
    library: Library,
    /// Those of the list that can be used, each with its header.
    entries: Vec<Entry>,
    downloads: Downloads,
    /// What other devices of the household give.
    copies: Copies,
    /// Models of which only some layers are here, and layers on their way.
    parts: Parts,
    /// Layers of each model that stay on this device.
    kept_ends: KeptEnds,
    /// Where the models lie, beside what the list knows.
    moving: Moving,
    /// Files that somebody has touched.
    rereading: Rereading,
    /// Ends what is under way with the node.
    lifetime: CancellationToken,
    /// What is to be done, in order.
    effects: Vec<LibraryEffect>,
}

impl ModelLibrary {
    /// Reads the lists of `home`, the models in the `chosen` folder and the header of each. Nothing
    /// runs until [`LibraryEvent::Started`]. `traffic` slows copies down while replies are
    /// computed. Waits for the disk.
    pub fn open(
        home: &Home,
        chosen: Option<&Path>,
        unix: u64,
        traffic: Traffic,
        lifetime: CancellationToken,
    ) -> Result<Self, OpenError> {
        nook_store::recover_move(home, chosen);
        let library = Library::open(home, chosen, unix, reading::digest_of)?;
        let is_away = !library.is_there();
        let found = reading::read(library.models(), is_away);
        let downloads = Downloads::open(home, library.downloads_folder())?;
        let mut parts = Parts::open(library.partial_folder(), is_away);
        let listed = library.models().iter().filter(|model| model.extent == Extent::Ends);
        listed.for_each(|model| parts.keep(model.digest));
        let ends = downloads.list.entries().iter().filter_map(ends::ends_of);
        ends.for_each(|model| parts.keep(model));
        Ok(Self {
            library,
            entries: found.entries,
            downloads,
            copies: Copies::new(traffic),
            parts,
            kept_ends: KeptEnds { prefix: 1, suffix: 1 },
            moving: Moving::begun(is_away, found.missing),
            rereading: Rereading { states: found.states, ..Rereading::default() },
            lifetime,
            effects: vec![LibraryEffect::Note(MODELS, found.broken)],
        })
    }

    /// Something happened; what is to be done about it, in order.
    pub fn on(&mut self, event: LibraryEvent, around: &Surroundings<'_>) -> Vec<LibraryEffect> {
        match event {
            LibraryEvent::Started => {
                self.note_folder();
                self.look_at_ends(around);
                self.start_downloads();
                self.reread_next(around);
            }
            LibraryEvent::Tick => self.on_tick(around),
            LibraryEvent::Asked(command) => self.asked(command, around),
            LibraryEvent::Have(peer, have) => self.on_have(peer, have, around),
            LibraryEvent::LinkChanged(peer) => self.link_changed(peer, around),
            LibraryEvent::TrustChanged => self.publish_holders(around),
            LibraryEvent::Imported { staged, name, answer } => {
                let taken = staged.and_then(|staged| self.take_in(staged, name.as_deref(), around));
                // Whoever imports a model looks at the list next, and may be quick.
                self.answer(Answered::Model(answer, taken));
            }
            LibraryEvent::Downloaded { key, outcome, giver } => {
                self.on_downloaded(&key, *outcome, giver);
            }
            LibraryEvent::Checked(checked) => self.on_checked(*checked, around),
            LibraryEvent::Deleted { key } => self.on_deleted(&key),
            LibraryEvent::Brought(brought) => self.on_brought(*brought),
            LibraryEvent::FolderChosen(chosen) => self.on_folder_chosen(chosen),
            LibraryEvent::Cleared(stamps) => self.on_cleared(&stamps),
            LibraryEvent::Reread { model, reread } => self.on_reread(model, reread, around),
            LibraryEvent::TakePart(wish) => self.take_part(wish),
            LibraryEvent::StopPart(model) => self.stop_part(model),
            // What its owner wants of it stays, whatever others need no more.
            LibraryEvent::ForgetPart(model) if self.parts.is_own(model) => self.stop_part(model),
            LibraryEvent::ForgetPart(model) => self.forget_part(model),
            LibraryEvent::PartsNeeded(needed) => self.parts_needed(needed, around),
            LibraryEvent::PartsCap(bytes) => self.cap_parts(bytes),
            LibraryEvent::EndsKept(kept) => self.keep_ends(kept, around),
            LibraryEvent::PartEnded(end) => self.on_part_end(*end, around),
            LibraryEvent::PartDeleted { model, partial } => {
                self.on_part_deleted(model, partial.map(|partial| *partial));
            }
            LibraryEvent::Searched { found, answer } => {
                self.effects.push(LibraryEffect::Answer(Answered::Hub(answer, *found)));
            }
            LibraryEvent::CatalogueCame(catalogue) => self.take_catalogue(*catalogue),
            LibraryEvent::FolderSeen(seen) => self.on_folder_seen(seen.map(|seen| *seen)),
        }
        std::mem::take(&mut self.effects)
    }

    fn on_tick(&mut self, around: &Surroundings<'_>) {
        if self.downloads.look(around.now) {
            self.start_downloads();
        }
        if self.parts.lacks_seat() && self.parts.seats.has_free() {
            self.start_parts();
        }
        self.moving.look();
        self.look_at_folder();
        self.look_at_ends(around);
        self.reread_next(around);
    }

    fn asked(&mut self, command: ModelCommand, around: &Surroundings<'_>) {
        use ModelCommand as Of;
        match command {
            Of::ImportModel { file, name, answer } => {
                let stager = self.library.stager();
                self.run(Job::Import { file, name, answer, stager });
            }
            Of::RemoveModel { name, answer } => {
                let removed = self.remove_model(&name);
                self.answer_done(answer, removed);
            }
            Of::Pull { source, name, answer } => {
                let begun = self.pull(&source, name.as_deref(), around);
                self.answer(Answered::Download(answer, begun));
            }
            Of::CopyModel { model, from, extent, answer } => {
                let begun = self.copy_model(&model, from, extent.into(), around);
                self.answer(Answered::Download(answer, begun));
            }
            Of::ChangeDownload { key, ask, answer } => {
                let changed = self.change_download(&key, ask);
                self.answer_done(answer, changed);
            }
            Of::MoveModels { to, answer } => self.move_models(to, answer),
            Of::StopMovingModels { answer } => {
                self.stop_moving();
                self.answer_done(answer, Ok(()));
            }
            Of::SearchModels { words, answer } => match searching::search_for(&words) {
                Ok(search) => {
                    let fetcher = self.downloads.fetcher.clone();
                    self.run(Job::Search { search, fetcher, answer });
                }
                Err(error) => {
                    self.effects.push(LibraryEffect::Answer(Answered::Hub(answer, Err(error))));
                }
            },
            Of::FoundModels { answer } => {
                let here = self.entries.iter().map(|entry| entry.listed.path.now()).collect();
                self.run(Job::LookElsewhere { here, answer });
            }
            Of::Capabilities { model, answer } => match self.model(&model) {
                Ok(entry) => {
                    let entry = Box::new(entry.clone());
                    self.run(Job::ReadCapabilities { entry, answer });
                }
                // Whoever asked may have left.
                Err(error) => drop(answer.send(Err(error))),
            },
        }
    }

    fn run(&mut self, job: Job) {
        self.effects.push(LibraryEffect::Run(job));
    }

    /// Answers a front end, which looks at the view next and may be quick.
    fn answer(&mut self, answered: Answered) {
        self.effects.push(LibraryEffect::Show);
        self.effects.push(LibraryEffect::Answer(answered));
    }

    fn answer_done(&mut self, answer: Answer<()>, done: Result<(), NodeError>) {
        self.answer(Answered::Done(answer, done));
    }

    fn note(&mut self, subject: &'static str, troubles: impl IntoIterator<Item = TroubleView>) {
        self.effects.push(LibraryEffect::Note(subject, troubles.into_iter().collect()));
    }
}
