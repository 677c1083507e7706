//! What runs: a configuration that was compiled, and what it was made of.

use crate::discovery::Discovered;
use std::sync::Arc;
use tidegate_certs::{ClientTrust, SiteCertificates, TicketSource};
use tidegate_model::Configuration;
use tidegate_proxy::persistent::PersistentVec;
use tidegate_proxy::snapshot::{Handshakes, Snapshot};

/// A compiled configuration and what must be looked after while it runs.
pub struct Material {
    pub configuration: Arc<Configuration>,
    pub snapshot: Arc<Snapshot>,
    /// By site; `None` for plain HTTP.
    pub certificates: PersistentVec<Option<SiteTls>>,
    pub ticket_keys: TicketSource,
    /// What the sources of servers said last; at first only those that were asked for this material.
    pub discovered: Discovered,
    /// Slots of pools that are not what they were in the material before.
    pub pools_changed: Vec<usize>,
}

/// A site's certificates, to be renewed while running, and the settings that hand them out.
#[derive(Clone)]
pub struct SiteTls {
    pub certificates: Arc<SiteCertificates>,
    pub handshakes: Arc<Handshakes>,
    /// Of a site that asks its clients for certificates: whom it trusts to sign them.
    pub clients: Option<Arc<ClientTrust>>,
}
