//! Settings for tests of crates that act on them.

use crate::{Home, HomeChoice, SettingValue, Settings, SettingsFile};

/// Settings with one key set, as a settings file sets it.
///
/// # Panics
///
/// When there is no such key, or it does not take the value: the test is wrong.
#[must_use]
pub fn settings_with(key: &str, value: impl Into<SettingValue>) -> Settings {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let choice = HomeChoice::At(folder.path().to_owned());
    let home = Home::open(&choice).expect("a home of its own");
    let mut file = SettingsFile::load(&home).expect("no file is all defaults");
    file.change(&[(key, value.into())]).expect("a value that it takes");
    file.settings().clone()
}
