//! Runs the end-to-end cases of `tests/cases` against the program, each with a result line of its own.
//! `CASE=forwarding/ cargo test -p tidegate --test cases` runs those with that in their name. How they are written:
//! tests/README.md.

use std::path::Path;

#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    // To see a case fail: the program of before what it is about was mended.
    let other = std::env::var_os("PROGRAM");
    let program = other.as_deref().map_or(Path::new(env!("CARGO_BIN_EXE_tidegate")), Path::new);
    if let Err(report) = tidegate_testkit::case::run_folder(&folder, program) {
        panic!("{report}");
    }
}
