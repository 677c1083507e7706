//! Which Secrets are fetched, when, and what is known of them meanwhile.

use super::{ASKED_AGAIN, Fetch, SecretState, Sighting, WantedObjects};
use crate::fault::Fault;
use crate::object::{Fetched, Key, Secret, SecretBytes};
use crate::shelf::Moment;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

fn key(name: &str) -> Key {
    Key::new("shop", name)
}

fn found(version: &str, value: &str) -> Fetched<Secret> {
    let data = [("tls.key".into(), SecretBytes::new(value.as_bytes()))].into();
    Fetched { version: version.into(), object: Secret { of_type: "kubernetes.io/tls".into(), is_obtained: false, data } }
}

fn busy() -> Fault {
    Fault::Busy { message: "later".to_owned(), retry_after: None }
}

fn missing() -> Fault {
    Fault::Missing { message: "not found".to_owned() }
}

struct Seen {
    secrets: WantedObjects<Secret>,
    now: Instant,
    is_watched: bool,
}

impl Seen {
    fn wanting(names: &[&str]) -> Seen {
        let mut seen = Seen { secrets: WantedObjects::default(), now: Instant::now(), is_watched: true };
        seen.want(names);
        seen
    }

    /// A Secret that is held at version 5.
    fn holding() -> Seen {
        let mut seen = Seen::wanting(&["tls"]);
        assert_eq!(seen.due(), ["ask tls"]);
        assert!(seen.fetched("tls", Ok(found("5", "a"))));
        seen
    }

    fn want(&mut self, names: &[&str]) {
        self.secrets.want(names.iter().map(|name| key(name)).collect());
    }

    fn due(&mut self) -> Vec<String> {
        let sighting = |key: &Key| if &*key.name == "absent" { Sighting::Absent } else { Sighting::Present };
        let taken = self.secrets.take_due(self.now, 2, sighting);
        let said = taken.iter().map(|fetch| match fetch {
            Fetch::Ask(key) => format!("ask {}", key.name),
            Fetch::Absent(key) => format!("absent {}", key.name),
        });
        said.collect()
    }

    fn fetched(&mut self, name: &str, outcome: Result<Fetched<Secret>, Fault>) -> bool {
        let moment = Moment { now: self.now, has_shown_others: false };
        self.secrets.fetched(&key(name), outcome, self.is_watched, moment, 1.0)
    }

    fn announced(&mut self, version: Option<&str>) -> bool {
        self.secrets.announced(&key("tls"), version)
    }

    fn has_answered(&self) -> bool {
        self.secrets.has_answered(|_| false)
    }

    fn said(&self, name: &str) -> String {
        match self.secrets.state(&key(name)) {
            SecretState::Unasked => "unasked".to_owned(),
            SecretState::Missing => "missing".to_owned(),
            SecretState::Fault(fault) => fault.to_string(),
            SecretState::Held(secret) => {
                String::from_utf8_lossy(secret.data.values().next().expect("a value").reveal()).into_owned()
            }
        }
    }
}

#[test]
fn what_is_wanted_is_fetched_so_many_at_once_and_what_is_absent_is_not_asked_for() {
    let mut seen = Seen::wanting(&["a", "absent", "b", "c"]);
    assert!(!seen.has_answered());
    assert_eq!(seen.due(), ["ask a", "absent absent"]);
    assert_eq!(seen.due(), ["ask b", "ask c"]);
    assert_eq!(seen.due(), [""; 0]);
    for name in ["a", "b", "c"] {
        assert!(seen.fetched(name, Ok(found("1", name))));
    }
    assert!(!seen.has_answered());
    assert!(seen.fetched("absent", Err(missing())));
    assert!(seen.has_answered());
    assert_eq!((seen.said("a"), seen.said("absent"), seen.said("other")), ("a".into(), "missing".into(), "unasked".into()));
}

#[test]
fn a_secret_is_fetched_again_when_it_is_another() {
    let mut seen = Seen::holding();
    assert!(!seen.announced(Some("5")), "that is what is held");
    assert_eq!(seen.due(), [""; 0]);
    assert!(!seen.announced(Some("6")));
    assert_eq!(seen.due(), ["ask tls"]);
    assert_eq!(seen.said("tls"), "a", "it is held until the other one is there");
    assert!(!seen.fetched("tls", Ok(found("6", "a"))), "its labels changed");
    assert!(!seen.announced(Some("7")));
    assert_eq!(seen.due(), ["ask tls"]);
    assert!(seen.fetched("tls", Ok(found("7", "b"))));
    assert_eq!(seen.said("tls"), "b");
}

#[test]
fn what_happens_while_it_is_fetched_is_not_missed() {
    let check = |announced: &[Option<&str>], got: &str, expected: &[&str], said: &str| {
        let mut seen = Seen::holding();
        seen.announced(Some("6"));
        assert_eq!(seen.due(), ["ask tls"]);
        for version in announced {
            seen.announced(*version);
        }
        seen.fetched("tls", Ok(found(got, got)));
        assert_eq!(seen.due(), expected, "{announced:?} {got}");
        assert_eq!(seen.said("tls"), said, "{announced:?} {got}");
    };
    check(&[], "6", &[], "6");
    check(&[], "7", &[], "7");
    check(&[Some("7")], "7", &[], "7");
    check(&[Some("7")], "6", &["ask tls"], "6");
    check(&[None], "6", &["ask tls"], "missing");
    check(&[None, Some("8")], "6", &["ask tls"], "6");
}

#[test]
fn what_is_gone_is_missing_at_once() {
    let mut seen = Seen::holding();
    assert!(seen.announced(None));
    assert_eq!(seen.said("tls"), "missing");
    assert!(!seen.announced(None));
}

#[test]
fn what_is_wanted_no_more_is_let_go() {
    let mut seen = Seen::holding();
    seen.want(&["other"]);
    assert_eq!(seen.said("tls"), "unasked");
    assert!(!seen.announced(Some("6")));
    assert_eq!(seen.due(), ["ask other"]);
    seen.want(&[]);
    seen.want(&["other"]);
    assert_eq!(seen.due(), [""; 0], "it is on its way, and may be from before");
    assert!(!seen.fetched("other", Ok(found("1", "x"))));
    assert_eq!((seen.said("other"), seen.due()), ("unasked".to_owned(), vec!["ask other".to_owned()]));
    seen.want(&[]);
    assert!(!seen.fetched("other", Ok(found("1", "x"))));
    assert!(seen.has_answered());
    seen.want(&["tls"]);
    assert_eq!((seen.said("tls"), seen.due()), ("unasked".to_owned(), vec!["ask tls".to_owned()]));
}

#[test]
fn a_fault_takes_nothing_away_and_is_tried_again() {
    let mut seen = Seen::holding();
    seen.announced(Some("6"));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert_eq!(seen.due(), ["ask tls"]);
        assert!(!seen.fetched("tls", Err(busy())));
        assert_eq!((seen.due(), seen.said("tls")), (vec![], "a".to_owned()));
        let until = seen.secrets.rests_until().expect("it rests");
        pauses.push((until - seen.now).as_millis());
        seen.now = until;
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
}

#[test]
fn only_what_lasts_is_an_answer() {
    let check = |fault: Fault, answer_after: Option<usize>, pauses: &[u64]| {
        let mut seen = Seen::wanting(&["tls"]);
        for (number, pause) in pauses.iter().enumerate() {
            seen.due();
            seen.fetched("tls", Err(fault.clone()));
            assert_eq!(seen.said("tls"), fault.to_string());
            let is_answer = answer_after.is_some_and(|after| number + 1 >= after);
            assert_eq!(seen.has_answered(), is_answer, "{fault} {number}");
            let until = seen.secrets.rests_until().expect("it rests");
            assert_eq!((until - seen.now).as_millis(), u128::from(*pause), "{fault} {number}");
            seen.now = until;
        }
    };
    // A Secret that the server cannot give at all, since its key is lost, keeps nobody else waiting for ever.
    check(busy(), Some(8), &[500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    let asked = Fault::Busy { message: "later".to_owned(), retry_after: Some(Duration::from_secs(7)) };
    check(asked, None, &[7000, 7000, 7000, 7000, 8000]);
    check(Fault::Unauthorized { message: "who".to_owned() }, None, &[500, 1000]);
    // An API server that starts says so of rights that are there.
    check(Fault::Forbidden { message: "no".to_owned() }, Some(5), &[500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]);
    check(Fault::Unreadable { problem: "odd".to_owned() }, Some(1), &[500, 1000]);
}

#[test]
fn a_server_that_was_set_back_is_asked_for_all_again() {
    let mut seen = Seen::holding();
    seen.secrets.ask_all_again();
    assert_eq!(seen.due(), ["ask tls"]);
    seen.secrets.ask_all_again();
    seen.fetched("tls", Ok(found("4", "old")));
    assert_eq!(seen.due(), ["ask tls"], "it may have been answered before");
    assert!(!seen.fetched("tls", Ok(found("4", "old"))));
    assert_eq!((seen.said("tls"), seen.due()), ("old".to_owned(), vec![]));
}

#[test]
fn what_is_recalled_is_held_until_it_is_fetched() {
    let recalled = |name: &str| (key(name), Some(found("3", "old")));
    let mut seen = Seen::wanting(&["tls"]);
    assert_eq!(seen.secrets.recall(vec![recalled("tls"), recalled("later"), recalled("none")]), [key("tls")].into());
    let known = seen.secrets.want([key("tls"), key("later")].into());
    assert_eq!(known, [key("later")].into(), "whoever wants it hears of that");
    assert_eq!((seen.said("tls"), seen.said("later"), seen.has_answered()), ("old".into(), "old".into(), true));
    assert_eq!(seen.due(), ["ask later", "ask tls"]);
    assert!(!seen.fetched("tls", Err(busy())));
    assert!(!seen.fetched("later", Ok(found("3", "old"))));
    assert_eq!(seen.said("tls"), "old");
    seen.now = seen.secrets.rests_until().expect("it rests");
    seen.due();
    assert!(seen.fetched("tls", Err(missing())));
    seen.secrets.listed();
    seen.want(&["none"]);
    assert_eq!(seen.said("none"), "unasked");
}

#[test]
fn what_was_not_there_is_known_and_nobody_waits_for_what_is_not_known_of_a_server_that_is_away() {
    let mut seen = Seen::wanting(&["tls", "new"]);
    assert_eq!(seen.secrets.recall(vec![(key("tls"), None)]), [key("tls")].into());
    assert_eq!((seen.said("tls"), seen.said("new"), seen.has_answered()), ("missing".into(), "unasked".into(), false));
    assert!(seen.secrets.has_answered(|_| true));
    assert_eq!(seen.due(), ["ask new", "ask tls"]);
    for name in ["tls", "new"] {
        seen.fetched(name, Err(Fault::Unauthorized { message: "who".to_owned() }));
    }
    assert!(!seen.has_answered() && seen.secrets.has_answered(|_| true));
    assert_eq!(seen.secrets.missing(), [key("tls")]);
    assert_eq!(seen.due(), [""; 0], "it rests");
    seen.secrets.listed();
    assert_eq!((seen.due().len(), seen.secrets.rests_until()), (2, None), "the server is back");
}

#[test]
fn what_may_not_be_fetched_is_named_by_one_of_it() {
    let mut seen = Seen::wanting(&["a", "b"]);
    assert_eq!((seen.due().len(), seen.secrets.forbidden()), (2, None));
    let forbidden = || Fault::Forbidden { message: "no".to_owned() };
    for name in ["a", "b"] {
        seen.fetched(name, Err(forbidden()));
    }
    assert_eq!(seen.secrets.forbidden(), Some((2, key("a"), forbidden())));
}

#[test]
fn what_nobody_watches_is_fetched_again_after_a_while() {
    let mut seen = Seen::wanting(&["tls"]);
    seen.is_watched = false;
    seen.due();
    seen.fetched("tls", Ok(found("5", "a")));
    assert_eq!(seen.secrets.rests_until(), Some(seen.now + ASKED_AGAIN));
    seen.now += ASKED_AGAIN;
    assert_eq!(seen.due(), ["ask tls"]);
    seen.is_watched = true;
    seen.fetched("tls", Ok(found("5", "a")));
    assert_eq!(seen.secrets.rests_until(), None);
    seen.secrets.unwatched(seen.now, |_| false);
    assert_eq!(seen.secrets.rests_until(), None);
    seen.secrets.unwatched(seen.now, |_| true);
    assert_eq!(seen.secrets.rests_until(), Some(seen.now + ASKED_AGAIN));
}

/// What may happen, by the bytes of a random text, and the promise that holds after it.
struct Storm {
    seen: Seen,
    /// Version and value of what there is.
    server: BTreeMap<&'static str, (u64, String)>,
    /// Versions that the metadata have told.
    told: BTreeMap<&'static str, u64>,
    on_their_way: VecDeque<(Key, Result<Fetched<Secret>, Fault>)>,
    wanted: Vec<&'static str>,
    version: u64,
}

impl Storm {
    const NAMES: [&'static str; 3] = ["a", "b", "c"];

    fn new() -> Storm {
        Storm {
            seen: Seen::wanting(&[]),
            server: BTreeMap::new(),
            told: BTreeMap::new(),
            on_their_way: VecDeque::new(),
            wanted: Vec::new(),
            version: 0,
        }
    }

    fn happens(&mut self, what: u8) {
        let (what, choice) = (what % 8, what / 8);
        let name = Storm::NAMES[usize::from(choice) % 3];
        match what {
            0 => {
                self.wanted = (0..3).filter(|number| choice >> number & 1 == 1).map(|number| Storm::NAMES[number]).collect();
                self.seen.want(&self.wanted.clone());
            }
            1 => {
                self.version += 1;
                self.server.insert(name, (self.version, format!("value {}", choice % 2)));
            }
            2 => _ = self.server.remove(name),
            3 => self.tell(),
            4 => self.ask(),
            5 => self.answer(None),
            6 => self.answer(Some(busy())),
            _ => self.seen.now += Duration::from_secs(1),
        }
    }

    fn tell(&mut self) {
        let now: BTreeMap<&'static str, u64> = self.server.iter().map(|(name, (version, _))| (*name, *version)).collect();
        for name in Storm::NAMES {
            if now.get(name) != self.told.get(name) {
                self.seen.secrets.announced(&key(name), now.get(name).map(u64::to_string).as_deref());
            }
        }
        self.told = now;
    }

    /// What is answered is known when it is asked, and may be old when it arrives.
    fn ask(&mut self) {
        let told = self.told.clone();
        let sighting = |key: &Key| if told.contains_key(&*key.name) { Sighting::Present } else { Sighting::Absent };
        for fetch in self.seen.secrets.take_due(self.seen.now, 2, sighting) {
            let outcome = match &fetch {
                Fetch::Absent(_) => Err(missing()),
                Fetch::Ask(key) => match self.server.get(&*key.name) {
                    Some((version, value)) => Ok(found(&version.to_string(), value)),
                    None => Err(missing()),
                },
            };
            let (Fetch::Ask(key) | Fetch::Absent(key)) = fetch;
            self.on_their_way.push_back((key, outcome));
        }
    }

    fn answer(&mut self, fault: Option<Fault>) {
        if let Some((key, outcome)) = self.on_their_way.pop_front() {
            let outcome = fault.map_or(outcome, Err);
            self.seen.fetched(&key.name, outcome);
        }
    }

    fn ends_well(&mut self) {
        for _ in 0..20 {
            self.tell();
            self.seen.now += ASKED_AGAIN;
            self.ask();
            while !self.on_their_way.is_empty() {
                self.answer(None);
            }
        }
        assert!(!self.seen.secrets.is_due() && self.seen.has_answered());
        assert_eq!(self.seen.secrets.rests_until(), None, "nothing is asked for that is known");
        for name in &self.wanted {
            let expected = self.server.get(name).map_or("missing", |(_, value)| value);
            assert_eq!(self.seen.said(name), expected, "{name}");
        }
    }
}

#[test]
fn whatever_happens_secrets_become_what_the_server_has() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut storm = Storm::new();
        bytes.iter().take(200).for_each(|what| storm.happens(*what));
        storm.ends_well();
    });
}
