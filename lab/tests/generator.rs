//! The generator as a program: phases told over standard input, and its figures beside those of wrk, hey and k6 for the
//! same load. The backend answers after a known delay, so every generator must find the same rate however busy the
//! machine is.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something was not as expected")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_tidegate-lab");

/// The lab's backend, or a relay before it; stops with the test.
struct Backend {
    process: Child,
    address: SocketAddr,
}

impl Backend {
    fn start() -> Backend {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = Command::new(LAB).args(["backend", "--threads", "2", "--listen", &address.to_string()]).spawn().unwrap();
        while TcpStream::connect(address).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Backend { process, address }
    }

    /// `None` where this machine has no such driver.
    fn relay(&self, driver: &str) -> Option<Backend> {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut relay = Command::new(LAB);
        relay.args(["relay", "--driver", driver, "--listen", &address.to_string(), "--to", &self.address.to_string()]);
        let mut process = relay.spawn().unwrap();
        while TcpStream::connect(address).is_err() {
            if process.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Backend { process, address })
    }

    fn load(&self, arguments: &str) -> Command {
        let mut command = Command::new(LAB);
        command.args(["load", "--plain", "--to", &self.address.to_string()]).args(arguments.split(' '));
        command
    }

    /// The only phase of a load.
    fn measure(&self, arguments: &str) -> Value {
        let output = self.load(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["phases"][0].clone()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn number(phase: &Value, name: &str) -> f64 {
    phase[name].as_f64().unwrap()
}

#[test]
fn a_relay_brings_every_byte_with_either_driver() {
    let backend = Backend::start();
    for driver in ["epoll", "io-uring"] {
        let Some(relay) = backend.relay(driver) else {
            assert_ne!(driver, "epoll");
            println!("this machine has no rings: nothing was relayed with one");
            continue;
        };
        // Each answer is compared byte by byte; ten megabytes do not fit into what the kernel holds of a connection.
        for load in ["--path /11b --connections 16", "--path /100k --connections 8", "--path /10m --connections 2"] {
            let phase = relay.measure(&format!("{load} --requests 24 --duration 60s --warmup 0s --timeout 60s"));
            assert_eq!(
                (number(&phase, "requests") >= 24.0, phase["failures"].as_object().unwrap().len()),
                (true, 0),
                "{driver} {load}: {phase}"
            );
        }
    }
}

#[test]
fn phases_are_counted_each_for_itself() {
    let backend = Backend::start();
    let mut load = backend.load("--path /delay/10 --phases --connections 4");
    let mut load = load.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut phases = load.stdin.take().unwrap();
    let mut output = BufReader::new(load.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    for name in ["first", "second one"] {
        writeln!(phases, "{name}").unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(phases);
    line.clear();
    output.read_line(&mut line).unwrap();
    assert!(load.wait().unwrap().success());
    let report: Value = serde_json::from_str(&line).unwrap();
    let phases = report["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second one"]);
    for phase in phases {
        assert!(number(phase, "requests") > 10.0 && number(phase, "received_bytes") > 1000.0, "{phase}");
    }
    let sum: f64 = phases.iter().map(|phase| number(phase, "requests")).sum();
    assert!((number(&report["whole"], "requests") - sum).abs() < 0.5, "{report}");
}

/// `PATH` has it.
fn is_installed(tool: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status().unwrap().success();
    if !found {
        // The pipeline installs it; a pipeline that does not would check nothing and be green.
        assert!(std::env::var_os("CI").is_none(), "{tool} is not installed");
        println!("{tool} is not installed: our generator was not checked against it");
    }
    found
}

#[test]
fn other_generators_find_the_same() {
    let backend = Backend::start();
    // Twenty connections and answers after 40 ms: 500 a second.
    let load = "--path /delay/40 --connections 20 --duration 2s";
    let ours = backend.measure(load);
    let rate = |phase: &Value| number(phase, "requests") / number(phase, "seconds");
    let p50 = |phase: &Value| number(&phase["latency_us"], "p50");
    for tool in ["wrk", "hey", "k6"].into_iter().filter(|tool| is_installed(tool)) {
        let theirs = backend.measure(&format!("{load} --tool {tool}"));
        let near = |what: &str, ours: f64, theirs: f64| {
            let ratio = ours / theirs;
            assert!((0.6..=1.6).contains(&ratio), "{what}: we say {ours}, {tool} says {theirs}");
        };
        near("requests/s", rate(&ours), rate(&theirs));
        near("median", p50(&ours), p50(&theirs));
    }
}

#[test]
fn drops_are_those_of_k6() {
    if !is_installed("k6") {
        return;
    }
    let backend = Backend::start();
    // Two connections answer 20 a second, 100 are due: about 80 a second are dropped.
    let load = "--path /delay/100 --rate 100 --connections 2 --connections-max 2 --duration 2s --warmup 0s";
    let ours = backend.measure(load);
    let theirs = backend.measure(&format!("{load} --tool k6"));
    for phase in [&ours, &theirs] {
        let (requests, dropped) = (number(phase, "requests"), number(phase, "dropped"));
        assert!((20.0..=44.0).contains(&requests), "{phase}");
        assert!((120.0..=185.0).contains(&dropped), "{phase}");
    }
}

#[test]
fn what_a_foreign_generator_cannot_do_is_refused() {
    let backend = Backend::start();
    for (arguments, reason) in [
        ("--tool wrk --rate 10", "no constant arrival rate"),
        ("--tool wrk --alpn h2", "knows no HTTP/2"),
        ("--tool hey --handshakes full", "timed load only"),
        ("--tool siege", "invalid value"),
    ] {
        let output = backend.load(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(reason), "{arguments}: {text}");
    }
}
