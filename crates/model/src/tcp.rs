//! `tcp ":443" { … }`: connections that are handed to a pool as they are, without being decrypted or understood. Beside
//! terminated sites on the same port, by the name in the ClientHello; on a port of its own, all of them.

use crate::address::HostPattern;
use crate::listen_address::ListenAddress;
use crate::pool::PoolName;
use crate::resilience::RouteRetry;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// One block.
#[derive(Debug, Clone, PartialEq)]
pub struct Tcp {
    /// `None` is every address.
    pub ip: Option<IpAddr>,
    pub port: u16,
    /// In file order. No name is in two of them, nor in a site of the same port.
    pub by_name: Vec<SniRoute>,
    /// What neither a site nor a name takes.
    pub otherwise: Option<TcpTarget>,
}

impl Tcp {
    /// Where it listens.
    pub fn listen_address(&self) -> ListenAddress {
        SocketAddr::new(self.ip.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), self.port).into()
    }
}

/// `sni "db.example.com" "*.b.example.com" { proxy … }`
#[derive(Debug, Clone, PartialEq)]
pub struct SniRoute {
    /// Exact names and wildcards, at least one.
    pub names: Vec<HostPattern>,
    pub to: TcpTarget,
}

/// Where connections go.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpTarget {
    pub pool: PoolName,
    /// Whether another server is tried when one cannot be reached.
    pub retry: RouteRetry,
}
