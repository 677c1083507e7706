//! Connections in themselves: addresses tried in turn, the port, the header of the PROXY protocol. What is asked over
//! them is in `http`.

mod world;

use std::net::SocketAddr;
use std::time::Duration;
use tidegate_health::Target;
use tidegate_model::{Probe, ProxyFacts, ProxyProtocol, Talk, TextPattern};
use tokio::io::AsyncReadExt;
use world::{LONG, SHORT, Then, ask, closed_port, http, listen, scripted, soon, swallowing, target, targets};

async fn check(addresses: Vec<SocketAddr>, expect: &str) {
    assert_eq!(ask(&targets(addresses), &Probe::Tcp(Talk::default()), LONG).await, expect);
}

#[tokio::test]
async fn a_connection_that_opens_is_enough() {
    let (_listener, open) = listen().await;
    check(vec![open], "well").await;
    check(vec![closed_port()], "connection refused").await;
    check(Vec::new(), "its name has no address").await;
    check(vec![closed_port(), open], "well").await;
    check(vec![closed_port(), closed_port()], "connection refused").await;
}

#[tokio::test]
async fn another_port_may_be_asked() {
    let (_listener, open) = listen().await;
    let target = Target { port: Some(open.port()), ..target(closed_port()) };
    assert_eq!(ask(&target, &Probe::Tcp(Talk::default()), LONG).await, "well");
}

#[tokio::test]
async fn an_address_that_swallows_connections_leaves_time_for_the_next() {
    let swallowing = swallowing().await;
    let server = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Then::Close).await;
    let target = targets(vec![swallowing.address, server.address]);
    // Half of it is waited for in vain; the other half is for a machine that is busy.
    assert_eq!(ask(&target, &Probe::Http(http()), Duration::from_secs(4)).await, "well");
    assert_eq!(ask(&targets(vec![swallowing.address]), &Probe::Tcp(Talk::default()), SHORT).await, "no connection within 400ms");
}

#[tokio::test]
async fn a_connection_begins_with_the_header_that_the_pool_sends() {
    for (proxy_protocol, expect) in [
        (None, &b""[..]),
        (Some(ProxyProtocol::V1), b"PROXY UNKNOWN\r\n"),
        (Some(ProxyProtocol::V2(ProxyFacts::NONE)), b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x20\x00\x00\x00"),
    ] {
        let (listener, address) = listen().await;
        let target = Target { proxy_protocol, ..target(address) };
        assert_eq!(ask(&target, &Probe::Tcp(Talk::default()), LONG).await, "well");
        let (mut stream, _) = soon(listener.accept()).await.expect("a connection");
        let mut received = Vec::new();
        soon(stream.read_to_end(&mut received)).await.expect("its end");
        assert_eq!(received, expect);
    }
}

/// A server that waits for `asked`, if anything, and says `answer` in two pieces.
async fn talkative(asked: &'static [u8], answer: &'static [u8]) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = vec![0; asked.len()];
            let _ = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut heard).await;
            if heard == asked {
                for piece in answer.chunks(answer.len().div_ceil(2).max(1)) {
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, piece).await;
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    address
}

#[tokio::test]
async fn what_is_said_on_a_connection_decides() {
    let talk = |send: Option<&str>, receive: Option<TextPattern>| Probe::Tcp(Talk { send: send.map(Into::into), receive });
    let pong = || Some(TextPattern::Prefix("+PONG".into()));
    let redis = talkative(b"PING\r\n", b"+PONG\r\n").await;
    assert_eq!(ask(&targets(vec![redis]), &talk(Some("PING\r\n"), pong()), LONG).await, "well");
    assert_ne!(ask(&targets(vec![redis]), &talk(Some("QUIT\r\n"), pong()), LONG).await, "well");
    assert_eq!(ask(&targets(vec![redis]), &talk(Some("PING\r\n"), None), LONG).await, "well");
    let smtp = talkative(b"", b"220 mail.example.com ready\r\n").await;
    assert_eq!(ask(&targets(vec![smtp]), &talk(None, Some(TextPattern::Prefix("220 ".into()))), LONG).await, "well");
    assert_ne!(ask(&targets(vec![smtp]), &talk(None, Some(TextPattern::Exact("220".into()))), LONG).await, "well");
    let silent = talkative(b"never", b"").await;
    assert_ne!(ask(&targets(vec![silent]), &talk(None, pong()), SHORT).await, "well");
}
