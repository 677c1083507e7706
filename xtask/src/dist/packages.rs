//! Packages for Debian and Fedora and their kin: what is in them stands in the manifest of the program's crate.

use super::program::{Library, program};
use super::tool::Tool;
use super::{Distribution, Machine, generated};
use crate::process::Invocation;
use std::path::{Path, PathBuf};

const DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };
const RPM: Tool = Tool { name: "cargo-generate-rpm", version: "0.21.1" };

pub fn deb(distribution: &Distribution, machine: Machine, given: Option<&Path>) -> Result<PathBuf, String> {
    prepare(distribution, machine, given)?;
    let path = distribution.folder.join(format!("tidegate_{}_{}.deb", distribution.version, machine.name()));
    let output = path.display().to_string();
    let target = machine.target(Library::System);
    let words = ["deb", "--quiet", "--no-build", "--no-strip", "--package", "tidegate", "--target", &target, "--output", &output];
    run(distribution, &DEB, &words)?;
    Ok(path)
}

pub fn rpm(distribution: &Distribution, machine: Machine, given: Option<&Path>) -> Result<PathBuf, String> {
    prepare(distribution, machine, given)?;
    let path = distribution.folder.join(format!("tidegate-{}-1.{}.rpm", distribution.version, machine.architecture()));
    let output = path.display().to_string();
    let time = distribution.commit_time.to_string();
    let target = machine.target(Library::System);
    let words =
        ["generate-rpm", "--package", "crates/tidegate", "--target", &target, "--source-date", &time, "--output", &output];
    run(distribution, &RPM, &words)?;
    Ok(path)
}

fn prepare(distribution: &Distribution, machine: Machine, given: Option<&Path>) -> Result<(), String> {
    let packaged = program(distribution, machine, Library::System, given)?;
    let runs = if machine.is_this() { packaged.clone() } else { program(distribution, this()?, Library::System, None)? };
    generated::write(distribution, machine, &packaged, &runs)?;
    Ok(())
}

/// Pages and completions are the same for all machines, and are written by a program that runs here.
fn this() -> Result<Machine, String> {
    let found = Machine::ALL.iter().map(|(_, machine)| *machine).find(|machine| machine.is_this());
    found.ok_or_else(|| format!("dist: packages are made on amd64 or arm64, not on {}", std::env::consts::ARCH))
}

fn run(distribution: &Distribution, tool: &Tool, words: &[&str]) -> Result<(), String> {
    let path = tool.installed(&distribution.root)?;
    let invocation = Invocation::new(&path.display().to_string(), words);
    invocation.with_environment("SOURCE_DATE_EPOCH", &distribution.commit_time.to_string()).run(&distribution.root)
}
