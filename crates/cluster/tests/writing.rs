//! What is written into a cluster, and by whom: against an API server that is emulated at the wire.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tidegate_cluster::{
    ClusterFollower, ClusterWriter, Desired, Fault, Key, Kind, Notice, Place, Publish, Scope, Token, WriterSettings, WriterState,
};
use tidegate_model::Secret;
use tidegate_model::discover::Namespaces;
use tidegate_outbound::Trust;
use tidegate_testkit::kubernetes::{ApiServer, TOKEN};

/// Far beyond any pause; a test that needs so long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

fn place(server: &ApiServer) -> Place {
    Place { url: server.url(), trust: Trust::System, identity: None, token: Token::Fixed(Secret::new(TOKEN)) }
}

fn ingress(name: &str) -> serde_json::Value {
    serde_json::json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": "shop"}, "spec": {"ingressClassName": "edge"}})
}

fn lease() -> serde_json::Value {
    serde_json::json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "tidegate-edge", "namespace": "edge"}})
}

fn notice(name: &str, note: &str) -> ((Kind, Key), Notice) {
    let notice = Notice { reason: "PathInvalid".into(), is_warning: true, note: note.to_owned() };
    ((Kind::Ingress, Key::new("shop", name)), notice)
}

/// One process that follows and writes.
struct Replica {
    follower: ClusterFollower,
    writer: ClusterWriter,
    /// What was said to be served, and of what something was said.
    served: RefCell<BTreeSet<Key>>,
    told: RefCell<BTreeSet<(Kind, Key)>>,
}

impl Replica {
    fn start(server: &ApiServer, identity: &str) -> Replica {
        let scope = Scope { namespaces: Namespaces::All, kinds: &[Kind::Ingress, Kind::Service] };
        let follower = ClusterFollower::start(place(server), scope, || {}).expect("a follower");
        until(|| follower.is_whole(), || "no list".to_owned());
        let lease = Key::new("edge", "tidegate-edge");
        let settings = WriterSettings { lease, identity: identity.to_owned(), controller: "tidegate.dev/ingress".to_owned() };
        let writer = ClusterWriter::start(place(server), settings, follower.view()).expect("a writer");
        Replica { follower, writer, served: RefCell::default(), told: RefCell::default() }
    }

    fn leading(server: &ApiServer, identity: &str) -> Replica {
        let replica = Replica::start(server, identity);
        until(|| replica.writer.is_leader(), || format!("{:?}", replica.writer.state()));
        replica
    }

    fn desire(&self, served: &[&str], addresses: &[&str]) {
        self.desire_with(served, addresses, Vec::new());
    }

    /// Desires these and no others.
    fn desire_with(&self, served: &[&str], addresses: &[&str], notices: Vec<((Kind, Key), Notice)>) {
        let served: BTreeSet<Key> = served.iter().map(|name| Key::new("shop", name)).collect();
        let before = self.served.replace(served.clone());
        let no_more = before.into_iter().map(|key| (key, false));
        let mut told: BTreeMap<_, Vec<Notice>> = self.told.take().into_iter().map(|object| (object, Vec::new())).collect();
        for (object, notice) in notices {
            told.entry(object).or_default().push(notice);
        }
        self.told.replace(told.keys().cloned().collect());
        let addresses = Some(addresses.iter().map(|address| Box::from(*address)).collect());
        let served = no_more.chain(served.into_iter().map(|key| (key, true))).collect();
        self.writer.desire(Desired { served, addresses, notices: told });
    }

    /// Until the watch has told what was written, and nothing is left to be.
    fn settles(&self, name: &str, addresses: &[&str]) {
        let there = || -> Vec<String> {
            let cache = self.follower.cache();
            let found = cache.ingress(&Key::new("shop", name)).map(|(ingress, _)| ingress.addresses.clone());
            found.iter().flatten().map(ToString::to_string).collect()
        };
        until(
            || there() == addresses && self.writer.state().statuses_pending == 0,
            || format!("{:?} {:?}", there(), self.writer.state()),
        );
    }
}

fn until(mut condition: impl FnMut() -> bool, seen: impl Fn() -> String) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "after {PATIENCE:?}: {}", seen());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Changes but for those of the Lease.
fn written(server: &ApiServer) -> Vec<String> {
    server.writes().into_iter().map(|write| write.what).filter(|what| !what.contains(" leases ")).collect()
}

#[test]
fn statuses_of_ours_are_written_once_and_no_others() {
    let server = ApiServer::start().expect("a server");
    for name in ["web", "api", "other"] {
        server.put(ingress(name));
    }
    let replica = Replica::leading(&server, "a");
    replica.desire(&["web", "api"], &["203.0.113.1", "lb.example"]);
    replica.settles("web", &["203.0.113.1", "lb.example"]);
    replica.settles("api", &["203.0.113.1", "lb.example"]);
    assert_eq!(written(&server), ["patch ingresses/status shop/api", "patch ingresses/status shop/web"]);
    let web = server.get(&ingress("web")).expect("it is there");
    let entries = serde_json::json!([{"ip": "203.0.113.1"}, {"hostname": "lb.example"}]);
    assert_eq!((&web["status"]["loadBalancer"]["ingress"], &web["spec"]["ingressClassName"]), (&entries, &"edge".into()));
    // Somebody else writes there.
    let mut other = web.clone();
    other["status"]["loadBalancer"]["ingress"] = serde_json::json!([{"ip": "198.51.100.1"}]);
    server.put(other);
    until(|| written(&server).len() == 3, || format!("{:?}", written(&server)));
    // Before that the cache may still have what was there before both writes.
    replica.settles("web", &["203.0.113.1", "lb.example"]);
    // Ours no more.
    replica.desire(&["api"], &["203.0.113.1", "lb.example"]);
    replica.settles("web", &[]);
    assert_eq!(server.get(&ingress("web")).expect("it is there")["status"]["loadBalancer"], serde_json::json!({}));
    assert_eq!(written(&server).len(), 4);
}

#[test]
fn one_of_several_writes_and_the_next_writes_nothing_that_is_right() {
    let server = ApiServer::start().expect("a server");
    server.put(ingress("web"));
    let first = Replica::leading(&server, "a");
    let second = Replica::start(&server, "b");
    until(|| second.writer.state().holder.as_deref() == Some("a"), || format!("{:?}", second.writer.state()));
    let notices = || vec![notice("web", "the path is none")];
    for replica in [&first, &second] {
        replica.desire_with(&["web"], &["203.0.113.1"], notices());
    }
    first.settles("web", &["203.0.113.1"]);
    until(|| written(&server).len() == 2, || format!("{:?}", written(&server)));
    assert!(!second.writer.is_leader());
    first.writer.stop();
    let is_given_back = |lease: &serde_json::Value| lease["spec"].is_object() && lease["spec"]["holderIdentity"].is_null();
    assert!(server.writes().iter().any(|write| is_given_back(&write.body)), "{:?}", server.writes());
    until(|| second.writer.is_leader(), || format!("{:?}", second.writer.state()));
    assert_eq!(server.get(&lease()).expect("a Lease")["spec"]["leaseTransitions"], 1);
    second.desire_with(&["web"], &["203.0.113.1"], notices());
    until(|| second.writer.state().events_pending == 0, || format!("{:?}", second.writer.state()));
    second.settles("web", &["203.0.113.1"]);
    assert_eq!(written(&server).len(), 2, "{:?}", written(&server));
    // What was ours when another one wrote is known to the next.
    second.desire(&[], &["203.0.113.1"]);
    second.settles("web", &[]);
}

#[test]
fn who_loses_the_lease_stops_at_once() {
    let server = ApiServer::start().expect("a server");
    server.put(ingress("web"));
    let replica = Replica::leading(&server, "a");
    replica.desire(&["web"], &["203.0.113.1"]);
    replica.settles("web", &["203.0.113.1"]);
    let mut taken = server.get(&lease()).expect("a Lease");
    taken["spec"]["holderIdentity"] = "b".into();
    server.put(taken);
    until(|| !replica.writer.is_leader(), || format!("{:?}", replica.writer.state()));
    replica.desire(&["web"], &["203.0.113.2"]);
    until(|| replica.writer.state().statuses_pending == 1, || format!("{:?}", replica.writer.state()));
    until(|| replica.writer.state().holder.as_deref() == Some("b"), || format!("{:?}", replica.writer.state()));
    assert_eq!(written(&server).len(), 1);
    replica.writer.stop();
    assert_eq!(server.get(&lease()).expect("a Lease")["spec"]["holderIdentity"], "b", "it is not ours to give back");
}

#[test]
fn labels_that_somebody_puts_on_the_lease_stay_and_it_stays_ours() {
    let server = ApiServer::start().expect("a server");
    let replica = Replica::leading(&server, "a");
    let mut labelled = server.get(&lease()).expect("a Lease");
    labelled["metadata"]["labels"] = serde_json::json!({"team": "edge"});
    let version = server.put(labelled);
    let is_renewed = |lease: &serde_json::Value| {
        lease["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).is_some_and(|now: u64| now > version)
    };
    until(|| server.get(&lease()).is_some_and(|lease| is_renewed(&lease)), || format!("{:?}", server.get(&lease())));
    let renewed = server.get(&lease()).expect("a Lease");
    assert_eq!((&renewed["spec"]["holderIdentity"], &renewed["metadata"]["labels"]["team"]), (&"a".into(), &"edge".into()));
    assert_eq!(renewed["spec"]["leaseTransitions"], 0);
    drop(replica);
}

#[test]
fn a_conflict_is_looked_at_again_and_a_refusal_is_told() {
    let server = ApiServer::start().expect("a server");
    server.put(ingress("web"));
    server.put(ingress("shut"));
    server.refuse("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web/status", 409, Some(1), None);
    server.refuse("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/shut/status", 403, None, None);
    let replica = Replica::leading(&server, "a");
    replica.desire(&["web", "shut"], &["203.0.113.1"]);
    let has_ended = |state: &WriterState| state.statuses_written > 0 && state.status_faults > 0;
    until(|| has_ended(&replica.writer.state()), || format!("{:?}", replica.writer.state()));
    let state = replica.writer.state();
    assert_eq!((state.status_conflicts, state.statuses_written, state.status_faults > 0), (1, 1, true));
    assert_eq!(written(&server), ["patch ingresses/status shop/web"]);
    assert_eq!(state.statuses_pending, 1, "the other is tried again");
}

#[test]
fn an_event_says_what_is_wrong_with_which_object() {
    let server = ApiServer::start().expect("a server");
    server.put(ingress("web"));
    let replica = Replica::leading(&server, "a");
    for _ in 0..3 {
        replica.desire_with(&["web"], &[], vec![notice("web", "the path is none"), notice("gone", "it is not there")]);
    }
    until(|| replica.writer.state().events_written == 1, || format!("{:?}", replica.writer.state()));
    let writes = server.writes();
    let event = &writes.iter().find(|write| write.what.starts_with("create events shop/web.")).expect("an Event").body;
    let uid = server.get(&ingress("web")).expect("it is there")["metadata"]["uid"].clone();
    let regarding = serde_json::json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "namespace": "shop",
        "name": "web", "uid": uid});
    assert_eq!((&event["regarding"], &event["reason"]), (&regarding, &"PathInvalid".into()));
    assert_eq!((&event["note"], &event["type"]), (&"the path is none".into(), &"Warning".into()));
    assert_eq!((&event["reportingController"], &event["reportingInstance"]), (&"tidegate.dev/ingress".into(), &"a".into()));
}

#[test]
fn addresses_are_those_of_the_service_in_front() {
    let server = ApiServer::start().expect("a server");
    let mut service = serde_json::json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "edge", "name": "tidegate"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 443}]}});
    server.put(service.clone());
    let replica = Replica::start(&server, "a");
    let publish = Publish::Service(Key::new("edge", "tidegate"));
    let published = || replica.follower.cache().published(&publish);
    assert_eq!(published(), None, "it has none so far");
    service["status"] = serde_json::json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}});
    server.put(service);
    until(|| published() == Some(vec!["203.0.113.1".into()]), || format!("{:?}", published()));
    let given = Publish::Addresses(vec!["lb.example".into()]);
    assert_eq!(replica.follower.cache().published(&given), Some(vec!["lb.example".into()]));
    assert_eq!(replica.follower.cache().published(&Publish::Nothing), None);
}

#[test]
fn a_server_that_does_not_give_the_lease_is_told_of_and_nothing_is_written() {
    let server = ApiServer::start().expect("a server");
    server.put(ingress("web"));
    server.forbid("get", "leases", None);
    let replica = Replica::start(&server, "a");
    replica.desire(&["web"], &["203.0.113.1"]);
    let is_told = || matches!(replica.writer.state().lease_fault, Some(Fault::Forbidden { .. }));
    until(is_told, || format!("{:?}", replica.writer.state()));
    assert!(!replica.writer.is_leader());
    assert_eq!(written(&server), [""; 0]);
    server.relent();
    replica.settles("web", &["203.0.113.1"]);
    assert_eq!(replica.writer.state().lease_fault, None);
}
