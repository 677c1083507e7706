//! The objects of one kind that somebody refers to, as Secrets: what is known of each, and which are to be fetched.
//! Pure: time is given to it, and what is fetched is told.
//!
//! An object is fetched when it is first wanted, and again when its metadata say that it is another. Where nobody says
//! so, because objects may be fetched and not listed, each is fetched again after a while.

use crate::fault::Fault;
use crate::news::NamedNews;
use crate::object::{ConfigMap, Fetched, Key, Secret};
use crate::refusals::Refusals;
use crate::shelf::Moment;
use crate::snapshot::Kept;
use crate::watch_named::Turn;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After the first fault, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MOST: Duration = Duration::from_secs(30);
/// What may not be fetched, or cannot be read, is asked for again after so long at most, and so is what nobody watches.
const ASKED_AGAIN: Duration = Duration::from_secs(60);
/// How often in a row the server has to say that it has no time for an object before nobody waits for that one any
/// more: a minute or two. A Secret that it cannot decrypt is refused so for ever.
const BUSY_BELIEVED: u32 = 8;

/// What is known of a Secret.
pub type SecretState = WantedState<Secret>;
/// What is known of a ConfigMap.
pub type ConfigMapState = WantedState<ConfigMap>;

/// What is known of an object.
#[derive(Debug, PartialEq, Eq)]
pub enum WantedState<T> {
    /// Nobody wants it, or nothing was answered so far.
    Unasked,
    Missing,
    /// Why it could not be fetched, and never was.
    Fault(Fault),
    Held(Arc<T>),
}

impl<T> Clone for WantedState<T> {
    fn clone(&self) -> Self {
        match self {
            WantedState::Unasked => WantedState::Unasked,
            WantedState::Missing => WantedState::Missing,
            WantedState::Fault(fault) => WantedState::Fault(fault.clone()),
            WantedState::Held(object) => WantedState::Held(object.clone()),
        }
    }
}

/// What the metadata say of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighting {
    /// Metadata are not known as a whole, or not at all.
    Unknown,
    Absent,
    Present,
}

/// An object that is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    Ask(Key),
    /// Metadata say that it is not there, so nobody has to be asked.
    Absent(Key),
}

#[derive(Debug)]
pub struct WantedObjects<T> {
    wanted: BTreeMap<Key, Wanted<T>>,
    /// Keys of those that rest, by when that ends.
    resting: BTreeSet<(Instant, Key)>,
    due: BTreeSet<Key>,
    /// Keys of those that were let go while they were fetched: what comes of that is from before.
    let_go: BTreeSet<Key>,
    /// As they were once, until they are wanted; `None` was not there.
    recalled: BTreeMap<Key, Option<Fetched<T>>>,
}

impl<T> Default for WantedObjects<T> {
    fn default() -> Self {
        WantedObjects {
            wanted: BTreeMap::new(),
            resting: BTreeSet::new(),
            due: BTreeSet::new(),
            let_go: BTreeSet::new(),
            recalled: BTreeMap::new(),
        }
    }
}

#[derive(Debug)]
struct Wanted<T> {
    state: WantedState<T>,
    /// The one that `state` is of.
    version: Option<Box<str>>,
    progress: Progress,
    /// Whether a watch of its own tells what happens to it.
    is_watched_by_name: bool,
    /// Since something was answered.
    faults: u32,
    refusals: Refusals,
}

#[derive(Debug)]
enum Progress {
    Due,
    Fetching {
        announced: Announced,
    },
    Resting {
        until: Instant,
    },
    /// Nothing is to be done until the metadata say something else.
    Settled,
}

/// What the metadata have said while an object was fetched.
#[derive(Debug)]
enum Announced {
    Nothing,
    Version(Box<str>),
    Gone,
    /// Let go and wanted again: what comes is of no use, whatever is said of the object.
    Anew,
}

impl<T: PartialEq> WantedObjects<T> {
    /// What is wanted from now on; the others are let go. Gives those of which something is known at once, as
    /// it was once.
    pub fn want(&mut self, keys: BTreeSet<Key>) -> BTreeSet<Key> {
        let went = self.wanted.keys().filter(|key| !keys.contains(key)).cloned().collect();
        self.turn(keys, went)
    }

    /// Wants those that came, and no more those that went. Gives those of which something is known at once, as it was
    /// once.
    pub fn turn(&mut self, came: BTreeSet<Key>, went: BTreeSet<Key>) -> BTreeSet<Key> {
        let WantedObjects { wanted, resting, due, let_go, recalled } = self;
        let mut known = BTreeSet::new();
        for key in went {
            let Some(one) = wanted.remove(&key) else { continue };
            match one.progress {
                Progress::Due => _ = due.remove(&key),
                Progress::Resting { until } => _ = resting.remove(&(until, key)),
                Progress::Fetching { .. } => _ = let_go.insert(key),
                Progress::Settled => {}
            }
        }
        for key in came {
            wanted.entry(key).or_insert_with_key(|key| {
                let progress = if let_go.remove(key) {
                    Progress::Fetching { announced: Announced::Anew }
                } else {
                    due.insert(key.clone());
                    Progress::Due
                };
                let state = recalled.remove(key).map_or(WantedState::Unasked, state_of);
                if state != WantedState::Unasked {
                    known.insert(key.clone());
                }
                Wanted::new(state, progress)
            });
        }
        known
    }

    /// Objects as they were once: each is so until it is fetched. Gives those whose state is another.
    pub fn recall(&mut self, objects: Vec<(Key, Option<Fetched<T>>)>) -> BTreeSet<Key> {
        let mut differ = BTreeSet::new();
        for (key, was) in objects {
            match self.wanted.get_mut(&key) {
                Some(wanted) if matches!(wanted.state, WantedState::Unasked | WantedState::Fault(_)) => {
                    wanted.state = state_of(was);
                    differ.insert(key);
                }
                Some(_) => {}
                None => _ = self.recalled.insert(key, was),
            }
        }
        differ
    }

    /// The server says now what there is: what was recalled and nobody wants is let go, and nobody rests because it was
    /// away.
    pub fn listed(&mut self) {
        self.recalled.clear();
        for (_, key) in std::mem::take(&mut self.resting) {
            if let Some(wanted) = self.wanted.get_mut(&key) {
                wanted.progress = Progress::Due;
                self.due.insert(key);
            }
        }
    }

    /// All that are wanted and were not there when they were asked for.
    pub fn missing(&self) -> Vec<Key> {
        let is_missing = |wanted: &Wanted<T>| wanted.state == WantedState::Missing;
        self.wanted.iter().filter(|(_, wanted)| is_missing(wanted)).map(|(key, _)| key.clone()).collect()
    }

    /// Objects that may not be fetched: how many, and one of them with what the server says.
    pub fn forbidden(&self) -> Option<(usize, Key, Fault)> {
        let mut all = self.wanted.iter().filter_map(|(key, wanted)| match &wanted.state {
            WantedState::Fault(fault @ Fault::Forbidden { .. }) => Some((key, fault)),
            WantedState::Fault(_) | WantedState::Unasked | WantedState::Missing | WantedState::Held(_) => None,
        });
        let (key, fault) = all.next()?;
        Some((all.count() + 1, key.clone(), fault.clone()))
    }

    /// All that are held, with their versions.
    pub fn kept(&self) -> Vec<Kept<T>> {
        let kept = |(key, wanted): (&Key, &Wanted<T>)| match &wanted.state {
            WantedState::Held(object) => {
                let version = wanted.version.clone().unwrap_or_default();
                Some(Kept { key: key.clone(), version, object: object.clone() })
            }
            WantedState::Unasked | WantedState::Missing | WantedState::Fault(_) => None,
        };
        self.wanted.iter().filter_map(kept).collect()
    }

    pub fn state(&self, key: &Key) -> WantedState<T> {
        self.wanted.get(key).map_or(WantedState::Unasked, |wanted| wanted.state.clone())
    }

    /// Whether something is known of every object that is wanted. What may pass by itself is no answer, and that it may
    /// not be seen is one when it was said so often. What is only known as it was once waits for nobody.
    pub fn has_answered(&self, is_recalled: impl Fn(&Key) -> bool) -> bool {
        self.wanted.iter().all(|(key, wanted)| match &wanted.state {
            WantedState::Missing | WantedState::Held(_) => true,
            WantedState::Unasked => is_recalled(key),
            WantedState::Fault(Fault::Forbidden { .. }) => wanted.refusals.are_believed() || is_recalled(key),
            WantedState::Fault(Fault::Busy { .. }) => wanted.faults >= BUSY_BELIEVED || is_recalled(key),
            WantedState::Fault(fault) => is_lasting(fault) || is_recalled(key),
        })
    }

    /// The metadata of an object say that it is of this version, or that it is gone. Gives whether its state is
    /// another.
    pub fn announced(&mut self, key: &Key, version: Option<&str>) -> bool {
        let Some(wanted) = self.wanted.get_mut(key) else { return false };
        match (&mut wanted.progress, version) {
            (Progress::Fetching { announced: Announced::Anew } | Progress::Due, _) => {}
            (Progress::Fetching { announced }, version) => {
                *announced = version.map_or(Announced::Gone, |version| Announced::Version(version.into()));
            }
            (Progress::Resting { .. } | Progress::Settled, version) => {
                let is_known = version.is_some() && wanted.version.as_deref() == version;
                if !is_known {
                    move_to(key, wanted, Progress::Due, &mut self.resting, &mut self.due);
                }
            }
        }
        version.is_none() && std::mem::replace(&mut wanted.state, WantedState::Missing) != WantedState::Missing
    }

    /// What the watch of a single Secret says. Gives whether its state is another.
    pub fn named(&mut self, key: &Key, news: NamedNews, now: Instant) -> bool {
        let WantedObjects { wanted, resting, due, .. } = self;
        let Some(one) = wanted.get_mut(key) else { return false };
        match news {
            NamedNews::Version(version) => return self.announced(key, Some(&version)),
            NamedNews::Gone => return self.announced(key, None),
            NamedNews::Watched => {
                one.is_watched_by_name = true;
                match &mut one.progress {
                    Progress::Due | Progress::Fetching { announced: Announced::Anew | Announced::Version(_) } => {}
                    // What comes may be from before.
                    Progress::Fetching { announced } => *announced = Announced::Version("".into()),
                    Progress::Resting { .. } | Progress::Settled => move_to(key, one, Progress::Due, resting, due),
                }
            }
            NamedNews::Unwatched => {
                one.is_watched_by_name = false;
                if matches!(one.progress, Progress::Settled) {
                    move_to(key, one, Progress::Resting { until: now + ASKED_AGAIN }, resting, due);
                }
            }
        }
        false
    }

    pub fn is_watched_by_name(&self, key: &Key) -> bool {
        self.wanted.get(key).is_some_and(|wanted| wanted.is_watched_by_name)
    }

    /// Which watches of single Secrets are to end, and which are to begin, `max` at most.
    pub fn turn_named(&self, is_watched: impl Fn(&Key) -> bool, watched: impl Iterator<Item = Key>, max: usize) -> Turn {
        let ends: Vec<Key> = watched.filter(|key| !self.wanted.contains_key(key)).collect();
        let max = max + ends.len();
        // Where there is no room nobody looks for more.
        let all = self.wanted.keys().take(if max == 0 { 0 } else { usize::MAX });
        Turn { begins: all.filter(|key| !is_watched(key)).take(max).cloned().collect(), ends }
    }

    /// Versions mean something else than they did.
    pub fn ask_all_again(&mut self) {
        let WantedObjects { wanted, resting, due, .. } = self;
        for (key, wanted) in wanted {
            wanted.version = None;
            match &mut wanted.progress {
                Progress::Due | Progress::Fetching { announced: Announced::Anew } => {}
                // What comes may be from before.
                Progress::Fetching { announced } => *announced = Announced::Version("".into()),
                Progress::Resting { .. } | Progress::Settled => move_to(key, wanted, Progress::Due, resting, due),
            }
        }
    }

    /// Nobody says of some objects any more when they are others.
    pub fn unwatched(&mut self, now: Instant, is_unwatched: impl Fn(&Key) -> bool) {
        let WantedObjects { wanted, resting, due, .. } = self;
        let is_settled = |wanted: &Wanted<T>| matches!(wanted.progress, Progress::Settled);
        for (key, wanted) in wanted.iter_mut().filter(|(key, wanted)| is_settled(wanted) && is_unwatched(key)) {
            move_to(key, wanted, Progress::Resting { until: now + ASKED_AGAIN }, resting, due);
        }
    }

    /// What is to be fetched now, `max` at most. `sighting` says what their metadata say.
    pub fn take_due(&mut self, now: Instant, max: usize, sighting: impl Fn(&Key) -> Sighting) -> Vec<Fetch> {
        let WantedObjects { wanted, resting, due, .. } = self;
        while resting.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, key)) = resting.pop_first() else { break };
            due.insert(key);
        }
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(key) = due.pop_first() else { break };
            let Some(one) = wanted.get_mut(&key) else { continue };
            one.progress = Progress::Fetching { announced: Announced::Nothing };
            taken.push(if sighting(&key) == Sighting::Absent { Fetch::Absent(key) } else { Fetch::Ask(key) });
        }
        taken
    }

    /// When something becomes due that is not.
    pub fn rests_until(&self) -> Option<Instant> {
        self.resting.first().map(|(until, _)| *until)
    }

    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// What came of a fetching. Gives whether the state of the object is another. `is_watched`: its metadata will say
    /// when it is another; `chance` is from 0 to 1.
    pub fn fetched(
        &mut self,
        key: &Key,
        outcome: Result<Fetched<T>, Fault>,
        is_watched: bool,
        moment: Moment,
        chance: f64,
    ) -> bool {
        let WantedObjects { wanted, resting, due, let_go, .. } = self;
        let Some(wanted) = wanted.get_mut(key) else {
            let_go.remove(key);
            return false;
        };
        let Progress::Fetching { announced } = &wanted.progress else { return false };
        let is_void = matches!(announced, Announced::Gone | Announced::Anew);
        let is_outdated = match (announced, &outcome) {
            (Announced::Nothing, _) => false,
            (Announced::Version(newer), Ok(found)) => found.version != *newer,
            (Announced::Version(_), Err(_)) | (Announced::Gone | Announced::Anew, _) => true,
        };
        let pause = match &outcome {
            Ok(_) | Err(Fault::Missing { .. }) => {
                (wanted.faults, wanted.refusals) = (0, Refusals::default());
                (!is_watched).then_some(ASKED_AGAIN)
            }
            Err(fault) => {
                wanted.refusals.note(fault, moment.has_shown_others);
                Some(wanted.pause(fault, chance))
            }
        };
        let next = match pause {
            _ if is_outdated => Progress::Due,
            Some(pause) => Progress::Resting { until: moment.now + pause },
            None => Progress::Settled,
        };
        move_to(key, wanted, next, resting, due);
        // What was fetched before it went, or before it was wanted anew, is no more.
        if is_void { false } else { wanted.take_in(outcome) }
    }
}

impl<T: PartialEq> Wanted<T> {
    fn new(state: WantedState<T>, progress: Progress) -> Wanted<T> {
        Wanted { state, version: None, progress, is_watched_by_name: false, faults: 0, refusals: Refusals::default() }
    }

    fn take_in(&mut self, outcome: Result<Fetched<T>, Fault>) -> bool {
        let state = match (outcome, &self.state) {
            (Ok(Fetched { version, object }), before) => {
                self.version = Some(version);
                match before {
                    WantedState::Held(held) if **held == object => return false,
                    _ => WantedState::Held(Arc::new(object)),
                }
            }
            (Err(Fault::Missing { .. }), _) => {
                self.version = None;
                WantedState::Missing
            }
            // A fault takes nothing away.
            (Err(_), WantedState::Held(_) | WantedState::Missing) => return false,
            (Err(fault), WantedState::Unasked | WantedState::Fault(_)) => WantedState::Fault(fault),
        };
        let differs = self.state != state;
        self.state = state;
        differs
    }

    /// Between half of the pause and all of it, as `course` has it.
    fn pause(&mut self, fault: &Fault, chance: f64) -> Duration {
        let most = if is_lasting(fault) { ASKED_AGAIN } else { PAUSE_MOST };
        let doubled = PAUSE_FIRST.saturating_mul(1 << self.faults.min(10)).min(most);
        self.faults = self.faults.saturating_add(1);
        let pause = doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        let Fault::Busy { retry_after: Some(after), .. } = fault else { return pause };
        pause.max(*after)
    }
}

fn move_to<T>(
    key: &Key,
    wanted: &mut Wanted<T>,
    next: Progress,
    resting: &mut BTreeSet<(Instant, Key)>,
    due: &mut BTreeSet<Key>,
) {
    if let Progress::Resting { until } = wanted.progress {
        resting.remove(&(until, key.clone()));
    }
    match &next {
        Progress::Due => _ = due.insert(key.clone()),
        Progress::Resting { until } => _ = resting.insert((*until, key.clone())),
        Progress::Fetching { .. } | Progress::Settled => {}
    }
    wanted.progress = next;
}

/// What an object is that was so once.
fn state_of<T>(was: Option<Fetched<T>>) -> WantedState<T> {
    was.map_or(WantedState::Missing, |was| WantedState::Held(Arc::new(was.object)))
}

/// Whether asking again soon is of no use: somebody has to change something.
fn is_lasting(fault: &Fault) -> bool {
    match fault {
        Fault::Forbidden { .. } | Fault::Unreadable { .. } | Fault::Refused { .. } | Fault::Missing { .. } => true,
        Fault::NoCluster
        | Fault::NoAccount { .. }
        | Fault::Exposed { .. }
        | Fault::Unasked { .. }
        | Fault::Outbound(_)
        | Fault::Unauthorized { .. }
        | Fault::Gone { .. }
        | Fault::Conflict { .. }
        | Fault::Busy { .. }
        | Fault::LineTooLong { .. } => false,
    }
}

#[cfg(test)]
mod tests;
