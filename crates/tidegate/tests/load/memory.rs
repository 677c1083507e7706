//! What clients of HTTP/2 can have held: shapes that cost them a few kilobytes and once took hundreds of megabytes
//! leave the others served and the budget kept, and connections and streams that wait take little. The frames are
//! written by hand, since no library sends such things.

mod crowd;
mod hostile;
mod vanishing;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tidegate_testkit::Proxy;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

const BUDGET_BYTES: f64 = 64.0 * 1024.0 * 1024.0;
/// A quarter of the budget is for streams, the rest for the program and what each connection may always have.
const USED_BYTES_MAX: f64 = 0.75 * BUDGET_BYTES;
const USED: &str = "tidegate_memory_used_bytes";
/// The process looks four times a second what it uses.
const LOOKED: Duration = Duration::from_millis(700);

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "off"
threads 1
memory "64MiB"
site "http://:{port}" {
    route "/fixed" { respond 200 body="fixed" }
    route "/silent" { proxy "SILENT" }
    proxy "UPSTREAM"
}
"#;

/// Client preface and SETTINGS, with a window for each stream.
fn beginning(window: u32) -> Vec<u8> {
    let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &setting)[..], &frame(4, 1, 0, &[])].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A GET, ended, with further bytes of its block.
fn request(stream: u32, path: &str, more: &[u8]) -> Vec<u8> {
    let literal =
        |name: &str, value: &str| [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat();
    let authority = literal(":authority", "example.com");
    // :method GET and :scheme http are fields of the static table.
    frame(1, 5, stream, &[&[0x82, 0x86], &literal(":path", path)[..], &authority, more].concat())
}

/// A field of 4,000 bytes fifteen times: once in full, then an index of a byte.
fn repeats(is_first: bool) -> Vec<u8> {
    // The length is 127 and 3,873 more (RFC 7541 section 5.1).
    let full = [&b"\x40\x01x\x7f\xa1\x1e"[..], &[b'v'; 4000]].concat();
    [if is_first { full } else { vec![0xbe] }, vec![0xbe; 14]].concat()
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    socket.set_write_timeout(Some(Duration::from_secs(30))).expect("a socket");
    socket
}

/// A server that takes requests and says nothing.
fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    address
}

fn start(upstream: &Upstream) -> Proxy {
    let config = CONFIG.replace("UPSTREAM", &upstream.address.to_string()).replace("SILENT", &silent().to_string());
    Proxy::start(env!("CARGO_BIN_EXE_tidegate"), &config).expect("the proxy starts")
}

fn metric(proxy: &Proxy, name: &str) -> f64 {
    proxy.metrics().expect("metrics").sum(name)
}

/// Another client, which asks for something that a server has.
fn expect_served(proxy: &Proxy) {
    let mut socket = connect(proxy.address);
    socket.write_all(b"GET /bytes/1000 HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer");
    let status = String::from_utf8_lossy(answer.get(..16).unwrap_or_default()).into_owned();
    assert!(status.starts_with("HTTP/1.1 200"), "{status}\n{}", proxy.program.output());
}

#[test]
fn what_hostile_clients_have_held_leaves_the_others_their_memory() {
    const CONNECTIONS: usize = 30;
    const STREAMS: u32 = 256;
    let _alone = crate::alone();
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let check = |what: &str, path: &str, has_repeats: bool, window: u32| {
        let proxy = start(&upstream);
        expect_served(&proxy);
        let mut held = Vec::new();
        for count in 0..CONNECTIONS {
            let mut bytes = beginning(window);
            for stream in 0..STREAMS {
                let more = if has_repeats { repeats(stream == 0) } else { Vec::new() };
                bytes.extend(request(2 * stream + 1, path, &more));
            }
            let mut socket = connect(proxy.address);
            // One that has had enough of it may have closed already.
            let _ = socket.write_all(&bytes);
            held.push(socket);
            if count % 10 == 9 {
                expect_served(&proxy);
            }
        }
        thread::sleep(LOOKED);
        expect_served(&proxy);
        let used = metric(&proxy, USED);
        println!("{what}: {:.1} MiB", used / f64::from(1 << 20));
        assert!(used < USED_BYTES_MAX, "{what}: {used} bytes\n{}", proxy.program.output());
        drop(held);
    };
    check("repeated fields, no answer", "/silent", true, 65_535);
    check("repeated fields, a closed window", "/fixed", true, 0);
    check("a closed window", "/bytes/50000", false, 0);
    check("a window of a byte", "/bytes/50000", false, 1);
}

/// The figures of an optimised program are lower: futures are larger in this one.
#[test]
fn what_waits_takes_little() {
    const CONNECTIONS: u32 = 300;
    const IDLE_BYTES_MAX: f64 = 12.0 * 1024.0;
    const STREAMS: u32 = 250;
    // With the connection to a server that each of them has.
    const WAITING_BYTES_MAX: f64 = 20.0 * 1024.0;
    let _alone = crate::alone();
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let proxy = start(&upstream);
    let ask = |socket: &mut TcpStream| {
        socket.write_all(&beginning(65_535)).expect("sent");
        for stream in [1, 3, 5] {
            socket.write_all(&request(stream, "/fixed", &[])).expect("sent");
            let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
            while !seen.ends_with(b"fixed") {
                let count = socket.read(&mut piece).expect("an answer");
                assert!(count > 0, "the connection ended");
                seen.extend_from_slice(&piece[..count]);
            }
        }
    };
    let open = || (0..CONNECTIONS).map(|_| connect(proxy.address)).collect::<Vec<_>>();
    // What the first ones leave behind for all is not theirs.
    let mut warm = open();
    warm.iter_mut().take(20).for_each(ask);
    thread::sleep(LOOKED);
    drop(warm);
    thread::sleep(LOOKED);
    let before = metric(&proxy, USED);
    let mut idle = open();
    idle.iter_mut().for_each(ask);
    thread::sleep(LOOKED);
    let of_idle = (metric(&proxy, USED) - before) / f64::from(CONNECTIONS);
    let before = metric(&proxy, USED);
    for socket in idle.iter_mut().take(4) {
        let bytes: Vec<u8> = (0..STREAMS).flat_map(|stream| request(2 * stream + 7, "/silent", &[])).collect();
        socket.write_all(&bytes).expect("sent");
    }
    thread::sleep(LOOKED);
    let of_stream = (metric(&proxy, USED) - before) / f64::from(4 * STREAMS);
    println!("{of_idle:.0} bytes for an idle connection, {of_stream:.0} for a stream that waits");
    assert!(of_idle < IDLE_BYTES_MAX, "{of_idle}");
    assert!(of_stream < WAITING_BYTES_MAX, "{of_stream}");
}
