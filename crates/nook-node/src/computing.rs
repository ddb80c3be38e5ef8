//! What computes models on this computer: when that is measured, how it is kept over a restart, and
//! what the doctor says of it.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_api::Answer;
use nook_api::doctor::{Finding, Verdict};
use nook_api::views::{Condition, GpuHoldsView, GpuUseView, GpuView};
use nook_base::{Backend, clock};
use nook_machine::Card;
use nook_plan::Line;
use nook_requester::Event;
use nook_resources::backends::{
    GpuKind, GpuStanding, GpuUse, Measurable, Measurement, Pace, Spared,
};
use nook_shard::WorkerStatus;
use nook_store::{Home, Measured, MeasuredBackend, MeasuredFile};
use nook_wire::GpuHolding;

use crate::doctor::finding;
use crate::state::State;

const SUBJECT: &str = "computing";

/// Where it is kept what was measured, and what still counts of it.
pub(crate) fn measured(home: &Home) -> (MeasuredFile, Measured) {
    let file = MeasuredFile::of(home);
    let measured = file.load(clock::unix_seconds()).unwrap_or_else(|error| {
        // It is measured anew, and the file is written again.
        tracing::warn!(%error, "what was measured before is lost");
        Measured::default()
    });
    (file, measured)
}

impl State {
    /// What computes: the variable of the environment, else the owner's choice.
    fn backend(&self) -> Backend {
        self.settings.settings().inference.backend.in_force()
    }

    /// Looks for GPUs, or measures one, while nothing else goes on.
    pub(crate) fn learn_backends(&mut self) {
        let backends = self.workers.backends().clone();
        if backends.take_news() {
            self.ask(Event::BackendsMeasured);
        }
        let now = clock::now();
        let conditions = self.host.conditions(now);
        // Where nobody has looked of late, what was seen last holds.
        if let Some(seen) = &conditions
            && backends.spare_cards(self.cards.spared(now, seen))
        {
            let workers = self.workers.clone();
            self.tasks.spawn_until_cancelled("settle", async move { workers.settle().await });
        }
        if self.replies_running() > 0 || self.host.streams() > 0 {
            // They may use workers that run already, which are not asked for.
            return backends.disturb();
        }
        let at_rest = conditions.is_none_or(|it| crate::asking::is_at_rest(&it));
        let entries = self.library.entries();
        let is_here = |model| entries.iter().any(|it| it.digest() == model && !it.ends_only);
        if !at_rest || !backends.is_curious(self.backend(), is_here) {
            return;
        }
        let known: Vec<Measurable> = entries
            .iter()
            .map(|entry| Measurable {
                model: entry.digest(),
                path: entry.listed.path.clone(),
                file: entry.file.clone(),
            })
            .collect();
        let (workers, tasks) = (self.workers.clone(), self.tasks.clone());
        self.tasks.spawn_until_cancelled("learn-backends", async move {
            workers.learn(&known, &tasks).await;
        });
    }

    /// What is to be kept, with what was measured of this computer's own devices.
    pub(crate) fn with_backends(&self, measured: Measured) -> Measured {
        let backends = to_keep(self.workers.backends().to_keep());
        Measured { backends, ..measured }
    }

    /// Adds what is known of GPUs to `findings`, once somebody has looked for them.
    pub(crate) fn examine_gpus(&self, mut findings: Vec<Finding>, answer: Answer<Vec<Finding>>) {
        let (workers, tasks) = (self.workers.clone(), self.tasks.clone());
        let backend = self.backend();
        let held = held_on_gpus(self.host.residency().all().map(|(_, status)| status));
        self.tasks.spawn_until_cancelled("doctor", async move {
            workers.look_for_gpus(&tasks).await;
            let gpus = workers.backends().standings(backend).unwrap_or_default();
            let at = findings.iter().position(|it| it.subject == SUBJECT).map_or(0, |at| at + 1);
            let unused = unused_cards(nook_machine::cards(), &gpus, backend);
            let told = gpus.iter().map(|it| gpu(it, held.get(&it.gpu.number).copied()));
            findings.splice(at..at, told.chain(unused));
            let _ = answer.send(Ok(findings));
        });
    }

    /// The graphics cards that may compute, and for whom something lies there now.
    pub(crate) fn gpu_views(&self) -> Vec<GpuView> {
        let workers = || self.host.residency().all().map(|(_, status)| status);
        let known = self.workers.backends().standings(self.backend()).unwrap_or_default();
        gpu_views(&known, &held_on_gpus(workers()), workers())
    }

    /// Bytes of weights that this computer goes through in a second, where it measured that and its
    /// processor is what computes. How much of a model a card takes is not known before it is here.
    pub(crate) fn own_rate(&self) -> Option<u64> {
        let on_processor = matches!(self.backend(), Backend::Native | Backend::Candle);
        let is_card = |gpu: &GpuView| !gpu.shares_memory;
        let has_card = !nook_machine::cards().is_empty() || self.gpu_views().iter().any(is_card);
        self.fits.own_rate.get().filter(|_| on_processor || !has_card)
    }

    /// What computes here. A device that was chosen and is not there is told by the worker that is
    /// to compute there.
    pub(crate) fn examine_computing(&self) -> Finding {
        let mut now: Vec<String> = self
            .host
            .residency()
            .all()
            .filter(|(_, status)| status.backend != Backend::Auto)
            .map(|(_, status)| status.backend.to_string())
            .collect();
        now.sort();
        now.dedup();
        computes(self.backend(), now)
    }
}

fn computes(backend: Backend, now: Vec<String>) -> Finding {
    let chosen = match backend {
        Backend::Auto => "models are computed on what was measured to be faster".to_owned(),
        Backend::Native => "models are computed on the processor".to_owned(),
        named => format!("models are computed on {named}, as it was chosen"),
    };
    let sentence = match now.is_empty() {
        true => chosen,
        false => format!("{chosen}; now on: {}", now.join(", ")),
    };
    let condition = Condition::Computes { backend: backend.to_string(), now };
    finding(Verdict::Well, SUBJECT, sentence, condition)
}

/// What workers have on each GPU, by its number.
fn held_on_gpus<'a>(
    workers: impl Iterator<Item = &'a WorkerStatus>,
) -> BTreeMap<u32, GpuHoldsView> {
    let mut held = BTreeMap::new();
    for status in workers {
        let Backend::GpuAt(number) = status.backend else { continue };
        let none = GpuHoldsView { layers: 0, of_layers: 0, bytes: 0, lent_bytes: 0 };
        let there: &mut GpuHoldsView = held.entry(number).or_insert(none);
        there.layers += status.on_gpu.layers;
        there.of_layers += status.held.iter().map(|range| range.len()).sum::<u32>();
        let GpuHolding { bytes, lent_bytes, kept_bytes, .. } = status.on_gpu;
        there.bytes = there.bytes.saturating_add(bytes);
        // A conversation is promised more than it takes at first.
        let lent = lent_bytes.saturating_add(kept_bytes).min(bytes);
        there.lent_bytes = there.lent_bytes.saturating_add(lent);
    }
    held
}

/// Every GPU of `known` that computes without being named, and every other one that `held` has
/// something of.
fn gpu_views<'a>(
    known: &[GpuStanding],
    held: &BTreeMap<u32, GpuHoldsView>,
    workers: impl Iterator<Item = &'a WorkerStatus>,
) -> Vec<GpuView> {
    let mut numbers: BTreeMap<u32, bool> = BTreeMap::new();
    for GpuStanding { gpu, .. } in known {
        let shares_memory = matches!(gpu.kind, GpuKind::Integrated | GpuKind::Software);
        if gpu.kind != GpuKind::Software || held.contains_key(&gpu.number) {
            numbers.insert(gpu.number, shares_memory);
        }
    }
    // What computes there knows best, also where nobody has looked.
    for status in workers {
        if let Backend::GpuAt(number) = status.backend {
            numbers.insert(number, status.on_gpu.shares_memory);
        }
    }
    let view = |(number, shares_memory): (u32, bool)| {
        let gpu = known.iter().map(|it| &it.gpu).find(|gpu| gpu.number == number);
        let (bytes, lent) = held.get(&number).map_or((0, 0), |it| (it.bytes, it.lent_bytes));
        let lent_bytes = lent >> 20 << 20;
        GpuView {
            number,
            name: gpu.map_or_else(|| format!("gpu:{number}"), |gpu| gpu.name.clone()),
            memory_bytes: gpu.and_then(|gpu| gpu.memory),
            shares_memory,
            own_bytes: (bytes - lent) >> 20 << 20,
            lent_bytes,
        }
    };
    numbers.into_iter().map(view).collect()
}

/// What lies on a GPU, in words that follow a semicolon.
fn holding(held: GpuHoldsView) -> String {
    let GpuHoldsView { layers, of_layers, bytes, lent_bytes } = held;
    let (own, lent) = (bytes.saturating_sub(lent_bytes) >> 20, lent_bytes >> 20);
    let whose = format!("{own} MB for this computer's own replies and {lent} MB lent to others");
    match of_layers.checked_sub(layers) {
        None | Some(0) => format!("{layers} layers lie there now: {whose}"),
        Some(others) => format!(
            "{layers} of {of_layers} layers lie there now: {whose}; the processor computes the \
             other {others}"
        ),
    }
}

/// One GPU, why it is used or not, and what lies there.
fn gpu(standing: &GpuStanding, holds: Option<GpuHoldsView>) -> Finding {
    let GpuStanding { gpu, used } = standing;
    let memory = gpu
        .memory
        .map_or_else(String::new, |bytes| format!(", {:.0} GB", bytes as f64 / f64::from(1 << 30)));
    let (number, name, api, driver) = (gpu.number, &gpu.name, &gpu.api, &gpu.driver);
    let (verdict, use_) = words(used);
    let there = holds.map_or_else(String::new, |held| format!("; {}", holding(held)));
    let sentence = format!("gpu:{number} {name} ({api}, {driver}{memory}): {use_}{there}");
    let condition = Condition::Gpu {
        number,
        name: name.clone(),
        api: api.clone(),
        driver: driver.clone(),
        memory_bytes: gpu.memory,
        used: view(used),
        holds,
    };
    finding(verdict, SUBJECT, sentence, condition)
}

fn words(used: &GpuUse) -> (Verdict, String) {
    let text = match used {
        GpuUse::Chosen => "used, as it was chosen".to_owned(),
        GpuUse::NotChosen => "not used, because something else was chosen".to_owned(),
        GpuUse::Software => {
            "not used: the processor plays graphics card; only if it is named".to_owned()
        }
        GpuUse::Unmeasured => {
            "not used yet: it is measured after a model was used, when nothing else goes on"
                .to_owned()
        }
        GpuUse::Measured { is_used, cpu, gpu } => {
            let is_used = if *is_used { "used" } else { "not used" };
            format!("{is_used}; measured: CPU {cpu:.1}, GPU {gpu:.1} tokens/s of a usual reply")
        }
        GpuUse::Spared(Spared::Battery) => {
            "not used while this computer runs on its battery; the setting `gpu` uses it there too"
                .to_owned()
        }
        GpuUse::Spared(Spared::OtherPrograms) => {
            "not used while another program uses it; the setting `gpu` uses it all the same"
                .to_owned()
        }
        GpuUse::Resting { minutes, reason } => {
            let text = format!("not used for {minutes} min, because it failed: {reason}");
            return (Verdict::Problem, text);
        }
        GpuUse::Unfit { reason } => {
            return (
                Verdict::Note,
                format!("not used for the model that was tried last: {reason}"),
            );
        }
    };
    (Verdict::Well, text)
}

fn view(used: &GpuUse) -> GpuUseView {
    match used.clone() {
        GpuUse::Chosen => GpuUseView::Chosen,
        GpuUse::NotChosen => GpuUseView::NotChosen,
        GpuUse::Software => GpuUseView::Software,
        GpuUse::Unmeasured => GpuUseView::Unmeasured,
        GpuUse::Measured { is_used, cpu, gpu } => GpuUseView::Measured { is_used, cpu, gpu },
        GpuUse::Spared(Spared::Battery) => GpuUseView::OnBattery,
        GpuUse::Spared(Spared::OtherPrograms) => GpuUseView::UsedByOthers,
        GpuUse::Resting { minutes, reason } => {
            GpuUseView::Resting { minutes: u32::try_from(minutes).unwrap_or(u32::MAX), reason }
        }
        GpuUse::Unfit { reason } => GpuUseView::Unfit { reason },
    }
}

/// A gaming PC whose card idles is what its owner wonders about.
fn unused_cards(cards: &[Card], gpus: &[GpuStanding], backend: Backend) -> Option<Finding> {
    // candle reaches them by another way.
    let is_candle = matches!(backend, Backend::CandleCuda(_) | Backend::CandleMetal(_));
    let is_reached = |card: &&Card| {
        gpus.iter().any(|it| it.gpu.name.contains(&card.name) || card.name.contains(&it.gpu.name))
    };
    let cards: Vec<&Card> = cards.iter().filter(|card| !is_reached(card)).collect();
    if cards.is_empty() || is_candle {
        return None;
    }
    let name = |card: &&Card| {
        let gigabytes = card.memory_bytes as f64 / f64::from(1 << 30);
        format!("{} ({gigabytes:.0} GB)", card.name)
    };
    let cards: Vec<String> = cards.iter().map(name).collect();
    let sentence = format!(
        "{} is there and not used: its driver offers no Vulkan. Install the whole driver",
        cards.join(", ")
    );
    let condition = Condition::CardsUnused { cards };
    Some(finding(Verdict::Note, SUBJECT, sentence, condition))
}

/// As it is kept.
fn to_keep(measured: Vec<Measurement>) -> Vec<MeasuredBackend> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let line = |line: Line| [nanos(line.fixed), nanos(line.slope)];
    let entry = |it: Measurement| MeasuredBackend {
        model: it.model,
        device: it.device,
        decode: line(it.pace.decode),
        prefill: line(it.pace.prefill),
        layers: it.layers,
        uncuttable: it.uncuttable,
        weight_bytes: it.weight_bytes,
        at: it.at,
    };
    measured.into_iter().map(entry).collect()
}

/// The same, back.
pub(crate) fn restored(kept: &[MeasuredBackend]) -> Vec<Measurement> {
    let time = Duration::from_nanos;
    let line = |[fixed, slope]: [u64; 2]| Line { fixed: time(fixed), slope: time(slope) };
    let entry = |it: &MeasuredBackend| Measurement {
        model: it.model,
        device: it.device.clone(),
        pace: Pace { decode: line(it.decode), prefill: line(it.prefill) },
        layers: it.layers,
        uncuttable: it.uncuttable.clone(),
        weight_bytes: it.weight_bytes,
        at: it.at,
    };
    kept.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use nook_base::ModelDigest;
    use nook_resources::backends::{GpuKind, GpuReport};

    use super::*;

    fn standing(used: GpuUse) -> GpuStanding {
        let gpu = GpuReport {
            number: 1,
            name: "Radeon 780M".to_owned(),
            api: "vulkan".to_owned(),
            driver: "Mesa 25.1".to_owned(),
            kind: GpuKind::Integrated,
            memory: Some(4 << 30),
        };
        GpuStanding { gpu, used }
    }

    #[test]
    fn a_gpu_is_named_with_why_it_is_used_or_not() {
        for (used, verdict, said) in [
            (
                GpuUse::Measured { is_used: false, cpu: 6.71, gpu: 5.5 },
                Verdict::Well,
                "gpu:1 Radeon 780M (vulkan, Mesa 25.1, 4 GB): not used; measured: CPU 6.7, GPU 5.5",
            ),
            (GpuUse::Measured { is_used: true, cpu: 1.0, gpu: 2.0 }, Verdict::Well, "): used; mea"),
            (GpuUse::Chosen, Verdict::Well, "used, as it was chosen"),
            (GpuUse::Software, Verdict::Well, "only if it is named"),
            (
                GpuUse::Resting { minutes: 4, reason: "signal 11".to_owned() },
                Verdict::Problem,
                "for 4 min, because it failed: signal 11",
            ),
            (GpuUse::Unfit { reason: "too small".to_owned() }, Verdict::Note, "too small"),
        ] {
            let found = gpu(&standing(used.clone()), None);
            assert_eq!(found.verdict, verdict, "{used:?}");
            assert!(found.sentence.contains(said), "{}", found.sentence);
        }
    }

    #[test]
    fn what_lies_on_a_gpu_is_told_and_what_the_processor_computes_beside_it() {
        let (bytes, lent_bytes) = (3 << 30, 1 << 30);
        let held = |layers| Some(GpuHoldsView { layers, of_layers: 32, bytes, lent_bytes });
        let used = standing(GpuUse::Measured { is_used: true, cpu: 1.0, gpu: 2.0 });
        let said = gpu(&used, held(20)).sentence;
        let expected = "; 20 of 32 layers lie there now: 2048 MB for this computer's own replies \
                        and 1024 MB lent to others; the processor computes the other 12";
        assert!(said.ends_with(expected), "{said}");
        let said = gpu(&used, held(32)).sentence;
        assert!(said.ends_with("own replies and 1024 MB lent to others"), "{said}");
    }

    #[test]
    fn each_gpu_that_may_compute_is_shown_with_what_lies_there_and_for_whom() {
        const MIB: u64 = 1 << 20;
        let status = |backend, on_gpu| WorkerStatus { backend, on_gpu, ..WorkerStatus::default() };
        let on_gpu = |bytes, lent_bytes, kept_bytes| GpuHolding {
            layers: 2,
            bytes,
            lent_bytes,
            kept_bytes,
            shares_memory: false,
        };
        let workers = [
            status(Backend::GpuAt(4), on_gpu(100 * MIB + 7, 20 * MIB, 10 * MIB)),
            // More was promised than is taken.
            status(Backend::GpuAt(4), on_gpu(50 * MIB, 60 * MIB, 0)),
            status(Backend::Native, GpuHolding::default()),
        ];
        let kind = |number, kind| {
            let mut it = standing(GpuUse::Unmeasured);
            (it.gpu.number, it.gpu.kind) = (number, kind);
            it
        };
        let known = [kind(0, GpuKind::Discrete), kind(1, GpuKind::Integrated)];
        let known = [&known[..], &[kind(2, GpuKind::Software)]].concat();
        let seen = gpu_views(&known, &held_on_gpus(workers.iter()), workers.iter());
        let numbers: Vec<_> = seen.iter().map(|it| (it.number, it.shares_memory)).collect();
        assert_eq!(numbers, [(0, false), (1, true), (4, false)]);
        let bytes: Vec<_> = seen.iter().map(|it| (it.own_bytes, it.lent_bytes)).collect();
        assert_eq!(bytes, [(0, 0), (0, 0), (70 * MIB, 80 * MIB)]);
        assert_eq!((&*seen[0].name, &*seen[2].name), ("Radeon 780M", "gpu:4"));
    }

    #[test]
    fn a_card_that_no_driver_reaches_is_named_with_what_helps() {
        let card = |name: &str| Card { name: name.to_owned(), memory_bytes: 24 << 30 };
        assert_eq!(unused_cards(&[], &[], Backend::Auto), None);
        let found = unused_cards(&[card("NVIDIA One")], &[], Backend::Auto).unwrap();
        assert_eq!(found.verdict, Verdict::Note);
        assert!(found.sentence.starts_with("NVIDIA One (24 GB) is there and not used: "));
        assert_eq!(unused_cards(&[card("NVIDIA One")], &[], Backend::CandleCuda(0)), None);
        let reached = [standing(GpuUse::Chosen)];
        assert_eq!(unused_cards(&[card("Radeon 780M")], &reached, Backend::Auto), None);
    }

    #[test]
    fn what_computes_is_told_with_where_it_computes_now() {
        let said = |backend, now: &[&str]| {
            computes(backend, now.iter().map(|it| (*it).to_owned()).collect()).sentence
        };
        assert_eq!(said(Backend::Native, &[]), "models are computed on the processor");
        assert!(said(Backend::GpuAt(1), &[]).contains("gpu:1"));
        assert!(said(Backend::Auto, &["gpu:0", "native"]).ends_with("; now on: gpu:0, native"));
    }

    #[test]
    fn what_was_measured_is_kept_as_it_was() {
        let line = |us| Line { fixed: Duration::from_micros(us), slope: Duration::from_nanos(7) };
        let measured = vec![Measurement {
            model: ModelDigest([3; 32]),
            device: "cpu".to_owned(),
            pace: Pace { decode: line(5), prefill: line(6) },
            layers: 32,
            uncuttable: vec![20, 21],
            weight_bytes: 5 << 30,
            at: 77,
        }];
        assert_eq!(restored(&to_keep(measured.clone())), measured);
    }
}
