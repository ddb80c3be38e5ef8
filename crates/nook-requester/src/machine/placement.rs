//! What this device asks others to hold, and what they answered.
//!
//! While nobody waits for a reply, and at most every [`LOOK_EVERY`] unless the household changed,
//! the model that was used last is looked at (`choice::outlook`). When another placement has been
//! more than 15 % better for three looks in a row, or nothing works as it is, the devices whose
//! layers should change are asked. A refusal counts until something about that device is new.
//!
//! A device that lacks the model may fetch what it is asked for. Where replies can be made without
//! it, nothing large is fetched on a guess: it is asked for a few layers first ([`sample`]), those
//! are measured, and what was measured decides about more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nook_base::limits::WISH_EVERY;
use nook_base::{ErrorCode, LayerRange, ModelDigest, ModelPart, PeerId};
use nook_model::ModelFile;
use nook_plan::{Basis, Look, Place, Share, Steadiness, Verdict};
use nook_wire::{Advert, PlaceState, Placed, PlacementRequest};

use crate::choice::Question;
use crate::choice::outlook::{Outlook, Present, Wanted};
use crate::machine::{Effect, Requester, Surroundings, Task, Work, replies};
use nook_api::Reach;
use nook_api::views::{PlacementView, ShareView};
use nook_resources::adverts::Heard;
use nook_resources::open_models::Listed;

/// How long after a wish the next look waits. Whoever is asked for something else sooner refuses
/// ([`WISH_EVERY`]), and the second more is for the way.
const LOOK_AFTER_WISH: Duration = WISH_EVERY.saturating_add(Duration::from_secs(1));

/// Time between two looks while nothing changes.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long a model counts as in use after its last reply. Shorter than hosts keep what nobody
/// uses, so that an idle household does not load the same layers again and again.
const USED_LIMIT: Duration = Duration::from_secs(300);

/// How long a refusal counts while nothing about the device changes.
const REFUSAL_LIFE: Duration = Duration::from_secs(600);

/// The same where the weights did not come: whoever has them may be back soon.
const FETCH_AGAIN: Duration = Duration::from_secs(60);

/// Fewest layers that a line can be drawn with: it goes through two sizes.
const LINE_LAYERS_MIN: u32 = 2;

/// Layers that a device is asked to fetch so that it can be measured: as many as come to
/// [`SAMPLE_BYTES`], within these bounds.
const SAMPLE_LAYERS: std::ops::RangeInclusive<u64> = LINE_LAYERS_MIN as u64..=4;

/// See [`SAMPLE_LAYERS`]: a second or two over a usual cable.
const SAMPLE_BYTES: u64 = 256 << 20;

/// How long layers that were asked for are left where they are for the sake of being measured.
const MEASURED_WITHIN: Duration = Duration::from_secs(60);

/// How long a wish that was granted is waited for in adverts, and one that was sent for an answer.
const SHOWN_LIMIT: Duration = Duration::from_secs(15);

/// Replies over which a move must pay for itself.
const REPLIES_AHEAD: u32 = 20;

/// What is wished for. Of models only the one that was used last.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    model: Option<InUse>,
    steadiness: Steadiness,
    /// When it was looked last.
    looked: Option<Instant>,
    is_looking: bool,
    /// Something about the household is new.
    is_changed: bool,
    /// What was asked of each device; none more than there are paired devices.
    asked: BTreeMap<PeerId, Wish>,
    wanted: Option<(Present, Wanted)>,
    /// What this device itself is getting for that, and since when.
    taking: Option<(ModelDigest, Vec<LayerRange>, Instant)>,
}

/// The model that the last reply used.
#[derive(Debug, Clone)]
struct InUse {
    listed: Listed,
    file: ModelFile,
    at: Instant,
}

/// What one device was asked for.
#[derive(Debug, Clone)]
struct Wish {
    model: ModelDigest,
    layers: LayerRange,
    /// Absent until it answers.
    state: Option<PlaceState>,
    /// When it was sent.
    sent: Instant,
    /// When it was sent, or answered last.
    at: Instant,
    /// What the device offered then.
    offer: Option<Offer>,
}

/// What must change about a device before it is asked again for what it refused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Offer {
    layers: Vec<LayerRange>,
    memory_free: u64,
    fetch_bytes: u64,
}

impl Wishes {
    /// A device's adverts changed, or it came or went.
    pub(crate) fn household_changed(&mut self) {
        self.is_changed = true;
    }

    /// A device is not paired any more, or its link is another one.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.asked.remove(&peer);
    }

    /// A model that is not here any more is placed no more.
    pub(super) fn keep_only(&mut self, is_listed: impl Fn(ModelDigest) -> bool) {
        if self.model.take_if(|used| !is_listed(used.listed.digest)).is_some() {
            self.wanted = None;
        }
    }

    fn refused(&self, peer: PeerId, offer: Option<&Offer>, now: Instant) -> bool {
        self.asked.get(&peer).is_some_and(|wish| {
            let Some(PlaceState::Refused { code }) = wish.state else { return false };
            let life = match code {
                // It has nothing against the layers.
                ErrorCode::RateLimited | ErrorCode::Busy => LOOK_EVERY,
                ErrorCode::FetchFailed | ErrorCode::DiskFull => FETCH_AGAIN,
                _ => REFUSAL_LIFE,
            };
            wish.offer.as_ref() == offer && now.saturating_duration_since(wish.at) < life
        })
    }

    /// Whether `layers` are asked of a device already, and an answer may still come true.
    fn is_asked(&self, peer: PeerId, wish: PlacementRequest, now: Instant) -> bool {
        self.asked.get(&peer).is_some_and(|asked| {
            let fresh = now.saturating_duration_since(asked.at) < SHOWN_LIMIT;
            let is_refused = matches!(asked.state, Some(PlaceState::Refused { .. }));
            (asked.model, asked.layers) == (wish.model, wish.layers) && fresh && !is_refused
        })
    }

    /// How the request stands that `placed` answers; absent where there is none, or no answer.
    fn state_of(&self, peer: PeerId, placed: &Placed) -> Option<PlaceState> {
        let wish = self.asked.get(&peer)?;
        let is_it = (wish.model, wish.layers) == (placed.model, placed.layers);
        wish.state.filter(|_| is_it)
    }

    /// Takes in one look; whether to move.
    fn weigh(&mut self, outlook: &Outlook) -> Verdict {
        let (Some(wanted), true) = (&outlook.wanted, outlook.present != Present::AsSet) else {
            self.steadiness = Steadiness::default();
            return Verdict::Stay;
        };
        let then = wanted.prediction.total;
        let now = match outlook.present {
            // What was measured is never set against what is assumed.
            Present::Predicted(now)
                if (now.basis, wanted.prediction.basis) == (Basis::Measured, Basis::Assumed) =>
            {
                Some(then)
            }
            Present::Predicted(now) => Some(now.total),
            Present::AsSet | Present::Impossible => None,
        };
        let (moving, replies_ahead) = (wanted.moving, REPLIES_AHEAD);
        self.steadiness.look(&Look { now, then, moving, replies_ahead })
    }
}

/// Works out where layers would do most good.
#[derive(Debug)]
pub(crate) struct PlacementLook {
    pub(crate) question: Question,
    /// Devices that may be asked to hold other layers.
    pub(crate) movable: BTreeSet<PeerId>,
    /// Adverts of devices that may not compute for this one, where it is to be found what each device
    /// brings.
    pub(crate) gains_with: Option<BTreeMap<PeerId, Heard>>,
}

impl Requester {
    /// A reply with this model may use other devices: it is the one that is placed.
    pub(super) fn want_placement(&mut self, listed: Listed, file: ModelFile, now: Instant) {
        let is_new =
            self.wishes.model.as_ref().is_none_or(|used| used.listed.digest != listed.digest);
        if is_new {
            self.wishes.steadiness = Steadiness::default();
            self.wishes.wanted = None;
            self.wishes.is_changed = true;
        }
        self.wishes.model = Some(InUse { listed, file, at: now });
    }

    /// The model that was used last, if that was lately.
    pub(super) fn model_in_use(&self, now: Instant) -> Option<ModelDigest> {
        let used = self.wishes.model.as_ref()?;
        let is_used = now.saturating_duration_since(used.at) < USED_LIMIT;
        is_used.then_some(used.listed.digest)
    }

    /// Asks a device that is here for layers that it had before, unless it has them, was asked for
    /// them, or has refused. One that may not compute any more is not here: the book lacks it.
    pub(super) fn ask_once_back(
        &mut self,
        peer: PeerId,
        wish: PlacementRequest,
        around: &Surroundings<'_>,
    ) -> Option<Effect> {
        let is_free = self.movable(wish.model, around).contains(&peer);
        let is_asked = self.wishes.is_asked(peer, wish, around.now);
        let is_wanted = is_free && !is_asked && !is_held(peer, wish, around);
        is_wanted.then(|| self.wish(peer, wish, around))
    }

    /// Looks whether layers should lie elsewhere, if it is time to. Never during a reply.
    pub(super) fn look_at_placement(&mut self, around: &Surroundings<'_>) -> Option<Effect> {
        let now = around.now;
        self.model_in_use(now)?;
        let wishes = &mut self.wishes;
        let since = wishes.looked.map(|at| now.saturating_duration_since(at));
        let is_due = since.is_none_or(|since| wishes.is_changed || since >= LOOK_EVERY);
        let is_just_asked = wishes
            .asked
            .values()
            .any(|wish| now.saturating_duration_since(wish.sent) < LOOK_AFTER_WISH);
        let used = wishes.model.clone()?;
        let is_on = around.settings.inference.enabled;
        if !is_due || is_just_asked || wishes.is_looking || !is_on || self.replies_running() > 0 {
            return None;
        }
        let digest = used.listed.digest;
        let wants_gains = self.gains.begin_if_due(digest, self.wishes.is_changed, now);
        let wishes = &mut self.wishes;
        (wishes.looked, wishes.is_looking, wishes.is_changed) = (Some(now), true, false);
        let InUse { listed, file, .. } = used;
        let movable = self.movable(listed.digest, around);
        let aim = (Reach::House, replies::format(None, around));
        let question = self.question(&listed, file, aim, around);
        let gains_with = wants_gains.then(|| super::gains::guests(around));
        let look = PlacementLook { question, movable, gains_with };
        Some(Effect::Start(Task(Work::LookAtPlacement(Box::new(look)))))
    }

    /// What a look found.
    pub(super) fn on_outlook(
        &mut self,
        model: ModelDigest,
        outlook: Option<Box<Outlook>>,
        around: &Surroundings<'_>,
    ) -> Vec<Effect> {
        self.wishes.is_looking = false;
        let is_it = |used: &InUse| used.listed.digest == model;
        let Some(outlook) = outlook.filter(|_| self.wishes.model.as_ref().is_some_and(is_it))
        else {
            return Vec::new();
        };
        let verdict = self.wishes.weigh(&outlook);
        let (can_do_without, mut effects) = match outlook.present {
            Present::Impossible => (false, Vec::new()),
            // Others are used whatever it takes, and need no measuring.
            Present::AsSet => (true, Vec::new()),
            Present::Predicted(_) => (true, self.ask_for_samples(model, around)),
        };
        if let (Verdict::Move, Some(wanted)) = (verdict, outlook.wanted) {
            let is_guess = |share: &Share| self.is_guess(share, model, around);
            // Nothing is fetched on a guess; what was measured by the next looks decides.
            if !(can_do_without && wanted.shares.iter().any(is_guess)) {
                effects.extend(self.take_here(model, outlook.lacking, around.now));
                effects.extend(self.ask_for(model, &wanted.shares, around));
                self.wishes.wanted = Some((outlook.present, wanted));
            }
        }
        effects
    }

    /// Gets the layers that this device lacks of a model of which only its ends are here, because the
    /// others have not the memory for all of the rest.
    fn take_here(
        &mut self,
        model: ModelDigest,
        lacking: Vec<LayerRange>,
        now: Instant,
    ) -> Option<Effect> {
        let is_under_way = self.wishes.taking.as_ref().is_some_and(|(of, layers, since)| {
            let is_same = (of, layers) == (&model, &lacking);
            is_same && now.saturating_duration_since(*since) < FETCH_AGAIN
        });
        let name = self.wishes.model.as_ref()?.listed.name.clone();
        if lacking.is_empty() || is_under_way {
            return None;
        }
        self.wishes.taking = Some((model, lacking.clone(), now));
        Some(Effect::Take { model, name, layers: lacking })
    }

    /// Asks each device that would fetch layers of `model`, and was never measured well with it, for
    /// a few.
    fn ask_for_samples(&mut self, model: ModelDigest, around: &Surroundings<'_>) -> Vec<Effect> {
        let Some(InUse { file, .. }) = self.wishes.model.clone() else { return Vec::new() };
        let Some(layers) = sample(&file, around) else { return Vec::new() };
        let movable = self.movable(model, around);
        let wish = PlacementRequest { model, layers };
        let unsampled: Vec<PeerId> =
            movable.into_iter().filter(|peer| self.is_unsampled(*peer, wish, around)).collect();
        let new = |peer: &PeerId| !self.wishes.is_asked(*peer, wish, around.now);
        let new: Vec<PeerId> = unsampled.into_iter().filter(new).collect();
        new.into_iter().map(|peer| self.wish(peer, wish, around)).collect()
    }

    /// Whether `peer` was asked for layers of `model` a moment ago and was never measured with it.
    fn is_to_be_measured(&self, peer: PeerId, model: ModelDigest, now: Instant) -> bool {
        let is_asked = self.wishes.asked.get(&peer).is_some_and(|wish| {
            wish.model == model && now.saturating_duration_since(wish.at) < MEASURED_WITHIN
        });
        is_asked && self.estimates.speed(Place::Peer(peer), model).decode.is_unknown()
    }

    /// Whether a device that was never measured with `model` would have to fetch its share.
    fn is_guess(&self, share: &Share, model: ModelDigest, around: &Surroundings<'_>) -> bool {
        let Place::Peer(peer) = share.place else { return false };
        let heard = around.book.heard.get(&peer);
        let shards = heard.into_iter().flat_map(|heard| &heard.advert.shards);
        let mut of_it = shards.filter(|shard| shard.model == model);
        let is_here = of_it.any(|shard| shard.layers.contains(share.layers));
        !is_here && self.estimates.speed(share.place, model).decode.is_unknown()
    }

    /// Whether `peer` would fetch layers of `model`, and has too few of them to be measured well: no
    /// line goes through one size. It may have been measured with that one, where what it was asked
    /// for was cut off.
    fn is_unsampled(
        &self,
        peer: PeerId,
        wish: PlacementRequest,
        around: &Surroundings<'_>,
    ) -> bool {
        let Some(heard) = around.book.heard.get(&peer) else { return false };
        let advert = &heard.advert;
        let fetches = advert.sharing && advert.fetch_bytes > 0 && advert.streams_free > 0;
        let of_it = advert.shards.iter().filter(|shard| shard.model == wish.model);
        let longest = of_it.map(|shard| shard.layers.len()).max();
        let is_too_little = match longest {
            Some(layers) => layers < wish.layers.len().min(LINE_LAYERS_MIN),
            None => self.estimates.speed(Place::Peer(peer), wish.model).decode.is_unknown(),
        };
        fetches && is_too_little
    }

    /// Asks the devices whose layers should change, and tells those that are not needed any more.
    fn ask_for(
        &mut self,
        model: ModelDigest,
        shares: &[Share],
        around: &Surroundings<'_>,
    ) -> Vec<Effect> {
        let now = around.now;
        let movable = self.movable(model, around);
        let mut part: BTreeSet<PeerId> = BTreeSet::new();
        let mut effects = Vec::new();
        for share in shares {
            let Place::Peer(peer) = share.place else { continue };
            // One stretch for each device; a second visit to the same one stays as it is.
            if !part.insert(peer) || !movable.contains(&peer) {
                continue;
            }
            let wish = PlacementRequest { model, layers: share.layers };
            if !is_held(peer, wish, around) && !self.wishes.is_asked(peer, wish, now) {
                effects.push(self.wish(peer, wish, around));
            }
        }
        let given_up: Vec<PeerId> = self
            .wishes
            .asked
            .iter()
            .filter(|(peer, wish)| wish.model != model || !part.contains(*peer))
            .map(|(peer, _)| *peer)
            // What it was asked for is what it will be measured with.
            .filter(|peer| !self.is_to_be_measured(*peer, model, now))
            .collect();
        for peer in given_up {
            let Some(wish) = self.wishes.asked.remove(&peer) else { continue };
            let layers = LayerRange::with_len(0, 0);
            effects.push(Effect::AskToHold(peer, PlacementRequest { model: wish.model, layers }));
        }
        effects
    }

    fn wish(&mut self, peer: PeerId, wish: PlacementRequest, around: &Surroundings<'_>) -> Effect {
        tracing::info!(?peer, "asking a device to hold layers {}", wish.layers);
        let PlacementRequest { model, layers } = wish;
        let offer = offer_of(peer, model, around);
        let (sent, at) = (around.now, around.now);
        let asked = Wish { model, layers, state: None, sent, at, offer };
        self.wishes.asked.insert(peer, asked);
        Effect::AskToHold(peer, wish)
    }

    /// A device answers a wish. What nobody asked for says nothing.
    pub(super) fn on_placed(&mut self, peer: PeerId, placed: Placed, around: &Surroundings<'_>) {
        let was_held = self.wishes.state_of(peer, &placed) == Some(PlaceState::Held);
        self.take_placed(peer, placed, around);
        let used = self.wishes.model.clone().filter(|used| used.listed.digest == placed.model);
        let Some(InUse { listed, file, .. }) = used else { return };
        match placed.state {
            // Fetching may take longer than a model counts as in use.
            PlaceState::Fetching { .. } | PlaceState::Loading { .. }
                if self.wishes.state_of(peer, &placed).is_some() =>
            {
                self.want_placement(listed, file, around.now);
            }
            // Not measured with this model yet, perhaps.
            PlaceState::Held if !was_held => self.want_probe(listed, file, around),
            _ => {}
        }
    }

    fn take_placed(&mut self, peer: PeerId, placed: Placed, around: &Surroundings<'_>) {
        let Some(wish) = self.wishes.asked.get_mut(&peer) else { return };
        if (wish.model, wish.layers) != (placed.model, placed.layers) {
            return;
        }
        if let PlaceState::Refused { code } = placed.state {
            tracing::info!(?peer, %code, "a device does not hold the layers");
            // Held or begun before and let go, because its owner has changed something, is no
            // refusal: it may be asked again when that pays.
            let is_begun = matches!(
                wish.state,
                Some(PlaceState::Fetching { .. } | PlaceState::Loading { .. })
            );
            let is_let_go = is_begun && code == ErrorCode::ShardUnavailable;
            if wish.state == Some(PlaceState::Held) || is_let_go {
                self.wishes.asked.remove(&peer);
                return;
            }
        }
        wish.state = Some(placed.state);
        wish.at = around.now;
        wish.offer = offer_of(peer, placed.model, around);
        self.wishes.household_changed();
    }

    /// Devices that have not refused a wish since anything about them changed.
    fn movable(&self, model: ModelDigest, around: &Surroundings<'_>) -> BTreeSet<PeerId> {
        let heard = around.book.heard.keys().copied();
        heard
            .filter(|peer| {
                let offer = offer_of(*peer, model, around);
                !self.wishes.refused(*peer, offer.as_ref(), around.now)
            })
            .collect()
    }

    /// How much has come, 0 to 100, of the layers that `peer` fetches for this device; absent where
    /// it fetches none, or has not said so for a while.
    #[must_use]
    pub fn fetching(&self, peer: PeerId, now: Instant) -> Option<u8> {
        let wish = self.wishes.asked.get(&peer)?;
        match wish.state? {
            PlaceState::Fetching { percent } => {
                let is_fresh = now.saturating_duration_since(wish.at) < SHOWN_LIMIT;
                is_fresh.then_some(percent.min(100))
            }
            _ => None,
        }
    }

    /// Why `peer` has not fetched the layers that this device asked it to hold; absent where it has
    /// not refused, or for another reason.
    #[must_use]
    pub fn not_fetched(&self, peer: PeerId) -> Option<ErrorCode> {
        let wish = self.wishes.asked.get(&peer)?;
        let is_used = self.wishes.model.as_ref().is_some_and(|it| it.listed.digest == wish.model);
        match wish.state.filter(|_| is_used)? {
            PlaceState::Refused {
                code:
                    code @ (ErrorCode::DiskFull
                    | ErrorCode::FetchLimit
                    | ErrorCode::FetchFailed
                    | ErrorCode::BadModel),
            } => Some(code),
            _ => None,
        }
    }

    /// What is wished for, for the owner.
    pub fn placement_view(&self, around: &Surroundings<'_>) -> Option<PlacementView> {
        let (present, wanted) = self.wishes.wanted.as_ref()?;
        let model = self.wishes.model.as_ref()?.listed.name.clone();
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        let then = seconds(wanted.prediction.total);
        let because = match present {
            Present::Predicted(now) => {
                let now = seconds(now.total);
                format!("The usual reply would take {then} with these layers in memory, not {now}.")
            }
            Present::AsSet | Present::Impossible => {
                "As the layers lay, other devices could not help with a reply.".to_owned()
            }
        };
        let shares = wanted.shares.iter().map(|share| self.share_view(share, around));
        Some(PlacementView { model, because, shares: shares.collect() })
    }

    fn share_view(&self, share: &Share, around: &Surroundings<'_>) -> ShareView {
        let (id, device, answer) = match share.place {
            Place::Local => (around.me.id, around.me.name.clone(), None),
            Place::Peer(peer) => {
                let wish = self.wishes.asked.get(&peer);
                let wish = wish.filter(|wish| wish.layers == share.layers);
                (peer, around.book.name(&peer), wish.map(|wish| sentence(wish.state)))
            }
        };
        ShareView {
            device_id: id.to_string(),
            device,
            first_layer: share.layers.start(),
            last_layer: share.layers.end().saturating_sub(1),
            answer,
        }
    }
}

/// The layers that a device is asked for so that it can be measured: behind those that stay here.
/// None of a model that has too few to be divided.
fn sample(file: &ModelFile, around: &Surroundings<'_>) -> Option<LayerRange> {
    let layers = file.shape().layers;
    let ends = replies::ends(&around.settings.inference);
    let first = ends.prefix.min(layers);
    let between = layers.saturating_sub(first).saturating_sub(ends.suffix);
    let one = file.weight_bytes(&ModelPart::inner(LayerRange::with_len(first, between.min(1))));
    let wished = (SAMPLE_BYTES / one.max(1)).clamp(*SAMPLE_LAYERS.start(), *SAMPLE_LAYERS.end());
    let len = u32::try_from(wished).unwrap_or(u32::MAX).min(between);
    (len > 0).then(|| LayerRange::with_len(first, len))
}

/// Whether a device says that it has the layers of `wish` in memory.
fn is_held(peer: PeerId, wish: PlacementRequest, around: &Surroundings<'_>) -> bool {
    let heard = around.book.heard.get(&peer);
    let shards = heard.into_iter().flat_map(|heard| &heard.advert.shards);
    let mut of_it = shards.filter(|shard| shard.model == wish.model);
    of_it.any(|shard| shard.held.contains(wish.layers))
}

/// What `peer` offers of `model` now.
fn offer_of(peer: PeerId, model: ModelDigest, around: &Surroundings<'_>) -> Option<Offer> {
    around.book.heard.get(&peer).map(|heard| offer(&heard.advert, model))
}

/// What matters of an advert for whether to ask again.
fn offer(advert: &Advert, model: ModelDigest) -> Offer {
    let shards = advert.shards.iter().filter(|shard| shard.model == model);
    Offer {
        layers: shards.map(|shard| shard.layers).collect(),
        memory_free: advert.memory_free_bytes,
        fetch_bytes: advert.fetch_bytes,
    }
}

fn sentence(state: Option<PlaceState>) -> String {
    match state {
        None => "asked".to_owned(),
        Some(PlaceState::Held) => "in memory".to_owned(),
        Some(PlaceState::Fetching { percent }) => {
            format!("getting the layers: {} %", percent.min(100))
        }
        Some(PlaceState::Loading { percent }) => format!("loading {} %", percent.min(100)),
        Some(PlaceState::Refused { code }) => refusal(code),
    }
}

fn refusal(code: ErrorCode) -> String {
    format!("refused ({}): {}", code.name(), code.sentence())
}

#[cfg(test)]
mod tests;
