//! Which Events (events.k8s.io/v1) are written, and when. Pure: it is given what is to be said of objects at present,
//! and told what came of a write.
//!
//! There is one for each object and reason. What is still so half an hour later is said again by counting it, because
//! the server forgets Events after an hour.

use super::bucket::Bucket;
use crate::fault::Fault;
use crate::kind::Kind;
use crate::object::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of all together: five a second.
const EVENTS_EVERY: Duration = Duration::from_millis(200);
const EVENTS_AT_ONCE_MAX: u32 = 5;
/// Of one object and reason.
const ONE_EVERY: Duration = Duration::from_secs(60);
const SAID_AGAIN: Duration = Duration::from_secs(1800);
/// Objects and reasons that are remembered; what is beyond them is said when some of them are over.
const SUBJECTS_MAX: usize = 4096;
/// Of one note: the bound of the API.
pub const NOTE_BYTES_MAX: usize = 1024;
/// Of an object's name in the name of its Event, which has 253 letters at most.
const NAME_BYTES_MAX: usize = 230;
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(60);

/// What is to be said of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// A word, as `PathInvalid`.
    pub reason: Arc<str>,
    /// Whether something does not work as it reads.
    pub is_warning: bool,
    /// A sentence for people.
    pub note: String,
}

/// An Event to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventWrite {
    subject: Subject,
    /// Of the Event: the same for the same, so that what another process has said is not said again.
    pub name: String,
    /// The object's identifier.
    pub uid: Box<str>,
    pub is_warning: bool,
    pub note: String,
    /// One makes it, more change it.
    pub count: u32,
}

impl EventWrite {
    pub fn kind(&self) -> Kind {
        self.subject.kind
    }

    pub fn key(&self) -> &Key {
        &self.subject.key
    }

    pub fn reason(&self) -> &str {
        &self.subject.reason
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventAsk {
    Write(EventWrite),
    Rest { until: Instant },
    Nothing,
}

#[derive(Debug)]
pub struct Events {
    subjects: BTreeMap<Subject, Said>,
    /// What there is no place for so far.
    beyond: BTreeMap<Subject, (bool, String)>,
    /// Subjects to be said, by when.
    queue: BTreeSet<(Instant, Subject)>,
    bucket: Bucket,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Subject {
    kind: Kind,
    key: Key,
    reason: Arc<str>,
}

#[derive(Debug)]
struct Said {
    is_warning: bool,
    note: String,
    /// Whether it is so at present.
    is_so: bool,
    due: Option<Instant>,
    last: Option<LastSaid>,
    faults: u32,
}

#[derive(Debug, Clone)]
struct LastSaid {
    name: String,
    count: u32,
    at: Instant,
}

impl Default for Events {
    fn default() -> Self {
        let bucket = Bucket::new(EVENTS_EVERY, EVENTS_AT_ONCE_MAX);
        Events { subjects: BTreeMap::new(), beyond: BTreeMap::new(), queue: BTreeSet::new(), bucket }
    }
}

impl Events {
    /// All that is to be said of these objects at present. What is not among it is not so any more; what is said of
    /// others still is.
    pub fn observe(&mut self, notices: BTreeMap<(Kind, Key), Vec<Notice>>, now: Instant) {
        for ((kind, key), notices) in notices {
            let mut notes: BTreeMap<Subject, (bool, Vec<String>)> = BTreeMap::new();
            for Notice { reason, is_warning, note } in notices {
                let (warns, all) = notes.entry(Subject { kind, key: key.clone(), reason }).or_default();
                *warns |= is_warning;
                all.push(note);
            }
            let first = Subject { kind, key: key.clone(), reason: "".into() };
            let is_of_object = |subject: &&Subject| subject.kind == kind && subject.key == key;
            let beyond = self.beyond.range(&first..).map(|(subject, _)| subject).take_while(is_of_object);
            for subject in beyond.cloned().collect::<Vec<_>>() {
                self.beyond.remove(&subject);
            }
            let known = self.subjects.range(&first..).map(|(subject, _)| subject).take_while(is_of_object);
            let ended: Vec<Subject> = known.filter(|subject| !notes.contains_key(subject)).cloned().collect();
            for subject in ended {
                self.schedule(&subject, None);
                if let Some(said) = self.subjects.get_mut(&subject) {
                    said.is_so = false;
                }
            }
            for (subject, (is_warning, all)) in notes {
                self.observe_one(subject, is_warning, joined(&all), now);
            }
        }
        self.subjects.retain(|_, said| said.is_so || said.last.as_ref().is_some_and(|last| now < last.at + ONE_EVERY));
        while self.subjects.len() < SUBJECTS_MAX
            && let Some((subject, (is_warning, note))) = self.beyond.pop_first()
        {
            self.observe_one(subject, is_warning, note, now);
        }
    }

    fn observe_one(&mut self, subject: Subject, is_warning: bool, note: String, now: Instant) {
        let is_full = self.subjects.len() >= SUBJECTS_MAX;
        let said = match self.subjects.get_mut(&subject) {
            Some(said) if said.is_so && said.note == note => return,
            Some(said) => said,
            None if is_full => {
                self.beyond.insert(subject, (is_warning, note));
                return;
            }
            None => {
                let said = Said { is_warning, note: String::new(), is_so: false, due: None, last: None, faults: 0 };
                self.subjects.entry(subject.clone()).or_insert(said)
            }
        };
        (said.is_warning, said.note, said.is_so) = (is_warning, note, true);
        let due = said.last.as_ref().map_or(now, |last| (last.at + ONE_EVERY).max(now));
        self.schedule(&subject, Some(due));
    }

    /// The next Event, or how long there is none. `uid` gives that of an object; one that is gone has none. It is to be
    /// told what came of it.
    pub fn next(&mut self, now: Instant, uid: impl Fn(Kind, &Key) -> Option<Box<str>>) -> EventAsk {
        loop {
            let Some((due, subject)) = self.queue.first().cloned() else { return EventAsk::Nothing };
            if due > now {
                return EventAsk::Rest { until: due };
            }
            let write = uid(subject.kind, &subject.key).and_then(|uid| self.write(&subject, uid));
            let Some(write) = write else {
                self.schedule(&subject, None);
                continue;
            };
            if let Err(until) = self.bucket.take(now) {
                return EventAsk::Rest { until };
            }
            self.schedule(&subject, None);
            return EventAsk::Write(write);
        }
    }

    fn write(&self, subject: &Subject, uid: Box<str>) -> Option<EventWrite> {
        let said = self.subjects.get(subject)?;
        let name = event_name(subject, &uid, &said.note);
        let count = said.last.as_ref().filter(|last| last.name == name).map_or(1, |last| last.count.saturating_add(1));
        let (subject, is_warning, note) = (subject.clone(), said.is_warning, said.note.clone());
        Some(EventWrite { subject, name, uid, is_warning, note, count })
    }

    /// What came of a write.
    pub fn done(&mut self, write: EventWrite, outcome: Result<(), &Fault>, now: Instant) {
        let EventWrite { subject, name, count, .. } = write;
        let Some(said) = self.subjects.get_mut(&subject) else { return };
        let next = match outcome {
            // Another process has said it.
            Ok(()) | Err(Fault::Conflict { .. }) => {
                said.faults = 0;
                said.last = Some(LastSaid { name, count, at: now });
                SAID_AGAIN
            }
            // The server has forgotten it.
            Err(Fault::Missing { .. }) if count > 1 => {
                said.last = None;
                Duration::ZERO
            }
            Err(Fault::Busy { retry_after: Some(after), .. }) => said.pause().max(*after),
            // No attempt makes it acceptable.
            Err(Fault::Refused { .. }) => PAUSE_MOST,
            Err(_) => said.pause(),
        };
        let due = said.is_so.then_some(now + next);
        self.schedule(&subject, due);
    }

    /// Puts into the queue again what was broken off when somebody else began to write.
    pub fn begin(&mut self, now: Instant) {
        let broken_off = self.subjects.iter().filter(|(_, said)| said.is_so && said.due.is_none());
        let due = |said: &Said| said.last.as_ref().map_or(now, |last| last.at + SAID_AGAIN);
        let broken_off: Vec<(Subject, Instant)> = broken_off.map(|(subject, said)| (subject.clone(), due(said))).collect();
        for (subject, due) in broken_off {
            self.schedule(&subject, Some(due));
        }
    }

    /// How many are to be said for the first time.
    pub fn pending(&self) -> usize {
        self.subjects.values().filter(|said| said.due.is_some() && said.last.is_none()).count()
    }

    fn schedule(&mut self, subject: &Subject, due: Option<Instant>) {
        let Some(said) = self.subjects.get_mut(subject) else { return };
        if let Some(before) = std::mem::replace(&mut said.due, due) {
            self.queue.remove(&(before, subject.clone()));
        }
        if let Some(due) = due {
            self.queue.insert((due, subject.clone()));
        }
    }
}

impl Said {
    fn pause(&mut self) -> Duration {
        let pause = PAUSE_FIRST.saturating_mul(1 << self.faults.min(6)).min(PAUSE_MOST);
        self.faults = self.faults.saturating_add(1);
        pause
    }
}

/// The first note, and how many more there are.
fn joined(notes: &[String]) -> String {
    let more = notes.len().saturating_sub(1);
    let behind = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let first = notes.first().map_or("", String::as_str);
    let mut end = first.len().min(NOTE_BYTES_MAX - behind.len());
    while !first.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{behind}", &first[..end])
}

/// Name of an Event: the same for the same object, reason and note.
fn event_name(subject: &Subject, uid: &str, note: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (subject, uid, note).hash(&mut hasher);
    let name: String = subject.key.name.chars().take(NAME_BYTES_MAX).collect();
    // In front of a point there is a letter or a digit.
    let name = name.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{name}.{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests;
