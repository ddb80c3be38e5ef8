//! The question after pairing, *May these two computers help each other?*, asked once on each side.
//! What each owner allows is told to the other device, so that either screen says what is missing.

use nook_api::Answer;
use nook_api::views::{Help, TheirTerms, UnusedReason};
use nook_base::{ErrorCode, PeerId};
use nook_store::{HelpAnswer, Peer, Settings};
use nook_trust::{Purpose, TrustLevel};
use nook_wire::{HelpTerms, SharingNow};

use super::shown::bad;
use super::{DeviceEffect, Devices, Surroundings, paired};
use nook_api::sentence;

/// What a device offers, as far as it decides whether it can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// Nothing.
    Nothing,
    /// Layers of no model that is used here.
    OtherModels,
    /// The same, but it would fetch some.
    Lacking,
    /// It is fetching layers for this device.
    Fetching,
    /// It has fetched none, for this reason.
    NotFetched(ErrorCode),
    /// Layers of a model that is used here, and no stream is free.
    Full,
    /// Layers of a model that is used here.
    Layers,
}

impl Devices {
    /// The owner has answered for this side.
    pub(super) fn answer_help(
        &mut self,
        device: &str,
        help: Help,
        answer: Answer<()>,
        around: &Surroundings<'_>,
    ) {
        let set = paired(&self.peers, device).and_then(|id| {
            let level = self.gate.level(id);
            let (level, kept) = match help {
                Help::EachOther => (level.max(TrustLevel::Trusted), HelpAnswer::ByTrust),
                Help::OnlyThis => (level.max(TrustLevel::Trusted), HelpAnswer::OnlyThis),
                Help::Nothing => (level.min(TrustLevel::Guest), HelpAnswer::ByTrust),
            };
            let set = self.peers.set_level(id, level, kept);
            set.map_err(|error| bad(sentence(&error.to_string())))
        });
        if let Err(error) = set {
            self.push(DeviceEffect::Answer(answer, Err(error)));
            return;
        }
        self.peers_changed(around);
        self.push(match help {
            Help::EachOther | Help::OnlyThis => DeviceEffect::ShareAndAnswer(answer),
            Help::Nothing => DeviceEffect::Answer(answer, Ok(())),
        });
    }

    /// What the owner of this device allows `peer`, for it to show.
    pub(crate) fn own_terms(
        &self,
        peer: &Peer,
        sharing: SharingNow,
        settings: &Settings,
    ) -> HelpTerms {
        let may = |purpose| self.gate.check(peer.id, purpose).is_ok();
        let helps = may(Purpose::Lend);
        // Only who is helped has a reason to wake this device.
        let wake = self.wake_from.get(&peer.id);
        let wake = wake.filter(|_| helps && settings.network.let_others_wake);
        HelpTerms {
            answered: peer.help != HelpAnswer::Open,
            helps,
            asks: may(Purpose::Borrow),
            sharing,
            wake: wake.cloned().unwrap_or_default(),
        }
    }

    /// What the owner of `peer` allows, as it says.
    pub(crate) fn their_terms(&self, peer: PeerId) -> Option<TheirTerms> {
        let HelpTerms { answered, helps, asks, .. } = *self.terms.get(&peer)?;
        Some(TheirTerms { answered, helps, asks })
    }

    /// Why a paired device does not compute for this one: the first thing that is missing, those of
    /// this side before those of the other.
    pub(crate) fn unused(&self, peer: &Peer, offered: Offered) -> Option<UnusedReason> {
        if peer.level == TrustLevel::Blocked {
            return Some(UnusedReason::Blocked);
        }
        if !self.linked.contains_key(&peer.id) {
            return Some(UnusedReason::Away);
        }
        if self.gate.check(peer.id, Purpose::Borrow).is_err() {
            return Some(match peer.help {
                HelpAnswer::Open => UnusedReason::Unanswered,
                HelpAnswer::OnlyThis => UnusedReason::OnlyHelped,
                HelpAnswer::ByTrust => UnusedReason::NotAllowed,
            });
        }
        match offered {
            Offered::Nothing => Some(self.unshared(peer.id)),
            Offered::OtherModels => Some(UnusedReason::NoModel),
            Offered::Lacking => Some(UnusedReason::LacksLayers),
            Offered::Fetching => Some(UnusedReason::Fetching),
            Offered::NotFetched(ErrorCode::DiskFull) => Some(UnusedReason::DiskFull),
            Offered::NotFetched(ErrorCode::FetchLimit) => Some(UnusedReason::FetchLimit),
            Offered::NotFetched(ErrorCode::BadModel) => Some(UnusedReason::BadModel),
            Offered::NotFetched(_) => Some(UnusedReason::FetchFailed),
            Offered::Full => Some(UnusedReason::Busy),
            Offered::Layers => None,
        }
    }

    /// Why a device that may compute for this one offers nothing.
    fn unshared(&self, peer: PeerId) -> UnusedReason {
        match self.terms.get(&peer) {
            Some(HelpTerms { helps: false, answered: false, .. }) => UnusedReason::UnansweredThere,
            Some(HelpTerms { helps: false, .. }) => UnusedReason::NotAllowedThere,
            Some(HelpTerms { sharing: SharingNow::Off, .. }) => UnusedReason::SharingOff,
            Some(HelpTerms { sharing: SharingNow::Paused, .. }) => UnusedReason::SharingPaused,
            Some(HelpTerms { sharing: SharingNow::On, .. }) | None => UnusedReason::NotSharing,
        }
    }
}
