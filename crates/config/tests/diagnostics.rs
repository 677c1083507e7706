//! One case is a file: `diagnostics/<name>.kdl` is loaded, and what is said about it is in `diagnostics/<name>.txt`.
//! `UPDATE=1 cargo test -p tidegate-config` writes the expected files anew; read the difference before you keep it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tidegate_config::{Environment, load_with, render};

fn cases() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let mut cases: Vec<PathBuf> = fs::read_dir(directory)
        .expect("the directory of cases")
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "kdl"))
        .collect();
    cases.sort();
    cases
}

fn rendered(case: &Path) -> String {
    let text = fs::read_to_string(case).expect("a case");
    let variables = [
        ("BODY_LIMIT", "ten"),
        ("UPSTREAM", "s3cret:pass@host"),
        ("PATTERN", "a s3cret ["),
        ("HOST", "s3cret.example.com"),
        ("TWO_LINES", "a\r\nX-Evil: 1"),
    ];
    let environment = Environment::Given(BTreeMap::from(variables.map(|(name, value)| (name.to_string(), value.to_string()))));
    let name = case.file_name().expect("a file name").to_string_lossy().into_owned();
    let directory = Path::new("tests/diagnostics");
    let loaded = load_with(&name, &text, directory, &environment);
    assert_eq!(loaded.configuration.is_some(), !loaded.has_errors(), "for {name}");
    render(&loaded.diagnostics, &loaded.files, false)
}

#[test]
fn every_case_says_what_is_expected() {
    let cases = cases();
    assert!(cases.len() >= 50, "there are only {} cases", cases.len());
    let update = std::env::var_os("UPDATE").is_some();
    let mut different = Vec::new();
    for case in cases {
        let seen = rendered(&case);
        let expected_path = case.with_extension("txt");
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if seen == expected {
            continue;
        }
        if update {
            fs::write(&expected_path, &seen).expect("the expected file is written");
        } else {
            different.push(format!("=== {}\n--- expected\n{expected}--- seen\n{seen}", case.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn what_an_environment_variable_holds_is_never_shown() {
    for case in cases() {
        assert!(!rendered(&case).contains("s3cret"), "{} shows a secret", case.display());
    }
}
