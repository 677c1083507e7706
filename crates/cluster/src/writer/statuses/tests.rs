//! Which statuses are written, after everything that may happen.

use super::{Addresses, OBJECT_EVERY, PAUSE_MOST, StatusAsk, StatusFound, StatusWrite, Statuses, WRITES_EVERY};
use crate::fault::Fault;
use crate::object::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

fn addresses(texts: &[&str]) -> Addresses {
    texts.iter().map(|text| Box::from(*text)).collect()
}

/// What a cluster has, and what is to be written there.
struct World {
    statuses: Statuses,
    there: BTreeMap<Key, (String, Addresses)>,
    now: Instant,
}

impl World {
    /// Ingresses without a status, in version 1.
    fn of(names: &[&str]) -> World {
        let there = names.iter().map(|name| (Key::new("shop", name), ("1".to_owned(), addresses(&[])))).collect();
        World { statuses: Statuses::default(), there, now: Instant::now() }
    }

    fn desire(&mut self, names: &[&str], wanted: &[&str]) {
        let World { statuses, there, now } = self;
        let turned = turned(statuses, names);
        let differ = statuses.desire(turned, addresses(wanted));
        statuses.look_at(differ, *now, |key| found(there, key));
    }

    fn look(&mut self) {
        let World { statuses, there, now } = self;
        statuses.look_at(statuses.all(), *now, |key| found(there, key));
    }

    fn ask(&mut self) -> StatusAsk {
        let World { statuses, there, now } = self;
        statuses.next(*now, |key| found(there, key))
    }

    fn write(&mut self) -> StatusWrite {
        match self.ask() {
            StatusAsk::Write(write) => write,
            other => panic!("nothing is written: {other:?}"),
        }
    }

    /// What is written until there is nothing more to do at once, and carried out; the watch tells of it.
    fn written(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let StatusAsk::Write(write) = self.ask() {
            said.push(format!("{} {} {:?}", write.key.name, write.version, write.addresses));
            let after = format!("{}1", write.version);
            self.there.insert(write.key.clone(), (after.clone(), write.addresses.clone()));
            self.statuses.done(write, Ok(&after), self.now);
        }
        said
    }

    fn put(&mut self, name: &str, version: &str, has: &[&str]) {
        self.there.insert(Key::new("shop", name), (version.to_owned(), addresses(has)));
    }

    /// How long nothing is to be done.
    fn rest(&mut self) -> Option<Duration> {
        match self.ask() {
            StatusAsk::Rest { until } => Some(until - self.now),
            StatusAsk::Nothing => None,
            StatusAsk::Write(write) => panic!("{write:?} is written"),
        }
    }
}

/// What differs when these are served and no others.
fn turned(statuses: &Statuses, names: &[&str]) -> BTreeMap<Key, bool> {
    let no_more = statuses.served.iter().map(|key| (key.clone(), false));
    no_more.chain(names.iter().map(|name| (Key::new("shop", name), true))).collect()
}

fn found<'c>(there: &'c BTreeMap<Key, (String, Addresses)>, key: &Key) -> Option<StatusFound<'c>> {
    there.get(key).map(|(version, addresses)| StatusFound { version, addresses })
}

#[test]
fn what_differs_is_written_once_and_what_is_right_is_not() {
    let mut world = World::of(&["a", "b", "c", "other"]);
    world.put("b", "7", &["203.0.113.2", "203.0.113.1"]);
    world.desire(&["a", "b", "c", "gone"], &["203.0.113.1", "203.0.113.2"]);
    assert_eq!(world.written(), [r#"a 1 ["203.0.113.1", "203.0.113.2"]"#, r#"c 1 ["203.0.113.1", "203.0.113.2"]"#]);
    world.now += OBJECT_EVERY;
    world.look();
    assert_eq!((world.written(), world.statuses.pending()), (vec![], 0));
    world.put("a", "20", &["198.51.100.1"]);
    world.look();
    assert_eq!(world.written(), [r#"a 20 ["203.0.113.1", "203.0.113.2"]"#], "who writes there too is written over");
}

#[test]
fn a_process_that_begins_to_write_where_everything_is_right_writes_nothing() {
    let mut world = World::of(&[]);
    for name in ["a", "b"] {
        world.put(name, "7", &["203.0.113.1"]);
    }
    world.desire(&["a", "b"], &["203.0.113.1"]);
    world.look();
    assert_eq!(world.ask(), StatusAsk::Nothing);
}

#[test]
fn entries_of_an_ingress_that_is_ours_no_more_are_removed_unless_somebody_else_wrote_there() {
    let check = |has: &[&str], expected: &[&str]| {
        let mut world = World::of(&["a"]);
        world.desire(&["a"], &["203.0.113.1"]);
        world.written();
        world.put("a", "20", has);
        world.desire(&[], &["203.0.113.9"]);
        world.now += OBJECT_EVERY;
        assert_eq!(world.written(), expected, "{has:?}");
        world.look();
        assert_eq!((world.written(), world.statuses.left.len()), (vec![], 0), "{has:?}");
    };
    check(&["203.0.113.1"], &["a 20 []"]);
    check(&["198.51.100.1"], &[]);
    check(&[], &[]);
}

#[test]
fn an_ingress_that_comes_back_is_ours_again() {
    let mut world = World::of(&["a"]);
    world.desire(&["a"], &["203.0.113.1"]);
    world.written();
    world.desire(&[], &["203.0.113.1"]);
    world.desire(&["a"], &["203.0.113.1"]);
    world.now += OBJECT_EVERY;
    assert_eq!(world.written(), [""; 0]);
}

#[test]
fn a_storm_of_changes_becomes_one_write_a_second() {
    let mut world = World::of(&["a"]);
    world.desire(&["a"], &["203.0.113.1"]);
    assert_eq!(world.written().len(), 1);
    for last in 2..50 {
        world.desire(&["a"], &[&format!("203.0.113.{last}")]);
        assert_eq!(world.rest(), Some(OBJECT_EVERY));
    }
    world.now += OBJECT_EVERY;
    assert_eq!(world.written(), [r#"a 11 ["203.0.113.49"]"#]);
}

#[test]
fn a_storm_that_ends_where_it_began_becomes_none() {
    let mut world = World::of(&["a"]);
    world.desire(&["a"], &["203.0.113.1"]);
    world.written();
    world.desire(&["a"], &["203.0.113.2"]);
    world.desire(&["a"], &["203.0.113.1"]);
    world.now += OBJECT_EVERY;
    assert_eq!((world.written(), world.statuses.pending()), (vec![], 0));
}

#[test]
fn a_write_that_the_watch_has_not_told_is_known_all_the_same() {
    let mut world = World::of(&["a"]);
    world.desire(&["a"], &["203.0.113.1"]);
    let write = world.write();
    world.statuses.done(write, Ok("2"), world.now);
    world.now += OBJECT_EVERY;
    world.look();
    assert_eq!(world.ask(), StatusAsk::Nothing, "it is still seen in version 1");
    world.desire(&["a"], &["203.0.113.2"]);
    assert_eq!(&*world.write().version, "2", "and it is changed from where it is");
}

#[test]
fn an_ingress_that_stops_being_ours_while_it_is_written_is_not_left_behind() {
    for is_answered in [true, false] {
        let mut world = World::of(&["a"]);
        world.put("a", "2", &["198.51.100.1"]);
        world.desire(&["a"], &["203.0.113.1"]);
        let write = world.write();
        world.desire(&[], &["203.0.113.1"]);
        // What came of it may be lost on the way, or be broken off with the Lease.
        if is_answered {
            world.statuses.done(write, Ok("3"), world.now);
        }
        world.look();
        world.put("a", "3", &["203.0.113.1"]);
        world.look();
        world.now += OBJECT_EVERY;
        assert_eq!(world.written(), ["a 3 []"], "{is_answered}");
        world.look();
        assert_eq!((world.written(), world.statuses.left.len()), (vec![], 0), "{is_answered}");
    }
}

#[test]
fn so_many_are_written_in_a_second() {
    let names: Vec<String> = (0..200).map(|number| format!("a{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::of(&names);
    world.desire(&names, &["203.0.113.1"]);
    assert_eq!(world.written().len(), 100);
    assert_eq!((world.rest(), world.statuses.pending()), (Some(WRITES_EVERY), 100));
    world.now += Duration::from_secs(1);
    assert_eq!(world.written().len(), 20);
}

#[test]
fn an_object_that_cannot_be_written_waits_and_the_others_do_not() {
    let check = |fault: Fault, pauses: &[u64]| {
        let mut world = World::of(&["a", "b"]);
        world.desire(&["a", "b"], &["203.0.113.1"]);
        let write = world.write();
        assert_eq!(&*write.key.name, "a");
        world.statuses.done(write, Err(&fault), world.now);
        assert_eq!(world.written(), [r#"b 1 ["203.0.113.1"]"#], "{fault}");
        for pause in pauses {
            assert_eq!(world.rest().map(|rest| rest.as_secs()), Some(*pause), "{fault}");
            world.now += Duration::from_secs(*pause);
            let write = world.write();
            world.statuses.done(write, Err(&fault), world.now);
        }
    };
    let message = || "said".to_owned();
    check(Fault::Conflict { message: message() }, &[1, 2, 4, 8, 16, 32, 60, 60]);
    check(Fault::Busy { message: message(), retry_after: Some(Duration::from_secs(3)) }, &[3, 3, 4, 8]);
    check(Fault::Forbidden { message: message() }, &[1, 2, 4, 8, 16, 32, 60, PAUSE_MOST.as_secs()]);
}

#[test]
fn only_what_differs_is_looked_at() {
    let check = |before: (&[&str], &[&str]), now: (&[&str], &[&str]), expected: &[&str]| {
        let mut statuses = Statuses::default();
        statuses.desire(turned(&statuses, before.0), addresses(before.1));
        let differ = statuses.desire(turned(&statuses, now.0), addresses(now.1));
        let differ: Vec<String> = differ.iter().map(|key| key.name.to_string()).collect();
        assert_eq!(differ, expected, "{before:?} {now:?}");
    };
    check((&["a", "b"], &["x"]), (&["a", "b"], &["x"]), &[]);
    check((&["a", "b"], &["x"]), (&["b", "c"], &["x"]), &["a", "c"]);
    check((&["a", "b"], &["x"]), (&["b", "c"], &["y"]), &["b", "c", "a"]);
}

#[test]
fn what_was_written_long_ago_is_forgotten() {
    let names: Vec<String> = (0..3000).map(|number| format!("a{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::of(&names);
    world.desire(&names, &["203.0.113.1"]);
    while world.statuses.pending() > 0 {
        world.written();
        world.now += Duration::from_secs(5);
        world.look();
    }
    world.now += OBJECT_EVERY;
    assert_eq!((world.ask(), world.statuses.objects.len()), (StatusAsk::Nothing, 0));
}

#[test]
fn what_is_gone_is_not_written() {
    let mut world = World::of(&["a", "b"]);
    world.desire(&["a", "b"], &["203.0.113.1"]);
    world.there.remove(&Key::new("shop", "b"));
    let write = world.write();
    world.statuses.done(write, Err(&Fault::Missing { message: "gone".to_owned() }), world.now);
    assert_eq!(world.ask(), StatusAsk::Nothing);
}

/// What may happen, by the bytes of a random text, and the promise that holds after it.
struct Storm {
    world: World,
    /// What the server has; `world` knows what the watch has told.
    server: BTreeMap<Key, (u64, Addresses)>,
    served: Vec<&'static str>,
    ever_served: BTreeSet<Key>,
    wanted: Addresses,
    version: u64,
    /// Asked for and not answered so far.
    under_way: Option<StatusWrite>,
}

impl Storm {
    const NAMES: [&'static str; 3] = ["a", "b", "c"];

    fn new() -> Storm {
        let world = World::of(&Storm::NAMES);
        let server = Storm::NAMES.iter().map(|name| (Key::new("shop", name), (1, addresses(&[])))).collect();
        let (served, ever_served) = (Vec::new(), BTreeSet::new());
        Storm { world, server, served, ever_served, wanted: addresses(&[]), version: 1, under_way: None }
    }

    fn happens(&mut self, what: u8) {
        let (what, choice) = (what % 8, what / 8);
        match what {
            0 | 1 => {
                let is_chosen = |number: &usize| choice >> number & 1 == 1;
                self.served = (0..3).filter(is_chosen).map(|number| Storm::NAMES[number]).collect();
                self.ever_served.extend(self.served.iter().map(|name| Key::new("shop", name)));
                let wanted = if what == 0 { "203.0.113.1" } else { "203.0.113.2" };
                self.wanted = addresses(&[wanted]);
                self.world.desire(&self.served.clone(), &[wanted]);
            }
            2 => self.put(Storm::NAMES[usize::from(choice) % 3], addresses(&["198.51.100.1"])),
            3 => self.told(),
            4 => self.world.look(),
            _ => {
                self.world.now += Duration::from_millis(400);
                match self.under_way.take() {
                    Some(write) => self.answer(write, choice % 4 == 0),
                    None => match self.world.ask() {
                        StatusAsk::Write(write) if choice % 2 == 0 => self.under_way = Some(write),
                        StatusAsk::Write(write) => self.answer(write, choice % 4 == 1),
                        StatusAsk::Rest { .. } | StatusAsk::Nothing => {}
                    },
                }
            }
        }
    }

    fn put(&mut self, name: &str, has: Addresses) {
        self.version += 1;
        self.server.insert(Key::new("shop", name), (self.version, has));
    }

    fn answer(&mut self, write: StatusWrite, is_busy: bool) {
        let (version, there) = self.server[&write.key].clone();
        assert!(self.ever_served.contains(&write.key), "{write:?} was never ours");
        if is_busy {
            let fault = Fault::Busy { message: "later".to_owned(), retry_after: None };
            return self.world.statuses.done(write, Err(&fault), self.world.now);
        }
        if version.to_string() != *write.version {
            let fault = Fault::Conflict { message: "newer".to_owned() };
            return self.world.statuses.done(write, Err(&fault), self.world.now);
        }
        assert_ne!(there, write.addresses, "{write:?} changes nothing");
        assert!(!write.addresses.is_empty() || *there != *addresses(&["198.51.100.1"]), "{write:?} is somebody else's");
        self.put(&write.key.name, write.addresses.clone());
        self.world.statuses.done(write, Ok(&self.version.to_string()), self.world.now);
    }

    /// The watch tells what has changed.
    fn told(&mut self) {
        let World { statuses, there, now } = &mut self.world;
        let mut changed = Vec::new();
        for (key, (version, has)) in &self.server {
            let is_now = (version.to_string(), has.clone());
            if there.get(key) != Some(&is_now) {
                there.insert(key.clone(), is_now);
                changed.push(key.clone());
            }
        }
        statuses.look_at(changed, *now, |key| found(there, key));
    }

    fn ends_well(&mut self) {
        if let Some(write) = self.under_way.take() {
            self.answer(write, false);
        }
        for _ in 0..300 {
            self.told();
            self.world.now += Duration::from_secs(1);
            while let StatusAsk::Write(write) = self.world.ask() {
                self.answer(write, false);
            }
        }
        assert_eq!(self.world.statuses.pending(), 0);
        for (key, (_, has)) in &self.server {
            if self.served.contains(&&*key.name) {
                assert_eq!(*has, self.wanted, "{key}");
            } else {
                assert!(!["203.0.113.1", "203.0.113.2"].iter().any(|ours| *has == addresses(&[*ours])), "{key} {has:?}");
            }
        }
    }
}

#[test]
fn whatever_happens_statuses_become_right_and_no_write_is_needless() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut storm = Storm::new();
        bytes.iter().take(200).for_each(|what| storm.happens(*what));
        storm.ends_well();
    });
}
