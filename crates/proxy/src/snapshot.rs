//! What runs: a configuration compiled into immutable tables, shared by all workers. A change is a new snapshot; a connection or a stream
//! keeps the one it began with. What outlives a snapshot is in `survivors`. Certificates and addresses are found by the caller (`control`).

use crate::survivors::ServerShared;
use ipnet::IpNet;
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::ServerName;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tidegate_middleware::{CompiledStep, CompiledTemplate, CompiledTerminal, Target, compile_steps};
use tidegate_model::{
    Balance, CipherName, Configuration, HostPattern, Limits, Pool, PoolName, Scheme, Site, Template, TemplatePart, Terminal,
    TlsVersion,
};
use tidegate_routing::{RouteId, Router, Routes, SiteId};
use tidegate_wire::HeadLimits;

pub struct Snapshot {
    pub generation: u64,
    pub listeners: Vec<Listener>,
    /// The sites of the configuration, in its order, and behind them the redirects to HTTPS that are not written there.
    pub sites: Vec<CompiledSite>,
    pub pools: Vec<Arc<CompiledPool>>,
    pub limits: Limits,
    pub drain: Duration,
    /// Whether requests are logged: otherwise no fact is gathered for the log.
    pub access_log: bool,
}

impl Snapshot {
    pub fn head_limits(&self) -> HeadLimits {
        HeadLimits {
            head_bytes_max: self.limits.header_bytes,
            request_line_bytes_max: self.limits.request_line_bytes,
            fields_max: self.limits.header_count,
        }
    }
}

/// One listening address and what answers there.
pub struct Listener {
    pub address: SocketAddr,
    pub scheme: Scheme,
    pub router: Router,
    /// Peers whose `X-Forwarded-*` fields are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The site whose certificate answers a client that names none, where neither its address nor a catch-all decides.
    pub first_site: SiteId,
    /// Whether a site is named by its IP address: only then is a connection's local address asked for.
    pub needs_local_ip: bool,
    /// Nobody wrote this address: it redirects to HTTPS. That it cannot be bound is a warning, no fault.
    pub implied: bool,
}

pub struct CompiledSite {
    /// Its first address, as metrics and logs name it.
    pub name: Arc<str>,
    pub routes: Routes,
    pub compiled_routes: Vec<CompiledRoute>,
    /// `None` for plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    pub tls_policy: TlsPolicy,
}

impl CompiledSite {
    pub fn route(&self, id: RouteId) -> &CompiledRoute {
        &self.compiled_routes[id.0 as usize]
    }
}

/// What a site demands of the TLS connection. A request for one site on a connection made for another is served only where both demand
/// the same, since browsers do share connections between names of one certificate (RFC 9113 section 9.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsPolicy {
    min_version: TlsVersion,
    ciphers: Vec<CipherName>,
}

pub struct CompiledRoute {
    /// The site's steps, then the route's.
    pub steps: Box<[CompiledStep]>,
    /// Whether any step reads or changes the response.
    pub changes_response: bool,
    pub terminal: CompiledTerminal,
    /// Position in `Snapshot::pools`, for a route that ends in `proxy`.
    pub pool: Option<usize>,
}

pub struct CompiledPool {
    pub name: PoolName,
    pub model: Pool,
    pub servers: Vec<CompiledServer>,
    /// For `balance "hash"`.
    pub hash_key: Option<CompiledTemplate>,
    pub tls: Option<UpstreamTlsConfigs>,
}

pub struct CompiledServer {
    /// `host:port`, as logs and `{upstream.address}` have it.
    pub authority: Arc<str>,
    pub addresses: Vec<SocketAddr>,
    /// The name to ask for and to verify; `None` speaks plain text.
    pub tls_name: Option<ServerName<'static>>,
    pub weight: u32,
    pub backup: bool,
    pub shared: Arc<ServerShared>,
}

/// Client configurations that differ in the protocols they offer.
#[derive(Clone)]
pub struct UpstreamTlsConfigs {
    /// Offers `h2` and `http/1.1`.
    pub any: Arc<ClientConfig>,
    pub http1: Arc<ClientConfig>,
    pub h2: Arc<ClientConfig>,
}

/// What the caller has found out about one pool.
pub struct PoolParts {
    /// By server, in the pool's order. Empty: the name has no address.
    pub addresses: Vec<Vec<SocketAddr>>,
    pub tls_names: Vec<Option<ServerName<'static>>>,
    pub tls: Option<UpstreamTlsConfigs>,
    pub shared: Vec<Arc<ServerShared>>,
}

/// A configuration that passed every check and still cannot be compiled; says which part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileFault(pub String);

impl fmt::Display for CompileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CompileFault {}

/// `site_tls` has one entry per site, `pools` one per pool.
pub fn compile(
    configuration: &Configuration,
    generation: u64,
    site_tls: Vec<Option<Arc<ServerConfig>>>,
    pools: Vec<PoolParts>,
) -> Result<Snapshot, CompileFault> {
    let pool_positions: HashMap<&PoolName, usize> =
        configuration.pools.iter().enumerate().map(|(position, pool)| (&pool.name, position)).collect();
    let mut sites = Vec::with_capacity(configuration.sites.len());
    for (site, tls) in configuration.sites.iter().zip(site_tls) {
        sites.push(compile_site(site, tls, &pool_positions)?);
    }
    let redirect = SiteId(sites.len() as u32);
    let listeners = compile_listeners(configuration, redirect);
    if listeners.iter().any(|listener| listener.implied) || redirects_beside_sites(configuration) {
        sites.push(compile_site(&redirect_site(), None, &pool_positions)?);
    }
    let pools = configuration.pools.iter().zip(pools).map(|(pool, parts)| Arc::new(compile_pool(pool, parts))).collect();
    Ok(Snapshot {
        generation,
        listeners,
        sites,
        pools,
        limits: configuration.limits,
        drain: configuration.drain,
        access_log: configuration.access_log.target != tidegate_model::LogTarget::Off,
    })
}

fn compile_site(
    site: &Site,
    tls: Option<Arc<ServerConfig>>,
    pools: &HashMap<&PoolName, usize>,
) -> Result<CompiledSite, CompileFault> {
    let name: Arc<str> = site.addresses.first().map_or_else(|| "redirect-to-https".into(), |address| address.to_string().into());
    let fault = |error: &dyn fmt::Display| CompileFault(format!("site {name}: {error}"));
    let mut compiled_routes = Vec::with_capacity(site.routes.len());
    for route in &site.routes {
        let steps = compile_steps(&site.steps, &route.steps).map_err(|error| fault(&error))?;
        let pool = match &route.terminal {
            Terminal::Proxy { pool } => Some(*pools.get(pool).ok_or_else(|| fault(&format_args!("there is no pool {pool}")))?),
            Terminal::Respond { .. } | Terminal::Redirect { .. } => None,
        };
        compiled_routes.push(CompiledRoute {
            changes_response: steps.iter().any(|step| matches!(step, CompiledStep::ResponseHeader(_))),
            steps,
            terminal: CompiledTerminal::compile(&route.terminal),
            pool,
        });
    }
    let routes = Routes::new(&site.routes).map_err(|error| fault(&error))?;
    let tls_policy = TlsPolicy { min_version: site.tls.min_version, ciphers: site.tls.ciphers.clone() };
    Ok(CompiledSite { name, routes, compiled_routes, tls, tls_policy })
}

fn compile_pool(pool: &Pool, parts: PoolParts) -> CompiledPool {
    let mut servers = Vec::with_capacity(pool.servers.len());
    let per_server = parts.addresses.into_iter().zip(parts.tls_names).zip(parts.shared);
    for (server, ((addresses, tls_name), shared)) in pool.servers.iter().zip(per_server) {
        servers.push(CompiledServer {
            authority: server.address.authority().into(),
            addresses,
            tls_name,
            weight: server.weight,
            backup: server.backup,
            shared,
        });
    }
    let hash_key = match &pool.balance {
        Balance::Hash { key } => Some(CompiledTemplate::new(key, Target::Text)),
        Balance::P2c | Balance::RoundRobin | Balance::LeastConn | Balance::Random => None,
    };
    CompiledPool { name: pool.name.clone(), model: pool.clone(), servers, hash_key, tls: parts.tls }
}

/// Where a site's address listens: on that IP only when the host is one, else everywhere.
pub fn listen_address(host: &HostPattern, port: u16) -> SocketAddr {
    match host {
        HostPattern::Ip(ip) => SocketAddr::new(*ip, port),
        HostPattern::Any | HostPattern::Exact(_) | HostPattern::Wildcard(_) => {
            SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
        }
    }
}

struct Draft<'a> {
    scheme: Scheme,
    hosts: Vec<(SiteId, &'a HostPattern)>,
    implied: bool,
}

fn compile_listeners(configuration: &Configuration, redirect: SiteId) -> Vec<Listener> {
    let mut drafts: BTreeMap<SocketAddr, Draft<'_>> = BTreeMap::new();
    for (position, site) in configuration.sites.iter().enumerate() {
        for address in &site.addresses {
            let listen = listen_address(&address.host, address.port);
            let draft =
                drafts.entry(listen).or_insert_with(|| Draft { scheme: address.scheme, hosts: Vec::new(), implied: false });
            draft.hosts.push((SiteId(position as u32), &address.host));
        }
    }
    for address in configuration.sites.iter().flat_map(|site| &site.addresses) {
        if address.redirect_from_http && address.scheme == Scheme::Https {
            let listen = listen_address(&address.host, Scheme::Http.default_port());
            let draft = drafts.entry(listen).or_insert_with(|| Draft { scheme: Scheme::Http, hosts: Vec::new(), implied: true });
            // A site that is written for plain HTTP keeps its host: the router takes the first.
            draft.hosts.push((redirect, &address.host));
        }
    }
    share_unspecific_hosts(&mut drafts);
    drafts.into_iter().map(|(address, draft)| listener(configuration, address, draft)).collect()
}

/// The kernel gives a connection to the socket of its very address before one that listens everywhere, so that socket must know the sites
/// of the other as well.
fn share_unspecific_hosts(drafts: &mut BTreeMap<SocketAddr, Draft<'_>>) {
    let unspecific: Vec<_> = drafts
        .iter()
        .filter(|(address, _)| address.ip().is_unspecified())
        .map(|(address, draft)| (address.port(), draft.scheme, draft.hosts.clone()))
        .collect();
    for (address, draft) in drafts.iter_mut().filter(|(address, _)| !address.ip().is_unspecified()) {
        for (port, scheme, hosts) in &unspecific {
            if *port == address.port() && *scheme == draft.scheme {
                draft.hosts.extend(hosts.iter().copied());
            }
        }
    }
}

fn listener(configuration: &Configuration, address: SocketAddr, draft: Draft<'_>) -> Listener {
    let options = configuration
        .listeners
        .iter()
        .filter(|options| options.port == address.port() && options.ip.is_none_or(|ip| ip == address.ip()));
    Listener {
        address,
        scheme: draft.scheme,
        trusted_proxies: options.flat_map(|options| options.trusted_proxies.iter().copied()).collect(),
        first_site: draft.hosts[0].0,
        needs_local_ip: draft.hosts.iter().any(|(_, host)| matches!(host, HostPattern::Ip(_))),
        implied: draft.implied,
        router: Router::new(draft.hosts),
    }
}

/// Whether a host is redirected on an address that plain HTTP sites listen on as well.
fn redirects_beside_sites(configuration: &Configuration) -> bool {
    configuration
        .sites
        .iter()
        .flat_map(|site| &site.addresses)
        .any(|address| address.redirect_from_http && address.scheme == Scheme::Https)
}

/// Answers on port 80 for every bare `example.com`.
fn redirect_site() -> Site {
    use tidegate_model::{Placeholder, Route, Tls, TlsSource};
    let to = Template {
        parts: vec![
            TemplatePart::Literal("https://".into()),
            TemplatePart::Placeholder(Placeholder::Host),
            TemplatePart::Placeholder(Placeholder::Uri),
        ],
    };
    Site {
        addresses: Vec::new(),
        tls: Tls { source: TlsSource::Off, ..Tls::default() },
        steps: Vec::new(),
        routes: vec![Route {
            paths: Vec::new(),
            matches: Vec::new(),
            steps: Vec::new(),
            terminal: Terminal::Redirect { to, status: 308 },
        }],
    }
}
