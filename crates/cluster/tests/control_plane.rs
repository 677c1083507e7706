//! What is read and written, with the real API server of Kubernetes, which `cargo xtask kubernetes build` has built,
//! and an account with exactly the rights of the program. Where nothing is built, this says so and passes.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tidegate_cluster::{
    ClusterFollower, ClusterWriter, Desired, Key, Kind, Kubeconfig, Notice, Place, Scope, SecretState, WriterSettings,
};
use tidegate_model::discover::Namespaces;
use tidegate_testkit::control_plane::{Account, Api, ControlPlane};

/// Far beyond any pause; a test that needs so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "cluster-shop";

fn place(plane: &ControlPlane, account: &Account) -> Place {
    let file = plane.kubeconfig(&account.name, &account.token).expect("a kubeconfig");
    Kubeconfig::find(Some(&file)).and_then(|read| read.place(None)).expect("a place")
}

fn until(mut condition: impl FnMut() -> bool, seen: impl Fn() -> String) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "after {PATIENCE:?}: {}", seen());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ingress(name: &str) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
        "spec": {"ingressClassName": "edge", "rules": [{"host": "shop.example",
            "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]}})
}

fn desired(addresses: &[&str], note: &str) -> Desired {
    let key = Key::new(NAMESPACE, "web");
    let notice = Notice { reason: "PathInvalid".into(), is_warning: true, note: note.to_owned() };
    Desired {
        served: [(key.clone(), true)].into(),
        addresses: Some(addresses.iter().map(|address| Box::from(*address)).collect()),
        notices: [((Kind::Ingress, key), vec![notice])].into(),
    }
}

fn settings(identity: &str) -> WriterSettings {
    let lease = Key::new(NAMESPACE, "tidegate-edge");
    WriterSettings { lease, identity: identity.to_owned(), controller: "tidegate.dev/ingress".to_owned() }
}

fn events(api: &Api) -> Vec<Value> {
    let found = api.get(&format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")).expect("a list");
    found["items"].as_array().cloned().unwrap_or_default()
}

#[test]
fn the_api_server_takes_what_is_written_and_tells_what_is_asked() {
    let Some(plane) = ControlPlane::shared().expect("a control plane") else { return };
    plane.namespace(NAMESPACE).expect("a namespace");
    let (api, account) = (plane.api(), plane.tidegate_account(NAMESPACE).expect("an account"));
    let ingresses = format!("/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/ingresses");
    let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
    api.create(&ingresses, &ingress("web")).expect("an Ingress");
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"}, "data": {"key": "YQ=="}});
    api.create(&secrets, &secret).expect("a Secret");
    let scope = Scope { namespaces: Namespaces::All, kinds: ALL };
    let follower = ClusterFollower::start(place(&plane, &account), scope, || {}).expect("a follower");
    until(|| follower.is_whole(), || format!("{:?}", follower.states()));
    assert_eq!(follower.fault(), None);

    follower.want_secrets([Key::new(NAMESPACE, "tls"), Key::new(NAMESPACE, "none")].into());
    let held = |name: &str| match follower.cache().secret(&Key::new(NAMESPACE, name)) {
        SecretState::Held(secret) => String::from_utf8_lossy(secret.data["key"].reveal()).into_owned(),
        other => format!("{other:?}"),
    };
    until(|| held("tls") == "a" && held("none") == "Missing", || format!("{} {}", held("tls"), held("none")));
    secret["data"]["key"] = "Yg==".into();
    api.replace(&format!("{secrets}/tls"), &secret).expect("it is changed");
    until(|| held("tls") == "b", || held("tls"));
    api.delete(&format!("{secrets}/tls")).expect("it is removed");
    until(|| held("tls") == "Missing", || held("tls"));

    let status = || api.get(&format!("{ingresses}/web")).expect("an Ingress")["status"]["loadBalancer"].clone();
    let writer = ClusterWriter::start(place(&plane, &account), settings("a"), follower.view()).expect("a writer");
    writer.desire(desired(&["203.0.113.1", "lb.example"], "the path is none"));
    until(|| status()["ingress"][1]["hostname"] == "lb.example", || format!("{} {:?}", status(), writer.state()));
    until(|| writer.state().events_written == 1, || format!("{:?}", writer.state()));
    let event = events(&api).pop().expect("an Event");
    assert_eq!((&event["regarding"]["name"], &event["reason"]), (&"web".into(), &"PathInvalid".into()));
    assert_eq!(writer.state().fault(), None);
    writer.stop();

    // The next one takes the Lease at once, and writes what differs only.
    let lease = || api.get(&format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/tidegate-edge"));
    assert_eq!(lease().expect("a Lease")["spec"]["holderIdentity"], Value::Null);
    let writer = ClusterWriter::start(place(&plane, &account), settings("b"), follower.view()).expect("a writer");
    until(|| writer.is_leader(), || format!("{:?}", writer.state()));
    writer.desire(desired(&["203.0.113.1", "lb.example"], "the path is none"));
    until(|| writer.state().events_pending == 0, || format!("{:?}", writer.state()));
    assert_eq!((writer.state().statuses_written, writer.state().events_written, events(&api).len()), (0, 0, 1));
    let no_more = [(Key::new(NAMESPACE, "web"), false)].into();
    writer.desire(Desired { served: no_more, addresses: Some(Vec::new()), notices: [].into() });
    until(|| status() == json!({}), || format!("{} {:?}", status(), writer.state()));
    writer.stop();
}

const ALL: &[Kind] = &[Kind::Service, Kind::EndpointSlice, Kind::Ingress, Kind::IngressClass, Kind::Secret];

#[test]
fn rights_for_the_names_of_secrets_are_enough_to_follow_them() {
    let Some(plane) = ControlPlane::shared().expect("a control plane") else { return };
    plane.namespace("named").expect("a namespace");
    let rules = [
        json!({"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch"]}),
        json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tls", "late"], "verbs": ["get", "watch"]}),
    ];
    let account = plane.account("named", "named", &rules).expect("an account");
    let secrets = "/api/v1/namespaces/named/secrets";
    let secret = |name: &str, value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"key": value}});
    for name in ["tls", "shut"] {
        plane.api().create(secrets, &secret(name, "YQ==")).expect("a Secret");
    }
    let scope = Scope { namespaces: Namespaces::All, kinds: &[Kind::Service] };
    let follower = ClusterFollower::start(place(&plane, &account), scope, || {}).expect("a follower");
    follower.want_secrets(["tls", "late", "shut"].into_iter().map(|name| Key::new("named", name)).collect());
    let held = |name: &str| match follower.cache().secret(&Key::new("named", name)) {
        SecretState::Held(secret) => String::from_utf8_lossy(secret.data["key"].reveal()).into_owned(),
        other => format!("{other:?}"),
    };
    until(|| held("tls") == "a" && held("late") == "Missing" && held("shut").contains("Forbidden"), || held("shut"));
    plane.api().replace(&format!("{secrets}/tls"), &secret("tls", "Yg==")).expect("it is changed");
    plane.api().create(secrets, &secret("late", "Yw==")).expect("a Secret");
    until(|| held("tls") == "b" && held("late") == "c", || format!("{} {}", held("tls"), held("late")));
    plane.api().delete(&format!("{secrets}/tls")).expect("it is removed");
    until(|| held("tls") == "Missing", || held("tls"));
}

#[test]
fn a_process_starts_without_the_api_server_and_without_rights_on_secrets() {
    let Some(mut plane) = ControlPlane::start().expect("a control plane") else { return };
    plane.namespace("starts").expect("a namespace");
    plane.namespace("starts-blind").expect("a namespace");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"}, "data": {"key": "YQ=="}});
    plane.api().create("/api/v1/namespaces/starts/secrets", &secret).expect("a Secret");
    let scope = || Scope { namespaces: Namespaces::All, kinds: ALL };
    let (held, missing) = (Key::new("starts", "tls"), Key::new("starts", "none"));
    let wanted = || [held.clone(), missing.clone()].into();

    let blind = plane.tidegate_account_without("starts-blind", &["secrets"]).expect("an account");
    let began = Instant::now();
    let follower = ClusterFollower::start(place(&plane, &blind), scope(), || {}).expect("a follower");
    follower.want_secrets(wanted());
    until(|| follower.is_whole() && follower.has_answered(), || format!("{:?}", follower.states()));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(follower.cache().forbidden_secrets().map(|(number, ..)| number), Some(2));
    drop(follower);

    let folder = tempfile::tempdir().expect("a folder");
    let account = plane.tidegate_account("starts").expect("an account");
    let start = |place: Place| {
        let folder = Some(folder.path().to_owned());
        ClusterFollower::start_with(place, scope(), folder, || {}).expect("a follower")
    };
    let follower = start(place(&plane, &account));
    follower.want_secrets(wanted());
    let writes = || follower.snapshot().expect("a snapshot").writes;
    until(|| writes() > 0, || format!("{:?} {:?}", follower.snapshot(), follower.states()));
    drop(follower);
    plane.stop_api_server().expect("it ends");
    let follower = start(place(&plane, &account));
    until(|| follower.is_whole(), || format!("{:?}", follower.snapshot()));
    assert_eq!(follower.want_secrets(wanted()), wanted(), "something is known of both at once");
    assert!(follower.has_answered());
    let state = |key: &Key| follower.cache().secret(key);
    assert!(matches!(state(&held), SecretState::Held(_)) && state(&missing) == SecretState::Missing);
    plane.start_api_server().expect("it comes back");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "none"}, "data": {"key": "Yg=="}});
    plane.api().create("/api/v1/namespaces/starts/secrets", &secret).expect("a Secret");
    until(|| matches!(state(&missing), SecretState::Held(_)), || format!("{:?}", follower.states()));
    until(|| follower.states().iter().all(|state| !state.is_recalled), || format!("{:?}", follower.states()));
}
