//! What a configuration needs from outside before it can be compiled: certificates, trusted roots, servers that nobody wrote, addresses of names.
//! What an unchanged site or pool needed before is taken over, so that a change costs what it changes. Who is asked again while it runs is in
//! `discovery`; how servers do, in `pools`.

use crate::control::{auths, file_of};
use crate::discovery::{Discovered, first_answers};
use crate::fault::StartFault;
use crate::names::{Found, Name, Names};
use crate::pools::{await_checks, first_checks};
use crate::sticky::CookieKeys;
use crate::tickets::gather_ticket_keys;
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tidegate_certs::{
    CertError, ClientTrust, ServedFiles, SiteCertificates, TicketSource, TlsSurvivors, early_data_config, server_config,
    session_id_config, upstream_client_config, upstream_server_name,
};
use tidegate_discovery::Member;
use tidegate_model::{
    Certificate, Configuration, Pool, PoolName, Scheme, Server, Site, SiteAddress, Tls, TlsSource, UpstreamAddress,
};
use tidegate_parallel::in_parallel;
use tidegate_proxy::auth::{UserFiles, UserList};
use tidegate_proxy::snapshot::{self, Before, Handshakes, Parts, ServerConfigs, Snapshot};
use tidegate_proxy::survivors::ProcessSurvivors;
use tidegate_upstream::compiled::{CompiledPool, CompiledServer, PoolParts, ServerParts, UpstreamTlsConfigs};

/// A compiled configuration and what must be looked after while it runs.
pub struct Material {
    pub configuration: Arc<Configuration>,
    pub snapshot: Arc<Snapshot>,
    /// By site; `None` for plain HTTP.
    pub certificates: Vec<Option<SiteTls>>,
    pub ticket_keys: TicketSource,
    /// What the sources of servers said last.
    pub discovered: Discovered,
}

/// A site's certificates, to be renewed while running, and the settings that hand them out.
#[derive(Clone)]
pub struct SiteTls {
    pub certificates: Arc<SiteCertificates>,
    pub handshakes: Arc<Handshakes>,
    /// Of a site that asks its clients for certificates: whom it trusts to sign them.
    pub clients: Option<Arc<ClientTrust>>,
}

impl SiteTls {
    /// Reads the authorities of clients and what they have revoked again. False: there is nothing new.
    pub fn renew_clients(&mut self, tls: &Tls, survivors: &TlsSurvivors, now: Timestamp) -> Result<bool, Vec<CertError>> {
        let Some(settings) = &tls.client_auth else { return Ok(false) };
        let read = ClientTrust::load(settings, now)?;
        if self.clients.as_ref().is_some_and(|before| before.digest == read.digest) {
            return Ok(false);
        }
        let configs = server_configs(tls, &self.certificates, Some(&read), survivors).map_err(|error| vec![error])?;
        self.handshakes.store(Arc::new(configs));
        self.clients = Some(Arc::new(read));
        Ok(true)
    }
}

/// What outlives every configuration.
#[derive(Clone, Copy)]
pub struct Survivors<'a> {
    pub process: &'a ProcessSurvivors,
    pub tls: &'a TlsSurvivors,
    pub names: &'a Names,
    pub cookie_keys: &'a CookieKeys,
}

/// What was found out since the last compilation.
#[derive(Debug, Default, Clone)]
pub struct News {
    /// Addresses of names.
    pub found: Found,
    /// What sources of servers say now.
    pub discovered: Discovered,
}

impl News {
    /// Takes in other news, which are the newer.
    pub fn merge(&mut self, newer: &News) {
        self.found.extend(newer.found.clone());
        self.discovered.merge(&newer.discovered);
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.discovered.is_empty()
    }
}

/// Numbers that the new snapshot is to have.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    pub generation: u64,
    pub serial: u64,
    /// Counters are needed for worker indices below this.
    pub workers: usize,
}

/// What runs of a pool with its settings.
type Known<'a> = (&'a Pool, &'a Arc<CompiledPool>);

/// Gathers and compiles. Names that are new are looked up, for at most `names::CHANGE_LIMIT`.
pub fn gather(
    configuration: Arc<Configuration>,
    before: Option<&Material>,
    survivors: Survivors<'_>,
    numbers: Numbers,
    now: Timestamp,
) -> Result<Material, StartFault> {
    gather_with(configuration, before, survivors, numbers, now, &News::default())
}

/// Gathers and compiles with what was found out meanwhile.
pub(crate) fn gather_with(
    configuration: Arc<Configuration>,
    before: Option<&Material>,
    survivors: Survivors<'_>,
    numbers: Numbers,
    now: Timestamp,
    news: &News,
) -> Result<Material, StartFault> {
    let certificates = gather_certificates(&configuration, before, survivors.tls, now)?;
    let ticket_keys = gather_ticket_keys(&configuration, before)?;
    // Held until they are compiled in: a file that nobody uses is forgotten.
    let _users = gather_users(&configuration, &survivors.process.user_files)?;
    let known: HashMap<&PoolName, Known<'_>> = before
        .iter()
        .flat_map(|before| before.snapshot.pools.iter().flatten())
        .map(|compiled| (&compiled.name, (&compiled.model, compiled)))
        .collect();
    let discovered = discover(&configuration.pools, before, news);
    let wanted: Vec<WantedPool<'_>> = configuration
        .pools
        .iter()
        .map(|pool| WantedPool { pool, members: members(pool, &discovered), known: known.get(&pool.name).copied() })
        .collect();
    let configs = wanted.iter().map(|wanted| match upstream_tls(wanted, survivors.tls) {
        // Nobody asked for a change of this pool: what other pools were told must not wait for its files.
        Err(fault) if !news.is_empty() => tls_before(wanted).map(Some).ok_or(fault),
        read => read,
    });
    let configs = configs.collect::<Result<Vec<_>, _>>()?;
    let mut found = look_up(&wanted, survivors.names);
    found.extend(news.found.clone());
    let parts = |(wanted, tls): (&WantedPool<'_>, _)| pool_parts(wanted, tls, survivors, &news.found, &found);
    let pools = wanted.iter().zip(configs).map(parts).collect::<Result<Vec<_>, _>>()?;
    let snapshot = snapshot::compile(
        &configuration,
        Parts {
            generation: numbers.generation,
            serial: numbers.serial,
            site_tls: certificates.iter().map(|tls| tls.as_ref().map(|tls| tls.handshakes.clone())).collect(),
            pools,
            before: before.map(|before| Before { configuration: &before.configuration, snapshot: &before.snapshot }),
            registry: &survivors.process.registry,
            cache: &survivors.process.cache,
            limits: &survivors.process.limits,
            user_files: &survivors.process.user_files,
            workers: numbers.workers,
        },
    )
    .map_err(|fault| StartFault::Internal(fault.to_string()))?;
    note_leaving(&snapshot, &wanted);
    if news.is_empty() {
        first_checks(&snapshot);
    } else {
        // Servers that come while it runs have neighbours: they wait for their checker's first answer instead of everybody for them.
        await_checks(&snapshot);
    }
    Ok(Material { configuration, snapshot: Arc::new(snapshot), certificates, ticket_keys, discovered })
}

/// No part of what is compiled: a server that is going away keeps its connections and its requests.
fn note_leaving(snapshot: &Snapshot, wanted: &[WantedPool<'_>]) {
    for WantedPool { pool, members, .. } in wanted {
        let Some(compiled) = snapshot.pool_named(&pool.name) else { continue };
        for (server, member) in compiled.servers.iter().zip(members) {
            server.shared.health.set_leaving(member.is_leaving);
        }
    }
}

/// A pool with the servers that it is to have.
struct WantedPool<'a> {
    pool: &'a Pool,
    /// The servers that are written, then those that were found; each once.
    members: Vec<Member>,
    known: Option<Known<'a>>,
}

/// What each source of the configuration says: the news, else what it said before, else its first answer, for which the change waits.
fn discover(pools: &[Pool], before: Option<&Material>, news: &News) -> Discovered {
    let mut discovered = Discovered::default();
    let mut unknown = Vec::new();
    for (source, pool) in pools.iter().flat_map(|pool| pool.discover.iter().map(move |source| (source, &pool.name))) {
        let said = news.discovered.of(source).or_else(|| before.and_then(|before| before.discovered.of(source)));
        match said {
            Some(members) => discovered.set(source, members.to_vec()),
            None if unknown.iter().any(|(known, _)| *known == source) => {}
            None => unknown.push((source, pool)),
        }
    }
    // Who says nothing in time has no servers until then, and is waited for once only: other changes must not wait for it again.
    for (source, _) in &unknown {
        discovered.set(source, Vec::new());
    }
    for (source, members) in first_answers(&unknown) {
        discovered.set(&source, members);
    }
    discovered
}

fn members(pool: &Pool, discovered: &Discovered) -> Vec<Member> {
    let written = |server: &Server| Member { server: server.clone(), addresses: Vec::new(), is_leaving: false };
    let mut members: Vec<Member> = pool.servers.iter().map(written).collect();
    // By what servers are known by; plain and TLS on one port are one server, and what is written comes first.
    let mut seen: BTreeSet<String> = members.iter().map(|member| member.server.address.authority()).collect();
    let found = pool.discover.iter().filter_map(|source| discovered.of(source)).flatten();
    members.extend(found.filter(|member| seen.insert(member.server.address.authority())).cloned());
    members
}

fn gather_certificates(
    configuration: &Configuration,
    before: Option<&Material>,
    survivors: &TlsSurvivors,
    now: Timestamp,
) -> Result<Vec<Option<SiteTls>>, StartFault> {
    let known = before.map_or(&[][..], |before| &before.configuration.sites);
    let mut by_address: Option<HashMap<&SiteAddress, usize>> = None;
    let same = |site: &Arc<Site>, other: &Arc<Site>| {
        Arc::ptr_eq(site, other) || (site.addresses == other.addresses && site.tls == other.tls)
    };
    let mut places = Vec::with_capacity(configuration.sites.len());
    for (position, site) in configuration.sites.iter().enumerate() {
        let place = if known.get(position).is_some_and(|before| same(before, site)) {
            Some(position)
        } else {
            let table = by_address
                .get_or_insert_with(|| known.iter().enumerate().map(|(place, site)| (&site.addresses[0], place)).collect());
            table.get(&site.addresses[0]).copied().filter(|place| same(&known[*place], site))
        };
        places.push(place.and_then(|place| Some(&before?.certificates[place])));
    }
    let sites: Vec<(&Arc<Site>, Option<&Option<SiteTls>>)> = configuration.sites.iter().zip(places).collect();
    let served = served_files(&sites, before);
    // Thousands of sites at a start; after a change those that are new.
    let load = |(site, kept): &(&Arc<Site>, Option<&Option<SiteTls>>)| match kept {
        Some(kept) => Ok((*kept).clone()),
        None => load_certificates(site, survivors, &served, now),
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

/// The users that stand in files; a file in use is not read again.
fn gather_users(configuration: &Configuration, user_files: &UserFiles) -> Result<Vec<Arc<UserList>>, StartFault> {
    let mut lists = Vec::new();
    let mut faults: Vec<StartFault> = Vec::new();
    let mut faulty = Vec::new();
    for (site, auth) in auths(configuration) {
        let Some(path) = file_of(&auth.users).filter(|path| !faulty.contains(path)) else { continue };
        match user_files.list(&auth.users) {
            Ok(list) => lists.push(list),
            Err(fault) => {
                faulty.push(path);
                faults.push(StartFault::Users { site: site.addresses[0].to_string(), fault });
            }
        }
    }
    match faults.len() {
        0 => Ok(lists),
        1 => Err(faults.remove(0)),
        _ => Err(StartFault::Several(faults)),
    }
}

/// What is served now of the pairs of files that sites which are not kept name.
fn served_files(sites: &[(&Arc<Site>, Option<&Option<SiteTls>>)], before: Option<&Material>) -> ServedFiles {
    let named = |site: &'_ Site| match &site.tls.source {
        TlsSource::Files(files) => files.clone(),
        TlsSource::Automatic | TlsSource::Internal | TlsSource::Off => Vec::new(),
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
    survivors: &TlsSurvivors,
    served: &ServedFiles,
    now: Timestamp,
) -> Result<Option<SiteTls>, StartFault> {
    let fault = |errors| StartFault::Certificates { site: site.addresses[0].to_string(), errors };
    let Some(certificates) = SiteCertificates::load(site, survivors, served, now).map_err(fault)? else { return Ok(None) };
    let clients = site.tls.client_auth.as_ref().map(|settings| ClientTrust::load(settings, now)).transpose().map_err(fault)?;
    let configs = server_configs(&site.tls, &certificates, clients.as_ref(), survivors).map_err(|error| fault(vec![error]))?;
    let handshakes = Arc::new(Handshakes::from_pointee(configs));
    Ok(Some(SiteTls { certificates, handshakes, clients: clients.map(Arc::new) }))
}

fn server_configs(
    tls: &Tls,
    certificates: &Arc<SiteCertificates>,
    clients: Option<&ClientTrust>,
    survivors: &TlsSurvivors,
) -> Result<ServerConfigs, CertError> {
    let usual = server_config(tls, certificates.clone(), clients, survivors)?;
    // The table of sessions does not know under which authorities one began.
    let by_session_id = if clients.is_none() { session_id_config(tls, &usual, survivors) } else { None };
    let early_data = early_data_config(tls, &usual, survivors);
    Ok(ServerConfigs { usual, by_session_id, early_data })
}

/// Looks up the names of servers that are new, or have new settings around them and no address so far. A pool that stays as it is has its names
/// looked up again in the background only.
fn look_up(pools: &[WantedPool<'_>], names: &Names) -> Found {
    let mut wanted = Vec::new();
    for WantedPool { pool, members, known } in pools {
        if known.is_some_and(|(model, compiled)| model == *pool && compiled.servers.len() == members.len()) {
            continue;
        }
        for Member { server, addresses, .. } in members {
            if addresses.is_empty()
                && known_addresses(&server.address, *known).is_none()
                && let Some(name) = Name::of(&server.address)
            {
                wanted.push((&pool.name, &server.address, name));
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
            tracing::error!(%pool, %server, error, "the name of an upstream server has no address; it is looked up again every ten seconds");
        }
    }
    outcomes.into_iter().filter_map(|(name, outcome)| Some((name, outcome.ok()?))).collect()
}

/// A server that only has new neighbours keeps its connections, so it keeps its addresses too.
fn known_addresses<'k>(address: &UpstreamAddress, known: Option<Known<'k>>) -> Option<&'k Vec<SocketAddr>> {
    let authority = address.authority();
    let (_, compiled) = known?;
    let server = compiled.servers.iter().find(|server| *server.authority == *authority)?;
    (!server.addresses.is_empty()).then_some(&server.addresses)
}

/// `None` when the pool can stay as it is.
fn pool_parts(
    wanted: &WantedPool<'_>,
    tls: Option<UpstreamTlsConfigs>,
    survivors: Survivors<'_>,
    news: &Found,
    found: &Found,
) -> Result<Option<PoolParts>, StartFault> {
    let WantedPool { pool, members, known } = wanted;
    let shared = survivors.process.pool(&pool.name);
    let mut servers = Vec::with_capacity(members.len());
    for Member { server, addresses, .. } in members {
        let address = &server.address;
        let name = Name::of(address);
        servers.push(ServerParts {
            tls_name: tls_name(pool, address)?,
            addresses: match (address.host.parse::<IpAddr>(), known_addresses(address, *known)) {
                (Ok(ip), _) => vec![SocketAddr::new(ip, address.port)],
                (Err(_), _) if !addresses.is_empty() => addresses.clone(),
                (Err(_), known) => name
                    .and_then(|name| news.get(&name).cloned().or_else(|| known.cloned()).or_else(|| found.get(&name).cloned()))
                    .unwrap_or_default(),
            },
            cookie_value: pool.sticky.as_ref().and_then(|sticky| survivors.cookie_keys.value(sticky, &pool.name, address)),
            model: server.clone(),
        });
    }
    if let Some((model, compiled)) = known
        && model == pool
        && trusts_the_same(compiled.tls.as_ref(), tls.as_ref())
        && compiled.servers.len() == servers.len()
        && compiled.servers.iter().zip(&servers).all(|(before, now)| is_same(before, now))
    {
        return Ok(None);
    }
    Ok(Some(PoolParts { servers, tls, shared }))
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
    match address.scheme {
        Scheme::Http => Ok(None),
        Scheme::Https => {
            let name = upstream_server_name(address, &pool.tls);
            name.map(Some).map_err(|error| upstream_fault(pool, &error.message()))
        }
    }
}

/// Settings and files that have not changed give the very same configurations.
fn upstream_tls(wanted: &WantedPool<'_>, tls: &TlsSurvivors) -> Result<Option<UpstreamTlsConfigs>, StartFault> {
    let WantedPool { pool, members, .. } = wanted;
    if !members.iter().any(|member| member.server.address.scheme == Scheme::Https) {
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
    let (model, compiled) = wanted.known?;
    compiled.tls.clone().filter(|_| model == wanted.pool)
}

fn upstream_fault(pool: &Pool, error: &dyn std::fmt::Display) -> StartFault {
    StartFault::UpstreamTls { pool: pool.name.to_string(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::{Material, News, Numbers, Survivors, gather, gather_with};
    use crate::names::tests::Resolver;
    use crate::names::{Found, Name};
    use crate::sticky::CookieKeys;
    use jiff::Timestamp;
    use std::net::SocketAddr;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;
    use tidegate_certs::TlsSurvivors;
    use tidegate_discovery::Member;
    use tidegate_model::{Configuration, Server, UpstreamAddress};
    use tidegate_proxy::survivors::ProcessSurvivors;
    use tidegate_telemetry::Registry;

    const NUMBERS: Numbers = Numbers { generation: 1, serial: 1, workers: 1 };

    fn configuration(pools: &str) -> Arc<Configuration> {
        let text = format!("{pools}\nsite \"http://:80\" {{ proxy \"a\" }}\n");
        let loaded = tidegate_config::load_text("test.kdl", &text, Path::new("."));
        Arc::new(loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics)))
    }

    /// How many addresses each server has, by pool.
    fn addresses(material: &Material) -> Vec<(String, Vec<usize>)> {
        let pools = material.snapshot.pools.iter().flatten();
        let count = |pool: &Arc<super::CompiledPool>| pool.servers.iter().map(|server| server.addresses.len()).collect();
        let mut counts: Vec<_> = pools.map(|pool| (pool.name.to_string(), count(pool))).collect();
        counts.sort();
        counts
    }

    #[test]
    fn a_server_that_is_leaving_when_it_is_found_gets_no_requests() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = ProcessSurvivors::new(Arc::new(Registry::new("test")));
        let tls = TlsSurvivors::new(folder.path().to_owned()).expect("a provider");
        let (names, _events) = Resolver::default().names(Duration::from_secs(60));
        let cookie_keys = CookieKeys::new(folder.path().to_owned());
        let survivors = Survivors { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys };
        let now = Timestamp::UNIX_EPOCH;
        let configuration = configuration("pool \"a\" { server \"192.0.2.1:80\"; discover file=\"/nowhere/servers.json\"; }");
        let before = gather(configuration.clone(), None, survivors, NUMBERS, now).expect("it compiles");
        let gathered = |is_leaving: bool| {
            let address = UpstreamAddress::parse("192.0.2.2:80").expect("an address");
            let found = Member { server: Server::new(address), addresses: Vec::new(), is_leaving };
            let mut news = News::default();
            news.discovered.set(&configuration.pools[0].discover[0], vec![found]);
            gather_with(configuration.clone(), Some(&before), survivors, NUMBERS, now, &news).expect("it compiles")
        };
        let leaving = |material: &Material| -> Vec<bool> {
            let servers = material.snapshot.pools.iter().flatten().flat_map(|pool| &pool.servers);
            servers.map(|server| server.shared.health.is_leaving()).collect()
        };
        let found = gathered(true);
        assert_eq!(leaving(&found), [false, true]);
        assert_eq!(leaving(&gathered(false)), [false, false], "it stays after all");
        assert_eq!(leaving(&found), [false, false], "the same servers");
    }

    #[test]
    fn news_of_one_pool_do_not_wait_for_files_of_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate").cert.pem();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, authority).expect("written");
        let process = ProcessSurvivors::new(Arc::new(Registry::new("test")));
        let tls = TlsSurvivors::new(folder.path().to_owned()).expect("a provider");
        let (names, _events) = Resolver::default().names(Duration::from_secs(60));
        let cookie_keys = CookieKeys::new(folder.path().to_owned());
        let survivors = Survivors { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys };
        let now = Timestamp::UNIX_EPOCH;
        let a = format!("pool \"a\" {{ server \"https://192.0.2.1\"; tls ca=\"{}\" }}", file.display());
        let b = "pool \"b\" { discover file=\"/nowhere/servers.json\"; }";
        let configuration = configuration(&format!("{a}\n{b}"));
        let before = gather(configuration.clone(), None, survivors, NUMBERS, now).expect("it compiles");
        std::fs::remove_file(&file).expect("removed");
        let mut news = News::default();
        let address = UpstreamAddress::parse("192.0.2.2:80").expect("an address");
        let found = Member { server: Server::new(address), addresses: Vec::new(), is_leaving: false };
        news.discovered.set(&configuration.pools[1].discover[0], vec![found]);
        let after = gather_with(configuration.clone(), Some(&before), survivors, NUMBERS, now, &news).expect("it compiles");
        assert_eq!(addresses(&after), [("a".to_owned(), vec![1]), ("b".to_owned(), vec![1])]);
        let trust = |material: &Material| {
            let pool = material.snapshot.pool_named(&tidegate_model::PoolName("a".into())).expect("there");
            pool.tls.as_ref().expect("it has TLS").any.clone()
        };
        assert!(Arc::ptr_eq(&trust(&before), &trust(&after)), "what was read before is used");
        assert!(gather(configuration, Some(&before), survivors, NUMBERS, now).is_err(), "a change is refused");
    }

    #[test]
    fn only_names_that_are_new_are_looked_up_and_those_found_later_are_taken_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = ProcessSurvivors::new(Arc::new(Registry::new("test")));
        let tls = TlsSurvivors::new(folder.path().to_owned()).expect("a provider");
        let resolver = Resolver::default();
        let (names, _events) = resolver.names(Duration::from_secs(60));
        let cookie_keys = CookieKeys::new(folder.path().to_owned());
        let survivors = Survivors { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys };
        let now = Timestamp::UNIX_EPOCH;
        let expect = |seen: &Material, a: &[usize], b: &[usize]| {
            assert_eq!(addresses(seen), [("a".to_owned(), a.to_vec()), ("b".to_owned(), b.to_vec())]);
        };
        let a = "pool \"a\" { server \"good.test:80\"; server \"dead.test:80\"; server \"192.0.2.1:80\" }";
        let b = "pool \"b\" { server \"dead.test:81\" }";
        let first = gather(configuration(&format!("{a}\n{b}")), None, survivors, NUMBERS, now).expect("it compiles");
        expect(&first, &[1, 0, 1], &[0]);
        assert_eq!(resolver.take_asked(), ["dead.test", "dead.test", "good.test"]);
        // Another pool changes: what has no address in this one does not hold up the change.
        let b = "pool \"b\" { server \"dead.test:81\"; server \"other.test:80\" }";
        let second = gather(configuration(&format!("{a}\n{b}")), Some(&first), survivors, NUMBERS, now).expect("it compiles");
        expect(&second, &[1, 0, 1], &[0, 1]);
        assert_eq!(resolver.take_asked(), ["dead.test", "other.test"]);
        let found = Found::from([(Name { host: "dead.test".into(), port: 80 }, vec![SocketAddr::from(([127, 0, 0, 1], 80))])]);
        let news = News { found, ..News::default() };
        let third =
            gather_with(second.configuration.clone(), Some(&second), survivors, NUMBERS, now, &news).expect("it compiles");
        expect(&third, &[1, 1, 1], &[0, 1]);
        assert!(resolver.take_asked().is_empty());
        let pool =
            |material: &Material, name: &str| material.snapshot.pool_named(&tidegate_model::PoolName(name.into())).cloned();
        let (before, after) = (pool(&second, "b").expect("there"), pool(&third, "b").expect("there"));
        assert!(Arc::ptr_eq(&before, &after), "a pool without news stays as it is");
    }
}
