//! `docs/configuration.md` is what the directive table says. `UPDATE=1 cargo test -p tidegate-config` writes it anew.

use std::fs;
use std::path::Path;

#[test]
fn the_checked_in_reference_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let generated = tidegate_config::reference();
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("the docs folder");
        fs::write(&path, &generated).expect("the reference is written");
    }
    let checked_in = fs::read_to_string(&path).expect("docs/configuration.md");
    assert!(checked_in == generated, "docs/configuration.md is not up to date: run with UPDATE=1");
}
