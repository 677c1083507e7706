//! Waits until every authoritative server of a zone has a value: a CA asks any of them, and a wrong answer costs the
//! whole order. Servers that cannot be reached from here are left aside when others can; when none can, the recursive
//! resolver is asked instead, which may remember what was true before: that it lacks a value proves nothing.

use crate::fault::LookupFault;
use crate::lookup::{AuthoritativeServer, Lookup};
use std::time::Duration;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

/// Between rounds at first, and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// Rounds without an answer after which a server counts as out of reach.
const UNANSWERED_MAX: u32 = 2;

/// The value is there, as far as can be seen from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    pub seen: Seen,
    /// Servers that could not be asked, each with the reason; a CA may reach them.
    pub unreached: Vec<String>,
}

/// By whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// By all that answered.
    Authoritative { zone: String, servers: Vec<String> },
    /// By a recursive resolver, because no authoritative server could be asked. It may have been told the value by one
    /// of several.
    Recursive { whom: String, why: String },
    /// By nobody: no authoritative server could be asked, and the resolver did not have it within the time.
    Nobody { whom: String, why: String },
}

/// `Display` is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PropagationFault {
    #[error("{0}")]
    Lookup(LookupFault),
    /// The time is over.
    #[error("{}", missing(.name, *.limit, .servers))]
    Missing { name: String, limit: Duration, servers: Vec<Lacking> },
}

/// A server without the value, and what it has instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    pub server: String,
    pub values: Vec<String>,
    /// Why the server did not answer the last time, if it did not.
    pub fault: Option<LookupFault>,
}

/// `name` is that of [`Published`](crate::Published), or an alias of it. `Ok` says to go on.
pub async fn await_published(
    lookup: &Lookup,
    name: &str,
    value: &str,
    limit: Duration,
) -> Result<Confirmation, PropagationFault> {
    let deadline = Instant::now() + limit;
    let servers = async {
        let place = lookup.behind_aliases(name).await?;
        let zone = lookup.zone_of(&place).await?;
        let servers = lookup.authoritative_servers(&zone).await?;
        Ok((place, zone, servers))
    };
    let (place, zone, servers) = match timeout_at(deadline, servers).await {
        Ok(Ok(found)) => found,
        Ok(Err(fault @ LookupFault::NotAName { .. })) => return Err(PropagationFault::Lookup(fault)),
        // A resolver may know the name though it does not tell the zone: those of closed networks do.
        Ok(Err(fault)) => return Ok(by_recursion(lookup, name, value, deadline, vec![fault.to_string()]).await),
        Err(_) => return Err(PropagationFault::Missing { name: name.to_owned(), limit, servers: Vec::new() }),
    };
    let mut waiting: Vec<Asked> = servers.into_iter().map(Asked::new).collect();
    let mut having = Vec::new();
    let mut pause = PAUSE_FIRST;
    loop {
        let is_over = timeout_at(deadline, one_round(lookup, &place, &mut waiting)).await.is_err();
        waiting.retain(|asked| {
            let has = asked.values.iter().any(|known| known == value);
            if has {
                having.push(asked.server.name.clone());
            }
            !has
        });
        let missing: Vec<&Asked> = waiting.iter().filter(|asked| !asked.is_out_of_reach()).collect();
        if missing.is_empty() {
            let unreached = waiting.iter().map(Asked::reason).collect();
            if having.is_empty() {
                return Ok(by_recursion(lookup, &place, value, deadline, unreached).await);
            }
            return Ok(Confirmation { seen: Seen::Authoritative { zone, servers: having }, unreached });
        }
        if is_over || Instant::now() + pause >= deadline {
            let servers = missing.into_iter().map(Asked::lacking).collect();
            return Err(PropagationFault::Missing { name: place, limit, servers });
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// A server that has not shown the value.
struct Asked {
    server: AuthoritativeServer,
    values: Vec<String>,
    unanswered: u32,
    fault: Option<LookupFault>,
}

impl Asked {
    fn new(server: AuthoritativeServer) -> Asked {
        Asked { server, values: Vec::new(), unanswered: 0, fault: None }
    }

    fn is_out_of_reach(&self) -> bool {
        self.server.addresses.is_empty() || self.unanswered >= UNANSWERED_MAX
    }

    fn reason(&self) -> String {
        let why = self.fault.as_ref().map_or_else(|| "its name has no address".to_owned(), ToString::to_string);
        format!("{}: {why}", self.server.name)
    }

    fn lacking(&self) -> Lacking {
        Lacking { server: self.server.name.clone(), values: self.values.clone(), fault: self.fault.clone() }
    }
}

/// One question to each that has not shown the value, all at once.
async fn one_round(lookup: &Lookup, place: &str, waiting: &mut [Asked]) {
    let mut questions = JoinSet::new();
    for (index, asked) in waiting.iter().enumerate().filter(|(_, asked)| !asked.is_out_of_reach()) {
        let (lookup, place, server) = (lookup.clone(), place.to_owned(), asked.server.clone());
        questions.spawn(async move { (index, ask(&lookup, &place, &server).await) });
    }
    while let Some(answered) = questions.join_next().await {
        let Ok((index, outcome)) = answered else { continue };
        let asked = &mut waiting[index];
        match outcome {
            Ok(values) => {
                asked.values = values;
                asked.unanswered = 0;
                asked.fault = None;
            }
            Err(fault) => {
                asked.unanswered += 1;
                asked.fault = Some(fault);
            }
        }
    }
}

/// The first of its addresses that answers: all lead to the same server.
async fn ask(lookup: &Lookup, place: &str, server: &AuthoritativeServer) -> Result<Vec<String>, LookupFault> {
    let mut fault = None;
    for address in &server.addresses {
        match lookup.txt_at(*address, place).await {
            Ok(values) => return Ok(values),
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    Err(fault.unwrap_or(LookupFault::NoRecords { name: server.name.clone(), kind: "A or AAAA", whom: lookup.whom().await }))
}

async fn by_recursion(lookup: &Lookup, name: &str, value: &str, deadline: Instant, unreached: Vec<String>) -> Confirmation {
    let mut pause = PAUSE_FIRST;
    let (whom, why) = (lookup.whom().await, unreached.join("; "));
    loop {
        let has = match timeout_at(deadline, lookup.txt(name)).await {
            Ok(Ok(values)) => values.iter().any(|known| known == value),
            Ok(Err(_)) | Err(_) => false,
        };
        if has {
            return Confirmation { seen: Seen::Recursive { whom, why }, unreached };
        }
        if Instant::now() + pause >= deadline {
            return Confirmation { seen: Seen::Nobody { whom, why }, unreached };
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Who lacks the record, where anybody was found who should have it.
fn missing(name: &str, limit: Duration, servers: &[Lacking]) -> String {
    if servers.is_empty() {
        return format!("who serves {name} was not found out within {limit:?}");
    }
    let say = |lacking: &Lacking| match (&lacking.fault, lacking.values.as_slice()) {
        (Some(fault), _) => format!("{} does not say ({fault})", lacking.server),
        (None, []) => format!("{} has none", lacking.server),
        (None, values) => format!("{} has {}", lacking.server, values.join(", ")),
    };
    let said = servers.iter().map(say).collect::<Vec<_>>().join("; ");
    format!("the TXT record of {name} is not there after {limit:?}: {said}")
}
