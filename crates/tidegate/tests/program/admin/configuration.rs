//! The configuration as typed objects: every part, every verb, and every mistake. What becomes of files is in
//! `writing`.

use crate::admin::asked::{Asked, TYPED};
use crate::admin::described;
use crate::admin::plain::Reply;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use tidegate_testkit::case::Places;
use tidegate_testkit::get;

pub const TOKEN: &str = "a-token-of-a-configuration";

const CONFIG: &str = r#"// Everything about the proxy.
admin "127.0.0.1:{admin}" token="a-token-of-a-configuration" // who may ask
access-log "off"
threads 1
drain "5s" // at most

include "teams/*.kdl" // a file for each team

pool "app" { // the application
    server "127.0.0.1:{closed:a}" weight=2 // large

    // The small one.
    server "127.0.0.1:{closed:b}"
}

listener "127.0.0.1:{port}" {
    trusted-proxies "10.0.0.0/8" // the balancer
}

site "http://127.0.0.1:{port}" {
    route "/own" { respond 200 body="first" } // ours
    route "/id" { respond 200 body="{request.id}" }
    proxy "app"
}
"#;

pub const TEAM: &str = "// Of the team.\npool \"team\" {\n    server \"127.0.0.1:9\" weight=2 // theirs\n}\n";

/// The configuration above, running.
pub fn start(more: &[&str]) -> Asked {
    let places = Places::new().expect("a folder");
    fs::create_dir(places.folder().join("teams")).expect("made");
    fs::write(places.folder().join("teams/a.kdl"), TEAM).expect("written");
    Asked::start_in(places, CONFIG, more)
}

impl Asked {
    pub fn site(&self) -> String {
        format!("/v1/configuration/sites/http:%2F%2F{}", self.proxy.address)
    }

    pub fn change(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.send(method, path, &[TYPED], &body.to_string())
    }

    /// Has `/own` answer something else.
    pub fn set_own(&self, text: &str) -> Reply {
        self.change("PATCH", &format!("{}/routes/0", self.site()), &own_steps(text))
    }
}

pub fn own_steps(text: &str) -> Value {
    json!({ "steps": [{ "respond": { "status": 200, "body": text } }] })
}

/// Tries parts and verbs, and keeps account of them.
struct Tour {
    asked: Asked,
    document: Value,
    schema: Value,
    tried: RefCell<BTreeSet<(String, String)>>,
}

impl Tour {
    fn note(&self, verb: &str, template: &str) -> &Value {
        self.tried.borrow_mut().insert((format!("/v1/configuration{template}"), verb.to_owned()));
        &self.document["paths"][format!("/v1/configuration{template}")][verb]
    }

    /// A part as it is, which has to be what the configuration's schema says of it.
    fn is(&self, template: &str, path: &str, definition: &str, expected: &Value) {
        let operation = self.note("get", template);
        let reply = self.asked.get(&format!("/v1/configuration{path}"));
        assert_eq!((reply.status, &reply.json()), (200, expected), "{path}");
        described::check(&self.schema, &json!({ "$ref": format!("#/$defs/{definition}") }), &reply.json(), path);
        assert!(operation["responses"]["200"]["headers"]["ETag"].is_object());
        assert_eq!(reply.header("etag").map(str::to_owned), self.asked.get("/v1/status").header("etag").map(str::to_owned));
    }

    /// A list, each element of which is what the configuration's schema says of it.
    fn lists(&self, template: &str, path: &str, definition: &str, count: usize) {
        self.note("get", template);
        let reply = self.asked.get(&format!("/v1/configuration{path}"));
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        let seen = reply.json();
        let list = seen.as_array().expect("a list");
        assert_eq!(list.len(), count, "{path}: {seen}");
        for one in list {
            described::check(&self.schema, &json!({ "$ref": format!("#/$defs/{definition}") }), one, path);
        }
    }

    /// A change, after which the file is as before but for `from`, which is `to` now.
    fn changes(&self, verb: &str, template: &str, path: &str, body: &Value, [from, to]: [&str; 2]) {
        let operation = self.note(verb, template);
        let before = self.asked.text();
        let generation = self.asked.get("/v1/status").json()["generation"].as_u64().expect("a number");
        let tag = format!("If-Match: \"{generation}\"");
        let body = if verb == "delete" { String::new() } else { body.to_string() };
        let reply = self.asked.send(&verb.to_uppercase(), &format!("/v1/configuration{path}"), &[TYPED, tag.as_str()], &body);
        assert_eq!(reply.status, 200, "{verb} {path}: {}", reply.text);
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        described::check(&self.document, schema, &reply.json(), path);
        assert_eq!(reply.json()["applied"]["generation"], generation + 1, "{verb} {path}");
        assert_eq!(reply.json()["written"], json!([self.asked.proxy.places.config_file()]), "{verb} {path}");
        let tag = reply.header("etag").map(str::to_owned);
        assert!(tag.as_ref().is_some_and(|tag| tag.starts_with(&format!("\"{}-", generation + 1))), "{tag:?}");
        assert_eq!(tag.as_deref(), self.asked.get("/v1/status").header("etag"));
        assert_eq!(before.matches(from).count(), 1, "{from:?} in {before}");
        pretty_eq(&self.asked.text(), &before.replace(from, to), &format!("{verb} {path}"));
        assert_eq!(self.asked.get("/v1/status").json()["drift"], json!([]), "{verb} {path}");
    }
}

fn pretty_eq(seen: &str, expected: &str, place: &str) {
    assert!(seen == expected, "{place}\n--- is\n{seen}\n--- should be\n{expected}");
}

#[test]
fn every_part_is_read_and_changed_and_the_rest_of_the_file_stays() {
    let asked = start(&[]);
    let (document, schema) = (asked.get("/v1/openapi.json").json(), asked.get("/v1/configuration/schema").json());
    let own = asked.proxy.address.to_string();
    let read = asked.get("/v1/pools/app").json();
    let address = |server: usize| read["servers"][server]["address"].as_str().expect("an address").trim_start_matches("http://");
    let (large, small) = (address(0).to_owned(), address(1).to_owned());
    let tour = Tour { asked, document, schema, tried: RefCell::default() };
    tour.note("get", "/schema");
    tour.note("get", "");
    let whole = tour.asked.get("/v1/configuration");
    described::check(&tour.schema, &tour.schema, &whole.json(), "the whole");
    assert!(whole.header("etag").is_some_and(|tag| tag.starts_with("\"1-")), "{:?}", whole.header("etag"));
    assert_eq!(whole.json()["pool"][0]["name"], "team");
    of_lists(&tour, &own);
    of_settings(&tour);
    of_pools(&tour, &large, &small);
    of_listeners(&tour, &own);
    of_sites(&tour, &own);
    of_tcp(&tour);
    of_maps(&tour);
    of_admin(&tour);
    of_access_logs(&tour);
    let described: BTreeSet<(String, String)> = tour.document["paths"]
        .as_object()
        .expect("an object")
        .iter()
        .filter(|(path, _)| path.starts_with("/v1/configuration"))
        .flat_map(|(path, verbs)| verbs.as_object().expect("an object").keys().map(|verb| (path.clone(), verb.clone())))
        .collect();
    assert_eq!(*tour.tried.borrow(), described, "something that is not tried here");
}

fn of_lists(tour: &Tour, own: &str) {
    tour.lists("/sites", "/sites", "top.site", 1);
    tour.lists("/sites/{address}/routes", &format!("/sites/http:%2F%2F{own}/routes"), "step.route", 2);
    tour.lists("/pools", "/pools", "top.pool", 2);
    tour.lists("/pools/{name}/servers", "/pools/app/servers", "pool.server", 2);
    tour.lists("/listeners", "/listeners", "top.listener", 1);
    tour.lists("/tcp", "/tcp", "top.tcp", 0);
    tour.lists("/maps", "/maps", "top.map", 0);
    tour.lists("/admin", "/admin", "top.admin", 1);
}

fn of_settings(tour: &Tour) {
    let template = "/settings/{directive}";
    let drain = "/settings/drain";
    tour.is(template, drain, "top.drain", &json!({ "time": "5s" }));
    tour.changes("put", template, drain, &json!({ "time": "6s" }), ["drain \"5s\" //", "drain \"6s\" //"]);
    tour.changes("patch", template, drain, &json!({ "time": "7s" }), ["drain \"6s\" //", "drain \"7s\" //"]);
    tour.changes("delete", template, drain, &Value::Null, ["drain \"7s\" // at most\n", ""]);
    tour.changes(
        "put",
        template,
        drain,
        &json!({ "time": "5s" }),
        ["    proxy \"app\"\n}\n", "    proxy \"app\"\n}\ndrain \"5s\"\n"],
    );
    tour.is(template, "/settings/threads", "top.threads", &json!(1));
}

fn of_pools(tour: &Tour, large: &str, small: &str) {
    let pool = json!({ "name": "app", "server": [{ "address": large, "weight": 2 }, { "address": small }] });
    let (template, path) = ("/pools/{name}", "/pools/app");
    tour.is(template, path, "top.pool", &pool);
    tour.changes(
        "patch",
        template,
        path,
        &json!({ "max-connections": { "count": 10 } }),
        [&format!("    server \"{small}\"\n"), &format!("    server \"{small}\"\n    max-connections 10\n")],
    );
    tour.changes("put", template, path, &pool, ["    max-connections 10\n", ""]);
    let (template, path) = ("/pools/{name}/servers/{address}", format!("/pools/app/servers/{large}"));
    tour.is(template, &path, "pool.server", &json!({ "address": large, "weight": 2 }));
    tour.changes("patch", template, &path, &json!({ "weight": 3 }), ["weight=2 // large", "weight=3 // large"]);
    tour.changes("put", template, &path, &json!({}), [" weight=3 // large", " // large"]);
    let path = format!("/pools/app/servers/{small}");
    tour.changes("delete", template, &path, &Value::Null, [&format!("    server \"{small}\"\n"), ""]);
    tour.changes(
        "post",
        "/pools/{name}/servers",
        "/pools/app/servers",
        &json!({ "address": small, "backup": true }),
        [" // large\n", &format!(" // large\n    server \"{small}\" backup=#true\n")],
    );
    let second = json!({ "name": "second", "server": [{ "address": "127.0.0.1:9" }] });
    let node = "\npool \"second\" {\n    server \"127.0.0.1:9\"\n}\n";
    tour.changes("post", "/pools", "/pools", &second, ["}\n\nlistener", &format!("}}\n{node}\nlistener")]);
    tour.changes("delete", "/pools/{name}", "/pools/second", &Value::Null, [node, ""]);
}

fn of_listeners(tour: &Tour, own: &str) {
    let (template, path) = ("/listeners/{address}", format!("/listeners/{own}"));
    let listener = |proxies: Value| json!({ "address": own, "trusted-proxies": [proxies] });
    tour.is(template, &path, "top.listener", &listener(json!(["10.0.0.0/8"])));
    let two = json!({ "trusted-proxies": [["10.0.0.0/8", "192.0.2.0/24"]] });
    tour.changes("patch", template, &path, &two, ["\"10.0.0.0/8\" //", "\"10.0.0.0/8\" \"192.0.2.0/24\" //"]);
    tour.changes(
        "put",
        template,
        &path,
        &listener(json!(["192.0.2.0/24"])),
        ["\"10.0.0.0/8\" \"192.0.2.0/24\" //", "\"192.0.2.0/24\" //"],
    );
    let node = format!("listener \"{own}\" {{\n    trusted-proxies \"192.0.2.0/24\" // the balancer\n}}\n\n");
    // Of the blank lines around it one is enough.
    tour.changes("delete", template, &path, &Value::Null, [&node, ""]);
    let again = format!("drain \"5s\"\n\nlistener \"{own}\" {{\n    trusted-proxies \"10.0.0.0/8\"\n}}\n");
    tour.changes("post", "/listeners", "/listeners", &listener(json!(["10.0.0.0/8"])), ["drain \"5s\"\n", &again]);
}

fn of_tcp(tour: &Tour) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").to_string();
    let (template, path) = ("/tcp/{address}", format!("/tcp/{free}"));
    let tcp = |server: &str| json!({ "address": free, "proxy": { "upstreams": [server] } });
    let before = tour.asked.text();
    let node = |server: &str| format!("\ntcp \"{free}\" {{\n    proxy \"{server}\"\n}}\n");
    let added = format!("{before}{}", node("127.0.0.1:1"));
    tour.changes("post", "/tcp", "/tcp", &tcp("127.0.0.1:1"), [&before, &added]);
    tour.is(template, &path, "top.tcp", &tcp("127.0.0.1:1"));
    let other = json!({ "proxy": { "upstreams": ["127.0.0.1:2"] } });
    tour.changes("patch", template, &path, &other, ["\"127.0.0.1:1\"", "\"127.0.0.1:2\""]);
    tour.changes("put", template, &path, &tcp("127.0.0.1:3"), ["\"127.0.0.1:2\"", "\"127.0.0.1:3\""]);
    tour.changes("delete", template, &path, &Value::Null, [node("127.0.0.1:3").trim_start(), ""]);
}

fn of_maps(tour: &Tour) {
    let (template, path) = ("/maps/{name}", "/maps/moved");
    let map = |value: &str| json!({ "name": "moved", "key": "{path}", "row": [{ "key": "/a", "value": value }] });
    let before = tour.asked.text();
    let node = |value: &str| format!("map \"moved\" key=\"{{path}}\" {{\n    row \"/a\" \"{value}\"\n}}\n");
    let added = format!("{before}{}", node("/b"));
    tour.changes("post", "/maps", "/maps", &map("/b"), [&before, &added]);
    tour.is(template, path, "top.map", &map("/b"));
    assert_eq!(tour.asked.get("/v1/maps/moved/rows/%2Fa").json()["value"], "/b");
    tour.changes("put", template, path, &map("/c"), ["\"/b\"", "\"/c\""]);
    let other = json!({ "default": "/d" });
    tour.changes("patch", template, path, &other, ["key=\"{path}\" {", "key=\"{path}\" default=\"/d\" {"]);
    assert_eq!(tour.asked.get("/v1/maps/moved").json()["default"], "/d");
    let whole = node("/c").replace(" {", " default=\"/d\" {");
    tour.changes("delete", template, path, &Value::Null, [&whole, ""]);
}

fn of_admin(tour: &Tour) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").to_string();
    let (template, path) = ("/admin/{address}", format!("/admin/{free}"));
    let place = |more: Value| {
        let mut place = json!({ "address": free });
        place.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        place
    };
    let before = tour.asked.text();
    let (line, behind) = before.split_once("// who may ask\n").expect("a line of `admin`");
    let node = |properties: &str| format!("admin \"{free}\"{properties}\n");
    let added = format!("{line}// who may ask\n{}{behind}", node(" serve=\"metrics\""));
    tour.changes("post", "/admin", "/admin", &place(json!({ "serve": "metrics" })), [&before, &added]);
    tour.is(template, &path, "top.admin", &place(json!({ "serve": "metrics" })));
    let hosts = json!({ "serve": "metrics", "hosts": "a.test" });
    tour.changes("put", template, &path, &place(hosts), [" serve=\"metrics\"\n", " serve=\"metrics\" hosts=\"a.test\"\n"]);
    tour.changes("patch", template, &path, &json!({ "hosts": null }), [" hosts=\"a.test\"\n", "\n"]);
    assert_eq!(get(&free, "/metrics").expect("it is served there").0, 200);
    tour.changes("delete", template, &path, &Value::Null, [&node(" serve=\"metrics\""), ""]);
}

fn of_access_logs(tour: &Tour) {
    let template = "/access-log/{target}";
    let log = |target: &str| json!({ "target": target });
    let (off, first, both) =
        ("access-log \"off\"\n", "access-log \"stdout\"\n", "access-log \"stdout\"\naccess-log \"stderr\"\n");
    tour.is(template, "/access-log/off", "top.access-log", &log("off"));
    tour.changes("put", template, "/access-log/off", &log("stdout"), [off, first]);
    tour.changes("post", "/access-log", "/access-log", &log("stderr"), [first, both]);
    tour.lists("/access-log", "/access-log", "top.access-log", 2);
    let common = json!({ "format": "common" });
    tour.changes("patch", template, "/access-log/stderr", &common, ["\"stderr\"\n", "\"stderr\" format=\"common\"\n"]);
    tour.changes("delete", template, "/access-log/stderr", &Value::Null, ["access-log \"stderr\" format=\"common\"\n", ""]);
}

fn of_sites(tour: &Tour, own: &str) {
    let (template, route) = ("/sites/{address}/routes/{index}", format!("/sites/http:%2F%2F{own}/routes/0"));
    let respond = |body: &str| json!({ "respond": { "status": 200, "body": body } });
    let first = json!({ "patterns": ["/own"], "steps": [respond("first")] });
    tour.is(template, &route, "step.route", &first);
    tour.changes("patch", template, &route, &json!({ "steps": [respond("second")] }), ["body=\"first\"", "body=\"second\""]);
    assert_eq!(tour.asked.own(), "second");
    tour.changes("put", template, &route, &first, ["body=\"second\"", "body=\"first\""]);
    let (many, routes) = ("/sites/{address}/routes", format!("/sites/http:%2F%2F{own}/routes"));
    let id = "body=\"{request.id}\" }\n";
    let node = "    route \"/new\" {\n        respond 200 body=\"new\"\n    }\n";
    let new = json!({ "patterns": ["/new"], "steps": [respond("new")] });
    tour.changes("post", many, &routes, &new, [id, &format!("{id}{node}")]);
    assert_eq!(get(own, "/new").expect("answered").1, "new");
    tour.changes("delete", template, &format!("{routes}/2"), &Value::Null, [node, ""]);
    let (template, site) = ("/sites/{address}", format!("/sites/http:%2F%2F{own}"));
    let ours = json!({ "addresses": [format!("http://{own}")], "steps": [
        { "route": first }, { "route": { "patterns": ["/id"], "steps": [respond("{request.id}")] } }, { "proxy": { "upstreams": ["app"] } },
    ] });
    tour.is(template, &site, "top.site", &ours);
    let without = json!({ "steps": [{ "route": first }, { "proxy": { "upstreams": ["app"] } }] });
    tour.changes("patch", template, &site, &without, [&format!("    route \"/id\" {{ respond 200 {id}"), ""]);
    let mut with_addresses = without;
    with_addresses["addresses"] = ours["addresses"].clone();
    with_addresses["steps"][0]["route"]["steps"][0] = respond("third");
    tour.changes("put", template, &site, &with_addresses, ["body=\"first\"", "body=\"third\""]);
    assert_eq!(tour.asked.own(), "third");
    let text = tour.asked.text();
    let start = text.find("site \"").expect("a site");
    let end = start + text[start..].find("\n}\n").expect("its end") + "\n}\n".len();
    tour.changes("delete", template, &site, &Value::Null, [&text[start..end], ""]);
    assert!(get(own, "/own").is_err(), "nobody listens");
    let small = json!({ "addresses": ours["addresses"], "steps": [{ "respond": { "status": 204 } }] });
    let before = tour.asked.text();
    let last = before.lines().last().expect("a line");
    let last = format!("{}\n{last}\n", before.lines().rev().nth(1).expect("a line"));
    tour.changes(
        "post",
        "/sites",
        "/sites",
        &small,
        [&last, &format!("{last}\nsite \"http://{own}\" {{\n    respond 204\n}}\n")],
    );
    assert_eq!(get(own, "/own").expect("answered").0, 204);
}

#[test]
fn wrong_changes_say_what_is_wrong_and_change_nothing() {
    let asked = start(&[]);
    let before = asked.text();
    let site = asked.site();
    let check = |method: &str, path: &str, body: &str, expected: (u16, &str, &str)| {
        let reply = asked.send(method, path, &[TYPED], body);
        asked.refuses(&reply, expected.0, expected.1);
        let said = format!("{}\n{}", reply.json()["detail"].as_str().unwrap_or_default(), reply.json()["help"]);
        assert!(said.contains(expected.2), "{method} {path} {}: {said}", &body[..body.len().min(80)]);
    };
    let pool = "/v1/configuration/pools/app";
    let drain = "/v1/configuration/settings/drain";
    let bad = |what| (400, "bad-request", what);
    check("PUT", drain, "{", bad("EOF while parsing"));
    check("PUT", drain, "5s", bad("line 1 column 2"));
    check("PUT", drain, "\"5s\" x", bad("trailing characters"));
    check("PUT", drain, "", bad("the body is empty"));
    check("PATCH", pool, "", bad("the body is empty"));
    check("PUT", drain, "null", bad("not null"));
    check("PUT", drain, "{\"time\": 5}", bad("a duration such as `\"5s\"`, not a number"));
    check("PUT", drain, "{\"time\": \"5 parsecs\"}", bad(""));
    check("PATCH", pool, "null", bad("not null"));
    check("PUT", pool, "[]", bad("an object"));
    check("PATCH", pool, "{\"server\": [{\"address\": \"a:1\", \"weight\": \"x\"}]}", bad("at `/server/0/weight`"));
    check("PATCH", pool, "{\"server\": [{\"address\": \"a:1\", \"weight\": 100000}]}", bad("at `/server/0/weight`"));
    check("PATCH", pool, "{\"servers\": []}", bad("did you mean `server`?"));
    check("PATCH", pool, "{\"max-connections\": 1, \"max-connections\": 2}", bad("`max-connections` stands twice"));
    check("PATCH", pool, &"[".repeat(10_000), bad("recursion limit"));
    check("PATCH", pool, &"{\"a\":".repeat(10_000), bad("recursion limit"));
    check("PATCH", pool, &format!("{{\"name\": \"{}\"}}", " ".repeat(9 << 20)), (413, "too-large", "8 MiB"));
    check("PATCH", &format!("{site}/routes/0"), "{\"steps\": [{\"respnd\": {}}]}", bad("did you mean `respond`?"));
    check("POST", &format!("{site}/routes"), "{}", bad("`steps`"));
    check("GET", "/v1/configuration/pools/ap", "", (404, "not-found", "did you mean `app`?"));
    check("PATCH", "/v1/configuration/pools/ap", "{}", (404, "not-found", "did you mean `app`?"));
    check("DELETE", "/v1/configuration/pools/ap", "", (404, "not-found", "did you mean `app`?"));
    check("GET", "/v1/configuration/settings/drian", "", (404, "not-found", "did you mean `drain`?"));
    check("GET", "/v1/configuration/settings/limits", "", (404, "not-found", "its default holds"));
    check("GET", "/v1/configuration/settings/site", "", bad("by its address or its name"));
    check("GET", "/v1/configuration/sites/b.test", "", (404, "not-found", "there is no site `b.test`"));
    check("GET", "/v1/configuration/listeners/:1", "", (404, "not-found", "there is no listener `:1`"));
    check("GET", "/v1/configuration/pools/none/servers/a:1", "", (404, "not-found", "there is no pool `none`"));
    check("DELETE", "/v1/configuration/pools/team/servers/127.0.0.1:8", "", (404, "not-found", "did you mean `127.0.0.1:9`?"));
    check("GET", &format!("{site}/routes/9"), "", (404, "not-found", "has no route 9"));
    check("GET", &format!("{site}/routes/first"), "", bad("not a position"));
    check("GET", &format!("{site}/routes/-1"), "", bad("not a position"));
    check(
        "POST",
        "/v1/configuration/pools",
        "{\"name\": \"app\", \"server\": [{\"address\": \"a:1\"}]}",
        (409, "taken", "`app` already"),
    );
    check("POST", "/v1/configuration/pools/team/servers", "{\"address\": \"127.0.0.1:9\"}", (409, "taken", "already"));
    check("POST", pool, "{}", (405, "wrong-method", "`Allow`"));
    check("DELETE", pool, "", (409, "in-use", "is used by route 3 of http://127.0.0.1"));
    check("PATCH", &format!("{drain}?confirm_within_seconds=0"), "{\"time\": \"6s\"}", bad("`confirm_within_seconds` is 0"));
    check("PATCH", &format!("{drain}?confirm_within_seconds=soon"), "{\"time\": \"6s\"}", bad("is not a number"));
    check("PATCH", &format!("{drain}?confirm=60"), "{\"time\": \"6s\"}", bad("there is no query parameter `confirm`"));
    let typed = |content_type: &str| asked.send("PATCH", pool, &[&format!("Content-Type: {content_type}")], "{}");
    asked.refuses(&typed("text/plain"), 415, "not-json");
    assert_eq!(typed("application/merge-patch+json").json()["applied"]["changed"], false);
    asked.refuses(
        &asked.send("PATCH", "/v1/configuration/pools/ap", &[TYPED, "If-Match: \"7\""], "{}"),
        412,
        "generation-mismatch",
    );
    asked.refuses(&asked.send_as_is("GET", "/v1/configuration", &[], ""), 401, "unauthorised");
    pretty_eq(&asked.text(), &before, "the file");
    assert_eq!(asked.get("/v1/status").json()["generation"], 1);
}

#[test]
fn a_secret_is_not_shown_and_stays_where_it_is() {
    let mut asked = start(&[]);
    let marked = |asked: &Asked| json!({ "address": asked.proxy.admin, "token": "***" });
    let place = |asked: &Asked| format!("/v1/configuration/admin/{}", asked.proxy.admin);
    let setting = place(&asked);
    assert_eq!(asked.get(&setting).json(), marked(&asked));
    assert_eq!(asked.get("/v1/configuration").json()["admin"], json!([marked(&asked)]));
    let before = (asked.text(), asked.proxy.admin.clone());
    asked.proxy.admin = asked.proxy.places.fill("127.0.0.1:{admin:second}").expect("a port");
    asked.proxy.places.release_proxy_ports();
    let address = json!({ "address": asked.proxy.admin });
    let reply = crate::admin::plain::over_tcp(
        &before.1,
        "PATCH",
        &setting,
        &[TYPED, &format!("Authorization: Bearer {}", asked.token)],
        &address.to_string(),
    );
    assert_eq!(reply.status, 200, "{}", reply.text);
    pretty_eq(&asked.text(), &before.0.replace(&before.1, &asked.proxy.admin), "the file");
    // It moves when the answer is on its way.
    let admin = asked.proxy.admin.clone();
    asked.proxy.program.wait_until("elsewhere", || get(&admin, "/readyz").is_ok()).expect("it moves");
    let text = asked.text();
    let setting = place(&asked);
    assert_eq!(asked.change("PUT", &setting, &marked(&asked)).json()["applied"]["changed"], false);
    pretty_eq(&asked.text(), &text, "the file");
    let other = json!({ "token": "another-token-of-this-test" });
    let reply = asked.change("PATCH", &setting, &other);
    assert!(reply.status == 200 && !reply.text.contains("another-token"), "{}", reply.text);
    pretty_eq(&asked.text(), &text.replace(TOKEN, "another-token-of-this-test"), "the file");
    asked.refuses(&asked.get(&setting), 401, "unauthorised");
    asked.token = "another-token-of-this-test".to_owned();
    for path in [setting.as_str(), "/v1/configuration", "/v1/status", "/v1/generations", "/v1/generations/1/difference/3"] {
        let reply = asked.get(path);
        assert!(reply.status == 200 && !reply.text.contains(TOKEN) && !reply.text.contains(&asked.token), "{}", reply.text);
    }
    assert!(!asked.proxy.program.output().contains(TOKEN), "a token in the log");
}
