//! Servers that are found while the proxy runs, from a name server, Docker, Consul and Kubernetes, with processes
//! behind them. What the sources may say, and how they fail, is tested beside them in `discovery` and `cluster`.

use crate::pools::asked::{Asked, config};
use serde_json::{Value, json};
use tidegate_testkit::consul::{Consul, Instance};
use tidegate_testkit::dns::{NameServer, NameServerConduct, Service};
use tidegate_testkit::docker::{Container, Docker};
use tidegate_testkit::kubernetes::{ApiServer, TOKEN};
use tidegate_testkit::server::{Server, Settings};

const NAME: &str = "api.test";

fn start(name: &str) -> Server {
    Server::start(Settings::new(name)).expect("it starts")
}

fn wait_for_members(asked: &Asked, kind: &str, count: usize) {
    asked.wait_for_metric(&format!("tidegate_discovery_members{{kind=\"{kind}\"}}"), count as f64);
}

/// The lists that workers use follow what the source says within a moment, so they are asked for until they are used.
fn wait_until_only(asked: &Asked, names: &[&str]) {
    for name in names {
        asked.wait_for(&format!("an answer of {name}"), |reply| reply.status == 200 && reply.text() == *name);
    }
    asked.expect_from(20, names);
}

fn dns(server: &NameServer, question: &str) -> String {
    let discover = format!("balance \"round-robin\"; discover dns=\"{question}\" resolver=\"{}\" ttl-min=\"1s\"", server.address);
    config(&[], &discover, "")
}

#[test]
fn addresses_of_a_name_come_and_go() {
    let names = NameServer::start().expect("a name server");
    let first = start("first");
    let second = Server::start_beside(Settings::new("second"), &first, [127, 0, 0, 2]).expect("it starts");
    names.set_addresses(NAME, 1, &["127.0.0.1"]);
    let asked = Asked::start(&dns(&names, &format!("{NAME}:{}", first.address().port())));
    asked.expect_from(10, &["first"]);
    names.set_addresses(NAME, 1, &["127.0.0.1", "127.0.0.2"]);
    wait_for_members(&asked, "dns", 2);
    wait_until_only(&asked, &["first", "second"]);
    names.set_addresses(NAME, 1, &["127.0.0.2"]);
    wait_for_members(&asked, "dns", 1);
    asked.wait_for_metric(&format!("tidegate_upstream_server_state{{server=\"{}\"}}", first.address()), 0.0);
    asked.expect_from(10, &["second"]);
    names.set_conduct(NAME, NameServerConduct::Fails);
    let faults = "tidegate_discovery_faults_total{kind=\"dns\"}";
    asked.proxy.wait_for_metric_from(faults, 1.0, f64::INFINITY).expect("it is counted");
    asked.expect_from(10, &["second"]);
    assert_eq!(asked.metric("tidegate_discovery_members{kind=\"dns\"}").to_string(), "1", "the last answer is kept");
    assert!(asked.status().contains(&format!("app/{}", second.address())));
}

#[test]
fn the_proxy_starts_before_a_name_can_be_looked_up() {
    let names = NameServer::start().expect("a name server");
    let server = start("late");
    let asked = Asked::start(&dns(&names, &format!("{NAME}:{}", server.address().port())));
    let reply = asked.get("/");
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.text().contains("no_server"), "{}", reply.text());
    names.set_addresses(NAME, 1, &["127.0.0.1"]);
    asked.wait_for("an answer", |reply| reply.status == 200 && reply.text() == "late");
}

#[test]
fn service_records_bring_ports_and_priorities() {
    let names = NameServer::start().expect("a name server");
    let mut all = [start("a"), start("b"), start("spare")];
    let port = |server: &Server| server.address().port();
    let service = format!("_http._tcp.{NAME}");
    names.set_addresses("node.test", 1, &["127.0.0.1"]);
    let record = |priority, server: &Server| Service::new(priority, 1, port(server), "node.test");
    names.set_services(&service, 1, &[record(0, &all[0]), record(0, &all[1]), record(1, &all[2])]);
    let asked = Asked::start(&dns(&names, &format!("srv+{service}")));
    wait_for_members(&asked, "dns", 3);
    asked.expect_from(20, &["a", "b"]);
    names.set_services(&service, 1, &[record(0, &all[1]), record(1, &all[2])]);
    wait_for_members(&asked, "dns", 2);
    asked.wait_for_metric(&format!("tidegate_upstream_server_state{{server=\"node.test:{}\"}}", port(&all[0])), 0.0);
    wait_until_only(&asked, &["b"]);
    // The spare one is for when no other can be used.
    all[1].kill();
    asked.expect_from(10, &["spare"]);
}

#[test]
fn containers_come_and_go() {
    let docker = Docker::start().expect("a socket");
    let (first, second) = (start("first"), start("second"));
    docker.put(Container::new("one", "web", first.address().port()), "start");
    let discover = format!("balance \"round-robin\"; discover docker=\"web\" socket=\"{}\"", docker.socket().display());
    let asked = Asked::start(&config(&[], &discover, ""));
    asked.expect_from(10, &["first"]);
    docker.put(Container::new("two", "web", second.address().port()), "start");
    wait_until_only(&asked, &["first", "second"]);
    docker.remove("one");
    wait_for_members(&asked, "docker", 1);
    asked.wait_for_metric(&format!("tidegate_upstream_server_state{{server=\"{}\"}}", first.address()), 0.0);
    asked.expect_from(10, &["second"]);
    docker.stop().expect("it ends");
    asked.proxy.wait_for_metric_from("tidegate_discovery_faults_total", 1.0, f64::INFINITY).expect("it is counted");
    asked.expect_from(10, &["second"]);
}

#[test]
fn instances_of_consul_come_and_go() {
    let consul = Consul::start("web").expect("a port is free");
    let (first, second) = (start("first"), start("second"));
    let instance = |id: &str, server: &Server| Instance::new(id, "127.0.0.1", server.address().port());
    consul.set_instances(&[instance("one", &first)]);
    let discover = format!("balance \"round-robin\"; discover consul=\"web\" agent=\"http://{}\"", consul.address);
    let asked = Asked::start(&config(&[], &discover, ""));
    asked.expect_from(10, &["first"]);
    consul.set_instances(&[instance("one", &first), instance("two", &second)]);
    wait_until_only(&asked, &["first", "second"]);
    consul.set_instances(&[instance("two", &second)]);
    wait_for_members(&asked, "consul", 1);
    asked.wait_for_metric(&format!("tidegate_upstream_server_state{{server=\"{}\"}}", first.address()), 0.0);
    asked.expect_from(10, &["second"]);
    consul.set_refusal(Some((500, "no leader")));
    asked.proxy.wait_for_metric_from("tidegate_discovery_faults_total", 1.0, f64::INFINITY).expect("it is counted");
    asked.expect_from(10, &["second"]);
}

fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": "web"}]},
    })
}

/// Slices of one Service, each with a port of its own, as where pods name the port that they listen on.
fn kubernetes_slice(name: &str, server: &Server, conditions: &Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": name, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": server.address().port()}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": conditions}],
    })
}

#[test]
fn endpoints_of_a_kubernetes_service_come_and_go() {
    let cluster = ApiServer::start().expect("a port is free");
    let (first, second) = (start("first"), start("second"));
    let (ready, leaving) = (json!({"ready": true}), json!({"ready": false, "serving": true, "terminating": true}));
    cluster.put(kubernetes_service());
    cluster.put(kubernetes_slice("web-1", &first, &ready));
    let source = format!("discover kubernetes=\"shop/web:http\" api=\"{}\" token=\"{TOKEN}\"", cluster.url());
    let asked = Asked::start(&config(&[], &format!("balance \"round-robin\"; {source}"), ""));
    asked.expect_from(10, &["first"]);
    cluster.put(kubernetes_slice("web-2", &second, &ready));
    wait_until_only(&asked, &["first", "second"]);
    // The first one ends: whoever is not bound to it goes to the other.
    cluster.put(kubernetes_slice("web-1", &first, &leaving));
    asked.wait_for_metric(&format!("tidegate_upstream_server_state{{server=\"{}\",state=\"leaving\"}}", first.address()), 1.0);
    asked.expect_from(10, &["second"]);
    cluster.remove(&kubernetes_slice("web-2", &second, &ready));
    wait_for_members(&asked, "kubernetes", 1);
    // Nobody else is left: one that is told to stop and still serves is better than nobody.
    asked.wait_for("an answer of the last one", |reply| reply.status == 200 && reply.text() == "first");
    // The server goes away, and nothing with it.
    cluster.refuse("/", 503, None, None);
    cluster.end_watches();
    asked.proxy.wait_for_metric_from("tidegate_discovery_faults_total", 1.0, f64::INFINITY).expect("it is counted");
    asked.expect_from(10, &["first"]);
    assert!(asked.status().contains("has no time"), "{}", asked.status());
}

#[test]
fn the_proxy_starts_before_there_is_a_service() {
    let cluster = ApiServer::start().expect("a port is free");
    let server = start("late");
    let source = format!("discover kubernetes=\"shop/web:80\" api=\"{}\" token=\"{TOKEN}\"", cluster.url());
    let asked = Asked::start(&config(&[], &source, ""));
    assert_eq!(asked.get("/").status, 503);
    assert!(asked.status().contains("there is no Service of shop/web:80"), "{}", asked.status());
    cluster.put(kubernetes_slice("web-1", &server, &json!({})));
    cluster.put(kubernetes_service());
    asked.wait_for("an answer", |reply| reply.status == 200 && reply.text() == "late");
}

/// A request that waits for a server, while all that the pool had go away: what it met before is in the log, and every
/// other request goes on.
#[test]
fn the_servers_of_a_request_that_waits_go_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let (list, log) = (folder.path().join("servers.json"), folder.path().join("access.log"));
    // Nobody listens there any more.
    let gone = start("gone").address();
    std::fs::write(&list, format!("[\"{gone}\"]")).expect("a file");
    let pool = format!("discover file=\"{}\"; retry \"wait\" for=\"3s\"", list.display());
    let site = "site \"http://:{port}\" {\n    header \"X-Server\" \"{upstream.address}\"\n    route \"/own\" { respond 200 body=\"own\"; }\n    proxy \"app\"\n}\n";
    let asked = Asked::start(&format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"{}\"\nthreads 1\npool \"app\" {{ {pool}; }}\n{site}",
        log.display()
    ));
    let reply = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| asked.get("/"));
        let failures = "tidegate_upstream_errors_total{reason=\"connect_failed\"}";
        asked.proxy.wait_for_metric_from(failures, 1.0, f64::INFINITY).expect("it is tried");
        let new = folder.path().join("new.json");
        std::fs::write(&new, "[]").and_then(|()| std::fs::rename(&new, &list)).expect("a file");
        waiting.join().expect("an answer")
    });
    assert_eq!(reply.status, 502, "{}\n{}", reply.text(), asked.proxy.program.output());
    assert_eq!(reply.head.value("x-server").as_deref(), Some(gone.to_string().as_bytes()), "{:?}", reply.head);
    assert_eq!(asked.get("/own").text(), "own");
    asked.wait_for("a refusal", |reply| reply.status == 503);
    let lines = std::fs::read_to_string(&log).expect("a log");
    let line = lines.lines().find(|line| line.contains("\"status\":502")).expect("a line");
    assert!(line.contains(&gone.to_string()), "{line}");
    let output = asked.proxy.program.output();
    assert!(!output.contains("panicked"), "{output}");
}
