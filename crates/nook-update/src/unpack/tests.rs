//! Archives as an attacker with the key would make them.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

use super::*;

const MOST: Most = Most { bytes: 1 << 20, files: 20 };

/// An archive of headers that a well-behaved writer would refuse to write.
#[derive(Default)]
struct Made(Vec<(Header, Vec<u8>)>);

impl Made {
    fn with(mut self, kind: EntryType, name: &str, link: &str, bytes: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o6755);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        self.0.push((header, bytes.to_vec()));
        self
    }

    fn file(self, name: &str, bytes: &[u8]) -> Self {
        self.with(EntryType::Regular, name, "", bytes)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (header, bytes) in &self.0 {
            builder.append(header, bytes.as_slice()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }
}

fn unpacked(made: &Made) -> (tempfile::TempDir, Result<PathBuf, UnpackError>) {
    let around = tempfile::tempdir().unwrap();
    let outcome = unpack(made.bytes().as_slice(), &around.path().join("into"), MOST);
    (around, outcome)
}

/// What lies around the folder into which it was unpacked.
fn around(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn a_package_comes_as_it_is_and_nothing_gets_more_rights_than_to_run() {
    let made = Made::default()
        .with(EntryType::Directory, "package/", "", b"")
        .file("package/bin/nook", b"program")
        .file("package/share/doc/a.txt", b"text");
    let (_keep, folder) = unpacked(&made);
    let folder = folder.unwrap();
    assert!(folder.ends_with("into/package"));
    assert_eq!(fs::read(folder.join("bin/nook")).unwrap(), b"program");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = folder.join("bin/nook").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7000, 0, "neither set-user-id nor set-group-id: {mode:o}");
        assert_eq!(mode & 0o100, 0o100, "{mode:o}");
    }
}

#[test]
fn u4_names_that_lead_out_of_the_folder_are_refused() {
    for name in [
        "/etc/passwd",
        "../outside",
        "package/../../outside",
        "package/..",
        "./../outside",
        "..",
        "package\\..\\..\\outside",
        "C:/outside",
        "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r",
    ] {
        let (around_it, outcome) = unpacked(&Made::default().file(name, b"x"));
        assert!(matches!(outcome, Err(UnpackError::Outside { .. })), "{name}: {outcome:?}");
        assert_eq!(around(&around_it), ["into"], "{name}");
    }
}

#[test]
fn u4_links_devices_and_extensions_are_refused() {
    for (kind, link) in [
        (EntryType::Symlink, "/etc"),
        (EntryType::Symlink, "package/bin"),
        (EntryType::Link, "/etc/passwd"),
        (EntryType::Link, "package/a"),
        (EntryType::Char, ""),
        (EntryType::Block, ""),
        (EntryType::Fifo, ""),
        (EntryType::GNULongName, ""),
        (EntryType::XHeader, ""),
        (EntryType::XGlobalHeader, ""),
        (EntryType::GNUSparse, ""),
    ] {
        let made = Made::default().file("package/a", b"x").with(kind, "package/b", link, b"");
        // What would be written through the link if it were made.
        let made = made.file("package/b/passwd", b"owned");
        let (_keep, outcome) = unpacked(&made);
        assert!(matches!(outcome, Err(UnpackError::NoFile { .. })), "{kind:?}: {outcome:?}");
    }
}

#[test]
fn u4_more_than_a_package_holds_is_refused_on_the_way() {
    let many =
        (0..=MOST.files).fold(Made::default(), |made, at| made.file(&format!("p/{at}"), b""));
    assert_eq!(unpacked(&many).1, Err(UnpackError::TooMany { most: MOST.files }));
    let zeros = vec![0; usize::try_from(MOST.bytes).unwrap() + 1];
    let (_keep, outcome) = unpacked(&Made::default().file("p/a", &zeros));
    assert_eq!(outcome, Err(UnpackError::TooLarge { most: MOST.bytes }));
    let twice = Made::default().file("p/a", b"1").file("p/a", b"2");
    assert!(matches!(unpacked(&twice).1, Err(UnpackError::Twice { .. })));
    let two = Made::default().file("p/a", b"1").file("q/a", b"2");
    assert!(matches!(unpacked(&two).1, Err(UnpackError::Damaged { .. })));
}

#[test]
fn what_is_cut_or_no_archive_is_refused() {
    let whole = Made::default().file("p/a", &[7; 5000]).bytes();
    for bytes in [&whole[..whole.len() / 2], b"no archive", b""] {
        let into = tempfile::tempdir().unwrap();
        let outcome = unpack(bytes, &into.path().join("into"), MOST);
        assert!(matches!(outcome, Err(UnpackError::Damaged { .. })), "{outcome:?}");
    }
    // Bytes of any kind end in an error and nothing else.
    for seed in 0_u32..200 {
        let mut bytes = whole.clone();
        let at = (seed as usize * 7919) % bytes.len();
        bytes[at] ^= (seed % 255) as u8 + 1;
        let mut plain = Vec::new();
        GzEncoder::new(&mut plain, Compression::fast()).write_all(&bytes).unwrap();
        let into = tempfile::tempdir().unwrap();
        drop(unpack(bytes.as_slice(), &into.path().join("one"), MOST));
        drop(unpack(plain.as_slice(), &into.path().join("two"), MOST));
        assert_eq!(
            around(&into).iter().filter(|name| !["one", "two"].contains(&name.as_str())).count(),
            0
        );
    }
}
