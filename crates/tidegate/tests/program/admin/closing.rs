//! Connections of clients that somebody looks for and ends, and what holds beside what is written.

use crate::admin::asked::Asked;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
threads 1
pool "app" { server "127.0.0.1:{closed:app}"; }
pool "spare" { server "127.0.0.1:{closed:spare}"; }
site "http://127.0.0.1:{port}" { respond 200 body="first" }
site "http://127.0.0.1:{port:second}" {
    route "/own" { respond 200 body="second" }
    proxy "app"
}
"#;

/// A connection that has had an answer, and stays open.
fn opened(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a bound");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = Vec::new();
    while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).expect("an answer");
        assert!(count > 0, "closed: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..count]);
    }
    stream
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a bound");
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn count(asked: &Asked, filter: &str) -> usize {
    let reply = asked.get(&format!("/v1/connections{filter}"));
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["connections"].as_array().expect("a list").len()
}

#[test]
fn connections_are_found_and_closed_by_site_pool_and_age() {
    let mut asked = Asked::of(CONFIG, &[]);
    let (first, second) = (asked.proxy.address, asked.proxy.places.fill("127.0.0.1:{port:second}").expect("a port"));
    let second: SocketAddr = second.parse().expect("an address");
    let (mut one, mut other, mut proxied) = (opened(first, "/"), opened(second, "/own"), opened(second, "/app"));
    let site = |address: SocketAddr| format!("?site=http://{address}");
    assert_eq!((count(&asked, ""), count(&asked, &site(first)), count(&asked, &site(second))), (3, 1, 2));
    assert_eq!((count(&asked, "?pool=app"), count(&asked, "?pool=spare")), (1, 0));
    assert_eq!((count(&asked, "?client=127.0.0.1"), count(&asked, "?client=192.0.2.1")), (3, 0));
    assert_eq!((count(&asked, "?older_than=1h"), count(&asked, "?kind=http/1")), (0, 3));
    let close = |filter: &str| asked.send("DELETE", &format!("/v1/connections{filter}"), &[], "");
    asked.refuses(&close(""), 400, "bad-request");
    asked.refuses(&close("?older_than=soon"), 400, "bad-request");
    asked.refuses(&close("?name=x"), 400, "bad-request");
    assert_eq!(close("?older_than=1h").json(), json!({ "closed": 0 }));
    assert_eq!(close("?pool=app").json(), json!({ "closed": 1 }));
    assert!(is_closed(&mut proxied));
    assert_eq!(close(&site(first)).json(), json!({ "closed": 1 }));
    assert!(is_closed(&mut one));
    let id = asked.get("/v1/connections").json()["connections"][0]["id"].to_string();
    assert_eq!(close(&format!("/{id}")).json(), json!({ "closed": 1 }));
    assert!(is_closed(&mut other));
    let begin = Instant::now();
    while count(&asked, "") > 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "they are gone");
        std::thread::sleep(Duration::from_millis(20));
    }
    asked.refuses(&close(&format!("/{id}")), 404, "not-found");
    asked.refuses(&close("/x"), 400, "bad-request");
    assert_eq!(close("?all=true").json(), json!({ "closed": 0 }));
}

fn value_of(settings: &Value, name: &str) -> String {
    let setting = settings.as_array().expect("a list").iter().find(|setting| setting["name"] == name);
    setting.unwrap_or_else(|| panic!("{name} in {settings}"))["value"].as_str().expect("a text").to_owned()
}

#[test]
fn what_holds_is_said_beside_what_is_written() {
    let mut asked = Asked::of(CONFIG, &[]);
    let second = asked.proxy.places.fill("127.0.0.1:{port:second}").expect("a place");
    let of = |path: &str| {
        let reply = asked.get(&format!("/v1/configuration{path}?defaults=true"));
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    };
    let whole = of("");
    assert_eq!((value_of(&whole["settings"], "drain"), value_of(&whole["settings"], "threads")), ("30s".into(), "1".into()));
    assert_eq!(whole["pools"][0]["name"], "app");
    assert_eq!(value_of(&of("/pools/app"), "balance"), "p2c");
    assert_eq!(value_of(&of("/settings/drain"), "drain"), "30s");
    // Nothing of these is written, and each has defaults.
    let site = format!("/sites/{}", format!("http://{second}").replace('/', "%2F").replace(':', "%3A"));
    assert_eq!(value_of(&of(&site), "path-policy slashes"), "pass");
    assert_eq!(value_of(&of(&format!("{site}/routes/0")), "request-id header"), "X-Request-Id");
    assert_eq!(value_of(&of(&format!("{site}/routes/0")), "respond"), "200");
    let server = whole["pools"][0]["parts"][0]["name"].as_str().expect("a server").to_owned();
    assert_eq!(value_of(&of(&format!("/pools/app/servers/{server}")), "server weight"), "1");
    assert_eq!(value_of(&of(&format!("/listeners/{second}")), "websocket-over-http2"), "#true");
    assert_eq!(value_of(&of("/access-log/stdout"), "access-log format"), "json");
    let admin = asked.proxy.admin.clone();
    assert_eq!(value_of(&of(&format!("/admin/{admin}")), "admin serve"), "everything");
    let counts = ["pools", "sites", "listeners", "tcp", "maps", "admin", "access_logs"];
    let counted = counts.map(|list| whole[list].as_array().map_or(0, Vec::len));
    assert_eq!(counted, [2, 2, 2, 0, 0, 1, 1], "{whole}");
    // Of a list, all of its parts.
    for (list, of_whole) in counts.iter().map(|list| (list.replace('_', "-"), &whole[*list])) {
        assert_eq!(&of(&format!("/{}", if list == "access-logs" { "access-log" } else { list.as_str() })), of_whole, "{list}");
    }
    assert_eq!(of("/pools/app/servers"), whole["pools"][0]["parts"]);
    assert_eq!(value_of(&of(&format!("{site}/routes"))[0]["settings"], "respond"), "200");
    asked.refuses(&asked.get("/v1/configuration/pools/none/servers?defaults=true"), 404, "not-found");
    asked.refuses(&asked.get("/v1/configuration/pools?default=true"), 400, "bad-request");
    asked.refuses(&asked.get(&format!("/v1/configuration{site}/routes/9?defaults=true")), 404, "not-found");
    asked.refuses(&asked.get("/v1/configuration/pools/none?defaults=true"), 404, "not-found");
    asked.refuses(&asked.get("/v1/configuration?defaults=yes"), 400, "bad-request");
    asked.refuses(&asked.get("/v1/configuration/settings/drain"), 404, "not-found");
}

#[test]
fn a_pool_that_is_used_says_by_whom() {
    let asked = Asked::of(CONFIG, &[]);
    let refused = asked.send("DELETE", "/v1/configuration/pools/app", &[], "");
    asked.refuses(&refused, 409, "in-use");
    let detail = refused.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.contains("route 2 of http://127.0.0.1:"), "{detail}");
    assert_eq!(asked.send("DELETE", "/v1/configuration/pools/spare", &[], "").status, 200);
    assert_eq!(asked.get("/v1/generations?since=2100-01-01T00:00:00Z").json()["generations"].as_array().map(Vec::len), Some(1));
    asked.refuses(&asked.get("/v1/generations?since=yesterday"), 400, "bad-request");
}
