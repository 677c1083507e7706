//! What a request may do and where it goes, in the order of its life: the site of its host, whether its connection was
//! made for such a site, its method, its path as it is settled, its route. Facts and compiled tables in, a route or a
//! rejection out: `proxy` does what is said here, `explain` tells it. What steps refuse is not known here, and neither
//! is what a head must be to be read at all (`wire`).

use crate::path_policy::{PathRefusal, path_as_sent, settle_path};
use crate::{RequestFacts, RouteId, Router, Routes, SiteId};
use std::net::IpAddr;
use std::sync::Arc;
use tidegate_access::Claims;
use tidegate_geo::Whereabouts;
use tidegate_model::listening::site_name;
use tidegate_model::{CipherName, ClientAuth, Origin, PathPolicy, Scheme, Site, TlsSource, TlsVersion};
use tidegate_tables::Maps;
use tidegate_wire::head::{Method, RequestHead};
use tidegate_wire::{ClientCertificate, Span};

/// Why a request has no route to go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    UnknownHost,
    /// The connection was made for a site with other TLS settings.
    Misdirected,
    ConnectMethod,
    /// TRACE, where nobody has asked for it (`pass-on`): the answer would tell what steps have added.
    TraceMethod,
    Path(PathRefusal),
}

impl From<PathRefusal> for Rejection {
    fn from(refusal: PathRefusal) -> Rejection {
        Rejection::Path(refusal)
    }
}

/// Where a request has arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Of the listening address.
    pub router: &'a Router,
    /// The address that the client connected to.
    pub local_ip: IpAddr,
    /// What the connection was made for; none without TLS.
    pub tls: Option<&'a TlsIdentity>,
}

/// From whom a request comes.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    pub scheme: Scheme,
    /// The address that is believed to be the client's.
    pub ip: IpAddr,
    /// What the client has shown in its handshake.
    pub certificate: Option<&'a ClientCertificate>,
    /// What its handshake tells of it, where something asks for that.
    pub ja4: Option<&'a str>,
    pub geo: Whereabouts<'a>,
    /// Where its head says which protocol the client asks to switch to.
    pub upgrade: Option<Span>,
    /// What conditions on a `map` look up in.
    pub maps: &'a Maps,
    /// What the token says that was verified, where a condition is about it.
    pub claims: Option<&'a Claims>,
}

impl Arrival<'_> {
    /// The first half: the site that a request names, if it may ask for it on its connection. `site` is asked for the
    /// rules of the site that was found, and for what the caller wants of it.
    #[inline]
    pub fn admit<'s, T>(&self, head: &RequestHead, site: impl FnOnce(SiteId) -> (T, &'s SiteRules)) -> Result<T, Rejection> {
        let found = self.router.find_site(head.host(), self.local_ip).ok_or(Rejection::UnknownHost)?;
        let (site, rules) = site(found);
        if self.tls.is_some_and(|made_for| !made_for.serves(&rules.tls)) {
            return Err(Rejection::Misdirected);
        }
        if head.method == Method::Connect {
            return Err(Rejection::ConnectMethod);
        }
        Ok(site)
    }
}

/// A site's tables, by which its requests are decided.
#[derive(Debug)]
pub struct SiteRules {
    pub tls: Arc<TlsIdentity>,
    pub routes: Routes,
    path_policy: PathPolicy,
    /// By route, where it has another one than the site. Empty where none has.
    route_policies: Box<[Option<PathPolicy>]>,
    passes_trace: bool,
    /// By route, as with `route_policies`.
    routes_pass_trace: Box<[Option<bool>]>,
}

impl SiteRules {
    /// Fails only on a regular expression that does not compile, which `config` refuses before.
    pub fn new(site: &Site) -> Result<SiteRules, regex::Error> {
        let own: Box<[_]> = site.routes.iter().map(|route| route.options.path_policy).collect();
        let pass: Box<[_]> = site.routes.iter().map(|route| route.options.pass_on.map(|pass_on| pass_on.trace)).collect();
        Ok(SiteRules {
            tls: Arc::new(TlsIdentity {
                site: site_name(site).into(),
                origin: site.origin.clone(),
                policy: TlsPolicy::new(site),
            }),
            routes: Routes::new(&site.routes, site.options.path_policy.unwrap_or_default())?,
            path_policy: site.options.path_policy.unwrap_or_default(),
            route_policies: if own.iter().all(Option::is_none) { Box::default() } else { own },
            passes_trace: site.options.pass_on.is_some_and(|pass_on| pass_on.trace),
            routes_pass_trace: if pass.iter().all(Option::is_none) { Box::default() } else { pass },
        })
    }

    /// The second half: the first route that takes the request, if one does. The path is settled before, and left in
    /// the head: what was matched is what goes on. A route's own policy takes the place of its site's, and must not
    /// lead to another route.
    #[inline]
    pub fn find_route(&self, head: &mut RequestHead, sender: Sender<'_>) -> Result<Option<RouteId>, Rejection> {
        self.find_route_behind(head, sender, None)
    }

    /// As [`find_route`](Self::find_route), of those behind one that leaves the request to them. The path has to be the
    /// one that was sent.
    #[inline]
    pub fn find_route_behind(
        &self,
        head: &mut RequestHead,
        sender: Sender<'_>,
        behind: Option<RouteId>,
    ) -> Result<Option<RouteId>, Rejection> {
        let sent = head.path;
        settle(head, self.path_policy, sent)?;
        let found = self.routes.find_route_behind(&sender.facts(head), behind);
        if let Some(policy) = found.and_then(|id| *self.route_policies.get(id.0 as usize)?) {
            settle(head, policy, sent)?;
            if self.routes.find_route_behind(&sender.facts(head), behind) != found {
                return Err(PathRefusal::Ambiguous.into());
            }
        }
        if head.method == Method::Trace && !self.passes_trace(found) {
            return Err(Rejection::TraceMethod);
        }
        Ok(found)
    }
}

impl SiteRules {
    /// Spells the path of a request that goes to an upstream as it was sent, where the policy says so and no step has
    /// changed what was matched. What a step makes of a path is made of the one that routes match.
    pub fn spell_as_sent(&self, route: Option<RouteId>, head: &mut RequestHead, sent: Span) {
        let own = route.and_then(|id| *self.route_policies.get(id.0 as usize)?);
        if let Some(path) = path_as_sent(own.unwrap_or(self.path_policy), sent.of(&head.fields.bytes)) {
            head.set_path(&path);
        }
    }

    fn passes_trace(&self, route: Option<RouteId>) -> bool {
        let own = route.and_then(|id| *self.routes_pass_trace.get(id.0 as usize)?);
        own.unwrap_or(self.passes_trace)
    }
}

/// Makes the path what the policy says of the one that was sent.
#[inline]
fn settle(head: &mut RequestHead, policy: PathPolicy, sent: Span) -> Result<(), PathRefusal> {
    match settle_path(policy, sent.of(&head.fields.bytes))? {
        Some(path) => head.set_path(&path),
        None => head.path = sent,
    }
    Ok(())
}

impl<'a> Sender<'a> {
    /// What its request is matched by, as it stands now.
    #[inline]
    pub fn facts(self, head: &'a RequestHead) -> RequestFacts<'a> {
        RequestFacts {
            client_certificate: self.certificate,
            ja4: self.ja4,
            upgrade: self.upgrade.map(|protocol| protocol.of(&head.fields.bytes)),
            geo: self.geo,
            maps: self.maps,
            claims: self.claims,
            ..RequestFacts::of(head, self.scheme, self.ip)
        }
    }
}

/// For which site a TLS connection was made, and what that demanded then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    pub site: Arc<str>,
    /// Where the site comes from, for the log.
    pub origin: Option<Arc<Origin>>,
    policy: TlsPolicy,
}

impl TlsIdentity {
    /// A request for one site on a connection made for another would evade what the former demands of TLS. A connection
    /// made for the site itself stays good when versions and ciphers change: it is no worse than one that was made a
    /// moment earlier. Who the client is has to be known as the site wants it now.
    #[inline]
    fn serves(&self, wanted: &TlsIdentity) -> bool {
        self.policy == wanted.policy || (self.site == wanted.site && self.policy.asks_clients_as(&wanted.policy))
    }
}

/// What a site demands of the TLS connection. A request for one site on a connection made for another is served only
/// where both demand the same, since browsers do share connections between names of one certificate (RFC 9113 section
/// 9.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
struct TlsPolicy {
    /// Whether there is no handshake at all: a connection that was made for a wildcard would get past that.
    is_rejected: bool,
    min_version: TlsVersion,
    ciphers: Vec<CipherName>,
    /// As far as it decides who is let in. Without it, whoever has a connection to an open site of the same address
    /// would be let into one that asks for certificates.
    client_auth: Option<ClientAuth>,
}

impl TlsPolicy {
    fn new(site: &Site) -> TlsPolicy {
        TlsPolicy {
            is_rejected: site.tls.source == TlsSource::Reject,
            min_version: site.tls.min_version,
            ciphers: site.tls.ciphers.clone(),
            client_auth: site.tls.client_auth.clone().map(|auth| ClientAuth { forward: None, ..auth }),
        }
    }

    /// Whether what it knows of clients is what the other one wants to know.
    fn asks_clients_as(&self, wanted: &TlsPolicy) -> bool {
        wanted.client_auth.is_none() || self.client_auth == wanted.client_auth
    }
}
