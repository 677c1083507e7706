//! curl and the programs of nghttp2 as clients: downloads side by side, uploads, ranges, dependencies, an upgrade from
//! HTTP/1.1 that is not taken up, and thousands of requests over a few connections.

use super::{Doors, doors, start};
use crate::programs::{done, find, run};
use std::fs;
use std::path::Path;
use tidegate_testkit::pattern;
use tidegate_testkit::proxy::Proxy;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

/// The proxy in front of a server whose bodies are the test pattern.
fn set_up() -> (Proxy, Doors, Upstream) {
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let mut proxy = start(&format!("server \"{}\"", upstream.address));
    let doors = doors(&mut proxy);
    (proxy, doors, upstream)
}

/// A file of the test pattern in the folder of the test.
fn file(proxy: &Proxy, name: &str, bytes: usize) -> String {
    let path = proxy.places.folder().join(name);
    fs::write(&path, pattern::pattern(0, bytes)).expect("a file");
    path.display().to_string()
}

fn check_file(path: &Path, bytes: usize) {
    let body = fs::read(path).expect("a file");
    assert_eq!((body.len(), pattern::check(0, &body)), (bytes, Ok(())), "{}", path.display());
}

#[test]
fn curl_downloads_uploads_and_waits_for_100() {
    let Some(curl) = find("curl") else { return };
    let (proxy, doors, _upstream) = set_up();
    let folder = proxy.places.folder();
    let upload = file(&proxy, "upload", 3_000_000);
    let told = ["-w", "%{http_code} over %{http_version}\n"];
    for (protocol, url) in [("--http2", &doors.secure), ("--http2-prior-knowledge", &doors.plain)] {
        let curl = |more: &[&str]| {
            let first = ["-q", "-sS", "--noproxy", "*", "--cacert", &doors.root, protocol];
            let said = run(&curl, &[&first[..], &told, more].concat(), "");
            assert!(said.is_success, "{more:?}: {}\n{}", said.text, proxy.program.output());
            String::from_utf8_lossy(&said.stdout).into_owned()
        };
        let names: Vec<String> = (0..20).map(|number| folder.join(format!("{number}")).display().to_string()).collect();
        let urls: Vec<String> = (0..20).map(|number| format!("{url}/bytes/{}", 50_000 * number)).collect();
        let outputs: Vec<[&str; 3]> = names.iter().zip(&urls).map(|(name, url)| ["-o", name.as_str(), url.as_str()]).collect();
        if url == &doors.secure {
            assert_eq!(curl(&[&["-Z", "--parallel-max", "20"], &outputs.concat()[..]].concat()), "200 over 2\n".repeat(20));
        } else {
            // By prior knowledge, curl 7.88 gets only the first thing of a connection, whoever the server is.
            for output in &outputs {
                assert_eq!(curl(output), "200 over 2\n");
            }
        }
        for (number, name) in names.iter().enumerate() {
            check_file(Path::new(name), 50_000 * number);
        }
        // The upstream says 100 (Continue).
        let back = folder.join("back");
        for more in [&["-H", "Expect: 100-continue"][..], &["-H", "Expect:"]] {
            let (echo, output) = (format!("{url}/echo"), back.display().to_string());
            assert_eq!(curl(&[&["-T", &upload, "-o", &output][..], more, &[&echo]].concat()), "200 over 2\n");
            check_file(&back, 3_000_000);
        }
        assert_eq!(curl(&["-I", "-o", "/dev/null", &format!("{url}/bytes/1234")]), "200 over 2\n");
        assert_eq!(curl(&["-o", "/dev/null", &format!("{url}/nowhere")]), "404 over 2\n");
        assert_eq!(curl(&["-o", "/dev/null", &format!("{url}/reset")]), "502 over 2\n");
    }
    // What would be an upgrade to h2c is a request of HTTP/1.1, and answered as one.
    let upgrade = ["-q", "-sS", "--noproxy", "*", "--http2", "-o", "/dev/null", told[0], told[1]];
    let url = format!("{}/bytes/5", doors.plain);
    assert_eq!(done(&curl, &[&upgrade[..], &[&url]].concat()), "200 over 1.1\n");
}

#[test]
fn nghttp_gets_all_it_asks_for() {
    let Some(nghttp) = find("nghttp") else { return };
    let (proxy, doors, _upstream) = set_up();
    let upload = file(&proxy, "upload", 2_000_000);
    let bodies = |more: &[&str], urls: &[&str]| {
        let said = run(&nghttp, &[more, urls].concat(), "");
        assert!(said.is_success, "{more:?}: {}", said.text);
        said.stdout
    };
    for base in [&doors.secure, &doors.plain] {
        let urls: Vec<String> = (1..=10).map(|number| format!("{base}/bytes/{}", number * 10_000)).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        // The answers come one beside the other, so only their number of bytes is known; which is 550,000.
        for more in [&["-y"][..], &["-y", "--no-dep"], &["-y", "-p", "7"], &["-y", "-w", "8", "-W", "8"]] {
            // A window of 256 bytes, in the last.
            assert_eq!(bodies(more, &urls).len(), 550_000, "{more:?} {base}");
        }
        assert_eq!(bodies(&["-y", "-m", "30"], &urls[..3]).len(), 30 * 60_000);
        let echo = format!("{base}/echo");
        // nghttp waits for 100 (Continue), and would send no body behind an answer, which an echo begins at once.
        let patient = bodies(&["-y", "--expect-continue", "-d", &upload], &urls[..1]);
        assert_eq!(patient.len(), 10_000, "{base}");
        for more in [&["-y", "-d", &upload][..], &["-y", "--trailer", "x-sum: 1", "-d", &upload]] {
            let body = bodies(more, &[&echo]);
            assert_eq!((body.len(), pattern::check(0, &body)), (2_000_000, Ok(())), "{more:?} {base}");
        }
    }
    // Without an upgrade there is no HTTP/2: the answer is one of HTTP/1.1, which nghttp does not want.
    let said = run(&nghttp, &["-v", "-u", &format!("{}/bytes/5", doors.plain)], "");
    assert!(said.text.contains("HTTP/1.1 200 OK"), "{}", said.text);
    assert!(said.text.contains("HTTP Upgrade failed"), "{}", said.text);
}

#[test]
fn h2load_loses_none_of_its_requests() {
    let Some(h2load) = find("h2load") else { return };
    let (proxy, doors, _upstream) = set_up();
    let upload = file(&proxy, "upload", 20_000);
    let check = |count: &str, more: &[&str], url: String| {
        let said = done(&h2load, &[&["-n", count, "-c", "8", "-m", "16"][..], more, &[&url]].concat());
        let whole =
            format!("requests: {count} total, {count} started, {count} done, {count} succeeded, 0 failed, 0 errored, 0 timeout");
        assert!(said.contains(&whole), "{url}: {said}\n{}", proxy.program.output());
    };
    for base in [&doors.secure, &doors.plain] {
        check("5000", &[], format!("{base}/bytes/2000"));
        check("400", &[], format!("{base}/bytes/100000"));
        // Windows of 1 KiB and 64 KiB.
        check("200", &["-w", "10", "-W", "16"], format!("{base}/bytes/20000"));
        check("1000", &["-d", &upload], format!("{base}/echo"));
    }
}
