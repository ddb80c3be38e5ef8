//! New versions of the program, as front ends show them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

view! {
/// What is known of new versions.
#[derive(Default)]
struct UpdatesView {
    /// Whether there is anybody to ask: the program knows an address and a key of releases.
    pub can_look: bool,
    /// When a list of versions came last, in seconds since 1970; absent for never.
    pub looked: Option<u64>,
    /// Whether somebody is being asked now.
    pub is_looking: bool,
    /// Whether a new version is being installed; this program starts anew for it.
    pub is_installing: bool,
    /// How a new version is installed on this computer.
    pub way: UpdateWay,
    /// The newer version, if one is known of.
    pub newer: Option<NewerView>,
    /// What the last look or the last try to install failed at.
    pub trouble: Option<UpdateTrouble>,
}
}

view! {
/// A version that is newer than this program.
struct NewerView {
    /// Its number.
    pub version: String,
    /// Name of its package for this computer.
    pub file: String,
    /// Size of that.
    pub bytes: u64,
    /// What is new, by language (`en`); plain text.
    pub notes: BTreeMap<String, String>,
    /// A device of the house that has that package already; absent where it comes from the internet.
    #[serde(default)]
    pub device: Option<String>,
}
}

view! {
/// How a new version is installed on this computer.
#[derive(Copy, Eq, Default)]
enum UpdateWay {
    /// By this program.
    Itself,
    /// By its owner, with `apt`.
    Apt,
    /// By its owner, with `dnf`.
    Dnf,
    /// By its owner, who opens the file.
    Open,
    /// By its owner, who unpacks the file over the program.
    Unpack,
    /// By its owner, who builds it.
    #[default]
    Build,
}
}

view! {
/// What did not work.
#[derive(Eq)]
#[serde(tag = "kind")]
enum UpdateTrouble {
    /// Nobody answered, or what was answered is not believed.
    NotLooked {
        /// Why, in English.
        reason: String,
    },
    /// It was put in place and did not come up, so the one before was put back.
    TakenBack {
        /// Which version.
        version: String,
    },
    /// The version that was here stays.
    NotInstalled {
        /// Why, in English.
        reason: String,
    },
}
}
