//! Runs the end-to-end cases of `tests/cases` against the program, each with a result line of its own.
//! `CASE=forwarding/ cargo test -p tidegate --test cases` runs those with that in their name. How they are written:
//! tests/README.md.

use std::path::Path;

#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    if let Err(report) = tidegate_testkit::case::run_folder(&folder, Path::new(env!("CARGO_BIN_EXE_tidegate"))) {
        panic!("{report}");
    }
}
