//! Objects as they are kept: what somebody asks of them and nothing else. What the API has beside it is passed over
//! when they are read.

mod config_map;
pub mod endpoint_slice;
mod fetched;
mod ingress;
mod ingress_class;
mod secret;
mod service;
mod written;

pub use config_map::ConfigMap;
pub use endpoint_slice::{AddressFamily, EndpointSlice, EndpointState, SlicePort};
pub use fetched::{Fetched, FetchedMeta, Referenced};
pub use ingress::{Backend, Ingress, IngressTls, PathKind, Rule, RulePath};
pub use ingress_class::IngressClass;
pub use secret::{OBTAINED_LABEL, Secret, SecretBytes};
pub use service::{PortReference, Service, ServicePort};
pub use written::{Listed, LoadBalancerStatus, Text, WrittenKind, WrittenMeta};

use crate::kind::Kind;
use crate::texts::Texts;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What tells objects of one kind apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Empty for kinds that belong to no namespace.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// A kind of objects that is followed: what is read of one, and what is kept.
///
/// Objects are equal when nothing differs that anybody asks; the version is no part of them.
pub trait Watched: PartialEq + Sized + Send + Sync + 'static {
    const KIND: Kind;
    /// As the API writes it, borrowed from its answer or from an object that is kept.
    type Written<'w>: Deserialize<'w> + Serialize;

    fn meta<'m>(written: &'m Self::Written<'_>) -> &'m WrittenMeta<'m>;
    fn kept(written: &Self::Written<'_>, texts: &mut Texts) -> Self;

    /// As the API would write it, if it had no more than what is kept: what is read of that is the same object.
    fn written<'o>(&'o self, meta: WrittenMeta<'o>) -> Self::Written<'o>;
}

#[cfg(test)]
mod tests;
