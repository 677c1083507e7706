//! What a configuration file serves itself, as far as it stands in the way of what objects ask for: it goes first.

use crate::merge::Taken;
use crate::settings::Settings;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use tidegate_model::listening::{ListenerProtocol, listening, trusted_proxies};
use tidegate_model::{Configuration, HostPattern, ListenAddress, PoolName, Scheme};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfFile {
    http: TakenHosts,
    https: TakenHosts,
    /// Names as pools of Services have them.
    pub pools: BTreeSet<PoolName>,
    /// Whether peers of plain HTTP are believed what they say of the client's connection.
    pub trusts_scheme: bool,
}

/// Hosts that a file serves where those of objects come in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TakenHosts {
    These(BTreeSet<HostPattern>),
    /// Something else is spoken there.
    All,
}

impl Default for TakenHosts {
    fn default() -> Self {
        TakenHosts::These(BTreeSet::new())
    }
}

impl OfFile {
    pub fn new(file: &Configuration, settings: &Settings) -> OfFile {
        let listening = listening(file);
        let taken = |place: Option<SocketAddr>, scheme: Scheme| {
            let found = place.and_then(|place| listening.get(&ListenAddress::Tcp(place)));
            match found {
                None => TakenHosts::default(),
                Some(found) if found.protocol != ListenerProtocol::from(scheme) => TakenHosts::All,
                Some(found) => {
                    let passed_on = found.by_name.iter().map(|(name, _)| *name);
                    TakenHosts::These(found.hosts.iter().map(|(_, host)| *host).chain(passed_on).cloned().collect())
                }
            }
        };
        let http = settings.http.map(ListenAddress::Tcp);
        let names = file.pools.iter().map(|pool| &pool.name);
        OfFile {
            http: taken(settings.http, Scheme::Http),
            https: taken(settings.https, Scheme::Https),
            pools: names.filter(|name| is_like_ours(&name.0)).cloned().collect(),
            trusts_scheme: http.is_some_and(|http| !trusted_proxies(file, http).is_empty()),
        }
    }

    pub fn taken(&self, host: &HostPattern) -> Taken {
        Taken { http: self.http.has(host), https: self.https.has(host) }
    }
}

impl TakenHosts {
    fn has(&self, host: &HostPattern) -> bool {
        match self {
            TakenHosts::These(hosts) => hosts.contains(host),
            TakenHosts::All => true,
        }
    }
}

/// Whether a pool of a Service could be called so.
fn is_like_ours(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let parts = name.split_once('/').and_then(|(namespace, rest)| Some((namespace, rest.rsplit_once(':')?)));
    parts.is_some_and(|(namespace, (service, port))| is_part(namespace) && is_part(service) && is_part(port))
}
