//! What others asked of this device and what was computed for them: read at the start, and what the
//! port for other devices adds.

use nook_api::views::AuditEntryView;
use nook_base::clock;
use nook_link::{TurnedAway, WhyTurnedAway};
use nook_store::{AuditFile, AuditList, AuditWho, AuditWhy, Home, LentDays, LentDaysFile};
use nook_trust::TrustLevel;

use crate::state::State;

/// What was computed for others in the last days.
pub(crate) fn lent_days(home: &Home) -> LentDays {
    let file = LentDaysFile::of(home);
    file.load(nook_machine::day_of_calendar()).unwrap_or_else(|error| {
        // It is counted anew, and the file is written again.
        tracing::warn!(%error, "how much was lent before is lost");
        LentDays::default()
    })
}

/// What others asked before.
pub(crate) fn audit(home: &Home) -> AuditList {
    AuditFile::of(home).load().unwrap_or_else(|error| {
        // The list begins anew, and the file is written again.
        tracing::warn!(%error, "what others asked before is lost");
        AuditList::default()
    })
}

impl State {
    /// The list for front ends, what was asked last first.
    pub(crate) fn audit_view(&self) -> Vec<AuditEntryView> {
        self.host.audit(clock::now(), clock::unix_seconds())
    }

    /// Notes the connections that were refused since the last look.
    pub(crate) fn note_turned_away(&self) {
        for TurnedAway { from, claims, why, times } in self.links.take_turned_away() {
            let mut known = self.devices.peers().list().iter();
            let blocked = known
                .find(|peer| Some(peer.id) == claims && peer.level == TrustLevel::Blocked)
                .map(|peer| peer.name.as_str().to_owned());
            let why = match (why, &blocked) {
                (WhyTurnedAway::TooMany, _) => AuditWhy::Busy,
                (WhyTurnedAway::NotPaired, Some(_)) => AuditWhy::Blocked,
                (WhyTurnedAway::NotPaired, None) => AuditWhy::NotPaired,
            };
            let from = from.map(|from| from.to_string());
            let who = AuditWho::Stranger { from, claims: blocked };
            self.host.note_turned_away(clock::unix_seconds(), who, why, times);
        }
    }
}
