//! `tidegate kubernetes check`, of files and of a cluster.

use super::controller::{Controller, ingress, service};
use super::{cluster, server};
use serde_json::json;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// Ingresses as people write them, one of them with what nobody can keep.
const MANIFESTS: &str = r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: shop
  annotations:
    nginx.ingress.kubernetes.io/ssl-redirect: "true"
    nginx.ingress.kubernetes.io/proxy-buffer-size: 16k
    nginx.ingress.kubernetes.io/proxy-read-timeout: "120"
    nginx.ingress.kubernetes.io/rate-limit: "5"
    nginx.ingress.kubernetes.io/rewrite-targt: /
    cert-manager.io/cluster-issuer: letsencrypt
spec:
  ingressClassName: nginx
  rules:
  - host: shop.example.com
    http:
      paths:
      - path: /
        pathType: Prefix
        backend: {service: {name: web, port: {number: 80}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: staff
  namespace: shop
  annotations:
    nginx.ingress.kubernetes.io/enable-modsecurity: "true"
spec:
  defaultBackend: {service: {name: web, port: {number: 80}}}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: other}
spec: {controller: example.com/other}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: theirs, namespace: shop}
spec: {ingressClassName: other}
"#;

/// Exit code, standard output and error.
fn check(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(PROGRAM).args(["kubernetes", "check"]).args(arguments).output().expect("the program");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
}

#[test]
fn every_annotation_of_a_file_has_its_fate() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, MANIFESTS).expect("a file");
    let (code, text, fault) = check(&[file.to_str().expect("a name")]);
    assert_eq!((code, fault.as_str()), (1, ""), "{text}");
    for line in [
        "2 Ingresses, 6 annotations: 1 taken, 1 remarked, 1 needless, 2 unknown, 1 shut",
        "1 of classes of other controllers is not looked at",
        "no Service is among the objects, so nothing is said of those that are missing",
        "Namespace shop",
        "    taken     ssl-redirect",
        "    needless  proxy-buffer-size",
        "    remarked  proxy-read-timeout",
        "    unknown   rate-limit",
        "did you mean `nginx.ingress.kubernetes.io/rewrite-target`?",
        "    shut      enable-modsecurity",
    ] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    // A folder of files, and as JSON.
    let (code, text, _) = check(&[folder.path().to_str().expect("a name"), "--json"]);
    let read: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((code, &read["annotations"]["shut"], &read["of_other_classes"]), (1, &json!(1), &json!(1)));
    assert_eq!(read["ingresses"][0]["annotations"][0]["fate"], "shut");
    // One class alone, which has nothing that is shut.
    let (code, text, _) = check(&[file.to_str().expect("a name"), "--ingress-class", "nginx"]);
    assert!(code == 0 && text.starts_with("1 Ingress, 5 annotations"), "{code} {text}");
}

#[test]
fn what_cannot_be_checked_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("a file");
        file.to_str().expect("a name").to_owned()
    };
    let expect = |arguments: &[&str], expected: &str| {
        let (code, text, fault) = check(arguments);
        assert!(code != 0 && fault.contains(expected), "{arguments:?}: {code} {text} {fault}");
    };
    expect(&[], "kubectl get ingresses");
    expect(&["/nowhere.yaml"], "/nowhere.yaml cannot be read");
    expect(&[&file("broken.yaml", "a: [")], "broken.yaml is no YAML at line 1");
    expect(&[&file("odd.yaml", "kind: Ingress\nmetadata: {name: 7}\n")], "object 1 of");
    expect(&["--live", "--kubeconfig", "/nowhere"], "/nowhere");
}

#[test]
fn what_cannot_be_read_takes_nothing_from_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).expect("a file");
    write("a.yaml", b"a: [");
    write("b.yaml", b"\xff\xfe");
    write("c.yaml", b"kind: Ingress\nmetadata: {name: 7}\n");
    write("d.yaml", MANIFESTS.as_bytes());
    write("e.yaml", MANIFESTS.replace("namespace: shop", "namespace: blog").replace("spec: {ing", "spec: [{ing").as_bytes());
    let arguments = [folder.path().to_str().expect("a name"), "/nowhere.yaml", "--ingress-class", "nginx"];
    let (code, text, fault) = check(&arguments);
    // Nothing is shut among those of that class, so that this alone is a failure.
    assert!(code == 1 && text.contains("2 Ingresses, 10 annotations") && text.contains("Namespace blog"), "{code} {text}");
    for line in [
        "a.yaml is no YAML at line 1 column 4",
        "b.yaml cannot be read",
        "object 1 of",
        "e.yaml is no YAML",
        "/nowhere.yaml cannot be read",
    ] {
        assert!(fault.contains(line), "`{line}` is not in\n{fault}");
    }
    assert_eq!(fault.lines().count(), 5, "{fault}");
    let (code, text, fault) = check(&[&arguments[..], &["--json"]].concat());
    let read: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((code, read["unreadable"].as_array().map(Vec::len), fault.as_str()), (1, Some(5), ""), "{text}");
}

#[test]
fn each_statement_of_the_config_map_has_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let map = "---\nkind: ConfigMap\nmetadata: {name: nginx, namespace: edge}\ndata:\n  server-snippet: |\n    add_header X-A a;\n    return 444;\n  http-snippet: proxy_buffers 8 16k;\n";
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, format!("{MANIFESTS}{map}")).expect("a file");
    let arguments = [file.to_str().expect("a name"), "--ingress-nginx-config", "edge/nginx", "--ingress-class", "nginx"];
    let (code, text, fault) = check(&arguments);
    assert_eq!((code, fault.as_str()), (0, ""), "{text}");
    for line in [
        "    remarked  server-snippet",
        "line 1: `add_header` is taken",
        "line 2: `return`: it is answered with 403",
        "    remarked  http-snippet",
        "line 1: `proxy_buffers`: answers go on",
    ] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
}

#[test]
fn all_of_an_object_is_told_however_much_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let unknown: Vec<String> =
        (0..60).map(|number| format!("    nginx.ingress.kubernetes.io/unheard-of-{number}: x\n")).collect();
    let unknown = unknown.concat();
    let text = MANIFESTS.replacen("  annotations:\n", &format!("  annotations:\n{unknown}"), 1);
    let text =
        text + "---\nkind: Service\napiVersion: v1\nmetadata: {name: other, namespace: shop}\nspec: {ports: [{port: 80}]}\n";
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, text).expect("a file");
    let (_, text, fault) = check(&[file.to_str().expect("a name")]);
    assert!(text.contains("62 unknown") && fault.is_empty(), "{fault} {text}");
    assert!(text.contains("ServiceMissing spec.rules[0]") && !text.contains("MoreFindings"), "{text}");
}

#[test]
fn a_cluster_is_asked_and_nothing_is_written_there() {
    let (cluster, _one) = (cluster(), server("one"));
    cluster.put(service("one"));
    let mut web = ingress("web", "shop.example.com", "one");
    web["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/ssl-redirect": "true"});
    cluster.put(web);
    cluster.put(ingress("lost", "lost.example.com", "missing"));
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config");
    std::fs::write(&config, Controller::kubeconfig(&cluster)).expect("a file");
    let (code, text, fault) = check(&["--live", "--kubeconfig", config.to_str().expect("a name")]);
    assert_eq!((code, fault.as_str()), (0, ""), "{text}");
    assert!(text.contains("2 Ingresses, 1 annotation: 1 taken") && text.contains("ServiceMissing"), "{text}");
    assert!(cluster.writes().is_empty());
}
