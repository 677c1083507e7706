//! Handlers of Caddy's JSON as the directives of a Caddyfile that are adapted to them.

use crate::braces::Statement;
use crate::tree::Tree;

/// A line of a Caddyfile that says what stands there.
pub fn said(at: usize, words: &[&str]) -> Statement {
    Statement { words: words.iter().map(|word| (*word).to_owned()).collect(), starts: vec![at; words.len()], block: None }
}

/// The lines of a Caddyfile that are adapted to the handler; none where nobody knows it.
pub fn directives(name: &str, handler: &Tree) -> Vec<Statement> {
    let at = |key: &str| handler.get(key).start();
    let text = |key: &str| handler.get(key).text();
    match name {
        "headers" => fields(handler),
        "encode" => {
            let codings: Vec<Statement> =
                handler.get("encodings").entries().iter().map(|(coding, value)| said(value.start(), &[coding])).collect();
            vec![Statement { block: Some(codings), ..said(at("handler"), &["encode"]) }]
        }
        "rewrite" => {
            let mut all = Vec::new();
            for (key, word) in [("strip_path_prefix", "strip_prefix"), ("strip_path_suffix", "strip_suffix")] {
                all.extend(text(key).map(|value| said(at(key), &["uri", word, value])));
            }
            for part in handler.get("uri_substring").items() {
                let (old, new) = (part.get("find"), part.get("replace"));
                all.push(said(old.start(), &["uri", "replace", old.text().unwrap_or_default(), new.text().unwrap_or_default()]));
            }
            for part in handler.get("path_regexp").items() {
                let (old, new) = (part.get("find"), part.get("replace"));
                let words = ["uri", "path_regexp", old.text().unwrap_or_default(), new.text().unwrap_or_default()];
                all.push(said(old.start(), &words));
            }
            all.extend(text("uri").map(|to| said(at("uri"), &["rewrite", "*", to])));
            for part in handler.get("query").entries() {
                all.push(said(part.1.start(), &["uri", "query"]));
            }
            all.extend(text("method").map(|method| said(at("method"), &["method", method])));
            all
        }
        "request_body" => {
            let size = said(at("max_size"), &["max_size", text("max_size").unwrap_or_default()]);
            vec![Statement { block: Some(vec![size]), ..said(at("handler"), &["request_body"]) }]
        }
        "authentication" => {
            let basic = handler.at(&["providers", "http_basic"]);
            let user = |account: &Tree| {
                let (name, hash) = (account.get("username"), account.get("password"));
                said(name.start(), &[name.text().unwrap_or_default(), hash.text().unwrap_or_default()])
            };
            let mut line = said(basic.start(), &["basic_auth"]);
            if let Some(realm) = basic.get("realm").text() {
                line = said(basic.start(), &["basic_auth", "bcrypt", realm]);
            }
            vec![Statement { block: Some(basic.get("accounts").items().iter().map(user).collect()), ..line }]
        }
        "static_response" => answered(handler),
        "error" => {
            let status = text("status_code").unwrap_or("500");
            vec![said(status_at(handler), &["error", status])]
        }
        "file_server" => served(handler),
        "reverse_proxy" => handed_on(handler),
        _ => Vec::new(),
    }
}

/// Files of a folder, with what is said of them.
fn served(handler: &Tree) -> Vec<Statement> {
    let at = |key: &str| handler.get(key).start();
    let mut inside = Vec::new();
    inside.extend(handler.get("root").text().map(|root| said(at("root"), &["root", root])));
    let hidden = handler.get("hide").texts();
    // The file of the configuration itself is among them.
    let hidden: Vec<&str> = hidden.iter().map(String::as_str).filter(|name| !name.ends_with("Caddyfile")).collect();
    if handler.has("hide") {
        inside.push(said(at("hide"), &[&["hide"], hidden.as_slice()].concat()));
    }
    if handler.has("browse") {
        inside.push(said(at("browse"), &["browse"]));
    }
    let index = handler.get("index_names").texts();
    if !index.is_empty() {
        let words: Vec<&str> = ["index"].into_iter().chain(index.iter().map(String::as_str)).collect();
        inside.push(said(at("index_names"), &words));
    }
    if handler.has("precompressed") {
        inside.push(said(at("precompressed"), &["precompressed"]));
    }
    if handler.get("pass_thru").is_true() {
        inside.push(said(at("pass_thru"), &["pass_thru"]));
    }
    vec![Statement { block: Some(inside), ..said(at("handler"), &["file_server"]) }]
}

/// Changes of fields, a line for each.
fn fields(handler: &Tree) -> Vec<Statement> {
    let mut all = Vec::new();
    let sides = [("header", handler.get("response")), ("request_header", handler.get("request"))];
    for (word, side) in sides {
        let is_deferred = side.get("deferred").is_true();
        let mut lines = Vec::new();
        for (kind, sign) in [("set", if is_deferred { ">" } else { "" }), ("add", "+")] {
            for (field, values) in side.get(kind).entries() {
                for value in values.items().iter().filter_map(Tree::text) {
                    lines.push(said(values.start(), &[word, &format!("{sign}{field}"), value]));
                }
            }
        }
        for (field, parts) in side.get("replace").entries() {
            lines.push(said(parts.start(), &[word, field, "a part of it", "another"]));
        }
        for field in side.get("delete").texts() {
            lines.push(said(side.get("delete").start(), &[word, &format!("-{field}")]));
        }
        all.extend(lines);
    }
    all
}

/// Where its status is said, or else that it answers.
fn status_at(handler: &Tree) -> usize {
    let status = handler.get("status_code");
    if status.is_nothing() { handler.get("handler").start() } else { status.start() }
}

/// A redirect where it is one, or a text.
fn answered(handler: &Tree) -> Vec<Statement> {
    let at = status_at(handler);
    if handler.get("abort").is_true() {
        return vec![said(at, &["abort"])];
    }
    let status = handler.get("status_code").text().unwrap_or("200");
    if let Some(to) = handler.at(&["headers", "Location"]).items().first().and_then(Tree::text) {
        return vec![said(at, &["redir", "*", to, status])];
    }
    match handler.get("body").text() {
        Some(body) => vec![said(at, &["respond", "*", body, status])],
        None => vec![said(at, &["respond", "*", status])],
    }
}

/// What hands on: to a server that is asked whether a request may go on, to scripts, or to others.
fn handed_on(handler: &Tree) -> Vec<Statement> {
    let at = handler.get("handler").start();
    let mut inside = Vec::new();
    for server in handler.get("upstreams").items() {
        inside.extend(server.get("dial").text().map(|dial| said(server.get("dial").start(), &["to", &dialled(dial)])));
    }
    if let Some(line) = asking(handler, at) {
        return vec![line];
    }
    let transport = handler.get("transport");
    if transport.get("protocol").text() == Some("fastcgi") {
        let servers: Vec<String> = inside.iter().map(|line| line.argument().to_owned()).collect();
        let words: Vec<&str> = ["php_fastcgi"].into_iter().chain(servers.iter().map(String::as_str)).collect();
        let root = transport.get("root");
        let mut lines: Vec<Statement> = root.text().map(|folder| said(root.start(), &["root", folder])).into_iter().collect();
        for (name, value) in transport.get("env").entries() {
            lines.extend(value.text().map(|text| said(value.start(), &["env", name, text])));
        }
        if transport.has("split_path") {
            let ends = transport.get("split_path");
            lines.push(said(ends.start(), &["split", ends.texts().first().map_or(".php", String::as_str)]));
        }
        lines.extend(inside.iter().map(|line| said(line.start(), &["resolve_root_symlink"])));
        return vec![Statement { block: Some(lines), ..said(at, &words) }];
    }
    inside.extend(of_transport(transport));
    inside.extend(balanced(handler.get("load_balancing")));
    inside.extend(checked(handler.get("health_checks")));
    inside.extend(changed(handler.get("headers")));
    let dynamic = handler.get("dynamic_upstreams");
    match dynamic.get("source").text() {
        Some("a") => {
            let of = |name: &str| dynamic.get(name).text().unwrap_or_default();
            inside.push(said(dynamic.get("name").start(), &["dynamic", "a", of("name"), of("port")]));
        }
        Some("srv") => {
            inside.push(said(dynamic.get("name").start(), &["dynamic", "srv", dynamic.get("name").text().unwrap_or_default()]));
        }
        Some(_) | None => {}
    }
    vec![Statement { block: Some(inside), ..said(at, &["reverse_proxy"]) }]
}

/// `unix//run/app.sock`, and the network in front of others.
fn dialled(dial: &str) -> String {
    dial.strip_prefix("tcp/").unwrap_or(dial).to_owned()
}

/// A proxy that goes on where the answer is a good one: `forward_auth`.
fn asking(handler: &Tree, at: usize) -> Option<Statement> {
    let responses = handler.get("handle_response");
    let is_good = |one: &Tree| one.at(&["match", "status_code"]).texts() == ["2"];
    let good = responses.items().iter().find(|one| is_good(one))?;
    let rewrite = handler.get("rewrite");
    if rewrite.get("method").text() != Some("GET") {
        return None;
    }
    let dial = handler.get("upstreams").items().first()?.get("dial");
    let is_tls = handler.get("transport").has("tls");
    let server = format!("{}{}", if is_tls { "https://" } else { "" }, dial.text()?);
    let mut lines = vec![said(rewrite.get("uri").start(), &["uri", rewrite.get("uri").text()?])];
    let mut names: Vec<String> = Vec::new();
    let mut handlers: Vec<&Tree> = good.get("routes").items().iter().flat_map(|route| route.get("handle").items()).collect();
    while let Some(inner) = handlers.pop() {
        names.extend(inner.at(&["request", "set"]).entries().iter().map(|(name, _)| name.clone()));
        handlers.extend(inner.get("routes").items().iter().flat_map(|route| route.get("handle").items()));
    }
    if !names.is_empty() {
        names.sort();
        names.dedup();
        let words: Vec<&str> = ["copy_headers"].into_iter().chain(names.iter().map(String::as_str)).collect();
        lines.push(said(at, &words));
    }
    // All of it is what this line says.
    lines.extend(handler.statements().into_iter().map(|place| said(place, &["header_up", "X-Forwarded-For", "{remote_host}"])));
    Some(Statement { block: Some(lines), ..said(at, &["forward_auth", &server]) })
}

fn of_transport(transport: &Tree) -> Option<Statement> {
    let mut lines = Vec::new();
    let tls = transport.get("tls");
    if transport.has("tls") {
        lines.push(said(tls.start(), &["tls"]));
        let verify = tls.get("insecure_skip_verify");
        lines.extend(verify.is_true().then(|| said(verify.start(), &["tls_insecure_skip_verify"])));
        let name = tls.get("server_name");
        lines.extend(name.text().map(|text| said(name.start(), &["tls_server_name", text])));
        for files in [tls.get("root_ca_pem_files"), tls.at(&["ca", "pem_files"])] {
            lines.extend(files.texts().first().map(|file| said(files.start(), &["tls_trusted_ca_certs", file])));
        }
        let (cert, key) = (tls.get("client_certificate_file"), tls.get("client_certificate_key_file"));
        lines.extend(cert.text().zip(key.text()).map(|(file, key)| said(cert.start(), &["tls_client_auth", file, key])));
    }
    for (name, word) in [
        ("dial_timeout", "dial_timeout"),
        ("response_header_timeout", "response_header_timeout"),
        ("read_timeout", "read_timeout"),
        ("write_timeout", "write_timeout"),
    ] {
        let value = transport.get(name);
        lines.extend(value.text().map(|time| said(value.start(), &[word, &nanoseconds(time)])));
    }
    let versions = transport.get("versions");
    if !versions.is_nothing() {
        let texts = versions.texts();
        let words: Vec<&str> = ["versions"].into_iter().chain(texts.iter().map(String::as_str)).collect();
        lines.push(said(versions.start(), &words));
    }
    let alive = transport.get("keep_alive");
    if alive.get("enabled").text() == Some("false") {
        lines.push(said(alive.get("enabled").start(), &["keepalive", "off"]));
    }
    let idle = alive.get("idle_timeout");
    lines.extend(idle.text().map(|time| said(idle.start(), &["keepalive", &nanoseconds(time)])));
    let most = transport.get("max_conns_per_host");
    lines.extend(most.text().map(|count| said(most.start(), &["max_conns_per_host", count])));
    let header = transport.get("proxy_protocol");
    lines.extend(header.text().map(|version| said(header.start(), &["proxy_protocol", version])));
    let at = transport.get("protocol").start();
    (!lines.is_empty()).then(|| Statement { block: Some(lines), ..said(at, &["transport", "http"]) })
}

fn balanced(balancing: &Tree) -> Vec<Statement> {
    let mut lines = Vec::new();
    let policy = balancing.get("selection_policy");
    if let Some(name) = policy.get("policy").text() {
        let mut words = vec!["lb_policy".to_owned(), name.to_owned()];
        words.extend(["field", "name", "key"].iter().filter_map(|key| policy.get(key).text().map(str::to_owned)));
        words.extend(policy.get("weights").texts());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        lines.push(said(policy.get("policy").start(), &words));
        let rest = policy.statements();
        lines.extend(rest.into_iter().map(|at| said(at, &["to"])));
    }
    for (name, word) in [("try_duration", "lb_try_duration"), ("try_interval", "lb_try_interval")] {
        let value = balancing.get(name);
        lines.extend(value.text().map(|time| said(value.start(), &[word, &nanoseconds(time)])));
    }
    let retries = balancing.get("retries");
    lines.extend(retries.text().map(|count| said(retries.start(), &["lb_retries", count])));
    lines
}

fn checked(checks: &Tree) -> Vec<Statement> {
    let mut lines = Vec::new();
    let (active, passive) = (checks.get("active"), checks.get("passive"));
    for (name, word) in [
        ("uri", "health_uri"),
        ("path", "health_path"),
        ("port", "health_port"),
        ("passes", "health_passes"),
        ("fails", "health_fails"),
        ("body", "health_body"),
        ("method", "health_method"),
    ] {
        let value = active.get(name);
        lines.extend(value.text().map(|text| said(value.start(), &[word, text])));
    }
    for (name, word) in [("interval", "health_interval"), ("timeout", "health_timeout")] {
        let value = active.get(name);
        lines.extend(value.text().map(|time| said(value.start(), &[word, &nanoseconds(time)])));
    }
    let status = active.get("expect_status");
    lines.extend(status.text().map(|status_text| {
        let class = if status_text.len() == 1 { format!("{status_text}xx") } else { status_text.to_owned() };
        said(status.start(), &["health_status", &class])
    }));
    let time = passive.get("fail_duration");
    lines.extend(time.text().map(|text| said(time.start(), &["fail_duration", &nanoseconds(text)])));
    for name in ["max_fails", "unhealthy_request_count"] {
        let value = passive.get(name);
        lines.extend(value.text().map(|text| said(value.start(), &[name, text])));
    }
    let status = passive.get("unhealthy_status");
    for text in status.texts() {
        let class = if text.len() == 1 { format!("{text}xx") } else { text };
        lines.push(said(status.start(), &["unhealthy_status", &class]));
    }
    lines
}

fn changed(headers: &Tree) -> Vec<Statement> {
    let mut lines = Vec::new();
    for (side, word) in [(headers.get("request"), "header_up"), (headers.get("response"), "header_down")] {
        for line in fields(&Tree::of_entries(vec![("response".to_owned(), side.clone())])) {
            let mut words = line.words.clone();
            word.clone_into(&mut words[0]);
            lines.push(Statement { words, ..line });
        }
    }
    lines
}

/// Times are numbers of nanoseconds, or texts.
pub fn nanoseconds(text: &str) -> String {
    match text.parse::<u64>() {
        Ok(number) if number.is_multiple_of(1_000_000_000) => format!("{}s", number / 1_000_000_000),
        Ok(number) => format!("{}ms", number / 1_000_000),
        Err(_) => text.to_owned(),
    }
}
