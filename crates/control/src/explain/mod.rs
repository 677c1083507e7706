//! Where a request would go, and why not elsewhere: listening address, certificate, site, route, steps, pool, limits. Decided by the code
//! that decides it for real (`wire` reads the head, `routing` finds site and route), in the order of `proxy`'s `request`.
//! `request` is the question, `sites`, `routes` and `pool` are parts of the answer, `render` is the answer as text.

mod listener;
mod pool;
mod render;
mod request;
mod routes;
mod sites;

#[cfg(test)]
mod tests;

pub use crate::wording::Setting;
pub use request::ExplainRequest;

use crate::wording;
use listener::Place;
use std::net::{IpAddr, SocketAddr};
use tidegate_model::listening::{ListenerProtocol, listening_shared, redirect_site, site_name};
use tidegate_model::{Configuration, PathPolicy, Scheme, Site, Step, Terminal, TlsVersion};
use tidegate_proxy::path_policy::{PathRefusal, path_policy_of, settle_path};
use tidegate_routing::{Reason, RequestFacts, Routes, SiteId};
use tidegate_telemetry::ServerWord;
use tidegate_wire::HeadError;
use tidegate_wire::head::{Method, RequestHead};

/// All that is known about one request. Parts behind the point where it is refused are absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub request: RequestSeen,
    pub outcome: Outcome,
    pub listener: Option<ListenerSeen>,
    /// What a client gets that connects with this URL; `None` in plain text.
    pub certificate: Option<CertificateSeen>,
    /// Its first address, as logs and metrics name it.
    pub site: Option<String>,
    pub route: Option<RouteSeen>,
    pub pool: Option<PoolSeen>,
    /// `limits` by name, and `body-limit` where a step sets it.
    pub limits: Vec<Setting>,
    /// The routes of the site that are not taken, in file order.
    pub other_routes: Vec<RoutePassed>,
    /// How many more there are; those whose path does not fit are left out first.
    pub other_routes_left_out: usize,
    /// The other sites on the listening address, in file order.
    pub other_sites: Vec<SitePassed>,
    pub other_sites_left_out: usize,
    /// What was assumed, and what the proxy does before it looks for a route.
    pub notes: Vec<String>,
}

/// The request as it is matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSeen {
    pub method: String,
    pub url: String,
    /// Without port; the `Host` field where one was given.
    pub host: String,
    /// Normalised; empty when the head was refused.
    pub path: String,
    pub query: Option<String>,
    pub client_ip: IpAddr,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// `respond`
    Responds { status: u16 },
    /// `redirect`, to this template.
    Redirects { status: u16, to: String },
    /// `proxy`, to this pool.
    Proxied { pool: String },
    /// The connection is passed on as it is, to this pool; nobody here sees the request. `by`: `sni "db.example.com"`, or `tcp`.
    PassedOn { by: String, pool: String },
    /// `split`, to one of several pools. `by`: the template of its key; `shares`: each part and its pool, on one line.
    Split { by: Option<String>, shares: String },
    /// `files`, from this folder.
    Serves { folder: String },
    /// `fastcgi`, by a script in this folder, as the server sees it.
    RunsScript { server: String, folder: String },
    /// By the proxy itself; `reason` is the code in log and metrics.
    Refused { status: u16, reason: &'static str, sentence: String },
    /// No site has that port, or that address.
    NothingListens,
    /// No site has the name of the TLS handshake: it ends with the alert `unrecognized_name`.
    HandshakeRefused,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSeen {
    pub address: SocketAddr,
    pub protocol: ListenerProtocol,
    /// Nobody wrote it: it redirects to HTTPS.
    pub implied: bool,
    pub trusted_proxies: Vec<String>,
    pub proxy_protocol_from: Vec<String>,
}

/// Whose TLS settings and certificate the handshake has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateSeen {
    pub site: String,
    pub source: CertificateSource,
    pub min_version: TlsVersion,
    /// In order of preference.
    pub alpn: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// The files of the chains.
    Files(Vec<String>),
    InternalCa,
}

/// The route that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSeen {
    /// Its place in the site, from 1.
    pub rank: usize,
    /// `route "/api/*" → pool api`
    pub title: String,
    /// As they run: those of the site, then those of the route.
    pub steps: Vec<StepSeen>,
    /// The step that answers.
    pub terminal: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSeen {
    pub text: String,
    pub of_site: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutePassed {
    pub rank: usize,
    pub title: String,
    pub why: WhyNotRoute,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNotRoute {
    Path,
    /// No `match` line holds.
    Conditions(Vec<FailedLine>),
    /// It fits; the route of that rank is before it.
    Shadowed {
        by: usize,
    },
}

/// A `match` line, and the first of its conditions that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedLine {
    pub line: String,
    pub condition: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SitePassed {
    pub site: String,
    /// Those that it has on the listening address. A catch-all is `*`.
    pub hosts: Vec<String>,
    pub why: WhyNotSite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNotSite {
    /// It does not have the host.
    Host,
    /// A host of it fits, but that of the site that was found is more specific.
    LessSpecific,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSeen {
    pub name: String,
    pub balance: String,
    pub servers: Vec<ServerSeen>,
    /// All others that mean something for it.
    pub settings: Vec<Setting>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSeen {
    pub address: String,
    pub weight: u32,
    /// Servers of a higher one are used when none of a lower one can be.
    pub priority: u8,
    pub zone: Option<String>,
    /// How it is now; only a running process knows.
    pub live: Option<ServerLive>,
}

/// What a running process knows of a server. Filled in by whoever has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLive {
    pub state: ServerWord,
    /// Why it gets no requests, or fewer than its share; one line.
    pub why: Option<String>,
    /// Over all workers.
    pub idle_connections: u64,
    pub requests_in_flight: u64,
}

/// Follows a request through a configuration. `Err` is a request that cannot be put into bytes, or a configuration that does not compile;
/// a request that the proxy would refuse is an explanation like any other.
pub fn explain(configuration: &Configuration, request: &ExplainRequest) -> Result<Explanation, String> {
    let head = request.head(&configuration.limits)?;
    let listening = listening_shared(configuration);
    let mut answer = Explanation::new(configuration, request);
    let Some(place) = Place::find(configuration, &listening, request) else { return Ok(answer) };
    answer.notes.extend(place.note());
    answer.listener = Some(place.seen());
    if let Some((by, target)) = place.passed_on(request) {
        answer.pool = configuration.pools.iter().find(|known| known.name == target.pool).map(pool::seen);
        answer.outcome = Outcome::PassedOn { by, pool: target.pool.to_string() };
        return Ok(answer);
    }
    if place.listening.protocol.scheme() != request.scheme {
        answer.outcome = match request.scheme {
            Scheme::Http => refused(400, "plain_http_to_tls", "plain HTTP was sent to a port that speaks TLS"),
            Scheme::Https => refused(400, "tls_to_plain_http", "TLS was sent to a port that speaks plain HTTP"),
        };
        return Ok(answer);
    }
    let redirect = redirect_site();
    let site_of = |id: SiteId| configuration.sites.get(id.0 as usize).map_or(&redirect, |site| &**site);
    let tls_site = place.tls_site(request);
    if request.scheme == Scheme::Https {
        answer.certificate = tls_site.and_then(|id| sites::certificate(site_of(id)));
        if answer.certificate.is_none() {
            answer.outcome = Outcome::HandshakeRefused;
            answer.pass_sites(configuration, &place, &request.host, None);
            return Ok(answer);
        }
    }
    let mut head = match head {
        Ok(head) => head,
        Err(error) => {
            answer.outcome = refused_head(error);
            return Ok(answer);
        }
    };
    answer.notes.extend(place.arrive(&mut head, request.client_ip));
    answer.request.see(&head);
    let found = place.router.find_site(head.host(), place.local_ip);
    let host = answer.request.host.clone();
    answer.pass_sites(configuration, &place, &host, found);
    let Some(id) = found else {
        answer.outcome = refused(421, "unknown_host", "no site has this host name");
        return Ok(answer);
    };
    let site = site_of(id);
    answer.site = Some(site_name(site));
    if let Err(refusal) = settle(&mut head, path_policy_of(&site.steps).unwrap_or_default()) {
        answer.outcome = refused(400, refusal.reason(), "the path is spelled in a way that the site refuses");
        return Ok(answer);
    }
    answer.request.see(&head);
    if tls_site.is_some_and(|named| named != id && !sites::have_same_tls_policy(site_of(named), site)) {
        answer.outcome = refused(421, "misdirected", "the name of the handshake belongs to a site with other TLS settings");
        return Ok(answer);
    }
    if head.method == Method::Connect {
        answer.outcome = refused(405, "connect_method", "this server does not open tunnels");
        return Ok(answer);
    }
    answer.take_route(configuration, site, &place, &head, request.client_ip)?;
    Ok(answer)
}

fn settle(head: &mut RequestHead, policy: PathPolicy) -> Result<(), PathRefusal> {
    if let Some(path) = settle_path(policy, head.path())? {
        head.set_path(&path);
    }
    Ok(())
}

/// The first that says one.
fn body_limit<'s>(mut steps: impl Iterator<Item = &'s Step>) -> Option<u64> {
    steps.find_map(|step| match step {
        Step::BodyLimit { bytes_max } => Some(*bytes_max),
        Step::RequestHeader(_)
        | Step::ResponseHeader(_)
        | Step::Rewrite { .. }
        | Step::StripPrefix(_)
        | Step::AddPrefix(_)
        | Step::PathPolicy(_)
        | Step::Allow(_)
        | Step::Deny(_)
        | Step::Cors(_)
        | Step::BasicAuth(_)
        | Step::ClientAuth(_)
        | Step::ErrorPage(_)
        | Step::RateLimit(_)
        | Step::ConcurrencyLimit(_)
        | Step::Compress(_)
        | Step::Decompress(_)
        | Step::Cache(_)
        | Step::Timeout(_)
        | Step::Log(_)
        | Step::Mirror(_) => None,
    })
}

fn refused(status: u16, reason: &'static str, sentence: &str) -> Outcome {
    Outcome::Refused { status, reason, sentence: sentence.to_owned() }
}

fn refused_head(error: HeadError) -> Outcome {
    Outcome::Refused { status: error.status(), reason: error.reason(), sentence: error.to_string() }
}

impl RequestSeen {
    fn see(&mut self, head: &RequestHead) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.host = text(head.host());
        self.path = text(head.path());
        self.query = head.query().map(text);
    }
}

impl Explanation {
    fn new(configuration: &Configuration, request: &ExplainRequest) -> Explanation {
        Explanation {
            request: RequestSeen {
                method: request.method.clone(),
                url: request.url(),
                host: request.host.clone(),
                path: String::new(),
                query: None,
                client_ip: request.client_ip,
            },
            outcome: Outcome::NothingListens,
            listener: None,
            certificate: None,
            site: None,
            route: None,
            pool: None,
            limits: wording::limits(&configuration.limits).into(),
            other_routes: Vec::new(),
            other_routes_left_out: 0,
            other_sites: Vec::new(),
            other_sites_left_out: 0,
            notes: Vec::new(),
        }
    }

    /// Whether a route answers, or a server that the connection is passed on to. Otherwise the request is refused, or does not even arrive.
    pub fn has_route(&self) -> bool {
        match self.outcome {
            Outcome::Responds { .. }
            | Outcome::Redirects { .. }
            | Outcome::Proxied { .. }
            | Outcome::PassedOn { .. }
            | Outcome::Split { .. }
            | Outcome::Serves { .. }
            | Outcome::RunsScript { .. } => true,
            Outcome::Refused { .. } | Outcome::NothingListens | Outcome::HandshakeRefused => false,
        }
    }

    fn pass_sites(&mut self, configuration: &Configuration, place: &Place<'_>, host: &str, found: Option<SiteId>) {
        (self.other_sites, self.other_sites_left_out) = sites::passed(configuration, place, host, found);
    }

    fn take_route(
        &mut self,
        configuration: &Configuration,
        site: &Site,
        place: &Place<'_>,
        head: &RequestHead,
        client_ip: IpAddr,
    ) -> Result<(), String> {
        let compiled = Routes::new(&site.routes).map_err(|error| format!("site {}: {error}", site_name(site)))?;
        let facts = RequestFacts::of(head, place.listening.protocol.scheme(), client_ip);
        let reasons = compiled.explain(&facts);
        let taken = reasons.iter().find(|explained| explained.reason == Reason::Taken).map(|explained| explained.route);
        debug_assert_eq!(taken, compiled.find_route(&facts), "the explanation must be of what happens");
        (self.other_routes, self.other_routes_left_out) = routes::passed(site, &reasons);
        let Some(taken) = taken else {
            self.outcome = refused(404, "no_route", "no route of this site matches the request");
            if !site.steps.is_empty() {
                self.notes.push("the steps of the site run before that, and may refuse it for a reason of their own".to_owned());
            }
            return Ok(());
        };
        let route = &site.routes[taken.0 as usize];
        if let Some(policy) = path_policy_of(&route.steps) {
            let mut head = head.clone();
            let settled = settle(&mut head, policy);
            let facts = RequestFacts::of(&head, place.listening.protocol.scheme(), client_ip);
            if settled.is_err() || compiled.find_route(&facts) != Some(taken) {
                let reason = settled.err().unwrap_or(PathRefusal::Ambiguous).reason();
                self.outcome = refused(400, reason, "the path is spelled in a way that the route refuses");
                return Ok(());
            }
        }
        self.route = Some(routes::taken(site, taken));
        let body_limit = body_limit(site.steps.iter().chain(&route.steps).rev());
        self.limits.extend(body_limit.map(|bytes| Setting { name: "body-limit", value: wording::size(bytes) }));
        self.outcome = match &route.terminal {
            Terminal::Respond { status, .. } => Outcome::Responds { status: *status },
            Terminal::Redirect { to, status } => Outcome::Redirects { status: *status, to: to.to_string() },
            Terminal::Files(files) => Outcome::Serves { folder: files.root.display().to_string() },
            Terminal::FastCgi(fastcgi) => {
                Outcome::RunsScript { server: fastcgi.address.to_string(), folder: fastcgi.root.display().to_string() }
            }
            Terminal::Split(split) => {
                Outcome::Split { by: split.by.as_ref().map(ToString::to_string), shares: wording::shares(split) }
            }
            Terminal::Proxy { pool, .. } => {
                self.pool = configuration.pools.iter().find(|known| known.name == *pool).map(pool::seen);
                Outcome::Proxied { pool: pool.to_string() }
            }
        };
        Ok(())
    }
}
