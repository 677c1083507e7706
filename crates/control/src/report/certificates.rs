//! Certificates as an operator sees them: those that sites answer with, and names whose certificates are obtained, with
//! what is in the way of it.

use super::staples::{is_revoked, staple_report};
use crate::control::Control;
use crate::stapling::Stapling;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_acme::{Fault, Issuing, NameStatus, State};
use tidegate_api::{Certificate, CertificateFault, CertificateSource, CertificateState, Certificates, Obtained};
use tidegate_model::{HostPattern, Scheme, TlsSource, is_one_label_below};
use tidegate_telemetry::CertificateEnd;

/// Whether a certificate of the wildcard is for the name.
fn is_below(name: &str, wildcard: &str) -> bool {
    wildcard.strip_prefix("*.").is_some_and(|parent| is_one_label_below(name, parent))
}

/// As the API has it.
fn certificate_fault(Fault { at, cause, remedy }: Fault) -> CertificateFault {
    CertificateFault { at, cause, remedy }
}

impl Control {
    /// Every few seconds. Shows metrics which certificates there are and when they end.
    pub(crate) fn show_certificates(&self) {
        let end =
            |name, source, not_after: Timestamp| CertificateEnd { name, source, not_after_unix_seconds: not_after.as_second() };
        let of_sites = self.certificates_of_sites().into_iter().filter_map(|report| {
            let source = if report.source == CertificateSource::Files { "files" } else { "internal" };
            Some(end(report.names.into_iter().next().unwrap_or_default(), source, report.not_after?))
        });
        let obtained = self.issuance.status();
        let of_names = obtained.iter().filter_map(|status| Some(end(status.name.clone(), "acme", status.not_after?)));
        self.registry().certificates().set(of_sites.chain(of_names).collect(), self.issuance.numbers(&obtained));
        Stapling::show(self.stapling.as_ref(), &self.tls, &self.process);
    }

    /// Certificates of sites, then names whose certificates are obtained.
    pub fn certificates(&self) -> Certificates {
        let mut certificates = self.certificates_of_sites();
        let statuses = self.issuance.status();
        if !statuses.is_empty() {
            let sites = self.sites_by_name();
            certificates.extend(statuses.into_iter().map(|status| {
                // That of a wildcard which names share is of the first site that has one of them.
                let of_shared = || sites.iter().filter(|(name, _)| is_below(name, &status.name)).map(|(_, site)| site).min();
                let site = sites.get(&status.name).or_else(of_shared).cloned().unwrap_or_default();
                self.obtained_report(site, status)
            }));
        }
        // What was reached within the hour that `names-per-hour` is for.
        let on_demand = self.issuance.on_demand_fault(Timestamp::now()).map(certificate_fault);
        Certificates { certificates, on_demand }
    }

    pub(crate) fn certificates_of_sites(&self) -> Vec<Certificate> {
        let mut reports = Vec::new();
        let now = Timestamp::now();
        for (site, tls) in self.configuration().sites.iter().zip(self.running.certificates.iter()) {
            let Some(tls) = tls else { continue };
            let (source, files): (_, &[tidegate_model::Certificate]) = match &site.tls.source {
                TlsSource::Files(files) => (CertificateSource::Files, files),
                TlsSource::Automatic | TlsSource::Internal | TlsSource::Off | TlsSource::Reject => {
                    (CertificateSource::InternalCa, &[])
                }
            };
            let paths = files.iter().flat_map(|file| std::iter::once(&file.cert).chain(&file.key));
            let files: Vec<String> = paths.map(|path| path.display().to_string()).collect();
            let are_stapled = tls.certificates.are_stapled();
            reports.extend(tls.certificates.current().all().iter().map(|loaded| Certificate {
                site: site.addresses[0].to_string(),
                source,
                files: files.clone(),
                names: loaded.facts.names.iter().map(ToString::to_string).collect(),
                state: if is_revoked(loaded, are_stapled) {
                    CertificateState::Revoked
                } else if loaded.facts.not_after <= now {
                    CertificateState::Expired
                } else {
                    CertificateState::Ready
                },
                not_before: Some(loaded.facts.not_before),
                not_after: Some(loaded.facts.not_after),
                key: Some(loaded.facts.key_algorithm.to_string()),
                obtained: None,
                staple: staple_report(loaded, are_stapled, now),
            }));
        }
        reports
    }

    fn obtained_report(&self, site: String, status: NameStatus) -> Certificate {
        let now = Timestamp::now();
        let loaded = self.tls.obtained.get(&status.name);
        let are_stapled = self.tls.obtained.are_stapled();
        let state = match status.state {
            State::Missing | State::Ready
                if status.is_revoked || loaded.as_ref().is_some_and(|loaded| is_revoked(loaded, are_stapled)) =>
            {
                CertificateState::Revoked
            }
            State::Missing if status.not_after.is_some_and(|end| end <= now) => CertificateState::Expired,
            State::Reading => CertificateState::Reading,
            State::Queued | State::Ordering => CertificateState::Ordering,
            State::Missing => CertificateState::Missing,
            State::Ready if status.is_late => CertificateState::Late,
            State::Ready => CertificateState::Ready,
        };
        Certificate {
            site,
            source: CertificateSource::Acme,
            files: Vec::new(),
            names: vec![status.name],
            state,
            not_before: loaded.as_ref().map(|loaded| loaded.facts.not_before),
            not_after: status.not_after,
            staple: loaded.as_ref().and_then(|loaded| staple_report(loaded, are_stapled, now)),
            key: loaded.map(|loaded| loaded.facts.key_algorithm.to_string()),
            obtained: Some(Obtained {
                serial: status.serial,
                directory: status.directory,
                renew_at: status.renew_at,
                failures_in_a_row: status.failures_in_a_row,
                fault: status.last_fault.map(certificate_fault),
                next_attempt_at: status.next_attempt_at,
            }),
        }
    }

    fn sites_by_name(&self) -> HashMap<String, String> {
        let mut sites = HashMap::new();
        for site in &self.configuration().sites {
            for address in site.addresses.iter().filter(|address| address.scheme == Scheme::Https) {
                let name = match &address.host {
                    HostPattern::Any | HostPattern::Socket(_) => continue,
                    HostPattern::Ip(ip) => ip.to_string(),
                    HostPattern::Exact(_) | HostPattern::Wildcard(_) => address.host.to_string(),
                    HostPattern::DeepWildcard(parent) => format!("*.{parent}"),
                };
                sites.entry(name).or_insert_with(|| site.addresses[0].to_string());
            }
        }
        sites
    }

    /// Who obtains certificates, to be asked for one without holding up this thread. `None`: no site has any obtained.
    pub fn issuing(&self) -> Option<Arc<Issuing>> {
        self.issuance.engine().cloned()
    }
}
