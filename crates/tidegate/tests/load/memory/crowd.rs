//! Thousands of clients that ask for much and stop reading, with each driver: what is resident stays within the budget,
//! and another client is served. Their server speaks h2c, so that each takes one descriptor of the proxy.

use super::{connect, metric};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Proxy, driver};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// In the pipeline; all of them take the machine for a minute.
const CLIENTS: usize = 2000;
const CLIENTS_OF_THE_LONG_SOAK: usize = 10_000;
const BUDGET_BYTES: f64 = (192 << 20) as f64;
/// Descriptors of either end beside those of the clients.
const DESCRIPTORS_BESIDE: u64 = 500;

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "off"
threads 2
memory "192MiB"
limits { connections-per-ip 20000; }
pool "many" { server "UPSTREAM"; protocol "h2c"; }
site "http://:{port}" { route "/fixed" { respond 200 body="fixed" }; proxy "many" }
"#;

fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut socket = connect(address);
    let head = format!("GET {path} HTTP/1.1\r\nHost: example.com\r\n\r\n");
    // One that was ended to make room has closed.
    let _ = socket.write_all(head.as_bytes());
    socket
}

fn expect_fixed(proxy: &Proxy) {
    let mut answer = [0; 12];
    let read = ask(proxy.address, "/fixed").read_exact(&mut answer);
    assert!(read.is_ok() && &answer == b"HTTP/1.1 200", "{read:?} {}", String::from_utf8_lossy(&answer));
}

#[test]
fn thousands_that_stop_reading_leave_others_served() {
    let _alone = crate::alone();
    let wanted = if std::env::var_os("EVERY_DRIVER").is_some() { CLIENTS_OF_THE_LONG_SOAK } else { CLIENTS };
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    if limit < wanted as u64 + DESCRIPTORS_BESIDE {
        println!("skipped: {limit} descriptors may be open (`ulimit -n`)");
        return;
    }
    let upstream = Upstream::start_h2c(Behaviour::new(Answer::ByPath)).expect("a port is free");
    for driver in driver::drivers(PROGRAM) {
        let config = driver::on(driver, &CONFIG.replace("UPSTREAM", &upstream.address.to_string()));
        let proxy = Proxy::start(PROGRAM, &config).expect("the proxy starts");
        let mut clients = Vec::with_capacity(wanted);
        let mut most: f64 = 0.0;
        for count in 0..wanted {
            clients.push(ask(proxy.address, "/bytes/3000000"));
            if count % 250 == 0 {
                expect_fixed(&proxy);
                most = most.max(metric(&proxy, super::USED));
            }
        }
        std::thread::sleep(super::LOOKED);
        expect_fixed(&proxy);
        most = most.max(metric(&proxy, super::USED));
        let open = metric(&proxy, "tidegate_client_connections_active");
        println!("{driver}: {open} of {wanted} connections open, {:.1} MiB at the most", most / f64::from(1 << 20));
        assert!(most <= BUDGET_BYTES, "{driver}: {most}\n{}", proxy.program.output());
        drop(clients);
        proxy.wait_for_metric("tidegate_client_connections_active", 0.0).unwrap_or_else(|error| panic!("{driver}: {error}"));
    }
}
