//! Fragments of one host as its sites. A host is looked at as a whole, since what one Ingress may have of it depends on
//! the others; hosts are looked at apart from each other.

mod routes;

use crate::finding::{Finding, FindingCode, Severity};
use crate::fragment::{BackendRoute, CertificateSource, Fragment, PathRoute, TlsClaim};
use crate::reference::{Age, ServiceAtPort};
use crate::secret::{KnownPair, Pair};
use crate::settings::{HostOwner, Settings};
use routes::Routes;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::net::SocketAddr;
use std::sync::Arc;
use tidegate_cluster::Key;
use tidegate_model::{
    Certificate, HostPattern, ListenPlace, Origin, PoolName, Route, RouteOptions, Scheme, Site, SiteAddress, Tls, TlsSource,
};

/// What one Ingress says of the host.
#[derive(Debug, Clone, Copy)]
pub struct Member<'m> {
    pub age: &'m Age,
    pub fragment: &'m Fragment,
}

/// What is around a host.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'s> {
    pub settings: &'s Settings,
    pub pairs: &'s BTreeMap<Key, KnownPair>,
    /// Names of pools that a file has already.
    pub pools_taken: &'s BTreeSet<PoolName>,
}

/// Schemes under which a file serves the host itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    pub http: bool,
    pub https: bool,
}

/// What became of a host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergedHost {
    pub sites: Vec<Arc<Site>>,
    pub findings: Vec<(Key, Finding)>,
    /// Ports of Services that its routes lead to.
    pub pools: BTreeSet<ServiceAtPort>,
}

/// Members come by age.
pub fn merge(host: &HostPattern, members: &[Member<'_>], taken: Taken, around: Surroundings<'_>) -> MergedHost {
    let mut merging = Merging { host, around, findings: Vec::new() };
    let members = merging.owned(members);
    let content = Content {
        paths: merging.paths(&members),
        rest: merging.rest(&members),
        tls: merging.tls(&members),
        origin: members.first().map(|member| Arc::new(member.age.origin())),
    };
    merging.note_secrets(&members);
    let places = merging.places(&members, taken);
    let (sites, pools) = merging.sites(&content, places);
    MergedHost { sites, findings: merging.findings, pools }
}

/// A host while it is put together.
struct Merging<'m> {
    host: &'m HostPattern,
    around: Surroundings<'m>,
    findings: Vec<(Key, Finding)>,
}

/// What a host answers, however it is asked.
struct Content<'m> {
    /// In the order in which they are tried.
    paths: Vec<Owned<&'m PathRoute>>,
    rest: Option<Owned<&'m BackendRoute>>,
    tls: HostTls<'m>,
    origin: Option<Arc<Origin>>,
}

/// Something that an Ingress says.
#[derive(Clone, Copy)]
struct Owned<T> {
    it: T,
    /// Whether the same Ingress wants the host served over TLS.
    wants_tls: bool,
}

/// Whether a host is served over TLS.
enum HostTls<'m> {
    /// Nobody asks for it. With a default certificate it is served over HTTPS as well as over HTTP.
    Plain { certificate: Option<&'m Certificate> },
    /// Plain HTTP leads to HTTPS.
    Served { certificate: &'m Certificate },
    /// Asked for, and there is no certificate: handshakes end, and nothing is answered in plain text that was to be
    /// encrypted.
    Shut,
}

/// Where the host is served.
#[derive(Clone, Copy)]
struct Places {
    http: Option<SocketAddr>,
    https: Option<SocketAddr>,
}

impl<'m> Merging<'m> {
    fn find(&mut self, key: &Key, code: FindingCode, severity: Severity, field: impl Into<String>, message: String) {
        self.findings.push((key.clone(), Finding { code, severity, field: field.into(), message }));
    }

    /// Members of those who may say something of the host.
    fn owned(&mut self, members: &[Member<'m>]) -> Vec<Member<'m>> {
        let owner = match (self.around.settings.host_owner, members.first()) {
            // Nobody has the hosts that nobody names.
            (HostOwner::Oldest, Some(oldest)) if *self.host != HostPattern::Any => &oldest.age.key,
            (HostOwner::Oldest | HostOwner::Shared, _) => return members.to_vec(),
        };
        let (ours, others): (Vec<_>, Vec<_>) =
            members.iter().copied().partition(|member: &Member<'_>| member.age.key.namespace == owner.namespace);
        for other in others {
            let message = format!(
                "`{}` is of the namespace `{}`, whose Ingress `{}` was there first",
                self.host, owner.namespace, owner.name
            );
            self.find(&other.age.key, FindingCode::HostTaken, Severity::Error, "spec.rules", message);
        }
        ours
    }

    fn paths(&mut self, members: &[Member<'m>]) -> Vec<Owned<&'m PathRoute>> {
        let mut table = BTreeMap::new();
        for Member { age, fragment } in members.iter().copied() {
            for path in &fragment.paths {
                match table.entry(&path.place) {
                    Entry::Vacant(vacant) => _ = vacant.insert((age, Owned { it: path, wants_tls: fragment.wants_tls() })),
                    Entry::Occupied(taken) => {
                        let (owner, first) = taken.get();
                        let field = format!("{}.path", path.route.field);
                        let shown = if path.place.text.is_empty() { "/" } else { &*path.place.text };
                        let by = if owner.key == age.key {
                            format!("`{}` of the same Ingress", first.it.route.field)
                        } else {
                            format!("the Ingress `{}`, which is older", owner.key)
                        };
                        let message = format!("`{}{shown}` is served by {by}: remove it here, or there", self.host);
                        self.find(&age.key, FindingCode::PathTaken, Severity::Error, field, message);
                    }
                }
            }
        }
        table.into_values().map(|(_, path)| path).collect()
    }

    fn rest(&mut self, members: &[Member<'m>]) -> Option<Owned<&'m BackendRoute>> {
        let mut found: Option<(&Age, Owned<&'m BackendRoute>)> = None;
        for Member { age, fragment } in members.iter().copied() {
            match (&fragment.rest, found) {
                (Some(rest), None) => found = Some((age, Owned { it: rest, wants_tls: fragment.wants_tls() })),
                (Some(rest), Some((owner, first))) if rest.target != first.it.target => {
                    let which = if *self.host == HostPattern::Any {
                        "that nobody else takes".to_owned()
                    } else {
                        format!("that no path of `{}` takes", self.host)
                    };
                    let message = format!("requests {which} are for the Ingress `{}`, which is older", owner.key);
                    self.find(&age.key, FindingCode::DefaultBackendTaken, Severity::Warning, &*rest.field, message);
                }
                (Some(_) | None, Some(_)) | (None, None) => {}
            }
        }
        found.map(|(_, rest)| rest)
    }

    /// The first certificate that can be used, of entries that name the host closely before others, and of the oldest
    /// before others.
    fn tls(&mut self, members: &[Member<'m>]) -> HostTls<'m> {
        let Surroundings { settings, pairs, .. } = self.around;
        let pair = |key: &Key| pairs.get(key).and_then(KnownPair::pair);
        let default = settings.default_certificate.as_ref().and_then(pair).map(|pair| &pair.certificate);
        let mut claims: Vec<(&Age, &TlsClaim)> =
            members.iter().flat_map(|member| member.fragment.tls.iter().map(|claim| (member.age, claim))).collect();
        if claims.is_empty() {
            return HostTls::Plain { certificate: default };
        }
        // Stable: of one rank they stay by age, and in the order written.
        claims.sort_by_key(|(_, claim)| claim.rank);
        let certificate_of = |claim: &TlsClaim| match &claim.certificate {
            CertificateSource::Default => default,
            CertificateSource::Secret(key) => pair(key).map(|pair| &pair.certificate),
            CertificateSource::Unusable => None,
        };
        let chosen = claims.iter().find_map(|(age, claim)| certificate_of(claim).map(|certificate| (*age, *claim, certificate)));
        let Some((owner, first, certificate)) = chosen else {
            return default.map_or(HostTls::Shut, |certificate| HostTls::Served { certificate });
        };
        if let Some(unlike) = first.secret().and_then(pair).filter(|pair| !pair.covers(self.host)) {
            self.note_unlike(owner, first, unlike);
        }
        let can_be_used = |claim: &TlsClaim| certificate_of(claim).is_some();
        for (age, claim) in claims {
            if age.key != owner.key && claim.certificate != first.certificate && can_be_used(claim) {
                let message =
                    format!("the certificate of `{}` is that of the Ingress `{}`, which goes first", self.host, owner.key);
                self.find(&age.key, FindingCode::CertificateTaken, Severity::Warning, &*claim.field, message);
            }
        }
        HostTls::Served { certificate }
    }

    fn note_unlike(&mut self, owner: &Age, claim: &TlsClaim, unlike: &Pair) {
        let message = format!("the certificate is not for `{}`, so clients refuse it: it is for {}", self.host, unlike.names());
        let field = format!("{}.secretName", claim.field);
        self.find(&owner.key, FindingCode::CertificateForOthers, Severity::Warning, field, message);
    }

    /// What is wrong with Secrets, whichever of them is served.
    fn note_secrets(&mut self, members: &[Member<'m>]) {
        for Member { age, fragment } in members.iter().copied() {
            for claim in &fragment.tls {
                let known = claim.secret().and_then(|key| Some((key, self.around.pairs.get(key)?)));
                if let Some((code, severity, message)) = known.and_then(|(key, pair)| pair.finding(key)) {
                    self.find(&age.key, code, severity, format!("{}.secretName", claim.field), message);
                }
            }
        }
    }

    fn places(&mut self, members: &[Member<'m>], taken: Taken) -> Places {
        let Settings { http, https, .. } = self.around.settings;
        let which = match (taken.http && http.is_some(), taken.https && https.is_some()) {
            (false, false) => None,
            (true, false) => Some("HTTP"),
            (false, true) => Some("HTTPS"),
            (true, true) => Some("HTTP and HTTPS"),
        };
        if let Some(which) = which {
            for member in members {
                let message = format!("`{}` is served over {which} by the configuration file of the proxy", self.host);
                self.find(&member.age.key, FindingCode::HostTaken, Severity::Error, "spec.rules", message);
            }
        }
        Places { http: http.filter(|_| !taken.http), https: https.filter(|_| !taken.https) }
    }

    /// Sites of the host, and the ports that they lead to.
    fn sites(&self, content: &Content<'_>, places: Places) -> (Vec<Arc<Site>>, BTreeSet<ServiceAtPort>) {
        let names = |reference: &ServiceAtPort| pool_name(reference, self.around.pools_taken);
        let routes = Routes { content, settings: self.around.settings, names: &names, led_to: RefCell::default() };
        let http = Places { https: None, ..places };
        let https = Places { http: None, ..places };
        let both = |certificate: Option<&Certificate>| {
            let places = if certificate.is_some() { places } else { http };
            self.site(content, places, certificate, || routes.all())
        };
        let sites = match content.tls {
            HostTls::Plain { certificate } => [both(certificate), None],
            // Where HTTPS comes in elsewhere, there is nothing to lead to.
            HostTls::Served { .. } | HostTls::Shut if self.around.settings.https.is_none() => [both(None), None],
            HostTls::Served { certificate } => [
                self.site(content, http, None, || routes.leading_to_https()),
                self.site(content, https, Some(certificate), || routes.all()),
            ],
            HostTls::Shut => [self.site(content, http, None, || routes.shut()), None],
        };
        (sites.into_iter().flatten().map(Arc::new).collect(), routes.led_to.into_inner())
    }

    fn site(
        &self,
        content: &Content<'_>,
        places: Places,
        certificate: Option<&Certificate>,
        routes: impl FnOnce() -> Vec<Route>,
    ) -> Option<Site> {
        let of_scheme = [(Scheme::Http, places.http), (Scheme::Https, places.https)];
        let listen: Vec<ListenPlace> = of_scheme
            .into_iter()
            .filter_map(|(scheme, place)| place.map(|address| ListenPlace { scheme, address: address.into() }))
            .collect();
        let address = |place: &ListenPlace| SiteAddress {
            scheme: place.scheme,
            host: self.host.clone(),
            port: place.scheme.default_port(),
            redirect_from_http: false,
            listen: listen.clone(),
        };
        let addresses: Vec<SiteAddress> = listen.iter().map(address).collect();
        let source = match certificate {
            Some(certificate) => TlsSource::Files(vec![certificate.clone()]),
            None => TlsSource::Automatic,
        };
        (!addresses.is_empty()).then(|| Site {
            origin: content.origin.clone(),
            addresses,
            tls: Tls { source, ..Tls::default() },
            options: RouteOptions::default(),
            steps: Vec::new(),
            routes: routes(),
        })
    }
}

/// `shop/web:80`, unless a file has a pool of that name.
pub fn pool_name(reference: &ServiceAtPort, taken: &BTreeSet<PoolName>) -> PoolName {
    let name = PoolName(reference.to_string().into());
    if taken.contains(&name) { PoolName(format!("Service {reference}").into()) } else { name }
}
