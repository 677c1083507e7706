//! What a configuration needs from outside before it can be compiled: certificates, trusted roots, servers that nobody
//! wrote, addresses of names. What an unchanged site or pool needed before is taken over, so that a change costs what
//! it changes. Who is asked again while it runs is in `discovery`; how servers do, in `pools`.

use crate::discovery::{Discovered, FIRST_ANSWERS_LIMIT, Followers, News, first_answers};
use crate::fault::StartFault;
use crate::material::{Material, SiteTls};
use crate::named_files::{api_key_file_of, api_keys, auths, file_of, key_sources};
use crate::names::{Found, Name, Names};
use crate::pools::{await_checks, first_checks};
use crate::sticky::CookieKeys;
use crate::tickets::gather_ticket_keys;
use jiff::Timestamp;
use rustls_pki_types::UnixTime;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_certs::{
    CertError, ClientTrust, ServedFiles, SiteCertificates, TlsProcessState, early_data_config, server_config, session_id_config,
    upstream_client_config, upstream_server_name,
};
use tidegate_discovery::Endpoint;
use tidegate_model::{
    Certificate, Changed, Configuration, Delta, Discover, Pool, PoolName, Scheme, Server, ServerAddresses, Site, TcpAddress, Tls,
    TlsSource, UpstreamAddress,
};
use tidegate_parallel::in_parallel;
use tidegate_proxy::auth::{ApiKeyFiles, ApiKeyList, IssuerKeys, KeySets, UserFiles, UserList};
use tidegate_proxy::persistent::PersistentVec;
use tidegate_proxy::process_state::ProcessState;
use tidegate_proxy::server_configs::{ClientJudge, ServerConfigs};
use tidegate_proxy::snapshot::{self, Compiled, Handshakes, Parts, Snapshot};
use tidegate_upstream::compiled::{CompiledPool, CompiledServer, PoolParts, ServerParts, UpstreamTlsConfigs};

impl SiteTls {
    /// Reads the authorities of clients and what they have revoked again. False: there is nothing new.
    pub fn renew_clients(&mut self, tls: &Tls, state: &TlsProcessState, now: Timestamp) -> Result<bool, Vec<CertError>> {
        let Some(settings) = &tls.client_auth else { return Ok(false) };
        let read = ClientTrust::load(settings, now)?;
        if self.clients.as_ref().is_some_and(|before| before.digest == read.digest) {
            return Ok(false);
        }
        let configs = server_configs(tls, &self.certificates, Some(&read), state).map_err(|error| vec![error])?;
        self.handshakes.store(Arc::new(configs));
        self.clients = Some(Arc::new(read));
        Ok(true)
    }
}

/// What outlives every configuration.
#[derive(Clone, Copy)]
pub struct SharedState<'a> {
    pub process: &'a ProcessState,
    pub tls: &'a TlsProcessState,
    pub names: &'a Names,
    pub cookie_keys: &'a CookieKeys,
    pub followers: &'a Followers,
}

/// Numbers that the new snapshot is to have.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    pub generation: u64,
    pub serial: u64,
    /// Counters are needed for worker indices below this.
    pub workers: usize,
}

/// Gathers and compiles what differs from what runs. Names that are new are looked up, for at most
/// `names::CHANGE_LIMIT`.
pub fn gather(
    configuration: Arc<Configuration>,
    delta: &Delta,
    before: Option<&Material>,
    state: SharedState<'_>,
    numbers: Numbers,
    now: Timestamp,
) -> Result<Material, StartFault> {
    gather_with(configuration, delta, before, state, numbers, now, &News::default())
}

/// Gathers and compiles with what was found out meanwhile.
pub(crate) fn gather_with(
    configuration: Arc<Configuration>,
    delta: &Delta,
    before: Option<&Material>,
    state: SharedState<'_>,
    numbers: Numbers,
    now: Timestamp,
    news: &News,
) -> Result<Material, StartFault> {
    // Sites have counters for each worker: with more workers than before, all are made anew.
    let enough = before.map(|before| before.snapshot.workers).filter(|workers| *workers >= numbers.workers);
    let workers = enough.unwrap_or(numbers.workers);
    let delta = match enough {
        Some(_) => Cow::Borrowed(delta),
        None => Cow::Owned(Delta { sites: delta.sites.widened(configuration.sites.len()), ..delta.clone() }),
    };
    let gathered = gather_certificates(&configuration, &delta, before, state.tls, now)?;
    let ticket_keys = gather_ticket_keys(&configuration, before)?;
    // Held until they are compiled in: a file that nobody uses is forgotten.
    let changed_sites = delta.sites.changed.iter().map(|changed| &configuration.sites[changed.position]);
    let _users = gather_users(changed_sites.clone(), &state.process.user_files)?;
    let _api_keys = gather_api_keys(changed_sites.clone(), &state.process.api_key_files)?;
    let _keys = gather_keys(changed_sites, &state.process.key_sets)?;
    let pools = pools_to_look_at(&configuration, &delta, before, news);
    let discovered = discover(&pools, before, state, news);
    let known = |pool: &Pool| before.and_then(|before| before.snapshot.pool_named(&pool.name));
    let wanted = pools.into_iter().map(|pool| WantedPool { pool, endpoints: endpoints(pool, &discovered), known: known(pool) });
    let wanted: Vec<WantedPool<'_>> = wanted.collect();
    let configs = wanted.iter().map(|wanted| match upstream_tls(wanted, state.tls) {
        // Nobody asked for a change of this pool: what other pools were told must not wait for its files.
        Err(fault) if !news.is_empty() => tls_before(wanted).map(Some).ok_or(fault),
        read => read,
    });
    let configs = configs.collect::<Result<Vec<_>, _>>()?;
    let mut found = look_up(&wanted, state.names);
    found.extend(news.found.clone());
    let parts = |(wanted, tls): (&WantedPool<'_>, _)| pool_parts(wanted, tls, state, &news.found, &found).transpose();
    let pools = wanted.iter().zip(configs).filter_map(parts).collect::<Result<Vec<_>, _>>()?;
    let gone = |before: &Material| delta.pools.gone.iter().map(|place| before.configuration.pools[*place].name.clone()).collect();
    let Compiled { snapshot, pools_changed } = snapshot::compile(
        &configuration,
        Parts {
            generation: numbers.generation,
            serial: numbers.serial,
            delta: &delta,
            site_tls: gathered.iter().map(|tls| tls.as_ref().map(|tls| tls.handshakes.clone())).collect(),
            pools,
            pools_gone: before.map(gone).unwrap_or_default(),
            before: before.map(|before| &*before.snapshot),
            registry: &state.process.registry,
            cache: &state.process.cache,
            limits: &state.process.limits,
            user_files: &state.process.user_files,
            api_key_files: &state.process.api_key_files,
            key_sets: &state.process.key_sets,
            oidc: &state.process.oidc,
            workers,
        },
    )
    .map_err(|fault| StartFault::Internal(fault.to_string()))?;
    note_leaving(&snapshot, &wanted);
    let changed = || pools_changed.iter().filter_map(|slot| snapshot.pools[*slot].as_ref());
    if news.is_empty() {
        first_checks(changed());
    } else {
        // Servers that come while it runs have neighbours: they wait for their checker's first answer instead of
        // everybody for them.
        await_checks(changed());
    }
    let certificates = place_certificates(configuration.sites.len(), &delta, gathered, before);
    Ok(Material { configuration, snapshot: Arc::new(snapshot), certificates, ticket_keys, discovered, pools_changed })
}

/// Pools that differ, and pools that there are news of.
fn pools_to_look_at<'a>(
    configuration: &'a Configuration,
    delta: &Delta,
    before: Option<&'a Material>,
    news: &News,
) -> Vec<&'a Arc<Pool>> {
    let mut pools: Vec<_> = delta.pools.changed.iter().map(|changed| &configuration.pools[changed.position]).collect();
    let running = |name: &PoolName| before.and_then(|before| before.snapshot.pool_named(name)).map(|pool| &pool.model);
    pools.extend(news.pools.iter().filter_map(running));
    pools
}

/// No part of what is compiled: a server that is going away keeps its connections and its requests.
fn note_leaving(snapshot: &Snapshot, wanted: &[WantedPool<'_>]) {
    for WantedPool { pool, endpoints, .. } in wanted {
        let Some(compiled) = snapshot.pool_named(&pool.name) else { continue };
        // While no other is left, one that is told to stop and still there is better than nobody. Containers are waited
        // for instead: another one takes their place.
        let is_waited_for = pool.discover.iter().any(|source| matches!(source, Discover::Containers(_)));
        let has_others = is_waited_for || endpoints.iter().any(|endpoint| !endpoint.is_leaving);
        for (server, endpoint) in compiled.servers.iter().zip(endpoints) {
            server.shared.health.set_leaving(endpoint.is_leaving && has_others);
        }
    }
}

/// A pool with the servers that it is to have.
struct WantedPool<'a> {
    pool: &'a Arc<Pool>,
    /// The servers that are written, then those that were found; each once.
    endpoints: Vec<Endpoint>,
    /// What runs of it.
    known: Option<&'a Arc<CompiledPool>>,
}

/// What each source of these pools says: the news, else what it said before, else its first answer, for which the
/// change waits.
fn discover(pools: &[&Arc<Pool>], before: Option<&Material>, state: SharedState<'_>, news: &News) -> Discovered {
    let mut discovered = Discovered::default();
    let mut unknown: Vec<(&Discover, &PoolName)> = Vec::new();
    for (source, pool) in pools.iter().flat_map(|pool| pool.discover.iter().map(move |source| (source, &pool.name))) {
        match source {
            Discover::Containers(wanted) => {
                discovered.set(source, state.followers.containers().endpoints(wanted));
                continue;
            }
            Discover::Kubernetes(wanted) => {
                let endpoints = state.followers.clusters().endpoints(wanted, FIRST_ANSWERS_LIMIT);
                discovered.set(source, endpoints.unwrap_or_default());
                continue;
            }
            Discover::Dns(_) | Discover::File { .. } | Discover::Docker(_) | Discover::Consul(_) => {}
        }
        let said = news.discovered.of(source).or_else(|| before.and_then(|before| before.discovered.of(source)));
        match said {
            Some(endpoints) => discovered.set(source, endpoints.to_vec()),
            None if discovered.of(source).is_some() => {}
            None => {
                // Who says nothing in time has no servers until then, and is waited for once only: other changes must
                // not wait for it again.
                discovered.set(source, Vec::new());
                unknown.push((source, pool));
            }
        }
    }
    for (source, endpoints) in first_answers(&unknown) {
        discovered.set(&source, endpoints);
    }
    discovered
}

fn endpoints(pool: &Pool, discovered: &Discovered) -> Vec<Endpoint> {
    let written = |server: &Server| Endpoint { server: server.clone(), addresses: Vec::new(), is_leaving: false };
    let mut endpoints: Vec<Endpoint> = pool.servers.iter().map(written).collect();
    // By what servers are known by; plain and TLS on one port are one server, and what is written comes first.
    let mut seen: BTreeSet<String> = endpoints.iter().map(|endpoint| endpoint.server.address.authority()).collect();
    let found = pool.discover.iter().filter_map(|source| discovered.of(source)).flatten();
    endpoints.extend(found.filter(|endpoint| seen.insert(endpoint.server.address.authority())).cloned());
    endpoints
}

/// Of the sites of the difference, in its order. One that stays as far as its addresses and TLS go keeps its own.
fn gather_certificates(
    configuration: &Configuration,
    delta: &Delta,
    before: Option<&Material>,
    state: &TlsProcessState,
    now: Timestamp,
) -> Result<Vec<Option<SiteTls>>, StartFault> {
    let kept = |changed: &Changed| {
        let (before, place) = (before?, changed.before?);
        let (known, site) = (&before.configuration.sites[place], &configuration.sites[changed.position]);
        (known.addresses == site.addresses && known.tls == site.tls).then(|| &before.certificates[place])
    };
    let changed = delta.sites.changed.iter();
    let sites: Vec<(&Arc<Site>, Option<&Option<SiteTls>>)> =
        changed.map(|changed| (&configuration.sites[changed.position], kept(changed))).collect();
    let served = served_files(&sites, before);
    // Thousands of sites at a start; after a change those that are new.
    let load = |(site, kept): &(&Arc<Site>, Option<&Option<SiteTls>>)| match kept {
        Some(kept) => Ok((*kept).clone()),
        None => load_certificates(site, state, &served, now),
    };
    let (mut gathered, mut faults) = (Vec::with_capacity(sites.len()), Vec::new());
    for outcome in in_parallel(&sites, load) {
        match outcome {
            Ok(certificates) => gathered.push(certificates),
            Err(fault) => faults.push(fault),
        }
    }
    match faults.len() {
        0 => Ok(gathered),
        1 => Err(faults.remove(0)),
        _ => Err(StartFault::Several(faults)),
    }
}

fn place_certificates(
    count: usize,
    delta: &Delta,
    gathered: Vec<Option<SiteTls>>,
    before: Option<&Material>,
) -> PersistentVec<Option<SiteTls>> {
    let mut gathered = delta.sites.changed.iter().map(|changed| changed.position).zip(gathered);
    match before {
        Some(before) if delta.sites.is_in_place() => {
            let mut certificates = before.certificates.clone();
            for (position, tls) in gathered {
                certificates.set(position, tls);
            }
            certificates
        }
        _ => {
            let mut next = gathered.next();
            let place = |position| match next.take_if(|(changed, _)| *changed == position) {
                Some((_, tls)) => {
                    next = gathered.next();
                    tls
                }
                None => delta.sites.before(position).and_then(|place| before?.certificates[place].clone()),
            };
            (0..count).map(place).collect()
        }
    }
}

/// The users that stand in files; a file in use is not read again.
fn gather_users<'a>(
    sites: impl Iterator<Item = &'a Arc<Site>>,
    user_files: &UserFiles,
) -> Result<Vec<Arc<UserList>>, StartFault> {
    let mut lists = Vec::new();
    let mut faults: Vec<StartFault> = Vec::new();
    let mut faulty = Vec::new();
    for (site, auth) in auths(sites) {
        let Some(path) = file_of(&auth.users).filter(|path| !faulty.contains(path)) else { continue };
        match user_files.list(&auth.users) {
            Ok(list) => lists.push(list),
            Err(fault) => {
                faulty.push(path);
                faults.push(StartFault::Users { site: site.addresses[0].to_string(), fault });
            }
        }
    }
    unless_faulty(lists, faults)
}

/// The keys of programs that stand in files; a file in use is not read again.
fn gather_api_keys<'a>(
    sites: impl Iterator<Item = &'a Arc<Site>>,
    files: &ApiKeyFiles,
) -> Result<Vec<Arc<ApiKeyList>>, StartFault> {
    let (mut lists, mut faults, mut faulty) = (Vec::new(), Vec::new(), Vec::new());
    for (site, auth) in api_keys(sites) {
        let Some(path) = api_key_file_of(&auth.keys).filter(|path| !faulty.contains(path)) else { continue };
        match files.list(&auth.keys) {
            Ok(list) => lists.push(list),
            Err(fault) => {
                faulty.push(path);
                faults.push(StartFault::ApiKeys { site: site.addresses[0].to_string(), fault });
            }
        }
    }
    unless_faulty(lists, faults)
}

fn unless_faulty<T>(gathered: Vec<T>, mut faults: Vec<StartFault>) -> Result<Vec<T>, StartFault> {
    match faults.len() {
        0 => Ok(gathered),
        1 => Err(faults.remove(0)),
        _ => Err(StartFault::Several(faults)),
    }
}

/// Keys of tokens: those of files are read unless they are in use, those of addresses come later.
fn gather_keys<'a>(sites: impl Iterator<Item = &'a Arc<Site>>, key_sets: &KeySets) -> Result<Vec<Arc<IssuerKeys>>, StartFault> {
    let (mut gathered, mut faults, mut faulty) = (Vec::new(), Vec::new(), Vec::new());
    for (site, source) in key_sources(sites) {
        if faulty.contains(&source) {
            continue;
        }
        match key_sets.of(source, Instant::now()) {
            Ok(keys) => gathered.push(keys),
            Err(fault) => {
                faulty.push(source);
                faults.push(StartFault::TokenKeys { site: site.addresses[0].to_string(), fault });
            }
        }
    }
    unless_faulty(gathered, faults)
}

/// What is served now of the pairs of files that sites which are not kept name.
fn served_files(sites: &[(&Arc<Site>, Option<&Option<SiteTls>>)], before: Option<&Material>) -> ServedFiles {
    let named = |site: &'_ Site| match &site.tls.source {
        TlsSource::Files(files) => files.clone(),
        TlsSource::Automatic | TlsSource::Internal | TlsSource::Off | TlsSource::Reject => Vec::new(),
    };
    let Some(before) = before else { return ServedFiles::new() };
    let wanted: HashSet<Certificate> =
        sites.iter().filter(|(_, kept)| kept.is_none()).flat_map(|(site, _)| named(site)).collect();
    if wanted.is_empty() {
        return ServedFiles::new();
    }
    let served = before.certificates.iter().flatten().flat_map(|tls| tls.certificates.served_files());
    served.filter(|(pair, _)| wanted.contains(pair)).collect()
}

fn load_certificates(
    site: &Site,
    state: &TlsProcessState,
    served: &ServedFiles,
    now: Timestamp,
) -> Result<Option<SiteTls>, StartFault> {
    let fault = |errors| StartFault::Certificates { site: site.addresses[0].to_string(), errors };
    let Some(certificates) = SiteCertificates::load(site, state, served, now).map_err(fault)? else { return Ok(None) };
    let clients = site.tls.client_auth.as_ref().map(|settings| ClientTrust::load(settings, now)).transpose().map_err(fault)?;
    let configs = server_configs(&site.tls, &certificates, clients.as_ref(), state).map_err(|error| fault(vec![error]))?;
    let handshakes = Arc::new(Handshakes::from_pointee(configs));
    Ok(Some(SiteTls { certificates, handshakes, clients: clients.map(Arc::new) }))
}

fn server_configs(
    tls: &Tls,
    certificates: &Arc<SiteCertificates>,
    clients: Option<&ClientTrust>,
    state: &TlsProcessState,
) -> Result<ServerConfigs, CertError> {
    let usual = server_config(tls, certificates.clone(), clients, state)?;
    // The table of sessions does not know under which authorities one began.
    let by_session_id = if clients.is_none() { session_id_config(tls, &usual, state) } else { None };
    let early_data = early_data_config(tls, &usual, state);
    let judge = clients.and_then(|clients| clients.judge.clone()).map(|judge| {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        Arc::new(ClientJudge::new(move |chain, seconds| judge.fault(chain, at(seconds))))
    });
    Ok(ServerConfigs { usual, by_session_id, early_data, judge })
}

/// Looks up the names of servers that are new, or have new settings around them and no address so far. A pool that
/// stays as it is has its names looked up again in the background only.
fn look_up(pools: &[WantedPool<'_>], names: &Names) -> Found {
    let mut wanted = Vec::new();
    for WantedPool { pool, endpoints, known } in pools {
        if known.is_some_and(|known| is_of(known, pool) && known.servers.len() == endpoints.len()) {
            continue;
        }
        for Endpoint { server, addresses, .. } in endpoints {
            if addresses.is_empty()
                && known_addresses(&server.address, *known).is_none()
                && let Some(name) = Name::of(&server.address)
            {
                wanted.push((*pool, &server.address, name));
            }
        }
    }
    if wanted.is_empty() {
        return Found::new();
    }
    let outcomes = names.look_up(wanted.iter().map(|(_, _, name)| name.clone()).collect::<BTreeSet<_>>());
    for (pool, server, name) in wanted {
        // No reason to refuse the configuration: that server is down until its name has an address.
        if let Some(Err(error)) = outcomes.get(&name) {
            let (pool, origin) = (&pool.name, pool.origin.as_ref().map(tracing::field::display));
            tracing::error!(%pool, origin, %server, error, "the name of an upstream server has no address; it is looked up again every ten seconds");
        }
    }
    outcomes.into_iter().filter_map(|(name, outcome)| Some((name, outcome.ok()?))).collect()
}

/// A server that only has new neighbours keeps its connections, so it keeps its addresses too.
fn known_addresses<'k>(address: &UpstreamAddress, known: Option<&'k Arc<CompiledPool>>) -> Option<&'k Vec<SocketAddr>> {
    let authority = address.authority();
    let server = known?.servers.iter().find(|server| *server.authority == *authority)?;
    match &server.addresses {
        ServerAddresses::Tcp(addresses) if !addresses.is_empty() => Some(addresses),
        ServerAddresses::Tcp(_) | ServerAddresses::Unix(_) => None,
    }
}

/// `None` when the pool can stay as it is.
fn pool_parts(
    wanted: &WantedPool<'_>,
    tls: Option<UpstreamTlsConfigs>,
    state: SharedState<'_>,
    news: &Found,
    found: &Found,
) -> Result<Option<PoolParts>, StartFault> {
    let WantedPool { pool, endpoints, known } = wanted;
    let shared = state.process.pool(&pool.name);
    let mut servers = Vec::with_capacity(endpoints.len());
    for Endpoint { server, addresses, .. } in endpoints {
        let address = &server.address;
        let found_now = || {
            let (name, known) = (Name::of(address)?, known_addresses(address, *known));
            news.get(&name).or(known).or_else(|| found.get(&name)).cloned()
        };
        servers.push(ServerParts {
            tls_name: tls_name(pool, address)?,
            addresses: match address {
                UpstreamAddress::Unix(path) => ServerAddresses::Unix(path.as_path().into()),
                UpstreamAddress::Tcp(TcpAddress { host, port, .. }) => ServerAddresses::Tcp(match host.parse::<IpAddr>() {
                    Ok(ip) => vec![SocketAddr::new(ip, *port)],
                    Err(_) if !addresses.is_empty() => addresses.clone(),
                    Err(_) => found_now().unwrap_or_default(),
                }),
            },
            cookie_value: pool.sticky.as_ref().and_then(|sticky| state.cookie_keys.value(sticky, &pool.name, address)),
            model: server.clone(),
        });
    }
    if let Some(compiled) = known
        && is_of(compiled, pool)
        && trusts_the_same(compiled.tls.as_ref(), tls.as_ref())
        && compiled.servers.len() == servers.len()
        && compiled.servers.iter().zip(&servers).all(|(before, now)| is_same(before, now))
    {
        return Ok(None);
    }
    Ok(Some(PoolParts { model: (*pool).clone(), servers, tls, shared }))
}

/// Whether the settings are those that it was made of.
fn is_of(compiled: &CompiledPool, pool: &Arc<Pool>) -> bool {
    Arc::ptr_eq(&compiled.model, pool) || compiled.model == *pool
}

fn is_same(before: &CompiledServer, now: &ServerParts) -> bool {
    before.model == now.model && before.addresses == now.addresses && before.cookie_value == now.cookie_value
}

fn trusts_the_same(before: Option<&UpstreamTlsConfigs>, now: Option<&UpstreamTlsConfigs>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => Arc::ptr_eq(&before.any, &now.any),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn tls_name(pool: &Pool, address: &UpstreamAddress) -> Result<Option<rustls_pki_types::ServerName<'static>>, StartFault> {
    match address {
        UpstreamAddress::Unix(_) | UpstreamAddress::Tcp(TcpAddress { scheme: Scheme::Http, .. }) => Ok(None),
        UpstreamAddress::Tcp(address) => {
            let name = upstream_server_name(address, &pool.tls);
            name.map(Some).map_err(|error| upstream_fault(pool, &error.message()))
        }
    }
}

/// Settings and files that have not changed give the very same configurations.
fn upstream_tls(wanted: &WantedPool<'_>, tls: &TlsProcessState) -> Result<Option<UpstreamTlsConfigs>, StartFault> {
    let WantedPool { pool, endpoints, .. } = wanted;
    if !endpoints.iter().any(|endpoint| endpoint.server.address.scheme() == Scheme::Https) {
        return Ok(None);
    }
    let config =
        |alpn: &[&[u8]]| upstream_client_config(&pool.tls, alpn, tls).map_err(|error| upstream_fault(pool, &error.message()));
    let http1 = config(&[b"http/1.1"])?;
    // The same trust and the same sessions, without reading the files once more.
    let mut bare = rustls::ClientConfig::clone(&http1);
    bare.alpn_protocols.clear();
    Ok(Some(UpstreamTlsConfigs { bare: Arc::new(bare), any: config(&[b"h2", b"http/1.1"])?, h2: config(&[b"h2"])?, http1 }))
}

/// What the pool's connections are made with now, if its settings are the same.
fn tls_before(wanted: &WantedPool<'_>) -> Option<UpstreamTlsConfigs> {
    let known = wanted.known?;
    known.tls.clone().filter(|_| is_of(known, wanted.pool))
}

fn upstream_fault(pool: &Pool, error: &dyn std::fmt::Display) -> StartFault {
    StartFault::UpstreamTls { pool: pool.name.to_string(), message: error.to_string() }
}

#[cfg(test)]
mod tests;
