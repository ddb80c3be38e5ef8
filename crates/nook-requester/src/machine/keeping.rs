//! What was measured, kept over a restart of the node.
//!
//! Speeds, ways, sizes of numbers and who is left out are written from time to time while they
//! change, and when the node leaves; they come back with their age at the next start
//! (`nook_store::measured`). No line of it says what was asked or answered.

use std::time::{Duration, Instant};

use nook_base::{LayerRange, ModelDigest};
use nook_pipeline::{CircuitBreakerRecord, NormRange, SpanNormRange};
use nook_plan::{BytesPerSecond, Figure, Line, Link, Place, RoundTrip, Speed};
use nook_resources::estimates::Ends;
use nook_store::{GainRange, Measured, MeasuredConduct, MeasuredGain, MeasuredSpeed, MeasuredWay};

use crate::machine::{Effect, Requester, Surroundings};

/// Time between two writes while something changes. A crash loses as much, which is measured anew.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// When what was measured is to be written.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// Something was measured since the last write.
    is_due: bool,
    saved: Instant,
}

impl Keeping {
    pub(crate) fn new(now: Instant) -> Self {
        Self { is_due: false, saved: now }
    }

    /// Something is worth keeping.
    pub(crate) fn note(&mut self) {
        self.is_due = true;
    }
}

impl Requester {
    /// Has what was measured written, if it is time to.
    pub(super) fn keep_if_due(&mut self, around: &Surroundings<'_>) -> Option<Effect> {
        let since = around.now.saturating_duration_since(self.keeping.saved);
        if !self.keeping.is_due || since < SAVE_EVERY {
            return None;
        }
        (self.keeping.is_due, self.keeping.saved) = (false, around.now);
        Some(Effect::Keep(self.to_keep(around)))
    }

    /// Has it written now, before the node leaves.
    pub(super) fn keep_now(&mut self, around: &Surroundings<'_>) -> Vec<Effect> {
        match std::mem::take(&mut self.keeping.is_due) {
            true => vec![Effect::KeepNow(self.to_keep(around))],
            false => Vec::new(),
        }
    }

    fn to_keep(&self, around: &Surroundings<'_>) -> Measured {
        let (now, unix) = (around.now, around.unix);
        let ago = |at: Instant| unix.saturating_sub(now.saturating_duration_since(at).as_secs());
        let speeds = self.estimates.heard_speeds();
        let ways = self.estimates.heard_links();
        let conduct = self.records.conduct(now);
        Measured {
            speeds: speeds.map(|(key, speed, at)| speed_entry(key, &speed, ago(at))).collect(),
            ways: ways
                .map(|(peer, link, ends, at)| way_entry(peer, &link, ends, ago(at)))
                .collect(),
            norm_bounds: self
                .records
                .all_gains()
                .map(|(model, at, span)| gain(model, &span, at))
                .collect(),
            conduct: conduct
                .map(|(peer, record)| MeasuredConduct {
                    device: Some(peer),
                    times: record.times,
                    until: unix.saturating_add(record.left_out.as_secs()),
                })
                .collect(),
            helped: self.helped.to_keep(),
            // Of the workers, which the node asks.
            backends: Vec::new(),
        }
    }

    /// Takes back what an earlier run has kept, of devices that are still paired.
    pub(super) fn take_back(&mut self, measured: Measured, around: &Surroundings<'_>) {
        let (now, unix, is_paired) = (around.now, around.unix, around.is_paired);
        let then = |at: u64| {
            let age = Duration::from_secs(unix.saturating_sub(at));
            // A clock that began with this boot cannot say it; then it counts as new.
            now.checked_sub(age).unwrap_or(now)
        };
        for kept in measured.speeds {
            let place = kept.device.map_or(Place::Local, Place::Peer);
            if kept.device.is_none_or(is_paired) {
                self.estimates.restore_speed((place, kept.model), &speed_of(&kept), then(kept.at));
            }
        }
        for kept in measured.ways {
            if let Some(peer) = kept.device.filter(|peer| is_paired(*peer)) {
                let way = (&link_of(&kept), kept.ends);
                self.estimates.restore_link(peer, way, then(kept.at));
            }
        }
        for kept in &measured.norm_bounds {
            if let Some(span) = span_of(kept) {
                self.records.restore_gains(kept.model, &span, kept.at);
            }
        }
        let mut helped = measured.helped;
        helped.sort_by_key(|kept| kept.day);
        for kept in helped {
            if let Some(peer) = kept.device.filter(|peer| is_paired(*peer)) {
                self.helped.add(peer, kept.day, kept.positions);
            }
        }
        self.helped.forget_old(around.today);
        for kept in measured.conduct {
            if let Some(peer) = kept.device.filter(|peer| is_paired(*peer)) {
                let left_out = Duration::from_secs(kept.until.saturating_sub(unix));
                let record = CircuitBreakerRecord { times: kept.times, left_out };
                self.records.restore_conduct(peer, record, now);
            }
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn speed_entry((place, model): (Place, ModelDigest), speed: &Speed, at: u64) -> MeasuredSpeed {
    let line =
        |figure: Figure<Line>| figure.measured().map(|it| [nanos(it.fixed), nanos(it.slope)]);
    let device = match place {
        Place::Local => None,
        Place::Peer(peer) => Some(peer),
    };
    MeasuredSpeed {
        device,
        model,
        decode: line(speed.decode),
        prefill: line(speed.prefill),
        load: speed.load.measured().map(|rate| rate.0),
        ends: speed.ends.measured().map(nanos),
        at,
    }
}

fn speed_of(kept: &MeasuredSpeed) -> Speed {
    let time = Duration::from_nanos;
    let line = |kept: Option<[u64; 2]>| {
        kept.map(|[fixed, slope]| Line { fixed: time(fixed), slope: time(slope) }).into()
    };
    Speed {
        decode: line(kept.decode),
        prefill: line(kept.prefill),
        load: kept.load.map(BytesPerSecond).into(),
        ends: kept.ends.map(time).into(),
    }
}

fn way_entry(peer: nook_base::PeerId, link: &Link, ends: Option<Ends>, at: u64) -> MeasuredWay {
    let trip = link.round_trip.measured();
    MeasuredWay {
        device: Some(peer),
        round_trip: trip.map(|trip| [nanos(trip.mean), nanos(trip.deviation)]),
        bandwidth: link.bandwidth.measured().map(|rate| rate.0),
        ends,
        at,
    }
}

fn link_of(kept: &MeasuredWay) -> Link {
    let time = Duration::from_nanos;
    let trip = kept.round_trip;
    Link {
        round_trip: trip
            .map(|[mean, deviation]| RoundTrip { mean: time(mean), deviation: time(deviation) })
            .into(),
        bandwidth: kept.bandwidth.map(BytesPerSecond).into(),
    }
}

fn gain(model: ModelDigest, span: &SpanNormRange, at: u64) -> MeasuredGain {
    let range = |seen: NormRange| {
        let NormRange { rows, low, high, ours } = seen;
        GainRange { rows, low, high, ours }
    };
    let layers = [span.layers.start(), span.layers.end()];
    MeasuredGain { model, layers, first: span.first.map(range), others: span.others.map(range), at }
}

fn span_of(kept: &MeasuredGain) -> Option<SpanNormRange> {
    let seen = |range: GainRange| {
        let GainRange { rows, low, high, ours } = range;
        NormRange { rows, low, high, ours }
    };
    let layers = LayerRange::new(kept.layers[0], kept.layers[1]).ok()?;
    Some(SpanNormRange { layers, first: kept.first.map(seen), others: kept.others.map(seen) })
}

#[cfg(test)]
mod tests {
    use nook_base::PeerId;

    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let us = Duration::from_micros;
        let speed = Speed {
            decode: Figure::Measured(Line { fixed: us(90), slope: us(70) }),
            prefill: Figure::Unknown,
            load: Figure::Measured(BytesPerSecond(5)),
            ends: Figure::Measured(us(300)),
        };
        let key = (Place::Peer(PeerId([3; 32])), ModelDigest([4; 32]));
        assert_eq!(speed_of(&speed_entry(key, &speed, 9)), speed);
        let trip = RoundTrip { mean: us(800), deviation: us(60) };
        let link = Link { round_trip: Figure::Measured(trip), bandwidth: Figure::Unknown };
        assert_eq!(link_of(&way_entry(PeerId([3; 32]), &link, None, 9)), link);
        let seen = NormRange { rows: 40, low: -0.5, high: 0.25, ours: false };
        let layers = LayerRange::with_len(2, 3);
        let span = SpanNormRange { layers, first: None, others: Some(seen) };
        assert_eq!(span_of(&gain(key.1, &span, 9)), Some(span));
    }
}
