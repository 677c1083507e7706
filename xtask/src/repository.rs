//! The repository as text: every file a rule may look at, read once. Build output, version control and binary files are
//! left out.

use cargo_metadata::MetadataCommand;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Repository {
    pub root: PathBuf,
    /// In order of path.
    pub files: Vec<TextFile>,
}

#[derive(Debug, Clone)]
pub struct TextFile {
    /// Relative to the root, with `/`.
    pub path: String,
    pub text: String,
}

impl Repository {
    pub fn open() -> Result<Repository, String> {
        let root = root();
        let mut files = Vec::new();
        collect(&root, "", &mut files).map_err(|error| format!("cannot read {}: {error}", root.display()))?;
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Repository { root, files })
    }

    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(move |file| Path::new(&file.path).extension().is_some_and(|found| found == extension))
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

/// The folder above this crate's: where the workspace's `Cargo.toml` is.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or(here.clone(), Path::to_path_buf)
}

/// Where cargo puts what it builds of this workspace.
pub fn target_directory(root: &Path) -> Result<PathBuf, String> {
    let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec();
    let metadata = metadata.map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(metadata.target_directory.into_std_path_buf())
}

/// Code of tests, which some rules leave alone: `tests.rs`, `*_tests.rs` and everything in a folder named `tests`.
pub fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "tests.rs" || name.ends_with("_tests.rs") || path.split('/').any(|part| part == "tests")
}

fn collect(root: &Path, relative: &str, files: &mut Vec<TextFile>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(relative))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if name != ".git" && name != "target" {
                collect(root, &path, files)?;
            }
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
        {
            files.push(TextFile { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_test;

    #[test]
    fn test_code_is_told_by_its_place() {
        let check = |path: &str, expected: bool| assert_eq!(is_test(path), expected, "for {path}");
        check("crates/wire/src/head.rs", false);
        check("crates/wire/src/head/tests.rs", true);
        check("crates/wire/src/head_tests.rs", true);
        check("crates/tidegate/tests/cases.rs", true);
        check("crates/testkit/src/lib.rs", false);
        check("crates/proxy/src/contests.rs", false);
    }
}
