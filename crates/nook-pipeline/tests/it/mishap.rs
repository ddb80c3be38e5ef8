//! What befalls a simulated house: devices that die, fall silent, stutter, lie or leave.

use std::time::Duration;

use nook_base::{Activation, ActivationDtype};
use nook_pipeline::{AttemptId, Event};
use nook_plan::Place;

use crate::case::{Fault, Garbage, IN_USE, peer};
use crate::toy::HIDDEN;
use crate::world::World;

impl World {
    pub(crate) fn befall(&mut self, fault: Fault) {
        let named = match fault {
            Fault::Kill(index)
            | Fault::Away(index, _)
            | Fault::BlackHole(index)
            | Fault::Slow(index, _)
            | Fault::Stall(index, _)
            | Fault::Trickle(index, _)
            | Fault::Error(index, _)
            | Fault::Corrupt(index, _)
            | Fault::Lie(index)
            | Fault::Overflow(index)
            | Fault::Full(index)
            | Fault::CutOff(index)
            | Fault::Drain(index) => self.victim(index),
            _ => None,
        };
        if let Some(state) = named.and_then(|index| self.peers.get_mut(index)) {
            match fault {
                Fault::Kill(_) => state.dead = true,
                Fault::Away(_, time) => {
                    (state.dead, state.back_at) = (true, Some(self.now + time));
                }
                Fault::BlackHole(_) => state.silent = true,
                Fault::Slow(_, times) => state.slower = times,
                Fault::Stall(_, delay) => state.delay_next = delay,
                Fault::Trickle(_, delay) => state.trickle_next = delay,
                Fault::Error(_, code) => state.error_next = Some(code),
                Fault::Corrupt(_, garbage) => state.garbage_next = Some(garbage),
                Fault::Lie(_) => state.lies = true,
                Fault::Overflow(_) => state.overflow_next = true,
                Fault::Full(_) => state.full = true,
                Fault::CutOff(_) => {}
                _ => state.draining = true,
            }
        }
        let place = named.map(|index| Place::Peer(peer(index)));
        match fault {
            Fault::Kill(_) | Fault::Away(..) => self.lose(place),
            Fault::BlackHole(_) => self.silence(place),
            Fault::Drain(_) => self.announce_leaving(place),
            Fault::CutOff(_) => self.cut_off(place),
            Fault::LocalCrash => self.lose(Some(Place::Local)),
            Fault::LocalRefusesMiddle => self.local_refuses_middle = true,
            Fault::OffersUnanswered => self.offers_unanswered = true,
            Fault::Cancel => self.after(Duration::ZERO, None, Event::Cancel),
            _ => {}
        }
    }

    fn victim(&self, index: usize) -> Option<usize> {
        let all: Vec<usize> = (0..self.peers.len()).collect();
        let in_use = all.iter().copied().filter(|peer| self.calls(*peer) > 0).collect();
        let (from, index) = match index.checked_sub(IN_USE) {
            Some(index) => (in_use, index),
            None => (all, index),
        };
        from.get(index % from.len().max(1)).copied()
    }

    /// What was under way never arrives; the loss is noticed a little later.
    fn lose(&mut self, place: Option<Place>) {
        for attempt in self.calls_of(place) {
            if let Some(host) = self.hosts.get_mut(&attempt) {
                host.dead = true;
            }
            let delay = Duration::from_micros(self.chance(2_000));
            self.after(delay, Some(attempt), Event::Lost { attempt });
        }
    }

    fn silence(&mut self, place: Option<Place>) {
        for attempt in self.calls_of(place) {
            if let Some(host) = self.hosts.get_mut(&attempt) {
                host.dead = true;
            }
        }
    }

    fn announce_leaving(&mut self, place: Option<Place>) {
        for attempt in self.calls_of(place) {
            let delay = Duration::from_micros(self.chance(2_000));
            self.offer_caches(attempt, delay);
            self.after(delay, Some(attempt), Event::Draining { attempt });
        }
    }

    fn cut_off(&mut self, place: Option<Place>) {
        for attempt in self.calls_of(place) {
            let Some(host) = self.hosts.get_mut(&attempt) else { continue };
            let ends = [Some(attempt), host.onward];
            if host.told {
                host.cut = true;
                for attempt in ends.into_iter().flatten() {
                    let delay = Duration::from_micros(self.chance(2_000));
                    let refused = Some(nook_base::ErrorCode::ShardUnavailable);
                    self.after(delay, Some(attempt), Event::Forwarding { attempt, refused });
                }
            }
        }
    }

    fn calls_of(&self, place: Option<Place>) -> Vec<AttemptId> {
        let calls = self.hosts.iter().filter(|(_, host)| !host.closed);
        let calls = calls.filter(|(_, host)| Some(host.place) == place);
        calls.map(|(attempt, _)| *attempt).collect()
    }
}

/// Turns a result into one that must be refused.
pub(crate) fn spoil(event: Event, garbage: Garbage, input: Option<Activation>) -> Event {
    let Event::Output {
        attempt,
        mut step,
        mut position,
        count,
        mut activation,
        compute_us,
        queue_us,
    } = event
    else {
        return event;
    };
    let remake = |tokens, dtype, bytes: Vec<u8>| {
        Activation::new(tokens, HIDDEN, dtype, bytes.into()).expect("lengths are kept")
    };
    let (dtype, len) = (activation.dtype(), activation.bytes().len());
    // Where a device before this one has left out a row, there may be none: it is refused as it is.
    if activation.tokens() != count {
        return Event::Output { attempt, step, position, count, activation, compute_us, queue_us };
    }
    match garbage {
        Garbage::NotANumber => {
            let mut bytes = activation.bytes().to_vec();
            // The last row: of q8 the scale too.
            bytes[len - dtype.row_bytes(HIDDEN)..].fill(0xff);
            activation = remake(count, dtype, bytes);
        }
        Garbage::Zero => activation = remake(count, dtype, vec![0; len]),
        Garbage::Copy => activation = input.unwrap_or(activation),
        Garbage::RowMissing => activation = activation.rows(1, count),
        Garbage::OtherType => {
            let other = match dtype {
                ActivationDtype::F16 => ActivationDtype::Q8,
                ActivationDtype::F32 => ActivationDtype::F16,
                ActivationDtype::Q8 => ActivationDtype::F32,
            };
            let numbers = activation.to_f32();
            activation = Activation::from_f32(&numbers, HIDDEN, other).expect("small numbers");
        }
        Garbage::Thousandfold => {
            let numbers: Vec<f32> = activation.to_f32().iter().map(|x| x * 1_000.0).collect();
            activation = Activation::from_f32(&numbers, HIDDEN, dtype).expect("f32 holds them");
        }
        Garbage::Nudged => {
            let mut numbers = activation.to_f32();
            numbers[0] += 500.0;
            activation = Activation::from_f32(&numbers, HIDDEN, dtype).expect("small numbers");
        }
        Garbage::OtherPosition => position += 1,
        Garbage::FutureStep => step += 1,
    }
    Event::Output { attempt, step, position, count, activation, compute_us, queue_us }
}
