//! What a file contains, in a few words that can be compared. A look costs one `stat` as long as that says the same as
//! before; only then are the bytes read.

use foldhash::quality::RandomState;
use std::fs::Metadata;
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tidegate_config::open_regular;

/// Larger files are compared by length, time and inode alone. No file that a configuration reads is larger; `config`
/// has the same bound.
pub const BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Two writes within one tick of the kernel's clock have the same time stamp, and on some file systems a tick is two
/// seconds. What was looked at sooner after its last change is read again next time.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Fingerprint {
    /// As the link leads; `None` when there is nothing.
    stat: Option<Stat>,
    settled: bool,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Absent,
    /// Keyed by this process, so nobody can make two files that look the same to it.
    Hash(u64),
    /// Too large, or not worth reading before somebody has touched it.
    Unread(Version),
    Unreadable,
    /// A folder, a socket, a pipe: reading it would wait or mean nothing.
    NoFile,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

/// What the kernel says of a file beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    version: Version,
    /// Nobody can set this one, so a change that keeps length and time is found as well.
    changed: (i64, i64),
}

impl Fingerprint {
    /// Of the file that the path leads to now. Never fails: a file that cannot be reached or read is a state like any
    /// other.
    pub fn of(path: &Path, before: Option<&Fingerprint>, hasher: &RandomState) -> Fingerprint {
        let Ok(metadata) = std::fs::metadata(path) else {
            return Fingerprint { stat: None, settled: true, content: Content::Absent };
        };
        let stat = Stat::of(&metadata);
        if let Some(before) = before.filter(|before| before.settled && before.stat.as_ref() == Some(&stat)) {
            return before.clone();
        }
        let settled = stat.is_settled(SystemTime::now());
        let content = content(path, &metadata, &stat, hasher);
        Fingerprint { stat: Some(stat), settled, content }
    }

    /// The same without reading the file, for the first look at one of very many. Whoever touches it changes it, as far
    /// as this can tell, once.
    pub fn unread(path: &Path, hasher: &RandomState) -> Fingerprint {
        let stat = std::fs::metadata(path).ok().filter(Metadata::is_file).map(|metadata| Stat::of(&metadata));
        match stat.filter(|stat| stat.is_settled(SystemTime::now())) {
            Some(stat) => Fingerprint { settled: true, content: Content::Unread(stat.version.clone()), stat: Some(stat) },
            None => Fingerprint::of(path, None, hasher),
        }
    }

    pub fn has_same_content(&self, other: &Fingerprint) -> bool {
        self.content == other.content
    }
}

impl Stat {
    pub fn of(metadata: &Metadata) -> Stat {
        Stat {
            version: Version {
                device: metadata.dev(),
                inode: metadata.ino(),
                length: metadata.len(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
            },
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether it says all: its last change is so long ago that another one would show.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed =
            UNIX_EPOCH + Duration::from_secs(seconds.max(0).unsigned_abs()) + Duration::from_nanos(nanoseconds.unsigned_abs());
        now.duration_since(changed).is_ok_and(|age| age > SETTLED_AFTER)
    }
}

fn content(path: &Path, metadata: &Metadata, stat: &Stat, hasher: &RandomState) -> Content {
    if !metadata.is_file() {
        return Content::NoFile;
    }
    if metadata.len() > BYTES_MAX {
        return Content::Unread(stat.version.clone());
    }
    match read(path) {
        // It has grown since.
        Ok(bytes) if bytes.len() as u64 > BYTES_MAX => Content::Unread(stat.version.clone()),
        Ok(bytes) => Content::Hash(hasher.hash_one(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Content::Absent,
        Err(_) => Content::Unreadable,
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Fingerprint};
    use foldhash::quality::RandomState;
    use std::fs;
    use std::path::Path;

    /// Whether a look after `change` finds other content than one before it.
    fn check(change: impl Fn(&Path), expected: bool) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "one").expect("written");
        let hasher = RandomState::default();
        let before = Fingerprint::of(&path, None, &hasher);
        change(&path);
        let after = Fingerprint::of(&path, Some(&before), &hasher);
        assert_eq!(!after.has_same_content(&before), expected);
    }

    #[test]
    fn only_other_bytes_are_other_content() {
        check(|_| {}, false);
        check(|path| fs::write(path, "one").expect("written"), false);
        check(|path| fs::write(path, "two").expect("written"), true);
        check(|path| fs::write(path, "three").expect("written"), true);
        check(|path| fs::remove_file(path).expect("removed"), true);
    }

    #[test]
    fn a_time_that_was_set_back_hides_nothing() {
        check(
            |path| {
                let time = fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a time");
                fs::write(path, "two").expect("written");
                fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("set back");
            },
            true,
        );
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        check(
            |path| {
                fs::remove_file(path).expect("removed");
                fs::create_dir(path).expect("made");
            },
            true,
        );
        let hasher = RandomState::default();
        let folder = tempfile::tempdir().expect("a folder");
        let before = Fingerprint::of(folder.path(), None, &hasher);
        fs::write(folder.path().join("file"), "one").expect("written");
        assert!(Fingerprint::of(folder.path(), Some(&before), &hasher).has_same_content(&before));
    }

    #[test]
    fn a_large_file_is_compared_by_its_length_and_time() {
        let grow = |path: &Path, length: u64| {
            fs::File::options().write(true).open(path).and_then(|file| file.set_len(length)).expect("grown");
        };
        check(|path| grow(path, BYTES_MAX + 1), true);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "one").expect("written");
        grow(&path, BYTES_MAX + 1);
        let hasher = RandomState::default();
        let before = Fingerprint::of(&path, None, &hasher);
        assert!(Fingerprint::of(&path, Some(&before), &hasher).has_same_content(&before));
        grow(&path, BYTES_MAX + 2);
        assert!(!Fingerprint::of(&path, Some(&before), &hasher).has_same_content(&before));
    }
}
