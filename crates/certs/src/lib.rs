//! Certificates and TLS settings: files or the internal CA in, rustls configurations out.
//! No sockets and no connections: `proxy` finds the site by its name and `transport` drives the handshake with that site's configuration.
//! Start at `site.rs` (one site's certificates), then `server.rs` (its configuration).

pub mod check;
pub mod error;
pub mod facts;
pub mod files;
pub mod internal_ca;
pub mod names;
pub mod provider;
pub mod server;
pub mod site;
pub mod state_dir;
pub mod survivors;
pub mod upstream;

pub use check::{CertFinding, Severity, check_site, check_upstream};
pub use error::CertError;
pub use facts::{CertificateFacts, CertificateName, KeyAlgorithm};
pub use files::LoadedCertificate;
pub use internal_ca::InternalCa;
pub use provider::{provider, provider_with};
pub use server::server_config;
pub use site::{Renewal, SiteCertificates};
pub use state_dir::default_state_dir;
pub use survivors::TlsSurvivors;
pub use upstream::{upstream_client_config, upstream_server_name};

#[cfg(test)]
mod tests;
