//! A repository for dnf, as files for any web server: a folder for each architecture, with signed packages and a signed
//! list. Packages of earlier releases that lie there stay, so that whoever has to can go back.

use super::signature::{Form, Key};
use super::{Distribution, apt, failed, packages};
use crate::process::{Invocation, found};
use crate::release::Machine;
use std::fs;
use std::path::{Path, PathBuf};

pub fn write(distribution: &Distribution, machines: &[Machine], key: &Key) -> Result<PathBuf, String> {
    let folder = distribution.folder.join("dnf");
    for machine in machines {
        let package = distribution.folder.join(packages::rpm_name(&distribution.version, *machine));
        write_of(distribution, *machine, &[package], &folder, key)?;
    }
    Ok(folder)
}

pub fn write_of(
    distribution: &Distribution,
    machine: Machine,
    packages: &[PathBuf],
    folder: &Path,
    key: &Key,
) -> Result<(), String> {
    let of_machine = folder.join(machine.architecture());
    fs::create_dir_all(&of_machine).map_err(failed(&of_machine))?;
    let (ring, signer) = (format!("_gpg_path {}", key.ring().display()), format!("_gpg_name {}", key.fingerprint));
    // rpmsign starts it by its path.
    let gpg = format!("__gpg {}", found("gpg").ok_or("dist: gpg is not on the PATH")?.display());
    for path in packages {
        let copy = of_machine.join(path.file_name().unwrap_or_default());
        fs::copy(path, &copy).map_err(failed(path))?;
        let words = ["--define", &ring, "--define", &signer, "--define", &gpg, "--addsign", &copy.display().to_string()];
        quietly(&Invocation::new("rpmsign", &words), distribution)?;
    }
    let revision = distribution.commit_time.to_string();
    let words =
        ["--quiet", "--no-database", "--general-compress-type=gz", "--set-timestamp-to-revision", "--revision", &revision];
    let target = of_machine.display().to_string();
    quietly(&Invocation::new("createrepo_c", &[&words[..], &[&target]].concat()), distribution)?;
    let list = of_machine.join("repodata/repomd.xml");
    key.sign(&list, Form::Detached, &list.with_extension("xml.asc"))?;
    key.write_public(&folder.join(apt::KEY))
}

fn quietly(invocation: &Invocation, distribution: &Distribution) -> Result<(), String> {
    let output = invocation.capture(&distribution.root)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("dist: {}: {}", invocation.line(), String::from_utf8_lossy(&output.stderr).trim()))
}
