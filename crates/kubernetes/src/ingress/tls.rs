//! `spec.tls` of an Ingress: which of its hosts are served over TLS, with which certificates.

use super::{Reading, host_pattern};
use crate::finding::{FindingCode, Severity};
use crate::fragment::{CertificateSource, Fragment, TlsClaim, TlsRank};
use crate::ingress_names::is_object_name;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_cluster::{IngressTls, Key};
use tidegate_model::HostPattern;

/// Entries about one host that are looked at; more than one of them only counts while the Secret before it is broken.
const CLAIMS_MAX: usize = 8;
/// Routes that rules for every host have on hosts that a certificate alone names, all together.
const SPREAD_ROUTES_MAX: usize = 10_000;

/// Entries by what they name.
#[derive(Default)]
struct Entries {
    named: BTreeMap<HostPattern, Vec<TlsClaim>>,
    of_all: Vec<TlsClaim>,
}

pub(super) fn read(reading: &mut Reading<'_>, written: &[IngressTls]) {
    let mut entries = Entries::default();
    for (index, entry) in written.iter().enumerate() {
        collect(reading, &mut entries, index, entry);
    }
    spread(reading, &entries.named);
    let Entries { named, of_all } = &entries;
    for (host, fragment) in &mut reading.hosts {
        let by_wildcard = wildcard_of(host).and_then(|wildcard| named.get(&wildcard)).into_iter().flatten();
        let by_wildcard = by_wildcard.map(|claim| TlsClaim { rank: TlsRank::ByWildcard, ..claim.clone() });
        fragment.tls = named.get(host).into_iter().flatten().cloned().chain(by_wildcard).chain(of_all.iter().cloned()).collect();
    }
}

fn collect(reading: &mut Reading<'_>, entries: &mut Entries, index: usize, entry: &IngressTls) {
    let field = format!("spec.tls[{index}]");
    let certificate = match &entry.secret {
        None => CertificateSource::Default,
        Some(name) if is_object_name(name) => {
            CertificateSource::Secret(Key { namespace: reading.key.namespace.clone(), name: name.clone() })
        }
        Some(_) => {
            let problem = "no Secret has such a name: small letters, digits, `-` and `.`, at most 253".to_owned();
            reading.find(FindingCode::SecretInvalid, Severity::Error, format!("{field}.secretName"), problem);
            CertificateSource::Unusable
        }
    };
    let claim = |rank| TlsClaim { rank, field: field.as_str().into(), certificate: certificate.clone() };
    if entry.hosts.is_empty() && entries.of_all.len() < CLAIMS_MAX {
        entries.of_all.push(claim(TlsRank::OfAll));
    }
    for (number, host) in entry.hosts.iter().enumerate() {
        match host_pattern(host) {
            Ok(host) => {
                let claims = entries.named.entry(host).or_default();
                if claims.len() < CLAIMS_MAX {
                    claims.push(claim(TlsRank::Named));
                }
            }
            Err(problem) => {
                reading.find(FindingCode::HostInvalid, Severity::Error, format!("{field}.hosts[{number}]"), problem);
            }
        }
    }
}

/// Has what the Ingress says of all hosts hold for those that a certificate alone names.
fn spread(reading: &mut Reading<'_>, named: &BTreeMap<HostPattern, Vec<TlsClaim>>) {
    let parents: BTreeSet<HostPattern> = reading.hosts.keys().filter_map(wildcard_of).collect();
    let of_all = reading.hosts.get(&HostPattern::Any).cloned();
    let mut routes_left = SPREAD_ROUTES_MAX;
    for (host, claims) in named {
        if reading.hosts.contains_key(host) || parents.contains(host) {
            continue;
        }
        let routes = of_all.as_ref().map(|fragment| fragment.paths.len() + 1);
        match (&of_all, routes.and_then(|routes| routes_left.checked_sub(routes))) {
            (Some(fragment), Some(left)) => {
                routes_left = left;
                reading.hosts.insert(host.clone(), Fragment { tls: Vec::new(), ..fragment.clone() });
            }
            (Some(_), None) => {
                let problem = format!(
                    "rules without a host for so many hosts of certificates are more than {SPREAD_ROUTES_MAX} routes: write a rule for `{host}`"
                );
                unused(reading, claims, problem);
            }
            (None, _) => {
                let problem =
                    format!("no rule of this Ingress is for `{host}`, so nothing is served there: add one, or remove the host");
                unused(reading, claims, problem);
            }
        }
    }
}

fn unused(reading: &mut Reading<'_>, claims: &[TlsClaim], problem: String) {
    let field = claims.first().map(|claim| format!("{}.hosts", claim.field)).unwrap_or_default();
    reading.find(FindingCode::TlsHostUnused, Severity::Warning, field, problem);
}

/// The wildcard that stands for the host as well.
fn wildcard_of(host: &HostPattern) -> Option<HostPattern> {
    match host {
        HostPattern::Exact(name) => name.split_once('.').map(|(_, domain)| HostPattern::Wildcard(domain.to_owned())),
        HostPattern::Any
        | HostPattern::Wildcard(_)
        | HostPattern::DeepWildcard(_)
        | HostPattern::Ip(_)
        | HostPattern::Socket(_) => None,
    }
}
