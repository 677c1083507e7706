//! The generator against small servers of its own: what is right is counted, what is wrong is named.

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
fn run_load(server: SocketAddr, arguments: &str) -> Result<LoadReport, String> {
    let address = server.to_string();
    let words = ["load", "--to", &address, "--path", "/11b"].into_iter().chain(arguments.split_ascii_whitespace());
    generate(&Cli::parse_from(words).load).map_err(|error| error.to_string())
}

/// Gives `answer` to each request, over TLS if there is a configuration. Its threads end with their connections or with the test.
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
            if stream.write_all(answer.as_bytes()).is_err() {
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
    for (tls, arguments) in [(Some(server_config()), ""), (None, "--plain")] {
        let server = serve(RIGHT, tls);
        let report = run_load(server, &format!("--requests 500 --connections 4 --duration 30s {arguments}")).unwrap();
        assert_eq!((report.requests, report.errors, report.bytes), (500, 0, 5500), "{:?}", report.first_error);
        assert!(report.latency_us.p50 > 0.0);
        assert!(report.cpu_us_per_request.contains_key("generator"));
    }
}

#[test]
fn wrong_answers_are_errors_and_never_requests() {
    let check = |answer, expected: &str| {
        let report = run_load(serve(answer, None), "--plain --requests 3 --connections 1 --duration 30s").unwrap();
        assert_eq!((report.requests, report.errors), (0, 3));
        assert!(report.first_error.as_deref().is_some_and(|error| error.contains(expected)), "{:?}", report.first_error);
    };
    check("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "status 503");
    check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello_world", "body differs");
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "5 bytes announced");
}

#[test]
fn a_closing_server_is_asked_again_on_a_new_connection() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 11\r\n\r\nhello world";
    let report = run_load(serve(answer, None), "--plain --requests 20 --connections 2 --duration 30s").unwrap();
    assert_eq!((report.requests, report.errors), (20, 0));
}

#[test]
fn handshakes_are_full_or_resumed_as_asked() {
    let server = serve(RIGHT, Some(server_config()));
    let full = run_load(server, "--handshakes full --connections 2 --duration 200ms --warmup 100ms").unwrap();
    assert!(full.handshakes > 0 && full.errors == 0, "{full:?}");
    assert_eq!(full.resumed, 0);
    let resumed = run_load(server, "--handshakes resumed --connections 2 --duration 200ms --warmup 300ms").unwrap();
    assert!(resumed.handshakes > 0 && resumed.errors == 0, "{resumed:?}");
    assert_eq!(resumed.resumed, resumed.handshakes);
}

#[test]
fn a_load_that_makes_no_sense_is_refused() {
    let server = serve(RIGHT, None);
    for arguments in ["--plain --handshakes full", "--alpn h2 --rate 10", "--alpn h2 --requests 10", "--plain --alpn h2"] {
        assert!(run_load(server, arguments).is_err(), "{arguments}");
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
