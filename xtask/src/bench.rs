//! `cargo xtask bench`: builds the release binaries and runs experiments of the lab with Tidegate as one of the peers.
//! Without arguments it is the experiment `targets`: what a change of Tidegate is held against, within ten minutes. The
//! lab finds the other proxies itself.

use crate::process::{Invocation, cargo};
use crate::repository::{root, target_directory};

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = root();
    cargo(&["build", "--locked", "--release", "--package", "tidegate", "--package", "lab"]).run(&root)?;
    let release = target_directory(&root)?.join("release");
    // In place of this task: a Ctrl-C or SIGTERM is then the lab's own, which ends what it has started and still writes
    // its report.
    benchmark(&release.to_string_lossy(), arguments).replace_task(&root)
}

fn benchmark(release: &str, arguments: &[String]) -> Invocation {
    let mut invocation = Invocation::new(&format!("{release}/tidegate-lab"), &["run"]);
    if arguments.iter().all(|argument| argument.starts_with("--")) {
        invocation.arguments.push("targets".into());
    }
    invocation.arguments.extend(arguments.iter().cloned());
    invocation
}

#[cfg(test)]
mod tests {
    use super::benchmark;

    #[test]
    fn the_lab_gets_the_users_arguments_or_the_targets() {
        let check = |arguments: &[&str], expected: &str| {
            let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            assert_eq!(benchmark("target/release", &arguments).line(), expected);
        };
        check(&[], "target/release/tidegate-lab run targets");
        check(&["--rounds=3"], "target/release/tidegate-lab run targets --rounds=3");
        check(&["e1", "e2", "--rounds", "3"], "target/release/tidegate-lab run e1 e2 --rounds 3");
    }
}
