//! What goes in and comes out: plain data between the control plane and the engine. No behaviour is here but words.

use crate::certificate::Bundle;
use jiff::Timestamp;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_model::{Acme, HostPattern, OnDemand, Storage, is_below};

/// What the engine is given for its whole life.
pub struct Parts {
    pub storage: Storage,
    /// The process's state folder, for the storage that is in it.
    pub state_dir: PathBuf,
    /// Puts an answer in place, or takes it away; it is in place when this returns.
    pub publish: Box<dyn Fn(ChallengeChange) + Send>,
    pub news: Box<dyn Fn(News) + Send>,
    pub timing: Timing,
}

/// How long things take at most, and how soon they are done again. The defaults are meant for everybody; tests are in
/// more of a hurry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// One request to a CA.
    pub request_max: Duration,
    /// From the order to the certificate.
    pub order_max: Duration,
    /// Between two questions about an order, at first.
    pub poll: Duration,
    /// One probe of our own ports, and one look-up.
    pub probe_max: Duration,
    /// How often storage is looked at for what other processes have renewed.
    pub look_again: Duration,
    /// How soon it is looked at while another process orders the name.
    pub look_again_busy: Duration,
    /// All waits after failures are shortened by this; 1.0 is as it should be.
    pub back_off_factor: f64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            request_max: Duration::from_secs(30),
            order_max: Duration::from_secs(10 * 60),
            poll: Duration::from_secs(1),
            probe_max: Duration::from_secs(5),
            look_again: Duration::from_secs(3600),
            look_again_busy: Duration::from_secs(5),
            back_off_factor: 1.0,
        }
    }
}

/// A name that shall have a certificate.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// `example.com`, `*.example.com`, `192.0.2.1`, `2001:db8::1`.
    pub name: String,
    pub acme: Arc<Acme>,
    pub listens: Listens,
}

/// A site whose names are obtained when the first client asks for them.
#[derive(Debug, Clone, PartialEq)]
pub struct OnDemandSite {
    /// The hosts of its addresses.
    pub hosts: Vec<HostPattern>,
    pub settings: OnDemand,
    pub acme: Arc<Acme>,
    pub listens: Listens,
}

impl OnDemandSite {
    /// How closely it has the name, as routers prefer hosts. `None`: it has not.
    pub fn closeness(&self, name: &str) -> Option<usize> {
        let has = |host: &&HostPattern| match host {
            HostPattern::Exact(own) => own == name,
            HostPattern::Wildcard(parent) => name.split_once('.').is_some_and(|(_, rest)| rest == parent),
            HostPattern::DeepWildcard(parent) => is_below(name, parent),
            HostPattern::Any => true,
            HostPattern::Ip(_) | HostPattern::Socket(_) => false,
        };
        self.hosts.iter().filter(has).map(HostPattern::closeness).max()
    }
}

/// On which of the ports that CAs come to somebody of ours listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listens {
    /// At [`Acme::http_port`].
    pub http: bool,
    /// At [`Acme::https_port`].
    pub https: bool,
}

/// What workers answer to CAs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChallengeChange {
    /// `GET /.well-known/acme-challenge/<token>` is answered with this text, whatever the host.
    AddHttp { token: String, key_authorization: String },
    /// The answer of that token is not wanted any more.
    RemoveHttp { token: String },
    /// A handshake with ALPN `acme-tls/1` and this SNI is answered with a self-signed certificate for the name that has
    /// the digest in the extension `id-pe-acmeIdentifier` (RFC 8737). For an address `server_name` is its reverse name,
    /// and the certificate is for `subject`.
    AddTls { server_name: String, subject: String, digest: [u8; 32] },
    /// The answer of that name is not wanted any more.
    RemoveTls { server_name: String },
}

/// What `tls-alpn-01` is answered with, for an order of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsAnswer {
    pub subject: String,
    pub digest: [u8; 32],
}

/// What the control plane is told, in the order in which it happens.
#[derive(Debug, Clone)]
pub enum News {
    /// To be used from now on: read from storage, or just issued.
    Certificate(Certificate),
    /// All names that were wanted have been looked up in storage; what is there has been told before this.
    Read,
    /// An attempt failed, or would have.
    Failed { name: String, fault: Fault },
    /// A certificate was obtained and is in use, and storage does not take it. Told once; it is tried again.
    NotKept { name: String, fault: Fault },
    /// Of a name: its renewal is late. Told once a day.
    Late { name: String, not_after: Timestamp },
    /// The name's certificate must not be used any more, and there is no other yet.
    Withdrawn { name: String, why: String },
    /// Storage cannot be opened; it is tried again, and nothing is obtained until then.
    StorageFailed(Fault),
    /// The clock cannot be right, and nothing is ordered until it is. Told once.
    ClockWrong(Fault),
    /// The wall clock went by another time than time did.
    ClockJumped { seconds: i64 },
}

#[derive(Debug, Clone)]
pub struct Certificate {
    pub name: String,
    /// Chain and key.
    pub bundle: Bundle,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub renew_at: Timestamp,
    pub serial: String,
    /// The directory of the CA, where it is known.
    pub directory: Option<String>,
    /// Whether it was made now, and not read.
    pub is_new: bool,
}

/// Why something failed, in one line: `cause; remedy`.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub at: Timestamp,
    pub cause: String,
    pub remedy: String,
}

/// A name as an operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct NameStatus {
    pub name: String,
    pub state: State,
    pub not_after: Option<Timestamp>,
    pub renew_at: Option<Timestamp>,
    pub serial: Option<String>,
    /// The directory of the CA that issued what is in use.
    pub directory: Option<String>,
    /// Less than a sixth of the life is left.
    pub is_late: bool,
    /// What is in use was revoked, and is only in use because there is no other.
    pub is_revoked: bool,
    pub failures_in_a_row: u32,
    pub last_fault: Option<Fault>,
    /// When something is done next, where nothing is being done.
    pub next_attempt_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Storage was not read yet.
    Reading,
    /// There is a good one.
    Ready,
    /// There is none.
    Missing,
    /// In line for an order.
    Queued,
    /// An order is on its way, here or in another process.
    Ordering,
}

/// Why a certificate is revoked (RFC 5280 section 5.3.1); those that subscribers may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevocationReason {
    Unspecified,
    KeyCompromise,
    Superseded,
    CessationOfOperation,
}

/// Why a request of the control plane was not done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Nobody wants a certificate for this name.
    #[error("no site wants a certificate by ACME for this name")]
    NotWanted,
    /// There is no certificate of the name, so nothing to revoke.
    #[error("there is no certificate for this name")]
    NoCertificate,
    #[error("{}; {}", .0.cause, .0.remedy)]
    Failed(Fault),
    /// The engine is being stopped, or too many requests wait for it.
    #[error("too much is being done already; try again")]
    Busy,
    /// On demand: not a host name that a certificate could be for.
    #[error("{0}")]
    NotAName(&'static str),
    /// On demand: who was asked refused it, or gave no answer.
    #[error("the name is not allowed: {0}")]
    NotAllowed(String),
    /// On demand: the bound of new names in an hour is reached.
    #[error("`names-per-hour` of `on-demand` is reached")]
    TooMany,
}
