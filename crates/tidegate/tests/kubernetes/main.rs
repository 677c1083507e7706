//! The real program in front of a real control plane of Kubernetes, which `cargo xtask kubernetes build` has built.
//! Where nothing is built, each of these says so and passes; with `TIDEGATE_KUBERNETES_REQUIRED` set it fails.
//! What an emulated API server can show is in `program` and in the crates.

mod chaos;
mod chart;
mod discovery;
mod emulation;
mod flaps;
mod front;
mod guide;
mod release;
mod rights;
mod rollout;
mod shop;

use std::path::PathBuf;
use tidegate_testkit::server::serve_if_asked;

/// The program under test; `PROGRAM=…` has another build of it measured.
fn program() -> PathBuf {
    std::env::var_os("PROGRAM").map_or(env!("CARGO_BIN_EXE_tidegate").into(), PathBuf::from)
}

/// Whether pauses are those of a real change, and figures are judged; see `rollout`.
fn is_long() -> bool {
    std::env::var_os("ROLLOUT_LONG").is_some()
}

/// A line for the table of `cargo xtask long`.
fn figure(what: &str, value: &str) {
    println!("figure: {what} | {value}");
}

#[test]
fn this_file_is_also_an_upstream_server() {
    serve_if_asked();
}
