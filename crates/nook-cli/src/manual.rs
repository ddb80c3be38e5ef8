//! What this program tells shells and `man` of itself: completion scripts and manual pages.
//!
//! Both are made of the command line's own definition (`arguments`), so they cannot lack an option.
//! They are made anew for each package (`cargo xtask bundle`) and lie nowhere in the tree.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::arguments::Arguments;
use crate::{endings, output};

/// Section of the manual for commands.
const SECTION: &str = "1";

/// Files that a person may look for, and what they are.
const FILES: [(&str, &str); 3] = [
    (
        "~/.local/share/inglenook",
        "The data folder on Linux: identity, paired devices, chats, models, settings. It belongs to the \
         user; installing and removing programs leaves it alone.",
    ),
    ("~/Library/Application Support/inglenook", "The data folder on macOS."),
    (
        "settings.toml",
        "In the data folder: what the window's settings page and a text editor change.",
    ),
];

/// Prints the script with which `shell` completes `nook`.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "nook", &mut script);
    let script = String::from_utf8(script).context("the completion script is no text")?;
    output::piece(&script);
    Ok(ExitCode::SUCCESS)
}

/// Writes `nook.1` and a page for each command into `folder`.
pub(crate) fn write(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder)?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let man = Man::new(command.clone())
        .section(SECTION)
        .source(format!("Inglenook {}", nook_base::VERSION))
        .manual("Inglenook");
    let path = folder.join(man.get_filename());
    let cannot = || format!("cannot write {}", path.display());
    std::fs::write(&path, page(&man, command).with_context(cannot)?).with_context(cannot)?;
    command.get_subcommands().try_for_each(|command| write_pages(command, folder))
}

/// A whole page. The sections that clap knows nothing of follow those that it does.
fn page(man: &Man, command: &Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut more = Roff::new();
    let statuses = endings::STATUSES.map(|(status, when)| (status.to_string(), when));
    terms(&mut more, "EXIT STATUS", statuses.iter().map(|(status, when)| (status.as_str(), *when)));
    terms(&mut more, "ENVIRONMENT", endings::VARIABLES);
    terms(&mut more, "FILES", FILES);
    more.control("SH", ["SEE ALSO"]);
    more.text([
        bold("inglenook"),
        roman("(1), the same node in the tray, "),
        bold("nook"),
        roman("(1)"),
    ]);
    write!(page, "{}", more.to_roff())?;
    Ok(page)
}

fn terms<'a>(page: &mut Roff, title: &str, rows: impl IntoIterator<Item = (&'a str, &'a str)>) {
    page.control("SH", [title]);
    for (term, meaning) in rows {
        page.control("TP", []);
        page.text([bold(term)]);
        page.text([roman(meaning)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command, and all below it.
    fn each(command: &Command, look: &mut impl FnMut(&Command)) {
        look(command);
        command.get_subcommands().for_each(|command| each(command, look));
    }

    #[test]
    fn every_command_and_every_option_is_explained() {
        let mut command = Arguments::command().disable_help_subcommand(true);
        command.build();
        let mut seen = 0;
        each(&command, &mut |command| {
            seen += 1;
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name}");
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let help = argument.get_help().or(argument.get_long_help());
                assert!(help.is_some(), "{name}: {}", argument.get_id());
                for value in argument.get_possible_values() {
                    let shells = argument.get_id() == "shell";
                    let explained = value.get_help().is_some() || value.is_hide_set() || shells;
                    let switch = ["true", "false"].contains(&value.get_name());
                    assert!(explained || switch, "{name}: {}: {value:?}", argument.get_id());
                }
            }
        });
        assert!(seen > 15, "{seen} commands");
    }

    #[test]
    fn each_command_has_a_page_with_the_exit_statuses() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        for (name, part) in [
            ("nook.1", "nook\\-devices(1)"),
            ("nook-devices-trust.1", "trusted: May compute"),
            ("nook-generate.1", "\\-\\-max\\-tokens"),
        ] {
            let page = read(name);
            for part in [part, "EXIT STATUS", "INGLENOOK_HOME", ".TH nook"] {
                assert!(page.contains(part), "{name}: no `{part}` in:\n{page}");
            }
        }
        let pages = std::fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = pages.map(|page| page.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name == "nook-worker.1"), "{names:?}");
    }
}
