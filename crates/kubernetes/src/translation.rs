//! All that objects of a cluster mean at present, and what of it has to be looked at again when some of them change.
//! News cost what differs, and the hosts that this touches.

use crate::class::Classes;
use crate::config_map::KnownConfigMap;
use crate::defaults::Defaults;
use crate::file::OfFile;
use crate::fragment::{Fragment, Meaning};
use crate::global::{Global, GlobalChange, WAITS_MAX};
use crate::graph::Users;
use crate::ingress::translate;
use crate::merge::{Material, Member, MergedHost, Obtained, Surroundings, merge, pool_name, stand_in};
use crate::merged::{Findings, Merged};
use crate::pool::{PoolGround, PortStanding, pool};
use crate::reference::{Age, ServiceAtPort};
use crate::secret::KnownPair;
use crate::settings::{Obtains, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Instant;
use tidegate_cluster::{Absence, Cache, Changes, ConfigMapState, Ingress, Key, PortReference, SecretState};
use tidegate_model::{Configuration, HostPattern, Pool};

/// What the objects mean together.
#[derive(Debug)]
pub struct Translation {
    pub(crate) settings: Settings,
    pub(crate) classes: Classes,
    pub(crate) ingresses: BTreeMap<Key, KnownIngress>,
    /// Ingresses that wait for what they refer to.
    waiting: BTreeSet<Key>,
    pub(crate) hosts: BTreeMap<HostPattern, KnownHost>,
    pub(crate) ports: BTreeMap<ServiceAtPort, KnownPort>,
    pub(crate) port_users: Users<ServiceAtPort>,
    /// Ports that nobody refers to any more, unless somebody has begun to again.
    idle_ports: BTreeSet<ServiceAtPort>,
    pub(crate) pairs: BTreeMap<Key, KnownPair>,
    secret_users: Users<Key>,
    wanted_secrets: BTreeSet<Key>,
    pub(crate) maps: BTreeMap<Key, KnownConfigMap>,
    map_users: Users<Key>,
    /// ConfigMaps that are wanted, whether Ingresses refer to them or not.
    wanted_maps: BTreeSet<Key>,
    pub(crate) global: Global,
    /// Secrets that began to be wanted, or ceased to.
    turned_secrets: BTreeSet<Key>,
    pub(crate) findings: Findings,
    /// Hosts whose certificates are obtained, by the Secret that is to have them.
    obtained: BTreeMap<Key, BTreeMap<HostPattern, Key>>,
    /// What is served, as long as nothing of it is another.
    pub(crate) merged: Option<Merged>,
    /// Hosts that have to be merged again.
    touched: BTreeSet<HostPattern>,
    of_file: OfFile,
    work: Work,
}

/// A Secret that is to have a certificate that is obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObtainedSecret<'t> {
    pub secret: &'t Key,
    /// Of the certificate.
    pub name: &'t str,
    /// The Ingress that asks for it.
    pub owner: &'t Key,
}

/// How much was done so far, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Ingresses that were read.
    pub ingresses: u64,
    /// Hosts whose sites were put together.
    pub hosts: u64,
    /// Ports of Services that were looked up.
    pub ports: u64,
}

/// An Ingress of ours.
#[derive(Debug)]
pub struct KnownIngress {
    age: Age,
    /// What it was read from. `None`: all of it waits.
    object: Option<Arc<Ingress>>,
    pub meaning: Arc<Meaning>,
    waiting: Option<Waiting>,
    pub ports: BTreeSet<ServiceAtPort>,
    /// Secrets of its meaning, and of the one that waits.
    secrets: BTreeSet<Key>,
    /// ConfigMaps, likewise.
    maps: BTreeSet<Key>,
    /// What held when it was read.
    defaults: Arc<Defaults>,
}

/// A meaning that is not in force so far.
#[derive(Debug)]
struct Waiting {
    object: Arc<Ingress>,
    meaning: Arc<Meaning>,
    since: Instant,
}

#[derive(Debug, Default)]
pub struct KnownHost {
    members: BTreeMap<Age, Arc<Fragment>>,
    pub merged: MergedHost,
}

/// A port of a Service that somebody refers to.
#[derive(Debug)]
pub struct KnownPort {
    pub standing: PortStanding,
    pub pool: Arc<Pool>,
    /// How many hosts lead to it.
    pub hosts: usize,
}

impl Translation {
    pub fn new(settings: Settings) -> Translation {
        let global = Global::new(&settings);
        let wanted_maps = global.wanted(&settings);
        let maps = wanted_maps.iter().map(|key| (key.clone(), KnownConfigMap::default())).collect();
        Translation {
            settings,
            maps,
            map_users: Users::default(),
            wanted_maps,
            global,
            classes: Classes::default(),
            ingresses: BTreeMap::new(),
            waiting: BTreeSet::new(),
            hosts: BTreeMap::new(),
            ports: BTreeMap::new(),
            port_users: Users::default(),
            idle_ports: BTreeSet::new(),
            pairs: BTreeMap::new(),
            secret_users: Users::default(),
            wanted_secrets: BTreeSet::new(),
            turned_secrets: BTreeSet::new(),
            findings: Findings::default(),
            obtained: BTreeMap::new(),
            merged: None,
            // What no Ingress names is answered from the beginning.
            touched: [HostPattern::Any].into(),
            of_file: OfFile::default(),
            work: Work::default(),
        }
    }

    /// Takes in what differs since the last time; without `changes` everything is looked at. Says when to ask again:
    /// an object that begins to refer to one that is not known yet keeps its old meaning for a moment.
    pub fn take_in(&mut self, cache: &Cache, changes: Option<&Changes>, now: Instant) -> Option<Instant> {
        self.look_at_secrets(cache, changes);
        let is_other_for_all = self.look_at_maps(cache, changes, now);
        self.look_at_ports(cache, changes);
        for key in self.differing_ingresses(cache, changes.filter(|_| !is_other_for_all)) {
            // Whoever looks at everything knows everything.
            self.look_at_ingress(&key, cache, changes.map(|_| now));
        }
        self.look_at_waiting(cache, now);
        self.merge_touched();
        let waiting = self.waiting.iter().filter_map(|key| self.ingresses.get(key)?.waiting.as_ref());
        waiting.map(|waiting| waiting.since + WAITS_MAX).chain(self.global.due_at()).min()
    }

    pub fn work(&self) -> Work {
        self.work
    }

    /// Secrets that objects of ours refer to.
    pub fn wanted_secrets(&self) -> &BTreeSet<Key> {
        &self.wanted_secrets
    }

    /// ConfigMaps that objects of ours and the settings refer to.
    pub fn wanted_config_maps(&self) -> &BTreeSet<Key> {
        &self.wanted_maps
    }

    /// Secrets that objects of ours have begun to refer to, and those that nobody refers to any more, since this was
    /// last asked.
    pub fn turn_secrets(&mut self) -> (BTreeSet<Key>, BTreeSet<Key>) {
        mem::take(&mut self.turned_secrets).into_iter().partition(|key| self.wanted_secrets.contains(key))
    }

    /// Whether anything is obtained from a CA.
    pub fn obtains(&self) -> bool {
        self.settings.obtains != Obtains::Nothing
    }

    /// Secrets that are to have a certificate that is obtained. Each certificate is for one name, so that a Secret of
    /// several hosts is none of them.
    pub fn obtained(&self) -> impl Iterator<Item = ObtainedSecret<'_>> {
        self.obtained.iter().filter_map(|(secret, hosts)| match hosts.iter().next() {
            Some((HostPattern::Exact(name), owner)) if hosts.len() == 1 => Some(ObtainedSecret { secret, name, owner }),
            Some(_) | None => None,
        })
    }

    /// Has what a file serves itself go first.
    pub(crate) fn stand_beside(&mut self, file: &Configuration) {
        let mut of_file = OfFile::new(file, &self.settings);
        of_file.trusts_scheme |= self.global.process.trusts_scheme;
        if of_file == self.of_file {
            return;
        }
        let before = mem::replace(&mut self.of_file, of_file);
        let are_names_others = before.pools != self.of_file.pools;
        let is_all = are_names_others || before.trusts_scheme != self.of_file.trusts_scheme;
        let differs = |host: &&HostPattern| is_all || before.taken(host) != self.of_file.taken(host);
        self.touched.extend(self.hosts.keys().filter(differs).cloned());
        if are_names_others {
            for (reference, port) in &mut self.ports {
                let name = pool_name(reference, &self.of_file.pools);
                if port.pool.name != name {
                    self.merged = None;
                    port.pool = Arc::new(Pool { name, ..(*port.pool).clone() });
                }
            }
        }
        self.merge_touched();
    }

    fn look_at_secrets(&mut self, cache: &Cache, changes: Option<&Changes>) {
        if let Some(key) = self.settings.default_certificate.clone() {
            self.want_secret(&key, cache);
        }
        let keys: Vec<Key> = match changes {
            None => self.pairs.keys().cloned().collect(),
            Some(changes) => changes.secrets.iter().cloned().collect(),
        };
        for key in keys {
            let Some(known) = self.pairs.get_mut(&key) else { continue };
            if known.take_in(&cache.secret(&key)) {
                self.touch_users_of_secret(&key);
            }
        }
    }

    fn touch_users_of_secret(&mut self, key: &Key) {
        if self.settings.default_certificate.as_ref() == Some(key) {
            self.touched.extend(self.hosts.keys().cloned());
        }
        let mut ports = Vec::new();
        for user in self.secret_users.of(key) {
            let Some(known) = self.ingresses.get(user) else { continue };
            ports.extend(known.ports.iter().filter(|reference| reference.secret() == Some(key)).cloned());
            let claims = |fragment: &Fragment| fragment.secrets().any(|secret| secret == key);
            let hosts = known.meaning.hosts.iter().filter(|(_, fragment)| claims(fragment));
            self.touched.extend(hosts.map(|(host, _)| host.clone()));
        }
        for reference in &ports {
            self.make_pool_again(reference);
        }
    }

    /// Gives whether something else holds for all Ingresses.
    fn look_at_maps(&mut self, cache: &Cache, changes: Option<&Changes>, now: Instant) -> bool {
        let keys: Vec<Key> = match changes {
            None => self.maps.keys().cloned().collect(),
            Some(changes) => changes.config_maps.iter().cloned().collect(),
        };
        for key in keys {
            let Some(known) = self.maps.get_mut(&key) else { continue };
            if !known.take_in(&cache.config_map(&key)) {
                continue;
            }
            if self.global.has_fields_in(&key) {
                self.touched.extend(self.hosts.keys().cloned());
            }
            for user in self.map_users.of(&key) {
                let Some(known) = self.ingresses.get(user) else { continue };
                let refers = |fragment: &Fragment| fragment.config_maps().any(|map| *map == key);
                let hosts = known.meaning.hosts.iter().filter(|(_, fragment)| refers(fragment));
                self.touched.extend(hosts.map(|(host, _)| host.clone()));
            }
        }
        let tcp_before: Vec<ServiceAtPort> = self.tcp_references();
        let GlobalChange { defaults, keep_alive, tcp } = self.global.look_at(&self.settings, &self.maps, changes.map(|_| now));
        if defaults {
            self.keep_wanted_maps(cache);
        }
        let is_other_for_all = self.global.put_in_force(&self.maps, now);
        if is_other_for_all {
            self.touched.insert(HostPattern::Any);
            self.keep_wanted_maps(cache);
        }
        if keep_alive {
            for reference in self.ports.keys().cloned().collect::<Vec<_>>() {
                self.make_pool_again(&reference);
            }
        }
        if tcp {
            self.move_tcp(&tcp_before, cache);
        }
        is_other_for_all
    }

    fn tcp_references(&self) -> Vec<ServiceAtPort> {
        self.global.tcp.values().map(|service| service.to.clone()).collect()
    }

    /// Has pools of TCP services be there for as long as one of their ports is.
    fn move_tcp(&mut self, before: &[ServiceAtPort], cache: &Cache) {
        self.merged = None;
        for reference in self.tcp_references() {
            self.know_port(reference.clone(), cache);
            if let Some(port) = self.ports.get_mut(&reference) {
                port.hosts += 1;
            }
        }
        for reference in before {
            if let Some(port) = self.ports.get_mut(reference) {
                port.hosts = port.hosts.saturating_sub(1);
            }
            self.idle_ports.insert(reference.clone());
        }
    }

    /// Wants what is referred to, and nothing else.
    fn keep_wanted_maps(&mut self, cache: &Cache) {
        let mut wanted = self.global.wanted(&self.settings);
        wanted.extend(self.ingresses.values().flat_map(|known| known.maps.iter().cloned()));
        self.maps.retain(|key, _| wanted.contains(key));
        for key in &wanted {
            self.maps.entry(key.clone()).or_insert_with(|| {
                let mut known = KnownConfigMap::default();
                known.take_in(&cache.config_map(key));
                known
            });
        }
        self.wanted_maps = wanted;
    }

    fn want_secret(&mut self, key: &Key, cache: &Cache) {
        if self.wanted_secrets.insert(key.clone()) {
            self.turned_secrets.insert(key.clone());
            let mut known = KnownPair::default();
            known.take_in(&cache.secret(key));
            self.pairs.insert(key.clone(), known);
        }
    }

    fn look_at_ports(&mut self, cache: &Cache, changes: Option<&Changes>) {
        if let Some((service, port)) = self.settings.default_backend.clone() {
            self.know_port(ServiceAtPort { service, port, manner: None }, cache);
        }
        let references: Vec<ServiceAtPort> = match changes {
            None => self.ports.keys().cloned().collect(),
            Some(changes) => changes.services.iter().flat_map(|service| self.ports_of(service)).cloned().collect(),
        };
        for reference in references {
            let Some(known) = self.ports.get_mut(&reference) else { continue };
            self.work.ports += 1;
            let standing = PortStanding::of(&reference, cache);
            if known.standing != standing {
                known.standing = standing;
                self.findings.unsettled.extend(self.port_users.of(&reference).cloned());
                self.make_pool_again(&reference);
            }
        }
    }

    fn make_pool_again(&mut self, reference: &ServiceAtPort) {
        let Translation { settings, ports, pairs, merged, global, .. } = self;
        let Some(known) = ports.get_mut(reference) else { return };
        let secret = reference.secret().and_then(|key| pairs.get(key));
        let ground = PoolGround { settings, standing: &known.standing, secret, keep_alive: &global.keep_alive };
        let renewed = pool(known.pool.name.clone(), reference, ground);
        if *known.pool != renewed {
            *merged = None;
            known.pool = Arc::new(renewed);
        }
    }

    fn ports_of<'t>(&'t self, service: &'t Key) -> impl Iterator<Item = &'t ServiceAtPort> {
        let first = ServiceAtPort { service: service.clone(), port: PortReference::Number(0), manner: None };
        self.ports.range(first..).map(|(reference, _)| reference).take_while(move |reference| reference.service == *service)
    }

    fn know_port(&mut self, reference: ServiceAtPort, cache: &Cache) {
        self.idle_ports.remove(&reference);
        let Translation { settings, ports, pairs, of_file, work, global, .. } = self;
        ports.entry(reference).or_insert_with_key(|reference| {
            work.ports += 1;
            let standing = PortStanding::of(reference, cache);
            let secret = reference.secret().and_then(|key| pairs.get(key));
            let ground = PoolGround { settings, standing: &standing, secret, keep_alive: &global.keep_alive };
            let pool = pool(pool_name(reference, &of_file.pools), reference, ground);
            KnownPort { standing, pool: Arc::new(pool), hosts: 0 }
        });
    }

    fn differing_ingresses(&mut self, cache: &Cache, changes: Option<&Changes>) -> BTreeSet<Key> {
        let is_any_class = changes.is_none_or(|changes| !changes.classes.is_empty());
        if is_any_class {
            let classes = cache.ingress_classes().map(|(key, class)| (&key.name, &**class));
            self.classes = Classes::new(classes, &self.settings);
        }
        match changes {
            Some(changes) if !is_any_class => changes.ingresses.clone(),
            Some(_) | None => cache.ingresses().map(|(key, _)| key).chain(self.ingresses.keys()).cloned().collect(),
        }
    }

    /// `waits_from`: it may wait for what it refers to, from that moment on.
    fn look_at_ingress(&mut self, key: &Key, cache: &Cache, waits_from: Option<Instant>) {
        let found = cache.ingress(key).map(|(ingress, _)| ingress);
        let class = found.and_then(|ingress| Some((ingress, self.classes.of(ingress, &self.settings)?)));
        let Some((object, class)) = class else { return self.forget_ingress(key) };
        let defaults = self.global.defaults(class, &self.settings).clone();
        let known = self.ingresses.get(key);
        if known.is_some_and(|known| known.waiting.is_none() && known.is_read_from(object, &defaults)) {
            return;
        }
        self.work.ingresses += 1;
        let meaning = translate(key, object, &self.settings, &defaults);
        // What holds for all of them is in force at once: an Ingress that protects by it may not go on without.
        let waits_from = waits_from.filter(|_| known.is_none_or(|known| Arc::ptr_eq(&known.defaults, &defaults)));
        let waits = known.and_then(|known| known.waiting.as_ref()).map(|waiting| waiting.since).or(waits_from);
        match waits {
            Some(since) if waits_from.is_some() && lacks_something(&meaning, known.map(|known| &*known.meaning), cache) => {
                let waiting = Waiting { object: object.clone(), meaning: Arc::new(meaning), since };
                self.have_wait(key, waiting, cache);
            }
            Some(_) | None => self.put_in_force(key, object, Arc::new(meaning), cache),
        }
        if let Some(known) = self.ingresses.get_mut(key) {
            known.defaults = defaults;
        }
    }

    fn look_at_waiting(&mut self, cache: &Cache, now: Instant) {
        for key in self.waiting.clone() {
            let Some(known) = self.ingresses.get_mut(&key) else { continue };
            let Some(waiting) = &known.waiting else { continue };
            if now >= waiting.since + WAITS_MAX || !lacks_something(&waiting.meaning, Some(&known.meaning), cache) {
                let (object, meaning) = (waiting.object.clone(), waiting.meaning.clone());
                self.put_in_force(&key, &object, meaning, cache);
            }
        }
    }

    fn have_wait(&mut self, key: &Key, waiting: Waiting, cache: &Cache) {
        let mut known = self.take_ingress(key, &waiting.object);
        known.waiting = Some(waiting);
        self.waiting.insert(key.clone());
        self.hold(key, known, cache);
    }

    fn put_in_force(&mut self, key: &Key, object: &Arc<Ingress>, meaning: Arc<Meaning>, cache: &Cache) {
        let mut known = self.take_ingress(key, object);
        self.waiting.remove(key);
        known.waiting = None;
        known.object = Some(object.clone());
        let age = age_of(key, object);
        let before = mem::replace(&mut known.age, age.clone());
        let left = mem::replace(&mut known.meaning, meaning);
        self.move_members(&before, &left, &age, &known.meaning);
        self.hold(key, known, cache);
    }

    fn forget_ingress(&mut self, key: &Key) {
        let Some(known) = self.ingresses.remove(key) else { return };
        self.waiting.remove(key);
        self.findings.unsettled.insert(key.clone());
        self.findings.to_tell.served.insert(key.clone());
        self.move_members(&known.age, &known.meaning, &known.age, &Meaning::default());
        let turnover = self.secret_users.turn(key, &known.secrets, &BTreeSet::new());
        self.let_go_of_secrets(turnover.went);
        let turnover = self.map_users.turn(key, &known.maps, &BTreeSet::new());
        self.let_go_of_maps(turnover.went);
        self.idle_ports.extend(self.port_users.turn(key, &known.ports, &BTreeSet::new()).went);
    }

    /// The Ingress as it is known, or as one that means nothing so far.
    fn take_ingress(&mut self, key: &Key, object: &Ingress) -> KnownIngress {
        self.ingresses.remove(key).unwrap_or_else(|| {
            self.findings.to_tell.served.insert(key.clone());
            KnownIngress {
                age: age_of(key, object),
                object: None,
                meaning: Arc::default(),
                waiting: None,
                ports: BTreeSet::new(),
                secrets: BTreeSet::new(),
                maps: BTreeSet::new(),
                defaults: Arc::default(),
            }
        })
    }

    /// Has the Ingress known as it is now, with what it refers to.
    fn hold(&mut self, key: &Key, mut known: KnownIngress, cache: &Cache) {
        let meanings = [Some(&known.meaning), known.waiting.as_ref().map(|waiting| &waiting.meaning)];
        let secrets: BTreeSet<Key> = meanings.into_iter().flatten().flat_map(|meaning| meaning.secrets()).cloned().collect();
        let meanings = [Some(&known.meaning), known.waiting.as_ref().map(|waiting| &waiting.meaning)];
        let maps: BTreeSet<Key> = meanings.into_iter().flatten().flat_map(|meaning| meaning.config_maps()).cloned().collect();
        let ports: BTreeSet<ServiceAtPort> = known.meaning.references().map(|(reference, _)| reference.clone()).collect();
        let turnover = self.secret_users.turn(key, &known.secrets, &secrets);
        turnover.came.iter().for_each(|secret| self.want_secret(secret, cache));
        self.let_go_of_secrets(turnover.went);
        let turnover = self.map_users.turn(key, &known.maps, &maps);
        turnover.came.iter().for_each(|map| self.want_map(map, cache));
        self.let_go_of_maps(turnover.went);
        let turnover = self.port_users.turn(key, &known.ports, &ports);
        turnover.came.into_iter().for_each(|reference| self.know_port(reference, cache));
        self.idle_ports.extend(turnover.went);
        (known.secrets, known.ports, known.maps) = (secrets, ports, maps);
        self.findings.unsettled.insert(key.clone());
        self.ingresses.insert(key.clone(), known);
    }

    fn want_map(&mut self, key: &Key, cache: &Cache) {
        if self.wanted_maps.insert(key.clone()) {
            let mut known = KnownConfigMap::default();
            known.take_in(&cache.config_map(key));
            self.maps.insert(key.clone(), known);
        }
    }

    fn let_go_of_maps(&mut self, keys: Vec<Key>) {
        let kept = self.global.wanted(&self.settings);
        for key in keys.into_iter().filter(|key| !kept.contains(key)) {
            self.wanted_maps.remove(&key);
            self.maps.remove(&key);
        }
    }

    fn let_go_of_secrets(&mut self, keys: Vec<Key>) {
        for key in keys {
            if self.settings.default_certificate.as_ref() != Some(&key) {
                if self.wanted_secrets.remove(&key) {
                    self.turned_secrets.insert(key.clone());
                }
                self.pairs.remove(&key);
            }
        }
    }

    /// Has hosts know what an Ingress says of them.
    fn move_members(&mut self, age_before: &Age, before: &Meaning, age: &Age, now: &Meaning) {
        for (host, fragment) in &before.hosts {
            let is_same = age_before == age && now.hosts.get(host) == Some(fragment);
            if !is_same {
                self.touched.insert(host.clone());
                if let Some(known) = self.hosts.get_mut(host) {
                    known.members.remove(age_before);
                }
            }
        }
        for (host, fragment) in &now.hosts {
            let is_same = age_before == age && before.hosts.get(host) == Some(fragment);
            if !is_same {
                self.touched.insert(host.clone());
                self.hosts.entry(host.clone()).or_default().members.insert(age.clone(), fragment.clone());
            }
        }
    }

    fn merge_touched(&mut self) {
        let touched = self.touched.iter().filter_map(|host| self.hosts.get(host));
        let stand_ins = touched.flat_map(|known| known.members.values()).flat_map(|fragment| &fragment.stand_ins);
        let stand_ins: Vec<HostPattern> = stand_ins.cloned().collect();
        self.touched.extend(stand_ins);
        for host in mem::take(&mut self.touched) {
            self.work.hosts += 1;
            let mut merged = self.merged_host(&host);
            let is_wanted = merged.is_some();
            self.merged = None;
            self.findings.found(&host, merged.as_mut().map(|merged| mem::take(&mut merged.findings)).unwrap_or_default());
            let known = self.hosts.entry(host.clone()).or_default();
            let obtained_before = known.merged.obtained.clone();
            let before = known.replace(merged.unwrap_or_default());
            let (now, obtained) = (known.merged.pools.clone(), known.merged.obtained.clone());
            if !is_wanted {
                self.hosts.remove(&host);
            }
            self.recount(&before, &now);
            if obtained != obtained_before {
                self.note_obtained(&host, obtained_before, obtained);
            }
        }
        let kept = self.settings.default_backend.clone().map(|(service, port)| ServiceAtPort { service, port, manner: None });
        for reference in mem::take(&mut self.idle_ports) {
            let is_of_tcp = self.global.tcp.values().any(|service| service.to == reference);
            if !self.port_users.has(&reference) && kept.as_ref() != Some(&reference) && !is_of_tcp {
                self.ports.remove(&reference);
            }
        }
    }

    /// `None`: nobody says anything of the host.
    fn merged_host(&self, host: &HostPattern) -> Option<MergedHost> {
        let Translation { settings, hosts, pairs, maps, of_file, global, .. } = self;
        let known = hosts.get(host);
        let members: Vec<Member<'_>> = known.into_iter().flat_map(KnownHost::all).collect();
        if members.is_empty() && *host != HostPattern::Any {
            return None;
        }
        let around = Surroundings {
            settings,
            known: Material { pairs, maps },
            sites: &global.of_nobody(settings).sites,
            pools_taken: &of_file.pools,
            trusts_scheme: of_file.trusts_scheme,
        };
        let is_no_rule = |member: &Member<'_>| !member.fragment.stands_for.is_empty() || member.fragment.manner.canary.is_some();
        if *host == HostPattern::Any || !members.iter().all(is_no_rule) {
            return Some(merge(host, &members, of_file.taken(host), around));
        }
        let claims: Vec<Member<'_>> = members.iter().filter(|member| !member.fragment.stands_for.is_empty()).copied().collect();
        if claims.is_empty() {
            return Some(merge(host, &members, of_file.taken(host), around));
        }
        let members_of = |of: &HostPattern| {
            let all = hosts.get(of).into_iter().flat_map(KnownHost::all);
            all.filter(|member| member.fragment.stands_for.is_empty()).collect()
        };
        Some(stand_in(host, &claims, &members_of, &|host| of_file.taken(host), around))
    }

    fn note_obtained(&mut self, host: &HostPattern, before: Option<Obtained>, now: Option<Obtained>) {
        if let Some(secret) = before.and_then(|before| before.secret)
            && let Some(hosts) = self.obtained.get_mut(&secret)
        {
            hosts.remove(host);
            if hosts.is_empty() {
                self.obtained.remove(&secret);
            }
        }
        if let Some(Obtained { owner, secret: Some(secret) }) = now {
            self.obtained.entry(secret).or_default().insert(host.clone(), owner);
        }
    }

    fn recount(&mut self, before: &BTreeSet<ServiceAtPort>, now: &BTreeSet<ServiceAtPort>) {
        for reference in before.difference(now) {
            if let Some(port) = self.ports.get_mut(reference) {
                port.hosts = port.hosts.saturating_sub(1);
            }
        }
        for reference in now.difference(before) {
            if let Some(port) = self.ports.get_mut(reference) {
                port.hosts += 1;
            }
        }
    }
}

impl KnownIngress {
    /// The object that is in force, or the one that waits to be.
    pub fn object(&self) -> Option<&Arc<Ingress>> {
        self.waiting.as_ref().map(|waiting| &waiting.object).or(self.object.as_ref())
    }

    fn is_read_from(&self, object: &Arc<Ingress>, defaults: &Arc<Defaults>) -> bool {
        self.object.as_ref().is_some_and(|known| Arc::ptr_eq(known, object)) && Arc::ptr_eq(&self.defaults, defaults)
    }
}

impl KnownHost {
    /// By age.
    fn all(&self) -> impl Iterator<Item = Member<'_>> {
        self.members.iter().map(|(age, fragment)| Member { age, fragment })
    }

    /// Takes what the host is now, sites that are the same as they are, and gives the pools that it led to.
    fn replace(&mut self, mut merged: MergedHost) -> BTreeSet<ServiceAtPort> {
        for site in &mut merged.sites {
            if let Some(same) = self.merged.sites.iter().find(|known| *known == site) {
                *site = same.clone();
            }
        }
        for pool in &mut merged.outside {
            if let Some(same) = self.merged.outside.iter().find(|known| *known == pool) {
                *pool = same.clone();
            }
        }
        mem::replace(&mut self.merged, merged).pools
    }
}

fn age_of(key: &Key, object: &Ingress) -> Age {
    Age { created: (&*object.created).into(), key: key.clone() }
}

/// Whether something that was not referred to before is not known, and may be in a moment.
fn lacks_something(meaning: &Meaning, before: Option<&Meaning>, cache: &Cache) -> bool {
    let (ports_before, secrets_before): (BTreeSet<_>, BTreeSet<_>) = before
        .map(|before| (before.references().map(|(reference, _)| reference).collect(), before.secrets()))
        .unwrap_or_default();
    let lacks_secret = |key: &&Key| !secrets_before.contains(*key) && cache.secret(key) == SecretState::Unasked;
    let lacks_port = |reference: &ServiceAtPort| {
        reference.port != ServiceAtPort::FIRST
            && match cache.members(&reference.service, &reference.port, None) {
                Ok(members) => members.is_empty(),
                Err(Absence::NoService | Absence::NoPort) => true,
                Err(Absence::NotListed | Absence::External) => false,
            }
    };
    // Who meant nothing before has nothing to go on with, but for TLS: hosts may be those of others.
    let may_keep = before.is_some_and(|before| !before.hosts.is_empty());
    let maps_before = before.map(Meaning::config_maps).unwrap_or_default();
    let lacks_map = |key: &&Key| !maps_before.contains(*key) && cache.config_map(key) == ConfigMapState::Unasked;
    meaning.secrets().iter().any(lacks_secret)
        || meaning.config_maps().iter().any(lacks_map)
        || may_keep && meaning.references().any(|(reference, _)| !ports_before.contains(reference) && lacks_port(reference))
}
