//! The parts list of a release: CycloneDX 1.5 as JSON, made of what Cargo resolved.
//!
//! By hand: `cyclonedx-bom` brings readers and writers of every version of the format in XML and
//! JSON, and what is written here is one object for each crate. The same tree gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};
use semver::Version;
use serde_json::{Value, json};

use crate::places::Places;

/// What a release installs.
const ROOTS: [&str; 2] = ["inglenook", "nook-cli"];

/// The parts list of the packages for Linux, and for another system that Rust calls `also`.
pub(crate) fn of(places: &Places, version: &Version, also: Option<&str>) -> Result<Vec<u8>> {
    let linux = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let systems = [linux.as_str()].into_iter().chain(also);
    let options = systems.flat_map(|system| ["--filter-platform", system]).chain(["--locked"]);
    let metadata = MetadataCommand::new()
        .current_dir(&places.root)
        .other_options(options.map(str::to_owned).collect::<Vec<_>>())
        .exec()?;
    let mut bytes = serde_json::to_vec_pretty(&document(&metadata, version)?)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn document(metadata: &Metadata, version: &Version) -> Result<Value> {
    let reached = reached(metadata)?;
    let packages: BTreeMap<_, _> =
        metadata.packages.iter().map(|package| (&package.id, package)).collect();
    let (mut components, mut dependencies) = (BTreeMap::new(), BTreeMap::new());
    for (id, uses) in &reached {
        let package = packages.get(id).context("Cargo knows what it resolved")?;
        let name = |id: &PackageId| packages.get(id).map(|it| purl(&it.name, &it.version));
        let own = purl(&package.name, &package.version);
        let mut component = json!({
            "type": "library",
            "bom-ref": own,
            "name": package.name.as_str(),
            "version": package.version.to_string(),
            "purl": own,
        });
        if let Some(license) = &package.license {
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        let uses: BTreeSet<String> = uses.iter().filter_map(name).collect();
        dependencies.insert(own.clone(), json!({ "ref": own, "dependsOn": uses }));
        components.insert(own, component);
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": "inglenook", "name": "Inglenook",
            "version": version.to_string(),
        }},
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

/// Every package that ends up in a release or builds it, and what it uses.
fn reached(metadata: &Metadata) -> Result<BTreeMap<PackageId, Vec<PackageId>>> {
    let resolve = metadata.resolve.as_ref().context("Cargo resolved nothing")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let roots = metadata.packages.iter().filter(|it| ROOTS.contains(&it.name.as_str()));
    let mut todo: Vec<PackageId> = roots.map(|package| package.id.clone()).collect();
    let mut reached = BTreeMap::new();
    while let Some(id) = todo.pop() {
        if reached.contains_key(&id) {
            continue;
        }
        let node = nodes.get(&id).context("every package has a node")?;
        let uses = node.deps.iter().filter(|dependency| {
            dependency.dep_kinds.iter().any(|it| it.kind != DependencyKind::Development)
        });
        let uses: Vec<_> = uses.map(|dependency| dependency.pkg.clone()).collect();
        todo.extend(uses.iter().cloned());
        reached.insert(id, uses);
    }
    Ok(reached)
}

fn purl(name: &str, version: &Version) -> String {
    format!("pkg:cargo/{name}@{version}")
}
