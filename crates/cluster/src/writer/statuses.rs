//! Which statuses of Ingresses are to be written, and when. Pure: what the cluster has is looked up by its caller, and
//! what came of a write is told.
//!
//! What is written follows from what the cluster has at that moment, not from what it had when something was wanted: a
//! storm of changes becomes one write, and where everything is right there is none.

use super::bucket::Bucket;
use crate::fault::Fault;
use crate::object::Key;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of all objects together: 20 a second, and a hundred after a rest.
const WRITES_EVERY: Duration = Duration::from_millis(50);
const WRITES_AT_ONCE_MAX: u32 = 100;
/// Of one object; and after the first fault of it.
const OBJECT_EVERY: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(60);
/// Writes of one object that the watch has not told: where it is later, the next write meets a conflict.
const UNTOLD_MAX: usize = 16;
/// Addresses that were wanted before: of a load balancer they change once in a while.
const FORMER_MAX: usize = 8;

/// Addresses and names of a load balancer, as a status has them.
pub type Addresses = Arc<[Box<str>]>;

/// An Ingress as the cluster has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusFound<'c> {
    pub version: &'c str,
    pub addresses: &'c [Box<str>],
}

/// A status to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusWrite {
    pub key: Key,
    /// Of the object, so that nothing that came meanwhile is lost.
    pub version: Box<str>,
    /// Empty: it has none any more.
    pub addresses: Addresses,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusAsk {
    Write(StatusWrite),
    Rest { until: Instant },
    Nothing,
}

#[derive(Debug)]
pub struct Statuses {
    served: BTreeSet<Key>,
    addresses: Addresses,
    /// What was wanted last, the newest first: a status that says one of these is ours.
    former: VecDeque<Addresses>,
    /// Ingresses that were ours, and may have a status of ours.
    left: BTreeSet<Key>,
    /// Keys of objects to be looked at, by when.
    queue: BTreeSet<(Instant, Key)>,
    objects: BTreeMap<Key, Written>,
    bucket: Bucket,
}

/// What is remembered of an object that was written, or is to be.
#[derive(Debug)]
struct Written {
    /// When it is looked at, if it is to be.
    due: Option<Instant>,
    /// Not written before.
    not_before: Instant,
    /// Since a write succeeded.
    faults: u32,
    /// The version that a write was asked for of. Until another one is seen, it may be there whatever came of it.
    asked_of: Option<Box<str>>,
    echo: Option<Echo>,
}

/// Writes that the watch has not told so far.
#[derive(Debug)]
struct Echo {
    /// As long as the object is seen in one of these versions, what was written is not.
    before: Vec<Box<str>>,
    version: Box<str>,
    addresses: Addresses,
}

impl Default for Statuses {
    fn default() -> Self {
        Statuses {
            served: BTreeSet::new(),
            addresses: Addresses::default(),
            former: VecDeque::new(),
            left: BTreeSet::new(),
            queue: BTreeSet::new(),
            objects: BTreeMap::new(),
            bucket: Bucket::new(WRITES_EVERY, WRITES_AT_ONCE_MAX),
        }
    }
}

impl Statuses {
    /// The status of Ingresses is to say these addresses from now on, or no more; that of others what it is to say
    /// already, unless the addresses are others. Gives those of which something else is wanted than before, which are
    /// to be looked at.
    pub fn desire(&mut self, turned: BTreeMap<Key, bool>, addresses: Addresses) -> Vec<Key> {
        let mut differ = Vec::new();
        for (key, is_served) in turned {
            let has_turned = if is_served {
                self.left.remove(&key);
                self.served.insert(key.clone())
            } else {
                let was_served = self.served.remove(&key);
                if was_served {
                    self.left.insert(key.clone());
                }
                was_served
            };
            if has_turned {
                differ.push(key);
            }
        }
        if self.addresses == addresses {
            return differ;
        }
        self.former.push_front(std::mem::replace(&mut self.addresses, addresses));
        self.former.truncate(FORMER_MAX);
        self.all()
    }

    /// Everything whose status is ours.
    pub fn all(&self) -> Vec<Key> {
        self.served.iter().chain(&self.left).cloned().collect()
    }

    /// Puts those of these into the queue that are not as they are to be. `find` gives what the cluster has.
    pub fn look_at<'c>(
        &mut self,
        keys: impl IntoIterator<Item = Key>,
        now: Instant,
        find: impl Fn(&Key) -> Option<StatusFound<'c>>,
    ) {
        for key in keys {
            self.look_at_one(key, now, &find);
        }
    }

    fn look_at_one<'c>(&mut self, key: Key, now: Instant, find: &impl Fn(&Key) -> Option<StatusFound<'c>>) {
        let found = find(&key);
        if let Some(written) = self.objects.get_mut(&key) {
            written.see(found.map(|found| found.version));
        }
        self.let_go(&key, found);
        let is_queued = self.objects.get(&key).is_some_and(|written| written.due.is_some());
        if !is_queued && self.plan(&key, find).is_some() {
            let not_before = self.objects.get(&key).map_or(now, |written| written.not_before.max(now));
            self.enqueue(key, not_before);
        }
    }

    /// Who has no status of ours any more, or is gone, is not ours to look after.
    fn let_go(&mut self, key: &Key, found: Option<StatusFound<'_>>) {
        let may_be_written = self.objects.get(key).is_some_and(Written::may_be_untold);
        if !may_be_written && !found.is_some_and(|found| self.is_ours(found.addresses)) {
            self.left.remove(key);
        }
    }

    /// The next write, or how long there is none. It is to be told what came of it.
    pub fn next<'c>(&mut self, now: Instant, find: impl Fn(&Key) -> Option<StatusFound<'c>>) -> StatusAsk {
        loop {
            let Some((due, key)) = self.queue.first().cloned() else {
                self.objects.retain(|_, written| written.may_be_untold() || written.not_before > now);
                return StatusAsk::Nothing;
            };
            if due > now {
                return StatusAsk::Rest { until: due };
            }
            let Some(write) = self.plan(&key, &find) else {
                self.dequeue(&key);
                continue;
            };
            if let Err(until) = self.bucket.take(now) {
                return StatusAsk::Rest { until };
            }
            self.dequeue(&key);
            self.objects.entry(key).or_insert_with(|| Written::new(now)).asked_of = Some(write.version.clone());
            return StatusAsk::Write(write);
        }
    }

    /// What came of a write: the version that the object has now, or why it has none.
    pub fn done(&mut self, write: StatusWrite, outcome: Result<&str, &Fault>, now: Instant) {
        let StatusWrite { key, version, addresses } = write;
        let written = self.objects.entry(key.clone()).or_insert_with(|| Written::new(now));
        written.not_before = now + OBJECT_EVERY;
        match outcome {
            Ok(after) => {
                (written.faults, written.asked_of) = (0, None);
                // A second write may come before the first was told.
                let earlier = written.echo.take().filter(|echo| echo.version == version);
                let mut before = earlier.map(|echo| echo.before).unwrap_or_default();
                before.truncate(UNTOLD_MAX - 1);
                before.insert(0, version);
                written.echo = Some(Echo { before, version: after.into(), addresses });
            }
            // Gone: there is nothing to be written.
            Err(Fault::Missing { .. }) => written.asked_of = None,
            Err(fault) => {
                written.not_before = now + written.pause(fault);
                let not_before = written.not_before;
                self.enqueue(key, not_before);
            }
        }
    }

    /// How many are to be looked at.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// What is to be written of an object, if anything differs.
    fn plan<'c>(&self, key: &Key, find: &impl Fn(&Key) -> Option<StatusFound<'c>>) -> Option<StatusWrite> {
        let found = find(key)?;
        let echo = self.objects.get(key).and_then(|written| written.echo.as_ref());
        let (version, there) = match echo.filter(|echo| echo.is_untold(found.version)) {
            Some(echo) => (&*echo.version, &*echo.addresses),
            None => (found.version, found.addresses),
        };
        let addresses = match (self.served.contains(key), self.left.contains(key)) {
            (true, _) => self.addresses.clone(),
            // What somebody else has written there since is theirs.
            (false, true) if self.is_ours(there) => Addresses::default(),
            (false, _) => return None,
        };
        let write = || StatusWrite { key: key.clone(), version: version.into(), addresses: addresses.clone() };
        (!is_same(there, &addresses)).then(write)
    }

    /// Whether a status says something, and it is what we said.
    fn is_ours(&self, there: &[Box<str>]) -> bool {
        let mut said = std::iter::once(&self.addresses).chain(&self.former);
        !there.is_empty() && said.any(|addresses| is_same(there, addresses))
    }

    fn enqueue(&mut self, key: Key, due: Instant) {
        self.dequeue(&key);
        self.objects.entry(key.clone()).or_insert_with(|| Written::new(due)).due = Some(due);
        self.queue.insert((due, key));
    }

    fn dequeue(&mut self, key: &Key) {
        if let Some(due) = self.objects.get_mut(key).and_then(|written| written.due.take()) {
            self.queue.remove(&(due, key.clone()));
        }
    }
}

impl Echo {
    fn is_untold(&self, version: &str) -> bool {
        self.before.iter().any(|before| **before == *version)
    }
}

impl Written {
    fn new(not_before: Instant) -> Written {
        Written { due: None, not_before, faults: 0, asked_of: None, echo: None }
    }

    /// The object is in this version, or gone.
    fn see(&mut self, version: Option<&str>) {
        // A version from before our own writes says nothing of what came of the last.
        if version.is_some_and(|version| self.echo.as_ref().is_some_and(|echo| echo.is_untold(version))) {
            return;
        }
        self.echo = None;
        self.asked_of.take_if(|asked_of| version != Some(&**asked_of));
    }

    /// Whether the object may have what was written, although it was last seen without.
    fn may_be_untold(&self) -> bool {
        self.asked_of.is_some() || self.echo.is_some()
    }

    fn pause(&mut self, fault: &Fault) -> Duration {
        let doubled = OBJECT_EVERY.saturating_mul(1 << self.faults.min(6)).min(PAUSE_MOST);
        self.faults = self.faults.saturating_add(1);
        // After a conflict the newer version is on its way.
        if let Fault::Busy { retry_after: Some(after), .. } = fault { doubled.max(*after) } else { doubled }
    }
}

/// Whether they are the same addresses, in whatever order.
fn is_same(there: &[Box<str>], wanted: &[Box<str>]) -> bool {
    let sorted = |addresses: &[Box<str>]| addresses.iter().map(|address| (**address).to_owned()).collect::<BTreeSet<String>>();
    there == wanted || (there.len() == wanted.len() && sorted(there) == sorted(wanted))
}

#[cfg(test)]
mod tests;
