//! All objects of a cluster as they are now, and what differs when there are news. Pure.

use crate::endpoints::{Absence, Member, members, port_name};
use crate::fault::Fault;
use crate::kind::{Kind, Part};
use crate::news::{KindNews, Told};
use crate::object::{ConfigMap, EndpointSlice, Ingress, IngressClass, Key, PortReference, Secret, Service};
use crate::publish::{Publish, addresses};
use crate::shelf::{KindState, Moment, Shelf};
use crate::snapshot::Contents;
use crate::wanted::{ConfigMapState, SecretState};
use crate::wanted_kind::WantedKind;
use crate::watch_named::Turn;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tidegate_model::discover::Namespaces;

/// What is known of a cluster.
#[derive(Debug, Default)]
pub struct Cache {
    services: Shelf<Service>,
    slices: Shelf<EndpointSlice>,
    ingresses: Shelf<Ingress>,
    classes: Shelf<IngressClass>,
    secrets: WantedKind<Secret>,
    config_maps: WantedKind<ConfigMap>,
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
    /// ConfigMaps of those that are wanted.
    pub config_maps: BTreeSet<Key>,
}

impl Changes {
    pub fn merge(&mut self, newer: Changes) {
        let Changes { services, endpoints, ingresses, classes, secrets, config_maps } = newer;
        self.services.extend(services);
        self.endpoints.extend(endpoints);
        self.ingresses.extend(ingresses);
        self.classes.extend(classes);
        self.secrets.extend(secrets);
        self.config_maps.extend(config_maps);
    }

    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty() && !self.is_of_objects()
    }

    /// Whether more differs than servers.
    pub fn is_of_objects(&self) -> bool {
        let Changes { services, endpoints: _, ingresses, classes, secrets, config_maps } = self;
        let of_others = [ingresses, classes, secrets, config_maps];
        !services.is_empty() || of_others.into_iter().any(|keys| !keys.is_empty())
    }
}

impl Cache {
    /// Nothing yet of a cluster of which these namespaces are followed.
    pub fn of(namespaces: &Namespaces) -> Cache {
        let parts = |kind: Kind| kind.parts(namespaces);
        Cache {
            services: Shelf::of(parts(Kind::Service)),
            slices: Shelf::of(parts(Kind::EndpointSlice)),
            ingresses: Shelf::of(parts(Kind::Ingress)),
            classes: Shelf::of(parts(Kind::IngressClass)),
            secrets: WantedKind::of(namespaces),
            config_maps: WantedKind::of(namespaces),
            slices_of: HashMap::new(),
        }
    }

    /// Takes in news of the part that is followed, and says what differs.
    pub fn take_in(&mut self, part: &Part, told: Told, now: Instant) -> Changes {
        let mut changes = Changes::default();
        let moment = Moment { now, has_shown_others: self.has_shown_any() };
        match told {
            Told::EndpointSlice(news) => return self.take_in_slices(part, news, moment),
            Told::Secret(news) => changes.secrets = self.secrets.take_in_metas(part, news, moment),
            Told::ConfigMap(news) => changes.config_maps = self.config_maps.take_in_metas(part, news, moment),
            Told::RecalledSecrets(secrets) => changes.secrets = self.secrets.wanted.recall(secrets),
            Told::RecalledConfigMaps(maps) => changes.config_maps = self.config_maps.wanted.recall(maps),
            Told::FetchedSecret(key, outcome) => changes.secrets.extend(self.secrets.take_in_fetched(key, outcome, moment)),
            Told::FetchedConfigMap(key, outcome) => {
                changes.config_maps.extend(self.config_maps.take_in_fetched(key, outcome, moment));
            }
            Told::Named(key, news) => {
                if self.secrets.wanted.named(&key, news, now) {
                    changes.secrets.insert(key);
                }
            }
            Told::Service(news) => self.services.take_in(part, news, moment, &mut |key, _, _| {
                changes.services.insert(key.clone());
                changes.endpoints.insert(key.clone());
            }),
            Told::Ingress(news) => {
                self.ingresses.take_in(part, news, moment, &mut |key, _, _| _ = changes.ingresses.insert(key.clone()));
            }
            Told::IngressClass(news) => {
                self.classes.take_in(part, news, moment, &mut |key, _, _| _ = changes.classes.insert(key.clone()));
            }
        }
        changes
    }

    fn take_in_slices(&mut self, part: &Part, news: KindNews<EndpointSlice>, moment: Moment) -> Changes {
        let Cache { slices, slices_of, .. } = self;
        let mut changes = Changes::default();
        let service = |key: &Key, slice: Option<&EndpointSlice>| {
            let name = slice.and_then(|slice| slice.service.clone())?;
            Some(Key { namespace: key.namespace.clone(), name })
        };
        slices.take_in(part, news, moment, &mut |key, before, now| {
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

    /// All objects of these kinds, for a snapshot. What may not be seen is empty there too: a process that begins with
    /// it waits for it no more than we do.
    pub fn contents(&self, kinds: &[Kind]) -> Contents {
        Contents {
            kinds: kinds.to_vec(),
            services: self.services.kept(),
            slices: self.slices.kept(),
            ingresses: self.ingresses.kept(),
            classes: self.classes.kept(),
            secrets: self.secrets.wanted.kept(),
            missing_secrets: self.secrets.wanted.missing(),
            config_maps: self.config_maps.wanted.kept(),
            missing_config_maps: self.config_maps.wanted.missing(),
        }
    }

    /// How old the news of these kinds are: when something was heard last of the one that says least, of those that may
    /// be seen. `None` as long as one of them is not listed, or somebody refers to what was not answered for.
    pub fn news_of(&self, kinds: &[Kind]) -> Option<Instant> {
        if !self.has_answered() {
            return None;
        }
        let news_of = |kind: &Kind| match kind {
            Kind::Service => self.services.news_of(),
            Kind::EndpointSlice => self.slices.news_of(),
            Kind::Ingress => self.ingresses.news_of(),
            Kind::IngressClass => self.classes.news_of(),
            Kind::Secret => self.secrets.metas.news_of(),
            Kind::ConfigMap => self.config_maps.metas.news_of(),
        };
        let all = kinds.iter().map(news_of).collect::<Result<Vec<_>, ()>>();
        all.ok()?.into_iter().flatten().min()
    }

    /// Which Secrets are to be fetched; others are let go. Gives those of which something is known at once.
    pub fn want_secrets(&mut self, wanted: BTreeSet<Key>) -> BTreeSet<Key> {
        self.secrets.wanted.want(wanted)
    }

    /// As [`Cache::want_secrets`], of ConfigMaps.
    pub fn want_config_maps(&mut self, wanted: BTreeSet<Key>) -> BTreeSet<Key> {
        self.config_maps.wanted.want(wanted)
    }

    /// As [`Cache::want_secrets`], of those alone that differ.
    pub fn turn_secrets(&mut self, came: BTreeSet<Key>, went: BTreeSet<Key>) -> BTreeSet<Key> {
        self.secrets.wanted.turn(came, went)
    }

    /// Secrets that may not be fetched: how many, and one of them with what the server says.
    pub fn forbidden_secrets(&self) -> Option<(usize, Key, Fault)> {
        self.secrets.wanted.forbidden()
    }

    /// ConfigMaps that may not be fetched, likewise.
    pub fn forbidden_config_maps(&self) -> Option<(usize, Key, Fault)> {
        self.config_maps.wanted.forbidden()
    }

    /// What is known of a Secret that is wanted.
    pub fn secret(&self, key: &Key) -> SecretState {
        self.secrets.wanted.state(key)
    }

    /// What is known of a ConfigMap that is wanted.
    pub fn config_map(&self, key: &Key) -> ConfigMapState {
        self.config_maps.wanted.state(key)
    }

    /// Whether something is known of everything that is wanted.
    pub fn has_answered(&self) -> bool {
        self.secrets.has_answered() && self.config_maps.has_answered()
    }

    /// For whoever fetches them.
    pub fn secrets_mut(&mut self) -> &mut WantedKind<Secret> {
        &mut self.secrets
    }

    /// For whoever fetches them.
    pub fn config_maps_mut(&mut self) -> &mut WantedKind<ConfigMap> {
        &mut self.config_maps
    }

    /// Which watches of single Secrets are to end, and which are to begin, `max` at most.
    pub fn turn_named(&self, is_watched: impl Fn(&Key) -> bool, watched: impl Iterator<Item = Key>, max: usize) -> Turn {
        self.secrets.wanted.turn_named(is_watched, watched, max)
    }

    /// Whether something that is wanted is to be fetched.
    pub fn is_due(&self) -> bool {
        self.secrets.wanted.is_due() || self.config_maps.wanted.is_due()
    }

    /// A Service by its name.
    pub fn service(&self, key: &Key) -> Option<&Arc<Service>> {
        self.services.objects.get(key).map(|held| &held.object)
    }

    /// Whether the endpoint of a pod with this address ends, as far as slices tell: who is sent to by others must not
    /// be gone before they know. `None`: no slice lists it. Several may, and the first that says so counts: the others
    /// come within a moment, and other pods on the address of a node are none of its business.
    pub fn is_leaving(&self, address: IpAddr) -> Option<bool> {
        let endpoints = self.slices.objects.values().flat_map(|held| held.object.endpoints.iter());
        let listed = endpoints.filter(|endpoint| endpoint.address == address);
        listed.map(|endpoint| endpoint.is_terminating).reduce(|one, other| one || other)
    }

    /// The addresses that statuses are to have; `None` is not known, so far.
    pub fn published(&self, publish: &Publish) -> Option<Vec<Box<str>>> {
        match publish {
            Publish::Nothing => None,
            Publish::Addresses(addresses) => Some(addresses.clone()),
            Publish::Service(key) => addresses(self.service(key)?),
        }
    }

    /// The servers of one port of a Service, sorted by address; for a proxy that stands in `zone`.
    pub fn members(&self, service: &Key, port: &PortReference, zone: Option<&str>) -> Result<Vec<Member>, Absence> {
        if !self.services.is_known_in(&service.namespace) || !self.slices.is_known_in(&service.namespace) {
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

    /// The identifier of an object that is there, empty where nobody asks for that of its kind.
    pub fn uid(&self, kind: Kind, key: &Key) -> Option<Box<str>> {
        let is_there = match kind {
            Kind::Ingress => return self.ingresses.objects.get(key).map(|held| held.object.uid.clone()),
            Kind::Service => self.services.objects.contains_key(key),
            Kind::EndpointSlice => self.slices.objects.contains_key(key),
            Kind::IngressClass => self.classes.objects.contains_key(key),
            Kind::Secret => self.secrets.metas.objects.contains_key(key) || matches!(self.secret(key), SecretState::Held(_)),
            Kind::ConfigMap => self.config_maps.metas.objects.contains_key(key),
        };
        is_there.then(Box::default)
    }

    /// All Ingresses, in no order.
    pub fn ingresses(&self) -> impl Iterator<Item = (&Key, &Arc<Ingress>)> {
        self.ingresses.objects.iter().map(|(key, held)| (key, &held.object))
    }

    /// All IngressClasses, in no order.
    pub fn ingress_classes(&self) -> impl Iterator<Item = (&Key, &Arc<IngressClass>)> {
        self.classes.objects.iter().map(|(key, held)| (key, &held.object))
    }

    /// Whether nothing more of these kinds is to be waited for: each has had its whole list, or may do without.
    pub fn is_whole(&self, kinds: &[Kind]) -> bool {
        kinds.iter().all(|kind| self.standing(*kind).0)
    }

    /// Why nothing is heard of one of these kinds.
    pub fn fault(&self, kinds: &[Kind]) -> Option<&Fault> {
        kinds.iter().find_map(|kind| self.standing(*kind).1)
    }

    fn has_shown_any(&self) -> bool {
        let Cache { services, slices, ingresses, classes, secrets, config_maps, slices_of: _ } = self;
        services.is_listed_somewhere()
            || slices.is_listed_somewhere()
            || ingresses.is_listed_somewhere()
            || classes.is_listed_somewhere()
            || secrets.metas.is_listed_somewhere()
            || config_maps.metas.is_listed_somewhere()
    }

    /// Whether nothing more of a kind is to be waited for, and why nothing is heard of it.
    fn standing(&self, kind: Kind) -> (bool, Option<&Fault>) {
        let is_needed = kind.is_needed();
        match kind {
            Kind::Service => (self.services.is_whole(is_needed), self.services.fault()),
            Kind::EndpointSlice => (self.slices.is_whole(is_needed), self.slices.fault()),
            Kind::Ingress => (self.ingresses.is_whole(is_needed), self.ingresses.fault()),
            Kind::IngressClass => (self.classes.is_whole(is_needed), self.classes.fault()),
            Kind::Secret => (self.secrets.metas.is_whole(is_needed), self.secrets.metas.fault()),
            Kind::ConfigMap => (self.config_maps.metas.is_whole(is_needed), self.config_maps.metas.fault()),
        }
    }

    /// How the following of a kind does.
    pub fn state(&self, kind: Kind) -> KindState {
        match kind {
            Kind::Service => self.services.state(kind),
            Kind::EndpointSlice => self.slices.state(kind),
            Kind::Ingress => self.ingresses.state(kind),
            Kind::IngressClass => self.classes.state(kind),
            Kind::Secret => self.secrets.metas.state(kind),
            Kind::ConfigMap => self.config_maps.metas.state(kind),
        }
    }
}

#[cfg(test)]
mod tests;
