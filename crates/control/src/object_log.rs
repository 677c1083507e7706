//! What the log says of how the objects of a cluster are followed, and written: each fault once, and once that it is
//! over. The same, as it is now, stands in `tidegate status`. Of Services and their servers `discovery` says so, as of
//! every other source of servers.

use std::collections::BTreeSet;
use tidegate_cluster::{ClusterFollower, Fault, Kind, KindState, Scope, SnapshotOutcome, WriterState};

/// What was said so far.
#[derive(Debug, Default)]
pub struct ObjectLog {
    shut: BTreeSet<Kind>,
    unheard: BTreeSet<Kind>,
    are_secrets_forbidden: bool,
    are_config_maps_forbidden: bool,
    /// What may not be written.
    unwritten: BTreeSet<&'static str>,
    outcome: SnapshotOutcome,
    snapshot_fault: Option<String>,
}

impl ObjectLog {
    /// Says what is new; `writer` is how the writing does, where something is to be written.
    pub fn look(&mut self, follower: &ClusterFollower, writer: Option<&WriterState>) {
        let mut states = follower.states();
        states.retain(|state| !Scope::ENDPOINTS.contains(&state.kind));
        self.look_at_kinds(&states);
        self.look_at_secrets(follower);
        self.look_at_config_maps(follower);
        self.look_at_snapshot(follower);
        if let Some(state) = writer {
            self.look_at_writing(state);
        }
    }

    /// Rights alone: what else goes wrong with a write is tried again within a moment, and counted.
    fn look_at_writing(&mut self, state: &WriterState) {
        let WriterState { lease_fault, status_fault, event_fault, .. } = state;
        let lease = "the Lease may not be had, so another process has to write statuses and Events";
        let all = [(lease, lease_fault), ("statuses of Ingresses may not be written", status_fault)];
        for (what, fault) in all.into_iter().chain([("Events may not be written", event_fault)]) {
            match fault {
                Some(fault @ (Fault::Forbidden { .. } | Fault::Unauthorized { .. })) => {
                    if self.unwritten.insert(what) {
                        tracing::warn!(fault = format!("the API server {fault}"), "{what}: nothing else is the worse for it");
                    }
                }
                None if self.unwritten.remove(what) => tracing::info!("no longer: {what}"),
                Some(_) | None => {}
            }
        }
    }

    fn look_at_kinds(&mut self, states: &[KindState]) {
        let of =
            |is_so: &dyn Fn(&KindState) -> bool| states.iter().filter(|state| is_so(state)).map(|state| state.kind).collect();
        let shut: BTreeSet<Kind> = of(&|state| state.is_closed);
        let unheard: BTreeSet<Kind> = of(&|state| state.fault.is_some() && !state.is_closed);
        let fault = |kinds: &[Kind]| {
            let fault = states.iter().find(|state| kinds.contains(&state.kind)).and_then(|state| state.fault.as_ref());
            fault.map(|fault| format!("the API server {fault}")).unwrap_or_default()
        };
        if let Some((kinds, names)) = newly(&self.shut, &shut) {
            let fault = fault(&kinds);
            let what = "what was known of them stays, else there are none; they are asked for again, every ten seconds at least";
            tracing::warn!(kinds = names, fault, "objects of the cluster may not be seen, or are of no kind that it has: {what}");
        }
        if let Some((kinds, names)) = newly(&self.unheard, &unheard) {
            let fault = fault(&kinds);
            tracing::warn!(kinds = names, fault, "objects of the cluster are not heard of: what was known of them stays");
        }
        let (silent, were_silent) = (&shut | &unheard, &self.shut | &self.unheard);
        if let Some((_, names)) = newly(&silent, &were_silent) {
            tracing::info!(kinds = names, "objects of the cluster are heard of again");
        }
        (self.shut, self.unheard) = (shut, unheard);
    }

    fn look_at_secrets(&mut self, follower: &ClusterFollower) {
        let forbidden = follower.cache().forbidden_secrets();
        match &forbidden {
            Some((secrets, key, fault)) if !self.are_secrets_forbidden => {
                let (secret, fault) = (key.to_string(), format!("the API server {fault}"));
                let what = "what they protect is shut, and HTTPS goes without them; they are asked for again every minute";
                tracing::warn!(secrets, secret, fault, "Secrets that objects refer to may not be fetched: {what}");
            }
            None if self.are_secrets_forbidden => tracing::info!("all Secrets that objects refer to may be fetched again"),
            Some(_) | None => {}
        }
        self.are_secrets_forbidden = forbidden.is_some();
    }

    fn look_at_config_maps(&mut self, follower: &ClusterFollower) {
        let forbidden = follower.cache().forbidden_config_maps();
        match &forbidden {
            Some((maps, key, fault)) if !self.are_config_maps_forbidden => {
                let (map, fault) = (key.to_string(), format!("the API server {fault}"));
                let what = "what they say is shut or left out; they are asked for again every minute";
                tracing::warn!(maps, map, fault, "ConfigMaps that are referred to may not be fetched: {what}");
            }
            None if self.are_config_maps_forbidden => tracing::info!("all ConfigMaps that are referred to may be fetched again"),
            Some(_) | None => {}
        }
        self.are_config_maps_forbidden = forbidden.is_some();
    }

    fn look_at_snapshot(&mut self, follower: &ClusterFollower) {
        let Some(state) = follower.snapshot() else { return };
        if state.outcome != self.outcome {
            match &state.outcome {
                SnapshotOutcome::Ignored(why) => tracing::warn!("nothing of the snapshot of the cluster is used: it {why}"),
                SnapshotOutcome::Taken { objects, as_of } => {
                    tracing::warn!(
                        objects,
                        as_of,
                        "begins with the snapshot of the cluster, since the API server does not answer"
                    );
                }
                SnapshotOutcome::Unread | SnapshotOutcome::Absent | SnapshotOutcome::Unneeded => {}
            }
            self.outcome = state.outcome;
        }
        if state.fault != self.snapshot_fault {
            match &state.fault {
                Some(why) => tracing::warn!("the snapshot of the cluster {why}"),
                None => tracing::info!("the snapshot of the cluster is written again"),
            }
            self.snapshot_fault = state.fault;
        }
    }
}

/// Kinds that are among these now and were not before, with their names; `None` where there are none.
fn newly(before: &BTreeSet<Kind>, now: &BTreeSet<Kind>) -> Option<(Vec<Kind>, String)> {
    let kinds: Vec<Kind> = now.difference(before).copied().collect();
    let names = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    (!kinds.is_empty()).then_some((kinds, names))
}
