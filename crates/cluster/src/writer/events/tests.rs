//! Which Events are written, after everything that may happen.

use super::{EVENTS_EVERY, EventAsk, EventWrite, Events, NOTE_BYTES_MAX, Notice, ONE_EVERY, SAID_AGAIN, SUBJECTS_MAX};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::object::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

type Told = ((Kind, Key), Notice);

fn notice(name: &str, reason: &str, note: &str) -> Told {
    let notice = Notice { reason: reason.into(), is_warning: true, note: note.to_owned() };
    ((Kind::Ingress, Key::new("shop", name)), notice)
}

struct Speaker {
    events: Events,
    /// Of which something was said.
    known: BTreeSet<(Kind, Key)>,
    now: Instant,
}

impl Speaker {
    fn new() -> Speaker {
        Speaker { events: Events::default(), known: BTreeSet::new(), now: Instant::now() }
    }

    /// All that is to be said.
    fn observe(&mut self, notices: &[Told]) {
        let mut changed: BTreeMap<_, Vec<Notice>> = self.known.iter().map(|object| (object.clone(), Vec::new())).collect();
        for (object, notice) in notices {
            self.known.insert(object.clone());
            changed.entry(object.clone()).or_default().push(notice.clone());
        }
        self.events.observe(changed, self.now);
    }

    fn ask(&mut self) -> EventAsk {
        self.events.next(self.now, |_, key| (&*key.name != "gone").then(|| "0-1".into()))
    }

    fn write(&mut self) -> EventWrite {
        match self.ask() {
            EventAsk::Write(write) => write,
            other => panic!("nothing is said: {other:?}"),
        }
    }

    fn said(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let EventAsk::Write(write) = self.ask() {
            said.push(format!("{} {} {} ×{}", write.key().name, write.reason(), write.note, write.count));
            self.events.done(write, Ok(()), self.now);
        }
        said
    }

    fn rest(&mut self) -> Option<Duration> {
        match self.ask() {
            EventAsk::Rest { until } => Some(until - self.now),
            EventAsk::Nothing => None,
            EventAsk::Write(write) => panic!("{write:?} is said"),
        }
    }
}

#[test]
fn each_object_and_reason_has_one_event() {
    let mut speaker = Speaker::new();
    let notices = [
        notice("a", "PathInvalid", "one"),
        notice("a", "PathInvalid", "two"),
        notice("a", "PathInvalid", "three"),
        notice("a", "HostInvalid", "four"),
        notice("b", "PathInvalid", "one"),
        notice("gone", "PathInvalid", "one"),
    ];
    speaker.observe(&notices);
    let expected = ["a HostInvalid four ×1", "a PathInvalid one (and 2 more) ×1", "b PathInvalid one ×1"];
    assert_eq!(speaker.said(), expected);
    speaker.observe(&notices);
    assert_eq!(speaker.rest(), Some(SAID_AGAIN), "what is still so is said again before the server forgets it");
    speaker.now += SAID_AGAIN;
    assert_eq!(speaker.said(), expected.map(|text| text.replace("×1", "×2")));
}

#[test]
fn what_comes_and_goes_is_said_once_a_minute_and_counted() {
    let mut speaker = Speaker::new();
    let notices = [notice("a", "PathInvalid", "one")];
    speaker.observe(&notices);
    assert_eq!(speaker.said(), ["a PathInvalid one ×1"]);
    for _ in 0..10 {
        speaker.now += Duration::from_secs(1);
        speaker.observe(&[]);
        assert_eq!(speaker.rest(), None);
        speaker.observe(&notices);
    }
    assert_eq!(speaker.rest().map(|rest| rest + Duration::from_secs(10)), Some(ONE_EVERY));
    speaker.now += ONE_EVERY;
    assert_eq!(speaker.said(), ["a PathInvalid one ×2"]);
    speaker.observe(&[]);
    speaker.now += ONE_EVERY;
    speaker.observe(&[]);
    assert_eq!(speaker.events.subjects.len(), 0, "what was long ago is forgotten");
}

#[test]
fn another_note_is_another_event() {
    let mut speaker = Speaker::new();
    speaker.observe(&[notice("a", "PathInvalid", "one")]);
    let first = speaker.write();
    speaker.events.done(first.clone(), Ok(()), speaker.now);
    speaker.observe(&[notice("a", "PathInvalid", "two")]);
    assert_eq!(speaker.rest(), Some(ONE_EVERY));
    speaker.now += ONE_EVERY;
    let second = speaker.write();
    assert_eq!((second.count, second.name == first.name), (1, false));
}

#[test]
fn five_are_said_in_a_second() {
    let mut speaker = Speaker::new();
    let notices: Vec<Told> = (0..20).map(|number| notice(&format!("a{number}"), "PathInvalid", "one")).collect();
    speaker.observe(&notices);
    assert_eq!(speaker.said().len(), 5);
    assert_eq!((speaker.rest(), speaker.events.pending()), (Some(EVENTS_EVERY), 15));
    speaker.now += Duration::from_secs(1);
    assert_eq!(speaker.said().len(), 5);
}

#[test]
fn what_came_of_it_decides_when_it_is_said_again() {
    let check = |outcome: Result<(), Fault>, rest: Duration, count: u32| {
        let mut speaker = Speaker::new();
        speaker.observe(&[notice("a", "PathInvalid", "one")]);
        let write = speaker.write();
        speaker.events.done(write, outcome.as_ref().copied(), speaker.now);
        assert_eq!(speaker.rest(), Some(rest), "{outcome:?}");
        speaker.now += rest;
        assert_eq!(speaker.write().count, count, "{outcome:?}");
    };
    let message = || "said".to_owned();
    check(Ok(()), SAID_AGAIN, 2);
    // Who wrote before has said it.
    check(Err(Fault::Conflict { message: message() }), SAID_AGAIN, 2);
    check(Err(Fault::Busy { message: message(), retry_after: None }), Duration::from_secs(1), 1);
    check(Err(Fault::Forbidden { message: message() }), Duration::from_secs(1), 1);
    check(Err(Fault::Refused { status: 422, message: message() }), Duration::from_secs(60), 1);
}

#[test]
fn what_the_server_has_forgotten_is_made_anew() {
    let mut speaker = Speaker::new();
    speaker.observe(&[notice("a", "PathInvalid", "one")]);
    speaker.said();
    speaker.now += SAID_AGAIN;
    let write = speaker.write();
    assert_eq!(write.count, 2);
    speaker.events.done(write, Err(&Fault::Missing { message: "gone".to_owned() }), speaker.now);
    speaker.now += Duration::from_secs(1);
    assert_eq!(speaker.write().count, 1);
}

#[test]
fn who_begins_to_write_says_what_nobody_here_has_said() {
    let mut speaker = Speaker::new();
    speaker.observe(&[notice("a", "PathInvalid", "one")]);
    let _ = speaker.write();
    assert_eq!(speaker.rest(), None, "the write was broken off");
    speaker.events.begin(speaker.now);
    assert_eq!(speaker.said(), ["a PathInvalid one ×1"]);
}

#[test]
fn notes_and_names_and_what_is_remembered_have_bounds() {
    let mut speaker = Speaker::new();
    let long = "ü".repeat(NOTE_BYTES_MAX);
    let name = format!("{}-{}", "a".repeat(229), "b".repeat(20));
    speaker.observe(&[notice(&name, "PathInvalid", &long), notice(&name, "PathInvalid", "two")]);
    let write = speaker.write();
    assert!(write.note.len() <= NOTE_BYTES_MAX && write.note.ends_with(" (and 1 more)"), "{}", write.note.len());
    let hash = write.name.strip_prefix(&format!("{}.", "a".repeat(229))).expect("its name");
    assert_eq!(hash.len(), 16);
    let many: Vec<Told> = (0..2 * SUBJECTS_MAX).map(|number| notice(&format!("a{number}"), "PathInvalid", "one")).collect();
    speaker.observe(&many);
    assert_eq!(speaker.events.subjects.len(), SUBJECTS_MAX);
}
