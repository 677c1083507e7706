//! What packages hold and no file of the repository has: manual pages, documents with links that lead somewhere,
//! completions, the unit with the path of the package, the notice of what the program is made of. In
//! `packaging/generated/`, where the manifests of the packages name it; anew for each package.

use super::{Distribution, archive, bill_of_materials, failed, manual_page, packages, put, shipped};
use crate::process::Invocation;
use crate::release::Machine;
use std::fs;
use std::path::Path;

/// Where `cargo install --root /usr/local` puts the program, which the unit of the repository names, and where packages
/// have it.
const BY_HAND: &str = "/usr/local/bin/tidegate";
const PACKAGED: &str = "/usr/bin/tidegate";

/// Files of completions as each shell looks for them.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "tidegate.bash"), ("zsh", "_tidegate"), ("fish", "tidegate.fish")];

/// Writes all of it. Pages and completions are the same for all machines, and are written by a program that runs here.
pub fn write(distribution: &Distribution, machine: Machine) -> Result<(), String> {
    let program = distribution.program(machine)?;
    let runs = distribution.program(Machine::this()?)?;
    let folder = distribution.root.join("packaging/generated");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed(&folder))?;
    }
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let copy = folder.join("tidegate");
    fs::copy(&program, &copy).map_err(failed(&program))?;
    strip(&copy, machine, &distribution.root)?;
    write_manual(distribution, &folder.join("man"), &runs)?;
    shipped::write(&distribution.root, &folder.join("doc"))?;
    for (shell, name) in COMPLETIONS {
        let path = folder.join(name);
        fs::write(&path, printed(&runs, &["completions", shell], &distribution.root)?).map_err(failed(&path))?;
    }
    let unit = read(&distribution.root, "packaging/systemd/tidegate.service")?;
    put(&folder, "tidegate.service", &of_package(&unit)?)?;
    put(&folder, "third-party.txt", &bill_of_materials::notice(&distribution.root, machine)?)?;
    put(&folder, "copyright", COPYRIGHT)?;
    put(&folder, "changelog", &debian_changelog(distribution)?)?;
    Ok(())
}

/// Without its symbols, which are a tenth of the program and which Debian wants in no package.
pub fn strip(program: &Path, machine: Machine, root: &Path) -> Result<(), String> {
    Invocation::new(&machine.tool("strip"), &[&program.display().to_string()]).run(root)
}

/// Section 1 as the program writes it, section 5 from the reference.
fn write_manual(distribution: &Distribution, folder: &Path, runs: &Path) -> Result<(), String> {
    printed(runs, &["man", &folder.display().to_string()], &distribution.root)?;
    let reference = read(&distribution.root, "docs/configuration.md")?;
    put(folder, "tidegate.kdl.5", &manual_page::from_markdown(&reference, &distribution.version))?;
    // An rpm takes them as they are, a deb compresses them itself.
    for entry in fs::read_dir(folder).map_err(failed(folder))?.filter_map(Result::ok) {
        let path = entry.path();
        let page = archive::gzip(&fs::read(&path).map_err(failed(&path))?)?;
        let compressed = folder.join(format!("{}.gz", entry.file_name().to_string_lossy()));
        fs::write(&compressed, page).map_err(failed(&compressed))?;
    }
    Ok(())
}

/// The unit says where its program is in a comment as well, which is about installations by hand.
fn of_package(unit: &str) -> Result<String, String> {
    let start = format!("ExecStart={BY_HAND} ");
    if !unit.contains(&start) {
        return Err(format!("dist: packaging/systemd/tidegate.service has no `{start}`"));
    }
    let is_about_cargo = |line: &&str| !line.starts_with("# Where `cargo install");
    let lines: Vec<String> = unit.lines().filter(is_about_cargo).map(|line| line.replace(BY_HAND, PACKAGED)).collect();
    Ok(lines.join("\n") + "\n")
}

/// Debian asks for one in its own form (deb-changelog(5)); what a user notices is in CHANGELOG.md beside it.
fn debian_changelog(distribution: &Distribution) -> Result<String, String> {
    let time = distribution.time()?.to_zoned(jiff::tz::TimeZone::UTC);
    let date = jiff::fmt::rfc2822::to_string(&time).map_err(|error| format!("dist: the time of the commit: {error}"))?;
    Ok(format!(
        "tidegate ({}) stable; urgency=medium\n\n  * What a user notices is in CHANGELOG.md, beside this file.\n\n -- {MAINTAINER}  {date}\n",
        packages::deb_version(&distribution.version)
    ))
}

/// Debian's form of it, copyright-format 1.0; what is linked into the program is listed in third-party.txt beside it.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tidegate

Files: *
Copyright: 2026, the authors of Tidegate
License: Apache-2.0
 On Debian systems the whole text of the license is in
 /usr/share/common-licenses/Apache-2.0.
 .
 The crates that are linked into the program, with their licenses, are listed
 in /usr/share/doc/tidegate/third-party.txt.
";

/// As `maintainer` of the package has it.
pub const MAINTAINER: &str = "Tidegate <packages@tidegate.invalid>";

fn printed(program: &Path, arguments: &[&str], root: &Path) -> Result<Vec<u8>, String> {
    let output = Invocation::new(&program.display().to_string(), arguments).capture(root)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("dist: {} {}: {}", program.display(), arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    fs::read_to_string(root.join(path)).map_err(|error| format!("dist: {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::of_package;

    #[test]
    fn the_unit_of_a_package_starts_the_packages_program() {
        let unit = include_str!("../../../packaging/systemd/tidegate.service");
        let packaged = of_package(unit).unwrap();
        assert!(packaged.contains("\nExecStart=/usr/bin/tidegate run"), "{packaged}");
        assert!(!packaged.contains("/usr/local") && !packaged.contains("cargo install"), "{packaged}");
        assert!(of_package("[Service]\nExecStart=/opt/tidegate\n").is_err());
    }

    #[test]
    fn the_changelog_of_debian_and_the_manifest_name_one_maintainer() {
        let manifest = include_str!("../../../crates/tidegate/Cargo.toml");
        assert!(manifest.contains(&format!("maintainer = \"{}\"", super::MAINTAINER)));
    }
}
