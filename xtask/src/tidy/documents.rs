//! Documents against what they speak of: links lead somewhere, and every metric is in the list that operators read.
//! What the documents say beyond that is for people to check.

use crate::finding::Finding;
use crate::repository::Repository;
use std::collections::BTreeSet;
use std::path::Path;
use syn::visit::Visit;

const METRICS: &str = "crates/telemetry/src/metrics/prometheus.rs";
const METRICS_LIST: &str = "docs/operations.md";
const METRIC_PREFIX: &str = "tidegate_";

pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("md") {
        let exists = |path: &str| repository.root.join(path).exists();
        findings.extend(check_links(&file.path, &file.text, exists));
    }
    let metrics = repository.text(METRICS).unwrap_or_default();
    findings.extend(check_metrics(metrics, repository.text(METRICS_LIST).unwrap_or_default()));
    findings
}

/// Links to the web are not followed; a page that is down must not stop a build.
fn check_links(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        for target in link_targets(line) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains(':') && !exists(&beside(path, file)) {
                findings.push(Finding::at(path, index + 1, "link", format!("`{target}` leads nowhere")));
            }
        }
    }
    findings
}

/// What stands in the parentheses of `[text](target)`.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(position, mark)| {
        let rest = &line[position + mark.len()..];
        rest.find(')').map(|end| &rest[..end])
    })
}

/// A target relative to the document, as a path from the repository's root.
fn beside(document: &str, target: &str) -> String {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    folder.join(target).to_string_lossy().into_owned()
}

fn check_metrics(source: &str, list: &str) -> Vec<Finding> {
    let Ok(file) = syn::parse_file(source) else { return Vec::new() };
    let mut names = MetricNames::default();
    names.visit_file(&file);
    let missing = names.0.into_iter().filter(|name| !list.contains(&format!("`{name}`")));
    missing.map(|name| Finding::whole(METRICS_LIST, "metrics-list", format!("`{name}` is not in the list of metrics"))).collect()
}

/// Text literals that are a metric's name and nothing else.
#[derive(Default)]
struct MetricNames(BTreeSet<String>);

impl<'ast> Visit<'ast> for MetricNames {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        // Tests write down whole lines of output, and names that do not exist.
        if module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        let value = literal.value();
        if value.starts_with(METRIC_PREFIX)
            && value.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        {
            self.0.insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check_links, check_metrics};

    #[test]
    fn links_lead_to_files() {
        let check = |path: &str, text: &str, expected: &[&str]| {
            let exists = |target: &str| ["README.md", "docs/tls.md", "docs/../README.md"].contains(&target);
            let seen: Vec<String> = check_links(path, text, exists).iter().map(ToString::to_string).collect();
            assert_eq!(seen, expected, "for {text:?}");
        };
        check("README.md", "see [tls](docs/tls.md), [top](#top) and [web](https://example.com/x)", &[]);
        check("docs/tls.md", "[up](../README.md) and [down](tls.md#keys)", &[]);
        check("README.md", "\n[gone](docs/gone.md#x)", &["README.md:2: link: `docs/gone.md#x` leads nowhere"]);
        check("docs/tls.md", "[a](docs/tls.md)", &["docs/tls.md:1: link: `docs/tls.md` leads nowhere"]);
        check("README.md", "```\n[no](link.md)\n```\n", &[]);
    }

    #[test]
    fn metrics_are_in_the_list() {
        let check = |source: &str, list: &str, expected: &[&str]| {
            let seen: Vec<String> = check_metrics(source, list).into_iter().map(|finding| finding.message).collect();
            assert_eq!(seen, expected, "for {source:?}");
        };
        check("fn f() { g(\"tidegate_a_total\") }", "| `tidegate_a_total` |", &[]);
        check("fn f() { g(\"tidegate_a_total\") }", "| `tidegate_a` |", &["`tidegate_a_total` is not in the list of metrics"]);
        check("fn f() { g(\"tidegate_a_total is a metric\", \"other\") }", "", &[]);
        check("mod tests { const A: &str = \"tidegate_a\"; }", "", &[]);
    }
}
