//! Certificates that are given once at the top level: a site that they cover has them as its own. Found out when a
//! configuration is read, since which names a certificate has stands in its file; from there on it is a certificate of
//! the site like any other.

use std::sync::Arc;
use tidegate_certs::{CertError, CertificateFacts, LoadedCertificate};
use tidegate_model::{Certificate, Configuration, HostPattern, Scheme, Site, TlsSource};

/// What came of the certificates.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Those that no site has.
    pub unused: Vec<Certificate>,
    /// Sites of which some hosts are covered and not all, by their position, with the first host that is not: they have
    /// none of these certificates.
    pub partly: Vec<(usize, HostPattern)>,
}

/// Gives each site that says nothing of its certificates those that cover its hosts, if all are covered. `Err`: files
/// that cannot be used.
pub fn share_certificates(configuration: &mut Configuration) -> Result<Sharing, Vec<CertError>> {
    let given = configuration.certificates.clone();
    let (mut facts, mut errors) = (Vec::with_capacity(given.len()), Vec::new());
    for certificate in &given {
        match LoadedCertificate::load(certificate) {
            Ok(loaded) => facts.push(loaded.facts),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut sharing = Sharing::default();
    let mut is_used = vec![false; given.len()];
    for (position, site) in configuration.sites.iter_mut().enumerate().filter(|_| !given.is_empty()) {
        match cover(site, &facts) {
            Cover::Nothing => {}
            Cover::Part(host) => sharing.partly.push((position, host)),
            Cover::Whole(places) => {
                places.iter().for_each(|place| is_used[*place] = true);
                let files = places.iter().map(|place| given[*place].clone()).collect();
                Arc::make_mut(site).tls.source = TlsSource::Files(files);
            }
        }
    }
    sharing.unused = given.into_iter().zip(is_used).filter(|(_, is_used)| !is_used).map(|(given, _)| given).collect();
    Ok(sharing)
}

/// What certificates cover of a site.
enum Cover {
    Nothing,
    /// Not this host.
    Part(HostPattern),
    /// All of it: the positions of those that cover any host.
    Whole(Vec<usize>),
}

fn cover(site: &Site, facts: &[Arc<CertificateFacts>]) -> Cover {
    let says_how = site.tls.source != TlsSource::Automatic || site.tls.acme.is_some() || site.tls.on_demand.is_some();
    if says_how {
        return Cover::Nothing;
    }
    let addresses = site.addresses.iter().filter(|address| address.scheme == Scheme::Https);
    let hosts: Vec<&HostPattern> = addresses.map(|address| &address.host).collect();
    let covers = |facts: &CertificateFacts, host: &HostPattern| *host != HostPattern::Any && facts.covers(host);
    let of_any = |facts: &Arc<CertificateFacts>| hosts.iter().any(|host| covers(facts, host));
    let places: Vec<usize> = facts.iter().enumerate().filter(|(_, facts)| of_any(facts)).map(|(place, _)| place).collect();
    if places.is_empty() {
        return Cover::Nothing;
    }
    match hosts.iter().find(|host| !places.iter().any(|place| covers(&facts[*place], host))) {
        None => Cover::Whole(places),
        Some(host) => Cover::Part((*host).clone()),
    }
}

/// Message and remedy.
impl Sharing {
    pub fn of_unused(certificate: &Certificate) -> (String, &'static str) {
        let message = format!("no site has the certificate in {}", certificate.cert.display());
        (
            message,
            "a site has it when it covers all of its hosts and the site says nothing of certificates itself; else remove the line",
        )
    }

    pub fn of_partly(host: &HostPattern) -> (String, &'static str) {
        let message =
            format!("the certificates of the top level cover other hosts of this site and not `{host}`, so it has none of them");
        (message, "make the host a site of its own, or give a certificate in the `tls` of this site")
    }
}
