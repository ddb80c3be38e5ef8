//! `cargo xtask bundle --windows`: the packages for Windows, made on Linux: an installer for one
//! person (`packaging/windows/installer.nsi`, compiled by makensis) and an archive with the same
//! files for who wants none.
//!
//! The programs are cross-built by mingw into the folder that `cargo xtask platforms` uses. Nothing
//! is signed: that takes a certificate which Windows knows.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use semver::Version;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::bundle::contents::fresh;
use crate::bundle::{Profile, notices, portable};
use crate::places::Places;
use crate::process::{Program, cargo};
use crate::stages::{build as building, ui};
use crate::{outside, say};

/// What Rust calls the system that the packages are for.
pub(crate) const TRIPLE: &str = "x86_64-pc-windows-gnu";

/// The programs, and the library of Microsoft's that the tray app finds WebView2 with.
const PROGRAMS: [&str; 3] = ["nook.exe", "inglenook.exe", "WebView2Loader.dll"];

/// Files of the tree that go along, and what they are called there.
const TEXTS: [(&str, &str); 3] = [
    ("packaging/windows/READ ME.txt", "READ ME.txt"),
    ("LICENSE-APACHE", "LICENSE-APACHE.txt"),
    ("LICENSE-MIT", "LICENSE-MIT.txt"),
];

/// Lies in the archive alone: what the installer does, for a folder that was unpacked.
const UPDATE: (&str, &str) = ("packaging/windows/Update.cmd", "Update.cmd");

/// The licences of everybody else's.
const NOTICES: &str = "third-party-licences.txt";

/// That of the library among the programs, which no crate carries as a text.
const LOADER_LICENCE: &str = "packaging/windows/WebView2Loader-licence.txt";

const SCRIPT: &str = "packaging/windows/installer.nsi";
const ICON: &str = "icons/app/icon.ico";

/// Folder of all files in the archive: the same for every version, so that one unpacks over another.
const TOP: &str = "Inglenook";

/// What making them takes, and the package of Debian that has it.
const TOOLS: [(&str, &str); 2] =
    [("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"), ("makensis", "nsis")];

/// Packages that were made.
#[derive(Debug)]
pub(crate) struct WindowsPackages {
    /// The installer.
    pub(crate) installer: PathBuf,
    /// The archive.
    pub(crate) archive: PathBuf,
    /// Folder of the files that are in both.
    pub(crate) content: PathBuf,
}

/// What the script is compiled with.
struct Script<'a> {
    version: &'a Version,
    /// Folder of the files.
    payload: &'a Path,
    /// The installer to write.
    output: &'a Path,
    /// Packed fast rather than small.
    is_quick: bool,
}

/// The packages of Debian that this machine lacks for it.
pub(crate) fn missing_tools() -> Vec<&'static str> {
    let lacks = |(tool, package)| outside::find_program(tool).is_none().then_some(package);
    TOOLS.into_iter().filter_map(lacks).collect()
}

/// Builds the programs, makes the packages and says how large they are.
pub(crate) fn command(places: &Places, profile: Profile) -> Result<()> {
    let missing = missing_tools();
    if !missing.is_empty() {
        bail!("packages for Windows take more than is here; on Debian: {}", missing.join(" "));
    }
    ui::build_pages(places)?;
    let programs = build(places, profile)?;
    make(places, profile, &programs)?.say()
}

/// Cross-builds the programs; gives the folder in which they lie.
pub(crate) fn build(places: &Places, profile: Profile) -> Result<PathBuf> {
    Program::new("rustup", &places.root).args(["target", "add", TRIPLE]).run()?;
    let target = places.made("platforms")?;
    cargo(&places.root)
        .args(["build", "--target", TRIPLE, "--package", "inglenook", "--package", "nook-cli"])
        .args(["--bins"])
        .args(building::features(places)?)
        .args((profile == Profile::Release).then_some("--release"))
        .env("CARGO_TARGET_DIR", &target)
        .run()?;
    Ok(target.join(TRIPLE).join(profile.folder()))
}

/// Makes both packages of the programs in a folder.
pub(crate) fn make(places: &Places, profile: Profile, programs: &Path) -> Result<WindowsPackages> {
    let version: Version = portable::version(places)?.parse().context("an odd version")?;
    let folder = places.made(Path::new("packages").join(profile.folder()))?.join("windows");
    let content = fresh(&folder)?.join(TOP);
    fs::create_dir(&content)?;
    for name in PROGRAMS {
        let (from, to) = (programs.join(name), content.join(name));
        fs::copy(&from, &to).with_context(|| format!("{} was not built", from.display()))?;
        if profile == Profile::Debug && name.ends_with(".exe") {
            Program::new("x86_64-w64-mingw32-strip", &folder).args([to]).run()?;
        }
    }
    for (from, name) in TEXTS {
        write_text(&content.join(name), &fs::read_to_string(places.root.join(from))?)?;
    }
    let loader = fs::read_to_string(places.root.join(LOADER_LICENCE))?;
    let text = format!("{loader}\n{}", notices::text(places, Some(TRIPLE))?);
    write_text(&content.join(NOTICES), &text)?;

    let name = format!("inglenook-{version}-windows-x86_64");
    let archive = folder.join(format!("{name}.zip"));
    pack(places, &content, &archive)?;
    let installer = folder.join(format!("{name}-setup.exe"));
    let is_quick = profile == Profile::Debug;
    compile(
        places,
        &Script { version: &version, payload: &content, output: &installer, is_quick },
    )?;
    Ok(WindowsPackages { installer, archive, content })
}

/// Makes an installer of a later version, to try an upgrade: the same programs with its number
/// written over their own, so that they say it. Gives its version too.
pub(crate) fn make_next(
    places: &Places,
    made: &WindowsPackages,
) -> Result<(WindowsPackages, Version)> {
    let version: Version = portable::version(places)?.parse().context("an odd version")?;
    let next = Version { patch: version.patch + 1, ..version.clone() };
    let folder = places.made("packages/next-windows")?;
    let content = fresh(&folder)?.join(TOP);
    fs::create_dir(&content)?;
    for name in every_file() {
        let mut bytes = fs::read(made.content.join(name))?;
        if name.ends_with(".exe") {
            renumber(&mut bytes, &version, &next).with_context(|| name.to_owned())?;
        }
        fs::write(content.join(name), bytes)?;
    }
    let name = format!("inglenook-{next}-windows-x86_64");
    let archive = folder.join(format!("{name}.zip"));
    pack(places, &content, &archive)?;
    let installer = folder.join(format!("{name}-setup.exe"));
    let script = Script { version: &next, payload: &content, output: &installer, is_quick: true };
    compile(places, &script)?;
    Ok((WindowsPackages { installer, archive, content }, next))
}

/// Writes another number over that of a program, wherever it stands.
fn renumber(program: &mut [u8], from: &Version, to: &Version) -> Result<()> {
    let (from, to) = (from.to_string(), to.to_string());
    ensure!(from.len() == to.len(), "{to} does not fit where {from} stands");
    let length = from.len();
    let places = (0..=program.len().saturating_sub(length))
        .filter(|at| program[*at..].starts_with(from.as_bytes()))
        .collect::<Vec<_>>();
    ensure!(!places.is_empty(), "{from} stands nowhere in it");
    places.into_iter().for_each(|at| program[at..at + length].copy_from_slice(to.as_bytes()));
    Ok(())
}

/// Compiles the script around empty files. Whether what comes of it works, wine tells elsewhere.
pub(crate) fn check_script(places: &Places) -> Result<()> {
    let folder = places.made("windows-script")?;
    let payload = fresh(&folder)?.join(TOP);
    fs::create_dir(&payload)?;
    for name in every_file() {
        fs::write(payload.join(name), name)?;
    }
    let version = Version::new(0, 0, 0);
    let output = folder.join("inglenook-0.0.0-setup.exe");
    compile(
        places,
        &Script { version: &version, payload: &payload, output: &output, is_quick: true },
    )
}

/// What lies in both packages.
fn every_file() -> impl Iterator<Item = &'static str> {
    let texts = TEXTS.into_iter().map(|(_, name)| name);
    PROGRAMS.into_iter().chain(texts).chain([NOTICES])
}

fn compile(places: &Places, script: &Script<'_>) -> Result<()> {
    let Script { version, payload, output, is_quick } = script;
    let Version { major, minor, patch, .. } = version;
    let defined = [
        format!("-DVERSION={version}"),
        format!("-DNUMBERS={major}.{minor}.{patch}.0"),
        format!("-DPAYLOAD={}", payload.display()),
        format!("-DOUTPUT={}", output.display()),
        format!("-DICON={}", places.root.join(ICON).display()),
    ];
    Program::new("makensis", &places.root)
        // Only what is wrong is said, and a warning is wrong.
        .args(["-V2", "-WX", "-INPUTCHARSET", "UTF8"])
        .args(defined)
        .args(is_quick.then_some("-DQUICK"))
        .args([places.root.join(SCRIPT)])
        .run()
}

/// A text with the line ends that every editor of Windows knows.
fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, with_line_ends(text))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn with_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Packs a folder. The same files give the same archive: sorted, and all of one time.
fn pack(places: &Places, content: &Path, archive: &Path) -> Result<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default());
    let mut names = every_file().collect::<Vec<_>>();
    names.sort_unstable();
    let mut packed = ZipWriter::new(File::create(archive)?);
    for name in names {
        packed.start_file(format!("{TOP}/{name}"), options)?;
        packed.write_all(&fs::read(content.join(name))?)?;
    }
    let (from, name) = UPDATE;
    packed.start_file(format!("{TOP}/{name}"), options)?;
    packed.write_all(with_line_ends(&fs::read_to_string(places.root.join(from))?).as_bytes())?;
    packed.finish()?;
    Ok(())
}

impl WindowsPackages {
    /// Says how large they are.
    pub(crate) fn say(&self) -> Result<()> {
        for path in [&self.installer, &self.archive] {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            say::line(&format!("package {name:<44} {:>8.2} MB", megabytes(path)?));
        }
        let folder = self.installer.parent().unwrap_or(&self.installer);
        say::line(&format!("packages for Windows lie in {}", folder.display()));
        Ok(())
    }

    /// Sizes in a few words, for a closing line.
    pub(crate) fn sizes(&self) -> Result<String> {
        let (installer, archive) = (megabytes(&self.installer)?, megabytes(&self.archive)?);
        Ok(format!("installer {installer:.1} MB, .zip {archive:.1} MB"))
    }
}

fn megabytes(path: &Path) -> Result<f64> {
    Ok(path.metadata()?.len() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn script() -> (Places, String) {
        let places = Places::find().unwrap();
        let script = fs::read_to_string(places.root.join(SCRIPT)).unwrap();
        (places, script)
    }

    #[test]
    fn the_installer_knows_every_file_and_no_other() {
        let (_, script) = script();
        let named = script.lines().filter_map(|line| {
            line.trim().strip_prefix("!insertmacro ${DO} \"")?.strip_suffix('"')
        });
        let (mut named, mut files) = (named.collect::<Vec<_>>(), every_file().collect::<Vec<_>>());
        named.sort_unstable();
        files.sort_unstable();
        assert_eq!(named, files);
    }

    #[test]
    fn the_file_that_updates_a_folder_knows_every_file() {
        let (places, _) = script();
        let text = fs::read_to_string(places.root.join(UPDATE.0)).unwrap();
        let line = text.lines().find(|line| line.starts_with("for %%F in (")).unwrap();
        for name in every_file().chain([UPDATE.1]) {
            assert!(line.contains(name), "{name}");
        }
    }

    #[test]
    fn all_that_speaks_of_webview2_names_one_place_to_get_it() {
        let (places, script) = script();
        let line = script.lines().find(|line| line.contains("define WEBVIEW2_ADDRESS")).unwrap();
        let address = line.split('"').nth(1).unwrap();
        assert!(address.starts_with("https://"));
        for other in ["src-tauri/src/web_view.rs", "packaging/windows/READ ME.txt"] {
            let text = fs::read_to_string(places.root.join(other)).unwrap();
            assert!(text.contains(address), "{other}");
        }
    }

    #[test]
    fn a_later_version_says_another_number_and_is_no_longer() {
        let (old, new) = (Version::new(0, 1, 0), Version::new(0, 1, 1));
        let mut program = *b"nook 0.1.0, of 0.1.0";
        renumber(&mut program, &old, &new).unwrap();
        assert_eq!(&program, b"nook 0.1.1, of 0.1.1");
        assert!(renumber(&mut program, &old, &new).is_err(), "it stands nowhere any more");
        assert!(renumber(&mut program, &new, &Version::new(0, 1, 10)).is_err());
    }

    #[test]
    fn an_archive_holds_all_files_in_one_folder_and_is_always_the_same() {
        let place = tempfile::tempdir().unwrap();
        for name in every_file() {
            fs::write(place.path().join(name), format!("{name}, as it is")).unwrap();
        }
        let archives = ["a.zip", "b.zip"].map(|name| place.path().join(name));
        let places = Places::find().unwrap();
        archives.iter().for_each(|archive| pack(&places, place.path(), archive).unwrap());
        let [first, second] = archives.each_ref().map(|archive| fs::read(archive).unwrap());
        assert!(first == second);
        let mut read = zip::ZipArchive::new(File::open(&archives[0]).unwrap()).unwrap();
        assert_eq!(read.len(), every_file().count() + 1, "and the file that updates a folder");
        let mut text = String::new();
        read.by_name("Inglenook/READ ME.txt").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "READ ME.txt, as it is");
    }
}
