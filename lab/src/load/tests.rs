//! The generator against servers whose behaviour is known: rates, percentiles and drops are what they must be, what is
//! wrong is named. Bounds are wide where a busy machine moves a figure, and exact where it cannot.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use clap::Parser;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivatePkcs8KeyDer;

use super::*;

const RIGHT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world";

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    load: LoadOptions,
}

/// Runs `load` with these arguments on `server`.
fn run_load(server: SocketAddr, arguments: &str) -> Result<PhaseReport, String> {
    let address = server.to_string();
    let words = ["load", "--to", &address].into_iter().chain(arguments.split_ascii_whitespace());
    let options = Cli::try_parse_from(words).map_err(|error| error.to_string())?.load;
    let report = conduct::generate(&options).map_err(|error| error.to_string())?;
    Ok(report.phases.into_iter().next().expect("one phase"))
}

/// The lab's own backend, for as long as the test runs.
fn backend() -> SocketAddr {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::thread::spawn(move || crate::backend::serve(address, 1, None).map_err(|error| panic!("{error}")));
    while TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    address
}

/// Gives `answer` to each request, over TLS if there is a configuration. Its threads end with their connections or with
/// the test.
fn serve(answer: &'static str, tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let tls = tls.clone();
            std::thread::spawn(move || match tls {
                Some(config) => answer_all(StreamOwned::new(ServerConnection::new(config).unwrap(), socket.unwrap()), answer),
                None => answer_all::<TcpStream>(socket.unwrap(), answer),
            });
        }
    });
    address
}

fn answer_all<S: Read + Write>(mut stream: S, answer: &str) {
    let mut received = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        received.extend_from_slice(&piece[..count]);
        while let Some(end) = memchr::memmem::find(&received, b"\r\n\r\n") {
            received.drain(..end + 4);
            // Tickets are sent with the first write, so resumption is possible from the second connection on.
            if stream.write_all(answer.as_bytes()).is_err() || answer.contains("Connection: close") || answer.is_empty() {
                return;
            }
        }
    }
}

fn server_config() -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

#[test]
fn every_request_of_a_counted_load_is_answered_over_tls_and_plain() {
    for (tls, arguments) in [(Some(server_config()), ""), (None, "--plain"), (None, "--plain --threads 3")] {
        let server = serve(RIGHT, tls);
        let phase = run_load(server, &format!("--path /11b --requests 500 --connections 4 --duration 30s {arguments}")).unwrap();
        assert_eq!((phase.requests, phase.failed(), phase.dropped), (500, 0, 0), "{:?}", phase.first_failure);
        assert_eq!(phase.statuses, [(200, 500)].into());
        assert!(phase.latency_us.unwrap().p50 > 0.0 && phase.cpu_us.contains_key("generator"));
        // The wire is looked at every few milliseconds, so what the first look saw belongs to the warm-up.
        assert!(phase.received_bytes > 100 * RIGHT.len() as u64, "{phase:?}");
    }
}

#[test]
fn wrong_answers_are_named_and_never_requests() {
    let check = |answer, kind: &str, text: &str| {
        let phase = run_load(serve(answer, None), "--path /11b --plain --requests 3 --connections 1 --duration 30s").unwrap();
        assert_eq!(phase.requests, 0);
        assert_eq!(phase.failures, [(kind.to_owned(), 3)].into());
        assert!(phase.first_failure.as_deref().is_some_and(|failure| failure.contains(text)), "{:?}", phase.first_failure);
    };
    check("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "status 503", "status 503");
    check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello_world", "wrong answer", "body differs");
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "wrong answer", "5 bytes of body instead of 11");
    check("", "closed", "closed before the answer");
    check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhell", "closed", "closed within the answer");
}

#[test]
fn nobody_at_the_address_is_said() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(run_load(address, "--plain --duration 100ms").unwrap_err(), "connection refused");
}

#[test]
fn a_closing_server_is_asked_again_on_a_new_connection() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 11\r\n\r\nhello world";
    let phase = run_load(serve(answer, None), "--path /11b --plain --requests 20 --connections 2 --duration 30s").unwrap();
    assert_eq!((phase.requests, phase.failed(), phase.sent_again), (20, 0, 0));
}

#[test]
fn a_request_on_a_connection_that_is_being_closed_is_sent_again_and_counted() {
    // Promises to keep the connection, and closes it after the first answer.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 1024];
            if socket.read(&mut request).is_ok_and(|count| count > 0) {
                socket.write_all(RIGHT.as_bytes()).unwrap();
            }
        }
    });
    let phase = run_load(address, "--path /11b --plain --requests 10 --connections 1 --duration 30s").unwrap();
    assert_eq!((phase.requests, phase.failed()), (10, 0), "{:?}", phase.first_failure);
    assert_eq!(phase.sent_again, 9);
}

#[test]
fn handshakes_are_full_or_resumed_as_asked() {
    let server = serve(RIGHT, Some(server_config()));
    let full = run_load(server, "--path /11b --handshakes full --connections 2 --duration 200ms --warmup 100ms").unwrap();
    assert!(full.handshakes > 0 && full.failed() == 0, "{full:?}");
    assert_eq!((full.resumed, full.handshakes), (0, full.requests));
    let resumed = run_load(server, "--path /11b --handshakes resumed --connections 2 --duration 200ms --warmup 300ms").unwrap();
    assert!(resumed.handshakes > 0 && resumed.failed() == 0, "{resumed:?}");
    assert_eq!(resumed.resumed, resumed.handshakes);
}

#[test]
fn a_closed_loop_is_as_fast_as_the_answers() {
    // Ten connections and answers after 20 ms: 500 a second at the most, and never sooner than 20 ms.
    let phase = run_load(backend(), "--plain --path /delay/20 --connections 10 --threads 2 --duration 1s").unwrap();
    let rate = phase.requests as f64 / phase.seconds;
    assert!((200.0..=505.0).contains(&rate), "{rate}/s");
    let latency = phase.latency_us.unwrap();
    assert!(latency.p50 >= 20_000.0 && latency.p50 <= latency.p99 && latency.p99 <= latency.max, "{latency:?}");
    assert_eq!((phase.failed(), phase.dropped), (0, 0));
}

#[test]
fn an_open_loop_keeps_its_rate() {
    for threads in [1, 2] {
        let arguments = format!("--plain --path /delay/20 --rate 200 --connections 40 --threads {threads} --duration 1s");
        let phase = run_load(backend(), &arguments).unwrap();
        assert!((140..=260).contains(&phase.requests), "{} in a second", phase.requests);
        assert_eq!((phase.failed(), phase.dropped), (0, 0));
        assert!(phase.latency_us.unwrap().p50 >= 20_000.0, "{:?}", phase.latency_us);
    }
}

#[test]
fn arrivals_wait_for_a_connection_and_their_latency_runs() {
    // One connection, answers after 50 ms, 100 arrivals in a second: 20 at the most are answered, the others wait.
    let phase = run_load(backend(), "--plain --path /delay/50 --rate 100 --connections 1 --duration 1s --warmup 0s").unwrap();
    assert!((6..=20).contains(&phase.requests), "{}", phase.requests);
    // Each that was neither answered nor under way was never sent.
    let accounted = phase.requests + phase.dropped;
    assert!((80..=101).contains(&accounted), "{accounted} of 100");
    // The last ones to be sent had waited for most of the second.
    assert!(phase.latency_us.unwrap().max > 500_000.0, "{:?}", phase.latency_us);
}

#[test]
fn arrivals_without_a_free_connection_are_dropped_as_k6_drops_them() {
    let load = |max| {
        let arguments = "--plain --path /delay/100 --rate 100 --connections 1 --duration 1s --warmup 0s --connections-max";
        run_load(backend(), &format!("{arguments} {max}")).unwrap()
    };
    // One connection answers ten a second, all others are dropped at once: nobody waits.
    let alone = load(1);
    assert!((4..=10).contains(&alone.requests), "{}", alone.requests);
    assert!((70..=97).contains(&alone.dropped), "{}", alone.dropped);
    assert!(alone.latency_us.unwrap().p50 < 300_000.0, "{:?}", alone.latency_us);
    // Ten are needed; each drop brings one more into play, then nothing is dropped any more.
    let growing = load(50);
    assert!((5..=60).contains(&growing.dropped), "{}", growing.dropped);
    assert!(growing.requests + growing.dropped >= 60, "{growing:?}");
    assert_eq!(growing.failed(), 0);
}

#[test]
fn an_answer_that_does_not_come_in_time_is_a_failure() {
    let phase = run_load(backend(), "--plain --path /delay/3000 --connections 2 --timeout 100ms --duration 500ms").unwrap();
    assert_eq!(phase.requests, 0);
    assert!(phase.failures["timed out"] >= 4, "{:?}", phase.failures);
    // An answer that never came is not a fast one.
    assert!(phase.latency_us.is_none());
}

#[test]
fn chunked_answers_are_right_answers() {
    let phase = run_load(backend(), "--plain --path /chunked/100k --requests 20 --connections 2 --duration 30s").unwrap();
    assert_eq!((phase.requests, phase.failed()), (20, 0), "{:?}", phase.first_failure);
}

#[test]
fn a_load_that_makes_no_sense_is_refused() {
    let server = serve(RIGHT, None);
    for (arguments, reason) in [
        ("--plain --handshakes full", "without TLS"),
        ("--alpn h2 --handshakes full", "HTTP/1.1"),
        ("--connections 0", "begin at one"),
        ("--rate 0", "one request per second"),
        ("--connections 2 --threads 3", "each thread needs a connection"),
        ("--rate 10 --requests 10", "cannot be used with"),
        ("--path /nowhere", "there are only"),
        ("--connections-max 5", "--rate"),
        ("--duration 3", "500ms, 3s or 1m"),
        ("--observe proxy", "NAME=PID"),
    ] {
        let refused = run_load(server, arguments).unwrap_err();
        assert!(refused.contains(reason), "{arguments}: {refused}");
    }
}

#[test]
fn durations_are_understood() {
    for (text, expected) in [("3s", Some(3000)), ("500ms", Some(500)), ("1.5s", Some(1500)), ("1m", Some(60_000))] {
        assert_eq!(parse_duration(text).ok(), expected.map(Duration::from_millis), "{text}");
    }
    for text in ["3", "s", "-1s", "3h", ""] {
        assert!(parse_duration(text).is_err(), "{text}");
    }
}

/// HTTP/2 without TLS: answers after `delay`, and says GOAWAY after so many requests of a connection.
fn serve_http2(delay: Duration, requests_per_connection: usize) -> SocketAddr {
    let (told, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        crate::net::runtime().unwrap().block_on(async {
            let listener = crate::net::listen("127.0.0.1:0".parse().unwrap()).unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::task::spawn_local(async move {
                    let mut connection = h2::server::handshake(socket).await?;
                    let mut requests = 0;
                    while let Some(request) = connection.accept().await {
                        let (_, mut respond) = request?;
                        requests += 1;
                        tokio::task::spawn_local(async move {
                            tokio::time::sleep(delay).await;
                            let mut body = respond.send_response(http::Response::new(()), false).unwrap();
                            body.send_data(bytes::Bytes::from_static(b"hello world"), true).unwrap();
                        });
                        if requests == requests_per_connection {
                            connection.graceful_shutdown();
                        }
                    }
                    Ok::<(), h2::Error>(())
                });
            }
        });
    });
    address.recv().unwrap()
}

#[test]
fn streams_of_http2_are_loaded_closed_and_open() {
    let server = serve_http2(20 * MS, usize::MAX);
    // Two connections of five streams and answers after 20 ms: 500 a second at the most.
    let closed = run_load(server, "--plain --alpn h2 --path /11b --connections 2 --streams 5 --duration 1s").unwrap();
    assert!((200..=505).contains(&closed.requests), "{closed:?}");
    assert_eq!(closed.failed(), 0, "{:?}", closed.first_failure);
    assert!(closed.latency_us.unwrap().p50 >= 20_000.0);
    let open = run_load(server, "--plain --alpn h2 --path /11b --connections 2 --streams 10 --rate 200 --duration 1s").unwrap();
    assert!((140..=260).contains(&open.requests), "{open:?}");
    assert_eq!((open.failed(), open.dropped), (0, 0), "{:?}", open.first_failure);
}

#[test]
fn a_server_that_sends_its_http2_clients_away_loses_nobody() {
    let server = serve_http2(MS, 10);
    let phase =
        run_load(server, "--plain --alpn h2 --path /11b --connections 1 --streams 3 --requests 100 --duration 30s").unwrap();
    assert_eq!((phase.requests, phase.failed()), (100, 0), "{:?}", phase.first_failure);
}

const MS: Duration = Duration::from_millis(1);
