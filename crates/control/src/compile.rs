//! What a configuration needs from outside before it can be compiled: certificates, trusted roots, addresses of names.

use crate::fault::StartFault;
use jiff::Timestamp;
use rustls::ServerConfig;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tidegate_certs::{SiteCertificates, TlsSurvivors, server_config, upstream_client_config, upstream_server_name};
use tidegate_model::{Configuration, Pool, Scheme, UpstreamAddress};
use tidegate_proxy::snapshot::{self, PoolParts, Snapshot, UpstreamTlsConfigs};
use tidegate_proxy::survivors::ProcessSurvivors;

/// A compiled configuration and what must be looked after while it runs.
pub struct Material {
    pub snapshot: Arc<Snapshot>,
    /// To be renewed while running.
    pub certificates: Vec<Arc<SiteCertificates>>,
}

/// Gathers and compiles. Names are resolved here, so this may take as long as the resolver does.
pub fn gather(
    configuration: &Configuration,
    generation: u64,
    process: &ProcessSurvivors,
    tls: &TlsSurvivors,
    now: Timestamp,
) -> Result<Material, StartFault> {
    let mut certificates = Vec::new();
    let mut site_tls: Vec<Option<Arc<ServerConfig>>> = Vec::new();
    for site in &configuration.sites {
        let fault = |errors| StartFault::Certificates { site: site.addresses[0].to_string(), errors };
        let loaded = SiteCertificates::load(site, tls, now).map_err(fault)?;
        site_tls.push(match loaded {
            None => None,
            Some(loaded) => {
                certificates.push(loaded.clone());
                Some(server_config(&site.tls, loaded, tls).map_err(|error| fault(vec![error]))?)
            }
        });
    }
    let pools = configuration.pools.iter().map(|pool| pool_parts(pool, process, tls)).collect::<Result<Vec<_>, _>>()?;
    let snapshot =
        snapshot::compile(configuration, generation, site_tls, pools).map_err(|fault| StartFault::Internal(fault.to_string()))?;
    Ok(Material { snapshot: Arc::new(snapshot), certificates })
}

fn pool_parts(pool: &Pool, process: &ProcessSurvivors, tls: &TlsSurvivors) -> Result<PoolParts, StartFault> {
    let fault =
        |error: &dyn std::fmt::Display| StartFault::UpstreamTls { pool: pool.name.to_string(), message: error.to_string() };
    let speaks_tls = pool.servers.iter().any(|server| server.address.scheme == Scheme::Https);
    let configs = if speaks_tls {
        let config = |alpn: &[&[u8]]| upstream_client_config(&pool.tls, alpn, tls).map_err(|error| fault(&error.message()));
        Some(UpstreamTlsConfigs { any: config(&[b"h2", b"http/1.1"])?, http1: config(&[b"http/1.1"])?, h2: config(&[b"h2"])? })
    } else {
        None
    };
    let mut parts = PoolParts { addresses: Vec::new(), tls_names: Vec::new(), tls: configs, shared: Vec::new() };
    for server in &pool.servers {
        let name = match server.address.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(upstream_server_name(&server.address, &pool.tls).map_err(|error| fault(&error.message()))?),
        };
        parts.tls_names.push(name);
        parts.addresses.push(resolve(&server.address, pool));
        parts.shared.push(process.server(&pool.name, &server.address.authority()));
    }
    Ok(parts)
}

/// A name without an address is no reason not to start: that server is down until the configuration is applied again.
fn resolve(address: &UpstreamAddress, pool: &Pool) -> Vec<SocketAddr> {
    match (address.host.as_str(), address.port).to_socket_addrs() {
        Ok(found) => {
            let mut addresses: Vec<_> = found.collect();
            addresses.dedup();
            addresses
        }
        Err(error) => {
            tracing::error!(pool = %pool.name, server = %address, %error, "the name of an upstream server has no address");
            Vec::new()
        }
    }
}
