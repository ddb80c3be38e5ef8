//! What the programs need of the system that installs them, found in the programs themselves.
//!
//! For the .deb `dpkg-shlibdeps` says which packages, and how new; for the .rpm the names of the
//! libraries and their versions are the requirements, as rpm's own tools write them. The library of
//! the tray stands in no program: it is loaded when the tray is made.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::places::Places;
use crate::process::Program;
use crate::{outside, say};

/// `dpkg-shlibdeps` reads the name of the package from a source package; this is one.
const SOURCE_PACKAGE: &str = "Source: inglenook\n\nPackage: inglenook\nArchitecture: any\n";

/// The library of the tray, by the names of each kind of package.
const TRAY: [&str; 2] = ["libayatana-appindicator3-1", "libayatana-appindicator3.so.1()(64bit)"];

/// Beginnings of libraries of graphics drivers and of CUDA: a program that needs one does not start
/// where it is not. `nook-worker-cuda` may, and is in no package.
const DRIVERS: [&str; 7] =
    ["libcublas", "libcuda", "libcurand", "libnvidia", "libnvrtc", "libOpenCL", "libvulkan"];

/// Requirements; `None` where nothing here can tell them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// As in the field `Depends`.
    pub(crate) deb: Option<Vec<String>>,
    /// As in the header of an .rpm.
    pub(crate) rpm: Option<Vec<String>>,
}

/// What `programs` need.
pub(crate) fn of(places: &Places, folder: &Path, programs: &[&Path]) -> Result<Needs> {
    let missing = |tool: &str| {
        let is_missing = outside::find_program(tool).is_none();
        if is_missing {
            say::loud(&format!("no `{tool}` here: the packages name only what the bundler knows"));
        }
        is_missing
    };
    let mut deb = if missing("dpkg-shlibdeps") { None } else { Some(packages(folder, programs)?) };
    let mut rpm = if missing("readelf") { None } else { Some(libraries(places, programs)?) };
    for (known, tray) in [&mut deb, &mut rpm].into_iter().zip(TRAY) {
        known.iter_mut().for_each(|names| names.push(tray.to_owned()));
    }
    Ok(Needs { deb, rpm })
}

fn packages(folder: &Path, programs: &[&Path]) -> Result<Vec<String>> {
    let source = folder.join("needs");
    std::fs::create_dir_all(source.join("debian"))?;
    std::fs::write(source.join("debian/control"), SOURCE_PACKAGE)?;
    let said = Program::new("dpkg-shlibdeps", &source)
        .args(["-O", "--warnings=0"])
        .args(programs.iter().map(|program| format!("-e{}", program.display())))
        .output()?;
    said_packages(&said).with_context(|| format!("dpkg-shlibdeps said: {said}"))
}

/// `shlibs:Depends=libc6 (>= 2.34), libgtk-3-0 (>= 3.24)`.
fn said_packages(said: &str) -> Option<Vec<String>> {
    let list = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="))?;
    let packages = list.split(", ").map(|package| package.trim().to_owned());
    Some(packages.filter(|package| !package.is_empty()).collect())
}

fn libraries(places: &Places, programs: &[&Path]) -> Result<Vec<String>> {
    let mut all = BTreeSet::new();
    for program in programs {
        let said = Program::new("readelf", &places.root)
            .args(["--wide", "--dynamic", "--version-info"])
            .args([program])
            .env("LC_ALL", "C")
            .output()?;
        let needed = said_libraries(&said);
        let drivers = drivers_among(&needed);
        if !drivers.is_empty() {
            bail!("{} does not start without {}", program.display(), drivers.join(", "));
        }
        all.extend(needed);
    }
    Ok(all.into_iter().collect())
}

fn drivers_among(libraries: &BTreeSet<String>) -> Vec<&str> {
    let is_driver = |name: &&str| DRIVERS.iter().any(|driver| name.starts_with(driver));
    libraries.iter().map(String::as_str).filter(is_driver).collect()
}

/// The libraries and the versions of their symbols that `readelf` names.
fn said_libraries(said: &str) -> BTreeSet<String> {
    let mut libraries = BTreeSet::new();
    let mut library = None;
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("Shared library: [") {
            let name = rest.trim_end().trim_end_matches(']');
            libraries.insert(format!("{name}()(64bit)"));
        }
        if let Some((_, rest)) = line.split_once("  File: ") {
            library = rest.split_whitespace().next();
        }
        let name = line.split_once("  Name: ").and_then(|(_, rest)| rest.split_whitespace().next());
        // Names with a file are versions that are needed; versions that are offered have none.
        if let (Some(library), Some(version)) = (library, name) {
            libraries.insert(format!("{library}({version})(64bit)"));
        }
    }
    libraries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_with_their_versions() {
        let said = "shlibs:Depends=libc6 (>= 2.34), libgcc-s1 (>= 4.2), libgtk-3-0\n";
        assert_eq!(
            said_packages(said).unwrap(),
            ["libc6 (>= 2.34)", "libgcc-s1 (>= 4.2)", "libgtk-3-0"]
        );
        assert_eq!(said_packages("dpkg-shlibdeps: error"), None);
    }

    #[test]
    fn a_program_that_needs_a_driver_to_start_is_found() {
        let of = |library: &str| {
            let line = format!(" 0x01 (NEEDED)  Shared library: [{library}]\n");
            said_libraries(&format!("{line} 0x01 (NEEDED)  Shared library: [libc.so.6]\n"))
        };
        assert_eq!(drivers_among(&of("libcuda.so.1")), ["libcuda.so.1()(64bit)"]);
        assert_eq!(drivers_among(&of("libvulkan.so.1")).len(), 1);
        assert_eq!(drivers_among(&of("libgtk-3.so.0")), [""; 0]);
    }

    #[test]
    fn libraries_are_read_with_the_versions_of_their_symbols() {
        let said = "\
Dynamic section at offset 0x10 contains 3 entries:
  Tag        Type                         Name/Value
 0x0000000000000001 (NEEDED)             Shared library: [libgtk-3.so.0]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]

Version needs section '.gnu.version_r' contains 1 entry:
 Addr: 0x0000000000000a10  Offset: 0x00000a10  Link: 6 (.dynstr)
  000000: Version: 1  File: libc.so.6  Cnt: 2
  0x0010:   Name: GLIBC_2.34  Flags: none  Version: 3
  0x0020:   Name: GLIBC_2.2.5  Flags: none  Version: 2
";
        let found: Vec<_> = said_libraries(said).into_iter().collect();
        let expected = [
            "libc.so.6()(64bit)",
            "libc.so.6(GLIBC_2.2.5)(64bit)",
            "libc.so.6(GLIBC_2.34)(64bit)",
            "libgtk-3.so.0()(64bit)",
        ];
        assert_eq!(found, expected);
    }
}
