//! The control group whose bound is the process's as well: what it uses, as the kernel counts it. That is more than the
//! process knows of itself: buffers of sockets, tables of the kernel, other processes in the group. Where the group is
//! and what its bound is, the control thread finds out.

use crate::pressure::Usage;
use std::fs;
use std::path::{Path, PathBuf};

/// A control group that has a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    folder: PathBuf,
    version: GroupVersion,
    bound_bytes: u64,
}

/// Of the interface to control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupVersion {
    One,
    Two,
}

impl GroupVersion {
    /// Files with a bound each. Beyond `memory.high` the kernel does not kill, but it slows everybody in the group down
    /// until hardly anything moves.
    fn bounds(self) -> &'static [&'static str] {
        match self {
            GroupVersion::One => &["memory.limit_in_bytes"],
            GroupVersion::Two => &["memory.max", "memory.high"],
        }
    }

    fn usage(self) -> &'static str {
        match self {
            GroupVersion::One => "memory.usage_in_bytes",
            GroupVersion::Two => "memory.current",
        }
    }

    /// Lines of `memory.stat` about what the kernel takes back before it kills: pages of files.
    fn reclaimable(self) -> &'static [&'static str] {
        match self {
            GroupVersion::One => &["total_active_file ", "total_inactive_file "],
            GroupVersion::Two => &["active_file ", "inactive_file ", "slab_reclaimable "],
        }
    }
}

impl ControlGroup {
    /// The group in that folder; `None` when it has no bound.
    pub fn at(folder: &Path, version: GroupVersion) -> Option<ControlGroup> {
        let bounds = version.bounds().iter().filter_map(|file| fs::read_to_string(folder.join(file)).ok());
        let bound_bytes = bounds.filter_map(|text| bound(&text)).min()?;
        Some(ControlGroup { folder: folder.to_owned(), version, bound_bytes })
    }

    pub fn bound_bytes(&self) -> u64 {
        self.bound_bytes
    }

    /// What the group uses that the kernel cannot take back.
    pub fn usage(&self) -> Option<Usage> {
        let used = fs::read_to_string(self.folder.join(self.version.usage())).ok()?;
        let used: u64 = used.trim().parse().ok()?;
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let value = |name: &&str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let reclaimable: u64 = self.version.reclaimable().iter().filter_map(value).sum();
        Some(Usage { used: used.saturating_sub(reclaimable), budget: self.bound_bytes })
    }
}

/// `max`, and the nearly endless number of version 1, are no bound.
fn bound(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::{ControlGroup, GroupVersion, bound};
    use crate::pressure::Usage;
    use std::fs;

    #[test]
    fn bounds_are_read_as_the_kernel_writes_them() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(bound(text), expected, "{text}");
        check("max\n", None);
        check("536870912\n", Some(512 << 20));
        check("9223372036854771712\n", None);
        check("", None);
    }

    /// Folders as the kernel shows them, of both versions.
    #[test]
    fn a_group_is_read_in_both_versions() {
        let check = |version: GroupVersion, files: &[(&str, &str)], expected: Option<Usage>| {
            let folder = tempfile::tempdir().expect("a folder");
            for (file, text) in files {
                fs::write(folder.path().join(file), text).expect("written");
            }
            let group = ControlGroup::at(folder.path(), version);
            assert_eq!(group.as_ref().and_then(ControlGroup::usage), expected, "{files:?}");
        };
        let usage = |used, budget| Some(Usage { used, budget });
        let one = GroupVersion::One;
        let stat = "cache 70\nactive_file 1\ninactive_file 2\ntotal_active_file 30\ntotal_inactive_file 40\n";
        check(
            one,
            &[("memory.limit_in_bytes", "1000\n"), ("memory.usage_in_bytes", "500\n"), ("memory.stat", stat)],
            usage(430, 1000),
        );
        check(one, &[("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.usage_in_bytes", "500\n")], None);
        let two = GroupVersion::Two;
        let stat = "anon 300\nfile 90\nsock 100\ninactive_file 50\nactive_file 40\nslab_reclaimable 10\n";
        let used = ("memory.current", "500\n");
        check(two, &[("memory.max", "1000\n"), ("memory.high", "max\n"), used, ("memory.stat", stat)], usage(400, 1000));
        check(two, &[("memory.max", "1000\n"), ("memory.high", "800\n"), used, ("memory.stat", stat)], usage(400, 800));
        check(two, &[("memory.max", "max\n"), ("memory.high", "800\n"), used], usage(500, 800));
        check(two, &[("memory.max", "max\n"), ("memory.high", "max\n"), used], None);
        // The root group of version 2 has no such files.
        check(two, &[("memory.stat", stat)], None);
        check(two, &[("memory.max", "1000\n"), ("memory.current", "of another kernel\n")], None);
    }
}
