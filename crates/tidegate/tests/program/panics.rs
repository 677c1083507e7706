//! A panic of a worker ends the exchange that it happened in, and nothing else. The program has no switch for one. What
//! still makes it panic is a machine without another thread to give: the list of a folder is read in one. A process
//! that may have no more address space gets none, since none has room for its stack.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;
use tidegate_testkit::case::Places;
use tidegate_testkit::{Proxy, Surroundings, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const PANICS: &str = "tidegate_panics_caught_total";
const BOUND: Duration = Duration::from_secs(20);
/// Of every thread; of no more than is used there is any memory.
const STACK_BYTES: u64 = 1 << 30;
/// Less than the stack of a thread, and far more than requests allocate.
const SPARE_BYTES: u64 = 256 << 20;

/// `None` where the system has no `prlimit`.
fn proxy_without_threads() -> Option<Proxy> {
    if Command::new("prlimit").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `prlimit` on this machine");
        return None;
    }
    let config = "admin \"127.0.0.1:{admin}\"\nthreads 1\nsite \"http://:{port}\" {\n\
                  route \"/list/*\" { strip-prefix \"/list\"; files \"{dir}\" listing=#true; }\n\
                  route { respond 200 body=\"fine\"; }\n}\n";
    // A backtrace would read the program's symbols for many seconds.
    let environment = [("RUST_MIN_STACK", STACK_BYTES.to_string()), ("RUST_BACKTRACE", "0".to_owned())].into();
    let surroundings = Surroundings { environment, ..Surroundings::default() };
    let places = Places::new().expect("a folder");
    let proxy = Proxy::start_in(places, PROGRAM, config, &[], &surroundings).expect("it starts");
    // What requests need is there before the bound is.
    assert_eq!(get(&proxy.address.to_string(), "/").expect("an answer").1, "fine");
    let status = std::fs::read_to_string(format!("/proc/{}/status", proxy.program.id())).expect("of a running process");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    let bytes = size.and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024 + SPARE_BYTES;
    let process = proxy.program.id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &process, &format!("--as={bytes}")]).status().expect("it runs");
    assert!(limited.success());
    Some(proxy)
}

fn check_caught(proxy: &Proxy, expected: f64) {
    proxy.wait_for_metric(PANICS, expected).expect("each is counted");
    let output = proxy.program.output();
    assert!(output.contains("panicked at"), "{output}");
    assert_eq!(get(&proxy.address.to_string(), "/").expect("an answer to others").1, "fine");
}

fn ask(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"fine") {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).expect("an answer or an end") {
            0 => break,
            length => answer.extend_from_slice(&piece[..length]),
        }
    }
    String::from_utf8(answer).expect("text")
}

#[test]
fn a_panic_ends_one_connection_and_leaves_the_rest_alone() {
    let Some(proxy) = proxy_without_threads() else { return };
    let connect = || {
        let stream = TcpStream::connect(proxy.address).expect("it listens");
        stream.set_read_timeout(Some(BOUND)).expect("a bound");
        stream
    };
    let (mut other, mut hit) = (connect(), connect());
    assert!(ask(&mut other, "/").ends_with("fine"));
    assert!(ask(&mut hit, "/").ends_with("fine"));
    assert_eq!(ask(&mut hit, "/list/"), "", "it ends without a word");
    check_caught(&proxy, 1.0);
    assert!(ask(&mut other, "/").ends_with("fine"), "the same worker goes on with its other connections");
    drop((other, hit));
    proxy.wait_for_metric("tidegate_client_connections_active", 0.0).expect("none is left in the count");
}

#[test]
fn over_http2_a_panic_ends_one_stream_and_leaves_the_rest_alone() {
    let Some(proxy) = proxy_without_threads() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let converse = async {
        let socket = tokio::net::TcpStream::connect(proxy.address).await.expect("it listens");
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.expect("HTTP/2");
        tokio::spawn(connection);
        for round in 1..=3 {
            let request = |path: &str| {
                let uri = format!("http://a.test{path}");
                Request::builder().uri(uri).body(Full::new(Bytes::new())).expect("a request")
            };
            let cut = sender.send_request(request("/list/"));
            let other = sender.send_request(request("/"));
            let (cut, other) = tokio::join!(cut, other);
            assert!(cut.is_err(), "round {round}: its stream is reset: {cut:?}");
            let other = other.expect("the stream beside it is answered");
            assert_eq!(other.status(), StatusCode::OK);
            assert_eq!(other.into_body().collect().await.expect("a whole body").to_bytes(), "fine");
        }
    };
    let outcome = runtime.block_on(async { tokio::time::timeout(BOUND, converse).await });
    assert!(outcome.is_ok(), "it takes too long:\n{}", proxy.program.output());
    check_caught(&proxy, 3.0);
}
