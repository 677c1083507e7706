//! Servers listed in a file, read again when it changes. What the file says is in `list` with one module for each
//! format; when to look is in `watch`. A file that cannot be read or is half written is a fault, and the next look may
//! be the one that finds it whole.

mod json;
mod kdl;
mod list;
mod watch;

use crate::answer::{Answer, Reporter};
use crate::{Event, Fault};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use tokio::task::spawn_blocking;
pub use watch::FileNotices;
use watch::Watch;

pub async fn follow<R: FnMut(Event)>(path: &Path, notices: &FileNotices, reporter: &mut Reporter<R>) -> ! {
    let hasher = RandomState::new();
    let watch = Watch::new(path, notices);
    let mut hash_before = None;
    loop {
        // The folders come first: a change after that is told of, one before it is read.
        watch.follow();
        let (path, hasher) = (path.to_owned(), hasher.clone());
        let looked = spawn_blocking(move || look(&path, &hasher, hash_before)).await;
        match looked.unwrap_or_else(|_| FileLooked::Fault(Fault::new("the file cannot be read"))) {
            FileLooked::Same => {}
            FileLooked::Endpoints(hash, answer) => {
                hash_before = Some(hash);
                reporter.answer(answer);
            }
            FileLooked::Fault(fault) => {
                hash_before = None;
                watch.failed();
                reporter.fault(fault);
            }
        }
        watch.changed().await;
    }
}

enum FileLooked {
    Same,
    Endpoints(u64, Answer),
    Fault(Fault),
}

/// Reads the file, and its text only when that is not the one of before.
fn look(path: &Path, hasher: &RandomState, hash_before: Option<u64>) -> FileLooked {
    let text = match list::read(path) {
        Ok(text) => text,
        Err(message) => return FileLooked::Fault(list::fault(path, &message)),
    };
    let hash = hasher.hash_one(&text);
    if hash_before == Some(hash) {
        return FileLooked::Same;
    }
    match list::parse(path, &text) {
        Ok(endpoints) => FileLooked::Endpoints(hash, Answer::new(endpoints, None)),
        Err(message) => FileLooked::Fault(list::fault(path, &message)),
    }
}
