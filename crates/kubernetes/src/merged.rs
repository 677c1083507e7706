//! What is served beside a file, and what is to be said of objects.

use crate::finding::{Finding, FindingCode, ObjectReference, Severity};
use crate::ingress_nginx::ProcessChanges;
use crate::merge::PassedOn;
use crate::reference::backend_of;
use crate::secret::KnownPair;
use crate::tcp::TcpListeners;
use crate::translation::Translation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_cluster::{Key, Kind};
use tidegate_model::{Configuration, Pool, PoolName, RouteRetry, Site, SniRoute, Tcp, TcpTarget};

/// Sites and pools beside those of a file.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// By host.
    pub sites: Vec<Arc<Site>>,
    /// By Service and port, and behind them those of servers that are no Service.
    pub pools: Vec<Arc<Pool>>,
    /// Connections that are handed to pools as they are, by port, and where HTTPS comes in by name.
    pub tcp: Vec<Tcp>,
    /// What is said of the process itself.
    pub process: ProcessChanges,
    /// By object.
    pub findings: Vec<(ObjectReference, Finding)>,
    /// Ingresses that are ours, whose status says where they are served.
    pub served: BTreeSet<Key>,
}

impl Translation {
    /// What is served beside the file. What is the same as the last time is the same `Arc`.
    pub fn merged(&mut self, file: &Configuration) -> Merged {
        self.stand_beside(file);
        let pools = self.ports.values().filter(|port| port.hosts > 0);
        let (mut process, contradictions) = self.global.process.beside(file, &self.settings);
        let TcpListeners { tcp, listeners, findings: of_tcp } = self.tcp_beside(file);
        process.listeners.extend(listeners);
        Merged {
            tcp: self.passed_on().into_iter().chain(tcp).collect(),
            process,
            sites: self.hosts.values().flat_map(|host| &host.merged.sites).cloned().collect(),
            pools: pools.map(|port| port.pool.clone()).chain(self.outside()).collect(),
            findings: self.findings(contradictions, of_tcp),
            served: self.ingresses.keys().cloned().collect(),
        }
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

    fn findings(&self, contradictions: Vec<Finding>, of_tcp: Vec<Finding>) -> Vec<(ObjectReference, Finding)> {
        let mut found: BTreeMap<ObjectReference, Found> = BTreeMap::new();
        let mut note = |kind: Kind, key: &Key, findings: &mut dyn Iterator<Item = Finding>, unsaid: usize| {
            let of_object = found.entry(ObjectReference { kind, key: key.clone() }).or_default();
            of_object.findings.extend(findings);
            of_object.unsaid += unsaid;
        };
        for (key, known) in &self.ingresses {
            let meaning = &known.meaning;
            if !meaning.findings.is_empty() {
                note(Kind::Ingress, key, &mut meaning.findings.iter().cloned(), meaning.unsaid);
            }
        }
        for (key, finding) in self.hosts.values().flat_map(|host| &host.merged.findings) {
            note(Kind::Ingress, key, &mut [finding.clone()].into_iter(), 0);
        }
        for (reference, port) in &self.ports {
            let Some((code, severity, message)) = port.standing.finding(reference, &self.settings) else { continue };
            for user in self.port_users.of(reference) {
                let references = self.ingresses.get(user).into_iter().flat_map(|known| known.meaning.references());
                let fields: BTreeSet<&str> = references.filter(|(used, _)| *used == reference).map(|(_, field)| field).collect();
                let finding = |field: &str| Finding { code, severity, field: backend_of(field), message: message.clone() };
                note(Kind::Ingress, user, &mut fields.into_iter().map(finding), 0);
            }
        }
        for (key, finding) in self.global.findings(&self.settings, &self.maps) {
            note(Kind::ConfigMap, &key, &mut [finding].into_iter(), 0);
        }
        for (key, findings) in [(&self.settings.ingress_nginx_config, contradictions), (&self.settings.tcp_services, of_tcp)] {
            if let Some(key) = key.as_ref().filter(|_| !findings.is_empty()) {
                note(Kind::ConfigMap, key, &mut findings.into_iter(), 0);
            }
        }
        for (name, finding) in &self.classes.findings {
            note(Kind::IngressClass, &Key { namespace: "".into(), name: name.clone() }, &mut [finding.clone()].into_iter(), 0);
        }
        if let Some(key) = &self.settings.default_certificate
            && let Some((code, severity, message)) = self.pairs.get(key).and_then(|pair| KnownPair::finding(pair, key))
        {
            note(Kind::Secret, key, &mut [Finding { code, severity, field: "data".to_owned(), message }].into_iter(), 0);
        }
        found.into_iter().flat_map(|(object, found)| found.cut().into_iter().map(move |one| (object.clone(), one))).collect()
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
    fn cut(self) -> Vec<Finding> {
        let all = self.findings.len() + self.unsaid;
        let mut findings: Vec<Finding> = self.findings.into_iter().collect();
        if all > Finding::EACH_MAX {
            findings.truncate(Finding::EACH_MAX - 1);
            let message =
                format!("{} more findings of this object are not told: mend those before it first", all - findings.len());
            let code = FindingCode::MoreFindings;
            findings.push(Finding { field: "metadata".to_owned(), code, severity: Severity::Warning, message });
        }
        findings
    }
}
