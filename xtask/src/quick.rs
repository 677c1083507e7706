//! `cargo xtask quick`: what to run after each change, in less than a minute. Looks at what changed, and at those who
//! use it directly; everything else is left to `ci`. CONTRIBUTING.md says what that is.

use crate::ci::{Gate, run_gates};
use crate::graph::{Graph, NeedKind};
use crate::process::{Invocation, cargo};
use crate::repository::root;
use std::collections::BTreeSet;
use std::path::Path;

/// What a branch leaves from, and is compared with.
const TRUNK: &str = "main";
/// One case of so many, spread over all subjects, takes a few seconds.
const CASES_EVERY: &str = "30";
const CASES_FOLDER: &str = "tests/cases/";
/// Tidy runs as a step of its own.
const TIDY_TEST: &str = "the_repository_keeps_its_rules";

pub fn run() -> Result<(), String> {
    let root = root();
    let changed = changed_files(&root)?;
    let graph = Graph::load(&root)?;
    let has_library = |folder: &str| root.join(folder).join("src/lib.rs").is_file();
    let scope = QuickScope::of(&changed, &graph, has_library);
    println!("changed: {}", scope.summary());
    run_gates(&root, steps(&scope))
}

/// Paths that differ from where the branch left the trunk, committed or not, and files that git does not know yet.
fn changed_files(root: &Path) -> Result<Vec<String>, String> {
    let base = git(root, &["merge-base", TRUNK, "HEAD"]).unwrap_or_else(|_| vec!["HEAD".into()]);
    let base = base.first().map_or("HEAD", String::as_str);
    let mut files = git(root, &["diff", "--name-only", "--no-renames", base])?;
    files.extend(git(root, &["ls-files", "--others", "--exclude-standard"])?);
    Ok(files)
}

fn git(root: &Path, arguments: &[&str]) -> Result<Vec<String>, String> {
    let output = Invocation::new("git", arguments).capture(root)?;
    if !output.status.success() {
        return Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// What is looked at.
#[derive(Debug, Default, PartialEq, Eq)]
struct QuickScope {
    /// Packages with a changed file.
    changed: BTreeSet<String>,
    /// Changed packages, and those that use them directly, that have a library.
    libraries: BTreeSet<String>,
    /// Changed packages that are programs.
    programs: BTreeSet<String>,
    /// Changed cases, as the variable `CASE` takes them.
    cases: BTreeSet<String>,
    /// Something that Tidegate is made of changed.
    product: bool,
}

impl QuickScope {
    fn of(files: &[String], graph: &Graph, has_library: impl Fn(&str) -> bool) -> QuickScope {
        let mut scope = QuickScope::default();
        for file in files {
            if let Some(case) = file.strip_prefix(CASES_FOLDER).and_then(|file| file.strip_suffix(".case")) {
                scope.cases.insert(case.to_owned());
            }
        }
        let tests_only = ["local-cluster", "testkit", "lab", "apps", "xtask"];
        for package in graph.ours() {
            let folder = folder_of(&package.name);
            if !files.iter().any(|file| file.strip_prefix(&folder).is_some_and(|rest| rest.starts_with('/'))) {
                continue;
            }
            scope.changed.insert(package.name.clone());
            scope.product |= !tests_only.contains(&short(&package.name));
            if has_library(&folder) {
                scope.libraries.insert(package.name.clone());
            } else {
                scope.programs.insert(package.name.clone());
            }
        }
        for package in graph.ours().filter(|package| has_library(&folder_of(&package.name))) {
            let needs = [NeedKind::Normal, NeedKind::Build].map(|kind| graph.direct(package, kind)).concat();
            if needs.iter().any(|need| need.ours && scope.changed.contains(&need.name)) {
                scope.libraries.insert(package.name.clone());
            }
        }
        scope
    }

    fn summary(&self) -> String {
        let names: Vec<&str> = self.changed.iter().map(|name| short(name)).collect();
        match (names.is_empty(), self.cases.len()) {
            (true, 0) => "no crate".into(),
            (true, count) => format!("{count} cases"),
            (false, 0) => names.join(", "),
            (false, count) => format!("{}, {count} cases", names.join(", ")),
        }
    }
}

fn steps(scope: &QuickScope) -> Vec<Gate> {
    let mut steps = vec![Gate::new("format", cargo(&["fmt", "--all", "--check"])), Gate::new("tidy", cargo(&["xtask", "tidy"]))];
    if !scope.changed.is_empty() {
        let lints = of_packages(&["clippy", "--locked"], &scope.changed, &["--all-targets", "--", "-D", "warnings"]);
        steps.push(Gate::new("clippy", lints));
    }
    if !scope.libraries.is_empty() {
        steps.push(Gate::new("unit tests", of_packages(&["test", "--locked", "--quiet"], &scope.libraries, &["--lib"])));
    }
    if !scope.programs.is_empty() {
        let tests = of_packages(&["test", "--locked", "--quiet"], &scope.programs, &["--bins", "--", "--skip", TIDY_TEST]);
        steps.push(Gate::new("unit tests of programs", tests));
    }
    let cases = || cargo(&["test", "--locked", "--quiet", "--package", "tidegate", "--test", "cases"]);
    if !scope.cases.is_empty() {
        let names: Vec<&str> = scope.cases.iter().map(String::as_str).collect();
        steps.push(Gate::new("changed cases", cases().with_environment("CASE", &names.join(","))));
    }
    if scope.product {
        steps.push(Gate::new("some cases", cases().with_environment("CASE_EVERY", CASES_EVERY)));
    }
    steps
}

fn of_packages(before: &[&str], packages: &BTreeSet<String>, after: &[&str]) -> Invocation {
    let named = packages.iter().flat_map(|name| ["--package", name]);
    cargo(&before.iter().copied().chain(named).chain(after.iter().copied()).collect::<Vec<_>>())
}

fn short(package: &str) -> &str {
    package.strip_prefix("tidegate-").unwrap_or(package)
}

fn folder_of(package: &str) -> String {
    match package {
        "lab" | "apps" | "xtask" => package.into(),
        _ => format!("crates/{}", short(package)),
    }
}

#[cfg(test)]
mod tests {
    use super::{QuickScope, steps};
    use crate::graph::parse;

    fn check(files: &[&str], expected: &[&str]) {
        let graph = parse(
            "tidegate-model ours\n\
             tidegate-middleware ours tidegate-model\n\
             tidegate-proxy ours tidegate-middleware\n\
             tidegate ours tidegate-proxy\n\
             tidegate-testkit ours\n\
             xtask ours",
        );
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let scope = QuickScope::of(&files, &graph, |folder| folder.starts_with("crates/") && folder != "crates/tidegate");
        let lines: Vec<String> = steps(&scope).iter().map(|step| step.invocation.line()).collect();
        let always = ["cargo fmt --all --check", "cargo xtask tidy"];
        assert_eq!(lines[..2], always);
        assert_eq!(lines[2..], *expected, "for {files:?}");
    }

    #[test]
    fn what_runs_is_what_changed_and_who_uses_it() {
        let some_cases = "CASE_EVERY=30 cargo test --locked --quiet --package tidegate --test cases";
        check(&[], &[]);
        check(&["README.md", "docs/operations.md"], &[]);
        check(
            &["crates/middleware/src/lib.rs", "crates/middleware/Cargo.toml"],
            &[
                "cargo clippy --locked --package tidegate-middleware --all-targets -- -D warnings",
                "cargo test --locked --quiet --package tidegate-middleware --package tidegate-proxy --lib",
                some_cases,
            ],
        );
        check(
            &["crates/tidegate/tests/load/soak.rs"],
            &[
                "cargo clippy --locked --package tidegate --all-targets -- -D warnings",
                "cargo test --locked --quiet --package tidegate --bins -- --skip the_repository_keeps_its_rules",
                some_cases,
            ],
        );
        check(
            &["xtask/src/main.rs"],
            &[
                "cargo clippy --locked --package xtask --all-targets -- -D warnings",
                "cargo test --locked --quiet --package xtask --bins -- --skip the_repository_keeps_its_rules",
            ],
        );
        check(
            &["tests/cases/cli/a.case", "tests/cases/tls/b.case"],
            &["CASE=cli/a,tls/b cargo test --locked --quiet --package tidegate --test cases"],
        );
    }
}
