//! Ingresses with annotations of ingress-nginx, served over HTTP and HTTPS. Servers are sites of the controller's own
//! file.

use super::base64;
use super::controller::{Controller, class, ingress, service};
use serde_json::{Value, json};
use std::fs;
use tidegate_testkit::kubernetes::ApiServer;
use tidegate_testkit::upstream::Upstream;

const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// A site of plain HTTP that says its name, and one over TLS with a certificate for `web.shop.svc`.
const SERVERS: &str = r#"
site "http://127.0.0.1:{port:one}" { respond 200 body="one {request.header.x-a}"; }
site "http://127.0.0.1:{port:two}" { respond 200 body="two"; }
site "https://:{port:secure}" {
    tls cert="{cert:web.shop.svc}" key="{key:web.shop.svc}"
    respond 200 body="secure"
}
"#;

/// With a cluster that has nothing but a class so far.
pub fn begin() -> (ApiServer, Controller) {
    begin_with(&[])
}

/// As [`begin`], with these words behind `run`.
pub fn begin_with(more: &[&str]) -> (ApiServer, Controller) {
    let cluster = ApiServer::start().expect("a port is free");
    cluster.put(class());
    let mut controller = Controller::begin(&cluster, SERVERS, more);
    controller.wait_until_ready();
    (cluster, controller)
}

/// The Service with its servers, by the names of their ports.
pub fn put_service(cluster: &ApiServer, controller: &mut Controller, name: &str, ports: &[&str]) {
    let mut of_cluster = service(name);
    of_cluster["metadata"]["uid"] = json!("5f1c0a9e-0000-4000-8000-000000000001");
    cluster.put(of_cluster);
    for (index, port) in ports.iter().enumerate() {
        let port: u16 = controller.places.fill(&format!("{{port:{port}}}")).expect("a port").parse().expect("a number");
        cluster.put(slice(name, index, port));
    }
}

/// The Service with a server of the test's own.
pub fn put_service_of(cluster: &ApiServer, name: &str, upstream: &Upstream) {
    cluster.put(service(name));
    cluster.put(slice(name, 0, upstream.address.port()));
}

fn slice(service: &str, index: usize, port: u16) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": format!("{service}-{index}"), "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": port}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
    })
}

/// The Ingress with a certificate for its host, and with plain HTTP beside HTTPS.
pub fn annotated(name: &str, host: &str, service: &str, annotations: &[(&str, &str)]) -> Value {
    let mut ingress = ingress(name, host, service);
    ingress["metadata"]["annotations"][format!("{PREFIX}ssl-redirect")] = json!("false");
    for (annotation, value) in annotations {
        ingress["metadata"]["annotations"][format!("{PREFIX}{annotation}")] = json!(value);
    }
    ingress["spec"]["tls"] = json!([{"hosts": [host], "secretName": "tls"}]);
    ingress
}

/// `data` by the names of values, each a file.
pub fn secret(controller: &mut Controller, name: &str, data: &[(&str, &str)]) -> Value {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": name}, "type": "Opaque", "data": {},
    });
    for (value, file) in data {
        let file = controller.places.fill(file).expect("a file");
        secret["data"][*value] = json!(base64(&fs::read_to_string(file).expect("PEM")));
    }
    secret
}

pub fn put_certificate(cluster: &ApiServer, controller: &mut Controller, host: &str) {
    let files = [("tls.crt", format!("{{cert:{host}}}")), ("tls.key", format!("{{key:{host}}}"))];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, file)| (*name, file.as_str())).collect();
    cluster.put(secret(controller, "tls", &files));
}
