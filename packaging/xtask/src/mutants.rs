//! `cargo xtask mutants`: whether the tests of what keeps strangers out would notice a change of it.
//!
//! cargo-mutants changes one place of a file at a time (another comparison, a function that does
//! nothing) and runs the package's own tests; a change that they do not notice survives. What
//! survived last stands in docs/hostile.md. It works in a copy of this checkout, so
//! nothing here is changed. Not a part of `cargo xtask test`: it takes about ten seconds for each of
//! some hundred changes.

use anyhow::{Result, bail};
use clap::Args;

use crate::outside;
use crate::places::Places;
use crate::process::cargo;
use crate::say;

/// What is changed: the package, and its files.
const GUARDS: &[(&str, &[&str])] = &[
    // Who is let in: pairing, levels, the gate, tickets.
    ("nook-trust", &["crates/nook-trust/src/**/*.rs"]),
    // What a model file may say before anything of it is read.
    ("nook-model", &["crates/nook-model/src/gguf.rs", "crates/nook-model/src/gguf/*.rs"]),
    // How many may come: connections of other devices, and what they may ask at once.
    ("nook-link", &["crates/nook-link/src/admission.rs"]),
    ("nook-host", &["crates/nook-host/src/streams.rs"]),
];

/// Shortest limit of a test run, in seconds; cargo-mutants takes more where the tests take long.
const LIMIT_SECONDS: &str = "60";

/// What to change.
#[derive(Debug, Args)]
pub(crate) struct MutantOptions {
    /// Only the files of this package
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Only these files; may be given several times
    #[arg(long, value_name = "PATTERN")]
    file: Vec<String>,
    /// List the changes instead of trying them
    #[arg(long)]
    list: bool,
}

/// Tries the changes; fails where one survives.
pub(crate) fn mutants(places: &Places, options: &MutantOptions) -> Result<()> {
    if outside::find_program("cargo-mutants").is_none() {
        bail!("cargo-mutants is not installed: `cargo install cargo-mutants --locked` installs it");
    }
    let is_meant = |package: &str| options.package.as_deref().is_none_or(|meant| meant == package);
    let meant: Vec<_> = GUARDS.iter().filter(|(package, _)| is_meant(package)).collect();
    if meant.is_empty() {
        let known: Vec<_> = GUARDS.iter().map(|(package, _)| *package).collect();
        bail!("nothing is changed there; known are {}", known.join(", "));
    }
    let mut survived = Vec::new();
    for (package, files) in meant {
        let files: Vec<&str> = match options.file.is_empty() {
            true => files.to_vec(),
            false => options.file.iter().map(String::as_str).collect(),
        };
        let output = places.target.join("mutants").join(package);
        let run = cargo(&places.root)
            .args(arguments(package, &files, options.list))
            .args(["--output".as_ref(), output.as_os_str()])
            // Its copy lies elsewhere, so nothing that is built for it serves here, and the other
            // way round.
            .env("CARGO_TARGET_DIR", places.target.join("mutants").join("target"));
        if !run.ends_well()? {
            survived.push(format!("{package} ({})", output.display()));
        }
    }
    if !survived.is_empty() {
        bail!("changes survived, or nothing could be tried: {}", survived.join(", "));
    }
    say::loud("no change survived");
    Ok(())
}

fn arguments<'a>(package: &'a str, files: &[&'a str], lists: bool) -> Vec<&'a str> {
    let mut arguments = vec!["mutants", "--package", package, "--no-shuffle"];
    arguments.extend(["--minimum-test-timeout", LIMIT_SECONDS]);
    arguments.extend(files.iter().flat_map(|file| ["--file", file]));
    if lists {
        arguments.push("--list");
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_named_is_there() {
        let places = Places::find().unwrap();
        for (package, files) in GUARDS {
            for file in *files {
                assert!(file.starts_with(&format!("crates/{package}/src/")), "{file}");
                let plain = file.split("/*").next().unwrap_or(file);
                assert!(places.root.join(plain).exists(), "{file}");
            }
        }
    }

    #[test]
    fn only_the_tests_of_the_package_are_run() {
        let told = arguments("nook-trust", &["a.rs", "b.rs"], true).join(" ");
        assert!(told.starts_with("mutants --package nook-trust "), "{told}");
        assert!(told.ends_with("--file a.rs --file b.rs --list"), "{told}");
        assert!(!told.contains("--in-place") && !told.contains("--test-workspace"), "{told}");
    }
}
