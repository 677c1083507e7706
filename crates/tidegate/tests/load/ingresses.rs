//! A controller with many Ingresses, each with a host, a Service and ten endpoints of its own: one after the other
//! leads elsewhere, and no other moves; then a change of every other kind. `INGRESSES=10000 CHANGES=300` is the size of
//! a large cluster; `ONE_HOST=1` has all of them say something of one host, `TLS=1` gives each a Secret. How long a
//! change takes, and what it costs, is printed. `PROGRAM=…` measures another build.

use crate::endpoints::{cpu, elsewhere, of_environment, percentiles, service, slice, wait_for};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::kubernetes::{ApiServer, TOKEN};
use tidegate_testkit::server::{Server, Settings};
use tidegate_testkit::{Authority, KeyKind, Program, Surroundings, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const INGRESSES: usize = 200;
const CHANGES: usize = 20;
/// Far beyond what any start takes.
const BOUND: Duration = Duration::from_secs(120);

fn ingress(number: usize, host: &str, path: &str, service: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"namespace": "shop", "name": format!("i{number}"), "creationTimestamp": "2026-11-20T10:00:00Z"},
        "spec": {"ingressClassName": "tidegate", "rules": [{"host": host, "http": {"paths": [{
            "path": path, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}},
        }]}}]},
    })
}

/// A Secret with a certificate for every host here.
fn secret(number: usize, pair: &(String, String)) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": format!("s{number}-tls")},
        "type": "kubernetes.io/tls", "data": {"tls.crt": pair.0, "tls.key": pair.1},
    })
}

/// Two pairs for `*.test`, in base64.
fn pairs() -> [(String, String); 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "test").expect("an authority");
    [(), ()].map(|()| {
        let pair = authority.issue("*.test", KeyKind::Ecdsa).expect("a certificate");
        let read = |path: &Path| BASE64_STANDARD.encode(std::fs::read(path).expect("a file"));
        (read(&pair.cert), read(&pair.key))
    })
}

/// The program as a controller of that cluster, and where it takes requests.
fn start(cluster: &ApiServer) -> (Program, Places, std::net::SocketAddr) {
    let mut places = Places::new().expect("a folder");
    let file = |name: &str, text: String| {
        let path = places.folder().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let token = file("token", TOKEN.to_owned());
    let base = places.fill("admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 2\nlog level=\"warn\"\n").expect("places");
    let config = places.folder().join("base.kdl");
    std::fs::write(&config, base).expect("a file");
    let (http, admin) = (places.main_address().expect("a port"), places.admin_address().expect("a port"));
    places.release_proxy_ports();
    let config = config.display().to_string();
    let api = cluster.url();
    let arguments = [
        "kubernetes",
        "run",
        "--config",
        &config,
        "--api",
        &api,
        "--token-file",
        &token,
        "--status",
        "off",
        "--https",
        "off",
        "--http",
        &http,
    ];
    let program = std::env::var("PROGRAM").unwrap_or_else(|_| PROGRAM.to_owned());
    let state = places.folder().join("state").display().to_string();
    let surroundings = Surroundings { environment: vec![("STATE_DIRECTORY", state)], ..Surroundings::default() };
    let arguments = arguments.map(str::to_owned);
    let program = Program::start_in(Path::new(&program), &arguments, places.folder(), &surroundings).expect("it starts");
    let began = Instant::now();
    while !matches!(get(&admin, "/readyz"), Ok((200, _))) {
        assert!(began.elapsed() < BOUND, "{}", program.output());
        std::thread::sleep(Duration::from_millis(5));
    }
    (program, places, http.parse().expect("an address"))
}

#[test]
fn one_ingress_among_many_leads_elsewhere() {
    let _alone = crate::alone();
    let (ingresses, changes) = (of_environment("INGRESSES", INGRESSES), of_environment("CHANGES", CHANGES));
    let is_one_host = of_environment("ONE_HOST", 0) == 1;
    let (has_tls, pairs) = (of_environment("TLS", 0) == 1, pairs());
    let [first, second] = ["first", "second"].map(|name| Server::start(Settings::new(name)).expect("it starts"));
    let cluster = ApiServer::start().expect("a port is free");
    cluster.put(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "tidegate"},
        "spec": {"controller": "tidegate.dev/ingress"},
    }));
    for (name, server) in [("first", &first), ("second", &second)] {
        cluster.put(service(name));
        cluster.put(slice(name, &["127.0.0.1".to_owned()], server.address().port()));
    }
    let host = |number: usize| if is_one_host { "one.test".to_owned() } else { format!("i{number}.test") };
    let path = |number: usize| if is_one_host { format!("/{number}") } else { "/".to_owned() };
    for number in 0..ingresses {
        let name = format!("s{number}");
        cluster.put(service(&name));
        cluster.put(slice(&name, &elsewhere(number), 9));
        let mut object = ingress(number, &host(number), &path(number), &name);
        if has_tls {
            cluster.put(secret(number, &pairs[0]));
            object["spec"]["tls"] = json!([{"hosts": [host(number)], "secretName": format!("s{number}-tls")}]);
            // Plain HTTP is asked here.
            object["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/ssl-redirect": "false"});
        }
        cluster.put(object);
    }
    let began = Instant::now();
    let (program, _places, address) = start(&cluster);
    let (ready, pid) = (began.elapsed(), program.id());
    let (started, resident) = (cpu(pid), program.resident_kib().expect("it runs"));
    let mut took = Vec::new();
    let lead = |number: usize, name: &str| {
        cluster.put(ingress(number, &host(number), &if is_one_host { "/".to_owned() } else { path(number) }, name))
    };
    for change in 0..changes {
        let number = if is_one_host { 0 } else { change * 7 % ingresses };
        for name in ["first", "second"] {
            let since = Instant::now();
            lead(number, name);
            took.push(wait_for(address, &host(number), &format!("200 {name}"), since));
        }
    }
    // Once more without anybody who asks, for what a change costs.
    let before = cpu(pid);
    for change in 0..changes {
        lead(if is_one_host { 0 } else { change * 7 % ingresses }, if change % 2 == 0 { "first" } else { "second" });
        std::thread::sleep(Duration::from_millis(100));
    }
    let each = cpu(pid).saturating_sub(before) / changes as u32;
    let of_kinds = cost_of_kinds(pid, (ingresses, changes), |kind, change| {
        let number = change * 7 % ingresses;
        let name = format!("s{number}");
        match kind {
            "annotation" => {
                let mut object = ingress(number, &host(number), &path(number), &name);
                let seconds = if change % 2 == 0 { "7" } else { "8" };
                object["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/proxy-read-timeout": seconds});
                cluster.put(object);
            }
            "endpoint" => _ = cluster.put(slice(&name, &elsewhere(number + 1 + change % 2), 9)),
            "Service" => {
                let mut object = service(&name);
                object["spec"]["ports"][0]["appProtocol"] =
                    if change % 2 == 0 { json!("kubernetes.io/h2c") } else { Value::Null };
                cluster.put(object);
            }
            "Secret" => _ = cluster.put(secret(number, &pairs[change % 2])),
            "new Ingress" => {
                let (host, path) =
                    if is_one_host { (host(0), format!("/n{change}")) } else { (format!("n{change}.test"), "/".to_owned()) };
                cluster.put(ingress(ingresses + change, &host, &path, "first"));
            }
            _ => cluster.remove(&ingress(ingresses + change, "", "", "")),
        }
    });
    let grown = program.resident_kib().expect("it runs");
    let [median, most] = percentiles(took.clone(), [50, 99]);
    println!(
        "{ingresses} Ingresses: ready in {ready:?} with {started:?} of CPU and {resident} KiB, {grown} KiB in the end; {} changes in force after {median:?} (median), {most:?} (99 %); {each:?} of CPU each; {of_kinds}",
        took.len(),
    );
}

/// What one change of each other kind costs, in CPU.
fn cost_of_kinds(pid: u32, (ingresses, changes): (usize, usize), change: impl Fn(&str, usize)) -> String {
    let changes = changes.min(ingresses);
    let cost = |kind: &str| {
        let before = cpu(pid);
        for number in 0..changes {
            change(kind, number);
            std::thread::sleep(Duration::from_millis(100));
        }
        format!("{kind} {:?}", cpu(pid).saturating_sub(before) / changes as u32)
    };
    ["annotation", "endpoint", "Service", "Secret", "new Ingress", "removed Ingress"].map(cost).join(", ")
}
