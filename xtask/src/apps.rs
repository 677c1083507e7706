//! `cargo xtask apps`: real applications behind Tidegate, which the crate `apps` installs, starts and uses. Here both
//! programs are built, in debug: what is looked for is whether applications work, and not how fast.

use crate::process::{Invocation, cargo};
use crate::repository::{root, target_directory};

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = root();
    cargo(&["build", "--locked", "--package", "tidegate", "--package", "apps"]).run(&root)?;
    let program = target_directory(&root)?.join("debug/tidegate-apps");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // In place of this task: a Ctrl-C or SIGTERM is then the suite's own, which ends what it has started.
    Invocation::new(&program.to_string_lossy(), &arguments).replace_task(&root)
}
