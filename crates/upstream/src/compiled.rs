//! A pool and its servers as one configuration has them: immutable tables that all workers share. Addresses and TLS
//! settings are found by the caller; what outlives a configuration is in `shared`, and what a worker has open in
//! `pool`.

use crate::shared::{PoolShared, ServerShared};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_balancing::{hash_bytes, maglev};
use tidegate_model::{
    Balance, Bounds, CookieSecure, Origin, Pool, PoolName, Protocol, Retry, RouteRetry, Server, ServerAddresses, Sticky,
};
use tidegate_transport::destination;
use tracing::field::DisplayValue;

/// A pool as it is compiled for one configuration.
pub struct CompiledPool {
    pub name: PoolName,
    /// As it is written.
    pub model: Arc<Pool>,
    /// Servers that are written, and behind them those that were found.
    pub servers: Vec<CompiledServer>,
    /// Which server a key belongs to, for `balance "hash"`. What the key of a request is, is the caller's.
    pub hash: Option<maglev::Table>,
    pub sticky: Option<CompiledSticky>,
    pub tls: Option<UpstreamTlsConfigs>,
    /// Whether requests in flight are counted over all workers: the pool, or any of its servers, has a bound.
    pub counts_requests: bool,
    pub shared: Arc<PoolShared>,
}

impl CompiledPool {
    /// Whether requests may go over a connection of HTTP/2, `is_grpc` ones or others.
    pub fn may_speak_h2(&self, is_grpc: bool) -> bool {
        match self.model.protocol {
            Protocol::H2 | Protocol::H2c => true,
            Protocol::Auto => is_grpc || self.tls.is_some(),
            Protocol::Http1 | Protocol::FastCgi => false,
        }
    }

    /// Where it comes from, for lines of the log that name it.
    pub fn shown_origin(&self) -> Option<DisplayValue<&Origin>> {
        self.model.origin.as_deref().map(tracing::field::display)
    }

    pub fn new(parts: PoolParts) -> CompiledPool {
        let PoolParts { model: pool, servers, tls, shared } = parts;
        let compile = |parts: ServerParts| {
            let ServerParts { model, addresses, tls_name, cookie_value } = parts;
            let authority: Arc<str> = model.address.authority().into();
            CompiledServer {
                identity: hash_bytes(authority.as_bytes()),
                shared: shared.server(&authority),
                authority,
                addresses,
                tls_name,
                is_local: pool.zone.is_none() || model.zone == pool.zone,
                bounds: pool.bounds.and(model.bounds),
                cookie_value,
                model,
            }
        };
        let servers: Vec<CompiledServer> = servers.into_iter().map(compile).collect();
        let hash = match &pool.balance {
            Balance::Hash { .. } => {
                let members: Vec<_> = servers.iter().map(|server| (server.identity, server.model.weight)).collect();
                Some(maglev::Table::new(&members))
            }
            Balance::P2c | Balance::RoundRobin | Balance::LeastConn | Balance::Ewma | Balance::Random => None,
        };
        let sticky = pool.sticky.as_ref().map(|sticky| compile_sticky(sticky, &servers));
        let counts_requests = pool.bounds.counts_requests() || servers.iter().any(|server| server.bounds.counts_requests());
        CompiledPool { name: pool.name.clone(), model: pool, servers, hash, sticky, tls, counts_requests, shared }
    }

    /// What the pool itself says of sending requests again, unless its route says otherwise.
    pub fn retry<'a>(&'a self, route: &'a RouteRetry) -> Option<&'a Retry> {
        match route {
            RouteRetry::OfPool => self.model.retry.as_ref(),
            RouteRetry::Off => None,
            RouteRetry::Own(retry) => Some(retry),
        }
    }
}

/// Which server a cookie names: a table of all that would be right, so that a request costs a look-up and no
/// cryptography.
pub struct CompiledSticky {
    pub cookie: Box<str>,
    positions: HashMap<Arc<str>, usize>,
    /// What follows the value when the cookie is set.
    pub attributes: Box<str>,
    pub secure: CookieSecure,
    /// Whether a client whose server failed belongs to the one that answered it.
    pub change_on_failure: bool,
}

impl CompiledSticky {
    pub fn position(&self, value: &[u8]) -> Option<usize> {
        std::str::from_utf8(value).ok().and_then(|value| self.positions.get(value).copied())
    }
}

pub struct CompiledServer {
    pub model: Server,
    /// `host:port` or `unix:/path`, as logs and `{upstream.address}` have it.
    pub authority: Arc<str>,
    /// The same over reloads and restarts.
    pub identity: u64,
    pub addresses: ServerAddresses,
    /// The name to ask for and to verify; `None` speaks plain text.
    pub tls_name: Option<ServerName<'static>>,
    /// Whether the server stands where this proxy stands, or nobody said where that is.
    pub is_local: bool,
    /// The pool's, and where the server has its own, those.
    pub bounds: Bounds,
    /// What a sticky cookie says that names it.
    pub cookie_value: Option<Arc<str>>,
    pub shared: Arc<ServerShared>,
}

impl CompiledServer {
    /// Connections that it may have. Where nobody says, what the system's ports and descriptors allow.
    pub fn connections_max(&self) -> u32 {
        self.bounds.connections_per_server.unwrap_or_else(destination::connections_max)
    }
}

/// Client configurations that differ in the protocols they offer.
#[derive(Clone)]
pub struct UpstreamTlsConfigs {
    /// Offers nothing: what is spoken on it is not known here.
    pub bare: Arc<ClientConfig>,
    /// Offers `h2` and `http/1.1`.
    pub any: Arc<ClientConfig>,
    pub http1: Arc<ClientConfig>,
    pub h2: Arc<ClientConfig>,
}

/// What the caller has found out about one pool.
pub struct PoolParts {
    pub model: Arc<Pool>,
    pub servers: Vec<ServerParts>,
    pub tls: Option<UpstreamTlsConfigs>,
    pub shared: Arc<PoolShared>,
}

pub struct ServerParts {
    pub model: Server,
    pub addresses: ServerAddresses,
    pub tls_name: Option<ServerName<'static>>,
    /// Signed, for a pool with a sticky cookie.
    pub cookie_value: Option<Arc<str>>,
}

fn compile_sticky(sticky: &Sticky, servers: &[CompiledServer]) -> CompiledSticky {
    let named = servers.iter().enumerate().filter_map(|(position, server)| Some((server.cookie_value.clone()?, position)));
    CompiledSticky {
        cookie: sticky.cookie.as_str().into(),
        positions: named.collect(),
        attributes: cookie_attributes(sticky).into(),
        secure: sticky.secure,
        change_on_failure: sticky.change_on_failure,
    }
}

/// All but `Secure`, which may depend on how a client has asked.
fn cookie_attributes(sticky: &Sticky) -> String {
    let Sticky { path, domain, same_site, max_age_seconds, cookie: _, secret: _, secure: _, change_on_failure: _ } = sticky;
    let mut attributes = format!("; Path={path}");
    if let Some(domain) = domain {
        attributes.push_str(&format!("; Domain={domain}"));
    }
    attributes.push_str(&format!("; HttpOnly; SameSite={}", same_site.attribute()));
    if let Some(seconds) = max_age_seconds {
        attributes.push_str(&format!("; Max-Age={seconds}"));
    }
    attributes
}
