//! What a configuration of Caddy as JSON asks for. Its handlers are read as the directives that are adapted to them, so
//! that a Caddyfile and its JSON come to the same.

mod handlers;

use super::chain::{self, Act, ChainAnswer, ChainOp, OF_CONDITION, When};
use super::directives::DirectiveReader;
use super::globals::{GlobalOptions, H1, H3};
use super::matchers::{self, LeftMatchers};
use super::order::order_of;
use super::serving::ServedFolder;
use super::{layer4, settle_folders, tls};
use crate::accounts::{FileStatement, Origin, StatementKind, Weight, WordTable};
use crate::braces::Statement;
use crate::matching::Matching;
use crate::outline::{Door, Outline, OutlinedAnswer, OutlinedSetting, OutlinedSite, Service, Whereabouts, placed};
use crate::tree::{self, Tree};
use handlers::{directives, nanoseconds, said};
use std::collections::BTreeSet;
use tidegate_kdl::quoted;

const NO_ROUTE: &str = "none of its servers hands requests on or serves files";
const DEPTH_MAX: usize = 16;
const HANDLERS: [&str; 9] =
    ["authentication", "rate_limit", "crowdsec", "waf", "rewrite", "headers", "encode", "request_body", "intercept"];
/// Handlers that are not carried, and keep nobody out.
const HARMLESS: [&str; 8] = ["vars", "map", "templates", "tracing", "push", "metrics", "log_append", "acme_server"];

const WORDS: WordTable = WordTable {
    protections: &[
        "authentication",
        "rate_limit",
        "crowdsec",
        "waf",
        "client_authentication",
        "remote_ip",
        "client_ip",
        "not",
        "expression",
        "abort",
        "remote_ip_list",
        "hide",
        "handle_response",
        "intercept",
    ],
    same: &[
        "handler",
        "module",
        "terminal",
        "group",
        "logging",
        "admin",
        "storage",
        "logs",
        "index_names",
        "protocols",
        "policy",
        "protocol",
        "subjects",
        "metrics",
        "apps_tls",
        "email",
        "grace_period",
        "try_duration_x",
        "flush_interval",
        "@id",
        "name",
    ],
    tls: &[
        "tls",
        "automation",
        "certificates",
        "tls_connection_policies",
        "insecure_skip_verify",
        "server_name",
        "root_ca_pem_files",
    ],
    addresses: &["listen", "listener_wrappers", "trusted_proxies", "automatic_https", "http_port", "https_port"],
    limits: &["max_size", "request_body", "max_requests"],
    answers: &[
        "match",
        "host",
        "path",
        "upstreams",
        "dial",
        "root",
        "routes",
        "handle",
        "rewrite",
        "uri",
        "status_code",
        "body",
        "transport",
        "errors",
        "browse",
        "index_names",
        "strip_path_prefix",
    ],
};

pub fn outline(text: &str) -> Outline {
    let tree = tree::of_json(text);
    let mut outline = Outline { statements: statements(&tree), ..Outline::default() };
    let options = options(&tree);
    let global = GlobalOptions::read(&options);
    let mut ports: BTreeSet<u16> = BTreeSet::new();
    for server in servers_of(&tree, "http") {
        of_server(&tree, server, &global, &mut ports, &mut outline);
    }
    for server in servers_of(&tree, "layer4") {
        layer4::of_json(server, &mut outline);
    }
    let has_servers = tree.has_within("servers");
    if tree.has_within("handler") && outline.services.is_empty() && !has_servers {
        // A list of routes, as the API takes it.
        let routes = if tree.get("routes").is_nothing() { &tree } else { tree.get("routes") };
        sites(routes, &[(Door::HTTPS, usize::MAX)], &Origin::default(), (&[], LeftMatchers::default()), &mut outline);
    }
    let ports: Vec<u16> = ports.into_iter().collect();
    let listeners = global.listeners(&ports);
    outline.settings.extend(global.settings);
    outline.settings.extend(listeners);
    outline.settings.extend(certificates(&tree));
    outline.or_without(NO_ROUTE)
}

fn statements(tree: &Tree) -> Vec<FileStatement> {
    let label = |tree: &Tree| {
        let handler = tree.get("handler").text();
        HANDLERS.into_iter().find(|known| handler == Some(known))
    };
    let mut found = Vec::new();
    tree.each_statement(&mut Vec::new(), &label, &mut |at, path, value| {
        let is_refusal =
            path.last() == Some(&"status_code") && value.number().is_some_and(|status| (400..=599).contains(&status));
        found.push(if is_refusal {
            FileStatement { at, name: "static_response".into(), kind: StatementKind::Needed(Weight::Protection) }
        } else {
            WORDS.statement(at, path)
        });
    });
    found
}

/// The servers of an app, which may stand alone.
fn servers_of<'t>(tree: &'t Tree, app: &str) -> Vec<&'t Tree> {
    let servers = [tree.at(&["apps", app, "servers"]), tree.at(&[app, "servers"])];
    servers.into_iter().flat_map(Tree::entries).map(|(_, server)| server).collect()
}

/// Certificates that are read from files, for all sites that they cover.
fn certificates(tree: &Tree) -> Vec<OutlinedSetting> {
    let mut settings = Vec::new();
    for file in tree.at(&["apps", "tls", "certificates", "load_files"]).items() {
        let Some((cert, key)) = file.get("certificate").text().zip(file.get("key").text()) else { continue };
        let mut origin = Origin::default();
        origin.carry_all(file.statements());
        settings.push(OutlinedSetting { line: format!("tls cert={} key={}", quoted(cert), quoted(key)), origin });
    }
    settings
}

/// What the apps say, as global options.
fn options(tree: &Tree) -> Vec<Statement> {
    let mut options = Vec::new();
    for policy in tree.at(&["apps", "tls", "automation", "policies"]).items() {
        for issuer in policy.get("issuers").items() {
            for (name, word) in [("email", "email"), ("ca", "acme_ca")] {
                if let Some(value) = issuer.get(name).text() {
                    options.push(said(issuer.get(name).start(), &[word, value]));
                }
            }
        }
    }
    let grace = tree.at(&["apps", "http", "grace_period"]);
    options.extend(grace.text().map(|time| said(grace.start(), &["grace_period", &nanoseconds(time)])));
    for server in servers_of(tree, "http") {
        let mut inside = Vec::new();
        let trusted = server.get("trusted_proxies");
        if let Some(source) = trusted.get("source").text() {
            let ranges = trusted.get("ranges").texts();
            let words: Vec<&str> = ["trusted_proxies", source].into_iter().chain(ranges.iter().map(String::as_str)).collect();
            inside.push(said(trusted.get("ranges").start().min(trusted.get("source").start()), &words));
            let fields = server.get("client_ip_headers");
            let names = fields.texts();
            let words: Vec<&str> = ["client_ip_headers"].into_iter().chain(names.iter().map(String::as_str)).collect();
            inside.extend((!names.is_empty()).then(|| said(fields.start(), &words)));
        }
        if !inside.is_empty() {
            let listens = server.get("listen").texts();
            let words: Vec<&str> = ["servers"].into_iter().chain(listens.first().map(String::as_str)).collect();
            options.push(Statement { block: Some(inside), ..said(server.get("listen").start(), &words) });
        }
    }
    options
}

fn of_server(tree: &Tree, server: &Tree, global: &GlobalOptions<'_>, ports: &mut BTreeSet<u16>, outline: &mut Outline) {
    let listens = server.get("listen").texts();
    // What has no name is plain HTTP, but for the port of HTTPS.
    let has_hosts = server.get("routes").has_within("host");
    let has_policies = !server.get("tls_connection_policies").items().is_empty();
    let is_off = server.at(&["automatic_https", "disable"]).is_true();
    let doors: Vec<(Door, usize)> = listens
        .iter()
        .filter_map(|listen| Door::parse(listen.trim_start_matches("tcp/"), false))
        .map(|door| {
            let is_usual = !is_off && (door.port == 443 || (door.port != 80 && has_hosts));
            Door { is_tls: is_usual || (has_policies && door.port != 80), ..door }
        })
        .map(|door| (door, server.get("listen").start()))
        .collect();
    if doors.is_empty() && !listens.is_empty() {
        return;
    }
    ports.extend(doors.iter().map(|(door, _)| door.port));
    let mut own = Origin { within: server.statements(), ..Origin::default() };
    for at in server.get("routes").statements() {
        own.within.remove(&at);
    }
    own.within.extend(tree.at(&["apps", "tls"]).statements());
    let is_known = |wrapper: &&Tree| matches!(wrapper.get("wrapper").text(), Some("tls" | "http_redirect"));
    let wrappers: BTreeSet<usize> =
        server.get("listener_wrappers").items().iter().filter(|wrapper| !is_known(wrapper)).flat_map(Tree::statements).collect();
    for statement in outline.statements.iter_mut().filter(|statement| wrappers.first() == Some(&statement.at)) {
        // What it lets through is not known.
        statement.kind = StatementKind::Needed(Weight::Protection);
    }
    let doors = if doors.is_empty() { vec![(Door::HTTPS, own.within.first().copied().unwrap_or(0))] } else { doors };
    let mut steps = Vec::new();
    for policy in server.get("tls_connection_policies").items() {
        let inside = handshakes(policy);
        let line = Statement { block: Some(inside), ..said(policy.statements().first().copied().unwrap_or_default(), &["tls"]) };
        tls::of_site(&line, None, &mut steps, &mut own);
    }
    own.add(&global.origin);
    if server.at(&["trusted_proxies", "source"]).text() == Some("static") {
        own.carry_all(server.at(&["trusted_proxies", "source"]).statements());
    }
    let spoken = server.get("protocols");
    let has = |name: &str| spoken.texts().iter().any(|protocol| protocol == name);
    let is_http1_alone = has("h1") && !has("h2");
    if is_http1_alone {
        own.carry_all(spoken.statements());
    } else if !spoken.is_nothing() && !has("h1") {
        spoken.statements().into_iter().for_each(|at| own.differ(at, H1));
    } else if has("h3") {
        spoken.statements().into_iter().for_each(|at| own.differ(at, H3));
    }
    let is_internal = |hosts: &[String]| internal(tree, hosts);
    let first = outline.services.len();
    sites(server.get("routes"), &doors, &own, (&steps, left_at(server)), outline);
    for service in &mut outline.services[first..] {
        let Service::Site(site) = service else { continue };
        let hosts: Vec<String> = site.addresses.iter().map(|address| host_of(address)).chain(site.only_hosts.clone()).collect();
        if let Some(places) = is_internal(&hosts).filter(|_| doors.iter().any(|(door, _)| door.is_tls)) {
            site.origin.carry_all(places);
            if !site.steps.iter().any(|step| step.starts_with("tls ")) {
                site.steps.insert(0, "tls \"internal\"".to_owned());
            }
        }
        if is_http1_alone && doors.iter().any(|(door, _)| door.is_tls) {
            tls::offer_http1(&mut site.steps);
        }
    }
}

/// The name in an address.
fn host_of(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.rsplit_once(':').map_or(rest, |(host, _)| host).to_owned()
}

/// The statements by which certificates for these names are those of the internal CA.
fn internal(tree: &Tree, hosts: &[String]) -> Option<BTreeSet<usize>> {
    let policies = tree.at(&["apps", "tls", "automation", "policies"]).items();
    let own = policies.iter().find(|policy| {
        let subjects = policy.get("subjects").texts();
        subjects.is_empty() || hosts.iter().any(|host| subjects.contains(host))
    })?;
    let issuers = own.get("issuers").items();
    let is_internal = issuers.iter().any(|issuer| issuer.get("module").text() == Some("internal"));
    is_internal.then(|| own.statements())
}

/// What is said of handshakes, as lines of `tls`.
fn handshakes(policy: &Tree) -> Vec<Statement> {
    let mut inside = Vec::new();
    let oldest = policy.get("protocol_min");
    inside.extend(oldest.text().map(|version| said(oldest.start(), &["protocols", version])));
    let clients = policy.get("client_authentication");
    let files = clients.at(&["ca", "pem_files"]).texts();
    let files = if files.is_empty() { clients.get("trusted_ca_certs_pem_files").texts() } else { files };
    if !files.is_empty() {
        let mut lines: Vec<Statement> = files.iter().map(|file| said(clients.start(), &["trusted_ca_cert_file", file])).collect();
        lines.extend(clients.get("mode").text().map(|mode| said(clients.start(), &["mode", mode])));
        let starts = clients.statements().into_iter().collect::<Vec<_>>();
        let mut line = said(starts.first().copied().unwrap_or_default(), &["client_auth"]);
        line.block = Some(lines);
        inside.push(line);
    }
    inside
}

/// The sites of a list of routes: one for each hosts that a route at the top is for, and one for all others.
fn sites(routes: &Tree, doors: &[(Door, usize)], own: &Origin, (steps, left): (&[String], LeftMatchers), outline: &mut Outline) {
    let ops = of_routes(routes, 0, left);
    let mut groups: Vec<(Vec<String>, Vec<ChainOp>)> = Vec::new();
    let mut of_all: Vec<ChainOp> = Vec::new();
    let mut is_behind_all = false;
    for op in ops {
        match super::directives::only_hosts(&op.when).filter(|_| !is_behind_all && of_all.is_empty()) {
            Some(hosts) => {
                let op = ChainOp { when: When::If(Matching::always()), ..op };
                match groups.iter_mut().find(|(known, _)| *known == hosts) {
                    Some((_, ops)) => ops.push(op),
                    None => groups.push((hosts, vec![op])),
                }
            }
            None => {
                is_behind_all |= super::directives::only_hosts(&op.when).is_none();
                of_all.push(op);
            }
        }
    }
    // What is for all comes behind those of single hosts as well.
    let all: Vec<(Vec<String>, Vec<ChainOp>)> = if groups.is_empty() {
        vec![(Vec::new(), of_all)]
    } else {
        let others = (Vec::new(), of_all.clone());
        let own = groups.into_iter().map(|(hosts, ops)| (hosts, ops.into_iter().chain(of_all.clone()).collect()));
        own.chain(Some(others).filter(|(_, ops): &(Vec<String>, Vec<ChainOp>)| !ops.is_empty())).collect()
    };
    for (hosts, ops) in all {
        let mut compiled = chain::compiled(&ops, true, &outline.statements);
        for statement in &mut outline.statements {
            if compiled.unknown_answers.contains(&statement.at) {
                statement.kind = StatementKind::Needed(Weight::Protection);
            } else if compiled.reasons.contains_key(&statement.at) && statement.kind == StatementKind::SameByDefault {
                // What says that a handler is there is what is said of all of it.
                statement.kind = StatementKind::Needed(Weight::Answer);
            }
        }
        outline.reasons.extend(std::mem::take(&mut compiled.reasons));
        let mut origin = own.clone();
        origin.add(&compiled.origin);
        let mut all_steps = steps.to_vec();
        all_steps.append(&mut compiled.steps);
        if compiled.answer.is_none() && compiled.routes.is_empty() {
            continue;
        }
        if let Some(Whereabouts { addresses, only_hosts, .. }) = placed(doors, &hosts, false, &mut origin) {
            let mut site = OutlinedSite { addresses, only_hosts, origin, ..OutlinedSite::default() };
            site.steps = all_steps;
            site.routes = compiled.routes;
            site.answer = compiled.answer;
            *site.answer_origin = compiled.answer_origin;
            settle_folders(&mut site);
            super::decode_slashes(&mut site);
            outline.services.push(Service::Site(site));
        }
    }
}

fn of_routes(routes: &Tree, depth: usize, left: LeftMatchers) -> Vec<ChainOp> {
    if depth > DEPTH_MAX {
        return Vec::new();
    }
    let mut groups: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    for route in routes.items() {
        let group = route.get("group").text().map(|name| {
            let position = groups.iter().position(|known| *known == name).unwrap_or_else(|| {
                groups.push(name);
                groups.len() - 1
            });
            u32::try_from(position).unwrap_or(63)
        });
        let when = matched(route.get("match"), left);
        let mut origin = Origin::default();
        origin.carry_all(route.get("match").statements());
        let handlers = route.get("handle").items();
        if let Some(op) = tried(route, &when, &origin) {
            all.push(op);
            continue;
        }
        let mut inner: Vec<ChainOp> = handlers.iter().flat_map(|handler| of_handler(handler, depth, left)).collect();
        let is_of_paths =
            |set: &Tree| set.entries().iter().all(|(name, _)| matches!(name.as_str(), "path" | "file" | "path_regexp"));
        if is_of_scripts(handlers) && route.get("match").items().iter().all(is_of_paths) {
            // Scripts are found by what their names end in, here as there.
            all.extend(inner.into_iter().map(|mut op| {
                op.origin.add(&origin);
                op
            }));
            continue;
        }
        if route.get("terminal").is_true() {
            let answer = Act::Answer(ChainAnswer::Ready(Vec::new(), OutlinedAnswer::status(200)));
            inner.push(ChainOp { when: When::If(Matching::always()), act: answer, group: None, origin: Origin::default() });
        }
        match <[ChainOp; 1]>::try_from(inner) {
            Ok([mut op]) => {
                op.origin.add(&origin);
                op.when = super::directives::both(&op.when, &when);
                op.group = group;
                all.push(op);
            }
            Err(inner) => all.push(ChainOp { when, act: Act::Within(inner), group, origin }),
        }
    }
    all
}

/// Whether it hands on what scripts are asked for.
fn is_of_scripts(handlers: &[Tree]) -> bool {
    handlers.iter().any(|handler| handler.at(&["transport", "protocol"]).text() == Some("fastcgi"))
}

/// What is looked for in place of the path, or where a folder has its slash.
fn tried(route: &Tree, when: &When, origin: &Origin) -> Option<ChainOp> {
    let sets = route.get("match").items();
    let file = sets.iter().map(|set| set.get("file")).find(|file| !file.is_nothing())?;
    let [handler] = route.get("handle").items() else { return None };
    let files = file.get("try_files").texts();
    let mut origin = origin.clone();
    let also = match when {
        When::File { also, .. } => also.clone(),
        When::If(_) | When::Unknown(_) => Matching::always(),
    };
    origin.carry_all(handler.statements());
    let is_rewrite = handler.get("uri").text().is_some_and(|uri| uri.contains("file.relative"));
    let is_slash =
        handler.at(&["headers", "Location"]).texts().iter().any(|to| to.contains("orig_uri.path") && to.contains("}/"));
    let act = match (is_rewrite, is_slash) {
        (true, _) => Act::Tries(files.iter().map(|file| file.replace("{http.request.uri.path}", "{path}")).collect()),
        (false, true) => Act::Nothing,
        (false, false) => return None,
    };
    let when = if is_slash || also.is_always() { Matching::always() } else { also };
    Some(ChainOp { when: When::If(when), act, group: None, origin })
}

/// Which matchers of a server ask for another address here than there.
fn left_at(server: &Tree) -> LeftMatchers {
    let of_connections = server.has("trusted_proxies");
    let is_usual = |name: &String| name.eq_ignore_ascii_case("x-forwarded-for");
    let is_known = server.at(&["trusted_proxies", "source"]).text() == Some("static")
        && server.get("client_ip_headers").texts().iter().all(is_usual);
    LeftMatchers { of_connections, of_clients: of_connections && !is_known }
}

/// Sets are alternatives, and what stands in one has to hold together.
fn matched(sets: &Tree, left: LeftMatchers) -> When {
    let mut any: Option<When> = None;
    for set in sets.items() {
        let own = of_set(set, left);
        any = Some(match (any, own) {
            (None, own) => own,
            (Some(When::If(known)), When::If(own)) => known.or(&own).map_or(When::Unknown(OF_CONDITION), When::If),
            (Some(_), _) => When::Unknown(OF_CONDITION),
        });
    }
    any.unwrap_or(When::If(Matching::always()))
}

fn of_set(set: &Tree, left: LeftMatchers) -> When {
    let mut lines = Vec::new();
    for (name, value) in set.entries() {
        if !criteria(name, value, &mut lines) {
            return When::Unknown(OF_CONDITION);
        }
    }
    if lines.is_empty() {
        return When::If(Matching::always());
    }
    left.names().for_each(|matcher| matchers::leave(&mut lines, matcher));
    matchers::named(&Statement { block: Some(lines), ..said(0, &["@set"]) })
}

/// A matcher as lines of a named one; whether it is one that is known.
fn criteria(name: &str, value: &Tree, lines: &mut Vec<Statement>) -> bool {
    let words = |name: &str, values: &[String]| {
        let all: Vec<&str> = [name].into_iter().chain(values.iter().map(String::as_str)).collect();
        said(0, &all)
    };
    match name {
        "path" | "host" | "method" => lines.push(words(name, &value.texts())),
        "remote_ip" | "client_ip" => lines.push(words(name, &value.get("ranges").texts())),
        "path_regexp" => lines.push(words(name, &[value.get("pattern").text().unwrap_or_default().to_owned()])),
        "header" => {
            for (field, values) in value.entries() {
                if values.is_nothing() {
                    lines.push(said(0, &["header", &format!("!{field}")]));
                }
                values.texts().iter().for_each(|value| lines.push(said(0, &["header", field, value])));
            }
        }
        "header_regexp" => {
            for (field, regex) in value.entries() {
                lines.push(said(0, &["header_regexp", field, regex.get("pattern").text().unwrap_or_default()]));
            }
        }
        "query" => {
            let pairs = value
                .entries()
                .iter()
                .flat_map(|(key, values)| values.texts().into_iter().map(move |value| format!("{key}={value}")));
            lines.push(words("query", &pairs.collect::<Vec<_>>()));
        }
        "protocol" => lines.push(said(0, &["protocol", value.text().unwrap_or_default()])),
        "expression" => {
            let text = value.text().or_else(|| value.get("expr").text()).unwrap_or_default();
            lines.push(said(0, &["expression", text]));
        }
        "file" => lines.push(said(0, &["file"])),
        "not" => {
            for set in value.items() {
                let mut inner = Vec::new();
                if !set.entries().iter().all(|(name, value)| criteria(name, value, &mut inner)) {
                    return false;
                }
                lines.push(Statement { block: Some(inner), ..said(0, &["not"]) });
            }
        }
        _ => return false,
    }
    true
}

/// A handler as the directive that is adapted to it.
fn of_handler(handler: &Tree, depth: usize, left: LeftMatchers) -> Vec<ChainOp> {
    let name = handler.get("handler").text().unwrap_or_default();
    let places = handler.statements();
    let mut origin = Origin { within: places.clone(), ..Origin::default() };
    let plain = |act: Act, origin: Origin| vec![ChainOp { when: When::If(Matching::always()), act, group: None, origin }];
    match name {
        "subroute" => {
            let inner = of_routes(handler.get("routes"), depth + 1, left);
            let mut origin = Origin::default();
            origin.within.extend(handler.get("errors").statements());
            return plain(Act::Within(inner), origin);
        }
        "vars" => {
            let root = handler.get("root");
            origin.carry_all(root.statements());
            return match root.text() {
                Some(root) => plain(Act::Root(ServedFolder::of(root)), origin),
                None => plain(Act::Nothing, origin),
            };
        }
        _ => {}
    }
    let statements = directives(name, handler);
    if statements.is_empty() {
        return plain(if HARMLESS.contains(&name) { Act::Nothing } else { Act::Unsaid }, origin);
    }
    let mut ops = DirectiveReader::new(order_of(&[])).ops(&statements, true);
    for op in &mut ops {
        op.origin.within.extend(&places);
        // How its hashes are made is said by the hashes.
        let is_one = handler.get("providers").entries().len() == 1;
        if name == "authentication" && is_one && matches!(&op.act, Act::Step(line) if line.starts_with("basic-auth")) {
            op.origin.carry_all(places.iter().copied());
        }
        if name == "static_response" && !op.origin.carried.is_empty() {
            let said = [handler.get("status_code"), handler.get("body"), handler.at(&["headers", "Location"])];
            op.origin.carry_all(said.iter().flat_map(|part| part.statements()));
        }
    }
    ops
}
