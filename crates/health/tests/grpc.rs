//! Checks by the gRPC health protocol, against servers that speak it in every way. What the messages look like is
//! tested beside their code.

mod world;

use std::net::SocketAddr;
use tidegate_model::Probe;
use tidegate_testkit::bytes::Bytes;
use tidegate_testkit::h2;
use tidegate_testkit::http::{HeaderMap, HeaderName, HeaderValue, Response};
use world::{LONG, SHORT, Then, ask, listen, scripted, target};

/// What a server sends: fields of its head, data, fields of its trailers.
#[derive(Clone, Copy)]
struct Answer {
    status: u16,
    head: &'static [(&'static str, &'static str)],
    data: &'static [u8],
    /// `None`: the stream ends with the data, or with the head if there is none.
    trailers: Option<&'static [(&'static str, &'static str)]>,
    is_hanging: bool,
}

const GRPC: &[(&str, &str)] = &[("content-type", "application/grpc")];
const OK: Option<&[(&str, &str)]> = Some(&[("grpc-status", "0")]);
const USUAL: Answer = Answer { status: 200, head: GRPC, data: b"\0\0\0\0\x02\x08\x01", trailers: OK, is_hanging: false };

fn fields(list: &[(&'static str, &'static str)]) -> HeaderMap {
    list.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

/// `question` is what the one request's body has to be.
async fn server(answer: Answer, question: &'static [u8]) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        let (mut request, mut respond) = connection.accept().await.expect("a request").expect("one that is valid");
        let exchange = async {
            assert_eq!(request.uri().to_string(), "http://shop.test:8080/grpc.health.v1.Health/Check");
            assert_eq!(request.headers()["content-type"], "application/grpc");
            assert_eq!(request.headers()["te"], "trailers");
            let mut received = Vec::new();
            while let Some(data) = request.body_mut().data().await {
                received.extend_from_slice(&data.expect("data"));
            }
            assert_eq!(received, question);
            let mut head = Response::new(());
            *head.status_mut() = answer.status.try_into().expect("a status");
            *head.headers_mut() = fields(answer.head);
            let is_head_only = answer.data.is_empty() && answer.trailers.is_none() && !answer.is_hanging;
            let mut stream = respond.send_response(head, is_head_only).expect("a head");
            if !answer.data.is_empty() {
                let is_end = answer.trailers.is_none() && !answer.is_hanging;
                stream.send_data(Bytes::from_static(answer.data), is_end).expect("data");
            }
            if let Some(trailers) = answer.trailers {
                stream.send_trailers(fields(trailers)).expect("trailers");
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = exchange => {}
            _ = connection.accept() => {}
        }
    });
    address
}

async fn check(answer: Answer, expect: &str) {
    let timeout = if answer.is_hanging { SHORT } else { LONG };
    let address = server(answer, b"\0\0\0\0\0").await;
    assert_eq!(ask(&target(address), &Probe::Grpc { service: None }, timeout).await, expect);
}

#[tokio::test]
async fn the_status_of_the_message_decides() {
    check(USUAL, "well").await;
    check(Answer { head: &[("content-type", "application/grpc+proto")], ..USUAL }, "well").await;
    check(Answer { data: b"\0\0\0\0\x02\x08\x02", ..USUAL }, "grpc: NOT_SERVING").await;
    check(Answer { data: b"\0\0\0\0\0", ..USUAL }, "grpc: UNKNOWN").await;
    check(Answer { data: b"\0\0\0\0\x02\x08\x03", ..USUAL }, "grpc: SERVICE_UNKNOWN").await;
}

#[tokio::test]
async fn a_service_is_asked_for_by_its_name() {
    let address = server(USUAL, b"\0\0\0\0\x06\x0a\x04shop").await;
    assert_eq!(ask(&target(address), &Probe::Grpc { service: Some("shop".into()) }, LONG).await, "well");
    let unknown = Answer { data: b"", trailers: Some(&[("grpc-status", "5")]), ..USUAL };
    let address = server(unknown, b"\0\0\0\0\x06\x0a\x04shop").await;
    let found = ask(&target(address), &Probe::Grpc { service: Some("shop".into()) }, LONG).await;
    assert_eq!(found, "grpc: the server's health service does not know `shop`");
}

#[tokio::test]
async fn a_call_that_fails_says_why() {
    let none = "grpc: the server has no health service (grpc.health.v1.Health); use another type of check";
    let only_head = Answer { data: b"", trailers: None, ..USUAL };
    let unimplemented = &[("content-type", "application/grpc"), ("grpc-status", "12")];
    check(Answer { head: unimplemented, ..only_head }, none).await;
    check(Answer { data: b"", trailers: Some(&[("grpc-status", "12")]), ..USUAL }, none).await;
    let busy = &[("grpc-status", "14"), ("grpc-message", "down for now")];
    check(Answer { trailers: Some(busy), ..USUAL }, "grpc: answered status 14: down for now").await;
    check(Answer { trailers: Some(&[("grpc-status", "x")]), ..USUAL }, "grpc: the answer ended without a grpc-status").await;
    check(Answer { trailers: None, ..USUAL }, "grpc: the answer ended without a grpc-status").await;
    check(only_head, "grpc: the answer ended without a grpc-status").await;
}

#[tokio::test]
async fn what_is_no_grpc_is_a_fault() {
    let page: &[(&str, &str)] = &[("content-type", "text/html")];
    check(Answer { head: page, ..USUAL }, "grpc: answered with content of type `text/html`, which is no gRPC").await;
    check(Answer { head: page, status: 404, ..USUAL }, "grpc: answered HTTP 404, which is no gRPC").await;
    check(Answer { head: &[], ..USUAL }, "grpc: answered HTTP 200, which is no gRPC").await;
    check(Answer { data: b"", ..USUAL }, "grpc: the answer's message is cut off").await;
    check(Answer { data: &[0; 5000], ..USUAL }, "grpc: the answer is too long for a health check").await;
    check(Answer { trailers: None, is_hanging: true, ..USUAL }, "no answer within 400ms").await;
    let address = scripted(b"HTTP/1.1 400 Bad\r\n\r\n", Then::Close).await.address;
    let found = ask(&target(address), &Probe::Grpc { service: None }, LONG).await;
    assert!(found.starts_with("no valid HTTP answer: "), "{found}");
}
