//! A machine without another thread to give: the list of a folder is read in one, so it is a 503, and everything else
//! is served. A process that may have no more address space gets no thread, since none has room for its stack.

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
    let config = "access-log \"{dir}/access.log\" format=\"json\"\nadmin \"127.0.0.1:{admin}\"\nthreads 1\nsite \"http://:{port}\" {\n\
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

/// A whole answer, head and body.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = String::new();
    loop {
        let length = |head: &str| -> usize {
            let line =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            line.and_then(|length| length.parse().ok()).expect("a length")
        };
        if answer.split_once("\r\n\r\n").is_some_and(|(head, body)| body.len() >= length(head)) {
            return answer;
        }
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).expect("an answer");
        assert_ne!(count, 0, "no end before the answer is whole: {answer}");
        answer.push_str(std::str::from_utf8(&piece[..count]).expect("text"));
    }
}

/// Nothing panicked, what was refused is counted, and others are served.
fn check_refused(proxy: &Proxy, count: usize) {
    proxy.wait_for_metric(r#"tidegate_http_refused_total{reason="no_thread"}"#, count as f64).expect("each is counted");
    let output = proxy.program.output();
    assert!(!output.contains("panicked at"), "{output}");
    assert_eq!(get(&proxy.address.to_string(), "/").expect("an answer to others").1, "fine");
}

#[test]
fn without_a_thread_a_list_is_refused_and_the_connection_goes_on() {
    let Some(proxy) = proxy_without_threads() else { return };
    let mut stream = TcpStream::connect(proxy.address).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    for round in 1..=3 {
        let list = ask(&mut stream, "/list/");
        assert!(list.starts_with("HTTP/1.1 503 ") && list.to_ascii_lowercase().contains("retry-after: 1\r\n"), "{list}");
        assert!(ask(&mut stream, "/").starts_with("HTTP/1.1 200 "), "round {round}");
    }
    check_refused(&proxy, 3);
}

#[test]
fn over_http2_a_list_is_refused_and_the_streams_beside_it_go_on() {
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
            let list = sender.send_request(request("/list/"));
            let other = sender.send_request(request("/"));
            let (list, other) = tokio::join!(list, other);
            assert_eq!(list.expect("an answer").status(), StatusCode::SERVICE_UNAVAILABLE, "round {round}");
            let other = other.expect("the stream beside it is answered");
            assert_eq!(other.status(), StatusCode::OK);
            assert_eq!(other.into_body().collect().await.expect("a whole body").to_bytes(), "fine");
        }
    };
    let outcome = runtime.block_on(async { tokio::time::timeout(BOUND, converse).await });
    assert!(outcome.is_ok(), "it takes too long:\n{}", proxy.program.output());
    check_refused(&proxy, 3);
}
