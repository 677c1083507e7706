//! `discover kubernetes=` of a configuration file, with Service and EndpointSlices that the real API server keeps.

use crate::front::{Front, server};
use serde_json::{Value, json};
use tidegate_testkit::control_plane::{Api, ControlPlane};
use tidegate_testkit::server::Server;

/// A namespace with the Service `web`, which has no selector: its slices are the test's.
struct Shop {
    namespace: String,
    api: Api,
}

impl Shop {
    fn open(plane: &ControlPlane, namespace: &str) -> Shop {
        plane.namespace(namespace).expect("a namespace");
        let shop = Shop { namespace: namespace.to_owned(), api: plane.api() };
        shop.api.create(&shop.services(), &service()).expect("a Service");
        shop
    }

    fn services(&self) -> String {
        format!("/api/v1/namespaces/{}/services", self.namespace)
    }

    fn slices(&self) -> String {
        format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", self.namespace)
    }

    /// A slice for each server, because each has a port of its own.
    fn add(&self, name: &str, server: &Server, conditions: &Value) {
        self.api.create(&self.slices(), &slice(name, server, conditions)).expect("a slice");
    }

    fn change(&self, name: &str, server: &Server, conditions: &Value) {
        self.api.replace(&format!("{}/{name}", self.slices()), &slice(name, server, conditions)).expect("it is changed");
    }

    fn remove(&self, name: &str) {
        self.api.delete(&format!("{}/{name}", self.slices())).expect("it is removed");
    }
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": "web"}]},
    })
}

fn slice(name: &str, server: &Server, conditions: &Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": server.address().port()}],
        "endpoints": [{"addresses": [server.address().ip().to_string()], "conditions": conditions}],
    })
}

fn ready() -> Value {
    json!({"ready": true})
}

fn leaving() -> Value {
    json!({"ready": false, "serving": true, "terminating": true})
}

#[test]
fn servers_come_change_and_go() {
    let Some(plane) = ControlPlane::shared().expect("it starts") else { return };
    let shop = Shop::open(&plane, "come-and-go");
    let account = plane.tidegate_account(&shop.namespace).expect("an account");
    let (first, second) = (server("first"), server("second"));
    shop.add("web-1", &first, &ready());
    let front = Front::start(&plane, &account);
    front.comes_to(&["first"]);
    shop.add("web-2", &second, &json!({}));
    front.comes_to(&["first", "second"]);
    shop.change("web-1", &first, &leaving());
    let state = format!("tidegate_upstream_server_state{{server=\"{}\",state=\"leaving\"}}", first.address());
    front.proxy.wait_for_metric(&state, 1.0).expect("it is leaving");
    front.expect_from(10, &["second"]);
    shop.remove("web-2");
    // Nobody else is left: one that ends and still serves is better than nobody.
    front.comes_to(&["first"]);
    shop.change("web-1", &first, &json!({"ready": false}));
    front.wait_for("a refusal", |status, _| status == 503);
    shop.api.delete(&format!("{}/web", shop.services())).expect("it is removed");
    front.wait_for_status(&format!("there is no Service of {}/web:http", shop.namespace));
}

#[test]
fn the_proxy_starts_before_there_is_a_service() {
    let Some(plane) = ControlPlane::shared().expect("it starts") else { return };
    plane.namespace("late").expect("a namespace");
    let account = plane.tidegate_account("late").expect("an account");
    let front = Front::start(&plane, &account);
    assert_eq!(front.ask().0, 503);
    front.wait_for_status("there is no Service of late/web:http");
    let shop = Shop { namespace: "late".to_owned(), api: plane.api() };
    let only = server("only");
    shop.add("web-1", &only, &ready());
    shop.api.create(&shop.services(), &service()).expect("a Service");
    front.comes_to(&["only"]);
}

#[test]
fn a_right_that_is_missing_is_said_and_takes_nothing_else() {
    let Some(plane) = ControlPlane::shared().expect("it starts") else { return };
    let shop = Shop::open(&plane, "forbidden");
    let account = plane.tidegate_account_without(&shop.namespace, &["endpointslices"]).expect("an account");
    let only = server("only");
    shop.add("web-1", &only, &ready());
    let front = Front::start(&plane, &account);
    assert_eq!(front.ask().0, 503);
    // In the words of the API server: who may not do what.
    let said = "User \"system:serviceaccount:forbidden:tidegate\" cannot list resource \"endpointslices\" in API group \"discovery.k8s.io\"";
    front.wait_for_status(said);
}

#[test]
fn an_api_server_that_comes_back_is_asked_for_what_happened_meanwhile() {
    let Some(mut plane) = ControlPlane::start().expect("it starts") else { return };
    let shop = Shop::open(&plane, "shop");
    let account = plane.tidegate_account(&shop.namespace).expect("an account");
    let (first, second, third) = (server("first"), server("second"), server("third"));
    shop.add("web-1", &first, &ready());
    let front = Front::start(&plane, &account);
    front.comes_to(&["first"]);
    // Stopped in order: watches end, and everybody is served on.
    plane.stop_api_server().expect("it ends");
    let faults = "tidegate_discovery_faults_total{kind=\"kubernetes\"}";
    front.proxy.wait_for_metric_from(faults, 1.0, f64::INFINITY).expect("it is counted");
    front.expect_from(10, &["first"]);
    plane.start_api_server().expect("it starts again");
    shop.add("web-2", &second, &ready());
    front.comes_to(&["first", "second"]);
    // Killed, and come back without what happened before: versions that are known are forgotten, so all is listed anew.
    plane.kill_api_server();
    plane.start_api_server().expect("it starts again");
    shop.remove("web-1");
    shop.add("web-3", &third, &ready());
    plane.forget().expect("versions are forgotten");
    plane.kill_api_server();
    plane.start_api_server().expect("it starts again");
    front.comes_to(&["second", "third"]);
}
