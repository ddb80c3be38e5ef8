//! What other devices asked of this one: who, when, how much, and never what.

use serde::{Deserialize, Serialize};

view! {
/// Something that another device asked of this one, or a refusal that was repeated.
struct AuditEntryView {
    /// Counts up; no two entries of one list share it.
    pub number: u64,
    /// When it was asked, in seconds since 1970; the first time, where it was refused repeatedly.
    pub first: u64,
    /// When it ended or was refused last, in seconds since 1970; now, while it goes on.
    pub last: u64,
    /// Full id of the device; absent for somebody who is no paired device.
    pub device_id: Option<String>,
    /// The name that the device had then; for somebody else the blocked device that it says to be,
    /// if it says so.
    pub device: Option<String>,
    /// Where somebody else connected from; absent for devices, and for more addresses than are told
    /// apart.
    pub from: Option<String>,
    /// What kind of thing.
    pub asked: AuditAsked,
    /// The model's name here, else the beginning of its digest.
    pub model: Option<String>,
    /// First and last layer, inclusive.
    pub layers: Option<[u32; 2]>,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// How often it was refused; 1 where it was not.
    pub times: u64,
    /// Tokens of prompts and replies that were computed; one that came twice counts twice.
    pub tokens: u64,
    /// Bytes that were given, or held in memory.
    pub bytes: u64,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
}
}

view! {
/// What kind of thing is asked.
#[derive(Copy, Eq)]
enum AuditAsked {
    /// To compute layers of a model.
    Compute,
    /// To run a whole request; only devices of the same person may.
    Whole,
    /// To hold layers in memory.
    Hold,
    /// A copy of a model, or a part of one.
    Copy,
    /// To take another device's steps from the one before it.
    Relay,
    /// The list of versions of this program that is held here, or a package of it.
    Release,
    /// A connection.
    Connect,
}
}

view! {
/// Why something was refused, or ended before it was done.
#[derive(Copy, Eq)]
enum AuditWhy {
    /// It is no device that is paired.
    NotPaired,
    /// It says to be a device that the owner has blocked.
    Blocked,
    /// The owner does not trust it that far.
    TooLittleTrust,
    /// The owner has switched that off.
    SwitchedOff,
    /// Sharing paused.
    Paused,
    /// As many as the owner allows at once were under way.
    Busy,
    /// There was no memory or disk space within the owner's limits.
    NoRoom,
    /// This device does not lend or give that.
    NotLent,
    /// It asked too often.
    TooOften,
    /// It broke a rule of the protocol, or came too late.
    BadRequest,
    /// The owner wanted the computer back, another device the place, or the program ended.
    Leaving,
    /// Something failed here.
    Failed,
}
}

view! {
/// What came of it.
#[derive(Copy, Eq)]
#[serde(tag = "kind")]
enum AuditOutcome {
    /// It goes on.
    UnderWay,
    /// It was served until whoever asked had enough.
    Served,
    /// It was served, and ended from here.
    Cut {
        /// Why.
        why: AuditWhy,
    },
    /// It was refused.
    Refused {
        /// Why.
        why: AuditWhy,
    },
    /// It was under way when the program ended without being able to write more.
    Unknown,
}
}
