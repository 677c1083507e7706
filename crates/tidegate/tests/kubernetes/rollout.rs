//! Pods of a Deployment that come and go under load, behind `tidegate kubernetes run`: the controllers are the real
//! ones, and pods are processes in network namespaces of their own. Nobody may notice.

use base64::Engine;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::control_plane::network::is_inside;
use tidegate_testkit::control_plane::{ControlPlane, Node, SERVER_IMAGE};
use tidegate_testkit::load::{Goal, Kind, Load, Order};
use tidegate_testkit::proxy::admin_of;
use tidegate_testkit::{KeyKind, Metrics, Program, Surroundings, get, tls};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HOST: &str = "shop.example";
/// Whatever has to happen happens by then, however busy the machine.
const BOUND: Duration = Duration::from_secs(120);
/// Of all clients together: the machine is shared with the control plane, and it is not about throughput.
const PER_SECOND: u32 = 400;
/// Between two steps, for requests with so many pods as there are.
const PAUSE: Duration = Duration::from_secs(2);
const REPLICAS: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

/// A shop with a Deployment, its Service and an Ingress, and Tidegate in front.
struct Shop {
    /// Declared before what it asks, so that it ends first.
    program: Program,
    admin: String,
    goal: Goal,
    node: Node,
    plane: ControlPlane,
    _places: Places,
}

impl Shop {
    /// `None` where nothing is built.
    fn open(replicas: u32) -> Option<Shop> {
        let mut plane = ControlPlane::start().expect("it starts")?;
        plane.start_controllers().expect("they start");
        plane.namespace("shop").expect("a namespace");
        let node = Node::start(&plane, "node-1").expect("a node");
        let account = plane.tidegate_account("shop").expect("an account");
        let mut places = Places::new().expect("a folder");
        let api = plane.api();
        for (path, object) in objects(&mut places, replicas) {
            api.create(path, &object).expect("it is made");
        }
        let token = places.folder().join("token");
        std::fs::write(&token, &account.token).expect("a file");
        let base = places.fill("admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 2\n").expect("ports");
        let file = places.config_file();
        std::fs::write(&file, &base).expect("a file");
        let [plain, secure] = ["127.0.0.1:{port}", "127.0.0.1:{port:tls}"].map(|text| places.fill(text).expect("a port"));
        places.release_proxy_ports();
        let (file, token) = (file.display().to_string(), token.display().to_string());
        let (url, root) = (plane.url(), plane.root_file().display().to_string());
        let mut arguments = vec!["kubernetes", "run", "--config", &file, "--http", &plain, "--https", &secure];
        arguments.extend(["--api", &url, "--token-file", &token, "--ca", &root, "--lease", "shop/tidegate"]);
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let mut program =
            Program::start_in(Path::new(PROGRAM), &arguments, places.folder(), &Surroundings::default()).expect("it starts");
        let admin = admin_of(&base).expect("an admin endpoint");
        program.wait_until("ready", || get(&admin, "/readyz").is_ok_and(|(status, _)| status == 200)).expect("it is ready");
        let goal = goal(&mut places, &plain, &secure);
        let shop = Shop { program, admin, goal, node, plane, _places: places };
        shop.comes_to(replicas);
        Some(shop)
    }

    fn scale(&self, replicas: u32) {
        self.plane.api().merge(REPLICAS, &json!({"spec": {"replicas": replicas}})).expect("it is scaled");
        self.comes_to(replicas);
    }

    /// Until so many pods are ready and so many servers known, and all others are gone.
    fn comes_to(&self, replicas: u32) {
        let began = Instant::now();
        loop {
            let pods = self.plane.api().get("/api/v1/namespaces/shop/pods").expect("pods");
            let pods = pods["items"].as_array().map_or(0, Vec::len);
            let ready = self.plane.api().get(REPLICAS).expect("a Deployment")["status"]["readyReplicas"].as_u64().unwrap_or(0);
            let servers = Metrics::fetch(&self.admin).map_or(0, |metrics| metrics.sum("tidegate_discovery_members") as u32);
            if (pods as u64, ready) == (u64::from(replicas), u64::from(replicas)) && servers == replicas {
                return;
            }
            let seen = format!("{pods} pods, {ready} ready, {servers} servers, {:?}", self.node.fault());
            assert!(began.elapsed() < BOUND, "{replicas} are wanted: {seen}\n{}\n{}", self.program.output(), self.plane.output());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// 5→7→5 three times under a load of so many clients each, and nobody notices.
    fn rolls_unnoticed(&self, clients: &[usize]) {
        let orders = [Order::Pattern(11), Order::Pattern(20_000)];
        let per_second = PER_SECOND / clients.len() as u32;
        let start =
            |count: &usize| Load::start_paced(&self.goal, &[(Kind::KeepAliveTls, *count)], &orders, per_second).expect("a load");
        let loads: Vec<Load> = clients.iter().map(start).collect();
        std::thread::sleep(PAUSE);
        for replicas in [7, 5, 7, 5, 7, 5] {
            self.scale(replicas);
            std::thread::sleep(PAUSE);
        }
        for load in loads {
            let tally = load.finish();
            println!("{} clients: {tally}", clients[0]);
            assert!(tally.done > 100 && tally.is_clean(), "{tally}\n{}", self.program.output());
        }
        assert_eq!(self.node.fault(), None);
    }
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
        (
            "/apis/networking.k8s.io/v1/namespaces/shop/ingresses",
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata,
                "spec": {
                    "ingressClassName": "tidegate", "tls": [{"hosts": [HOST], "secretName": "web"}],
                    "rules": [{"host": HOST, "http": {"paths": [{
                        "path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"name": "http"}}},
                    }]}}],
                },
            }),
        ),
    ]
}

fn goal(places: &mut Places, plain: &str, secure: &str) -> Goal {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let root = places.authority("main").expect("an authority").root().clone();
    let config = |alpn: &str| {
        let options = tls::ClientOptions { alpn: vec![alpn.into()], send_sni: true, ..Default::default() };
        Arc::new(tls::client_config(Some(&root), &options).expect("a configuration"))
    };
    let (tls, tls_h2) = (config("http/1.1"), config("h2"));
    Goal { host: HOST.to_owned(), plain: address(plain), secure: address(secure), tls, tls_h2 }
}

#[test]
fn pods_come_and_go_unnoticed() {
    if !is_inside("rollout::pods_come_and_go_unnoticed").expect("it passes inside") {
        return;
    }
    let Some(shop) = Shop::open(5) else { return };
    shop.rolls_unnoticed(&[250]);
    shop.rolls_unnoticed(&[50, 50, 50, 50, 50]);
}
