//! `cargo xtask tidy`: the house rules that a machine can check. Each rule is one module with its own cases.
//! Exceptions stand in `xtask/tidy-allow.txt`, each with its reason; an exception nobody needs any more is a finding too.

mod allow;
mod documents;
mod examples;
mod layers;
mod length;
mod names;
mod places;
mod source;
mod text;
mod unsafety;

use crate::finding::{Finding, conclude};
use crate::graph::Graph;
use crate::repository::Repository;
use allow::AllowList;
use source::Source;

const ALLOW_LIST: &str = "xtask/tidy-allow.txt";

pub fn run() -> Result<(), String> {
    let repository = Repository::open()?;
    let outcome = check_repository(&repository)?;
    for warning in &outcome.warnings {
        println!("warning: {warning}");
    }
    println!("tidy: {} files, {} warnings", repository.files.len(), outcome.warnings.len());
    conclude("tidy", outcome.findings)
}

/// Every file in `examples/` through the program's own `check`.
pub fn run_examples() -> Result<(), String> {
    examples::run(&Repository::open()?)
}

struct Outcome {
    findings: Vec<Finding>,
    /// Worth a look, but no reason to stop.
    warnings: Vec<Finding>,
}

fn check_repository(repository: &Repository) -> Result<Outcome, String> {
    let (allow, mut findings) = AllowList::parse(ALLOW_LIST, repository.text(ALLOW_LIST).unwrap_or_default());
    let mut warnings = Vec::new();

    findings.extend(layers::check(&Graph::load(&repository.root)?));
    findings.extend(places::check(repository));
    findings.extend(documents::check(repository));
    let banned_paths = text::banned_paths(&repository.root);
    for file in &repository.files {
        findings.extend(text::check(&file.path, &file.text, &banned_paths, &allow));
    }
    for file in repository.with_extension("rs") {
        let source = match Source::parse(&file.path, &file.text) {
            Ok(source) => source,
            Err(finding) => {
                findings.push(finding);
                continue;
            }
        };
        findings.extend(text::check_opening(&source));
        findings.extend(text::check_comments(&source));
        findings.extend(length::check_file(&source, &allow));
        findings.extend(length::check_functions(&source, &allow));
        findings.extend(names::check(&source, &allow));
        findings.extend(unsafety::check(&source, &allow));
        warnings.extend(length::warn_file(&source, &allow));
    }
    findings.extend(allow.unused());
    Ok(Outcome { findings, warnings })
}

#[cfg(test)]
mod tests {
    use super::{Repository, check_repository};

    /// `cargo test` is the whole gate: what the pipeline's own step would find is found here as well.
    #[test]
    fn the_repository_keeps_its_rules() {
        let outcome = check_repository(&Repository::open().expect("readable")).expect("cargo metadata runs");
        let seen: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
        assert!(seen.is_empty(), "run `cargo xtask tidy`:\n{}", seen.join("\n"));
    }
}
