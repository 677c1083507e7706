//! The recursive resolver that questions of DNS go to: one that was named, or those of `/etc/resolv.conf`, read again
//! when the file changed. Nothing is remembered and `/etc/hosts` is not read here; what is asked, and what an answer
//! means, is for those who ask. Addresses of the hosts in URLs are the system's business (`connect.rs`).

use crate::stamp::Stamp;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::{TokioResolver, system_conf};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::spawn_blocking;

const PATH: &str = "/etc/resolv.conf";
/// One question to a resolver that was named; those of the system have theirs in the file.
const QUERY_LIMIT: Duration = Duration::from_secs(3);
/// Times that a question is sent again.
const AGAIN_MAX: usize = 1;

/// Whom to ask.
pub struct Resolver {
    named: Option<SocketAddr>,
    known: Mutex<Option<KnownResolver>>,
}

/// The settings as they were read last. A new session has forgotten which of its servers are slow.
struct KnownResolver {
    /// `None` where a resolver is named.
    stamp: Option<Stamp>,
    session: Session,
}

#[derive(Clone)]
pub struct Session {
    pub resolver: TokioResolver,
    /// For faults: `the resolver 10.0.0.2:53`.
    pub whom: Arc<str>,
}

/// Why nobody can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolverFault {
    /// The system's file, for this reason.
    Unreadable(String),
    /// The system's file names nobody.
    Nobody,
    Unusable(String),
}

impl fmt::Display for ResolverFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolverFault::Unreadable(problem) => write!(f, "{PATH}: {problem}"),
            ResolverFault::Nobody => write!(f, "{PATH} names no resolver"),
            ResolverFault::Unusable(problem) => write!(f, "no look-up can be made: {problem}"),
        }
    }
}

impl Resolver {
    pub fn new(named: Option<SocketAddr>) -> Resolver {
        Resolver { named, known: Mutex::new(None) }
    }

    /// Looks at the system's file each time, in a thread that may wait for a disk.
    pub async fn session(&self) -> Result<Session, ResolverFault> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().as_ref().map(|known| (known.stamp, known.session.clone()));
        let now = match (self.named, before) {
            (Some(_), Some((_, session))) => return Ok(session),
            (Some(address), None) => KnownResolver { stamp: None, session: Session::to(address)? },
            (None, before) => {
                let stamp_before = before.as_ref().and_then(|(stamp, _)| *stamp);
                let read = spawn_blocking(move || read_system(stamp_before)).await;
                match (read.unwrap_or_else(|_| Err(ResolverFault::Unreadable("reading it was broken off".to_owned())))?, before) {
                    (Some(now), _) => now,
                    (None, Some((_, session))) => return Ok(session),
                    (None, None) => return Err(ResolverFault::Nobody),
                }
            }
        };
        let session = now.session.clone();
        *known() = Some(now);
        Ok(session)
    }
}

/// Nothing where the file is the one that was read before.
fn read_system(stamp_before: Option<Stamp>) -> Result<Option<KnownResolver>, ResolverFault> {
    let metadata = std::fs::metadata(PATH).map_err(|error| ResolverFault::Unreadable(error.to_string()))?;
    let stamp = Some(Stamp::of(&metadata));
    if stamp == stamp_before {
        return Ok(None);
    }
    let (config, options) = system_conf::read_system_conf().map_err(|error| ResolverFault::Unreadable(error.to_string()))?;
    Ok(Some(KnownResolver { stamp, session: Session::of(config, options)? }))
}

impl Session {
    fn to(address: SocketAddr) -> Result<Session, ResolverFault> {
        let mut server = NameServerConfig::udp_and_tcp(address.ip());
        for connection in &mut server.connections {
            connection.port = address.port();
        }
        let mut options = ResolverOpts::default();
        options.timeout = QUERY_LIMIT;
        options.attempts = AGAIN_MAX;
        let config = ResolverConfig::from_name_servers(vec![server]);
        Ok(Session { resolver: build(config, options)?, whom: format!("the resolver {address}").into() })
    }

    /// With settings as the system's file has them.
    pub fn of(config: ResolverConfig, options: ResolverOpts) -> Result<Session, ResolverFault> {
        let ips: Vec<String> = config.name_servers().iter().map(|server| server.ip.to_string()).collect();
        let whom = match ips.as_slice() {
            [] => return Err(ResolverFault::Nobody),
            [ip] => format!("the resolver {ip}"),
            several => format!("one of the resolvers {}", several.join(", ")),
        };
        Ok(Session { resolver: build(config, options)?, whom: whom.into() })
    }
}

fn build(config: ResolverConfig, mut options: ResolverOpts) -> Result<TokioResolver, ResolverFault> {
    // Each look-up is to be a fresh one: a record that was published a moment ago must not be missed for what was said
    // before it.
    options.cache_size = 0;
    // A CA does not read this machine's file, and who wants it reads it beside this.
    options.use_hosts_file = ResolveHosts::Never;
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).with_options(options);
    builder.build().map_err(|error| ResolverFault::Unusable(error.to_string()))
}

/// As administrators know the codes.
pub fn spelt(code: ResponseCode) -> String {
    match code {
        ResponseCode::ServFail => "SERVFAIL".into(),
        ResponseCode::Refused => "REFUSED".into(),
        ResponseCode::FormErr => "FORMERR".into(),
        ResponseCode::NotImp => "NOTIMP".into(),
        ResponseCode::NotAuth => "NOTAUTH".into(),
        ResponseCode::NotZone => "NOTZONE".into(),
        other => other.to_string(),
    }
}
