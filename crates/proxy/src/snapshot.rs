//! What runs: a configuration compiled into immutable tables, shared by all workers. A change is a new snapshot, which
//! shares every site and pool that did not change with the one before, so it costs what the change costs; an exchange
//! keeps the parts it began with. What outlives a snapshot is in `state`. Certificates and addresses are found by
//! the caller (`control`).

use crate::auth::oidc::{OidcShared, ProviderState};
use crate::auth::{ApiKeyFiles, ApiKeyList, IssuerKeys, KeySets, UserFiles, UserList, digest};
use crate::cached::{CacheTier, RouteCache};
use crate::files::SendFolder;
use crate::persistent::PersistentVec;
use crate::request_ids::RouteIds;
use crate::server_configs::ServerConfigs;
use crate::terminal::{CompiledTerminal, RouteUpstream};
use arc_swap::ArcSwap;
use ipnet::IpNet;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_balancing::hash_bytes;
use tidegate_balancing::split::Shares;
use tidegate_exchange::ArmId;
use tidegate_exchange::forwarded::TrustedProxies;
use tidegate_limiting::Tables;
use tidegate_middleware::answer_rewrite::AnswerRewrites;
use tidegate_middleware::{
    BROUGHT_FROM_PROVIDERS, CompileError, CompiledCompress, CompiledLog, CompiledOidc, CompiledStep, ErrorPages, HeaderNameRules,
    IdentityFields, OidcOfSite, Scope, TrailerRules, api_key_of, basic_auth_of, changes_response, compile_steps,
    compiled_oidc_of, forward_auth_of, has_limits, jwt_of, secret_parameters, withheld_parameters,
};
use tidegate_model::listening::{
    Answering, ListenerProtocol, Listening, client_ip_header, listening_shared, passthrough_name, proxy_protocol_from,
    redirect_site, site_name, socket_access, trusted_proxies, websocket_over_http2,
};
use tidegate_model::{
    AnswerRewrite, ClientCertificateForm, Configuration, Decompress, Delta, ForwardAuth, HostPattern, Limits, ListenAddress,
    MatchLine, Mirror, PathPolicy, Placeholder, PoolName, Route, RouteRetry, RouteTimeouts, Scheme, SendFile, Site, SocketAccess,
    SplitArm, Step, TcpTarget, Template, Terminal,
};
use tidegate_routing::decision::SiteRules;
use tidegate_routing::{PassId, RouteId, Router, SiteId};
use tidegate_telemetry::{ArmMetrics, Registry, SiteMetrics};
use tidegate_upstream::compiled::{CompiledPool, PoolParts};
use tidegate_wire::HeadLimits;

pub struct Snapshot {
    /// The configuration's number, as `status` and the history have it.
    pub generation: u64,
    /// Counts publications: renewed trust for a pool is a new snapshot of the same generation.
    pub serial: u64,
    pub listeners: Vec<Arc<Listener>>,
    /// The sites of the configuration, in its order, and behind them the redirects to HTTPS that are not written there.
    pub sites: PersistentVec<Arc<CompiledSite>>,
    /// By slot. A pool keeps its slot as long as it exists, so that a site which did not change still means the same
    /// pool.
    pub pools: PersistentVec<Option<Arc<CompiledPool>>>,
    /// Of the pools that there are. Shared for as long as none comes or goes.
    slots: Arc<HashMap<PoolName, usize>>,
    /// Slots of pools with connections that are opened in advance.
    pub warm: Arc<[usize]>,
    /// Sites have a set of counters for each.
    pub workers: usize,
    pub limits: Limits,
    pub drain: Duration,
    /// Whether requests are logged: otherwise no fact is gathered for the log.
    pub access_log: bool,
    /// Whether anything asks for `{tls.ja4}`, or a condition for it: otherwise no ClientHello is looked at for it.
    pub needs_ja4: bool,
    /// Parameters of the query that no log shows of a request whose site is not known: those of all sites, also of some
    /// that are gone.
    pub secret_parameters: Arc<[Box<[u8]>]>,
}

impl Snapshot {
    /// The place of a listener; what it speaks is part of what it is, since a plain connection cannot become a TLS one.
    pub fn listener_position(&self, address: ListenAddress, protocol: ListenerProtocol) -> Option<usize> {
        self.listeners.iter().position(|listener| listener.address == address && listener.protocol.is_akin(protocol))
    }

    pub fn pool_named(&self, name: &PoolName) -> Option<&Arc<CompiledPool>> {
        self.pools.get(*self.slots.get(name)?)?.as_ref()
    }

    /// Where the pool of that name is, as long as there is one.
    pub fn slot_of(&self, name: &PoolName) -> Option<usize> {
        self.slots.get(name).copied()
    }

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
    pub address: ListenAddress,
    /// The port that clients ask for, which is told to upstreams; another one than the address has where something in
    /// front maps ports.
    pub public_port: u16,
    /// Who may connect, of a socket of this machine.
    pub access: SocketAccess,
    pub protocol: ListenerProtocol,
    pub router: Router,
    /// Connections that are passed on, by their ids in the router.
    pub passes: Vec<CompiledPass>,
    /// Peers whose `X-Forwarded-*` fields are believed.
    pub trusted_proxies: TrustedProxies,
    /// Peers whose connections begin with whose they are.
    pub proxy_protocol_from: Arc<[IpNet]>,
    /// Clients are offered WebSockets on streams of HTTP/2.
    pub offers_websocket: bool,
    /// The site whose certificate answers a client that names none, where neither its address nor a catch-all decides.
    pub first_site: Option<SiteId>,
    /// Whether a site is named by its IP address: only then is a connection's local address asked for.
    pub needs_local_ip: bool,
    /// Nobody wrote this address: it redirects to HTTPS. That it cannot be bound is a warning, no fault.
    pub implied: bool,
}

/// Where connections of a name, or those that nobody else takes, are passed on to.
pub struct CompiledPass {
    /// As logs name it.
    pub name: Arc<str>,
    /// In the order written, at least one.
    upstreams: Box<[RouteUpstream]>,
    /// Where there are several.
    split: Option<SharesOfConnections>,
}

struct SharesOfConnections {
    shares: Shares,
    by_client: bool,
}

impl CompiledPass {
    fn new(name: Arc<str>, to: &TcpTarget, pools: &HashMap<PoolName, usize>) -> Result<CompiledPass, CompileFault> {
        let fault = |error: &str| CompileFault(format!("{name}: {error}"));
        let upstreams = to.arms.iter().map(|arm| RouteUpstream::new(&arm.pool, &arm.retry, pools));
        let upstreams: Box<[RouteUpstream]> = upstreams.collect::<Result<_, _>>().map_err(|error| fault(&error))?;
        let shares = Shares::new(to.arms.iter().map(|arm| arm.weight));
        let shares = shares.ok_or_else(|| fault("nothing in its split has a weight"))?;
        let split = (upstreams.len() > 1).then_some(SharesOfConnections { shares, by_client: to.by_client });
        Ok(CompiledPass { name, upstreams, split })
    }

    /// Where a connection of that client goes; `random` decides where nothing else does.
    pub fn upstream(&self, client: IpAddr, random: impl FnOnce() -> u64) -> &RouteUpstream {
        let position = match &self.split {
            None => 0,
            Some(split) if split.by_client => split.shares.of_key(hash_bytes(client.to_canonical().to_string().as_bytes())),
            Some(split) => split.shares.at(random()),
        };
        &self.upstreams[position]
    }

    /// Whether connections are shared out among several pools.
    pub fn is_split(&self) -> bool {
        self.split.is_some()
    }
}

impl Listener {
    pub fn pass(&self, id: PassId) -> Option<&CompiledPass> {
        self.passes.get(id.0 as usize)
    }
}

pub struct CompiledSite {
    /// The site's first address, as metrics and logs name it.
    pub name: Arc<str>,
    /// What its requests are decided by.
    pub rules: SiteRules,
    pub compiled_routes: Vec<CompiledRoute>,
    /// Whether some of its routes leave requests without a file to those behind them.
    pub goes_on: bool,
    /// Whether some of its routes are chosen by what a token says.
    pub asks_for_claims: bool,
    /// For requests that no route takes: who may not ask, and who asks too often, is not told which paths there are.
    pub without_route: CompiledRoute,
    /// `None` for plain HTTP.
    pub tls: Option<Arc<Handshakes>>,
    pub takes_early_data: bool,
    /// What only the site may say of a client, and no client of itself.
    pub identity: IdentityFields,
    /// Parameters of the query by which keys and tokens come to any of its routes, and which no log shows.
    pub secret_parameters: Arc<[Box<[u8]>]>,
    /// Of a site where `oidc` stands anywhere.
    pub log_ins: Option<Box<LogInsOfSite>>,
    /// Of a site whose certificates are obtained on demand: how long a handshake waits for one.
    pub on_demand_wait: Option<Duration>,
    /// How upstreams are told of clients' certificates, if they are.
    pub tells_client_certificate: Option<ClientCertificateForm>,
    pub needs_ja4: bool,
    /// By worker. The same ones for the same name, whatever else changes.
    pub counters: Vec<Arc<SiteCounters>>,
}

/// The log-ins of a site, whichever route asks for them.
pub struct LogInsOfSite {
    pub steps: Box<OidcOfSite>,
    /// Of each.
    pub providers: Box<[Arc<ProviderState>]>,
}

impl LogInsOfSite {
    fn new(site: &Site, shared: &OidcShared) -> Option<Box<LogInsOfSite>> {
        let steps = OidcOfSite::of(site.all_steps())?;
        let providers = steps.all().iter().map(|step| shared.provider(step, Instant::now())).collect();
        Some(Box::new(LogInsOfSite { steps, providers }))
    }
}

/// What one worker counts a site's requests in.
#[derive(Debug)]
pub struct SiteCounters {
    /// Of requests to routes without a name and an object that they come from, and of those that come to no route.
    unnamed: Arc<SiteMetrics>,
    /// By the position of the route; empty where none has a name or an origin.
    named: Box<[Option<Arc<SiteMetrics>>]>,
    /// By the position of the route, and there of the arm of its `split`; empty where none has one.
    arms: Box<[Box<[Arc<ArmMetrics>]>]>,
}

impl SiteCounters {
    fn new(registry: &Registry, worker: usize, site: &str, routes: &[Route]) -> SiteCounters {
        let of = |route: &Route| {
            let origin = route.origin.as_ref().map(ToString::to_string);
            let name = route.name.as_deref().unwrap_or_default();
            has_numbers(route).then(|| registry.route(worker, (site, name, origin.as_deref().unwrap_or_default())))
        };
        let has_names = routes.iter().any(has_numbers);
        let named = if has_names { routes.iter().map(of).collect() } else { Box::default() };
        let of_arms = |route: &Route| match &route.terminal {
            Terminal::Split(split) => {
                let name = route.name.as_deref().unwrap_or_default();
                split.arms.iter().map(|arm| registry.arm(worker, (site, name, &arm.name()))).collect()
            }
            Terminal::Respond { .. }
            | Terminal::Redirect { .. }
            | Terminal::Proxy { .. }
            | Terminal::Files(_)
            | Terminal::FastCgi(_) => Box::default(),
        };
        let has_arms = routes.iter().any(|route| matches!(route.terminal, Terminal::Split(_)));
        let arms = if has_arms { routes.iter().map(of_arms).collect() } else { Box::default() };
        SiteCounters { unnamed: registry.site(worker, site, ""), named, arms }
    }

    /// A request of that route has taken the arm at that position.
    pub fn count_arm(&self, route: Option<RouteId>, arm: usize) {
        let arms = route.and_then(|route| self.arms.get(route.0 as usize));
        if let Some(arm) = arms.and_then(|arms| arms.get(arm)) {
            arm.count();
        }
    }

    /// For what is counted of the site as a whole.
    #[inline]
    pub fn whole(&self) -> &SiteMetrics {
        &self.unnamed
    }

    #[inline]
    pub fn of_route(&self, route: Option<RouteId>) -> &SiteMetrics {
        let named = route.and_then(|route| self.named.get(route.0 as usize)?.as_ref());
        named.unwrap_or(&self.unnamed)
    }
}

/// Whether requests of the route are counted apart from those of the site.
fn has_numbers(route: &Route) -> bool {
    route.name.is_some() || route.origin.is_some()
}

impl CompiledSite {
    /// None is that of the requests that no route takes.
    pub fn route(&self, id: Option<RouteId>) -> &CompiledRoute {
        id.map_or(&self.without_route, |id| &self.compiled_routes[id.0 as usize])
    }
}

/// How the handshakes of a site are made. Replaced while it runs when the authorities of its clients, or what they have
/// revoked, are read again.
pub type Handshakes = ArcSwap<ServerConfigs>;

/// What becomes of what answers say of where something is.
pub struct AnswerTranslation {
    /// Whether answers of any of the route's pools are translated to what clients see.
    pub by_mount: bool,
    /// What is said otherwise line by line.
    pub rules: Option<Box<AnswerRewrites>>,
}

pub struct CompiledRoute {
    /// By which its requests are told apart in the log.
    pub name: Option<Box<str>>,
    /// Where it comes from, or its site, as logs say it.
    pub origin: Option<Arc<str>>,
    pub request_ids: RouteIds,
    /// How answers that are made here name this proxy, where they say why.
    pub proxy_status: Option<Box<str>>,
    /// The site's steps, then the route's.
    pub steps: Box<[CompiledStep]>,
    /// Whether any step reads or changes the response.
    pub changes_response: bool,
    /// Whether any step counts requests.
    pub has_limits: bool,
    /// What its site and it say of spellings of paths.
    pub path_policy: PathPolicy,
    /// How bodies of requests are decoded, if they are.
    pub decompress: Option<Decompress>,
    /// How answers are compressed, if they are.
    pub compress: Option<Box<CompiledCompress>>,
    pub terminal: CompiledTerminal,
    pub translation: AnswerTranslation,
    /// Folders of which upstreams may have files sent. None where requests go to no upstream.
    pub send_folders: Box<[SendFolder]>,
    /// What its site and it say of how long requests may take.
    pub timeouts: RouteTimeouts,
    /// What its site and it say of the access log, when they do.
    pub log: Option<Box<CompiledLog>>,
    /// Who gets copies of its requests, in order. None where requests go to no upstream.
    pub mirrors: Box<[CompiledMirror]>,
    /// For a route that keeps answers of its upstream.
    pub cache: Option<Box<RouteCache>>,
    /// The route's own error pages, and behind them the site's.
    pub error_pages: ErrorPages,
    /// The name of its site, by which failed log-ins are told apart.
    pub site: Arc<str>,
    /// For a route with a `basic-auth`.
    pub users: Option<Arc<UserList>>,
    /// For a route with an `oidc`: who logs people in, in the order of its ways.
    pub oidc: Box<[Arc<ProviderState>]>,
    /// For a route with a `jwt`: the keys of its issuers, in their order.
    pub issuers: Box<[Arc<IssuerKeys>]>,
    /// For a route with a `forward-auth`.
    pub auth: Option<Box<RouteAuth>>,
    /// For a route with an `api-key`.
    pub api_keys: Option<Arc<ApiKeyList>>,
    /// Parameters of the query with keys that are not for others.
    pub withheld_parameters: Box<[Box<[u8]>]>,
    /// Parameters with keys and tokens of its site: in no address that somebody is to come back to after a log-in.
    pub secret_parameters: Arc<[Box<[u8]>]>,
    /// What is made of names that servers may read as others.
    pub header_names: HeaderNameRules,
    /// What goes on of what stands behind bodies.
    pub trailers: TrailerRules,
}

/// Whom a route asks about its requests.
pub struct RouteAuth {
    /// Slot in `Snapshot::pools`.
    pub pool: usize,
    /// Of all that is said about it: what is remembered holds for nothing else.
    pub digest: [u8; 32],
}

/// A pool that gets copies of a route's requests.
pub struct CompiledMirror {
    /// Slot in `Snapshot::pools`.
    pub pool: usize,
    pub model: Mirror,
}

impl CompiledMirror {
    /// Whether a request with that method is copied; uniform `bits` decide where only some are.
    pub fn takes(&self, method: &[u8], bits: u64) -> bool {
        let methods = &self.model.methods;
        (methods.is_empty() || methods.iter().any(|known| known.as_bytes() == method)) && self.model.sample.takes(bits)
    }
}

impl CompiledRoute {
    /// What it says of sending requests again that have taken that arm.
    pub fn retry(&self, arm: Option<ArmId>) -> &RouteRetry {
        self.terminal.upstream(arm).map_or(&RouteRetry::OfPool, |upstream| &upstream.retry)
    }

    /// The steps of a request that has taken that arm, or none yet.
    #[inline]
    pub fn steps_of(&self, arm: Option<ArmId>) -> &[CompiledStep] {
        match arm {
            None => &self.steps,
            Some(arm) => self.terminal.arm(Some(arm)).and_then(|arm| arm.steps.as_deref()).unwrap_or(&self.steps),
        }
    }
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

/// What `compile` is given besides the configuration.
pub struct Parts<'a> {
    pub generation: u64,
    pub serial: u64,
    /// What the configuration differs in from the one that `before` was made of. All else is taken over.
    pub delta: &'a Delta,
    /// For each site of the difference.
    pub site_tls: Vec<Option<Arc<Handshakes>>>,
    /// Pools that are to be made, whether they differ or what was found out about them does.
    pub pools: Vec<PoolParts>,
    /// Pools that are there no more.
    pub pools_gone: Vec<PoolName>,
    pub before: Option<&'a Snapshot>,
    pub registry: &'a Registry,
    pub cache: &'a Arc<CacheTier>,
    /// What limits have counted so far.
    pub limits: &'a Tables,
    /// Where users are found that stand in files.
    pub user_files: &'a UserFiles,
    pub api_key_files: &'a ApiKeyFiles,
    /// Where the keys of issuers are found.
    pub key_sets: &'a KeySets,
    /// Where providers of log-ins are found.
    pub oidc: &'a OidcShared,
    /// Sites need a set of counters for each.
    pub workers: usize,
}

/// A snapshot, and what of it is another than before.
pub struct Compiled {
    pub snapshot: Snapshot,
    /// Slots of pools that came, changed or went.
    pub pools_changed: Vec<usize>,
}

/// Costs what the difference costs, unless what is listened on changes: then each listener is made anew.
pub fn compile(configuration: &Configuration, parts: Parts<'_>) -> Result<Compiled, CompileFault> {
    let Parts { delta, before, workers, .. } = parts;
    let Placed { pools, slots, warm, changed } = place_pools(parts.pools, &parts.pools_gone, before);
    let counters = |site: &str, routes: &[Route]| {
        (0..workers).map(|worker| Arc::new(SiteCounters::new(parts.registry, worker, site, routes))).collect()
    };
    let lists = (parts.user_files, parts.api_key_files, parts.key_sets, parts.oidc);
    let given = (parts.cache, parts.limits, lists);
    let changed_sites = delta.sites.changed.iter().zip(parts.site_tls);
    let compile = |site: &Site, tls| compile_site(site, tls, &slots, &counters, given).map(Arc::new);
    let made = changed_sites.map(|(site, tls)| Ok((site.position, compile(&configuration.sites[site.position], tls)?)));
    let made = made.collect::<Result<Vec<_>, _>>()?;
    let wanted = &Placeholder::TlsJa4;
    let of_changed = made.iter().any(|(_, site)| site.needs_ja4)
        || changed.iter().filter_map(|slot| pools[*slot].as_ref()).any(|pool| pool.model.balance.has_placeholder(wanted));
    let secret_parameters = secrets_of_all(before, &made);
    let (sites, listeners) = match before {
        // With more counters than before, the redirects' site is made anew as all others are.
        Some(before) if !delta.listening && before.workers == workers => {
            let mut sites = before.sites.clone();
            for (position, site) in made {
                sites.set(position, site);
            }
            (sites, before.listeners.clone())
        }
        _ => {
            let mut sites = place_sites(configuration, delta, made, before)?;
            let redirect = SiteId(sites.len() as u32);
            let listeners = compile_listeners(configuration, redirect, &slots)?;
            if listeners.iter().any(|listener| listener.implied) || redirects_beside_sites(configuration) {
                sites.push(compile(&redirect_site(), None)?);
            }
            (sites, listeners)
        }
    };
    // Only when something needed it before, it may be that nothing does now.
    let needs_ja4 = of_changed
        || configuration.access_logs.iter().any(|log| log.format.has_placeholder(wanted))
        || configuration.maps.iter().any(|map| map.key.has(wanted))
        || before.is_some_and(|before| before.needs_ja4)
            && (sites.iter().any(|site| site.needs_ja4)
                || configuration.pools.iter().any(|pool| pool.balance.has_placeholder(wanted)));
    let snapshot = Snapshot {
        generation: parts.generation,
        serial: parts.serial,
        listeners,
        sites,
        pools,
        slots,
        warm,
        workers,
        limits: configuration.limits,
        drain: configuration.drain,
        access_log: !configuration.access_logs.is_empty(),
        needs_ja4,
        secret_parameters,
    };
    Ok(Compiled { snapshot, pools_changed: changed })
}

/// Parameters of keys and tokens that were known before, and those of the sites that were made.
fn secrets_of_all(before: Option<&Snapshot>, made: &[(usize, Arc<CompiledSite>)]) -> Arc<[Box<[u8]>]> {
    let known = before.map(|before| before.secret_parameters.clone()).unwrap_or_default();
    let of_log_ins = made.iter().any(|(_, site)| site.log_ins.is_some()).then_some(BROUGHT_FROM_PROVIDERS);
    let of_sites = made.iter().flat_map(|(_, site)| site.secret_parameters.iter()).cloned();
    let new = of_sites.chain(of_log_ins.into_iter().flatten().map(Box::from));
    let mut new: Vec<Box<[u8]>> = new.filter(|name| !known.contains(name)).collect();
    if new.is_empty() {
        return known;
    }
    new.extend(known.iter().cloned());
    new.sort_unstable();
    new.dedup();
    new.into()
}

/// The sites of the configuration in its order, those that were made anew and those that were there.
fn place_sites(
    configuration: &Configuration,
    delta: &Delta,
    made: Vec<(usize, Arc<CompiledSite>)>,
    before: Option<&Snapshot>,
) -> Result<PersistentVec<Arc<CompiledSite>>, CompileFault> {
    let mut made = made.into_iter().peekable();
    let place = |(position, site): (usize, &Arc<Site>)| match made.next_if(|(next, _)| *next == position) {
        Some((_, made)) => Ok(made),
        None => {
            let same = delta.sites.before(position).and_then(|place| before?.sites.get(place));
            same.cloned().ok_or_else(|| CompileFault(format!("nothing is known of the site {}", site_name(site))))
        }
    };
    configuration.sites.iter().enumerate().map(place).collect()
}

/// Pools in their slots.
struct Placed {
    pools: PersistentVec<Option<Arc<CompiledPool>>>,
    slots: Arc<HashMap<PoolName, usize>>,
    warm: Arc<[usize]>,
    changed: Vec<usize>,
}

/// Pools that were there keep their slots; new ones take those that are free.
fn place_pools(parts: Vec<PoolParts>, gone: &[PoolName], before: Option<&Snapshot>) -> Placed {
    let mut pools = before.map(|before| before.pools.clone()).unwrap_or_default();
    let mut slots = before.map(|before| before.slots.clone()).unwrap_or_default();
    let mut changed = Vec::with_capacity(parts.len() + gone.len());
    for name in gone {
        if let Some(slot) = Arc::make_mut(&mut slots).remove(name) {
            pools.set(slot, None);
            changed.push(slot);
        }
    }
    let mut free = 0;
    for parts in parts {
        let pool = CompiledPool::new(parts);
        let slot = slots.get(&pool.name).copied().unwrap_or_else(|| {
            // Without a hole there is none to be looked for.
            free = if pools.len() == slots.len() { pools.len() } else { free };
            while pools.get(free).is_some_and(Option::is_some) {
                free += 1;
            }
            Arc::make_mut(&mut slots).insert(pool.name.clone(), free);
            free
        });
        pools.set(slot, Some(Arc::new(pool)));
        changed.push(slot);
    }
    changed.sort_unstable();
    changed.dedup();
    let is_warm = |pool: &Option<Arc<CompiledPool>>| pool.as_ref().is_some_and(|pool| pool.model.keep_alive.warm > 0);
    let warm = match before {
        Some(before) if changed.iter().all(|slot| is_warm(&pools[*slot]) == before.warm.binary_search(slot).is_ok()) => {
            before.warm.clone()
        }
        _ => pools.iter().enumerate().filter(|(_, pool)| is_warm(pool)).map(|(slot, _)| slot).collect(),
    };
    Placed { pools, slots, warm, changed }
}

/// The counters of a site of this name and of its routes.
type CountersOf<'a> = dyn Fn(&str, &[Route]) -> Vec<Arc<SiteCounters>> + 'a;

fn compile_site(
    site: &Site,
    tls: Option<Arc<Handshakes>>,
    pools: &HashMap<PoolName, usize>,
    counters: &CountersOf<'_>,
    (tier, limits, lists): (&Arc<CacheTier>, &Tables, Lists<'_>),
) -> Result<CompiledSite, CompileFault> {
    let name: Arc<str> = site_name(site).into();
    let fault = |error: &dyn fmt::Display| CompileFault(format!("site {name}: {error}"));
    let identity = IdentityFields::of(site.all_steps());
    let secrets: Arc<[Box<[u8]>]> = secret_parameters(site.all_steps()).into();
    let given = RouteGiven { site, name: &name, pools, tier, limits, lists, identity: &identity, secrets: &secrets };
    let compiled_routes: Vec<CompiledRoute> =
        site.routes.iter().map(|route| compile_route(route, &given)).collect::<Result<_, _>>()?;
    let refused = Terminal::Respond { status: 404, body: Template::literal(""), content_type: None };
    let nothing = Route::of_all(refused);
    let without_route = CompiledRoute { terminal: CompiledTerminal::NoRoute, ..compile_route(&nothing, &given)? };
    let rules = SiteRules::new(site).map_err(|error| fault(&error))?;
    let tells_client_certificate = site.tls.client_auth.as_ref().and_then(|auth| auth.forward);
    let counters = counters(&name, &site.routes);
    Ok(CompiledSite {
        name,
        rules,
        asks_for_claims: jwt_of(&site.steps, &[]).is_some()
            && site.routes.iter().any(|route| MatchLine::ask_for_claims(&route.matches)),
        goes_on: compiled_routes.iter().any(|route| route.terminal.goes_on().is_some()),
        compiled_routes,
        without_route,
        tls,
        takes_early_data: site.tls.early_data,
        secret_parameters: secrets,
        identity,
        log_ins: LogInsOfSite::new(site, lists.3),
        on_demand_wait: site.tls.on_demand.as_ref().map(|on_demand| on_demand.wait),
        tells_client_certificate,
        needs_ja4: site.has_placeholder(&Placeholder::TlsJa4) || site.matches_ja4(),
        counters,
    })
}

/// Where those are found who may log in.
type Lists<'a> = (&'a UserFiles, &'a ApiKeyFiles, &'a KeySets, &'a OidcShared);

/// What a route is compiled with.
struct RouteGiven<'a> {
    site: &'a Site,
    name: &'a Arc<str>,
    pools: &'a HashMap<PoolName, usize>,
    tier: &'a Arc<CacheTier>,
    limits: &'a Tables,
    lists: Lists<'a>,
    identity: &'a IdentityFields,
    secrets: &'a Arc<[Box<[u8]>]>,
}

impl AnswerTranslation {
    fn new(terminal: &CompiledTerminal, rules: &[AnswerRewrite]) -> Result<AnswerTranslation, CompileError> {
        let rules = if terminal.asks_others() { AnswerRewrites::new(rules)? } else { None };
        Ok(AnswerTranslation { by_mount: terminal.rewrites_location(), rules })
    }

    /// Whether anything of an answer may change.
    pub fn is_any(&self) -> bool {
        self.by_mount || self.rules.is_some()
    }
}

fn compile_route(route: &Route, given: &RouteGiven<'_>) -> Result<CompiledRoute, CompileFault> {
    let RouteGiven { site, name, pools, tier, limits, lists: (user_files, api_key_files, key_sets, oidc), identity, secrets } =
        given;
    let fault = |error: &dyn fmt::Display| CompileFault(format!("site {name}: {error}"));
    let route_name = identity_for_limits(route);
    let options = site.options.and(&route.options);
    let path_policy = options.path_policy.unwrap_or_default();
    let scope = Scope { tables: limits, site: name, route: &route_name, path_policy };
    let steps_of_route = match RouteIds::answer_step(&options.request_ids) {
        Some(step) => Cow::Owned([&route.steps[..], &[step]].concat()),
        None => Cow::Borrowed(&route.steps),
    };
    let steps = compile_steps(scope, &site.steps, &steps_of_route).map_err(|error| fault(&error))?;
    let steps_of_arm = |arm: &SplitArm| {
        let of_arm = [&steps_of_route[..], &arm.steps].concat();
        compile_steps(scope, &site.steps, &of_arm).map_err(|error| error.to_string())
    };
    let terminal = CompiledTerminal::compile(&route.terminal, pools, &steps_of_arm).map_err(|error| fault(&error))?;
    let cache = options.cache.on().filter(|_| terminal.asks_others());
    let mirror = |model: Mirror| {
        let pool = pools.get(&model.pool).ok_or_else(|| fault(&format_args!("there is no pool {}", model.pool)))?;
        Ok(CompiledMirror { pool: *pool, model })
    };
    let unusable = |folder: &SendFile, error: io::Error| format!("files cannot be sent from {}: {error}", folder.root.display());
    let open = |folder: &SendFile| SendFolder::open(folder).map_err(|error| fault(&unusable(folder, error)));
    let send_files = if terminal.asks_others() { &options.send_files.folders[..] } else { &[] };
    let users = basic_auth_of(&site.steps, &route.steps).map(|auth| user_files.list(&auth.users)).transpose();
    let issuers = jwt_of(&site.steps, &route.steps).map_or(&[][..], |jwt| &jwt.issuers);
    let keys = issuers.iter().map(|issuer| key_sets.of(&issuer.keys, Instant::now())).collect::<Result<_, _>>();
    let ask = |auth: &ForwardAuth| {
        let pool = pools.get(&auth.pool).ok_or_else(|| fault(&format_args!("there is no pool {}", auth.pool)))?;
        Ok(Box::new(RouteAuth { pool: *pool, digest: digest(&[format!("{auth:?}").as_bytes()]) }))
    };
    let api_key = api_key_of(&site.steps, &route.steps);
    let api_keys = api_key.map(|auth| api_key_files.list(&auth.keys)).transpose();
    Ok(CompiledRoute {
        auth: forward_auth_of(&site.steps, &route.steps).map(ask).transpose()?,
        name: route.name.as_deref().map(Box::from),
        origin: shown_origin(site, route),
        request_ids: RouteIds::new(&options.request_ids),
        path_policy,
        proxy_status: options.proxy_status.on().map(|status| status.name.as_str().into()),
        error_pages: ErrorPages::new(&options.error_pages),
        site: (*name).clone(),
        users: users.map_err(|error| fault(&error))?,
        issuers: keys.map_err(|error| fault(&error))?,
        oidc: ways_of(&steps).map(|way| oidc.provider(way, Instant::now())).collect(),
        api_keys: api_keys.map_err(|error| fault(&error))?,
        withheld_parameters: api_key.map(withheld_parameters).unwrap_or_default(),
        secret_parameters: Arc::clone(secrets),
        trailers: TrailerRules::new(site.steps.iter().chain(route.all_steps()), options.pass_on.unwrap_or_default(), identity),
        header_names: HeaderNameRules::new(options.header_names.unwrap_or_default(), site.all_steps()),
        decompress: options.decompress.on().copied(),
        compress: options.compress.on().map(|compress| Box::new(CompiledCompress::new(compress))),
        has_limits: has_limits(&steps),
        changes_response: changes_response(&steps) || terminal.steps_of_arms().any(changes_response),
        steps,
        translation: AnswerTranslation::new(&terminal, &options.answer_rewrites).map_err(|error| fault(&error))?,
        send_folders: send_files.iter().map(open).collect::<Result<_, _>>()?,
        terminal,
        timeouts: options.timeouts,
        mirrors: options.mirrors.named.into_iter().map(mirror).collect::<Result<_, _>>()?,
        log: CompiledLog::new(&options.log).map(Box::new),
        cache: cache.map(|cache| Box::new(RouteCache::new(cache, (name, identity), &route.matches, tier))),
    })
}

/// What makes a route the same one after a change is which requests it takes.
fn identity_for_limits(route: &Route) -> String {
    let counts = |step: &Step| matches!(step, Step::RateLimit(_) | Step::ConcurrencyLimit(_));
    if route.steps.iter().any(counts) { format!("{:?} {:?}", route.paths, route.matches) } else { String::new() }
}

fn ways_of(steps: &[CompiledStep]) -> impl Iterator<Item = &CompiledOidc> {
    compiled_oidc_of(steps).into_iter().flat_map(CompiledOidc::ways)
}

fn shown_origin(site: &Site, route: &Route) -> Option<Arc<str>> {
    let origin = route.origin.as_ref().or(site.origin.as_ref());
    origin.map(|origin| origin.to_string().into())
}

fn compile_listeners(
    configuration: &Configuration,
    redirect: SiteId,
    pools: &HashMap<PoolName, usize>,
) -> Result<Vec<Arc<Listener>>, CompileFault> {
    let listening = listening_shared(configuration);
    let compile = |(address, listening)| listener(configuration, address, &listening, redirect, pools).map(Arc::new);
    listening.into_iter().map(compile).collect()
}

fn listener(
    configuration: &Configuration,
    address: ListenAddress,
    listening: &Listening<'_>,
    redirect: SiteId,
    pools: &HashMap<PoolName, usize>,
) -> Result<Listener, CompileFault> {
    let site = |answering| match answering {
        Answering::Site(position) => SiteId(position as u32),
        Answering::Redirect => redirect,
    };
    let hosts: Vec<_> = listening.hosts.iter().map(|(answering, host)| (site(*answering), *host)).collect();
    let pass = |name: Option<&HostPattern>, to: &TcpTarget| {
        CompiledPass::new(passthrough_name(name, address.port().unwrap_or_default()).into(), to, pools)
    };
    let by_name = listening.by_name.iter().map(|(name, to)| pass(Some(*name), to));
    let passes: Vec<CompiledPass> = by_name.chain(listening.otherwise.map(|to| pass(None, to))).collect::<Result<_, _>>()?;
    let names = listening.by_name.iter().enumerate().map(|(position, (name, _))| (PassId(position as u32), *name));
    let otherwise = listening.otherwise.map(|_| PassId(listening.by_name.len() as u32));
    Ok(Listener {
        address,
        public_port: listening.public_port.or(address.port()).unwrap_or(Scheme::Http.default_port()),
        access: socket_access(configuration, address),
        protocol: listening.protocol,
        trusted_proxies: TrustedProxies {
            networks: trusted_proxies(configuration, address),
            client_ip_header: client_ip_header(configuration, address).map(|name| name.as_bytes().into()),
        },
        proxy_protocol_from: proxy_protocol_from(configuration, address).into(),
        offers_websocket: websocket_over_http2(configuration, address),
        first_site: listening.first_answering(&configuration.sites).map(site),
        needs_local_ip: hosts.iter().any(|(_, host)| matches!(host, HostPattern::Ip(_))),
        implied: listening.implied,
        router: Router::new(hosts).passing(names, otherwise),
        passes,
    })
}

/// Whether a host is redirected on an address that plain HTTP sites listen on as well.
fn redirects_beside_sites(configuration: &Configuration) -> bool {
    configuration
        .sites
        .iter()
        .flat_map(|site| &site.addresses)
        .any(|address| address.redirect_from_http && address.scheme == Scheme::Https)
}
