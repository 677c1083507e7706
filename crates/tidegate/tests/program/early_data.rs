//! Requests in TLS early data (0-RTT) by clients that hold their Finished back: what goes ahead, what waits, what
//! upstreams are told, and what a copy of all their bytes is worth. What a stream does with such bytes is in
//! `transport`; other sessions are in `tickets.rs`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tidegate_testkit::Proxy;
use tidegate_testkit::rustls::pki_types::ServerName;
use tidegate_testkit::rustls::{ClientConfig, ClientConnection, HandshakeKind};
use tidegate_testkit::tls::{ClientOptions, client_config};
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const WAIT: Duration = Duration::from_secs(10);
/// What should not happen has so long to happen.
const SILENCE: Duration = Duration::from_millis(300);
const CONFIG: &str = r#"
access-log "off"
admin "127.0.0.1:{admin}"
threads 2
site "https://early.test:{port}" {
    tls cert="{pem:early.test+late.test}" { early-data #true; }
    pass-on trace=#true
    route "/here" { respond 200 body="HERE"; }
    proxy UPSTREAMS
}
site "https://late.test:{port}" {
    tls cert="{pem:early.test+late.test}"
    proxy UPSTREAMS
}
"#;
/// The last field of a head that upstreams get, and answer with.
const ECHO_END: &str = "x-forwarded-port: ";
const EARLY_REQUESTS: &str = "tidegate_http_early_data_requests_total";

fn start(config: &str, upstreams: &[&Upstream]) -> Proxy {
    Proxy::start(PROGRAM, &filled(config, upstreams)).expect("the proxy starts")
}

fn filled(config: &str, upstreams: &[&Upstream]) -> String {
    let named: Vec<String> = upstreams.iter().map(|upstream| format!("\"{}\"", upstream.address)).collect();
    config.replace("UPSTREAMS", &named.join(" "))
}

fn echo() -> Upstream {
    Upstream::start(Behaviour::new(Answer::EchoHead)).expect("a port is free")
}

/// A client that keeps its sessions, and sends early data where it may.
struct Client(Arc<ClientConfig>);

impl Client {
    fn new(protocol: &str) -> Client {
        let options = ClientOptions { alpn: vec![protocol.into()], send_sni: true, ..ClientOptions::default() };
        let mut config = client_config(None, &options).expect("a configuration");
        config.enable_early_data = true;
        Client(Arc::new(config))
    }

    /// A client that has been there: it has two tickets.
    fn known_at(address: SocketAddr, name: &str, protocol: &str) -> Client {
        let client = Client::new(protocol);
        let mut first = client.connect(address, name);
        let hello = if protocol == "h2" { frames(0x82, name, true) } else { request("GET", name, "/here", "") };
        first.say(&hello);
        first.hear(if protocol == "h2" { "early.test" } else { "HTTP/1.1 200 OK\r\n" });
        client
    }

    /// A connection that nothing was sent on.
    fn connect(&self, address: SocketAddr, name: &str) -> Held {
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(WAIT)).expect("a limit");
        socket.set_nodelay(true).expect("an option");
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let session = ClientConnection::new(self.0.clone(), name).expect("a session");
        Held { session, socket, heard: String::new() }
    }

    /// Sends the client's first bytes with these in them as early data, and no more.
    fn begin(&self, address: SocketAddr, name: &str, early: &[u8]) -> Held {
        let mut held = self.connect(address, name);
        held.session.early_data().expect("a ticket for early data").write_all(early).expect("within the bound");
        held.send();
        held
    }
}

/// A connection whose bytes are sent when the test says so.
struct Held {
    session: ClientConnection,
    socket: TcpStream,
    heard: String,
}

impl Held {
    /// Sends what the session has to say: first the hello and early data, then the Finished, then the rest.
    fn send(&mut self) {
        let bytes = self.bytes();
        self.socket.write_all(&bytes).expect("sent");
    }

    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut bytes).expect("written");
        }
        bytes
    }

    /// Sends that when the handshake is over.
    fn say(&mut self, plain: &[u8]) {
        while self.session.is_handshaking() {
            self.send();
            assert!(self.receive(), "the handshake was ended");
        }
        self.session.writer().write_all(plain).expect("written");
        self.send();
    }

    /// Sends the Finished, once the server's part of the handshake has come.
    fn finish(&mut self) {
        while self.session.is_handshaking() {
            assert!(self.receive(), "the handshake was ended");
        }
        self.send();
    }

    /// One read, without sending a byte; false at the end.
    fn receive(&mut self) -> bool {
        if self.session.read_tls(&mut self.socket).expect("in time") == 0 {
            return false;
        }
        self.session.process_new_packets().expect("right");
        let mut plain = Vec::new();
        // Until there is no more for now.
        let _ = self.session.reader().read_to_end(&mut plain);
        self.heard.push_str(&String::from_utf8_lossy(&plain));
        true
    }

    /// What has come when that was in it, without sending a byte.
    fn hear(&mut self, wanted: &str) -> String {
        while !self.heard.contains(wanted) {
            assert!(self.receive(), "the connection ended after {:?}", self.heard);
        }
        std::mem::take(&mut self.heard)
    }

    /// How long it takes until the server has ended the connection.
    fn ends_within(&mut self) -> Duration {
        let begin = Instant::now();
        let mut bytes = [0; 4096];
        while self.socket.read(&mut bytes).is_ok_and(|count| count > 0) {}
        begin.elapsed()
    }
}

fn request(method: &str, host: &str, path: &str, more: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").into_bytes()
}

/// The beginning of an HTTP/2 connection with one request. `method` is its place in the static table of RFC 7541.
fn frames(method: u8, host: &str, ends: bool) -> Vec<u8> {
    let mut block = vec![method, 0x87, 0x84, 0x41, host.len() as u8];
    block.extend_from_slice(host.as_bytes());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend([0, 0, block.len() as u8, 1, if ends { 5 } else { 4 }, 0, 0, 0, 1]);
    bytes.extend(block);
    if !ends {
        bytes.extend([0, 0, 5, 0, 1, 0, 0, 0, 1]);
        bytes.extend(b"hello");
    }
    bytes
}

#[test]
fn what_only_reads_is_answered_before_the_handshake_is_over_and_upstreams_are_told() {
    let upstream = echo();
    let proxy = start(CONFIG, &[&upstream]);
    for method in ["GET", "OPTIONS"] {
        let client = Client::known_at(proxy.address, "early.test", "http/1.1");
        // What somebody in front of us has said already is said once.
        let mut held = client.begin(proxy.address, "early.test", &request(method, "early.test", "/a", "EARLY-DATA: 1\r\n"));
        let answer = held.hear(ECHO_END);
        assert!(answer.contains(&format!("{method} /a ")), "{answer}");
        assert_eq!(answer.to_ascii_lowercase().matches("early-data: 1").count(), 1, "{answer}");
        // From there on it is a connection like any other.
        held.finish();
        assert!(held.session.is_early_data_accepted());
        held.say(&[request("POST", "early.test", "/b", "Content-Length: 5\r\n"), b"hello".to_vec()].concat());
        let answer = held.hear(ECHO_END);
        assert!(answer.contains("POST /b ") && !answer.to_ascii_lowercase().contains("early-data"), "{answer}");
    }
    let mut here = Client::known_at(proxy.address, "early.test", "http/1.1").begin(
        proxy.address,
        "early.test",
        &[request("GET", "early.test", "/here", ""), request("HEAD", "early.test", "/here", "Connection: close\r\n")].concat(),
    );
    // Two requests in one go, and the end is said although the client's part of the handshake is missing.
    let answers = here.hear("connection: close\r\n");
    assert!(answers.starts_with("HTTP/1.1 200 OK\r\n") && answers.contains("HERE"), "{answers}");
    while !here.session.process_new_packets().expect("right").peer_has_closed() {
        assert!(here.receive(), "cut off");
    }
    proxy.wait_for_metric(EARLY_REQUESTS, 4.0).expect("they are counted");
}

#[test]
fn what_may_change_something_waits_until_the_handshake_is_over() {
    let upstream = echo();
    let proxy = start(CONFIG, &[&upstream]);
    let check = |what: &str, early: Vec<u8>, wanted: &str| {
        let client = Client::known_at(proxy.address, "early.test", "http/1.1");
        let before = upstream.requests();
        let mut held = client.begin(proxy.address, "early.test", &early);
        sleep(SILENCE);
        assert_eq!(upstream.requests(), before, "{what} went ahead");
        held.finish();
        let answer = held.hear(ECHO_END);
        assert!(answer.contains(wanted) && !answer.to_ascii_lowercase().contains("early-data"), "{what}: {answer}");
        assert_eq!(upstream.requests(), before + 1);
    };
    let request = |method: &str, more: &str| request(method, "early.test", "/a", more);
    check("a form", [request("POST", "Content-Length: 5\r\n"), b"hello".to_vec()].concat(), "POST /a ");
    check("half a form, in chunks", request("POST", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"), "POST /a ");
    check("a form without anything", request("POST", "Content-Length: 0\r\n"), "POST /a ");
    check("a GET with a body", [request("GET", "Content-Length: 5\r\n"), b"hello".to_vec()].concat(), "GET /a ");
    check("DELETE", request("DELETE", ""), "DELETE /a ");
    check("TRACE", request("TRACE", ""), "TRACE /a ");
    check("an upgrade", request("GET", "Connection: upgrade\r\nUpgrade: websocket\r\n"), "GET /a ");
    // The connection is one of a site with early data, the request is for one without.
    let elsewhere = "GET /a HTTP/1.1\r\nHost: late.test\r\n\r\n";
    check("a request for another site", elsewhere.as_bytes().to_vec(), "GET /a ");
    proxy.wait_for_metric(EARLY_REQUESTS, 0.0).expect("none went ahead");
}

#[test]
fn over_http2_each_request_goes_ahead_or_waits() {
    let upstream = echo();
    let proxy = start(CONFIG, &[&upstream]);
    let client = Client::known_at(proxy.address, "early.test", "h2");
    let before = upstream.requests();
    let mut held = client.begin(proxy.address, "early.test", &frames(0x82, "early.test", true));
    assert!(held.hear(ECHO_END).to_ascii_lowercase().contains("early-data: 1"));
    held.finish();
    let mut held = client.begin(proxy.address, "early.test", &frames(0x83, "early.test", false));
    sleep(SILENCE);
    assert_eq!(upstream.requests(), before + 1, "it went ahead");
    held.finish();
    assert!(!held.hear(ECHO_END).to_ascii_lowercase().contains("early-data"));
    assert_eq!(upstream.requests(), before + 2);
}

#[test]
fn who_never_ends_the_handshake_is_waited_for_as_long_as_a_handshake_may_take() {
    let upstream = echo();
    let proxy = start(&format!("limits {{ header-timeout \"1s\"; }}\n{CONFIG}"), &[&upstream]);
    for (protocol, early) in [
        ("http/1.1", request("POST", "early.test", "/a", "Content-Length: 0\r\n")),
        ("http/1.1", request("GET", "early.test", "/a", "")),
        ("h2", frames(0x83, "early.test", true)),
        ("h2", frames(0x82, "early.test", true)),
    ] {
        let client = Client::known_at(proxy.address, "early.test", protocol);
        let waited = client.begin(proxy.address, "early.test", &early).ends_within();
        assert!(waited > Duration::from_millis(500) && waited < Duration::from_secs(5), "{protocol}: {waited:?}");
    }
}

#[test]
fn what_an_upstream_finds_too_early_goes_to_the_client_and_to_no_other_server() {
    let answer = b"HTTP/1.1 425 Too Early\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nlater".to_vec();
    let [one, other] = [(); 2].map(|()| Upstream::start(Behaviour::new(Answer::Fixed(answer.clone()))).expect("a port is free"));
    let proxy = start(&CONFIG.replace("    proxy", "    cache\n    proxy"), &[&one, &other]);
    let client = Client::known_at(proxy.address, "early.test", "http/1.1");
    let mut held = client.begin(proxy.address, "early.test", &request("GET", "early.test", "/a", ""));
    assert!(held.hear("later").starts_with("HTTP/1.1 425 Too Early\r\n"));
    assert_eq!(one.requests() + other.requests(), 1);
    // The client asks again when it may, and is not given what was said of the first.
    held.finish();
    held.say(&request("GET", "early.test", "/a", ""));
    held.hear("later");
    assert_eq!(one.requests() + other.requests(), 2);
}

#[test]
fn a_copy_of_all_that_a_client_has_sent_is_worth_nothing() {
    let upstream = echo();
    let mut proxy = start(CONFIG, &[&upstream]);
    let client = Client::known_at(proxy.address, "early.test", "http/1.1");
    let mut held = client.connect(proxy.address, "early.test");
    held.session.early_data().expect("a ticket").write_all(&request("GET", "early.test", "/a", "")).expect("within the bound");
    let flight = held.bytes();
    held.socket.write_all(&flight).expect("sent");
    held.hear(ECHO_END);
    // To any worker, after a change of the configuration, and after a restart.
    let copy = |proxy: &Proxy| {
        for _ in 0..4 {
            let mut attacker = TcpStream::connect(proxy.address).expect("it listens");
            attacker.write_all(&flight).expect("sent");
            attacker.set_read_timeout(Some(SILENCE)).expect("a limit");
            let _ = attacker.read_to_end(&mut Vec::new());
        }
        assert_eq!(upstream.requests(), 1);
    };
    copy(&proxy);
    proxy.apply(&filled(&CONFIG.replace("HERE", "changed"), &[&upstream])).expect("applied");
    copy(&proxy);
    proxy.wait_for_metric(EARLY_REQUESTS, 1.0).expect("the first went ahead");
    proxy.restart(PROGRAM).expect("it starts again");
    copy(&proxy);
}

#[test]
fn tickets_for_early_data_outlive_a_change_and_no_restart() {
    let upstream = echo();
    let mut proxy = start(CONFIG, &[&upstream]);
    let client = Client::known_at(proxy.address, "early.test", "http/1.1");
    proxy.apply(&filled(&CONFIG.replace("HERE", "changed"), &[&upstream])).expect("applied");
    let mut held = client.begin(proxy.address, "early.test", &request("GET", "early.test", "/here", ""));
    held.hear("changed");
    proxy.restart(PROGRAM).expect("it starts again");
    // A long request, which the server has to skip.
    let cookie = format!("Cookie: {}\r\n", "x".repeat(14_000));
    let mut held = client.begin(proxy.address, "early.test", &request("GET", "early.test", "/a", &cookie));
    held.finish();
    assert!(!held.session.is_early_data_accepted());
    assert_eq!(held.session.handshake_kind(), Some(HandshakeKind::Full));
    assert_eq!(upstream.requests(), 0);
    held.say(&request("GET", "early.test", "/a", &cookie));
    assert!(!held.hear(ECHO_END).to_ascii_lowercase().contains("early-data"));
}

#[test]
fn a_site_that_does_not_say_so_takes_none() {
    let upstream = echo();
    let mut proxy = start(CONFIG, &[&upstream]);
    let client = Client::known_at(proxy.address, "late.test", "http/1.1");
    assert!(client.connect(proxy.address, "late.test").session.early_data().is_none());
    // One that has switched it off since: the ticket says something else.
    let client = Client::known_at(proxy.address, "early.test", "http/1.1");
    let offered = client.connect(proxy.address, "early.test").session.early_data().map(|early| early.bytes_left());
    assert_eq!(offered, Some(48 << 10));
    proxy.apply(&filled(&CONFIG.replace("early-data #true", "early-data #false"), &[&upstream])).expect("applied");
    let mut held = client.begin(proxy.address, "early.test", &request("GET", "early.test", "/here", ""));
    held.finish();
    assert!(!held.session.is_early_data_accepted());
    held.say(&request("GET", "early.test", "/here", ""));
    held.hear("HERE");
}

#[test]
fn openssl_sends_early_data_and_gets_its_answer() {
    if Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no openssl");
        return;
    }
    let upstream = echo();
    let proxy = start(CONFIG, &[&upstream]);
    let folder = tempfile::tempdir().expect("a folder");
    let (sessions, early) = (folder.path().join("sessions"), folder.path().join("early"));
    std::fs::write(&early, request("GET", "early.test", "/a", "")).expect("written");
    let said = openssl(proxy.address, ["-sess_out", path(&sessions)], &[], &request("GET", "early.test", "/here", CLOSE));
    assert!(said.contains("HERE"), "{said}");
    let more = ["-early_data", path(&early)];
    let said = openssl(proxy.address, ["-sess_in", path(&sessions)], &more, &request("GET", "early.test", "/here", CLOSE));
    assert!(said.contains("Early data was accepted"), "{said}");
    assert!(said.contains("GET /a ") && said.contains("early-data: 1") && said.contains("HERE"), "{said}");
    let said = openssl(proxy.address, ["-sess_in", path(&sessions)], &more, &request("GET", "early.test", "/here", CLOSE));
    assert!(said.contains("Early data was rejected") && said.contains("HERE"), "a ticket serves once: {said}");
}

const CLOSE: &str = "Connection: close\r\n";

fn path(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

/// What `openssl s_client` writes when it has sent that.
fn openssl(address: SocketAddr, session: [&str; 2], more: &[&str], input: &[u8]) -> String {
    let connect = address.to_string();
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &connect, "-servername", "early.test", "-ign_eof"])
        .args(session)
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl starts");
    client.stdin.take().expect("a pipe").write_all(input).expect("written");
    String::from_utf8_lossy(&client.wait_with_output().expect("it ends").stdout).into_owned()
}
