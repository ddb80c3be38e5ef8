//! `settings.toml` on the disk: reading, changing keys, saving.
//!
//! A change starts from the file as it stands now, not from what was read at start, so that a hand
//! edit made meanwhile survives. A file that cannot be understood is never written to.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike};

use super::declare::Found;
use super::edit;
use super::renamed::{Renamed, with_todays_names};
use super::{OutOfRange, SETTINGS, SettingValue, Settings, documents, setting};
use crate::durable::{self, Deed, FileError, Readers};
use crate::home::{Home, HomeChoice, HomeError};

const FILE: &str = "settings.toml";

/// A longer file is refused: no person wrote it.
const SETTINGS_BYTES_MAX: usize = 1 << 20;

const HEADER: &str = "\
# Settings of Inglenook. Only what differs from the defaults stands here.
# Comments and keys that you write by hand are kept.
";

/// The settings file of one home.
#[derive(Debug)]
pub struct SettingsFile {
    path: PathBuf,
    settings: Settings,
    unknown_keys: Vec<String>,
}

/// Settings that cannot be read or changed. The file is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The file is no TOML.
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
    /// A value that its key does not take.
    #[error("`{key}` cannot be `{value}`{}: it takes {expected}{}", place(path, *line), advice(key))]
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
    #[error("there is no setting `{key}`{}", near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownKey {
        /// The key, dotted.
        key: String,
        /// A setting with the same last part.
        near: Option<&'static str>,
    },
    /// The file is larger than any settings file.
    #[error("{} has {bytes} bytes, which is no settings file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: usize,
    },
    /// A template was to be written where a file is already.
    #[error("{} is there already and stays as it is; `nook settings list` shows what it says", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
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

/// What a text says.
struct Understood {
    settings: Settings,
    unknown_keys: Vec<String>,
    /// The text with today's names, where it had earlier ones.
    rewritten: Option<(String, Vec<Renamed>)>,
}

fn place(path: &Path, line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" ({}, line {line})", path.display()))
}

/// A line that would be right. A section as such has none.
fn advice(key: &str) -> String {
    setting(key).map_or_else(String::new, |setting| {
        format!("; write for instance `{}`", setting.assignment())
    })
}

impl SettingsFile {
    /// Reads the settings of `home`; a missing file means all defaults. Keys of earlier versions
    /// are
    /// rewritten in the file.
    pub fn load(home: &Home) -> Result<Self, SettingsError> {
        let path = home.file(FILE);
        // A link to a file kept elsewhere stays a link: the file it leads to is replaced.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let mut file = Self { path, settings: Settings::default(), unknown_keys: Vec::new() };
        file.reload()?;
        Ok(file)
    }

    /// The settings of the home at `choice`, without opening it: for what has to be known before a
    /// node
    /// runs. Nothing is written and no folder is made: a home that is not there has all defaults.
    pub fn glance(choice: &HomeChoice) -> Result<Settings, GlanceError> {
        let path = Self::path_of(choice)?;
        let file = Self { path, settings: Settings::default(), unknown_keys: Vec::new() };
        Ok(file.understand(&file.text()?)?.settings)
    }

    /// Where the settings of the home at `choice` lie, or would.
    pub fn path_of(choice: &HomeChoice) -> Result<PathBuf, HomeError> {
        Ok(Home::data_of(choice)?.join(FILE))
    }

    /// Writes [`documents::template`] to `path`, if no file is there.
    pub fn write_template(path: &Path) -> Result<(), SettingsError> {
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AlreadyExists => SettingsError::Exists { path: path.to_owned() },
            _ => FileError::new(path, Deed::Write, &source).into(),
        };
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        file.write_all(documents::template().as_bytes()).map_err(failed)
    }

    /// Reads the file again; says whether a setting changed. On an error the earlier ones stand.
    pub fn reload(&mut self) -> Result<bool, SettingsError> {
        let text = self.text()?;
        let understood = self.understand(&text)?;
        if let Some((new, renamed)) = &understood.rewritten {
            self.rewrite(new, renamed);
        }
        // The file is read again and again; what was said of it once is not said each time.
        let unknown = &understood.unknown_keys;
        for key in unknown.iter().filter(|key| !self.unknown_keys.contains(key)) {
            tracing::warn!(key, file = %self.path.display(), "no setting has this name");
        }
        let changed = understood.settings != self.settings;
        self.keep(understood);
        Ok(changed)
    }

    /// Sets keys of [`SETTINGS`] and saves, all or none.
    pub fn change(&mut self, changes: &[(&str, SettingValue)]) -> Result<(), SettingsError> {
        let text = self.text()?;
        // Understood as it stands before anything is added to it.
        let before = self.understand(&text)?;
        let mut new_text = before.rewritten.map_or_else(|| text.clone(), |(new, _)| new);
        let defaults = Settings::default();
        for (key, value) in changes {
            let setting = setting(key).ok_or_else(|| SettingsError::unknown(key))?;
            let default = defaults.value(setting.key);
            let is_default = *value == default || setting.means_absent(value);
            new_text = match value.as_toml() {
                Some(value) if !is_default => edit::set(&new_text, setting.key, value)
                    .map_err(|edit::NoSection| SettingsError::unknown(setting.section()))?,
                _ => edit::unset(&new_text, setting.key, default.as_toml()),
            };
        }
        let understood = self.understand(&new_text)?;
        if new_text != text {
            durable::write(&self.path, new_text.as_bytes(), Readers::Default)?;
        }
        self.keep(understood);
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

    fn keep(&mut self, understood: Understood) {
        (self.settings, self.unknown_keys) = (understood.settings, understood.unknown_keys);
    }

    /// Saves today's names. Where that fails, the file goes on being understood as it is.
    fn rewrite(&self, text: &str, renamed: &[Renamed]) {
        let file = self.path.display();
        match durable::write(&self.path, text.as_bytes(), Readers::Default) {
            Ok(()) => {
                for Renamed { old, leaf } in renamed {
                    tracing::info!(old, new = leaf, %file, "a setting has a new name; rewritten");
                }
            }
            Err(error) => {
                tracing::warn!(%error, %file, "settings with earlier names could not be rewritten");
            }
        }
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

    fn understand(&self, text: &str) -> Result<Understood, SettingsError> {
        let document = self.parse(text)?;
        if let Some((new, renamed)) = with_todays_names(text, &document) {
            let mut understood = self.understand(&new)?;
            understood.rewritten = Some((new, renamed));
            return Ok(understood);
        }
        let mut unknown_keys = Vec::new();
        collect_unknown(document.as_table(), "", &mut unknown_keys);
        let settings = Settings::read(&Found::new(&document))
            .map_err(|bad| self.bad_value(text, &document, bad))?;
        Ok(Understood { settings, unknown_keys, rewritten: None })
    }

    fn parse<'a>(&self, text: &'a str) -> Result<Document<&'a str>, SettingsError> {
        Document::parse(text).map_err(|error| self.broken(text, error.span(), error.message()))
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
        let span = edit::find(document.as_item(), bad.key).and_then(Item::span);
        SettingsError::BadValue {
            key: bad.key,
            value: bad.value,
            expected: bad.expected,
            path: self.path.clone(),
            line: span.map(|span| position(text, span.start).0),
        }
    }
}

impl SettingsError {
    /// No setting is called `key`.
    #[must_use]
    pub fn unknown(key: &str) -> Self {
        let leaf = key.rsplit('.').next().unwrap_or(key);
        let near = SETTINGS.iter().find(|setting| setting.leaf() == leaf).map(|near| near.key);
        Self::UnknownKey { key: key.to_owned(), near }
    }
}

fn collect_unknown(table: &dyn TableLike, above: &str, unknown: &mut Vec<String>) {
    for (key, item) in table.iter() {
        let path = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        let is_section = SETTINGS.iter().any(|known| {
            known.key.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'))
        });
        match item.as_table_like() {
            Some(inner) if is_section => collect_unknown(inner, &path, unknown),
            _ if is_section || setting(&path).is_some() => {}
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
