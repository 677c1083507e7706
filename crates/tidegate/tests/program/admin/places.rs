//! Several places of the admin endpoint: what each serves, whom the API lets do what, where commands find it, and what
//! is left of it in a process that drains behind its successor.

use crate::admin::Ended;
use crate::admin::asked::{Asked, PROGRAM, TYPED};
use crate::admin::plain::{over_tcp, over_unix};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::process::Output;
use std::time::Duration;
use tidegate_testkit::{Proxy, get};

const SITE: &str = "threads 1\naccess-log \"off\"\nsite \"http://:{port}\" { respond 200 body=\"first\"; }\n";
const TOKEN: &str = "a-token-of-this-test";
const READ_TOKEN: &str = "a-token-to-look-with";

fn start(admin: &str) -> Proxy {
    Proxy::start(PROGRAM, &format!("{admin}\n{SITE}")).expect("the proxy starts")
}

/// A command with the configuration and the state folder of the process, and no other help.
fn command(proxy: &Proxy, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(PROGRAM);
    command.args(arguments).arg("--config").arg(proxy.places.config_file());
    command.env("STATE_DIRECTORY", proxy.places.folder().join("state")).env_remove("TIDEGATE_ADMIN_TOKEN");
    command.output().expect("the command runs")
}

fn works(output: &Output) {
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("generation 1"), "{output:?}");
}

/// An address of this machine that others could ask as well.
fn address_of_network() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent (RFC 5737).
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn a_place_for_metrics_has_no_api_and_commands_find_it_in_the_state_folder() {
    let proxy = start("admin \"0.0.0.0:{admin}\" serve=\"metrics\"");
    for open in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(over_tcp(&proxy.admin, "GET", open, &[], "").status, 200, "{open}");
    }
    let refused = over_tcp(&proxy.admin, "GET", "/v1/status", &[], "");
    assert_eq!((refused.status, &refused.json()["type"]), (404, &json!("urn:tidegate:problem:not-found")));
    works(&command(&proxy, &["status"]));
    let socket = proxy.places.folder().join("state/admin.sock");
    assert_eq!(over_unix(&socket, "GET", "/v1/status", &[], "").status, 200);
    assert!(!proxy.places.folder().join("state/admin-token").exists(), "nobody needs a token");
}

#[test]
fn commands_reach_a_process_that_listens_on_every_address() {
    let proxy = start("admin \"0.0.0.0:{admin}\"");
    works(&command(&proxy, &["status"]));
    let bad = over_tcp(&proxy.admin, "GET", "/v1/status", &["Authorization: Bearer 00"], "");
    assert_eq!((bad.status, &bad.json()["type"]), (401, &json!("urn:tidegate:problem:unauthorised")));
    let Some(address) = address_of_network() else {
        println!("skipped: this machine has no address of a network");
        return;
    };
    // The token of the state folder is not taken from the network, where it would go in the clear.
    let token = std::fs::read_to_string(proxy.places.folder().join("state/admin-token")).expect("it is made");
    let port = proxy.admin.rsplit_once(':').expect("a port").1;
    let header = format!("Authorization: Bearer {}", token.trim());
    let reply = over_tcp(&format!("{address}:{port}"), "GET", "/v1/status", &[&header], "");
    assert_eq!((reply.status, &reply.json()["type"]), (403, &json!("urn:tidegate:problem:no-token")));
}

/// The file has changed under the process, which is still where it was; the process of another file is not meant.
#[test]
fn commands_find_the_process_of_a_file_that_says_another_place_or_none() {
    let proxy = start("admin \"127.0.0.1:{admin}\" serve=\"metrics\"");
    let file = proxy.places.config_file();
    let written = std::fs::read_to_string(&file).expect("the file");
    let changed: [String; 4] = [
        format!("admin \"unix:/nowhere/admin.sock\"\n{written}"),
        format!("admin \"off\"\nsite \"http://:{}\" {{ respond 200; }}\n", proxy.address.port()),
        format!("{written}site \"http://b.test\" {{ respond 200 body=\"{{env.NOT_OF_A_SHELL}}\"; }}\n"),
        format!("{written}site {{{{ \n"),
    ];
    for text in changed {
        std::fs::write(&file, text).expect("a file");
        works(&command(&proxy, &["status"]));
    }
    let other = proxy.places.folder().join("other.kdl");
    std::fs::write(&other, "admin \"unix:/nowhere/admin.sock\"\nsite \"http://:1\" { respond 200; }\n").expect("a file");
    let mut status = std::process::Command::new(PROGRAM);
    status.args(["status", "--config"]).arg(&other).env("STATE_DIRECTORY", proxy.places.folder().join("state"));
    let output = status.output().expect("the command runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// A socket that was opened for a change goes with it when the change is refused.
#[test]
fn a_refused_change_leaves_no_socket() {
    let mut proxy = start("admin \"127.0.0.1:{admin}\"");
    let socket = proxy.places.folder().join("new.sock");
    let refused = format!(
        "admin \"127.0.0.1:{{admin}}\"\nadmin \"unix:{}\"\n{SITE}site \"http://192.0.2.1:9\" {{ respond 200; }}\n",
        socket.display()
    );
    proxy.apply(&refused).expect_err("nobody has that address");
    assert!(!socket.exists());
    works(&command(&proxy, &["status", "--admin", &proxy.admin.clone()]));
}

#[test]
fn a_token_to_look_with_changes_nothing() {
    let admin = format!("admin \"127.0.0.1:{{admin}}\" token=\"{TOKEN}\" read-token=\"{READ_TOKEN}\"");
    let asked = Asked::of(&format!("{admin}\n{SITE}"), &[]);
    let look = |method: &str, path: &str, body: &str| {
        let token = format!("Authorization: Bearer {READ_TOKEN}");
        asked.send_as_is(method, path, &[&token, TYPED], body)
    };
    for path in ["/v1/status", "/v1/configuration", "/v1/connections", "/v1/openapi.json"] {
        assert_eq!(look("GET", path, "").status, 200, "{path}");
    }
    let question = json!({ "method": "GET", "url": format!("http://{}/", asked.proxy.address) }).to_string();
    assert_eq!(look("POST", "/v1/explain", &question).status, 200);
    for path in ["/v1/apply", "/v1/plan", "/v1/confirm", "/v1/generations/1/rollback", "/v1/upgrade"] {
        asked.refuses(&look("POST", path, "{}"), 403, "read-only");
    }
    asked.refuses(&look("DELETE", "/v1/configuration/settings/threads", ""), 403, "read-only");
    assert_eq!(asked.post("/v1/plan", &json!({})).status, 200);
    assert!(!asked.get("/v1/configuration").text.contains(READ_TOKEN), "it is a secret");
}

#[test]
fn places_come_and_go_with_the_configuration() {
    let mut proxy = start("admin \"127.0.0.1:{admin}\" serve=\"metrics\"");
    let socket = proxy.places.folder().join("state/admin.sock");
    let first = proxy.admin.clone();
    // Where metrics were is the API now, and the socket that nobody wrote is left.
    proxy.apply(&format!("admin \"127.0.0.1:{{admin}}\" token=\"{TOKEN}\"\n{SITE}")).expect("applied");
    assert_eq!(proxy.admin, first);
    let token = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(over_tcp(&first, "GET", "/v1/status", &[&token], "").status, 200);
    assert!(!socket.exists());
    // A second place beside it, and the first one for metrics alone.
    let two = "admin \"127.0.0.1:{admin}\" serve=\"metrics\"\nadmin \"127.0.0.1:{admin:other}\" token=\"a-token-of-this-test\"";
    proxy.apply(&format!("{two}\n{SITE}")).expect("applied");
    assert_eq!(over_tcp(&first, "GET", "/v1/status", &[&token], "").status, 404);
    let other = proxy.places.fill("127.0.0.1:{admin:other}").expect("a port");
    proxy.program.wait_until("at both places", || get(&other, "/readyz").is_ok()).expect("it serves");
    assert_eq!(over_tcp(&other, "GET", "/v1/status", &[&token], "").status, 200);
    assert_eq!(over_tcp(&other, "GET", "/metrics", &[], "").status, 200);
    // One is removed, and the other knows nothing of it.
    proxy.apply(&format!("admin \"127.0.0.1:{{admin}}\" serve=\"metrics\"\n{SITE}")).expect("applied");
    proxy.program.wait_until("at one place", || TcpStream::connect(&other).is_err()).expect("it is left");
    assert_eq!(over_unix(&socket, "GET", "/v1/status", &[], "").status, 200, "{}", proxy.program.output());
}

#[test]
fn a_process_that_drains_behind_its_successor_can_be_asked_for_metrics() {
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let slow = "admin \"127.0.0.1:{admin}\"\ndrain \"60s\"\nthreads 1\naccess-log \"off\"\nsite \"http://:{port}\" { proxy \"UPSTREAM\"; }\n";
    let mut asked = Asked::of(&slow.replace("UPSTREAM", &upstream.local_addr().expect("bound").to_string()), &[]);
    assert_eq!(asked.send_as_is("GET", "/metrics/draining", &[], "").text, "");
    let mut client = TcpStream::connect(asked.proxy.address).expect("it listens");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("sent");
    let (mut request, _) = upstream.accept().expect("it is sent on");
    let _ = request.read(&mut [0; 1024]).expect("a head");
    let process = asked.proxy.program.id();
    let upgraded = asked.post("/v1/upgrade", &json!({}));
    assert_eq!(upgraded.status, 200, "{}\n{}", upgraded.text, asked.proxy.program.output());
    let _successor = Ended(upgraded.json()["process_id"].to_string());
    let series = format!("tidegate_upstream_connections_active{{process=\"{process}\",");
    let admin = asked.proxy.admin.clone();
    let draining = || over_tcp(&admin, "GET", "/metrics/draining", &[], "").text;
    let begin = std::time::Instant::now();
    let seen = loop {
        let seen = draining();
        if seen.contains(&series) || begin.elapsed() > Duration::from_secs(20) {
            break seen;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let line = seen.lines().find(|line| line.starts_with(&series)).unwrap_or_else(|| panic!("{seen}"));
    assert!(line.ends_with(" 1"), "{line}");
    request.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").expect("answered");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("ok"), "{answer}");
    assert_eq!(asked.proxy.program.wait_exit(Duration::from_secs(20)), Ok(0), "{}", asked.proxy.program.output());
    assert_eq!(draining(), "");
    let state = asked.proxy.places.folder().join("state");
    let left = std::fs::read_dir(state).expect("a folder").filter_map(Result::ok);
    let left: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().starts_with("draining")).collect();
    assert!(left.is_empty(), "{left:?}");
}
