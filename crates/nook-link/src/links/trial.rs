//! Trying other ways to a device while a link stands: the connections, the exchange, the offer.
//!
//! A trial is a connection that says TRIAL where others say HELLO. The side that tries opens one to
//! the present address too, by the present interface, so that both are measured under like
//! conditions: fresh, and in turns. Should one be better, the link goes on over that very
//! connection ([`nook_mux::Mover`]).

mod served;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nook_base::{PeerId, clock};
use nook_mux::{Mover, Mux};
use nook_wire::{Message, Move, WayFigures};
use rand::Rng as _;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::dial;
use super::exchange::{Silent, TrialSocket};
use super::greet::Greeter;
use super::input::{AddressFailure, Input, Passage, Tried};
use super::session::{LinkStream, Upgraded};
use super::ways::{Candidate, Ending, Measured, Needed, Verdict, judge, median};
use crate::tls;
use crate::websocket::FrameSocket;

pub(super) use served::{follow, serve};

/// Trials at once, of all devices; further ones wait for their turn.
pub(super) const TRIALS_MAX: usize = 2;

/// A trial that takes longer is given up.
const TRIAL_MAX: Duration = Duration::from_secs(60);

/// Times that each way is measured.
const ROUNDS: usize = 3;

/// Round trips in one round; the one in the middle counts.
const TRIPS: usize = 5;

/// A row of activations: 2,048 numbers of 16 bits.
const ROW_BYTES: u32 = 4 << 10;

/// The first burst, there and back: it also opens the connection's window.
const FIRST_BURST_BYTES: u32 = 16 << 10;

/// The largest.
const BURST_BYTES_MAX: u32 = 256 << 10;

/// How much larger each burst is than the one before.
const BURST_GROWTH: u32 = 4;

/// A burst that takes longer tells enough. A larger one would keep a slow link busy, and a reply that
/// runs there waiting.
const SLOW: Duration = Duration::from_millis(100);

/// A link that carries more than this in a second of the trial is busy.
const BUSY_BYTES_PER_SECOND: u64 = 32 << 10;

/// One trial for one link.
#[derive(Debug)]
pub(super) struct TrialTask {
    pub(super) greeter: Arc<Greeter>,
    pub(super) turns: Arc<Semaphore>,
    pub(super) peer: PeerId,
    /// Of the link.
    pub(super) number: u64,
    /// Where the link leads, and the address of this device that it comes from.
    pub(super) present: (SocketAddr, SocketAddr),
    pub(super) others: Vec<(Candidate, Needed)>,
    pub(super) mux: Mux<Message>,
    pub(super) mover: Mover<FrameSocket<LinkStream>>,
}

impl TrialTask {
    pub(super) async fn run(self) {
        let (mut answered, mut failures) = (Vec::new(), Vec::new());
        let found = {
            let Ok(_turn) = self.turns.acquire().await else {
                return;
            };
            timeout(TRIAL_MAX, self.try_all(&mut answered, &mut failures)).await
        };
        let outcome = match found.unwrap_or(Err(Ending::Undecided)) {
            Ok(better) => self.go_on(better).await.ok_or(Ending::Undecided),
            Err(ending) => Err(ending),
        };
        let (peer, number) = (self.peer, self.number);
        let input = match outcome {
            Ok(passage) => Input::Moved { peer, number, passage },
            Err(ending) => Input::Tried(Tried { peer, number, answered, failures, ending }),
        };
        // The actor is gone only when everything is being shut down.
        let _ = self.greeter.inputs.send(input).await;
    }

    /// The better way, if there is one.
    async fn try_all(
        &self,
        answered: &mut Vec<SocketAddr>,
        failures: &mut Vec<(SocketAddr, AddressFailure)>,
    ) -> Result<Measuring, Ending> {
        let connector =
            tls::link_connector(&self.greeter.identity, self.peer, self.greeter.pins.clone());
        let (address, from) = self.present;
        let fresh = dial::connect(&self.greeter, address, Some(from), connector.clone());
        let others = join_all(self.others.iter().map(|(candidate, needed)| {
            let connecting =
                dial::connect(&self.greeter, candidate.address, None, connector.clone());
            async move { (candidate.address, *needed, connecting.await) }
        }));
        let (present, others) = tokio::join!(fresh, others);
        let mut connected = Vec::new();
        for (address, needed, outcome) in others {
            match outcome {
                Ok(upgraded) => {
                    answered.push(address);
                    connected.push((Measuring::new(upgraded), needed));
                }
                Err(failure) => failures.push((address, failure)),
            }
        }
        let Ok(present) = present else {
            // It is not to be dialled: what the others are compared with cannot be measured.
            return Err(Ending::Stayed);
        };
        if connected.is_empty() {
            return Err(Ending::Stayed);
        }
        let mut present = Measuring::new(present);
        match self.compare(&mut present, &mut connected).await {
            Ok(Verdict::Move(index)) => Ok(connected.swap_remove(index).0),
            Ok(Verdict::Stay) => Err(Ending::Stayed),
            Ok(Verdict::Later) => Err(Ending::Undecided),
            // An older device closes a connection that says TRIAL.
            Err(Silent) if present.measured.rounds.is_empty() => Err(Ending::Deaf),
            Err(Silent) => Err(Ending::Undecided),
        }
    }

    /// Measures all of them in turns. A way that breaks is out; without the present one there is
    /// nothing to compare.
    async fn compare(
        &self,
        present: &mut Measuring,
        others: &mut Vec<(Measuring, Needed)>,
    ) -> Result<Verdict, Silent> {
        let begun = clock::now();
        let carried = |mux: &Mux<Message>| mux.bytes().read() + mux.bytes().written();
        let before = carried(&self.mux);
        for _ in 0..ROUNDS {
            present.round().await?;
            let mut lost = Vec::new();
            for (index, (other, _)) in others.iter_mut().enumerate() {
                if other.round().await.is_err() {
                    lost.push(index);
                }
            }
            lost.into_iter().rev().for_each(|index| drop(others.remove(index)));
        }
        let seconds = clock::now().saturating_duration_since(begun).as_secs() + 1;
        let busy = carried(&self.mux).saturating_sub(before) > BUSY_BYTES_PER_SECOND * seconds;
        let measured: Vec<(Measured, Needed)> =
            others.iter().map(|(other, needed)| (other.measured.clone(), *needed)).collect();
        for (measuring, _) in others.iter() {
            tracing::debug!(
                peer = ?self.peer, busy, present = ?present.measured, at = %measuring.trial.remote,
                other = ?measuring.measured, "another way was tried"
            );
        }
        Ok(judge(&present.measured, &measured, busy))
    }

    /// Offers the other side to go on over `chosen`, and does.
    async fn go_on(&self, chosen: Measuring) -> Option<Passage> {
        let found = chosen.measured.figures();
        let mut trial = chosen.trial;
        let (answer, may_move) = oneshot::channel();
        let question = Input::MayMove { peer: self.peer, number: self.number, answer };
        self.greeter.inputs.send(question).await.ok()?;
        if !may_move.await.unwrap_or(false) {
            return None;
        }
        let nonce = rand::rng().random_range(1..=u64::MAX);
        let offered = async {
            trial.send(&Message::Move(Move { nonce, found })).await?;
            trial.next().await
        };
        match offered.await {
            Ok(Message::Move(taken)) if taken.nonce == nonce => {}
            _ => return None,
        }
        let passage = Passage {
            local: trial.local,
            remote: trial.remote,
            listens_at: Some(trial.remote),
            probe: trial.socket.probe(),
            found,
        };
        self.mover.lead(trial.socket, &trial.meter, nonce).await.ok()?;
        Some(passage)
    }
}

/// A connection with what was measured on it.
#[derive(Debug)]
struct Measuring {
    trial: TrialSocket,
    measured: Measured,
    burst: u32,
}

impl Measuring {
    fn new(upgraded: Upgraded) -> Self {
        let trial = TrialSocket::new(upgraded);
        Self { trial, measured: Measured::default(), burst: FIRST_BURST_BYTES }
    }

    /// Measures once more.
    async fn round(&mut self) -> Result<(), Silent> {
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            trips.push(self.trial.exchange(ROW_BYTES).await?);
        }
        let trip = median(&trips).ok_or(Silent)?;
        self.measured.rounds.push(trip);
        if self.burst == 0 {
            return Ok(());
        }
        let took = self.trial.exchange(self.burst).await?;
        let moving = took.saturating_sub(trip).max(Duration::from_micros(1));
        let bytes = f64::from(self.burst) * 2.0;
        let rate = (bytes / moving.as_secs_f64()) as u64;
        self.measured.bytes_per_second = self.measured.bytes_per_second.max(rate);
        self.burst = next_burst(self.burst, took);
        Ok(())
    }
}

/// The burst after one of `bytes` that took so long; 0: none.
fn next_burst(bytes: u32, took: Duration) -> u32 {
    if took > SLOW { 0 } else { bytes.saturating_mul(BURST_GROWTH).min(BURST_BYTES_MAX) }
}

impl Passage {
    /// The way that `trial` takes, with what the other side has measured there.
    fn of(trial: &TrialSocket, listen_port: u16, found: Option<WayFigures>) -> Self {
        let listens_at = (listen_port != 0).then(|| {
            let mut address = trial.remote;
            address.set_port(listen_port);
            address
        });
        let (local, remote, probe) = (trial.local, trial.remote, trial.socket.probe());
        Self { local, remote, listens_at, probe, found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_grow_until_they_say_enough() {
        let fast = Duration::from_millis(2);
        let sizes: Vec<u32> =
            std::iter::successors(Some(FIRST_BURST_BYTES), |bytes| Some(next_burst(*bytes, fast)))
                .take(4)
                .collect();
        assert_eq!(sizes, [16 << 10, 64 << 10, 256 << 10, 256 << 10]);
        // One megabit a second: the first burst alone takes this long there and back.
        let slow = Duration::from_millis(262);
        assert_eq!(next_burst(FIRST_BURST_BYTES, slow), 0);
        assert_eq!(next_burst(0, fast), 0);
    }
}
