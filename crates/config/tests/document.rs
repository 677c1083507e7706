//! A configuration as JSON and back, and edits of its objects: what the text is afterwards, byte for byte.
//! That random edits come to what was asked for, and lose no comment, is in `document_properties`.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tidegate_config::{
    Edit, EditFault, Environment, List, Loaded, Target, apply_edits, format_text, load_path, load_with, read_target, render,
    to_json, to_kdl,
};

fn load(text: &str) -> Loaded {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let variables = [("PORT", "9000"), ("NAME", "api"), ("HOST", "shop.localhost")];
    let variables = variables.map(|(name, value)| (name.to_string(), value.to_string()));
    load_with("test.kdl", text, &directory, &Environment::Given(variables.into()))
}

fn site(address: &str) -> Target {
    Target::Site { address: address.into() }
}

fn pool(name: &str) -> Target {
    Target::Pool { name: name.into() }
}

fn server(pool: &str, address: &str) -> Target {
    Target::Server { pool: pool.into(), address: address.into() }
}

fn route(site: &str, index: usize) -> Target {
    Target::Route { site: site.into(), index }
}

fn top(directive: &str) -> Target {
    Target::Top { directive: directive.into() }
}

#[test]
fn a_configuration_as_json() {
    let check = |text: &str, expected: Value| assert_eq!(to_json(&load(text)), expected, "for {text}");
    check("", json!({}));
    check("drain \"5s\"\nthreads 4", json!({ "drain": { "time": "5s" }, "threads": 4 }));
    check("threads \"auto\"", json!({ "threads": "auto" }));
    check("threads \"{env.N}\"", json!({ "threads": "{env.N}" }));
    check("threads \"4\"", json!({ "threads": 4 }));
    check(
        "pool \"api\" { server \"a:1\" weight=2; server \"b:1\" backup=\"on\"; balance \"hash\" key=\"{client.ip}\"; }",
        json!({ "pool": [{
            "name": "api",
            "server": [{ "address": "a:1", "weight": 2 }, { "address": "b:1", "backup": true }],
            "balance": { "method": "hash", "key": "{client.ip}" },
        }] }),
    );
    check(
        "site \"a\" \"b\" { tls cert=\"x\"; route \"/x\" { match method=\"GET\" not path=\"/y\" not path=\"/z\"; respond 204; }; proxy \"api\"; }",
        json!({ "site": [{ "addresses": ["a", "b"], "steps": [
            { "tls": { "cert": "x" } },
            { "route": { "patterns": ["/x"], "steps": [
                { "match": { "method": ["GET"], "not": { "path": ["/y", "/z"] } } },
                { "respond": { "status": 204 } },
            ] } },
            { "proxy": { "upstreams": ["api"] } },
        ] }] }),
    );
    check(
        r#"pool "api" {
            discover dns="api.internal:80" ttl-max="5s"; discover consul="api" token="0123456789"; discover consul="b" token="{env.T}"
            sticky secret="0123456789abcdef"; slow-start "30s"; hedge "200ms"; retry "off"; zone "eu-1"
            health "/" header="A: b" header="C: d" rise=1; outlier max-ejected="30%" success-rate="off"
            max-connections 5; max-requests total=9; keep-alive ping="off"; send-proxy-protocol "v2" tlv="authority"; adaptive-concurrency
        }"#,
        json!({ "pool": [{
            "name": "api",
            "discover": [
                { "dns": "api.internal:80", "ttl-max": "5s" },
                { "consul": "api", "token": "***" },
                { "consul": "b", "token": "{env.T}" },
            ],
            "sticky": { "secret": "***" },
            "slow-start": "30s",
            "hedge": "200ms",
            "retry": { "mode": "off" },
            "zone": "eu-1",
            "health": { "path": "/", "header": ["A: b", "C: d"], "rise": 1 },
            "outlier": { "max-ejected": "30%", "success-rate": false },
            "max-connections": { "count": 5 },
            "max-requests": { "total": 9 },
            "keep-alive": { "ping": "off" },
            "send-proxy-protocol": { "version": "v2", "tlv": "authority" },
            "adaptive-concurrency": {},
        }] }),
    );
    check(
        "listener \":443\" { trusted-proxies \"10.0.0.0/8\" \"private\"; trusted-proxies \"::1\"; }",
        json!({ "listener": [{ "address": ":443", "trusted-proxies": [["10.0.0.0/8", "private"], ["::1"]] }] }),
    );
}

#[test]
fn an_order_that_an_object_cannot_say_becomes_several_steps() {
    let loaded =
        load("site \"localhost\" { header remove=\"A\" set=\"A: 1\" add=\"B: 2\"; header \"C\" \"3\" remove=\"D\"; respond; }");
    let steps = json!([
        { "header": { "remove": ["A"] } },
        { "header": { "set": ["A: 1"], "add": ["B: 2"] } },
        { "header": { "name": "C", "value": "3", "remove": ["D"] } },
        { "respond": {} },
    ]);
    assert_eq!(to_json(&loaded)["site"][0]["steps"], steps);
}

#[test]
fn what_is_said_once_is_said_for_the_whole_line() {
    let check = |line: &str, steps: Value| {
        let loaded = load(&format!("site \"localhost\" {{ {line}; respond; }}"));
        let mut expected = steps.as_array().expect("a list").clone();
        expected.push(json!({ "respond": {} }));
        assert_eq!(to_json(&loaded)["site"][0]["steps"], Value::from(expected), "for {line}");
    };
    check(
        "cors max-age=\"1m\" origins=\"https://a.test\"",
        json!([{ "cors": { "max-age": "1m", "origins": "https://a.test" } }]),
    );
    check(
        "header status=\"404\" remove=\"A\" set=\"A: 1\" { match method=\"GET\"; }",
        json!([
            { "header": { "status": "404", "remove": ["A"], "match": [{ "method": ["GET"] }] } },
            { "header": { "status": "404", "set": ["A: 1"], "match": [{ "method": ["GET"] }] } },
        ]),
    );
    check(
        "log sample=\"1%\" { field \"a\" \"{path}\"; field \"b\" \"c\"; }",
        json!([{ "log": { "sample": "1%", "field": [{ "name": "a", "value": "{path}" }, { "name": "b", "value": "c" }] } }]),
    );
}

#[test]
fn a_split_as_json_and_back() {
    let text = "site \"localhost\" {\n    split by=\"client-ip\" {\n        proxy \"a:1\" weight=95\n        proxy \"b:1\" weight=5\n    }\n}\n";
    let document = to_json(&load(text));
    let arms = json!([{ "upstreams": ["a:1"], "weight": 95 }, { "upstreams": ["b:1"], "weight": 5 }]);
    assert_eq!(document["site"][0]["steps"], json!([{ "split": { "by": "client-ip", "proxy": arms } }]));
    assert_eq!(to_kdl(&document).expect("a configuration"), text);
}

#[test]
fn json_as_text() {
    let check = |document: Value, expected: &str| {
        let text = to_kdl(&document).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(text, expected);
        assert_eq!(format_text("test.kdl", &text).expect("KDL"), text, "the text is in canonical layout");
    };
    check(json!({}), "");
    check(json!({ "threads": 2, "drain": { "time": "5s" }, "edition": "2026" }), "edition \"2026\"\nthreads 2\ndrain \"5s\"\n");
    check(
        json!({
            "pool": [{ "name": "api", "server": [{ "address": "a:1", "backup": true, "weight": 2 }] }, { "name": "b" }],
            "site": [{ "addresses": ["a"], "steps": [{ "route": { "patterns": ["~^/v\\d"], "steps": [
                { "match": { "not": { "path": ["/y"] }, "method": ["GET"] } },
                { "header": { "name": "A", "value": "1", "add": ["B: 2", "C: \"3\""] } },
                { "proxy": { "upstreams": ["x:1"], "balance": { "method": "random" } } },
            ] } }] }],
        }),
        r##"site "a" {
    route #"~^/v\d"# {
        match method="GET" not path="/y"
        header "A" "1" add="B: 2" add=#"C: "3""#
        proxy "x:1" {
            balance "random"
        }
    }
}

pool "api" {
    server "a:1" weight=2 backup=#true
}

pool "b" {}
"##,
    );
}

#[test]
fn values_that_do_not_fit_are_named_by_their_place() {
    let check = |document: Value, expected: &str| {
        let errors = to_kdl(&document).expect_err("a fault");
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(shown.join("\n"), expected, "for {document}");
        assert!(errors.iter().all(|error| error.fault == EditFault::Invalid));
    };
    check(json!([]), "a configuration is an object, not a list");
    check(json!({ "drian": "5s" }), "at `/drian`: a configuration has no member `drian`\n  help: did you mean `drain`?");
    check(json!({ "drain": 5 }), "at `/drain`: `drain` is an object, not a number");
    check(json!({ "drain": { "time": 5 } }), "at `/drain/time`: `time` is a duration such as `\"5s\"`, not a number");
    check(
        json!({ "drain": { "time": "5" } }),
        "at `/drain/time`: `5` has no unit: write `ms`, `s`, `m`, `h` or `d` behind the number",
    );
    check(
        json!({ "drain": { "time": null } }),
        "at `/drain/time`: `time` is a duration such as `\"5s\"`, not null\n  help: leave out what is not to be set",
    );
    check(
        json!({ "pool": [{ "name": "a", "server": [{ "address": "a:1" }, { "address": "b:1", "weight": 0 }, { "wieght": 1 }] }] }),
        "at `/pool/0/server/1/weight`: `weight` goes from 1 to 256\n\
         at `/pool/0/server/2/wieght`: `server` has no member `wieght`\n  help: did you mean `weight`?\n\
         at `/pool/0/server/2`: `server` needs the member `address`",
    );
    let errors =
        to_kdl(&json!({ "site": [{ "addresses": ["a"], "steps": [{ "match": {} }] }] })).expect_err("conditions of a site");
    assert_eq!(errors[0].message, "a step has no member `match`");
    check(json!({ "pool": { "name": "a" } }), "at `/pool`: `pool` is a list, not an object");
    check(json!({ "site": [{ "steps": [] }] }), "at `/site/0`: `site` needs the member `addresses`");
    check(json!({ "site": [{ "addresses": [], "steps": [] }] }), "at `/site/0/addresses`: `addresses` is an empty list");
    check(json!({ "site": [{ "addresses": ["a"] }] }), "at `/site/0`: `site` needs the member `steps`");
    check(
        json!({ "site": [{ "addresses": ["a"], "steps": [{ "respnd": {} }, { "split": { "match": {} } }, {}] }] }),
        "at `/site/0/steps/0/respnd`: a step has no member `respnd`\n  help: did you mean `respond`?\n\
         at `/site/0/steps/1/split/match`: `split` has no member `match`\n  help: it has `to`, `by`, `proxy`, `arm`\n\
         at `/site/0/steps/2`: a step is an object with one member, the name of its directive\n  \
         help: for example `{\"respond\": {\"status\": 204}}`",
    );
    check(
        json!({ "pool": [{ "name": "a", "balance": { "method": "randm" }, "protocol": 1 }] }),
        "at `/pool/0/balance/method`: `method` cannot be `randm`\n  help: did you mean `\"random\"`?\n\
         at `/pool/0/protocol`: `protocol` is a string, not a number",
    );
    check(
        json!({ "site": [{ "addresses": ["a"], "steps": [{ "header": { "value": "x" } }] }] }),
        "at `/site/0/steps/0/header/value`: `value` stands behind `name`, which is missing",
    );
}

const SAMPLE: &str = r#"// The shop.
edition "2026"

site "https://{env.HOST}" { // main
    tls "internal" /* ours */ {
        // Old clients have gone.
        min "1.3"
    }
    header remove="Server" // quiet
    // The interface.
    route "/api/*" {
        // Only these.
        match method="GET,POST" not client="10.0.0.0/8" // and not these
        proxy "api"
    }

    route "/old" { respond 410; }
    proxy "10.0.0.1:{env.PORT}" /* a */ "10.0.0.2:80" // the rest
}

// Work horses.
pool "api" {
    server "10.0.0.4:8080" weight=2 // big
    // Small.
    server "10.0.0.5:8080"

    balance "least-conn"
}

pool "tiny" { server "10.0.0.9:80"; }
drain "1m" // long
"#;

/// The sample after the edit; `expected` is what of it is replaced, and by what.
fn check_edit(edit: Edit, expected: &[(&str, &str)]) {
    let mut text = SAMPLE.to_string();
    for (from, to) in expected {
        assert_eq!(text.matches(from).count(), 1, "{from} stands once in the sample");
        text = text.replacen(from, to, 1);
    }
    let changed =
        apply_edits(&load(SAMPLE), std::slice::from_ref(&edit)).unwrap_or_else(|errors| panic!("{errors:?} for {edit:?}"));
    let seen = changed.first().map_or(SAMPLE, |file| &file.text);
    assert_eq!(seen, text, "for {edit:?}");
    assert_eq!(changed.is_empty(), expected.is_empty());
    let loaded = load(seen);
    assert!(loaded.configuration.is_some(), "{}", render(&loaded.diagnostics, &loaded.files, false));
}

#[test]
fn one_of_several_access_logs_is_named_by_its_target() {
    let text = "access-log \"stdout\"\naccess-log \"/tmp/a.log\" keep=2 rotate=\"1MB\"\naccess-log \"syslog:/dev/log\"\n";
    let log = |target: &str| Target::AccessLog { target: target.into() };
    let check = |edit: Edit, from: &str, to: &str| {
        let changed = apply_edits(&load(text), std::slice::from_ref(&edit)).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(*changed[0].text, text.replacen(from, to, 1), "for {edit:?}");
    };
    assert_eq!(read_target(&load(text), &log("stdout")).expect("it is there"), json!({ "target": "stdout" }));
    check(Edit::Patch(log("/tmp/a.log"), json!({ "keep": 3 })), "keep=2", "keep=3");
    check(Edit::Put(log("stdout"), json!({ "format": "common" })), "\"stdout\"", "\"stdout\" format=\"common\"");
    check(Edit::Remove(log("syslog:/dev/log")), "access-log \"syslog:/dev/log\"\n", "");
    check(
        Edit::Append(List::AccessLogs, json!({ "target": "stderr" })),
        "\"syslog:/dev/log\"\n",
        "\"syslog:/dev/log\"\naccess-log \"stderr\"\n",
    );
    let fault = |edit: Edit| apply_edits(&load(text), &[edit]).expect_err("it is refused")[0].fault;
    assert_eq!(fault(Edit::Append(List::AccessLogs, json!({ "target": "stdout" }))), EditFault::Taken);
    assert_eq!(fault(Edit::Remove(log("/tmp/b.log"))), EditFault::NotFound);
}

#[test]
fn values_are_changed_where_they_stand() {
    check_edit(Edit::Put(top("drain"), json!({ "time": "5s" })), &[("\"1m\"", "\"5s\"")]);
    check_edit(Edit::Put(top("drain"), json!({ "time": "1m" })), &[]);
    check_edit(Edit::Patch(server("api", "10.0.0.4:8080"), json!({ "weight": 3 })), &[("weight=2", "weight=3")]);
    check_edit(Edit::Patch(server("api", "10.0.0.4:8080"), json!({ "weight": null })), &[(" weight=2", "")]);
    check_edit(
        Edit::Patch(server("api", "http://10.0.0.5:8080"), json!({ "backup": true, "weight": 7 })),
        &[("\"10.0.0.5:8080\"", "\"10.0.0.5:8080\" weight=7 backup=#true")],
    );
    check_edit(
        Edit::Put(server("api", "10.0.0.4:8080"), json!({ "address": "x:1" })),
        &[("\"10.0.0.4:8080\" weight=2", "\"x:1\"")],
    );
    check_edit(Edit::Put(server("api", "10.0.0.4:8080"), json!({ "weight": 9 })), &[("weight=2", "weight=9")]);
    check_edit(Edit::Patch(pool("api"), json!({ "balance": { "method": "random" } })), &[("\"least-conn\"", "\"random\"")]);
    check_edit(
        Edit::Patch(site("shop.localhost"), json!({ "addresses": ["https://{env.HOST}", "b.localhost"] })),
        &[("\"https://{env.HOST}\"", "\"https://{env.HOST}\" \"b.localhost\"")],
    );
    let route_value =
        |not: Value| json!({ "steps": [{ "match": { "method": ["GET"], "not": not } }, { "proxy": { "upstreams": ["api"] } }] });
    check_edit(
        Edit::Patch(route("https://shop.localhost", 0), route_value(json!({ "client": ["10.0.0.0/8"], "path": ["/x"] }))),
        &[("\"GET,POST\" not client=\"10.0.0.0/8\"", "\"GET\" not path=\"/x\" not client=\"10.0.0.0/8\"")],
    );
    check_edit(
        Edit::Patch(route("https://shop.localhost", 0), route_value(json!({}))),
        &[("\"GET,POST\" not client=\"10.0.0.0/8\"", "\"GET\"")],
    );
}

#[test]
fn lines_are_added_and_taken_out() {
    check_edit(Edit::Patch(pool("api"), json!({ "balance": null })), &[("    balance \"least-conn\"\n", "")]);
    check_edit(
        Edit::Patch(pool("api"), json!({ "max-connections": { "count": 100 }, "timeout": { "connect": "1s" } })),
        &[("    balance \"least-conn\"\n", "    balance \"least-conn\"\n    timeout connect=\"1s\"\n    max-connections 100\n")],
    );
    check_edit(
        Edit::Append(List::Servers { pool: "api".into() }, json!({ "address": "10.0.0.6:8080" })),
        &[("    server \"10.0.0.5:8080\"\n", "    server \"10.0.0.5:8080\"\n    server \"10.0.0.6:8080\"\n")],
    );
    check_edit(Edit::Remove(server("api", "10.0.0.4:8080")), &[("    server \"10.0.0.4:8080\" weight=2 // big\n", "")]);
    check_edit(Edit::Remove(route("https://{env.HOST}", 1)), &[("    route \"/old\" { respond 410; }\n", "")]);
    check_edit(
        Edit::Append(
            List::Routes { site: "shop.localhost".into() },
            json!({ "patterns": ["/new"], "steps": [{ "respond": {} }] }),
        ),
        &[("{ respond 410; }\n", "{ respond 410; }\n    route \"/new\" {\n        respond\n    }\n")],
    );
    check_edit(
        Edit::Put(
            route("shop.localhost", 1),
            json!({ "patterns": ["/old"], "steps": [{ "body-limit": 1 }, { "respond": { "status": 410 } }] }),
        ),
        &[("{ respond 410; }", "{\n        body-limit 1\n        respond 410\n    }")],
    );
    check_edit(
        Edit::Append(List::Servers { pool: "tiny".into() }, json!({ "address": "10.0.0.8:80" })),
        &[("{ server \"10.0.0.9:80\"; }", "{\n    server \"10.0.0.9:80\"\n    server \"10.0.0.8:80\"\n}")],
    );
    check_edit(Edit::Remove(top("drain")), &[("drain \"1m\" // long\n", "")]);
    check_edit(Edit::Remove(pool("tiny")), &[("pool \"tiny\" { server \"10.0.0.9:80\"; }\n", "")]);
    check_edit(Edit::Put(top("threads"), json!(4)), &[("// long\n", "// long\nthreads 4\n")]);
    check_edit(
        Edit::Put(pool("new"), json!({ "server": [{ "address": "n:1" }] })),
        &[("10.0.0.9:80\"; }\n", "10.0.0.9:80\"; }\n\npool \"new\" {\n    server \"n:1\"\n}\n")],
    );
    check_edit(
        Edit::Put(site("b.localhost"), json!({ "steps": [{ "respond": { "status": 204 } }] })),
        &[("// the rest\n}\n", "// the rest\n}\n\nsite \"b.localhost\" {\n    respond 204\n}\n")],
    );
}

#[test]
fn a_whole_pool_is_put_line_by_line() {
    check_edit(
        Edit::Put(
            pool("api"),
            json!({ "name": "api", "server": [{ "address": "10.0.0.5:8080", "weight": 5 }, { "address": "10.0.0.7:8080" }],
                "balance": { "method": "least-conn" } }),
        ),
        &[
            ("    server \"10.0.0.4:8080\" weight=2 // big\n", ""),
            ("\"10.0.0.5:8080\"\n", "\"10.0.0.5:8080\" weight=5\n    server \"10.0.0.7:8080\"\n"),
        ],
    );
}

#[test]
fn settings_of_a_pool_are_put_and_its_secrets_stay() {
    let text = "pool \"api\" {\n    server \"a:1\"\n    server \"b:1\"\n    sticky secret=\"0123456789abcdef\"\n    discover consul=\"api\" token=\"hunter2\"\n}\n\
                site \"http://:80\" { proxy \"api\"; }\n";
    let check = |settings: Value, expected: &str| {
        let changed = apply_edits(&load(text), &[Edit::Patch(pool("api"), settings.clone())]);
        let changed = changed.unwrap_or_else(|errors| panic!("{errors:?} for {settings}"));
        assert!(changed[0].text.contains(expected), "no {expected:?} in {} for {settings}", changed[0].text);
        let loaded = load(&changed[0].text);
        assert!(loaded.configuration.is_some(), "{:?} for {settings}", loaded.diagnostics);
    };
    check(
        json!({ "sticky": { "secret": "***", "cookie": "route" } }),
        "    sticky cookie=\"route\" secret=\"0123456789abcdef\"\n",
    );
    check(
        json!({ "discover": [{ "consul": "api", "token": "***", "tag": "v2" }, { "dns": "c:1" }] }),
        "    discover consul=\"api\" tag=\"v2\" token=\"hunter2\"\n    discover dns=\"c:1\"\n",
    );
    check(
        json!({ "health": { "path": "/healthz", "interval": "5s", "header": ["A: b", "C: d"] } }),
        "    health \"/healthz\" interval=\"5s\" header=\"A: b\" header=\"C: d\"\n",
    );
    check(json!({ "retry": { "mode": "off" } }), "    retry \"off\"\n");
    check(json!({ "retry": { "attempts": 3, "budget": "10%" } }), "    retry attempts=3 budget=\"10%\"\n");
    check(json!({ "max-requests": { "count": 5, "total": 9 } }), "    max-requests 5 total=9\n");
}

#[test]
fn secrets_stay_with_their_line() {
    let line = |text: &str| format!("    discover {text}\n");
    let token = |name: &str, secret: &str| line(&format!("consul=\"{name}\" token=\"{secret}\""));
    let with = |lines: &[String]| {
        format!("pool \"api\" {{\n    server \"a:1\"\n{}}}\n\nsite \"http://:80\" {{ proxy \"api\"; }}\n", lines.concat())
    };
    let before = with(&[line("dns=\"d:1\""), token("a", "secret-of-a"), token("b", "secret-of-b")]);
    let check = |wanted: Value, expected: Option<&[String]>| {
        let changed = apply_edits(&load(&before), &[Edit::Patch(pool("api"), json!({ "discover": wanted }))]);
        let text = changed.ok().map(|changed| changed.first().map_or_else(|| before.clone(), |file| file.text.to_string()));
        assert_eq!(text, expected.map(with), "for {wanted}");
    };
    let (dns, a, b) =
        (json!({ "dns": "d:1" }), json!({ "consul": "a", "token": "***" }), json!({ "consul": "b", "token": "***" }));
    check(json!([dns, a, b]), Some(&[line("dns=\"d:1\""), token("a", "secret-of-a"), token("b", "secret-of-b")]));
    check(json!([b]), Some(&[token("b", "secret-of-b")]));
    check(json!([b, a]), Some(&[token("b", "secret-of-b"), token("a", "secret-of-a")]));
    check(json!([{ "consul": "c", "token": "***" }]), None);
}

#[test]
fn several_edits_are_made_one_after_the_other() {
    let edits = [
        Edit::Put(pool("b"), json!({ "server": [{ "address": "b:1" }] })),
        Edit::Append(List::Servers { pool: "b".into() }, json!({ "address": "b:2" })),
        Edit::Remove(server("b", "b:1")),
        Edit::Put(site(":8080"), json!({ "addresses": ["http://:8080"], "steps": [{ "proxy": { "upstreams": ["b"] } }] })),
    ];
    let changed = apply_edits(&load(""), &edits).expect("edits");
    assert_eq!(&*changed[0].text, "pool \"b\" {\n    server \"b:2\"\n}\n\nsite \"http://:8080\" {\n    proxy \"b\"\n}\n");
    let edits = [edits[0].clone(), Edit::Remove(pool("c"))];
    assert!(apply_edits(&load(""), &edits).is_err());
}

#[test]
fn included_nodes_are_changed_in_their_own_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &str| fs::write(path(name), text).expect("a file");
    write("main.kdl", "include \"pools.kdl\"\nsite \"http://a.localhost\" {\n    include \"common.kdl\"\n    proxy \"api\"\n}\n");
    write("pools.kdl", "// Pools.\npool \"api\" {\n    include \"servers.kdl\"\n}\n");
    write("servers.kdl", "server \"10.0.0.1:80\"\nserver \"10.0.0.2:80\" // second\n");
    write("common.kdl", "header remove=\"Server\"\nbody-limit \"1MB\"\n");
    let changed = |edit: Edit| {
        let files = apply_edits(&load_path(&path("main.kdl")), &[edit]).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(files.len(), 1, "{files:?}");
        (files[0].path.file_name().expect("a name").to_str().expect("UTF-8").to_string(), files[0].text.to_string())
    };
    let check = |edit: Edit, name: &str, text: &str| assert_eq!(changed(edit), (name.to_string(), text.to_string()));
    check(
        Edit::Patch(server("api", "10.0.0.2:80"), json!({ "weight": 2 })),
        "servers.kdl",
        "server \"10.0.0.1:80\"\nserver \"10.0.0.2:80\" weight=2 // second\n",
    );
    check(
        Edit::Append(List::Servers { pool: "api".into() }, json!({ "address": "10.0.0.3:80" })),
        "servers.kdl",
        "server \"10.0.0.1:80\"\nserver \"10.0.0.2:80\" // second\nserver \"10.0.0.3:80\"\n",
    );
    check(
        Edit::Patch(pool("api"), json!({ "name": "web" })),
        "pools.kdl",
        "// Pools.\npool \"web\" {\n    include \"servers.kdl\"\n}\n",
    );
    check(Edit::Remove(pool("api")), "pools.kdl", "// Pools.\n");
    // A part that two sites share cannot be changed for one of them.
    write(
        "main.kdl",
        "site \"http://a.localhost\" {\n    include \"common.kdl\"\n    respond\n}\nsite \"http://b.localhost\" {\n    include \"common.kdl\"\n    respond\n}\n",
    );
    let steps = json!({ "steps": [{ "header": { "remove": ["X"] } }, { "body-limit": "1MB" }, { "respond": {} }] });
    let errors =
        apply_edits(&load_path(&path("main.kdl")), &[Edit::Patch(site("http://a.localhost"), steps)]).expect_err("a fault");
    assert_eq!(errors[0].fault, EditFault::NotWritable);
    assert!(errors[0].to_string().contains("included in more than one place"), "{}", errors[0]);
}

#[test]
fn what_cannot_be_done_is_said() {
    let check = |edit: Edit, fault: EditFault, expected: &str| {
        let errors = apply_edits(&load(SAMPLE), std::slice::from_ref(&edit)).expect_err("a fault");
        assert_eq!((errors[0].fault, errors[0].to_string().as_str()), (fault, expected), "for {edit:?}");
    };
    use EditFault::{Invalid, NotFound, Taken};
    check(Edit::Remove(pool("apu")), NotFound, "there is no pool `apu`\n  help: did you mean `api`?");
    check(Edit::Patch(pool("other"), json!({})), NotFound, "there is no pool `other`");
    check(
        Edit::Remove(server("api", "10.0.0.4:8081")),
        NotFound,
        "the pool `api` has no server `10.0.0.4:8081`\n  help: did you mean `10.0.0.4:8080`?",
    );
    check(Edit::Remove(server("ap", "10.0.0.4:8081")), NotFound, "there is no pool `ap`\n  help: did you mean `api`?");
    check(
        Edit::Remove(server("10.0.0.1:9000,10.0.0.2:80", "10.0.0.2:80")),
        NotFound,
        "`10.0.0.1:9000,10.0.0.2:80` is a pool written in place, in a `proxy`, and has no name of its own\n  \
         help: change the route of its `proxy`, or give the servers a `pool` with a name",
    );
    check(Edit::Remove(site("sop.localhost")), NotFound, "there is no site `sop.localhost`");
    check(
        Edit::Remove(route("shop.localhost", 3)),
        NotFound,
        "the site `shop.localhost` has no route 3\n  help: routes are counted from 0, in the order of the file",
    );
    check(Edit::Remove(top("threads")), NotFound, "`threads` is not written, so its default holds");
    check(
        Edit::Remove(top("thread")),
        NotFound,
        "there is no directive `thread` at the top level\n  help: did you mean `threads`?",
    );
    check(
        Edit::Remove(top("site")),
        Invalid,
        "there may be several `site`, so one is not named by that word alone\n  help: name it by its address or its name",
    );
    check(
        Edit::Append(List::Pools, json!({ "name": "api" })),
        Taken,
        "there is a pool `api` already\n  help: change that one, or choose another",
    );
    check(
        Edit::Append(List::Sites, json!({ "addresses": ["x.localhost", "shop.localhost"], "steps": [] })),
        Taken,
        "there is a site `shop.localhost` already\n  help: change that one, or choose another",
    );
    check(
        Edit::Patch(pool("tiny"), json!({ "name": "api" })),
        Taken,
        "there is a pool `api` already\n  help: change that one, or choose another",
    );
    check(
        Edit::Append(List::Servers { pool: "api".into() }, json!({ "address": "http://10.0.0.4:8080" })),
        Taken,
        "the pool has a server `http://10.0.0.4:8080` already\n  help: change that one, or choose another",
    );
    check(Edit::Put(server("api", "x:1"), json!({ "weight": "2" })), Invalid, "at `/weight`: `weight` is a number, not a string");
    check(
        Edit::Patch(pool("api"), json!({ "server": [{ "address": 5 }] })),
        Invalid,
        "at `/server/0/address`: `address` is a string, not a number",
    );
    let errors = apply_edits(&load("site \"a\" {"), &[]).expect_err("a fault");
    assert_eq!(errors[0].fault, EditFault::NotWritable);
    assert!(errors[0].to_string().starts_with("the configuration cannot be read: test.kdl, line 1: "), "{}", errors[0]);
}

#[test]
fn one_object_is_read_by_its_target() {
    let loaded = load(SAMPLE);
    let check = |target: Target, expected: Value| assert_eq!(read_target(&loaded, &target).expect("a target"), expected);
    check(server("api", "10.0.0.4:8080"), json!({ "address": "10.0.0.4:8080", "weight": 2 }));
    check(route("shop.localhost", 1), json!({ "patterns": ["/old"], "steps": [{ "respond": { "status": 410 } }] }));
    check(top("drain"), json!({ "time": "1m" }));
    check(pool("tiny"), json!({ "name": "tiny", "server": [{ "address": "10.0.0.9:80" }] }));
    assert!(read_target(&loaded, &top("limits")).is_err());
}
