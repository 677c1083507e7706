//! Servers on loopback that answer checks well, badly or not at all, and the words of what a check found.
//! The cases are in the files beside this folder.
#![allow(dead_code, reason = "each file of cases uses a part of it")]

use std::net::SocketAddr;
use std::time::Duration;
use tidegate_health::{Target, probe};
use tidegate_model::{HttpProbe, Probe, Protocol, ServerAddresses};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// Longer than any machine hesitates: what takes this long has failed.
pub const LONG: Duration = Duration::from_secs(30);
/// For checks that have to run out of time.
pub const SHORT: Duration = Duration::from_millis(400);

/// What a server does when it has sent its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Close,
    /// Keeps the connection, silently.
    Hang,
    /// Sends these bytes for as long as somebody takes them.
    Repeat(&'static [u8]),
}

/// A server, and what its clients sent up to the end of their heads.
pub struct Scripted {
    pub address: SocketAddr,
    pub requests: mpsc::UnboundedReceiver<String>,
}

/// Every connection gets the same.
pub async fn scripted(answer: &'static [u8], then: Then) -> Scripted {
    let (listener, address) = listen().await;
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer, then, sender.clone()));
        }
    });
    Scripted { address, requests }
}

pub async fn serve<S>(mut stream: S, answer: &[u8], then: Then, requests: mpsc::UnboundedSender<String>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => received.push(byte),
            Err(_) => break,
        }
    }
    let _ = requests.send(String::from_utf8_lossy(&received).into_owned());
    let _ = stream.write_all(answer).await;
    match then {
        Then::Close => drop(stream.shutdown().await),
        Then::Hang => while stream.read_u8().await.is_ok() {},
        Then::Repeat(bytes) => while stream.write_all(bytes).await.is_ok() {},
    }
}

pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// Nobody listens there, and nobody else gets the port as long as the test runs.
pub fn closed_port() -> SocketAddr {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("bound");
    let address = socket.local_addr().expect("its address");
    std::mem::forget(socket);
    address
}

/// A server whose queue of connections is full, so that another one neither opens nor fails, for as long as this is
/// kept.
pub struct Swallowing {
    pub address: SocketAddr,
    _listener: TcpListener,
    _clients: Vec<tokio::task::JoinHandle<()>>,
}

pub async fn swallowing() -> Swallowing {
    // The kernel takes one more than it is told, and then drops what arrives.
    let (backlog, taken, clients) = (1, 2, 6);
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("bound");
    let listener = socket.listen(backlog).expect("a listener");
    let address = listener.local_addr().expect("its address");
    let (sender, mut opened) = mpsc::unbounded_channel();
    let client = |sender: mpsc::UnboundedSender<()>| {
        tokio::spawn(async move {
            let _stream = TcpStream::connect(address).await;
            let _ = sender.send(());
            std::future::pending::<()>().await;
        })
    };
    let clients = (0..clients).map(|_| client(sender.clone())).collect();
    for _ in 0..taken {
        soon(opened.recv()).await;
    }
    Swallowing { address, _listener: listener, _clients: clients }
}

pub async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("within thirty seconds")
}

pub fn target(address: SocketAddr) -> Target {
    targets(vec![address])
}

pub fn targets(addresses: Vec<SocketAddr>) -> Target {
    let addresses = ServerAddresses::Tcp(addresses);
    Target {
        addresses,
        authority: "shop.test:8080".to_owned(),
        tls: None,
        protocol: Protocol::Auto,
        proxy_protocol: None,
        port: None,
    }
}

pub fn http() -> HttpProbe {
    HttpProbe {
        path: "/healthz".to_owned(),
        method: "GET".to_owned(),
        host: None,
        headers: Vec::new(),
        expect: Vec::new(),
        body: None,
    }
}

/// The sentence of the fault, or `well`.
pub async fn ask(target: &Target, question: &Probe, timeout: Duration) -> String {
    match probe(target, question, timeout).await {
        Ok(_) => "well".to_owned(),
        Err(fault) => fault.to_string(),
    }
}
