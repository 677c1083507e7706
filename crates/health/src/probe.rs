//! One check of one server: a fresh connection, a question, and whether the answer is good, all within one timeout.
//! What an outcome means for the server is not said here; `state` does. The questions are in `http`, `fastcgi`,
//! `tcp`, `tls` and `grpc`.

mod body;
mod fastcgi;
mod grpc;
pub mod grpc_message;
mod http;
mod http2;
mod tcp;
mod tls;

use crate::fault::{ProbeFault, Stage};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tidegate_model::{Probe, Protocol, ProxyProtocol, ServerAddresses};
use tokio::time::{Instant, timeout_at};

/// No check takes longer, whatever its settings say: the clock must not overflow.
const TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
/// Who asks, for the logs of the server.
const USER_AGENT: &str = "tidegate-health";
/// Far more than an answer to a check has; a server that sends an endless head is not well.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Who is asked.
#[derive(Debug, Clone)]
pub struct Target {
    /// Tried in turn until one takes the connection, as requests do.
    pub addresses: ServerAddresses,
    /// Host and, where it is not the scheme's own, port: what a request is sent for unless the check names a host.
    pub authority: String,
    /// `None`: the server is spoken to in clear text.
    pub tls: Option<TlsTarget>,
    /// HTTP checks go over what requests go over: HTTP/2 in clear text by prior knowledge, in TLS where the server
    /// agrees to it; or FastCGI.
    pub protocol: Protocol,
    /// The header that connections begin with.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Instead of the port of each address.
    pub port: Option<u16>,
}

/// How a server's certificate is verified. The configurations should not resume sessions: a resumed one shows no
/// certificate, so that an expired one would go unnoticed.
#[derive(Debug, Clone)]
pub struct TlsTarget {
    /// Offers no HTTP/2.
    pub config_http1: Arc<ClientConfig>,
    /// Offers HTTP/2, and HTTP/1.1 beside it if the pool does so.
    pub config_h2: Arc<ClientConfig>,
    pub name: ServerName<'static>,
}

/// Asks once and says how long it took. The timeout covers everything, from the first connection to the end of the
/// answer.
pub async fn probe(target: &Target, probe: &Probe, timeout: Duration) -> Result<Duration, ProbeFault> {
    let timeout = timeout.min(TIMEOUT_MAX);
    let started = Instant::now();
    let limit = Limit { ends_at: started + timeout, timeout };
    match probe {
        Probe::Http(probe) if target.protocol == Protocol::FastCgi => fastcgi::check(target, probe, &limit).await?,
        Probe::Http(probe) => http::check(target, probe, &limit).await?,
        Probe::Tcp(talk) => tcp::check(target, talk, &limit).await?,
        Probe::Tls => tls::check(target, &limit).await?,
        Probe::Grpc { service } => grpc::check(target, service.as_deref(), &limit).await?,
    }
    Ok(started.elapsed())
}

/// The end of a check, whatever it waits for.
struct Limit {
    ends_at: Instant,
    timeout: Duration,
}

impl Limit {
    async fn hold<T>(&self, stage: Stage, work: impl Future<Output = Result<T, ProbeFault>>) -> Result<T, ProbeFault> {
        match timeout_at(self.ends_at, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.exceeded(stage)),
        }
    }

    fn exceeded(&self, stage: Stage) -> ProbeFault {
        ProbeFault::Timeout { stage, after: self.timeout }
    }
}
