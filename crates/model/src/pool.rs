//! A pool: the servers a `proxy` step chooses from, and how connections to them are made and kept.

use crate::address::UpstreamAddress;
use crate::balance::Balance;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A pool's identity over reloads: its name, or for a pool written in place what it contains.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolName(pub Arc<str>);

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    pub name: PoolName,
    /// In file order; at least one.
    pub servers: Vec<Server>,
    pub balance: Balance,
    pub timeouts: Timeouts,
    /// Connections to each server, over all workers; `None` is unbounded.
    pub max_connections: Option<u32>,
    pub protocol: Protocol,
    /// How servers with an `https` address are spoken to.
    pub tls: UpstreamTls,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub address: UpstreamAddress,
    /// Share of the traffic, 1 to 256.
    pub weight: u32,
    /// Used only when no other server can be.
    pub backup: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// From the last byte of the request sent to the first byte of the answer.
    pub first_byte: Duration,
    /// Between two bytes of a body, a stream or a tunnel.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { connect: Duration::from_secs(5), first_byte: Duration::from_secs(60), idle: Duration::from_secs(3600) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Over TLS what ALPN settles; in plain text HTTP/1.1, and h2c for gRPC requests, which nothing else can carry.
    #[default]
    Auto,
    Http1,
    H2,
    H2c,
}

impl Protocol {
    pub const NAMES: &'static [(&'static str, Protocol)] =
        &[("auto", Protocol::Auto), ("http1", Protocol::Http1), ("h2", Protocol::H2), ("h2c", Protocol::H2c)];
}

/// Verified by default, against the system's roots and the server's own name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// PEM bundle to trust instead of the system's roots.
    pub ca: Option<PathBuf>,
    /// Name to ask for and to verify, instead of the address's host.
    pub sni: Option<String>,
    /// Client certificate chain and key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    pub verify: bool,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        UpstreamTls { ca: None, sni: None, client_certificate: None, verify: true }
    }
}
