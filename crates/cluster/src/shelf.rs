//! All objects of one kind as they are now, and how well they are known. Pure.
//!
//! A kind is followed in parts: as a whole, or in each namespace by itself. A list of one part says nothing of others,
//! and what goes wrong in one takes nothing from the others.

use crate::fault::Fault;
use crate::kind::{Kind, Part};
use crate::news::KindNews;
use crate::object::Key;
use crate::page::{Found, Unreadable};
use crate::refusals::Refusals;
use crate::snapshot::Kept;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// How the following of a kind does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindState {
    pub kind: Kind,
    /// Whether a whole list has come, of every namespace that is followed.
    pub is_listed: bool,
    /// Whether it is only known as it was when a snapshot was written.
    pub is_recalled: bool,
    /// Whether it is not there, or may not be seen: somebody has to change that.
    pub is_closed: bool,
    pub objects: usize,
    /// Objects that cannot be read, with the reason.
    pub unreadable: BTreeMap<Key, String>,
    /// Why nothing is heard, somewhere.
    pub fault: Option<Fault>,
    /// When something was heard last of the part that says least.
    pub heard: Option<Instant>,
}

/// When something is heard.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub now: Instant,
    /// Whether the server has shown any kind of objects by then.
    pub has_shown_others: bool,
}

#[derive(Debug)]
pub struct Shelf<T> {
    pub objects: HashMap<Key, Held<T>>,
    unreadable: BTreeMap<Key, String>,
    parts: BTreeMap<Part, Following>,
}

#[derive(Debug)]
pub struct Held<T> {
    pub version: Box<str>,
    pub object: Arc<T>,
}

/// How the following of one part does.
#[derive(Debug, Default)]
struct Following {
    is_listed: bool,
    /// Whether all of it is known as it was once.
    is_recalled: bool,
    fault: Option<Fault>,
    refusals: Refusals,
    heard: Option<Instant>,
}

impl Following {
    /// Whether the kind is not there, or may not be seen.
    fn is_closed(&self) -> bool {
        self.refusals.are_any()
    }

    fn is_known(&self) -> bool {
        self.is_listed || self.is_recalled
    }

    /// Whether nothing more is to be waited for.
    fn is_settled(&self) -> bool {
        self.is_known() || self.refusals.are_believed()
    }

    fn take_fault(&mut self, fault: Fault, has_shown_others: bool) {
        self.refusals.note(&fault, has_shown_others);
        self.fault = Some(fault);
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf::of([None])
    }
}

impl<T> Shelf<T> {
    /// Of what is followed in these parts.
    pub fn of(parts: impl IntoIterator<Item = Part>) -> Shelf<T> {
        let parts = parts.into_iter().map(|part| (part, Following::default())).collect();
        Shelf { objects: HashMap::new(), unreadable: BTreeMap::new(), parts }
    }

    /// Whether all of a namespace is known, now or as it was once.
    pub fn is_known_in(&self, namespace: &Arc<str>) -> bool {
        self.part_of(namespace).is_some_and(Following::is_known)
    }

    /// Whether some part of it has been listed.
    pub fn is_listed_somewhere(&self) -> bool {
        self.parts.values().any(|part| part.is_listed)
    }

    /// Whether a namespace is only known as it was once.
    pub fn is_recalled_in(&self, namespace: &Arc<str>) -> bool {
        self.part_of(namespace).is_some_and(|part| part.is_recalled && !part.is_listed)
    }

    /// When something was heard last of the part that says least, of those that may be seen. `Err` when one of them has
    /// not been listed.
    pub fn news_of(&self) -> Result<Option<Instant>, ()> {
        let seen = self.parts.values().filter(|part| !part.is_closed());
        seen.map(|part| part.heard.filter(|_| part.is_listed)).try_fold(None, |least: Option<Instant>, heard| {
            let heard = heard.ok_or(())?;
            Ok(Some(least.map_or(heard, |least| least.min(heard))))
        })
    }

    /// Whether what happens in a namespace is told.
    pub fn is_followed_in(&self, namespace: &Arc<str>) -> bool {
        self.part_of(namespace).is_some_and(|part| part.is_listed && !part.is_closed())
    }

    fn part_of(&self, namespace: &Arc<str>) -> Option<&Following> {
        self.parts.get(&None).or_else(|| self.parts.get(&Some(namespace.clone())))
    }

    /// Whether nothing more is to be waited for. Parts that may not be seen are empty. Where a kind is needed, one of
    /// its parts has to be known: a process that would know no server of anything must not look as if it were ready.
    /// That a namespace is gone, with the rights in it, keeps nobody else waiting.
    pub fn is_whole(&self, is_needed: bool) -> bool {
        self.parts.values().all(Following::is_settled) && (!is_needed || self.parts.values().any(Following::is_known))
    }

    pub fn fault(&self) -> Option<&Fault> {
        self.parts.values().find_map(|part| part.fault.as_ref())
    }

    pub fn state(&self, kind: Kind) -> KindState {
        let (parts, heard) = (|| self.parts.values(), |part: &Following| part.heard);
        KindState {
            kind,
            is_listed: parts().all(|part| part.is_listed),
            is_recalled: parts().any(|part| part.is_recalled && !part.is_listed),
            is_closed: parts().any(Following::is_closed),
            objects: self.objects.len(),
            unreadable: self.unreadable.clone(),
            fault: self.fault().cloned(),
            heard: parts().map(heard).min().flatten(),
        }
    }
}

impl<T: PartialEq> Shelf<T> {
    /// `differs` is told of each object that is another than before: what it was, and what it is.
    pub fn take_in(
        &mut self,
        part: &Part,
        news: KindNews<T>,
        moment: Moment,
        differs: &mut impl FnMut(&Key, Option<&T>, Option<&T>),
    ) {
        if let KindNews::Recalled(found) = news {
            return self.recall(found, differs);
        }
        let Some(following) = self.parts.get_mut(part) else { return };
        if let KindNews::Fault(fault) = news {
            following.take_fault(fault, moment.has_shown_others);
            return;
        }
        (following.fault, following.refusals, following.heard) = (None, Refusals::default(), Some(moment.now));
        match news {
            KindNews::Listed { found, unreadable } => {
                following.is_listed = true;
                self.take_list(part, found, unreadable, differs);
            }
            KindNews::Put(found) => {
                self.unreadable.remove(&found.key);
                self.put(found, differs);
            }
            KindNews::Gone(key) => {
                self.unreadable.remove(&key);
                self.remove(&key, differs);
            }
            KindNews::Unreadable(one) => self.note_unreadable(one),
            KindNews::Heard | KindNews::Rewound | KindNews::Fault(_) | KindNews::Recalled(_) => {}
        }
    }

    /// Objects as they were once stand until a list comes: of what is known already they say nothing.
    fn recall(&mut self, found: Vec<Found<T>>, differs: &mut impl FnMut(&Key, Option<&T>, Option<&T>)) {
        for one in found {
            if self.part_of(&one.key.namespace).is_some_and(|part| !part.is_listed) {
                self.put(one, differs);
            }
        }
        for part in self.parts.values_mut() {
            part.is_recalled = true;
        }
    }

    /// All objects, with their versions.
    pub fn kept(&self) -> Vec<Kept<T>> {
        let kept =
            |(key, held): (&Key, &Held<T>)| Kept { key: key.clone(), version: held.version.clone(), object: held.object.clone() };
        self.objects.iter().map(kept).collect()
    }

    fn take_list(
        &mut self,
        part: &Part,
        found: Vec<Found<T>>,
        unreadable: Vec<Unreadable>,
        differs: &mut impl FnMut(&Key, Option<&T>, Option<&T>),
    ) {
        let is_of_part = |key: &Key| part.as_ref().is_none_or(|namespace| key.namespace == *namespace);
        let named = unreadable.iter().filter_map(|one| one.key.as_ref());
        let known: HashSet<&Key> = found.iter().map(|found| &found.key).chain(named).collect();
        let gone: Vec<Key> = self.objects.keys().filter(|key| is_of_part(key) && !known.contains(key)).cloned().collect();
        self.unreadable.retain(|key, _| !is_of_part(key));
        for key in gone {
            self.remove(&key, differs);
        }
        for one in found {
            self.put(one, differs);
        }
        for one in unreadable {
            self.note_unreadable(one);
        }
    }

    /// Objects are compared even if their version is the same: a server that was set back gives its versions again.
    fn put(&mut self, Found { key, version, object }: Found<T>, differs: &mut impl FnMut(&Key, Option<&T>, Option<&T>)) {
        match self.objects.get_mut(&key) {
            Some(held) if *held.object == object => held.version = version,
            Some(held) => {
                differs(&key, Some(&held.object), Some(&object));
                *held = Held { version, object: Arc::new(object) };
            }
            None => {
                differs(&key, None, Some(&object));
                self.objects.insert(key, Held { version, object: Arc::new(object) });
            }
        }
    }

    fn remove(&mut self, key: &Key, differs: &mut impl FnMut(&Key, Option<&T>, Option<&T>)) {
        if let Some(held) = self.objects.remove(key) {
            differs(key, Some(&held.object), None);
        }
    }

    fn note_unreadable(&mut self, Unreadable { key, problem }: Unreadable) {
        let key = key.unwrap_or_else(|| Key::new("", "<an object without a name>"));
        self.unreadable.insert(key, problem);
    }
}
