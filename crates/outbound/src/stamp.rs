//! What the system says of a file that tells one version of it from the next, without reading it. Whether a file that
//! says the same is certainly the same, when it was changed a moment ago, is for those who compare (`certs` does).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// Nobody can set this one, so a change that keeps size and time shows as well.
    changed: (i64, i64),
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether contents and name were last changed before this second since 1970.
    pub fn is_older_than(&self, unix_secs: i64) -> bool {
        self.changed.0 < unix_secs && self.modified.0 < unix_secs
    }
}
