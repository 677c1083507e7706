//! What a resolver says of a name: one that the configuration names, or those of the system with its search domains and
//! `/etc/hosts`. Which they are is read by `outbound`; the library asks, goes on over TCP after a truncated answer, and
//! tries again; this turns its answers into data. Nothing is remembered here.

use super::hosts::{Families, Found, Reply};
use super::literal;
use super::services::Service;
use hickory_resolver::Hosts;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tidegate_outbound::{ResolverFault, spelt};
use tokio::task::spawn_blocking;

/// As many as the library follows for addresses.
const ALIASES_MAX: usize = 8;
/// Records of one answer that are looked at. No message has room for as many.
const RECORDS_MAX: usize = 10_000;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Trouble {
    pub text: String,
    /// How long the resolver says that there is nothing.
    pub negative: Option<Duration>,
}

impl Trouble {
    pub fn new(text: impl Into<String>) -> Trouble {
        Trouble { text: text.into(), negative: None }
    }
}

/// SRV records, and the addresses that came with them.
#[derive(Debug)]
pub struct Said {
    pub services: Vec<Service>,
    pub known: HashMap<String, Found>,
    pub time_to_live: Duration,
}

pub struct Resolver {
    resolver: tidegate_outbound::Resolver,
    /// A resolver that is named is asked for every name.
    is_named: bool,
}

/// Everything for one look-up.
#[derive(Clone)]
pub struct Session {
    asked: tidegate_outbound::Session,
    /// `None` where a resolver is named.
    hosts: Option<Arc<Hosts>>,
}

impl Resolver {
    pub fn new(named: Option<SocketAddr>) -> Resolver {
        Resolver { resolver: tidegate_outbound::Resolver::new(named), is_named: named.is_some() }
    }

    /// Reads the system's files again when they are others than before.
    pub async fn session(&self) -> Result<Session, Trouble> {
        let asked = self.resolver.session().await.map_err(|fault| trouble(&fault))?;
        if self.is_named {
            return Ok(Session { asked, hosts: None });
        }
        // A system without the file has no names of its own.
        let hosts = spawn_blocking(|| Hosts::from_system().unwrap_or_default()).await.unwrap_or_default();
        Ok(Session { asked, hosts: Some(Arc::new(hosts)) })
    }
}

fn trouble(fault: &ResolverFault) -> Trouble {
    match fault {
        ResolverFault::Unreadable(_) => Trouble::new(format!("{fault}; name a resolver with `resolver=`")),
        ResolverFault::Nobody => Trouble::new(format!("{fault}; name one with `resolver=`")),
        ResolverFault::Unusable(_) => Trouble::new(fault.to_string()),
    }
}

impl Session {
    /// A and AAAA of a name. As with the system's own look-up, a name that is in `/etc/hosts` is not asked for.
    pub async fn addresses(&self, name: &str) -> Families {
        if let Ok(ip) = name.parse::<IpAddr>() {
            return Families::of_one(literal(ip));
        }
        let name = match self.name(name) {
            Ok(name) => name,
            Err(trouble) => return Families { v4: Reply::Failed(trouble.clone()), v6: Reply::Failed(trouble) },
        };
        if let Some(found) = self.hosts.as_ref().and_then(|hosts| in_file(hosts, &name)) {
            return Families::of_one(found);
        }
        let (v4, v6) = tokio::join!(self.ask(&name, RecordType::A), self.ask(&name, RecordType::AAAA));
        Families { v4: self.reply(v4), v6: self.reply(v6) }
    }

    pub async fn services(&self, name: &str) -> Result<Said, Trouble> {
        let (lookup, time_of_aliases) = self.ask_behind_aliases(self.name(name)?, RecordType::SRV).await?;
        let services: BTreeSet<Service> = lookup.answers().iter().take(RECORDS_MAX).filter_map(service).collect();
        if services.is_empty() {
            return Err(Trouble::new(format!("{} knows no SRV record of this name", self.asked.whom)));
        }
        let mut known: HashMap<String, Found> = HashMap::new();
        for record in lookup.additionals().iter().take(RECORDS_MAX) {
            let Some(ip) = record.data.ip_addr() else { continue };
            let name = plain(&record.name);
            let found = known.entry(name).or_insert_with(|| Found { addresses: BTreeSet::new(), time_to_live: Duration::MAX });
            found.addresses.insert(ip);
            found.time_to_live = found.time_to_live.min(seconds(record.ttl));
        }
        Ok(Said { services: services.into_iter().collect(), known, time_to_live: time_to_live(&lookup).min(time_of_aliases) })
    }

    /// The library takes the target of an SRV record for the next alias (RFC 2782 has none there), so it does not find
    /// records behind one. The least time of all aliases comes with what is found.
    async fn ask_behind_aliases(&self, name: Name, kind: RecordType) -> Result<(Lookup, Duration), Trouble> {
        let mut at = name;
        let mut time = Duration::MAX;
        for _ in 0..ALIASES_MAX {
            let trouble = match self.ask(&at, kind).await.map_err(|error| self.trouble(&error)) {
                Ok(lookup) => return Ok((lookup, time)),
                Err((false, trouble)) => return Err(trouble),
                Err((true, trouble)) => trouble,
            };
            let Ok(lookup) = self.ask(&at, RecordType::CNAME).await else { return Err(trouble) };
            let alias = lookup.answers().iter().find_map(|record| match &record.data {
                RData::CNAME(alias) => Some(alias.0.clone()),
                _ => None,
            });
            at = alias.ok_or(trouble)?;
            time = time.min(time_to_live(&lookup));
        }
        Err(Trouble::new(format!("it is an alias of an alias, more than {ALIASES_MAX} times over")))
    }

    /// What stands in the configuration is absolute for a named resolver; the system's search domains are the system's.
    fn name(&self, text: &str) -> Result<Name, Trouble> {
        let invalid = |_| Trouble::new("this is not a name that can be looked up");
        let mut name = Name::from_str_relaxed(text).map_err(invalid)?;
        // The library answers these itself, and the resolver would be named for what it never said.
        if name.iter().next_back().is_some_and(|label| label.eq_ignore_ascii_case(b"invalid")) {
            return Err(Trouble::new("names under `invalid` are kept from ever having an address (RFC 6761)"));
        }
        if self.hosts.is_none() {
            name.set_fqdn(true);
        }
        Ok(name)
    }

    async fn ask(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        self.asked.resolver.lookup(name.clone(), kind).await
    }

    fn reply(&self, looked_up: Result<Lookup, NetError>) -> Reply {
        let lookup = match looked_up {
            Ok(lookup) => lookup,
            Err(error) => {
                return match self.trouble(&error) {
                    (true, trouble) => Reply::Nothing(trouble),
                    (false, trouble) => Reply::Failed(trouble),
                };
            }
        };
        let addresses: BTreeSet<IpAddr> =
            lookup.answers().iter().take(RECORDS_MAX).filter_map(|record| record.data.ip_addr()).collect();
        if addresses.is_empty() {
            return Reply::Nothing(Trouble::new(format!("{} knows no address of this name", self.asked.whom)));
        }
        Reply::Found(Found { addresses, time_to_live: time_to_live(&lookup) })
    }

    /// True when the answer is that there is nothing.
    fn trouble(&self, error: &NetError) -> (bool, Trouble) {
        let whom = &self.asked.whom;
        match error {
            NetError::Dns(DnsError::NoRecordsFound(nothing)) => {
                let text = match nothing.response_code {
                    ResponseCode::NXDomain => format!("{whom} says NXDOMAIN"),
                    _ => format!("{whom} knows no such record of this name"),
                };
                (true, Trouble { text, negative: nothing.negative_ttl.map(seconds) })
            }
            NetError::Dns(DnsError::ResponseCode(code)) => (false, Trouble::new(format!("{whom} says {}", spelt(*code)))),
            NetError::Timeout | NetError::NoConnections => (false, Trouble::new(format!("{whom} does not answer"))),
            NetError::Truncated => {
                (false, Trouble::new(format!("{whom} gives truncated answers over UDP and none over TCP; let TCP through to it")))
            }
            NetError::Io(error) => (false, Trouble::new(format!("{whom} cannot be asked: {error}"))),
            other => (false, Trouble::new(format!("{whom} cannot be understood: {other}"))),
        }
    }
}

fn in_file(hosts: &Hosts, name: &Name) -> Option<Found> {
    let mut name = name.clone();
    name.set_fqdn(true);
    let of = |kind| hosts.lookup_static_host(&Query::query(name.clone(), kind));
    let lookups = [of(RecordType::A), of(RecordType::AAAA)];
    let addresses: BTreeSet<IpAddr> =
        lookups.iter().flatten().flat_map(Lookup::answers).filter_map(|record| record.data.ip_addr()).collect();
    // A file has no times; it is looked into again as late as the configuration allows.
    (!addresses.is_empty()).then_some(Found { addresses, time_to_live: Duration::MAX })
}

fn service(record: &Record) -> Option<Service> {
    let RData::SRV(service) = &record.data else { return None };
    let target = plain(&service.target);
    Some(Service { priority: service.priority, weight: service.weight, port: service.port, target })
}

/// As names stand in a configuration.
fn plain(name: &Name) -> String {
    name.to_lowercase().to_ascii().trim_end_matches('.').to_owned()
}

/// Of all that led to the answer, aliases included.
fn time_to_live(lookup: &Lookup) -> Duration {
    lookup.answers().iter().map(|record| seconds(record.ttl)).min().unwrap_or_default()
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

#[cfg(test)]
mod tests {
    use super::{Families, Reply, Session};
    use hickory_resolver::Hosts;
    use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
    use hickory_resolver::proto::rr::Name;
    use std::sync::Arc;
    use tidegate_testkit::dns::NameServer;

    /// What a machine finds with the search domain `corp.test`, that server, and `hosts` as its file.
    fn check(server: &NameServer, hosts: &str, name: &str, expected: &str) {
        let mut named = NameServerConfig::udp_and_tcp(server.address.ip());
        named.connections.iter_mut().for_each(|connection| connection.port = server.address.port());
        let search = vec![Name::from_ascii("corp.test.").expect("a name")];
        let config = ResolverConfig::from_parts(None, search, vec![named]);
        let asked = tidegate_outbound::Session::of(config, ResolverOpts::default()).expect("a resolver");
        let mut file = Hosts::default();
        file.read_hosts_conf(hosts.as_bytes()).expect("a hosts file");
        let session = Session { asked, hosts: Some(Arc::new(file)) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let Families { v4, v6 } = runtime.block_on(session.addresses(name));
        let text = |reply: Reply| match reply {
            Reply::Found(found) => found.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Reply::Nothing(_) => "nothing".to_owned(),
            Reply::Failed(trouble) => trouble.text,
        };
        assert_eq!(format!("{} and {}", text(v4), text(v6)), expected, "for {name}");
    }

    #[test]
    fn names_are_found_as_the_system_finds_them() {
        let server = NameServer::start().expect("a name server");
        server.set_addresses("api.corp.test", 60, &["10.0.0.1", "fd00::1"]);
        server.set_addresses("api.test", 60, &["10.0.0.2"]);
        check(&server, "", "api", "10.0.0.1 and fd00::1");
        check(&server, "", "api.test", "10.0.0.2 and nothing");
        // With a dot at its end it is absolute.
        check(&server, "", "api.", "nothing and nothing");
        check(&server, "", "api.corp.test.", "10.0.0.1 and fd00::1");
        let asked = server.count("AAAA api.corp.test");
        check(&server, "10.0.0.9 api\n", "api", "10.0.0.9 and nothing");
        assert_eq!(server.count("AAAA api.corp.test"), asked);
    }
}
