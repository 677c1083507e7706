//! A shop in a cluster with the real controllers: a Deployment with its Service and two Ingresses, and Tidegate in
//! front, as one process beside the cluster or as replicas in it that the chart has installed.

use crate::release::{self, NAMESPACE, RELEASE, Release};
use base64::Engine;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::control_plane::{ControlPlane, Image, Node, ServiceAddress, helm};
use tidegate_testkit::load::Goal;
use tidegate_testkit::proxy::admin_of;
use tidegate_testkit::server::{self, Settings, told_to};
use tidegate_testkit::{KeyKind, Metrics, Program, Surroundings, get, tls};

pub const HOST: &str = "shop.example";
/// What annotations are put on and taken off.
pub const SWITCHED: &str = "/switched";
/// Whatever has to happen happens by then, however busy the machine.
const BOUND: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const SERVER_PORT: u16 = 8080;
/// Where replicas are asked for their metrics: the chart's own.
const ADMIN_PORT: u16 = 9180;

/// What is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaled {
    Servers,
    Proxies,
}

impl Scaled {
    fn namespace(self) -> &'static str {
        match self {
            Scaled::Servers => "shop",
            Scaled::Proxies => NAMESPACE,
        }
    }

    /// The name of the Deployment.
    fn name(self) -> &'static str {
        match self {
            Scaled::Servers => "web",
            Scaled::Proxies => RELEASE,
        }
    }

    /// By which its pods are found.
    fn label(self) -> &'static str {
        match self {
            Scaled::Servers => "app%3Dweb",
            Scaled::Proxies => "app.kubernetes.io/instance%3Dtidegate",
        }
    }
}

/// Declared in the order in which it ends: who asks, before what is asked.
pub struct Shop {
    front: Front,
    pub goal: Goal,
    pub node: Node,
    pub plane: ControlPlane,
    places: Places,
}

enum Front {
    /// In the network of the test.
    Process { program: Program, admin: String },
    /// Pods, behind an address.
    Replicas { address: ServiceAddress, release: Release },
}

impl Shop {
    /// With one process in front; `None` where nothing is built.
    pub fn open(servers: u32) -> Option<Shop> {
        let (plane, node, mut places) = cluster(servers, false)?;
        let class = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "tidegate"},
            "spec": {"controller": "tidegate.dev/ingress"},
        });
        plane.api().create("/apis/networking.k8s.io/v1/ingressclasses", &class).expect("a class");
        let base = places.fill("admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 2\n").expect("ports");
        let [plain, secure] = ["127.0.0.1:{port}", "127.0.0.1:{port:tls}"].map(|text| places.fill(text).expect("a port"));
        places.release_proxy_ports();
        let arguments = arguments(&places, &base, &plane.url(), &plane, [&plain, &secure]);
        let mut program =
            Program::start_in(&crate::program(), &arguments, places.folder(), &Surroundings::default()).expect("it starts");
        let admin = admin_of(&base).expect("an admin endpoint");
        program.wait_until("ready", || get(&admin, "/readyz").is_ok_and(|(status, _)| status == 200)).expect("it is ready");
        let address = |text: &str| text.parse().expect("an address");
        let goal = goal(&mut places, address(&plain), address(&secure));
        let shop = Shop { front: Front::Process { program, admin }, goal, node, plane, places };
        shop.comes_to(Scaled::Servers, servers);
        Some(shop)
    }

    /// With replicas in front, as the chart installs them; `None` where nothing is built.
    pub fn open_with_replicas(servers: u32, replicas: u32) -> Option<Shop> {
        let helm = helm().expect("Helm is found")?;
        let (plane, node, mut places) = cluster(servers, false)?;
        let release = Release::install(&plane, helm, &[&format!("replicas={replicas}")]);
        let address = ServiceAddress::start(&plane, NAMESPACE, RELEASE).expect("an address");
        let goal = goal(&mut places, (address.ip, 80).into(), (address.ip, 443).into());
        let shop = Shop { front: Front::Replicas { address, release }, goal, node, plane, places };
        shop.comes_to(Scaled::Proxies, replicas);
        shop.comes_to(Scaled::Servers, servers);
        Some(shop)
    }

    /// Has every replica be replaced by one of another version of the image, and waits until the last of the old ones
    /// is gone.
    pub fn roll_out(&self, tag: &str) {
        let Front::Replicas { release, .. } = &self.front else { panic!("there are no replicas") };
        let old = self.pods(Scaled::Proxies);
        release.upgrade(&self.plane, &[&format!("image.tag={tag}")]);
        let began = Instant::now();
        let is_left = || self.pods(Scaled::Proxies).iter().any(|pod| old.iter().any(|old| old.name == pod.name));
        while is_left() {
            assert!(began.elapsed() < BOUND, "old replicas are left after {BOUND:?}\n{}", self.output());
            std::thread::sleep(POLL_INTERVAL);
        }
        self.comes_to(Scaled::Proxies, old.len() as u32);
    }

    pub fn scale(&self, what: Scaled, replicas: u32) {
        self.plane.api().merge(&deployment(what), &json!({"spec": {"replicas": replicas}})).expect("it is scaled");
        self.comes_to(what, replicas);
    }

    /// Scales replicas down so that the oldest leave, who hold most connections of clients. Gives how many requests
    /// each of these had answered by then.
    pub fn retire_replicas(&self, replicas: u32) -> Vec<u64> {
        let mut pods = self.pods(Scaled::Proxies);
        pods.sort_by_key(|pod| (pod.created.clone(), pod.name.clone()));
        let leaving = &pods[..pods.len().saturating_sub(replicas as usize)];
        for pod in leaving {
            let cheapest = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
            self.plane
                .api()
                .merge(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{}", pod.name), &cheapest)
                .expect("it is marked");
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
    pub fn comes_to(&self, what: Scaled, replicas: u32) {
        let began = Instant::now();
        loop {
            let pods = self.pods(what);
            let are_all_ready = pods.iter().all(|pod| pod.is_ready);
            let ready = self.plane.api().get(&deployment(what)).expect("a Deployment")["status"]["readyReplicas"].as_u64();
            let known = match what {
                Scaled::Servers => self.servers_known(),
                Scaled::Proxies => self.front.endpoints(),
            };
            let is_known = known.iter().all(|known| *known == replicas as usize);
            if are_all_ready && is_known && (pods.len(), ready) == (replicas as usize, Some(replicas.into())) {
                return;
            }
            let seen = format!(
                "{} pods, all of them ready: {are_all_ready}, {ready:?} ready, {known:?} known, {:?}",
                pods.len(),
                self.fault()
            );
            assert!(began.elapsed() < BOUND, "{replicas} of {what:?} are wanted: {seen}\n{}\n{}", self.slices(), self.output());
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Addresses of the pods of a Deployment.
    pub fn addresses(&self, what: Scaled) -> Vec<String> {
        self.pods(what).into_iter().map(|pod| pod.ip).collect()
    }

    /// The pods of a Deployment.
    fn pods(&self, what: Scaled) -> Vec<Pod> {
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector={}", what.namespace(), what.label());
        let pods = self.plane.api().get(&path).expect("pods");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pod = |pod: &Value| Pod {
            name: text(&pod["metadata"]["name"]),
            created: text(&pod["metadata"]["creationTimestamp"]),
            ip: text(&pod["status"]["podIP"]),
            is_ready: is_ready(pod),
        };
        pods["items"].as_array().into_iter().flatten().map(pod).collect()
    }

    /// Of the one process in front.
    pub fn process(&self) -> u32 {
        let Front::Process { program, .. } = &self.front else { panic!("there are replicas") };
        program.id()
    }

    /// Of the one process in front.
    pub fn metrics(&self) -> Metrics {
        let Front::Process { admin, .. } = &self.front else { panic!("there are replicas") };
        Metrics::fetch(admin).expect("metrics")
    }

    /// How many servers each proxy knows.
    fn servers_known(&self) -> Vec<usize> {
        let admins = match &self.front {
            Front::Process { admin, .. } => vec![admin.clone()],
            Front::Replicas { .. } => self.pods(Scaled::Proxies).iter().map(Pod::admin).collect(),
        };
        let known = |admin: &String| Metrics::fetch(admin).map_or(0, |seen| seen.sum("tidegate_discovery_members") as usize);
        admins.iter().map(known).collect()
    }

    /// What went wrong first with the cluster, if anything did.
    pub fn fault(&self) -> Option<String> {
        let of_address = match &self.front {
            Front::Process { .. } => None,
            Front::Replicas { address, .. } => address.fault(),
        };
        self.node.fault().or(of_address)
    }

    /// The API server was away: what the node complained of was to be expected.
    pub fn forgive(&self) {
        // Until what it asked of the one that went is over.
        std::thread::sleep(Duration::from_secs(1));
        self.node.forgive();
    }

    /// What the controllers say of servers, and since when the proxy has not been told of any; for failure messages.
    fn slices(&self) -> String {
        let slices = self.plane.api().get("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices").expect("slices");
        let slice = |slice: &Value| format!("{} {}", slice["metadata"]["resourceVersion"], slice["endpoints"]);
        let all: Vec<String> = slices["items"].as_array().into_iter().flatten().map(slice).collect();
        let stale = match &self.front {
            Front::Process { .. } => self.metrics().lines_of("tidegate_kubernetes_watch_stale_seconds"),
            Front::Replicas { .. } => String::new(),
        };
        format!("{}\n{stale}", all.join("\n"))
    }

    /// For failure messages.
    pub fn output(&self) -> String {
        let front = match &self.front {
            Front::Process { program, .. } => program.output(),
            Front::Replicas { .. } => self.node.output(RELEASE),
        };
        format!("{}\n{front}\n{}", self.places.folder().display(), self.plane.output())
    }
}

/// A pod that runs.
struct Pod {
    name: String,
    created: String,
    ip: String,
    is_ready: bool,
}

/// Whether a pod is ready, and does not leave. A Deployment says what was so when its controller last looked.
pub fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null() && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
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
            Front::Replicas { address, .. } => vec![address.endpoints()],
        }
    }
}

fn deployment(what: Scaled) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments/{}", what.namespace(), what.name())
}

/// A cluster with the shop's objects, and nobody in front.
pub fn cluster(servers: u32, is_audited: bool) -> Option<(ControlPlane, Node, Places)> {
    let plane = if is_audited { ControlPlane::start_audited() } else { ControlPlane::start() };
    Some(furnished(plane.expect("it starts")?, servers, vec![release::image()]))
}

/// As [`cluster`], with these images beside that of servers.
pub fn cluster_of(servers: u32, images: Vec<Image>) -> Option<(ControlPlane, Node, Places)> {
    Some(furnished(ControlPlane::start().expect("it starts")?, servers, images))
}

fn furnished(mut plane: ControlPlane, servers: u32, mut images: Vec<Image>) -> (ControlPlane, Node, Places) {
    plane.start_controllers().expect("they start");
    plane.namespace("shop").expect("a namespace");
    images.push(server::image().expect("an image"));
    let node = Node::start(&plane, "node-1", images).expect("a node");
    let mut places = Places::new().expect("a folder");
    for (path, object) in objects(&mut places, servers) {
        plane.api().create(path, &object).expect("it is made");
    }
    (plane, node, places)
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
    let metadata = json!({"name": "web"});
    let (told, how) = told_to((Ipv4Addr::UNSPECIFIED, SERVER_PORT).into(), &Settings::new("web"));
    vec![
        ("/api/v1/namespaces/shop/secrets", tls_secret(places, HOST)),
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
                            "name": "web", "image": server::IMAGE, "env": [{"name": told, "value": how}],
                            "ports": [{"name": "http", "containerPort": SERVER_PORT}],
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

/// A Secret `web` with a certificate of the main authority.
pub fn tls_secret(places: &mut Places, host: &str) -> Value {
    let files = places.authority("main").and_then(|authority| authority.issue(host, KeyKind::Ecdsa)).expect("a certificate");
    let read = |path: &Path| base64::engine::general_purpose::STANDARD.encode(std::fs::read(path).expect("a file"));
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "type": "kubernetes.io/tls",
        "data": {"tls.crt": read(&files.cert), "tls.key": read(&files.key)},
    })
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
