//! Where the node meets the library of its models: what others own is lent to it for one event, and
//! its effects are carried out.

use std::collections::BTreeSet;
use std::time::Duration;

use nook_api::NodeError;
use nook_base::{LayerRange, ModelDigest, ModelPart, PeerId, clock};
use nook_host::{Fetched, HostEvent};
use nook_library::{
    Answered, KeptEnds, LibraryEffect, LibraryEvent, PartFailure, PartNotice, PartWish,
    Surroundings,
};
use nook_plan::{Link, RoundTrip};
use nook_requester::Event;
use nook_resources::catalogue::Entry;

use crate::devices::{name_of, paired};
use crate::fits::Basis;
use crate::givers::giver_of;
use crate::preferences::not_changed;
use crate::rates::rates;
use crate::state::State;

impl State {
    /// Something happened to the models of this device.
    pub(crate) fn tell_library(&mut self, event: LibraryEvent) {
        for effect in self.library_effects(event) {
            self.perform_for_library(effect);
        }
    }

    fn library_effects(&mut self, event: LibraryEvent) -> Vec<LibraryEffect> {
        let Self { library, devices, links, .. } = self;
        let peers = devices.peers();
        let giver = |peer: PeerId| giver_of(devices, links, peer);
        let around = Surroundings {
            now: clock::now(),
            unix: clock::unix_seconds(),
            paired: &|text| paired(peers, text),
            name_of: &|peer| name_of(peers, peer),
            giver: &giver,
        };
        library.on(event, &around)
    }

    fn perform_for_library(&mut self, effect: LibraryEffect) {
        match effect {
            LibraryEffect::ModelsChanged => {
                self.tell_host(HostEvent::ModelsChanged);
                self.look_at_fits();
                self.forget_privacy();
                self.ask(Event::ModelsChanged);
            }
            LibraryEffect::Note(subject, troubles) => self.note(subject, troubles),
            LibraryEffect::Show => self.publish(),
            LibraryEffect::ChooseFolder(value) => {
                let changed = self.settings.change(&[("models.folder", value)]);
                let folder = || self.settings.settings().models.folder.clone();
                let chosen = changed.map(|_| folder()).map_err(|error| not_changed(&error));
                self.tell_library(LibraryEvent::FolderChosen(chosen));
            }
            LibraryEffect::Answer(answered) => self.answer_for_library(answered),
            LibraryEffect::Part(notice) => self.tell_host(fetched(notice)),
            LibraryEffect::Run(job) => self.library_runner.run(job),
        }
    }

    /// Tells the library how much disk space the owner gives to layers that are fetched, and how
    /// many layers of each model stay on this device.
    pub(crate) fn set_up_library(&mut self) {
        let settings = self.settings.settings();
        let (bytes, inference) = (settings.host.fetched_bytes(), &settings.inference);
        let (prefix, suffix) = (inference.local_prefix_layers, inference.local_suffix_layers);
        self.tell_library(LibraryEvent::PartsCap(bytes));
        self.tell_library(LibraryEvent::EndsKept(KeptEnds { prefix, suffix }));
    }

    /// Layers that this device is to compute itself are taken from whoever has them.
    pub(crate) fn take_layers(&mut self, model: ModelDigest, name: &str, layers: &[LayerRange]) {
        for layers in layers {
            let (part, name) = (ModelPart::inner(*layers), name.to_owned());
            let wish = PartWish { model, name, part, holders: BTreeSet::new() };
            self.tell_library(LibraryEvent::TakePart(wish));
        }
    }

    /// Answers a front end, which may wait no more.
    fn answer_for_library(&self, answered: Answered) {
        match answered {
            Answered::Done(answer, done) => self.answer(answer, done),
            Answered::Download(answer, begun) => self.answer(answer, begun),
            Answered::Hub(answer, found) => {
                // Whoever asked may have left.
                let _ = answer.send(found.map(|found| self.fits.with_fits(found)));
            }
            Answered::Model(answer, taken) => {
                let view = |model| {
                    let entry = self.library.entries().iter().find(|it| it.digest() == model);
                    let entry = entry.ok_or(nook_base::ErrorCode::NotFound)?;
                    Ok(entry.view(self.fits.known.of_model(model)))
                };
                let _ = answer.send(taken.and_then(view));
            }
        }
    }

    /// A model by name: exact, then ignoring case, then a unique beginning.
    pub(crate) fn model(&self, name: &str) -> Result<&Entry, NodeError> {
        self.library.model(name)
    }

    /// Tells files whether they are to travel slowly, because something is computed here, and what
    /// programs ask for whether it is to wait for others. Asked after everything that happens, so it
    /// is as new as the view.
    pub(crate) fn weigh_traffic(&self) {
        self.library.set_busy(self.replies_running() > 0 || self.host.streams() > 0);
        if self.requester.computes_for_owner() || self.host.streams() > 0 {
            self.runner.open_models.note_computing();
        }
    }

    /// The way to a device as replies have measured it, else as its link has.
    fn way_to(&self, peer: PeerId) -> Link {
        let way = self.requester.estimates().link(peer);
        let pinged = || self.links.link(peer)?.mux().rtt();
        let round_trip = way
            .round_trip
            .measured()
            .or_else(|| Some(RoundTrip { mean: pinged()?, deviation: Duration::ZERO }));
        Link { round_trip: round_trip.into(), ..way }
    }

    /// Works out anew what fits where, if something that it hangs on has changed.
    pub(crate) fn look_at_fits(&mut self) {
        self.fits.telling.look(self.library.entries());
        let book = self.book.borrow();
        let estimates = self.requester.estimates();
        let rates = rates(
            self.own_rate(),
            estimates,
            &book,
            (&self.fits.telling, |peer| self.devices.facts(peer)?.weights_per_second),
        );
        let told = (rates, |peer| self.way_to(peer));
        let basis = Basis::of(&book, &self.library, self.settings.settings(), told);
        drop(book);
        self.fits.update(basis, &self.library);
    }
}

/// What became of layers, for the lending side.
fn fetched(notice: PartNotice) -> HostEvent {
    let (model, part, outcome) = match notice {
        PartNotice::Present { model, part, .. } => (model, part, Fetched::Present),
        PartNotice::Failed { model, part, why: PartFailure::Stopped } => {
            (model, part, Fetched::Stopped)
        }
        PartNotice::Failed { model, part, why } => (model, part, Fetched::Failed(why.code())),
        // It is offered no more.
        PartNotice::Gone { .. } => return HostEvent::ModelsChanged,
    };
    HostEvent::Fetched { model, layers: part.layers, outcome }
}
