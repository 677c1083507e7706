//! Files that change while they are served: a folder that is switched to another release, a file that is cut under an
//! answer, and one that is larger than any memory that the proxy may take for it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_testkit::get;
use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const BOUND: Duration = Duration::from_secs(20);

fn serve(folder: &Path) -> Proxy {
    let config = format!("admin \"127.0.0.1:{{admin}}\"\nsite \"http://:{{port}}\" {{ files \"{}\" }}\n", folder.display());
    Proxy::start(PROGRAM, &config).expect("it starts")
}

fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    stream
}

/// The head of the answer; the body is left in the stream.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

#[test]
fn a_link_that_is_switched_to_another_release_is_followed() {
    let places = tempfile::tempdir().expect("a folder");
    for release in ["one", "two"] {
        fs::create_dir(places.path().join(release)).expect("made");
        fs::write(places.path().join(release).join("index.html"), release).expect("written");
    }
    let current = places.path().join("current");
    symlink("one", &current).expect("linked");
    let proxy = serve(&current);
    let address = proxy.address.to_string();
    assert_eq!(get(&address, "/").expect("an answer"), (200, "one".to_owned()));
    symlink("two", places.path().join("next")).expect("linked");
    fs::rename(places.path().join("next"), &current).expect("switched");
    let begin = Instant::now();
    while get(&address, "/").expect("an answer").1 != "two" {
        assert!(begin.elapsed() < BOUND, "the folder before is still served");
        std::thread::sleep(Duration::from_millis(50));
    }
    // With nothing at its path, what was opened last is served.
    fs::remove_file(&current).expect("removed");
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(get(&address, "/").expect("an answer"), (200, "two".to_owned()));
}

#[test]
fn a_file_that_is_cut_under_an_answer_cuts_the_answer() {
    let places = tempfile::tempdir().expect("a folder");
    let file = places.path().join("big");
    let length: u64 = 64 << 20;
    fs::File::create(&file).and_then(|made| made.set_len(length)).expect("made");
    let proxy = serve(places.path());
    let mut stream = ask(proxy.address, "/big");
    assert!(head(&mut stream).contains(&format!("content-length: {length}")));
    let mut piece = vec![0; 1 << 16];
    stream.read_exact(&mut piece).expect("the body begins");
    fs::OpenOptions::new().write(true).open(&file).and_then(|file| file.set_len(1 << 20)).expect("cut");
    let mut seen = piece.len() as u64;
    while let Ok(count) = stream.read(&mut piece)
        && count > 0
    {
        seen += count as u64;
    }
    assert!(seen < length, "the client must not take it for whole");
    assert_eq!(get(&proxy.address.to_string(), "/none").expect("an answer").0, 404, "it serves on");
}

#[test]
fn a_big_file_takes_no_memory() {
    let places = tempfile::tempdir().expect("a folder");
    let length: u64 = 2 << 30;
    // Blocks that were never written take no disk.
    fs::File::create(places.path().join("big")).and_then(|made| made.set_len(length)).expect("made");
    let proxy = serve(places.path());
    let resident = || -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", proxy.program.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    };
    let mut stream = ask(proxy.address, "/big");
    head(&mut stream);
    let before = resident();
    let mut piece = vec![0; 1 << 20];
    let (mut seen, mut most) = (0, before);
    // Not all of it: what is held back would show by then.
    while seen < length / 4 {
        seen += stream.read(&mut piece).expect("the body goes on") as u64;
        if seen % (64 << 20) < (1 << 20) {
            most = most.max(resident());
        }
    }
    assert!(most < before + (16 << 10), "{before} KiB at the beginning, {most} KiB on the way");
}

/// Most of these bytes are sent by the kernel, between heads that are not, and the connection is used again.
#[test]
fn what_stands_in_a_file_is_what_arrives() {
    let places = tempfile::tempdir().expect("a folder");
    let content: Vec<u8> =
        (0..3_000_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()).collect();
    let last = content.len() - 1;
    fs::write(places.path().join("big"), &content).expect("written");
    let proxy = serve(places.path());
    let mut stream = TcpStream::connect(proxy.address).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    let mut fetch = |range: &str| {
        stream.write_all(format!("GET /big HTTP/1.1\r\nHost: a.test\r\n{range}\r\n").as_bytes()).expect("sent");
        let head = head(&mut stream);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        stream.read_exact(&mut body).expect("the body");
        body
    };
    assert!(fetch("") == content, "the whole");
    for (from, to) in [(0, 0), (16_000, 20_000), (1_000_001, last), (last, last)] {
        assert!(fetch(&format!("Range: bytes={from}-{to}\r\n")) == content[from..=to], "{from}-{to}");
    }
    let parts = fetch("Range: bytes=5-1000004,2000000-2999999\r\n");
    let holds = |part: &[u8]| parts.windows(part.len()).any(|window| window == part);
    assert!(holds(&content[5..=1_000_004]) && holds(&content[2_000_000..=2_999_999]), "both parts, each whole");
    assert!(fetch("") == content, "and the whole again");
}
