//! Which files are looked at, and what becomes of one that changed: certificates, trust and users are read again at
//! once. A changed file of the configuration is a change like any other, which `orders` makes.

use crate::background::in_background;
use crate::compile::gather;
use crate::control::Control;
use crate::map_files::map_files;
use crate::named_files::{certificate_files, user_files};
use crate::source::WatchedFiles;
use crate::workers::ChangeParts;
use jiff::Timestamp;
use tidegate_model::{Delta, Difference};

impl Control {
    /// What is to be looked at from now on: after a change of the configuration.
    pub(crate) fn watch_files(&mut self, watched: WatchedFiles) {
        let certificates = certificate_files(&self.running.configuration);
        let users = user_files(&self.running.configuration);
        let maps = map_files(&self.running.configuration);
        let geo = self.running.configuration.geoip.files.clone();
        let are_files_same = (&certificates, &users) == (&self.watch.certificates, &self.watch.users);
        let are_files_same = are_files_same && (&maps, &geo) == (&self.watch.maps, &self.watch.geo);
        if watched == self.watch.configuration && are_files_same {
            return;
        }
        let mut files = watched.files.clone();
        files.extend(certificates.iter().chain(&users).chain(&maps).chain(&geo).cloned());
        files.sort();
        files.dedup();
        let are_certificates_new = certificates != self.watch.certificates;
        self.watch.certificates = certificates;
        let are_users_new = users != self.watch.users;
        self.watch.users = users;
        let are_maps_new = maps != self.watch.maps;
        self.watch.maps = maps;
        let are_databases_new = geo != self.watch.geo;
        self.watch.geo = geo;
        if let Some(watch) = &self.watch.watch
            && let Err(error) = watch.set_paths(&files, &watched.patterns)
        {
            tracing::error!(%error, "changes of files will not be noticed");
        }
        self.watch.configuration = watched;
        if are_certificates_new && !self.renewals.unfit.certificates.is_empty() {
            // What did not fit may be named no more.
            self.renew_certificates();
        } else if are_certificates_new {
            // As with users. One that was revoked in this moment must not be let in for a day.
            self.renewals.renew_client_trust(&mut self.running, &self.tls);
        }
        if are_users_new {
            // Users may have changed between being read and being watched.
            self.renew_users();
        }
        if are_maps_new {
            self.renew_maps();
        }
        if are_databases_new {
            self.renew_databases();
        }
    }

    /// Everything that files hold and that is due.
    pub(crate) fn renew_files(&mut self) {
        self.renew_certificates();
        self.renew_users();
        self.renew_maps();
        self.renew_databases();
    }

    /// Certificates that are due, by their files or by their age.
    pub(crate) fn renew_certificates(&mut self) {
        self.renewals.renew_certificates(&mut self.running, &self.tls);
        self.note_drift(&[]);
    }

    /// Reads the files of users again.
    pub(crate) fn renew_users(&mut self) {
        self.renewals.renew_users(&self.process);
        self.note_drift(&[]);
    }

    /// Bundles and client certificates of pools are part of what is compiled: new contents are a new snapshot of the
    /// same generation.
    pub(crate) fn renew_upstream_trust(&mut self) {
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
}
