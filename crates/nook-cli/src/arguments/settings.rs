//! `nook settings`, as typed.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct SettingsWish {
    /// What to do; without it, list them.
    #[command(subcommand)]
    pub(crate) action: Option<SettingsAction>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SettingsAction {
    /// Write a settings file with every setting as a comment, if there is none.
    Init,
    /// List every setting with its value.
    List {
        /// Only those that differ from the defaults.
        #[arg(long)]
        changed: bool,
    },
    /// Print the value of one setting; nothing where it is absent.
    Get {
        /// The key, such as `gate.lend`.
        key: String,
    },
    /// Change one setting.
    Set {
        /// The key, such as `gate.lend`.
        key: String,
        /// The new value; a list takes several.
        #[arg(
            required_unless_present = "default",
            conflicts_with = "default",
            allow_negative_numbers = true
        )]
        value: Vec<String>,
        /// Go back to the default.
        #[arg(long)]
        default: bool,
    },
}
