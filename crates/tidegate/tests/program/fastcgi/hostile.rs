//! What servers do that are broken, slow or hostile: each has a defined answer, and the next request is served.

use crate::fastcgi::PROGRAM;
use crate::fastcgi::client::{Reply, ask, ask_chunked, connect, get, read_on, read_until};
use crate::fastcgi::server::{END, STDERR, STDOUT, Server, answer, end, read_request, record};
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;
use tidegate_testkit::proxy::Proxy;

const BOUND: Duration = Duration::from_secs(30);

/// A proxy in front of a server; `more` stands in the block of `fastcgi`, `steps` before it.
fn proxy_for(server: &Server, steps: &str, more: &str) -> Proxy {
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 1\naccess-log \"{{dir}}/access.log\"\nsite \"http://:{{port}}\" {{\n{steps}\nfastcgi \"{}\" root=\"/no/such/folder\" \
         fallback=\"/index.php\" {{\n{more}\n}}\n}}\n",
        server.address
    );
    Proxy::start(PROGRAM, &config).expect("it starts")
}

fn log(proxy: &Proxy) -> String {
    std::fs::read_to_string(proxy.places.folder().join("access.log")).unwrap_or_default()
}

/// Until the access log has it.
fn wait_for_log(proxy: &Proxy, text: &str) {
    let begin = std::time::Instant::now();
    while !log(proxy).contains(text) {
        assert!(begin.elapsed() < BOUND, "no {text} in\n{}\n{}", log(proxy), proxy.program.stderr());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_is_no_answer_is_refused() {
    let head = b"Content-Type: text/plain\r\n\r\n";
    let check = |what: &str, bytes: Vec<u8>, status: u16, reason: &str| {
        let server = Server::always(bytes);
        let proxy = proxy_for(&server, "", "");
        let reply = get(proxy.address, "/");
        assert_eq!((reply.status, reply.is_whole), (status, true), "{what}: {}\n{}", reply.head, proxy.program.stderr());
        assert!(reply.text().contains(reason), "{what}: {}", reply.text());
        wait_for_log(&proxy, &format!("\"reason\":\"{reason}\""));
        assert!(log(&proxy).contains(&format!("{}", server.address)), "{what}: {}", log(&proxy));
        assert_eq!(get(proxy.address, "/").status, status, "{what}: it serves on");
    };
    check("nothing at all", Vec::new(), 502, "closed_early");
    check("half a header", vec![1, STDOUT, 0], 502, "closed_early");
    check("less content than said", record(STDOUT, head)[..12].to_vec(), 502, "closed_early");
    check("an end without an answer", end(0), 502, "bad_response");
    check("an end in the head", [record(STDOUT, b"Content-Type: text"), end(0)].concat(), 502, "bad_response");
    check("HTTP", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(), 502, "bad_response");
    check(
        "another request's",
        {
            let mut bytes = answer(head);
            bytes[3] = 2;
            bytes
        },
        502,
        "bad_response",
    );
    check("an end of odd length", record(END, b"odd"), 502, "bad_response");
    check("a record of the client's", record(5, b"x"), 502, "bad_response");
    check("a status that is none", answer(b"Status: 99 Odd\r\n\r\n"), 502, "bad_response");
    check("an interim status", answer(b"Status: 101 Switch\r\n\r\n"), 502, "bad_response");
    check("a field with a control byte", answer(b"X-A: a\x01b\r\n\r\n"), 502, "bad_response");
    check("framing that is not its own", answer(b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 502, "bad_response");
    check("two lengths", answer(b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 502, "bad_response");
    check("a head without end", [record(STDOUT, b"X: "), record(STDOUT, &b"x".repeat(60_000))].concat(), 502, "head_too_large");
    check("fields without end", record(STDOUT, &b"X: y\r\n".repeat(2000)), 502, "head_too_large");
    check("complaints without end", record(STDERR, &b"!".repeat(60_000)).repeat(30), 502, "bad_response");
    check("records without content", record(STDOUT, b"").repeat(100), 502, "bad_response");
    check("overloaded", end(2), 503, "no_server");
    check("a role that it has not", end(3), 502, "bad_response");
    check("less than promised", answer(b"Content-Length: 10\r\n\r\nhalf"), 502, "body_cut");
}

#[test]
fn an_answer_that_breaks_off_is_seen_to_break_off() {
    let check = |what: &str, first: Vec<u8>, then: Vec<u8>, expected: &str, is_whole: bool| {
        let (go, may_go) = channel();
        let may_go = Mutex::new(may_go);
        let server = Server::start(move |_, stream| {
            if read_request(stream).is_none() {
                return;
            }
            let _ = stream.write_all(&first);
            // The answer has begun when the rest comes.
            let _ = may_go.lock().expect("no panic").recv_timeout(BOUND);
            let _ = stream.write_all(&then);
        });
        let proxy = proxy_for(&server, "", "");
        let mut client = connect(proxy.address);
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
        let begun = read_until(&mut client, &expected[..2]);
        go.send(()).expect("it waits");
        let reply = read_on(&mut client, "GET", begun);
        assert_eq!((reply.status, reply.is_whole), (200, is_whole), "{what}: {}", reply.head);
        assert_eq!(reply.text(), expected, "{what}");
    };
    let begin = || record(STDOUT, b"\r\nbegin");
    check("the connection ends", begin(), Vec::new(), "begin", false);
    check("a record breaks off", begin(), record(STDOUT, b"never")[..10].to_vec(), "beginne", false);
    check("no record", begin(), b"garbage garbage".to_vec(), "begin", false);
    check("refused in the middle", begin(), end(1), "begin", false);
    check("less than promised", record(STDOUT, b"Content-Length: 9\r\n\r\nhalf"), end(0), "half", false);
    check("more than promised", record(STDOUT, b"Content-Length: 4\r\n\r\nwh"), answer(b"ole and more"), "whol", true);
    check("after its end", begin(), [end(0), begin()].concat(), "begin", false);
    check("in time", begin(), answer(b" and end"), "begin and end", true);
}

#[test]
fn one_that_is_silent_is_given_up() {
    let silent = || Server::start(|_, stream| drop(read_request(stream).map(|_| stream.read(&mut [0]))));
    let server = silent();
    let proxy = proxy_for(&server, "", "timeout first-byte=\"300ms\"");
    let reply = get(proxy.address, "/");
    assert_eq!(reply.status, 504, "{}", reply.head);
    assert!(reply.text().contains("first_byte_timeout"), "{}", reply.text());
    wait_for_log(&proxy, "timeout first-byte");

    // Complaining is no answer.
    let server = Server::start(|_, stream| {
        if read_request(stream).is_some() {
            while stream.write_all(&record(STDERR, b"still working\n")).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let proxy = proxy_for(&server, "", "timeout first-byte=\"500ms\"");
    assert_eq!(get(proxy.address, "/").status, 504);

    let server = Server::start(|_, stream| {
        if read_request(stream).is_some() {
            let _ = stream.write_all(&record(STDOUT, b"\r\nbegin"));
            let _ = stream.read(&mut [0]);
        }
    });
    let proxy = proxy_for(&server, "", "timeout idle=\"300ms\"");
    let reply = get(proxy.address, "/");
    assert_eq!((reply.status, reply.is_whole, reply.text().as_str()), (200, false, "begin"));
    wait_for_log(&proxy, "idle_timeout");
}

#[test]
fn complaints_are_one_line_of_the_log_each() {
    let server = Server::always([record(STDERR, b"PHP Warning:  one\n\x1b[31mforged line"), answer(b"\r\nok")].concat());
    let proxy = proxy_for(&server, "", "");
    assert_eq!(get(proxy.address, "/").text(), "ok");
    let begin = std::time::Instant::now();
    while !proxy.program.stderr().contains("a script complains") {
        assert!(begin.elapsed() < BOUND, "{}", proxy.program.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = proxy.program.stderr();
    let line = log.lines().find(|line| line.contains("a script complains")).expect("it is there");
    assert!(line.contains("PHP Warning:  one") && line.contains("forged line") && line.contains("u{1b}"), "{line}");
    assert!(!log.contains("\u{1b}[31mforged"), "{log}");
}

#[test]
fn a_client_that_leaves_ends_the_request() {
    let (tell, told) = channel();
    let server = Server::start(move |_, stream| {
        if read_request(stream).is_some() {
            // The end of the connection, or what is still on its way.
            let left = stream.read(&mut [0]);
            let _ = tell.send(matches!(left, Ok(0) | Err(_)));
        }
    });
    let proxy = proxy_for(&server, "", "");
    let mut client = connect(proxy.address);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    while server.connections.load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(client);
    assert_eq!(told.recv_timeout(BOUND), Ok(true), "the server sees it");
    wait_for_log(&proxy, "client_gone");
}

#[test]
fn kept_connections_are_used_again_and_may_end() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let proxy = proxy_for(&server, "", "keep-alive connections=1 idle=\"1h\"");
    for _ in 0..3 {
        assert_eq!(get(proxy.address, "/").text(), "ok");
    }
    assert_eq!(server.connections.load(Ordering::Acquire), 1);
    assert!(seen.lock().expect("no panic").iter().all(|asked| asked.keeps));
    let metrics = proxy.metrics().expect("metrics");
    assert_eq!(
        metrics.sum("tidegate_upstream_connections_total{kind=\"reused\"}") as u32,
        2,
        "{}",
        metrics.lines_of("tidegate_upstream")
    );

    let (server, seen) = Server::remembering(b"\r\nok");
    let proxy = proxy_for(&server, "", "");
    for _ in 0..2 {
        assert_eq!(get(proxy.address, "/").text(), "ok");
    }
    assert_eq!(server.connections.load(Ordering::Acquire), 2, "none is kept unless somebody wants it");
    assert!(seen.lock().expect("no panic").iter().all(|asked| !asked.keeps));
}

#[test]
fn a_kept_connection_that_ends_under_a_request_is_no_502_unless_a_script_could_run_twice() {
    // The second request of a connection is taken and never answered.
    let serve = || {
        Server::start(|number, stream| {
            for _ in 0..if number == 0 { 1 } else { usize::MAX } {
                let Some(asked) = read_request(stream) else { return };
                if stream.write_all(&asked.answered(&answer(b"\r\nok"))).is_err() {
                    return;
                }
            }
            drop(read_request(stream));
        })
    };
    let keep = "keep-alive connections=1 idle=\"1h\"";
    let server = serve();
    let proxy = proxy_for(&server, "", keep);
    assert_eq!(get(proxy.address, "/").text(), "ok");
    assert_eq!(get(proxy.address, "/").text(), "ok", "{}", proxy.program.stderr());
    assert_eq!(server.connections.load(Ordering::Acquire), 2);

    let server = serve();
    let proxy = proxy_for(&server, "", keep);
    assert_eq!(get(proxy.address, "/").text(), "ok");
    assert_eq!(ask(proxy.address, "POST", "/", &[], b"a=b").status, 502);
    assert_eq!(server.connections.load(Ordering::Acquire), 1);
}

/// A server that answers a request twice: the second answer is nobody's, and not that of the request behind it.
#[test]
fn an_answer_that_comes_too_late_is_for_nobody() {
    let server = Server::start(|number, stream| {
        while let Some(asked) = read_request(stream) {
            let text = format!("\r\nto {}", asked.param("QUERY_STRING").unwrap_or_default());
            if stream.write_all(&asked.answered(&answer(text.as_bytes()))).is_err() {
                return;
            }
            if number == 0 {
                std::thread::sleep(Duration::from_millis(100));
                let _ = stream.write_all(&asked.answered(&answer(b"\r\nstray")));
            }
        }
    });
    let proxy = proxy_for(&server, "", "keep-alive connections=1 idle=\"1h\"");
    for number in 0..4 {
        let path = format!("/?q{number}");
        assert_eq!(get(proxy.address, &path).text(), format!("to q{number}"), "{}", proxy.program.stderr());
    }
}

#[test]
fn scripts_are_told_of_the_request_and_of_nobody_elses() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let proxy = proxy_for(
        &server,
        "strip-prefix \"/app\"",
        "env \"APP_ENV\" \"production\"\nenv \"CLIENT\" \"{client.ip} {request.header.x-a}\"",
    );
    let fields = [
        "X-A: 1",
        "X-A: 2",
        "X_A: forged",
        "X.A: forged",
        "Proxy: http://evil.test",
        "X-Forwarded-For: 6.6.6.6",
        "Authorization: Basic dTpw",
        "Cookie: a=b",
        "Cookie: c=d",
        "Content-Type: text/plain",
    ];
    let reply = ask(proxy.address, "POST", "/app/a/b?x=1&y=%2F", &fields, b"body");
    assert_eq!(reply.text(), "ok");
    let asked = seen.lock().expect("no panic").remove(0);
    assert_eq!(asked.body, b"body");
    let check = |name: &str, expected: Option<&str>| assert_eq!(asked.param(name), expected, "{name} in {asked:?}");
    check("REQUEST_URI", Some("/app/a/b?x=1&y=%2F"));
    check("QUERY_STRING", Some("x=1&y=%2F"));
    check("SCRIPT_FILENAME", Some("/no/such/folder/index.php"));
    check("SCRIPT_NAME", Some("/index.php"));
    check("DOCUMENT_ROOT", Some("/no/such/folder"));
    check("REQUEST_METHOD", Some("POST"));
    check("CONTENT_LENGTH", Some("4"));
    check("CONTENT_TYPE", Some("text/plain"));
    check("SERVER_PROTOCOL", Some("HTTP/1.1"));
    check("SERVER_NAME", Some("site.test"));
    check("SERVER_PORT", Some(proxy.address.port().to_string().as_str()));
    check("REMOTE_ADDR", Some("127.0.0.1"));
    check("REDIRECT_STATUS", Some("200"));
    check("HTTPS", None);
    check("HTTP_HOST", Some("site.test"));
    check("HTTP_X_A", Some("1, 2"));
    check("HTTP_COOKIE", Some("a=b; c=d"));
    check("HTTP_AUTHORIZATION", Some("Basic dTpw"));
    check("HTTP_PROXY", None);
    check("HTTP_X_FORWARDED_FOR", None);
    check("APP_ENV", Some("production"));
    check("CLIENT", Some("127.0.0.1 1, 2"));
}

#[test]
fn a_trusted_proxy_in_front_says_who_the_client_is_and_that_it_came_by_https() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nlistener \":{{port}}\" {{ trusted-proxies \"127.0.0.0/8\"; }}\nsite \"http://:{{port}}\" {{\nfastcgi \"{}\" root=\"/srv\" fallback=\"/a.php\"\n}}\n",
        server.address
    );
    let proxy = Proxy::start(PROGRAM, &config).expect("it starts");
    let fields = ["X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https"];
    assert_eq!(ask(proxy.address, "GET", "/", &fields, b"").text(), "ok");
    let asked = seen.lock().expect("no panic").remove(0);
    let seen = ["REMOTE_ADDR", "HTTPS", "SERVER_PORT"].map(|name| asked.param(name));
    assert_eq!(seen, [Some("192.0.2.7"), Some("on"), Some("443")]);
}

#[test]
fn bodies_have_a_length_when_their_script_begins() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let limited = format!(
        "route \"/small/*\" {{ body-limit \"10KB\"; fastcgi \"{}\" root=\"/srv\" fallback=\"/a.php\"; }}",
        server.address
    );
    let proxy = proxy_for(&server, &limited, "");
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let check = |reply: Reply, length: usize| {
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "{}", reply.head);
        let asked = seen.lock().expect("no panic").pop().expect("a request");
        assert_eq!(asked.param("CONTENT_LENGTH"), Some(length.to_string().as_str()));
        assert!(asked.body == body[..length], "{} of {length} bytes came", asked.body.len());
    };
    for length in [1, 40_000, 262_144, 262_145, 3_000_000] {
        check(ask(proxy.address, "POST", "/", &[], &body[..length]), length);
    }
    for length in [1, 70_000, 1 << 20, 3_000_000] {
        check(ask_chunked(proxy.address, "/", &body[..length]), length);
    }
    assert_eq!(ask_chunked(proxy.address, "/small/a", &body[..20_000]).status, 413);
    assert_eq!(ask(proxy.address, "POST", "/small/a", &[], &body[..20_000]).status, 413);
    assert!(seen.lock().expect("no panic").is_empty(), "no script has seen these");
}

/// Without `body-limit` a script is not given a body of any size.
#[test]
fn a_body_that_no_disk_should_take_is_refused_before_it_comes() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let proxy = proxy_for(&server, "", "");
    let mut client = connect(proxy.address);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", (1_u64 << 30) + 1);
    client.write_all(head.as_bytes()).expect("sent");
    let refused = crate::fastcgi::client::read_reply(&mut client, "POST");
    assert_eq!(refused.status, 413);
    assert!(refused.text().contains("body_too_large"), "{}", refused.text());
    assert!(seen.lock().expect("no panic").is_empty());
}

/// What is not in memory has no name on disk, whichever way the request ends.
#[test]
fn collected_bodies_leave_no_file_behind() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let proxy = proxy_for(&server, "", "");
    let bodies = proxy.places.folder().join("state/bodies");
    let body = vec![b'a'; 600_000];
    assert_eq!(ask(proxy.address, "POST", "/", &[], &body).status, 200);
    assert_eq!(seen.lock().expect("no panic").remove(0).body.len(), body.len());
    let mut half = connect(proxy.address);
    half.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").expect("sent");
    half.write_all(&body).expect("sent");
    assert_eq!(std::fs::read_dir(&bodies).expect("the folder is there").count(), 0, "while it is collected");
    drop(half);
    drop(proxy);
}

#[test]
fn a_client_that_waits_for_a_100_gets_one() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let proxy = proxy_for(&server, "", "");
    let mut client = connect(proxy.address);
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        .expect("sent");
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut bytes = vec![0; interim.len()];
    client.read_exact(&mut bytes).expect("an interim answer");
    assert_eq!(bytes, interim);
    client.write_all(b"body").expect("sent");
    assert_eq!(crate::fastcgi::client::read_reply(&mut client, "POST").text(), "ok");
    let asked = seen.lock().expect("no panic").remove(0);
    assert_eq!((asked.body.as_slice(), asked.param("HTTP_EXPECT")), (&b"body"[..], None));
}

#[test]
fn a_half_sent_form_reaches_no_script() {
    let (server, _) = Server::remembering(b"\r\nok");
    let proxy = proxy_for(&server, "", "");
    let mut client = connect(proxy.address);
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf").expect("sent");
    drop(client);
    wait_for_log(&proxy, "client_gone");
    assert_eq!(server.connections.load(Ordering::Acquire), 0);
}

#[test]
fn what_a_script_says_of_its_answer_holds() {
    let check = |stdout: &'static [u8], method: &str, expected: (u16, &str, &[(&str, Option<&str>)])| {
        let (server, _) = Server::remembering(stdout);
        let proxy = proxy_for(&server, "header \"X-Step\" \"ran\"", "");
        let reply = ask(proxy.address, method, "/", &[], b"");
        let (status, body, fields) = expected;
        assert_eq!((reply.status, reply.text().as_str(), reply.is_whole), (status, body, true), "{}", reply.head);
        assert_eq!(reply.field("x-step"), Some("ran"));
        for (name, value) in fields {
            assert_eq!(reply.field(name), *value, "{name} in {}", reply.head);
        }
    };
    check(b"\r\nok", "GET", (200, "ok", &[("content-length", Some("2"))]));
    check(b"Status: 404 Gone Fishing\r\n\r\nno", "GET", (404, "no", &[]));
    check(b"Status: 201\nX-A: b\nConnection: close, x-a\n\nok", "GET", (201, "ok", &[("x-a", Some("b"))]));
    check(b"Location: https://a.test/\r\n\r\n", "GET", (302, "", &[("location", Some("https://a.test/"))]));
    check(b"Location: /elsewhere\r\n\r\n", "GET", (302, "", &[("location", Some("/elsewhere"))]));
    check(b"Status: 201\r\nLocation: /made\r\n\r\nx", "GET", (201, "x", &[("location", Some("/made"))]));
    check(b"Status: 204\r\n\r\nnot sent", "GET", (204, "", &[("content-length", None)]));
    check(b"Content-Length: 7\r\n\r\n", "HEAD", (200, "", &[("content-length", Some("7"))]));
    check(b"\r\nsent all the same", "HEAD", (200, "", &[]));
    check(b"Keep-Alive: x\r\nUpgrade: h2c\r\n\r\nok", "GET", (200, "ok", &[("upgrade", None), ("keep-alive", None)]));
}

#[test]
fn a_long_answer_waits_for_its_client() {
    let (tell, told) = channel();
    let server = Server::start(move |_, stream| {
        if read_request(stream).is_none() {
            return;
        }
        let _ = stream.write_all(&record(STDOUT, b"\r\n"));
        let (piece, mut sent) = (record(STDOUT, &b"x".repeat(60_000)), 0_u64);
        stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a bound");
        // Far more than what sockets hold.
        while sent < 1 << 30 && stream.write_all(&piece).is_ok() {
            sent += 60_000;
        }
        let _ = tell.send(sent);
    });
    let proxy = proxy_for(&server, "", "");
    let mut client = connect(proxy.address);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    // Nobody reads.
    let sent = told.recv_timeout(BOUND).expect("it stops");
    assert!(sent < 256 << 20, "{sent} bytes were taken for a client that reads none");
    assert!(proxy.program.resident_kib().is_some_and(|resident| resident < 256 << 10));
}
