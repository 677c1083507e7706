//! What the program is made of: every crate that is linked into it, with version and licence; as a list for people and
//! in CycloneDX for scanners.

use super::Distribution;
use super::c_library::CLibrary;
use crate::release::Machine;
use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A line for the C library and for each crate.
pub fn notice(root: &Path, machine: Machine) -> Result<String, String> {
    let c_library = CLibrary::of(root, machine)?;
    let mut text = format!(
        "Tidegate is under the Apache License 2.0. Linked into the program is the GNU C Library {}, under {},\n\
         with its source at https://www.gnu.org/software/libc/; with the source of Tidegate it can be linked with another.\n\
         Linked into it as well are these crates, each under the licence beside it; their texts are with their sources on\n\
         https://crates.io/.\n\n",
        c_library.version,
        CLibrary::LICENCE,
    );
    for package in linked(root)? {
        let licence = package.license.as_deref().unwrap_or("see its repository");
        text += &format!("{} {}: {licence}\n", package.name, package.version);
    }
    Ok(text)
}

/// CycloneDX 1.6.
pub fn cyclone_dx(distribution: &Distribution, machine: Machine) -> Result<String, String> {
    let mut components = vec![CLibrary::of(&distribution.root, machine)?.component()];
    components.extend(linked(&distribution.root)?.iter().map(component));
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "tidegate",
                "version": distribution.version,
                "bom-ref": "tidegate",
                "licenses": [{ "expression": "Apache-2.0" }],
            },
        },
        "components": components,
    });
    serde_json::to_string_pretty(&bill).map(|text| text + "\n").map_err(|error| format!("dist: the bill of materials: {error}"))
}

fn component(package: &Package) -> Value {
    let address = format!("pkg:cargo/{}@{}", package.name, package.version);
    let mut component = json!({
        "type": "library",
        "name": package.name.as_str(),
        "version": package.version.to_string(),
        "purl": address,
        "bom-ref": address,
    });
    if let Some(licence) = &package.license {
        // The slash of old manifests means what `OR` does.
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    component
}

/// Crates of others that the program depends on, for Linux, without what only tests and builds need; by name.
fn linked(root: &Path) -> Result<Vec<Package>, String> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root.join("Cargo.toml"));
    command.other_options(["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"].map(str::to_owned).to_vec());
    let metadata = command.exec().map_err(|error| format!("dist: cargo metadata: {error}"))?;
    let graph = metadata.resolve.as_ref().ok_or("dist: cargo metadata has no graph")?;
    let nodes: BTreeMap<_, _> = graph.nodes.iter().map(|node| (&node.id, node)).collect();
    let start = metadata.packages.iter().find(|package| package.name.as_str() == "tidegate").ok_or("dist: no `tidegate`")?;
    let mut seen = vec![&start.id];
    let mut next = 0;
    while let Some(id) = seen.get(next).copied() {
        next += 1;
        for dependency in nodes.get(id).map(|node| node.deps.as_slice()).unwrap_or_default() {
            let is_linked = dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            if is_linked && !seen.contains(&&dependency.pkg) {
                seen.push(&dependency.pkg);
            }
        }
    }
    let of_others = |package: &&Package| package.source.is_some() && seen.contains(&&package.id);
    let mut packages: Vec<Package> = metadata.packages.iter().filter(of_others).cloned().collect();
    packages.sort_by(|left, right| (left.name.as_str(), &left.version).cmp(&(right.name.as_str(), &right.version)));
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::linked;
    use crate::repository::root;

    #[test]
    fn what_is_linked_is_listed_and_what_only_tests_need_is_not() {
        let names: Vec<String> = linked(&root()).unwrap().iter().map(|package| package.name.to_string()).collect();
        for name in ["rustls", "aws-lc-sys", "tokio"] {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        for name in ["proptest", "bolero", "tidegate-model", "cc"] {
            assert!(!names.iter().any(|found| found == name), "{name}: {names:?}");
        }
    }
}
