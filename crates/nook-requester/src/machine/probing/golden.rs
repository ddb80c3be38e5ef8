//! The golden probe: does a device compute these layers as this one does?
//!
//! Adverts promise a model by its digest, and cheap checks see only what no layer could have
//! answered. So before a device is first relied on, known numbers go through one of its layers and
//! through the same layer here, and both answers are compared. The numbers are drawn from a fixed
//! seed and hold nothing of a person's; which layer is asked nobody can foresee, unless this device
//! has only its ends of the model, and with them one layer to compare. What was found
//! counts for as long as device, model, offered layers and version of the app stay the same, at
//! most [`FORGET_AFTER`]; then it is asked again, so that a device that was mended comes back. A
//! device whose answer is wrong gets no layers of that model meanwhile, nor does one that a spot
//! check of this device has contradicted in a reply, until it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nook_base::{
    Activation, ActivationDtype, ErrorCode, LayerRange, ModelDigest, ModelPart, PeerId,
};
use nook_mux::Call;
use nook_wire::{
    LocalMessage, Message, Open, PrefixHash, StepHead, TensorAssembly, WorkerMessage, chunks_of,
};
use rand::rngs::StdRng;
use rand::seq::IteratorRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::machine::probing::call::{Failed, hear};
use crate::reply::segment_call::{CallMessage, Heard};
use nook_resources::estimates::ESTIMATES_MAX;

/// How long a finding counts.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// Rows that are sent: attention has something to attend to.
const ROWS: u32 = 4;

/// The numbers are always the same, so that an answer that was once wrong can be looked at again.
const SEED: u64 = 0x676f_6c64_656e_2131;

/// They travel exactly.
const DTYPE: ActivationDtype = ActivationDtype::F32;

/// How far answers of two honest devices may lie apart, as a part of a row's RMS: sixteen steps of
/// f16 at 1, as for spot checks. Processors agree to the bit, graphics cards within rounding.
const TOLERANCE: f64 = 16.0 / 1024.0;

/// What was found of devices.
#[derive(Debug, Default)]
pub(crate) struct GoldenBook {
    /// At most [`ESTIMATES_MAX`]; of more, the oldest is forgotten and asked again.
    found: BTreeMap<(PeerId, ModelDigest), Found>,
}

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) peer: PeerId,
    pub(crate) model: ModelDigest,
    /// What it offers.
    pub(crate) layers: LayerRange,
    /// Of the app there.
    pub(crate) version: String,
}

#[derive(Debug)]
struct Found {
    /// What it is about; absent where nobody has asked and a reply has found it.
    of: Option<(LayerRange, String)>,
    agrees: bool,
    at: Instant,
}

impl GoldenBook {
    /// Whether `subject` is to be asked.
    pub(crate) fn is_due(&self, subject: &Subject, now: Instant) -> bool {
        let found = self.found.get(&(subject.peer, subject.model));
        found.is_none_or(|found| !found.is_of(subject) || found.is_old(now))
    }

    /// A reply has found that `peer` computes `model` otherwise than this device. Where they differ
    /// by rounding alone, comparing them clears it.
    pub(crate) fn contradicted(&mut self, peer: PeerId, model: ModelDigest, now: Instant) {
        self.keep((peer, model), Found { of: None, agrees: false, at: now });
    }

    /// What was found of `peer` and `model` counts no more; a fault that is known stays known until
    /// then.
    pub(crate) fn ask_again(&mut self, peer: PeerId, model: ModelDigest) {
        if let Some(found) = self.found.get_mut(&(peer, model)) {
            found.of = None;
        }
    }

    /// Devices that are left out of `model`, and are to be asked all the same.
    pub(crate) fn in_doubt(&self, model: ModelDigest) -> BTreeSet<PeerId> {
        let doubted = self
            .found
            .iter()
            .filter(|((_, of), found)| *of == model && found.of.is_none() && !found.agrees);
        doubted.map(|((peer, _), _)| *peer).collect()
    }

    /// Takes in what was found; whether that changes what the device may be used for.
    pub(crate) fn note(&mut self, subject: Subject, agrees: bool, now: Instant) -> bool {
        let Subject { peer, model, layers, version } = subject;
        let found = Found { of: Some((layers, version)), agrees, at: now };
        let before = self.keep((peer, model), found);
        before.is_none_or(|before| before.agrees) != agrees
    }

    /// What was known before.
    fn keep(&mut self, key: (PeerId, ModelDigest), found: Found) -> Option<Found> {
        if self.found.len() >= ESTIMATES_MAX
            && !self.found.contains_key(&key)
            && let Some(oldest) = self.found.iter().min_by_key(|(_, found)| found.at)
        {
            let oldest = *oldest.0;
            self.found.remove(&oldest);
        }
        self.found.insert(key, found)
    }

    /// Devices that compute a model wrongly, each with the model; none whose finding is old.
    pub(crate) fn wrong(&self, now: Instant) -> impl Iterator<Item = (PeerId, ModelDigest)> {
        let wrong = self.found.iter().filter(move |(_, found)| !found.agrees && !found.is_old(now));
        wrong.map(|(key, _)| *key)
    }

    /// The device is not paired any more.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.found.retain(|(known, _), _| *known != peer);
    }
}

impl Found {
    fn is_of(&self, subject: &Subject) -> bool {
        self.of.as_ref().is_some_and(|of| (of.0, &of.1) == (subject.layers, &subject.version))
    }

    fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= FORGET_AFTER
    }
}

/// Layers of those that are `offered` whose weights this device has: the longest stretch, or none.
pub(crate) fn in_common(offered: LayerRange, here: &[LayerRange]) -> Option<LayerRange> {
    let common = here.iter().map(|here| here.intersection(offered));
    common.filter(|layers| !layers.is_empty()).max_by_key(|layers| layers.len())
}

/// One of `layers`, by chance, of those that may be cut from the layers around them: `may_cut` says
/// so of the boundary before a layer.
pub(crate) fn one_of(layers: LayerRange, may_cut: impl Fn(u32) -> bool) -> Option<LayerRange> {
    let alone = |layer: &u32| may_cut(*layer) && may_cut(layer + 1);
    let chosen = layers.iter().filter(alone).choose(&mut rand::rng())?;
    Some(LayerRange::with_len(chosen, 1))
}

/// What a device makes of the known numbers in `layer`.
pub(crate) async fn of_peer(
    call: Call<Message>,
    model: ModelDigest,
    layer: LayerRange,
    hidden: u32,
) -> Result<Activation, Failed> {
    let open = Message::Open(Open {
        session: rand::random(),
        model,
        layers: layer,
        dtype: DTYPE,
        positions_max: ROWS,
        resume: None,
    });
    answer(call, open, layer, hidden).await
}

/// What this device's own worker makes of them.
pub(crate) async fn of_worker(
    call: Call<WorkerMessage>,
    layer: LayerRange,
    hidden: u32,
) -> Result<Activation, Failed> {
    let open = LocalMessage::OpenLocal {
        session: rand::random(),
        part: ModelPart::inner(layer),
        dtype: DTYPE,
        positions_max: ROWS,
        resume: None,
    };
    answer(call, open.into(), layer, hidden).await
}

/// Whether both can be right.
pub(crate) fn agree(one: &Activation, other: &Activation) -> bool {
    let width = (one.hidden() as usize).max(1);
    let (one, other) = (one.to_f32(), other.to_f32());
    one.len() == other.len()
        && one.chunks(width).zip(other.chunks(width)).all(|(one, other)| {
            let square = |x: f64| x * x;
            let energy: f64 = one.iter().map(|x| square(f64::from(*x))).sum();
            let apart: f64 = one.iter().zip(other).map(|(a, b)| square(f64::from(a - b))).sum();
            // Nothing is near what is no number.
            apart <= energy * square(TOLERANCE)
        })
}

/// The known numbers, about as large as hidden states are; for each layer others.
fn known(layer: LayerRange, hidden: u32) -> Option<Activation> {
    let mut random = StdRng::seed_from_u64(SEED ^ u64::from(layer.start()));
    let count = (ROWS as usize).checked_mul(hidden as usize)?;
    let numbers: Vec<f32> = (0..count).map(|_| random.random_range(-1.0..1.0)).collect();
    Activation::from_f32(&numbers, hidden, DTYPE).ok()
}

async fn answer<M: CallMessage>(
    mut call: Call<M>,
    open: M,
    layer: LayerRange,
    hidden: u32,
) -> Result<Activation, Failed> {
    call.send(open).await.map_err(|_| Failed::Gone)?;
    let Heard::Opened { position: 0 } = hear(&mut call).await? else {
        return Err(Failed::OutOfTurn);
    };
    let input = known(layer, hidden).ok_or(Failed::OutOfTurn)?;
    let head = StepHead {
        step: 0,
        position: 0,
        count: ROWS,
        hidden,
        dtype: DTYPE,
        history_before: PrefixHash(rand::random()),
        history_after: PrefixHash(rand::random()),
        bulk: true,
    };
    let head = M::from_peer(Message::Step(head));
    call.send(head).await.map_err(|_| Failed::Gone)?;
    for chunk in chunks_of(input.bytes().clone()) {
        let chunk = M::from_peer(Message::Chunk(chunk));
        call.send(chunk).await.map_err(|_| Failed::Gone)?;
    }
    let Heard::Result(head) = hear(&mut call).await? else { return Err(Failed::OutOfTurn) };
    let mut rows =
        TensorAssembly::new(head.count, head.hidden, head.dtype).map_err(|_| Failed::OutOfTurn)?;
    loop {
        let message = call.recv().await.map_err(|_| Failed::Gone)?;
        let Ok(Message::Chunk(chunk)) = message.into_peer() else { return Err(Failed::OutOfTurn) };
        if let Some(whole) = rows.take(chunk).map_err(|_| Failed::OutOfTurn)? {
            // With a code, so that nothing of it is kept for a second turn.
            call.close(Some(ErrorCode::Cancelled));
            return Ok(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    fn subject(version: &str, layers: u32) -> Subject {
        Subject {
            peer: PeerId([1; 32]),
            model: ModelDigest([2; 32]),
            layers: LayerRange::with_len(1, layers),
            version: version.to_owned(),
        }
    }

    #[test]
    fn a_device_is_asked_once_until_something_about_it_changes() {
        let (mut book, now) = (GoldenBook::default(), clock::now());
        assert!(book.is_due(&subject("1", 4), now));
        assert!(!book.note(subject("1", 4), true, now), "an honest one is used as before");
        assert!(!book.is_due(&subject("1", 4), now));
        assert!(book.is_due(&subject("2", 4), now), "another program");
        assert!(book.is_due(&subject("1", 5), now), "other layers");
        assert!(book.is_due(&subject("1", 4), now + FORGET_AFTER));
        assert!(book.note(subject("1", 4), false, now), "from now on it is not used");
        assert_eq!(book.wrong(now).count(), 1);
        assert_eq!(book.wrong(now + FORGET_AFTER).count(), 0, "it may try again");
        assert!(!book.note(subject("1", 4), false, now), "as before");
        assert!(book.note(subject("1", 4), true, now), "it was mended");
        assert_eq!(book.wrong(now).count(), 0);
        book.forget(PeerId([1; 32]));
        assert!(book.is_due(&subject("1", 4), now));
    }

    #[test]
    fn who_was_contradicted_is_left_out_until_it_has_been_asked() {
        let (mut book, now) = (GoldenBook::default(), clock::now());
        let Subject { peer, model, .. } = subject("1", 4);
        book.note(subject("1", 4), true, now);
        book.contradicted(peer, model, now);
        assert_eq!(book.wrong(now).collect::<Vec<_>>(), [(peer, model)]);
        assert!(book.in_doubt(model).contains(&peer), "it can be asked although it is left out");
        assert!(book.in_doubt(ModelDigest([3; 32])).is_empty());
        assert!(book.is_due(&subject("1", 4), now));
        assert!(book.note(subject("1", 4), true, now), "it was rounding");
        assert_eq!(book.wrong(now).count(), 0);
        book.contradicted(peer, model, now);
        assert!(!book.note(subject("1", 4), false, now), "it is wrong, as was thought");
        assert!(book.in_doubt(model).is_empty() && !book.is_due(&subject("1", 4), now));
    }

    #[test]
    fn who_was_contradicted_by_another_device_is_used_and_asked_again() {
        let (mut book, now) = (GoldenBook::default(), clock::now());
        let Subject { peer, model, .. } = subject("1", 4);
        book.ask_again(peer, model);
        assert!(book.is_due(&subject("1", 4), now), "nobody has asked it yet");
        book.note(subject("1", 4), true, now);
        book.ask_again(peer, model);
        assert!(book.is_due(&subject("1", 4), now) && book.wrong(now).count() == 0);
    }

    #[test]
    fn no_more_is_remembered_than_the_limit() {
        let (mut book, now) = (GoldenBook::default(), clock::now());
        for index in 0..2 * ESTIMATES_MAX {
            let mut peer = PeerId([0; 32]);
            peer.0[..8].copy_from_slice(&index.to_le_bytes());
            let at = now + Duration::from_secs(index as u64);
            book.note(Subject { peer, ..subject("1", 4) }, true, at);
        }
        assert_eq!(book.found.len(), ESTIMATES_MAX);
    }

    #[test]
    fn answers_agree_within_rounding_and_no_further() {
        let rows = |last: f32| Activation::from_f32(&[1.0, -1.0, 1.0, last], 2, DTYPE).unwrap();
        assert!(agree(&rows(1.0), &rows(1.0)) && agree(&rows(1.0), &rows(1.01)));
        for other in [1.1, -1.0, 0.0, f32::MAX] {
            assert!(!agree(&rows(1.0), &rows(other)), "{other}");
        }
        // What is no number cannot be made here, but it can come.
        let bytes = [1.0, -1.0, 1.0, f32::NAN].iter().flat_map(|x| f32::to_le_bytes(*x)).collect();
        let noise = Activation::new(2, 2, DTYPE, bytes).unwrap();
        assert!(!agree(&rows(1.0), &noise) && !agree(&noise, &noise));
        let shorter = Activation::from_f32(&[1.0, -1.0], 2, DTYPE).unwrap();
        assert!(!agree(&rows(1.0), &shorter));
    }

    #[test]
    fn what_is_compared_is_here_and_offered() {
        let range = LayerRange::with_len;
        let ends = [range(0, 2), range(11, 1)];
        assert_eq!(in_common(range(1, 10), &ends), Some(range(1, 1)), "the one layer more");
        assert_eq!(in_common(range(2, 9), &ends), None, "nothing of it is here");
        assert_eq!(in_common(range(0, 12), &ends), Some(range(0, 2)));
        assert_eq!(in_common(range(4, 3), &[range(0, 12)]), Some(range(4, 3)));
        assert_eq!(in_common(range(4, 3), &[]), None);
    }

    #[test]
    fn the_layer_that_is_asked_is_one_of_those_that_are_offered() {
        let layers = LayerRange::with_len(3, 5);
        for _ in 0..50 {
            let one = one_of(layers, |_| true).unwrap();
            assert!(one.len() == 1 && layers.contains(one));
            // Layers 4 and later hang together.
            let alone = one_of(layers, |layer| layer <= 4);
            assert_eq!(alone, Some(LayerRange::with_len(3, 1)));
        }
        assert_eq!(one_of(layers, |layer| layer < 4), None);
        let one = one_of(layers, |_| true).unwrap();
        assert!(known(one, 8).is_some_and(|rows| rows.tokens() == ROWS));
    }
}
