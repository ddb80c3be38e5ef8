//! Versions that come before another one: `0.2.0-test` before `0.2.0`.
//!
//! For rpm and dpkg a `-` begins the number of the package and makes it a later one; what comes
//! before is written with `~`. Tauri's bundler writes it so in the .rpm and not in the .deb, whose
//! version is written anew here.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::process::Program;

/// A version as packages have it.
pub(crate) fn in_packages(version: &str) -> String {
    version.replacen('-', "~", 1)
}

/// Writes the version of a .deb anew where it has to be, from what the bundler left in `unpacked`,
/// the folder with its `control` folder and its parts.
pub(crate) fn mend_deb(deb: &Path, unpacked: &Path, version: &str) -> Result<()> {
    let right = in_packages(version);
    if right == version {
        return Ok(());
    }
    let control = unpacked.join("control/control");
    let text = fs::read_to_string(&control).with_context(|| control.display().to_string())?;
    let line = format!("Version: {version}\n");
    if !text.contains(&line) {
        bail!("{} does not name the version {version}", control.display());
    }
    fs::write(&control, text.replacen(&line, &format!("Version: {right}\n"), 1))?;
    let packed = unpacked.join("control.tar.gz");
    Program::new("tar", &unpacked.join("control"))
        .args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0"])
        .args(["--numeric-owner", "--mtime=@0", "--use-compress-program=gzip -9n"])
        .args(["--file".as_ref(), packed.as_os_str()])
        .args(["control", "md5sums"])
        .run()?;
    let mut archive = b"!<arch>\n".to_vec();
    for name in ["debian-binary", "control.tar.gz", "data.tar.gz"] {
        let bytes = fs::read(unpacked.join(name)).with_context(|| name.to_owned())?;
        let (mode, length) = ("100644", bytes.len());
        let head = format!("{name:<16}{:<12}{:<6}{:<6}{mode:<8}{length:<10}`\n", 0, 0, 0);
        archive.extend(head.bytes());
        archive.extend(&bytes);
        // Each part begins at an even place.
        archive.extend((length % 2 == 1).then_some(b'\n'));
    }
    fs::write(deb, archive).with_context(|| deb.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside;

    #[test]
    fn a_version_before_another_one_is_written_as_rpm_and_dpkg_sort_it() {
        assert_eq!(in_packages("0.2.0"), "0.2.0");
        assert_eq!(in_packages("0.2.0-test"), "0.2.0~test");
        assert_eq!(in_packages("0.2.0-rc.1+here"), "0.2.0~rc.1+here");
        if outside::find_program("dpkg").is_some() {
            let earlier = ["--compare-versions", "0.2.0~test", "lt", "0.2.0"];
            Program::new("dpkg", Path::new("/")).args(earlier).run().unwrap();
        }
    }

    #[test]
    fn the_deb_of_such_a_version_says_so_and_holds_what_it_held() {
        let place = tempfile::tempdir().unwrap();
        let (deb, unpacked) = (place.path().join("a.deb"), place.path().join("a"));
        fs::create_dir_all(unpacked.join("control")).unwrap();
        fs::create_dir_all(unpacked.join("data/usr/share")).unwrap();
        fs::write(unpacked.join("debian-binary"), "2.0\n").unwrap();
        fs::write(unpacked.join("data/usr/share/odd"), "odd").unwrap();
        fs::write(unpacked.join("control/md5sums"), "").unwrap();
        let fields = "Package: a\nVersion: 0.2.0-test\nArchitecture: all\nMaintainer: a\n\
                      Description: a\n";
        fs::write(unpacked.join("control/control"), fields).unwrap();
        Program::new("tar", &unpacked.join("data"))
            .args(["--create", "--gzip", "--file", "../data.tar.gz", "."])
            .run()
            .unwrap();
        mend_deb(&deb, &unpacked, "0.1.0").unwrap();
        assert!(!deb.exists(), "there is nothing to mend");
        mend_deb(&deb, &unpacked, "0.2.0-test").unwrap();
        assert!(mend_deb(&deb, &unpacked, "0.2.0-test").is_err(), "it was mended already");
        if outside::find_program("dpkg-deb").is_some() {
            let tool = |words: &[&str]| {
                let tool = Program::new("dpkg-deb", place.path()).args([words[0], "a.deb"]);
                tool.args(&words[1..]).output().unwrap()
            };
            assert_eq!(tool(&["--field", "Version"]).trim(), "0.2.0~test");
            assert!(tool(&["--contents"]).contains("./usr/share/odd"));
        }
    }
}
