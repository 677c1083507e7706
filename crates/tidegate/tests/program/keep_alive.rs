//! What a reload says of `limits keep-alive` holds for connections that wait for their next request already: a shorter
//! time ends them, a longer one keeps them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;
use tidegate_testkit::{Proxy, driver};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
threads 1
limits { keep-alive "KEPT"; }
site "http://:{port}" { respond 200 body="here"; }
"#;

fn config(driver: &str, kept: &str) -> String {
    driver::on(driver, &CONFIG.replace("KEPT", kept))
}

fn ask(socket: &mut TcpStream) {
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("it is open");
    let mut answer = Vec::new();
    while !answer.ends_with(b"here") {
        let mut byte = [0];
        assert_eq!(socket.read(&mut byte).expect("an answer"), 1, "{}", String::from_utf8_lossy(&answer));
        answer.push(byte[0]);
    }
}

fn connect(proxy: &Proxy) -> TcpStream {
    let socket = TcpStream::connect(proxy.address).expect("it listens");
    // Far less than the time before, and far more than the one after it.
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a bound");
    socket
}

#[test]
fn a_reload_reaches_connections_that_wait() {
    for driver in driver::drivers(PROGRAM) {
        let mut proxy = Proxy::start(PROGRAM, &config(driver, "1h")).expect("it starts");
        // One that has just been answered, one that rests, and one that never asked.
        let mut resting = connect(&proxy);
        ask(&mut resting);
        let silent = connect(&proxy);
        sleep(Duration::from_millis(1500));
        let mut recent = connect(&proxy);
        ask(&mut recent);
        proxy.apply(&config(driver, "2s")).expect("applied");
        for (name, mut socket) in [("resting", resting), ("recent", recent), ("silent", silent)] {
            let ended = socket.read(&mut [0]).map_err(|error| error.kind());
            assert_eq!(ended, Ok(0), "{driver}: the {name} one");
        }
        // And the other way round.
        let mut resting = connect(&proxy);
        ask(&mut resting);
        sleep(Duration::from_millis(1200));
        proxy.apply(&config(driver, "1h")).expect("applied");
        sleep(Duration::from_secs(3));
        ask(&mut resting);
    }
}
