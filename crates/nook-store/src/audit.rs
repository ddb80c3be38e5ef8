//! What other devices asked of this one, and what came of it: who, when, how much, and never what.
//!
//! One file, `audit.json`, private to the owner. An entry holds a device, times, the kind of what
//! was asked, a model's name, layers and amounts. There is no field for a token id, a text or an
//! activation. The list is bounded: of the devices the one with the most entries gives up its
//! oldest, so nobody pushes out the entries of another; who is no paired device has a few places of
//! its own. The same refusal is one entry with a count. Like what was lent it is worth no refusal
//! to start: a file that cannot be read is reported, and the next save replaces it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nook_base::LayerRange;
use serde::{Deserialize, Serialize};

use crate::durable::FileError;
use crate::home::Home;
use crate::json::{self, DocumentError};

const FILE: &str = "audit.json";
const VERSION: u64 = 1;

/// Most entries of devices that are or were paired.
pub const AUDIT_ENTRIES_MAX: usize = 500;

/// Most entries of everybody else, beside those.
pub const AUDIT_STRANGERS_MAX: usize = 32;

/// So long the same refusal adds to one entry, in seconds; then it begins another.
const FOLD_SECONDS: u64 = 24 * 60 * 60;

/// Something that was asked of this device, or a refusal that was repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Counts up; no two entries of one list share it.
    pub number: u64,
    /// When it was asked, in seconds since 1970; the first time, where it was refused repeatedly.
    pub first: u64,
    /// When it ended or was refused last, in seconds since 1970.
    pub last: u64,
    /// Who asked.
    pub who: AuditWho,
    /// What kind of thing.
    pub asked: AuditAsked,
    /// The model's name here, else the beginning of its digest; the last one, where it was refused
    /// repeatedly.
    pub model: Option<String>,
    /// The layers that were asked for.
    pub layers: Option<LayerRange>,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// How often it was refused; 1 where it was not.
    pub times: u64,
    /// How much it was.
    pub amounts: AuditAmounts,
}

/// Who asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditWho {
    /// A device that was paired then. It keeps its entries when it is forgotten.
    Device {
        /// Its full id.
        id: String,
        /// What it was called.
        name: String,
    },
    /// Somebody who is no paired device, or did not prove to be one.
    Stranger {
        /// The address that the connection came from; absent for more addresses than are told
        /// apart.
        from: Option<String>,
        /// The blocked device that it says to be; nobody has proved that.
        claims: Option<String>,
    },
}

/// What kind of thing is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditAsked {
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

/// Why something was refused, or ended before it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditWhy {
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
    /// The owner wanted the computer back, or the program ended.
    Leaving,
    /// Something failed here.
    Failed,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It goes on.
    UnderWay,
    /// It was served until whoever asked had enough.
    Served,
    /// It was served, and ended from here.
    Cut(AuditWhy),
    /// It was refused.
    Refused(AuditWhy),
    /// It was under way when this program ended without being able to write more.
    Unknown,
}

/// How much was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditAmounts {
    /// Tokens of prompts and replies that were computed; one that came twice counts twice.
    pub tokens: u64,
    /// Bytes that were given, or held in memory.
    pub bytes: u64,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
}

/// What is asked, without who and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSubject {
    /// What kind of thing.
    pub asked: AuditAsked,
    /// The model's name here, else the beginning of its digest.
    pub model: Option<String>,
    /// The layers.
    pub layers: Option<LayerRange>,
}

/// The list, in the order in which things were asked first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditList {
    entries: Vec<AuditEntry>,
    next: u64,
}

/// The file of one home.
#[derive(Debug, Clone)]
pub struct AuditFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    entries: Vec<AuditEntry>,
}

impl AuditList {
    /// Something is asked and let in, at `at` seconds since 1970; the number of its entry.
    pub fn begin(&mut self, at: u64, who: AuditWho, subject: AuditSubject) -> u64 {
        self.push(at, who, subject, AuditOutcome::UnderWay)
    }

    /// How much it is by now; nothing where the entry is gone.
    pub fn update(&mut self, number: u64, amounts: AuditAmounts) {
        if let Some(entry) = self.entry(number) {
            entry.amounts = amounts;
        }
    }

    /// It has ended: by whoever asked, or for this reason.
    pub fn end(&mut self, number: u64, at: u64, amounts: AuditAmounts, why: Option<AuditWhy>) {
        if let Some(entry) = self.entry(number) {
            (entry.last, entry.amounts) = (at.max(entry.first), amounts);
            entry.outcome = why.map_or(AuditOutcome::Served, AuditOutcome::Cut);
        }
    }

    /// What was begun is refused after all.
    pub fn refuse_begun(&mut self, number: u64, at: u64, why: AuditWhy) {
        if let Some(place) = self.entries.iter().position(|entry| entry.number == number) {
            let AuditEntry { who, asked, model, layers, .. } = self.entries.remove(place);
            self.refuse(at, who, AuditSubject { asked, model, layers }, (why, 1));
        }
    }

    /// Something was asked and refused, so many times; the same refusal of the same device adds to
    /// its entry.
    pub fn refuse(
        &mut self,
        at: u64,
        who: AuditWho,
        subject: AuditSubject,
        (why, times): (AuditWhy, u64),
    ) {
        let outcome = AuditOutcome::Refused(why);
        let same = self.entries.iter_mut().rev().find(|entry| {
            let age = at.checked_sub(entry.first);
            entry.who.is(&who)
                && (entry.asked, entry.outcome) == (subject.asked, outcome)
                && age.is_some_and(|age| age < FOLD_SECONDS)
        });
        match same {
            Some(entry) => {
                entry.times = entry.times.saturating_add(times);
                (entry.last, entry.who) = (at, who);
                (entry.model, entry.layers) = (subject.model, subject.layers);
            }
            None => {
                let number = self.push(at, who, subject, outcome);
                if let Some(entry) = self.entry(number) {
                    entry.times = times;
                }
            }
        }
    }

    /// Forgets everything but what is under way.
    pub fn clear(&mut self) {
        self.entries.retain(|entry| entry.outcome == AuditOutcome::UnderWay);
    }

    /// The entries, in the order in which things were asked first.
    #[must_use]
    pub fn entries(&self) -> &[AuditEntry] {
        &self.entries
    }

    fn entry(&mut self, number: u64) -> Option<&mut AuditEntry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    fn push(
        &mut self,
        at: u64,
        who: AuditWho,
        subject: AuditSubject,
        outcome: AuditOutcome,
    ) -> u64 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let AuditSubject { asked, model, layers } = subject;
        let amounts = AuditAmounts::default();
        let entry = AuditEntry {
            number,
            first: at,
            last: at,
            who,
            asked,
            model,
            layers,
            outcome,
            times: 1,
            amounts,
        };
        self.entries.push(entry);
        self.forget_what_is_too_much();
        number
    }

    /// Strangers give way to strangers, and of the devices the one with the most entries gives up
    /// its oldest.
    fn forget_what_is_too_much(&mut self) {
        let strangers = self.entries.iter().filter(|entry| entry.who.party().is_none()).count();
        if strangers > AUDIT_STRANGERS_MAX {
            self.forget_oldest(|party| party.is_none());
        }
        while self.entries.len() - strangers.min(AUDIT_STRANGERS_MAX) > AUDIT_ENTRIES_MAX {
            let mut held: BTreeMap<String, usize> = BTreeMap::new();
            for party in self.entries.iter().filter_map(|entry| entry.who.party()) {
                *held.entry(party.to_owned()).or_default() += 1;
            }
            let most = held.values().copied().max();
            let has_most = |party: Option<&str>| party.and_then(|it| held.get(it)).copied() == most;
            if !self.forget_oldest(has_most) {
                return;
            }
        }
    }

    /// Forgets the oldest entry of these; what is under way goes last. Whether there was one.
    fn forget_oldest(&mut self, of: impl Fn(Option<&str>) -> bool) -> bool {
        let these = self.entries.iter().enumerate().filter(|(_, entry)| of(entry.who.party()));
        let oldest =
            these.min_by_key(|(_, it)| (it.outcome == AuditOutcome::UnderWay, it.last, it.number));
        let place = oldest.map(|(place, _)| place);
        place.map(|place| self.entries.remove(place)).is_some()
    }
}

impl AuditWho {
    /// The device that its entries count for; none for strangers, who count together.
    fn party(&self) -> Option<&str> {
        match self {
            Self::Device { id, .. } => Some(id),
            Self::Stranger { .. } => None,
        }
    }

    /// Whether both are the same, whatever it is called by now.
    fn is(&self, other: &Self) -> bool {
        match (self.party(), other.party()) {
            (None, None) => self == other,
            (one, two) => one == two,
        }
    }
}

impl AuditFile {
    /// The file of `home`, which need not exist.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        Self { path: home.file(FILE) }
    }

    /// The list as it was saved; empty where there is no file. What was under way then has ended.
    pub fn load(&self) -> Result<AuditList, DocumentError> {
        let document: Option<Document> = json::load(&self.path, VERSION)?;
        let mut list = AuditList::default();
        for entry in document.map(|document| document.entries).unwrap_or_default() {
            let AuditEntry { who, asked, model, layers, outcome, times, amounts, .. } = entry;
            let outcome = match outcome {
                AuditOutcome::UnderWay => AuditOutcome::Unknown,
                outcome => outcome,
            };
            let number =
                list.push(entry.first, who, AuditSubject { asked, model, layers }, outcome);
            if let Some(kept) = list.entry(number) {
                (kept.last, kept.times, kept.amounts) = (entry.last, times, amounts);
            }
        }
        Ok(list)
    }

    /// Replaces the file.
    pub fn save(&self, list: &AuditList) -> Result<(), FileError> {
        json::save(&self.path, &Document { version: VERSION, entries: list.entries.clone() })
    }
}
