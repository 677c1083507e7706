//! The last objects of a cluster in a file, so that a process that starts again while the API server is away has
//! something to serve. What stands in it is known in `form`; here is the file, which is written as a whole beside the
//! old one and takes its place.

mod form;

pub use form::{Contents, Extent, Kept, Recalled};

use crate::kind::Kind;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NAME: &str = "objects.jsonl";
const NEW_NAME: &str = "objects.jsonl.new";
/// Values of Secrets stand in it.
const MODE: u32 = 0o600;

/// How long a process that starts waits for the API server before it takes what the snapshot has: what the server says
/// is newer.
pub const TAKEN_AFTER: Duration = Duration::from_secs(1);
/// Between two writes at least: what happens in between is in the next.
pub const WRITTEN_EVERY: Duration = Duration::from_secs(5);
/// A snapshot that is there is written again so often although nothing is another, for the age of its news.
pub const RENEWED_EVERY: Duration = Duration::from_secs(600);
/// A write that takes long is not repeated before a hundred times as long has passed: it may cost a hundredth of a
/// core.
pub const SHARE: u32 = 100;

/// How the snapshot does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotState {
    pub outcome: SnapshotOutcome,
    pub writes: u64,
    /// Why it could not be written the last time.
    pub fault: Option<String>,
}

/// What came of reading it when the process started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SnapshotOutcome {
    /// Nobody knows so far.
    #[default]
    Unread,
    /// There is none.
    Absent,
    /// Nothing in it is used, and why: a sentence without its subject.
    Ignored(String),
    /// The API server was faster.
    Unneeded,
    /// The process began with these objects, as they were then.
    Taken { objects: usize, as_of: String },
}

/// Where the snapshot is, and what it is of.
#[derive(Debug, Clone)]
pub struct SnapshotFile {
    folder: PathBuf,
    extent: Extent,
    kinds: &'static [Kind],
}

impl SnapshotFile {
    pub fn new(folder: PathBuf, extent: Extent, kinds: &'static [Kind]) -> SnapshotFile {
        SnapshotFile { folder, extent, kinds }
    }

    /// `None` where there is none. `Err` is a sentence without its subject.
    pub fn read(&self) -> Result<Option<Recalled>, String> {
        let file = match File::open(self.folder.join(NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot be read: {error}")),
        };
        form::read(&mut BufReader::new(file), &self.extent, self.kinds).map(Some)
    }

    /// `as_of` is how old the news are. `Err` is a sentence without its subject.
    pub fn write(&self, contents: &Contents, as_of: &str) -> Result<(), String> {
        let new = self.folder.join(NEW_NAME);
        let written = self.write_new(&new, contents, as_of);
        written.map_err(|error| {
            // Half a file is of no use to anybody.
            let _ = fs::remove_file(&new);
            format!("cannot be written: {error}")
        })
    }

    fn write_new(&self, new: &Path, contents: &Contents, as_of: &str) -> io::Result<()> {
        match fs::remove_file(new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(new)?;
        let mut sink = BufWriter::new(file);
        form::write(contents, &self.extent, as_of, &mut sink)?;
        sink.flush()?;
        sink.get_ref().sync_data()?;
        fs::rename(new, self.folder.join(NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::{Contents, Extent, MODE, NAME, NEW_NAME, SnapshotFile};
    use crate::kind::Kind;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_ours_alone_and_takes_the_place_of_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        let extent = Extent { url: "https://api.example".to_owned(), namespaces: None };
        let file = SnapshotFile::new(path.clone(), extent, &[Kind::Service]);
        assert!(file.read().expect("none").is_none());
        // What was left half written, and by whom it may be read.
        fs::write(path.join(NEW_NAME), "half").expect("a file");
        let contents = || Contents { kinds: vec![Kind::Service], ..Contents::default() };
        for written in ["then", "now"] {
            file.write(&contents(), written).expect("it is written");
            assert_eq!(file.read().expect("a snapshot").map(|seen| seen.as_of), Some(written.to_owned()));
        }
        let mode = fs::metadata(path.join(NAME)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        assert!(!path.join(NEW_NAME).exists());
        drop(folder);
        assert!(file.write(&contents(), "later").is_err_and(|problem| problem.starts_with("cannot be written: ")));
    }
}
