//! A control group (version 2) for the proxies, if the user names one: whatever limits of CPU and memory the user
//! has set on it hold for them. Nothing is set here, and the user's group is left as it was.

use std::fs;
use std::path::{Path, PathBuf};

use crate::net::Error;

/// The lab's own group beneath the user's. Dropping it removes it, once its processes have ended.
pub struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    pub fn within(parent: &Path) -> Result<Cgroup, Error> {
        let wrong = |error: std::io::Error| {
            format!("--cgroup {}: {error}; name a folder of cgroup v2 that you may write", parent.display())
        };
        if !parent.join("cgroup.controllers").is_file() {
            return Err(format!("--cgroup {}: not a control group of version 2 (no cgroup.controllers)", parent.display()).into());
        }
        let folder = parent.join(format!("tidegate-lab-{}", std::process::id()));
        fs::create_dir(&folder).map_err(wrong)?;
        Ok(Cgroup { folder })
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// What the group's limits are, for the report.
    pub fn describe(&self) -> String {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        let read = |name: &str| fs::read_to_string(parent.join(name)).map(|text| text.trim().to_owned());
        let limit = |name: &str| read(name).unwrap_or_else(|_| "not set".to_owned());
        format!("cpu.max {}, memory.max {}", limit("cpu.max"), limit("memory.max"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Not while a process is in it; it is empty then, and goes with the machine.
        fs::remove_dir(&self.folder).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_group_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = Cgroup::within(folder.path()).err().unwrap().to_string();
        assert!(refused.contains("not a control group"), "{refused}");
    }
}
