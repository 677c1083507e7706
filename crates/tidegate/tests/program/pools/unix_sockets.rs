//! Servers that listen on sockets of this machine: requests, checks and connections that are handed on as they are.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_testkit::case::Places;
use tidegate_testkit::get;
use tidegate_testkit::program::Surroundings;
use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// Answers each request with the host that it names; how many connections there were. Its thread ends with the process.
fn serve(socket: &Path) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(socket).expect("it listens");
    let connections: Arc<AtomicUsize> = Arc::default();
    let count = connections.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::AcqRel);
            let stream = stream.expect("a connection");
            std::thread::spawn(move || answer(stream));
        }
    });
    connections
}

fn answer(mut stream: UnixStream) {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        seen.extend_from_slice(&piece[..count]);
        if !seen.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned();
        seen.clear();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{host}", host.len());
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_server_behind_a_socket_is_one_as_any() {
    let places = Places::new().expect("a folder");
    let socket = places.folder().join("app.sock");
    let connections = serve(&socket);
    let config = "admin \"127.0.0.1:{admin}\"\nthreads 1\naccess-log \"{dir}/access.log\"\n\
         pool \"app\" { server \"unix:{dir}/app.sock\"; server \"unix:{dir}/none.sock\" backup=#true; health \"/well\" interval=\"200ms\"; }\n\
         site \"http://app.test:{port}\" { proxy \"app\"; }\n\
         site \"http://missing.test:{port}\" { proxy \"unix:{dir}/none.sock\"; }\n\
         site \"http://:{port}\" { proxy \"unix:{dir}/app.sock\"; }\n";
    let mut proxy = Proxy::start_in(places, PROGRAM, config, &[], &Surroundings::default()).expect("it starts");
    let address = proxy.address.to_string();
    for _ in 0..3 {
        assert_eq!(get(&address, "/").expect("an answer"), (200, address.clone()));
    }
    let reused = "tidegate_upstream_connections_total{kind=\"reused\"}";
    assert_eq!(proxy.metrics().expect("metrics").sum(reused) as u32, 2, "kept as any");
    let ask = |host: &str| {
        let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer)).expect("an answer");
        answer
    };
    assert!(ask("app.test").starts_with("HTTP/1.1 200 "), "{}", ask("app.test"));
    let missing = ask("missing.test");
    assert!(missing.starts_with("HTTP/1.1 502 ") && missing.contains("connect_failed"), "{missing}");
    let passed = format!("tidegate_upstream_server_checks_total{{server=\"unix:{}\",result=\"passed\"}}", socket.display());
    proxy.wait_for_metric_from(&passed, 1.0, f64::MAX).expect("checks are passed");
    proxy.wait_for_log("none.sock").expect("the one that is not there is down");
    assert!(connections.load(Ordering::Acquire) > 1, "checks have connections of their own");
}
