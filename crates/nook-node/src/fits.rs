//! Whether a model fits into the memory of this household, before anything is loaded.
//!
//! The planner answers, with its own figures for weights and caches: can this device make the usual
//! reply alone, can it with the devices that offer memory now, or not at all. Speeds decide nothing
//! here; of models that could be downloaded they are told beside it. The answers hang on what is here
//! and who offers what, so they are worked out when that changes and kept until then.

use std::time::Duration;

use nook_base::limits::{HOPS_MAX, PREFILL_CHUNK_POOLED_TOKENS};
use nook_base::{ActivationDtype, LayerRange, ModelDigest, ModelPart, PeerId, clock};
use nook_fetch::Costs;
use nook_plan::{
    BANDWIDTH_ASSUMED, BytesPerSecond, Device, Ends, EndsHeld, Execution, Link, ModelCosts,
    OffloadPolicy, Owner, Place, Request, RoundTrip, Segment, Situation, Speed, Standing, Width,
    plan,
};

use nook_api::views::{FitKind, FitView, HubView};
use nook_library::{ENDS_IN_LAYERS, Fits, ModelLibrary, layer_bytes_of};
use nook_requester::PROMPT_TOKENS_USUAL;
use nook_requester::{REPLY_TOKENS_EXPECTED, costs};
use nook_resources::adverts::AdvertBook;
use nook_resources::catalogue::Entry;
use nook_store::Settings;

use crate::rates::{self, OwnRate, Rates, Telling};

/// Positions of the conversation that must have room: a few pages.
const POSITIONS: u32 = 4096;

/// Quarters of this device's memory that a model may take; the rest of the computer needs some too.
const QUARTERS: u64 = 3;

/// Devices that are counted, those with the most memory first: more never make a fit that these do
/// not, in a household.
const LENDERS_MAX: usize = 8;

/// Most layers that are believed of a model which is not here; no model has as many.
const LAYERS_BELIEVED_MAX: u32 = 512;

/// Layers of a model of which only its size is known: those of the middle of today's. They decide
/// only how finely it can be divided.
const LAYERS_GUESSED: u32 = 40;

/// Bytes of a number in a cache and in a hidden state on its way: both are f16.
const F16_BYTES: u64 = 2;

/// What fits where, and what that was worked out from.
#[derive(Debug, Default)]
pub(crate) struct KnownFits {
    pub(crate) known: Fits,
    known_for: Option<Basis>,
    /// How fast this computer goes through weights.
    pub(crate) own_rate: OwnRate,
    /// Which models say something of those who compute them.
    pub(crate) telling: Telling,
}

/// What the answers hang on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Basis {
    /// All memory of this device; absent where the system does not say.
    here: Option<u64>,
    lenders: Vec<Lender>,
    ends: (u32, u32),
    /// Those of this device, and whether all of each is here.
    models: Vec<(ModelDigest, bool)>,
    /// What other devices give, with the length of its file and its layers.
    household: Vec<(ModelDigest, u64, u32)>,
    /// When the list of models was written that is in use, in seconds since 1970.
    catalogue: u64,
    /// How fast each device goes through weights, where that is known.
    rates: Rates,
    /// The way to each lender, as far as it is measured.
    links: Vec<Link>,
}

/// A device that offers memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lender {
    peer: PeerId,
    name: String,
    bytes: u64,
}

impl KnownFits {
    /// Works the answers out anew where something that they hang on has changed.
    pub(crate) fn update(&mut self, basis: Basis, library: &ModelLibrary) {
        if self.known_for.as_ref() == Some(&basis) {
            return;
        }
        let dtype = ActivationDtype::F16;
        let models = library.entries().iter();
        let fit =
            |it: &Entry| basis.fit_of_layers(&costs(&it.file, dtype), it.file.layers_present());
        let models = models.map(|it| (it.digest(), fit(it))).collect();
        let entries = library.catalogue().entries().iter();
        let catalogue = entries.map(|it| (it.id.clone(), basis.fit_and_speed(&it.costs))).collect();
        let household = basis.household.iter();
        let household = household.map(|it| (it.0, basis.fit_of_file(it.1, it.2))).collect();
        self.known = Fits { models, catalogue, household };
        self.known_for = Some(basis);
    }

    /// What was found, with whether each fits: by its size, as nothing else is known of it.
    pub(crate) fn with_fits(&self, mut found: HubView) -> HubView {
        for model in &mut found.models {
            let fit = self.known_for.as_ref();
            let fit = fit.map(|basis| basis.fit_of_file(model.file_bytes, LAYERS_GUESSED));
            model.fit = fit.unwrap_or_else(unknown);
        }
        found
    }
}

impl Basis {
    /// What the answers hang on now: the memory here and that which the devices of `book` offer,
    /// the models of `library`, and the layers that stay here.
    pub(crate) fn of(
        book: &AdvertBook,
        library: &ModelLibrary,
        settings: &Settings,
        (rates, link): (Rates, impl Fn(PeerId) -> Link),
    ) -> Self {
        let now = clock::now();
        let offers = book.heard.iter().filter(|(_, heard)| {
            heard.is_fresh(now) && heard.advert.sharing && heard.advert.memory_free_bytes > 0
        });
        let name = |peer| book.names.get(peer).cloned().unwrap_or_else(|| peer.short());
        let mut lenders: Vec<Lender> = offers
            .map(|(peer, heard)| Lender {
                peer: *peer,
                name: name(peer),
                bytes: heard.advert.memory_free_bytes,
            })
            .collect();
        lenders.sort_by_key(|lender| (std::cmp::Reverse(lender.bytes), lender.peer));
        lenders.truncate(LENDERS_MAX);
        let inference = &settings.inference;
        let links = lenders.iter().map(|lender| steady(link(lender.peer))).collect();
        Self {
            rates,
            links,
            here: nook_resources::memory::memory_total(),
            lenders,
            ends: (inference.local_prefix_layers, inference.local_suffix_layers),
            models: library.entries().iter().map(|it| (it.digest(), !it.ends_only)).collect(),
            household: library
                .household_models()
                .map(|it| (it.model, it.bytes, it.layers))
                .collect(),
            catalogue: library.catalogue().written(),
        }
    }

    /// A guess at a model of which only the length of its file and its layers are known, by another
    /// device's word.
    fn fit_of_file(&self, bytes: u64, layers: u32) -> FitView {
        if !(1..=LAYERS_BELIEVED_MAX).contains(&layers) {
            return unknown();
        }
        let layer_bytes = layer_bytes_of(bytes, layers);
        let ends_bytes = layer_bytes.saturating_mul(ENDS_IN_LAYERS);
        let model = ModelCosts {
            layers,
            layer_bytes,
            kv_bytes: 1024 * 2 * F16_BYTES,
            ends_bytes,
            row_bytes: 4096 * F16_BYTES,
            uncuttable: Vec::new(),
        };
        self.fit(&model)
    }

    fn fit(&self, model: &ModelCosts) -> FitView {
        self.fit_of_layers(model, vec![LayerRange::all(model.layers)])
    }

    /// The same where this device has the weights of the layers `computes` alone.
    fn fit_of_layers(&self, model: &ModelCosts, computes: Vec<LayerRange>) -> FitView {
        self.way(model, computes).map_or_else(|fit| fit, |way| self.fit_of(&way))
    }

    /// Whether a model of the catalogue fits, and how fast it is expected to be then.
    fn fit_and_speed(&self, costs: &Costs) -> FitView {
        let model = costs_of(costs);
        match self.way(&model, vec![LayerRange::all(model.layers)]) {
            Ok(way) => {
                let tokens_per_second = self.speed(costs, model.row_bytes, &way);
                FitView { tokens_per_second, ..self.fit_of(&way) }
            }
            Err(fit) => fit,
        }
    }

    /// Who computes what of a model, this device alone where it can; else why nobody does.
    fn way(&self, model: &ModelCosts, computes: Vec<LayerRange>) -> Result<Vec<Segment>, FitView> {
        let Some(all) = self.here else { return Err(unknown()) };
        let here = Device { computes, ..device(Place::Local, model, all / 4 * QUARTERS) };
        let lender = |lender: &Lender| device(Place::Peer(lender.peer), model, lender.bytes);
        let others: Vec<Device> = self.lenders.iter().map(lender).collect();
        let (prefix, suffix) = self.ends;
        let request = Request {
            prompt: PROMPT_TOKENS_USUAL,
            reply: REPLY_TOKENS_EXPECTED,
            positions: POSITIONS,
            chunk: PREFILL_CHUNK_POOLED_TOKENS,
            ends: Ends { prefix, suffix, width: Width::Free },
            hops_max: HOPS_MAX,
            whole: OffloadPolicy::Refused,
        };
        let situation = Situation { model, request: &request, here: &here, others: &others };
        let Ok(decision) = plan(&situation) else { return Err(none()) };
        if decision.alone.is_ok() {
            let part = ModelPart::whole(model.layers);
            return Ok(vec![Segment { part, place: Place::Local }]);
        }
        let Execution::Route(route) = &decision.plan.execution else { return Err(none()) };
        Ok(route.segments().to_vec())
    }

    fn fit_of(&self, way: &[Segment]) -> FitView {
        // A route may come by the same device twice; people read it once.
        let is_used = |lender: &&Lender| way.iter().any(|it| it.place == Place::Peer(lender.peer));
        let devices: Vec<_> =
            self.lenders.iter().filter(is_used).map(|lender| lender.name.clone()).collect();
        let kind = if devices.is_empty() { FitKind::Here } else { FitKind::With };
        FitView { kind, devices, tokens_per_second: None }
    }

    /// Tokens of a reply in a second, where all that it takes is known: each device goes through its
    /// weights once for a token, and a row travels there and back.
    fn speed(&self, costs: &Costs, row_bytes: u64, way: &[Segment]) -> Option<f64> {
        let rate = |place: &Place| self.rates.get(place).copied().map(BytesPerSecond);
        let mut token = rate(&Place::Local)?.time_for(costs.head_bytes);
        for Segment { part, place } in way {
            let layers = u64::from(part.layers.len());
            token += rate(place)?.time_for(costs.token_layer_bytes.saturating_mul(layers));
            if let Place::Peer(peer) = place {
                let at = self.lenders.iter().position(|lender| lender.peer == *peer)?;
                let link = self.links.get(at)?;
                token += link.round_trip.measured()?.mean;
                let bandwidth = link.bandwidth.measured().unwrap_or(BANDWIDTH_ASSUMED);
                token += bandwidth.time_for(row_bytes.saturating_mul(2));
            }
        }
        let seconds = token.as_secs_f64();
        // One figure behind the point is more than anybody can tell before it has run.
        (seconds > 0.0).then(|| (10.0 / seconds).round() / 10.0)
    }
}

/// A way without what trembles: to the tenth of a millisecond, and without its deviation.
fn steady(link: Link) -> Link {
    let tenth = |trip: RoundTrip| RoundTrip {
        mean: Duration::from_micros(
            u64::try_from(trip.mean.as_micros()).unwrap_or(u64::MAX) / 100 * 100,
        ),
        deviation: Duration::ZERO,
    };
    let two = |rate: BytesPerSecond| BytesPerSecond(rates::rounded(rate.0));
    Link {
        round_trip: link.round_trip.measured().map(tenth).into(),
        bandwidth: link.bandwidth.measured().map(two).into(),
    }
}

/// A device that may hold any layers as far as its memory goes, with nothing in it yet.
fn device(place: Place, model: &ModelCosts, memory_free: u64) -> Device {
    Device {
        place,
        standing: Standing::Ready,
        owner: Owner::Another,
        computes: vec![LayerRange::all(model.layers)],
        held: Vec::new(),
        ends: EndsHeld::ToLoad,
        cached: Vec::new(),
        memory_free,
        streams_free: u16::MAX,
        queue_depth: 0,
        wait: None,
        speed: Speed::default(),
        link: Link::default(),
        hands_to: Vec::new(),
    }
}

/// As the catalogue knows a model that is not here.
fn costs_of(costs: &Costs) -> ModelCosts {
    let Costs { layers, hidden, kv_width, layer_bytes, ends_bytes, .. } = *costs;
    // Keys and values.
    let kv_bytes = u64::from(kv_width).saturating_mul(2 * F16_BYTES);
    let row_bytes = u64::from(hidden).saturating_mul(F16_BYTES);
    ModelCosts { layers, layer_bytes, kv_bytes, ends_bytes, row_bytes, uncuttable: Vec::new() }
}

fn unknown() -> FitView {
    FitView { kind: FitKind::Unknown, devices: Vec::new(), tokens_per_second: None }
}

fn none() -> FitView {
    FitView { kind: FitKind::Nowhere, devices: Vec::new(), tokens_per_second: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn basis(here: Option<u64>, lenders: &[(u8, u64)]) -> Basis {
        let lender = |(number, gigabytes): &(u8, u64)| Lender {
            peer: PeerId([*number; 32]),
            name: format!("PC {number}"),
            bytes: gigabytes * GB,
        };
        let lenders = lenders.iter().map(lender).collect();
        Basis {
            here: here.map(|it| it * GB),
            lenders,
            ends: (1, 1),
            models: Vec::new(),
            household: Vec::new(),
            catalogue: 0,
            rates: Rates::new(),
            links: Vec::new(),
        }
    }

    /// A model of so many gigabytes in forty layers.
    #[track_caller]
    fn check(gigabytes: u64, basis: &Basis, expected: &str) {
        let costs = Costs {
            layers: 40,
            hidden: 5120,
            kv_width: 1024,
            layer_bytes: gigabytes * GB / 42,
            ends_bytes: gigabytes * GB / 21,
            token_layer_bytes: gigabytes * GB / 42,
            head_bytes: gigabytes * GB / 42,
        };
        let fit = basis.fit(&costs_of(&costs));
        let found = format!("{:?} {}", fit.kind, fit.devices.join("+"));
        assert_eq!(found.trim(), expected, "{gigabytes} GB with {basis:?}");
    }

    #[test]
    fn a_model_fits_here_with_others_or_nowhere() {
        check(4, &basis(Some(8), &[]), "Here");
        check(9, &basis(Some(8), &[]), "Nowhere");
        check(9, &basis(Some(8), &[(1, 12)]), "With PC 1");
        check(9, &basis(None, &[(1, 12)]), "Unknown");
        check(60, &basis(Some(8), &[(1, 12)]), "Nowhere");
        // Neither lender has room for what is missing here; both together have.
        check(20, &basis(Some(8), &[(1, 9), (2, 9)]), "With PC 1+PC 2");
        // Who fits alone needs nobody, however large the others are.
        check(4, &basis(Some(16), &[(1, 64)]), "Here");
    }

    #[test]
    fn a_model_of_which_only_the_ends_are_here_needs_others_however_small_it_is() {
        let costs = Costs {
            layers: 8,
            hidden: 64,
            kv_width: 64,
            layer_bytes: GB,
            ends_bytes: GB,
            token_layer_bytes: GB,
            head_bytes: GB,
        };
        let ends = || vec![LayerRange::with_len(0, 2), LayerRange::with_len(7, 1)];
        let kind = |basis: &Basis| basis.fit_of_layers(&costs_of(&costs), ends()).kind;
        assert_eq!(kind(&basis(Some(32), &[])), FitKind::Nowhere);
        assert_eq!(kind(&basis(Some(32), &[(1, 32)])), FitKind::With);
    }

    #[test]
    fn a_model_of_another_device_is_guessed_by_its_size_and_nonsense_is_not() {
        let (small, large) = (basis(Some(8), &[]), basis(Some(8), &[(1, 12)]));
        assert_eq!(small.fit_of_file(4 * GB, 40).kind, FitKind::Here);
        assert_eq!(small.fit_of_file(9 * GB, 40).kind, FitKind::Nowhere);
        assert_eq!(large.fit_of_file(9 * GB, 40).kind, FitKind::With);
        for (bytes, layers) in [(4 * GB, 0), (4 * GB, u32::MAX), (4 * GB, 513)] {
            assert_eq!(small.fit_of_file(bytes, layers).kind, FitKind::Unknown, "{layers}");
        }
        assert_eq!(small.fit_of_file(u64::MAX, 512).kind, FitKind::Nowhere);
    }

    #[test]
    fn the_smallest_of_the_catalogue_fits_everywhere_and_a_large_one_where_there_is_room() {
        let list = nook_fetch::Catalogue::built_in().unwrap();
        let kind = |at: usize, basis: &Basis| basis.fit(&costs_of(&list.entries()[at].costs)).kind;
        let last = list.entries().iter().position(|entry| entry.id == "gpt-oss-20b").unwrap();
        assert_eq!(kind(0, &basis(Some(2), &[])), FitKind::Here);
        assert_eq!(kind(last, &basis(Some(8), &[])), FitKind::Nowhere);
        assert_eq!(kind(last, &basis(Some(8), &[(1, 10)])), FitKind::With);
        assert_eq!(kind(last, &basis(Some(20), &[])), FitKind::Here);
        // The largest takes a whole household.
        let largest = list.entries().len() - 1;
        assert_eq!(kind(largest, &basis(Some(32), &[(1, 16), (2, 16)])), FitKind::Nowhere);
        assert_eq!(kind(largest, &basis(Some(32), &[(1, 24), (2, 24)])), FitKind::With);
    }

    #[test]
    fn a_token_takes_what_its_weights_and_its_ways_take_and_an_unknown_figure_tells_nothing() {
        // Forty layers of 0.25 GB, of which a token is computed with a fifth, and a head of 1 GB.
        let costs = Costs {
            layers: 40,
            hidden: 5000,
            kv_width: 1024,
            layer_bytes: GB / 4,
            ends_bytes: 2 * GB,
            token_layer_bytes: GB / 20,
            head_bytes: GB,
        };
        let speed = |basis: &Basis| basis.fit_and_speed(&costs).tokens_per_second;
        let mut alone = basis(Some(32), &[]);
        assert_eq!(speed(&alone), None, "nobody has measured this computer");
        alone.rates.insert(Place::Local, 30 * GB);
        assert_eq!(speed(&alone), Some(10.0), "3 GB at 30 GB in a second");

        let mut both = basis(Some(8), &[(1, 12)]);
        let peer = Place::Peer(PeerId([1; 32]));
        both.rates.insert(Place::Local, 30 * GB);
        assert_eq!(both.fit_and_speed(&costs).kind, FitKind::With);
        assert_eq!(speed(&both), None, "nobody has measured the other one");
        both.rates.insert(peer, 30 * GB);
        both.links.push(Link::default());
        assert_eq!(speed(&both), None, "nobody has measured the way");
        let mean = Duration::from_millis(10);
        let trip = RoundTrip { mean, deviation: Duration::ZERO };
        let rate = BytesPerSecond(200_000_000);
        both.links[0] = Link { round_trip: Some(trip).into(), bandwidth: Some(rate).into() };
        // 100 ms of weights, 10 of way, and 0.1 for two rows of 10 kB.
        assert_eq!(speed(&both), Some(9.1));
        both.links[0].bandwidth = None.into();
        assert_eq!(speed(&both), Some(8.3), "a poor wireless link, until it was measured");
        let too_small = basis(Some(8), &[]);
        assert_eq!(too_small.fit_and_speed(&costs).kind, FitKind::Nowhere);
        assert_eq!(speed(&too_small), None);
    }
}
