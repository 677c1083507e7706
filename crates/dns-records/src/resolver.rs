//! The recursive resolver that questions go to: one that was named, or those of `/etc/resolv.conf`, read again when the file changed.
//! Nothing is remembered here, so that a record published a moment ago is not missed for what was said before it.

use crate::fault::LookupFault;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{TokioResolver, system_conf};
use std::fs::Metadata;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::spawn_blocking;

const PATH: &str = "/etc/resolv.conf";
/// One question to a resolver that was named.
const QUERY_LIMIT: Duration = Duration::from_secs(3);
/// Times that a question is sent again.
const AGAIN_MAX: usize = 1;

pub enum Recursive {
    Named(Session),
    System(Mutex<Option<Known>>),
}

/// The system's settings as they were read last.
pub struct Known {
    stamp: Stamp,
    session: Session,
}

#[derive(Clone)]
pub struct Session {
    pub resolver: TokioResolver,
    /// For faults: `the resolver 10.0.0.2:53`.
    pub whom: Arc<str>,
}

type Stamp = (u64, u64, i64, i64, u64);

impl Recursive {
    pub fn new(named: Option<SocketAddr>) -> Result<Recursive, LookupFault> {
        match named {
            Some(address) => Ok(Recursive::Named(to(address)?)),
            None => Ok(Recursive::System(Mutex::new(None))),
        }
    }

    pub async fn session(&self) -> Result<Session, LookupFault> {
        let known = match self {
            Recursive::Named(session) => return Ok(session.clone()),
            Recursive::System(known) => known,
        };
        let lost = |_| LookupFault::Settings { problem: format!("{PATH} cannot be read") };
        let stamp = spawn_blocking(|| std::fs::metadata(PATH).map(|metadata| stamp(&metadata))).await.map_err(lost)?;
        let stamp = stamp.map_err(|error| LookupFault::Settings { problem: format!("{PATH}: {error}") })?;
        if let Some(known) = known.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
            && known.stamp == stamp
        {
            return Ok(known.session.clone());
        }
        let session = spawn_blocking(of_system).await.map_err(lost)??;
        *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Known { stamp, session: session.clone() });
        Ok(session)
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), metadata.len())
}

fn to(address: SocketAddr) -> Result<Session, LookupFault> {
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

fn of_system() -> Result<Session, LookupFault> {
    let refusal = |problem: String| LookupFault::Settings { problem };
    let (config, options) = system_conf::read_system_conf().map_err(|error| refusal(format!("{PATH}: {error}")))?;
    let ips: Vec<String> = config.name_servers().iter().map(|server| server.ip.to_string()).collect();
    let whom = match ips.as_slice() {
        [] => return Err(refusal(format!("{PATH} names no resolver"))),
        [ip] => format!("the resolver {ip}"),
        several => format!("one of the resolvers {}", several.join(", ")),
    };
    Ok(Session { resolver: build(config, options)?, whom: whom.into() })
}

fn build(config: ResolverConfig, mut options: ResolverOpts) -> Result<TokioResolver, LookupFault> {
    options.cache_size = 0;
    // A CA does not read this machine's file.
    options.use_hosts_file = ResolveHosts::Never;
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).with_options(options);
    builder.build().map_err(|error| LookupFault::Settings { problem: format!("no look-up can be made: {error}") })
}
