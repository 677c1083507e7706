//! The page that says what becomes of every key of the ConfigMap of ingress-nginx. `UPDATE=1` writes its table anew.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};
use tidegate_kubernetes::{Fate, KEYS};

const MARK: &str = "--test translation document -->\n";

#[test]
fn every_key_stands_in_the_manual_with_what_becomes_of_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ingress-nginx-config.md");
    let text = fs::read_to_string(&path).expect("the page");
    let (before, _) = text.split_once(MARK).expect("its mark");
    let expected = format!("{before}{MARK}\n{}", table());
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, expected).expect("the page");
    } else {
        assert!(text == expected, "docs/ingress-nginx-config.md is not what the table of keys says: UPDATE=1 writes it");
    }
}

fn table() -> String {
    let mut text = "| Key | | |\n| --- | --- | --- |\n".to_owned();
    for key in KEYS {
        let _ = writeln!(text, "| `{}` | {} | {} |", key.name, key.fate().as_str(), key.remark().replace('|', "\\|"));
    }
    assert!(Fate::ALL.iter().all(|fate| matches!(fate, Fate::Unknown) || text.contains(&format!("| {} |", fate.as_str()))));
    text
}
