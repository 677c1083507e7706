//! Certificates and TLS settings: files or the internal CA in, rustls configurations out.
//! No sockets and no connections: `proxy` finds the site by its name and `transport` drives the handshake with that
//! site's configuration. Start at `site.rs` (one site's certificates), then `server.rs` (its configuration).

pub mod any_certificate;
pub mod check;
mod check_clients;
mod check_staples;
mod client_judge;
pub mod client_trust;
pub mod description;
pub mod error;
pub mod facts;
pub mod files;
pub mod internal_ca;
pub mod lookup;
pub mod names;
pub mod obtained;
pub mod process_state;
pub mod provider;
pub mod server;
pub mod sessions;
mod shared;
pub mod site;
mod stamp;
pub mod staple;
pub mod state_dir;
pub mod tickets;
pub mod trust;
mod unlike;
pub mod upstream;

pub use any_certificate::AnyCertificate;
pub use check::{CertFinding, Severity, check_lifetime, check_shared, check_site, check_upstream};
pub use client_trust::ClientTrust;
pub use description::{CertificateDescription, SignatureAlgorithm, fingerprint};
pub use error::CertError;
pub use facts::{CertificateFacts, CertificateName, KeyAlgorithm};
pub use files::{LoadedCertificate, load_chain, to_pem};
pub use internal_ca::InternalCa;
pub use lookup::CertificateSet;
pub use obtained::{ObtainedCertificates, challenge_config};
pub use process_state::TlsProcessState;
pub use provider::{provider, provider_with};
pub use server::{early_data_config, server_config, session_id_config};
pub use sessions::SessionCache;
pub use site::{Renewal, Renewed, ServedFiles, SiteCertificates};
pub use staple::{StapleSlot, Staples};
pub use state_dir::{SYSTEM_STATE_DIR, default_state_dir};
pub use tickets::{ExportedKeys, FileKeys, SharedKeys, TicketKeys, TicketSource, UnreadableKeys};
pub use upstream::{upstream_client_config, upstream_server_name};

#[cfg(test)]
mod tests;
