//! C in the program: every crate that is built with a C compiler is named, here and in the documents that say what C
//! there is.

use crate::finding::Finding;
use crate::graph::{Graph, NeedKind, Package};

/// Each with the documents that name it, and the word they use.
const NAMED: &[(&str, &[(&str, &str)])] = &[
    ("aws-lc-sys", &[("README.md", "cryptography"), (DEFAULTS, "aws-lc"), (RULES, "aws-lc-sys")]),
    ("tikv-jemalloc-sys", &[("README.md", "allocator"), (DEFAULTS, "jemalloc"), (RULES, "jemalloc")]),
    ("zstd-sys", &[("README.md", "zstd"), (DEFAULTS, "zstd"), (RULES, "zstd")]),
];
const DEFAULTS: &str = "docs/security-defaults.md";
const RULES: &str = "CONTRIBUTING.md";
/// What builds C.
const BUILDERS: &[&str] = &["cc", "cmake"];

/// `text` is a document by its name.
pub fn check(graph: &Graph, text: impl Fn(&str) -> Result<String, String>) -> Result<Vec<Finding>, String> {
    let program: Vec<&Package> = graph.ours().filter(|package| package.name == "tidegate").collect();
    let mut findings = Vec::new();
    let mut found = Vec::new();
    for (position, way) in graph.reachable(&program, false) {
        let package = &graph.packages[position];
        if !graph.direct(package, NeedKind::Build).iter().any(|builder| BUILDERS.contains(&builder.name.as_str())) {
            continue;
        }
        found.push(package.name.as_str());
        if !NAMED.iter().any(|(name, _)| *name == package.name) {
            findings.push(Finding::whole("Cargo.lock", "c", format!("{} builds C ({})", package.name, way.join(" > "))));
        }
    }
    for (name, documents) in NAMED {
        if !found.contains(name) {
            findings.push(Finding::whole("Cargo.lock", "c", format!("{name} is named, and not built any more")));
        }
        for (document, word) in *documents {
            let text = text(document)?;
            let says = text.lines().any(|line| (line.contains("no C ") || line.contains("No C ")) && line.contains(word));
            if !says {
                findings.push(Finding::whole(document, "c", format!("the sentence about C does not name {word} ({name})")));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::graph::parse;

    #[test]
    fn every_crate_with_c_is_named() {
        let all = "tidegate ours aws-lc-sys tikv-jemalloc-sys zstd-sys\naws-lc-sys 0.1 [MIT] build:cc\ntikv-jemalloc-sys 0.1 [MIT] build:cc\nzstd-sys 2 [MIT] build:cc\ncc 1 [MIT]";
        let check = |graph: &str, sentence: &str, expected: &[&str]| {
            let found = check(&parse(graph), |_| Ok(sentence.to_owned())).expect("documents");
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "for {graph}");
        };
        let sentence = "contains no C but its cryptography (aws-lc, aws-lc-sys), its allocator (jemalloc) and zstd";
        check(all, sentence, &[]);
        check(
            &all.replace("zstd-sys\n", "zstd-sys other\n").replace("cc 1", "other 1 [MIT] build:cmake\ncmake 1 [MIT]\ncc 1"),
            sentence,
            &["Cargo.lock: c: other builds C (tidegate > other)"],
        );
        check(
            all,
            &sentence.replace(" and zstd", ""),
            &["README.md", "docs/security-defaults.md", "CONTRIBUTING.md"]
                .map(|document| format!("{document}: c: the sentence about C does not name zstd (zstd-sys)"))
                .each_ref()
                .map(String::as_str),
        );
    }
}
