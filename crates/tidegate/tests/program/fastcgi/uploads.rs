//! Uploads whose length nobody has said, as curl sends what it reads from a pipe and git a large pack: in chunks of
//! HTTP/1.1 and in streams of HTTP/2. Scripts get them whole and with a length, and a full disk is said.

use crate::fastcgi::PROGRAM;
use crate::fastcgi::client::ask;
use crate::fastcgi::server::Server;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use tidegate_testkit::case::Places;
use tidegate_testkit::proxy::Proxy;
use tidegate_testkit::{Program, Surroundings, get};

/// As curl calls them; the second without TLS and without asking first.
pub const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// A PUT by curl, which reads the body from a pipe and so cannot know how long it is. The status, and the answer.
pub fn put_from_pipe(address: SocketAddr, version: &str, target: &str, body: &[u8]) -> (u16, String) {
    let url = format!("http://{address}{target}");
    let mut curl = Command::new("curl")
        .args(["-sS", "--max-time", "60", version, "-T", "-", "-H", "Expect:", "-w", "\n%{http_code}", &url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("curl");
    let mut pipe = curl.stdin.take().expect("a pipe");
    let body = body.to_vec();
    // An answer may come before all of it is sent.
    let sending = std::thread::spawn(move || drop(pipe.write_all(&body)));
    let output = curl.wait_with_output().expect("curl");
    sending.join().expect("no panic");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (answer, status) = text.rsplit_once('\n').unwrap_or_default();
    let complaint = String::from_utf8_lossy(&output.stderr);
    (status.parse().unwrap_or_else(|_| panic!("{version} {target}: {text} {complaint}")), answer.to_owned())
}

fn config(server: &Server) -> String {
    format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 1\naccess-log \"{{dir}}/access.log\"\nsite \"http://:{{port}}\" {{\n\
         route \"/small/*\" {{ body-limit \"2MB\"; fastcgi \"{0}\" root=\"/no/such/folder\" fallback=\"/a.php\"; }}\n\
         fastcgi \"{0}\" root=\"/no/such/folder\" fallback=\"/a.php\"\n}}\n",
        server.address
    )
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn they_reach_a_script_whole_and_with_their_length() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let proxy = Proxy::start(PROGRAM, &config(&server)).expect("it starts");
    let body = pattern(20_000_000);
    for version in VERSIONS {
        // Nothing, in memory, at the edge of that, in a file, and far beyond what nobody had to say before.
        for length in [0, 1, 262_144, 262_145, 1_048_577, body.len()] {
            let reply = put_from_pipe(proxy.address, version, "/", &body[..length]);
            assert_eq!(reply, (200, "ok".to_owned()), "{version}: {length} bytes: {}", proxy.program.stderr());
            let asked = seen.lock().expect("no panic").pop().expect("a request");
            assert_eq!(asked.param("CONTENT_LENGTH"), Some(length.to_string().as_str()), "{version}");
            assert_eq!(asked.param("HTTP_TRANSFER_ENCODING"), None, "{version}");
            assert!(asked.body == body[..length], "{version}: {} of {length} bytes came", asked.body.len());
        }
        let (status, text) = put_from_pipe(proxy.address, version, "/small/a", &body[..2_000_001]);
        assert_eq!(status, 413, "{version}: {text}");
        assert!(seen.lock().expect("no panic").is_empty(), "{version}: no script has seen it");
    }
}

/// A file system of one megabyte in the place of the folder for such bodies.
#[test]
fn a_full_disk_is_said_and_is_free_again_behind_the_request() {
    const LOCK_UP: [&str; 3] = ["--user", "--map-root-user", "--mount"];
    const MOUNT: &str = "mount -t tmpfs -o size=1m,mode=700 tmpfs \"$1\" && shift && exec \"$@\"";
    if !Command::new("unshare").args(LOCK_UP).arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("skipped: this machine gives out no file systems of one's own (unshare)");
        return;
    }
    let (server, seen) = Server::remembering(b"\r\nok");
    let mut places = Places::new().expect("a folder");
    let bodies = places.folder().join("state/bodies");
    std::fs::create_dir_all(&bodies).expect("made");
    let text = places.fill(&config(&server)).expect("filled in");
    let (admin, address) = (places.admin_address().expect("a port"), places.main_address().expect("a port"));
    std::fs::write(places.config_file(), text).expect("written");
    places.release_proxy_ports();
    let (bodies, file) = (bodies.display().to_string(), places.config_file().display().to_string());
    let command = ["sh", "-c", MOUNT, "sh", &bodies, PROGRAM, "run", "--config", &file];
    let arguments: Vec<String> = LOCK_UP.iter().chain(&command).map(ToString::to_string).collect();
    let surroundings = Surroundings::default();
    let mut program = Program::start_in(Path::new("unshare"), &arguments, places.folder(), &surroundings).expect("it starts");
    program.wait_until("ready", || matches!(get(&admin, "/readyz"), Ok((200, _)))).expect("it is ready");
    let address: SocketAddr = address.parse().expect("an address");
    let body = pattern(3_000_000);
    for version in VERSIONS {
        let (status, text) = put_from_pipe(address, version, "/", &body);
        assert_eq!(status, 503, "{version}: {text}");
        assert!(text.contains("body_not_kept"), "{version}: {text}");
        assert!(seen.lock().expect("no panic").is_empty(), "{version}: no script has seen it");
        // What was written of it is gone, and what was never on disk has not missed it.
        for length in [1000, 700_000] {
            let reply = put_from_pipe(address, version, "/", &body[..length]);
            assert_eq!(reply, (200, "ok".to_owned()), "{version}: {length} bytes: {}", program.stderr());
            assert_eq!(seen.lock().expect("no panic").pop().map(|asked| asked.body.len()), Some(length), "{version}");
        }
    }
    let reply = ask(address, "POST", "/", &[], &body);
    assert_eq!(reply.status, 503, "with a length as well: {}", reply.text());
    assert!(program.stderr().contains("cannot be kept"), "{}", program.stderr());
}
