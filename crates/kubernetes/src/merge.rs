//! Fragments of one host as its sites. A host is looked at as a whole, since what one Ingress may have of it depends on
//! the others; hosts are looked at apart from each other.

mod asking;
mod canaries;
mod extras;
mod guards;
mod obtained;
mod passing;
mod protections;
mod routes;
mod shares;
mod site_defaults;
mod snippets;
mod stand_ins;
mod variants;

pub use stand_ins::stand_in;

use crate::config_map::KnownConfigMap;
use crate::defaults::SiteDefaults;
use crate::finding::{Finding, FindingCode, Severity};
use crate::fragment::{BackendRoute, CertificateSource, Expression, Fragment, PathRoute, PlacedPath, TlsClaim};
use crate::reference::{Age, ServiceAtPort};
use crate::secret::{KnownPair, Pair};
use crate::settings::{HostOwner, Settings};
use crate::snippets::asked_by;
use guards::Guard;
use passing::Passing;
use protections::lacks;
use routes::Routes;
use site_defaults::{blocked, site_options, site_steps};
use snippets::HostSnippet;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::net::SocketAddr;
use std::sync::Arc;
use tidegate_cluster::Key;
use tidegate_model::{
    AcmeChanges, Certificate, CipherName, HostPattern, ListenPlace, Origin, PathPattern, Pool, PoolName, Route, Scheme, Site,
    SiteAddress, Template, Tls, TlsSource,
};

pub use obtained::Obtained;

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
    pub known: Material<'s>,
    /// What holds where no Ingress is.
    pub sites: &'s SiteDefaults,
    /// Names of pools that a file has already.
    pub pools_taken: &'s BTreeSet<PoolName>,
    /// Whether somebody in front may say that a request in plain HTTP has come over TLS.
    pub trusts_scheme: bool,
}

/// What is known of what Ingresses refer to.
#[derive(Debug, Clone, Copy)]
pub struct Material<'k> {
    pub pairs: &'k BTreeMap<Key, KnownPair>,
    pub maps: &'k BTreeMap<Key, KnownConfigMap>,
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
    /// Pools of servers that are no Service.
    pub outside: Vec<Arc<Pool>>,
    /// Who gets connections over TLS as they are.
    pub passed_on: Option<PassedOn>,
    /// Of a host whose certificate is obtained.
    pub obtained: Option<Obtained>,
    /// Names of maps that its routes ask for.
    pub maps: BTreeSet<String>,
}

/// A name whose connections are handed on.
#[derive(Debug, Clone, PartialEq)]
pub struct PassedOn {
    pub name: HostPattern,
    pub to: PoolName,
}

/// Members come by age.
pub fn merge(host: &HostPattern, members: &[Member<'_>], taken: Taken, around: Surroundings<'_>) -> MergedHost {
    merge_as(host, members, taken, around, &[])
}

/// As [`merge`], with certificates that go before those of the members.
fn merge_as(
    host: &HostPattern,
    members: &[Member<'_>],
    taken: Taken,
    around: Surroundings<'_>,
    own_claims: &[(Member<'_>, &TlsClaim)],
) -> MergedHost {
    let mut merging = Merging { host, around, findings: Vec::new() };
    let (stand_ins, members): (Vec<Member<'_>>, Vec<Member<'_>>) =
        members.iter().partition(|member| !member.fragment.stands_for.is_empty());
    let (canaries, members): (Vec<Member<'_>>, Vec<Member<'_>>) =
        members.iter().partition(|member| member.fragment.manner.canary.is_some());
    if let Some(first) = members.first() {
        merging.note_ruled(&stand_ins, first.age);
    }
    let members = merging.owned(&members);
    merging.note_lacks(&canaries);
    if members.is_empty() && *host != HostPattern::Any {
        merging.note_alone(&canaries);
        return MergedHost { findings: merging.findings, ..MergedHost::default() };
    }
    let mut guards = merging.guards(&members);
    let server = merging.host_snippet(&members);
    guards.shut.extend(merging.note_shut_host(&members, &server));
    let passing = merging.passing(&members, taken, &mut guards.shut);
    let paths = merging.paths(&members, &canaries, &guards.shut);
    let rest = merging.rest(&members, &guards.shut);
    let passed_on = match passing {
        Passing::Wanted => merging.passed_on(&members, &paths, rest),
        Passing::None => None,
    };
    let content = Content {
        app_root: app_root(&paths, &members, &guards.shut),
        paths,
        rest,
        oldest: members.first().copied(),
        guard: guards.guard,
        server,
        ciphers: members.iter().map(|member| &*member.fragment.manner.ciphers).find(|own| !own.is_empty()).unwrap_or_default(),
        tls: match &passed_on {
            Some(_) if members.iter().any(|member| member.fragment.wants_tls()) => HostTls::PassedOn,
            Some(_) => HostTls::Plain { certificate: None },
            None => merging.tls(&members, own_claims),
        },
        defaults: merging.site_defaults(&members),
        origin: members.first().map(|member| Arc::new(member.age.origin())),
    };
    if passed_on.is_none() {
        merging.note_secrets(&members, &content.tls);
    }
    merging.note_lacks(&members);
    merging.note_no_pages(&members);
    merging.note_unasked(&members, &content);
    merging.note_faults(&members, &content);
    let places = merging.places(&members, taken);
    let places = if passed_on.is_some() { Places { https: None, ..places } } else { places };
    let Served { sites, pools, mut outside } = merging.sites(&content, places);
    let hand_on = |reference: &ServiceAtPort| {
        let pool = passing::pool_of(reference, around);
        let to = pool.name.clone();
        outside.push(Arc::new(pool));
        PassedOn { name: host.clone(), to }
    };
    let passed_on = passed_on.as_ref().map(hand_on);
    let obtained = content.tls.obtained().filter(|_| places.https.is_some()).cloned();
    let maps = asked_by(&sites);
    MergedHost { sites, findings: merging.findings, pools, outside, passed_on, obtained, maps }
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
    paths: Vec<TakenPath<'m>>,
    rest: Option<Owned<'m>>,
    /// The Ingress that says how what no path takes is answered, without a Service that has it.
    oldest: Option<Member<'m>>,
    guard: Option<Guard<'m>>,
    server: HostSnippet<'m>,
    ciphers: &'m [CipherName],
    /// Where `/` leads, whoever has that path.
    app_root: Option<AppRoot<'m>>,
    tls: HostTls<'m>,
    /// What holds for all of it.
    defaults: &'m SiteDefaults,
    origin: Option<Arc<Origin>>,
}

/// Where `/` leads, and the Ingress that says so.
#[derive(Clone, Copy)]
struct AppRoot<'m> {
    to: &'m Template,
    origin: &'m Arc<Origin>,
}

/// A path with whoever has it.
#[derive(Clone, Copy)]
struct TakenPath<'m> {
    written: &'m PathRoute,
    path: &'m PlacedPath,
    /// Whether an `Exact` path of the same text takes what goes on without a slash.
    is_below: bool,
    /// Of a host with expressions.
    expression: Option<&'m Expression>,
    /// Stands for one that is not understood, so that nobody else answers what may be meant by it.
    is_shut: bool,
    owned: Owned<'m>,
    /// Has a share of it.
    canary: Option<Owned<'m>>,
}

/// Where requests go, and what else the same Ingress says of the host.
#[derive(Clone, Copy)]
struct Owned<'m> {
    route: &'m BackendRoute,
    fragment: &'m Fragment,
    /// Whether nothing of it is answered on this host.
    is_shut: bool,
}

/// Sites of a host, with what they lead to.
struct Served {
    sites: Vec<Arc<Site>>,
    pools: BTreeSet<ServiceAtPort>,
    outside: Vec<Arc<Pool>>,
}

/// Whether a host is served over TLS.
enum HostTls<'m> {
    /// Nobody asks for it. With a default certificate it is served over HTTPS as well as over HTTP.
    Plain { certificate: Option<&'m Certificate> },
    /// Plain HTTP leads to HTTPS.
    Served { certificate: &'m Certificate },
    /// Plain HTTP leads to HTTPS, with a certificate that is obtained from a CA, and until then is of our own.
    Obtained(Obtained),
    /// Plain HTTP leads to HTTPS, where connections are handed on.
    PassedOn,
    /// Asked for, and there is no certificate: handshakes end, and nothing is answered in plain text that was to be
    /// encrypted.
    Shut,
}

impl<'m> HostTls<'m> {
    /// Whether an Ingress wants it, and it is there.
    fn is_asked_for(&self) -> bool {
        matches!(self, HostTls::Served { .. } | HostTls::Obtained(_))
    }

    /// `None`: handshakes end, also where a wildcard has a certificate that would do. What is said of the host may
    /// protect it, and nothing of that holds for the wildcard's Ingress.
    fn certificate(&self) -> Option<&'m Certificate> {
        match self {
            HostTls::Plain { certificate } => *certificate,
            HostTls::Served { certificate } => Some(certificate),
            HostTls::Obtained(_) | HostTls::PassedOn | HostTls::Shut => None,
        }
    }

    fn obtained(&self) -> Option<&Obtained> {
        match self {
            HostTls::Obtained(obtained) => Some(obtained),
            HostTls::Plain { .. } | HostTls::Served { .. } | HostTls::PassedOn | HostTls::Shut => None,
        }
    }

    /// Whether handshakes come to an end.
    fn is_served(&self) -> bool {
        self.certificate().is_some() || self.obtained().is_some()
    }
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

    fn paths(&mut self, members: &[Member<'m>], canaries: &[Member<'m>], shut: &BTreeSet<Key>) -> Vec<TakenPath<'m>> {
        let are_expressions = are_expressions(members);
        let (mut table, mut exact) = (BTreeMap::new(), Vec::new());
        for Member { age, fragment } in members.iter().copied() {
            for written in &fragment.paths {
                let (path, is_shut) = match written.placed(are_expressions) {
                    Ok(path) => (path, false),
                    Err((problem, meant)) => {
                        let meant = meant.filter(|_| fragment.manner.protects());
                        self.note_invalid(age, written, problem, meant);
                        let Some(meant) = meant else { continue };
                        (meant, true)
                    }
                };
                self.note_star(age, written, are_expressions);
                self.note_code(age, written, are_expressions);
                if are_expressions && is_exact_root(written) {
                    // What no path takes is in front of it there.
                    self.note_root(age, written);
                    continue;
                }
                let expression = written.expression.as_ref().ok().filter(|_| are_expressions);
                let owned = Owned { route: &written.route, fragment, is_shut: shut.contains(&age.key) };
                let own = TakenPath { written, path, is_below: false, expression, owned, is_shut, canary: None };
                match table.entry(&path.place) {
                    Entry::Vacant(vacant) => _ = vacant.insert((age, own)),
                    Entry::Occupied(mut taken) => {
                        let (owner, first) = taken.get_mut();
                        if are_expressions && first.leaves_exact() && !written.is_prefix {
                            first.is_below = true;
                            exact.push(own);
                        } else {
                            self.note_taken(age, written, owner, first);
                        }
                    }
                }
            }
        }
        self.share(&mut table, canaries, are_expressions);
        let mut paths: Vec<TakenPath<'m>> = table.into_values().map(|(_, path)| path).chain(exact).collect();
        if are_expressions {
            // Of equally long ones ingress-nginx has the last of the alphabet first.
            paths.sort_by(|a, b| {
                let (a, b) = (&a.path.place, &b.path.place);
                a.length.cmp(&b.length).then_with(|| b.text.cmp(&a.text))
            });
        }
        paths
    }

    fn note_invalid(&mut self, age: &Age, written: &PathRoute, problem: &str, shut: Option<&PlacedPath>) {
        let shut = match shut.map(|shut| &shut.pattern) {
            Some(PathPattern::Regex(pattern)) => {
                format!("; the Ingress protects what it serves, so what begins like `{pattern}` is answered with 503")
            }
            Some(PathPattern::Exact(_) | PathPattern::Prefix(_) | PathPattern::Beginning(_)) | None => String::new(),
        };
        let field = format!("{}.path", written.route.field);
        self.find(&age.key, FindingCode::PathInvalid, Severity::Error, field, format!("{problem}{shut}"));
    }

    fn note_star(&mut self, age: &Age, written: &PathRoute, are_expressions: bool) {
        let Some(plain) = written.plain.as_ref().ok().filter(|plain| !are_expressions && plain.place.text.contains('*')) else {
            return;
        };
        let text = &plain.place.text;
        let message =
            format!("the `*` in the path `{text}` stands for itself: a path of the type `Prefix` takes everything below it");
        let field = format!("{}.path", written.route.field);
        self.find(&age.key, FindingCode::PathWithStar, Severity::Warning, field, message);
    }

    fn note_code(&mut self, age: &Age, written: &PathRoute, are_expressions: bool) {
        let Some(plain) = written.plain.as_ref().ok().filter(|plain| !are_expressions && plain.decoded.is_some()) else { return };
        let text = &plain.place.text;
        let message = format!(
            "the code in the path `{text}` stands for its letters, as with ingress-nginx, so no request for `{text}` is taken: write what it stands for"
        );
        let field = format!("{}.path", written.route.field);
        self.find(&age.key, FindingCode::PathWithCode, Severity::Warning, field, message);
    }

    fn note_root(&mut self, age: &Age, written: &PathRoute) {
        let message = format!(
            "paths of `{}` are expressions, so that `/` is what no other path takes, and no path of the type `Exact`: write it as `Prefix`",
            self.host
        );
        self.find(&age.key, FindingCode::PathTaken, Severity::Error, format!("{}.path", written.route.field), message);
    }

    fn note_taken(&mut self, age: &Age, written: &PathRoute, owner: &Age, first: &TakenPath<'_>) {
        let text = &first.path.place.text;
        let shown = if text.is_empty() { "/" } else { text };
        let by = if owner.key == age.key {
            format!("`{}` of the same Ingress", first.owned.route.field)
        } else {
            format!("the Ingress `{}`, which {}", owner.key, goes_first(owner, age))
        };
        let message = format!("`{}{shown}` is served by {by}: remove it here, or there", self.host);
        self.find(&age.key, FindingCode::PathTaken, Severity::Error, format!("{}.path", written.route.field), message);
    }

    /// What no path of a host takes is the oldest one's alone, with or without a back end for it: as ingress-nginx has
    /// it, what it protects is protected there, and nobody else opens that.
    fn rest(&mut self, members: &[Member<'m>], shut: &BTreeSet<Key>) -> Option<Owned<'m>> {
        let mut found: Option<(&Age, Owned<'m>)> = None;
        let oldest = members.first().filter(|_| *self.host != HostPattern::Any);
        for Member { age, fragment } in members.iter().copied() {
            if let (Some(oldest), Some(rest), None) = (oldest, &fragment.rest, found)
                && oldest.age != age
            {
                let message = format!(
                    "requests that no path of `{}` takes are for the Ingress `{}`, which {} and names no back end for them",
                    self.host,
                    oldest.age.key,
                    goes_first(oldest.age, age)
                );
                self.find(&age.key, FindingCode::DefaultBackendTaken, Severity::Warning, &*rest.field, message);
                continue;
            }
            match (&fragment.rest, found) {
                (Some(rest), None) => {
                    found = Some((age, Owned { route: rest, fragment, is_shut: shut.contains(&age.key) }));
                }
                (Some(rest), Some((owner, first))) if rest.target != first.route.target => {
                    let which = if *self.host == HostPattern::Any {
                        "that nobody else takes".to_owned()
                    } else {
                        format!("that no path of `{}` takes", self.host)
                    };
                    let message =
                        format!("requests {which} are for the Ingress `{}`, which {}", owner.key, goes_first(owner, age));
                    self.find(&age.key, FindingCode::DefaultBackendTaken, Severity::Warning, &*rest.field, message);
                }
                (Some(_) | None, Some(_)) | (None, None) => {}
            }
        }
        found.map(|(_, rest)| rest)
    }

    /// The first certificate that can be used, of entries that name the host closely before others, and of the oldest
    /// before others.
    fn tls(&mut self, members: &[Member<'m>], own: &[(Member<'m>, &'m TlsClaim)]) -> HostTls<'m> {
        let Surroundings { settings, known, .. } = self.around;
        let pair = |key: &Key| known.pairs.get(key).and_then(KnownPair::pair);
        let default = settings.default_certificate.as_ref().and_then(pair).map(|pair| &pair.certificate);
        let mut claims: Vec<(Member<'m>, &TlsClaim)> =
            members.iter().flat_map(|member| member.fragment.tls.iter().map(|claim| (*member, claim))).collect();
        // Stable: of one rank they stay by age, and in the order written.
        claims.sort_by_key(|(_, claim)| claim.rank);
        claims.splice(0..0, own.iter().copied());
        if claims.is_empty() {
            let is_refused = *self.host == HostPattern::Any && self.site_defaults(members).refuses_unknown;
            return HostTls::Plain { certificate: default.filter(|_| !is_refused) };
        }
        let certificate_of = |claim: &TlsClaim| match &claim.certificate {
            CertificateSource::Default => default,
            CertificateSource::Secret(key) => pair(key).map(|pair| &pair.certificate),
            CertificateSource::Unusable => None,
        };
        let certified = claims.iter().position(|(_, claim)| certificate_of(claim).is_some());
        if let Some(obtained) = self.obtained(&claims, certified) {
            return HostTls::Obtained(obtained);
        }
        let claims: Vec<(&Age, &TlsClaim)> = claims.into_iter().map(|(member, claim)| (member.age, claim)).collect();
        let chosen = claims.iter().find_map(|(age, claim)| certificate_of(claim).map(|certificate| (*age, *claim, certificate)));
        let Some((owner, first, certificate)) = chosen else {
            if let Some(certificate) = default {
                return HostTls::Served { certificate };
            }
            for (age, claim) in claims.into_iter().filter(|(_, claim)| claim.certificate == CertificateSource::Default) {
                let message = format!(
                    "no Secret is named and there is no default certificate, so `{}` is not served over HTTPS, and answered with 503 over HTTP: name a Secret in `secretName`, or give `--default-certificate`",
                    self.host
                );
                self.find(&age.key, FindingCode::CertificateMissing, Severity::Error, &*claim.field, message);
            }
            return HostTls::Shut;
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
    fn note_secrets(&mut self, members: &[Member<'m>], tls: &HostTls<'m>) {
        for Member { age, fragment } in members.iter().copied() {
            for claim in &fragment.tls {
                let known = claim.secret().and_then(|key| Some((key, self.around.known.pairs.get(key)?)));
                let known = known.filter(|(_, pair)| !(tls.obtained().is_some() && pair.is_free()));
                if let Some((code, severity, message)) = known.and_then(|(key, pair)| pair.finding(key)) {
                    self.find(&age.key, code, severity, format!("{}.secretName", claim.field), message);
                }
            }
        }
    }

    /// What protections are missing, without which nothing is answered.
    fn note_lacks(&mut self, members: &[Member<'m>]) {
        for Member { age, fragment } in members.iter().copied() {
            for lack in lacks(&fragment.manner, self.around.known) {
                let Some(problem) = lack.problem else { continue };
                let field = format!("metadata.annotations[nginx.ingress.kubernetes.io/{}]", lack.annotation);
                let message = format!("{problem}; until then everything of this Ingress is answered with 503");
                self.find(&age.key, FindingCode::ProtectionUnavailable, Severity::Error, field, message);
            }
        }
    }

    /// Of the oldest Ingress for which more holds than for those of our own classes.
    fn site_defaults(&self, members: &[Member<'m>]) -> &'m SiteDefaults {
        let own = SiteDefaults::default();
        let mut of_members = members.iter().map(|member| &member.fragment.manner.defaults.sites);
        of_members.find(|defaults| **defaults != own).unwrap_or(self.around.sites)
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
    fn sites(&self, content: &Content<'_>, places: Places) -> Served {
        let names = |reference: &ServiceAtPort| pool_name(reference, self.around.pools_taken);
        let (led_to, outside) = (RefCell::default(), RefCell::default());
        let routes = Routes {
            scheme: Scheme::Https,
            host: self.host,
            content,
            settings: self.around.settings,
            known: self.around.known,
            trusts_scheme: self.around.trusts_scheme,
            names: &names,
            led_to: &led_to,
            outside: &outside,
        };
        let sites = if routes.are_alike() {
            [self.site(content, places, || routes.all()), None]
        } else {
            let over_tls = || if content.tls.is_served() { routes.all() } else { Vec::new() };
            [
                self.site(content, Places { https: None, ..places }, || {
                    Routes { scheme: Scheme::Http, ..routes }.of_plain_http()
                }),
                self.site(content, Places { http: None, ..places }, over_tls),
            ]
        };
        Served {
            sites: sites.into_iter().flatten().map(Arc::new).collect(),
            pools: led_to.into_inner(),
            outside: outside.into_inner().into_values().collect(),
        }
    }

    fn site(&self, content: &Content<'_>, places: Places, routes: impl FnOnce() -> Vec<Route>) -> Option<Site> {
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
        let has_certificate = places.https.is_some() && content.tls.is_served();
        let ciphers = if has_certificate { content.ciphers.to_vec() } else { Vec::new() };
        let client_auth = content.guard.as_ref().filter(|_| has_certificate).map(|guard| guard.auth.clone());
        let is_obtained = places.https.is_some() && content.tls.obtained().is_some();
        let source = match (places.https, content.tls.certificate()) {
            (None, _) => TlsSource::Automatic,
            (Some(_), _) if is_obtained => TlsSource::Automatic,
            (Some(_), Some(certificate)) => TlsSource::Files(vec![certificate.clone()]),
            (Some(_), None) => TlsSource::Reject,
        };
        let acme = is_obtained.then(|| Box::new(AcmeChanges::default()));
        let usual = Tls::default();
        let min_version = content.defaults.tls_min.filter(|_| has_certificate).unwrap_or(usual.min_version);
        let has_hsts = has_certificate && places.http.is_none() && content.tls.is_asked_for();
        (!addresses.is_empty()).then(|| Site {
            origin: content.origin.clone(),
            addresses,
            tls: Tls { source, acme, client_auth, ciphers, min_version, ..usual },
            options: site_options(content.defaults),
            steps: site_steps(content.defaults, self.around.known, has_hsts),
            routes: blocked(content.defaults).into_iter().chain(routes()).collect(),
        })
    }
}

/// Whether the paths of a host are expressions: one of them is of an Ingress that says so, or is rewritten. A path that
/// an older Ingress has is none, and what no path takes is the oldest one's, as the path `/`.
fn are_expressions(members: &[Member<'_>]) -> bool {
    let mut rest = members.first();
    let mut known = BTreeMap::from([("/", true)]);
    for member in members {
        for PathRoute { text, is_prefix, .. } in &member.fragment.paths {
            let is_new = match known.entry(text) {
                Entry::Vacant(vacant) => {
                    vacant.insert(*is_prefix);
                    true
                }
                Entry::Occupied(first) if first.get() == is_prefix => &**text == "/" && rest.take().is_some(),
                Entry::Occupied(_) => true,
            };
            if is_new && member.fragment.manner.makes_expression(text) {
                return true;
            }
        }
    }
    rest.is_some_and(|oldest| oldest.fragment.manner.makes_expression("/"))
}

fn is_exact_root(path: &PathRoute) -> bool {
    !path.is_prefix && &*path.text == "/"
}

impl TakenPath<'_> {
    /// Whether an `Exact` path of the same text has a part of it on a host with expressions: ingress-nginx has a prefix
    /// end with a slash, unless it is of an Ingress with expressions of its own.
    fn leaves_exact(&self) -> bool {
        let PathRoute { text, is_prefix, .. } = self.written;
        *is_prefix && !self.is_shut && !text.ends_with('/') && !self.owned.fragment.manner.makes_expression(text)
    }

    fn pattern(&self) -> PathPattern {
        match &self.path.pattern {
            PathPattern::Regex(text) if self.is_below => PathPattern::Regex(format!("{text}/")),
            pattern => pattern.clone(),
        }
    }
}

/// Why one Ingress goes before another one.
fn goes_first(owner: &Age, other: &Age) -> &'static str {
    if owner.created == other.created { "was made in the same second and has the name that goes first" } else { "is older" }
}

/// Where `/` of the host leads: what the first of its paths says that says anything, whether it takes `/` or not. So it
/// is with ingress-nginx, and who asks for `/` gets by no guard of anybody.
fn app_root<'m>(paths: &[TakenPath<'m>], members: &[Member<'m>], shut: &BTreeSet<Key>) -> Option<AppRoot<'m>> {
    let of = |fragment: &'m Fragment, origin| Some(AppRoot { to: fragment.manner.app_root.as_ref()?, origin });
    let is_open = |owned: &Owned<'_>| !owned.is_shut && !owned.fragment.manner.is_shut;
    let of_paths = paths.iter().map(|taken| taken.owned).filter(is_open).find_map(|own| of(own.fragment, &own.route.origin));
    let of_member = |Member { age, fragment }: Member<'m>| {
        let is_open = !shut.contains(&age.key) && !fragment.manner.is_shut;
        of(fragment, &fragment.routes().next()?.origin).filter(|_| is_open)
    };
    let has_root = |member: &Member<'m>| member.fragment.paths.iter().any(is_exact_root);
    let of_oldest = || members.first().copied().and_then(of_member);
    // Where paths are expressions an exact `/` takes nothing, and says where `/` leads all the same.
    let of_root = || members.iter().copied().find(has_root).and_then(of_member);
    of_paths.or_else(of_oldest).or_else(of_root)
}

/// `shop/web:80`, unless a file has a pool of that name.
pub fn pool_name(reference: &ServiceAtPort, taken: &BTreeSet<PoolName>) -> PoolName {
    let name = PoolName(reference.to_string().into());
    if taken.contains(&name) { PoolName(format!("Service {reference}").into()) } else { name }
}
