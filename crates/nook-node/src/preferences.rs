//! What the owner chooses in the window: read from the settings, changed in their file.
//!
//! One source for each choice: doors see [`SettingsView`] in the view of the house, and a change goes
//! through the file, so that a hand edit and a click end in the same place.

#[cfg(test)]
mod readers;

use std::net::{Ipv4Addr, SocketAddr};

use nook_base::ErrorCode;
use nook_store::{Pooling, SettingValue, Settings, SettingsError, usual_shard_bytes};
use nook_trust::TrustLevel;

use crate::devices;
use crate::house::HouseError;
use crate::models::sentence;
use crate::resources::memory::memory_total;
use crate::state::State;
use crate::views::{PoolingView, SettingAsk, SettingsView, Trouble, Trust, Wording};

const BYTES_PER_MEGABYTE: u64 = 1_000_000;

/// The choices as front ends show them.
pub(crate) fn settings_view(settings: &Settings) -> SettingsView {
    let (inference, host) = (&settings.inference, &settings.host);
    SettingsView {
        lend: devices::trust(settings.gate.lend),
        borrow: devices::trust(settings.gate.borrow),
        copy: devices::trust(settings.gate.copy),
        give_models: settings.network.give_models,
        lend_memory_bytes: host.shard_bytes(memory_total()),
        lend_streams: host.max_concurrent_streams,
        pooling: pooling_view(inference.pooling),
        whole_on_own_devices: inference.whole_on_own_devices,
        local_prefix_layers: inference.local_prefix_layers,
        local_suffix_layers: inference.local_suffix_layers,
        spot_checks_per_thousand: inference.spot_checks_per_thousand,
        pause_on_battery: host.pause.on_battery,
        pause_in_full_screen: host.pause.in_full_screen,
        pause_when_busy_percent: host.pause.when_busy_percent.unwrap_or(0),
        quiet_hours: host.pause.quiet_hours.map_or_else(String::new, |hours| hours.to_string()),
        notifications: settings.window.notifications,
        safe_graphics: settings.window.safe_graphics,
        expose_to_lan: settings.port.expose_to_lan && !settings.port.address.ip().is_loopback(),
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
    pub(crate) fn change_setting(&mut self, setting: SettingAsk) -> Result<(), HouseError> {
        let before = self.settings.settings().clone();
        let changes = written(setting, before.port.address)?;
        self.settings.change(&changes).map_err(|error| not_changed(&error))?;
        if before != *self.settings.settings() {
            self.settings_changed(&before);
        }
        Ok(())
    }
}

/// Why a choice of the owner was not kept.
pub(crate) fn not_changed(error: &SettingsError) -> HouseError {
    HouseError::new(ErrorCode::BadRequest, sentence(&error.to_string()))
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
            reason: expected.clone(),
        },
        other => Trouble::SettingsUnusable { reason: other.to_string().into() },
    }
}

/// A setting as the file writes it, where the port has been at `port` so far. Ranges are checked where the
/// file is read.
fn written(
    setting: SettingAsk,
    port: SocketAddr,
) -> Result<Vec<(&'static str, SettingValue)>, HouseError> {
    let number = |value: u32| SettingValue::Number(i64::from(value));
    Ok(vec![match setting {
        SettingAsk::ExposeToLan(on) => return Ok(exposure(on, port)),
        SettingAsk::Lend(trust) => ("gate.lend", level(trust)?),
        SettingAsk::Borrow(trust) => ("gate.borrow", level(trust)?),
        SettingAsk::Copy(trust) => ("gate.copy", level(trust)?),
        SettingAsk::GiveModels(on) => ("network.give_models", on.into()),
        SettingAsk::LendMemoryBytes(bytes) => {
            let megabytes = i64::try_from(bytes / BYTES_PER_MEGABYTE).unwrap_or(i64::MAX);
            // The usual amount is no choice: another machine, or more memory, changes it.
            let usual = bytes == usual_shard_bytes(memory_total());
            let value = if usual { SettingValue::Unset } else { SettingValue::Number(megabytes) };
            ("distributed_inference.host.shard_max_vram_mb", value)
        }
        SettingAsk::LendStreams(streams) => {
            ("distributed_inference.host.max_concurrent_streams", number(streams))
        }
        SettingAsk::Pooling(pooling) => {
            let name = match pooling {
                PoolingView::WhenFaster => "when_faster",
                PoolingView::Always => "always",
            };
            ("distributed_inference.pooling", name.into())
        }
        SettingAsk::WholeOnOwnDevices(on) => {
            ("distributed_inference.whole_on_own_devices", on.into())
        }
        SettingAsk::LocalPrefixLayers(layers) => {
            ("distributed_inference.local_prefix_layers", number(layers))
        }
        SettingAsk::LocalSuffixLayers(layers) => {
            ("distributed_inference.local_suffix_layers", number(layers))
        }
        SettingAsk::SpotChecksPerThousand(checks) => {
            ("distributed_inference.spot_checks_per_thousand", number(checks))
        }
        SettingAsk::PauseOnBattery(on) => {
            ("distributed_inference.host.pause.on_battery", on.into())
        }
        SettingAsk::PauseInFullScreen(on) => {
            ("distributed_inference.host.pause.in_full_screen", on.into())
        }
        SettingAsk::PauseWhenBusyPercent(percent) => {
            ("distributed_inference.host.pause.when_busy_percent", number(percent))
        }
        SettingAsk::QuietHours(hours) => {
            ("distributed_inference.host.pause.quiet_hours", hours.as_str().into())
        }
        SettingAsk::Notifications(on) => ("window.notifications", on.into()),
        SettingAsk::SafeGraphics(on) => ("window.safe_graphics", on.into()),
        SettingAsk::Language(code) => ("window.language", code.as_str().into()),
    }])
}

/// The address goes along: a loopback address is reached by nobody else, and another one is refused where
/// nobody else may reach it. One that fits already stays, so does the number of the port.
fn exposure(on: bool, port: SocketAddr) -> Vec<(&'static str, SettingValue)> {
    let ip = match (on, port.ip().is_loopback()) {
        (true, true) => Ipv4Addr::UNSPECIFIED.into(),
        (false, false) => Ipv4Addr::LOCALHOST.into(),
        _ => port.ip(),
    };
    let address = SocketAddr::new(ip, port.port()).to_string();
    vec![("port.expose_to_lan", on.into()), ("port.address", address.as_str().into())]
}

/// A least trust below guest would open the gate to devices that are not paired.
fn level(trust: Trust) -> Result<SettingValue, HouseError> {
    let level = match trust {
        Trust::Guest => TrustLevel::Guest,
        Trust::Trusted => TrustLevel::Trusted,
        Trust::Own => TrustLevel::Own,
        Trust::Blocked | Trust::Unknown => {
            let refusal = "Only paired devices can take part: choose guest, trusted or own.";
            return Err(HouseError::new(ErrorCode::BadRequest, refusal));
        }
    };
    Ok(level.name().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4587);

    #[test]
    fn what_is_chosen_in_the_window_is_what_the_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let choice = nook_store::HomeChoice::At(folder.path().to_owned());
        let home = nook_store::Home::open(&choice).unwrap();
        let mut file = nook_store::SettingsFile::load(&home).unwrap();
        let asks = [
            SettingAsk::Lend(Trust::Own),
            SettingAsk::Borrow(Trust::Own),
            SettingAsk::Copy(Trust::Own),
            SettingAsk::GiveModels(false),
            SettingAsk::LendMemoryBytes(700_999_999),
            SettingAsk::LendStreams(3),
            SettingAsk::Pooling(PoolingView::Always),
            SettingAsk::WholeOnOwnDevices(true),
            SettingAsk::LocalPrefixLayers(2),
            SettingAsk::LocalSuffixLayers(4),
            SettingAsk::SpotChecksPerThousand(5),
            SettingAsk::PauseOnBattery(false),
            SettingAsk::PauseInFullScreen(false),
            SettingAsk::PauseWhenBusyPercent(60),
            SettingAsk::QuietHours(" 9:05-10:00".to_owned()),
            SettingAsk::Notifications(false),
            SettingAsk::SafeGraphics(true),
            SettingAsk::ExposeToLan(true),
            SettingAsk::Language("de".to_owned()),
        ];
        let at = file.settings().port.address;
        let changes: Vec<_> = asks.into_iter().flat_map(|ask| written(ask, at).unwrap()).collect();
        file.change(&changes).unwrap();
        let expected = SettingsView {
            lend: Trust::Own,
            borrow: Trust::Own,
            copy: Trust::Own,
            give_models: false,
            lend_memory_bytes: 700_000_000,
            lend_streams: 3,
            pooling: PoolingView::Always,
            whole_on_own_devices: true,
            local_prefix_layers: 2,
            local_suffix_layers: 4,
            spot_checks_per_thousand: 5,
            pause_on_battery: false,
            pause_in_full_screen: false,
            pause_when_busy_percent: 60,
            quiet_hours: "09:05-10:00".to_owned(),
            notifications: false,
            safe_graphics: true,
            expose_to_lan: true,
        };
        assert_eq!(settings_view(file.settings()), expected);
        assert_eq!(file.settings().window.language.as_deref(), Some("de"));
        assert_eq!(
            settings_view(nook_store::SettingsFile::load(&home).unwrap().settings()),
            expected
        );
    }

    #[test]
    fn the_port_opens_to_the_network_and_closes_again_with_its_number_and_a_chosen_address_kept() {
        let folder = tempfile::tempdir().unwrap();
        let choice = nook_store::HomeChoice::At(folder.path().to_owned());
        let home = nook_store::Home::open(&choice).unwrap();
        let mut file = nook_store::SettingsFile::load(&home).unwrap();
        for (by_hand, open, closed) in [
            (None, "0.0.0.0:4587", "127.0.0.1:4587"),
            (Some("127.0.0.1:5000"), "0.0.0.0:5000", "127.0.0.1:5000"),
            (Some("[::1]:5000"), "0.0.0.0:5000", "127.0.0.1:5000"),
            (Some("192.168.1.7:5000"), "192.168.1.7:5000", "127.0.0.1:5000"),
        ] {
            if let Some(address) = by_hand {
                let both = [("port.expose_to_lan", true.into()), ("port.address", address.into())];
                file.change(&both).unwrap();
            }
            for (on, address) in [(true, open), (true, open), (false, closed), (false, closed)] {
                let ask = SettingAsk::ExposeToLan(on);
                file.change(&written(ask, file.settings().port.address).unwrap()).unwrap();
                assert_eq!(file.settings().port.address.to_string(), address);
                assert_eq!(settings_view(file.settings()).expose_to_lan, on);
            }
        }
        // Allowed, but at an address that nobody else reaches.
        file.change(&[("port.expose_to_lan", true.into())]).unwrap();
        assert!(!settings_view(file.settings()).expose_to_lan);
    }

    #[test]
    fn the_usual_memory_for_others_is_no_choice_and_never_more_than_there_is() {
        let usual = usual_shard_bytes(memory_total());
        let (key, value) = written(SettingAsk::LendMemoryBytes(usual), PORT).unwrap().remove(0);
        assert_eq!(
            (key.rsplit_once('.').unwrap().1, value),
            ("shard_max_vram_mb", SettingValue::Unset)
        );
        let mut settings = Settings::default();
        settings.host.shard_max_bytes = Some(u64::MAX);
        let shown = settings_view(&settings).lend_memory_bytes;
        assert!(memory_total().is_none_or(|all| shown == all), "{shown}");
    }

    #[test]
    fn the_gate_cannot_be_opened_to_devices_that_are_not_paired() {
        for trust in [Trust::Blocked, Trust::Unknown] {
            let refused = written(SettingAsk::Borrow(trust), PORT).unwrap_err();
            assert_eq!(refused.code, ErrorCode::BadRequest);
        }
    }

    #[test]
    fn a_settings_file_that_cannot_be_used_is_told_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let choice = nook_store::HomeChoice::At(folder.path().to_owned());
        let home = nook_store::Home::open(&choice).unwrap();
        let mut file = nook_store::SettingsFile::load(&home).unwrap();
        let quiet = written(SettingAsk::QuietHours("late".to_owned()), PORT).unwrap();
        let refused = not_changed(&file.change(&quiet).unwrap_err());
        let Some(Wording::Trouble { trouble }) = &refused.wording else { panic!("{refused:?}") };
        let Trouble::SettingUnfit { setting, value, .. } = &**trouble else {
            panic!("{trouble:?}")
        };
        assert!(setting.ends_with("quiet_hours") && value.contains("late"), "{setting}: {value}");
        let at = file.path().to_owned();
        std::fs::write(&at, "a = 1\n= 2\n").unwrap();
        let broken = settings_trouble(&nook_store::SettingsFile::load(&home).unwrap_err());
        let Trouble::SettingsBroken { file, line: 2, .. } = &broken else { panic!("{broken:?}") };
        assert_eq!(*file, at.display().to_string());
    }
}
