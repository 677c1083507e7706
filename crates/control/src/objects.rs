//! What objects of a cluster say is served: who follows them, what they mean at present, and what of that cannot run.
//! How it is taken on is in `object_changes`; what one object means is in `kubernetes`, how the cluster is asked in
//! `cluster`.

use crate::clusters::Clusters;
use crate::held_back::{HeldBack, Unit};
use crate::object_log::ObjectLog;
use crate::obtained_pairs::{KeptPair, ObtainedPairs};
use crate::stopping::OwnEndpoint;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_api::{ClusterWriting, KeptLastGood, KindSeen, KubernetesStatus, ObjectFinding};
use tidegate_cluster::{
    Changes, ClusterFollower, ClusterWriter, Desired, Fault, Key, Kind, KindState, Notice, ObtainedPair, Place, Publish, Scope,
    SnapshotOutcome, SnapshotState, WriterSettings,
};
use tidegate_kubernetes::{Finding, Merged, ObjectReference, ObtainedSecret, Settings, Severity, ToTell, Translation};
use tidegate_model::discover::Namespaces;
use tidegate_model::{Configuration, KubernetesApi};
use tidegate_telemetry::{KubernetesFigures, WritingFigures};

/// Findings that `tidegate status` lists.
const FINDINGS_SHOWN_MAX: usize = 200;

/// Where objects come from, and what holds where they say nothing.
pub struct ObjectSource {
    pub place: Place,
    pub settings: Settings,
    /// Whether each Secret that somebody refers to is watched by its name, and no list of them is asked for.
    pub are_secrets_named: bool,
    /// `None`: nothing is written into the cluster.
    pub writing: Option<Writing>,
    /// The folder for the last objects, with which a process begins while the API server is away.
    pub snapshots: Option<PathBuf>,
    /// How long connections are taken after the cluster has been told that this pod leaves.
    pub leave_after: Duration,
    /// Of this pod, by which it finds itself among the endpoints of its Service.
    pub own_addresses: Vec<IpAddr>,
}

/// Who writes statuses and Events, and what statuses say.
pub struct Writing {
    pub place: Place,
    pub settings: WriterSettings,
    pub publish: Publish,
}

/// Sites and pools that objects ask for, and how that does.
pub struct Objects {
    follower: Arc<ClusterFollower>,
    writer: Option<(ClusterWriter, Publish)>,
    translation: Translation,
    stage: ObjectStage,
    /// What differs and has not been taken in.
    pending: Changes,
    /// When the first of what was taken in and does not run came from the API server.
    arrived: Option<Instant>,
    /// When that is to be taken in.
    due_at: Option<Instant>,
    /// Nothing is taken in before, so that a storm of events takes a part of a core.
    rests_until: Instant,
    held_back: HeldBack,
    /// When what cannot run is tried again.
    try_again_at: Option<Instant>,
    /// What was obtained, where Secrets are to have it.
    pairs: Option<Arc<ObtainedPairs>>,
    /// What the writer was last told that Secrets are to have.
    told_pairs: BTreeMap<Key, ObtainedPair>,
    leave_after: Duration,
    own_addresses: Vec<IpAddr>,
    log: ObjectLog,
    api: Option<KubernetesApi>,
}

/// How far it is known what is to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectStage {
    /// Some kind of objects has not had its whole list.
    Unlisted,
    /// Not every Secret and ConfigMap that is referred to was answered for.
    AwaitsReferences,
    /// Everything is known, and nothing of it runs so far.
    Known,
    Serves,
}

/// All but those that belong to no namespace.
const KINDS_OF_NAMESPACES: &[Kind] = &[Kind::Service, Kind::EndpointSlice, Kind::Ingress, Kind::Secret, Kind::ConfigMap];
const KINDS_OF_NAMESPACES_WITHOUT_SECRETS: &[Kind] = &[Kind::Service, Kind::EndpointSlice, Kind::Ingress, Kind::ConfigMap];
const KINDS_WITHOUT_SECRETS: &[Kind] = &[Kind::Service, Kind::EndpointSlice, Kind::Ingress, Kind::IngressClass, Kind::ConfigMap];

/// Kinds that say what is served, and by whom. Who looks at some namespaces and knows the class by its name has no
/// right to see IngressClasses, and needs none; classes of other controllers are known by their objects alone.
fn kinds(settings: &Settings, are_secrets_named: bool) -> &'static [Kind] {
    let is_class_known = !settings.class_names.is_empty() && settings.controllers.len() <= 1;
    let is_narrow = is_class_known && matches!(settings.cluster.namespaces, Namespaces::Named(_));
    match (is_narrow, are_secrets_named) {
        (false, false) => &Kind::ALL,
        (false, true) => KINDS_WITHOUT_SECRETS,
        (true, false) => KINDS_OF_NAMESPACES,
        (true, true) => KINDS_OF_NAMESPACES_WITHOUT_SECRETS,
    }
}

impl Objects {
    /// Follows the cluster from here on. What is wrong with the place is known now; that nobody answers there is not.
    pub fn start(source: ObjectSource, clusters: &Clusters) -> Result<Objects, Fault> {
        let ObjectSource { place, settings, are_secrets_named, writing, snapshots, leave_after, own_addresses } = source;
        let kinds = kinds(&settings, are_secrets_named);
        let scope = Scope { namespaces: settings.cluster.namespaces.clone(), kinds };
        let follower = clusters.follow_objects(&settings.cluster, place, scope, snapshots)?;
        let start = |Writing { place, settings, publish }| {
            ClusterWriter::start(place, settings, follower.view()).map(|writer| (writer, publish))
        };
        let (writer, api) = (writing.map(start).transpose()?, settings.cluster.api.clone());
        Ok(Objects {
            follower,
            writer,
            translation: Translation::new(settings),
            stage: ObjectStage::Unlisted,
            pending: Changes::default(),
            arrived: None,
            due_at: None,
            rests_until: Instant::now(),
            held_back: HeldBack::default(),
            try_again_at: None,
            pairs: None,
            told_pairs: BTreeMap::new(),
            leave_after,
            own_addresses,
            api,
            log: ObjectLog::default(),
        })
    }

    /// Has statuses and Events say what is served now.
    fn tell(&mut self) {
        let ToTell { findings, served } = self.translation.take_to_tell();
        let Some((writer, publish)) = &self.writer else { return };
        let notice = |finding: &Finding| Notice {
            reason: finding.code.as_str().into(),
            is_warning: true,
            note: format!("{}: {}", finding.field, finding.message),
        };
        let notices = findings.into_iter().map(|object| {
            let notices = self.translation.findings_of(&object).iter().map(notice).collect();
            ((object.kind, object.key), notices)
        });
        let served =
            served.into_iter().map(|key| (self.translation.is_served(&key), key)).map(|(is_served, key)| (key, is_served));
        let addresses = self.follower.cache().published(publish);
        writer.desire(Desired { served: served.collect(), addresses, notices: notices.collect() });
    }

    /// Where the cluster is, for a process that is no pod of it.
    pub fn api(&self) -> Option<&KubernetesApi> {
        self.api.as_ref()
    }

    /// Whether certificates are obtained for what objects ask, so that Secrets are to have them.
    pub fn obtains(&self) -> bool {
        self.translation.obtains()
    }

    pub(crate) fn give_pairs(&mut self, pairs: Arc<ObtainedPairs>) {
        self.pairs = Some(pairs);
    }

    /// Has Secrets that are missing written with what was obtained.
    fn tell_pairs(&mut self) {
        let (Some(pairs), Some((writer, _))) = (&self.pairs, &self.writer) else { return };
        let wanted = self.translation.obtained().filter_map(|ObtainedSecret { secret, name, owner }| {
            let KeptPair { certificate, key } = pairs.of(name)?;
            Some((secret.clone(), ObtainedPair { owner: owner.clone(), certificate, key }))
        });
        let wanted: BTreeMap<Key, ObtainedPair> = wanted.collect();
        if wanted != self.told_pairs {
            self.told_pairs.clone_from(&wanted);
            writer.desire_secrets(wanted);
        }
    }

    /// Writes no more, and lets another process be the one that does.
    pub fn stop_writing(&mut self) {
        if let Some((writer, _)) = self.writer.take() {
            writer.stop();
        }
    }

    pub fn leave_after(&self) -> Duration {
        self.leave_after
    }

    /// What the cluster says of this pod among the endpoints of its Services.
    pub fn own_endpoint(&self) -> OwnEndpoint {
        let cache = self.follower.cache();
        let seen = self.own_addresses.iter().filter_map(|address| cache.is_leaving(*address));
        match seen.max() {
            None => OwnEndpoint::Unseen,
            Some(false) => OwnEndpoint::Taken,
            Some(true) => OwnEndpoint::Leaving,
        }
    }

    /// As `tidegate status` shows it.
    pub fn status(&self, now: Instant) -> KubernetesStatus {
        let kind = |state: KindState| KindSeen {
            kind: state.kind.name().to_owned(),
            objects: state.objects,
            is_listed: state.is_listed,
            heard_seconds_ago: state.heard.map(|at| now.saturating_duration_since(at).as_secs()),
            unreadable: state.unreadable.len(),
            fault: state.fault.map(|fault| fault.to_string()),
        };
        let finding = |(object, finding): (&ObjectReference, &Finding)| ObjectFinding {
            object: object.to_string(),
            field: finding.field.clone(),
            code: finding.code.to_string(),
            message: finding.message.clone(),
            is_error: finding.severity == Severity::Error,
        };
        let kept = |(unit, why): (&Unit, &str)| KeptLastGood { name: unit.to_string(), why: why.to_owned() };
        KubernetesStatus {
            is_served: self.stage == ObjectStage::Serves,
            kinds: self.follower.states().into_iter().map(kind).collect(),
            findings: self.findings().take(FINDINGS_SHOWN_MAX).map(finding).collect(),
            findings_total: self.findings().count(),
            kept: self.held_back.unfit().map(kept).collect(),
            writing: self.writer.as_ref().map(|(writer, _)| seen_of(writer)),
            snapshot: self.follower.snapshot().map(|state| sentence_of(&state)),
        }
    }

    /// Says in the log what is new of how the cluster is followed, and has Secrets written that are missing.
    pub fn say(&mut self) {
        self.log.look(&self.follower, self.writer.as_ref().map(|(writer, _)| writer.state()).as_ref());
        self.tell_pairs();
    }

    /// For metrics.
    pub fn figures(&self, now: Instant) -> KubernetesFigures {
        let states = self.follower.states();
        let silence = |state: &KindState| Some((state.kind.name(), now.saturating_duration_since(state.heard?).as_secs_f64()));
        let mut findings = BTreeMap::new();
        for (_, finding) in self.findings() {
            *findings.entry(finding.code.as_str()).or_default() += 1;
        }
        KubernetesFigures {
            objects: states.iter().map(|state| (state.kind.name(), state.objects)).collect(),
            silence_seconds: states.iter().filter_map(silence).collect(),
            findings,
            kept_last_good: self.held_back.unfit().count(),
            writing: self.writer.as_ref().map(|(writer, _)| {
                let state = writer.state();
                WritingFigures {
                    is_leader: writer.is_leader(),
                    statuses_written: state.statuses_written,
                    statuses_pending: state.statuses_pending,
                    events_written: state.events_written,
                    secrets_written: state.secrets_written,
                    faults: state.status_faults + state.event_faults + state.secret_faults,
                }
            }),
        }
    }

    /// What is wrong with objects, once they are served.
    fn findings(&self) -> impl Iterator<Item = (&ObjectReference, &Finding)> {
        let is_known = self.stage == ObjectStage::Serves;
        is_known.then(|| self.translation.findings()).into_iter().flatten()
    }

    pub fn stage(&self) -> ObjectStage {
        self.stage
    }

    pub fn held_back(&self) -> &HeldBack {
        &self.held_back
    }

    pub fn held_back_mut(&mut self) -> &mut HeldBack {
        &mut self.held_back
    }

    /// Keeps what differs until it is time to take it in.
    pub fn note(&mut self, changes: Changes, now: Instant) {
        if changes.is_of_objects() {
            self.pending.merge(changes);
            self.look_at(now);
        }
    }

    /// Everything is looked at not later than then.
    pub fn look_at(&mut self, at: Instant) {
        let at = at.max(self.rests_until);
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
    }

    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// What cannot run is tried again then, although nothing has changed.
    pub fn try_again_at(&mut self, at: Instant) {
        self.try_again_at = Some(at);
        self.look_at(at);
    }

    pub fn try_again(&mut self, now: Instant) {
        if self.try_again_at.take_if(|at| *at <= now).is_some() {
            self.held_back.forget_unfit();
        }
    }

    pub fn rest_until(&mut self, until: Instant) {
        self.rests_until = until;
        if let Some(due) = &mut self.due_at {
            *due = until.max(*due);
        }
    }

    /// Takes in what differs. False while it is not known as a whole what is to be served.
    pub fn take_in(&mut self, now: Instant) -> bool {
        self.due_at = None;
        if !self.follower.is_whole() {
            return false;
        }
        self.arrived = self.arrived.or(self.follower.take_arrival());
        let mut changes = (self.stage != ObjectStage::Unlisted).then(|| std::mem::take(&mut self.pending));
        self.pending = Changes::default();
        loop {
            let again_at = self.translation.take_in(&self.follower.cache(), changes.as_ref(), now);
            if let Some(at) = again_at {
                self.look_at(at);
            }
            // Of those that a snapshot has something is known as soon as they are wanted, and once only.
            let (came, went) = self.translation.turn_secrets();
            let has_turned = !came.is_empty() || !went.is_empty();
            let secrets = if has_turned { self.follower.turn_secrets(came, went) } else { BTreeSet::new() };
            let config_maps = self.follower.want_config_maps(self.translation.wanted_config_maps().clone());
            if secrets.is_empty() && config_maps.is_empty() {
                break;
            }
            changes = Some(Changes { secrets, config_maps, ..Changes::default() });
        }
        let is_starting = matches!(self.stage, ObjectStage::Unlisted | ObjectStage::AwaitsReferences);
        let has_answered = !is_starting || self.follower.has_answered();
        if is_starting && has_answered {
            // What was answered meanwhile is told of in a moment: nobody is to be ready without it.
            self.translation.take_in(&self.follower.cache(), None, now);
        }
        self.stage = match self.stage {
            ObjectStage::Unlisted | ObjectStage::AwaitsReferences if !has_answered => ObjectStage::AwaitsReferences,
            ObjectStage::Unlisted | ObjectStage::AwaitsReferences | ObjectStage::Known => ObjectStage::Known,
            ObjectStage::Serves => ObjectStage::Serves,
        };
        self.stage != ObjectStage::AwaitsReferences
    }

    /// What is to be added to a configuration of files: nothing until everything is known, and then what objects say,
    /// but for what cannot run.
    pub fn merged(&mut self, of_files: &Configuration) -> Merged {
        match self.stage {
            ObjectStage::Unlisted | ObjectStage::AwaitsReferences => Merged::default(),
            ObjectStage::Known | ObjectStage::Serves => self.held_back.apply(self.translation.merged(of_files)),
        }
    }

    /// What came of it runs. Gives how long that took since the first of it came, but for the start.
    pub fn taken_on(&mut self, merged: Merged) -> Option<Duration> {
        let has_served = self.stage == ObjectStage::Serves;
        if matches!(self.stage, ObjectStage::Known | ObjectStage::Serves) {
            self.stage = ObjectStage::Serves;
            self.tell();
            self.held_back.runs(merged);
        }
        self.arrived.take_if(|_| self.stage == ObjectStage::Serves).filter(|_| has_served).map(|arrived| arrived.elapsed())
    }
}

fn seen_of(writer: &ClusterWriter) -> ClusterWriting {
    let state = writer.state();
    let fault = state.fault().map(ToString::to_string);
    ClusterWriting {
        is_leader: writer.is_leader(),
        holder: state.holder,
        statuses_written: state.statuses_written,
        statuses_pending: state.statuses_pending,
        events_written: state.events_written,
        fault,
    }
}

fn sentence_of(state: &SnapshotState) -> String {
    let begun = match &state.outcome {
        SnapshotOutcome::Unread => "it was not read so far".to_owned(),
        SnapshotOutcome::Absent => "there was none at the start".to_owned(),
        SnapshotOutcome::Ignored(why) => format!("nothing of it was used: it {why}"),
        SnapshotOutcome::Unneeded => "the API server was faster".to_owned(),
        SnapshotOutcome::Taken { objects, as_of } => format!("began with its {objects} objects, as they were at {as_of}"),
    };
    let fault = state.fault.as_ref().map(|fault| format!("; CANNOT BE WRITTEN: {fault}")).unwrap_or_default();
    format!("{begun}; written {} times{fault}", state.writes)
}
