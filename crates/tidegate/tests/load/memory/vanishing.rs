//! Clients that are gone in every state that a connection can be in, as when their process is killed, with each driver:
//! afterwards connections, descriptors and memory are what they were.

use super::{LOOKED, beginning, connect, metric, request};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Proxy, driver};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// Clients of each state at once.
const CLIENTS: usize = 20;
const ROUNDS: usize = 1;
/// What the allocator keeps of a round, and the connections to servers that are kept.
const MEMORY_SLACK: f64 = (16 << 20) as f64;
const OPEN_FILES_SLACK: usize = 8;

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "off"
threads 2
site "http://:{port}" { proxy "UPSTREAM" }
site "https://:{port:tls}" { tls cert="{cert:example.com}" key="{key:example.com}"; proxy "UPSTREAM" }
"#;

#[derive(Debug, Clone, Copy)]
enum State {
    Handshake,
    HalfAHead,
    HalfABody,
    HalfAnAnswer,
    Waiting,
    Idle,
    Tunnel,
    Streams,
}

impl State {
    const ALL: [State; 8] = [
        State::Handshake,
        State::HalfAHead,
        State::HalfABody,
        State::HalfAnAnswer,
        State::Waiting,
        State::Idle,
        State::Tunnel,
        State::Streams,
    ];

    /// What a client says until it is in that state, and how much it reads.
    fn says(self) -> (Vec<u8>, usize) {
        let head = |line: &str, more: &str| format!("{line} HTTP/1.1\r\nHost: example.com\r\n{more}").into_bytes();
        match self {
            // The beginning of a record whose rest does not come.
            State::Handshake => (vec![0x16, 3, 1, 2, 0, 1, 0], 0),
            State::HalfAHead => (head("GET /bytes/10", "X-Half: "), 0),
            State::HalfABody => ([head("POST /echo", "Content-Length: 1000000\r\n\r\n"), vec![b'x'; 100_000]].concat(), 0),
            State::HalfAnAnswer => (head("GET /bytes/3000000", "\r\n"), 10_000),
            State::Waiting => (head("GET /hang", "\r\n"), 0),
            State::Idle => (head("GET /bytes/10", "\r\n"), 20),
            State::Tunnel => (head("GET /upgrade", "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 20),
            State::Streams => {
                let paths = ["/bytes/50000", "/hang", "/bytes/3000000"];
                let streams = (0..30).flat_map(|stream| request(2 * stream + 1, paths[stream as usize % 3], &[]));
                ([beginning(65_535), streams.collect()].concat(), 10_000)
            }
        }
    }

    fn enter(self, plain: SocketAddr, secure: SocketAddr) -> TcpStream {
        let mut socket = connect(if matches!(self, State::Handshake) { secure } else { plain });
        let (bytes, read) = self.says();
        socket.write_all(&bytes).expect("sent");
        socket.read_exact(&mut vec![0; read]).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        socket
    }
}

/// Clients in all states, all of them at once; then they are gone, half of them by a reset.
fn come_and_vanish(proxy: &Proxy, secure: SocketAddr) {
    let each = State::ALL.into_iter().flat_map(|state| (0..CLIENTS).map(move |_| state));
    let clients: Vec<TcpStream> = each.map(|state| state.enter(proxy.address, secure)).collect();
    let open = "tidegate_client_connections_active";
    proxy.wait_for_metric(open, (State::ALL.len() * CLIENTS) as f64).expect("all are here");
    for client in clients.iter().step_by(2) {
        socket2::SockRef::from(client).set_linger(Some(Duration::ZERO)).expect("a socket");
    }
    drop(clients);
    for gauge in [open, "tidegate_upstream_connections_active"] {
        proxy.wait_for_metric(gauge, 0.0).unwrap_or_else(|error| panic!("{error}\n{}", proxy.program.output()));
    }
}

/// Open files beside connections to servers that are kept, and bytes in use.
fn left(proxy: &Proxy) -> (usize, f64) {
    // The allocator gives back over ten seconds what is free.
    let until = Instant::now() + Duration::from_secs(3);
    let mut least = f64::MAX;
    while Instant::now() < until {
        thread::sleep(LOOKED);
        least = least.min(metric(proxy, super::USED));
    }
    let idle = metric(proxy, "tidegate_upstream_connections_idle") as usize;
    (proxy.program.open_files().expect("it runs").saturating_sub(idle), least)
}

#[test]
fn clients_that_are_killed_in_any_state_leave_nothing() {
    let _alone = crate::alone();
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    for driver in driver::drivers(PROGRAM) {
        let config = driver::on(driver, &CONFIG.replace("UPSTREAM", &upstream.address.to_string()));
        let mut proxy = Proxy::start(PROGRAM, &config).expect("the proxy starts");
        let port = proxy.places.fill("{port:tls}").expect("known").parse().expect("a port");
        let secure = SocketAddr::new(proxy.address.ip(), port);
        come_and_vanish(&proxy, secure);
        let (files_before, bytes_before) = left(&proxy);
        for _ in 0..ROUNDS {
            come_and_vanish(&proxy, secure);
        }
        let (files, bytes) = left(&proxy);
        println!("{driver}: {files_before} open files and {bytes_before} bytes after one round, {files} and {bytes} at the end");
        assert!(files <= files_before + OPEN_FILES_SLACK, "{driver}: {files}, {files_before} before");
        assert!(bytes <= bytes_before + MEMORY_SLACK, "{driver}: {bytes}, {bytes_before} before");
        assert_eq!(metric(&proxy, "tidegate_panics_caught_total").to_string(), "0", "{}", proxy.program.output());
    }
}
