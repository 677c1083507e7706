//! What is written into a cluster: statuses of Ingresses and Events, by the one of several processes that has the
//! Lease. What is to be written is decided in `lease`, `statuses` and `events`, which are pure; here is the thread that
//! sends it.

mod bucket;
mod events;
mod forms;
mod lease;
mod pairs;
mod statuses;

pub use events::Notice;
pub use pairs::ObtainedPair;

use crate::client::{Client, Place};
use crate::fault::Fault;
use crate::follower::ClusterView;
use crate::kind::Kind;
use crate::object::Key;
use events::{EventAsk, Events};
use forms::{Change, event_change, lease_change, lease_found, lease_path, status_change, version_after};
use lease::{LeaseAsk, LeaseCourse, LeaseFound};
use pairs::{PairAsk, Pairs, new_secret, secret_patch};
use statuses::{StatusAsk, StatusFound, Statuses};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot, watch};

/// How long an answer about the Lease is waited for: three attempts have room in the time in which it is to be renewed.
const LEASE_ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// How often it is looked whether Secrets still have what was obtained.
const SECRETS_LOOKED_AT_EVERY: Duration = Duration::from_secs(5);
/// How long the end of the process waits for the Lease to be given back. Others wait fifteen seconds otherwise.
const RELEASED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct WriterSettings {
    /// Which Lease decides who writes.
    pub lease: Key,
    /// Of this process, and of no other: the name of its pod.
    pub identity: String,
    /// Who says Events, as `tidegate.dev/ingress`.
    pub controller: String,
}

/// What the cluster is to say of its objects otherwise than before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Desired {
    /// Ingresses that are ours from now on, or no more.
    pub served: BTreeMap<Key, bool>,
    /// Addresses and names that statuses of ours are to have; `None` is not known so far, and leaves them as they are.
    pub addresses: Option<Vec<Box<str>>>,
    /// All that is to be said of an object of which something else is to be said.
    pub notices: BTreeMap<(Kind, Key), Vec<Notice>>,
}

impl Desired {
    fn merge(&mut self, newer: Desired) {
        let Desired { served, addresses, notices } = newer;
        self.served.extend(served);
        self.addresses = addresses;
        self.notices.extend(notices);
    }
}

/// How the writing does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriterState {
    /// Who has the Lease, as far as it is known.
    pub holder: Option<String>,
    /// Why the Lease could not be looked at or changed the last time.
    pub lease_fault: Option<Fault>,
    /// Statuses that are not as they are to be.
    pub statuses_pending: usize,
    pub statuses_written: u64,
    /// Somebody else had changed the object: it is looked at again.
    pub status_conflicts: u64,
    pub status_faults: u64,
    /// Objects and reasons that were never told of.
    pub events_pending: usize,
    pub events_written: u64,
    pub event_faults: u64,
    /// Why the last status could not be written.
    pub status_fault: Option<Fault>,
    /// Why the last Event could not be written.
    pub event_fault: Option<Fault>,
    /// Secrets with certificates that were obtained.
    pub secrets_written: u64,
    pub secret_faults: u64,
    /// Why the last Secret could not be written.
    pub secret_fault: Option<Fault>,
}

impl WriterState {
    /// Why something is not written.
    pub fn fault(&self) -> Option<&Fault> {
        let faults = [&self.lease_fault, &self.status_fault, &self.event_fault, &self.secret_fault];
        faults.into_iter().find_map(Option::as_ref)
    }
}

/// Writes until it is stopped or dropped.
pub struct ClusterWriter {
    shared: Arc<WriterShared>,
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct WriterShared {
    /// What nobody has taken in.
    desired: Mutex<Option<Desired>>,
    is_desired: Notify,
    /// Secrets that are to be written, where nobody has taken that in.
    pairs: Mutex<Option<BTreeMap<Key, ObtainedPair>>>,
    are_pairs_desired: Notify,
    state: Mutex<WriterState>,
    holds_until: Mutex<Option<Instant>>,
}

impl ClusterWriter {
    /// Starts the thread. What the cluster has is looked up in `view`.
    pub fn start(place: Place, settings: WriterSettings, view: ClusterView) -> Result<ClusterWriter, Fault> {
        let client = Client::new(place)?;
        let shared = Arc::<WriterShared>::default();
        let (ends, ended) = oneshot::channel::<()>();
        let no_thread = |error: io::Error| Fault::Unasked { problem: format!("no thread can be started: {error}") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let of_thread = shared.clone();
        let run = move || runtime.block_on(write_until(ended, Writing::new(client, settings, view, of_thread)));
        let thread = thread::Builder::new().name("cluster-writer".to_owned()).spawn(run).map_err(no_thread)?;
        Ok(ClusterWriter { shared, ends: Some(ends), thread: Some(thread) })
    }

    /// What the cluster is to say otherwise from now on. Where somebody else writes instead is noticed by itself.
    pub fn desire(&self, desired: Desired) {
        locked(&self.shared.desired).get_or_insert_default().merge(desired);
        self.shared.is_desired.notify_one();
    }

    /// All Secrets that are to have a certificate that was obtained.
    pub fn desire_secrets(&self, pairs: BTreeMap<Key, ObtainedPair>) {
        *locked(&self.shared.pairs) = Some(pairs);
        self.shared.are_pairs_desired.notify_one();
    }

    /// Whether this process is the one that writes.
    pub fn is_leader(&self) -> bool {
        locked(&self.shared.holds_until).is_some_and(|until| Instant::now() < until)
    }

    pub fn state(&self) -> WriterState {
        locked(&self.shared.state).clone()
    }

    /// Writes no more, and gives the Lease back, within two seconds. Statuses stay: others serve on.
    pub fn stop(mut self) {
        self.ends.take();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing to give back.
            let _ = thread.join();
        }
    }
}

/// Everything that the futures of the thread have in common.
struct Writing {
    client: Client,
    settings: WriterSettings,
    view: ClusterView,
    shared: Arc<WriterShared>,
    course: RefCell<LeaseCourse>,
    statuses: RefCell<Statuses>,
    are_statuses_due: Notify,
    events: RefCell<Events>,
    are_events_due: Notify,
    pairs: RefCell<Pairs>,
    holds_until: watch::Sender<Option<Instant>>,
}

async fn write_until(ended: oneshot::Receiver<()>, writing: Writing) {
    tokio::select! {
        _ = ended => {}
        never = writing.hold_lease() => match never {},
        never = writing.take_desires() => match never {},
        never = writing.take_changes() => match never {},
        never = writing.write_while_leading() => match never {},
    }
    writing.release().await;
}

impl Writing {
    fn new(client: Client, settings: WriterSettings, view: ClusterView, shared: Arc<WriterShared>) -> Writing {
        let course = RefCell::new(LeaseCourse::new(&settings.identity));
        let (statuses, events, pairs) = (RefCell::default(), RefCell::default(), RefCell::default());
        let (are_statuses_due, are_events_due) = (Notify::new(), Notify::new());
        let holds_until = watch::channel(None).0;
        Writing { client, settings, view, shared, course, statuses, are_statuses_due, events, are_events_due, pairs, holds_until }
    }

    async fn hold_lease(&self) -> Infallible {
        loop {
            let ask = self.course.borrow_mut().ask(Instant::now());
            self.tell_standing();
            let fault = match ask {
                LeaseAsk::Rest { until } => {
                    tokio::time::sleep_until(until.into()).await;
                    continue;
                }
                LeaseAsk::Look => match self.look_at_lease().await {
                    Ok(found) => {
                        self.course.borrow_mut().found(found, Instant::now(), rand::random());
                        None
                    }
                    Err(fault) => Some(fault),
                },
                LeaseAsk::Write(write) => {
                    let asked = Instant::now();
                    match self.change_lease(&lease_change(&self.settings.lease, &write, &time_text())).await {
                        Ok(found) => {
                            self.course.borrow_mut().written(found, asked);
                            None
                        }
                        Err(fault) => Some(fault),
                    }
                }
            };
            if let Some(fault) = &fault {
                self.course.borrow_mut().failed(fault, Instant::now());
            }
            locked(&self.shared.state).lease_fault = fault;
        }
    }

    async fn look_at_lease(&self) -> Result<Option<LeaseFound>, Fault> {
        let path = lease_path(&self.settings.lease);
        match self.client.send_within(http::Method::GET, &path, None, LEASE_ANSWERED_WITHIN).await {
            Ok(answer) => lease_found(&answer).map(Some),
            Err(Fault::Missing { .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn change_lease(&self, change: &Change) -> Result<LeaseFound, Fault> {
        let Change { method, path, body } = change;
        let answer = self.client.send_within(method.clone(), path, Some(body), LEASE_ANSWERED_WITHIN).await?;
        lease_found(&answer)
    }

    fn tell_standing(&self) {
        let course = self.course.borrow();
        let until = course.holds_until();
        *locked(&self.shared.holds_until) = until;
        locked(&self.shared.state).holder = course.holder().filter(|holder| !holder.is_empty()).map(str::to_owned);
        self.holds_until.send_if_modified(|known| std::mem::replace(known, until) != until);
    }

    async fn release(&self) {
        let write = self.course.borrow_mut().release(Instant::now());
        self.tell_standing();
        if let Some(write) = write {
            let change = lease_change(&self.settings.lease, &write, &time_text());
            // Without an answer in time it becomes stale by itself.
            let _ = tokio::time::timeout(RELEASED_WITHIN, self.change_lease(&change)).await;
        }
    }

    /// What is desired is taken in by all, so that whoever is the next to write knows what was ours.
    async fn take_desires(&self) -> Infallible {
        let mut turned = BTreeMap::new();
        loop {
            self.shared.is_desired.notified().await;
            let Some(Desired { served, addresses, notices }) = locked(&self.shared.desired).take() else { continue };
            turned.extend(served);
            if let Some(addresses) = addresses {
                let differ = self.statuses.borrow_mut().desire(std::mem::take(&mut turned), addresses.into());
                self.look_at_statuses(differ);
            }
            self.events.borrow_mut().observe(notices, Instant::now());
            self.tell_pending();
            self.are_events_due.notify_one();
        }
    }

    /// What changes in the cluster may have been written by somebody else.
    async fn take_changes(&self) -> Infallible {
        loop {
            let changed = self.view.changed_ingresses().await;
            self.look_at_statuses(changed);
            self.tell_pending();
        }
    }

    async fn write_while_leading(&self) -> Infallible {
        loop {
            self.leads().await;
            let all = self.statuses.borrow().all();
            self.look_at_statuses(all);
            self.events.borrow_mut().begin(Instant::now());
            // A write that is under way when the Lease is lost is broken off.
            tokio::select! {
                biased;
                () = self.leads_no_more() => {}
                never = self.write_statuses() => match never {},
                never = self.write_events() => match never {},
                never = self.write_secrets() => match never {},
            }
        }
    }

    async fn leads(&self) {
        let mut holds_until = self.holds_until.subscribe();
        while holds_until.borrow_and_update().is_none_or(|until| until <= Instant::now()) {
            // The sender is our own.
            let _ = holds_until.changed().await;
        }
    }

    async fn leads_no_more(&self) {
        let mut holds_until = self.holds_until.subscribe();
        loop {
            let Some(until) = *holds_until.borrow_and_update() else { return };
            if until <= Instant::now() {
                return;
            }
            tokio::select! {
                _ = holds_until.changed() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    fn look_at_statuses(&self, keys: impl IntoIterator<Item = Key>) {
        let cache = self.view.cache();
        let find = |key: &Key| {
            let (ingress, version) = cache.ingress(key)?;
            Some(StatusFound { version, addresses: &ingress.addresses })
        };
        self.statuses.borrow_mut().look_at(keys, Instant::now(), find);
        self.are_statuses_due.notify_one();
    }

    fn next_status(&self, now: Instant) -> StatusAsk {
        let cache = self.view.cache();
        let find = |key: &Key| {
            let (ingress, version) = cache.ingress(key)?;
            Some(StatusFound { version, addresses: &ingress.addresses })
        };
        self.statuses.borrow_mut().next(now, find)
    }

    async fn write_statuses(&self) -> Infallible {
        loop {
            let ask = self.next_status(Instant::now());
            self.tell_pending();
            let write = match ask {
                StatusAsk::Write(write) => write,
                StatusAsk::Rest { until } => {
                    rest(Some(until), &self.are_statuses_due).await;
                    continue;
                }
                StatusAsk::Nothing => {
                    rest(None, &self.are_statuses_due).await;
                    continue;
                }
            };
            let Change { method, path, body } = status_change(&write);
            let answer = self.client.send(method, &path, Some(&body)).await;
            let outcome = answer.and_then(|answer| version_after(&answer));
            self.count_status(outcome.as_ref().err());
            self.statuses.borrow_mut().done(write, outcome.as_deref(), Instant::now());
        }
    }

    fn count_status(&self, fault: Option<&Fault>) {
        let mut state = locked(&self.shared.state);
        match fault {
            None => state.statuses_written += 1,
            Some(Fault::Conflict { .. }) => state.status_conflicts += 1,
            Some(_) => state.status_faults += 1,
        }
        state.status_fault = fault.filter(|fault| !matches!(fault, Fault::Conflict { .. })).cloned();
    }

    async fn write_events(&self) -> Infallible {
        loop {
            let uid = |kind: Kind, key: &Key| self.view.cache().uid(kind, key);
            let ask = self.events.borrow_mut().next(Instant::now(), uid);
            self.tell_pending();
            let write = match ask {
                EventAsk::Write(write) => write,
                EventAsk::Rest { until } => {
                    rest(Some(until), &self.are_events_due).await;
                    continue;
                }
                EventAsk::Nothing => {
                    rest(None, &self.are_events_due).await;
                    continue;
                }
            };
            let WriterSettings { controller, identity, .. } = &self.settings;
            let Change { method, path, body } = event_change(&write, controller, identity, &time_text());
            let outcome = self.client.send(method, &path, Some(&body)).await.map(|_| ());
            {
                let mut state = locked(&self.shared.state);
                // A conflict: another process has said it.
                let fault = outcome.as_ref().err().filter(|fault| !matches!(fault, Fault::Conflict { .. }));
                state.events_written += u64::from(outcome.is_ok());
                state.event_faults += u64::from(fault.is_some());
                state.event_fault = fault.cloned();
            }
            self.events.borrow_mut().done(write, outcome.as_ref().copied(), Instant::now());
        }
    }

    async fn write_secrets(&self) -> Infallible {
        loop {
            if let Some(desired) = locked(&self.shared.pairs).take() {
                self.pairs.borrow_mut().desire(desired);
            }
            let ask = self.pairs.borrow().next(Instant::now(), |key| self.view.cache().secret(key));
            let (key, pair) = match ask {
                PairAsk::Write(key, pair) => (key, pair),
                // Somebody may take it away meanwhile.
                PairAsk::Rest { .. } | PairAsk::Nothing => {
                    let until = Instant::now() + SECRETS_LOOKED_AT_EVERY;
                    rest(Some(until), &self.shared.are_pairs_desired).await;
                    continue;
                }
            };
            let outcome = self.write_secret(&key, &pair).await;
            {
                let mut state = locked(&self.shared.state);
                match &outcome {
                    Ok(is_written) => {
                        state.secrets_written += u64::from(*is_written);
                        state.secret_fault = None;
                    }
                    Err(fault) => {
                        state.secret_faults += 1;
                        state.secret_fault = Some(fault.clone());
                    }
                }
            }
            self.pairs.borrow_mut().done(key, outcome.is_ok(), Instant::now());
        }
    }

    /// Whether anything was written: who has made the Secret meanwhile keeps it.
    async fn write_secret(&self, key: &Key, pair: &ObtainedPair) -> Result<bool, Fault> {
        let collection = Kind::Secret.path(Some(&key.namespace));
        let path = format!("{collection}/{}", key.name);
        match self.client.send(http::Method::GET, &path, None).await {
            Err(Fault::Missing { .. }) => {
                let uid = self.view.cache().uid(Kind::Ingress, &pair.owner).unwrap_or_default();
                let outcome = self.client.send(http::Method::POST, &collection, Some(&new_secret(key, pair, &uid))).await;
                match outcome {
                    Ok(_) => Ok(true),
                    Err(Fault::Conflict { .. }) => Ok(false),
                    Err(fault) => Err(fault),
                }
            }
            Err(fault) => Err(fault),
            Ok(found) => {
                let found = serde_json::from_slice(&found);
                // What stands in it is not repeated.
                let found = found.map_err(|_| Fault::Unreadable { problem: format!("the Secret {key} is no JSON") })?;
                match secret_patch(&found, pair) {
                    None => Ok(false),
                    Some(patch) => self.client.send(http::Method::PATCH, &path, Some(&patch)).await.map(|_| true),
                }
            }
        }
    }

    fn tell_pending(&self) {
        let mut state = locked(&self.shared.state);
        state.statuses_pending = self.statuses.borrow().pending();
        state.events_pending = self.events.borrow().pending();
    }
}

async fn rest(until: Option<Instant>, is_due: &Notify) {
    match until {
        Some(until) => {
            tokio::select! {
                () = is_due.notified() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
        None => is_due.notified().await,
    }
}

/// Kubernetes' `MicroTime`.
fn time_text() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
