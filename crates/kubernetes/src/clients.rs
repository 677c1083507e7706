//! Which certificates an Ingress wants its clients to show.

use tidegate_cluster::Key;
use tidegate_model::Template;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MannerClients {
    /// Has the authority of clients, and perhaps its revocation list.
    pub secret: Key,
    pub demand: ClientDemand,
    /// What the subject of the certificate has to fit; known to compile.
    pub subject: Option<Box<str>>,
    /// Where clients without a certificate are sent.
    pub error_page: Option<Template>,
}

/// What becomes of clients without a good certificate. Who shows one that is not gets no connection, unless nobody
/// verifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientDemand {
    /// Refused.
    Required,
    /// Servers are told.
    Optional,
    /// Servers are told, of certificates of other authorities as well.
    Unverified,
}

impl MannerClients {
    /// Whether both keep the same clients out.
    pub fn is_like(&self, other: &MannerClients) -> bool {
        (&self.secret, self.demand, &self.subject) == (&other.secret, other.demand, &other.subject)
    }
}
