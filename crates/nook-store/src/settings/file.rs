//! `settings.toml` on the disk: reading, changing one key, saving.
//!
//! A change starts from the file as it stands now, not from what was read at start, so that a hand
//! edit made meanwhile survives. A file that cannot be understood is never written to.

use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{Document, DocumentMut, Item, TableLike, Value};

use super::raw::RawSettings;
use super::{OutOfRange, Settings};
use crate::durable::{self, FileError, Readers};
use crate::home::{Home, HomeChoice, HomeError};

const FILE: &str = "settings.toml";

/// A longer file is refused: no person wrote it.
const SETTINGS_BYTES_MAX: usize = 1 << 20;

const HEADER: &str = "\
# Settings of Inglenook. Only what differs from the defaults stands here.
# Comments and keys that you write by hand are kept.
";

/// Every key there is, as a dotted path.
pub const SETTINGS_KEYS: &[&str] = &[
    "device.name",
    "device.keyring",
    "port.enabled",
    "port.address",
    "port.expose_to_lan",
    "port.allowed_origins",
    "gate.lend",
    "gate.borrow",
    "gate.copy",
    "gate.remote_whole",
    "network.listen_port",
    "network.loopback",
    "network.give_models",
    "models.folder",
    "chat.temperature",
    "window.language",
    "window.notifications",
    "window.safe_graphics",
    "distributed_inference.enabled",
    "distributed_inference.pooling",
    "distributed_inference.split",
    "distributed_inference.whole_on_own_devices",
    "distributed_inference.max_shards_per_request",
    "distributed_inference.shard_health_timeout_seconds",
    "distributed_inference.fallback_to_local",
    "distributed_inference.fallback_to_local_after_failures",
    "distributed_inference.spot_checks_per_thousand",
    "distributed_inference.activation_dtype",
    "distributed_inference.allow_self_as_shard",
    "distributed_inference.max_concurrent_pipelines",
    "distributed_inference.local_prefix_layers",
    "distributed_inference.local_suffix_layers",
    "distributed_inference.host.serve_shards",
    "distributed_inference.host.shard_eviction_idle_seconds",
    "distributed_inference.host.shard_max_vram_mb",
    "distributed_inference.host.max_concurrent_streams",
    "distributed_inference.host.layers",
    "distributed_inference.host.pause.on_battery",
    "distributed_inference.host.pause.in_full_screen",
    "distributed_inference.host.pause.when_busy_percent",
    "distributed_inference.host.pause.quiet_hours",
    "distributed_inference.host.pause.until",
];

/// Those of them that act from the next start on; all others act while the program runs.
pub const RESTART_KEYS: &[&str] = &[
    "device.keyring",
    "port.enabled",
    "port.address",
    "port.expose_to_lan",
    "port.allowed_origins",
    "network.listen_port",
    "network.loopback",
    "models.folder",
    "window.safe_graphics",
];

/// The settings file of one home.
#[derive(Debug)]
pub struct SettingsFile {
    path: PathBuf,
    settings: Settings,
    unknown_keys: Vec<String>,
}

/// A new value for one key.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    /// On or off.
    Switch(bool),
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// Back to the default.
    Unset,
}

/// Settings that cannot be read or changed. The file is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The file is no TOML, or a value is of another kind than its key takes.
    #[error("{} cannot be understood at line {line}, column {column}: {reason}. Correct it there; until then nothing is saved", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A value outside its range.
    #[error("`{key}` cannot be `{value}`{}: it takes {expected}", place(path, *line))]
    BadValue {
        /// The key, dotted.
        key: &'static str,
        /// The value.
        value: String,
        /// What the key takes.
        expected: String,
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1; `None` where the value is not from the file.
        line: Option<usize>,
    },
    /// No setting has this name.
    #[error("there is no setting `{key}`")]
    UnknownKey {
        /// The key, dotted.
        key: String,
    },
    /// The file is larger than any settings file.
    #[error("{} has {bytes} bytes, which is no settings file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: usize,
    },
    /// A file that the system refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Settings that could not be read without opening their home.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlanceError {
    /// There is no such home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The file.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

fn place(path: &Path, line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" ({}, line {line})", path.display()))
}

impl From<bool> for SettingValue {
    fn from(value: bool) -> Self {
        Self::Switch(value)
    }
}

impl From<i64> for SettingValue {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for SettingValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl SettingsFile {
    /// Reads the settings of `home`; a missing file means all defaults.
    pub fn load(home: &Home) -> Result<Self, SettingsError> {
        let path = home.file(FILE);
        // A link to a file kept elsewhere stays a link: the file it leads to is replaced.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let mut file = Self { path, settings: Settings::default(), unknown_keys: Vec::new() };
        file.reload()?;
        Ok(file)
    }

    /// The settings of the home at `choice`, without opening it: for what has to be known before a node
    /// runs. Nothing is written and no folder is made: a home that is not there has all defaults.
    pub fn glance(choice: &HomeChoice) -> Result<Settings, GlanceError> {
        let path = Home::data_of(choice)?.join(FILE);
        let mut file = Self { path, settings: Settings::default(), unknown_keys: Vec::new() };
        file.reload()?;
        Ok(file.settings)
    }

    /// Reads the file again; says whether a setting changed. On an error the earlier ones stand.
    pub fn reload(&mut self) -> Result<bool, SettingsError> {
        let text = self.text()?;
        let (settings, unknown_keys) = self.understand(&text)?;
        // The file is read again and again; what was said of it once is not said each time.
        for key in unknown_keys.iter().filter(|key| !self.unknown_keys.contains(key)) {
            tracing::warn!(key, file = %self.path.display(), "no setting has this name");
        }
        let changed = settings != self.settings;
        (self.settings, self.unknown_keys) = (settings, unknown_keys);
        Ok(changed)
    }

    /// Sets keys of [`SETTINGS_KEYS`] and saves, all or none.
    pub fn change(&mut self, changes: &[(&str, SettingValue)]) -> Result<(), SettingsError> {
        let text = self.text()?;
        // Understood as it stands before anything is added to it.
        self.understand(&text)?;
        let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            self.broken(&text, error.span(), error.message())
        })?;
        for (key, value) in changes {
            apply(&mut document, key, value)?;
        }
        let new_text = document.to_string();
        let (settings, unknown_keys) = self.understand(&new_text)?;
        if new_text != text {
            durable::write(&self.path, new_text.as_bytes(), Readers::Default)?;
        }
        (self.settings, self.unknown_keys) = (settings, unknown_keys);
        Ok(())
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Keys in the file that no setting has: misspelt, or of a later version. They are kept.
    #[must_use]
    pub fn unknown_keys(&self) -> &[String] {
        &self.unknown_keys
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn text(&self) -> Result<String, SettingsError> {
        let Some(bytes) = durable::read(&self.path)? else {
            return Ok(HEADER.to_owned());
        };
        if bytes.len() > SETTINGS_BYTES_MAX {
            return Err(SettingsError::TooLarge { path: self.path.clone(), bytes: bytes.len() });
        }
        String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes());
            self.broken(&text, Some(good..good), "this is no UTF-8 text")
        })
    }

    fn understand(&self, text: &str) -> Result<(Settings, Vec<String>), SettingsError> {
        let document = Document::parse(text)
            .map_err(|error| self.broken(text, error.span(), error.message()))?;
        let mut unknown = Vec::new();
        collect_unknown(document.as_table(), "", &mut unknown);
        let raw: RawSettings = toml_edit::de::from_str(text)
            .map_err(|error| self.broken(text, error.span(), error.message()))?;
        let settings = raw.resolve().map_err(|bad| self.bad_value(text, &document, bad))?;
        Ok((settings, unknown))
    }

    fn broken(
        &self,
        text: &str,
        span: Option<std::ops::Range<usize>>,
        reason: &str,
    ) -> SettingsError {
        let (line, column) = position(text, span.map_or(0, |span| span.start));
        SettingsError::Broken {
            path: self.path.clone(),
            line,
            column,
            // The first line is the sentence; the rest is a drawing of the place.
            reason: reason.lines().next().unwrap_or_default().to_owned(),
        }
    }

    fn bad_value(&self, text: &str, document: &Document<&str>, bad: OutOfRange) -> SettingsError {
        let span = find(document.as_item(), bad.key).and_then(Item::span);
        SettingsError::BadValue {
            key: bad.key,
            value: bad.value,
            expected: bad.expected,
            path: self.path.clone(),
            line: span.map(|span| position(text, span.start).0),
        }
    }
}

/// Puts `value` at `key`, keeping what a person wrote around it.
fn apply(document: &mut DocumentMut, key: &str, value: &SettingValue) -> Result<(), SettingsError> {
    if !SETTINGS_KEYS.contains(&key) {
        return Err(SettingsError::UnknownKey { key: key.to_owned() });
    }
    let value = match as_toml(value) {
        Some(value) if default_of(key).is_some_and(|default| same(&default, &value)) => None,
        value => value,
    };
    let (section, leaf) = key.rsplit_once('.').unwrap_or(("", key));
    let Some(value) = value else {
        if let Some(table) = find_mut(document.as_item_mut(), section) {
            unset(table, leaf, default_of(key));
        }
        return Ok(());
    };
    let table = make_section(document, section)?;
    match table.get_mut(leaf).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            table.insert(leaf, Item::Value(value));
        }
    }
    Ok(())
}

/// Takes a key out; where a person commented it, it gets its default instead, so that the comment
/// keeps its place.
fn unset(table: &mut dyn TableLike, leaf: &str, default: Option<Value>) {
    let above = table
        .key(leaf)
        .and_then(|key| key.leaf_decor().prefix())
        .and_then(|prefix| prefix.as_str())
        .is_some_and(|prefix| prefix.contains('#'));
    let behind = table
        .get(leaf)
        .and_then(Item::as_value)
        .and_then(|value| value.decor().suffix())
        .and_then(|suffix| suffix.as_str())
        .is_some_and(|suffix| suffix.contains('#'));
    match (above || behind, default) {
        (true, Some(default)) => {
            if let Some(old) = table.get_mut(leaf).and_then(Item::as_value_mut) {
                let decor = old.decor().clone();
                *old = default;
                *old.decor_mut() = decor;
            }
        }
        _ => {
            table.remove(leaf);
        }
    }
}

fn make_section<'a>(
    document: &'a mut DocumentMut,
    section: &str,
) -> Result<&'a mut dyn TableLike, SettingsError> {
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for part in section.split('.') {
        let item = table.entry(part).or_insert_with(|| {
            let mut new = toml_edit::Table::new();
            // Shown only if it holds keys itself, not for the sake of its children.
            new.set_implicit(true);
            Item::Table(new)
        });
        table = item
            .as_table_like_mut()
            .ok_or_else(|| SettingsError::UnknownKey { key: section.to_owned() })?;
    }
    Ok(table)
}

fn find<'a>(root: &'a Item, key: &str) -> Option<&'a Item> {
    key.split('.').try_fold(root, |item, part| item.get(part))
}

fn find_mut<'a>(root: &'a mut Item, key: &str) -> Option<&'a mut dyn TableLike> {
    key.split('.').try_fold(root, |item, part| item.get_mut(part))?.as_table_like_mut()
}

fn as_toml(value: &SettingValue) -> Option<Value> {
    match value {
        SettingValue::Switch(on) => Some((*on).into()),
        SettingValue::Number(number) => Some((*number).into()),
        SettingValue::Text(text) => Some(text.as_str().into()),
        SettingValue::Texts(texts) => Some(Value::Array(texts.iter().collect())),
        SettingValue::Unset => None,
    }
}

/// The default of `key`; `None` where the default is absence.
fn default_of(key: &str) -> Option<Value> {
    let document = toml_edit::ser::to_document(&RawSettings::default())
        .expect("plain structs of switches, numbers and texts are TOML");
    find(document.as_item(), key)?.as_value().cloned()
}

/// Whether two values mean the same, however they are written.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Boolean(a), Value::Boolean(b)) => a.value() == b.value(),
        (Value::Integer(a), Value::Integer(b)) => a.value() == b.value(),
        (Value::String(a), Value::String(b)) => a.value() == b.value(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        }
        _ => false,
    }
}

fn collect_unknown(table: &dyn TableLike, above: &str, unknown: &mut Vec<String>) {
    for (key, item) in table.iter() {
        let path = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        let is_section = SETTINGS_KEYS.iter().any(|known| {
            known.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'))
        });
        match item.as_table_like() {
            Some(inner) if is_section => collect_unknown(inner, &path, unknown),
            _ if SETTINGS_KEYS.contains(&path.as_str()) => {}
            _ => unknown.push(path),
        }
    }
}

/// Line and column, both from 1, of the byte `offset`.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_keys_is_the_list_of_keys() {
        let mut all = RawSettings::default();
        all.device.name = Some("x".to_owned());
        all.distributed_inference.host.shard_max_vram_mb = Some(1);
        all.distributed_inference.host.layers = Some("0-1".to_owned());
        let document = toml_edit::ser::to_document(&all).unwrap();
        let mut keys = Vec::new();
        fn leaves(table: &dyn TableLike, above: &str, keys: &mut Vec<String>) {
            for (key, item) in table.iter() {
                match item.as_table_like() {
                    Some(inner) => leaves(inner, &format!("{above}{key}."), keys),
                    None => keys.push(format!("{above}{key}")),
                }
            }
        }
        leaves(document.as_table(), "", &mut keys);
        assert_eq!(keys, SETTINGS_KEYS);
    }

    #[test]
    fn the_defaults_resolve() {
        assert!(RawSettings::default().resolve().is_ok());
    }
}
