//! All objects of a cluster as they are now, and what differs when there are news. Pure.

use crate::endpoints::{Absence, Member, members, port_name};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::news::{KindNews, Told};
use crate::object::{EndpointSlice, FetchedSecret, Ingress, IngressClass, Key, PortReference, SecretMeta, Service};
use crate::page::{Found, Unreadable};
use crate::secrets::{Fetch, SecretState, Secrets, Sighting};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// What is known of a cluster.
#[derive(Debug, Default)]
pub struct Cache {
    services: Shelf<Service>,
    slices: Shelf<EndpointSlice>,
    ingresses: Shelf<Ingress>,
    classes: Shelf<IngressClass>,
    /// All Secrets, by their metadata.
    secret_metas: Shelf<SecretMeta>,
    /// Secrets that somebody refers to.
    secrets: Secrets,
    /// Names of the slices of each Service.
    slices_of: HashMap<Key, BTreeSet<Arc<str>>>,
}

/// What differs after news. Empty where they only repeat what is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Services that are themselves others.
    pub services: BTreeSet<Key>,
    /// Services whose servers may be others, those of `services` among them.
    pub endpoints: BTreeSet<Key>,
    pub ingresses: BTreeSet<Key>,
    pub classes: BTreeSet<Key>,
    /// Secrets of those that are wanted.
    pub secrets: BTreeSet<Key>,
}

impl Changes {
    pub fn merge(&mut self, newer: Changes) {
        let Changes { services, endpoints, ingresses, classes, secrets } = newer;
        self.services.extend(services);
        self.endpoints.extend(endpoints);
        self.ingresses.extend(ingresses);
        self.classes.extend(classes);
        self.secrets.extend(secrets);
    }

    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty() && !self.is_of_objects()
    }

    /// Whether more differs than servers.
    pub fn is_of_objects(&self) -> bool {
        let Changes { services, endpoints: _, ingresses, classes, secrets } = self;
        !(services.is_empty() && ingresses.is_empty() && classes.is_empty() && secrets.is_empty())
    }
}

/// How the following of a kind does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindState {
    pub kind: Kind,
    /// Whether a whole list has come.
    pub is_listed: bool,
    pub objects: usize,
    /// Objects that cannot be read, with the reason.
    pub unreadable: BTreeMap<Key, String>,
    /// Why nothing is heard.
    pub fault: Option<Fault>,
    /// When something was heard last.
    pub heard: Option<Instant>,
}

impl Cache {
    /// Takes in news, and says what differs.
    pub fn take_in(&mut self, told: Told, now: Instant) -> Changes {
        let mut changes = Changes::default();
        match told {
            Told::EndpointSlice(news) => return self.take_in_slices(news, now),
            Told::Secret(news) => return self.take_in_secret_metas(news, now),
            Told::Fetched(key, outcome) => self.take_in_fetched(key, outcome, now, &mut changes),
            Told::Service(news) => self.services.take_in(news, now, &mut |key, _, _| {
                changes.services.insert(key.clone());
                changes.endpoints.insert(key.clone());
            }),
            Told::Ingress(news) => self.ingresses.take_in(news, now, &mut |key, _, _| _ = changes.ingresses.insert(key.clone())),
            Told::IngressClass(news) => self.classes.take_in(news, now, &mut |key, _, _| _ = changes.classes.insert(key.clone())),
        }
        changes
    }

    fn take_in_slices(&mut self, news: KindNews<EndpointSlice>, now: Instant) -> Changes {
        let Cache { slices, slices_of, .. } = self;
        let mut changes = Changes::default();
        let service = |key: &Key, slice: Option<&EndpointSlice>| {
            let name = slice.and_then(|slice| slice.service.clone())?;
            Some(Key { namespace: key.namespace.clone(), name })
        };
        slices.take_in(news, now, &mut |key, before, now| {
            let (of_before, of_now) = (service(key, before), service(key, now));
            if of_before != of_now {
                if let Some(names) = of_before.as_ref().and_then(|service| slices_of.get_mut(service)) {
                    names.remove(&key.name);
                }
                if let Some(service) = of_before.as_ref().filter(|service| slices_of.get(service).is_some_and(BTreeSet::is_empty))
                {
                    slices_of.remove(service);
                }
                if let Some(service) = &of_now {
                    slices_of.entry(service.clone()).or_default().insert(key.name.clone());
                }
            }
            changes.endpoints.extend(of_before.into_iter().chain(of_now));
        });
        changes
    }

    fn take_in_secret_metas(&mut self, news: KindNews<SecretMeta>, now: Instant) -> Changes {
        let Cache { secret_metas, secrets, .. } = self;
        let mut changes = Changes::default();
        secret_metas.take_in(news, now, &mut |key, _, now| {
            if secrets.announced(key, now.map(|meta| &*meta.version)) {
                changes.secrets.insert(key.clone());
            }
        });
        if secret_metas.is_closed() {
            secrets.unwatched(now);
        }
        changes
    }

    fn take_in_fetched(&mut self, key: Key, outcome: Result<FetchedSecret, Fault>, now: Instant, changes: &mut Changes) {
        if self.secrets.fetched(&key, outcome, self.is_watching_secrets(), now, rand::random()) {
            changes.secrets.insert(key);
        }
    }

    /// Whether somebody says when a Secret is another.
    fn is_watching_secrets(&self) -> bool {
        self.secret_metas.is_listed && !self.secret_metas.is_closed()
    }

    /// Which Secrets are to be fetched; others are let go.
    pub fn want_secrets(&mut self, wanted: BTreeSet<Key>) {
        self.secrets.want(wanted);
    }

    /// What is known of a Secret that is wanted.
    pub fn secret(&self, key: &Key) -> SecretState {
        self.secrets.state(key)
    }

    /// Whether something is known of every Secret that is wanted.
    pub fn has_answered_for_secrets(&self) -> bool {
        self.secrets.has_answered()
    }

    /// Secrets to be fetched now, `max` at most, and when there are more.
    pub fn take_due_secrets(&mut self, now: Instant, max: usize) -> (Vec<Fetch>, Option<Instant>) {
        let is_watching = self.is_watching_secrets();
        let Cache { secret_metas, secrets, .. } = self;
        let sighting = |key: &Key| match (is_watching, secret_metas.objects.contains_key(key)) {
            (true, true) => Sighting::Present,
            (true, false) => Sighting::Absent,
            (false, _) => Sighting::Unknown,
        };
        (secrets.take_due(now, max, sighting), secrets.rests_until())
    }

    pub fn is_secret_due(&self) -> bool {
        self.secrets.is_due()
    }

    /// A Service by its name.
    pub fn service(&self, key: &Key) -> Option<&Arc<Service>> {
        self.services.objects.get(key).map(|held| &held.object)
    }

    /// The servers of one port of a Service, sorted by address; for a proxy that stands in `zone`.
    pub fn members(&self, service: &Key, port: &PortReference, zone: Option<&str>) -> Result<Vec<Member>, Absence> {
        if !self.services.is_listed || !self.slices.is_listed {
            return Err(Absence::NotListed);
        }
        let found = &self.services.objects.get(service).ok_or(Absence::NoService)?.object;
        if found.external_name.is_some() {
            return Err(Absence::External);
        }
        let port = port_name(found, port).ok_or(Absence::NoPort)?;
        let names = self.slices_of.get(service).into_iter().flatten();
        let key = |name: &Arc<str>| Key { namespace: service.namespace.clone(), name: name.clone() };
        let slices = names.filter_map(|name| self.slices.objects.get(&key(name))).map(|held| &*held.object);
        Ok(members(slices, &port, zone))
    }

    /// An Ingress by its name, with the version of it that is known.
    pub fn ingress(&self, key: &Key) -> Option<(&Arc<Ingress>, &str)> {
        self.ingresses.objects.get(key).map(|held| (&held.object, &*held.version))
    }

    /// All Ingresses, in no order.
    pub fn ingresses(&self) -> impl Iterator<Item = (&Key, &Arc<Ingress>)> {
        self.ingresses.objects.iter().map(|(key, held)| (key, &held.object))
    }

    /// All IngressClasses, in no order.
    pub fn ingress_classes(&self) -> impl Iterator<Item = (&Key, &Arc<IngressClass>)> {
        self.classes.objects.iter().map(|(key, held)| (key, &held.object))
    }

    /// Whether each of these kinds has had its whole list.
    pub fn is_whole(&self, kinds: &[Kind]) -> bool {
        kinds.iter().all(|kind| self.standing(*kind).0)
    }

    /// Why nothing is heard of one of these kinds.
    pub fn fault(&self, kinds: &[Kind]) -> Option<&Fault> {
        kinds.iter().find_map(|kind| self.standing(*kind).1)
    }

    /// Whether a kind has had its whole list, and why nothing is heard of it.
    fn standing(&self, kind: Kind) -> (bool, Option<&Fault>) {
        match kind {
            Kind::Service => self.services.standing(),
            Kind::EndpointSlice => self.slices.standing(),
            Kind::Ingress => self.ingresses.standing(),
            Kind::IngressClass => self.classes.standing(),
            Kind::Secret => self.secret_metas.standing(),
        }
    }

    /// How the following of a kind does.
    pub fn state(&self, kind: Kind) -> KindState {
        match kind {
            Kind::Service => self.services.state(kind),
            Kind::EndpointSlice => self.slices.state(kind),
            Kind::Ingress => self.ingresses.state(kind),
            Kind::IngressClass => self.classes.state(kind),
            Kind::Secret => self.secret_metas.state(kind),
        }
    }
}

/// All objects of one kind.
#[derive(Debug)]
struct Shelf<T> {
    objects: HashMap<Key, Held<T>>,
    unreadable: BTreeMap<Key, String>,
    is_listed: bool,
    fault: Option<Fault>,
    heard: Option<Instant>,
}

#[derive(Debug)]
struct Held<T> {
    version: Box<str>,
    object: Arc<T>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf { objects: HashMap::new(), unreadable: BTreeMap::new(), is_listed: false, fault: None, heard: None }
    }
}

impl<T: PartialEq> Shelf<T> {
    /// `differs` is told of each object that is another than before: what it was, and what it is.
    fn take_in(&mut self, news: KindNews<T>, now: Instant, differs: &mut impl FnMut(&Key, Option<&T>, Option<&T>)) {
        if let KindNews::Fault(fault) = news {
            // A kind that is not there, or may not be seen, has no objects, and nobody waits for it.
            self.fault = Some(fault);
            self.is_listed |= self.is_closed();
            return;
        }
        (self.fault, self.heard) = (None, Some(now));
        match news {
            KindNews::Listed { found, unreadable } => {
                let known: HashSet<&Key> =
                    found.iter().map(|found| &found.key).chain(unreadable.iter().filter_map(|one| one.key.as_ref())).collect();
                let gone: Vec<Key> = self.objects.keys().filter(|key| !known.contains(key)).cloned().collect();
                self.unreadable.clear();
                for key in gone {
                    self.remove(&key, differs);
                }
                for one in found {
                    self.put(one, differs);
                }
                for one in unreadable {
                    self.note_unreadable(one);
                }
                self.is_listed = true;
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
            KindNews::Heard | KindNews::Fault(_) => {}
        }
    }

    fn put(&mut self, Found { key, version, object }: Found<T>, differs: &mut impl FnMut(&Key, Option<&T>, Option<&T>)) {
        match self.objects.get_mut(&key) {
            Some(held) if held.version == version => {}
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

    /// Whether the kind is not there, or may not be seen.
    fn is_closed(&self) -> bool {
        matches!(self.fault, Some(Fault::Missing { .. } | Fault::Forbidden { .. }))
    }

    fn standing(&self) -> (bool, Option<&Fault>) {
        (self.is_listed, self.fault.as_ref())
    }

    fn state(&self, kind: Kind) -> KindState {
        let Shelf { objects, unreadable, is_listed, fault, heard } = self;
        let (unreadable, fault) = (unreadable.clone(), fault.clone());
        KindState { kind, is_listed: *is_listed, objects: objects.len(), unreadable, fault, heard: *heard }
    }
}

#[cfg(test)]
mod tests;
