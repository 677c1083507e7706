//! The emulated API server of other tests beside the real one: the same requests to both, and what they answer as far
//! as a follower of objects reads it. Where they differ the emulation is wrong.

use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::time::Duration;
use tidegate_testkit::control_plane::{Api, ControlPlane};
use tidegate_testkit::kubernetes::ApiServer;

/// No event of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(20);
const MAPS: &str = "/api/v1/namespaces/NAMESPACE/configmaps";
const SECRETS: &str = "/api/v1/namespaces/NAMESPACE/secrets";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Either API server, and what it said.
struct Side {
    api: Api,
    namespace: String,
    said: Vec<String>,
}

impl Side {
    fn path(&self, path: &str) -> String {
        path.replace("NAMESPACE", &self.namespace)
    }

    fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.ask_for(method, path, "application/json", body)
    }

    fn ask_for(&mut self, method: &str, path: &str, accept: &str, body: Option<&Value>) -> Value {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let fields = [("accept", accept), ("content-type", kind)];
        let answer = self.api.send_with(method, &self.path(path), &fields, body).expect("an answer");
        let shown = path.split("continue=").next().unwrap_or_default();
        let told = if answer.body.is_null() { answer.text.trim().to_owned() } else { told(&answer.body).to_string() };
        let kind = answer.content_type.split(';').next().unwrap_or_default();
        self.said.push(format!("{method} {shown}\n    {} {kind} {told}", answer.status).replace(&self.namespace, "NAMESPACE"));
        answer.body
    }

    /// Watches, and notes so many events, or all until the end with `None`.
    fn watch(&mut self, path: &str, accept: &str, events: Option<usize>, mut act: impl FnMut(&Side)) -> Vec<Value> {
        let shown = path.split("resourceVersion=").next().unwrap_or_default();
        self.said.push(format!("WATCH {shown}"));
        let mut seen = Vec::new();
        match self.api.watch(&self.path(path), &[("accept", accept)]).expect("an answer") {
            Err(answer) => self.said.push(format!("    {} {}", answer.status, told(&answer.body))),
            Ok(mut watch) => {
                act(self);
                while events.is_none_or(|events| seen.len() < events) {
                    let Some(event) = watch.next(PATIENCE).expect("a line") else {
                        self.said.push("    the end".to_owned());
                        break;
                    };
                    self.said.push(
                        format!("    {} {}", event["type"].as_str().unwrap_or_default(), told(&event["object"]))
                            .replace(&self.namespace, "NAMESPACE"),
                    );
                    seen.push(event);
                }
            }
        }
        seen
    }

    fn version(&self, path: &str) -> String {
        let list = self.api.get(&self.path(path)).expect("a list");
        list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
    }
}

/// What a follower reads: names and versions, and not what differs from one run to the next.
fn told(value: &Value) -> Value {
    match value {
        Value::Array(all) => all.iter().map(told).collect(),
        // What is wrong with an object is told at length, and every kind has its own.
        Value::Object(fields) if fields.get("code") == Some(&json!(422)) => json!({"code": 422, "reason": fields["reason"]}),
        Value::Object(fields) => {
            Value::Object(fields.iter().filter_map(|(name, value)| field(name, value)).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn field(name: &str, value: &Value) -> Option<(String, Value)> {
    let text = value.as_str().unwrap_or_default();
    let value = match name {
        "managedFields" | "spec" | "generation" => return None,
        // An event of the first version of its kind had these.
        "deprecatedFirstTimestamp" | "deprecatedLastTimestamp" | "deprecatedSource" => return None,
        "uid" | "creationTimestamp" | "continue" if !text.is_empty() => name.to_uppercase().into(),
        "resourceVersion" if text.parse::<u64>().is_ok() => "VERSION".into(),
        // Which character is wrong is said by the real one.
        "message" if text.contains("continue key is not valid") => "continue key is not valid".into(),
        "message" => numbers_cut(text).into(),
        _ => told(value),
    };
    Some((name.to_owned(), value))
}

/// Versions differ.
fn numbers_cut(text: &str) -> String {
    let mut cut = String::new();
    for character in text.chars() {
        if !character.is_ascii_digit() {
            cut.push(character);
        } else if !cut.ends_with('9') {
            cut.push('9');
        }
    }
    cut
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "NAMESPACE"}, "data": {"a": value}})
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "NAMESPACE", "labels": {"a": "b"}}, "data": {"a": "Yg=="}})
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "NAMESPACE"},
        "spec": {"ports": [{"name": "http", "port": 80}]}, "status": {"loadBalancer": {}},
    })
}

fn of(side: &Side, object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = side.namespace.clone().into();
    object
}

fn emulation() -> ApiServer {
    let emulated = ApiServer::start().expect("a port is free");
    emulated.give_whole_lists();
    emulated
}

/// Has both go through a conversation, and compares.
fn check(namespace: &str, conversation: impl Fn(&mut Side)) {
    let Some(plane) = ControlPlane::shared().expect("it starts") else { return };
    plane.namespace(namespace).expect("a namespace");
    let emulated = emulation();
    compare([(plane.api(), namespace), (emulated.api(), namespace)], |side, _| conversation(side));
}

/// The conversation is told with whom it is: the real one first.
fn compare(both: [(Api, &str); 2], conversation: impl Fn(&mut Side, bool)) {
    let mut is_real = true;
    let said = both.map(|(api, namespace)| {
        let mut side = Side { api, namespace: namespace.to_owned(), said: Vec::new() };
        conversation(&mut side, std::mem::take(&mut is_real));
        side.said
    });
    let differing = said[0].iter().zip(&said[1]).find(|(real, emulated)| real != emulated);
    let shown = said.clone().map(|lines| lines.join("\n"));
    let message = format!("the real one says\n{}\n\nand the emulation\n{}", shown[0], shown[1]);
    assert!(said[0] == said[1], "{message}\n\nwhich first differs in\n{differing:#?}");
}

#[test]
fn objects_are_made_read_and_changed() {
    check("of-objects", |side| {
        side.ask("GET", MAPS, None);
        let made = side.ask("POST", MAPS, Some(&of(side, &map("a", "1"))));
        side.ask("POST", MAPS, Some(&of(side, &map("a", "1"))));
        side.ask("GET", &format!("{MAPS}/a"), None);
        side.ask("GET", &format!("{MAPS}/b"), None);
        side.ask("PUT", &format!("{MAPS}/b"), Some(&of(side, &map("b", "1"))));
        let mut changed = of(side, &map("a", "2"));
        changed["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        side.ask("PUT", &format!("{MAPS}/a"), Some(&changed));
        changed["data"]["a"] = "3".into();
        side.ask("PUT", &format!("{MAPS}/a"), Some(&changed));
        side.ask("PATCH", &format!("{MAPS}/a"), Some(&changed));
        side.ask("PATCH", &format!("{MAPS}/a"), Some(&json!({"data": {"b": "4", "a": null}})));
        side.ask("PATCH", &format!("{MAPS}/b"), Some(&json!({"data": {"b": "4"}})));
        side.ask("GET", MAPS, None);
        side.ask("DELETE", &format!("{MAPS}/a"), None);
        side.ask("DELETE", &format!("{MAPS}/a"), None);
        side.ask("POST", "/api/v1/namespaces/NAMESPACE/services", Some(&of(side, &service())));
        side.ask("DELETE", "/api/v1/namespaces/NAMESPACE/services/web", None);
        side.ask("GET", &format!("{MAPS}?fieldSelector=metadata.name%3Da"), None);
    });
}

#[test]
fn lists_come_in_pages() {
    check("of-pages", |side| {
        for name in ["a", "b", "c", "d", "e"] {
            let made = of(side, &map(name, "1"));
            side.api.create(&side.path(MAPS), &made).expect("it is made");
        }
        let mut list = side.ask("GET", &format!("{MAPS}?limit=2"), None);
        while let Some(next) = list["metadata"]["continue"].as_str().filter(|next| !next.is_empty()) {
            let next = next.replace('|', "%7C").replace('/', "%2F");
            list = side.ask("GET", &format!("{MAPS}?limit=2&continue={next}"), None);
        }
        side.ask("GET", &format!("{MAPS}?limit=2&continue=nonsense"), None);
        side.ask("GET", &format!("{MAPS}?limit=1&resourceVersion=0"), None);
        side.ask("GET", &format!("{MAPS}?fieldSelector=metadata.name%3Db"), None);
    });
}

#[test]
fn watches_tell_what_happens() {
    check("of-watches", |side| {
        let path = side.path(MAPS);
        let (a, b) = (of(side, &map("a", "1")), of(side, &map("a", "2")));
        let version = side.version(MAPS);
        side.api.create(&path, &a).expect("it is made");
        let from = |version: &str, more: &str| format!("{MAPS}?watch=true&{more}resourceVersion={version}");
        side.watch(&from(&version, ""), "application/json", Some(3), |side| {
            side.api.replace(&format!("{path}/a"), &b).expect("it is changed");
            side.api.delete(&format!("{path}/a")).expect("it is removed");
        });
        side.api.create(&path, &a).expect("it is made");
        side.watch(&from("0", "timeoutSeconds=1&"), "application/json", None, |_| {});
        side.watch(&format!("{MAPS}?watch=true&timeoutSeconds=1"), "application/json", None, |_| {});
        let version = side.version(MAPS);
        side.watch(&from(&version, "allowWatchBookmarks=true&timeoutSeconds=4&"), "application/json", Some(1), |_| {});
        side.watch(&from(&version, "timeoutSeconds=1&fieldSelector=metadata.name%3Db&"), "application/json", None, |side| {
            side.api.merge(&format!("{path}/a"), &json!({"data": {"c": "d"}})).expect("it is changed");
            side.api.create(&path, &of(side, &map("b", "1"))).expect("it is made");
        });
        side.watch(&from("1000000", "timeoutSeconds=1&"), "application/json", None, |_| {});
        side.watch(&from("nonsense", "timeoutSeconds=1&"), "application/json", None, |_| {});
    });
}

#[test]
fn a_watch_may_begin_with_the_list() {
    check("of-watch-list", |side| {
        let path = side.path(MAPS);
        for name in ["a", "b"] {
            side.api.create(&path, &of(side, &map(name, "1"))).expect("it is made");
        }
        let begin =
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=20";
        side.watch(&format!("{MAPS}?{begin}"), "application/json", Some(4), |side| {
            side.api.create(&path, &of(side, &map("c", "1"))).expect("it is made");
        });
        side.watch(&format!("{SECRETS}?{begin}"), METADATA, Some(1), |_| {});
    });
}

#[test]
fn secrets_are_seen_by_their_metadata() {
    check("of-metadata", |side| {
        let path = side.path(SECRETS);
        side.api.create(&path, &of(side, &secret("a"))).expect("it is made");
        let list = side.ask_for("GET", &format!("{SECRETS}?limit=1"), METADATA_LIST, None);
        side.ask_for("GET", &format!("{SECRETS}/a"), METADATA, None);
        let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        let from = format!("{SECRETS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=4&resourceVersion={version}");
        side.watch(&from, METADATA, Some(4), |side| {
            side.api.create(&path, &of(side, &secret("b"))).expect("it is made");
            side.api.merge(&format!("{path}/b"), &json!({"data": {"c": "ZA=="}})).expect("it is changed");
            side.api.delete(&format!("{path}/b")).expect("it is removed");
        });
    });
}

#[test]
fn ingresses_have_a_status_of_their_own() {
    check("of-ingresses", |side| {
        const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/NAMESPACE/ingresses";
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web", "namespace": "NAMESPACE"},
            "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}, "status": {"loadBalancer": {}},
        });
        let made = side.ask("POST", INGRESSES, Some(&of(side, &ingress)));
        let addressed = |version: &Value| json!({"metadata": {"resourceVersion": version}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}});
        let patch = addressed(&made["metadata"]["resourceVersion"]);
        side.ask("PATCH", &format!("{INGRESSES}/web/status"), Some(&patch));
        side.ask("PATCH", &format!("{INGRESSES}/web/status"), Some(&patch));
        side.ask("PATCH", &format!("{INGRESSES}/other/status"), Some(&patch));
        side.ask(
            "PATCH",
            &format!("{INGRESSES}/web/status"),
            Some(&json!({"metadata": {"labels": {"a": "b"}}, "spec": null, "status": {"loadBalancer": {"ingress": null}}})),
        );
        side.ask("GET", &format!("{INGRESSES}/web"), None);
        side.ask("GET", INGRESSES, None);
    });
}

#[test]
fn leases_are_taken_by_one() {
    check("of-leases", |side| {
        const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases";
        let lease = |holder: &str| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader", "namespace": "NAMESPACE"},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
            })
        };
        let made = side.ask("POST", LEASES, Some(&of(side, &lease("one"))));
        side.ask("POST", LEASES, Some(&of(side, &lease("two"))));
        let mut taken = of(side, &lease("two"));
        taken["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        side.ask("PUT", &format!("{LEASES}/leader"), Some(&taken));
        side.ask("PUT", &format!("{LEASES}/leader"), Some(&taken));
        side.ask("DELETE", &format!("{LEASES}/leader"), None);
    });
}

#[test]
fn events_are_made_and_counted() {
    check("of-events", |side| {
        const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/NAMESPACE/events";
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "web.1", "namespace": "NAMESPACE"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "tidegate.dev/ingress", "reportingInstance": "tidegate-1",
            "action": "Translate", "reason": "NoService", "type": "Warning", "note": "a note",
            "regarding": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web", "namespace": side.namespace},
        });
        side.ask("POST", EVENTS, Some(&of(side, &event)));
        for field in ["eventTime", "reportingController", "reportingInstance", "action", "reason", "type"] {
            let mut without = of(side, &event);
            without["metadata"]["name"] = format!("without.{}", field.to_lowercase()).into();
            without.as_object_mut().expect("an object").remove(field);
            side.ask("POST", EVENTS, Some(&without));
        }
        let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}});
        side.ask("PATCH", &format!("{EVENTS}/web.1"), Some(&series));
        side.ask("PATCH", &format!("{EVENTS}/web.1"), Some(&json!({"note": "another"})));
    });
}

#[test]
fn versions_that_are_forgotten_are_said_to_be() {
    let Some(plane) = ControlPlane::start().expect("it starts") else { return };
    plane.namespace("of-versions").expect("a namespace");
    let emulated = emulation();
    let (api, plane) = (plane.api(), RefCell::new(plane));
    compare([(api, "of-versions"), (emulated.api(), "of-versions")], |side, is_real| {
        let path = side.path(MAPS);
        for name in ["a", "b", "c"] {
            side.api.create(&path, &of(side, &map(name, "1"))).expect("it is made");
        }
        let first = side.api.get(&format!("{path}?limit=1")).expect("a list");
        side.api.delete(&format!("{path}/c")).expect("it is removed");
        if is_real {
            // While it runs it has them in memory as well.
            plane.borrow_mut().kill_api_server();
            plane.borrow().forget().expect("etcd forgets");
            plane.borrow_mut().start_api_server().expect("it starts again");
        } else {
            emulated.forget();
        }
        let next = first["metadata"]["continue"].as_str().expect("a token").replace('|', "%7C").replace('/', "%2F");
        side.ask("GET", &format!("{MAPS}?limit=1&continue={next}"), None);
        side.watch(&format!("{MAPS}?watch=true&resourceVersion=1"), "application/json", None, |_| {});
    });
}

#[test]
fn who_may_not_is_told_what() {
    let Some(plane) = ControlPlane::shared().expect("it starts") else { return };
    plane.namespace("edge").expect("a namespace");
    let account = plane.tidegate_account_without("edge", &["configmaps", "endpointslices"]).expect("an account");
    let emulated = emulation();
    for verb in ["list", "watch", "get"] {
        emulated.forbid(verb, "configmaps", None);
        emulated.forbid(verb, "endpointslices", None);
    }
    emulated.forbid("patch", "services", None);
    const SLICES: &str = "/apis/discovery.k8s.io/v1";
    compare([(plane.api_with(&account.token), "edge"), (emulated.api(), "edge")], |side, _| {
        side.ask("GET", MAPS, None);
        side.ask("GET", &format!("{MAPS}/a"), None);
        side.ask("PATCH", "/api/v1/namespaces/edge/services/a", Some(&json!({})));
        side.ask("GET", &format!("{SLICES}/endpointslices"), None);
        side.ask("GET", &format!("{SLICES}/namespaces/NAMESPACE/endpointslices"), None);
        side.watch(&format!("{SLICES}/endpointslices?watch=true"), "application/json", None, |_| {});
    });
    let strangers = [plane.api_with("of-nobody"), emulated.api_with("of-nobody")];
    compare(strangers.map(|api| (api, "edge")), |side, _| drop(side.ask("GET", MAPS, None)));
}
