//! A shop in a cluster with the real controllers: a Deployment with its Service and two Ingresses, and Tidegate in front,
//! as one process beside the cluster or as replicas in it, behind a Service of their own.

use base64::Engine;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::control_plane::{ControlPlane, Node, PROGRAM_IMAGE, SERVER_IMAGE, ServiceAddress};
use tidegate_testkit::load::Goal;
use tidegate_testkit::proxy::admin_of;
use tidegate_testkit::{KeyKind, Metrics, Program, Surroundings, get, tls};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
pub const HOST: &str = "shop.example";
/// What annotations are put on and taken off.
pub const SWITCHED: &str = "/switched";
/// Whatever has to happen happens by then, however busy the machine.
const BOUND: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
/// Where replicas are asked whether they are ready, and for their metrics.
const ADMIN_PORT: u16 = 9090;

/// What is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaled {
    Servers,
    Proxies,
}

impl Scaled {
    /// The name of the Deployment, and of the label `app` of its pods.
    fn name(self) -> &'static str {
        match self {
            Scaled::Servers => "web",
            Scaled::Proxies => "proxy",
        }
    }
}

/// Declared in the order in which it ends: who asks, before what is asked.
pub struct Shop {
    front: Front,
    pub goal: Goal,
    node: Node,
    plane: ControlPlane,
    places: Places,
}

enum Front {
    /// In the network of the test.
    Process { program: Program, admin: String },
    /// Pods, behind an address.
    Replicas(ServiceAddress),
}

impl Shop {
    /// With one process in front; `None` where nothing is built.
    pub fn open(servers: u32) -> Option<Shop> {
        let (plane, node, mut places) = cluster(servers)?;
        let base = places.fill("admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 2\n").expect("ports");
        let [plain, secure] = ["127.0.0.1:{port}", "127.0.0.1:{port:tls}"].map(|text| places.fill(text).expect("a port"));
        places.release_proxy_ports();
        let arguments = arguments(&places, &base, &plane.url(), &plane, [&plain, &secure]);
        let mut program =
            Program::start_in(Path::new(PROGRAM), &arguments, places.folder(), &Surroundings::default()).expect("it starts");
        let admin = admin_of(&base).expect("an admin endpoint");
        program.wait_until("ready", || get(&admin, "/readyz").is_ok_and(|(status, _)| status == 200)).expect("it is ready");
        let address = |text: &str| text.parse().expect("an address");
        let goal = goal(&mut places, address(&plain), address(&secure));
        let shop = Shop { front: Front::Process { program, admin }, goal, node, plane, places };
        shop.comes_to(Scaled::Servers, servers);
        Some(shop)
    }

    /// With replicas in front; `None` where nothing is built.
    pub fn open_with_replicas(servers: u32, replicas: u32) -> Option<Shop> {
        let (plane, node, mut places) = cluster(servers)?;
        let base = format!("admin \"0.0.0.0:{ADMIN_PORT}\" serve=\"metrics\"\naccess-log \"off\"\nthreads 1\ndrain \"30s\"\n");
        let arguments = arguments(&places, &base, &plane.url_for_pods(), &plane, ["0.0.0.0:8080", "0.0.0.0:8443"]);
        for (path, object) in proxies(replicas, &arguments) {
            plane.api().create(path, &object).expect("it is made");
        }
        let address = ServiceAddress::start(&plane, "shop", "proxy").expect("an address");
        let goal = goal(&mut places, (address.ip, 80).into(), (address.ip, 443).into());
        let shop = Shop { front: Front::Replicas(address), goal, node, plane, places };
        shop.comes_to(Scaled::Proxies, replicas);
        shop.comes_to(Scaled::Servers, servers);
        Some(shop)
    }

    pub fn scale(&self, what: Scaled, replicas: u32) {
        self.plane.api().merge(&deployment(what), &json!({"spec": {"replicas": replicas}})).expect("it is scaled");
        self.comes_to(what, replicas);
    }

    /// Scales replicas down so that the oldest leave, who hold most connections of clients. Gives how many requests each
    /// of these had answered by then.
    pub fn retire_replicas(&self, replicas: u32) -> Vec<u64> {
        let mut pods = self.pods(Scaled::Proxies);
        pods.sort_by_key(|pod| (pod.created.clone(), pod.name.clone()));
        let leaving = &pods[..pods.len().saturating_sub(replicas as usize)];
        for pod in leaving {
            let cheapest = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
            self.plane.api().merge(&format!("/api/v1/namespaces/shop/pods/{}", pod.name), &cheapest).expect("it is marked");
        }
        let requests = |pod: &Pod| {
            let seen = Metrics::fetch(&pod.admin()).expect("metrics");
            seen.sum("tidegate_http_requests_total") as u64
        };
        let answered = leaving.iter().map(requests).collect();
        self.scale(Scaled::Proxies, replicas);
        let left = self.pods(Scaled::Proxies);
        assert!(leaving.iter().all(|pod| left.iter().all(|other| other.name != pod.name)), "others left than were to leave");
        answered
    }

    /// Puts annotations on the Ingress of [`SWITCHED`], or takes them off with `Null`.
    pub fn annotate(&self, annotations: &Value) {
        let path = format!("{INGRESSES}/switched");
        self.plane.api().merge(&path, &json!({"metadata": {"annotations": annotations}})).expect("it is annotated");
    }

    /// Until so many pods are ready and lead somewhere, and all others are gone.
    fn comes_to(&self, what: Scaled, replicas: u32) {
        let began = Instant::now();
        loop {
            let pods = self.pods(what);
            let ready = self.plane.api().get(&deployment(what)).expect("a Deployment")["status"]["readyReplicas"].as_u64();
            let known = match what {
                Scaled::Servers => self.servers_known(),
                Scaled::Proxies => self.front.endpoints(),
            };
            if (pods.len(), ready, &known) == (replicas as usize, Some(replicas.into()), &vec![replicas as usize; known.len()]) {
                return;
            }
            let seen = format!("{} pods, {ready:?} ready, {known:?} known, {:?}", pods.len(), self.fault());
            assert!(began.elapsed() < BOUND, "{replicas} of {what:?} are wanted: {seen}\n{}", self.output());
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The pods of a Deployment.
    fn pods(&self, what: Scaled) -> Vec<Pod> {
        let path = format!("/api/v1/namespaces/shop/pods?labelSelector=app%3D{}", what.name());
        let pods = self.plane.api().get(&path).expect("pods");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pod = |pod: &Value| Pod {
            name: text(&pod["metadata"]["name"]),
            created: text(&pod["metadata"]["creationTimestamp"]),
            ip: text(&pod["status"]["podIP"]),
        };
        pods["items"].as_array().into_iter().flatten().map(pod).collect()
    }

    /// How many servers each proxy knows.
    fn servers_known(&self) -> Vec<usize> {
        let admins = match &self.front {
            Front::Process { admin, .. } => vec![admin.clone()],
            Front::Replicas(_) => self.pods(Scaled::Proxies).iter().map(Pod::admin).collect(),
        };
        let known = |admin: &String| Metrics::fetch(admin).map_or(0, |seen| seen.sum("tidegate_discovery_members") as usize);
        admins.iter().map(known).collect()
    }

    /// What went wrong first with the cluster, if anything did.
    pub fn fault(&self) -> Option<String> {
        let of_address = match &self.front {
            Front::Process { .. } => None,
            Front::Replicas(address) => address.fault(),
        };
        self.node.fault().or(of_address)
    }

    /// For failure messages.
    pub fn output(&self) -> String {
        let front = match &self.front {
            Front::Process { program, .. } => program.output(),
            Front::Replicas(_) => self.node.output("proxy"),
        };
        format!("{}\n{front}\n{}", self.places.folder().display(), self.plane.output())
    }
}

/// One that runs.
struct Pod {
    name: String,
    created: String,
    ip: String,
}

impl Pod {
    /// Where a replica is asked for its metrics.
    fn admin(&self) -> String {
        format!("{}:{ADMIN_PORT}", self.ip)
    }
}

impl Front {
    fn endpoints(&self) -> Vec<usize> {
        match self {
            Front::Process { .. } => Vec::new(),
            Front::Replicas(address) => vec![address.endpoints()],
        }
    }
}

fn deployment(what: Scaled) -> String {
    format!("/apis/apps/v1/namespaces/shop/deployments/{}", what.name())
}

/// A cluster with the shop's objects, and nobody in front.
fn cluster(servers: u32) -> Option<(ControlPlane, Node, Places)> {
    let mut plane = ControlPlane::start().expect("it starts")?;
    plane.start_controllers().expect("they start");
    plane.namespace("shop").expect("a namespace");
    let node = Node::start(&plane, "node-1", Path::new(PROGRAM)).expect("a node");
    let mut places = Places::new().expect("a folder");
    for (path, object) in objects(&mut places, servers) {
        plane.api().create(path, &object).expect("it is made");
    }
    Some((plane, node, places))
}

/// What the program is started with, in the folder of the shop; all replicas read the same files.
fn arguments(places: &Places, base: &str, url: &str, plane: &ControlPlane, [plain, secure]: [&str; 2]) -> Vec<String> {
    let account = plane.tidegate_account("shop").expect("an account");
    let [token, file] = ["token", "tidegate.kdl"].map(|name| places.folder().join(name));
    std::fs::write(&token, &account.token).expect("a file");
    std::fs::write(&file, base).expect("a file");
    let [token, file, root] = [token.as_path(), &file, plane.root_file()].map(|path| path.display().to_string());
    let mut arguments = vec!["kubernetes", "run", "--config", &file, "--http", plain, "--https", secure];
    arguments.extend(["--api", url, "--token-file", &token, "--ca", &root, "--lease", "shop/tidegate"]);
    arguments.into_iter().map(str::to_owned).collect()
}

/// What is made, and where.
fn objects(places: &mut Places, replicas: u32) -> Vec<(&'static str, Value)> {
    let files = places.authority("main").and_then(|authority| authority.issue(HOST, KeyKind::Ecdsa)).expect("a certificate");
    let read = |path: &Path| base64::engine::general_purpose::STANDARD.encode(std::fs::read(path).expect("a file"));
    let metadata = json!({"name": "web"});
    vec![
        (
            "/apis/networking.k8s.io/v1/ingressclasses",
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "tidegate"},
                "spec": {"controller": "tidegate.dev/ingress"},
            }),
        ),
        (
            "/api/v1/namespaces/shop/secrets",
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls",
                "data": {"tls.crt": read(&files.cert), "tls.key": read(&files.key)},
            }),
        ),
        (
            "/api/v1/namespaces/shop/services",
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
            }),
        ),
        (
            "/apis/apps/v1/namespaces/shop/deployments",
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": {
                    "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 10,
                        "containers": [{
                            "name": "web", "image": SERVER_IMAGE, "ports": [{"name": "http", "containerPort": 8080}],
                            "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
                        }],
                    }},
                },
            }),
        ),
        (INGRESSES, ingress("web", "/")),
        (INGRESSES, ingress("switched", SWITCHED)),
    ]
}

/// All of a path of the host, for the one Service.
fn ingress(name: &str, path: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
        "spec": {
            "ingressClassName": "tidegate", "tls": [{"hosts": [HOST], "secretName": "web"}],
            "rules": [{"host": HOST, "http": {"paths": [{
                "path": path, "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"name": "http"}}},
            }]}}],
        },
    })
}

/// Replicas of the program with a Service, as the chart has them as far as it matters here.
fn proxies(replicas: u32, arguments: &[String]) -> [(&'static str, Value); 2] {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let (metadata, labels) = (json!({"name": "proxy"}), json!({"app": "proxy"}));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {"selector": labels, "ports": [
            {"name": "https", "port": 443, "targetPort": 8443}, {"name": "http", "port": 80, "targetPort": 8080},
        ]},
    });
    let container = json!({
        "name": "proxy", "image": PROGRAM_IMAGE, "args": arguments,
        "env": [
            field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"),
            field("POD_IPS", "status.podIPs"),
        ],
        "ports": [{"name": "https", "containerPort": 8443}, {"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": ADMIN_PORT}},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 40, "containers": [container],
            }},
        },
    });
    [("/api/v1/namespaces/shop/services", service), ("/apis/apps/v1/namespaces/shop/deployments", deployment)]
}

/// Where clients go, who believe the shop's authority.
fn goal(places: &mut Places, plain: SocketAddr, secure: SocketAddr) -> Goal {
    let root = places.authority("main").expect("an authority").root().clone();
    let config = |alpn: &str| {
        let options = tls::ClientOptions { alpn: vec![alpn.into()], send_sni: true, ..Default::default() };
        Arc::new(tls::client_config(Some(&root), &options).expect("a configuration"))
    };
    let (tls, tls_h2) = (config("http/1.1"), config("h2"));
    Goal { host: HOST.to_owned(), plain, secure, tls, tls_h2 }
}
