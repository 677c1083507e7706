//! What the process is told to do with its configuration: read it again, keep it, take it back. By a signal, by a file
//! that changed, by the API, or by what the change did to the traffic. How it is done is in `change`.

use crate::applying::{ApplyOptions, ChangeFault};
use crate::control::Control;
use crate::generations::Origin;
use crate::source::Proposal;
use std::path::PathBuf;
use std::time::Instant;
use tidegate_telemetry::ChangeResult;

impl Control {
    /// Applies what the process was started with, as it is now.
    pub(crate) fn reload(&mut self, origin: Origin) {
        let by = origin.to_string();
        if self.succession.is_undecided() {
            tracing::info!(by, "a successor is starting with the configuration as it is now; should it fail, it is applied here");
            self.succession.reload_wanted = true;
            return;
        }
        if let Some(pending) = &self.confirmation.pending {
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

    /// Files changed on disk, whatever changed them.
    pub(crate) fn files_changed(&mut self, changed: &[PathBuf]) {
        if changed.iter().any(|path| self.watch.certificates.contains(path)) {
            self.renew_certificates();
            self.renew_upstream_trust();
        }
        if changed.iter().any(|path| self.watch.users.contains(path)) {
            self.renew_users();
        }
        if changed.iter().any(|path| self.watch.maps.contains(path)) {
            self.renew_maps();
        }
        if changed.iter().any(|path| self.watch.geo.contains(path)) {
            self.renew_databases();
        }
        // What was refused before has to be looked at as a whole.
        let is_news = |path: &PathBuf| self.history.refused.is_some() || !self.history.is_own_writing(path);
        let named = [&self.watch.certificates, &self.watch.users, &self.watch.maps, &self.watch.geo];
        let is_configuration = |path: &PathBuf| !named.iter().any(|files| files.contains(path)) && is_news(path);
        if self.watch.applies_configuration && changed.iter().any(is_configuration) {
            self.reload(Origin::Watch);
        }
        self.note_drift(&[]);
    }

    /// Keeps the change that waits for it.
    pub fn confirm(&mut self) -> Result<u64, ChangeFault> {
        let pending = self.confirmation.pending.take().ok_or(ChangeFault::NothingToConfirm)?;
        tracing::info!(generation = pending.generation, "configuration confirmed");
        if std::mem::take(&mut self.succession.reload_wanted) {
            self.reload(Origin::Signal);
        }
        Ok(pending.generation)
    }

    /// Once a second: whether the change that waits for its confirmation does harm.
    pub(crate) fn judge_pending(&mut self) {
        let (now, traffic) = (Instant::now(), self.registry().traffic());
        if let Some(harm) = self.confirmation.pending.as_ref().and_then(|pending| pending.judge(now, traffic)) {
            self.take_back(&harm.to_string());
        }
        self.confirmation.baseline.add(now, traffic);
    }

    /// A change that was to be confirmed did harm, or nobody confirmed it.
    fn take_back(&mut self, why: &str) {
        let Some(pending) = &self.confirmation.pending else { return };
        let (from, back_to) = (pending.generation, pending.back_to);
        tracing::warn!(generation = from, back_to, why, "the configuration is taken back");
        match self.roll_back(Some(back_to), why) {
            Ok(_) => self.process.registry.configuration().note(ChangeResult::RolledBack),
            // Another process is about to take over, or to fail to. It is looked at again in a second.
            Err(ChangeFault::Leaving) => {}
            Err(fault) => {
                tracing::error!(%fault, "the configuration before does not run any more; the new one stays");
                self.confirmation.pending = None;
            }
        }
    }
}
