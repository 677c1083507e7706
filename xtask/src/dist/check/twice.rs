//! Everything once more: from a clone of the commit in another folder, with a target folder of its own. What comes out
//! has the same checksums.

use super::CheckOutcome;
use crate::dist::{CHECKSUMS, Distribution, DistributionOptions, Part, failed};
use crate::process::{Invocation, cargo};
use crate::repository::target_directory;
use std::fs;

pub fn compare(distribution: &Distribution, options: &DistributionOptions) -> Result<CheckOutcome, String> {
    if !distribution.given.is_empty() {
        return Ok(CheckOutcome::Left("programs were given with --program; both have to be built".into()));
    }
    let changed = Invocation::new("git", &["status", "--porcelain"]).capture(&distribution.root)?;
    if !changed.stdout.is_empty() {
        return Ok(CheckOutcome::Left("there are changes that are not committed, which a clone has not".into()));
    }
    let again = target_directory(&distribution.root)?.join("again");
    let source = again.join("source");
    if source.exists() {
        fs::remove_dir_all(&source).map_err(failed(&source))?;
    }
    let (from, to) = (distribution.root.display().to_string(), source.display().to_string());
    Invocation::new("git", &["clone", "--quiet", "--no-hardlinks", &from, &to]).run(&distribution.root)?;
    let mut words = vec!["xtask", "dist"];
    // A signature has its own time in it.
    words.extend(Part::ALL.iter().filter(|(_, part)| options.parts.contains(part) && !part.needs_key()).map(|(name, _)| *name));
    for machine in &options.machines {
        words.extend(["--machine", machine.name()]);
    }
    let target = again.join("target");
    cargo(&words).with_environment("CARGO_TARGET_DIR", &target.display().to_string()).run(&source)?;
    let read = |path: std::path::PathBuf| fs::read_to_string(&path).map_err(failed(&path));
    let (first, second) = (read(distribution.folder.join(CHECKSUMS))?, read(target.join("dist").join(CHECKSUMS))?);
    let differing: Vec<&str> = second.lines().filter(|line| !first.lines().any(|other| other == *line)).collect();
    if differing.is_empty() {
        return Ok(CheckOutcome::Passed(format!("{} files are the same from two folders", second.lines().count())));
    }
    Err(format!("these are others in {}:\n{}", target.join("dist").display(), differing.join("\n")))
}
