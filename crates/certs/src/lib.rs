//! Certificates and TLS settings: files or the internal CA in, rustls configurations out, and which of them answers a server name.
//! No sockets and no connections: `transport` drives the handshake with the configuration that [`ListenerTls::choose`] returned.
//! Start at `site.rs` (one site's certificates), then `server.rs` (its configuration) and `listener.rs` (the choice by name).

pub mod check;
pub mod error;
pub mod facts;
pub mod files;
pub mod internal_ca;
pub mod listener;
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
pub use listener::{Choice, ListenerTls, SiteTlsId};
pub use provider::{provider, provider_with};
pub use server::server_config;
pub use site::{Renewal, SiteCertificates};
pub use state_dir::default_state_dir;
pub use survivors::TlsSurvivors;
pub use upstream::{upstream_client_config, upstream_server_name};

#[cfg(test)]
mod tests;
