//! One Ingress by itself: what it says of each of its hosts. Total: what cannot be used is left out, or shut where
//! leaving it out would let requests go elsewhere, and named by a finding.

mod path;
mod pcre;
mod stand_ins;
mod tls;

pub use pcre::translated;

use crate::annotations;
use crate::defaults::Defaults;
use crate::finding::{Finding, FindingCode, Severity};
use crate::fragment::{BackendRoute, Fragment, Meaning, PathRoute, Target};
use crate::ingress_names::{LABEL_BYTES_MAX, NAME_BYTES_MAX, is_label};
use crate::pool_manner::PoolManner;
use crate::reference::{ServiceAtPort, backend_of, origin};
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_cluster::{Backend, Ingress, Key, PathKind, PortReference, Rule};
use tidegate_model::HostPattern;
use tidegate_model::address::parse_host_pattern;

/// What the Ingress of that name means.
pub fn translate(key: &Key, ingress: &Ingress, settings: &Settings, defaults: &Arc<Defaults>) -> Meaning {
    let (manner, of_annotations) = annotations::read(key, ingress, settings, defaults);
    let findings_max = settings.findings_max;
    let mut reading = Reading { key, pool: &manner.pool, hosts: BTreeMap::new(), findings: Vec::new(), findings_max, unsaid: 0 };
    for Finding { field, code, severity, message } in of_annotations {
        reading.find(code, severity, field, message);
    }
    for (index, rule) in ingress.rules.iter().enumerate() {
        reading.rule(index, rule);
    }
    // A canary has a share of paths, and nothing else.
    let is_canary = manner.canary.is_some();
    if let Some(backend) = ingress.default_backend.as_ref().filter(|_| !is_canary) {
        let rest = reading.backend(backend, "/", "spec.defaultBackend".to_owned(), "defaultBackend".to_owned());
        if ingress.rules.is_empty() {
            reading.hosts.entry(HostPattern::Any).or_default();
        }
        for fragment in reading.hosts.values_mut() {
            fragment.rest = Some(rest.clone());
        }
    }
    if !is_canary {
        stand_ins::read(&mut reading, &manner);
        tls::read(&mut reading, &ingress.tls);
    }
    let Reading { hosts, findings, unsaid, .. } = reading;
    let manner = Arc::new(manner);
    let mannered = |fragment| Arc::new(Fragment { manner: manner.clone(), ..fragment });
    let hosts = hosts.into_iter().map(|(host, fragment)| (host, mannered(fragment))).collect();
    Meaning { hosts, findings, unsaid }
}

/// An Ingress while it is read.
struct Reading<'i> {
    key: &'i Key,
    /// What is wanted of all of its pools.
    pool: &'i PoolManner,
    hosts: BTreeMap<HostPattern, Fragment>,
    findings: Vec<Finding>,
    findings_max: usize,
    /// Findings beyond those that are kept.
    unsaid: usize,
}

impl Reading<'_> {
    fn find(&mut self, code: FindingCode, severity: Severity, field: String, message: String) {
        if self.findings.len() < self.findings_max {
            self.findings.push(Finding { field, code, severity, message });
        } else {
            self.unsaid += 1;
        }
    }

    fn rule(&mut self, index: usize, rule: &Rule) {
        let host = match rule.host.as_deref().map_or(Ok(HostPattern::Any), host_pattern) {
            Ok(host) => host,
            Err(problem) => {
                return self.find(FindingCode::HostInvalid, Severity::Error, format!("spec.rules[{index}].host"), problem);
            }
        };
        // A rule without paths leaves all of its host to the default backend.
        self.hosts.entry(host.clone()).or_default();
        for (number, written) in rule.paths.iter().enumerate() {
            let field = format!("spec.rules[{index}].http.paths[{number}]");
            let rule = format!("rules.{index}.paths.{number}");
            let route = self.backend(&written.backend, &written.path, field, rule);
            if let Some(fragment) = self.hosts.get_mut(&host) {
                let plain = path::read(&written.path, written.kind);
                let text = if written.path.is_empty() { "/" } else { &written.path };
                fragment.paths.push(PathRoute {
                    text: text.into(),
                    is_prefix: written.kind != PathKind::Exact,
                    plain,
                    expression: path::read_expression(&written.path),
                    route,
                });
            }
        }
    }

    /// Where requests go, and what is wrong with that.
    fn backend(&mut self, backend: &Backend, path: &str, field: String, rule: String) -> BackendRoute {
        let target = match self.target(backend, path) {
            Ok(target) => target,
            Err((code, problem)) => {
                self.find(code, Severity::Error, backend_of(&field), problem);
                Target::Unusable
            }
        };
        BackendRoute { field: field.into(), origin: Arc::new(origin("Ingress", self.key, Some(rule))), target }
    }

    fn target(&self, backend: &Backend, path: &str) -> Result<Target, (FindingCode, String)> {
        match backend {
            Backend::Service { name, port } if is_label(name) && is_port(port) => {
                let service = Key { namespace: self.key.namespace.clone(), name: name.clone() };
                let manner = Some(self.pool).filter(|pool| **pool != PoolManner::default()).map(|pool| Arc::new(pool.at(path)));
                Ok(Target::Service(ServiceAtPort { service, port: port.clone(), manner }))
            }
            Backend::Service { .. } | Backend::Unknown => {
                let problem = "no Service and port are named here: write `service` with `name` and `port`, as `number` or `name`";
                Err((FindingCode::BackendInvalid, problem.to_owned()))
            }
            Backend::Resource { kind, .. } => {
                let kind: String = kind.chars().filter(|c| !c.is_control()).take(LABEL_BYTES_MAX).collect();
                let problem = format!("a backend that is a `{kind}` is not served: name a Service in its place");
                Err((FindingCode::ResourceRefused, problem))
            }
        }
    }
}

/// The hosts that a rule or a certificate may name: one, or all that have one label more.
fn host_pattern(text: &str) -> Result<HostPattern, String> {
    let shown: String = text.chars().filter(|c| !c.is_control()).take(NAME_BYTES_MAX).collect();
    match parse_host_pattern(text) {
        Ok(host @ (HostPattern::Exact(_) | HostPattern::Wildcard(_))) => Ok(host),
        Ok(HostPattern::Any | HostPattern::DeepWildcard(_) | HostPattern::Ip(_) | HostPattern::Socket(_)) => {
            Err(format!("`{shown}` is not a host here: write a name, as in `shop.example.com` or `*.example.com`"))
        }
        Err(problem) => Err(format!("`{shown}` is not a host: {problem}")),
    }
}

fn is_port(port: &PortReference) -> bool {
    match port {
        PortReference::Number(number) => *number != 0,
        PortReference::Name(name) => is_label(name) && name.contains(|c: char| c.is_ascii_alphabetic()),
    }
}
