//! Pools of FastCGI servers: what a pool does for HTTP it does for scripts.

use crate::fastcgi::PROGRAM;
use crate::fastcgi::client::{ask, get};
use crate::fastcgi::server::{STDOUT, Server, answer, end, read_request, record};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_testkit::case::Places;
use tidegate_testkit::program::Surroundings;
use tidegate_testkit::proxy::{Proxy, replace_file};

/// A configuration whose pool `php` has these lines, and a route to it.
fn config(lines: &str) -> String {
    format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 1\naccess-log \"{{dir}}/access.log\"\npool \"php\" {{\nprotocol \"fastcgi\"\n{lines}\n}}\n\
         site \"http://:{{port}}\" {{ fastcgi \"php\" root=\"/srv\" fallback=\"/a.php\"; }}\n"
    )
}

fn start(lines: &str) -> Proxy {
    Proxy::start(PROGRAM, &config(lines)).expect("it starts")
}

/// Answers every request with its name.
fn named(name: &'static [u8]) -> Server {
    Server::remembering(name).0
}

fn texts(proxy: &Proxy, count: usize) -> Vec<String> {
    (0..count).map(|_| get(proxy.address, "/").text()).collect()
}

#[test]
fn requests_are_spread_over_the_servers_of_a_pool() {
    let (one, two) = (named(b"\r\none"), named(b"\r\ntwo"));
    let lines = format!("server \"{}\"\nserver \"{}\"\nbalance \"round-robin\"", one.address, two.address);
    let proxy = start(&lines);
    let seen = texts(&proxy, 10);
    assert_eq!(seen.iter().filter(|text| *text == "one").count(), 5, "{seen:?}");
    let metrics = proxy.metrics().expect("metrics");
    assert_eq!(metrics.sum("tidegate_upstream_requests_total{pool=\"php\"}") as u32, 10, "{}", metrics.lines_of("tidegate_"));
}

#[test]
fn what_one_server_cannot_do_another_does() {
    let check = |what: &str, bad: Server, method: &str, expected: u16| {
        let good = named(b"\r\ngood");
        let lines = format!("server \"{}\"\nserver \"{}\" backup=#true", bad.address, good.address);
        let proxy = start(&lines);
        let reply = ask(proxy.address, method, "/", &[], if method == "POST" { b"a=b" } else { b"" });
        assert_eq!(reply.status, expected, "{what}: {}", reply.text());
        assert!(bad.connections.load(Ordering::Acquire) > 0, "{what}: the first one was asked");
    };
    check("it ends without a word", Server::always(Vec::new()), "GET", 200);
    check("it ends without a word, and a script could run twice", Server::always(Vec::new()), "POST", 502);
    check("it has no place, and has looked at nothing", Server::always(end(2)), "POST", 200);
    let silent = Server::start(|_, stream| drop(read_request(stream)));
    let closed = silent.address;
    drop(silent);
    let good = named(b"\r\ngood");
    let proxy = start(&format!("server \"{closed}\"\nserver \"{}\" backup=#true", good.address));
    assert_eq!(ask(proxy.address, "POST", "/", &[], b"a=b").text(), "good", "nobody listens");
}

#[test]
fn a_check_takes_a_server_out_of_its_pool() {
    let (down, up) = (named(b"\r\ndown"), named(b"\r\nup"));
    let lines = format!(
        "server \"{}\"\nserver \"{}\"\nbalance \"round-robin\"\nhealth type=\"tcp\" interval=\"100ms\" fall=1",
        down.address, up.address
    );
    let mut proxy = start(&lines);
    drop(down);
    proxy.wait_for_log("a server is down").expect("the check fails");
    assert_eq!(texts(&proxy, 6), ["up"; 6]);
}

#[test]
fn a_check_asks_for_a_path_and_looks_at_the_answer() {
    let check = |what: &str, bad: Server, health: &str, expected: &str| {
        let (good, seen) = Server::remembering(b"\r\npong\n");
        let lines = format!(
            "server \"{}\"\nserver \"{}\"\nbalance \"round-robin\"\nhealth \"/ping?full\" interval=\"200ms\" fall=1 {health}",
            bad.address, good.address
        );
        let mut proxy = start(&lines);
        proxy.wait_for_log("a server is down").unwrap_or_else(|error| panic!("{what}: {error}"));
        proxy.wait_for_log(expected).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(texts(&proxy, 6), ["pong\n"; 6], "{what}");
        let seen = seen.lock().expect("no panic");
        let asked = seen.iter().find(|asked| asked.param("HTTP_USER_AGENT") == Some("tidegate-health")).expect("a check");
        assert!(!asked.keeps && asked.body.is_empty(), "{what}");
        for (name, value) in [
            ("SCRIPT_NAME", "/ping"),
            ("SCRIPT_FILENAME", "/ping"),
            ("REQUEST_URI", "/ping?full"),
            ("QUERY_STRING", "full"),
            ("REQUEST_METHOD", "GET"),
            ("HTTP_HOST", &good.address.to_string()),
            ("SERVER_NAME", "127.0.0.1"),
        ] {
            assert_eq!(asked.param(name), Some(value), "{what}: {name}");
        }
    };
    let status = || Server::always(answer(b"Status: 503 Busy\r\n\r\npong"));
    check("its status", status(), "", "answered 503, expected 200-399");
    check("its body", Server::always(answer(b"\r\nno")), "body=\"pong\"", "the body is not `pong`");
    check("no place", Server::always(end(2)), "", "no valid FastCGI answer");
    check("no answer", Server::always(end(0)), "", "no valid FastCGI answer");
    check("no FastCGI", Server::always(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()), "", "no valid FastCGI answer");
    check("half of one", Server::always(record(STDOUT, b"A: b")), "", "closed the connection before the end of its answer");
    let silent = Server::start(|_, stream| {
        let _ = read_request(stream);
        std::thread::sleep(Duration::from_secs(20));
    });
    check("silence", silent, "timeout=\"150ms\"", "no answer within 150ms");
}

#[test]
fn no_more_requests_at_once_than_a_server_may_have() {
    let (busy, most) = (Arc::new(Mutex::new(0_usize)), Arc::new(Mutex::new(0_usize)));
    let (counted, seen) = (busy.clone(), most.clone());
    let server = Server::start(move |_, stream| {
        if read_request(stream).is_none() {
            return;
        }
        let now = {
            let mut busy = counted.lock().expect("no panic");
            *busy += 1;
            *busy
        };
        let most = (*seen.lock().expect("no panic")).max(now);
        *seen.lock().expect("no panic") = most;
        std::thread::sleep(Duration::from_millis(50));
        *counted.lock().expect("no panic") -= 1;
        let _ = stream.write_all(&answer(b"\r\nok"));
    });
    let proxy = start(&format!("server \"{}\"\nmax-requests 2 queue=100 queue-timeout=\"20s\"", server.address));
    let address = proxy.address;
    let askers: Vec<_> = (0..8).map(|_| std::thread::spawn(move || get(address, "/").status)).collect();
    let statuses: Vec<u16> = askers.into_iter().map(|asker| asker.join().expect("no panic")).collect();
    assert_eq!(statuses, [200; 8]);
    assert!(*most.lock().expect("no panic") <= 2);

    let proxy = start(&format!("server \"{}\"\nmax-requests 1 queue=0", server.address));
    let address = proxy.address;
    let is_refused = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> = (0..8)
        .map(|_| {
            let is_refused = is_refused.clone();
            std::thread::spawn(move || is_refused.fetch_or(get(address, "/").text().contains("pool_full"), Ordering::AcqRel))
        })
        .collect();
    for asker in askers {
        asker.join().expect("no panic");
    }
    assert!(is_refused.load(Ordering::Acquire), "without a queue those beyond are refused");
}

#[test]
fn connections_outlive_a_change_of_the_configuration() {
    let (server, seen) = Server::remembering(b"\r\nok");
    let lines = |more: &str| format!("server \"{}\"\nkeep-alive connections=2 idle=\"1h\"\n{more}", server.address);
    let mut proxy = start(&lines(""));
    assert_eq!(get(proxy.address, "/").text(), "ok");
    proxy.apply(&config(&lines("timeout first-byte=\"30s\""))).expect("applied");
    assert_eq!(get(proxy.address, "/").text(), "ok");
    assert_eq!(server.connections.load(Ordering::Acquire), 1);
    assert!(seen.lock().expect("no panic").iter().all(|asked| asked.keeps));
}

#[test]
fn servers_are_found_in_a_file() {
    let (one, two) = (named(b"\r\none"), named(b"\r\ntwo"));
    let places = Places::new().expect("a folder");
    let file = places.folder().join("servers.json");
    replace_file(&file, &format!("[\"{}\"]", one.address)).expect("written");
    let config = config("discover file=\"{dir}/servers.json\"");
    let mut proxy = Proxy::start_in(places, PROGRAM, &config, &[], &Surroundings::default()).expect("it starts");
    assert_eq!(texts(&proxy, 3), ["one"; 3]);
    replace_file(&file, &format!("[\"{}\"]", two.address)).expect("written");
    proxy.wait_for_log("the servers of a pool changed").expect("it is seen");
    assert_eq!(texts(&proxy, 3), ["two"; 3]);
}
