//! A cluster of Kubernetes for an experiment: backend pods, Ingresses as people wrote them for ingress-nginx, and one
//! controller at a time in front, behind the address of its Service. What is measured in it is in `experiments`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_local_cluster::{Api, ControlPlane, Image, Node, ServiceAddress};

use crate::net::Error;
use crate::peers::{PeerKind, Program};
use crate::procfs::ProcessId;

/// How long a Deployment may take to be as it is wanted.
const SCALE_TIME_MAX: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);
/// Long enough for proxies to hear that a backend leaves; then it ends.
const BACKEND_LEAVES_AFTER: &str = "3s";
const NAMESPACE: &str = "lab";
const PROXY: &str = "proxy";
const BACKEND: &str = "backend";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/lab/ingresses";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/lab/deployments";
/// Where pods of a proxy are asked whether they are ready.
const ADMIN_PORT: u16 = 9180;
/// An older pod leaves first, which holds more connections than a newer one.
const LEAVES_FIRST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub struct Cluster {
    /// Of the proxies that are there; it ends before what it leads to.
    address: Option<ServiceAddress>,
    node: Node,
    plane: ControlPlane,
}

/// Pods whose number changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pods {
    Backends,
    Proxies,
}

impl Pods {
    fn name(self) -> &'static str {
        match self {
            Pods::Backends => BACKEND,
            Pods::Proxies => PROXY,
        }
    }
}

/// Why there is no proxy of that kind here.
pub fn unfit(kind: PeerKind) -> Option<String> {
    match kind {
        PeerKind::Tidegate | PeerKind::Traefik => None,
        PeerKind::Haproxy | PeerKind::Nginx | PeerKind::Angie | PeerKind::Envoy | PeerKind::Caddy => {
            Some("it is no Ingress controller by itself".to_owned())
        }
    }
}

impl Cluster {
    /// With so many backends and no proxy; `None` where the programs of a control plane are not built. `folder` has the
    /// certificate.
    pub fn start(programs: &[Program], backends: usize, folder: &Path) -> Result<Option<Cluster>, Error> {
        let Some(mut plane) = ControlPlane::start()? else { return Ok(None) };
        plane.start_controllers()?;
        plane.namespace(NAMESPACE)?;
        let own = std::env::current_exe()?;
        let arguments = ["backend", "--leave-after", BACKEND_LEAVES_AFTER, "--listen", "0.0.0.0:8080"];
        let backend = Image { name: BACKEND.to_owned(), program: own, arguments: arguments.map(str::to_owned).into() };
        let proxies = programs.iter().map(|program| Image {
            name: image_of(program),
            program: program.path.clone(),
            arguments: Vec::new(),
        });
        let node = Node::start(&plane, "node-1", proxies.chain([backend]).collect())?;
        let cluster = Cluster { address: None, node, plane };
        for (path, object) in objects(backends, folder)? {
            cluster.api().create(path, &object)?;
        }
        cluster.await_pods(Pods::Backends, backends)?;
        Ok(Some(cluster))
    }

    fn api(&self) -> Api {
        self.plane.api()
    }

    /// Puts replicas of a proxy in front, which run; gives where clients go.
    pub fn deploy(&mut self, program: &Program, replicas: usize) -> Result<SocketAddr, Error> {
        for (path, object) in proxies(program, replicas) {
            self.api().create(path, &object)?;
        }
        let address = self.address.insert(ServiceAddress::start(&self.plane, NAMESPACE, PROXY)?);
        let address = SocketAddr::new(address.ip.into(), 443);
        self.await_pods(Pods::Proxies, replicas)?;
        Ok(address)
    }

    /// Takes the proxy away, with all its pods.
    pub fn remove(&mut self) -> Result<(), Error> {
        self.address = None;
        for path in [format!("{DEPLOYMENTS}/{PROXY}"), format!("/api/v1/namespaces/{NAMESPACE}/services/{PROXY}")] {
            self.api().delete(&path)?;
        }
        self.await_pods(Pods::Proxies, 0)
    }

    /// More of them, or fewer: then the oldest go. Returns at once.
    pub fn scale(&self, pods: Pods, count: usize) -> Result<(), Error> {
        let mut all = self.pods(pods)?;
        let created = |pod: &Value| pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        all.sort_by_key(|pod| (created(pod), name(pod)));
        let leaving = all.len().saturating_sub(count);
        for pod in &all[..leaving] {
            let cost = json!({"metadata": {"annotations": {LEAVES_FIRST: "-1"}}});
            self.api().merge(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{}", name(pod)), &cost)?;
        }
        let path = format!("{DEPLOYMENTS}/{}", pods.name());
        self.api().merge(&path, &json!({"spec": {"replicas": count}})).map(drop).map_err(Into::into)
    }

    /// Until so many are ready, and those that leave are gone.
    pub fn await_pods(&self, pods: Pods, count: usize) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            let all = self.pods(pods)?;
            let ready = all.iter().filter(|pod| is_ready(pod)).count();
            let led_to = match (&self.address, pods) {
                (Some(address), Pods::Proxies) => address.endpoints() == count,
                (None, Pods::Proxies) | (_, Pods::Backends) => true,
            };
            if (all.len(), ready, led_to) == (count, count, true) {
                return Ok(());
            }
            if let Some(fault) = self.node.fault() {
                return Err(format!("the node: {fault}").into());
            }
            if began.elapsed() > SCALE_TIME_MAX {
                let said = self.node.output(pods.name());
                return Err(format!("{count} {pods:?} are wanted, and {ready} of {} ready\n{said}", all.len()).into());
            }
            std::thread::sleep(POLL);
        }
    }

    /// CORS headers for the pages of other sites, or none.
    pub fn set_cors(&self, is_on: bool) -> Result<(), Error> {
        let value = if is_on { json!("true") } else { Value::Null };
        let patch = json!({"metadata": {"annotations": {"nginx.ingress.kubernetes.io/enable-cors": value}}});
        self.api().merge(&format!("{INGRESSES}/pages"), &patch).map(drop).map_err(Into::into)
    }

    /// A route that leads `/old` elsewhere, or none.
    pub fn set_redirect(&self, is_on: bool) -> Result<(), Error> {
        let outcome = if is_on {
            let annotations = json!({"nginx.ingress.kubernetes.io/permanent-redirect": "https://localhost/new"});
            self.api().create(INGRESSES, &ingress("old", "/old", &annotations))
        } else {
            self.api().delete(&format!("{INGRESSES}/old"))
        };
        outcome.map(drop).map_err(Into::into)
    }

    pub fn processes(&self, pods: Pods) -> Vec<ProcessId> {
        self.node.processes(pods.name()).into_iter().map(|(_, process)| process).collect()
    }

    /// What went wrong with the cluster itself.
    pub fn fault(&self) -> Option<String> {
        self.node.fault().or_else(|| self.address.as_ref()?.fault())
    }

    fn pods(&self, pods: Pods) -> Result<Vec<Value>, Error> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app%3D{}", pods.name());
        Ok(self.api().get(&path)?["items"].as_array().cloned().unwrap_or_default())
    }
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null() && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Builds of one proxy are images of their own.
fn image_of(program: &Program) -> String {
    format!("lab/{}", program.name.replace(' ', "-"))
}

/// What is there without a proxy.
fn objects(backends: usize, folder: &Path) -> Result<Vec<(&'static str, Value)>, Error> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    let labels = json!({"app": BACKEND});
    Ok(vec![
        (
            "/apis/networking.k8s.io/v1/ingressclasses",
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "nginx"},
                "spec": {"controller": "k8s.io/ingress-nginx"},
            }),
        ),
        (
            "/api/v1/namespaces/lab/secrets",
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pages"}, "type": "kubernetes.io/tls",
                "stringData": {"tls.crt": read("cert.pem")?, "tls.key": read("key.pem")?},
            }),
        ),
        ("/api/v1/namespaces/lab/services", service(BACKEND, &json!([{"name": "http", "port": 80, "targetPort": 8080}]))),
        (
            DEPLOYMENTS,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": BACKEND},
                "spec": {"replicas": backends, "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"automountServiceAccountToken": false, "containers": [{
                        "name": BACKEND, "image": BACKEND, "ports": [{"containerPort": 8080}],
                        "readinessProbe": {"httpGet": {"path": "/11b", "port": 8080}},
                    }]},
                }},
            }),
        ),
        (
            INGRESSES,
            ingress(
                "pages",
                "/",
                &json!({
                    "nginx.ingress.kubernetes.io/proxy-body-size": "8m",
                    "nginx.ingress.kubernetes.io/proxy-read-timeout": "60",
                    "nginx.ingress.kubernetes.io/ssl-redirect": "true",
                }),
            ),
        ),
        (
            "/api/v1/namespaces/lab/serviceaccounts",
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": PROXY}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "lab-proxy"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": PROXY, "namespace": NAMESPACE}],
            }),
        ),
        (
            "/api/v1/namespaces/lab/configmaps",
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tidegate"},
                "data": {"tidegate.kdl": format!("admin \"[::]:{ADMIN_PORT}\" serve=\"metrics\"\ndrain \"30s\"\n")},
            }),
        ),
    ])
}

fn service(name: &str, ports: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports},
    })
}

fn ingress(name: &str, path: &str, annotations: &Value) -> Value {
    let backend = json!({"service": {"name": BACKEND, "port": {"number": 80}}});
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "ingressClassName": "nginx", "tls": [{"hosts": ["localhost"], "secretName": "pages"}],
            "rules": [{"host": "localhost", "http": {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}}],
        },
    })
}

/// What a controller is started with, and the path that says whether it is ready. The same objects for each: those
/// that ingress-nginx reads.
pub fn arguments(kind: PeerKind) -> (Vec<String>, &'static str) {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match kind {
        PeerKind::Traefik => (
            own(&[
                "--experimental.kubernetesingressnginx=true",
                "--providers.kubernetesingressnginx=true",
                "--entrypoints.web.address=:8080",
                "--entrypoints.websecure.address=:8443",
                "--entrypoints.traefik.address=:9180",
                "--ping=true",
            ]),
            "/ping",
        ),
        PeerKind::Tidegate | PeerKind::Haproxy | PeerKind::Nginx | PeerKind::Angie | PeerKind::Envoy | PeerKind::Caddy => (
            own(&[
                "kubernetes",
                "run",
                "--config=/etc/tidegate/tidegate.kdl",
                "--take-over=k8s.io/ingress-nginx",
                "--http=[::]:8080",
                "--https=[::]:8443",
                "--leave-after=5s",
                "--lease=tidegate",
                "--publish-service=$(POD_NAMESPACE)/proxy",
            ]),
            "/readyz",
        ),
    }
}

/// Replicas with their Service, as the charts of both have them as far as it matters here.
fn proxies(program: &Program, replicas: usize) -> [(&'static str, Value); 2] {
    let (arguments, ready) = arguments(program.kind);
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let labels = json!({"app": PROXY});
    let ports = json!([{"name": "https", "port": 443, "targetPort": 8443}, {"name": "http", "port": 80, "targetPort": 8080}]);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": PROXY},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": PROXY, "terminationGracePeriodSeconds": 60,
                "containers": [{
                    "name": PROXY, "image": image_of(program), "args": arguments,
                    "env": [
                        field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"),
                        field("POD_IPS", "status.podIPs"), {"name": "STATE_DIRECTORY", "value": "/state"},
                    ],
                    "readinessProbe": {"httpGet": {"path": ready, "port": ADMIN_PORT}},
                    "volumeMounts": [
                        {"name": "config", "mountPath": "/etc/tidegate"}, {"name": "state", "mountPath": "/state"},
                    ],
                }],
                "volumes": [{"name": "config", "configMap": {"name": "tidegate"}}, {"name": "state", "emptyDir": {}}],
            },
        }},
    });
    [("/api/v1/namespaces/lab/services", service(PROXY, &ports)), (DEPLOYMENTS, deployment)]
}
