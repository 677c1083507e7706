//! What only this machine can tell about a configuration: whether certificates fit, ports are free, names resolve. For `tidegate check`;
//! nothing is changed and nothing stays open.

use crate::bind::BindFault;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use tidegate_certs::{CertFinding, Severity, TlsSurvivors, check_site, check_upstream};
use tidegate_model::{Admin, Configuration, SiteAddress};
use tidegate_proxy::snapshot::listen_address;
use tidegate_transport::tokio_sock::{ListenOptions, bind};

#[derive(Debug)]
pub struct Finding {
    pub severity: Severity,
    /// Kebab-case, as the codes of the configuration's own diagnostics.
    pub code: &'static str,
    pub place: Place,
    pub message: String,
    pub help: Option<String>,
}

/// What the finding is about; the caller knows where that is written.
#[derive(Debug)]
pub enum Place {
    Address(SiteAddress),
    File(PathBuf),
    Admin,
    Whole,
}

pub fn check(configuration: &Configuration, state_dir: PathBuf, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    for site in &configuration.sites {
        let place = || Place::Address(site.addresses[0].clone());
        findings.extend(check_site(site, now).into_iter().map(|finding| certificate_finding(finding, place())));
    }
    match TlsSurvivors::new(state_dir) {
        Ok(survivors) => {
            for pool in &configuration.pools {
                let found = check_upstream(&pool.tls, &survivors, now);
                findings.extend(found.into_iter().map(|finding| certificate_finding(finding, Place::Whole)));
            }
        }
        Err(error) => findings.push(Finding {
            severity: Severity::Error,
            code: "tls",
            place: Place::Whole,
            message: error.message(),
            help: error.help(),
        }),
    }
    check_addresses(configuration, &mut findings);
    check_admin(configuration, &mut findings);
    check_names(configuration, &mut findings);
    findings
}

fn certificate_finding(finding: CertFinding, otherwise: Place) -> Finding {
    Finding {
        severity: finding.severity,
        code: "certificate",
        place: finding.file.map_or(otherwise, Place::File),
        message: finding.message,
        help: finding.help,
    }
}

fn check_addresses(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for address in configuration.sites.iter().flat_map(|site| &site.addresses) {
        let listen = listen_address(&address.host, address.port);
        if !seen.insert(listen) {
            continue;
        }
        if let Err(error) = crate::bind::probe(listen) {
            let fault = BindFault { address: listen, error };
            findings.push(Finding {
                severity: Severity::Error,
                code: "address-in-use",
                place: Place::Address(address.clone()),
                message: fault.what(),
                help: Some(fault.help()),
            });
        }
    }
}

fn check_admin(configuration: &Configuration, findings: &mut Vec<Finding>) {
    let Admin::Tcp(address) = &configuration.admin else { return };
    if let Err(error) = bind(*address, ListenOptions { reuse_port: false, ..ListenOptions::default() }) {
        let fault = BindFault { address: *address, error };
        // A running Tidegate has the port; that is no fault of this configuration.
        findings.push(Finding {
            severity: Severity::Warning,
            code: "admin-address-in-use",
            place: Place::Admin,
            message: fault.what(),
            help: Some(fault.help()),
        });
    }
}

fn check_names(configuration: &Configuration, findings: &mut Vec<Finding>) {
    for pool in &configuration.pools {
        for server in &pool.servers {
            if (server.address.host.as_str(), server.address.port).to_socket_addrs().is_err() {
                findings.push(Finding {
                    severity: Severity::Warning,
                    code: "unresolved",
                    place: Place::Whole,
                    message: format!("the name of the server `{}` in the pool `{}` has no address", server.address, pool.name),
                    help: Some(
                        "requests to it fail with 502 until the name resolves and the configuration is applied again".into(),
                    ),
                });
            }
        }
    }
}
