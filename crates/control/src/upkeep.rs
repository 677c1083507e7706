//! What goes on beside the requests for what runs: sources and names are followed, servers asked, certificates obtained
//! and stapled, tables that nobody holds freed. Everything that replaces what runs ends in `supersede`.

use crate::background::in_background;
use crate::control::Control;
use crate::key_fetching::KeyFetching;
use crate::map_rows::MapRows;
use crate::material::Material;
use crate::oidc::LogInThread;
use crate::pools::{PoolChange, begin_slowly, pool_changes, take_back_into_use};
use crate::shared_tickets::TicketSharing;
use crate::stapling::Stapling;
use std::sync::Arc;
use tidegate_model::{Delta, Site, TlsSource};
use tidegate_proxy::snapshot::Snapshot;

impl Control {
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
            KeyFetching::look_after(&mut self.key_fetching, &self.process);
            self.follow_log_ins();
        }
        let is_tls = |site: &Arc<Site>| site.tls.source != TlsSource::Off;
        if delta.settings {
            self.follow_map_rows();
        }
        if delta.settings || delta.listening || delta.sites_of(&before.configuration, &now).any(is_tls) {
            self.follow_certificates();
        }
        self.superseded.push(before.snapshot);
    }

    /// What goes on beside the requests, of all that runs, except certificates.
    pub(crate) fn look_after_all(&mut self) {
        self.configure_cache();
        let changes = pool_changes(None, &self.running.snapshot, &self.running.pools_changed);
        self.look_after_pools(&changes);
        self.follow_map_rows();
        self.follow_log_ins();
    }

    /// Rows that are changed while it runs are kept, and looked for.
    fn follow_map_rows(&mut self) {
        let state_dir = self.state_dir().to_owned();
        MapRows::follow(&mut self.map_rows, &self.running.configuration, state_dir, &self.process);
    }

    /// Providers of log-ins are asked, and what is kept of sessions is read.
    pub(crate) fn follow_log_ins(&mut self) {
        let state_dir = self.state_dir().to_owned();
        LogInThread::look_after(&mut self.log_ins, &self.process, &self.running.configuration.storage, &state_dir);
    }

    /// Certificates are obtained and stapled, and ticket keys shared, as the configuration that runs wants it.
    pub(crate) fn follow_certificates(&mut self) {
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

    /// Frees the snapshots that no worker holds any more, in a thread of low priority: it takes milliseconds when there
    /// are ten thousand sites.
    pub(crate) fn free_superseded(&mut self) {
        let held = |snapshot: &Arc<Snapshot>| Arc::strong_count(snapshot) > 1;
        let (held, free): (Vec<_>, Vec<_>) = std::mem::take(&mut self.superseded).into_iter().partition(held);
        self.superseded = held;
        if !free.is_empty() {
            in_background(move || drop(free));
        }
    }
}
