//! Measuring devices while nobody waits: a few steps of random numbers through the layers of each.
//!
//! A reply that may use other devices makes its model *wanted*. Once this device has been idle for
//! a moment, one task goes through this device's own worker and every device that offers layers of
//! that model, one after the other, and sends each a few steps over the ordinary OPEN and STEP
//! (`call`). What is sent is drawn at random: nothing of a person's is in it. A reply that begins
//! ends the task at once, and no device is asked for the same model more than once in
//! [`PROBE_EVERY`]. The same round compares what each device makes of known numbers with what this
//! one does (`golden`). Where helpers are used whatever it costs, no speed decides anything, and a
//! round only compares.
//!
//! A device that lends and has never been measured measures itself in the same way (`own`), so that
//! its adverts say how fast it is before anybody has asked.

mod call;
pub(crate) mod golden;
mod own;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nook_base::limits::STEP_TOKENS_MAX;
use nook_base::{ActivationDtype, LayerRange, ModelDigest, ModelPart, PeerId};
use nook_link::Links;
use nook_model::ModelFile;
use nook_pipeline::HopVisit;
use nook_plan::{LARGE_TRANSFER_BYTES, Offer, PREFILL_ROWS_MIN, Place, Probe};
use nook_store::Pooling;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::machine::probing::call::{Done, Failed, Steps};
use crate::machine::probing::golden::{GoldenBook, Subject};
use crate::machine::records::Note;
use crate::machine::{Effect, Event, Requester, Said, Surroundings, Task, Work};
use nook_resources::estimates::ESTIMATES_MAX;
use nook_resources::open_models::Listed;
use nook_resources::workers::Workers;

/// Least time between two probes of the same device with the same model.
pub(crate) const PROBE_EVERY: Duration = Duration::from_secs(3600);

/// Looks of the house, about one a second, without a reply before a probe begins. Whoever asks
/// again at once is not disturbed.
const IDLE_LOOKS_MIN: u32 = 2;

/// Longest probe of one device, loading included; one that takes longer stays unmeasured.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// After this time a device that could not be measured is asked again.
const PROBE_AGAIN: Duration = Duration::from_secs(60);

/// Most layers that a probe has a device compute, so that it loads little for it. The line through
/// two stretches tells the rest.
const PROBE_LAYERS_MAX: u32 = 8;

/// Most bytes of weights that a probe has a device load, but for the two layers that it needs: what
/// a slow disk reads within [`PROBE_LIMIT`].
const PROBE_BYTES_MAX: u64 = 1 << 30;

/// Steps of one row for each stretch of layers; the first finds the layers cold.
const SINGLE_ROWS: u32 = 4;

/// Steps of many rows for each stretch.
const MANY_ROWS: u32 = 2;

/// Numbers of a probe travel exactly, so that none overflows.
const DTYPE: ActivationDtype = ActivationDtype::F32;

/// What is to be measured, and what was.
#[derive(Debug, Default)]
pub(crate) struct Probing {
    wanted: Option<Wanted>,
    /// Whether that was wanted while a round was under way, which may have passed by what is new.
    is_wanted_anew: bool,
    /// The round that is under way, and what ends it.
    running: Option<(u64, CancellationToken)>,
    /// Whether it, or the last one, measures this device for others.
    is_own: bool,
    rounds: u64,
    idle_looks: u32,
    pub(crate) golden: GoldenBook,
    /// When a device may be asked again; at most [`ESTIMATES_MAX`], beyond them the one whose time
    /// comes first is forgotten.
    due: BTreeMap<(Place, ModelDigest), Instant>,
    /// What is wanted again, and when, because a device could not be measured.
    again: Option<(Instant, Wanted)>,
    /// Whether that happened in the round under way.
    has_failed: bool,
}

/// A model whose devices are to be measured.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) listed: Listed,
    pub(crate) file: ModelFile,
    aim: Aim,
}

/// What a round is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// To measure every device, and to compare those that are not compared yet.
    Measure,
    /// To compare those.
    Compare,
    /// To measure this device as others would find it.
    Own,
}

/// What a round tells the house.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Probed {
    /// This device was asked for this model.
    Device(Place, ModelDigest, Asked),
    /// The round with this number is through.
    Round(u64),
}

/// What came of asking a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It was measured.
    Measured,
    /// It was not.
    InVain,
}

impl Requester {
    /// A reply with this model may use other devices: they are to be measured when there is time.
    pub(super) fn want_probe(
        &mut self,
        listed: Listed,
        file: ModelFile,
        around: &Surroundings<'_>,
    ) {
        let aim = match around.settings.inference.pooling {
            Pooling::WhenFaster => Aim::Measure,
            // What is used without being weighed must compute the right thing all the same.
            Pooling::Always => Aim::Compare,
        };
        self.probing.want(Wanted { listed, file, aim });
    }

    /// Begins to measure what is wanted, if this device has been idle for a moment.
    pub(super) fn probe_if_idle(&mut self, around: &Surroundings<'_>) -> Vec<Effect> {
        if self.replies_running() > 0 {
            self.probing.idle_looks = 0;
            return Vec::new();
        }
        self.probing.idle_looks = self.probing.idle_looks.saturating_add(1);
        if self.probing.idle_looks < IDLE_LOOKS_MIN || self.probing.running.is_some() {
            return Vec::new();
        }
        let now = around.now;
        if let Some((_, wanted)) = self.probing.again.take_if(|(at, _)| *at <= now) {
            // What was wanted meanwhile goes first, and asks the same devices.
            self.probing.wanted.get_or_insert(wanted);
        }
        let Some(wanted) = self.probing.wanted.clone() else { return self.probe_own(around) };
        let model = wanted.listed.digest;
        let offers = self.offers_to_probe(model, around);
        let offers = offers.into_iter().filter(|offer| offer.streams_free > 0);
        let offers = offers.map(|offer| (Place::Peer(offer.peer), offer.layers));
        let mut targets: BTreeMap<Place, LayerRange> = offers.collect();
        let here = wanted.file.layers_present();
        let longest = here.iter().max_by_key(|layers| layers.len()).copied();
        targets.insert(Place::Local, longest.unwrap_or(LayerRange::all(0)));
        let unproven = self.unproven((model, &here), &targets, around);
        let is_due =
            |place: &Place| wanted.aim == Aim::Measure && self.probing.is_due(*place, model, now);
        targets.retain(|place, _| is_due(place) || unproven.contains_key(place));
        vec![self.begin_round(wanted, (targets, unproven), around)]
    }

    /// What replies may use, and the devices that they may not use until they have been asked.
    fn offers_to_probe(&self, model: ModelDigest, around: &Surroundings<'_>) -> Vec<Offer> {
        let doubted = self.probing.golden.in_doubt(model);
        let (book, now) = (around.book, around.now);
        let mut offers = book.offers(model, now);
        let others = book.all_offers(model, now).into_iter();
        offers.extend(others.filter(|offer| doubted.contains(&offer.peer)));
        offers
    }

    /// Begins a round through the devices of `targets`, of which `unproven` are to be compared.
    fn begin_round(
        &mut self,
        wanted: Wanted,
        (targets, unproven): (BTreeMap<Place, LayerRange>, BTreeMap<Place, Subject>),
        around: &Surroundings<'_>,
    ) -> Effect {
        let until = CancellationToken::new();
        let number = self.probing.begin(until.clone());
        self.probing.is_own = wanted.aim == Aim::Own;
        let me = around.me.id;
        let round = Round { number, until, me, wanted, targets, unproven };
        Effect::Start(Task(Work::Probe(Box::new(round))))
    }

    /// Of `targets`, the devices whose layers have not been compared with this one's, which has
    /// `here`. Those that have none of these are compared with nobody.
    fn unproven(
        &self,
        (model, here): (ModelDigest, &[LayerRange]),
        targets: &BTreeMap<Place, LayerRange>,
        around: &Surroundings<'_>,
    ) -> BTreeMap<Place, Subject> {
        let subject = |(place, layers): (&Place, &LayerRange)| {
            let Place::Peer(peer) = *place else { return None };
            golden::in_common(*layers, here)?;
            let version = around.book.heard.get(&peer)?.app_version.clone();
            Some((*place, Subject { peer, model, layers: *layers, version }))
        };
        let subjects = targets.iter().filter_map(subject);
        subjects.filter(|(_, subject)| self.probing.golden.is_due(subject, around.now)).collect()
    }

    /// Takes in what a round tells.
    pub(super) fn on_probed(&mut self, probed: Probed, now: Instant) -> Vec<Effect> {
        self.probing.take(probed, now);
        match probed {
            // What others are told of this device is new.
            Probed::Round(_) if self.probing.is_own => vec![Effect::Advertise],
            _ => Vec::new(),
        }
    }
}

impl Probing {
    /// Whether a device may be asked again for this model.
    fn is_due(&self, place: Place, model: ModelDigest, now: Instant) -> bool {
        self.due.get(&(place, model)).is_none_or(|at| *at <= now)
    }

    fn want(&mut self, wanted: Wanted) {
        self.wanted = Some(wanted);
        self.is_wanted_anew = self.running.is_some();
    }

    /// Models that are not here any more are measured no more; a round under way ends by itself.
    pub(super) fn keep_only(&mut self, is_listed: impl Fn(ModelDigest) -> bool) {
        self.wanted.take_if(|wanted| !is_listed(wanted.listed.digest));
        self.again.take_if(|(_, wanted)| !is_listed(wanted.listed.digest));
    }

    /// A round begins, which `until` ends; its number.
    fn begin(&mut self, until: CancellationToken) -> u64 {
        self.rounds += 1;
        (self.has_failed, self.is_wanted_anew) = (false, false);
        self.running = Some((self.rounds, until));
        self.rounds
    }

    /// Ends the round that is under way. What is wanted stays wanted.
    pub(super) fn stop(&mut self) {
        self.idle_looks = 0;
        if let Some((_, running)) = self.running.take() {
            running.cancel();
        }
    }

    /// Ends it where this device measures itself: somebody else wants the layers now.
    pub(crate) fn stop_own(&mut self) {
        if self.is_own {
            self.stop();
        }
    }

    fn take(&mut self, probed: Probed, now: Instant) {
        let (key, asked) = match probed {
            Probed::Device(place, model, asked) => ((place, model), asked),
            Probed::Round(number) => {
                // The end of a round that was cancelled is not the end of the next one.
                let is_it = |running: &(u64, CancellationToken)| running.0 == number;
                let is_over = self.running.take_if(|running| is_it(running)).is_some();
                // One that measures this device for others has asked nobody that is wanted.
                if is_over && !self.is_own {
                    let wanted = match std::mem::take(&mut self.is_wanted_anew) {
                        true => self.wanted.clone(),
                        false => self.wanted.take(),
                    };
                    let again = wanted.filter(|_| self.has_failed);
                    self.again = again.map(|wanted| (now + PROBE_AGAIN, wanted));
                }
                return;
            }
        };
        let until = match asked {
            Asked::Measured => PROBE_EVERY,
            Asked::InVain => PROBE_AGAIN,
        };
        self.has_failed |= asked == Asked::InVain;
        let due = &mut self.due;
        if due.len() >= ESTIMATES_MAX
            && !due.contains_key(&key)
            && let Some(first) = due.iter().min_by_key(|(_, at)| **at).map(|(key, _)| *key)
        {
            due.remove(&first);
        }
        due.insert(key, now + until);
    }
}

/// One round through the devices.
#[derive(Debug)]
pub(crate) struct Round {
    /// Of all rounds.
    pub(crate) number: u64,
    /// Ends it.
    pub(crate) until: CancellationToken,
    me: PeerId,
    wanted: Wanted,
    /// Who is asked, and for which layers.
    targets: BTreeMap<Place, LayerRange>,
    /// Devices that are to be compared with this one.
    unproven: BTreeMap<Place, Subject>,
}

/// What a round works with.
#[derive(Debug)]
pub(crate) struct ProbeTools {
    pub(crate) workers: Workers,
    pub(crate) links: Links,
    pub(crate) events: mpsc::Sender<Event>,
}

/// A round under way.
struct Prober {
    round: Round,
    tools: ProbeTools,
}

impl Round {
    /// Asks one device after the other, and tells what each showed.
    pub(crate) async fn run(mut self, tools: ProbeTools) {
        let targets = std::mem::take(&mut self.targets);
        Prober { round: self, tools }.run(targets).await;
    }
}

impl Prober {
    async fn run(self, targets: BTreeMap<Place, LayerRange>) {
        let model = self.round.wanted.listed.digest;
        let aim = self.round.wanted.aim;
        for (place, layers) in targets {
            let probe = async {
                match (place, aim) {
                    (_, Aim::Compare) => self.compare_if_unproven(place).await,
                    (_, Aim::Own) => self.own(layers).await,
                    (Place::Local, Aim::Measure) => self.local(layers).await,
                    (Place::Peer(_), Aim::Measure) => self.peer(place, layers).await,
                }
            };
            let asked = match tokio::time::timeout(PROBE_LIMIT, probe).await {
                Ok(Ok(())) => {
                    tracing::debug!(%place, "a device was measured");
                    Asked::Measured
                }
                Ok(Err(failed)) => {
                    tracing::debug!(%place, %failed, "a device was not measured");
                    Asked::InVain
                }
                Err(_) => {
                    tracing::debug!(%place, "measuring a device took too long");
                    Asked::InVain
                }
            };
            if aim != Aim::Compare {
                let probed = Probed::Device(place, model, asked);
                let _ = self.tools.events.send(Said::Probed(probed).into()).await;
            }
        }
    }

    async fn tell(&self, note: Note) {
        // A node that is leaving remembers nothing.
        let _ = self.tools.events.send(Said::Noted(note).into()).await;
    }

    /// A device that offers `layers`: two stretches of them, for a line through two points.
    async fn peer(&self, place: Place, layers: LayerRange) -> Result<(), Failed> {
        let Place::Peer(peer) = place else { return Ok(()) };
        let mut points = Vec::new();
        for stretch in self.stretches(layers) {
            let link = self.tools.links.link(peer).ok_or(Failed::Gone)?;
            let call = link.mux().open_call().await.map_err(|_| Failed::Gone)?;
            let part = ModelPart::inner(stretch);
            let done = self.steps(part).over_peer(call, self.round.wanted.listed.digest).await?;
            self.tell_visits(place, part, &done).await;
            points.push((stretch, done));
        }
        self.tell_line(place, &points).await;
        self.compare_if_unproven(place).await
    }

    async fn compare_if_unproven(&self, place: Place) -> Result<(), Failed> {
        match self.round.unproven.get(&place) {
            Some(subject) => self.compare(subject).await,
            None => Ok(()),
        }
    }

    /// Sends known numbers through one layer of a device and through the same layer here.
    async fn compare(&self, subject: &Subject) -> Result<(), Failed> {
        let Listed { digest, path, name, .. } = &self.round.wanted.listed;
        let file = &self.round.wanted.file;
        let width = file.shape().row;
        let here = file.layers_present();
        let Some(common) = golden::in_common(subject.layers, &here) else { return Ok(()) };
        // One layer alone must be computable.
        let Some(layer) = golden::one_of(common, |layer| file.may_cut(layer)) else {
            return Ok(());
        };
        let link = self.tools.links.link(subject.peer).ok_or(Failed::Gone)?;
        let call = link.mux().open_call().await.map_err(|_| Failed::Gone)?;
        let theirs = golden::of_peer(call, *digest, layer, width).await?;
        let worker = self.tools.workers.get(*digest, name).await.map_err(|_| Failed::Gone)?;
        path.with(async |file| worker.load(&file, *digest, ModelPart::inner(layer)).await)
            .await
            .map_err(|_| Failed::Gone)?;
        let call = worker.open_call().await.map_err(|_| Failed::Gone)?;
        let ours = golden::of_worker(call, layer, width).await?;
        let agrees = golden::agree(&ours, &theirs);
        let note = Note::Compared { subject: subject.clone(), layer, agrees };
        self.tell(note).await;
        Ok(())
    }

    /// This device's own worker: norm and head, and what it holds of the layers. Where it holds
    /// none, because nobody has asked for a reply yet, some of those that are `here` are loaded for
    /// this alone.
    async fn local(&self, here: LayerRange) -> Result<(), Failed> {
        let Listed { digest, path, .. } = &self.round.wanted.listed;
        let held = self.tools.workers.held(*digest).await;
        let longest = held.into_iter().max_by_key(|layers| layers.len());
        let Some(worker) = self.tools.workers.find(*digest).await.filter(|_| longest.is_some())
        else {
            return if self.has_memory(here).await { self.own(here).await } else { Ok(()) };
        };
        let stretches = longest.into_iter().flat_map(|layers| self.stretches(layers));
        let parts = stretches.map(ModelPart::inner);
        let mut points = Vec::new();
        for part in std::iter::once(self.head()).chain(parts) {
            path.with(async |file| worker.load(&file, *digest, part).await)
                .await
                .map_err(|_| Failed::Gone)?;
            let call = worker.open_call().await.map_err(|_| Failed::Gone)?;
            let done = self.steps(part).over_worker(call, part).await?;
            self.tell_visits(Place::Local, part, &done).await;
            if !part.layers.is_empty() {
                points.push((part.layers, done));
            }
        }
        self.tell_line(Place::Local, &points).await;
        Ok(())
    }

    /// See [`stretches`].
    pub(super) fn stretches(&self, layers: LayerRange) -> Vec<LayerRange> {
        stretches(layers, &self.round.wanted.file)
    }

    /// Norm and head alone.
    fn head(&self) -> ModelPart {
        let layers = LayerRange::with_len(self.round.wanted.file.shape().layers, 0);
        ModelPart { layers, embedding: false, head: true }
    }

    fn steps(&self, part: ModelPart) -> Steps {
        let shape = self.round.wanted.file.shape();
        let many = if part.layers.is_empty() { 0 } else { MANY_ROWS };
        let rows = rows(shape.row).min(shape.context_length.saturating_sub(SINGLE_ROWS) / 2);
        let single = std::iter::repeat_n(1, SINGLE_ROWS as usize);
        Steps {
            layers: part.layers,
            hidden: shape.row,
            dtype: DTYPE,
            rows: single.chain(std::iter::repeat_n(rows.max(1), many as usize)).collect(),
        }
    }

    /// The way, the loading and the single visits.
    async fn tell_visits(&self, place: Place, part: ModelPart, done: &Done) {
        let model = self.round.wanted.listed.digest;
        let bytes = match place {
            // Own layers were there before the call.
            Place::Local => 0,
            Place::Peer(_) => self.round.wanted.file.weight_bytes(&part),
        };
        let row_bytes = DTYPE.row_bytes(self.round.wanted.file.shape().row) as u64;
        let visits: Vec<HopVisit> =
            done.answered.iter().map(|answered| answered.visit(place, part)).collect();
        let opened = Note::Opened { place, model, bytes, took: done.opened };
        for note in [opened, Note::Measured { model, row_bytes, visits }] {
            self.tell(note).await;
        }
    }

    /// The line through the stretches, where there are two.
    async fn tell_line(&self, place: Place, points: &[(LayerRange, Done)]) {
        let [large, small] = points else { return };
        let layers = LayerRange::with_len(large.0.start(), 1);
        let layer_bytes = self.round.wanted.file.weight_bytes(&ModelPart::inner(layers));
        if let Some(probe) = line(layer_bytes, [small, large]) {
            let note = Note::Probed { place, model: self.round.wanted.listed.digest, probe };
            self.tell(note).await;
        }
    }
}

/// What two stretches show, the least disturbed step of each kind; `None` where one was not
/// computed.
fn line(layer_bytes: u64, points: [&(LayerRange, Done); 2]) -> Option<Probe> {
    let decode = |(layers, done): &(LayerRange, Done)| Some((layers.len(), done.least(1)?.1));
    let prefill = |(layers, done): &(LayerRange, Done)| {
        let (rows, took) = done.least(PREFILL_ROWS_MIN)?;
        Some((u64::from(layers.len()) * u64::from(rows), took))
    };
    let [small, large] = points;
    Some(Probe {
        layer_bytes,
        decode: [decode(small)?, decode(large)?],
        prefill: [prefill(small)?, prefill(large)?],
    })
}

/// The beginning of `layers` as far as a probe of `file` goes, and half of that.
fn stretches(layers: LayerRange, file: &ModelFile) -> Vec<LayerRange> {
    let one = ModelPart::inner(LayerRange::with_len(layers.start(), layers.len().min(1)));
    beginnings(layers, file.weight_bytes(&one))
}

/// The same for layers of `layer_bytes` each.
fn beginnings(layers: LayerRange, layer_bytes: u64) -> Vec<LayerRange> {
    let affordable = (PROBE_BYTES_MAX / layer_bytes.max(1)).clamp(2, PROBE_LAYERS_MAX.into());
    let most = layers.len().min(u32::try_from(affordable).unwrap_or(PROBE_LAYERS_MAX));
    let mut lengths = vec![most, most / 2];
    lengths.retain(|len| *len > 0);
    lengths.into_iter().map(|len| LayerRange::with_len(layers.start(), len)).collect()
}

/// Rows of a step that says something of prefill, and, there and back, of the way.
fn rows(hidden: u32) -> u32 {
    let row = DTYPE.row_bytes(hidden.max(1)) as u64;
    let large = u32::try_from(LARGE_TRANSFER_BYTES.div_ceil(2 * row)).unwrap_or(STEP_TOKENS_MAX);
    large.clamp(PREFILL_ROWS_MIN, STEP_TOKENS_MAX)
}

#[cfg(test)]
mod tests;
