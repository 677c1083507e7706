//! Sites beyond the one that answers: whose certificate the handshake gets, and why the others are not asked.

use super::listener::Place;
use crate::wording;
use std::collections::BTreeMap;
use tidegate_api::{ExplainedCertificate, PassedSite, WhyNotSite};
use tidegate_model::listening::{redirect_site, site_name};
use tidegate_model::{Configuration, HostPattern, Site, TlsSource};
use tidegate_routing::{Router, SiteId};

/// More are counted and not listed: nobody reads a thousand sites to find out why a request is not theirs.
const OTHER_SITES_MAX: usize = 30;

/// `None`: it has no TLS.
pub fn certificate(site: &Site) -> Option<ExplainedCertificate> {
    let (internal_ca, files) = match &site.tls.source {
        TlsSource::Off => return None,
        TlsSource::Automatic | TlsSource::Internal => (true, Vec::new()),
        TlsSource::Files(certificates) => {
            (false, certificates.iter().map(|certificate| certificate.cert.display().to_string()).collect())
        }
    };
    let (site_name, min_version) = (site_name(site), wording::tls_version(site.tls.min_version).to_owned());
    Some(ExplainedCertificate { site: site_name, internal_ca, files, min_version, alpn: wording::alpn(&site.tls) })
}

/// A connection made for one site may carry requests for another only then.
pub fn have_same_tls_policy(a: &Site, b: &Site) -> bool {
    a.tls.min_version == b.tls.min_version && a.tls.ciphers == b.tls.ciphers && clients_are_known_alike(a, b)
}

fn clients_are_known_alike(a: &Site, b: &Site) -> bool {
    match (&a.tls.client_auth, &b.tls.client_auth) {
        (None, None) => true,
        (Some(a), Some(b)) => a.lets_in_as(b),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The sites of the listening address but the one that was found, in file order, and how many more there are.
pub fn passed(configuration: &Configuration, place: &Place<'_>, host: &str, found: Option<SiteId>) -> (Vec<PassedSite>, usize) {
    let mut hosts_of: BTreeMap<SiteId, Vec<&HostPattern>> = BTreeMap::new();
    for (answering, pattern) in &place.listening.hosts {
        hosts_of.entry(place.site_id(*answering)).or_default().push(pattern);
    }
    hosts_of.retain(|id, _| Some(*id) != found);
    let left_out = hosts_of.len().saturating_sub(OTHER_SITES_MAX);
    let redirect = redirect_site();
    let entry = |(id, patterns): (SiteId, Vec<&HostPattern>)| {
        let site = configuration.sites.get(id.0 as usize).map_or(&redirect, |site| &**site);
        let fits = |pattern: &&HostPattern| Router::new([(id, *pattern)]).find_site(host.as_bytes(), place.local_ip).is_some();
        let why = if patterns.iter().any(fits) { WhyNotSite::LessSpecific } else { WhyNotSite::Host };
        PassedSite { site: site_name(site), hosts: patterns.iter().map(|pattern| shown_host(pattern)).collect(), why }
    };
    (hosts_of.into_iter().take(OTHER_SITES_MAX).map(entry).collect(), left_out)
}

fn shown_host(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Any => "*".to_owned(),
        HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::Ip(_) => pattern.to_string(),
    }
}
