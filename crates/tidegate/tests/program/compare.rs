//! `tidegate compare` between two sites of one proxy, over each protocol: what it finds, what it sends, what it does
//! not send, and how it ends.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use tidegate_testkit::Proxy;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "log.json"
threads 1
site "http://old.test:{port}" "http://:{port}" "https://old.test:{port:secure}" {
    tls cert="{cert:old.test}" key="{key:old.test}"
    header "X-Side" "old"
    header "Set-Cookie" "session=1; Path=/"
    route "/same" { respond 200 body="the same" }
    route "/gone" { respond 200 body="here" }
    route "/page" { respond 200 body="token=17 page\n" }
    route "/self" { redirect "http://127.0.0.1:{port}/same" }
    route "/echo" { proxy "{upstream}"; }
    route "/closed" { proxy "127.0.0.1:{closed:gone}"; }
}
site "http://old.test:{port:new}" "http://:{port:new}" "https://old.test:{port:new-secure}" {
    tls cert="{cert:old.test}" key="{key:old.test}"
    header "X-Side" "new"
    header "Set-Cookie" "session=2; Path=/"
    route "/same" { respond 200 body="the same" }
    route "/page" { respond 200 body="token=4 page\n" }
    route "/self" { redirect "http://127.0.0.1:{port:new}/same" }
    route "/echo" { proxy "{upstream}"; }
    route "/closed" { proxy "127.0.0.1:{closed:gone}"; }
}
"#;

struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(arguments: &[&str], input: &str) -> Ended {
    let mut command = Command::new(PROGRAM);
    command.arg("compare").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    // What refuses its arguments does not read.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code().unwrap_or(-1), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

struct Pair {
    proxy: Proxy,
    upstream: Upstream,
}

impl Pair {
    fn start() -> Pair {
        let upstream = Upstream::start(Behaviour::new(Answer::EchoBody)).expect("an upstream");
        let config = CONFIG.replace("{upstream}", &upstream.address.to_string());
        Pair { proxy: Proxy::start(PROGRAM, &config).expect("a proxy"), upstream }
    }

    fn url(&mut self, scheme: &str, port: &str) -> String {
        self.proxy.places.fill(&format!("{scheme}://127.0.0.1:{port}")).expect("a port")
    }

    /// Over HTTP, with these options beside.
    fn compare(&mut self, options: &[&str], input: &str) -> Ended {
        let (old, new) = (self.url("http", "{port}"), self.url("http", "{port:new}"));
        run(&[&["--old", &old, "--new", &new, "-"], options].concat(), input)
    }
}

#[test]
fn differences_are_grouped_and_shown_with_their_lines() {
    let mut pair = Pair::start();
    let ended = pair
        .compare(&["--ignore-header", "x-side"], "GET /same\nHEAD /same\n/gone\n\nGET http://old.test/page\n/self\n/closed\n");
    let expected = "status 200 → 404: 1 request
  line 3: GET /gone at 127.0.0.1:PORT

body changed: 1 request
  line 5: GET /page at old.test, 200, from byte 6 on
    old: token=17 page\\n
    new: token=4 page\\n

6 requests read, 6 requests sent to both
2 of 6 answers differ
";
    let port = pair.proxy.address.port().to_string();
    assert_eq!((ended.code, ended.stdout.replace(&format!(":{port}"), ":PORT").as_str()), (1, expected), "{}", ended.stderr);
    let ended = pair.compare(&["--only-header", "location", "--ignore-body", "token=[0-9]+"], "/same\n/page\n/self\n");
    assert_eq!((ended.code, ended.stdout.lines().last()), (0, Some("all answers are alike")), "{}", ended.stdout);
    let ended = pair.compare(&["--status-only"], "/same\n/page\n/self\n/gone\n");
    assert_eq!((ended.code, ended.stdout.lines().last()), (1, Some("1 of 4 answers differ")), "{}", ended.stdout);
    let ended = pair.compare(&["--exact-header", "Location", "--ignore-header", "X-Side", "--json"], "/self\n");
    let said: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(said["differences"][0]["name"], "location", "{said}");
    assert_eq!((said["different"].as_u64(), said["requests"]["sent"].as_u64(), ended.code), (Some(1), Some(1), 1), "{said}");
}

#[test]
fn what_may_change_something_is_sent_only_when_told() {
    let mut pair = Pair::start();
    let input = "GET /same\nPOST /echo\n  Host: old.test\n\n  first\n  second\nPUT /echo\n";
    let ended = pair.compare(&["--ignore-header", "x-side"], input);
    assert_eq!((ended.code, pair.upstream.requests()), (0, 0), "{}", ended.stdout);
    let left_out = "  2 left out, the first on line 2: with a method that may change something; --all-methods sends them, without a body where a log has none (POST, PUT)";
    assert!(ended.stdout.lines().any(|line| line == left_out), "{}", ended.stdout);
    let options = ["--ignore-header", "x-side", "--all-methods"];
    for protocol in [&options[..], &[&options[..], &["--http2"]].concat()] {
        let before = pair.upstream.requests();
        let ended = pair.compare(protocol, input);
        assert_eq!((ended.code, pair.upstream.requests() - before), (0, 4), "{}{}", ended.stdout, ended.stderr);
    }
    // Nothing was sent: that is not the same as equal.
    let ended = pair.compare(&[], "POST /echo\n");
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.starts_with("error: nothing was sent"), "{}", ended.stderr);
}

#[test]
fn access_logs_are_replayed_with_their_hosts() {
    let mut pair = Pair::start();
    let ended = pair.compare(&["--ignore-header", "x-side", "--host", "old.test"], "GET /same\nHEAD /page\n");
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    // The access log of those requests, as the proxy wrote it, and lines that nobody sends again.
    let log = pair.proxy.places.folder().join("log.json");
    let written = (0..500).find_map(|_| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        std::thread::sleep(std::time::Duration::from_millis(20));
        (text.lines().count() == 4).then_some(text)
    });
    let text = format!("{}{{\"level\":\"info\"}}\n", written.expect("four lines"));
    let ended = pair.compare(&["--ignore-header", "x-side", "--ignore-body", "token=\\d+"], &text);
    let expected = "5 requests read, 2 requests sent to both\n  2 ask what one before does; --repeats asks again\n  1 left out, the first on line 5: in no known form\nall answers are alike\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (0, expected), "{}", ended.stderr);
    let ended = pair.compare(&["--repeats", "--max-requests", "3", "--json"], &text);
    let said: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((said["requests"]["sent"].as_u64(), said["requests"]["is_cut"].as_bool()), (Some(3), Some(true)), "{said}");
    let example = &said["differences"][0]["examples"][0];
    assert_eq!((example["host"].as_str(), example["line"].as_u64()), (Some("old.test"), Some(1)), "{said}");
}

#[test]
fn over_tls_the_host_of_a_request_is_who_is_asked_for() {
    let mut pair = Pair::start();
    let (old, new) = (pair.url("https", "{port:secure}"), pair.url("https", "{port:new-secure}"));
    let ca = pair.proxy.places.fill("{ca}").expect("a CA");
    let both = ["--old", &old, "--new", &new, "--ignore-header", "x-side", "-"];
    for protocol in [&[][..], &["--http2"]] {
        let ended = run(&[&both[..], &["--ca", &ca], protocol].concat(), "GET http://old.test/same\nHEAD http://old.test/page\n");
        assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
        let ended = run(&[&both[..], &["--insecure", "--host", "old.test"], protocol].concat(), "/same\n");
        assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
        let ended = run(&[&both[..], protocol].concat(), "GET http://old.test/same\n");
        assert_eq!(ended.code, 2, "{}", ended.stdout);
        assert!(
            ended.stderr.contains("certificate that is not trusted") && ended.stderr.contains("nothing was sent"),
            "{}",
            ended.stderr
        );
    }
}

/// Takes connections, answers each with these bytes, and closes it.
fn raw(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut piece = [0; 4096];
            if stream.read(&mut piece).is_ok_and(|count| count > 0) {
                let _ = stream.write_all(answer);
            }
        }
    });
    format!("http://{address}")
}

#[test]
fn what_is_no_answer_is_told_apart() {
    let good = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let check = |answer: &'static [u8], expected: &str| {
        let ended = run(&["--old", &good, "--new", &raw(answer), "-"], "/a\n");
        let first = ended.stdout.lines().next().unwrap_or_default();
        assert_eq!((ended.code, first), (1, expected), "{}{}", ended.stdout, ended.stderr);
    };
    check(b"", "unanswered (old answers 200, new closes the connection): 1 request");
    check(b"HTTP/1.1 200 OK\r\nContent-Le", "unanswered (old answers 200, new breaks off its answer): 1 request");
    check(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "unanswered (old answers 200, new breaks off its answer): 1 request",
    );
    check(
        b"220 mail\r\n",
        "unanswered (old answers 200, new sends what is no answer: the HTTP version cannot be read): 1 request",
    );
    check(
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
        "trailer x added: 1 request",
    );
    let closing = raw(b"");
    let ended = run(&["--old", &closing, "--new", &closing, "-"], "/a\n");
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    let slow = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("http://{}", slow.local_addr().expect("an address"));
    let ended = run(&["--old", &good, "--new", &silent, "--timeout", "100ms", "-"], "/a\n");
    assert!(ended.stdout.starts_with("unanswered (old answers 200, new does not answer in time)"), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_sent() {
    let check = |arguments: &[&str], input: &str, expected: &str| {
        let ended = run(arguments, input);
        assert_eq!(ended.code, 2, "{arguments:?}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    };
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let (closed, good) = (format!("http://{closed}"), raw(b"HTTP/1.1 204 None\r\n\r\n"));
    let both = |more: &[&'static str]| [&["--old", "http://127.0.0.1:1", "--new", "http://127.0.0.1:1", "-"][..], more].concat();
    check(&["--old", &good, "--new", &closed, "-"], "/a\n", "--new: the server at");
    check(&["--old", &good, "--new", &closed, "-"], "/a\n", "refuses the connection; nothing was sent");
    check(&both(&[]), "GET /\nGET /a b\n", "standard input, line 2: behind the target stands more");
    check(&both(&["--header", "Host: a"]), "/\n", "`--header Host: a` names the host");
    check(&both(&["--header", "a b: c"]), "/\n", "cannot stand in a request");
    check(&both(&["--header", "Connection: close"]), "/\n", "is of the connection");
    check(&both(&["--ignore-body", "("]), "/\n", "`--ignore-body (` is no regular expression");
    check(&both(&["--host", "a/b"]), "/\n", "`a/b` is no host");
    check(&["--old", "127.0.0.1:80", "--new", &good, "-"], "/\n", "begins with neither `http://` nor `https://`");
    check(&["--old", "http://a/b", "--new", &good, "-"], "/\n", "says more than where the server is");
    check(&["--old", "http://a:0", "--new", &good, "-"], "/\n", "names no host and port");
    check(&["--old", &good, "--new", &good, "/nonexistent/requests"], "", "/nonexistent/requests cannot be read");
    check(&["--old", "https://127.0.0.1:1", "--new", &good, "--ca", "/nonexistent/ca", "-"], "/\n", "/nonexistent/ca");
    check(&["--old", &good, "-"], "", "--new");
    assert!(!Path::new("requests").exists());
}

#[test]
fn a_server_that_goes_away_is_not_asked_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let going = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        // Looked at, asked once, gone.
        for _ in 0..2 {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut piece = [0; 4096];
            if stream.read(&mut piece).is_ok_and(|count| count > 0) {
                let _ = stream.write_all(b"HTTP/1.1 204 None\r\nConnection: close\r\n\r\n");
            }
        }
    });
    let good = raw(b"HTTP/1.1 204 None\r\nConnection: close\r\n\r\n");
    let input = (0..1000).map(|number| format!("/{number}\n")).collect::<Vec<_>>().concat();
    let ended = run(&["--old", &good, "--new", &going, "--parallel", "1", "-"], &input);
    assert_eq!(ended.code, 2, "{}", ended.stdout);
    assert!(
        ended.stderr.contains("10 requests in a row failed") && ended.stderr.contains("refuses the connection"),
        "{}",
        ended.stderr
    );
    assert!(ended.stdout.contains("stopped early; until then 10 of 11 answers differ"), "{}", ended.stdout);
}
