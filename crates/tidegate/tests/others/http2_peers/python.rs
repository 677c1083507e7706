//! python-h2 on both sides: 100 streams through windows of a few bytes, streams that are reset while others go on, and
//! a server that lowers its settings in the middle, or answers what it does not read.

use super::peer::{Peer, free};
use super::{Doors, PROGRAM, doors};
use crate::programs::{done, find, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidegate_testkit::case::Places;
use tidegate_testkit::proxy::Proxy;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Surroundings, pattern};

pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/others/http2_peers/python");
/// The longest body that any of the scripts asks for.
const KNOWN_BYTES: usize = 100_000;

/// A Python that has this module: the first one, or the system's, which has Debian's packages.
pub fn with(module: &str) -> Option<PathBuf> {
    let import = format!("import {module}");
    let all = find("python3").into_iter().chain([PathBuf::from("/usr/bin/python3")]);
    let found = all
        .into_iter()
        .find(|python| Command::new(python).args(["-c", &import]).output().is_ok_and(|output| output.status.success()));
    if found.is_none() {
        println!("skipped: no Python here has {module}");
    }
    found
}

pub fn sha256(python: &Path, file: &Path) -> String {
    let script = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest(), end='')";
    done(python, &["-c", script, &file.display().to_string()])
}

/// The bodies that both sides know, as a file.
pub fn known(places: &Places) -> String {
    let path = places.folder().join("known");
    fs::write(&path, pattern::pattern(0, KNOWN_BYTES)).expect("a file");
    path.display().to_string()
}

/// The server of `server.py` in this mood behind the proxy.
pub fn set_up(python: &Path, mood: &str) -> (Peer, Proxy, Doors) {
    let mut places = Places::new().expect("a folder");
    let (address, known) = (free(&mut places, "a"), known(&places));
    let mut command = Command::new(python);
    command.args(["-B", &format!("{FOLDER}/server.py"), &address.port().to_string(), &known, mood]);
    let server = Peer::run(command, address);
    let config = super::CONFIG.replace("POOL", &format!("server \"{address}\"; protocol \"h2c\""));
    let mut proxy = Proxy::start_in(places, PROGRAM, &config, &[], &Surroundings::default()).expect("it starts");
    let doors = doors(&mut proxy);
    (server, proxy, doors)
}

/// Runs `client.py`; all has to be as it says there.
pub fn ask(python: &Path, proxy: &Proxy, arguments: &[&str]) -> String {
    let (port, known) = (proxy.address.port().to_string(), known(&proxy.places));
    let script = format!("{FOLDER}/client.py");
    let said = run(python, &[&["-B", &script, &port, &known], arguments].concat(), "");
    assert!(said.is_success, "{arguments:?}: {}\n{}", said.text, proxy.program.output());
    said.text
}

#[test]
fn windows_of_a_few_bytes_and_resets_harm_nobody() {
    let Some(python) = with("h2") else { return };
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let proxy = super::start(&format!("server \"{}\"", upstream.address));
    for what in ["windows", "resets"] {
        ask(&python, &proxy, &[what]);
    }
    let (_server, proxy, _) = set_up(&python, "plain");
    for what in ["windows", "resets"] {
        ask(&python, &proxy, &[what]);
    }
    for gauge in ["tidegate_client_connections_active", "tidegate_upstream_connections_active"] {
        proxy.wait_for_metric(gauge, 0.0).expect("nothing is left");
    }
}

/// More streams than python-h2 has allowed, once we have acknowledged it, would end the connection.
#[test]
fn a_server_may_lower_its_settings_in_the_middle() {
    let (Some(python), Some(h2load)) = (with("h2"), find("h2load")) else { return };
    let (_server, proxy, doors) = set_up(&python, "moody");
    let upload = proxy.places.folder().join("upload");
    fs::write(&upload, pattern::pattern(0, 5_000)).expect("a file");
    let upload = upload.display().to_string();
    for (more, path) in [(&[][..], "bytes/5000"), (&["-d", &upload], "count")] {
        let url = format!("{}/{path}", doors.secure);
        let said = done(&h2load, &[&["-n", "500", "-c", "4", "-m", "8"], more, &[&url]].concat());
        assert!(said.contains("500 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}\n{}", proxy.program.output());
    }
}

#[test]
fn an_answer_arrives_though_its_server_takes_no_body() {
    let (Some(python), Some(curl), Some(nghttp)) = (with("h2"), find("curl"), find("nghttp")) else { return };
    let (_server, proxy, doors) = set_up(&python, "closed");
    for bytes in [10, 1_000_000] {
        let upload = proxy.places.folder().join("upload");
        fs::write(&upload, pattern::pattern(0, bytes)).expect("a file");
        let file = upload.display().to_string();
        assert_eq!(run(&nghttp, &["-y", "-t", "10", "-d", &file, &doors.secure], "").text, "no such upload", "{bytes}");
        // By HTTP/1.1: over HTTP/2 curl 7.88 takes the RST_STREAM behind an early answer for an error, whoever sends
        // it.
        let first = ["-q", "-sS", "-m", "10", "--noproxy", "*", "--cacert", &doors.root, "-w", " with %{http_code}"];
        let sent = format!("@{file}");
        let said = done(&curl, &[&first[..], &["--http1.1", "--data-binary", &sent, &doors.secure]].concat());
        assert_eq!(said, "no such upload with 403", "{bytes}");
    }
}
