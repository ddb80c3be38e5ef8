//! The map of the crates: which may use which, and who alone may know a foreign library.
//!
//! A new edge between crates is an event; it shows as a change of the table here.

use std::collections::BTreeMap;

use anyhow::Result;
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::places::Places;
use crate::tidy::Finding;

const RULE: &str = "layers";

/// Crate, its layer, and the crates of ours that it may use.
#[rustfmt::skip] // A table is read by column.
const TABLE: &[(&str, u8, &[&str])] = &[
    ("nook-base",     0, &[]),
    ("nook-wire",     1, &["nook-base"]),
    ("nook-trust",    1, &["nook-base"]),
    ("nook-plan",     1, &["nook-base"]),
    ("nook-pipeline", 1, &["nook-base", "nook-plan"]),
    ("nook-text",     1, &["nook-base"]),
    ("nook-kernels",  2, &[]),
    ("nook-fetch",    2, &["nook-base"]),
    ("nook-find",     2, &["nook-base"]),
    ("nook-machine",  2, &["nook-base"]),
    ("nook-mux",      2, &["nook-base", "nook-wire"]),
    ("nook-link",     2, &["nook-base", "nook-wire", "nook-mux", "nook-trust"]), // trust: no session before a verdict
    ("nook-gpu",      2, &["nook-kernels"]), // kernels: formats of weights are defined once
    ("nook-model",    2, &["nook-base", "nook-gpu", "nook-kernels"]),
    ("nook-shard",    2, &["nook-base", "nook-wire", "nook-mux", "nook-model"]),
    ("nook-store",    2, &["nook-base", "nook-trust"]),
    ("nook-update",   2, &["nook-base", "nook-fetch"]),
    ("nook-api",      3, &["nook-base", "nook-text"]), // text: tools and forms of replies, as data
    ("nook-inspect",  3, &["nook-base", "nook-kernels", "nook-model", "nook-text", "nook-wire"]),
    ("nook-privacy",  3, &["nook-base", "nook-model", "nook-text"]),
    ("nook-resources", 3, &["nook-api", "nook-base", "nook-link", "nook-model", "nook-mux", "nook-pipeline", "nook-plan", "nook-shard", "nook-text",
                           "nook-trust", "nook-wire"]),
    // Neither of these two may know the other.
    ("nook-host",     3, &["nook-api", "nook-base", "nook-link", "nook-machine", "nook-model", "nook-mux", "nook-pipeline", "nook-plan", "nook-resources",
                           "nook-shard", "nook-store", "nook-text", "nook-trust", "nook-wire"]),
    ("nook-requester", 3, &["nook-api", "nook-base", "nook-link", "nook-model", "nook-mux", "nook-pipeline", "nook-plan", "nook-resources", "nook-shard",
                           "nook-store", "nook-text", "nook-trust", "nook-wire"]),
    // Knows neither side: it lists, fetches and moves files.
    ("nook-library",  3, &["nook-api", "nook-base", "nook-fetch", "nook-link", "nook-model", "nook-mux", "nook-resources", "nook-store", "nook-trust", "nook-wire"]),
    ("nook-node",     3, &["nook-api", "nook-base", "nook-fetch", "nook-find", "nook-host", "nook-library", "nook-link", "nook-machine", "nook-model", "nook-mux",
                           "nook-pipeline", "nook-plan", "nook-requester", "nook-resources", "nook-shard", "nook-store", "nook-text", "nook-trust", "nook-update", "nook-wire"]),
    ("nook-openai",   4, &["nook-api", "nook-base", "nook-text"]),
    ("nook-control",  4, &["nook-api", "nook-base"]),
    // shard: `nook worker` and `inglenook worker` are the worker process.
    ("nook-cli",      4, &["nook-api", "nook-base", "nook-control", "nook-inspect", "nook-node", "nook-openai", "nook-privacy", "nook-shard", "nook-update"]),
    ("nook-worker-cuda", 4, &["nook-inspect", "nook-shard"]),
    ("inglenook",     4, &["nook-api", "nook-base", "nook-control", "nook-node", "nook-openai", "nook-update"]),
    // A release is verified by what will verify it on every computer.
    ("xtask",         4, &["nook-update"]),
];

/// Packages that only tests use; they may use everything, and others use them in tests only.
const TEST_PACKAGES: &[&str] = &["nook-testkit", "nook-tests"];

/// Foreign libraries (a trailing `*` stands for a family) and the crates that alone know them.
#[rustfmt::skip]
const KNOWN_ONLY_TO: &[(&str, &[&str])] = &[
    ("axum*",              &["nook-openai"]),
    ("candle*",            &["nook-model"]),
    ("clap_complete",      &["nook-cli"]),
    ("clap_mangen",        &["nook-cli"]),
    ("keepawake",          &["nook-machine"]),
    ("keyring*",           &["nook-store"]),
    ("landlock",           &["nook-shard"]),
    ("llguidance",         &["nook-text"]),
    ("loom",               &["nook-kernels"]), // only with `--cfg loom`
    ("mdns-sd",            &["nook-find"]),
    ("memmap2",            &["nook-kernels"]),
    ("jiff",               &["nook-machine"]),
    ("minisign",           &["nook-update", "xtask"]), // update: its tests sign
    ("minisign-verify",    &["nook-update"]),
    ("nalgebra",           &["nook-privacy"]),
    ("naga*",              &["nook-gpu"]),
    ("netdev",             &["nook-find"]),
    ("network-interface",  &["nook-find"]),
    ("notify-rust",        &["inglenook"]),
    ("pulldown-cmark",     &["xtask"]),
    ("rusqlite",           &["nook-store"]),
    ("reqwest",            &["nook-fetch"]),
    ("rustix",             &["nook-find", "nook-shard", "nook-testkit", "nook-update"]), // limits of a process; a test goes to a network of its own; update: files change places
    ("rustls*",            &["nook-fetch", "nook-link"]), // fetch: TLS to servers of files
    ("schemars",           &["nook-openai"]),
    ("seccompiler",        &["nook-shard"]),
    ("starship-battery",   &["nook-machine"]),
    ("tar",                &["nook-update"]),
    ("tauri*",             &["inglenook"]),
    ("tokio-rustls",       &["nook-link"]),
    ("tokio-tungstenite",  &["nook-link"]),
    ("tungstenite",        &["nook-link"]),
    ("webkit2gtk",         &["inglenook"]),
    ("wgpu*",              &["nook-gpu"]),
    ("winsafe",            &["nook-machine"]),
    ("x11rb",              &["nook-machine"]),
    ("zbus",               &["inglenook", "nook-machine"]), // inglenook: the desktop's bus; machine: the system's
];

/// Crates that never learn the time or the network except as arguments.
const PURE: &[&str] = &["nook-wire", "nook-trust", "nook-plan", "nook-pipeline", "nook-text"];

/// Libraries that bring time, tasks, files or sockets with them (a trailing `*` as above).
const EFFECTS: &[&str] = &[
    "async-*",
    "chrono",
    "directories",
    "hyper*",
    "if-addrs",
    "interprocess",
    "mio",
    "notify",
    "reqwest",
    "socket2",
    "sysinfo",
    "tempfile",
    "tokio*",
];

/// What an edge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// The product or its build.
    Product,
    /// Tests only.
    Test,
}

/// A package of ours that uses another package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edge {
    from: String,
    manifest: String,
    to: String,
    to_is_ours: bool,
    used_for: Use,
}

/// The edges of the workspace, as Cargo sees them.
pub(crate) fn edges(places: &Places) -> Result<Vec<Edge>> {
    let metadata = MetadataCommand::new().current_dir(&places.root).no_deps().exec()?;
    let mut edges = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest = package.manifest_path.strip_prefix(&metadata.workspace_root)?;
        // A package without dependencies must be in the table as well.
        let own = Edge {
            from: package.name.to_string(),
            manifest: manifest.to_string().replace('\\', "/"),
            to: package.name.to_string(),
            to_is_ours: true,
            used_for: Use::Test,
        };
        for dependency in &package.dependencies {
            edges.push(Edge {
                to: dependency.name.clone(),
                to_is_ours: dependency.path.is_some(),
                used_for: match dependency.kind {
                    DependencyKind::Development => Use::Test,
                    _ => Use::Product,
                },
                ..own.clone()
            });
        }
        edges.push(own);
    }
    Ok(edges)
}

/// Edges that the tables do not hold.
pub(crate) fn check(edges: &[Edge]) -> Vec<Finding> {
    let rows: BTreeMap<_, _> =
        TABLE.iter().map(|&(name, layer, may_use)| (name, (layer, may_use))).collect();
    let mut findings = Vec::new();
    for edge in edges {
        let sentence = if edge.to_is_ours {
            match rows.get(edge.from.as_str()) {
                _ if TEST_PACKAGES.contains(&edge.from.as_str()) => None,
                None => Some(format!("`{}` is not in the table of layers", edge.from)),
                Some(&(layer, may_use)) => own_edge(edge, layer, may_use, &rows),
            }
        } else {
            foreign_edge(edge)
        };
        findings.extend(sentence.map(|sentence| Finding::new(RULE, &edge.manifest, 0, sentence)));
    }
    findings
}

fn own_edge(
    edge: &Edge,
    layer: u8,
    may_use: &[&str],
    rows: &BTreeMap<&str, (u8, &[&str])>,
) -> Option<String> {
    let Edge { from, to, .. } = edge;
    if from == to || may_use.contains(&to.as_str()) {
        return None;
    }
    match edge.used_for {
        Use::Product => Some(format!("`{from}` may not use `{to}`")),
        Use::Test if TEST_PACKAGES.contains(&to.as_str()) => None,
        Use::Test if rows.get(to.as_str()).is_some_and(|&(lower, _)| lower <= layer) => None,
        Use::Test => Some(format!("`{from}` may not use `{to}` in tests either: it lies above")),
    }
}

fn foreign_edge(edge: &Edge) -> Option<String> {
    if TEST_PACKAGES.contains(&edge.from.as_str()) {
        return None;
    }
    if edge.used_for == Use::Product
        && PURE.contains(&edge.from.as_str())
        && EFFECTS.iter().any(|library| fits(library, &edge.to))
    {
        return Some(format!("`{}` is pure: it may not know `{}`", edge.from, edge.to));
    }
    let (_, owners) = KNOWN_ONLY_TO.iter().find(|(library, _)| fits(library, &edge.to))?;
    if owners.contains(&edge.from.as_str()) {
        return None;
    }
    let owners = owners.join(", ");
    Some(format!("`{}` may not know `{}`; it is known only to {owners}", edge.from, edge.to))
}

/// Whether `name` is the library, or of the family that ends in `*`.
fn fits(library: &str, name: &str) -> bool {
    match library.strip_suffix('*') {
        Some(family) => name.starts_with(family),
        None => name == library,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str, used_for: Use) -> Edge {
        Edge {
            from: from.to_owned(),
            manifest: format!("crates/{from}/Cargo.toml"),
            to: to.to_owned(),
            to_is_ours: to.starts_with("nook-"),
            used_for,
        }
    }

    #[track_caller]
    fn check_edge(from: &str, to: &str, used_for: Use, allowed: bool) {
        let findings = check(&[edge(from, to, used_for)]);
        assert_eq!(findings.is_empty(), allowed, "{from} -> {to}: {findings:?}");
    }

    #[test]
    fn arrows_point_down_only() {
        check_edge("nook-link", "nook-wire", Use::Product, true);
        check_edge("nook-wire", "nook-link", Use::Product, false);
        check_edge("nook-plan", "nook-pipeline", Use::Product, false);
        check_edge("nook-find", "nook-link", Use::Product, false);
        check_edge("nook-cli", "nook-model", Use::Product, false);
        check_edge("nook-host", "nook-requester", Use::Product, false);
        check_edge("nook-requester", "nook-host", Use::Product, false);
        check_edge("nook-api", "nook-node", Use::Product, false);
    }

    #[test]
    fn tests_may_use_the_testkit_and_what_lies_below() {
        check_edge("nook-wire", "nook-testkit", Use::Test, true);
        check_edge("nook-wire", "nook-testkit", Use::Product, false);
        check_edge("nook-shard", "nook-text", Use::Test, true);
        check_edge("nook-shard", "nook-node", Use::Test, false);
        check_edge("nook-tests", "nook-node", Use::Product, true);
    }

    #[test]
    fn a_foreign_library_is_known_to_its_owners_only() {
        check_edge("nook-kernels", "memmap2", Use::Product, true);
        check_edge("nook-node", "memmap2", Use::Product, false);
        check_edge("nook-model", "candle-core", Use::Product, true);
        check_edge("nook-kernels", "candle-core", Use::Product, false);
        check_edge("nook-node", "rustls-pki-types", Use::Product, false);
        check_edge("nook-cli", "axum", Use::Product, false);
        check_edge("nook-openai", "tauri", Use::Test, false);
        check_edge("nook-openai", "llguidance", Use::Product, false);
        check_edge("nook-tests", "axum", Use::Product, true);
        check_edge("nook-node", "tokio", Use::Product, true);
    }

    #[test]
    fn pure_crates_know_no_runtime() {
        check_edge("nook-plan", "tokio", Use::Product, false);
        check_edge("nook-pipeline", "socket2", Use::Product, false);
        check_edge("nook-wire", "bytes", Use::Product, true);
        check_edge("nook-wire", "tokio", Use::Test, true);
        check_edge("nook-mux", "tokio", Use::Product, true);
    }

    #[test]
    fn a_package_that_the_table_does_not_know_is_found() {
        check_edge("nook-new", "nook-base", Use::Product, false);
    }

    #[test]
    fn the_table_itself_points_down_only() {
        let layer = |name: &str| TABLE.iter().find(|row| row.0 == name).unwrap().1;
        for (name, own, may_use) in TABLE {
            for used in *may_use {
                assert!(layer(used) <= *own, "{name} -> {used}");
            }
        }
    }
}
