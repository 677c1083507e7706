//! Programs of others that `dist` runs: at a version of their own, built by the first use.

use super::failed;
use crate::process::cargo;
use crate::repository::target_directory;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate on crates.io with a program of its name.
pub struct Tool {
    pub name: &'static str,
    pub version: &'static str,
}

impl Tool {
    /// In `tools` of the target folder, in a folder of its version.
    pub fn installed(&self, root: &Path) -> Result<PathBuf, String> {
        let folder = target_directory(root)?.join("tools").join(format!("{}-{}", self.name, self.version));
        let path = folder.join("bin").join(self.name);
        if !path.exists() {
            fs::create_dir_all(&folder).map_err(failed(&folder))?;
            let folder = folder.display().to_string();
            cargo(&["install", "--quiet", "--locked", "--version", self.version, "--root", &folder, self.name]).run(root)?;
        }
        Ok(path)
    }
}
