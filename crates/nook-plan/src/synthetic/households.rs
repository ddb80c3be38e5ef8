//! Draws households: what real kitchens, desks and attics hold, in believable figures.
//!
//! Decode is bound by memory bandwidth and prefill by arithmetic; the figures of the classes are
//! rounded from what such machines reach with 4-bit weights. Links run from busy Wi-Fi to 10 GbE. A
//! fixed generator (SplitMix64) makes the same household from the same seed everywhere.

use std::time::Duration;

use nook_base::{LayerRange, PeerId};

use crate::{
    BytesPerSecond, Cached, Device, Ends, EndsHeld, Figure, Line, Link, ModelCosts, OffloadPolicy,
    Out, Owner, Place, Request, RoundTrip, Situation, Speed, Standing, Width,
};

/// A source of numbers that is the same everywhere (SplitMix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub struct Chance(u64);

/// A household with one question.
#[derive(Debug, Clone)]
pub struct Household {
    /// The model's name, for tables.
    pub model_name: &'static str,
    /// The model.
    pub model: ModelCosts,
    /// The request.
    pub request: Request,
    /// The asking device.
    pub here: Device,
    /// The others.
    pub others: Vec<Device>,
}

/// The shape of a model.
#[derive(Debug, Clone, Copy)]
pub struct Shaped {
    name: &'static str,
    layers: u32,
    layer_megabytes: u64,
    kv_bytes: u64,
    ends_megabytes: u64,
    hidden: u64,
}

/// A class of machines: weight streaming in GB/s, prefill in Gflop/s, µs for a visit, memory that
/// it lends in GB, loading in MB/s.
#[derive(Debug, Clone, Copy)]
struct Class {
    streaming: u64,
    gigaflops: u64,
    visit_micros: u64,
    memory_gigabytes: [u64; 2],
    loading: u64,
}

/// Round trip in µs with its deviation, and MB/s.
const LINKS: [(u64, u64, u64); 5] = [
    (12_000, 6_000, 4), // Wi-Fi, two walls away
    (4_000, 1_500, 25), // Wi-Fi, same room
    (2_000, 500, 60),   // Wi-Fi 6
    (350, 50, 112),     // Gigabit
    (150, 20, 1_100),   // 10 GbE
];

const CLASSES: [Class; 6] = [
    class(8, 20, 900, [2, 6], 120),           // an old laptop
    class(25, 90, 500, [4, 14], 400),         // a laptop of today
    class(45, 250, 400, [8, 28], 900),        // a desktop without a graphics card
    class(100, 1_800, 700, [8, 20], 1_500),   // unified memory
    class(240, 9_000, 600, [5, 8], 800),      // an 8 GB card
    class(800, 60_000, 500, [18, 23], 1_200), // a 24 GB card
];

const MODELS: [Shaped; 7] = [
    shaped("1B Q4", 16, 40, 2_048, 150, 2048),
    shaped("3B Q4", 28, 60, 4_096, 250, 3072),
    shaped("8B Q4", 32, 130, 4_096, 500, 4096),
    shaped("14B Q4", 48, 170, 4_096, 700, 5120),
    shaped("27B Q4", 62, 250, 8_192, 1_100, 5376),
    shaped("32B Q4", 64, 290, 4_096, 900, 5120),
    shaped("70B Q4", 80, 490, 4_096, 1_000, 8192),
];

const fn class(
    streaming: u64,
    gigaflops: u64,
    visit_micros: u64,
    memory_gigabytes: [u64; 2],
    loading: u64,
) -> Class {
    Class { streaming, gigaflops, visit_micros, memory_gigabytes, loading }
}

const fn shaped(
    name: &'static str,
    layers: u32,
    layer_megabytes: u64,
    kv_bytes: u64,
    ends_megabytes: u64,
    hidden: u64,
) -> Shaped {
    Shaped { name, layers, layer_megabytes, kv_bytes, ends_megabytes, hidden }
}

impl Chance {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high.saturating_sub(low) + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.number() % 100 < percent
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.number() % all.len() as u64) as usize]
    }
}

impl Household {
    /// A household of `devices` devices, the asking one included, and one of the usual models.
    #[must_use]
    pub fn draw(seed: u64, devices: usize) -> Self {
        let chance = &mut Chance::new(seed);
        let shaped = chance.one_of(&MODELS);
        Self::with(chance, &shaped, devices)
    }

    /// One with 64 layers: what the planner's own cost is measured on.
    #[must_use]
    pub fn of_64_layers(seed: u64, devices: usize) -> Self {
        Self::with(&mut Chance::new(seed), &MODELS[5], devices)
    }

    /// One small enough to try every route: `layers` layers that are as heavy together as those of
    /// a usual model.
    #[must_use]
    pub fn small(seed: u64, devices: usize, layers: u32) -> Self {
        let chance = &mut Chance::new(seed);
        let whole = chance.one_of(&MODELS);
        let heavier = u64::from(whole.layers / layers.max(1)).max(1);
        let shaped = Shaped {
            layers,
            layer_megabytes: whole.layer_megabytes * heavier,
            kv_bytes: whole.kv_bytes * heavier,
            ..whole
        };
        Self::with(chance, &shaped, devices)
    }

    /// The question as the planner takes it.
    #[must_use]
    pub fn situation(&self) -> Situation<'_> {
        let Self { model, request, here, others, .. } = self;
        Situation { model, request, here, others }
    }

    fn with(chance: &mut Chance, shaped: &Shaped, devices: usize) -> Self {
        let model = model(chance, shaped);
        let request = request(chance, model.layers);
        let here_class = CLASSES[chance.between(0, 3) as usize];
        let mut here = device(chance, &model, &here_class, Place::Local);
        here.computes = vec![LayerRange::all(model.layers)];
        here.streams_free = u16::MAX;
        // The asking device has the ends and a layer or two in memory, or it would not ask.
        here.memory_free += model.ends_bytes + 4 * model.layer_bytes;
        let others = (1..devices)
            .map(|number| {
                let mut id = [0; 32];
                id[..8].copy_from_slice(&chance.number().to_be_bytes());
                id[8..16].copy_from_slice(&(number as u64).to_be_bytes());
                let class = chance.one_of(&CLASSES);
                device(chance, &model, &class, Place::Peer(PeerId(id)))
            })
            .collect();
        let mut household = Self { model_name: shaped.name, model, request, here, others };
        household.resume_some(chance);
        household
    }

    /// In some households the conversation was begun before, on devices that still hold it.
    fn resume_some(&mut self, chance: &mut Chance) {
        if !chance.percent(25) {
            return;
        }
        let parts = chance.between(1, self.others.len().min(3) as u64 + 1) as usize;
        let ranges = crate::even_split(LayerRange::all(self.model.layers), parts + 1);
        let positions = chance.between(1, u64::from(self.request.prompt)) as u32;
        for (at, layers) in ranges.iter().enumerate() {
            let cached = Cached { layers: *layers, positions };
            let holder = match at {
                0 => &mut self.here,
                last if last + 1 == ranges.len() => &mut self.here,
                other => match self.others.get_mut(other - 1) {
                    Some(other) => other,
                    None => return,
                },
            };
            holder.cached.push(cached);
            holder.held.push(*layers);
        }
    }
}

fn model(chance: &mut Chance, shaped: &Shaped) -> ModelCosts {
    let uncuttable = if chance.percent(15) {
        (1..shaped.layers).filter(|layer| layer % 2 == 1).collect()
    } else {
        Vec::new()
    };
    ModelCosts {
        layers: shaped.layers,
        layer_bytes: shaped.layer_megabytes * 1_000_000,
        kv_bytes: shaped.kv_bytes,
        ends_bytes: shaped.ends_megabytes * 1_000_000,
        row_bytes: shaped.hidden * 2,
        uncuttable,
    }
}

fn request(chance: &mut Chance, layers: u32) -> Request {
    let prompt = chance.one_of(&[20, 300, 1_500, 8_000]);
    let reply = chance.one_of(&[1, 60, 250, 1_200]);
    let keep = u32::from(layers > 2);
    let ends = chance.one_of(&[(keep, keep), (0, keep), (keep, 0), (0, 0)]);
    let width = match chance.between(0, 9) {
        0 if ends.0 + ends.1 > 0 => Width::Fixed,
        1 | 2 => Width::EndsOnly,
        _ => Width::Free,
    };
    Request {
        ends: Ends { prefix: ends.0, suffix: ends.1, width },
        hops_max: if chance.percent(15) { 2 } else { 16 },
        whole: if chance.percent(20) {
            OffloadPolicy::OnOwnDevices
        } else {
            OffloadPolicy::Refused
        },
        ..Request::usual(prompt, reply)
    }
}

fn device(chance: &mut Chance, model: &ModelCosts, class: &Class, place: Place) -> Device {
    let all = LayerRange::all(model.layers);
    // Machines of one class differ.
    let streaming = class.streaming * chance.between(60, 130) * 10_000_000;
    let slope = BytesPerSecond(streaming).time_for(model.layer_bytes);
    // Four-bit weights are two to the byte, and each takes part in two operations.
    let flops = model.layer_bytes * 4;
    let prefill_rate = class.gigaflops * chance.between(50, 140) * 10_000_000;
    let each_row = BytesPerSecond(prefill_rate).time_for(flops);
    let fixed = Duration::from_micros(class.visit_micros * chance.between(50, 200) / 100);
    let [low, high] = class.memory_gigabytes.map(|gigabytes| gigabytes * 1000);
    let start = chance.between(0, u64::from(model.layers - 1)) as u32;
    let len = chance.between(1, u64::from(model.layers)) as u32;
    let some = all.intersection(LayerRange::with_len(start, len));
    let computes = match chance.between(0, 9) {
        0 => vec![],
        1..=3 => vec![some],
        4 => vec![
            LayerRange::with_len(0, model.layers / 3),
            LayerRange::with_len(model.layers / 2, model.layers - model.layers / 2),
        ],
        _ => vec![all],
    };
    let held = if chance.percent(60) { computes.clone() } else { vec![] };
    let is_unknown = place != Place::Local && chance.percent(12);
    let (trip, deviation, bandwidth) = chance.one_of(&LINKS);
    let link = Link {
        round_trip: Figure::Measured(RoundTrip {
            mean: Duration::from_micros(trip * chance.between(60, 180) / 100),
            deviation: Duration::from_micros(deviation),
        }),
        bandwidth: Figure::Measured(BytesPerSecond(bandwidth * 1_000_000)),
    };
    let speed = Speed {
        decode: Figure::Measured(Line { fixed, slope }),
        prefill: Figure::Measured(Line { fixed, slope: each_row }),
        load: Figure::Measured(BytesPerSecond(class.loading * 1_000_000)),
        ends: Figure::Measured(BytesPerSecond(streaming).time_for(model.ends_bytes)),
    };
    Device {
        place,
        standing: if chance.percent(8) { Standing::Out(Out::Absent) } else { Standing::Ready },
        owner: if chance.percent(50) { Owner::Me } else { Owner::Another },
        computes,
        held,
        ends: EndsHeld::InMemory,
        cached: vec![],
        memory_free: chance.between(low, high) * 1_000_000,
        streams_free: chance.one_of(&[0, 1, 1, 2, 4, 4]),
        queue_depth: chance.one_of(&[0, 0, 0, 0, 1, 3]),
        wait: chance.percent(10).then(|| Duration::from_millis(5)),
        speed: if is_unknown { Speed::default() } else { speed },
        hands_to: Vec::new(),
        link: if is_unknown && chance.percent(50) { Link::default() } else { link },
    }
}
