//! Runs the end-to-end cases of `tests/cases` against the program, each with a result line of its own.
//! `CASE=forwarding/ cargo test -p tidegate --test cases` runs those with that in their name. How they are written:
//! tests/README.md.

use std::env;
use std::path::{Path, PathBuf};

#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    // Another program than the one of this tree: whether a new case fails as it should against one of before.
    let program = env::var_os("PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_tidegate").into(), PathBuf::from);
    if let Err(report) = tidegate_testkit::case::run_folder(&folder, &program) {
        panic!("{report}");
    }
}
