//! The list as front ends see it.

use nook_api::views;
use nook_api::views::AuditEntryView;
use nook_store::{AuditAsked, AuditEntry, AuditOutcome, AuditWho, AuditWhy};

/// One entry; `unix` is now, in seconds since 1970.
pub(super) fn entry(entry: &AuditEntry, unix: u64) -> AuditEntryView {
    let (device_id, device, from) = match entry.who.clone() {
        AuditWho::Device { id, name } => (Some(id), Some(name), None),
        AuditWho::Stranger { from, claims } => (None, claims, from),
    };
    let is_under_way = entry.outcome == AuditOutcome::UnderWay;
    AuditEntryView {
        number: entry.number,
        first: entry.first,
        last: if is_under_way { unix.max(entry.last) } else { entry.last },
        device_id,
        device,
        from,
        asked: asked(entry.asked),
        model: entry.model.clone(),
        layers: entry
            .layers
            .filter(|layers| !layers.is_empty())
            .map(|layers| [layers.start(), layers.end().saturating_sub(1)]),
        outcome: match entry.outcome {
            AuditOutcome::UnderWay => views::AuditOutcome::UnderWay,
            AuditOutcome::Served => views::AuditOutcome::Served,
            AuditOutcome::Cut(reason) => views::AuditOutcome::Cut { why: why(reason) },
            AuditOutcome::Refused(reason) => views::AuditOutcome::Refused { why: why(reason) },
            AuditOutcome::Unknown => views::AuditOutcome::Unknown,
        },
        times: entry.times,
        tokens: entry.amounts.tokens,
        bytes: entry.amounts.bytes,
        milliseconds: entry.amounts.milliseconds,
    }
}

fn asked(asked: AuditAsked) -> views::AuditAsked {
    match asked {
        AuditAsked::Compute => views::AuditAsked::Compute,
        AuditAsked::Whole => views::AuditAsked::Whole,
        AuditAsked::Hold => views::AuditAsked::Hold,
        AuditAsked::Copy => views::AuditAsked::Copy,
        AuditAsked::Relay => views::AuditAsked::Relay,
        AuditAsked::Release => views::AuditAsked::Release,
        AuditAsked::Connect => views::AuditAsked::Connect,
    }
}

fn why(why: AuditWhy) -> views::AuditWhy {
    match why {
        AuditWhy::NotPaired => views::AuditWhy::NotPaired,
        AuditWhy::Blocked => views::AuditWhy::Blocked,
        AuditWhy::TooLittleTrust => views::AuditWhy::TooLittleTrust,
        AuditWhy::SwitchedOff => views::AuditWhy::SwitchedOff,
        AuditWhy::Paused => views::AuditWhy::Paused,
        AuditWhy::Busy => views::AuditWhy::Busy,
        AuditWhy::NoRoom => views::AuditWhy::NoRoom,
        AuditWhy::NotLent => views::AuditWhy::NotLent,
        AuditWhy::TooOften => views::AuditWhy::TooOften,
        AuditWhy::BadRequest => views::AuditWhy::BadRequest,
        AuditWhy::Leaving => views::AuditWhy::Leaving,
        AuditWhy::Failed => views::AuditWhy::Failed,
    }
}
