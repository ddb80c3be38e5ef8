//! Which protocol version two devices speak: the highest that both know.
//!
//! A device says in HELLO from which version to which it speaks. Everything that a version has is
//! spoken by every device of that version: there are no optional parts to ask for. What a later
//! program adds is a new version, and it keeps the old one for as long as it says so: whoever sends
//! what came later asks first which version is spoken on the link.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The newest version that this program speaks. 2 added what people know a device by
/// ([`crate::facts`]).
pub const PROTOCOL_VERSION: u16 = 2;

/// The oldest one that it still speaks: with a device of that version it does without what came
/// later.
pub const PROTOCOL_VERSION_OLDEST: u16 = 1;

/// The protocol versions that a device speaks, both ends included. Never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "(u16, u16)", try_from = "(u16, u16)")]
pub struct ProtocolRange {
    min: u16,
    max: u16,
}

/// Two devices share no protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this computer speaks protocol {ours} and the other one {theirs}: update {}", self.outdated())]
pub struct VersionMismatch {
    /// What this device speaks.
    pub ours: ProtocolRange,
    /// What the other one speaks.
    pub theirs: ProtocolRange,
}

/// Which of two devices runs the older program and has to be updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// This one.
    Ours,
    /// The other one.
    Theirs,
}

/// A range whose lowest version is above its highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no protocol version lies between {min} and {max}")]
pub struct NoVersions {
    min: u16,
    max: u16,
}

impl ProtocolRange {
    /// What this program speaks.
    pub const SPOKEN: Self = Self { min: PROTOCOL_VERSION_OLDEST, max: PROTOCOL_VERSION };

    /// One version alone.
    #[must_use]
    pub const fn only(version: u16) -> Self {
        Self { min: version, max: version }
    }

    /// From `min` to `max`.
    pub fn new(min: u16, max: u16) -> Result<Self, NoVersions> {
        if min <= max { Ok(Self { min, max }) } else { Err(NoVersions { min, max }) }
    }

    /// The version that a device of `self` and one of `theirs` speak with each other.
    pub fn common(self, theirs: Self) -> Result<u16, VersionMismatch> {
        let (lowest, highest) = (self.min.max(theirs.min), self.max.min(theirs.max));
        if lowest <= highest { Ok(highest) } else { Err(VersionMismatch { ours: self, theirs }) }
    }
}

impl VersionMismatch {
    /// Which device has to be updated: the one whose versions all lie below the other's.
    #[must_use]
    pub fn outdated(&self) -> Outdated {
        if self.ours.max < self.theirs.min { Outdated::Ours } else { Outdated::Theirs }
    }
}

impl TryFrom<(u16, u16)> for ProtocolRange {
    type Error = NoVersions;

    fn try_from((min, max): (u16, u16)) -> Result<Self, NoVersions> {
        Self::new(min, max)
    }
}

impl From<ProtocolRange> for (u16, u16) {
    fn from(range: ProtocolRange) -> Self {
        (range.min, range.max)
    }
}

impl fmt::Display for ProtocolRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max } = self;
        if min == max { write!(f, "{min}") } else { write!(f, "{min}\u{2013}{max}") }
    }
}

impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "this computer",
            Self::Theirs => "the other one",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: u16, max: u16) -> ProtocolRange {
        ProtocolRange::new(min, max).unwrap()
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        for (ours, theirs, common) in [
            ((1, 1), (1, 1), 1),
            ((1, 1), (0, 1), 1),
            ((1, 1), (1, 3), 1),
            ((1, 3), (2, 5), 3),
            ((0, u16::MAX), (0, u16::MAX), u16::MAX),
        ] {
            let (ours, theirs) = (range(ours.0, ours.1), range(theirs.0, theirs.1));
            assert_eq!(ours.common(theirs), Ok(common), "{ours} and {theirs}");
            assert_eq!(theirs.common(ours), Ok(common), "{theirs} and {ours}");
        }
    }

    #[test]
    fn without_a_common_version_the_older_device_is_named_on_both_sides() {
        for (older, newer) in [((0, 0), (1, 1)), ((1, 1), (2, 3)), ((1, 4), (5, 9))] {
            let (older, newer) = (range(older.0, older.1), range(newer.0, newer.1));
            let at_older = older.common(newer).unwrap_err();
            assert_eq!(at_older, VersionMismatch { ours: older, theirs: newer });
            assert_eq!(at_older.outdated(), Outdated::Ours);
            assert_eq!(newer.common(older).unwrap_err().outdated(), Outdated::Theirs);
        }
        let told = range(1, 1).common(range(2, 3)).unwrap_err().to_string();
        let expected =
            "this computer speaks protocol 1 and the other one 2\u{2013}3: update this computer";
        assert_eq!(told, expected);
    }

    #[test]
    fn no_versions_are_no_range() {
        for (min, max) in [(2, 1), (u16::MAX, 0)] {
            assert_eq!(ProtocolRange::new(min, max), Err(NoVersions { min, max }));
        }
    }
}
