//! How commands end: the exit statuses that scripts branch on, and the failures that have one.
//!
//! Commands fail with any error; `main` asks [`exit_code`] for its status. Help and manual pages
//! show the very tables of this file, so they cannot tell another story than the program.

use std::process::ExitCode;

/// Every exit status that this program chooses, and when. A process that a signal ended (Ctrl-C)
/// chooses none; shells show 128 and the signal's number.
pub(crate) const STATUSES: [(u8, &str); 6] = [
    (0, "It is done, and `doctor` found no problem."),
    (1, "It failed: standard error says why and what to do. Or `doctor` found a problem."),
    (USAGE, "The command line was not understood, or its parts do not fit together."),
    (NO_NODE, "The command needs a running node, and none runs with this data folder."),
    (CUT, "A reply ended early: what was said until then is on standard output."),
    (BROKE, "A node ended because of a mistake in the program; starting it again may help."),
];

/// Variables of the environment that this program reads.
pub(crate) const VARIABLES: [(&str, &str); 19] = [
    ("INGLENOOK_HOME", "The data folder, where --home names none."),
    (
        "INGLENOOK_LOG",
        "What the log on standard error tells: error, warn, info, debug or trace, or a list by part, as \
         in warn,nook_link=debug.",
    ),
    (
        "INGLENOOK_KEYRING",
        "With off, the key of this device is kept in a file of the data folder and not in the system's \
         keychain.",
    ),
    ("INGLENOOK_THREADS", "Threads that compute (default: one for each core)."),
    (
        "INGLENOOK_DEVICE",
        "What computes models, over the setting distributed_inference.backend: auto, cpu, gpu, gpu:0 and so on; \
         through candle candle-cpu, cuda or cuda:1 (with nook-worker-cuda), metal (in a build for it).",
    ),
    (
        "HF_ENDPOINT",
        "The server behind hf: and the catalogue (default: https://huggingface.co); a mirror of that site.",
    ),
    (
        "INGLENOOK_MIRRORS",
        "Servers that are asked, in their order, where that one does not give a file; with commas between \
         them.",
    ),
    (
        "HTTPS_PROXY",
        "The proxy for downloads, as a URL; https_proxy is read where this is not set.",
    ),
    ("ALL_PROXY", "The same, where neither of those is set; also all_proxy."),
    (
        "NO_PROXY",
        "Servers that downloads reach without the proxy, with commas between them; also no_proxy.",
    ),
    (
        "SSL_CERT_FILE",
        "On Linux: the certificates that downloads trust (default: the system's); SSL_CERT_DIR names folders \
         of them.",
    ),
    (
        "INGLENOOK_UPDATES_URL",
        "The signed list of versions that `nook update` asks for (default: that of the project, which has none \
         yet); for tests and for who makes packages of their own.",
    ),
    (
        "INGLENOOK_UPDATES_KEY",
        "The public keys of minisign that may sign it, with commas between them, in place of the project's.",
    ),
    (
        "OLLAMA_MODELS",
        "Where Ollama keeps models, for `nook models found`; looked at beside its usual folders.",
    ),
    ("LLAMA_CACHE", "The same for llama.cpp."),
    ("HF_HUB_CACHE", "The same for what Hugging Face's own programs have loaded."),
    ("HF_HOME", "The folder above that one, where it is called hub."),
    (
        "XDG_RUNTIME_DIR",
        "Where sockets lie, on systems that have it; else in the folder for temporary files.",
    ),
    (
        "NO_COLOR",
        "Anything in it switches colours off. Where the output is no terminal there are none anyway.",
    ),
];

/// Same as clap's own for command lines that it does not understand.
const USAGE: u8 = 2;
const NO_NODE: u8 = 3;
const CUT: u8 = 4;
const BROKE: u8 = 5;

/// A failure with an exit status of its own; every other one has 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// Each word was understood; together they make no sense.
    #[error("{what}")]
    Usage { what: String },
    /// The command speaks to a node, and starting one for it would make no sense.
    #[error("no node is running here: start the app, or `nook up` in another terminal")]
    NoNode,
    /// The node ended the reply.
    #[error("the reply ended early ({code}): {sentence}")]
    Cut { code: String, sentence: String },
    /// The node itself ended.
    #[error("the node went away in the middle of the reply")]
    NodeLeft,
    /// A part of the node panicked without which it cannot go on.
    #[error(
        "the node ended because of a mistake in the program: its part \"{part}\" stopped ({said}). What \
         was saved is kept. The log is what stands above, on standard error: keep it for a report. Start \
         the node again with `nook up`"
    )]
    NodeBroke { part: &'static str, said: String },
}

impl Failure {
    fn status(&self) -> u8 {
        match self {
            Self::Usage { .. } => USAGE,
            Self::NoNode => NO_NODE,
            Self::Cut { .. } | Self::NodeLeft => CUT,
            Self::NodeBroke { .. } => BROKE,
        }
    }
}

/// The exit status of a command that failed with `error`.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    error.downcast_ref().map_or(ExitCode::FAILURE, |failure: &Failure| failure.status().into())
}

/// What `nook --help` says at its end.
pub(crate) fn help() -> String {
    let statuses = STATUSES.map(|(status, when)| format!("  {status}  {when}"));
    let widest = VARIABLES.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let variables = VARIABLES.map(|(name, what)| format!("  {name:<widest$}  {what}"));
    format!("Exit status:\n{}\n\nEnvironment:\n{}", statuses.join("\n"), variables.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use anyhow::Context as _;

    use super::*;

    #[test]
    fn every_failure_ends_with_a_status_that_help_explains() {
        let cut = Failure::Cut { code: "TIMEOUT".to_owned(), sentence: "It took long.".to_owned() };
        let broke = Failure::NodeBroke { part: "links", said: "x".to_owned() };
        for failure in [
            Failure::Usage { what: "x".to_owned() },
            Failure::NoNode,
            cut,
            Failure::NodeLeft,
            broke,
        ] {
            let status = failure.status();
            assert!(STATUSES.iter().any(|(known, _)| *known == status), "{failure}");
            assert!(status > 1, "{failure} looks like every other failure");
            let told: anyhow::Result<()> = Err(failure.into());
            let told = told.context("while asking").unwrap_err();
            assert_eq!(exit_code(&told), ExitCode::from(status), "{told:#}");
        }
        assert_eq!(exit_code(&anyhow::anyhow!("another")), ExitCode::FAILURE);
        assert!(STATUSES.iter().map(|(status, _)| *status).eq(0..6), "in order, none left out");
    }

    /// Set by the system itself, for every program.
    const OF_THE_SYSTEM: [&str; 1] = ["DISPLAY"];

    /// What stands before the name of a variable where it is read or defined.
    const MARKS: [&str; 4] = ["env::text(\"", "env::raw(\"", "named(\"", "_VARIABLE: &str = \""];

    /// Names of variables in the sources below `folder`.
    fn read_below(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                read_below(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                for mark in MARKS {
                    let names = text.split(mark).skip(1).filter_map(|rest| rest.split('"').next());
                    let is_name =
                        |name: &&str| name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_');
                    found.extend(
                        names.filter(is_name).filter(|it| !it.is_empty()).map(str::to_owned),
                    );
                }
            }
        }
    }

    #[test]
    fn every_variable_that_is_read_is_explained() {
        let mut found = BTreeSet::new();
        for krate in
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap().flatten()
        {
            if krate.file_name() != "nook-testkit" {
                read_below(&krate.path().join("src"), &mut found);
            }
        }
        assert!(found.len() > 10, "{found:?}");
        let is_explained = |name: &str| {
            VARIABLES.iter().any(|(known, what)| *known == name && what.ends_with('.'))
        };
        found.retain(|name| !OF_THE_SYSTEM.contains(&name.as_str()) && !is_explained(name));
        assert!(found.is_empty(), "help does not tell of {found:?}");
    }
}
