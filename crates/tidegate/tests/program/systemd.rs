//! What systemd hears from the service in its life, and sockets that it has opened for it. The words themselves are
//! tested in `control`; what a client notices of reloads and upgrades is in `reload.rs` and `upgrade.rs`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::program::signal_process;
use tidegate_testkit::{Proxy, Surroundings, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const BOUND: Duration = Duration::from_secs(30);
/// Longer than any notice.
const NOTICE_BYTES_MAX: usize = 4096;

fn config(version: &str, threads: usize) -> String {
    format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads {threads}\nsite \"http://127.0.0.1:{{port}}\" {{ respond 200 body=\"{version}\" }}\n"
    )
}

/// The service manager's end of NOTIFY_SOCKET.
struct Systemd {
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Systemd {
    fn new(path: &Path) -> Systemd {
        let socket = UnixDatagram::bind(path).expect("a free name");
        socket.set_read_timeout(Some(BOUND)).expect("a bound");
        Systemd { socket, heard: Vec::new() }
    }

    /// Reads on until a notice has that line; gives the notices until then, that one included.
    fn wait_for(&mut self, line: &str) -> Vec<String> {
        let begin = self.heard.len();
        loop {
            self.hear().unwrap_or_else(|error| panic!("{line}: {error}; heard: {:#?}", self.heard));
            if self.heard.last().is_some_and(|notice| notice.lines().any(|own| own == line)) {
                return self.heard[begin..].to_vec();
            }
        }
    }

    /// Waits for the next notice.
    fn hear(&mut self) -> std::io::Result<()> {
        let mut notice = [0; NOTICE_BYTES_MAX];
        let length = self.socket.recv(&mut notice)?;
        self.heard.push(String::from_utf8_lossy(&notice[..length]).into_owned());
        Ok(())
    }
}

#[test]
fn systemd_is_told() {
    let places = Places::new().expect("a folder");
    let path = places.folder().join("notify");
    let mut systemd = Systemd::new(&path);
    let environment = vec![("NOTIFY_SOCKET", path.display().to_string())];
    let surroundings = Surroundings { environment, has_descendants: true, ..Surroundings::default() };
    let mut proxy = Proxy::start_in(places, PROGRAM, &config("one", 1), &[], &surroundings).expect("the proxy starts");
    systemd.wait_for("READY=1");

    proxy.apply(&config("two", 1)).expect("it is applied");
    let told = systemd.wait_for("RELOADING=1");
    assert!(told.last().is_some_and(|notice| notice.contains("MONOTONIC_USEC=")), "{told:#?}");
    systemd.wait_for("READY=1");
    // A refused change ends the reload as well, else systemd would wait for it.
    proxy.write("site {").expect("written");
    let admin = proxy.admin.clone();
    assert_eq!(proxy.reload(&admin).expect("an outcome"), "refused");
    systemd.wait_for("RELOADING=1");
    systemd.wait_for("READY=1");

    proxy.write(&config("three", 1)).expect("written");
    signal_process(proxy.program.id(), "USR2").expect("it runs");
    let begin = systemd.heard.len();
    // The old process names the main one, the new one says that it is ready: two senders, in either order.
    let main = loop {
        let told = systemd.heard[begin..].iter().flat_map(|notice| notice.lines());
        let pid = told.clone().filter_map(|line| line.strip_prefix("MAINPID=")).next_back();
        if let Some(pid) = pid.filter(|_| told.clone().any(|line| line == "READY=1")) {
            break pid.parse::<u32>().expect("a process");
        }
        systemd.hear().unwrap_or_else(|error| panic!("{error}; heard: {:#?}", systemd.heard));
    };
    assert_ne!(main, proxy.program.id());
    assert!(!systemd.heard.iter().any(|notice| notice.contains("STOPPING=1")), "the service goes on: {:#?}", systemd.heard);
    assert_eq!(proxy.program.wait_exit(BOUND).expect("the old process ends"), 0);
    assert_eq!(get(&proxy.address.to_string(), "/").expect("an answer").1, "three");
    signal_process(main, "TERM").expect("the main process");
    systemd.wait_for("STOPPING=1");
}

fn ask(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// A socket that systemd opened cannot be bound beside; all workers accept from it.
#[test]
fn a_socket_of_systemd_is_served_from() {
    let mut places = Places::new().expect("a folder");
    let address = places.main_address().expect("a port is free");
    places.release_proxy_ports();
    let listener = TcpListener::bind(&address).expect("it was free");
    let mut early = TcpStream::connect(&address).expect("systemd listens already");
    let surroundings = Surroundings { listener: Some(&listener), has_descendants: true, ..Surroundings::default() };
    let mut proxy = Proxy::start_in(places, PROGRAM, &config("one", 2), &[], &surroundings).expect("the proxy starts");
    assert!(ask(&mut early).ends_with("one"), "who came before the start is answered");

    proxy.apply(&config("two", 3)).expect("it is applied");
    assert_eq!(get(&address, "/").expect("an answer").1, "two");
    proxy.apply(&config("three", 1)).expect("it is applied");
    assert_eq!(get(&address, "/").expect("an answer").1, "three");

    proxy.write(&config("four", 2)).expect("written");
    signal_process(proxy.program.id(), "USR2").expect("it runs");
    assert_eq!(proxy.program.wait_exit(BOUND).expect("the old process ends"), 0, "{}", proxy.program.output());
    let begin = Instant::now();
    for _ in 0..10 {
        assert_eq!(get(&address, "/").expect("an answer").1, "four");
    }
    assert!(begin.elapsed() < BOUND, "a queue that nobody accepts from");
}
