//! The real program in front of a real control plane of Kubernetes, which `cargo xtask kubernetes build` has built.
//! Where nothing is built, each of these says so and passes; with `TIDEGATE_KUBERNETES_REQUIRED` set it fails.
//! What an emulated API server can show is in `program` and in the crates.

mod chart;
mod discovery;
mod emulation;
mod front;
mod rollout;
mod shop;

use tidegate_testkit::server::serve_if_asked;

#[test]
fn this_file_is_also_an_upstream_server() {
    serve_if_asked();
}
