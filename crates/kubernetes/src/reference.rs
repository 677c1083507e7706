//! How objects refer to each other, and which of two goes first.

use crate::pool_manner::PoolManner;
use std::fmt;
use std::sync::Arc;
use tidegate_cluster::{Key, PortReference};
use tidegate_model::Origin;

/// A port of a Service, as somebody refers to it. Each has a pool of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceAtPort {
    pub service: Key,
    pub port: PortReference,
    /// What whoever refers to it wants otherwise. `None`: nothing.
    pub manner: Option<Arc<PoolManner>>,
}

impl ServiceAtPort {
    /// Whichever port of a Service is its first.
    pub const FIRST: PortReference = PortReference::Number(0);

    /// `shop/web:80`, as people are told of it.
    pub fn place(&self) -> String {
        match &self.port {
            PortReference::Number(0) => self.service.to_string(),
            PortReference::Number(number) => format!("{}:{number}", self.service),
            PortReference::Name(name) => format!("{}:{name}", self.service),
        }
    }

    /// The Secret by which its servers are verified, and are shown who asks.
    pub fn secret(&self) -> Option<&Key> {
        self.manner.as_ref()?.tls.secret.as_ref()
    }
}

/// What is spoken at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spoken {
    Plain,
    H2c,
    Tls,
    /// HTTP/2 over TLS.
    H2,
    /// Whatever clients send.
    Tcp,
    /// TCP behind a header of the PROXY protocol.
    TcpBehindHeader,
}

/// As pools are called.
impl fmt::Display for ServiceAtPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.port {
            PortReference::Number(number) => write!(f, "{}:{number}", self.service)?,
            PortReference::Name(name) => write!(f, "{}:{name}", self.service)?,
        }
        self.manner.as_ref().map_or(Ok(()), |manner| write!(f, "{manner}"))
    }
}

/// The field that names the backend of a path, or that is one.
pub fn backend_of(field: &str) -> String {
    if field.ends_with(']') && field.starts_with("spec.") { format!("{field}.backend") } else { field.to_owned() }
}

/// By which objects are in order where they want the same: what was created first goes first, and of the same moment
/// the name decides, so that every replica and every start comes to the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    pub created: Arc<str>,
    pub key: Key,
}

impl Age {
    /// The object as the origin of what it asks for.
    pub fn origin(&self) -> Origin {
        origin("Ingress", &self.key, None)
    }
}

/// An object, or a part of it, as the origin of what is served.
pub fn origin(kind: &str, key: &Key, rule: Option<String>) -> Origin {
    let Key { namespace, name } = key;
    Origin { kind: kind.to_owned(), namespace: namespace.to_string(), name: name.to_string(), rule }
}
