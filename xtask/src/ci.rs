//! `cargo xtask ci`: every gate of the pipeline in order, quick ones first. Stops at the first that fails and says how
//! to repeat it. `.ci/run` installs what the gates need and then runs this; there is no second list of gates.

use crate::process::{Invocation, cargo};
use crate::repository::root;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long the soak runs in the pipeline with each driver, in seconds; by hand the test chooses a shorter time.
const SOAK_SECONDS: &str = "40";

/// Tests of the program wait most of their time, for servers and clocks: 87 s of CPU in 232 s. Those that need the
/// machine for themselves, or count, let nobody beside them.
const TEST_THREADS: &str = "4";

/// Where the programs of a control plane are looked for. The gate of all tests finds none, since they are still being
/// built; tests that need them have gates of their own.
const CONTROL_PLANES: &str = "TIDEGATE_KUBERNETES_CACHE";
const NOWHERE: &str = "/dev/null";

/// What a reader of the code follows leads somewhere: private items included, because nobody reads the public ones
/// alone.
const DOCUMENT: &[&str] = &["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"];

/// The release build's last step, the optimisation of the whole program, has one thread for half of its time; beside
/// gates that compile it is nearly free. It ends before the tests begin, which are not to be starved. The programs of a
/// control plane, half an hour of a processor where none are kept from before, are built at the lowest priority from
/// the first minute: tests wait most of their time, and the gates that need them come last.
pub fn run() -> Result<(), String> {
    let root = root();
    let started = Instant::now();
    let control_plane = GateBeside::start(control_plane_build(), &root)?;
    let release = GateBeside::start(release_build(), &root)?;
    run_gates(&root, gates_of_text())?;
    release.finish()?;
    run_gates(&root, gates_of_behaviour())?;
    control_plane.finish()?;
    run_gates(&root, gates_of_clusters())?;
    println!("=== the pipeline took {}", seconds(started.elapsed()));
    Ok(())
}

/// A gate that runs beside others. Dropping it ends it; compilers that it has started end by themselves.
struct GateBeside {
    gate: Gate,
    process: Child,
    started: Instant,
}

impl GateBeside {
    fn start(gate: Gate, root: &Path) -> Result<GateBeside, String> {
        let process = gate.invocation.start(root)?;
        Ok(GateBeside { gate, process, started: Instant::now() })
    }

    /// Waits for its end.
    fn finish(mut self) -> Result<(), String> {
        let status = self.process.wait().map_err(|error| format!("{}: {error}", self.gate.name))?;
        if !status.success() {
            return Err(self.gate.failure(self.started.elapsed()));
        }
        println!("=== {}: passed, {} since the start", self.gate.name, seconds(self.started.elapsed()));
        Ok(())
    }
}

impl Drop for GateBeside {
    fn drop(&mut self) {
        // The process may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Runs one after the other; `Err` with the first that fails, and how to repeat it.
pub fn run_gates(root: &Path, gates: Vec<Gate>) -> Result<(), String> {
    let started = Instant::now();
    for gate in gates {
        println!("\n=== {}: {}", gate.name, gate.invocation.line());
        let gate_started = Instant::now();
        let outcome = gate.invocation.run(root);
        let took = seconds(gate_started.elapsed());
        match outcome {
            Ok(()) => println!("=== {}: passed in {took}", gate.name),
            Err(_) => return Err(gate.failure(gate_started.elapsed())),
        }
    }
    println!("\n=== every gate passed in {}", seconds(started.elapsed()));
    Ok(())
}

#[derive(Debug, Clone)]
pub struct Gate {
    pub name: &'static str,
    pub invocation: Invocation,
}

impl Gate {
    pub fn new(name: &'static str, invocation: Invocation) -> Gate {
        Gate { name, invocation }
    }

    fn failure(&self, took: Duration) -> String {
        format!("=== {}: FAILED after {}; repeat it with\n\n    {}", self.name, seconds(took), self.invocation.line())
    }
}

/// What `instructions` measures, and what the package and the image hold.
fn release_build() -> Gate {
    Gate::new("release build", cargo(&["xtask", "static"]))
}

/// Kept outside of the checkout, so that it does something once a machine.
fn control_plane_build() -> Gate {
    Gate::new("control plane", cargo(&["xtask", "kubernetes", "build"]))
}

/// Gates that read and compile, and run nothing of ours.
fn gates_of_text() -> Vec<Gate> {
    let gate = Gate::new;
    vec![
        gate("format", cargo(&["fmt", "--all", "--check"])),
        gate("tidy", cargo(&["xtask", "tidy"])),
        gate("deny", cargo(&["xtask", "deny"])),
        gate("clippy", cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        gate("doc", cargo(DOCUMENT).with_environment("RUSTDOCFLAGS", "-D warnings")),
    ]
}

/// Gates that run what was built.
fn gates_of_behaviour() -> Vec<Gate> {
    let gate = Gate::new;
    vec![
        gate(
            "test",
            // All of it, so that one red test hides no other.
            cargo(&["test", "--locked", "--workspace", "--no-fail-fast"])
                .with_environment("SOAK_SECONDS", SOAK_SECONDS)
                .with_environment("RUST_TEST_THREADS", TEST_THREADS)
                .with_environment(CONTROL_PLANES, NOWHERE),
        ),
        gate("examples", cargo(&["xtask", "tidy", "--examples"])),
        gate("readme", cargo(&["xtask", "readme"])),
        gate("packages", cargo(&["xtask", "dist", "deb", "image", "--check"])),
        gate("instructions", cargo(&["xtask", "instructions"])),
    ]
}

/// Gates that run what was built before a real control plane, which has to be there: whole workspaces, so that nothing
/// is compiled again for other features.
fn gates_of_clusters() -> Vec<Gate> {
    let of = |words: &[&str]| cargo(&[&["test", "--locked", "--workspace"], words].concat());
    let gate = |name, words: &[&str]| Gate::new(name, of(words).with_environment("TIDEGATE_KUBERNETES_REQUIRED", "1"));
    vec![gate("kubernetes", &["--test", "kubernetes"]), gate("chart", &["--bin", "xtask", "chart"])]
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{control_plane_build, gates_of_behaviour, gates_of_clusters, gates_of_text, release_build};

    #[test]
    fn the_gates_and_how_to_repeat_them() {
        let beside = vec![control_plane_build(), release_build()];
        let gates = [beside, gates_of_text(), gates_of_behaviour(), gates_of_clusters()].concat();
        let seen: Vec<String> = gates.iter().map(|gate| format!("{}: {}", gate.name, gate.invocation.line())).collect();
        assert_eq!(
            seen,
            [
                "control plane: cargo xtask kubernetes build",
                "release build: cargo xtask static",
                "format: cargo fmt --all --check",
                "tidy: cargo xtask tidy",
                "deny: cargo xtask deny",
                "clippy: cargo clippy --locked --workspace --all-targets -- -D warnings",
                "doc: RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --document-private-items",
                "test: SOAK_SECONDS=40 RUST_TEST_THREADS=4 TIDEGATE_KUBERNETES_CACHE=/dev/null cargo test --locked --workspace --no-fail-fast",
                "examples: cargo xtask tidy --examples",
                "readme: cargo xtask readme",
                "packages: cargo xtask dist deb image --check",
                "instructions: cargo xtask instructions",
                "kubernetes: TIDEGATE_KUBERNETES_REQUIRED=1 cargo test --locked --workspace --test kubernetes",
                "chart: TIDEGATE_KUBERNETES_REQUIRED=1 cargo test --locked --workspace --bin xtask chart",
            ]
        );
    }
}
