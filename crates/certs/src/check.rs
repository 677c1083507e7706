//! What `tidegate check` says about certificates: faults that would stop a start, and what would surprise somebody
//! later. Reads the files that are named, makes none, and asks no network. Rendering is the caller's.

use crate::check_clients::check_clients;
use crate::check_staples::check_staple;
use crate::error::CertError;
use crate::facts::CertificateFacts;
use crate::files::LoadedCertificate;
use crate::process_state::TlsProcessState;
use crate::provider::suite_of;
use crate::upstream::upstream_client_config;
use jiff::{SignedDuration, Timestamp};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_model::{Certificate, HostPattern, Scheme, Site, Tls, TlsSource, TlsVersion, UpstreamTls};

/// Enough to renew by hand, and more than a week-end.
pub const EXPIRY_WARNING: SignedDuration = SignedDuration::from_hours(24 * 7);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Warning,
    /// The configuration cannot be applied.
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertFinding {
    pub severity: Severity,
    /// As it stands in the configuration, so that the caller can find its place in the text.
    pub file: Option<PathBuf>,
    /// One sentence without a full stop.
    pub message: String,
    pub help: Option<String>,
}

/// Everything to be said about the certificates and the TLS settings of one site.
pub fn check_site(site: &Site, now: Timestamp) -> Vec<CertFinding> {
    let mut findings = Vec::new();
    match &site.tls.source {
        TlsSource::Off | TlsSource::Reject => return findings,
        // What can be said of names that are obtained, the configuration says.
        TlsSource::Automatic | TlsSource::Internal => {}
        TlsSource::Files(files) => check_files(site, files, now, &mut findings),
    }
    check_ciphers(&site.tls, &mut findings);
    if let Some(settings) = &site.tls.client_auth {
        check_clients(settings, now, &mut findings);
    }
    findings
}

/// Whether the files of a pool's `tls` can be used.
pub fn check_upstream(tls: &UpstreamTls, state: &TlsProcessState, now: Timestamp) -> Vec<CertFinding> {
    let mut findings = Vec::new();
    if let Err(error) = upstream_client_config(tls, &[], state) {
        findings.push(CertFinding::from(&error));
    }
    if let Some((cert, key)) = &tls.client_certificate {
        let certificate = Certificate { cert: cert.clone(), key: Some(key.clone()) };
        if let Ok(loaded) = LoadedCertificate::load(&certificate) {
            check_dates(cert.name(), &loaded.facts, now, &mut findings);
        }
    }
    findings
}

impl From<&CertError> for CertFinding {
    fn from(error: &CertError) -> Self {
        CertFinding {
            severity: Severity::Error,
            file: error.file().map(Path::to_owned),
            message: error.message(),
            help: error.help(),
        }
    }
}

pub(crate) fn warning(file: &Path, message: String, help: Option<&str>) -> CertFinding {
    CertFinding { severity: Severity::Warning, file: Some(file.to_owned()), message, help: help.map(str::to_owned) }
}

fn https_hosts(site: &Site) -> impl Iterator<Item = &HostPattern> {
    site.addresses.iter().filter(|address| address.scheme == Scheme::Https).map(|address| &address.host)
}

/// Everything to be said about certificates that are given once, whichever sites have them.
pub fn check_shared(files: &[Certificate], now: Timestamp) -> Vec<CertFinding> {
    let mut findings = Vec::new();
    for file in files {
        match LoadedCertificate::load(file) {
            Ok(certificate) => check_contents(file.cert.name(), &certificate.facts, now, &mut findings),
            Err(error) => findings.push(CertFinding::from(&error)),
        }
    }
    findings
}

/// Whether its time is over, or nearly. Nothing of one that cannot be read: that keeps a change from being applied.
pub fn check_lifetime(pair: &Certificate, now: Timestamp) -> Vec<CertFinding> {
    let mut findings = Vec::new();
    if let Ok(loaded) = LoadedCertificate::load(pair) {
        check_dates(pair.cert.name(), &loaded.facts, now, &mut findings);
        check_authorities(pair.cert.name(), &loaded.facts, now, &mut findings);
    }
    findings
}

fn check_files(site: &Site, files: &[Certificate], now: Timestamp, findings: &mut Vec<CertFinding>) {
    let mut loaded = Vec::with_capacity(files.len());
    for file in files {
        match LoadedCertificate::load(file) {
            Ok(certificate) => {
                check_staple(file.cert.name(), &certificate, &site.tls, findings);
                loaded.push((file.cert.name(), certificate.facts));
            }
            Err(error) => findings.push(CertFinding::from(&error)),
        }
    }
    for (file, facts) in &loaded {
        check_contents(file, facts, now, findings);
    }
    // While one file cannot be read nobody knows which names it has.
    if loaded.len() < files.len() {
        return;
    }
    for host in https_hosts(site) {
        if !loaded.iter().any(|(_, facts)| facts.names.is_empty() || facts.covers(host)) {
            findings.push(not_covered(host, &loaded));
        }
    }
}

fn check_contents(file: &Path, facts: &CertificateFacts, now: Timestamp, findings: &mut Vec<CertFinding>) {
    check_dates(file, facts, now, findings);
    check_authorities(file, facts, now, findings);
    if let Some(position) = facts.chain_broken_after {
        findings.push(warning(
            file,
            format!("certificate number {position} in {} is not signed by the one that follows it", file.display()),
            Some("put the server's own certificate first, then each certificate that signed the one before"),
        ));
    }
    if !facts.is_version_3 {
        findings.push(warning(
            file,
            format!(
                "the certificate in {} is of X.509 version 1, which names no host, so every client refuses it",
                file.display()
            ),
            Some("have it issued as version 3, with the host names as subject alternative names"),
        ));
    } else if facts.names.is_empty() {
        findings.push(warning(
            file,
            format!("the certificate in {} names no host (it has no subjectAltName), so every client refuses it", file.display()),
            Some("have it issued with the host names as subject alternative names"),
        ));
    }
}

fn not_covered(host: &HostPattern, loaded: &[(&Path, Arc<CertificateFacts>)]) -> CertFinding {
    let names: Vec<String> = loaded.iter().flat_map(|(_, facts)| facts.names.iter().map(|name| format!("`{name}`"))).collect();
    // A certificate with a hundred names would bury the sentence.
    const NAMES_SHOWN: usize = 5;
    let more = if names.len() > NAMES_SHOWN { format!(" and {} more", names.len() - NAMES_SHOWN) } else { String::new() };
    let shown = names[..names.len().min(NAMES_SHOWN)].join(", ");
    let file = loaded.first().map(|(file, _)| (*file).to_owned());
    let subject = match (&file, loaded.len()) {
        (Some(file), 1) => format!("the certificate in {} does not cover", file.display()),
        _ => "none of the site's certificates covers".into(),
    };
    CertFinding {
        severity: Severity::Warning,
        file,
        message: format!("{subject} `{host}`"),
        help: Some(format!("it is for {shown}{more}")),
    }
}

fn check_dates(file: &Path, facts: &CertificateFacts, now: Timestamp, findings: &mut Vec<CertFinding>) {
    let on = |at: Timestamp| at.strftime("%-d %B %Y");
    let name = file.display();
    let message = if facts.not_after <= now {
        format!("the certificate in {name} expired on {}", on(facts.not_after))
    } else if facts.not_before > now {
        format!("the certificate in {name} is not valid before {}", on(facts.not_before))
    } else if facts.not_after.duration_since(now) < EXPIRY_WARNING {
        format!("the certificate in {name} expires on {}", on(facts.not_after))
    } else {
        return;
    };
    findings.push(warning(file, message, None));
}

fn check_authorities(file: &Path, facts: &CertificateFacts, now: Timestamp, findings: &mut Vec<CertFinding>) {
    let Some((position, end)) = facts.first_authority_to_end.filter(|(_, end)| *end <= now) else { return };
    let message =
        format!("certificate number {position} in {}, of an authority, expired on {}", file.display(), end.strftime("%-d %B %Y"));
    findings.push(warning(
        file,
        message,
        Some("clients that need it refuse the site's own certificate: get the chain anew from the CA"),
    ));
}

fn check_ciphers(tls: &Tls, findings: &mut Vec<CertFinding>) {
    if tls.ciphers.is_empty() {
        return;
    }
    let has = |version| tls.ciphers.iter().any(|cipher| suite_of(*cipher).version() == version);
    let (has_tls12, has_tls13) = (has(&rustls::version::TLS12), has(&rustls::version::TLS13));
    let finding = |severity, message: &str, help: &str| CertFinding {
        severity,
        file: None,
        message: message.into(),
        help: Some(help.into()),
    };
    match (tls.min_version, has_tls12, has_tls13) {
        (TlsVersion::V1_3, _, false) => findings.push(finding(
            Severity::Error,
            "`ciphers` names only suites of TLS 1.2, but `min` asks for TLS 1.3",
            "add suites whose names begin with `TLS_AES` or `TLS_CHACHA20`",
        )),
        (TlsVersion::V1_2, _, false) => findings.push(finding(
            Severity::Warning,
            "`ciphers` names no suite of TLS 1.3, so the site does not offer TLS 1.3",
            "add suites whose names begin with `TLS_AES` or `TLS_CHACHA20`",
        )),
        (TlsVersion::V1_2, false, true) => findings.push(finding(
            Severity::Warning,
            "`ciphers` names no suite of TLS 1.2, so the site does not offer TLS 1.2",
            "write `min \"1.3\"` if this is meant, or add suites whose names begin with `TLS_ECDHE`",
        )),
        (TlsVersion::V1_2 | TlsVersion::V1_3, _, true) => {}
    }
}
