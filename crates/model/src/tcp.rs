//! `tcp ":443" { … }`: connections that are handed to a pool as they are, without being decrypted or understood. Beside
//! terminated sites on the same port, by the name in the ClientHello; on a port of its own, all of them.

use crate::address::HostPattern;
use crate::listen_address::ListenAddress;
use crate::pool::PoolName;
use crate::resilience::RouteRetry;
use crate::split::percents;
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

/// Where connections go: to one pool (`proxy`), or each to one of several (`split`).
#[derive(Debug, Clone, PartialEq)]
pub struct TcpTarget {
    /// In the order written, at least one. Some weight is not zero.
    pub arms: Vec<TcpArm>,
    /// Whether a client goes to the same pool each time, by its address; otherwise each connection goes by chance.
    pub by_client: bool,
}

/// A pool, and its part of the connections.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpArm {
    pub pool: PoolName,
    /// Whether another server is tried when one cannot be reached.
    pub retry: RouteRetry,
    /// As that of an arm of a `split` in a site.
    pub weight: u32,
}

impl TcpTarget {
    /// To one pool.
    pub fn one(pool: PoolName, retry: RouteRetry) -> TcpTarget {
        TcpTarget { arms: vec![TcpArm { pool, retry, weight: 1 }], by_client: false }
    }

    /// The one pool that everything goes to; `None` where there are several.
    pub fn only(&self) -> Option<&TcpArm> {
        if let [only] = &self.arms[..] { Some(only) } else { None }
    }

    /// Of each pool, its part of the connections in percent.
    pub fn percents(&self) -> impl Iterator<Item = (&PoolName, f64)> {
        percents(&self.arms, |arm| arm.weight).map(|(arm, percent)| (&arm.pool, percent))
    }
}
