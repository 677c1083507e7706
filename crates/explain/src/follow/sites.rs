//! Sites beyond the one that answers: whose certificate the handshake gets, and why the others are not asked.

use super::Question;
use super::listener::Place;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tidegate_api::{ExplainedCertificate, PassedSite, WhyNotSite};
use tidegate_config::writing::name_of;
use tidegate_model::listening::{redirect_site, site_name};
use tidegate_model::{Configuration, HostPattern, Site, TlsSource, TlsVersion, is_one_label_below};
use tidegate_routing::{Router, SiteId};

/// More are counted and not listed: nobody reads a thousand sites to find out why a request is not theirs.
const OTHER_SITES_MAX: usize = 30;

/// `None`: it has no TLS.
pub fn certificate(configuration: &Configuration, site: &Site, request: &Question) -> Option<ExplainedCertificate> {
    let is_obtained = is_obtained(configuration, site, request);
    let (internal_ca, files) = match &site.tls.source {
        TlsSource::Off | TlsSource::Reject => return None,
        TlsSource::Automatic | TlsSource::Internal => (!is_obtained, Vec::new()),
        TlsSource::Files(certificates) => {
            (false, certificates.iter().map(|certificate| certificate.cert.display().to_string()).collect())
        }
    };
    let alpn = &site.tls.alpn;
    Some(ExplainedCertificate {
        site: site_name(site),
        internal_ca,
        acme: is_obtained,
        files,
        min_version: name_of(TlsVersion::NAMES, &site.tls.min_version).to_owned(),
        alpn: if alpn.is_empty() { "h2,http/1.1".to_owned() } else { alpn.join(",") },
    })
}

/// Whether a CA that verifies the name makes the certificate: of the address of the site that covers it.
fn is_obtained(configuration: &Configuration, site: &Site, request: &Question) -> bool {
    let Some(acme) = configuration.acme_of(site) else { return false };
    // A site of an address answers there only.
    let local_ip = request.host_ip().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let fits = |host: &&HostPattern| Router::new([(SiteId(0), *host)]).find_site(request.host.as_bytes(), local_ip).is_some();
    let hosts = site.addresses.iter().map(|address| &address.host);
    let host = hosts.filter(fits).max_by_key(|host| host.closeness());
    let is_wanted = |host: &HostPattern| match host {
        HostPattern::Any | HostPattern::Socket(_) => false,
        // Of the certificate for names of one label more.
        HostPattern::DeepWildcard(parent) => acme.dns.is_some() && is_one_label_below(&request.host.to_lowercase(), parent),
        HostPattern::Wildcard(_) => acme.dns.is_some(),
        HostPattern::Exact(_) | HostPattern::Ip(_) => true,
    };
    site.tls.on_demand.is_some() || host.is_some_and(|host| is_wanted(host) && (site.tls.acme.is_some() || host.is_public()))
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
        let hosts = patterns.iter().map(|pattern| shown_host(pattern)).collect();
        PassedSite { site: site_name(site), origin: site.origin.as_ref().map(ToString::to_string), hosts, why }
    };
    (hosts_of.into_iter().take(OTHER_SITES_MAX).map(entry).collect(), left_out)
}

fn shown_host(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Any => "*".to_owned(),
        HostPattern::Exact(_)
        | HostPattern::Wildcard(_)
        | HostPattern::DeepWildcard(_)
        | HostPattern::Ip(_)
        | HostPattern::Socket(_) => pattern.to_string(),
    }
}
