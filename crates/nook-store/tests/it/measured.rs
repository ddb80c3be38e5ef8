//! What was measured: what survives a restart, for how long, and that nothing of it keeps a node
//! from starting.

use std::fs;

use nook_base::{ModelDigest, PeerId};
use nook_store::{
    BACKEND_LIFE_SECONDS, CONDUCT_LIFE_SECONDS, GAIN_LIFE_SECONDS, GainRange, Home, HomeChoice,
    MEASURED_MAX, Measured, MeasuredBackend, MeasuredConduct, MeasuredFile, MeasuredGain,
    MeasuredHelp, MeasuredSpeed, MeasuredWay, SPEED_LIFE_SECONDS,
};

const NOW: u64 = 1_800_000_000;

fn open(folder: &tempfile::TempDir) -> Home {
    Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home")
}

fn measured(at: u64) -> Measured {
    let (device, model) = (Some(PeerId([7; 32])), ModelDigest([9; 32]));
    let range = GainRange { rows: 40, low: -0.5, high: 1.25, ours: true };
    Measured {
        speeds: vec![MeasuredSpeed {
            device: None,
            model,
            decode: Some([100, 20]),
            prefill: None,
            load: Some(1 << 30),
            ends: Some(500),
            at,
        }],
        ways: vec![MeasuredWay {
            device,
            round_trip: Some([900, 10]),
            bandwidth: None,
            ends: Some([[10, 0, 0, 1].into(), [0xfe80, 0, 0, 0, 0, 0, 0, 7].into()]),
            at,
        }],
        norm_bounds: vec![MeasuredGain {
            model,
            layers: [1, 5],
            first: None,
            others: Some(range),
            at,
        }],
        conduct: vec![MeasuredConduct { device, times: 2, until: at }],
        backends: vec![MeasuredBackend {
            model,
            device: "vulkan, Arc, Mesa 25, 0.1.0".to_owned(),
            decode: [100, 20],
            prefill: [90, 1],
            layers: 32,
            uncuttable: vec![20, 21],
            weight_bytes: 4 << 30,
            at,
        }],
        helped: vec![MeasuredHelp { device, day: 20_000, positions: 412 }],
    }
}

#[test]
fn what_was_measured_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = MeasuredFile::of(&open(&folder));
    assert_eq!(file.load(NOW).unwrap(), Measured::default());
    file.save(&measured(NOW - 60)).unwrap();
    let again = MeasuredFile::of(&open_later(&folder, file));
    assert_eq!(again.load(NOW).unwrap(), measured(NOW - 60));
}

/// A home can be held by one value at a time.
fn open_later(folder: &tempfile::TempDir, file: MeasuredFile) -> Home {
    drop(file);
    open(folder)
}

#[test]
fn f7_everything_has_its_life_and_a_clock_that_was_set_back_ends_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = MeasuredFile::of(&open(&folder));
    file.save(&measured(NOW)).unwrap();
    let left = |now: u64| {
        let kept = file.load(now).unwrap();
        let Measured { speeds, ways, norm_bounds, conduct, backends, helped } = kept;
        assert_eq!(helped.len(), 1, "whoever shows it counts its days");
        [speeds.len(), ways.len(), norm_bounds.len(), conduct.len(), backends.len()]
    };
    assert_eq!(left(NOW - 1_000), [1; 5]);
    assert_eq!(left(NOW + CONDUCT_LIFE_SECONDS - 1), [1, 1, 1, 1, 1]);
    assert_eq!(left(NOW + CONDUCT_LIFE_SECONDS), [1, 1, 1, 0, 1]);
    assert_eq!(left(NOW + SPEED_LIFE_SECONDS), [0, 0, 1, 0, 1]);
    let last = GAIN_LIFE_SECONDS.max(BACKEND_LIFE_SECONDS);
    assert_eq!(left(NOW + last), [0; 5]);
}

#[test]
fn a_damaged_file_is_an_error_and_the_next_save_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = MeasuredFile::of(&open(&folder));
    file.save(&measured(NOW)).unwrap();
    let path = folder.path().join("measured.json");
    let text = fs::read_to_string(&path).unwrap();
    for damaged in ["", "{", "{\"version\":9}", &text.replace("\"low\": -0.5", "\"low\": \"x\"")] {
        fs::write(&path, damaged).unwrap();
        assert!(file.load(NOW).is_err(), "{damaged}");
    }
    file.save(&measured(NOW)).unwrap();
    assert_eq!(file.load(NOW).unwrap(), measured(NOW));
    // Numbers that cannot be are left out.
    fs::write(&path, text.replace("\"low\": -0.5", "\"low\": 9.5")).unwrap();
    assert_eq!(file.load(NOW).unwrap().norm_bounds, []);
}

#[test]
fn the_newest_entries_are_kept_and_only_the_owner_may_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = MeasuredFile::of(&open(&folder));
    let speed = |number: usize| {
        let mut one = measured(NOW + number as u64).speeds.remove(0);
        one.model.0[..8].copy_from_slice(&number.to_le_bytes());
        one
    };
    let speeds = (0..MEASURED_MAX + 9).map(speed).collect();
    file.save(&Measured { speeds, ..Measured::default() }).unwrap();
    let kept = file.load(NOW).unwrap().speeds;
    assert_eq!(kept.len(), MEASURED_MAX);
    assert!(kept.iter().all(|speed| speed.at >= NOW + 9));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(folder.path().join("measured.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
