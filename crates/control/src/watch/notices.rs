//! When to look: what the system tells is judged here, and gathered until it has been quiet for a while. Events are not
//! kept, so there is no queue to overflow: all that counts is that something relevant happened, and which folders have
//! to be watched anew.

use super::lock;
use glob::Pattern;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A file that is written without a pause is looked at all the same.
const DEBOUNCE_MAX: Duration = Duration::from_secs(2);

/// What of all that happens in the watched folders is of interest.
#[derive(Default)]
pub struct Relevance {
    /// Whatever folder they are in: one folder may be reached by several paths, and the system tells of one of them.
    pub names: HashSet<OsString>,
    pub patterns: Vec<Pattern>,
    pub folders: BTreeSet<PathBuf>,
}

/// Watched folders that are no longer those of their paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Lost {
    #[default]
    Nothing,
    Folders(BTreeSet<PathBuf>),
    /// The system has dropped events.
    Everything,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Irrelevant,
    Relevant(Lost),
}

/// Between the system's thread, which rings, and the watch's own, which waits.
pub struct Notices {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    relevance: Relevance,
    pending: Option<Burst>,
    lost: Lost,
    /// How long to wait without any notice.
    interval: Duration,
    stopped: bool,
}

#[derive(Debug, Clone, Copy)]
struct Burst {
    first: Instant,
    last: Instant,
}

impl Burst {
    fn due(self, debounce: Duration) -> Instant {
        (self.last + debounce).min(self.first + debounce.max(DEBOUNCE_MAX))
    }
}

impl Notices {
    pub fn new(interval: Duration) -> Notices {
        let state = State { relevance: Relevance::default(), pending: None, lost: Lost::Nothing, interval, stopped: false };
        Notices { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Until it is time to look, and what was lost until then; `None` when nobody is interested any more.
    pub fn wait(&self, debounce: Duration) -> Option<Lost> {
        let begun = Instant::now();
        let mut state = lock(&self.state);
        loop {
            if state.stopped {
                return None;
            }
            let due = state.pending.map_or(begun + state.interval, |pending| pending.due(debounce));
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.pending = None;
                return Some(std::mem::take(&mut state.lost));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// From the system's thread; it is never kept waiting for longer than a look at a few tables.
    pub fn take(&self, event: &notify::Result<Event>) {
        let mut state = lock(&self.state);
        match judge(event, &state.relevance) {
            Verdict::Irrelevant => {}
            Verdict::Relevant(lost) => {
                state.lost.add(lost);
                state.ring();
                drop(state);
                self.changed.notify_one();
            }
        }
    }

    pub fn ring(&self) {
        lock(&self.state).ring();
        self.changed.notify_one();
    }

    pub fn set_relevance(&self, relevance: Relevance) {
        lock(&self.state).relevance = relevance;
    }

    pub fn set_interval(&self, interval: Duration) {
        lock(&self.state).interval = interval;
        self.changed.notify_one();
    }

    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_one();
    }
}

impl State {
    fn ring(&mut self) {
        let now = Instant::now();
        let first = self.pending.map_or(now, |pending| pending.first);
        self.pending = Some(Burst { first, last: now });
    }
}

impl Lost {
    pub fn has(&self, folder: &Path) -> bool {
        match self {
            Lost::Nothing => false,
            // With a folder the library forgets all those below it.
            Lost::Folders(folders) => folder.ancestors().any(|folder| folders.contains(folder)),
            Lost::Everything => true,
        }
    }

    fn add(&mut self, more: Lost) {
        match (&mut *self, more) {
            (_, Lost::Nothing) | (Lost::Everything, Lost::Folders(_)) => {}
            (Lost::Folders(folders), Lost::Folders(more)) => folders.extend(more),
            (Lost::Nothing, more @ Lost::Folders(_)) => *self = more,
            (Lost::Nothing | Lost::Folders(_) | Lost::Everything, Lost::Everything) => *self = Lost::Everything,
        }
    }
}

fn judge(event: &notify::Result<Event>, relevance: &Relevance) -> Verdict {
    let Ok(event) = event else {
        // A notice that could not be read may have been any.
        return Verdict::Relevant(Lost::Nothing);
    };
    if event.need_rescan() {
        return Verdict::Relevant(Lost::Everything);
    }
    if !may_change_content(event.kind) {
        return Verdict::Irrelevant;
    }
    let moved = if moves_names(event.kind) { event.paths.as_slice() } else { &[] };
    let gone: BTreeSet<PathBuf> = moved.iter().filter(|path| relevance.folders.contains(*path)).cloned().collect();
    if !gone.is_empty() {
        return Verdict::Relevant(Lost::Folders(gone));
    }
    if event.paths.iter().any(|path| relevance.has(path)) { Verdict::Relevant(Lost::Nothing) } else { Verdict::Irrelevant }
}

impl Relevance {
    fn has(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        self.names.contains(name)
            || self.folders.contains(path)
            || self.patterns.iter().any(|pattern| pattern.matches(&name.to_string_lossy()))
    }
}

/// Our own reading is told of as well; it must not make us look again.
fn may_change_content(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    }
}

/// Whether a name may lead to another folder than before.
fn moves_names(kind: EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => true,
        EventKind::Any | EventKind::Other | EventKind::Access(_) => false,
        EventKind::Modify(ModifyKind::Any | ModifyKind::Data(_) | ModifyKind::Metadata(_) | ModifyKind::Other) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Burst, DEBOUNCE_MAX, Lost, Relevance, Verdict, judge};
    use glob::Pattern;
    use notify::event::{
        AccessKind, AccessMode, CreateKind, DataChange, Event, EventKind, Flag, MetadataKind, ModifyKind, RemoveKind, RenameMode,
    };
    use std::path::Path;
    use std::time::{Duration, Instant};

    fn check(kind: EventKind, path: &str, expected: Verdict) {
        let relevance = Relevance {
            names: ["site.kdl".into(), "..data".into()].into(),
            patterns: vec![Pattern::new("*.conf").expect("a pattern")],
            folders: ["/etc/tidegate".into(), "/etc/tidegate/conf.d".into()].into(),
        };
        let event = Event::new(kind).add_path(path.into());
        assert_eq!(judge(&Ok(event), &relevance), expected, "for {kind:?} {path}");
    }

    const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const RENAMED: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));

    #[test]
    fn what_cannot_change_a_watched_file_is_irrelevant() {
        let relevant = || Verdict::Relevant(Lost::Nothing);
        check(WRITTEN, "/etc/tidegate/site.kdl", relevant());
        check(RENAMED, "/etc/tidegate/..data", relevant());
        check(EventKind::Create(CreateKind::File), "/etc/tidegate/conf.d/a.conf", relevant());
        check(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/etc/tidegate/site.kdl", relevant());
        check(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/etc/tidegate/site.kdl", Verdict::Irrelevant);
        check(EventKind::Access(AccessKind::Close(AccessMode::Read)), "/etc/tidegate/site.kdl", Verdict::Irrelevant);
        check(WRITTEN, "/etc/tidegate/access.log", Verdict::Irrelevant);
        // Another path of the same folder.
        check(WRITTEN, "/mnt/tidegate/site.kdl", relevant());
    }

    #[test]
    fn folders_that_moved_are_watched_anew() {
        let lost = || Verdict::Relevant(Lost::Folders(["/etc/tidegate".into()].into()));
        check(EventKind::Remove(RemoveKind::Folder), "/etc/tidegate", lost());
        check(RENAMED, "/etc/tidegate", lost());
        check(EventKind::Create(CreateKind::Folder), "/etc/tidegate", lost());
        check(EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), "/etc/tidegate", Verdict::Relevant(Lost::Nothing));
        let lost = Lost::Folders(["/etc/tidegate".into()].into());
        assert!(lost.has(Path::new("/etc/tidegate/conf.d")));
        assert!(!lost.has(Path::new("/etc")));
        assert!(!lost.has(Path::new("/etc/tidegate2")));
    }

    #[test]
    fn dropped_events_may_have_been_any() {
        let overflow = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert_eq!(judge(&Ok(overflow), &Relevance::default()), Verdict::Relevant(Lost::Everything));
        let unreadable = Err(notify::Error::generic("a read failed"));
        assert_eq!(judge(&unreadable, &Relevance::default()), Verdict::Relevant(Lost::Nothing));
    }

    #[test]
    fn losses_add_up() {
        let folders = |names: &[&str]| Lost::Folders(names.iter().map(Into::into).collect());
        let check = |mut lost: Lost, more: Lost, expected: Lost| {
            lost.add(more);
            assert_eq!(lost, expected);
        };
        check(Lost::Nothing, Lost::Nothing, Lost::Nothing);
        check(Lost::Nothing, folders(&["a"]), folders(&["a"]));
        check(folders(&["a"]), folders(&["b"]), folders(&["a", "b"]));
        check(folders(&["a"]), Lost::Everything, Lost::Everything);
        check(Lost::Everything, folders(&["a"]), Lost::Everything);
        check(Lost::Everything, Lost::Nothing, Lost::Everything);
    }

    #[test]
    fn it_is_looked_when_it_was_quiet_or_after_two_seconds() {
        let check = |debounce: u64, first: u64, last: u64, expected: u64| {
            let start = Instant::now();
            let at = |milliseconds| start + Duration::from_millis(milliseconds);
            let pending = Burst { first: at(first), last: at(last) };
            assert_eq!(pending.due(Duration::from_millis(debounce)), at(expected));
        };
        check(200, 0, 0, 200);
        check(200, 0, 1000, 1200);
        check(200, 500, 2450, 500 + DEBOUNCE_MAX.as_millis() as u64);
        // Whoever asks for more quiet gets it.
        check(5000, 0, 0, 5000);
        check(5000, 0, 4000, 5000);
    }
}
