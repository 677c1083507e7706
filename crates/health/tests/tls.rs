//! Checks over TLS: handshakes in themselves, and HTTP beneath them. Connections are in `tcp`, what HTTP answers in
//! `http`.

mod world;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tidegate_health::{Target, TlsTarget};
use tidegate_model::{Probe, Protocol, ProxyFacts, ProxyProtocol};
use tidegate_testkit::bytes::Bytes;
use tidegate_testkit::http::{HeaderName, HeaderValue, Response};
use tidegate_testkit::tls::{ClientOptions, client_config, server_config};
use tidegate_testkit::{Authority, KeyKind, h2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use world::{LONG, SHORT, Then, ask, closed_port, http, listen, scripted, serve, target};

/// A certificate authority, and a folder that lives as long.
struct World {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "root").expect("an authority");
        World { folder, authority }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Verifies against this authority, and offers what is told over HTTP/2.
    fn target(&self, address: SocketAddr, name: &'static str, h2_alpn: &[&[u8]]) -> Target {
        let config = |alpn: &[&[u8]]| {
            let alpn = alpn.iter().map(|name| name.to_vec()).collect();
            let options = ClientOptions { alpn, send_sni: true, ..ClientOptions::default() };
            Arc::new(client_config(Some(self.authority.root()), &options).expect("a configuration"))
        };
        let name = name.try_into().expect("a name");
        let tls = TlsTarget { config_http1: config(&[b"http/1.1"]), config_h2: config(h2_alpn), name };
        Target { tls: Some(tls), ..target(address) }
    }

    /// A server for `shop.test` that speaks what was agreed on and answers 200. `skip` bytes come before the handshake.
    async fn server(&self, kind: KeyKind, alpn: &[&[u8]], skip: usize) -> SocketAddr {
        let files = self.authority.issue("shop.test", kind).expect("a certificate");
        let alpn: Vec<Vec<u8>> = alpn.iter().map(|name| name.to_vec()).collect();
        let config = server_config(&files.cert, &files.key, &alpn, None).expect("a configuration");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (listener, address) = listen().await;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut skipped = vec![0; skip];
                if stream.read_exact(&mut skipped).await.is_err() {
                    continue;
                }
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                    let (sender, _requests) = tokio::sync::mpsc::unbounded_channel();
                    tokio::spawn(serve(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Then::Close, sender));
                    continue;
                }
                tokio::spawn(serve_http2(stream));
            }
        });
        address
    }
}

/// Answers checks over HTTP and by the health protocol of gRPC.
async fn serve_http2(stream: TlsStream<TcpStream>) {
    let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        if request.uri() == "https://shop.test:8080/healthz" {
            respond.send_response(Response::new(()), true).expect("an answer");
            continue;
        }
        assert_eq!(request.uri(), "https://shop.test:8080/grpc.health.v1.Health/Check");
        let head = Response::builder().header("content-type", "application/grpc").body(()).expect("a head");
        let mut stream = respond.send_response(head, false).expect("a head");
        stream.send_data(Bytes::from_static(b"\0\0\0\0\x02\x08\x01"), false).expect("data");
        let trailers = [(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))];
        stream.send_trailers(trailers.into_iter().collect()).expect("trailers");
    }
}

#[tokio::test]
async fn grpc_needs_a_server_that_agrees_to_http2() {
    let world = World::new();
    let refusal = "TLS: the server did not agree to HTTP/2 (ALPN h2)";
    for (server_alpn, expect) in [(&[&b"h2"[..], b"http/1.1"][..], "well"), (&[b"http/1.1"], refusal), (&[], refusal)] {
        let address = world.server(KeyKind::Ecdsa, server_alpn, 0).await;
        let target = world.target(address, "shop.test", &[b"h2", b"http/1.1"]);
        assert_eq!(ask(&target, &Probe::Grpc { service: None }, LONG).await, expect, "{server_alpn:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_completes_is_enough() {
    let world = World::new();
    let address = world.server(KeyKind::Ecdsa, &[], 0).await;
    assert_eq!(ask(&world.target(address, "shop.test", &[b"h2"]), &Probe::Tls, LONG).await, "well");
    assert_eq!(ask(&world.target(closed_port(), "shop.test", &[b"h2"]), &Probe::Tls, LONG).await, "connection refused");
    let found = ask(&target(address), &Probe::Tls, LONG).await;
    assert_eq!(found, "TLS: the server's address is not https; use a tcp check, or write https://");
}

#[tokio::test]
async fn a_certificate_is_verified_as_requests_verify_it() {
    let world = World::new();
    let good = world.server(KeyKind::Ecdsa, &[], 0).await;
    let expired = world.server(KeyKind::Expired, &[], 0).await;
    let stranger = World { authority: Authority::new(world.folder(), "stranger").expect("an authority"), ..World::new() };
    for (target, words) in [
        (world.target(good, "other.test", &[b"h2"]), &["TLS: ", "not valid for other.test"][..]),
        (world.target(expired, "shop.test", &[b"h2"]), &["TLS: ", "expired"]),
        (stranger.target(good, "shop.test", &[b"h2"]), &["TLS: ", "nobody who is trusted"]),
    ] {
        for question in [Probe::Tls, Probe::Http(http()), Probe::Grpc { service: None }] {
            let found = ask(&target, &question, LONG).await;
            assert!(words.iter().all(|word| found.contains(word)), "{found:?} has not all of {words:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_not_well() {
    let world = World::new();
    let (listener, clear) = listen().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.write_all(b"220 mail.test ESMTP\r\n").await.expect("a greeting");
        std::future::pending::<()>().await;
    });
    let found = ask(&world.target(clear, "shop.test", &[b"h2"]), &Probe::Tls, LONG).await;
    assert_eq!(found, "TLS: what it sends is no TLS");
    let silent = scripted(b"", Then::Hang).await.address;
    let found = ask(&world.target(silent, "shop.test", &[b"h2"]), &Probe::Tls, SHORT).await;
    assert_eq!(found, "TLS: no handshake within 400ms");
}

#[tokio::test]
async fn http_is_spoken_in_the_version_that_was_agreed_on() {
    let world = World::new();
    let both: &[&[u8]] = &[b"h2", b"http/1.1"];
    let (only_http1, only_h2): (&[&[u8]], &[&[u8]]) = (&[b"http/1.1"], &[b"h2"]);
    for (server_alpn, h2_alpn, protocol, expect) in [
        (both, both, Protocol::Auto, "well"),
        (both, both, Protocol::H2, "well"),
        (only_http1, both, Protocol::H2, "well"),
        (&[], both, Protocol::H2, "well"),
        (only_h2, only_h2, Protocol::H2, "well"),
        (&[], only_h2, Protocol::H2, "TLS: the server did not agree to HTTP/2 (ALPN h2)"),
    ] {
        let address = world.server(KeyKind::Ecdsa, server_alpn, 0).await;
        let target = Target { protocol, ..world.target(address, "shop.test", h2_alpn) };
        assert_eq!(ask(&target, &Probe::Http(http()), LONG).await, expect, "{server_alpn:?} {h2_alpn:?} {protocol:?}");
    }
}

#[tokio::test]
async fn the_header_of_the_proxy_protocol_comes_before_the_handshake() {
    let world = World::new();
    let address = world.server(KeyKind::Ecdsa, &[], 16).await;
    let target =
        Target { proxy_protocol: Some(ProxyProtocol::V2(ProxyFacts::NONE)), ..world.target(address, "shop.test", &[b"h2"]) };
    assert_eq!(ask(&target, &Probe::Tls, LONG).await, "well");
}
