//! The licences of everything that is linked into the programs or built into the pages.
//!
//! Which libraries those are, Cargo's dependency graph and npm's lock file say; the texts are read
//! from the libraries' own folders. A text that several share stands once, under all their names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use cargo_metadata::{MetadataCommand, Package};

use crate::places::Places;
use crate::process::cargo;

/// The packages of ours whose programs are packed.
const PACKED: [&str; 2] = ["inglenook", "nook-cli"];
/// How the names of files with licences begin, in small letters.
const BEGINNINGS: [&str; 5] = ["licen", "copying", "notice", "copyright", "unlicense"];
/// A longer file is none that a lawyer wrote.
const TEXT_BYTES_MAX: u64 = 256 << 10;

/// A library of somebody else.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Library {
    /// Name and version.
    name: String,
    /// As its own manifest says.
    licence: String,
    /// What its licence files hold.
    texts: BTreeSet<String>,
}

/// The whole text, for programs built for `system` (a triple of Rust's); absent for this one.
pub(crate) fn text(places: &Places, system: Option<&str>) -> Result<String> {
    let mut libraries = crates(places, system)?;
    libraries.append(&mut modules(&places.ui())?);
    Ok(written(&libraries))
}

fn written(libraries: &BTreeSet<Library>) -> String {
    let mut text =
        "Inglenook holds these libraries, each under the licence that it names.\n\n".to_owned();
    let mut shared: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for library in libraries {
        text.push_str(&format!("{} ({})\n", library.name, library.licence));
        for licence in &library.texts {
            shared.entry(licence).or_default().push(&library.name);
        }
    }
    for (licence, names) in shared {
        text.push_str(&format!("\n{}\n{}\n\n{licence}\n", "-".repeat(80), names.join(", ")));
    }
    text
}

/// Crates that are linked into the packed programs on a system.
fn crates(places: &Places, system: Option<&str>) -> Result<BTreeSet<Library>> {
    let linked = linked(places, system)?;
    let metadata = MetadataCommand::new()
        .current_dir(&places.root)
        .other_options(["--locked".to_owned()])
        .exec()?;
    let name = |package: &Package| format!("{} {}", package.name, package.version);
    let foreign = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_some() && linked.contains(&name(package)));
    foreign
        .map(|package| {
            let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
            Ok(Library {
                name: name(package),
                licence: package.license.clone().unwrap_or_else(|| "see its text".to_owned()),
                texts: texts(folder.as_std_path())?,
            })
        })
        .collect()
}

/// Names and versions of all crates in the packed programs, without what only builds or tests them:
/// what Cargo's own tree shows, because Cargo alone knows which optional ones a build takes.
fn linked(places: &Places, system: Option<&str>) -> Result<BTreeSet<String>> {
    let packed = PACKED.iter().flat_map(|name| ["--package", name]);
    let system = system.map(|triple| ["--target", triple]);
    let tree = cargo(&places.root)
        .args(["tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none"])
        .args(["--format", "{p}"])
        .args(system.into_iter().flatten())
        .args(packed)
        .output()?;
    Ok(said_crates(&tree))
}

/// `serde v1.0.229`, with more behind it for crates of the workspace and repeated ones.
fn said_crates(tree: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name} {}", rest.split(' ').next()?))
    };
    tree.lines().filter_map(name).collect()
}

/// Modules of npm that the pages hold: those that the lock file does not mark as tools.
fn modules(ui: &Path) -> Result<BTreeSet<Library>> {
    let lock = std::fs::read_to_string(ui.join("package-lock.json"))?;
    let lock: serde_json::Value =
        serde_json::from_str(&lock).context("npm's lock file is no JSON")?;
    let packages = lock["packages"].as_object().context("npm's lock file names no packages")?;
    let is_tool = |package: &serde_json::Value| {
        ["dev", "devOptional", "optional"].iter().any(|mark| package[*mark] == true)
    };
    let held = packages.iter().filter(|(path, package)| !path.is_empty() && !is_tool(package));
    held.filter(|(path, _)| ui.join(path).is_dir())
        .map(|(path, package)| {
            let name = path.rsplit("node_modules/").next().unwrap_or(path);
            let said = |field: &str| package[field].as_str().unwrap_or("see its text").to_owned();
            Ok(Library {
                name: format!("{name} {}", said("version")),
                licence: said("license"),
                texts: texts(&ui.join(path))?,
            })
        })
        .collect()
}

fn texts(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot look into {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let about = entry.metadata()?;
        let fits = BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
        if fits && about.is_file() && about.len() <= TEXT_BYTES_MAX {
            let text = std::fs::read(entry.path())?;
            let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
            texts.insert(text.trim_end().to_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_text_stands_once_under_all_names() {
        let library = |name: &str, texts: &[&str]| Library {
            name: name.to_owned(),
            licence: "MIT".to_owned(),
            texts: texts.iter().map(|&text| text.to_owned()).collect(),
        };
        let text = written(&[library("a 1", &["one"]), library("b 2", &["one", "two"])].into());
        assert_eq!(text.matches("\none\n").count(), 1, "{text}");
        assert!(text.contains("a 1, b 2\n\none\n"), "{text}");
        assert!(text.contains("b 2 (MIT)\n"), "{text}");
    }

    #[test]
    fn what_is_linked_is_listed_and_what_only_builds_or_tests_is_not() {
        let places = Places::find().unwrap();
        let libraries = crates(&places, None).unwrap();
        let find = |name: &str| {
            libraries.iter().find(|library| library.name.starts_with(&format!("{name} ")))
        };
        for name in ["rustls", "tauri", "clap", "tokio"] {
            let library = find(name).unwrap_or_else(|| panic!("{name} is not listed"));
            assert!(!library.texts.is_empty(), "{name} has no text");
        }
        for name in ["tauri-build", "proptest", "ts-rs", "serde_derive", "cargo_metadata"] {
            assert!(find(name).is_none(), "{name} is no part of the programs");
        }
        let on_windows = linked(&places, Some("x86_64-pc-windows-gnu")).unwrap();
        let has = |name: &str| on_windows.iter().any(|library| library.starts_with(name));
        assert!(has("webview2-com-sys ") && !has("webkit2gtk "));
    }
}
