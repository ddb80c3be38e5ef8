//! What the owner has chosen, as front ends show it and change it.
//!
//! Keys, types and ranges are declared in one place, in the store; here they are data. The window's
//! types for them are generated from the declaration (`settings.ts`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

view! {
/// What the owner has chosen.
struct SettingsView {
    /// The value of every setting, by its key.
    #[cfg_attr(feature = "bindings", ts(type = "import('./settings').SettingValues"))]
    pub values: BTreeMap<String, SettingData>,
    /// Most memory that is lent, in bytes: what the owner chose, else the usual amount; never more
    /// than this computer has.
    pub lend_memory_bytes: u64,
    /// Whether other machines of the network reach the port, from the next start on.
    pub expose_to_lan: bool,
}
}

view! {
/// The value of one setting.
#[serde(untagged)]
enum SettingData {
    /// On or off.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Decimal(f64),
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// None: back to the default.
    Absent,
}
}

// Not through the macro: the window's type of it stands in `settings.ts`.
/// One setting and its new value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[cfg_attr(feature = "bindings", ts(type = "import('./settings').SettingChange"))]
pub struct SettingAsk {
    /// The key, dotted, as it stands in `settings.toml`.
    pub key: String,
    /// The new value.
    pub value: SettingData,
}

impl SettingAsk {
    /// The setting `key` with the new value `value`.
    pub fn new(key: &str, value: impl Into<SettingData>) -> Self {
        Self { key: key.to_owned(), value: value.into() }
    }
}

impl SettingsView {
    /// Whether the switch `key` is on.
    #[must_use]
    pub fn is_on(&self, key: &str) -> bool {
        self.values.get(key) == Some(&SettingData::Switch(true))
    }
}

/// As a settings file writes it; nothing where it is absent.
impl std::fmt::Display for SettingData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Switch(on) => write!(f, "{on}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Decimal(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Texts(texts) => write!(f, "{texts:?}"),
            Self::Absent => Ok(()),
        }
    }
}

impl From<bool> for SettingData {
    fn from(value: bool) -> Self {
        Self::Switch(value)
    }
}

impl From<i64> for SettingData {
    fn from(value: i64) -> Self {
        Self::Whole(value)
    }
}

impl From<&str> for SettingData {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}
