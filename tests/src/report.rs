//! What every bench does with its figures: print them, say what they were measured on, save them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints what it measured")]

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use crate::machine::{Machine, Run};

/// Says something that is a result.
pub fn line(text: &str) {
    println!("{text}");
}

/// Says what goes on or went wrong.
pub fn loud(text: &str) {
    eprintln!("bench: {text}");
}

/// What was measured on and with, as the lines of a list; `more` stands after the versions.
#[must_use]
pub fn head(machine: &Machine, run: &Run, more: &[String]) -> String {
    let Machine { called, cpu, cores, ram_gib, system, kernel } = machine;
    let found = format!("{cores} cores, {cpu}, {ram_gib} GiB, {system}, kernel {kernel}");
    let mut lines = vec![
        format!("- machine: {}", called.as_ref().unwrap_or(&found)),
        format!("- Inglenook {}, commit {}, {}", run.inglenook, run.commit, run.rustc),
    ];
    lines.extend_from_slice(more);
    lines.extend([
        format!("- command: `{}` ({} build of the bench)", run.command, run.profile),
        format!("- date: {}", run.date),
        format!("- load before {:.2}, after {:.2}", run.load_before, run.load_after),
    ]);
    if run.quick {
        lines.push("- **quick run: an orientation, not a result**".to_owned());
    }
    lines.extend(run.note.iter().map(|note| format!("- {note}")));
    lines.join("\n")
}

/// Writes `<bench>-<date>.md` and `<bench>-<date>.json` into `folder`.
pub fn save(
    folder: &Path,
    bench: &str,
    run: &Run,
    (title, tables): (&str, &str),
    figures: &impl Serialize,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = format!("{bench}-{}", run.date);
    for (ending, text) in [
        ("md", format!("# {title}\n\n{tables}\n")),
        ("json", format!("{}\n", serde_json::to_string_pretty(figures)?)),
    ] {
        let file = folder.join(&name).with_extension(ending);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        loud(&format!("written: {}", file.display()));
    }
    Ok(())
}
