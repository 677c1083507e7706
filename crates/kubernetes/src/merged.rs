//! What is served beside a file, and what is to be said of objects.

use crate::finding::{Finding, FindingCode, ObjectReference, Severity};
use crate::ingress_nginx::ProcessChanges;
use crate::merge::PassedOn;
use crate::reference::{ServiceAtPort, backend_of};
use crate::secret::KnownPair;
use crate::snippets::map_named;
use crate::tcp::TcpListeners;
use crate::translation::Translation;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use tidegate_cluster::{Key, Kind};
use tidegate_model::{Configuration, HostPattern, MapSettings, Pool, PoolName, RouteRetry, Site, SniRoute, Tcp, TcpTarget};

/// Sites and pools beside those of a file. A copy costs nothing.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// By host.
    pub sites: Arc<Vec<Arc<Site>>>,
    /// By Service and port, and behind them those of servers that are no Service.
    pub pools: Arc<Vec<Arc<Pool>>>,
    /// Connections that are handed to pools as they are, by port, and where HTTPS comes in by name.
    pub tcp: Vec<Tcp>,
    /// What routes ask that snippets make, by name.
    pub maps: Arc<Vec<MapSettings>>,
    /// What is said of the process itself.
    pub process: ProcessChanges,
}

/// Objects of which something else is to be said than before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToTell {
    /// Whose findings are others.
    pub findings: BTreeSet<ObjectReference>,
    /// Ingresses that became ours, or are no more.
    pub served: BTreeSet<Key>,
}

/// What is to be said of objects.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Of those of which something is to be said.
    of: BTreeMap<ObjectReference, Vec<Finding>>,
    /// What the merging of hosts has found.
    of_hosts: BTreeMap<HostPattern, BTreeMap<Key, Vec<Finding>>>,
    /// The hosts of which something is to be said of an Ingress, among them such as it does not name.
    hosts: BTreeMap<Key, BTreeSet<HostPattern>>,
    /// Ingresses that are to be looked at again.
    pub unsettled: BTreeSet<Key>,
    pub to_tell: ToTell,
}

impl Translation {
    /// What is served beside the file. What is the same as the last time is the same `Arc`.
    pub fn merged(&mut self, file: &Configuration) -> Merged {
        self.stand_beside(file);
        let (mut process, contradictions) = self.global.process.beside(file, &self.settings);
        let TcpListeners { tcp, listeners, findings: of_tcp } = self.tcp_beside(file);
        process.listeners.extend(listeners);
        self.settle(contradictions, of_tcp);
        let of_hosts = match self.merged.take() {
            Some(merged) => merged,
            None => self.served_by_hosts(),
        };
        let tcp = of_hosts.tcp.iter().cloned().chain(tcp).collect();
        Merged { tcp, process, ..self.merged.insert(of_hosts).clone() }
    }

    fn served_by_hosts(&self) -> Merged {
        let pools = self.ports.values().filter(|port| port.hosts > 0);
        Merged {
            sites: Arc::new(self.hosts.values().flat_map(|host| &host.merged.sites).cloned().collect()),
            pools: Arc::new(pools.map(|port| port.pool.clone()).chain(self.outside()).collect()),
            tcp: self.passed_on().into_iter().collect(),
            maps: Arc::new(self.maps()),
            ..Merged::default()
        }
    }

    /// By object, as they were when it was last asked what is served.
    pub fn findings(&self) -> impl Iterator<Item = (&ObjectReference, &Finding)> {
        let all = self.findings.of.iter();
        all.flat_map(|(object, findings)| findings.iter().map(move |finding| (object, finding)))
    }

    pub fn findings_of(&self, object: &ObjectReference) -> &[Finding] {
        self.findings.of.get(object).map_or(&[], Vec::as_slice)
    }

    /// Ingresses that are ours, whose status says where they are served.
    pub fn served(&self) -> impl Iterator<Item = &Key> {
        self.ingresses.keys()
    }

    pub fn is_served(&self, key: &Key) -> bool {
        self.ingresses.contains_key(key)
    }

    /// Of which objects something else is to be said than when this was last asked.
    pub fn take_to_tell(&mut self) -> ToTell {
        mem::take(&mut self.findings.to_tell)
    }

    fn maps(&self) -> Vec<MapSettings> {
        let names: BTreeSet<&String> = self.hosts.values().flat_map(|host| &host.merged.maps).collect();
        names.into_iter().filter_map(|name| map_named(name)).collect()
    }

    /// Pools of servers that are no Service, each once.
    fn outside(&self) -> impl Iterator<Item = Arc<Pool>> {
        let all = self.hosts.values().flat_map(|host| &host.merged.outside);
        let by_name: BTreeMap<&PoolName, &Arc<Pool>> = all.map(|pool| (&pool.name, pool)).collect();
        by_name.into_values().cloned()
    }

    /// Where HTTPS comes in, by name.
    fn passed_on(&self) -> Option<Tcp> {
        let place = self.settings.https?;
        let of_hosts = self.hosts.values().filter_map(|host| host.merged.passed_on.as_ref());
        let route = |PassedOn { name, to }: &PassedOn| SniRoute {
            names: vec![name.clone()],
            to: TcpTarget::one(to.clone(), RouteRetry::OfPool),
        };
        let by_name: Vec<SniRoute> = of_hosts.map(route).collect();
        let ip = Some(place.ip()).filter(|ip| !ip.is_unspecified());
        (!by_name.is_empty()).then_some(Tcp { ip, port: place.port(), by_name, otherwise: None })
    }

    /// Puts together what is to be said of objects that were touched.
    fn settle(&mut self, contradictions: Vec<Finding>, of_tcp: Vec<Finding>) {
        let most = self.settings.findings_max;
        for key in mem::take(&mut self.findings.unsettled) {
            let findings = self.findings_of_ingress(&key);
            self.findings.set(ObjectReference { kind: Kind::Ingress, key }, findings);
        }
        let mut of_maps: BTreeMap<Key, Found> = BTreeMap::new();
        for (key, finding) in self.global.findings(&self.settings, &self.maps) {
            of_maps.entry(key).or_default().findings.insert(finding);
        }
        for (key, findings) in [(&self.settings.ingress_nginx_config, contradictions), (&self.settings.tcp_services, of_tcp)] {
            if let Some(key) = key.as_ref().filter(|_| !findings.is_empty()) {
                of_maps.entry(key.clone()).or_default().findings.extend(findings);
            }
        }
        self.findings.set_all(Kind::ConfigMap, of_maps.into_iter().map(|(key, found)| (key, found.cut(most))).collect());
        let mut of_classes: BTreeMap<Key, Found> = BTreeMap::new();
        for (name, finding) in &self.classes.findings {
            let of_class = of_classes.entry(Key { namespace: "".into(), name: name.clone() }).or_default();
            of_class.findings.insert(finding.clone());
        }
        self.findings.set_all(Kind::IngressClass, of_classes.into_iter().map(|(key, found)| (key, found.cut(most))).collect());
        let of_secret = self.settings.default_certificate.as_ref().and_then(|key| {
            let (code, severity, message) = self.pairs.get(key).and_then(|pair| KnownPair::finding(pair, key))?;
            Some((key.clone(), vec![Finding { code, severity, field: "data".to_owned(), message }]))
        });
        self.findings.set_all(Kind::Secret, of_secret.into_iter().collect());
    }

    fn findings_of_ingress(&self, key: &Key) -> Vec<Finding> {
        let Some(known) = self.ingresses.get(key) else { return Vec::new() };
        let meaning = &known.meaning;
        let mut found = Found { findings: meaning.findings.iter().cloned().collect(), unsaid: meaning.unsaid };
        found.findings.extend(self.findings.of_merging(key).cloned());
        let mut of_ports: BTreeMap<&ServiceAtPort, (FindingCode, Severity, String)> = BTreeMap::new();
        for reference in &known.ports {
            let standing = self.ports.get(reference).map(|port| &port.standing);
            of_ports.extend(standing.and_then(|standing| Some((reference, standing.finding(reference, &self.settings)?))));
        }
        if !of_ports.is_empty() {
            found.findings.extend(meaning.references().filter_map(|(reference, field)| {
                let (code, severity, message) = of_ports.get(reference)?.clone();
                Some(Finding { code, severity, field: backend_of(field), message })
            }));
        }
        found.cut(self.settings.findings_max)
    }
}

impl Findings {
    /// Takes what the merging of a host has found now.
    pub fn found(&mut self, host: &HostPattern, findings: Vec<(Key, Finding)>) {
        let mut now: BTreeMap<Key, Vec<Finding>> = BTreeMap::new();
        for (key, finding) in findings {
            now.entry(key).or_default().push(finding);
        }
        let before = self.of_hosts.remove(host).unwrap_or_default();
        self.unsettled.extend(now.iter().filter(|(key, found)| before.get(key) != Some(found)).map(|(key, _)| key.clone()));
        for key in before.into_keys().filter(|key| !now.contains_key(key)) {
            if let Some(hosts) = self.hosts.get_mut(&key) {
                hosts.remove(host);
                if hosts.is_empty() {
                    self.hosts.remove(&key);
                }
            }
            self.unsettled.insert(key);
        }
        for key in now.keys() {
            self.hosts.entry(key.clone()).or_default().insert(host.clone());
        }
        if !now.is_empty() {
            self.of_hosts.insert(host.clone(), now);
        }
    }

    fn of_merging(&self, key: &Key) -> impl Iterator<Item = &Finding> {
        let of_hosts = self.hosts.get(key).into_iter().flatten().filter_map(|host| self.of_hosts.get(host));
        of_hosts.filter_map(|of_host| of_host.get(key)).flatten()
    }

    fn set(&mut self, object: ObjectReference, findings: Vec<Finding>) {
        let before = self.of.get(&object).map_or(&[][..], Vec::as_slice);
        if *before == findings {
            return;
        }
        self.to_tell.findings.insert(object.clone());
        if findings.is_empty() {
            self.of.remove(&object);
        } else {
            self.of.insert(object, findings);
        }
    }

    /// All that is to be said of objects of a kind of which there are few.
    fn set_all(&mut self, kind: Kind, mut all: BTreeMap<Key, Vec<Finding>>) {
        let first = ObjectReference { kind, key: Key { namespace: "".into(), name: "".into() } };
        let of_kind = self.of.range(first..).map(|(object, _)| object).take_while(|object| object.kind == kind);
        for object in of_kind {
            all.entry(object.key.clone()).or_default();
        }
        for (key, findings) in all {
            self.set(ObjectReference { kind, key }, findings);
        }
    }
}

/// Findings of one object.
#[derive(Default)]
struct Found {
    findings: BTreeSet<Finding>,
    unsaid: usize,
}

impl Found {
    /// As many as are told.
    fn cut(self, most: usize) -> Vec<Finding> {
        let all = self.findings.len() + self.unsaid;
        let mut findings: Vec<Finding> = self.findings.into_iter().collect();
        if all > most {
            findings.truncate(most.saturating_sub(1));
            let message =
                format!("{} more findings of this object are not told: mend those before it first", all - findings.len());
            let code = FindingCode::MoreFindings;
            findings.push(Finding { field: "metadata".to_owned(), code, severity: Severity::Warning, message });
        }
        findings
    }
}
