//! The clusters of Kubernetes that pools find servers in, and the one whose objects say what is served. One follower
//! for each, whoever looks there; what differs is told by Service, so that a change of one costs nothing for others.

use crate::discovery::SourceSeen;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tidegate_cluster::{Absence, Changes, ClusterFollower, Fault, Key, Member, Place, Pod, PortReference, Scope};
use tidegate_discovery::Endpoint;
use tidegate_model::discover::{Cluster, KubernetesDiscover, ServicePort};
use tidegate_model::{Discover, Server, TcpAddress};
use tokio::sync::Notify;

/// How often somebody who waits for a first list looks whether it is there.
const LOOK: Duration = Duration::from_millis(5);

/// The followers of all clusters. Clones share them.
#[derive(Clone, Default)]
pub struct Clusters(Arc<Inner>);

#[derive(Default)]
struct Inner {
    followed: Mutex<HashMap<Cluster, Followed>>,
    differs: Arc<Notify>,
    /// What differs of objects that say what is served, and nobody has taken.
    of_objects: Mutex<Changes>,
}

struct Followed {
    since: Instant,
    /// `Err` when it cannot be asked at all.
    follower: Result<Arc<ClusterFollower>, Fault>,
    is_fault_told: bool,
    /// Whether objects say what is served, so that the cluster is followed whatever pools there are.
    has_objects: bool,
}

impl Followed {
    fn fault(&self) -> Option<Fault> {
        match &self.follower {
            Err(fault) => Some(fault.clone()),
            // That an Ingress or a Secret may not be seen is no fault of whoever looks for servers.
            Ok(follower) => follower.cache().fault(Scope::ENDPOINTS).cloned(),
        }
    }
}

impl Clusters {
    /// Follows each cluster in which one of the sources is. The threads have the priority of the caller.
    pub fn begin<'d>(&self, sources: impl Iterator<Item = &'d Discover>) {
        for cluster in sources.filter_map(cluster_of) {
            let mut followed = self.followed();
            if !followed.contains_key(cluster) {
                followed.insert(cluster.clone(), self.follow(cluster));
            }
        }
    }

    fn follow(&self, cluster: &Cluster) -> Followed {
        let place = match &cluster.api {
            Some(api) => Place::outside(api),
            None => Pod::here().map(|pod| Place::of_pod(&pod)),
        };
        let differs = self.0.differs.clone();
        let scope = Scope { namespaces: cluster.namespaces.clone(), kinds: Scope::ENDPOINTS };
        let follower = place.and_then(|place| ClusterFollower::start(place, scope, move || differs.notify_one()));
        Followed { since: Instant::now(), follower: follower.map(Arc::new), is_fault_told: false, has_objects: false }
    }

    /// Follows the cluster whose objects say what is served. Pools that find servers there share the follower.
    pub fn follow_objects(
        &self,
        cluster: &Cluster,
        place: Place,
        scope: Scope,
        snapshots: Option<PathBuf>,
    ) -> Result<Arc<ClusterFollower>, Fault> {
        let differs = self.0.differs.clone();
        let follower = Arc::new(ClusterFollower::start_with(place, scope, snapshots, move || differs.notify_one())?);
        let shared = Ok(follower.clone());
        let followed = Followed { since: Instant::now(), follower: shared, is_fault_told: false, has_objects: true };
        self.followed().insert(cluster.clone(), followed);
        Ok(follower)
    }

    /// Clusters beyond these are followed no more, but for the one whose objects say what is served.
    pub fn keep_only(&self, wanted: &HashSet<&Cluster>) {
        self.followed().retain(|cluster, followed| followed.has_objects || wanted.contains(cluster));
    }

    /// The servers that a pool finds there now, sorted by address. Waits for the first list of a cluster until `limit`
    /// has passed since it is followed. `Err` says why nobody is known.
    pub fn endpoints(&self, wanted: &KubernetesDiscover, limit: Duration) -> Result<Vec<Endpoint>, String> {
        loop {
            let followed = self.followed();
            let Some(Followed { since, follower, .. }) = followed.get(&wanted.cluster) else {
                return Err("the cluster is not followed".to_owned());
            };
            let follower = follower.as_ref().map_err(|fault| format!("the API server {fault}"))?;
            let cache = follower.cache();
            let members = cache.members(&key(wanted), &port(wanted), wanted.zone.as_deref());
            match members {
                Ok(members) => return Ok(members.into_iter().map(|member| endpoint(member, wanted)).collect()),
                Err(Absence::NotListed) if since.elapsed() < limit => {}
                Err(absence) => {
                    let fault = cache.fault(Scope::ENDPOINTS).cloned();
                    return Err(sentence(absence, fault, wanted));
                }
            }
            drop(cache);
            drop(followed);
            std::thread::sleep(LOOK);
        }
    }

    /// How a source does, for who asks.
    pub fn seen(&self, wanted: &KubernetesDiscover) -> SourceSeen {
        let fault =
            || self.followed().get(&wanted.cluster).and_then(Followed::fault).map(|fault| format!("the API server {fault}"));
        match self.endpoints(wanted, Duration::ZERO) {
            Ok(endpoints) => SourceSeen { servers: Some(endpoints.len()), fault: fault() },
            Err(why) => SourceSeen { servers: None, fault: Some(why) },
        }
    }

    /// Whether all of the cluster was known at some time.
    pub fn is_known(&self, cluster: &Cluster) -> bool {
        let followed = self.followed();
        let follower = followed.get(cluster).and_then(|followed| followed.follower.as_ref().ok());
        follower.is_some_and(|follower| follower.is_whole())
    }

    /// Clusters that cannot be followed and could when it was last asked, and those of which the opposite is true.
    pub fn take_faults(&self) -> Vec<(Cluster, Option<Fault>)> {
        let mut news = Vec::new();
        for (cluster, followed) in self.followed().iter_mut() {
            let fault = followed.fault();
            if fault.is_some() != followed.is_fault_told {
                followed.is_fault_told = fault.is_some();
                news.push((cluster.clone(), fault));
            }
        }
        news
    }

    /// Until something differs in one of them.
    pub async fn differs(&self) {
        self.0.differs.notified().await;
    }

    /// Services whose servers differ and which nobody has taken, by cluster. What differs of objects is kept for
    /// [`Clusters::take_object_changes`].
    pub fn take_changes(&self) -> Vec<(Cluster, BTreeSet<Key>)> {
        let followed = self.followed();
        let changes = followed.iter().filter_map(|(cluster, followed)| {
            let mut changes = followed.follower.as_ref().ok()?.take_changes()?;
            let endpoints = std::mem::take(&mut changes.endpoints);
            if followed.has_objects {
                self.of_objects().merge(changes);
            }
            Some((cluster.clone(), endpoints))
        });
        changes.collect()
    }

    /// What differs of objects that say what is served, since it was last taken.
    pub fn take_object_changes(&self) -> Changes {
        std::mem::take(&mut *self.of_objects())
    }

    fn of_objects(&self) -> MutexGuard<'_, Changes> {
        self.0.of_objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<Cluster, Followed>> {
        self.0.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cluster that a source looks at, if it does.
pub fn cluster_of(source: &Discover) -> Option<&Cluster> {
    match source {
        Discover::Kubernetes(wanted) => Some(&wanted.cluster),
        Discover::Dns(_) | Discover::File { .. } | Discover::Docker(_) | Discover::Containers(_) | Discover::Consul(_) => None,
    }
}

/// The Service that a source looks for.
pub fn key(wanted: &KubernetesDiscover) -> Key {
    Key::new(&wanted.namespace, &wanted.service)
}

fn port(wanted: &KubernetesDiscover) -> PortReference {
    match &wanted.port {
        ServicePort::Number(number) => PortReference::Number(*number),
        ServicePort::Name(name) => PortReference::Name(name.as_str().into()),
    }
}

fn endpoint(member: Member, wanted: &KubernetesDiscover) -> Endpoint {
    let Member { addresses, zone, is_leaving } = member;
    // The first of its addresses is what it is known by.
    let first = addresses[0];
    let address = TcpAddress { scheme: wanted.scheme, host: first.ip().to_string(), port: first.port() };
    let addresses = if addresses.len() > 1 { addresses } else { Vec::new() };
    Endpoint { server: Server { zone, ..Server::new(address.into()) }, addresses, is_leaving }
}

fn sentence(absence: Absence, fault: Option<Fault>, wanted: &KubernetesDiscover) -> String {
    let asked = wanted.asked();
    match (absence, fault) {
        (Absence::NotListed | Absence::NoService, Some(fault)) => format!("the API server {fault}"),
        (Absence::NotListed, None) => "the API server has not listed its Services so far".to_owned(),
        (Absence::NoService, None) => format!("there is no Service of {asked}"),
        (Absence::NoPort, _) => format!("the Service of {asked} has no such port over TCP"),
        (Absence::External, _) => {
            format!("the Service of {asked} stands for a name outside of the cluster, which has no endpoints")
        }
    }
}
