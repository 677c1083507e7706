//! Whether files are still those that were read, without reading them: what the system says of them, compared with what
//! it said before.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tidegate_outbound::Stamp;

/// The system's times stand still for some milliseconds at a time, on network file systems for up to two seconds. What
/// was changed that shortly before it was read may have been changed again since without a trace.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// What identifies the contents of some files; by default, of none that was read.
#[derive(Debug, Default)]
pub struct Stamps {
    files: Vec<Option<Stamp>>,
    is_settled: bool,
}

impl Stamps {
    /// To be asked before the files are read, so that a change in between shows.
    pub fn of<'p>(files: impl Iterator<Item = &'p Path>) -> Stamps {
        let files: Vec<_> = files.map(stamp).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let latest = now.saturating_sub(SETTLED_AFTER).as_secs() as i64;
        let is_old = |file: &Option<Stamp>| file.is_some_and(|stamp| stamp.is_older_than(latest));
        Stamps { is_settled: files.iter().all(is_old), files }
    }

    /// Certainly the same contents as then.
    pub fn are_of_what_was_read_at(&self, then: &Stamps) -> bool {
        then.is_settled && self.files == then.files
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    std::fs::metadata(file).ok().map(|metadata| Stamp::of(&metadata))
}

#[cfg(test)]
mod tests {
    use super::{Stamps, stamp};

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
        assert!(stamp(&file).is_none());
        assert!(!now().are_of_what_was_read_at(&now()), "what is not there was not read");
    }
}
