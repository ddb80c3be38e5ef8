//! Settings as a person edits them and as the app changes them.

use std::fs;
use std::time::Duration;

use nook_base::{ActivationDtype, LayerRange};
use nook_store::{
    ActivationChoice, GlanceError, Home, HomeChoice, KeyringChoice, Pooling, SETTINGS_KEYS,
    SettingValue, Settings, SettingsError, SettingsFile, SplitChoice,
};
use nook_trust::TrustLevel;
use proptest::prelude::*;

struct House {
    _folder: tempfile::TempDir,
    home: Home,
}

impl House {
    fn with(text: &str) -> Self {
        let house = Self::empty();
        fs::write(house.home.data().join("settings.toml"), text).expect("a file");
        house
    }

    fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home");
        Self { _folder: folder, home }
    }

    fn load(&self) -> Result<SettingsFile, SettingsError> {
        SettingsFile::load(&self.home)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.home.data().join("settings.toml")).expect("a file")
    }
}

#[test]
fn a_missing_file_means_the_documented_defaults_and_stays_missing() {
    let house = House::empty();
    let file = house.load().unwrap();
    let settings = file.settings();
    assert_eq!(settings, &Settings::default());
    assert_eq!(settings.port.address, "127.0.0.1:4587".parse().unwrap());
    assert_eq!(settings.gate.remote_whole, TrustLevel::Own);
    assert_eq!(settings.inference.activation_dtype, ActivationChoice::Always(ActivationDtype::F16));
    assert_eq!(settings.inference.pooling, Pooling::WhenFaster);
    assert_eq!(settings.inference.split, SplitChoice::Planned);
    assert!(!settings.inference.whole_on_own_devices, "words stay here unless the owner says so");
    assert_eq!(settings.inference.shard_health_timeout, Duration::from_secs(30));
    assert_eq!(settings.host.shard_max_bytes, None, "how much is lent follows the machine");
    assert_eq!(settings.device.keyring, KeyringChoice::System);
    assert!(!settings.host.serve_shards && settings.port.enabled);
    assert!(!house.home.data().join("settings.toml").exists());
}

#[test]
fn hand_edits_comments_and_unknown_keys_survive_a_save() {
    let text = "\
# my notes
[distributed_inference]
local_prefix_layers = 2 # privacy of my own
future_key = \"of a later version\"

[distributed_inference.host]
# on since May
serve_shards = true

[other]
x = 1
";
    let house = House::with(text);
    let mut file = house.load().unwrap();
    assert_eq!(file.unknown_keys(), ["distributed_inference.future_key", "other"]);
    file.change(&[
        ("distributed_inference.host.max_concurrent_streams", 2.into()),
        ("device.name", "Desk".into()),
        ("distributed_inference.local_prefix_layers", 3.into()),
    ])
    .unwrap();
    let saved = house.text();
    for kept in [
        "# my notes",
        "local_prefix_layers = 3 # privacy of my own",
        "future_key = \"of a later version\"",
        "# on since May\nserve_shards = true",
        "x = 1",
        "name = \"Desk\"",
        "max_concurrent_streams = 2",
    ] {
        assert!(saved.contains(kept), "{kept} in:\n{saved}");
    }
    let again = house.load().unwrap();
    assert_eq!(again.settings(), file.settings());
    assert_eq!(again.settings().host.max_concurrent_streams, 2);
}

#[test]
fn the_file_holds_differences_only() {
    let house = House::empty();
    let mut file = house.load().unwrap();
    let share = "distributed_inference.host.serve_shards";
    file.change(&[(share, true.into()), ("port.enabled", true.into())]).unwrap();
    assert!(house.text().contains("serve_shards = true"));
    assert!(!house.text().contains("enabled"), "a default is not frozen:\n{}", house.text());
    file.change(&[(share, false.into())]).unwrap();
    assert!(!house.text().contains("serve_shards"), "{}", house.text());
    file.change(&[("device.name", "A".into())]).unwrap();
    file.change(&[("device.name", SettingValue::Unset)]).unwrap();
    assert_eq!(house.load().unwrap().settings(), &Settings::default());
}

#[test]
fn a_comment_keeps_its_key_when_the_value_returns_to_the_default() {
    let house = House::with("[port]\n# off while testing\nenabled = false\n");
    let mut file = house.load().unwrap();
    file.change(&[("port.enabled", true.into())]).unwrap();
    assert_eq!(house.text(), "[port]\n# off while testing\nenabled = true\n");
}

#[test]
fn an_edit_made_meanwhile_survives_a_save() {
    let house = House::with("[port]\nenabled = false\n");
    let mut file = house.load().unwrap();
    fs::write(file.path(), "[port]\nenabled = false\n[network]\nlisten_port = 5000\n").unwrap();
    file.change(&[("device.name", "Desk".into())]).unwrap();
    assert!(house.text().contains("listen_port = 5000"));
    assert_eq!(file.settings().network.listen_port, 5000);
}

#[test]
fn a_broken_file_is_named_with_line_and_column_and_never_written_to() {
    let cases: [(&str, usize, usize); 4] = [
        ("[port]\nenabled = \n", 2, 11),
        ("[port\n", 1, 6),
        ("a = 1\na = 2\n", 2, 1),
        ("[port]\nenabled = \"yes\"\n", 2, 11),
    ];
    for (text, line, column) in cases {
        let house = House::with("");
        let mut file = house.load().unwrap();
        fs::write(file.path(), text).unwrap();
        for outcome in [
            house.load().map(|_| ()),
            file.reload().map(|_| ()),
            file.change(&[("device.name", "Desk".into())]),
        ] {
            let error = outcome.unwrap_err();
            let SettingsError::Broken { line: at, column: col, .. } = &error else {
                panic!("{text:?}: {error}");
            };
            assert_eq!((*at, *col), (line, column), "{text:?}: {error}");
        }
        assert_eq!(house.text(), text);
        assert_eq!(file.settings(), &Settings::default(), "the earlier ones stand");
    }
    let house = House::with("");
    fs::write(house.home.data().join("settings.toml"), b"[port]\nx = \"\xff\"\n").unwrap();
    let error = house.load().unwrap_err();
    assert!(matches!(error, SettingsError::Broken { line: 2, .. }), "{error}");
}

#[test]
fn values_out_of_range_are_refused_with_what_is_allowed() {
    let cases = [
        ("[network]\nlisten_port = 80\n", "network.listen_port"),
        ("[network]\nlisten_port = 70000\n", "network.listen_port"),
        ("[port]\naddress = \"4587\"\n", "port.address"),
        ("[port]\naddress = \"0.0.0.0:4587\"\n", "port.address"),
        ("[port]\nallowed_origins = [\"*\"]\n", "port.allowed_origins"),
        ("[port]\nallowed_origins = [\"null\"]\n", "port.allowed_origins"),
        ("[port]\nallowed_origins = [\"http://x/\"]\n", "port.allowed_origins"),
        ("[gate]\nlend = \"unknown\"\n", "gate.lend"),
        ("[gate]\nborrow = \"blocked\"\n", "gate.borrow"),
        ("[gate]\nremote_whole = \"\"\n", "gate.remote_whole"),
        ("[device]\nkeyring = \"maybe\"\n", "device.keyring"),
        ("[distributed_inference]\npooling = \"never\"\n", "distributed_inference.pooling"),
        ("[distributed_inference]\nsplit = \"fair\"\n", "distributed_inference.split"),
        (
            "[distributed_inference]\nactivation_dtype = \"q4\"\n",
            "distributed_inference.activation_dtype",
        ),
        (
            "[distributed_inference]\nmax_concurrent_pipelines = 0\n",
            "distributed_inference.max_concurrent_pipelines",
        ),
        (
            "[distributed_inference]\nlocal_prefix_layers = -1\n",
            "distributed_inference.local_prefix_layers",
        ),
        ("[distributed_inference.host]\nlayers = \"5-2\"\n", "distributed_inference.host.layers"),
        (
            "[distributed_inference.host]\nlayers = \"0-4294967295\"\n",
            "distributed_inference.host.layers",
        ),
        (
            "[distributed_inference.host]\nmax_concurrent_streams = 9223372036854775807\n",
            "distributed_inference.host.max_concurrent_streams",
        ),
    ];
    for (text, expected) in cases {
        let house = House::with(text);
        let error = house.load().unwrap_err();
        let SettingsError::BadValue { key, line, .. } = &error else {
            panic!("{text:?}: {error}");
        };
        assert_eq!((*key, *line), (expected, Some(2)), "{error}");
    }
}

#[test]
fn activations_travel_as_the_owner_says_or_as_the_links_are() {
    use ActivationChoice::{Always, ByLink};
    for (word, expected) in [
        ("auto", ByLink),
        ("fp16", Always(ActivationDtype::F16)),
        ("f16", Always(ActivationDtype::F16)),
        ("fp32", Always(ActivationDtype::F32)),
        ("q8", Always(ActivationDtype::Q8)),
    ] {
        let house =
            House::with(&format!("[distributed_inference]\nactivation_dtype = \"{word}\"\n"));
        let file = house.load().unwrap();
        assert_eq!(file.settings().inference.activation_dtype, expected, "{word}");
    }
}

#[test]
fn a_refused_change_changes_neither_file_nor_settings() {
    let house = House::with("[network]\nlisten_port = 5000\n");
    let mut file = house.load().unwrap();
    let before = (house.text(), file.settings().clone());
    let refused =
        file.change(&[("device.name", "Desk".into()), ("network.listen_port", 80.into())]);
    assert!(matches!(refused, Err(SettingsError::BadValue { .. })));
    let refused = file.change(&[("device.nmae", "Desk".into())]);
    assert_eq!(refused, Err(SettingsError::UnknownKey { key: "device.nmae".to_owned() }));
    assert_eq!((house.text(), file.settings().clone()), before);
}

#[test]
fn every_key_changes_something() {
    let values: [SettingValue; 8] = [
        true.into(),
        false.into(),
        1.into(),
        3.into(),
        60.into(),
        5000.into(),
        SettingValue::Texts(vec!["http://localhost:3000".to_owned()]),
        "guest".into(),
    ];
    let special = [
        ("device.keyring", "off"),
        ("port.address", "127.0.0.1:9999"),
        ("distributed_inference.pooling", "always"),
        ("distributed_inference.split", "uniform"),
        ("distributed_inference.activation_dtype", "fp32"),
        ("distributed_inference.host.layers", "2-5"),
        ("distributed_inference.host.pause.quiet_hours", "22:00-07:00"),
        ("window.language", "de"),
        ("models.folder", if cfg!(windows) { r"D:\models" } else { "/models" }),
    ];
    for key in SETTINGS_KEYS {
        let special = special.iter().find(|(k, _)| k == key).map(|(_, v)| (*v).into());
        let moved = values.iter().cloned().chain(special).any(|value| {
            let house = House::empty();
            let mut file = house.load().unwrap();
            file.change(&[(key, value)]).is_ok() && file.settings() != &Settings::default()
        });
        assert!(moved, "{key}");
    }
    let house = House::with("[port]\naddress = \"0.0.0.0:4587\"\nexpose_to_lan = true\n");
    assert!(house.load().unwrap().settings().port.address.ip().is_unspecified());
    let house = House::with("[distributed_inference.host]\nlayers = \"2-5\"\n");
    let layers = house.load().unwrap().settings().host.layers;
    assert_eq!(layers, Some(LayerRange::new(2, 6).unwrap()));
}

#[test]
fn settings_are_seen_without_opening_the_home_that_a_node_holds() {
    let house = House::with("[window]\nlanguage = \"de\"\nsafe_graphics = true\n");
    let held = HomeChoice::At(house.home.data().to_owned());
    assert_eq!(SettingsFile::glance(&held).unwrap(), *house.load().unwrap().settings());
    let seen = SettingsFile::glance(&held).unwrap().window;
    assert_eq!((seen.language.as_deref(), seen.safe_graphics), (Some("de"), true));
    let broken = House::with("[window]\nlanguage = \"../de\"\n");
    let held = HomeChoice::At(broken.home.data().to_owned());
    assert!(matches!(SettingsFile::glance(&held), Err(GlanceError::Settings(_))));
}

#[test]
fn a_glance_at_a_home_that_is_not_there_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("not/there");
    let seen = SettingsFile::glance(&HomeChoice::At(home)).unwrap();
    assert_eq!(seen, Settings::default());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn names_are_sanitised() {
    let house = House::with("[device]\nname = \"\\u202eDesk\\u0000\"\n");
    let name = house.load().unwrap().settings().device.name.clone();
    assert_eq!(name.map(String::from).as_deref(), Some("Desk"));
}

#[cfg(unix)]
#[test]
fn a_linked_settings_file_stays_a_link() {
    let house = House::empty();
    let kept = tempfile::tempdir().unwrap();
    let real = kept.path().join("my-settings.toml");
    fs::write(&real, "[port]\nenabled = false\n").unwrap();
    let link = house.home.data().join("settings.toml");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let mut file = house.load().unwrap();
    file.change(&[("device.name", "Desk".into())]).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("Desk"));
}

proptest! {
    #[test]
    fn no_text_panics_and_no_broken_text_is_touched(text in "(\\[[a-z_.]{0,24}\\]\n|[a-z_]{0,16} = [0-9\"a-z.:\\[\\]-]{0,12}\n|.{0,20}\n){0,8}") {
        let house = House::with(&text);
        if let Ok(mut file) = house.load() {
            let _ = file.change(&[("device.name", "Desk".into())]);
        } else {
            prop_assert_eq!(house.text(), text);
        }
    }
}
