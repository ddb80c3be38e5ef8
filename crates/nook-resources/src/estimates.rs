//! How fast each device computes each model and how far away it is, as its answers have shown.
//!
//! Owned by the node's event loop. Replies and probes tell it every answered step
//! ([`Estimates::observe`]) and every load; a reply that begins gets a copy of what is known of its
//! model ([`Facts`]) and plans with that. The figures are kept over a restart for a while
//! (`keeping`); what is in memory is not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nook_base::{LayerRange, ModelDigest, PeerId};
use nook_pipeline::{HopVisit, Joint};
use nook_plan::{
    BytesPerSecond, Link, LinkEstimate, Place, Probe, Speed, SpeedEstimate, Visit, Warmth,
};

/// Devices and models whose speed is remembered, and devices whose way is; of more, the one that
/// was heard of least lately is forgotten and unknown again.
pub const ESTIMATES_MAX: usize = 256;

/// Layers that answered are taken to be in memory for this long; after it, by default, half of the
/// time has passed after which a host frees what nobody uses. Beyond it they have to be loaded
/// again.
pub const HELD_LIMIT: Duration = Duration::from_secs(300);

/// Stretches of layers remembered as being in memory, for each device and model; of more, the
/// oldest is taken for not loaded.
const STRETCHES_MAX: usize = 16;

/// Nothing reads weights into memory faster than this. A call that was accepted sooner found them
/// there, and says nothing about loading.
const LOAD_RATE_MAX: BytesPerSecond = BytesPerSecond(16_000_000_000);

/// Everything measured.
#[derive(Debug, Default)]
pub struct Estimates {
    speeds: BTreeMap<(Place, ModelDigest), Estimate>,
    links: BTreeMap<PeerId, WayEstimate>,
    /// Devices of which the first has handed its results to the second, and when last.
    hands: BTreeMap<(PeerId, PeerId), Instant>,
}

/// Two addresses between which a link stands: this device's, and the other one's.
pub type Ends = [IpAddr; 2];

/// The way to one device.
#[derive(Debug)]
struct WayEstimate {
    estimate: LinkEstimate,
    /// Where it was measured; unknown for what an earlier version has kept.
    ends: Option<Ends>,
    heard: Instant,
}

#[derive(Debug)]
struct Estimate {
    speed: SpeedEstimate,
    /// Stretches that answered, and when last.
    held: Vec<(LayerRange, Instant)>,
    head_held: Option<Instant>,
    heard: Instant,
}

/// What is known of one model on all devices, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// What is known of each place.
    pub speeds: BTreeMap<Place, Known>,
    /// How far each device is.
    pub links: BTreeMap<PeerId, Link>,
    /// Devices of which the first hands its results to the second.
    pub hands: BTreeSet<(PeerId, PeerId)>,
}

/// What is known of one device with one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// How fast it computes.
    pub speed: Speed,
    /// Layers that are in memory for all that is known.
    pub held: Vec<LayerRange>,
    /// Whether norm and head are in memory there.
    pub head_held: bool,
}

impl Facts {
    /// The devices to which `peer` hands its results.
    pub fn hands_to(&self, peer: PeerId) -> Vec<PeerId> {
        self.hands.iter().filter(|(from, _)| *from == peer).map(|(_, to)| *to).collect()
    }
}

impl Estimates {
    /// Takes in one answered step of `model`, whose rows travel as `row_bytes`.
    pub fn observe(&mut self, model: ModelDigest, visit: &HopVisit, row_bytes: u64, now: Instant) {
        if let Place::Peer(peer) = visit.place {
            self.observe_way(peer, visit, row_bytes, now);
        }
        let estimate = self.estimate(visit.place, model, now);
        let layers = visit.part.layers;
        estimate.observe_whole(visit, now);
        let ends = estimate.speed.speed().ends.measured();
        // Norm and head are a term of their own; a step whose share of them is unknown is no
        // measure of its layers.
        let compute = match (visit.logits, ends) {
            (true, Some(ends)) => visit.compute.checked_sub(ends),
            (true, None) => None,
            (false, _) => Some(visit.compute),
        };
        if layers.is_empty() {
            let is_warm = estimate.head_held.is_some_and(|at| is_fresh(at, now));
            if visit.logits && visit.rows == 1 && is_warm {
                estimate.speed.observe_ends(visit.compute);
            }
        } else if let Some(compute) = compute {
            let warmth = if estimate.holds(layers, now) { Warmth::Warm } else { Warmth::Cold };
            let visit = Visit { layers: layers.len(), rows: visit.rows, compute, warmth };
            estimate.speed.observe(&visit);
        }
        estimate.hold(layers, now);
        if visit.logits {
            estimate.head_held = Some(now);
        }
    }

    /// A device may have started anew: what it had in memory is not known any more. How fast it is
    /// stays.
    pub fn forget_held(&mut self, peer: PeerId) {
        let of_it = self.speeds.iter_mut().filter(|((place, _), _)| *place == Place::Peer(peer));
        for (_, estimate) in of_it {
            estimate.held.clear();
            estimate.head_held = None;
        }
    }

    /// Takes in that a device accepted a call for layers of `bytes` after `took`.
    pub fn observe_load(
        &mut self,
        (place, model): (Place, ModelDigest),
        bytes: u64,
        took: Duration,
        now: Instant,
    ) {
        if bytes > 0 && BytesPerSecond::over(bytes, took) < LOAD_RATE_MAX {
            self.estimate(place, model, now).speed.observe_load(bytes, took);
        }
    }

    /// Starts anew from a probe of two sizes. The line through them keeps its shape while replies,
    /// whose visits all have one size, move it.
    pub fn seed(&mut self, (place, model): (Place, ModelDigest), probe: &Probe, now: Instant) {
        let estimate = self.estimate(place, model, now);
        let Speed { load, ends, .. } = estimate.speed.speed();
        estimate.speed = SpeedEstimate::seeded(probe, probe.layer_bytes);
        if let Some(ends) = ends.measured() {
            estimate.speed.observe_ends(ends);
        }
        if let Some(rate) = load.measured() {
            estimate.speed.observe_load(rate.0, Duration::from_secs(1));
        }
    }

    /// Takes in whether a device hands its results to another: it does until it is known otherwise.
    pub fn observe_joint(&mut self, joint: &Joint, now: Instant) {
        let pair = (joint.from, joint.to);
        if joint.stands {
            make_room(&mut self.hands, &pair, |heard| *heard);
            self.hands.insert(pair, now);
        } else {
            self.hands.remove(&pair);
        }
    }

    /// What is known of `model`.
    pub fn facts(&self, model: ModelDigest, now: Instant) -> Facts {
        let speeds = self.speeds.iter().filter(|((_, known), _)| *known == model);
        Facts {
            speeds: speeds.map(|((place, _), estimate)| (*place, estimate.known(now))).collect(),
            links: self.links.iter().map(|(peer, way)| (*peer, way.estimate.link())).collect(),
            hands: self.hands.keys().copied().collect(),
        }
    }

    /// Everything that was measured, by device.
    pub fn all(&self) -> impl Iterator<Item = (Place, ModelDigest, Speed)> {
        self.speeds
            .iter()
            .map(|((place, model), estimate)| (*place, *model, estimate.speed.speed()))
    }

    /// How fast one device computes one model.
    pub fn speed(&self, place: Place, model: ModelDigest) -> Speed {
        let known = self.speeds.get(&(place, model));
        known.map(|estimate| estimate.speed.speed()).unwrap_or_default()
    }

    /// Every speed, with when it was heard of last.
    pub fn heard_speeds(&self) -> impl Iterator<Item = ((Place, ModelDigest), Speed, Instant)> {
        self.speeds.iter().map(|(key, estimate)| (*key, estimate.speed.speed(), estimate.heard))
    }

    /// Every way that was measured, with when it was heard of last.
    pub fn heard_links(&self) -> impl Iterator<Item = (PeerId, Link, Option<Ends>, Instant)> {
        let ways = self.links.iter();
        let all = ways.map(|(peer, way)| (*peer, way.estimate.link(), way.ends, way.heard));
        all.filter(|(_, link, ..)| *link != Link::default())
    }

    /// Goes on from a speed of an earlier run.
    pub fn restore_speed(
        &mut self,
        (place, model): (Place, ModelDigest),
        speed: &Speed,
        heard: Instant,
    ) {
        let estimate = self.estimate(place, model, heard);
        estimate.speed = SpeedEstimate::known(speed);
    }

    /// Goes on from the way of an earlier run, unless the link goes another one by now.
    pub fn restore_link(
        &mut self,
        peer: PeerId,
        (link, ends): (&Link, Option<Ends>),
        heard: Instant,
    ) {
        let now_between = self.links.get(&peer).and_then(|way| way.ends);
        if ends.is_some() && now_between.is_some() && ends != now_between {
            return;
        }
        make_room(&mut self.links, &peer, |way| way.heard);
        let ends = ends.or(now_between);
        let way = WayEstimate { estimate: LinkEstimate::known(link), ends, heard };
        self.links.insert(peer, way);
    }

    /// The link to `peer` stands between these two addresses. What was measured between others says
    /// nothing of it, and what was `found` there before the link went that way does.
    /// Returns whether anything is known otherwise by this.
    pub fn way_taken(
        &mut self,
        peer: PeerId,
        ends: Ends,
        found: Option<&Link>,
        now: Instant,
    ) -> bool {
        make_room(&mut self.links, &peer, |way| way.heard);
        let way = self.links.entry(peer).or_insert_with(|| WayEstimate::unknown(now));
        let is_other = way.ends.is_some_and(|before| before != ends);
        if is_other {
            *way = WayEstimate::unknown(now);
        }
        way.ends = Some(ends);
        if let Some(found) = found {
            (way.estimate, way.heard) = (LinkEstimate::known(found), now);
        }
        is_other || found.is_some()
    }

    /// The way to `peer`.
    pub fn link(&self, peer: PeerId) -> Link {
        self.links.get(&peer).map(|way| way.estimate.link()).unwrap_or_default()
    }

    /// Forgets a device that is not paired any more.
    pub fn forget(&mut self, peer: PeerId) {
        self.links.remove(&peer);
        self.hands.retain(|(from, to), _| *from != peer && *to != peer);
        self.speeds.retain(|(place, _), _| *place != Place::Peer(peer));
    }

    fn observe_way(&mut self, peer: PeerId, visit: &HopVisit, row_bytes: u64, now: Instant) {
        if visit.forwarded {
            // Its rows came from one device and went to another: no way there and back.
            return;
        }
        make_room(&mut self.links, &peer, |way| way.heard);
        let way = self.links.entry(peer).or_insert_with(|| WayEstimate::unknown(now));
        way.heard = now;
        let link = &mut way.estimate;
        match visit.rows {
            1 => link.observe_round_trip(visit.wire),
            rows if !visit.overlapped => {
                // There and back.
                let bytes = row_bytes.saturating_mul(u64::from(rows)).saturating_mul(2);
                link.observe_transfer(bytes, visit.wire);
            }
            _ => {}
        }
    }

    fn estimate(&mut self, place: Place, model: ModelDigest, now: Instant) -> &mut Estimate {
        let key = (place, model);
        make_room(&mut self.speeds, &key, |estimate| estimate.heard);
        let estimate = self.speeds.entry(key).or_insert_with(|| Estimate {
            speed: SpeedEstimate::default(),
            held: Vec::new(),
            head_held: None,
            heard: now,
        });
        estimate.heard = now;
        estimate
    }
}

impl WayEstimate {
    fn unknown(now: Instant) -> Self {
        Self { estimate: LinkEstimate::default(), ends: None, heard: now }
    }
}

impl Estimate {
    fn holds(&self, layers: LayerRange, now: Instant) -> bool {
        let mut fresh = self.held.iter().filter(|(_, at)| is_fresh(*at, now));
        fresh.any(|(held, _)| held.contains(layers))
    }

    /// A device that has only answered for stretches of layers knows nothing of norm and head. The
    /// first warm token that it makes from layers and head together tells them, as what is left
    /// when the layers are taken off; from then on such tokens tell of the layers.
    fn observe_whole(&mut self, visit: &HopVisit, now: Instant) {
        let Speed { decode, ends, .. } = self.speed.speed();
        let layers = visit.part.layers;
        let is_one = visit.logits && visit.rows == 1 && !layers.is_empty() && ends.is_unknown();
        let is_warm = self.holds(layers, now) && self.head_held.is_some_and(|at| is_fresh(at, now));
        let Some(decode) = decode.measured().filter(|_| is_one && is_warm) else { return };
        let rest = visit.compute.saturating_sub(decode.at(u64::from(layers.len())));
        if !rest.is_zero() {
            self.speed.observe_ends(rest);
        }
    }

    fn hold(&mut self, layers: LayerRange, now: Instant) {
        self.held.retain(|(held, at)| is_fresh(*at, now) && !layers.contains(*held));
        if layers.is_empty() {
            return;
        }
        if self.held.len() >= STRETCHES_MAX {
            self.held.remove(0);
        }
        self.held.push((layers, now));
    }

    fn known(&self, now: Instant) -> Known {
        let fresh = self.held.iter().filter(|(_, at)| is_fresh(*at, now));
        Known {
            speed: self.speed.speed(),
            held: fresh.map(|(held, _)| *held).collect(),
            head_held: self.head_held.is_some_and(|at| is_fresh(at, now)),
        }
    }
}

fn is_fresh(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < HELD_LIMIT
}

/// Takes the entry out that was heard of least lately, if there is no room for `key`.
fn make_room<K: Ord + Copy, V>(map: &mut BTreeMap<K, V>, key: &K, heard: impl Fn(&V) -> Instant) {
    if map.len() < ESTIMATES_MAX || map.contains_key(key) {
        return;
    }
    if let Some(oldest) = map.iter().min_by_key(|(_, value)| heard(value)).map(|(key, _)| *key) {
        map.remove(&oldest);
    }
}

#[cfg(test)]
mod tests;
