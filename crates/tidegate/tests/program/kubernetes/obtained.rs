//! Certificates that the process obtains for Ingresses, from a real CA (Debian's pebble) and with an emulated API
//! server. Skipped where there is no pebble.

use super::controller::{Controller, ingress, service, slice};
use super::{base64, cluster, server, until};
use serde_json::{Value, json};
use std::fs;
use tidegate_testkit::kubernetes::ApiServer;
use tidegate_testkit::pebble::{Options, Pebble};

fn with_tls(name: &str, host: &str) -> Value {
    let mut object = ingress(name, host, "one");
    object["spec"]["tls"] = json!([{"hosts": [host], "secretName": format!("{name}-tls")}]);
    object
}

fn secret_of(cluster: &ApiServer, name: &str) -> Option<Value> {
    cluster.get(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": name}}))
}

/// Has the process obtain from this CA, and keep that in the cluster.
fn tell_of(pebble: &Pebble, controller: &Controller) {
    let base = controller.places.folder().join("base.kdl");
    let text = fs::read_to_string(&base).expect("a file");
    let (directory, root) = (&pebble.directory, pebble.root.display());
    let more = format!(
        "acme email=\"ops@example.com\" preflight=#false {{\n    ca \"{directory}\" root=\"{root}\"\n}}\n\
         storage \"kubernetes\" namespace=\"edge\"\n"
    );
    fs::write(&base, format!("{text}{more}")).expect("a file");
}

#[test]
fn a_secret_that_is_missing_is_obtained_by_one_and_answered_for_by_the_other() {
    let (cluster, one) = (cluster(), server("one"));
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    cluster.put(with_tls("web", "shop.example.com"));
    cluster.put(with_tls("other", "other.example.com"));
    // Somebody has put something there that is of no use, and it stays theirs.
    let foreign = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "other-tls"},
        "type": "kubernetes.io/tls", "data": {"tls.crt": base64("theirs"), "tls.key": base64("theirs")},
    });
    cluster.put(foreign.clone());
    let words = ["--acme", "missing-secrets", "--publish-address", "203.0.113.7"];
    let (first, second) = (Controller::start(&cluster, &words), Controller::start(&cluster, &words));
    // The CA comes to one of them, whichever orders.
    let ports = Options { http_port: second.http.port(), https_port: second.https.port(), ..Options::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(pebble) = Pebble::start(folder.path(), ports).expect("pebble") else { return };
    for controller in [&first, &second] {
        controller.wait_for_over_tls("shop.example.com", "/", 200, "one");
        tell_of(&pebble, controller);
    }
    until(&first, "a Secret", || secret_of(&cluster, "web-tls").is_some());
    let secret = secret_of(&cluster, "web-tls").expect("it is there");
    assert_eq!(
        (&secret["type"], &secret["metadata"]["labels"]["tidegate.dev/obtained"]),
        (&"kubernetes.io/tls".into(), &"true".into())
    );
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "uid-web");
    assert_eq!(pebble.issued(), 1, "{}", pebble.log());
    for controller in [&first, &second] {
        let serves = || controller.call(&["cert", "list"]).contains("shop.example.com");
        until(controller, "a certificate", serves);
        controller.wait_for_over_tls("shop.example.com", "/", 200, "one");
        controller.expect("shop.example.com", "/a", 308, "");
    }
    let data = secret_of(&cluster, "other-tls").expect("it is there")["data"].clone();
    assert_eq!(data, foreign["data"], "what is somebody else's is left alone");
    assert!(first.ask_over_tls("other.example.com", "/").is_err(), "without a pair handshakes end");
    first.wait_for_status("SecretInvalid");
    // What is taken away is written again, and not ordered again.
    cluster.remove(&secret);
    until(&first, "the Secret again", || secret_of(&cluster, "web-tls").is_some());
    assert_eq!(secret_of(&cluster, "web-tls").expect("it is there")["data"], secret["data"]);
    assert_eq!(pebble.issued(), 1, "{}", pebble.log());
}

#[test]
fn nothing_is_obtained_unless_somebody_says_so() {
    let (cluster, one) = (cluster(), server("one"));
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    let mut asks = with_tls("web", "shop.example.com");
    asks["metadata"]["annotations"] = json!({"tidegate.dev/acme": "true"});
    cluster.put(asks);
    let controller = Controller::start(&cluster, &["--publish-address", "203.0.113.7"]);
    controller.wait_for_status("start the controller with `--acme`");
    assert!(controller.ask_over_tls("shop.example.com", "/").is_err());
    controller.expect("shop.example.com", "/", 503, "");
    assert!(!cluster.requests().iter().any(|request| request.starts_with("POST") && request.contains("/secrets")));
}
