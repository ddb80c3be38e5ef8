//! An archive becomes the installed version through the script of the real package, or nothing
//! changes. The programs are scripts that say a version: what is tested is the way there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nook_update::{InstallError, Portable, SwapStage, UnpackError};
use semver::Version;

use crate::kit::archive;

const SCRIPT: &[u8] = include_bytes!("../../../../packaging/linux/install.sh");
const OLD: Version = Version::new(0, 1, 0);
const NEW: Version = Version::new(0, 2, 0);

/// A package whose `nook` is this shell script.
fn package(nook: &str, more: &[(&str, bool, &[u8])]) -> Vec<u8> {
    let nook = format!("#!/bin/sh\n{nook}\n");
    let service = b"ExecStart=/usr/bin/nook up\n";
    let files: [(&str, bool, &[u8]); 3] = [
        ("p/install.sh", true, SCRIPT),
        ("p/bin/nook", true, nook.as_bytes()),
        ("p/share/systemd/user/inglenook.service", false, service),
    ];
    archive(&files.iter().chain(more).copied().collect::<Vec<_>>())
}

fn saying(version: &Version) -> String {
    format!("echo nook {version}")
}

struct Home {
    folder: tempfile::TempDir,
    prefix: PathBuf,
}

impl Home {
    /// A home with version 0.1.0, installed as a person would, and a file of somebody else.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("local");
        let home = Self { folder, prefix };
        let archive =
            home.keep("old", &package(&saying(&OLD), &[("p/share/old.txt", false, b"x")]));
        let words = |command: &mut Command| assert!(command.output().unwrap().status.success());
        words(Command::new("tar").arg("xf").arg(archive).arg("-C").arg(home.folder.path()));
        let script = home.folder.path().join("p/install.sh");
        words(Command::new("sh").arg(script).arg("--prefix").arg(&home.prefix));
        fs::write(home.prefix.join("bin/theirs"), "theirs").unwrap();
        home
    }

    fn keep(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn portable(&self) -> Portable {
        Portable::at(&self.prefix).waiting(Duration::from_secs(2))
    }

    fn install(&self, package: &[u8]) -> Result<(), InstallError> {
        self.portable().install(&self.keep("package", package), &OLD, &NEW)
    }

    /// Every file of the installation, but for what updates keep.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        files_below(&self.prefix)
            .into_iter()
            .filter(|path| !path.starts_with(self.prefix.join("lib")))
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    }

    fn says(&self) -> String {
        let output = Command::new(self.prefix.join("bin/nook")).arg("--version").output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files_below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn a_new_version_comes_and_the_one_before_can_come_back() {
    let home = Home::new();
    let before = home.files();
    home.install(&package(&saying(&NEW), &[("p/share/new.txt", false, b"x")])).unwrap();
    assert_eq!(home.says(), "nook 0.2.0");
    assert!(home.prefix.join("share/new.txt").is_file());
    assert!(!home.prefix.join("share/old.txt").exists());
    assert_eq!(fs::read(home.prefix.join("bin/theirs")).unwrap(), b"theirs");
    let service = fs::read_to_string(home.prefix.join("share/systemd/user/inglenook.service"));
    let wanted = format!("\"{}/bin/nook\" up", home.prefix.display());
    assert!(service.unwrap().contains(&wanted), "the script knows the prefix, not where it staged");
    assert_eq!(home.portable().back().unwrap(), "0.1.0");
    assert_eq!(home.files(), before);
    assert_eq!(home.portable().back(), Err(InstallError::NothingBefore));
}

#[test]
fn u7_a_program_that_does_not_run_or_is_another_one_changes_nothing() {
    for broken in ["exit 1", "echo nook 0.1.9", "echo hello", "sleep 600", "kill -SEGV $$"] {
        let home = Home::new();
        let before = home.files();
        let error = home.install(&package(broken, &[])).unwrap_err();
        assert!(matches!(error, InstallError::Program { .. }), "{broken}: {error}");
        assert_eq!(home.files(), before, "{broken}");
    }
}

#[test]
fn u7_a_program_that_only_runs_where_it_was_unpacked_is_swapped_back() {
    let home = Home::new();
    let before = home.files();
    let broken = "case $0 in */unpacked/*) echo nook 0.2.0;; *) exit 7;; esac";
    let error = home.install(&package(broken, &[("p/share/new.txt", false, b"x")])).unwrap_err();
    assert!(matches!(&error, InstallError::Program { .. }), "{error}");
    assert_eq!(home.files(), before);
    assert_eq!(home.says(), "nook 0.1.0");
}

#[test]
fn u4_an_archive_with_tricks_leaves_the_installed_version_alone() {
    let home = Home::new();
    let before = home.files();
    let error = home.install(b"no archive").unwrap_err();
    assert!(matches!(&error, InstallError::Unpack(UnpackError::Damaged { .. })), "{error}");
    let whole = package(&saying(&NEW), &[]);
    let error = home.install(&whole[..whole.len() / 2]).unwrap_err();
    assert!(matches!(&error, InstallError::Unpack(UnpackError::Damaged { .. })), "{error}");
    // A script that lists what it must not.
    let script = b"#!/bin/sh\nmkdir -p \"$4/bin\" \"$4/share/doc/inglenook\"\n\
        cp \"$(dirname \"$0\")/bin/nook\" \"$4/bin/nook\"\n\
        printf 'bin/nook\\n../../victim\\n' >\"$4/share/doc/inglenook/installed.txt\"\n";
    let nook = format!("#!/bin/sh\n{}\n", saying(&NEW));
    let tricks = archive(&[("p/install.sh", true, script), ("p/bin/nook", true, nook.as_bytes())]);
    let error = home.install(&tricks).unwrap_err();
    assert!(matches!(&error, InstallError::Swap(_)), "{error}");
    assert_eq!(home.files(), before);
}

#[test]
fn a_swap_that_a_kill_stopped_is_taken_back_at_the_next_start() {
    let home = Home::new();
    let before = home.files();
    home.install(&package(&saying(&NEW), &[])).unwrap();
    // As a kill in the middle leaves it: not done.
    let journal = home.prefix.join("lib/inglenook-update/journal.json");
    let text = fs::read_to_string(&journal).unwrap();
    assert_eq!(home.portable().recover().unwrap(), None, "one that is done is left alone");
    fs::write(&journal, text.replace("\"done\": true", "\"done\": false")).unwrap();
    assert_eq!(home.portable().recover().unwrap().as_deref(), Some("0.1.0"));
    assert_eq!(home.files(), before);
}

#[test]
fn a_version_that_never_comes_up_is_taken_back_by_its_own_starts_and_told_once() {
    let home = Home::new();
    let before = home.files();
    let portable = home.portable();
    assert_eq!(portable.starts().unwrap(), None, "no update was ever made");
    home.install(&package(&saying(&NEW), &[])).unwrap();
    let after = home.files();
    for start in 1..=3 {
        assert!(portable.is_on_trial());
        assert_eq!(portable.starts().unwrap(), None, "start {start}");
        assert_eq!(home.files(), after);
    }
    // A person ended one of them.
    portable.left().unwrap();
    assert_eq!(portable.starts().unwrap(), None);
    assert_eq!(portable.taken_back(), None);
    assert_eq!(portable.starts().unwrap().as_deref(), Some("0.1.0"));
    assert_eq!(home.files(), before);
    assert!(!portable.is_on_trial());
    for told in [Some("0.2.0"), None, None] {
        assert_eq!(portable.tell_taken_back().as_deref(), told);
        assert_eq!(portable.taken_back().as_deref(), Some("0.2.0"), "it is not tried again");
    }
}

#[test]
fn a_version_that_came_up_stays_and_one_that_gives_up_before_goes_at_once() {
    let home = Home::new();
    let before = home.files();
    home.install(&package(&saying(&NEW), &[])).unwrap();
    let after = home.files();
    let portable = home.portable();
    assert_eq!(portable.starts().unwrap(), None);
    assert!(!portable.has_come_up().unwrap());
    portable.came_up().unwrap();
    assert!(!portable.is_on_trial() && portable.has_come_up().unwrap());
    for _ in 0..9 {
        assert_eq!(portable.starts().unwrap(), None);
    }
    assert_eq!(portable.gives_up().unwrap(), None);
    assert_eq!(home.files(), after);
    assert_eq!(portable.back().unwrap(), "0.1.0");
    assert_eq!(portable.taken_back(), None, "its owner did not want it, which is no fault");
    home.install(&package(&saying(&NEW), &[])).unwrap();
    assert_eq!(portable.starts().unwrap(), None);
    assert_eq!(portable.gives_up().unwrap().as_deref(), Some("0.1.0"));
    assert_eq!(home.files(), before);
    assert_eq!(portable.tell_taken_back().as_deref(), Some("0.2.0"));
    // As whoever watches from outside does it.
    assert_eq!(portable.take_back(), Err(InstallError::NothingBefore));
    home.install(&package(&saying(&NEW), &[])).unwrap();
    assert_eq!(portable.take_back().unwrap(), "0.1.0");
    assert_eq!(portable.tell_taken_back().as_deref(), Some("0.2.0"), "once for each time");
    assert_eq!(home.files(), before);
}

#[test]
fn a_version_that_lies_ready_waits_for_whoever_prepared_it_and_can_be_given_up() {
    let home = Home::new();
    let before = home.files();
    let archive = home.keep("package", &package(&saying(&NEW), &[]));
    home.portable().prepare(&archive, &OLD, &NEW).unwrap();
    assert_eq!(home.portable().recover().unwrap(), None, "a node that starts takes nothing away");
    assert_eq!(home.portable().stage_of_swap().unwrap(), SwapStage::Prepared);
    home.portable().abandon().unwrap();
    assert_eq!(home.portable().stage_of_swap().unwrap(), SwapStage::Nothing);
    assert_eq!(home.portable().finish().unwrap(), None, "there is nothing to put in place");
    assert_eq!(home.files(), before);
}

#[test]
fn two_processes_never_move_the_files_of_one_package_at_once() {
    let home = Home::new();
    home.install(&package(&saying(&NEW), &[])).unwrap();
    let after = home.files();
    let lock = File::open(home.prefix.join("lib/inglenook-update/lock")).unwrap();
    lock.lock().unwrap();
    let hurried = || home.portable().waiting(Duration::from_millis(10));
    assert!(matches!(hurried().back(), Err(InstallError::Busy)));
    assert!(matches!(hurried().finish(), Err(InstallError::Busy)));
    assert!(matches!(hurried().abandon(), Err(InstallError::Busy)));
    assert_eq!(home.files(), after);
    drop(lock);
    assert_eq!(home.portable().back().unwrap(), "0.1.0");
}

/// The test starts itself again in a namespace of its own, where a disk of 1 MB is mounted.
#[cfg(target_os = "linux")]
#[test]
fn u6_a_disk_that_becomes_full_while_it_is_unpacked_leaves_the_old_version() {
    const TEST: &str =
        "installing::u6_a_disk_that_becomes_full_while_it_is_unpacked_leaves_the_old_version";
    const INSIDE: &str = "INGLENOOK_TEST_SMALL_DISK";
    let Some(disk) = nook_base::env::raw(INSIDE) else {
        let folder = tempfile::tempdir().unwrap();
        let script = "mount -t tmpfs -o size=1m tmpfs \"$1\" && exec \"$2\" --exact \"$3\"";
        let done = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(folder.path())
            .arg(std::env::current_exe().unwrap())
            .arg(TEST)
            .env(INSIDE, folder.path())
            .output();
        let said = done.as_ref().map_or_else(ToString::to_string, |done| {
            String::from_utf8_lossy(&[&done.stdout[..], &done.stderr[..]].concat()).into_owned()
        });
        if done.is_err() || said.contains("unshare:") || said.contains("mount:") {
            return crate::places::skip(TEST, &format!("no namespaces: {}", said.trim()));
        }
        assert!(said.contains("1 passed"), "{said}");
        return;
    };
    let mut home = Home::new();
    let prefix = PathBuf::from(disk).join("local");
    let copied = Command::new("cp").arg("-r").arg(&home.prefix).arg(&prefix).status().unwrap();
    assert!(copied.success());
    home.prefix = prefix;
    let before = home.files();
    let noise: Vec<u8> =
        (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let error = home.install(&package(&saying(&NEW), &[("p/share/x", false, &noise)])).unwrap_err();
    let is_full = matches!(&error, InstallError::Unpack(UnpackError::Disk { full: true, .. }));
    assert!(is_full, "{error}");
    assert_eq!(home.files(), before);
    // There is room again: what the failed one left is not in the way.
    home.install(&package(&saying(&NEW), &[])).unwrap();
    assert_eq!(home.says(), "nook 0.2.0");
}
