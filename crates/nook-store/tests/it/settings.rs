//! Settings as a person edits them and as the app changes them.

mod template;

use std::fs;
use std::time::Duration;

use nook_base::{ActivationDtype, LayerRange};
use nook_store::{
    ActivationChoice, GlanceError, Home, HomeChoice, KeyringChoice, Megabytes, Pooling, SETTINGS,
    SettingValue, Settings, SettingsError, SettingsFile, SplitChoice, Takes,
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
    assert_eq!(settings.gate.lend, TrustLevel::Trusted);
    assert_eq!(settings.inference.activation_dtype, ActivationChoice::Always(ActivationDtype::F16));
    assert_eq!(settings.inference.pooling, Pooling::WhenFaster);
    assert_eq!(settings.inference.split, SplitChoice::Planned);
    assert!(!settings.inference.whole_on_own_devices, "words stay here unless the owner says so");
    assert_eq!(settings.inference.shard_health_timeout, Duration::from_secs(30));
    assert_eq!(settings.host.max_lent_memory, None, "how much is lent follows the machine");
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
    let cases: [(&str, usize, usize); 3] =
        [("[port]\nenabled = \n", 2, 11), ("[port\n", 1, 6), ("a = 1\na = 2\n", 2, 1)];
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
        ("[port]\nenabled = \"yes\"\n", "port.enabled"),
        ("[port]\nenabled = [true]\n", "port.enabled"),
        ("[port]\nenabled.x = true\n", "port.enabled"),
        ("[port]\naddress = 4587\n", "port.address"),
        ("[port]\nallowed_origins = \"http://x\"\n", "port.allowed_origins"),
        ("[chat]\ntemperature = 2.1\n", "chat.temperature"),
        ("[chat]\ntemperature = nan\n", "chat.temperature"),
        ("[window]\nlanguage = \"../de\"\n", "window.language"),
        ("[models]\nfolder = \"models\"\n", "models.folder"),
        (
            "[distributed_inference.host]\nmax_lent_memory_mb = 0\n",
            "distributed_inference.host.max_lent_memory_mb",
        ),
        (
            "[distributed_inference.host.pause]\nwhen_busy_percent = 101\n",
            "distributed_inference.host.pause.when_busy_percent",
        ),
        ("[network]\nlisten_port = 80\n", "network.listen_port"),
        ("[network]\nlisten_port = 70000\n", "network.listen_port"),
        ("[port]\naddress = \"4587\"\n", "port.address"),
        ("[port]\naddress = \"0.0.0.0:4587\"\n", "port.address"),
        ("[port]\nallowed_origins = [\"*\"]\n", "port.allowed_origins"),
        ("[port]\nallowed_origins = [\"null\"]\n", "port.allowed_origins"),
        ("[port]\nallowed_origins = [\"http://x/\"]\n", "port.allowed_origins"),
        ("[port]\nallowed_hosts = [\"*\"]\n", "port.allowed_hosts"),
        ("[port]\nallowed_hosts = [\"kitchen:4587\"]\n", "port.allowed_hosts"),
        ("[gate]\nlend = \"unknown\"\n", "gate.lend"),
        ("[gate]\nborrow = \"blocked\"\n", "gate.borrow"),
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
        let SettingsError::BadValue { key, line, expected: takes, .. } = &error else {
            panic!("{text:?}: {error}");
        };
        assert_eq!((*key, *line), (expected, Some(2)), "{error}");
        // The sentence has the key, what is allowed, and a line that would be right.
        let write = nook_store::setting(key).unwrap().assignment();
        for part in [expected, takes, &write, "line 2"] {
            assert!(error.to_string().contains(part), "no {part} in: {error}");
        }
        let section = key.rsplit_once('.').unwrap().0;
        assert!(House::with(&format!("[{section}]\n{write}\n")).load().is_ok(), "{write}");
    }
}

#[test]
fn a_section_that_is_something_else_is_named() {
    for text in ["port = 3\n", "[[port]]\nenabled = true\n"] {
        let error = House::with(text).load().unwrap_err();
        let SettingsError::BadValue { key: "port", line: Some(1), .. } = &error else {
            panic!("{text:?}: {error}");
        };
        assert!(error.to_string().contains("`[port]`"), "{error}");
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
    let unknown = |key: &str, near| SettingsError::UnknownKey { key: key.to_owned(), near };
    assert_eq!(refused, Err(unknown("device.nmae", None)));
    let refused = file.change(&[("pause.on_battery", true.into())]);
    let near = Some("distributed_inference.host.pause.on_battery");
    assert_eq!(refused, Err(unknown("pause.on_battery", near)));
    assert_eq!((house.text(), file.settings().clone()), before);
}

/// A value that is allowed and not the default.
fn another(setting: &nook_store::Setting) -> SettingValue {
    let default = Settings::default().value(setting.key);
    match setting.takes {
        Takes::Switch => (default != true.into()).into(),
        Takes::Whole { min, max, .. } => {
            let candidates = [min + 1, max];
            candidates
                .into_iter()
                .map(SettingValue::Number)
                .find(|it| *it != default)
                .expect("two numbers, one default")
        }
        Takes::Decimal { min, .. } => SettingValue::Decimal(min),
        Takes::OneOf(words) => words
            .iter()
            .map(|word| (*word).into())
            .find(|it| *it != default)
            .expect("a choice has several words"),
        Takes::Text(_) if setting.key == "port.address" => "127.0.0.1:9999".into(),
        Takes::Text(_) if setting.key == "distributed_inference.backend" => "gpu:1".into(),
        Takes::Text(_) => {
            setting.example().expect("a test looks for it").trim_matches(['"', '\'']).into()
        }
        Takes::Texts(_) if setting.key == "port.allowed_hosts" => {
            SettingValue::Texts(vec!["kitchen.lan".to_owned()])
        }
        Takes::Texts(_) => SettingValue::Texts(vec!["http://localhost:3000".to_owned()]),
    }
}

#[test]
fn every_key_is_kept_read_again_and_goes_back_to_its_default_without_a_trace() {
    for setting in SETTINGS {
        let house = House::empty();
        let mut file = house.load().unwrap();
        let value = another(setting);
        file.change(&[(setting.key, value.clone())])
            .unwrap_or_else(|error| panic!("{}: {error}", setting.key));
        assert_eq!(file.settings().value(setting.key), value, "{}", setting.key);
        assert_ne!(file.settings(), &Settings::default(), "{}", setting.key);
        let again = house.load().unwrap();
        assert_eq!(again.settings(), file.settings(), "{}", setting.key);
        assert!(again.unknown_keys().is_empty(), "{}", setting.key);
        file.change(&[(setting.key, SettingValue::Unset)]).unwrap();
        assert!(!house.text().contains(setting.leaf()), "{}", house.text());
        assert_eq!(house.load().unwrap().settings(), &Settings::default(), "{}", setting.key);
    }
    let house = House::with("[port]\naddress = \"0.0.0.0:4587\"\nexpose_to_lan = true\n");
    assert!(house.load().unwrap().settings().port.address.ip().is_unspecified());
    let house = House::with("[distributed_inference.host]\nlayers = \"2-5\"\n");
    let layers = house.load().unwrap().settings().host.layers;
    assert_eq!(layers, Some(LayerRange::new(2, 6).unwrap()));
}

#[test]
fn every_range_ends_where_it_says() {
    for setting in SETTINGS {
        let (good, bad) = match setting.takes {
            Takes::Whole { min, max, or_zero } => {
                let bad = if or_zero { [-1, max + 1] } else { [min - 1, max + 1] };
                let good = if or_zero { vec![0, min, max] } else { vec![min, max] };
                (
                    good.into_iter().map(SettingValue::from).collect::<Vec<_>>(),
                    bad.map(SettingValue::from),
                )
            }
            Takes::Decimal { min, max, .. } => {
                (vec![min.into(), max.into()], [(min - 0.01).into(), (max + 0.01).into()])
            }
            _ => continue,
        };
        let house = House::empty();
        let mut file = house.load().unwrap();
        for value in good {
            file.change(&[(setting.key, value)]).unwrap();
        }
        for value in bad {
            let refused = file.change(&[(setting.key, value.clone())]);
            assert!(refused.is_err(), "{} takes {value}", setting.key);
        }
    }
}

#[test]
fn a_file_with_the_keys_of_an_earlier_version_is_rewritten_once_with_its_comments() {
    let old = "\
# the laptop
[distributed_inference.host]
serve_shards = true
# not more than half
shard_max_vram_mb = 3000 # MB
";
    let new = old.replace("shard_max_vram_mb", "max_lent_memory_mb");
    let house = House::with(old);
    let at = HomeChoice::At(house.home.data().to_owned());
    // A look writes nothing, and understands it all the same.
    let lent = Some(Megabytes(3000));
    assert_eq!(SettingsFile::glance(&at).unwrap().host.max_lent_memory, lent);
    assert_eq!(house.text(), old);
    let mut file = house.load().unwrap();
    assert_eq!(file.settings().host.max_lent_memory, lent);
    assert!(file.unknown_keys().is_empty());
    assert_eq!(house.text(), new);
    // Somebody copies the old lines in again while the node runs.
    fs::write(file.path(), old).unwrap();
    assert!(!file.reload().unwrap(), "it says the same");
    assert_eq!(house.text(), new);
    fs::write(file.path(), old).unwrap();
    file.change(&[("device.name", "Desk".into())]).unwrap();
    assert!(house.text().starts_with(&new), "{}", house.text());
    // What cannot be understood is not written to, also where it has an old key.
    let broken = old.replace("true", "3");
    fs::write(file.path(), &broken).unwrap();
    assert!(file.reload().is_err());
    assert_eq!(house.text(), broken);
}

#[test]
fn nothing_and_zero_are_no_values_where_a_key_may_be_absent() {
    const PAUSE: &str = "distributed_inference.host.pause";
    let house = House::with(&format!("[{PAUSE}]\nwhen_busy_percent = 0\nquiet_hours = \" \"\n"));
    let mut file = house.load().unwrap();
    assert_eq!(file.settings(), &Settings::default());
    let hours = format!("{PAUSE}.quiet_hours");
    file.change(&[(&hours, " 9:05-10:00".into())]).unwrap();
    assert_eq!(file.settings().value(&hours), "09:05-10:00".into());
    file.change(&[(&hours, "".into()), (&format!("{PAUSE}.when_busy_percent"), 0.into())]).unwrap();
    assert_eq!(house.text().trim(), format!("[{PAUSE}]"));
}

#[test]
fn words_of_a_command_line_mean_what_the_setting_takes() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (key, typed, value) in [
        ("port.enabled", words(&["off"]), false.into()),
        ("port.enabled", words(&["maybe"]), "maybe".into()),
        ("network.listen_port", words(&["5000"]), 5000.into()),
        ("chat.temperature", words(&["0.2"]), SettingValue::Decimal(0.2)),
        ("device.name", words(&["5000"]), "5000".into()),
        ("device.name", words(&["a", "b"]), SettingValue::Texts(words(&["a", "b"]))),
        ("port.allowed_origins", words(&["http://x"]), SettingValue::Texts(words(&["http://x"]))),
        ("port.allowed_origins", words(&["file://"]), SettingValue::Texts(words(&["file://"]))),
        ("port.allowed_origins", words(&[""]), SettingValue::Texts(Vec::new())),
    ] {
        assert_eq!(nook_store::setting(key).unwrap().typed(&typed), value, "{key} {typed:?}");
    }
}

/// Generated files of the tree, and what they are made from. With `INGLENOOK_UPDATE` they are
/// written.
#[cfg(not(windows))] // An example there has the path of another system.
#[test]
fn the_generated_files_say_what_is_declared() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, fresh) in [
        ("docs/settings.md", nook_store::settings_document()),
        ("ui/src/generated/settings.ts", nook_store::settings_typescript()),
    ] {
        let path = root.join(file);
        if nook_base::env::text("INGLENOOK_UPDATE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &fresh).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == fresh, "{file} is out of date: run `cargo xtask goldens`");
    }
}

#[test]
fn every_declaration_is_complete() {
    let mut keys = std::collections::BTreeSet::new();
    for setting in SETTINGS {
        assert!(keys.insert(setting.key), "{} stands twice", setting.key);
        assert!(setting.text().ends_with('.'), "{}", setting.key);
        let is_default_none = Settings::default().value(setting.key) == SettingValue::Unset;
        assert!(!is_default_none || setting.example().is_some(), "{} has no example", setting.key);
        assert!(!is_default_none || setting.is_optional, "{}", setting.key);
        if let Takes::Whole { max, .. } = setting.takes {
            assert!(max < i64::MAX, "{} has no range", setting.key);
        }
    }
    assert!(
        Settings::default()
            .values()
            .iter()
            .map(|(key, _)| *key)
            .eq(SETTINGS.iter().map(|it| it.key))
    );
}

#[test]
fn settings_are_seen_without_opening_the_home_that_a_node_holds() {
    let house = House::with("[window]\nlanguage = \"de\"\nsafe_graphics = true\n");
    let held = HomeChoice::At(house.home.data().to_owned());
    assert_eq!(SettingsFile::glance(&held).unwrap(), *house.load().unwrap().settings());
    let seen = SettingsFile::glance(&held).unwrap().window;
    assert_eq!((seen.language.as_ref().map(AsRef::as_ref), seen.safe_graphics), (Some("de"), true));
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
