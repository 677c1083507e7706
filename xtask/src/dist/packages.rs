//! Packages for Debian and Fedora and their kin: what is in them stands in the manifest of the program's crate.

use super::tool::Tool;
use super::{Distribution, generated};
use crate::process::Invocation;
use crate::release::Machine;
use std::path::{Path, PathBuf};

const DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };
const RPM: Tool = Tool { name: "cargo-generate-rpm", version: "0.21.1" };

pub fn deb(distribution: &Distribution, machine: Machine) -> Result<PathBuf, String> {
    generated::write(distribution, machine)?;
    let path = distribution.folder.join(deb_name(&distribution.version, machine));
    deb_of(distribution, machine, &distribution.version, &path)?;
    Ok(path)
}

/// From what was written for the machine before.
pub fn deb_of(distribution: &Distribution, machine: Machine, version: &str, path: &Path) -> Result<(), String> {
    let (target, output) = (machine.target(), path.display().to_string());
    let words = ["deb", "--quiet", "--no-build", "--no-strip", "--package", "tidegate", "--target", &target, "--output", &output];
    run(distribution, &DEB, &[&words[..], &["--deb-version", &deb_version(version)]].concat())
}

pub fn rpm(distribution: &Distribution, machine: Machine) -> Result<PathBuf, String> {
    generated::write(distribution, machine)?;
    let path = distribution.folder.join(rpm_name(&distribution.version, machine));
    rpm_of(distribution, machine, &distribution.version, &path)?;
    Ok(path)
}

/// From what was written for the machine before.
pub fn rpm_of(distribution: &Distribution, machine: Machine, version: &str, path: &Path) -> Result<(), String> {
    let (target, output) = (machine.target(), path.display().to_string());
    let (time, version) = (distribution.commit_time.to_string(), format!("version = \"{version}\""));
    let words =
        ["generate-rpm", "--package", "crates/tidegate", "--target", &target, "--source-date", &time, "--output", &output];
    run(distribution, &RPM, &[&words[..], &["--set-metadata", &version]].concat())
}

/// With Debian's revision: the first package of this version.
pub fn deb_version(version: &str) -> String {
    format!("{version}-1")
}

pub fn deb_name(version: &str, machine: Machine) -> String {
    format!("tidegate_{version}_{}.deb", machine.name())
}

pub fn rpm_name(version: &str, machine: Machine) -> String {
    format!("tidegate-{version}-1.{}.rpm", machine.architecture())
}

fn run(distribution: &Distribution, tool: &Tool, words: &[&str]) -> Result<(), String> {
    let path = tool.installed(&distribution.root)?;
    let invocation = Invocation::new(&path.display().to_string(), words);
    invocation.with_environment("SOURCE_DATE_EPOCH", &distribution.commit_time.to_string()).run(&distribution.root)
}
