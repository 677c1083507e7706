//! Installed, upgraded under load, removed and purged, and what may go wrong with it, in roots that are thrown away:
//! the cases of packaging/try, each a script that is run in a Debian of its own. They take the package of this machine
//! and one before it, which differs in nothing but its version.

use super::{CheckOutcome, is_missing};
use crate::dist::signature::Key;
use crate::dist::{Distribution, apt, dnf, failed, generated, packages, put};
use crate::process::Invocation;
use crate::release::Machine;
use crate::repository::target_directory;
use crate::scratch::ScratchFolder;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

pub const DEB: [&str; 7] = ["deb/life", "deb/conffile", "deb/by-hand", "deb/full-disk", "deb/broken", "deb/astray", "deb/apt"];
pub const RPM: [&str; 1] = ["rpm/life"];
const OLD: &str = "0.0.9";
const RELEASE: &str = "bookworm";

/// What the roots of each kind of package have beside the least of a Debian.
const FOR_DEB: &str = "ca-certificates,curl,iproute2,procps,xz-utils";
const FOR_RPM: &str = "ca-certificates,curl,iproute2,procps,rpm,dnf,gpg";

/// The packages that the cases of one kind have, made once.
pub struct Roots {
    packages: ScratchFolder,
    root: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Deb,
    Rpm,
}

impl Roots {
    /// `Err` with what is missing, where it cannot be tried here.
    pub fn new(distribution: &Distribution, kind: Kind) -> Result<Result<Roots, CheckOutcome>, String> {
        let tools = [
            ("mmdebstrap", "mmdebstrap"),
            ("unshare", "util-linux"),
            ("gpg", "gpg"),
            ("dpkg-deb", "dpkg"),
            ("createrepo_c", "createrepo-c"),
            ("rpmsign", "rpm"),
        ];
        if let Some(left) = tools.iter().find_map(|(tool, package)| is_missing(tool, package)) {
            return Ok(Err(left));
        }
        if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
            return Ok(Err(CheckOutcome::Left("only root can make a root".into())));
        }
        let packages = ScratchFolder::new("packages")?;
        write_packages(distribution, kind, &packages)?;
        Ok(Ok(Roots { packages, root: debian(distribution, kind)? }))
    }

    pub fn run(&self, distribution: &Distribution, case: &str) -> Result<CheckOutcome, String> {
        let words =
            [self.root.display().to_string(), self.packages.path().display().to_string(), format!("packaging/try/{case}.sh")];
        let invocation = Invocation::new("packaging/try/run", &words.each_ref().map(String::as_str));
        let output = invocation.capture(&distribution.root)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(format!("{}\n{said}{}", invocation.line(), String::from_utf8_lossy(&output.stderr)));
        }
        let of_load: Vec<&str> = said.lines().filter(|line| line.ends_with(" failed")).collect();
        Ok(CheckOutcome::Passed(if of_load.is_empty() { "passed".into() } else { of_load.join(", ") }))
    }
}

fn write_packages(distribution: &Distribution, kind: Kind, to: &ScratchFolder) -> Result<(), String> {
    let (machine, folder) = (Machine::this()?, to.path());
    let key = Key::for_now()?;
    let named: fn(&str) -> String = match kind {
        Kind::Deb => packages::deb_version,
        Kind::Rpm => str::to_owned,
    };
    put(folder, "old-version", &named(OLD))?;
    put(folder, "new-version", &named(&distribution.version))?;
    generated::write(distribution, machine)?;
    match kind {
        Kind::Deb => {
            let old = folder.join(packages::deb_name(OLD, machine));
            let new = distribution.folder.join(packages::deb_name(&distribution.version, machine));
            packages::deb_of(distribution, machine, OLD, &old)?;
            apt::write_of(distribution, &[old.clone(), new.clone()], &folder.join("apt"), &key)?;
            fs::rename(&old, folder.join("old.deb")).map_err(failed(&old))?;
            fs::copy(&new, folder.join("new.deb")).map_err(failed(&new))?;
        }
        Kind::Rpm => {
            let old = folder.join(packages::rpm_name(OLD, machine));
            let new = distribution.folder.join(packages::rpm_name(&distribution.version, machine));
            packages::rpm_of(distribution, machine, OLD, &old)?;
            dnf::write_of(distribution, machine, &[old, new], &folder.join("dnf"), &key)?;
        }
    }
    Ok(())
}

/// Kept in the target folder: a mirror is asked once.
fn debian(distribution: &Distribution, kind: Kind) -> Result<PathBuf, String> {
    let (name, more) = match kind {
        Kind::Deb => ("deb", FOR_DEB),
        Kind::Rpm => ("rpm", FOR_RPM),
    };
    let folder = target_directory(&distribution.root)?.join("roots");
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let path = folder.join(format!("{RELEASE}-{name}.tar"));
    if path.exists() {
        return Ok(path);
    }
    let written = folder.join(format!("{RELEASE}-{name}-{}.tar", std::process::id()));
    let (include, output) = (format!("--include={more}"), written.display().to_string());
    Invocation::new("mmdebstrap", &["--quiet", "--variant=minbase", &include, RELEASE, &output]).run(&distribution.root)?;
    fs::rename(&written, &path).map_err(failed(&written))?;
    Ok(path)
}
