//! `docs/command-line.md`, from the definition of the command line and the tables of its endings.

use clap::{Arg, Command, CommandFactory as _};

use super::{hold, table};
use crate::arguments::Arguments;
use crate::endings;

const HEAD: &str = "\
# Command line

Generated from the program by `cargo xtask goldens`; a test fails when it differs. Do not edit it.

`nook` is the same node as the tray app, without a window. Commands speak to the node that runs with
the same data folder. `generate`, `chat`, `models`, `doctor`, `key` and `privacy` start a node for
the length of the command where none runs. `--json` is made for scripts.

";

#[test]
fn the_page_of_the_command_line_is_what_the_program_understands() {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut page = HEAD.to_owned();
    page += &list(&command);
    write(&mut page, &command, "nook");
    page += "\n## Exit status\n\n";
    let statuses =
        endings::STATUSES.map(|(status, when)| vec![status.to_string(), when.to_owned()]);
    page += &table(&["status", "when"], statuses);
    page += "\n## Environment\n\n";
    let variables = endings::VARIABLES.map(|(name, what)| vec![code(name), what.to_owned()]);
    page += &table(&["variable", "what"], variables);
    hold("command-line.md", &page);
}

/// All commands with links to what follows.
fn list(command: &Command) -> String {
    let row = |command: &Command| {
        let name = command.get_name();
        vec![format!("[`nook {name}`](#nook-{name})"), about(command)]
    };
    table(&["command", "does"], shown(command).map(row))
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// The section of one command, and those of all below it.
fn write(page: &mut String, command: &Command, name: &str) {
    let level = "#".repeat(name.split(' ').count().clamp(2, 4));
    *page += &format!("\n{level} {name}\n\n");
    let about = command.get_long_about().or(command.get_about());
    *page += &format!("{}\n\n", sentence(about.map(ToString::to_string)));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    *page += &format!("```\n{usage}\n```\n");
    let own = |argument: &&Arg| {
        let repeated =
            name != "nook" && ["home", "help", "version"].contains(&argument.get_id().as_str());
        !argument.is_hide_set() && !repeated
    };
    let rows: Vec<_> = command.get_arguments().filter(own).map(row).collect();
    if !rows.is_empty() {
        *page += "\n";
        *page += &table(&["argument", "what"], rows);
    }
    for below in shown(command) {
        write(page, below, &format!("{name} {}", below.get_name()));
    }
}

fn about(command: &Command) -> String {
    sentence(command.get_about().map(ToString::to_string))
}

/// Help ends without a full stop where clap made it of one sentence.
fn sentence(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    match text.ends_with(['.', '?', '!', ':']) {
        true => text,
        false => format!("{text}."),
    }
}

fn row(argument: &Arg) -> Vec<String> {
    vec![shape(argument), meaning(argument)]
}

/// How it is typed.
fn shape(argument: &Arg) -> String {
    let values = argument.get_value_names().filter(|_| argument.get_action().takes_values());
    let values = values
        .map(|names| names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" "));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    let option = [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let shape = match (option.is_empty(), values) {
        (true, values) => values.unwrap_or_else(|| format!("<{}>", argument.get_id())),
        (false, None) => option,
        (false, Some(values)) => format!("{option} {values}"),
    };
    code(&shape)
}

/// Its help, what it takes, and what it is without.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut meaning = vec![sentence(help.map(ToString::to_string)).replace('\n', " ")];
    let takes = argument.get_action().takes_values();
    let values = argument.get_possible_values();
    let named: Vec<_> = values
        .iter()
        .filter(|value| takes && !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => {
                format!("{}: {}", code(value.get_name()), sentence(Some(help.to_string())))
            }
            None => code(value.get_name()),
        })
        .collect();
    match named.iter().any(|value| value.contains(": ")) {
        true => meaning.extend(named),
        false if named.is_empty() => {}
        false => meaning.push(format!("One of {}.", named.join(", "))),
    }
    let defaults = argument.get_default_values().iter().map(|value| code(&value.to_string_lossy()));
    let defaults = defaults.filter(|_| takes).collect::<Vec<_>>().join(", ");
    if !defaults.is_empty() {
        meaning.push(format!("Default: {defaults}."));
    }
    if let Some(variable) = argument.get_env() {
        meaning.push(format!("Variable: {}.", code(&variable.to_string_lossy())));
    }
    meaning.join(" ")
}

fn code(text: &str) -> String {
    format!("`{text}`")
}
