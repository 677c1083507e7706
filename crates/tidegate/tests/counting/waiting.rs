//! What a stream of HTTP/2 takes of memory while its server has not answered, with the connection of HTTP/1.1 that it
//! waits on, and without one. Counted at the allocator: what the process has of the kernel is more, until its allocator
//! gives back what was used on the way.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

use crate::allocations::{IGNORED, free_port, live_bytes, start_proxy};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

const STREAMS: u32 = 100;
/// What one may take beside its head. The future of a request is half of it; the rest are the ends of the stream, the
/// call, a clock, the task, and over HTTP/1.1 the connection.
const BYTES_MAX: i64 = 2 << 10;
/// A connection to a server of HTTP/1.1 is one request's: what it takes of memory beyond a place on a shared one.
const CONNECTION_BYTES_MAX: i64 = 192;
/// What its head takes where none is left of a request before: its bytes, with room for what is added, and the index of
/// its fields.
const HEAD_BYTES_MAX: i64 = 640;

#[test]
fn a_stream_that_waits_takes_little_memory() {
    let _only = crate::only_count();
    IGNORED.set(true);
    let folder = tempfile::tempdir().unwrap();
    // Nobody accepts: the kernel does, and nothing is answered.
    let (silent, begun) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (http1, http2) = (silent.local_addr().unwrap().port(), begun.local_addr().unwrap().port());
    let port = free_port();
    let text = format!(
        r#"
        threads 1
        admin "off"
        access-log "off"
        pool "shared" {{ protocol "h2c"; server "127.0.0.1:{http2}"; }}
        site "http://localhost:{port}" {{
            route "/1" {{ proxy "127.0.0.1:{http1}" }}
            route "/2" {{ proxy "shared" }}
        }}
        "#
    );
    start_proxy(text, folder.path());
    std::thread::spawn(move || {
        IGNORED.set(true);
        let (mut server, _) = begun.accept().unwrap();
        server.write_all(&frame(4, 0, 0, &[])).unwrap();
        while server.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    });
    let check = |path: u8, bytes_max: i64| {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &[])[..], &frame(4, 1, 0, &[])].concat();
        client.write_all(&preface).unwrap();
        let mut open = |streams: std::ops::Range<u32>| {
            for stream in streams {
                // GET, http, "/1" or "/2", of localhost.
                let block = [b"\x82\x86\x04\x02/", &[path][..], b"\x01\x09localhost"].concat();
                client.write_all(&frame(1, 5, 2 * stream + 1, &block)).unwrap();
            }
            settled_bytes()
        };
        let before = open(0..1);
        let bytes = (open(1..1 + STREAMS) - before) / i64::from(STREAMS);
        println!("a stream that waits takes {bytes} bytes over HTTP/{}", path as char);
        assert!(1 << 10 < bytes && bytes <= bytes_max, "{bytes} bytes over HTTP/{}", path as char);
    };
    check(b'2', BYTES_MAX + HEAD_BYTES_MAX);
    // From here on the heads are those that were used before.
    check(b'1', BYTES_MAX + CONNECTION_BYTES_MAX);
    check(b'2', BYTES_MAX);
}

/// What is allocated once it stays the same for two seconds and a half: a connection rests after one, and a worker
/// gives back after two what it does not use.
pub fn settled_bytes() -> i64 {
    let (mut bytes, mut same) = (live_bytes(), 0);
    while same < 50 {
        sleep(Duration::from_millis(50));
        let now = live_bytes();
        same = if (now - bytes).abs() < 1024 { same + 1 } else { 0 };
        bytes = now;
    }
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, payload.len() as u8, kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}
