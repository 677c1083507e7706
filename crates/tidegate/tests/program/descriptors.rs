//! Clients that hold all the descriptors that they can get: whoever asks whether the process is well is answered all
//! the same, and clients that come later are served when others have left.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Proxy, admin, driver, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const FILES: usize = 128;
/// For what the log says of it; twenty seconds, since tests share the machine.
const LOOKS_MAX: usize = 1000;
/// Of a request, some seconds each.
const TRIES: usize = 6;
const LOOKS_PAUSE: Duration = Duration::from_millis(20);
const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
threads 2
pool "silent" { server "UPSTREAM"; max-connections 1000; }
site "http://127.0.0.1:{port}" {
    route "/silent" { proxy "silent"; }
    route { respond 200 body="here"; }
}
"#;

fn connect(proxy: &Proxy, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(proxy.address).expect("it waits in the queue");
    socket.write_all(request.as_bytes()).expect("the kernel takes it");
    socket
}

fn check(driver: &str, launcher: &str, idle: usize, asking: usize) {
    let upstream = Upstream::start(Behaviour::new(Answer::Silence)).expect("a port is free");
    let config = CONFIG.replace("UPSTREAM", &upstream.address.to_string());
    let proxy = Proxy::start(launcher, &driver::on(driver, &config)).expect("it starts");
    let mut held: Vec<TcpStream> = (0..idle).map(|_| connect(&proxy, "")).collect();
    held.extend((0..asking).map(|_| connect(&proxy, "GET /silent HTTP/1.1\r\nHost: a.test\r\n\r\n")));
    let who = format!("{driver}: {idle} idle, {asking} asking");
    let mut looks = 0;
    while !proxy.program.output().contains("a connection could not be accepted") {
        looks += 1;
        assert!(looks < LOOKS_MAX, "{who}: {}", proxy.program.output());
        std::thread::sleep(LOOKS_PAUSE);
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(admin::get(&proxy.admin, path).map(|(status, _)| status), Ok(200), "{who}: {path}");
    }
    drop(held);
    // Clients that have gone while they waited come first.
    let served = (0..TRIES).any(|_| get(&proxy.address.to_string(), "/") == Ok((200, "here".to_owned())));
    assert!(served, "{who}: {}", proxy.program.output());
}

#[test]
fn clients_leave_descriptors_to_who_asks_whether_it_is_well() {
    if std::process::Command::new("prlimit").arg("--version").output().is_err() {
        println!("skipped: prlimit is not here");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let launcher = folder.path().join("few-files");
    std::fs::write(&launcher, format!("#!/bin/sh\nexec prlimit --nofile={FILES}:{FILES} {PROGRAM} \"$@\"\n")).expect("written");
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755)).expect("may be run");
    let launcher = launcher.display().to_string();
    for driver in driver::drivers(PROGRAM) {
        check(driver, &launcher, 2 * FILES, 0);
        check(driver, &launcher, 0, 2 * FILES);
    }
}
