//! Whether files are still those that were read, without reading them: what the system says of them, compared with what it said before.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The system's times stand still for some milliseconds at a time, on network file systems for up to two seconds. What was changed that shortly
/// before it was read may have been changed again since without a trace.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// What identifies the contents of some files; by default, of none that was read.
#[derive(Debug, Default)]
pub struct Stamps {
    files: Vec<Option<Stamp>>,
    is_settled: bool,
}

/// Device, number, size, and when contents and name were changed last; of what a link points to.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamps {
    /// To be asked before the files are read, so that a change in between shows.
    pub fn of<'p>(files: impl Iterator<Item = &'p Path>) -> Stamps {
        let files: Vec<_> = files.map(Stamp::of).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let latest = now.saturating_sub(SETTLED_AFTER).as_secs() as i64;
        let is_old =
            |file: &Option<Stamp>| file.as_ref().is_some_and(|stamp| stamp.changed.0 < latest && stamp.modified.0 < latest);
        Stamps { is_settled: files.iter().all(is_old), files }
    }

    /// Certainly the same contents as then.
    pub fn are_of_what_was_read_at(&self, then: &Stamps) -> bool {
        then.is_settled && self.files == then.files
    }
}

impl Stamp {
    fn of(file: &Path) -> Option<Stamp> {
        let of = std::fs::metadata(file).ok()?;
        Some(Stamp {
            device: of.dev(),
            inode: of.ino(),
            size: of.size(),
            modified: (of.mtime(), of.mtime_nsec()),
            changed: (of.ctime(), of.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Stamp, Stamps};

    #[test]
    fn only_files_that_nobody_has_touched_for_a_while_are_taken_for_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let now = || Stamps::of(std::iter::once(&*file));
        std::fs::write(&file, "a").expect("written");
        let fresh = now();
        assert!(!now().are_of_what_was_read_at(&fresh), "it may be changed in the same moment");
        let settled = |stamps: Stamps| Stamps { is_settled: true, ..stamps };
        let read = settled(now());
        assert!(now().are_of_what_was_read_at(&read));
        std::fs::rename(&file, folder.path().join("other")).expect("renamed");
        assert!(!now().are_of_what_was_read_at(&read));
        std::fs::write(&file, "a").expect("written");
        assert!(!now().are_of_what_was_read_at(&read), "another file with the same contents");
        std::fs::remove_file(&file).expect("removed");
        assert!(Stamp::of(&file).is_none());
        assert!(!now().are_of_what_was_read_at(&now()), "what is not there was not read");
    }
}
