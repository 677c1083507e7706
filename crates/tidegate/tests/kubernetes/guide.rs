//! docs/from-ingress-nginx.md by its letter: every command of the guide is run, in its order, by a shell, with the real
//! kubectl and Helm, on a cluster in which something stands for ingress-nginx. Of kubectl two commands need more of a
//! node than ours has: `exec` enters the pod's namespaces instead, and `port-forward` is the program as a TCP proxy.

use crate::release::{chart, program_image};
use crate::shop::{cluster_of, tls_secret};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tidegate_testkit::control_plane::network::is_inside;
use tidegate_testkit::control_plane::{ControlPlane, Node, ServiceAddress, helm};
use tidegate_testkit::load::{Goal, Kind, Load, Order};
use tidegate_testkit::tls::{ClientOptions, client_config};

const GUIDE: &str = "docs/from-ingress-nginx.md";
const HOST: &str = "shop.example.com";
const BOUND: Duration = Duration::from_secs(120);
/// What the chart calls the image without a word about it.
const IMAGE: &str = "tidegate";
/// Begins what only a node could do.
const KUBECTL: &str = r#"#!/bin/sh
case " $* " in
*" exec "*)
    while [ "$1" != "--" ]; do shift; done
    shift
    exec nsenter --target "$(cat "$STAND_INS/pod")" --net --mount --root --wd=/ -- env STATE_DIRECTORY=/var/lib/tidegate "$@"
    ;;
*" port-forward "*)
    namespace=$2 service=${4#service/} local=${5%%:*} port=${5##*:}
    address=$("$REAL_KUBECTL" --namespace "$namespace" get service "$service" -o "jsonpath={.spec.clusterIP}")
    printf 'admin "off"\ntcp "127.0.0.1:%s" { proxy "%s:%s"; }\n' "$local" "$address" "$port" > "$STAND_INS/$local.kdl"
    STATE_DIRECTORY="$STAND_INS/$local" exec "$STAND_INS/tidegate" run "$STAND_INS/$local.kdl"
    ;;
*" logs "*)
    exec cat "$STAND_INS/log"
    ;;
esac
exec "$REAL_KUBECTL" "$@"
"#;
/// As ingress-nginx writes it.
const LOG: &str = "192.0.2.7 - - [27/Nov/2026:10:00:00 +0000] \"GET /api/x HTTP/1.1\" 200 3 \"-\" \"curl/8\" 80 0.001 [shop-web-80] [] 10.0.0.1:8080 3 0.001 200 0123456789abcdef0123456789abcdef\n";

/// The commands of the guide, one after the other.
fn commands() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(GUIDE);
    let text = std::fs::read_to_string(file).expect("the guide");
    let (mut commands, mut is_shell) = (vec![String::new()], false);
    for line in text.lines() {
        match (line, is_shell) {
            ("```sh", _) => is_shell = true,
            ("```", _) => is_shell = false,
            (line, true) => {
                let last = commands.last_mut().expect("there is one");
                last.push_str(line);
                last.push('\n');
                if !line.ends_with(['\\', '|']) {
                    commands.push(String::new());
                }
            }
            _ => {}
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Where the guide is followed.
struct Reader<'p> {
    plane: &'p ControlPlane,
    node: &'p Node,
    folder: PathBuf,
    helm: PathBuf,
}

impl Reader<'_> {
    fn shell(&self, command: &str) -> Output {
        let tools = self.folder.join("tools");
        let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut shell = Command::new("bash");
        // Files that the guide writes are not to lie among the sources.
        shell.args(["-c", &format!("set -e -o pipefail; cd {}\n{command}", self.folder.display())]).env("PATH", path);
        std::os::unix::fs::symlink(root.join("packaging"), self.folder.join("packaging")).ok();
        shell.env("KUBECONFIG", self.plane.master_kubeconfig().expect("a kubeconfig"));
        shell.env("STAND_INS", &tools).env("REAL_KUBECTL", self.plane.program("kubectl"));
        shell.env("SSL_CERT_FILE", self.folder.join("root.pem"));
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            shell.env(name, self.folder.join(name));
        }
        shell.output().expect("a shell")
    }

    /// Runs a command that succeeds, and says this.
    fn expect(&self, command: &str, said: &[&str]) {
        let output = self.shell(command);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let says = |words: &&str| text.split_whitespace().collect::<Vec<_>>().join(" ").contains(*words);
        let is_well = output.status.success() && said.iter().all(says);
        assert!(is_well, "`{command}` ends with {}, without {said:?}:\n{text}\n{}", output.status, self.node.output("tidegate"));
    }

    /// Pods of a Deployment are ready, and one of them is the one that is entered.
    fn wait_for_pods(&self, namespace: &str, name: &str) {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
        let began = Instant::now();
        loop {
            let seen = self.plane.api().get(&path).expect("a Deployment");
            let (wanted, status) = (&seen["spec"]["replicas"], &seen["status"]);
            let is_new = status["observedGeneration"] == seen["metadata"]["generation"] && status["updatedReplicas"] == *wanted;
            let is_all = status["replicas"] == *wanted && status["readyReplicas"] == *wanted;
            // Pods before them are gone as well.
            let running = self.node.processes(&format!("{name}-")).len() as u64;
            if is_new && is_all && wanted.as_u64() == Some(running) {
                break;
            }
            let fault = self.node.fault();
            assert!(began.elapsed() < BOUND, "{name}: {status} {fault:?}\n{}", self.node.output(name));
            std::thread::sleep(Duration::from_millis(100));
        }
        let processes = self.node.processes(&format!("{name}-"));
        let (_, process) = processes.first().expect("one that runs");
        std::fs::write(self.folder.join("tools/pod"), process.to_string()).expect("a file");
    }
}

/// What stands for ingress-nginx, as a chart of its own: its class, its webhook, and the program in its place.
fn stand_in(folder: &Path) {
    let templates = folder.join("ingress-nginx/templates");
    std::fs::create_dir_all(&templates).expect("a folder");
    let write = |path: PathBuf, text: String| std::fs::write(path, text).expect("a file");
    write(folder.join("ingress-nginx/Chart.yaml"), "apiVersion: v2\nname: ingress-nginx\nversion: 4.15.1\n".to_owned());
    let (name, labels) = ("ingress-nginx-controller", json!({"app": "ingress-nginx-controller"}));
    let arguments = [
        "kubernetes",
        "run",
        "--take-over",
        "k8s.io/ingress-nginx",
        "--status",
        "off",
        "--http",
        "0.0.0.0:8080",
        "--https",
        "0.0.0.0:8443",
    ];
    let objects = [
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "nginx"},
            "spec": {"controller": "k8s.io/ingress-nginx"},
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"allow-snippet-annotations": "false"}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "ingress-nginx"}],
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": labels, "ports": [{"name": "https", "port": 443, "targetPort": 8443}]},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": name, "terminationGracePeriodSeconds": 60,
                "containers": [{
                    "name": "controller", "image": IMAGE, "args": arguments,
                    "env": [{"name": "STATE_DIRECTORY", "value": "/tmp"}],
                    "volumeMounts": [{"name": "state", "mountPath": "/tmp"}],
                }],
                "volumes": [{"name": "state", "emptyDir": {}}],
            }}},
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "ingress-nginx-admission"},
            "webhooks": [{
                "name": "validate.nginx.ingress.kubernetes.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "failurePolicy": "Ignore", "timeoutSeconds": 1,
                "rules": [{
                    "apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["ingresses"],
                }],
                "clientConfig": {"service": {"namespace": "ingress-nginx", "name": "nobody"}},
            }],
        }),
    ];
    for (number, object) in objects.iter().enumerate() {
        // JSON is YAML as well.
        write(templates.join(format!("{number}.yaml")), object.to_string());
    }
}

fn shop_ingress() -> Value {
    let path = json!([{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]);
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "shop", "annotations": {
            "nginx.ingress.kubernetes.io/proxy-body-size": "8m", "nginx.ingress.kubernetes.io/enable-cors": "true",
        }},
        "spec": {
            "ingressClassName": "nginx", "tls": [{"hosts": [HOST], "secretName": "shop-tls"}],
            "rules": [{"host": HOST, "http": {"paths": path}}],
        },
    })
}

fn furnish_tools(folder: &Path, helm: &Path, root: &Path) {
    let tools = folder.join("tools");
    std::fs::create_dir_all(&tools).expect("a folder");
    let kubectl = tools.join("kubectl");
    std::fs::write(&kubectl, KUBECTL).expect("a file");
    std::fs::set_permissions(&kubectl, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
    std::os::unix::fs::symlink(helm, tools.join("helm")).expect("a link");
    std::os::unix::fs::symlink(crate::program(), tools.join("tidegate")).expect("a link");
    std::fs::write(tools.join("log"), LOG.repeat(3)).expect("a file");
    std::fs::copy(root, folder.join("root.pem")).expect("a file");
}

/// What each command has to say, by how it begins. What is not here is not in the guide.
fn expectations() -> BTreeMap<&'static str, Vec<&'static str>> {
    BTreeMap::from([
        ("kubectl get ingresses,ingressclasses,services,configmaps -A -o yaml |\n  tidegate kubernetes check - ", vec!["taken"]),
        ("helm install tidegate packaging/kubernetes/chart", vec!["STATUS: deployed"]),
        ("kubectl --namespace tidegate exec deployment/tidegate -- tidegate status", vec!["by objects of the cluster", "ready"]),
        ("kubectl --namespace tidegate exec deployment/tidegate -- tidegate kubernetes explain", vec!["Ingress shop/shop"]),
        ("kubectl --namespace tidegate port-forward", vec![]),
        ("kubectl --namespace ingress-nginx port-forward", vec![]),
        ("kubectl --namespace ingress-nginx logs", vec![]),
        ("tidegate compare", vec!["3 requests read, 1 request sent to both", "all answers are alike"]),
        ("helm upgrade tidegate", vec!["STATUS: deployed"]),
        ("kubectl get ingressclass nginx", vec![]),
        ("helm uninstall ingress-nginx", vec!["uninstalled"]),
        ("kubectl apply -f ingressclass.yaml", vec!["created"]),
        ("kubectl delete validatingwebhookconfiguration", vec![]),
    ])
}

#[test]
fn the_guide_away_from_ingress_nginx_is_followed_by_its_letter() {
    if !is_inside("guide::the_guide_away_from_ingress_nginx_is_followed_by_its_letter").expect("it passes inside") {
        return;
    }
    let Some(helm) = helm().expect("Helm is found") else { return };
    let Some((plane, node, mut places)) = cluster_of(2, vec![program_image(IMAGE)]) else { return };
    let folder = places.folder().join("reader");
    let root = places.authority("main").expect("an authority");
    let (root_file, root) = (root.root_file().to_owned(), root.root().clone());
    furnish_tools(&folder, &helm, &root_file);
    stand_in(&folder);
    let reader = Reader { plane: &plane, node: &node, folder, helm };
    assert!(reader.helm.is_file() && Path::new(&chart()).is_dir());
    reader.expect("helm install ingress-nginx ./ingress-nginx --namespace ingress-nginx --create-namespace", &["deployed"]);
    reader.wait_for_pods("ingress-nginx", "ingress-nginx-controller");
    let mut secret = tls_secret(&mut places, HOST);
    secret["metadata"]["name"] = "shop-tls".into();
    plane.api().create("/api/v1/namespaces/shop/secrets", &secret).expect("a Secret");
    plane.api().create("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", &shop_ingress()).expect("an Ingress");
    let old = ServiceAddress::start(&plane, "ingress-nginx", "ingress-nginx-controller").expect("an address");

    let (expected, mut forwards, mut new) = (expectations(), String::new(), None);
    let mut load = None;
    for command in commands() {
        let (_, said) = expected.iter().find(|(begin, _)| command.starts_with(**begin)).unwrap_or_else(|| panic!("`{command}`"));
        println!("=== {}", command.trim_end());
        if command.contains(" port-forward ") {
            // Forwarders end with the shell that compares.
            forwards.push_str(&command);
            continue;
        }
        if command.contains("tidegate exec") {
            reader.wait_for_pods("tidegate", "tidegate");
        }
        if command.starts_with("tidegate compare") {
            let address = ServiceAddress::start(&plane, "tidegate", "tidegate").expect("an address");
            let ends = "trap 'kill $(jobs -p)' EXIT; sleep 3";
            reader.expect(&format!("{forwards}{ends}\n{command}"), said);
            let options = ClientOptions { alpn: vec!["http/1.1".into()], send_sni: true, ..ClientOptions::default() };
            let tls = std::sync::Arc::new(client_config(Some(&root), &options).expect("a configuration"));
            let goal = Goal {
                host: HOST.to_owned(),
                plain: (address.ip, 80).into(),
                secure: (address.ip, 443).into(),
                tls: tls.clone(),
                tls_h2: tls,
            };
            let clients = [(Kind::KeepAliveTls, 4), (Kind::FreshTls, 2)];
            load = Some(Load::start_paced(&goal, &clients, &[Order::Pattern(11)], 50).expect("clients"));
            new = Some(address);
            continue;
        }
        reader.expect(&command, said);
        if command.starts_with("helm upgrade") {
            reader.wait_for_pods("tidegate", "tidegate");
        }
    }
    // Who comes by the new one has noticed neither the upgrade nor that the old one went.
    let load = load.expect("the guide compares");
    load.go_on_for(100).expect("answers");
    let tally = load.finish();
    println!("{tally}");
    assert!(tally.is_clean(), "{tally}\n{}", node.output("tidegate"));
    assert_eq!((node.fault(), old.fault(), new.and_then(|new| new.fault())), (None, None, None));
}
