//! The C library that is linked into the program of a machine. Who looks for known faults in a release has to find it
//! there, since no package of the system mends it: a release is built again.

use crate::process::Invocation;
use crate::release::Machine;
use serde_json::{Value, json};
use std::path::Path;

/// Of the GNU project; every target of a release has it.
#[derive(Debug, PartialEq, Eq)]
pub struct CLibrary {
    pub version: String,
    /// Debian's package that it is from, where it is from one, and which scanners look up.
    package: Option<DebianPackage>,
}

#[derive(Debug, PartialEq, Eq)]
struct DebianPackage {
    name: String,
    version: String,
}

impl CLibrary {
    pub const LICENCE: &'static str = "LGPL-2.1-or-later";

    pub fn of(root: &Path, machine: Machine) -> Result<CLibrary, String> {
        let compiler = machine.tool("gcc");
        let macros = printed(root, &compiler, &["-dM", "-E", "-include", "features.h", "-x", "c", "/dev/null"])?;
        let version = version_in(&macros).ok_or_else(|| format!("dist: {compiler} is not for the GNU C Library"))?;
        let file = printed(root, &compiler, &["-print-file-name=libc.a"])?;
        Ok(CLibrary { version, package: DebianPackage::with(root, file.trim()) })
    }

    /// In CycloneDX.
    pub fn component(&self) -> Value {
        let (version, address) = match &self.package {
            Some(package) => (&package.version, format!("pkg:deb/debian/{}@{}", package.name, package.version)),
            None => (&self.version, format!("pkg:generic/glibc@{}", self.version)),
        };
        json!({
            "type": "library",
            "name": "glibc",
            "version": version,
            "purl": address,
            "bom-ref": address,
            "licenses": [{ "expression": CLibrary::LICENCE }],
        })
    }
}

impl DebianPackage {
    /// `None` as well where the system is not Debian's kin.
    fn with(root: &Path, file: &str) -> Option<DebianPackage> {
        let file = Path::new(file).canonicalize().ok()?;
        let owner = printed(root, "dpkg-query", &["--search", &file.display().to_string()]).ok()?;
        let name = owner.split(": ").next()?;
        let version = printed(root, "dpkg-query", &["--show", "--showformat=${Version}", name]).ok()?;
        let name = name.split(':').next().unwrap_or(name);
        Some(DebianPackage { name: name.to_owned(), version })
    }
}

/// By the macros of `features.h`.
fn version_in(macros: &str) -> Option<String> {
    let value = |name: &str| macros.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
    Some(format!("{}.{}", value("__GLIBC__")?, value("__GLIBC_MINOR__")?))
}

fn printed(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let invocation = Invocation::new(program, arguments);
    let output = invocation.capture(root)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("dist: {}: {}", invocation.line(), String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::{CLibrary, DebianPackage, version_in};

    #[test]
    fn the_version_is_in_the_macros() {
        assert_eq!(version_in("#define __GLIBC_MINOR__ 36\n#define __GLIBC__ 2\n").as_deref(), Some("2.36"));
        assert_eq!(version_in("#define __GNUC__ 12\n"), None);
    }

    #[test]
    fn scanners_find_the_package_that_is_linked() {
        let package = DebianPackage { name: "libc6-dev".into(), version: "2.36-9".into() };
        let of_debian = CLibrary { version: "2.36".into(), package: Some(package) };
        assert_eq!(of_debian.component()["purl"], "pkg:deb/debian/libc6-dev@2.36-9");
        let other = CLibrary { version: "2.36".into(), package: None };
        assert_eq!(other.component()["purl"], "pkg:generic/glibc@2.36");
    }
}
