//! A folder for what is needed for a while. It goes with its value.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// The owner's alone, since keys lie in some. `name` says what for.
    pub fn new(name: &str) -> Result<ScratchFolder, String> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}-{number}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(ScratchFolder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::ScratchFolder;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn each_has_a_folder_of_its_own_for_as_long_as_it_lives() {
        let (first, second) = (ScratchFolder::new("a").unwrap(), ScratchFolder::new("a").unwrap());
        assert_ne!(first.path(), second.path());
        assert_eq!(first.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let path = first.path().to_owned();
        std::fs::write(path.join("file"), "").unwrap();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }
}
