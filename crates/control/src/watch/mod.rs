//! Which of a set of files have other bytes than before: for configurations, certificates and whatever else is read
//! anew while running. It tells paths and nothing else; what a change means, and whether it is taken, its caller
//! decides. The system's notices only say when to look. What is reported was found by comparing contents, so a notice
//! too many costs one look and a lost one costs time. Start at [`FileWatch`]; `watched` is what is looked at, `notices`
//! is when.

mod fingerprint;
mod folders;
mod notices;
mod pattern;
#[cfg(test)]
mod tests;
mod watched;

pub use fingerprint::Stat;
use notices::Notices;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use watched::Watched;

/// How long it has to be quiet before a change is looked at, unless somebody says otherwise: editors and `kubectl` do
/// several things in a row.
pub const DEBOUNCE: Duration = Duration::from_millis(200);
/// Files whose contents are compared; a hundred thousand sites with a certificate and its key in two files fit.
pub const FILES_MAX: usize = 262_144;
/// Files that one pattern may match; `config` includes no more.
pub const MATCHES_MAX: usize = 4096;
/// Folders that the system is asked about. Its own bound for all programs of a user is 8,192 on the smallest machines.
pub const FOLDERS_MAX: usize = 8192;

/// What the tests make smaller.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    folders_max: usize,
    /// How often files are looked at when the system does not tell of changes.
    poll: Duration,
    /// How often they are looked at although it does: network file systems, and folders above the watched ones that
    /// were renamed, are not told of.
    unseen: Duration,
}

const BOUNDS: Bounds = Bounds { folders_max: FOLDERS_MAX, poll: Duration::from_secs(3), unseen: Duration::from_secs(60) };

/// Watches files until it is dropped. One thread of its own, and one of the system's interface.
pub struct FileWatch {
    notices: Arc<Notices>,
    watched: Arc<Mutex<Watched>>,
}

impl FileWatch {
    /// Begins with no files. `debounce` is how long it has to be quiet after a notice; a change is looked at two
    /// seconds after its first notice at the latest, or after `debounce` where that is longer.
    ///
    /// `on_change` gets the paths as they were named, those of patterns as they were found, in order and each once. It
    /// runs on the watch's own thread and may call [`Self::set_paths`]; changes that happen meanwhile are reported
    /// after it has returned. It may run once more after the watch was dropped.
    ///
    /// Fails only when the system has no thread to give. When it does not give notices, files are looked at every three
    /// seconds, and the log says so once.
    pub fn start(debounce: Duration, on_change: impl Fn(Vec<PathBuf>) + Send + 'static) -> io::Result<FileWatch> {
        Self::start_within(BOUNDS, debounce, on_change)
    }

    fn start_within(
        bounds: Bounds,
        debounce: Duration,
        on_change: impl Fn(Vec<PathBuf>) + Send + 'static,
    ) -> io::Result<FileWatch> {
        let notices = Arc::new(Notices::new(bounds.unseen));
        let watched = Arc::new(Mutex::new(Watched::new(bounds, notices.clone())));
        let watch = FileWatch { notices: notices.clone(), watched: watched.clone() };
        std::thread::Builder::new().name("files".into()).spawn(move || {
            while let Some(lost) = notices.wait(debounce) {
                // The lock is given back before the call, which may set other paths.
                let changed = lock(&watched).look(&lost);
                if !changed.is_empty() {
                    on_change(changed);
                }
            }
        })?;
        Ok(watch)
    }

    /// Replaces what is watched: the contents of `files`, which need not exist, and whatever matches `patterns` (paths
    /// with `*`, `?` and `[…]`, as in `include`): a match that appears, goes or changes is reported.
    ///
    /// What was watched before keeps the state that was last reported, so nothing that changed in between is lost. A
    /// file that is new here is taken as it is now: name it before reading it, or read it again afterwards.
    ///
    /// Fails, and changes nothing, when a pattern is not valid or there are more than [`FILES_MAX`] files.
    pub fn set_paths(&self, files: &[PathBuf], patterns: &[PathBuf]) -> io::Result<()> {
        lock(&self.watched).set_paths(files, patterns)
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        // Not joined: the thread may be within `on_change`, waiting for whoever drops this.
        self.notices.stop();
    }
}

/// A panic of `on_change` cannot leave anything half done here, since it runs without the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
