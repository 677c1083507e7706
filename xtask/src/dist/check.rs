//! `cargo xtask dist --check`: looks at what was made as those who use it will. Each check is a command of others or a
//! start of the program; one whose tool is not there says so, and is no failure. With parts named it looks at these,
//! as the pipeline does. Without, at everything: for all machines, made twice and compared, installed and upgraded in
//! roots that are thrown away.

mod compose;
mod container;
mod image;
mod roots;
mod short_suite;
mod site;
mod twice;
mod unit;

use super::{Distribution, DistributionOptions, Part, packages, shipped};
use crate::process::{Invocation, found};
use crate::release::Machine;
use crate::scratch::ScratchFolder;
use roots::{Kind, Roots};
use std::path::Path;

/// What a check has to say.
#[derive(Debug)]
pub enum CheckOutcome {
    Passed(String),
    /// Not run, and why.
    Left(String),
}

struct Checks<'a> {
    distribution: &'a Distribution,
    left: Vec<String>,
    failed: Vec<String>,
    passed: usize,
}

pub fn run(distribution: &Distribution, options: &DistributionOptions) -> Result<(), String> {
    let mut checks = Checks { distribution, left: Vec::new(), failed: Vec::new(), passed: 0 };
    let has = |part| options.parts.contains(&part);
    for machine in &options.machines {
        let machine = *machine;
        if has(Part::Deb) {
            checks.take("lintian", machine.name(), lintian(distribution, machine));
            checks.take("links", machine.name(), links(distribution, machine));
        }
        if has(Part::Rpm) {
            checks.take("rpmlint", machine.name(), rpmlint(distribution, machine));
        }
        if has(Part::Image) {
            checks.take("image", machine.name(), image::skopeo(distribution, machine, options.is_thorough));
            checks.take("image unpacked", machine.name(), image::unpacked(distribution, machine));
            checks.take("image for docker", machine.name(), image::docker(distribution, machine));
        }
        checks.take("short suite", machine.name(), short_suite::run(distribution, machine));
    }
    if has(Part::Image) {
        checks.take("compose", "examples", compose::check(distribution));
    }
    if has(Part::Site) {
        checks.take("site", "browser", site::check(distribution));
    }
    if has(Part::Deb) || has(Part::Rpm) {
        checks.take("unit", "systemd-analyze", unit::check(distribution));
    }
    if options.is_thorough {
        checks.take("container", "podman", container::check(distribution));
        checks.take_roots(Kind::Deb, &roots::DEB);
        checks.take_roots(Kind::Rpm, &roots::RPM);
        checks.take("twice", "the same bytes", twice::compare(distribution, options));
    }
    checks.conclude()
}

impl Checks<'_> {
    fn take(&mut self, name: &str, of: &str, outcome: Result<CheckOutcome, String>) {
        match outcome {
            Ok(CheckOutcome::Passed(said)) => {
                self.passed += 1;
                println!("{name} ({of}): {said}");
            }
            Ok(CheckOutcome::Left(why)) => {
                println!("{name} ({of}): NOT RUN: {why}");
                self.left.push(format!("{name} ({of})"));
            }
            Err(why) => {
                println!("{name} ({of}): FAILED: {why}");
                self.failed.push(format!("{name} ({of})"));
            }
        }
    }

    fn take_roots(&mut self, kind: Kind, cases: &[&str]) {
        match Roots::new(self.distribution, kind) {
            Ok(Ok(roots)) => cases.iter().for_each(|case| self.take("root", case, roots.run(self.distribution, case))),
            Ok(Err(left)) => self.take("roots", &format!("{kind:?}"), Ok(left)),
            Err(why) => self.take("roots", &format!("{kind:?}"), Err(why)),
        }
    }

    fn conclude(self) -> Result<(), String> {
        println!("dist: {} checks passed in {}", self.passed, self.distribution.folder.display());
        if !self.left.is_empty() {
            println!("dist: not run here: {}", self.left.join(", "));
        }
        if self.failed.is_empty() { Ok(()) } else { Err(format!("dist: failed: {}", self.failed.join(", "))) }
    }
}

/// What a command printed, where it is there and ends well.
fn asked(invocation: &Invocation, root: &Path) -> Result<String, String> {
    let output = invocation.capture(root)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!("{}\n{}{}", invocation.line(), text, String::from_utf8_lossy(&output.stderr)))
}

/// `None` where the tool can be started; else what to say about it. `package` is Debian's.
fn is_missing(tool: &str, package: &str) -> Option<CheckOutcome> {
    found(tool).is_none().then(|| CheckOutcome::Left(format!("{tool} is not here; Debian has it in {package}")))
}

/// Debian's own idea of a package; its errors are ours.
fn lintian(distribution: &Distribution, machine: Machine) -> Result<CheckOutcome, String> {
    if let Some(left) = is_missing("lintian", "lintian") {
        return Ok(left);
    }
    let path = distribution.folder.join(packages::deb_name(&distribution.version, machine)).display().to_string();
    let said = asked(&Invocation::new("lintian", &["--allow-root", "--fail-on", "error,warning", &path]), &distribution.root)?;
    Ok(CheckOutcome::Passed(if said.trim().is_empty() { "nothing to say".into() } else { said.trim().replace('\n', "; ") }))
}

/// Every link of a document leads to a file of the package.
fn links(distribution: &Distribution, machine: Machine) -> Result<CheckOutcome, String> {
    if let Some(left) = is_missing("dpkg-deb", "dpkg") {
        return Ok(left);
    }
    let folder = ScratchFolder::new("links")?;
    let path = distribution.folder.join(packages::deb_name(&distribution.version, machine)).display().to_string();
    asked(&Invocation::new("dpkg-deb", &["-x", &path, &folder.path().display().to_string()]), &distribution.root)?;
    let dead = shipped::dead_links(&folder.path().join("usr/share/doc/tidegate"))?;
    if dead.is_empty() { Ok(CheckOutcome::Passed("all of the documents lead somewhere".into())) } else { Err(dead.join("\n")) }
}

/// What it is told to leave out stands in packaging/rpm/rpmlint.toml, each with its reason.
fn rpmlint(distribution: &Distribution, machine: Machine) -> Result<CheckOutcome, String> {
    if let Some(left) = is_missing("rpmlint", "rpmlint") {
        return Ok(left);
    }
    let path = distribution.folder.join(packages::rpm_name(&distribution.version, machine)).display().to_string();
    let said = asked(&Invocation::new("rpmlint", &["--config", "packaging/rpm/rpmlint.toml", &path]), &distribution.root)?;
    Ok(CheckOutcome::Passed(said.lines().rev().find(|line| line.contains("errors")).unwrap_or("no errors").trim().to_owned()))
}
