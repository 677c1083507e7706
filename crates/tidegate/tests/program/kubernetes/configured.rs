//! The ConfigMap of ingress-nginx and that of TCP services, while they come, change and go.

use super::annotated::{annotated, begin_with, put_certificate, put_service, put_service_of};
use super::controller::{Asked, BOUND, Controller, ingress};
use super::until;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tidegate_testkit::client::ClientAnswer;
use tidegate_testkit::kubernetes::ApiServer;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

const HOST: &str = "shop.example.com";
const CONFIG: [&str; 2] = ["--ingress-nginx-config", "edge/nginx"];

fn map(name: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> = data.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let (namespace, name) = name.split_once('/').expect("a namespace");
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}, "data": data})
}

/// A host over both schemes, and what its ConfigMap says.
fn served(data: &[(&str, &str)]) -> (ApiServer, Controller) {
    let (cluster, mut controller) = begin_with(&CONFIG);
    cluster.put(map("edge/nginx", data));
    put_certificate(&cluster, &mut controller, HOST);
    put_service(&cluster, &mut controller, "web", &["one"]);
    cluster.put(annotated("web", HOST, "web", &[]));
    (cluster, controller)
}

fn field(answer: &ClientAnswer, name: &str) -> Option<String> {
    answer.head.value(name).map(|value| String::from_utf8_lossy(&value).into_owned())
}

fn both(controller: &Controller, path: &str, status: u16) {
    controller.wait_for(HOST, path, status, "");
    controller.wait_for_over_tls(HOST, path, status, "");
}

#[test]
fn what_it_says_holds_for_all_and_while_it_changes() {
    let (cluster, controller) = served(&[]);
    cluster.put(annotated("own", "own.example.com", "web", &[("whitelist-source-range", "127.0.0.0/8")]));
    both(&controller, "/", 200);
    for (networks, status) in [("192.0.2.0/24", 403), ("127.0.0.0/8", 200), ("office", 503), ("127.0.0.1", 200)] {
        cluster.put(map("edge/nginx", &[("whitelist-source-range", networks)]));
        both(&controller, "/", status);
        let own = if status == 503 { 503 } else { 200 };
        controller.wait_for("own.example.com", "/", own, "");
    }
    cluster.put(map("edge/nginx", &[("whitelist-source-range", "office")]));
    controller.wait_for_status("ConfigMap edge/nginx: data[whitelist-source-range]");
    let is_told = || {
        cluster
            .writes()
            .iter()
            .any(|change| change.body["reason"] == "ProtectionUnavailable" && change.body["regarding"]["kind"] == "ConfigMap")
    };
    until(&controller, "an Event of the ConfigMap", is_told);
}

#[test]
fn its_statements_hold_for_all_and_shut_where_one_is_not_known() {
    let (cluster, controller) = served(&[("server-snippet", "if ($uri ~ ^/hidden) { return 404; }")]);
    both(&controller, "/", 200);
    both(&controller, "/hidden", 404);
    cluster.put(map("edge/nginx", &[("location-snippet", "deny 127.0.0.0/8;\ndeny ::1;")]));
    both(&controller, "/", 403);
    cluster.put(map("edge/nginx", &[("location-snippet", "access_by_lua_file a.lua;")]));
    both(&controller, "/", 503);
    controller.wait_for_status("ConfigMap edge/nginx: data[location-snippet]");
    cluster.put(map("edge/nginx", &[]));
    both(&controller, "/hidden", 200);
}

#[test]
fn requests_go_on_while_what_shapes_them_changes() {
    let (cluster, controller) = served(&[]);
    both(&controller, "/", 200);
    let (address, is_over) = (controller.http, Arc::new(AtomicBool::new(false)));
    let of_thread = is_over.clone();
    let client = std::thread::spawn(move || {
        let mut count = 0;
        let mut socket = TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(BOUND)).expect("a bound");
        while !of_thread.load(Ordering::Relaxed) {
            write!(socket, "GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n").expect("it is sent on the same connection");
            let mut bytes = [0; 4096];
            let read = socket.read(&mut bytes).expect("an answer");
            let answer = String::from_utf8_lossy(&bytes[..read]).into_owned();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            count += 1;
        }
        count
    });
    for round in 0..10 {
        let (time, name) = (format!("{}", 10 + round), format!("edge/answers-{round}"));
        // A map that is named before it is known keeps nobody waiting.
        cluster.put(map(&name, &[("X-Round", &round.to_string())]));
        cluster.put(map("edge/nginx", &[("proxy-read-timeout", &time), ("add-headers", &name), ("proxy-set-headers", &name)]));
        let begin = Instant::now();
        loop {
            let answer = controller.answer(&Asked::of(HOST, "/")).expect("an answer");
            assert_eq!(answer.status, 200);
            if field(&answer, "x-round") == Some(round.to_string()) {
                break;
            }
            assert!(begin.elapsed() < BOUND, "{round}\n{}", controller.status());
        }
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(client.join().expect("all answers were good") > 10);
}

#[test]
fn one_that_is_not_there_shuts_and_one_that_goes_takes_nothing_away() {
    let (cluster, mut controller) = begin_with(&CONFIG);
    put_certificate(&cluster, &mut controller, HOST);
    put_service(&cluster, &mut controller, "web", &["one"]);
    cluster.put(annotated("web", HOST, "web", &[]));
    both(&controller, "/", 503);
    controller.wait_for_status("(ConfigMapMissing)");
    cluster.put(map("edge/nginx", &[("denylist-source-range", "192.0.2.0/24")]));
    both(&controller, "/", 200);
    cluster.remove(&map("edge/nginx", &[]));
    controller.wait_for_status("(ConfigMapMissing)");
    both(&controller, "/", 200);
}

#[test]
fn one_that_may_not_be_read_shuts_until_it_may() {
    let cluster = ApiServer::start().expect("a port is free");
    cluster.put(super::class());
    cluster.put(map("edge/nginx", &[]));
    cluster.forbid("get", "configmaps", None);
    cluster.put(ingress("web", HOST, "web"));
    let mut controller = Controller::begin(&cluster, "", &CONFIG);
    controller.wait_until_ready();
    controller.expect(HOST, "/", 503, "");
    controller.wait_for_status("(ConfigMapUnavailable)");
}

#[test]
fn answers_over_tls_have_hsts_and_fields_and_plain_ones_have_no_hsts() {
    let (cluster, controller) = served(&[("add-headers", "edge/answers"), ("global-allowed-response-headers", "X-Own")]);
    cluster.put(map("edge/answers", &[("X-Frame-Options", "DENY")]));
    cluster.put(map("shop/own", &[("X-Own", "$5")]));
    cluster.put(annotated("web", HOST, "web", &[("custom-headers", "own")]));
    let own = |over_tls: bool| {
        let begin = Instant::now();
        loop {
            let answer = controller.answer(&Asked { over_tls, ..Asked::of(HOST, "/") });
            if let Ok(answer) = answer.as_ref()
                && field(answer, "x-own").as_deref() == Some("$5")
                && field(answer, "x-frame-options").as_deref() == Some("DENY")
            {
                return field(answer, "strict-transport-security");
            }
            assert!(begin.elapsed() < BOUND, "{answer:?}\n{}", controller.status());
        }
    };
    assert_eq!(own(true).as_deref(), Some("max-age=31536000; includeSubDomains"));
    assert_eq!(own(false), None);
    // What the proxy answers itself has it as well.
    cluster.put(annotated("web", HOST, "missing", &[]));
    controller.wait_for_over_tls(HOST, "/", 503, "");
    let answer = controller.answer(&Asked { over_tls: true, ..Asked::of(HOST, "/") }).expect("an answer");
    assert_eq!(field(&answer, "strict-transport-security").as_deref(), Some("max-age=31536000; includeSubDomains"));
}

#[test]
fn servers_are_told_who_asks_and_never_what_a_client_says_of_it() {
    let (cluster, controller) = served(&[]);
    let echo = Upstream::start(Behaviour::new(Answer::EchoHead)).expect("a port is free");
    put_service_of(&cluster, "told", &echo);
    cluster.put(annotated("web", HOST, "told", &[("ssl-redirect", "false")]));
    let claimed = [("X-Real-IP", "192.0.2.7"), ("X-Scheme", "gopher"), ("X-Forwarded-Scheme", "gopher")];
    let claimed = [claimed.as_slice(), &[("X-Original-Forwarded-For", "192.0.2.7")]].concat();
    let forwarded = [claimed.as_slice(), &[("X-Forwarded-For", "192.0.2.9")]].concat();
    for (over_tls, scheme) in [(false, "http"), (true, "https")] {
        let seen = controller.wait_for_answer(&Asked { over_tls, fields: &claimed, ..Asked::of(HOST, "/") }, 200, "GET / ");
        let told = String::from_utf8_lossy(&seen.body).to_ascii_lowercase();
        for line in ["x-real-ip: 127.0.0.1", &format!("x-scheme: {scheme}"), &format!("x-forwarded-scheme: {scheme}")] {
            assert!(told.contains(line), "{line} in {told}");
        }
        assert!(!told.contains("192.0.2.7") && !told.contains("gopher"), "{told}");
        let seen = controller.wait_for_answer(&Asked { over_tls, fields: &forwarded, ..Asked::of(HOST, "/") }, 200, "GET / ");
        let told = String::from_utf8_lossy(&seen.body).to_ascii_lowercase();
        // Nobody is believed here, so nothing is left of what this client says of others.
        assert!(!told.contains("192.0.2."), "{told}");
    }
}

#[test]
fn clients_are_where_peers_say_that_are_believed() {
    let (cluster, controller) = served(&[("whitelist-source-range", "192.0.2.0/24")]);
    let from = |over_tls: bool| Asked { over_tls, fields: &[("X-Forwarded-For", "192.0.2.7")], ..Asked::of(HOST, "/") };
    for over_tls in [false, true] {
        controller.wait_for_answer(&from(over_tls), 403, "");
    }
    let believed = |networks: &str| {
        cluster.put(map(
            "edge/nginx",
            &[("whitelist-source-range", "192.0.2.0/24"), ("use-forwarded-headers", "true"), ("proxy-real-ip-cidr", networks)],
        ));
    };
    believed("127.0.0.0/8");
    for over_tls in [false, true] {
        controller.wait_for_answer(&from(over_tls), 200, "one");
        controller.wait_for_answer(&Asked { over_tls, ..Asked::of(HOST, "/") }, 403, "");
    }
    believed("192.0.2.0/24");
    for over_tls in [false, true] {
        controller.wait_for_answer(&from(over_tls), 403, "");
    }
}

/// Says what it is sent first, and who it is.
fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 1024];
                let read = socket.read(&mut bytes).unwrap_or_default();
                let _ = socket.write_all(format!("{name} {}", String::from_utf8_lossy(&bytes[..read])).as_bytes());
            });
        }
    });
    address
}

fn said(port: u16, sent: &str) -> Result<String, std::io::Error> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(BOUND))?;
    socket.write_all(sent.as_bytes())?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn tcp_services_are_served_and_nothing_falls_with_a_port_that_somebody_has() {
    let (cluster, mut controller) = begin_with(&["--tcp-services-configmap", "edge/tcp"]);
    let port = |controller: &mut Controller, name: &str| -> u16 {
        controller.places.fill(&format!("{{port:{name}}}")).expect("a port").parse().expect("a number")
    };
    let (first, second) = (port(&mut controller, "tcp1"), port(&mut controller, "tcp2"));
    controller.places.release_proxy_ports();
    for (name, address) in [("db", echo("db")), ("log", echo("log"))] {
        cluster.put(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
            "spec": {"ports": [{"name": "raw", "port": 5432}]},
        }));
        cluster.put(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"namespace": "shop", "name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "raw", "port": address.port()}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        }));
    }
    put_service(&cluster, &mut controller, "web", &["one"]);
    cluster.put(ingress("web", HOST, "web"));
    let comes_to = |port: u16, sent: &str, expected: &str| {
        let begin = Instant::now();
        loop {
            let seen = said(port, sent);
            if seen.as_ref().is_ok_and(|text| text.starts_with(expected)) {
                return;
            }
            assert!(begin.elapsed() < BOUND, "{expected}: {seen:?}\n{}\n{}", controller.status(), controller.program.output());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let http = controller.http.port().to_string();
    let (first_port, second_port) = (first.to_string(), second.to_string());
    cluster.put(map("edge/tcp", &[(&first_port, "shop/db:5432"), (&http, "shop/db:5432"), ("x", "shop/db:1")]));
    comes_to(first, "hello", "db hello");
    controller.wait_for(HOST, "/", 200, "one");
    controller.wait_for_status("(PortRefused)");
    // Another Service, and one behind headers both ways.
    cluster.put(map("edge/tcp", &[(&first_port, "shop/log:raw"), (&second_port, "shop/db:5432:PROXY:PROXY")]));
    comes_to(first, "hello", "log hello");
    comes_to(second, "PROXY TCP4 192.0.2.7 192.0.2.1 7 80\r\nhello", "db PROXY TCP4 192.0.2.7 ");
    // A port that another process has takes nothing from the others.
    let other = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let taken = other.local_addr().expect("an address").port().to_string();
    cluster.put(map("edge/tcp", &[(&first_port, "shop/db:5432"), (&taken, "shop/db:5432")]));
    comes_to(first, "again", "db again");
    controller.wait_for(HOST, "/", 200, "one");
    controller.wait_for_status("KEPT AS IT WAS");
    cluster.put(map("edge/tcp", &[(&second_port, "shop/log:5432")]));
    comes_to(second, "hello", "log hello");
    let begin = Instant::now();
    while said(first, "hello").is_ok_and(|text| !text.is_empty()) {
        assert!(begin.elapsed() < BOUND, "{}", controller.status());
    }
}
