//! `cargo xtask release --version X`: everything that this machine can make of a release, signed
//! and then verified with the very code that an installed program verifies it with.
//!
//! The packages come from `cargo xtask bundle`, run with the version in its environment, for Linux and,
//! where mingw and makensis are, for Windows. Then
//! [`assemble`] copies them into one folder, writes the list of versions, the list of models, the
//! parts list ([`sbom`]) and SHA256SUMS, puts the [`site`] beside them, and signs the lists;
//! [`verify`] reads the folder as a stranger would. Uploading it, as it is, to the address of the
//! list is all that is left. The list of models can be signed alone ([`catalogue_command`]), to
//! renew it between two versions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use minisign::{PublicKey, SecretKey, SecretKeyBox};
use nook_update::{
    CATALOGUE_FILE, CATALOGUE_KIND, FORMAT, KIND, Keys, MANIFEST_FILE, Manifest, Package,
    PackageKind, SIGNATURE_END, read, signed_catalogue,
};
use semver::Version;
use sha2::{Digest as _, Sha256};

use crate::bundle::portable::VERSION_VARIABLE;
use crate::bundle::windows;
use crate::places::Places;
use crate::process::cargo;
use crate::{outside, say, site};

mod sbom;
#[cfg(test)]
mod tests;

/// The file of the secret key, where no option names it; and its password.
const KEY_VARIABLE: &str = "INGLENOOK_RELEASE_KEY";
const PASSWORD_VARIABLE: &str = "INGLENOOK_RELEASE_KEY_PASSWORD";

/// The list of models in the tree: the one that programs of this version bring along.
const CATALOGUE: &str = "crates/nook-fetch/src/catalogue/built_in.toml";

/// What kind of file SHA256SUMS is, for its signature.
const SUMS_KIND: &str = "inglenook-sums";

/// What `cargo xtask bundle` is told for the packages for Windows.
const WINDOWS: [&str; 1] = ["--windows"];

const SUMS_FILE: &str = "SHA256SUMS";
const DAY_SECONDS: u64 = 86_400;

/// How to make a release.
#[derive(Debug, Args)]
pub(crate) struct ReleaseOptions {
    /// Its version, such as 0.2.0
    #[arg(long)]
    version: Version,
    /// The secret key of minisign that signs it (default: the file that `INGLENOOK_RELEASE_KEY` names);
    /// `INGLENOOK_RELEASE_KEY_PASSWORD` has its password
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// What is new, in English: shown before somebody updates
    #[arg(long, value_name = "FILE")]
    notes: Option<PathBuf>,
    /// For how many days the list of versions counts; sign a new one before they are over
    #[arg(long, default_value_t = 400, value_name = "DAYS")]
    valid: u64,
    /// Without optimisation, from the everyday build: for trying out
    #[arg(long)]
    debug: bool,
}

/// A release before it is signed.
#[derive(Debug)]
pub(crate) struct Release<'a> {
    version: &'a Version,
    notes: Option<String>,
    /// Seconds since 1970; also its serial number, which so grows by itself.
    now: u64,
    valid_days: u64,
    /// Each package, and for which computers it is.
    packages: Vec<(PathBuf, String)>,
    /// The list of models.
    models: Vec<u8>,
    /// Name and content of every further file.
    beside: site::Files,
}

/// How to sign a list of models.
#[derive(Debug, Args)]
pub(crate) struct CatalogueOptions {
    /// The secret key of minisign that signs it (default: the file that `INGLENOOK_RELEASE_KEY` names);
    /// `INGLENOOK_RELEASE_KEY_PASSWORD` has its password
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Makes, signs and verifies a release.
pub(crate) fn command(places: &Places, options: &ReleaseOptions) -> Result<()> {
    let pre = options.version.pre.as_str();
    ensure!(
        !pre.contains('-'),
        "rpm takes no second `-` in a version: write `-{}`",
        pre.replace('-', ".")
    );
    // Before anything is built for half an hour.
    let key = secret_key(options.key.as_deref())?;
    let notes = options.notes.as_deref().map(fs::read_to_string).transpose()?;
    let lacking = windows::missing_tools();
    // Nobody reads what a CI system says of a release that looks complete.
    ensure!(
        lacking.is_empty() || !outside::in_ci(),
        "a release of CI has packages for Windows, which take, on Debian, {}",
        lacking.join(" ")
    );
    let mut packages = bundled(places, options, &[])?;
    if lacking.is_empty() {
        packages.extend(bundled(places, options, &WINDOWS)?);
    }
    let release = Release {
        version: &options.version,
        notes,
        now: unix_seconds()?,
        valid_days: options.valid,
        packages,
        models: catalogue(places)?,
        beside: beside(places, &options.version, lacking.is_empty())?,
    };
    let folder = places.target.join(format!("inglenook-{}", options.version));
    assemble(&release, &key, &folder)?;
    let keys = Keys::read(&PublicKey::from_secret_key(&key)?.to_base64())?;
    verify(&folder, &keys, release.now)?.iter().for_each(|line| say::line(line));
    if !is_built_in(&folder, release.now)? {
        say::loud(
            "no program believes this release by itself: its public key is not in \
             crates/nook-update/src/release.rs",
        );
    }
    say::line(&format!("the release lies in {}", folder.display()));
    say::loud("nothing for macOS is made here");
    if !lacking.is_empty() {
        let lacking = lacking.join(" ");
        say::loud(&format!("nothing for Windows was made: that takes, on Debian, {lacking}"));
    }
    Ok(())
}

/// Builds packages and finds them; each with the computers that it is for. `words`: for which system.
fn bundled(
    places: &Places,
    options: &ReleaseOptions,
    words: &[&str],
) -> Result<Vec<(PathBuf, String)>> {
    cargo(&places.root)
        .args(["xtask", "bundle"])
        .args(words)
        .args(options.debug.then_some("--debug"))
        .env(VERSION_VARIABLE, options.version.to_string())
        .run()?;
    let made = places.target.join("packages").join(if options.debug { "debug" } else { "release" });
    let for_windows = |kind: PackageKind| kind.platform_of("windows", "x86_64");
    let kinds = if words == WINDOWS {
        vec![
            ("windows", "-setup.exe", for_windows(PackageKind::Nsis)),
            ("windows", ".zip", for_windows(PackageKind::Zip)),
        ]
    } else {
        vec![
            ("bundle/deb", ".deb", PackageKind::Deb.platform()),
            ("bundle/rpm", ".rpm", PackageKind::Rpm.platform()),
            ("portable", ".tar.gz", PackageKind::Portable.platform()),
        ]
    };
    let found = kinds.into_iter();
    found.map(|(folder, end, of)| Ok((only_file(&made.join(folder), end)?, of))).collect()
}

/// Signs the list of models of this tree, to lie beside the list of versions of a release.
pub(crate) fn catalogue_command(places: &Places, options: &CatalogueOptions) -> Result<()> {
    let key = secret_key(options.key.as_deref())?;
    let folder = places.made("catalogue")?;
    let path = folder.join(CATALOGUE_FILE);
    let bytes = catalogue(places)?;
    sign(&bytes, &key, &path, CATALOGUE_KIND, "")?;
    let keys = Keys::read(&PublicKey::from_secret_key(&key)?.to_base64())?;
    signed_catalogue(&bytes, &files(&folder)?[&format!("{CATALOGUE_FILE}{SIGNATURE_END}")], &keys)?;
    say::line(&format!("{CATALOGUE_FILE} and its signature lie in {}", folder.display()));
    say::loud("put both beside the list of versions; programs take them with their next look");
    Ok(())
}

/// The list of models of this tree. Whether it is a good one is a test of `nook-fetch`.
fn catalogue(places: &Places) -> Result<Vec<u8>> {
    fs::read(places.root.join(CATALOGUE)).with_context(|| CATALOGUE.to_owned())
}

/// The parts list, with what only packages for Windows hold where there are some, and the site.
fn beside(places: &Places, version: &Version, has_windows: bool) -> Result<site::Files> {
    let mut files = site::files(&places.root)?;
    files.insert(
        "inglenook.cdx.json".to_owned(),
        sbom::of(places, version, has_windows.then_some(windows::TRIPLE))?,
    );
    Ok(files)
}

/// Puts a release into `folder`, which is made anew.
fn assemble(release: &Release<'_>, key: &SecretKey, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mut packages = Vec::new();
    for (path, platform) in &release.packages {
        let file = path.file_name().and_then(|name| name.to_str()).context("a name is text")?;
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        packages.push(Package {
            platform: platform.clone(),
            file: file.to_owned(),
            bytes: bytes.len() as u64,
            sha256: sha256(&bytes),
        });
        fs::write(folder.join(file), bytes)?;
    }
    let manifest = Manifest {
        kind: KIND.to_owned(),
        format: FORMAT,
        version: release.version.clone(),
        serial: release.now,
        released: release.now,
        expires: release.now + release.valid_days * DAY_SECONDS,
        notes: release.notes.iter().map(|it| ("en".to_owned(), it.clone())).collect(),
        packages,
    };
    let mut list = serde_json::to_vec_pretty(&manifest)?;
    list.push(b'\n');
    let of = format!("{} {}", release.version, release.now);
    sign(&list, key, &folder.join(MANIFEST_FILE), KIND, &of)?;
    sign(&release.models, key, &folder.join(CATALOGUE_FILE), CATALOGUE_KIND, &of)?;
    site::write(&release.beside, folder)?;
    let mut sums = String::new();
    for (name, bytes) in files(folder)?.iter().filter(|(name, _)| !is_renewed(name)) {
        sums.push_str(&format!("{}  {name}\n", sha256(bytes)));
    }
    sign(sums.as_bytes(), key, &folder.join(SUMS_FILE), SUMS_KIND, &of)
}

/// Whether a file may be renewed while the rest of a release stays: it is not in the list of
/// checksums, and has a signature of its own.
fn is_renewed(name: &str) -> bool {
    name.strip_suffix(SIGNATURE_END).unwrap_or(name) == CATALOGUE_FILE
}

/// Writes a file and its signature, which holds for a file of this `kind` only.
fn sign(bytes: &[u8], key: &SecretKey, path: &Path, kind: &str, of: &str) -> Result<()> {
    let comment = format!("{kind} {of}");
    let signature = minisign::sign(None, key, bytes, Some(&comment), None)?;
    fs::write(path, bytes)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(SIGNATURE_END);
    fs::write(PathBuf::from(beside), signature.to_bytes())?;
    Ok(())
}

/// Reads a release as whoever updates does: the list first, then every file that it and SHA256SUMS
/// name. Returns a line for each package.
pub(crate) fn verify(folder: &Path, keys: &Keys, now: u64) -> Result<Vec<String>> {
    let files = files(folder)?;
    let file = |name: &str| files.get(name).with_context(|| format!("there is no {name}"));
    let list = file(MANIFEST_FILE)?;
    let manifest = read(list, file(&format!("{MANIFEST_FILE}{SIGNATURE_END}"))?, keys, now, 0)?;
    let mut lines = Vec::new();
    for Package { platform, file: name, bytes, sha256: digest } in &manifest.packages {
        let found = file(name)?;
        let is_it = found.len() as u64 == *bytes && sha256(found) == *digest;
        ensure!(is_it, "{name} is not what the list of versions says");
        let offer = manifest.offer(&Version::new(0, 0, 0), platform)?;
        ensure!(
            offer.is_some_and(|it| it.package.file == *name),
            "{platform} is not offered {name}"
        );
        lines.push(format!("verified {name} for {platform}, {:.2} MB", *bytes as f64 / 1e6));
    }
    let models = file(CATALOGUE_FILE)?;
    signed_catalogue(models, file(&format!("{CATALOGUE_FILE}{SIGNATURE_END}"))?, keys)?;
    let sums = file(SUMS_FILE)?;
    keys.check_as(SUMS_KIND, sums, file(&format!("{SUMS_FILE}{SIGNATURE_END}"))?)?;
    let sums = std::str::from_utf8(sums)?.lines().map(|line| {
        let (digest, name) = line.split_once("  ").context("a sum and a name")?;
        Ok((name.to_owned(), digest.to_owned()))
    });
    let sums: BTreeMap<String, String> = sums.collect::<Result<_>>()?;
    for (name, bytes) in &files {
        match sums.get(name) {
            Some(digest) => {
                ensure!(*digest == sha256(bytes), "{name} is not what {SUMS_FILE} says")
            }
            None if name.starts_with(SUMS_FILE) || is_renewed(name) => {}
            None => bail!("{SUMS_FILE} does not name {name}"),
        }
    }
    if let Some(missing) = sums.keys().find(|name| !files.contains_key(*name)) {
        bail!("there is no {missing}");
    }
    Ok(lines)
}

/// Whether a program that was built from this tree believes the release.
fn is_built_in(folder: &Path, now: u64) -> Result<bool> {
    Ok(verify(folder, &Keys::built_in()?, now).is_ok())
}

fn secret_key(file: Option<&Path>) -> Result<SecretKey> {
    let named = outside::variable(KEY_VARIABLE).map(PathBuf::from);
    let path = file.map(Path::to_owned).or(named).with_context(|| {
        format!("no key to sign with: name the file in --key or {KEY_VARIABLE} (`minisign -G` makes one)")
    })?;
    let text = fs::read_to_string(&path)
        .with_context(|| format!("the key {} cannot be read", path.display()))?;
    let password = outside::variable(PASSWORD_VARIABLE).and_then(|it| it.into_string().ok());
    read_key(&text, password).with_context(|| {
        format!(
            "{} is no secret key, or {PASSWORD_VARIABLE} is not its password. A key that \
             `minisign -G -W` made without a password cannot be read: make one with a password",
            path.display()
        )
    })
}

fn read_key(text: &str, password: Option<String>) -> Result<SecretKey> {
    let key = SecretKeyBox::from_string(text)?;
    Ok(match password {
        Some(password) => key.into_secret_key(Some(password))?,
        None => key.into_unencrypted_secret_key()?,
    })
}

/// Every file of a folder and of those in it, by its name, with `/` between folders.
fn files(folder: &Path) -> Result<site::Files> {
    let mut files = site::Files::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a name is text")?;
        if path.is_dir() {
            let inside = self::files(&path)?.into_iter();
            files.extend(inside.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else {
            files.insert(name.to_owned(), fs::read(&path)?);
        }
    }
    Ok(files)
}

fn only_file(folder: &Path, end: &str) -> Result<PathBuf> {
    let found = fs::read_dir(folder).with_context(|| format!("nothing in {}", folder.display()))?;
    let paths = found.flatten().map(|entry| entry.path());
    let mut paths = paths.filter(|path| path.is_file() && path.to_string_lossy().ends_with(end));
    match (paths.next(), paths.next()) {
        (Some(path), None) => Ok(path),
        _ => bail!("not exactly one file ends in {end} in {}", folder.display()),
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Now, as a release says it.
#[expect(clippy::disallowed_methods, reason = "xtask uses none of the product's clocks")]
fn unix_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
