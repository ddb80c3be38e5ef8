//! The settings of a home without its node: for commands that show them, and that change them while
//! no node runs.

use std::path::{Path, PathBuf};

use nook_store::{
    Acts, GlanceError, Home, HomeChoice, HomeError, SETTINGS, Settings, SettingsError, SettingsFile,
};
use serde::Serialize;

pub use nook_store::settings_typescript as typescript;

use crate::preferences::{data_of, value_of};
use crate::start::choice;
use nook_api::views::SettingData;
use nook_resources::memory::memory_total;

/// One setting, and how it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingLine {
    /// The key, dotted.
    pub key: &'static str,
    /// Its value; absent where something else decides.
    pub value: SettingData,
    /// Its default.
    pub default: SettingData,
    /// What it takes, in words.
    pub takes: String,
    /// What its number counts.
    pub unit: Option<&'static str>,
    /// Whether a change acts while the node runs.
    pub acts_at_once: bool,
    /// On what it acts, in words.
    pub acts_on: String,
    /// What it does.
    pub text: String,
}

/// Settings that could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsProblem {
    /// Reading them.
    #[error(transparent)]
    Glance(#[from] GlanceError),
    /// The home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The file, the key or the value.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// Every setting of `home`, in the order of the file.
pub fn list(home: Option<&Path>) -> Result<Vec<SettingLine>, SettingsProblem> {
    let values = SettingsFile::glance(&choice(home))?.values();
    let defaults = Settings::default().values();
    let lines = SETTINGS.iter().zip(values).zip(defaults);
    Ok(lines
        .map(|((setting, (_, value)), (_, default))| SettingLine {
            key: setting.key,
            value: data_of(value),
            default: data_of(default),
            takes: setting.takes.to_string(),
            unit: setting.unit(),
            acts_at_once: setting.acts() == Acts::AtOnce,
            acts_on: setting.side().to_string(),
            text: setting.text(),
        })
        .collect())
}

/// The setting `key` of `home`.
pub fn get(home: Option<&Path>, key: &str) -> Result<SettingLine, SettingsProblem> {
    let line = list(home)?.into_iter().find(|line| line.key == key);
    line.ok_or_else(|| SettingsError::unknown(key).into())
}

/// Whether a page of the window offers the setting `key`.
#[must_use]
pub fn is_in_window(key: &str) -> bool {
    nook_store::setting(key).is_some_and(|setting| setting.is_in_window())
}

/// The value for `key` that `words` of a command line mean.
pub fn typed(key: &str, words: &[String]) -> Result<SettingData, SettingsProblem> {
    let setting = nook_store::setting(key).ok_or_else(|| SettingsError::unknown(key))?;
    Ok(data_of(setting.typed(words)))
}

/// Sets `key` in the file of `home`, which no node may hold.
pub fn set(home: Option<&Path>, key: &str, value: &SettingData) -> Result<(), SettingsProblem> {
    let home = Home::open(&choice(home))?;
    let mut file = SettingsFile::load(&home)?;
    Ok(file.choose(key, value_of(value), memory_total())?)
}

/// Writes the commented template into `home`, if it has no settings file; says where.
pub fn init(home: Option<&Path>) -> Result<PathBuf, SettingsProblem> {
    let choice: HomeChoice = choice(home);
    match Home::open(&choice) {
        // A running node has made the folder.
        Ok(_) | Err(HomeError::AlreadyRunning { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let path = SettingsFile::path_of(&choice)?;
    SettingsFile::write_template(&path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WindowChoices;

    #[test]
    fn what_a_window_needs_before_there_is_a_node_is_what_was_set_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = Some(folder.path());
        let chosen = || crate::window_choices(home);
        assert_eq!(chosen(), WindowChoices::default());
        set(home, "window.language", &"de".into()).unwrap();
        set(home, "window.safe_graphics", &true.into()).unwrap();
        let both = WindowChoices { language: Some("de".to_owned()), safe_graphics: true };
        assert_eq!(chosen(), both);
        set(home, "window.language", &SettingData::Absent).unwrap();
        assert_eq!(chosen(), WindowChoices { language: None, ..both });
    }

    #[test]
    fn settings_are_listed_set_and_written_out_without_a_node() {
        let folder = tempfile::tempdir().unwrap();
        let home = Some(folder.path());
        let key = "distributed_inference.host.max_concurrent_streams";
        assert_eq!(get(home, key).unwrap().value, 4.into());
        let file = init(home).unwrap();
        let again = init(home).unwrap_err().to_string();
        assert!(again.contains("is there already"), "{again}");
        let three = typed(key, &["3".to_owned()]).unwrap();
        set(home, key, &three).unwrap();
        let line = get(home, key).unwrap();
        assert_eq!((line.value, line.default), (3.into(), 4.into()));
        assert_eq!(list(home).unwrap().len(), SETTINGS.len());
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("# max_concurrent_streams = 4\nmax_concurrent_streams = 3\n"),
            "{text}"
        );
        for problem in [
            get(home, "streams").unwrap_err(),
            typed("streams", &["3".to_owned()]).unwrap_err(),
            set(home, "streams", &three).unwrap_err(),
        ] {
            assert!(problem.to_string().contains("no setting `streams`"), "{problem}");
        }
        let refused = set(home, key, &65.into()).unwrap_err().to_string();
        assert!(refused.contains("a whole number from 1 to 64"), "{refused}");
    }
}
