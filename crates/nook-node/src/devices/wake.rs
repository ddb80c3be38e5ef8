//! Waking a paired device that sleeps: it is called until it is linked, or for long enough.
//!
//! Where a device can be woken it says itself, with its other terms, as long as its owner wants
//! that; it is kept with the device, since it is needed when nobody answers there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nook_api::views::Wording;
use nook_api::{Answer, NodeError};
use nook_base::{ErrorCode, PeerId};
use nook_find::WakeError;
use nook_wire::HelpTerms;

use super::{DeviceEffect, Devices, PEERS, Surroundings, not_saved, paired};

/// Longest wait for a device that is called. Then whoever asked hears that it did not come; where
/// it comes later, it is linked as always.
pub(super) const WAKE_LIMIT: Duration = Duration::from_secs(180);

/// Calls of one waking. One suffices; some are lost while a switch or an access point learns where
/// the sleeper is. After the last one it is only waited for.
pub(super) const CALLS_MAX: u32 = 12;

/// The pause between two calls. After each, the device is dialled without the wait that grew
/// meanwhile.
pub(super) const CALL_PAUSE: Duration = Duration::from_secs(5);

/// Shortest time between two moments in which it is kept where one device can be woken: a device that
/// says one address after the other has them written to the disk no more often than that.
pub(super) const KEEP_PAUSE: Duration = Duration::from_secs(10);

/// How long a device that did not come, or could not be called, is not waited for by replies. The
/// owner may call it all the same.
pub(super) const OVERSLEPT_FOR: Duration = Duration::from_secs(600);

/// Front ends that may wait for one device; a further one is told that it is busy.
const WAITERS_MAX: usize = 16;

/// Devices that are woken, were not, or say how they can be.
#[derive(Debug, Default)]
pub(super) struct Wakings {
    /// Those that are called now.
    called: BTreeMap<PeerId, Waking>,
    /// Those that did not come when they were called, and since when that is known.
    overslept: BTreeMap<PeerId, Instant>,
    /// When it was last kept where a device can be woken.
    kept: BTreeMap<PeerId, Instant>,
}

/// A device that is called.
#[derive(Debug)]
struct Waking {
    begun: Instant,
    /// When it was called last.
    called: Instant,
    calls: u32,
    waiters: Vec<Answer<u32>>,
}

impl Devices {
    /// A front end wants a device to be there; it hears after how many seconds it was.
    pub(super) fn wake(&mut self, device: &str, answer: Answer<u32>, around: &Surroundings<'_>) {
        if let Err((answer, error)) = self.begin_waking(device, answer, around) {
            self.push(DeviceEffect::AnswerWoken(answer, Err(error)));
        }
    }

    fn begin_waking(
        &mut self,
        device: &str,
        answer: Answer<u32>,
        around: &Surroundings<'_>,
    ) -> Result<(), (Answer<u32>, NodeError)> {
        let id = match paired(&self.peers, device) {
            Ok(id) => id,
            Err(error) => return Err((answer, error)),
        };
        if self.linked.contains_key(&id) {
            self.push(DeviceEffect::AnswerWoken(answer, Ok(0)));
            return Ok(());
        }
        if let Some(waking) = self.wakings.called.get_mut(&id) {
            waking.waiters.retain(|waiter| !waiter.is_closed());
            if waking.waiters.len() >= WAITERS_MAX {
                return Err((answer, ErrorCode::Busy.into()));
            }
            waking.waiters.push(answer);
            return Ok(());
        }
        let addresses = match self.peers.get(id) {
            Some(peer) if !peer.level.may_connect() => {
                return Err((answer, ErrorCode::TrustDenied.into()));
            }
            Some(peer) => peer.wake.clone(),
            None => Vec::new(),
        };
        if addresses.is_empty() {
            return Err((answer, not_allowed(self.name_of(id))));
        }
        let (now, waiters) = (around.now, vec![answer]);
        self.wakings.called.insert(id, Waking { begun: now, called: now, calls: 1, waiters });
        self.push(DeviceEffect::Call(id, addresses));
        Ok(())
    }

    /// Calls once more whoever is still waited for, and gives up on whoever did not come.
    pub(super) fn go_on_waking(&mut self, around: &Surroundings<'_>) {
        let since = |at: Instant| around.now.saturating_duration_since(at);
        let is_late = |_: &PeerId, waking: &mut Waking| since(waking.begun) >= WAKE_LIMIT;
        let late: Vec<_> = self.wakings.called.extract_if(.., is_late).collect();
        let before = self.wakings.overslept.len();
        self.wakings.overslept.retain(|_, at| since(*at) < OVERSLEPT_FOR);
        if self.wakings.overslept.len() != before {
            self.effects.push(DeviceEffect::PublishBook);
        }
        for (id, waking) in late {
            tracing::info!(peer = ?id, "it was called and did not come");
            self.overslept(id, around.now);
            self.end_waking(waking, &Err(not_there(self.name_of(id))));
        }
        let mut calls = Vec::new();
        for (id, waking) in &mut self.wakings.called {
            if since(waking.called) >= CALL_PAUSE {
                waking.called = around.now;
                waking.calls = waking.calls.saturating_add(1);
                let wake = self.peers.get(*id).map(|peer| peer.wake.clone());
                let wake = wake.filter(|_| waking.calls <= CALLS_MAX).unwrap_or_default();
                calls.push(DeviceEffect::Call(*id, wake));
            }
        }
        self.effects.extend(calls);
    }

    /// A device is linked: if it was called, it is known now how long that takes.
    pub(super) fn woke(&mut self, id: PeerId, around: &Surroundings<'_>) {
        self.wakings.overslept.remove(&id);
        let Some(waking) = self.wakings.called.remove(&id) else { return };
        let took = around.now.saturating_duration_since(waking.begun).as_secs();
        let seconds = u32::try_from(took).unwrap_or(u32::MAX);
        tracing::info!(peer = ?id, seconds, "it was woken");
        let noted = self.peers.note_woken(id, seconds);
        self.note(PEERS, noted.err().map(|error| not_saved(&error)));
        self.end_waking(waking, &Ok(seconds));
    }

    /// A device was not called. After a first call that went out it is waited for all the same.
    pub(super) fn not_called(&mut self, id: PeerId, why: &WakeError, now: Instant) {
        tracing::debug!(peer = ?id, %why, "it was not called");
        let name = self.name_of(id);
        let first = self.wakings.called.extract_if(id..=id, |_, waking| waking.calls <= 1).next();
        if let Some((_, waking)) = first {
            self.overslept(id, now);
            self.end_waking(waking, &Err(not_called(name, why)));
        }
    }

    /// A device is not paired any more.
    pub(super) fn stop_waking(&mut self, id: PeerId) {
        self.wakings.kept.remove(&id);
        self.wakings.overslept.remove(&id);
        if let Some(waking) = self.wakings.called.remove(&id) {
            self.end_waking(waking, &Err(ErrorCode::Cancelled.into()));
        }
    }

    fn end_waking(&mut self, waking: Waking, end: &Result<u32, NodeError>) {
        let told = waking.waiters.into_iter();
        self.effects.extend(told.map(|it| DeviceEffect::AnswerWoken(it, end.clone())));
    }

    /// What the owner of `peer` allows, as it says: it may be woken from here or not any more.
    pub(super) fn take_terms(&mut self, peer: PeerId, terms: HelpTerms, around: &Surroundings<'_>) {
        if self.peers.get(peer).is_some() {
            self.terms.insert(peer, terms);
            self.keep_wake(peer, around.now);
        }
    }

    /// Keeps what devices have said of being woken and was not kept yet.
    pub(super) fn keep_wakes(&mut self, now: Instant) {
        let said: Vec<_> = self.terms.keys().copied().collect();
        said.into_iter().for_each(|peer| self.keep_wake(peer, now));
    }

    fn keep_wake(&mut self, peer: PeerId, now: Instant) {
        let kept = self.peers.get(peer).map(|peer| &peer.wake);
        let said = self.terms.get(&peer).map(|terms| &terms.wake);
        let (Some(kept), Some(said)) = (kept, said) else { return };
        let is_early = |at: &Instant| now.saturating_duration_since(*at) < KEEP_PAUSE;
        if kept == said || self.wakings.kept.get(&peer).is_some_and(is_early) {
            return;
        }
        self.wakings.kept.insert(peer, now);
        let noted = self.peers.note_wake(peer, said.clone());
        self.note(PEERS, noted.err().map(|error| not_saved(&error)));
    }

    /// Whether a device is called now.
    pub(crate) fn is_waking(&self, peer: PeerId) -> bool {
        self.wakings.called.contains_key(&peer)
    }

    /// Whether a device was called for nothing a while ago, so that no reply is to wait for it.
    pub(crate) fn has_overslept(&self, peer: PeerId) -> bool {
        self.wakings.overslept.contains_key(&peer)
    }

    fn overslept(&mut self, id: PeerId, now: Instant) {
        self.wakings.overslept.insert(id, now);
        self.effects.push(DeviceEffect::PublishBook);
    }
}

/// It was not said how the device can be woken.
fn not_allowed(device: String) -> NodeError {
    let words = format!(
        "{device} has not said how it can be woken. Its owner allows that there, under Settings, \
         Sharing, while both computers are on and in one network."
    );
    NodeError::new(ErrorCode::TrustDenied, words).worded(Wording::MayNotWake { device })
}

fn not_called(device: String, why: &WakeError) -> NodeError {
    let (words, wording) = match why {
        WakeError::OtherNetwork => (
            format!("{device} cannot be woken from here: this computer is in another network."),
            Wording::WakeOtherNetwork { device },
        ),
        WakeError::Refused(error) => {
            let reason = error.to_string();
            let words = format!("{device} could not be called: {reason}.");
            (words, Wording::WakeRefused { device, reason: reason.into() })
        }
    };
    NodeError::new(ErrorCode::ShardUnavailable, words).worded(wording)
}

fn not_there(device: String) -> NodeError {
    let minutes = WAKE_LIMIT.as_secs() / 60;
    let words = format!(
        "{device} was called for {minutes} minutes and is not there. It may be switched off at the \
         wall, or have Wake-on-LAN switched off in its firmware; see docs/troubleshooting.md."
    );
    NodeError::new(ErrorCode::ShardUnavailable, words).worded(Wording::NotWoken { device })
}
