//! A cluster of Kubernetes with many Services, of which one after the other changes its endpoints: every change is in
//! force, and nobody else's servers move. `SERVICES=10000 CHANGES=300` is the size that a large cluster has; how long a
//! change takes, and what it costs, is printed. `PROGRAM=…` measures another build.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tidegate_testkit::Proxy;
use tidegate_testkit::kubernetes::{ApiServer, TOKEN};
use tidegate_testkit::server::{Server, Settings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const SERVICES: usize = 200;
const CHANGES: usize = 30;
/// Endpoints of a Service that nobody asks for.
const ENDPOINTS: usize = 10;
/// Far beyond what any change takes.
const BOUND: Duration = Duration::from_secs(30);

pub fn of_environment(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    })
}

pub fn slice(service: &str, addresses: &[String], port: u16) -> Value {
    let endpoint = |address: &String| json!({"addresses": [address], "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": port}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// Addresses at which nobody listens, and nobody asks.
pub fn elsewhere(number: usize) -> Vec<String> {
    (0..ENDPOINTS).map(|endpoint| format!("127.{}.{}.{}", 100 + endpoint, number / 250, 1 + number % 250)).collect()
}

fn configuration(services: usize, api: &str) -> String {
    let mut text = String::from("admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 2\nlog level=\"warn\"\n");
    for number in 0..services {
        text.push_str(&format!(
            "pool \"s{number}\" {{ discover kubernetes=\"shop/s{number}:80\" api=\"{api}\" token=\"{TOKEN}\"; }}\n"
        ));
        text.push_str(&format!("site \"http://s{number}.test:{{port}}\" {{ proxy \"s{number}\"; }}\n"));
    }
    text
}

/// Status and body.
pub fn answer_of(address: SocketAddr, host: &str) -> String {
    let request = format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n");
    let mut answer = String::new();
    let exchange = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(BOUND))?;
        stream.write_all(request.as_bytes())?;
        stream.read_to_string(&mut answer)
    });
    exchange.unwrap_or_else(|error| panic!("{host}: {error}"));
    let status = answer.split(' ').nth(1).unwrap_or_default();
    format!("{status} {}", answer.rsplit("\r\n\r\n").next().unwrap_or_default())
}

/// Asks until the answer is this one; gives how long that took.
pub fn wait_for(address: SocketAddr, host: &str, expected: &str, since: Instant) -> Duration {
    loop {
        let answer = answer_of(address, host);
        let took = since.elapsed();
        if answer == expected {
            return took;
        }
        assert!(took < BOUND, "{host} answers {answer} and not {expected}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Of all threads of a process.
pub fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |place: usize| fields.get(place).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    // utime and stime (proc(5)), in hundredths of a second.
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

#[test]
fn endpoints_of_one_service_among_many_change() {
    let _alone = crate::alone();
    let (services, changes) = (of_environment("SERVICES", SERVICES), of_environment("CHANGES", CHANGES));
    let first = Server::start(Settings::new("first")).expect("it starts");
    let second = Server::start_beside(Settings::new("second"), &first, [127, 0, 0, 2]).expect("it starts");
    let port = first.address().port();
    let at = |name: &str| slice_address(name, &first, &second);
    let cluster = ApiServer::start().expect("a port is free");
    for number in 0..services {
        cluster.put(service(&format!("s{number}")));
        cluster.put(slice(&format!("s{number}"), &elsewhere(number), port));
    }
    let program = std::env::var("PROGRAM").unwrap_or_else(|_| PROGRAM.to_owned());
    let began = Instant::now();
    let proxy = Proxy::start(&program, &configuration(services, &cluster.url())).expect("the proxy starts");
    let (ready, pid) = (began.elapsed(), proxy.program.id());
    let host = |number: usize| format!("s{number}.test:{}", proxy.address.port());
    let (started, resident) = (cpu(pid), proxy.program.resident_kib().expect("it runs"));
    let mut took = Vec::new();
    for change in 0..changes {
        let number = change * 7 % services;
        for name in ["first", "second"] {
            let since = Instant::now();
            cluster.put(slice(&format!("s{number}"), &[at(name)], port));
            took.push(wait_for(proxy.address, &host(number), &format!("200 {name}"), since));
        }
    }
    // Once more without anybody who asks, for what a change costs.
    let before = cpu(pid);
    for change in 0..changes {
        cluster.put(slice(&format!("s{}", change * 7 % services), &[at("first")], port));
        std::thread::sleep(Duration::from_millis(20));
    }
    wait_for(proxy.address, &host((changes - 1) * 7 % services), "200 first", Instant::now());
    let each = cpu(pid).saturating_sub(before) / changes as u32;
    let [median, most] = percentiles(took.clone(), [50, 99]);
    println!(
        "{services} Services: ready in {ready:?} with {started:?} of CPU and {resident} KiB; {} changes in force after {:?} (median), {:?} (99 %); {each:?} of CPU each",
        took.len(),
        median,
        most,
    );
}

/// How long that part of them took at most, in percent.
pub fn percentiles<const N: usize>(mut took: Vec<Duration>, parts: [usize; N]) -> [Duration; N] {
    took.sort_unstable();
    parts.map(|part| took[(took.len() * part / 100).min(took.len() - 1)])
}

fn slice_address(name: &str, first: &Server, second: &Server) -> String {
    let server = if name == "first" { first } else { second };
    server.address().ip().to_string()
}
