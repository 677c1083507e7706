//! The state of the control thread: what runs, what it came from, and what it is made of. Everything that changes it
//! happens on that thread, one after the other. How a change goes is in `change`, what can be asked in `report`, the
//! events that drive it in `run`.

use crate::applying::{ApplyOptions, ChangeFault};
use crate::background::in_background;
use crate::compile::{SharedState, gather};
use crate::confirm::{Baseline, Pending};
use crate::discovery::Followers;
use crate::endpoint::AdminListener;
use crate::generations::{Generations, Origin};
use crate::issuing::Issuance;
use crate::material::Material;
use crate::memory::MemoryBudget;
use crate::named_files::{certificate_files, user_files};
use crate::names::{Names, without_address};
use crate::on_disk::OnDisk;
use crate::pools::{Checkers, PoolChange, begin_slowly, pool_changes, take_back_into_use};
use crate::shared_tickets::TicketSharing;
use crate::sockets::SocketTable;
use crate::source::{Proposal, Source, Watched};
use crate::stapling::Stapling;
use crate::sticky::CookieKeys;
use crate::succession::Stage;
use crate::tickets::renew_ticket_keys;
use crate::watch::FileWatch;
use crate::workers::{ChangeParts, Workers};
use jiff::Timestamp;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tidegate_certs::{CertError, Renewal, Renewed, TlsProcessState};
use tidegate_config::{LoadMemory, Loaded};
use tidegate_model::{Configuration, Delta, Difference, Site, TlsSource};
use tidegate_proxy::process_state::ProcessState;
use tidegate_proxy::snapshot::Snapshot;
use tidegate_telemetry::{AccessLogWriter, Readiness, Registry};
use tokio::sync::mpsc;

pub struct Control {
    pub(crate) source: Source,
    /// What the last load read, so that the next costs what changed. Planning reads as well, hence the cell.
    pub(crate) memory: RefCell<LoadMemory>,
    /// What the newest generation was written as: an edit reads nothing again but what it changes.
    pub(crate) written: Arc<Loaded>,
    pub(crate) running: Material,
    pub(crate) process: Arc<ProcessState>,
    pub(crate) tls: TlsProcessState,
    pub(crate) workers: Workers,
    pub(crate) sockets: SocketTable,
    pub(crate) log: AccessLogWriter,
    pub(crate) admin: AdminPlace,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) generations: Generations,
    /// By the name of the file.
    pub(crate) on_disk: BTreeMap<String, OnDisk>,
    pub(crate) serial: u64,
    pub(crate) baseline: Baseline,
    pub(crate) pending: Option<Pending>,
    /// Why the last attempt to change was refused, unless one went well since.
    pub(crate) refused: Option<tidegate_api::Refused>,
    /// Snapshots that workers may still hold. The last holder frees them, and that should be this thread: it takes
    /// milliseconds when there are ten thousand sites.
    pub(crate) superseded: Vec<Arc<Snapshot>>,
    /// Files that changed into what cannot be used, while what they held before is in use.
    pub(crate) unfit: UnfitFiles,
    /// When the first list of what was revoked is out of date.
    pub(crate) lists_end: Option<Timestamp>,
    /// When systemd is given the sockets once more.
    pub(crate) store_again_at: Option<Instant>,
    pub(crate) watch: Watching,
    pub(crate) started: Timestamp,
    pub(crate) succession: Stage,
    pub(crate) names: Names,
    pub(crate) cookie_keys: CookieKeys,
    pub(crate) followers: Followers,
    pub(crate) checkers: Checkers,
    pub(crate) budget: MemoryBudget,
    pub(crate) issuance: Issuance,
    /// Only while keys of session tickets are shared with other hosts.
    pub(crate) ticket_sharing: Option<TicketSharing>,
    /// `None` until a certificate names a responder.
    pub(crate) stapling: Option<Stapling>,
}

/// Where the admin endpoint is; `admin` is told of each new place.
pub(crate) struct AdminPlace {
    /// Ours, so that it can be handed on.
    pub listener: AdminListener,
    pub serve: mpsc::UnboundedSender<AdminListener>,
}

/// Files that the running configuration depends on.
pub(crate) struct Watching {
    pub watch: Option<FileWatch>,
    /// `run --watch`: a changed file of the configuration is applied.
    pub applies_configuration: bool,
    pub configuration: Watched,
    pub certificates: Vec<PathBuf>,
    /// Of `basic-auth`.
    pub users: Vec<PathBuf>,
}

impl Watching {
    /// Nothing is watched so far.
    pub fn new(applies_configuration: bool) -> Watching {
        Watching {
            watch: None,
            applies_configuration,
            configuration: Watched::default(),
            certificates: Vec::new(),
            users: Vec::new(),
        }
    }
}

/// Why, by what they are for.
#[derive(Debug, Default)]
pub(crate) struct UnfitFiles {
    certificates: Vec<String>,
    users: Vec<String>,
    /// Authorities of clients, and what they have revoked.
    clients: Vec<String>,
}

impl UnfitFiles {
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.certificates.iter().chain(&self.users).chain(&self.clients)
    }
}

impl Control {
    pub fn registry(&self) -> &Arc<Registry> {
        &self.process.registry
    }

    pub(crate) fn state(&self) -> SharedState<'_> {
        SharedState { process: &self.process, tls: &self.tls, names: &self.names, cookie_keys: &self.cookie_keys }
    }

    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.running.configuration
    }

    /// Where state that outlives the process is kept.
    pub fn state_dir(&self) -> &std::path::Path {
        self.tls.state_dir()
    }

    pub fn generation(&self) -> u64 {
        self.running.snapshot.generation
    }

    /// Once a second.
    pub(crate) fn tick(&mut self) {
        let now = Instant::now();
        let traffic = self.registry().traffic();
        if let Some(harm) = self.pending.as_ref().and_then(|pending| pending.judge(now, traffic)) {
            self.take_back(&harm.to_string());
        }
        self.baseline.add(now, traffic);
        if self.store_again_at.is_some_and(|at| now >= at) {
            self.store_again_at = None;
            self.store_sockets();
        }
        let held = |snapshot: &Arc<Snapshot>| Arc::strong_count(snapshot) > 1;
        let (held, free): (Vec<_>, Vec<_>) = std::mem::take(&mut self.superseded).into_iter().partition(held);
        self.superseded = held;
        if !free.is_empty() {
            in_background(move || drop(free));
        }
        if self.lists_end.is_some_and(|end| end <= Timestamp::now()) {
            self.renew_client_trust();
        }
        let running = &self.running.snapshot;
        self.names.look_again(Instant::now(), || without_address(running));
        self.look_at_unused_news();
        self.checkers.look(&self.running.snapshot, &self.process.registry);
        for slot in Stapling::look_after(&mut self.stapling, &self.tls, &self.process) {
            self.issuance.replace_revoked(&slot, &self.tls.obtained);
        }
    }

    /// Certificates that are due, by their files or by their age. Says what it took over and what it could not.
    pub(crate) fn renew_certificates(&mut self) {
        let mut unfit = Vec::new();
        for (site, tls) in self.running.configuration.sites.iter().zip(self.running.certificates.iter()) {
            let Some(tls) = tls else { continue };
            let site = &site.addresses[0];
            let Renewed { renewal, errors } = tls.certificates.renew_if_due(Timestamp::now());
            match renewal {
                Renewal::NotDue => {}
                Renewal::Replaced { not_after } => tracing::info!(%site, %not_after, "a certificate was renewed"),
            }
            for error in errors {
                let help = error.help();
                tracing::error!(%site, error = error.message(), help, "a certificate was not renewed; the one before stays in use");
                let is_taken_at_a_start = matches!(error, CertError::Expired { .. } | CertError::NotYetValid { .. });
                let restart = if is_taken_at_a_start { "serve them" } else { "fail" };
                unfit.push(format!(
                    "the certificate files of {site} do not fit, and a restart would {restart}: {}",
                    error.message()
                ));
            }
        }
        for error in renew_ticket_keys(&self.tls, &mut self.running) {
            tracing::error!(
                error = error.message(),
                help = error.help(),
                "ticket keys were not renewed; those before stay in use"
            );
            unfit.push(format!("the files of `ticket-keys` do not fit, and a restart would fail: {}", error.message()));
        }
        self.unfit.certificates = unfit;
        self.renew_client_trust();
        self.note_drift();
    }

    /// Authorities of clients and their revocation lists. Says what it took over and what it could not.
    fn renew_client_trust(&mut self) {
        let Material { configuration, certificates, .. } = &mut self.running;
        let state = &self.tls;
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
        for (site, tls) in self.running.configuration.sites.iter().zip(self.running.certificates.iter()) {
            let Some(until) = tls.as_ref().and_then(|tls| tls.clients.as_ref()?.lists_until) else { continue };
            let site = &site.addresses[0];
            if until > now {
                self.lists_end = Some(self.lists_end.map_or(until, |end| end.min(until)));
            } else {
                tracing::error!(%site, %until, setting = "client-auth crl", "a revocation list is out of date, and clients are refused until there is a newer one");
            }
        }
    }

    /// Reads the files of users again. Says what it took over and what it could not.
    pub(crate) fn renew_users(&mut self) {
        let process = &self.process;
        let (renewed, faults) = in_background(|| process.user_files.read_again());
        for (file, users) in renewed {
            tracing::info!(file = %file.display(), users, "a file of users was read again");
        }
        for fault in &faults {
            tracing::error!(error = %fault, help = fault.help(), "a file of users was not taken over; the users before stay");
        }
        self.unfit.users = faults.iter().map(ToString::to_string).collect();
        self.note_drift();
    }

    /// Files changed on disk, whatever changed them.
    pub(crate) fn files_changed(&mut self, changed: &[PathBuf]) {
        if changed.iter().any(|path| self.watch.certificates.contains(path)) {
            self.renew_certificates();
            self.renew_upstream_trust();
        }
        if changed.iter().any(|path| self.watch.users.contains(path)) {
            self.renew_users();
        }
        // What was refused before has to be looked at as a whole.
        let is_news = |path: &PathBuf| self.refused.is_some() || !self.is_own_writing(path);
        let is_configuration =
            |path: &PathBuf| !self.watch.certificates.contains(path) && !self.watch.users.contains(path) && is_news(path);
        if self.watch.applies_configuration && changed.iter().any(is_configuration) {
            self.reload(Origin::Watch);
        }
        self.note_drift();
    }

    /// Bundles and client certificates of pools are part of what is compiled: new contents are a new snapshot of the
    /// same generation.
    fn renew_upstream_trust(&mut self) {
        let configuration = self.running.configuration.clone();
        let numbers = self.numbers(self.generation(), self.workers.index_bound());
        let (before, state) = (&self.running, self.state());
        let delta = Delta { pools: Difference::default().widened(configuration.pools.len()), ..Delta::default() };
        match in_background(|| gather(configuration, &delta, Some(before), state, numbers, Timestamp::now())) {
            Ok(material) => {
                if !material.pools_changed.is_empty() {
                    tracing::info!("certificates for upstream servers were renewed");
                    self.workers.change(ChangeParts { snapshot: Some(material.snapshot.clone()), ..ChangeParts::default() });
                    self.supersede(material, &Delta::default());
                }
            }
            Err(fault) => tracing::error!(%fault, "certificates for upstream servers were not renewed; those before stay in use"),
        }
    }

    pub(crate) fn supersede(&mut self, material: Material, delta: &Delta) {
        let mut before = std::mem::replace(&mut self.running, material);
        before.discovered.merge(&std::mem::take(&mut self.running.discovered));
        self.running.discovered = before.discovered;
        let changes = pool_changes(Some(&before.snapshot), &self.running.snapshot, &self.running.pools_changed);
        take_back_into_use(&changes);
        begin_slowly(&changes);
        self.look_after_pools(&changes);
        let now = self.running.configuration.clone();
        if delta.settings || !delta.sites.is_empty() {
            self.configure_cache();
        }
        let is_tls = |site: &Arc<Site>| site.tls.source != TlsSource::Off;
        if delta.settings || delta.listening || delta.sites_of(&before.configuration, &now).any(is_tls) {
            self.follow_certificates();
        }
        self.superseded.push(before.snapshot);
    }

    /// Everything that goes on beside the requests, of all that runs.
    pub(crate) fn look_after_all(&mut self) {
        self.configure_cache();
        let changes = pool_changes(None, &self.running.snapshot, &self.running.pools_changed);
        self.look_after_pools(&changes);
        self.follow_certificates();
    }

    /// Certificates are obtained and stapled, and ticket keys shared, as the configuration that runs wants it.
    fn follow_certificates(&mut self) {
        let configuration = &self.running.configuration;
        Stapling::configure(&self.tls, &self.running);
        self.issuance.follow(configuration, &self.tls, &self.process);
        TicketSharing::follow(&mut self.ticket_sharing, configuration, &self.tls);
    }

    /// Sources of servers are followed, and servers are asked how they are.
    fn look_after_pools(&mut self, changes: &[PoolChange]) {
        let registry = &self.process.registry;
        self.followers.follow(changes, &mut self.running.discovered, registry);
        self.checkers.show(&self.running.snapshot, &self.running.pools_changed, registry);
        self.checkers.follow(changes, registry);
    }

    /// Applies what the process was started with, as it is now.
    pub(crate) fn reload(&mut self, origin: Origin) {
        let by = origin.to_string();
        if self.succession.is_undecided() {
            tracing::info!(by, "a successor is starting with the configuration as it is now; should it fail, it is applied here");
            self.succession.reload_wanted = true;
            return;
        }
        if let Some(pending) = &self.pending {
            tracing::info!(
                by,
                generation = pending.generation,
                "a change waits for its confirmation; the configuration is applied after that"
            );
            self.succession.reload_wanted = true;
            return;
        }
        match self.apply(&Proposal::Source, origin, ApplyOptions::default()) {
            Ok(applied) if applied.changed => {}
            Ok(_) => tracing::info!(by, "the configuration is the same as before"),
            // Logged where it was refused.
            Err(ChangeFault::Configuration(_) | ChangeFault::Start(_) | ChangeFault::AwaitsConfirmation { .. }) => {}
            Err(fault) => tracing::error!(%fault, by, "the configuration was not applied"),
        }
    }

    /// What is to be looked at from now on: after a change of the configuration.
    pub(crate) fn watch_files(&mut self, watched: Watched) {
        let certificates = certificate_files(&self.running.configuration);
        let users = user_files(&self.running.configuration);
        if watched == self.watch.configuration && certificates == self.watch.certificates && users == self.watch.users {
            return;
        }
        let mut files = watched.files.clone();
        files.extend(certificates.iter().chain(&users).cloned());
        files.sort();
        files.dedup();
        let are_certificates_new = certificates != self.watch.certificates;
        self.watch.certificates = certificates;
        let are_users_new = users != self.watch.users;
        self.watch.users = users;
        if let Some(watch) = &self.watch.watch
            && let Err(error) = watch.set_paths(&files, &watched.patterns)
        {
            tracing::error!(%error, "changes of files will not be noticed");
        }
        self.watch.configuration = watched;
        if are_certificates_new && !self.unfit.certificates.is_empty() {
            // What did not fit may be named no more.
            self.renew_certificates();
        } else if are_certificates_new {
            // As with users. One that was revoked in this moment must not be let in for a day.
            self.renew_client_trust();
        }
        if are_users_new {
            // They may have changed between being read and being watched.
            self.renew_users();
        }
    }
}
