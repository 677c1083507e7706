//! Servers of HTTP/2 that leave each connection after a few requests, under many requests at the same time: what they
//! say they have not looked at is sent again until somebody has, whatever its method. The server is written by hand:
//! what it leaves out is counted by itself.

use crate::pools::asked::{Asked, BOUND, HOST, block_on};
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use tidegate_testkit::tokio::task::spawn_local;
use tidegate_testkit::{Client, tokio};

const REQUESTS: usize = 3000;
const AT_ONCE: usize = 64;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// How a server leaves a connection.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    /// By one GOAWAY that names the last request that it took.
    AtOnce,
    /// First by one that names none (2^31 - 1), then by that (RFC 9113 section 6.8).
    Announced,
}

/// A server that takes `least..most` requests of each connection, in turn.
struct LeavingServer {
    address: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl LeavingServer {
    fn start(leaves: Leaves, least: u32, most: u32) -> LeavingServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, answered) = (listener.local_addr().expect("an address"), Arc::<AtomicU64>::default());
        let counted = answered.clone();
        thread::spawn(move || {
            for (number, socket) in listener.incoming().flatten().enumerate() {
                let takes = least + (number as u32 * 13) % (most - least + 1);
                let answered = counted.clone();
                thread::spawn(move || serve(socket, leaves, takes, &answered));
            }
        });
        LeavingServer { address, answered }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn go_away(last: u32) -> Vec<u8> {
    let mut payload = last.to_be_bytes().to_vec();
    payload.extend_from_slice(&[0; 4]);
    frame(GOAWAY, 0, 0, &payload)
}

/// Answers so many requests, leaves, and reads on until the client has gone: a socket closed before it was emptied
/// would reset what was answered.
fn serve(mut socket: TcpStream, leaves: Leaves, takes: u32, answered: &AtomicU64) -> io::Result<()> {
    let mut preface = [0; 24];
    socket.read_exact(&mut preface)?;
    let _ = socket.set_nodelay(true);
    socket.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    let mut taken = 0;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head)?;
        let [_, _, _, kind, flags, s0, s1, s2, s3] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        socket.read_exact(&mut payload)?;
        let stream = u32::from_be_bytes([s0, s1, s2, s3]);
        match kind {
            SETTINGS | PING if flags == 0 => socket.write_all(&frame(kind, 1, 0, if kind == PING { &payload } else { &[] }))?,
            HEADERS if takes == 0 => socket.write_all(&go_away(0))?,
            HEADERS | DATA if flags & END_STREAM != 0 && taken < takes => {
                taken += 1;
                let mut output = frame(HEADERS, END_HEADERS, stream, &[0x88]);
                output.extend(frame(DATA, END_STREAM, stream, b"taken"));
                if taken == takes {
                    if matches!(leaves, Leaves::Announced) {
                        output.splice(0..0, go_away(u32::MAX >> 1));
                    }
                    output.extend(go_away(stream));
                }
                socket.write_all(&output)?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Sends all requests, so many at a time; those that were not answered with 200.
fn failed(address: SocketAddr, method: &'static str, body: &'static [u8]) -> Vec<String> {
    let left = Rc::new(Cell::new(REQUESTS));
    let clients = (0..AT_ONCE).map(|_| {
        let left = left.clone();
        spawn_local(async move {
            let mut client = Client::connect(address).await?;
            let mut failed = Vec::new();
            while left.get() > 0 {
                left.set(left.get() - 1);
                client.send(method, HOST, "/", body).await?;
                let answer = client.receive().await?;
                if (answer.status, answer.body.as_slice()) != (200, b"taken".as_slice()) {
                    failed.push(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)));
                }
            }
            Ok::<_, String>(failed)
        })
    });
    block_on(async {
        let clients: Vec<_> = clients.collect();
        let all = async {
            let mut failed = Vec::new();
            for client in clients {
                failed.extend(client.await.expect("no panic").unwrap_or_else(|error| vec![error]));
            }
            failed
        };
        tokio::time::timeout(BOUND, all).await.expect("in time")
    })
}

#[test]
fn no_request_is_lost_to_servers_that_leave_after_a_few() {
    let check = |leaves: Leaves, (least, most): (u32, u32), method: &'static str, body: &'static [u8]| {
        let server = LeavingServer::start(leaves, least, most);
        let config = format!(
            "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 1\npool \"app\" {{ server \"{}\"; protocol \"h2c\" }}\nsite \"http://:{{port}}\" {{ proxy \"app\" }}\n",
            server.address
        );
        let asked = Asked::start(&config);
        let failed = failed(asked.proxy.address, method, body);
        let (count, first) = (failed.len(), failed.first());
        let connections = asked.metric("tidegate_upstream_connections_total{kind=\"new\"}");
        let retries = asked.metric("tidegate_upstream_retries_total");
        println!("{leaves:?} after {least}..={most}, {method}: {count} failed, {connections} connections, {retries} sent again");
        assert_eq!(count, 0, "{leaves:?} after {least}..={most}, {method}: {first:?}");
        // Nothing twice: what is not safe to repeat was not.
        assert_eq!(server.answered.load(Ordering::Relaxed), REQUESTS as u64);
        let often = retries / REQUESTS as f64;
        assert!(often < 2.0, "each request is sent {often} times too often");
    };
    check(Leaves::AtOnce, (7, 7), "GET", b"");
    check(Leaves::AtOnce, (7, 7), "POST", b"a small body");
    check(Leaves::Announced, (7, 7), "GET", b"");
    check(Leaves::Announced, (7, 7), "POST", b"a small body");
    check(Leaves::AtOnce, (7, 50), "GET", b"");
    check(Leaves::AtOnce, (7, 50), "POST", b"a small body");
    check(Leaves::AtOnce, (1, 1), "POST", b"a small body");
}

/// A server that takes no request of any connection is not asked for ever.
#[test]
fn a_server_that_takes_nothing_is_given_up() {
    let server = LeavingServer::start(Leaves::AtOnce, 0, 0);
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 1\npool \"app\" {{ server \"{}\"; protocol \"h2c\" }}\nsite \"http://:{{port}}\" {{ proxy \"app\" }}\n",
        server.address
    );
    let asked = Asked::start(&config);
    let reply = asked.get("/");
    assert_eq!(reply.status, 502, "{}", reply.text());
    assert!(reply.text().contains("goaway"), "{}", reply.text());
    let connections = asked.metric("tidegate_upstream_connections_total{kind=\"new\"}");
    assert!(connections < 10.0, "{connections} connections");
}
