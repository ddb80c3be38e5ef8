//! What the owner chooses in the window: read from the settings, changed in their file.
//!
//! One source for each choice: doors see [`SettingsView`] in the view of the house, and a change
//! goes through the file, so that a hand edit and a click end in the same place.

use nook_base::ErrorCode;
use nook_store::{Pooling, SettingValue, Settings, SettingsError};

use crate::state::State;
use nook_api::NodeError;
use nook_api::sentence;
use nook_api::views::{PoolingView, SettingAsk, SettingData, SettingsView, Trouble, Wording};
use nook_resources::memory::memory_total;

/// What doors show of `settings`.
pub(crate) fn settings_view(settings: &Settings) -> SettingsView {
    let values = settings.values().into_iter();
    let port = &settings.port;
    SettingsView {
        values: values.map(|(key, value)| (key.to_owned(), data_of(value))).collect(),
        lend_memory_bytes: settings.host.shard_bytes(memory_total()),
        expose_to_lan: port.expose_to_lan && !port.address.ip().is_loopback(),
    }
}

/// A stored value as doors see it.
pub(crate) fn data_of(value: SettingValue) -> SettingData {
    match value {
        SettingValue::Switch(on) => SettingData::Switch(on),
        SettingValue::Number(number) => SettingData::Whole(number),
        SettingValue::Decimal(number) => SettingData::Decimal(number),
        SettingValue::Text(text) => SettingData::Text(text),
        SettingValue::Texts(texts) => SettingData::Texts(texts),
        SettingValue::Unset => SettingData::Absent,
    }
}

/// A value of a door as it is stored.
pub(crate) fn value_of(data: &SettingData) -> SettingValue {
    match data {
        SettingData::Switch(on) => SettingValue::Switch(*on),
        SettingData::Whole(number) => SettingValue::Number(*number),
        SettingData::Decimal(number) => SettingValue::Decimal(*number),
        SettingData::Text(text) => SettingValue::Text(text.clone()),
        SettingData::Texts(texts) => SettingValue::Texts(texts.clone()),
        SettingData::Absent => SettingValue::Unset,
    }
}

pub(crate) fn pooling_view(pooling: Pooling) -> PoolingView {
    match pooling {
        Pooling::WhenFaster => PoolingView::WhenFaster,
        Pooling::Always => PoolingView::Always,
    }
}

impl State {
    /// Changes one setting in the file, and makes it act.
    pub(crate) fn change_setting(&mut self, setting: SettingAsk) -> Result<(), NodeError> {
        let before = self.settings.settings().clone();
        let value = value_of(&setting.value);
        let chosen = self.settings.choose(&setting.key, value, memory_total());
        chosen.map_err(|error| not_changed(&error))?;
        if before != *self.settings.settings() {
            self.settings_changed(&before);
        }
        Ok(())
    }
}

/// Why a choice of the owner was not kept.
pub(crate) fn not_changed(error: &SettingsError) -> NodeError {
    NodeError::new(ErrorCode::BadRequest, sentence(&error.to_string()))
        .worded(Wording::Trouble { trouble: Box::new(settings_trouble(error)) })
}

/// What keeps the settings from being read or changed.
pub(crate) fn settings_trouble(error: &SettingsError) -> Trouble {
    let number = |count: &usize| u32::try_from(*count).unwrap_or(u32::MAX);
    match error {
        SettingsError::Broken { path, line, column, reason } => Trouble::SettingsBroken {
            file: path.display().to_string(),
            line: number(line),
            column: number(column),
            reason: reason.clone(),
        },
        SettingsError::BadValue { key, value, expected, .. } => Trouble::SettingUnfit {
            setting: (*key).to_owned(),
            value: value.clone(),
            reason: match nook_store::setting(key) {
                Some(setting) => format!("{expected}; for instance `{}`", setting.assignment()),
                None => expected.clone(),
            },
        },
        other => Trouble::SettingsUnusable { reason: other.to_string().into() },
    }
}

#[cfg(test)]
mod tests {
    use nook_store::{Home, HomeChoice, Megabytes, SETTINGS, SettingsFile};

    use super::*;

    struct Kept {
        _folder: tempfile::TempDir,
        home: Home,
        file: SettingsFile,
    }

    impl Kept {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let home = Home::open(&HomeChoice::At(folder.path().to_owned())).unwrap();
            let file = SettingsFile::load(&home).unwrap();
            Self { _folder: folder, home, file }
        }

        fn choose(&mut self, key: &str, value: impl Into<SettingData>) {
            let value: SettingData = value.into();
            self.file.choose(key, value_of(&value), memory_total()).unwrap();
        }
    }

    #[test]
    fn the_view_has_every_setting_as_the_file_says_it() {
        let mut kept = Kept::new();
        for (key, value) in [
            ("gate.lend", "own".into()),
            ("network.give_models", false.into()),
            ("distributed_inference.host.max_lent_memory_mb", SettingData::Whole(700)),
            ("distributed_inference.host.pause.quiet_hours", " 9:05-10:00".into()),
            ("chat.temperature", SettingData::Decimal(0.25)),
            ("window.language", "de".into()),
        ] {
            kept.choose(key, value);
        }
        let view = settings_view(kept.file.settings());
        assert_eq!(view.values.len(), SETTINGS.len());
        for (key, shown) in [
            ("gate.lend", "own".into()),
            ("gate.borrow", "trusted".into()),
            ("network.give_models", false.into()),
            ("distributed_inference.host.max_lent_memory_mb", SettingData::Whole(700)),
            ("distributed_inference.host.pause.quiet_hours", "09:05-10:00".into()),
            ("chat.temperature", SettingData::Decimal(0.25)),
            ("window.language", "de".into()),
            ("models.folder", SettingData::Absent),
        ] {
            assert_eq!(view.values[key], shown, "{key}");
        }
        assert_eq!(view.lend_memory_bytes, 700_000_000);
        assert_eq!(settings_view(SettingsFile::load(&kept.home).unwrap().settings()), view);
        let sent = serde_json::to_string(&view).unwrap();
        assert!(sent.contains(r#""models.folder":null"#), "{sent}");
        assert_eq!(serde_json::from_str::<SettingsView>(&sent).unwrap(), view);
    }

    #[test]
    fn the_port_opens_to_the_network_and_closes_again_with_its_number_and_a_chosen_address_kept() {
        let mut kept = Kept::new();
        for (by_hand, open, closed) in [
            (None, "0.0.0.0:4587", "127.0.0.1:4587"),
            (Some("127.0.0.1:5000"), "0.0.0.0:5000", "127.0.0.1:5000"),
            (Some("[::1]:5000"), "0.0.0.0:5000", "127.0.0.1:5000"),
            (Some("192.168.1.7:5000"), "192.168.1.7:5000", "127.0.0.1:5000"),
        ] {
            if let Some(address) = by_hand {
                let both = [("port.expose_to_lan", true.into()), ("port.address", address.into())];
                kept.file.change(&both).unwrap();
            }
            for (on, address) in [(true, open), (true, open), (false, closed), (false, closed)] {
                kept.choose("port.expose_to_lan", on);
                assert_eq!(kept.file.settings().port.address.to_string(), address);
                assert_eq!(settings_view(kept.file.settings()).expose_to_lan, on);
            }
        }
        // Allowed, but at an address that nobody else reaches.
        kept.file.change(&[("port.expose_to_lan", true.into())]).unwrap();
        assert!(!settings_view(kept.file.settings()).expose_to_lan);
    }

    #[test]
    fn the_usual_memory_for_others_is_no_choice_and_never_more_than_there_is() {
        const KEY: &str = "distributed_inference.host.max_lent_memory_mb";
        let mut kept = Kept::new();
        kept.choose(KEY, 700);
        assert_eq!(kept.file.settings().host.max_lent_memory, Some(Megabytes(700)));
        let usual = nook_store::usual_shard_bytes(memory_total()) / 1_000_000;
        kept.choose(KEY, i64::try_from(usual).unwrap());
        assert_eq!(kept.file.settings().host.max_lent_memory, None);
        let mut settings = Settings::default();
        settings.host.max_lent_memory = Some(Megabytes(u64::MAX));
        let shown = settings_view(&settings).lend_memory_bytes;
        assert!(memory_total().is_none_or(|all| shown == all), "{shown}");
    }

    #[test]
    fn the_gate_cannot_be_opened_to_devices_that_are_not_paired() {
        let mut kept = Kept::new();
        for trust in ["blocked", "unknown"] {
            let refused = kept.file.choose("gate.borrow", trust.into(), None).unwrap_err();
            assert_eq!(not_changed(&refused).code, ErrorCode::BadRequest);
            assert!(refused.to_string().contains("`guest`, `trusted` or `own`"), "{refused}");
        }
    }

    #[test]
    fn a_settings_file_that_cannot_be_used_is_told_with_its_place() {
        const KEY: &str = "distributed_inference.host.pause.quiet_hours";
        let mut kept = Kept::new();
        let refused = not_changed(&kept.file.choose(KEY, "late".into(), None).unwrap_err());
        let Some(Wording::Trouble { trouble }) = &refused.wording else { panic!("{refused:?}") };
        let Trouble::SettingUnfit { setting, value, reason } = &**trouble else {
            panic!("{trouble:?}")
        };
        assert_eq!((setting.as_str(), value.as_str()), (KEY, "late"));
        assert!(reason.contains("quiet_hours = \"22:00-07:00\""), "{reason}");
        let at = kept.file.path().to_owned();
        std::fs::write(&at, "a = 1\n= 2\n").unwrap();
        let broken = settings_trouble(&SettingsFile::load(&kept.home).unwrap_err());
        let Trouble::SettingsBroken { file, line: 2, .. } = &broken else { panic!("{broken:?}") };
        assert_eq!(*file, at.display().to_string());
    }
}
