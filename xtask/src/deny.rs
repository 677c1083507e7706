//! `cargo xtask deny`: what may be in the dependency graph. Crates that are refused, crates of which there is one
//! version only, licences, a reason beside each dependency, C that nobody named, and known vulnerabilities: by the list
//! that is kept here, and by `cargo audit` where it is installed.

mod advisories;
mod foreign;
mod licence;
mod listed;
mod reasons;

use crate::finding::{Finding, conclude};
use crate::graph::{Graph, Package};
use crate::repository::root;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// Each with what stands in its place.
const REFUSED: &[(&str, &str)] = &[
    ("ring", "aws-lc-rs is the one provider of cryptography"),
    ("openssl-sys", "rustls is the one TLS stack"),
    ("openssl", "rustls is the one TLS stack"),
    ("native-tls", "rustls is the one TLS stack"),
    ("rustls-pemfile", "it is unmaintained; rustls-pki-types reads PEM"),
];

/// Two versions of these would be two TLS stacks in one binary.
const ONE_VERSION: &[&str] = &["rustls", "aws-lc-rs", "aws-lc-sys", "tokio", "h2"];

/// Features without which a crate works as well, but slowly, and no test would notice.
const WANTED_FEATURES: &[(&str, &str, &str)] =
    &[("flate2", "runtime_detection", "without it gzip uses no vector instructions and takes a third more")];

const MANIFEST: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";

pub fn run() -> Result<(), String> {
    let root = root();
    let graph = Graph::load(&root)?;
    let manifest = std::fs::read_to_string(root.join(MANIFEST)).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let mut findings = refused(&graph);
    findings.extend(several_versions(&graph));
    findings.extend(licences(&graph));
    findings.extend(reasons::check(MANIFEST, &manifest));
    findings.extend(missing_features(&manifest));
    let text = |name: &str| std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"));
    findings.extend(foreign::check(&graph, text)?);
    let list = listed::read(&text(listed::LIST)?)?;
    findings.extend(listed::check(&list, &text(LOCK)?));
    if let Some(warning) = listed::age_warning(&list, SystemTime::now()) {
        println!("warning: {warning}");
    }
    match advisories::check(&root)? {
        advisories::AdvisoriesOutcome::Checked(found) => findings.extend(found),
        advisories::AdvisoriesOutcome::Skipped(why) => println!("skipped: advisories beyond {} ({why})", listed::LIST),
    }
    println!("deny: {} packages", graph.packages.len());
    conclude("deny", findings)
}

/// Development dependencies count as well: a test that needs a second TLS stack would hide that the product does.
fn refused(graph: &Graph) -> Vec<Finding> {
    let ours: Vec<&Package> = graph.ours().collect();
    let mut findings = Vec::new();
    for way in graph.reachable(&ours, true).into_values() {
        if let Some((name, instead)) = REFUSED.iter().find(|(name, _)| way.last() == Some(name)) {
            findings.push(Finding::whole(LOCK, "refused", format!("{name} ({instead}): {}", way.join(" > "))));
        }
    }
    findings
}

fn several_versions(graph: &Graph) -> Vec<Finding> {
    let ours: Vec<&Package> = graph.ours().collect();
    let built: Vec<&Package> = graph.reachable(&ours, true).into_keys().map(|position| &graph.packages[position]).collect();
    let mut findings = Vec::new();
    for name in ONE_VERSION {
        let versions: BTreeSet<&str> =
            built.iter().filter(|package| package.name == *name).map(|package| package.version.as_str()).collect();
        if versions.len() > 1 {
            let versions: Vec<&str> = versions.into_iter().collect();
            findings.push(Finding::whole(LOCK, "duplicate", format!("{name} in versions {}", versions.join(", "))));
        }
    }
    findings
}

fn missing_features(manifest: &str) -> Vec<Finding> {
    let names = |line: &str, name: &str| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='));
    let lacks = |(name, feature, _): &&(&str, &str, &str)| {
        !manifest.lines().any(|line| names(line, name) && line.contains(&format!("\"{feature}\"")))
    };
    let finding = |(name, feature, why): &(&str, &str, &str)| {
        Finding::whole(MANIFEST, "feature", format!("{name} has no `{feature}`: {why}"))
    };
    WANTED_FEATURES.iter().filter(lacks).map(finding).collect()
}

/// Of everything that is built into what we ship or run; what only tests need is never given to anyone.
fn licences(graph: &Graph) -> Vec<Finding> {
    let ours: Vec<&Package> = graph.ours().collect();
    let mut findings = Vec::new();
    for (position, way) in graph.reachable(&ours, false) {
        let package = &graph.packages[position];
        if package.ours {
            continue;
        }
        let refusal = match &package.licence {
            None => Some("its manifest names no licence".to_owned()),
            Some(expression) => licence::refusal(expression),
        };
        if let Some(why) = refusal {
            let message = format!("{} {}: {why} ({})", package.name, package.version, way.join(" > "));
            findings.push(Finding::whole(LOCK, "licence", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{licences, missing_features, refused, several_versions};
    use crate::graph::parse;

    fn check(text: &str, expected: &[&str]) {
        let graph = parse(text);
        let findings = refused(&graph).into_iter().chain(several_versions(&graph)).chain(licences(&graph));
        let seen: Vec<String> = findings.map(|finding| finding.to_string()).collect();
        assert_eq!(seen, expected, "for {text}");
    }

    #[test]
    fn refused_crates_are_found_with_the_way_to_them() {
        check(
            "a ours b\nb 1.0 [MIT] ring\nring 0.17 [ISC]",
            &["Cargo.lock: refused: ring (aws-lc-rs is the one provider of cryptography): a > b > ring"],
        );
        check(
            "a ours dev:native-tls\nnative-tls 0.2 [MIT]",
            &["Cargo.lock: refused: native-tls (rustls is the one TLS stack): a > native-tls"],
        );
        check("a ours string\nstring 1.0 [MIT]", &[]);
        // In the lock file for another platform, but nobody here needs it.
        check("a ours\nring 0.17 [ISC]", &[]);
    }

    #[test]
    fn there_is_one_tls_stack() {
        check(
            "a ours rustls@0.23 rustls@0.22\nrustls 0.23 [MIT]\nrustls 0.22 [MIT]",
            &["Cargo.lock: duplicate: rustls in versions 0.22, 0.23"],
        );
        check("a ours rustls@0.23\nrustls 0.23 [MIT]\nrustls 0.22 [MIT]", &[]);
        check("a ours b@1.0 b@2.0\nb 1.0 [MIT]\nb 2.0 [MIT]", &[]);
    }

    #[test]
    fn licences_of_what_is_built_in_are_checked() {
        check("a ours b\nb 1.0 [GPL-3.0-only]", &["Cargo.lock: licence: b 1.0: `GPL-3.0-only` is not allowed (a > b)"]);
        check("a ours build:b\nb 1.0", &["Cargo.lock: licence: b 1.0: its manifest names no licence (a > b)"]);
        check("a ours dev:b\nb 1.0 [GPL-3.0-only]", &[]);
        check("a ours b\nb 1.0 [MIT OR GPL-3.0-only]", &[]);
    }

    #[test]
    fn features_that_make_a_crate_fast_are_named() {
        let check = |manifest: &str, expected: usize| assert_eq!(missing_features(manifest).len(), expected, "for {manifest}");
        check("flate2 = { version = \"1\", features = [\"zlib-rs\", \"runtime_detection\"] }", 0);
        check("flate2 = { version = \"1\", features = [\"zlib-rs\"] }", 1);
        check("# \"runtime_detection\"\nflate2-like = { features = [\"runtime_detection\"] }", 1);
    }
}
