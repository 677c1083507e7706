//! Files that the running configuration names, read again while it runs: certificates and ticket keys, authorities of
//! clients and what they have revoked, users. Each says what it took over and what it could not; when they are read is
//! decided in `watching` and `run`.

use crate::background::in_background;
use crate::material::Material;
use crate::tickets::renew_ticket_keys;
use jiff::Timestamp;
use std::sync::Arc;
use tidegate_certs::{CertError, Renewal, Renewed, TlsProcessState};
use tidegate_model::Site;
use tidegate_proxy::process_state::ProcessState;

/// What became of the files that are read again.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    /// Files that changed into what cannot be used, while what they held before is in use.
    pub unfit: UnfitFiles,
    /// When the first list of what was revoked is out of date.
    lists_end: Option<Timestamp>,
}

/// Why, by what they are for.
#[derive(Debug, Default)]
pub(crate) struct UnfitFiles {
    pub certificates: Vec<String>,
    users: Vec<String>,
    /// Keys of programs.
    api_keys: Vec<String>,
    /// Keys of tokens.
    keys: Vec<String>,
    /// Authorities of clients, and what they have revoked.
    clients: Vec<String>,
}

impl UnfitFiles {
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.certificates.iter().chain(&self.users).chain(&self.api_keys).chain(&self.keys).chain(&self.clients)
    }
}

impl Renewals {
    /// Certificates that are due, by their files or by their age. Says what it took over and what it could not.
    pub fn renew_certificates(&mut self, running: &mut Material, state: &TlsProcessState) {
        let mut unfit = Vec::new();
        for (site, tls) in running.configuration.sites.iter().zip(running.certificates.iter()) {
            let Some(tls) = tls else { continue };
            let origin = site.origin.as_ref().map(tracing::field::display);
            let site = &site.addresses[0];
            let Renewed { renewal, errors } = tls.certificates.renew_if_due(Timestamp::now());
            match renewal {
                Renewal::NotDue => {}
                Renewal::Replaced { not_after } => tracing::info!(%site, %not_after, "a certificate was renewed"),
            }
            for error in errors {
                let help = error.help();
                tracing::error!(%site, origin, error = error.message(), help, "a certificate was not renewed; the one before stays in use");
                let is_taken_at_a_start = matches!(error, CertError::Expired { .. } | CertError::NotYetValid { .. });
                let restart = if is_taken_at_a_start { "serve them" } else { "fail" };
                unfit.push(format!(
                    "the certificate files of {site} do not fit, and a restart would {restart}: {}",
                    error.message()
                ));
            }
        }
        for error in renew_ticket_keys(state, running) {
            tracing::error!(
                error = error.message(),
                help = error.help(),
                "ticket keys were not renewed; those before stay in use"
            );
            unfit.push(format!("the files of `ticket-keys` do not fit, and a restart would fail: {}", error.message()));
        }
        self.unfit.certificates = unfit;
        self.renew_client_trust(running, state);
    }

    /// Authorities of clients and their revocation lists. Says what it took over and what it could not.
    pub fn renew_client_trust(&mut self, running: &mut Material, state: &TlsProcessState) {
        let Material { configuration, certificates, .. } = &mut *running;
        let now = Timestamp::now();
        // Lists may be large, and nobody waits for them.
        let renewed: Vec<_> = in_background(move || {
            let asks = |site: &(usize, &Arc<Site>)| site.1.tls.client_auth.is_some();
            let renew = |(position, site): (usize, &Arc<Site>)| {
                let mut tls = certificates[position].clone()?;
                let outcome = tls.renew_clients(&site.tls, state, now);
                if matches!(outcome, Ok(true)) {
                    certificates.set(position, Some(tls));
                }
                Some((site.addresses[0].to_string(), outcome))
            };
            configuration.sites.iter().enumerate().filter(asks).filter_map(renew).collect()
        });
        let mut unfit = Vec::new();
        for (site, outcome) in renewed {
            match outcome {
                Ok(false) => {}
                Ok(true) => tracing::info!(site, "the authorities of clients, or what they have revoked, were read again"),
                Err(errors) => {
                    for error in errors {
                        let help = error.help();
                        tracing::error!(
                            site,
                            error = error.message(),
                            help,
                            "the authorities of clients were not read again; those before stay in use"
                        );
                        unfit.push(format!(
                            "the `client-auth` files of {site} cannot be used, and a restart would fail: {}",
                            error.message()
                        ));
                    }
                }
            }
        }
        self.unfit.clients = unfit;
        self.lists_end = None;
        for (site, tls) in running.configuration.sites.iter().zip(running.certificates.iter()) {
            let Some(until) = tls.as_ref().and_then(|tls| tls.clients.as_ref()?.lists_until) else { continue };
            let origin = site.origin.as_ref().map(tracing::field::display);
            let site = &site.addresses[0];
            if until > now {
                self.lists_end = Some(self.lists_end.map_or(until, |end| end.min(until)));
            } else {
                tracing::error!(%site, origin, %until, setting = "client-auth crl", "a revocation list is out of date, and clients are refused until there is a newer one");
            }
        }
    }

    /// Once a second: a list that is out of date may have been replaced.
    pub fn look_at_lists(&mut self, running: &mut Material, state: &TlsProcessState) {
        if self.lists_end.is_some_and(|end| end <= Timestamp::now()) {
            self.renew_client_trust(running, state);
        }
    }

    /// Reads the files of users, of API keys and of token keys again. Says what it took over and what it could not.
    pub fn renew_users(&mut self, process: &ProcessState) {
        let (renewed, faults) = in_background(|| process.user_files.read_again());
        for (file, users) in renewed {
            tracing::info!(file = %file.display(), users, "a file of users was read again");
        }
        for fault in &faults {
            tracing::error!(error = %fault, help = fault.help(), "a file of users was not taken over; the users before stay");
        }
        self.unfit.users = faults.iter().map(ToString::to_string).collect();
        let (renewed, faults) = in_background(|| process.api_key_files.read_again());
        for (file, keys) in renewed {
            tracing::info!(file = %file.display(), keys, "a file of API keys was read again");
        }
        for fault in &faults {
            tracing::error!(error = %fault, help = fault.help(), "a file of API keys was not taken over; the keys before stay");
        }
        self.unfit.api_keys = faults.iter().map(ToString::to_string).collect();
        let (renewed, faults) = in_background(|| process.key_sets.read_again());
        for (file, keys) in renewed {
            tracing::info!(file = %file.display(), keys, "a file of token keys was read again");
        }
        for fault in &faults {
            tracing::error!(error = %fault, help = fault.help(), "a file of token keys was not taken over; the keys before stay");
        }
        self.unfit.keys = faults.iter().map(ToString::to_string).collect();
    }
}
