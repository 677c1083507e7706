//! What stays of clients that come and go: memory that many handshakes took is given back to the system, by the program
//! as it is, with its allocator and its settings. Memory with no file behind it, as the kernel counts it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tidegate_testkit::Proxy;
use tidegate_testkit::driver::{drivers, on};
use tidegate_testkit::rustls::client::Resumption;
use tidegate_testkit::rustls::pki_types::ServerName;
use tidegate_testkit::rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};
use tidegate_testkit::tls::{ClientOptions, client_config};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const CONFIG: &str = "access-log \"off\"\nadmin \"127.0.0.1:{admin}\"\nthreads 2\n\
    site \"https://example.com:{port}\" { tls cert=\"{cert}\" key=\"{key}\"; respond 200 body=\"BODY\" }\n";
/// Clients at a time; every second one resumes its session.
const CLIENTS: usize = 64;
const HANDSHAKES: usize = 3_000;
/// More than a worker remembers of requests for `explain`, and all that is made once is there.
const FIRST_HANDSHAKES: usize = 1_200;
/// Of what was resident before.
const LEFT_MOST: f64 = 1.3;
/// What is free is given back after some seconds; a bound for a machine that is busy with something else.
const WAIT: Duration = Duration::from_secs(60);

#[test]
fn memory_of_handshakes_is_given_back() {
    let _only = crate::only_count();
    for driver in drivers(PROGRAM) {
        let proxy = Proxy::start(PROGRAM, &on(driver, CONFIG)).expect("it starts");
        assert!(shake_hands(proxy.address, 1, FIRST_HANDSHAKES) > 0, "sessions are resumed");
        let before = settled_kib(&proxy);
        shake_hands(proxy.address, CLIENTS, HANDSHAKES);
        let (most, begin) = (anonymous_kib(&proxy), Instant::now());
        let bound = (before as f64 * LEFT_MOST) as u64;
        while anonymous_kib(&proxy) > bound {
            assert!(begin.elapsed() < WAIT, "{before} KiB before, {} after, {most} at the end", anonymous_kib(&proxy));
            thread::sleep(Duration::from_millis(100));
        }
        println!("{before} KiB before, {most} at the end of {HANDSHAKES} handshakes, {} left with {driver}", settled_kib(&proxy));
    }
}

/// Handshakes that are made together, and how many of them resumed a session.
fn shake_hands(address: SocketAddr, clients: usize, handshakes: usize) -> usize {
    let client = |index: usize| {
        let mut config =
            client_config(None, &ClientOptions { send_sni: true, ..ClientOptions::default() }).expect("a configuration");
        config.resumption = if index.is_multiple_of(2) { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
        let config = Arc::new(config);
        thread::spawn(move || (0..handshakes / clients).filter(|_| is_resumed(address, &config)).count())
    };
    let running: Vec<_> = (0..clients).map(client).collect();
    running.into_iter().map(|client| client.join().expect("each is answered")).sum()
}

/// A connection with one request.
fn is_resumed(address: SocketAddr, config: &Arc<ClientConfig>) -> bool {
    let name = ServerName::try_from("example.com").expect("a name");
    let session = ClientConnection::new(config.clone(), name).expect("a session");
    let mut stream = StreamOwned::new(session, TcpStream::connect(address).expect("it listens"));
    stream.write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("BODY"), "{answer}");
    stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
}

/// What is resident once it has not become less for three seconds.
fn settled_kib(proxy: &Proxy) -> u64 {
    let (mut least, mut same) = (anonymous_kib(proxy), 0);
    while same < 30 {
        thread::sleep(Duration::from_millis(100));
        let now = anonymous_kib(proxy);
        same = if now < least { 0 } else { same + 1 };
        least = least.min(now);
    }
    least
}

fn anonymous_kib(proxy: &Proxy) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", proxy.program.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel counts it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
