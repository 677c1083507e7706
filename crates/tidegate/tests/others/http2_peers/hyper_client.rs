//! hyper as a client, over one connection: downloads side by side, an upload that comes back, and downloads that are
//! given up midway, which cost the others nothing.

use super::start;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::Duration;
use tidegate_testkit::pattern;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tokio::net::TcpStream;

/// How long all of a test may take.
const PATIENCE: Duration = Duration::from_secs(60);
const STREAMS: usize = 200;

type Sender = SendRequest<Full<Bytes>>;

/// A request by a sender of its own, which waits for a place among the streams.
async fn ask(mut sender: Sender, method: Method, path: &str, body: Bytes) -> Response<Incoming> {
    sender.ready().await.expect("the connection is open");
    let request = Request::builder().method(method).uri(format!("http://app.test{path}")).body(Full::new(body));
    let answer = sender.send_request(request.expect("a request")).await.expect("an answer");
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2), "{path}");
    answer
}

async fn check_download(sender: Sender, bytes: usize) {
    let answer = ask(sender, Method::GET, &format!("/bytes/{bytes}"), Bytes::new()).await;
    let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
    assert_eq!((body.len(), pattern::check(0, &body)), (bytes, Ok(())));
}

/// The first piece of a long answer, and no more of it.
async fn give_up_midway(sender: Sender) {
    let mut answer = ask(sender, Method::GET, "/bytes/50000000", Bytes::new()).await;
    let piece = answer.body_mut().frame().await.expect("a piece").expect("a good one");
    assert!(piece.data_ref().is_some_and(|data| !data.is_empty()));
}

async fn converse(address: &str) {
    let socket = TcpStream::connect(address).await.expect("it listens");
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    check_download(sender.clone(), 0).await;
    let upload = Bytes::from(pattern::pattern(0, 3_000_000));
    let answer = ask(sender.clone(), Method::POST, "/echo", upload.clone()).await;
    assert_eq!(answer.into_body().collect().await.expect("a whole body").to_bytes(), upload);
    let downloads = (0..STREAMS).map(|number| {
        let sender = sender.clone();
        tokio::spawn(async move {
            if number % 10 == 9 { give_up_midway(sender).await } else { check_download(sender, number * 1000).await }
        })
    });
    for download in downloads.collect::<Vec<_>>() {
        download.await.expect("it comes whole, or is given up");
    }
    check_download(sender.clone(), 100_000).await;
    drop(sender);
    connection.await.expect("a task").expect("the connection was good to its end");
}

#[test]
fn hyper_downloads_uploads_and_gives_up() {
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let proxy = start(&format!("server \"{}\"", upstream.address));
    let address = proxy.address.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let outcome = runtime.block_on(async { tokio::time::timeout(PATIENCE, converse(&address)).await });
    assert!(outcome.is_ok(), "it takes too long:\n{}", proxy.program.output());
    let metrics = proxy.metrics().expect("metrics");
    assert_eq!(metrics.sum("tidegate_panics_caught_total").to_string(), "0");
}
