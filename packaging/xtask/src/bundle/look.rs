//! Reads packages that were made, with the tools of the systems that install them, and names
//! faults.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::bundle::Packages;
use crate::bundle::portable::version;
use crate::bundle::prerelease::in_packages;
use crate::outside;
use crate::places::Places;
use crate::process::Program;

/// Files that both kinds of packages must hold.
const IN_BOTH: [&str; 17] = [
    "/usr/bin/inglenook",
    "/usr/bin/nook",
    "/usr/share/applications/Inglenook.desktop",
    "/usr/share/bash-completion/completions/nook",
    "/usr/share/doc/inglenook/LICENSE-APACHE",
    "/usr/share/doc/inglenook/LICENSE-MIT",
    "/usr/share/doc/inglenook/copyright",
    "/usr/share/doc/inglenook/third-party-licences.txt.gz",
    "/usr/share/fish/vendor_completions.d/nook.fish",
    "/usr/share/icons/hicolor/128x128/apps/inglenook.png",
    "/usr/share/icons/hicolor/32x32/apps/inglenook.png",
    "/usr/share/icons/hicolor/scalable/apps/inglenook.svg",
    "/usr/share/man/man1/inglenook.1.gz",
    "/usr/share/man/man1/nook-devices-trust.1.gz",
    "/usr/share/man/man1/nook.1.gz",
    "/usr/share/metainfo/house.inglenook.Inglenook.metainfo.xml",
    "/usr/share/systemd/user/inglenook.service",
];
/// Where each kind of system looks for zsh's functions.
const ZSH_IN_DEB: &str = "/usr/share/zsh/vendor-completions/_nook";
const ZSH_IN_RPM: &str = "/usr/share/zsh/site-functions/_nook";
/// What the app cannot start without, or has no tray without, by the names of each kind.
const NEEDED_BY_DEB: [&str; 4] =
    ["libayatana-appindicator3-1", "libc6", "libgtk-3-0", "libwebkit2gtk-4.1-0"];
const NEEDED_BY_RPM: [&str; 4] = [
    "libayatana-appindicator3.so.1()(64bit)",
    "libc.so.6()(64bit)",
    "libgtk-3.so.0()(64bit)",
    "libwebkit2gtk-4.1.so.0()(64bit)",
];
/// A package puts its files below these and nowhere else.
const ITS_PLACES: [&str; 2] = ["/usr/bin/", "/usr/share/"];
/// How `rpm` lists files as `dpkg-deb` does.
const RPM_LISTING: &str =
    "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILESIZES} - - %{FILENAMES}\\n]";

/// A file or folder in a package.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// As `ls` writes it: `-rwxr-xr-x`.
    mode: String,
    /// `root/root`.
    owner: String,
    /// From the root of the system; folders end without a slash.
    pub(crate) path: PathBuf,
}

/// Checks both packages and what describes them; gives what could not be looked at, with the
/// reason.
pub(crate) fn check(places: &Places, packages: &Packages) -> Result<Vec<String>> {
    let mut skipped = Vec::new();
    let mut faults = Vec::new();
    if outside::find_program("dpkg-deb").is_some() {
        faults.extend(check_deb(places, packages)?);
    } else {
        skipped.push("the .deb was not looked into: no `dpkg-deb` here".to_owned());
    }
    if outside::find_program("rpm").is_some() {
        faults.extend(check_rpm(places, packages)?);
    } else {
        skipped.push("the .rpm was not looked into: no `rpm` here".to_owned());
    }
    let share = packages.unpacked.join("usr/share");
    for (tool, words, file) in [
        ("desktop-file-validate", &[][..], "applications/Inglenook.desktop"),
        (
            "appstreamcli",
            &["validate", "--no-net", "--explain"],
            "metainfo/house.inglenook.Inglenook.metainfo.xml",
        ),
    ] {
        if outside::find_program(tool).is_none() {
            skipped.push(format!("{file} was not checked: no `{tool}` here"));
        } else if Program::new(tool, &places.root)
            .args(words)
            .args([share.join(file)])
            .run()
            .is_err()
        {
            faults.push(format!("`{tool}` does not like {file}"));
        }
    }
    if !faults.is_empty() {
        bail!("the packages have faults:\n  {}", faults.join("\n  "));
    }
    Ok(skipped)
}

/// Files and folders of a .deb.
pub(crate) fn entries_of_deb(places: &Places, deb: &Path) -> Result<Vec<Entry>> {
    let said = Program::new("dpkg-deb", &places.root)
        .args(["--contents".as_ref(), deb.as_os_str()])
        .output()?;
    entries(&said)
}

fn check_deb(places: &Places, packages: &Packages) -> Result<Vec<String>> {
    let field = |name: &str| {
        let deb = packages.deb.as_os_str();
        let tool = Program::new("dpkg-deb", &places.root);
        tool.args(["--field".as_ref(), deb, name.as_ref()])
            .output()
            .map(|said| said.trim().to_owned())
    };
    let mut faults =
        faults_of(&entries_of_deb(places, &packages.deb)?, IN_BOTH.iter().chain([&ZSH_IN_DEB]));
    let depends = field("Depends")?;
    let named: Vec<&str> =
        depends.split([',', '|']).filter_map(|one| one.split_whitespace().next()).collect();
    let missing = NEEDED_BY_DEB.iter().filter(|name| !named.contains(*name));
    faults.extend(missing.map(|name| format!(".deb: does not depend on {name}: {depends}")));
    for name in ["Package", "Version", "Architecture", "Maintainer", "Installed-Size", "Section"] {
        if field(name)?.is_empty() {
            faults.push(format!(".deb: no field `{name}`"));
        }
    }
    let wanted = in_packages(&version(places)?);
    if field("Version")? != wanted {
        faults.push(format!(".deb: its version is not {wanted}"));
    }
    if field("Description")?.contains("(none)") {
        faults.push(".deb: the description is not there".to_owned());
    }
    Ok(faults)
}

fn check_rpm(places: &Places, packages: &Packages) -> Result<Vec<String>> {
    let ask = |words: &[&str]| {
        let rpm = Program::new("rpm", &places.root).args(["--nosignature", "--query", "--package"]);
        rpm.args(words).args([&packages.rpm]).output()
    };
    let listing = ask(&["--queryformat", RPM_LISTING])?;
    let mut faults = faults_of(&entries(&listing)?, IN_BOTH.iter().chain([&ZSH_IN_RPM]));
    let requires = ask(&["--requires"])?;
    let missing = NEEDED_BY_RPM.iter().filter(|name| !requires.lines().any(|line| line == **name));
    faults.extend(missing.map(|name| format!(".rpm: does not require {name}")));
    let wanted = in_packages(&version(places)?);
    if ask(&["--queryformat", "%{VERSION}"])? != wanted {
        faults.push(format!(".rpm: its version is not {wanted}"));
    }
    let licence = ask(&["--queryformat", "%{LICENSE}"])?;
    if licence != "Apache-2.0 OR MIT" {
        faults.push(format!(".rpm: the licence is `{licence}`"));
    }
    Ok(faults)
}

/// What is wrong with the files of a package that must hold `wanted`.
fn faults_of<'a>(entries: &[Entry], wanted: impl Iterator<Item = &'a &'a str>) -> Vec<String> {
    let mut faults = Vec::new();
    for path in wanted {
        if !entries.iter().any(|entry| entry.path == Path::new(path)) {
            faults.push(format!("{path} is not in it"));
        }
    }
    for entry in entries {
        let path = entry.path.display().to_string();
        if !["root/root", "0/0"].contains(&&*entry.owner) {
            faults.push(format!("{path} belongs to {}", entry.owner));
        }
        let mode = match entry.mode.chars().next() {
            Some('-') if path.starts_with("/usr/bin/") => "-rwxr-xr-x",
            Some('-') => "-rw-r--r--",
            _ => "drwxr-xr-x",
        };
        if entry.mode != mode {
            faults.push(format!("{path} has the mode {} and not {mode}", entry.mode));
        }
        let is_file = entry.mode.starts_with('-');
        if is_file && !ITS_PLACES.iter().any(|place| path.starts_with(place)) {
            faults.push(format!("{path} lies where a package has no business"));
        }
    }
    faults
}

/// Lines of mode, owner, size, date, time, path.
fn entries(listing: &str) -> Result<Vec<Entry>> {
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let (mode, owner) = (words.next()?, words.next()?);
        let path = words.nth(3)?.trim_start_matches('.').trim_matches('/');
        let path = Path::new("/").join(path);
        Some(Entry { mode: mode.to_owned(), owner: owner.to_owned(), path })
    };
    let lines = listing.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| entry(line).with_context(|| format!("not understood: {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
drwxr-xr-x 0/0               0 2026-11-21 21:00 ./usr/
drwxr-xr-x 0/0               0 2026-11-21 21:00 ./usr/bin/
-rwxr-xr-x 0/0         1048576 2026-11-21 21:00 ./usr/bin/nook
-rw-r--r-- root/root       123 2026-11-21 21:00 usr/share/man/man1/nook.1.gz
";

    #[track_caller]
    fn check_faults(listing: &str, found: &[&str]) {
        let wanted = ["/usr/bin/nook", "/usr/share/man/man1/nook.1.gz"];
        let faults = faults_of(&entries(listing).unwrap(), wanted.iter());
        assert_eq!(faults.len(), found.len(), "{faults:?}");
        for (fault, part) in faults.iter().zip(found) {
            assert!(fault.contains(part), "{fault}");
        }
    }

    #[test]
    fn a_sound_package_has_no_faults() {
        check_faults(LISTING, &[]);
        assert_eq!(entries(LISTING).unwrap()[0].path, Path::new("/usr"));
    }

    #[test]
    fn faults_of_a_package_are_found() {
        check_faults(&LISTING.replace("nook.1.gz", "else.1.gz"), &["nook.1.gz is not in it"]);
        check_faults(&LISTING.replace("root/root", "me/me"), &["belongs to me/me"]);
        check_faults(&LISTING.replace("-rwxr-xr-x", "-rw-r--r--"), &["and not -rwxr-xr-x"]);
        check_faults(&LISTING.replace("-rw-r--r--", "-rw-rw-r--"), &["and not -rw-r--r--"]);
        let stray = format!("{LISTING}-rw-r--r-- 0/0 1 2026-11-21 21:00 ./etc/nook.conf\n");
        check_faults(&stray, &["no business"]);
        assert!(entries("-rw-r--r-- 0/0\n").is_err());
    }
}
