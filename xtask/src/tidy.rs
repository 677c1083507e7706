//! `cargo xtask tidy`: the house rules that a machine can check. Each rule is one module with its own cases. Exceptions
//! stand in `xtask/tidy-allow.txt`, each with its reason; an exception nobody needs any more is a finding too.

mod allow;
mod documents;
mod examples;
mod held_by;
mod layers;
mod length;
mod names;
mod places;
mod rooms;
mod shared;
mod source;
mod text;
mod unsafety;
mod words;

use crate::finding::{Finding, conclude};
use crate::graph::Graph;
use crate::repository::{Repository, TextFile};
use allow::AllowList;
use rooms::{CrateRooms, FileFacts};
use shared::SharedItem;
use source::Source;
use words::DeclaredType;

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

/// Hostile inputs by class, counted from the tree.
pub fn run_hostile() -> Result<(), String> {
    for (class, count) in held_by::hostile(&Repository::open()?) {
        println!("{count:>6}  {class}");
    }
    Ok(())
}

/// The circles of each crate; with a name those of one crate, and what closes them.
pub fn run_rooms(name: Option<&str>) -> Result<(), String> {
    let repository = Repository::open()?;
    let facts: Vec<FileFacts> = parsed(&repository, FileFacts::of).into_iter().flatten().collect();
    let crates = rooms::crates(&facts);
    let Some(name) = name else {
        print!("{}", crates.iter().map(CrateRooms::summary).collect::<String>());
        return Ok(());
    };
    let found = crates.iter().find(|rooms| rooms.is_named(name)).ok_or_else(|| format!("there is no crate `{name}`"))?;
    print!("{}", found.detailed());
    Ok(())
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
    findings.extend(held_by::check(repository));
    let banned_paths = text::banned_paths(&repository.root);
    for file in &repository.files {
        findings.extend(text::check(&file.path, &file.text, &banned_paths, &allow));
    }
    let (mut facts, mut types, mut shared_items) = (Vec::new(), Vec::new(), Vec::new());
    for of_file in parsed(repository, |source| check_source(source, &allow)) {
        match of_file {
            Ok(of_file) => {
                findings.extend(of_file.findings);
                warnings.extend(of_file.warnings);
                facts.push(of_file.facts);
                types.extend(of_file.types);
                shared_items.extend(of_file.shared_items);
            }
            Err(finding) => findings.push(finding),
        }
    }
    findings.extend(rooms::check(&rooms::crates(&facts), &allow));
    findings.extend(words::check_types(&types, &allow));
    findings.extend(shared::check(repository, &shared_items));
    findings.extend(allow.unused());
    Ok(Outcome { findings, warnings })
}

/// What the rules find in one file of Rust, and what it says of modules.
struct OfFile {
    findings: Vec<Finding>,
    warnings: Vec<Finding>,
    facts: FileFacts,
    types: Vec<DeclaredType>,
    shared_items: Vec<SharedItem>,
}

fn check_source(source: &Source, allow: &AllowList) -> OfFile {
    let mut findings = text::check_comments(source);
    findings.extend(text::check_opening(source));
    findings.extend(length::check_file(source, allow));
    findings.extend(length::check_functions(source, allow));
    findings.extend(names::check(source, allow));
    findings.extend(unsafety::check(source, allow));
    findings.extend(words::check_openings(source, allow));
    findings.extend(words::check_widths(source));
    OfFile {
        findings,
        warnings: length::warn_file(source, allow).into_iter().collect(),
        facts: FileFacts::of(source),
        types: words::declared_types(source),
        shared_items: shared::items(source),
    }
}

/// Each file of Rust parsed and looked at, in order. Parsing is nearly all of the time of tidy, so each core gets a
/// part of the files.
fn parsed<T: Send>(repository: &Repository, look: impl Fn(&Source) -> T + Sync) -> Vec<Result<T, Finding>> {
    let files: Vec<&TextFile> = repository.with_extension("rs").collect();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let part = files.len().div_ceil(threads).max(1);
    let of_file = |file: &&TextFile| Source::parse(&file.path, &file.text).map(|source| look(&source));
    std::thread::scope(|scope| {
        let parts: Vec<_> =
            files.chunks(part).map(|files| scope.spawn(|| files.iter().map(of_file).collect::<Vec<_>>())).collect();
        parts.into_iter().flat_map(|part| part.join().expect("a rule does not panic")).collect()
    })
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
