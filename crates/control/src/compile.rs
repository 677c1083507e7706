//! What a configuration needs from outside before it can be compiled: certificates, trusted roots, addresses of names. What an unchanged site or
//! pool needed before is taken over, so that a change costs what it changes.

use crate::fault::StartFault;
use crate::names::{Found, Name, Names};
use jiff::Timestamp;
use rustls::ServerConfig;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tidegate_certs::{SiteCertificates, TlsSurvivors, server_config, upstream_client_config, upstream_server_name};
use tidegate_model::{Configuration, Pool, PoolName, Scheme, Site, SiteAddress, UpstreamAddress};
use tidegate_proxy::snapshot::{self, Before, CompiledPool, Parts, PoolParts, Snapshot, UpstreamTlsConfigs};
use tidegate_proxy::survivors::ProcessSurvivors;

/// A compiled configuration and what must be looked after while it runs.
pub struct Material {
    pub configuration: Arc<Configuration>,
    pub snapshot: Arc<Snapshot>,
    /// By site; `None` for plain HTTP.
    pub certificates: Vec<Option<SiteTls>>,
}

/// A site's certificates, to be renewed while running, and the settings that hand them out.
#[derive(Clone)]
pub struct SiteTls {
    pub certificates: Arc<SiteCertificates>,
    pub server_config: Arc<ServerConfig>,
}

/// What outlives every configuration.
#[derive(Clone, Copy)]
pub struct Survivors<'a> {
    pub process: &'a ProcessSurvivors,
    pub tls: &'a TlsSurvivors,
    pub names: &'a Names,
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
    gather_with(configuration, before, survivors, numbers, now, &Found::new())
}

/// The same with addresses that were found meanwhile, for servers that have none.
pub(crate) fn gather_with(
    configuration: Arc<Configuration>,
    before: Option<&Material>,
    survivors: Survivors<'_>,
    numbers: Numbers,
    now: Timestamp,
    found: &Found,
) -> Result<Material, StartFault> {
    let certificates = gather_certificates(&configuration, before, survivors.tls, now)?;
    let known: HashMap<&PoolName, Known<'_>> = before
        .iter()
        .flat_map(|before| before.snapshot.pools.iter().flatten())
        .map(|compiled| (&compiled.name, (&compiled.model, compiled)))
        .collect();
    let configs = configuration.pools.iter().map(|pool| upstream_tls(pool, survivors.tls)).collect::<Result<Vec<_>, _>>()?;
    let mut found = found.clone();
    found.extend(look_up(&configuration.pools, &known, survivors.names));
    let parts = |(pool, tls): (&Pool, _)| pool_parts(pool, tls, known.get(&pool.name).copied(), survivors.process, &found);
    let pools = configuration.pools.iter().zip(configs).map(parts).collect::<Result<Vec<_>, _>>()?;
    let snapshot = snapshot::compile(
        &configuration,
        Parts {
            generation: numbers.generation,
            serial: numbers.serial,
            site_tls: certificates.iter().map(|tls| tls.as_ref().map(|tls| tls.server_config.clone())).collect(),
            pools,
            before: before.map(|before| Before { configuration: &before.configuration, snapshot: &before.snapshot }),
            registry: &survivors.process.registry,
            workers: numbers.workers,
        },
    )
    .map_err(|fault| StartFault::Internal(fault.to_string()))?;
    Ok(Material { configuration, snapshot: Arc::new(snapshot), certificates })
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
    let mut gathered = Vec::with_capacity(configuration.sites.len());
    let mut faults = Vec::new();
    for (position, site) in configuration.sites.iter().enumerate() {
        let place = if known.get(position).is_some_and(|before| same(before, site)) {
            Some(position)
        } else {
            let table = by_address
                .get_or_insert_with(|| known.iter().enumerate().map(|(place, site)| (&site.addresses[0], place)).collect());
            table.get(&site.addresses[0]).copied().filter(|place| same(&known[*place], site))
        };
        match (place, before) {
            (Some(place), Some(before)) => gathered.push(before.certificates[place].clone()),
            _ => match load_certificates(site, survivors, now) {
                Ok(loaded) => gathered.push(loaded),
                Err(fault) => faults.push(fault),
            },
        }
    }
    match faults.len() {
        0 => Ok(gathered),
        1 => Err(faults.remove(0)),
        _ => Err(StartFault::Several(faults)),
    }
}

fn load_certificates(site: &Site, survivors: &TlsSurvivors, now: Timestamp) -> Result<Option<SiteTls>, StartFault> {
    let fault = |errors| StartFault::Certificates { site: site.addresses[0].to_string(), errors };
    let Some(certificates) = SiteCertificates::load(site, survivors, now).map_err(fault)? else { return Ok(None) };
    let server_config = server_config(&site.tls, certificates.clone(), survivors).map_err(|error| fault(vec![error]))?;
    Ok(Some(SiteTls { certificates, server_config }))
}

/// Looks up the names of servers that are new, or have new settings around them and no address so far. A pool that stays as it is has its names
/// looked up again in the background only.
fn look_up(pools: &[Pool], known: &HashMap<&PoolName, Known<'_>>, names: &Names) -> Found {
    let mut wanted = Vec::new();
    for pool in pools {
        let known = known.get(&pool.name).copied();
        if known.is_some_and(|(model, _)| model == pool) {
            continue;
        }
        let is_unknown = |address: &UpstreamAddress| known_addresses(address, known).is_none();
        let unknown = pool.servers.iter().map(|server| &server.address).filter(|address| is_unknown(address));
        wanted.extend(unknown.filter_map(|address| Some((pool, address, Name::of(address)?))));
    }
    if wanted.is_empty() {
        return Found::new();
    }
    let outcomes = names.look_up(wanted.iter().map(|(_, _, name)| name.clone()).collect::<BTreeSet<_>>());
    for (pool, server, name) in wanted {
        // No reason to refuse the configuration: that server is down until its name has an address.
        if let Some(Err(error)) = outcomes.get(&name) {
            tracing::error!(pool = %pool.name, server = %server, error, "the name of an upstream server has no address; it is looked up again every ten seconds");
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
    pool: &Pool,
    tls: Option<UpstreamTlsConfigs>,
    known: Option<Known<'_>>,
    process: &ProcessSurvivors,
    found: &Found,
) -> Result<Option<PoolParts>, StartFault> {
    let trusts_the_same = |before: Option<&UpstreamTlsConfigs>| match (before, &tls) {
        (Some(before), Some(now)) => Arc::ptr_eq(&before.any, &now.any),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    let is_found = |address: &UpstreamAddress| Name::of(address).is_some_and(|name| found.contains_key(&name));
    let has_news = |compiled: &CompiledPool| {
        let mut servers = compiled.servers.iter().zip(&compiled.model.servers);
        servers.any(|(server, written)| server.addresses.is_empty() && is_found(&written.address))
    };
    if let Some((model, compiled)) = known
        && model == pool
        && trusts_the_same(compiled.tls.as_ref())
        && !has_news(compiled)
    {
        return Ok(None);
    }
    let mut parts = PoolParts { addresses: Vec::new(), tls_names: Vec::new(), tls, shared: Vec::new() };
    for server in &pool.servers {
        let address = &server.address;
        let name = match address.scheme {
            Scheme::Http => None,
            Scheme::Https => {
                Some(upstream_server_name(address, &pool.tls).map_err(|error| upstream_fault(pool, &error.message()))?)
            }
        };
        parts.tls_names.push(name);
        parts.addresses.push(match (address.host.parse::<IpAddr>(), known_addresses(address, known)) {
            (Ok(ip), _) => vec![SocketAddr::new(ip, address.port)],
            (Err(_), Some(addresses)) => addresses.clone(),
            (Err(_), None) => Name::of(address).and_then(|name| found.get(&name).cloned()).unwrap_or_default(),
        });
        parts.shared.push(process.server(&pool.name, &address.authority()));
    }
    Ok(Some(parts))
}

/// Settings and files that have not changed give the very same configurations.
fn upstream_tls(pool: &Pool, tls: &TlsSurvivors) -> Result<Option<UpstreamTlsConfigs>, StartFault> {
    if !pool.servers.iter().any(|server| server.address.scheme == Scheme::Https) {
        return Ok(None);
    }
    let config =
        |alpn: &[&[u8]]| upstream_client_config(&pool.tls, alpn, tls).map_err(|error| upstream_fault(pool, &error.message()));
    Ok(Some(UpstreamTlsConfigs { any: config(&[b"h2", b"http/1.1"])?, http1: config(&[b"http/1.1"])?, h2: config(&[b"h2"])? }))
}

fn upstream_fault(pool: &Pool, error: &dyn std::fmt::Display) -> StartFault {
    StartFault::UpstreamTls { pool: pool.name.to_string(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::{Material, Numbers, Survivors, gather, gather_with};
    use crate::names::tests::Resolver;
    use crate::names::{Found, Name};
    use jiff::Timestamp;
    use std::net::SocketAddr;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;
    use tidegate_certs::TlsSurvivors;
    use tidegate_model::Configuration;
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
    fn only_names_that_are_new_are_looked_up_and_those_found_later_are_taken_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = ProcessSurvivors::new(Arc::new(Registry::new("test")));
        let tls = TlsSurvivors::new(folder.path().to_owned()).expect("a provider");
        let resolver = Resolver::default();
        let (names, _events) = resolver.names(Duration::from_secs(60));
        let survivors = Survivors { process: &process, tls: &tls, names: &names };
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
        let third =
            gather_with(second.configuration.clone(), Some(&second), survivors, NUMBERS, now, &found).expect("it compiles");
        expect(&third, &[1, 1, 1], &[0, 1]);
        assert!(resolver.take_asked().is_empty());
        let pool =
            |material: &Material, name: &str| material.snapshot.pool_named(&tidegate_model::PoolName(name.into())).cloned();
        let (before, after) = (pool(&second, "b").expect("there"), pool(&third, "b").expect("there"));
        assert!(Arc::ptr_eq(&before, &after), "a pool without news stays as it is");
    }
}
