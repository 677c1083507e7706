//! `cargo xtask bench`: builds the release binaries and starts the benchmark with Tidegate as one of the peers.
//! What is measured, how, and against whom is decided by `tidegate-bench` itself, which finds the other proxies on the PATH.

use crate::process::{Invocation, cargo};
use crate::repository::root;
use cargo_metadata::MetadataCommand;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = root();
    cargo(&["build", "--locked", "--release", "--package", "tidegate", "--package", "tidegate-bench"]).run(&root)?;
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    benchmark(metadata.target_directory.join("release").as_str(), arguments).run(&root)
}

fn benchmark(release: &str, arguments: &[String]) -> Invocation {
    let mut invocation = Invocation::new(&format!("{release}/tidegate-bench"), &["run"]);
    invocation.arguments.extend(["--peer".into(), format!("tidegate={release}/tidegate")]);
    invocation.arguments.extend(arguments.iter().cloned());
    invocation
}

#[cfg(test)]
mod tests {
    use super::benchmark;

    #[test]
    fn the_benchmark_gets_our_binary_and_the_users_arguments() {
        let arguments = ["--seconds".to_owned(), "5".to_owned()];
        let expected = "target/release/tidegate-bench run --peer tidegate=target/release/tidegate --seconds 5";
        assert_eq!(benchmark("target/release", &arguments).line(), expected);
    }
}
