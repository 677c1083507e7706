//! What packages hold and no file of the repository has: manual pages, completions, the unit with the path of the
//! package, the notice of what the program is made of. In `packaging/generated/`, where the manifests of the packages
//! name it; anew for each package.

use super::{Distribution, Machine, archive, bill_of_materials, failed, manual_page};
use crate::process::Invocation;
use std::fs;
use std::path::{Path, PathBuf};

/// Where `cargo install --root /usr/local` puts the program, which the unit of the repository names, and where packages
/// have it.
const BY_HAND: &str = "/usr/local/bin/tidegate";
const PACKAGED: &str = "/usr/bin/tidegate";

/// Files of completions as each shell looks for them.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "tidegate.bash"), ("zsh", "_tidegate"), ("fish", "tidegate.fish")];

/// Writes all of it; `program` is what the package will hold, `runs` one of the same version that runs on this machine.
pub fn write(distribution: &Distribution, machine: Machine, program: &Path, runs: &Path) -> Result<PathBuf, String> {
    let folder = distribution.root.join("packaging/generated");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed(&folder))?;
    }
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let copy = folder.join("tidegate");
    fs::copy(program, &copy).map_err(failed(program))?;
    strip(&copy, machine, &distribution.root)?;
    write_manual(distribution, &folder.join("man"), runs)?;
    for (shell, name) in COMPLETIONS {
        let path = folder.join(name);
        fs::write(&path, printed(runs, &["completions", shell], &distribution.root)?).map_err(failed(&path))?;
    }
    let unit = read(&distribution.root, "packaging/systemd/tidegate.service")?;
    put(&folder, "tidegate.service", &of_package(&unit)?)?;
    put(&folder, "third-party.txt", &bill_of_materials::notice(&distribution.root)?)?;
    put(&folder, "copyright", COPYRIGHT)?;
    put(&folder, "changelog", &debian_changelog(distribution)?)?;
    Ok(folder)
}

/// Without its symbols, which are a tenth of the program and which Debian wants in no package.
pub fn strip(program: &Path, machine: Machine, root: &Path) -> Result<(), String> {
    let name = if machine.is_this() { "strip".to_owned() } else { format!("{}-linux-gnu-strip", machine.architecture()) };
    Invocation::new(&name, &[&program.display().to_string()]).run(root)
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
    let wrong = |error: &dyn std::fmt::Display| format!("dist: the time of the commit: {error}");
    let seconds = i64::try_from(distribution.commit_time).map_err(|error| wrong(&error))?;
    let time = jiff::Timestamp::from_second(seconds).map_err(|error| wrong(&error))?;
    let date = jiff::fmt::rfc2822::to_string(&time.to_zoned(jiff::tz::TimeZone::UTC)).map_err(|error| wrong(&error))?;
    Ok(format!(
        "tidegate ({}) stable; urgency=medium\n\n  * What a user notices is in NEWS.md, beside this file.\n\n -- {MAINTAINER}  {date}\n",
        distribution.version
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

fn put(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(failed(&path))
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
}
