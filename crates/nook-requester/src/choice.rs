//! Alone or pooled: from what the node knows to a route, and to what `nook doctor pipeline` says.
//!
//! `replies` gathers a [`Question`] in the node's event loop and asks it once the prompt is
//! encoded. The devices in adverts and estimates become a [`Situation`], [`nook_plan::plan`]
//! decides, and [`Choice`] carries the route to the route and the reasons to the owner. With
//! pooling `always` the route is the reference cover instead, and the plan is kept for comparison.

mod cable;
pub(crate) mod gains;
mod offload;
pub(crate) mod outlook;
mod paces;
mod room;

pub(crate) use cable::CableGain;
pub(crate) use offload::OffloadChoice;
pub(crate) use room::{Lack, device_gone};

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nook_base::limits::PREFILL_CHUNK_POOLED_TOKENS;
use nook_base::{ActivationDtype, LayerRange, ModelDigest, ModelPart, PeerId};
use nook_model::ModelFile;
use nook_plan::{
    Because, BytesPerSecond, Cached, Decision, Device, Ends, EndsHeld, Execution, Figure, LeftOut,
    Line, ModelCosts, NarrowRows, NoPlan, OffloadPolicy, Out, Owner, Place, Prediction, Request,
    Route, Rows, Segment, Shape, Situation, Speed, Standing, Topology, greedy_cover, plan,
    plan_with_rows, rows_on,
};
use nook_store::{ActivationChoice, Pooling, SplitChoice};
use nook_wire::ShardAdvert;

use crate::reply::Me;
use nook_api::Reach;
use nook_api::views::{ByCableView, DecisionView, LeftOutView, PooledView, PredictionView};
use nook_resources::adverts::AdvertBook;
use nook_resources::estimates::{Facts, Known};
use nook_resources::memory::memory_free_beside;

/// Length that a reply is expected to have where its limit is longer: what prefill and loading are
/// weighed against.
pub const REPLY_TOKENS_EXPECTED: u32 = 200;

/// Said before the reason where nobody makes a reply.
const REFUSED: &str = "The reply was refused, because this computer cannot make it alone.";

/// Positions over which the bytes of one position's cache are averaged: whole blocks of the cache.
const CACHE_POSITIONS: u32 = 1024;

/// What a reply asks, as the house was when it was asked for.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) me: Me,
    pub(crate) model: ModelDigest,
    pub(crate) file: ModelFile,
    pub(crate) pooling: Pooling,
    pub(crate) split: SplitChoice,
    pub(crate) reach: Reach,
    /// How activations travel, or that q8 may be chosen for a slow way.
    pub(crate) format: ActivationChoice,
    pub(crate) ends: Ends,
    pub(crate) hops_max: usize,
    /// Whether everything may be computed on one other device of the same person.
    pub(crate) whole: OffloadPolicy,
    pub(crate) facts: Facts,
}

/// What is only known once the prompt is encoded.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) prompt: u32,
    pub(crate) tokens_max: u32,
    /// Layers in the memory of this device's own worker.
    pub(crate) held: Vec<LayerRange>,
    /// Bytes that this device could still take for weights and caches.
    pub(crate) memory_free: u64,
    /// Bytes that it could take at the very most, other programs making room.
    pub(crate) memory_ceiling: u64,
    /// Beginnings of this prompt that devices have computed for earlier replies and may still keep.
    pub(crate) warm: Vec<(Place, Cached)>,
}

impl Encoded {
    fn warm_at(&self, place: Place) -> Vec<Cached> {
        let there = self.warm.iter().filter(|(at, _)| *at == place);
        there.map(|(_, cached)| *cached).collect()
    }
}

/// A route and the reasons for it.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The device of the same person that is to run everything; then `route` is for when it cannot.
    pub(crate) whole: Option<OffloadChoice>,
    pub(crate) route: Route,
    /// How activations travel on it.
    pub(crate) dtype: ActivationDtype,
    /// Whether the planner chose it, who knows what going on behind an earlier reply saves.
    pub(crate) is_planned: bool,
    /// One sentence.
    pub(crate) because: String,
    /// What the planner said; absent when it was not asked.
    pub(crate) planned: Option<Result<Decision, NoPlan>>,
    /// What this device lacks for the route, where nobody helps and it has not the memory: it is
    /// not to be tried.
    pub(crate) lack: Option<Lack>,
    /// What another device on a cable would gain, where that is much.
    pub(crate) by_cable: Option<CableGain>,
}

impl Question {
    /// Decides. Pure but for reading the book, which the caller holds still, and the record of what
    /// is in the file.
    pub(crate) fn choose(&self, told: &Encoded, book: &AdvertBook, now: Instant) -> Choice {
        if self.reach == Reach::ThisDevice || self.whole == OffloadPolicy::Refused {
            return self.choose_route(told, book, now);
        }
        let (planned, _) = self.plan(told, book, now, self.whole);
        match self.choose_whole(&planned, book, now) {
            Some(whole) => {
                let because = self.because_whole(&whole, &planned, book);
                // Where the reply goes on should that device be lost.
                let apart = self.choose_route(told, &book.without(whole.peer), now);
                Choice {
                    whole: Some(whole),
                    because,
                    planned: Some(planned),
                    lack: None,
                    by_cable: None,
                    ..apart
                }
            }
            None => {
                let mut choice = self.choose_route(told, book, now);
                if let (Some(Ok(chosen)), Ok(decision)) = (&mut choice.planned, planned) {
                    chosen.whole = decision.whole;
                }
                choice
            }
        }
    }

    /// The route, with everything divided or here.
    fn choose_route(&self, told: &Encoded, book: &AdvertBook, now: Instant) -> Choice {
        let layers = self.file.shape().layers;
        let alone = |because: &str, planned| {
            let lack = self.lack(told);
            let because = match lack {
                None => because.to_owned(),
                Some(_) => format!("{REFUSED} {because}"),
            };
            Choice {
                whole: None,
                route: Route::alone(layers)
                    .expect("a validated model has at least one layer, so this cuts nothing"),
                dtype: self.usual_dtype(),
                is_planned: false,
                because,
                planned,
                lack,
                by_cable: None,
            }
        };
        if self.reach == Reach::ThisDevice {
            return alone("This reply was to stay on this computer.", None);
        }
        if !self.has_ends() {
            return alone("Layers that stay on this computer are still on their way.", None);
        }
        if let Some(why) = self.undivided() {
            let (planned, _) = self.plan(told, book, now, OffloadPolicy::Refused);
            return alone(&why, Some(planned));
        }
        let (planned, rows) = self.plan(told, book, now, OffloadPolicy::Refused);
        let wants_plan = self.pooling == Pooling::WhenFaster;
        if wants_plan && let Ok(decision) = &planned {
            let Execution::Route(route) = &decision.plan.execution else {
                // The planner was told that nothing goes elsewhere whole, so this does not happen.
                return alone("No whole reply is made elsewhere.", Some(planned));
            };
            let (route, mut because) = (route.clone(), sentence(decision.because).to_owned());
            let dtype = self.written(rows, book, &mut because);
            let planned = Some(planned);
            let (whole, lack, is_planned, by_cable) = (None, None, true, None);
            let mut choice =
                Choice { whole, route, dtype, is_planned, because, planned, lack, by_cable };
            choice.by_cable = self.by_cable(told, book, now, &choice);
            return choice;
        }
        match self.cover(book, now) {
            Ok(route) => {
                let because = if wants_plan {
                    "No device has room for the reply by its own figures; those that offer the \
                     layers are tried."
                } else {
                    "Other devices are always used when they offer the layers, as the setting \
                     distributed_inference.pooling says."
                };
                let mut because = because.to_owned();
                let divided = (told, OffloadPolicy::Refused);
                let rows = self.ask(divided, book, now, |situation, narrow| {
                    narrow.map_or(Rows::Wide, |narrow| rows_on(&route, situation, narrow))
                });
                let dtype = self.written(rows, book, &mut because);
                let (whole, lack, planned, by_cable) = (None, None, Some(planned), None);
                let is_planned = false;
                Choice { whole, route, dtype, is_planned, because, planned, lack, by_cable }
            }
            Err(why) => alone(&why, Some(planned)),
        }
    }

    /// Why nothing of this model is left for other devices, where the layers that stay here are all
    /// of it.
    fn undivided(&self) -> Option<String> {
        let Ends { prefix, suffix, .. } = self.ends;
        let layers = self.file.shape().layers;
        let topology = Topology::or_alone(layers, prefix, suffix).ok()?;
        if !topology.is_alone() {
            return None;
        }
        if layers <= 2 {
            return Some(format!("The model has {layers} layers, too few to be divided."));
        }
        Some(format!(
            "This computer keeps the first {prefix} and the last {suffix} layers, and the model has \
             {layers}: none is left for other devices. Lower local_prefix_layers or \
             local_suffix_layers."
        ))
    }

    /// What the planner says, and how rows travel then.
    fn plan(
        &self,
        told: &Encoded,
        book: &AdvertBook,
        now: Instant,
        whole: OffloadPolicy,
    ) -> (Result<Decision, NoPlan>, Rows) {
        self.ask((told, whole), book, now, |situation, narrow| match narrow {
            Some(narrow) => plan_with_rows(situation, narrow),
            None => (plan(situation), Rows::Wide),
        })
    }

    /// Puts a question about this reply to the planner.
    fn ask<T>(
        &self,
        (told, whole): (&Encoded, OffloadPolicy),
        book: &AdvertBook,
        now: Instant,
        question: impl FnOnce(&Situation<'_>, Option<&NarrowRows>) -> T,
    ) -> T {
        let model = self.costs();
        let here = self.here(told);
        let others = self.others(told, book, now);
        let request = Request { whole, ..self.request(told) };
        let row_bytes = ActivationDtype::Q8.row_bytes(self.file.shape().row) as u64;
        let may_narrow = self.format == ActivationChoice::ByLink;
        let narrow = may_narrow.then_some(NarrowRows { row_bytes });
        let situation =
            Situation { model: &model, request: &request, here: &here, others: &others };
        question(&situation, narrow.as_ref())
    }

    /// Bytes that this device's worker could still take, which has the layers `held` in memory, and
    /// may use `card` bytes of a card's own. Asks the system, and may wait for it.
    pub(crate) fn memory_free(&self, held: &[LayerRange], card: u64) -> u64 {
        let (here, card) = self.with_card(held, card);
        memory_free_beside(here).saturating_add(card)
    }

    /// Bytes of the layers `held` that lie in the computer's memory, and bytes of `card` that are
    /// free. A card is filled first.
    fn with_card(&self, held: &[LayerRange], card: u64) -> (u64, u64) {
        let held = held_bytes(&self.file, held);
        let there = held.min(card);
        (held - there, card - there)
    }

    fn request(&self, told: &Encoded) -> Request {
        Request {
            prompt: told.prompt,
            reply: told.tokens_max.min(REPLY_TOKENS_EXPECTED),
            positions: told.prompt.saturating_add(told.tokens_max),
            chunk: PREFILL_CHUNK_POOLED_TOKENS,
            ends: self.ends,
            hops_max: self.hops_max,
            whole: OffloadPolicy::Refused,
        }
    }

    /// The format where no narrower one pays.
    fn usual_dtype(&self) -> ActivationDtype {
        match self.format {
            ActivationChoice::Always(dtype) => dtype,
            ActivationChoice::ByLink => ActivationDtype::F16,
        }
    }

    /// The format for `rows`; what is not the usual one is told.
    fn written(&self, rows: Rows, book: &AdvertBook, because: &mut String) -> ActivationDtype {
        let Rows::Narrow(narrowed) = rows else { return self.usual_dtype() };
        let (saved, name) = (narrowed.saved_percent, book.name(&narrowed.slowest));
        because.push_str(&format!(
            " Activations travel in eight bits (q8), because the way to {name} is slow: that \
             saves {saved} % of the time."
        ));
        ActivationDtype::Q8
    }

    /// The middle of the model over whoever offers it, or why this device computes alone.
    fn cover(&self, book: &AdvertBook, now: Instant) -> Result<Route, String> {
        let layers = self.file.shape().layers;
        let (prefix, suffix) = (self.ends.prefix, self.ends.suffix);
        let topology = Topology::or_alone(layers, prefix, suffix)
            .map_err(|error| format!("Others cannot take part: {error}."))?;
        let offers = book.offers(self.model, now);
        if offers.is_empty() {
            return Err("No other device offers layers of this model.".to_owned());
        }
        let hops = greedy_cover(topology.middle(), &offers, self.hops_max)
            .map_err(|error| format!("Others cannot take part: {error}."))?;
        Route::boomerang(topology, &hops)
            .map_err(|error| format!("Others cannot take part: {error}."))
    }

    fn costs(&self) -> ModelCosts {
        costs(&self.file, self.usual_dtype())
    }

    /// Layers whose weights are in the file of this device.
    pub(crate) fn layers_here(&self) -> Vec<LayerRange> {
        self.file.layers_present()
    }

    fn here(&self, told: &Encoded) -> Device {
        let known = self.facts.speeds.get(&Place::Local).cloned().unwrap_or_default();
        let ends = match (told.held.is_empty(), known.head_held) {
            (false, true) => EndsHeld::InMemory,
            _ => EndsHeld::ToLoad,
        };
        Device {
            place: Place::Local,
            standing: Standing::Ready,
            owner: Owner::Me,
            computes: self.layers_here(),
            held: told.held.clone(),
            ends,
            cached: told.warm_at(Place::Local),
            memory_free: told.memory_free,
            streams_free: u16::MAX,
            queue_depth: 0,
            wait: None,
            speed: known.speed,
            link: nook_plan::Link::default(),
            hands_to: Vec::new(),
        }
    }

    /// Every paired device, and how it stands.
    fn others(&self, told: &Encoded, book: &AdvertBook, now: Instant) -> Vec<Device> {
        let usable: BTreeSet<PeerId> =
            book.offers(self.model, now).iter().map(|offer| offer.peer).collect();
        let paired = book.names.keys().filter(|peer| **peer != self.me.id);
        let other = |peer: &PeerId| {
            let cached = told.warm_at(Place::Peer(*peer));
            Device { cached, ..self.other(*peer, book, usable.contains(peer), now) }
        };
        paired.map(other).collect()
    }

    /// A paired device, as far as that does not hang on the prompt.
    fn other(&self, peer: PeerId, book: &AdvertBook, usable: bool, now: Instant) -> Device {
        let place = Place::Peer(peer);
        let Known { mut speed, mut held, .. } =
            self.facts.speeds.get(&place).cloned().unwrap_or_default();
        let whole = book.own.get(&peer).and_then(|own| own.offer(self.model));
        if let (Some(us), true) = (whole.and_then(|it| it.ends_us), speed.ends.is_unknown()) {
            // Only the device itself can have measured it.
            speed.ends = Figure::Measured(Duration::from_micros(us.into()));
        }
        if let (Some(kb), true) = (whole.and_then(|it| it.load_kb_per_s), speed.load.is_unknown()) {
            // The same, until it has loaded something for this one.
            speed.load = Figure::Measured(BytesPerSecond(u64::from(kb).saturating_mul(1000)));
        }
        let advert = book.heard.get(&peer).filter(|heard| heard.is_fresh(now));
        let advert = advert.map(|heard| &heard.advert);
        let shards = advert.into_iter().flat_map(|advert| &advert.shards);
        let shards: Vec<_> = shards.filter(|shard| shard.model == self.model).collect();
        let standing = match advert {
            _ if book.barred.contains(&peer) => Standing::Out(Out::NotAllowed),
            None => Standing::Out(Out::Absent),
            Some(advert) if !advert.sharing => Standing::Out(Out::NotSharing),
            Some(advert) if shards.is_empty() && advert.fetch_bytes > 0 => {
                Standing::Out(Out::LacksLayers)
            }
            Some(_) if shards.is_empty() => Standing::Out(Out::OtherFile),
            Some(_) if book.wrong.contains(&(peer, self.model)) => {
                Standing::Out(Out::ComputesWrongly)
            }
            // Layers that nobody else offers are asked of it all the same.
            Some(_) if book.is_last_choice(peer) && !usable => Standing::Out(Out::FailedLately),
            Some(_) => Standing::Ready,
        };
        let computes: Vec<LayerRange> = shards.iter().map(|shard| shard.layers).collect();
        // What answered a while ago counts only as far as it is still offered.
        held.retain(|held| computes.iter().any(|layers| layers.contains(*held)));
        held.extend(shards.iter().map(|shard| shard.held).filter(|held| !held.is_empty()));
        Device {
            place,
            standing,
            // Nothing but whole requests asks for this, and they go only where one is offered.
            owner: if whole.is_some() { Owner::Me } else { Owner::Another },
            computes,
            held,
            ends: match whole {
                Some(offer) if offer.ends_held => EndsHeld::InMemory,
                _ => EndsHeld::ToLoad,
            },
            cached: Vec::new(),
            memory_free: advert.map_or(0, |advert| advert.memory_free_bytes),
            streams_free: advert.map_or(0, |advert| advert.streams_free),
            queue_depth: advert.map_or(0, |advert| advert.queue_depth),
            wait: None,
            speed: with_prior(speed, &shards),
            link: self.facts.links.get(&peer).copied().unwrap_or_default(),
            hands_to: self.facts.hands_to(peer),
        }
    }
}

/// Bytes of the weights of the layers `held`.
fn held_bytes(file: &ModelFile, held: &[LayerRange]) -> u64 {
    let weights = |layers: &LayerRange| file.weight_bytes(&ModelPart::inner(*layers));
    held.iter().map(weights).fold(0, u64::saturating_add)
}

/// What a model asks of devices, counted by its own file.
pub fn costs(file: &ModelFile, dtype: ActivationDtype) -> ModelCosts {
    let shape = file.shape();
    let one = |layer| LayerRange::with_len(layer, 1);
    let weights = |layer| file.weight_bytes(&ModelPart::inner(one(layer)));
    let caches = |layer| file.cache_bytes(one(layer), CACHE_POSITIONS);
    let ends = ModelPart { layers: LayerRange::all(0), embedding: true, head: true };
    ModelCosts {
        layers: shape.layers,
        layer_bytes: (0..shape.layers).map(weights).max().unwrap_or(0),
        kv_bytes: (0..shape.layers)
            .map(|layer| caches(layer).div_ceil(u64::from(CACHE_POSITIONS)))
            .max()
            .unwrap_or(0),
        ends_bytes: file.weight_bytes(&ends),
        row_bytes: dtype.row_bytes(shape.row) as u64,
        uncuttable: file.uncuttable(),
    }
}

/// What this device has not measured yet, as the host has measured itself. The figure is for its
/// own usual stretch of layers, what each visit costs spread over them. It ranks nobody while the
/// way there is not measured, which only this device can do.
fn with_prior(mut speed: Speed, shards: &[&ShardAdvert]) -> Speed {
    let line = |us: Option<u32>| {
        us.map(|us| Line { fixed: Duration::ZERO, slope: Duration::from_micros(us.into()) })
    };
    let first = |figure: fn(&ShardAdvert) -> Option<u32>| shards.iter().find_map(|it| figure(it));
    if speed.decode.is_unknown() {
        speed.decode = line(first(|shard| shard.decode_us_per_layer)).into();
    }
    if speed.prefill.is_unknown() {
        speed.prefill = line(first(|shard| shard.prefill_us_per_layer_token)).into();
    }
    speed
}

impl Choice {
    /// Who computes what.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        match &self.whole {
            Some(whole) => vec![everything_on(whole.peer, self.route.layers())],
            None => self.route.segments().to_vec(),
        }
    }

    /// Positions of the prompt that the plan with other devices counts on them to remember; absent
    /// where there is none.
    pub(crate) fn counted_on(&self) -> Option<u32> {
        let decision = self.planned.as_ref()?.as_ref().ok()?;
        decision.pooled.as_ref().map(|plan| plan.prediction.resumed)
    }

    /// For the owner; `route` makes stretches a route for people.
    pub(crate) fn view(
        &self,
        model: &str,
        prompt_tokens: u32,
        name: impl Fn(PeerId) -> String,
        route: impl Fn(&[Segment]) -> nook_api::views::RouteView,
    ) -> DecisionView {
        let layers = self.route.layers();
        let (alone, pools, left_out) = match &self.planned {
            None => (None, [None, None], &[][..]),
            Some(Ok(decision)) => {
                let pools = [decision.pooled.as_ref(), decision.whole.as_ref()];
                (Some(&decision.alone), pools, &decision.left_out[..])
            }
            Some(Err(none)) => (None, [None, None], &none.left_out[..]),
        };
        let [pooled, whole] = pools.map(|plan| {
            plan.map(|plan| PooledView {
                route: match &plan.execution {
                    Execution::Route(pooled) => route(pooled.segments()),
                    Execution::Offload(whole) => route(&[everything_on(whole.peer(), layers)]),
                },
                prediction: prediction(&plan.prediction),
            })
        });
        let impossible = match &self.planned {
            Some(Err(none)) => Some(none.alone.to_string()),
            _ => alone.and_then(|alone| alone.as_ref().err().map(ToString::to_string)),
        };
        // A reason not to use a device says nothing where it is used all the same.
        let chosen = self.segments();
        let used: BTreeSet<Place> = chosen.iter().map(|segment| segment.place).collect();
        let left_out = left_out.iter().filter(|out| !used.contains(&Place::Peer(out.peer)));
        let shape = match &self.whole {
            Some(whole) => Shape::OffloadPolicy { peer: whole.peer },
            None => Shape::of(&self.route),
        };
        DecisionView {
            model: model.to_owned(),
            prompt_tokens,
            because: self.because.clone(),
            route: route(&chosen),
            topology: shape.to_string(),
            alone: alone.and_then(|alone| alone.as_ref().ok().map(prediction)),
            alone_impossible: impossible,
            pooled,
            whole,
            left_out: left_out
                .map(|LeftOut { peer, why }| LeftOutView {
                    device_id: peer.to_string(),
                    device: name(*peer),
                    why: why.to_string(),
                    reason: Some(crate::views_of::why_left_out(*why)),
                })
                .collect(),
            by_cable: self.by_cable.map(|gain| ByCableView {
                device_id: gain.peer.to_string(),
                device: name(gain.peer),
                tokens_per_second_now: gain.now,
                tokens_per_second_then: gain.then,
            }),
            went: None,
        }
    }
}

/// A whole request on `peer`, as a stretch of a route.
pub(crate) fn everything_on(peer: PeerId, layers: u32) -> Segment {
    Segment { part: ModelPart::whole(layers), place: Place::Peer(peer) }
}

/// What a plan says of a way, for front ends.
pub(crate) fn prediction(prediction: &Prediction) -> PredictionView {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    PredictionView {
        first_token_ms: ms(prediction.first_token),
        load_ms: ms(prediction.load),
        tokens_per_second: prediction.tokens_per_second(),
        total_ms: ms(prediction.total),
        measured: prediction.basis == nook_plan::Basis::Measured,
    }
}

fn sentence(because: Because) -> &'static str {
    match because {
        Because::AloneIsImpossible => "This device has not enough memory to make the reply alone.",
        Because::PoolIsFaster => "The reply is faster with other devices.",
        Because::OwnDeviceIsFaster => "The reply is faster wholly on another device of yours.",
        Because::AloneIsFaster => "This device alone is faster, or nearly as fast.",
        Because::NobodyElseCan => "No measured device could help, and this one suffices.",
    }
}

#[cfg(test)]
mod tests;
