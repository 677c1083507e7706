//! What a connection over TLS takes of memory while its client says nothing, with each driver. Counted at the
//! allocator, as `waiting` does it: what the process has of the kernel is up to twice as much, since sizes are rounded up
//! and what a handshake needed for a moment lies between what stays.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

use crate::allocations::{IGNORED, ask, free_port, start_proxy, start_upstream, tls_client};
use crate::waiting::settled_bytes;
use std::net::TcpStream;
use std::path::Path;
use tidegate_testkit::driver::drivers;
use tidegate_testkit::rustls::{ClientConnection, StreamOwned};

/// Enough that what is nobody's in particular does not show: a table that grows, a buffer more.
const CONNECTIONS: usize = 200;
/// Of the allocator, so that it is 8 KiB of the kernel.
const BYTES_MAX: i64 = 5 << 10;
/// A worker remembers so many requests for `explain`, with a kilobyte each, whoever has made them.
const REMEMBERED: usize = 512;
/// Below, nothing was held, and the test counts something else.
const BYTES_LEAST: i64 = 2 << 10;

type Client = StreamOwned<ClientConnection, TcpStream>;

#[test]
fn an_idle_connection_over_tls_takes_little_memory() {
    let _only = crate::only_count();
    IGNORED.set(true);
    for driver in drivers(env!("CARGO_BIN_EXE_tidegate")) {
        let folder = tempfile::tempdir().unwrap();
        let (port, upstream) = (free_port(), start_upstream());
        let text = format!(
            r#"
            threads 1
            driver "{driver}"
            admin "off"
            access-log "off"
            site "https://localhost:{port}" {{
                tls "internal"
                proxy "127.0.0.1:{upstream}"
            }}
            "#
        );
        start_proxy(text, folder.path());
        let root = folder.path().join("internal-ca/root.crt");
        let mut first = open(port, &root, CONNECTIONS / 10);
        (0..REMEMBERED).for_each(|_| ask(&mut first[0]));
        let before = settled_bytes();
        let held = open(port, &root, CONNECTIONS);
        let bytes = (settled_bytes() - before) / CONNECTIONS as i64;
        println!("an idle connection over TLS takes {bytes} bytes with {driver}");
        assert!(BYTES_LEAST < bytes && bytes <= BYTES_MAX, "{bytes} bytes with {driver}");
        drop(held);
        let left = (settled_bytes() - before) / CONNECTIONS as i64;
        assert!(left < bytes / 10, "{left} of {bytes} bytes are left of each with {driver}");
        drop(first);
    }
}

/// Connections that have each had an answer.
fn open(port: u16, root: &Path, count: usize) -> Vec<Client> {
    let open_one = |_| {
        let mut client = StreamOwned::new(tls_client(root), TcpStream::connect(("127.0.0.1", port)).unwrap());
        ask(&mut client);
        client
    };
    (0..count).map(open_one).collect()
}
