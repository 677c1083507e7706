//! The dependency graph as cargo resolved it, reduced to what the rules ask: names, versions, licences, who needs whom
//! and why.

use crate::process::cargo;
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::Path;

/// The platform that releases are built for; dependencies of others are not looked at.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug, Default)]
pub struct Graph {
    pub packages: Vec<Package>,
}

#[derive(Debug, Clone, Default)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// The SPDX expression of its manifest.
    pub licence: Option<String>,
    /// A member of this workspace.
    pub ours: bool,
    pub needs: Vec<Need>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Index into the graph's packages.
    pub package: usize,
    pub kind: NeedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedKind {
    Normal,
    Development,
    Build,
}

impl Graph {
    pub fn load(root: &Path) -> Result<Graph, String> {
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .other_options(vec!["--locked".into(), "--filter-platform".into(), PLATFORM.into()])
            .exec()
            .map_err(|error| format!("cargo metadata: {error}"))?;
        let index: HashMap<_, _> =
            metadata.packages.iter().enumerate().map(|(position, package)| (package.id.clone(), position)).collect();
        let built = built(root)?;
        let mut packages: Vec<Package> = metadata
            .packages
            .iter()
            .map(|package| Package {
                name: package.name.to_string(),
                version: package.version.to_string(),
                licence: package.license.clone(),
                ours: package.source.is_none(),
                needs: Vec::new(),
            })
            .collect();
        let is_built = |package: &Package| built.contains(&(package.name.clone(), package.version.clone()));
        for node in metadata.resolve.ok_or("cargo metadata gave no resolved graph")?.nodes {
            for dependency in &node.deps {
                let (from, to) = (index[&node.id], index[&dependency.pkg]);
                if !is_built(&packages[to]) {
                    continue;
                }
                let kinds = dependency.dep_kinds.iter().filter_map(|information| need_kind(information.kind));
                packages[from].needs.extend(kinds.map(|kind| Need { package: to, kind }));
            }
        }
        Ok(Graph { packages })
    }

    pub fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.ours)
    }

    /// The names that a package names itself, of one kind.
    pub fn direct(&self, package: &Package, kind: NeedKind) -> Vec<&Package> {
        let mut found: Vec<&Package> =
            package.needs.iter().filter(|need| need.kind == kind).map(|need| &self.packages[need.package]).collect();
        found.sort_by(|left, right| left.name.cmp(&right.name));
        found.dedup_by(|left, right| left.name == right.name);
        found
    }

    /// Everything that ends up in what these packages build, with the shortest way to it: development dependencies only
    /// of the starting packages, and only when asked for.
    pub fn reachable<'a>(&'a self, from: &[&Package], with_development: bool) -> BTreeMap<usize, Vec<&'a str>> {
        let start = |package: &Package| from.iter().any(|start| start.name == package.name && start.version == package.version);
        let mut ways: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        let mut queue = VecDeque::new();
        for (position, package) in self.packages.iter().enumerate().filter(|(_, package)| start(package)) {
            ways.insert(position, vec![&package.name]);
            queue.push_back(position);
        }
        while let Some(position) = queue.pop_front() {
            let package = &self.packages[position];
            for need in &package.needs {
                let wanted = need.kind != NeedKind::Development || (with_development && start(package));
                if wanted && !ways.contains_key(&need.package) {
                    let mut way = ways[&position].clone();
                    way.push(&self.packages[need.package].name);
                    ways.insert(need.package, way);
                    queue.push_back(need.package);
                }
            }
        }
        ways
    }
}

/// Name and version of everything that a build of the workspace compiles. `cargo metadata` also lists packages that a
/// weak feature (`ring?/alloc`) only mentions; `cargo tree` resolves features as the build does.
fn built(root: &Path) -> Result<HashSet<(String, String)>, String> {
    let arguments =
        ["tree", "--locked", "--workspace", "--target", PLATFORM, "--edges", "all", "--prefix", "none", "--format", "{p}"];
    let output = cargo(&arguments).capture(root)?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(tree_line).collect())
}

/// `memchr v2.8.3`, perhaps followed by where it is, what it is, or a mark.
fn tree_line(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some((name.to_owned(), version.to_owned()))
}

fn need_kind(kind: DependencyKind) -> Option<NeedKind> {
    match kind {
        DependencyKind::Normal => Some(NeedKind::Normal),
        DependencyKind::Development => Some(NeedKind::Development),
        DependencyKind::Build => Some(NeedKind::Build),
        _ => None,
    }
}

/// A graph written down for a test: one package a line, `name version [licence] needs…`, where `ours` stands for a
/// version of our own, `dev:` and `build:` mark the kind of a need, and a name with `@` picks one of several versions.
#[cfg(test)]
pub fn parse(text: &str) -> Graph {
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.trim().split_once(' ')).collect();
    let mut graph = Graph::default();
    let mut unresolved = Vec::new();
    for (name, rest) in lines {
        let (version, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (licence, needs) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((licence, needs)) => (Some(licence.to_owned()), needs),
            None => (None, rest),
        };
        unresolved.push(needs.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let package = Package { name: name.into(), version: version.into(), licence, ours: version == "ours", needs: Vec::new() };
        graph.packages.push(package);
    }
    for (position, needs) in unresolved.into_iter().enumerate() {
        for need in needs {
            let (kind, wanted) = match need.split_once(':') {
                Some(("dev", wanted)) => (NeedKind::Development, wanted),
                Some(("build", wanted)) => (NeedKind::Build, wanted),
                _ => (NeedKind::Normal, need.as_str()),
            };
            let (name, version) = wanted.split_once('@').map_or((wanted, None), |(name, version)| (name, Some(version)));
            let fits = |package: &Package| package.name == name && version.is_none_or(|version| package.version == version);
            let package = graph.packages.iter().position(fits).expect("a test names only packages it has");
            graph.packages[position].needs.push(Need { package, kind });
        }
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::{parse, tree_line};

    #[test]
    fn a_line_of_the_tree_names_a_package() {
        let check = |line: &str, expected: Option<(&str, &str)>| {
            let seen = tree_line(line);
            assert_eq!(seen.as_ref().map(|(name, version)| (name.as_str(), version.as_str())), expected, "for {line:?}");
        };
        check("memchr v2.8.3", Some(("memchr", "2.8.3")));
        check("serde_derive v1.0.2 (proc-macro) (*)", Some(("serde_derive", "1.0.2")));
        check("tidegate-wire v0.1.0 (/src/crates/wire)", Some(("tidegate-wire", "0.1.0")));
        check("", None);
        check("rustls feature \"std\"", None);
    }

    #[test]
    fn what_is_reachable_and_how() {
        let graph = parse(
            "a ours b dev:t\n\
             b 1.0 c build:d\n\
             c 1.0\n\
             d 1.0 dev:x\n\
             t 1.0 c\n\
             x 1.0",
        );
        let check = |with_development: bool, expected: &[&str]| {
            let start: Vec<_> = graph.ours().collect();
            let ways = graph.reachable(&start, with_development);
            let seen: Vec<String> = ways.values().map(|way| way.join(" > ")).collect();
            assert_eq!(seen, expected);
        };
        check(false, &["a", "a > b", "a > b > c", "a > b > d"]);
        check(true, &["a", "a > b", "a > b > c", "a > b > d", "a > t"]);
    }
}
