//! What DNS says about a name: addresses, CAA, the zone it is in and who is authoritative for that. Questions go to the
//! recursive resolver, but for [`Lookup::txt_at`], which asks one server. What answers mean is decided elsewhere
//! (`caa.rs`, `propagation.rs`).

use crate::ask;
use crate::caa::{Caa, CaaSet};
use crate::fault::LookupFault;
use crate::name::Domain;
use hickory_resolver::lookup::Lookup as Answer;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tidegate_outbound::{Resolver, Session, spelt};
use tokio::task::JoinSet;

/// RFC 8659 asks for a bound; eight is what resolvers follow.
const ALIASES_MAX: usize = 8;
/// Of one answer that are looked at.
const RECORDS_MAX: usize = 1000;
/// Name servers of a zone that are looked at, and addresses of each; the root has 13 and 26.
const SERVERS_MAX: usize = 16;
const ADDRESSES_MAX: usize = 4;
/// Addresses of a zone's servers that are asked for an alias, all at once.
const ALIAS_SERVERS_MAX: usize = 4;

/// Whom to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupSettings {
    /// `None` stands for those of `/etc/resolv.conf`.
    pub resolver: Option<SocketAddr>,
    /// Where authoritative servers listen: 53, but for tests.
    pub authority_port: u16,
}

impl Default for LookupSettings {
    fn default() -> Self {
        LookupSettings { resolver: None, authority_port: 53 }
    }
}

/// A resolver. Clones share it; there should be one for each resolver that is configured.
#[derive(Clone)]
pub struct Lookup(Arc<Inner>);

struct Inner {
    recursive: Resolver,
    authority_port: u16,
}

/// A name server that a zone is served from. Without addresses, its name leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoritativeServer {
    pub name: String,
    pub addresses: Vec<SocketAddr>,
}

impl Lookup {
    pub fn new(settings: LookupSettings) -> Lookup {
        let recursive = Resolver::new(settings.resolver);
        Lookup(Arc::new(Inner { recursive, authority_port: settings.authority_port }))
    }

    /// All A and AAAA records, behind aliases too; IPv4 first. Never empty: a name without any is a fault.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookupFault> {
        let domain = Domain::parse(name)?;
        let (v4, v6) = tokio::join!(self.ask(&domain, RecordType::A), self.ask(&domain, RecordType::AAAA));
        let records = [&v4, &v6].into_iter().flatten().flat_map(|answer| answer.answers().iter().take(RECORDS_MAX));
        let found: BTreeSet<IpAddr> = records.filter_map(|record| record.data.ip_addr()).collect();
        if !found.is_empty() {
            return Ok(found.into_iter().collect());
        }
        match (v4, v6) {
            // What failed may have had one; what answered had none.
            (Err(fault), _) | (_, Err(fault)) if !fault.is_negative() => Err(fault),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(_), Ok(_)) => {
                Err(LookupFault::NoRecords { name: domain.to_string(), kind: "A or AAAA", whom: self.whom().await })
            }
        }
    }

    /// The CAA records that hold for a name: its own, else those of the first name above that has any (RFC 8659 section
    /// 3). For a wildcard, ask for the name behind `*.`.
    pub async fn caa(&self, name: &str) -> Result<CaaSet, LookupFault> {
        for at in Domain::parse(name)?.and_ancestors() {
            let answer = match self.ask(&at, RecordType::CAA).await {
                Ok(answer) => answer,
                Err(fault) if fault.is_negative() => continue,
                // A CA does not issue either when it gets no answer.
                Err(fault) => return Err(fault),
            };
            let records: Vec<Caa> =
                answer.answers().iter().take(RECORDS_MAX).filter_map(|record| Caa::of(&record.data)).collect();
            if !records.is_empty() {
                return Ok(CaaSet { at: Some(at.to_string()), records });
            }
        }
        Ok(CaaSet { at: None, records: Vec::new() })
    }

    /// Where a CA that looks a name up for TXT arrives: the name itself, or what its aliases lead to.
    ///
    /// The servers of the zone are asked and not the resolver, as long as they can be: it would remember for as long as
    /// the zone says, often an hour, that a name does not exist which is about to be published.
    pub async fn behind_aliases(&self, name: &str) -> Result<String, LookupFault> {
        let first = Domain::parse(name)?;
        let mut at = first.clone();
        for _ in 0..ALIASES_MAX {
            let alias = match self.alias_by_authority(&at).await {
                Some(alias) => alias,
                None => self.alias_by_recursion(&at).await?,
            };
            match alias {
                Some(target) => at = target,
                None => return Ok(at.to_string()),
            }
        }
        Err(LookupFault::Aliases { name: first.to_string(), aliases_max: ALIASES_MAX })
    }

    /// `None` when nobody who serves the name above could say.
    async fn alias_by_authority(&self, name: &Domain) -> Option<Option<Domain>> {
        let zone = self.zone_of(name.parent()?.as_str()).await.ok()?;
        let servers = self.authoritative_servers(&zone).await.ok()?;
        let mut questions = JoinSet::new();
        for address in servers.into_iter().flat_map(|server| server.addresses).take(ALIAS_SERVERS_MAX) {
            let name = name.clone();
            questions.spawn(async move { ask::alias(address, &name).await });
        }
        while let Some(answered) = questions.join_next().await {
            if let Ok(Ok(alias)) = answered {
                return Some(alias);
            }
        }
        None
    }

    async fn alias_by_recursion(&self, name: &Domain) -> Result<Option<Domain>, LookupFault> {
        let answer = match self.ask(name, RecordType::CNAME).await {
            Ok(answer) => answer,
            Err(fault) if fault.is_negative() => return Ok(None),
            Err(fault) => return Err(fault),
        };
        answer.answers().iter().find_map(|record| ask::target(&record.data)).transpose()
    }

    /// The zone that a name is in: the first name upwards with an SOA record of its own. Aliases are not followed.
    pub async fn zone_of(&self, name: &str) -> Result<String, LookupFault> {
        let domain = Domain::parse(name)?;
        for at in domain.and_ancestors() {
            let answer = match self.ask(&at, RecordType::SOA).await {
                Ok(answer) => answer,
                Err(fault) if fault.is_negative() => continue,
                Err(fault) => return Err(fault),
            };
            let is_own = |owner: Result<Domain, LookupFault>| owner.is_ok_and(|owner| owner == at);
            if answer.answers().iter().any(|record| matches!(record.data, RData::SOA(_)) && is_own(Domain::of(&record.name))) {
                return Ok(at.to_string());
            }
        }
        Err(LookupFault::NoZone { name: domain.to_string(), whom: self.whom().await })
    }

    /// Who serves a zone. Never empty.
    pub async fn authoritative_servers(&self, zone: &str) -> Result<Vec<AuthoritativeServer>, LookupFault> {
        let zone = Domain::parse(zone)?;
        let answer = self.ask(&zone, RecordType::NS).await?;
        let names: BTreeSet<Domain> = answer
            .answers()
            .iter()
            .take(RECORDS_MAX)
            .filter_map(|record| match &record.data {
                RData::NS(server) => Domain::of(&server.0).ok(),
                _ => None,
            })
            .take(SERVERS_MAX)
            .collect();
        if names.is_empty() {
            return Err(LookupFault::NoRecords { name: zone.to_string(), kind: "NS", whom: self.whom().await });
        }
        let mut servers = Vec::with_capacity(names.len());
        for name in names {
            let addresses = self.addresses(name.as_str()).await.unwrap_or_default();
            let addresses =
                addresses.into_iter().take(ADDRESSES_MAX).map(|ip| SocketAddr::new(ip, self.0.authority_port)).collect();
            servers.push(AuthoritativeServer { name: name.to_string(), addresses });
        }
        Ok(servers)
    }

    /// The TXT values that one server has for a name, asked without recursion. Aliases are not followed.
    pub async fn txt_at(&self, server: SocketAddr, name: &str) -> Result<Vec<String>, LookupFault> {
        ask::txt(server, &Domain::parse(name)?).await
    }

    /// The TXT values of a name by the recursive resolver, behind aliases too.
    pub async fn txt(&self, name: &str) -> Result<Vec<String>, LookupFault> {
        let answer = self.ask(&Domain::parse(name)?, RecordType::TXT).await?;
        Ok(answer.answers().iter().take(RECORDS_MAX).filter_map(|record| ask::text(&record.data)).collect())
    }

    /// For faults and logs: `the resolver 10.0.0.2`.
    pub async fn whom(&self) -> String {
        self.0.recursive.session().await.map_or_else(|_| "the system's resolver".to_owned(), |session| session.whom.to_string())
    }

    async fn ask(&self, name: &Domain, kind: RecordType) -> Result<Answer, LookupFault> {
        let session = self.0.recursive.session().await.map_err(|fault| LookupFault::Settings { problem: fault.to_string() })?;
        let answer = session.resolver.lookup(name.question()?, kind).await;
        answer.map_err(|error| fault(&error, name, kind, &session))
    }
}

fn fault(error: &NetError, name: &Domain, kind: RecordType, session: &Session) -> LookupFault {
    let (name, whom) = (name.to_string(), session.whom.to_string());
    match error {
        NetError::Dns(DnsError::NoRecordsFound(nothing)) => match nothing.response_code {
            ResponseCode::NXDomain => LookupFault::NoSuchName { name, whom },
            ResponseCode::NoError => LookupFault::NoRecords { name, kind: kind.into(), whom },
            code => LookupFault::Refused { name, whom, code: spelt(code) },
        },
        NetError::Dns(DnsError::ResponseCode(code)) => LookupFault::Refused { name, whom, code: spelt(*code) },
        NetError::Timeout | NetError::NoConnections => LookupFault::Silent { name, whom },
        NetError::Io(error) => LookupFault::Broken { name, whom, problem: format!("cannot be asked ({error})") },
        other => LookupFault::Broken { name, whom, problem: format!("cannot be understood ({other})") },
    }
}
