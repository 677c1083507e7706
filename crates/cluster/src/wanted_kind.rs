//! A kind whose objects are listed by their metadata, and of which those are fetched that somebody refers to. Pure.

use crate::fault::Fault;
use crate::kind::{Kind, Part};
use crate::news::KindNews;
use crate::object::{Fetched, FetchedMeta, Key, Referenced};
use crate::shelf::{Moment, Shelf};
use crate::wanted::{Fetch, Sighting, WantedObjects};
use std::collections::BTreeSet;
use std::time::Instant;
use tidegate_model::discover::Namespaces;

#[derive(Debug)]
pub struct WantedKind<T> {
    /// All that there are.
    pub metas: Shelf<FetchedMeta<T>>,
    /// Objects that somebody refers to.
    pub wanted: WantedObjects<T>,
}

impl<T> Default for WantedKind<T> {
    fn default() -> Self {
        WantedKind { metas: Shelf::default(), wanted: WantedObjects::default() }
    }
}

impl<T: Referenced> WantedKind<T> {
    /// Nothing yet of a cluster of which these namespaces are followed.
    pub fn of(namespaces: &Namespaces) -> WantedKind<T> {
        let kind: Kind = T::KIND;
        WantedKind { metas: Shelf::of(kind.parts(namespaces)), wanted: WantedObjects::default() }
    }

    /// Takes in news of the metadata of a part, and gives those that are wanted and differ by that alone.
    pub fn take_in_metas(&mut self, part: &Part, news: KindNews<FetchedMeta<T>>, moment: Moment) -> BTreeSet<Key> {
        let WantedKind { metas, wanted } = self;
        let (is_fault, has_rewound) = (matches!(news, KindNews::Fault(_)), matches!(news, KindNews::Rewound));
        let is_list = matches!(news, KindNews::Listed { .. });
        let mut differ = BTreeSet::new();
        metas.take_in(part, news, moment, &mut |key, _, now| {
            if wanted.announced(key, now.map(|meta| &*meta.version)) {
                differ.insert(key.clone());
            }
        });
        if is_list {
            wanted.listed();
        }
        if has_rewound {
            wanted.ask_all_again();
        }
        if is_fault {
            wanted.unwatched(moment.now, |key| !metas.is_followed_in(&key.namespace));
        }
        differ
    }

    /// What came of the fetching of one of them, which is given if it differs.
    pub fn take_in_fetched(&mut self, key: Key, outcome: Result<Fetched<T>, Fault>, moment: Moment) -> Option<Key> {
        let is_watched = self.metas.is_followed_in(&key.namespace) || self.wanted.is_watched_by_name(&key);
        self.wanted.fetched(&key, outcome, is_watched, moment, rand::random()).then_some(key)
    }

    /// Whether something is known of every one that is wanted.
    pub fn has_answered(&self) -> bool {
        self.wanted.has_answered(|key| self.metas.is_recalled_in(&key.namespace))
    }

    /// What is to be fetched now, `max` at most, and when there is more.
    pub fn take_due(&mut self, now: Instant, max: usize) -> (Vec<Fetch>, Option<Instant>) {
        let WantedKind { metas, wanted } = self;
        let sighting = |key: &Key| match (metas.is_followed_in(&key.namespace), metas.objects.contains_key(key)) {
            (true, true) => Sighting::Present,
            (true, false) => Sighting::Absent,
            (false, _) => Sighting::Unknown,
        };
        (wanted.take_due(now, max, sighting), wanted.rests_until())
    }
}
