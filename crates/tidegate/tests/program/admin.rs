//! The admin API against the real program: each address, each error, who may ask, and that answers are what the API's
//! own description says. The commands that use it are in `tests/cases/cli`.

mod asked;
mod closing;
mod configuration;
mod described;
mod held;
mod past;
mod places;
mod plain;
mod secrets;
mod writing;

use asked::Asked;
use plain::{Reply, over_unix};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tidegate_testkit::get;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "off"
threads 1
pool "app" { server "UPSTREAM"; server "127.0.0.1:{closed:spare}" backup=#true; }
map "moved" key="{path}" { row "/a" "/b"; row "/c*" "/d"; }
site "http://:{port}" {
    route "/own" { respond 200 body="first" }
    route "/id" { respond 200 body="{request.id}" }
    route "/moved/*" { redirect "{map.moved}" }
    route { proxy "app" }
}
site "https://:{port:tls}" { tls cert="{cert:example.com}" key="{key:example.com}"; respond 200 }
"#;

impl Asked {
    fn start() -> Asked {
        let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
        Asked::of(&CONFIG.replace("UPSTREAM", &upstream.address.to_string()), &[])
    }
}

#[test]
fn each_answer_is_what_the_description_says() {
    let asked = Asked::start();
    let document = asked.get("/v1/openapi.json").json();
    let checked = RefCell::new(BTreeSet::from(["/v1/openapi.json".to_owned(), "/v1/upgrade".to_owned()]));
    let upstream = asked.get("/v1/pools/app").json()["servers"][0]["address"].as_str().expect("an address").to_owned();
    assert_eq!(get(&asked.proxy.address.to_string(), "/bytes/5").expect("answered").0, 200);
    let request = past::request(&asked);
    let check = |method: &str, template: &str, path: &str, body: Value, expected: &[(&str, Value)]| {
        let reply = if method == "get" { asked.get(path) } else { asked.post(path, &body) };
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        checked.borrow_mut().insert(template.to_owned());
        let answer = reply.json();
        let schema = &document["paths"][template][method]["responses"]["200"]["content"]["application/json"]["schema"];
        described::check(&document, schema, &answer, path);
        for (pointer, value) in expected {
            assert_eq!(answer.pointer(pointer), Some(value), "{path}: {}", reply.text);
        }
        let is_tagged = document["paths"][template][method]["responses"]["200"]["headers"]["ETag"].is_object();
        assert_eq!(reply.header("etag").is_some(), is_tagged, "{path}");
    };
    let get = |path: &str, expected: &[(&str, Value)]| check("get", path, path, Value::Null, expected);
    get("/v1/status", &[("/generation", json!(1)), ("/origin", json!("start")), ("/drift", json!([]))]);
    get("/v1/listeners", &[("/listeners/0/scheme", json!("http")), ("/listeners/0/draining", json!(false))]);
    get("/v1/connections", &[]);
    let past = format!("/v1/requests/{request}");
    check(
        "get",
        "/v1/requests/{id}",
        &past,
        Value::Null,
        &[("/id", json!(request)), ("/explanation/outcome/kind", json!("responds"))],
    );
    get("/v1/certificates", &[("/certificates/0/names", json!(["example.com"])), ("/certificates/0/source", json!("files"))]);
    get("/v1/pools", &[("/generation", json!(1)), ("/pools/0/requests", json!(1)), ("/pools/0/servers/1/priority", json!(1))]);
    check("get", "/v1/pools/{name}", "/v1/pools/app", Value::Null, &[("/name", json!("app"))]);
    let server = upstream.strip_prefix("http://").unwrap_or(&upstream);
    let drain = format!("/v1/pools/app/servers/{server}");
    let path = "/v1/pools/{name}/servers/{address}";
    check("post", &format!("{path}/drain"), &format!("{drain}/drain"), json!({}), &[("/state", json!("draining"))]);
    let question = json!({ "method": "GET", "url": format!("http://{}/x", asked.proxy.address), "headers": ["A: b"] });
    check(
        "post",
        "/v1/explain",
        "/v1/explain",
        question,
        &[
            ("/outcome/kind", json!("proxied")),
            ("/pool/servers/0/state", json!("draining")),
            ("/other_routes/0/why", json!("path")),
        ],
    );
    check("post", &format!("{path}/undrain"), &format!("{drain}/undrain"), json!({}), &[("/state", json!("serving"))]);
    get("/v1/maps", &[("/maps/0/name", json!("moved")), ("/maps/0/rows", json!(2)), ("/maps/0/fault", Value::Null)]);
    check("get", "/v1/maps/{name}", "/v1/maps/moved", Value::Null, &[("/key", json!("{path}")), ("/changed_rows", json!(0))]);
    let rows = "/v1/maps/{name}/rows";
    check("get", rows, "/v1/maps/moved/rows?from=1", Value::Null, &[("/count", json!(2)), ("/rows/0/key", json!("/c*"))]);
    let row = format!("{rows}/{{key}}");
    check("get", &row, "/v1/maps/moved/rows/%2Fa", Value::Null, &[("/value", json!("/b")), ("/changed", json!(false))]);
    let in_use = asked.send("DELETE", "/v1/configuration/maps/moved", &[], "");
    asked.refuses(&in_use, 409, "in-use");
    assert!(in_use.text.contains("the map `moved` is used in "), "{}", in_use.text);
    get("/v1/cache", &[("/objects", json!(0)), ("/disk", Value::Null)]);
    check("post", "/v1/cache/purge", "/v1/cache/purge", json!({ "all": true }), &[("/purged", json!(0))]);
    let changed = asked.changed("body=\"first\"", "body=\"second\"");
    check("post", "/v1/plan", "/v1/plan", changed.clone(), &[("/generation", json!(1)), ("/plan/empty", json!(false))]);
    assert_eq!(asked.own(), "first");
    check("post", "/v1/apply", "/v1/apply", changed, &[("/generation", json!(2)), ("/changed", json!(true))]);
    assert_eq!(asked.own(), "second");
    get("/v1/status", &[("/generation", json!(2)), ("/origin", json!("apply <test>"))]);
    get("/v1/generations", &[("/running", json!(2)), ("/generations/1/running", json!(true))]);
    check("get", "/v1/generations/{n}", "/v1/generations/1", Value::Null, &[("/number", json!(1)), ("/running", json!(false))]);
    let difference = "/v1/generations/{from}/difference/{to}";
    check("get", difference, "/v1/generations/1/difference/2", Value::Null, &[("/plan/sites/0/change", json!("changed"))]);
    let rollback = "/v1/generations/{n}/rollback";
    check("post", rollback, "/v1/generations/1/rollback", json!({}), &[("/generation", json!(3)), ("/changed", json!(true))]);
    assert_eq!(asked.own(), "first");
    check("post", "/v1/apply", "/v1/apply", json!({}), &[("/changed", json!(false)), ("/generation", json!(3))]);
    let mut waiting = asked.changed("body=\"first\"", "body=\"third\"");
    waiting["confirm_within_seconds"] = json!(600);
    check("post", "/v1/apply", "/v1/apply", waiting, &[("/confirm_within_seconds", json!(600))]);
    get("/v1/status", &[("/awaits_confirmation/back_to", json!(3))]);
    check("post", "/v1/confirm", "/v1/confirm", json!({}), &[("/generation", json!(4))]);
    let described = document["paths"].as_object().expect("an object").keys();
    // What `configuration` and `closing` try, and `acme.rs`, beside a CA.
    let is_elsewhere = |path: &String| {
        path.starts_with("/v1/configuration") || path.starts_with("/v1/certificates/{name}/") || path == "/v1/connections/{id}"
    };
    let described: BTreeSet<String> = described.filter(|path| !is_elsewhere(path)).cloned().collect();
    assert_eq!(*checked.borrow(), described, "an address that is not tried here");
}

#[test]
fn every_address_stands_in_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin-api.md");
    let page = fs::read_to_string(page).expect("readable");
    let document = Asked::start().get("/v1/openapi.json").json();
    let is_said = |line: &str, verb: &str, path: &str| {
        line.contains(&format!("`{verb} {path}`")) || (line.contains(&format!("`{verb}`")) && line.contains(&format!("`{path}`")))
    };
    for (path, verbs) in document["paths"].as_object().expect("an object") {
        for verb in verbs.as_object().expect("an object").keys().map(|verb| verb.to_uppercase()) {
            assert!(page.lines().any(|line| is_said(line, &verb, path)), "{verb} {path} is not in docs/admin-api.md");
        }
    }
}

#[test]
fn each_error_says_what_is_wrong() {
    let asked = Asked::start();
    let typed = ["Content-Type: application/json"];
    let apply = |body: &str| asked.send("POST", "/v1/apply", &typed, body);
    asked.refuses(&apply("{"), 400, "bad-request");
    let wrong = apply("{\"text\": 5}");
    asked.refuses(&wrong, 400, "bad-request");
    assert!(wrong.json()["detail"].as_str().is_some_and(|detail| detail.contains("`text`")), "{}", wrong.text);
    asked.refuses(&apply("{\"txt\": \"\"}"), 400, "bad-request");
    asked.refuses(&apply("{\"file\": \"a.kdl\"}"), 400, "bad-request");
    asked.refuses(&apply("{\"confirm_within_seconds\": 0}"), 400, "bad-request");
    asked.refuses(&asked.send("POST", "/v1/confirm", &typed, "{\"a\": 1}"), 400, "bad-request");
    asked.refuses(&asked.send("POST", "/v1/confirm", &["If-Match: 1"], ""), 400, "bad-request");
    asked.refuses(&asked.get("/v1/connections?limt=5"), 400, "bad-request");
    asked.refuses(&asked.get("/v1/connections?limit=many"), 400, "bad-request");
    asked.refuses(&asked.get("/v1/generations/one"), 400, "bad-request");
    asked.refuses(&asked.post("/v1/explain", &json!({ "method": "GET", "url": "example.com" })), 400, "bad-request");
    asked.refuses(&asked.get("/v1/nothing"), 404, "not-found");
    asked.refuses(&asked.get("/v1"), 404, "not-found");
    asked.refuses(&asked.get("/v1/pools/none"), 404, "not-found");
    asked.refuses(&asked.post("/v1/pools/app/servers/10.0.0.1:1/drain", &json!({})), 404, "not-found");
    asked.refuses(&asked.get("/v1/generations/9"), 404, "no-such-generation");
    asked.refuses(&asked.get("/v1/generations/1/difference/9"), 404, "no-such-generation");
    asked.refuses(&asked.post("/v1/generations/9/rollback", &json!({})), 404, "no-such-generation");
    let wrong_method = asked.get("/v1/apply");
    asked.refuses(&wrong_method, 405, "wrong-method");
    assert_eq!(wrong_method.header("allow"), Some("POST"));
    asked.refuses(&asked.send("DELETE", "/v1/status", &[], ""), 405, "wrong-method");
    asked.refuses(&asked.post("/v1/confirm", &json!({})), 409, "nothing-to-confirm");
    asked.refuses(&asked.send("POST", "/v1/confirm", &["If-Match: \"7\""], ""), 412, "generation-mismatch");
    let large = format!("{{\"text\": \"{}\"}}", " ".repeat(8 << 20));
    asked.refuses(&apply(&large), 413, "too-large");
    asked.refuses(&asked.send("POST", "/v1/apply", &["Content-Type: text/plain"], "{}"), 415, "not-json");
    let faulty = asked.post("/v1/apply", &json!({ "text": "sit \"a\"", "name": "<faulty>" }));
    asked.refuses(&faulty, 422, "configuration");
    assert!(faulty.json()["diagnostics"].as_str().is_some_and(|text| text.contains("<faulty>:1:1")), "{}", faulty.text);
    asked.refuses(&asked.post("/v1/plan", &json!({ "file": "/nowhere/a.kdl" })), 422, "configuration");
    let taken = asked.get("/v1/pools/app").json()["servers"][0]["addresses"][0].as_str().expect("an address").to_owned();
    let beside = format!("site \"http://{taken}\" {{ respond 200; }}\nsite \"https://");
    asked.refuses(&asked.post("/v1/apply", &asked.changed("site \"https://", &beside)), 422, "cannot-run");
    asked.refuses(&asked.post("/v1/upgrade", &json!({ "binary": "/nowhere/tidegate" })), 422, "cannot-start");
    asked.refuses(&asked.post("/v1/upgrade", &json!({ "binary": "tidegate" })), 400, "bad-request");
    asked.refuses(&asked.post("/v1/upgrade", &json!({ "binary": "/bin/false" })), 500, "upgrade-failed");
    let mut waiting = asked.changed("body=\"first\"", "body=\"second\"");
    waiting["confirm_within_seconds"] = json!(600);
    assert_eq!(asked.post("/v1/apply", &waiting).status, 200);
    asked.refuses(&asked.post("/v1/apply", &json!({})), 409, "awaits-confirmation");
    assert_eq!(asked.post("/v1/generations/1/rollback", &json!({})).status, 200);
    assert_eq!(asked.own(), "first");
}

#[test]
fn a_process_that_drains_says_so() {
    let mut asked = Asked::start();
    let mut waiting = std::net::TcpStream::connect(asked.proxy.address).expect("it accepts");
    std::io::Write::write_all(&mut waiting, b"GET /hang HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("sent");
    asked.proxy.wait_for_metric("tidegate_upstream_connections_active", 1.0).expect("the request is on its way");
    asked.proxy.program.signal("TERM").expect("it runs");
    let admin = asked.proxy.admin.clone();
    let drains = || matches!(get(&admin, "/readyz"), Ok((503, _)));
    asked.proxy.program.wait_until("draining", drains).expect("it drains");
    asked.refuses(&asked.get("/v1/status"), 409, "draining");
    asked.refuses(&asked.post("/v1/apply", &json!({})), 409, "draining");
}

#[test]
fn of_two_writers_at_once_one_is_told() {
    let asked = Asked::start();
    let tag = asked.get("/v1/status").header("etag").expect("tagged").to_owned();
    let write = |text: &str| {
        let body = asked.changed("body=\"first\"", &format!("body=\"{text}\""));
        asked.send("POST", "/v1/apply", &["Content-Type: application/json", &format!("If-Match: {tag}")], &body.to_string())
    };
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let writers: Vec<_> = ["one", "two"].into_iter().map(|text| scope.spawn(move || write(text))).collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    });
    let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    let refused = replies.iter().find(|reply| reply.status == 412).expect("one of them");
    asked.refuses(refused, 412, "generation-mismatch");
    let mut again = asked.changed("body=\"first\"", "body=\"three\"");
    again["expected_generation"] = json!(1);
    asked.refuses(&asked.post("/v1/apply", &again), 412, "generation-mismatch");
}

#[test]
fn a_tag_of_the_process_before_is_refused() {
    let confirm = |asked: &Asked, tag: &str| asked.send("POST", "/v1/confirm", &[&format!("If-Match: {tag}")], "");
    let asked = Asked::start();
    let tag = asked.get("/v1/configuration").header("etag").expect("tagged").to_owned();
    asked.refuses(&confirm(&asked, &tag), 409, "nothing-to-confirm");
    let next = Asked::of(&CONFIG.replace("UPSTREAM", "127.0.0.1:9").replace("first", "second"), &[]);
    assert_eq!(next.get("/v1/status").json()["generation"], 1);
    asked.refuses(&confirm(&next, &tag), 412, "generation-mismatch");
    // The number says nothing of the process, and is what a person types.
    asked.refuses(&confirm(&next, "\"1\""), 409, "nothing-to-confirm");
}

#[test]
fn the_token_lets_in_and_nothing_else_does() {
    let asked = Asked::start();
    let mode = fs::metadata(asked.token_file()).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(asked.get("/v1/status").status, 200);
    let none = asked.send_as_is("GET", "/v1/status", &[], "");
    asked.refuses(&none, 401, "unauthorised");
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    asked.refuses(&asked.send_as_is("GET", "/v1/nothing", &[], ""), 401, "unauthorised");
    asked.refuses(&asked.send_as_is("GET", "/v1/status", &["Authorization: Bearer 00"], ""), 401, "unauthorised");
    asked.refuses(&asked.send("GET", "/v1/status", &["Origin: http://127.0.0.1"], ""), 403, "from-browser");
    asked.refuses(&asked.send("GET", "/v1/status", &["Host: evil.example"], ""), 403, "foreign-host");
    for open in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(asked.send_as_is("GET", open, &[], "").status, 200, "{open}");
    }
    asked.refuses(&asked.send_as_is("GET", "/metrics", &["Host: evil.example"], ""), 403, "foreign-host");
    fs::set_permissions(asked.token_file(), fs::Permissions::from_mode(0o644)).expect("ours");
    let open = asked.get("/v1/status");
    asked.refuses(&open, 403, "no-token");
    assert!(open.json()["detail"].as_str().is_some_and(|detail| detail.contains("mode 0644")), "{}", open.text);
    fs::remove_file(asked.token_file()).expect("ours");
    asked.refuses(&asked.get("/v1/status"), 401, "unauthorised");
    let renewed = fs::read_to_string(asked.token_file()).expect("made anew");
    assert_ne!(renewed.trim(), asked.token);
    let status = |token: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["status", "--admin", &asked.proxy.admin]).env("STATE_DIRECTORY", "/nowhere");
        command.env("TIDEGATE_ADMIN_TOKEN", token).output().expect("the command runs").status.code()
    };
    assert_eq!([status(renewed.trim()), status(&asked.token)], [Some(0), Some(1)]);
    assert!(!asked.proxy.program.output().contains(&asked.token), "a token in the log");
}

#[test]
fn a_unix_socket_is_guarded_by_its_permissions() {
    let asked = Asked::start();
    let socket = asked.proxy.places.folder().join("admin.sock");
    let body = asked.changed(&format!("\"{}\"", asked.proxy.admin), &format!("\"unix:{}\"", socket.display()));
    assert_eq!(asked.post("/v1/apply", &body).status, 200, "{}", asked.proxy.program.output());
    let mode = fs::metadata(&socket).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let reply = over_unix(&socket, "GET", "/v1/status", &["Origin: http://a.example"], "");
    assert_eq!((reply.status, &reply.json()["generation"]), (200, &json!(2)));
}

#[test]
fn a_new_process_takes_over() {
    let mut asked = Asked::start();
    let before = asked.get("/v1/status").json();
    let reply = asked.post("/v1/upgrade", &json!({}));
    assert_eq!(reply.status, 200, "{}\n{}", reply.text, asked.proxy.program.output());
    let first = Ended(reply.json()["process_id"].to_string());
    assert_eq!(asked.proxy.program.wait_exit(Duration::from_secs(20)), Ok(0), "{}", asked.proxy.program.output());
    let status = asked.get("/v1/status").json();
    assert_eq!(status["process_id"].to_string(), first.0, "{status}");
    assert_ne!(before["process_id"], status["process_id"]);
    assert_eq!(status["origin"], "upgrade");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["upgrade", "--binary", env!("CARGO_BIN_EXE_tidegate"), "--admin", &asked.proxy.admin])
        .arg("--token-file")
        .arg(asked.token_file())
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let second = said.strip_prefix("process ").and_then(|rest| rest.split(' ').next());
    let second = Ended(second.unwrap_or_else(|| panic!("{output:?}")).to_owned());
    assert!(said.contains("has taken over") && output.status.success(), "{output:?}");
    assert_ne!(first.0, second.0);
    assert_eq!(asked.own(), "first");
}

/// A process that is not our child, ended with the test.
struct Ended(String);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").args(["-KILL", &self.0]).status();
    }
}
