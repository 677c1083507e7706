//! What keeps people out of a host, against those who come by another way: another scheme, a wildcard, another
//! spelling of the path.

use super::controller::{Controller, ingress, service, slice};
use super::{base64, cluster, server};
use serde_json::{Value, json};
use std::path::Path;
use tidegate_testkit::{Authority, KeyKind};

#[test]
fn a_wildcard_answers_nothing_for_a_host_that_keeps_people_out() {
    let (cluster, one) = (cluster(), server("one"));
    let folder = tempfile::tempdir().expect("a folder");
    let pair = Authority::new(folder.path(), "test").expect("an authority").issue("*.example.com", KeyKind::Ecdsa);
    let pair = pair.expect("a certificate");
    let read = |path: &Path| base64(&std::fs::read_to_string(path).expect("a file"));
    cluster.put(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "all"},
        "type": "kubernetes.io/tls", "data": {"tls.crt": read(&pair.cert), "tls.key": read(&pair.key)},
    }));
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    cluster.put(with_tls(ingress("all", "*.example.com", "one"), &json!([{"hosts": ["*.example.com"], "secretName": "all"}])));
    let only_ten = "nginx.ingress.kubernetes.io/whitelist-source-range";
    let guarded = |name: &str| annotated(ingress(name, &format!("{name}.example.com"), "one"), only_ten, "10.0.0.0/8");
    cluster.put(guarded("plain"));
    cluster.put(with_tls(guarded("missing"), &json!([{"hosts": ["missing.example.com"], "secretName": "none"}])));
    cluster.put(with_tls(guarded("unnamed"), &json!([{"hosts": ["unnamed.example.com"]}])));
    let controller = Controller::start(&cluster, &[]);
    controller.wait_for_over_tls("any.example.com", "/", 200, "one");
    controller.expect("plain.example.com", "/", 403, "");
    controller.expect("missing.example.com", "/", 503, "");
    controller.expect("unnamed.example.com", "/", 503, "");
    for host in ["plain.example.com", "missing.example.com", "unnamed.example.com"] {
        let refused = controller.ask_over_tls(host, "/");
        assert!(refused.is_err(), "{host}: {refused:?}");
        let on_another_one = controller.ask_on_connection_for("any.example.com", host, "/");
        assert!(matches!(on_another_one, Ok((421, _))), "{host}: {on_another_one:?}");
    }
    controller.wait_for_status("CertificateMissing");
}

#[test]
fn no_spelling_of_a_path_gets_past_what_protects_it() {
    let (cluster, one) = (cluster(), server("one"));
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    cluster.put(ingress("open", "shop.example.com", "one"));
    let mut admin = annotated(
        ingress("admin", "shop.example.com", "one"),
        "nginx.ingress.kubernetes.io/whitelist-source-range",
        "10.0.0.0/8",
    );
    admin["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/admin");
    cluster.put(admin.clone());
    let controller = Controller::start(&cluster, &[]);
    let spellings = ["/admin", "//admin", "/%2fadmin", "/admin%2Fx", "/x/..%2fadmin", "/x/../admin", "/%61dmin", "/./admin/"];
    for path in spellings {
        let (status, _) = controller.ask("shop.example.com", path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(matches!(status, 400 | 403), "{path}: {status}");
    }
    controller.expect("shop.example.com", "/group%2Fproject", 200, "one");
    // Codes of characters that may stand in a path are these.
    admin["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/wiki/Special:Export");
    cluster.put(admin.clone());
    controller.wait_for("shop.example.com", "/wiki/Special:Export", 403, "");
    controller.expect("shop.example.com", "/wiki/Special%3aExport", 403, "");
    controller.expect("shop.example.com", "/wiki/Special%3AOther", 200, "one");
    // A path that is not understood is shut, since what it protects would be answered by the other Ingress.
    admin["metadata"]["annotations"]["nginx.ingress.kubernetes.io/use-regex"] = json!("true");
    admin["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/admin(?!/public)");
    cluster.put(admin.clone());
    controller.wait_for("shop.example.com", "/admin", 503, "");
    controller.wait_for("shop.example.com", "/ADMIN/x", 503, "");
    controller.expect("shop.example.com", "/adminis", 503, "");
    controller.expect("shop.example.com", "/other", 200, "one");
    // Expressions are compared with the decoded path, as nginx does it.
    admin["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/admin.panel");
    cluster.put(admin);
    controller.wait_for("shop.example.com", "/admin-panel", 403, "");
    controller.expect("shop.example.com", "/admin%20panel", 403, "");
    controller.expect("shop.example.com", "/other%20one", 200, "one");
}

fn with_tls(mut ingress: Value, tls: &Value) -> Value {
    ingress["spec"]["tls"] = tls.clone();
    ingress
}

fn annotated(mut ingress: Value, name: &str, value: &str) -> Value {
    ingress["metadata"]["annotations"] = json!({name: value});
    ingress
}
