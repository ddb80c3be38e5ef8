//! Swaps that end, and swaps that are stopped at every step.

use super::*;

/// The files of a version: name and content.
type Files = [(&'static str, &'static str)];

const OLD: &Files =
    &[("bin/nook", "old"), ("bin/inglenook", "same"), ("share/old.txt", "only old")];
const NEW: &Files =
    &[("bin/nook", "new"), ("bin/inglenook", "same"), ("share/a/new.txt", "only new")];

fn lay_out(root: &Path, files: &Files) {
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let list = root.join(LIST);
    fs::create_dir_all(list.parent().unwrap()).unwrap();
    fs::write(list, names.join("\n") + "\n").unwrap();
}

fn scene() -> (tempfile::TempDir, Swap) {
    let home = tempfile::tempdir().unwrap();
    let swap = Swap::at(&home.path().join("prefix"), &home.path().join("beside"));
    lay_out(&swap.prefix, OLD);
    lay_out(&swap.other(), NEW);
    fs::write(swap.prefix.join("bin/of-somebody-else"), "theirs").unwrap();
    (home, swap)
}

#[track_caller]
fn check_place(swap: &Swap, files: &Files) {
    let mut found: Vec<_> = Vec::new();
    let mut folders = vec![swap.prefix.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    let name =
        |path: &PathBuf| path.strip_prefix(&swap.prefix).unwrap().to_str().unwrap().to_owned();
    let mut found: Vec<_> =
        found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect();
    found.sort();
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let mut wanted: Vec<_> =
        files.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect();
    wanted.push((LIST.to_owned(), names.join("\n") + "\n"));
    wanted.push(("bin/of-somebody-else".to_owned(), "theirs".to_owned()));
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn the_new_version_comes_and_the_old_one_comes_back_and_nothing_else_is_touched() {
    let (_home, swap) = scene();
    let journal = swap.begin("1.0.0", "2.0.0").unwrap();
    check_place(&swap, OLD);
    swap.bring(Way::Forward, journal).unwrap();
    check_place(&swap, NEW);
    let journal = swap.journal().unwrap().unwrap();
    assert!(journal.done && (journal.from.as_str(), journal.to.as_str()) == ("1.0.0", "2.0.0"));
    swap.bring(Way::Back, journal).unwrap();
    check_place(&swap, OLD);
    assert_eq!(swap.journal().unwrap(), None);
    assert!(!swap.other().exists());
}

#[test]
fn a_swap_that_was_stopped_anywhere_ends_in_either_direction() {
    // After how many files it stops.
    for stopped in 0..=5 {
        for way in [Way::Forward, Way::Back] {
            let (_home, swap) = scene();
            let journal = swap.begin("1", "2").unwrap();
            for (name, digest) in journal.files.iter().take(stopped) {
                let (place, other) = (swap.prefix.join(name), swap.other().join(name));
                one(Way::Forward, &place, &other, digest.as_deref()).unwrap();
            }
            let journal = swap.journal().unwrap().unwrap();
            assert!(!journal.done);
            swap.bring(way, journal).unwrap();
            check_place(&swap, if way == Way::Forward { NEW } else { OLD });
        }
    }
}

#[test]
fn an_exchange_in_steps_can_be_stopped_between_each_two() {
    for steps in 0..=3 {
        let home = tempfile::tempdir().unwrap();
        let (place, other) = (home.path().join("place"), home.path().join("other"));
        fs::write(&place, "old").unwrap();
        fs::write(&other, "new").unwrap();
        let hold = hold_of(&other);
        for (from, to) in [(&place, &hold), (&other, &place), (&hold, &other)].iter().take(steps) {
            fs::rename(from, to).unwrap();
        }
        let new = data_encoding::HEXLOWER.encode(&Sha256::digest("new"));
        one(Way::Back, &place, &other, Some(&new)).unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "old", "{steps}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "new", "{steps}");
        assert!(!hold.exists());
    }
}

#[test]
fn u4_lists_that_lead_out_of_the_prefix_are_refused_before_anything_moves() {
    for line in ["../outside", "/etc/passwd", "bin/../../x", "..", ".ssh/authorized_keys", "etc/x"]
    {
        let (_home, swap) = scene();
        fs::write(swap.other().join(LIST), format!("bin/nook\n{line}\n")).unwrap();
        let error = swap.begin("1", "2").unwrap_err();
        assert!(matches!(error, SwapError::List { .. }), "{line}: {error}");
        check_place(&swap, OLD);
    }
}
