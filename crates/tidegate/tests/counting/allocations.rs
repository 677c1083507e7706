//! Heap allocations per request on the HTTP/1.1 path at steady state: none of ours. Over TLS rustls makes a few, which
//! are its own to remove. Counts with a global allocator in the whole process, except in the threads of the client and
//! the upstream.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::pending;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use tidegate_control::systemd::ActivationSockets;
use tidegate_control::{Source, StartOptions};
use tidegate_testkit::rustls;

const WARM_UP: u64 = 500;
const REQUESTS: u64 = 2_000;
/// Allocations allowed over all requests that are nobody's in particular: timers, the sweep, a table that grows once,
/// another process on this machine that asks for sockets. One allocation a request would be twenty times as many.
const SLACK: u64 = 100;
/// What rustls allocates for one record in and one record out.
const TLS_PER_REQUEST: u64 = 2;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that are allocated now, those of ignored threads left out.
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

thread_local! {
    pub static IGNORED: Cell<bool> = const { Cell::new(false) };
}

fn count(allocations: u64, bytes: i64) {
    if !IGNORED.try_with(Cell::get).unwrap_or(true) {
        ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

pub fn live_bytes() -> i64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_request_at_steady_state_allocates_nothing() {
    let _only = crate::only_count();
    IGNORED.set(true);
    let folder = tempfile::tempdir().unwrap();
    let upstream = start_upstream();
    let (plain, tls) = (free_port(), free_port());
    let text = format!(
        r#"
        threads 1
        admin "off"
        access-log "off"
        site "http://localhost:{plain}" {{ proxy "127.0.0.1:{upstream}" }}
        site "https://localhost:{tls}" {{
            tls "internal"
            proxy "127.0.0.1:{upstream}"
        }}
        "#
    );
    start_proxy(text, folder.path());

    let mut client = TcpStream::connect(("127.0.0.1", plain)).unwrap();
    let over_plain = allocations_of(|| ask(&mut client));
    assert!(over_plain <= SLACK, "{over_plain} allocations in {REQUESTS} requests over plain HTTP");

    let socket = TcpStream::connect(("127.0.0.1", tls)).unwrap();
    let mut client = rustls::StreamOwned::new(tls_client(&folder.path().join("internal-ca/root.crt")), socket);
    let over_tls = allocations_of(|| ask(&mut client));
    assert!(over_tls <= REQUESTS * TLS_PER_REQUEST + SLACK, "{over_tls} allocations in {REQUESTS} requests over TLS");
    println!("allocations in {REQUESTS} requests: {over_plain} over plain HTTP, {over_tls} over TLS");
}

fn allocations_of(mut request: impl FnMut()) -> u64 {
    (0..WARM_UP).for_each(|_| request());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..REQUESTS).for_each(|_| request());
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

pub fn ask(stream: &mut (impl Read + Write)) {
    stream
        .write_all(b"GET /a?b=c HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n")
        .unwrap();
    let mut answer = [0; 4096];
    let mut len = 0;
    while !answer[..len].ends_with(b"hello") {
        let count = stream.read(&mut answer[len..]).unwrap();
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&answer[..len]));
        len += count;
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}

/// Answers every head with `hello` until its peer closes.
pub fn start_upstream() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        IGNORED.set(true);
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                IGNORED.set(true);
                let mut head = [0; 4096];
                let mut len = 0;
                while let Ok(count @ 1..) = stream.read(&mut head[len..]) {
                    len += count;
                    if head[..len].ends_with(b"\r\n\r\n") {
                        len = 0;
                        let answer = b"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
                        stream.write_all(answer).unwrap();
                    }
                }
            });
        }
    });
    port
}

pub fn start_proxy(text: String, state_dir: &Path) {
    let source = Source::Text { name: "<test>".into(), text, directory: ".".into() };
    let mut memory = tidegate_config::LoadMemory::default();
    let read = tidegate_control::source::read(source.load(&mut memory)).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let state_dir = state_dir.to_path_buf();
    let options = StartOptions {
        source,
        memory,
        state_dir,
        version: "test",
        watch: false,
        share_port: false,
        ends_with_terminal: false,
        inheritance: None,
        objects: None,
        activation: ActivationSockets::default(),
    };
    let prepared = tidegate_control::prepare(read, options).unwrap();
    let (started, running) = mpsc::channel();
    std::thread::spawn(move || {
        // The control thread; workers are threads of their own.
        IGNORED.set(true);
        prepared.run(pending(), move || started.send(()).unwrap(), || ())
    });
    running.recv().unwrap();
}

pub fn tls_client(root: &Path) -> rustls::ClientConnection {
    use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(root).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    rustls::ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
