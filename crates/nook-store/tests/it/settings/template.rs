//! The template of the settings file: every key as a comment, above the place of its value.

use super::*;

#[test]
fn the_template_changes_nothing_and_every_line_of_it_can_be_taken() {
    let template = nook_store::settings_template();
    let house = House::with(&template);
    let file = house.load().unwrap();
    assert_eq!(file.settings(), &Settings::default());
    assert!(file.unknown_keys().is_empty());
    for line in template.lines() {
        assert!(line.is_empty() || line.starts_with(['#', '[']), "{line}");
        assert!(line.chars().count() <= 100, "{line}");
    }
    for setting in SETTINGS {
        let wanted = format!("# {} = ", setting.leaf());
        let mut section = "";
        let mut taken = 0;
        let uncommented: Vec<&str> = template
            .lines()
            .map(|line| {
                if line.starts_with('[') {
                    section = line.trim_matches(['[', ']']);
                }
                if section == setting.section() && line.starts_with(&wanted) {
                    taken += 1;
                    return &line[2..];
                }
                line
            })
            .collect();
        assert_eq!(taken, 1, "{}", setting.key);
        let file = House::with(&uncommented.join("\n")).load().unwrap();
        if setting.example().is_some() {
            assert_ne!(file.settings(), &Settings::default(), "{}", setting.key);
        }
    }
}

#[test]
fn a_value_set_in_the_template_stands_below_its_comment_and_goes_without_a_trace() {
    let template = nook_store::settings_template();
    let house = House::with(&template);
    let mut file = house.load().unwrap();
    for setting in SETTINGS {
        file.change(&[(setting.key, another(setting))]).unwrap();
        let text = house.text();
        let mut lines = text.lines();
        let above = format!("# {} = ", setting.leaf());
        let section = format!("[{}]", setting.section());
        lines.find(|line| *line == section).unwrap();
        lines.find(|line| line.starts_with(&above)).unwrap();
        let line = lines.next().unwrap();
        assert!(line.starts_with(setting.leaf()), "{line} below {above}");
        file.change(&[(setting.key, SettingValue::Unset)]).unwrap();
        assert_eq!(house.text(), template, "{}", setting.key);
    }
}

#[test]
fn a_template_is_never_written_over_a_file() {
    let house = House::with("[port]\nenabled = false\n");
    let path = house.load().unwrap().path().to_owned();
    let refused = SettingsFile::write_template(&path);
    assert_eq!(refused, Err(SettingsError::Exists { path: path.clone() }));
    assert_eq!(house.text(), "[port]\nenabled = false\n");
    fs::remove_file(&path).unwrap();
    SettingsFile::write_template(&path).unwrap();
    assert_eq!(house.text(), nook_store::settings_template());
}

#[test]
fn a_comment_above_a_key_without_a_default_stays_when_the_key_goes() {
    let text = "[distributed_inference.host]\n# little room\nmax_lent_memory_mb = 500\n";
    let house = House::with(text);
    let mut file = house.load().unwrap();
    let key = "distributed_inference.host.max_lent_memory_mb";
    file.change(&[(key, SettingValue::Unset)]).unwrap();
    assert_eq!(house.text(), "[distributed_inference.host]\n# little room\n");
}
