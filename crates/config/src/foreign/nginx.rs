//! What a file of nginx asks for: its servers by context, for HTTP and for connections as they are, with their
//! upstreams. A fragment without its context is told apart by what only one of the two has.

use super::braces::{self, Statement, named, value};
use super::outline::{
    Door, GroupedServer, NAME_IN_PLACE, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service,
    addresses, is_plain, upstream,
};
use crate::forms::parse_network;

const INCLUDED: &str = "its sites are in the files that it includes: give `check` one of them";
const NO_SERVER: &str = "it has no `server` that hands requests on";
const BY_VARIABLE: &str = "where it hands requests on to is in variables";
const UDP: &str = "UDP is not handed on in this version";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";
const OTHER_PROTOCOLS: &str = "mail, uWSGI, SCGI and memcached are not spoken";

/// Words that keep somebody out. Who takes a line over without them should know.
const GUARDS: [&str; 12] = [
    "auth_basic",
    "auth_request",
    "auth_jwt",
    "allow",
    "deny",
    "satisfy",
    "limit_req",
    "limit_conn",
    "ssl_verify_client",
    "internal",
    "valid_referers",
    "secure_link",
];

pub fn outline(text: &str) -> Outline {
    let statements = braces::of_nginx(text);
    let mut reader = NginxReader { groups: Vec::new(), maps: Vec::new(), zones: Vec::new(), outline: Outline::default() };
    reader.collect(&statements);
    let has_include = named(&statements, "http").any(|http| named(http.inside(), "include").next().is_some());
    reader.walk(&statements, Context::Open);
    let mut outline = reader.outline;
    if outline.services.is_empty() {
        outline.groups = reader.groups;
    }
    if braces::has_within(&statements, "mail")
        || ["uwsgi_pass", "scgi_pass", "memcached_pass"].iter().any(|word| braces::has_within(&statements, word))
    {
        return outline.or_without(OTHER_PROTOCOLS);
    }
    outline.or_without(if has_include { INCLUDED } else { NO_SERVER })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Http,
    Stream,
    /// A file that others include.
    Open,
}

/// A variable by another.
struct VariableMap {
    key: String,
    variable: String,
    rows: Vec<(String, String)>,
}

struct NginxReader {
    groups: Vec<ServerGroup>,
    maps: Vec<VariableMap>,
    /// How often each client may ask, by the names of zones.
    zones: Vec<(String, String)>,
    outline: Outline,
}

impl NginxReader {
    /// Upstreams and maps, which may stand behind what names them.
    fn collect(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement.name() {
                "upstream" => self.groups.push(group(statement)),
                "map" if statement.arguments().len() == 2 => {
                    let rows = statement.inside().iter().filter(|row| row.words.len() == 2);
                    let rows = rows.map(|row| (row.words[0].clone(), row.words[1].clone())).collect();
                    let (key, variable) = (statement.words[1].clone(), statement.words[2].clone());
                    self.maps.push(VariableMap { key, variable, rows });
                }
                "limit_req_zone" if statement.argument().ends_with("remote_addr") => {
                    self.zones.extend(zone(statement.arguments()));
                }
                "http" | "stream" => self.collect(statement.inside()),
                _ => {}
            }
        }
    }

    fn walk(&mut self, statements: &[Statement], context: Context) {
        for statement in statements {
            match statement.name() {
                "http" => self.walk(statement.inside(), Context::Http),
                "stream" => self.walk(statement.inside(), Context::Stream),
                "server" if statement.block.is_some() => {
                    if context == Context::Stream || (context == Context::Open && is_of_stream(statement.inside())) {
                        self.stream_server(statement.inside());
                    } else {
                        self.http_server(statement.inside());
                    }
                }
                _ => {}
            }
        }
        // A part of a server, in a file of its own.
        let is_part = |statement: &Statement| {
            (statement.name() == "location" && statement.block.is_some()) || is_terminal(statement.name())
        };
        if context == Context::Open && statements.iter().any(is_part) {
            let site = self.parts(statements);
            self.add_site(site);
        }
    }

    /// What keeps others out in a block: lines of ours, and the words that none is told for.
    fn guards(&self, inside: &[Statement]) -> (Vec<String>, Vec<String>) {
        let (mut steps, mut told) = (Vec::new(), Vec::new());
        if let Some(lines) = access(inside) {
            steps.extend(lines);
            told.extend(["allow", "deny"]);
        }
        let limits: Vec<&Statement> = named(inside, "limit_req").collect();
        let lines: Vec<String> = limits.iter().filter_map(|limit| self.rate_limit(limit.arguments())).collect();
        if !limits.is_empty() && lines.len() == limits.len() {
            steps.extend(lines);
            told.push("limit_req");
        }
        // A location has lines of its own, and all else of a block is not looked into.
        let is_there = |guard: &&&str| {
            let of_blocks = inside.iter().filter(|statement| statement.name() != "location");
            let own = named(inside, guard).next().is_some() && !told.contains(guard);
            own || of_blocks.into_iter().any(|block| braces::has_within(block.inside(), guard))
        };
        let guards = GUARDS.iter().filter(is_there).map(|guard| (*guard).to_owned()).collect();
        (steps, guards)
    }

    /// `zone=api burst=40 nodelay`
    fn rate_limit(&self, arguments: &[String]) -> Option<String> {
        let behind = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
        let (_, rate) = self.zones.iter().find(|(name, _)| Some(name.as_str()) == behind("zone="))?;
        let burst = behind("burst=").map_or(Some(0), |burst| burst.parse::<u32>().ok())?;
        Some(format!("rate-limit \"{rate}\" burst={}", burst.checked_add(1)?))
    }

    fn add_site(&mut self, site: OutlinedSite) {
        if site.answer.is_some() || !site.routes.is_empty() {
            self.outline.services.push(Service::Site(site));
        }
    }

    fn http_server(&mut self, inside: &[Statement]) {
        let doors = doors(inside);
        let secure = doors.iter().find(|door| door.is_tls);
        let door = secure.or(doors.first()).copied().unwrap_or(Door::HTTP);
        // The name that packages come with stands for none.
        let is_name = |name: &&String| !matches!(name.as_str(), "_" | "" | "localhost") && !name.starts_with('$');
        let hosts: Vec<String> = named(inside, "server_name").flat_map(Statement::arguments).filter(is_name).cloned().collect();
        let known = addresses(&hosts, door);
        let is_name_open = known.is_none();
        let addresses = known.unwrap_or_else(|| door.address(Some(NAME_IN_PLACE)).into_iter().collect());
        let site = OutlinedSite { addresses, is_name_open, ..self.parts(inside) };
        // From plain HTTP to HTTPS a site sends without a word.
        let redirects = named(inside, "if").filter_map(|condition| self.answer(condition.inside(), &[], "/"));
        let answers: Vec<OutlinedAnswer> = redirects.chain(site.answer.clone()).collect();
        let is_to_https = |answer: &OutlinedAnswer| matches!(answer, OutlinedAnswer::Redirect { to, .. } if to.starts_with("https://{host}") || hosts.iter().any(|host| to.starts_with(&format!("https://{host}{{"))));
        if !door.is_tls && site.routes.is_empty() && answers.iter().any(is_to_https) {
            self.outline.without.get_or_insert("all that it has is the redirect to HTTPS, which a site does without a word");
            return;
        }
        self.add_site(site);
    }

    /// What a server or a file of its parts answers.
    fn parts(&mut self, inside: &[Statement]) -> OutlinedSite {
        let (steps, guards) = self.guards(inside);
        let mut site = OutlinedSite { steps, guards, ..OutlinedSite::default() };
        let root = value(inside, "root");
        let scripts = named(inside, "location").find(|location| {
            value(location.inside(), "fastcgi_pass").is_some() && location.arguments().iter().any(|word| word.contains("php"))
        });
        if let Some(answer) = self.answer(inside, inside, "/") {
            site.answer = Some(answer);
        }
        let mut prefixes: Vec<(usize, OutlinedRoute)> = Vec::new();
        let (mut first, mut patterns, mut last) = (Vec::new(), Vec::new(), None);
        for location in named(inside, "location") {
            let (modifier, path) = match location.arguments() {
                [modifier, path] => (modifier.as_str(), path.as_str()),
                [path] => ("", path.as_str()),
                _ => continue,
            };
            let is_of_scripts = scripts.is_some_and(|scripts| std::ptr::eq(scripts, location));
            let is_of_errors = named(inside, "error_page").any(|page| page.arguments().last().is_some_and(|last| last == path));
            let (steps, guards) = self.guards(location.inside());
            let new = guards.into_iter().filter(|guard| !site.guards.contains(guard)).collect::<Vec<_>>();
            site.guards.extend(new);
            if path.starts_with('@') || is_of_scripts || is_of_errors || path.contains(".well-known/acme-challenge") {
                continue;
            }
            if path == "/" && matches!(modifier, "" | "^~") {
                match self.answer(location.inside(), inside, "/") {
                    Some(answer) if !steps.is_empty() => {
                        last = Some(OutlinedRoute { steps, ..OutlinedRoute::of(Vec::new(), answer) });
                    }
                    answer => site.answer = answer.or(site.answer),
                }
                continue;
            }
            let strip = if modifier.starts_with('~') { "" } else { path };
            let Some(answer) = self.answer(location.inside(), inside, strip) else { continue };
            let pattern = match modifier {
                "=" => path.to_owned(),
                "~" => format!("~{path}"),
                "~*" => format!("~(?i){path}"),
                // Whoever refuses what begins so refuses it also within a segment.
                _ if matches!(answer, OutlinedAnswer::Respond { status: 403, .. }) && !path.ends_with('/') => {
                    format!("~^{}", regex_syntax::escape(path))
                }
                _ => super::outline::below(path),
            };
            let route = OutlinedRoute { steps, ..OutlinedRoute::of(vec![pattern], answer) };
            match modifier {
                "=" | "^~" => first.push(route),
                "~" | "~*" => patterns.push(route),
                _ => prefixes.push((path.len(), route)),
            }
        }
        prefixes.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        site.routes = first.into_iter().chain(patterns).chain(prefixes.into_iter().map(|(_, route)| route)).chain(last).collect();
        if let Some(scripts) = scripts {
            self.add_scripts(&mut site, inside, scripts, root);
        }
        site
    }

    /// Files and scripts of one folder answer as one.
    fn add_scripts(&mut self, site: &mut OutlinedSite, inside: &[Statement], scripts: &Statement, root: Option<&str>) {
        let Some(server) = value(scripts.inside(), "fastcgi_pass").and_then(|server| self.script_server(server)) else { return };
        let root = value(scripts.inside(), "root").or(root).filter(|root| is_folder(root)).map(str::to_owned);
        let tries = tried(inside);
        let fallback =
            tries.iter().rev().find(|path| path.contains(".php")).map(|path| path.split('?').next().unwrap_or(path).to_owned());
        // Without their folder they cannot be found.
        if root.is_none() {
            return;
        }
        let answer = OutlinedAnswer::Scripts { server, root, fallback, is_static: true };
        match &site.answer {
            None | Some(OutlinedAnswer::Files { .. }) => site.answer = Some(answer),
            // Something else answers, and scripts only what they are named by.
            Some(_) => site.routes.push(OutlinedRoute::of(vec!["~\\.php$".into()], answer)),
        }
    }

    fn script_server(&self, written: &str) -> Option<String> {
        let group = self.groups.iter().find(|group| group.name == written);
        match group {
            Some(group) => group.servers.first().map(|server| server.address.clone()),
            None => upstream(written),
        }
    }

    fn answer(&mut self, inside: &[Statement], server: &[Statement], path: &str) -> Option<OutlinedAnswer> {
        for statement in inside {
            let answer = match statement.name() {
                "proxy_pass" | "grpc_pass" => self.handed_on(statement, inside, server, path),
                "fastcgi_pass" => self.script_server(statement.argument()).map(|address| OutlinedAnswer::Scripts {
                    server: address,
                    root: value(inside, "root").or(value(server, "root")).filter(|root| is_folder(root)).map(str::to_owned),
                    fallback: None,
                    is_static: false,
                }),
                "return" => returned(statement.arguments()),
                _ => None,
            };
            if answer.is_some() {
                return answer;
            }
        }
        if named(inside, "deny").any(|deny| deny.argument() == "all") && named(inside, "allow").next().is_none() {
            return Some(OutlinedAnswer::status(403));
        }
        let fallback = tried(inside).last().filter(|last| last.starts_with('/') && !last.contains(['$', '='])).cloned();
        let is_listing = value(inside, "autoindex") == Some("on");
        // An alias takes the path of its location off, which a step does here.
        if let Some(alias) = value(inside, "alias").filter(|alias| is_folder(alias)) {
            let strip = Some(path.trim_end_matches('/').to_owned()).filter(|strip| !strip.is_empty());
            return Some(OutlinedAnswer::Files { root: alias.to_owned(), strip, fallback, is_listing });
        }
        let root =
            value(inside, "root").or_else(|| (value(inside, "try_files").is_some()).then(|| value(server, "root")).flatten())?;
        is_folder(root).then(|| OutlinedAnswer::Files { root: root.to_owned(), strip: None, fallback, is_listing })
    }

    fn handed_on(&mut self, pass: &Statement, inside: &[Statement], server: &[Statement], path: &str) -> Option<OutlinedAnswer> {
        let target = resolved(pass.argument(), inside, server);
        if target.contains('$') {
            self.outline.without.get_or_insert(BY_VARIABLE);
            return None;
        }
        let (scheme, rest) = target.split_once("://").unwrap_or(("http", &target));
        let (authority, uri) = match rest.find('/').filter(|_| !rest.starts_with("unix:")) {
            Some(slash) => (&rest[..slash], Some(&rest[slash..])),
            None => (rest, None),
        };
        let mut group = match self.groups.iter().find(|group| group.name == authority) {
            Some(group) => group.clone(),
            None => ServerGroup::of(upstream(&target)?),
        };
        if matches!(scheme, "https" | "grpcs") {
            group = group.over_tls();
        }
        if let Some(name) = value(inside, "proxy_ssl_name").or(value(server, "proxy_ssl_name")).filter(|name| is_plain(name)) {
            group.add_line(format!("tls sni=\"{name}\""));
        }
        if pass.name() == "grpc_pass" {
            group.add_line("protocol \"h2c\"");
        }
        let strip = uri.is_some() && path.len() > 1 && path.starts_with('/');
        let add = uri.map(|uri| uri.trim_end_matches('/')).filter(|uri| !uri.is_empty() && !path.is_empty());
        if group.is_empty() {
            return None;
        }
        let strip = strip.then(|| path.trim_end_matches('/').to_owned()).filter(|strip| Some(strip.as_str()) != add);
        let add = add.filter(|add| *add != path.trim_end_matches('/')).map(str::to_owned);
        Some(OutlinedAnswer::Proxy { group, strip, add })
    }

    fn stream_server(&mut self, inside: &[Statement]) {
        let Some(listen) = named(inside, "listen").next() else { return };
        if listen.arguments().iter().any(|word| word == "udp" || word == "quic") {
            self.outline.without.get_or_insert(UDP);
            return;
        }
        if listen.arguments().iter().any(|word| word == "ssl") {
            self.outline.without.get_or_insert(TLS_OF_TCP);
            return;
        }
        let (Some(door), Some(target)) = (Door::parse(listen.argument(), false), value(inside, "proxy_pass")) else { return };
        let host = door.ip.map(|ip| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }).unwrap_or_default();
        let mut tcp = OutlinedTcp { address: format!("{host}:{}", door.port), ..OutlinedTcp::default() };
        if let Some(map) = self.maps.iter().find(|map| map.variable == target) {
            let is_by_name = map.key == "$ssl_preread_server_name";
            for (name, group) in &map.rows {
                let group = self.stream_group(group);
                match (name.as_str(), group) {
                    ("default", group) => tcp.otherwise = group,
                    (name, Some(group)) if is_by_name && !name.starts_with('~') => {
                        let domain = name.trim_start_matches('.');
                        let both = if name.starts_with('.') {
                            vec![domain.to_owned(), format!("*.{domain}")]
                        } else {
                            vec![domain.to_owned()]
                        };
                        tcp.by_name.push((both, group));
                    }
                    _ => {}
                }
            }
        } else {
            tcp.otherwise = self.stream_group(target);
        }
        if value(inside, "proxy_ssl") == Some("on") {
            tcp.otherwise = tcp.otherwise.map(ServerGroup::over_tls);
        }
        if value(inside, "proxy_protocol") == Some("on") {
            tcp.otherwise = tcp.otherwise.map(|group| group.with_line("send-proxy-protocol \"v1\""));
        }
        if tcp.otherwise.is_none() && tcp.by_name.is_empty() {
            self.outline.without.get_or_insert(BY_VARIABLE);
        } else {
            self.outline.services.push(Service::Tcp(tcp));
        }
    }

    fn stream_group(&self, written: &str) -> Option<ServerGroup> {
        let known = self.groups.iter().find(|group| group.name == written).cloned();
        known
            .or_else(|| upstream(written).filter(|_| !written.contains('$')).map(ServerGroup::of))
            .filter(|group| !group.is_empty())
    }
}

/// Only `stream` has these directly in a server, and only HTTP has names and locations.
fn is_of_stream(inside: &[Statement]) -> bool {
    let has = |word: &str| named(inside, word).next().is_some();
    !has("location") && !has("server_name") && !has("root") && !has("return") && (has("proxy_pass") || has("ssl_preread"))
}

fn is_terminal(word: &str) -> bool {
    matches!(word, "proxy_pass" | "fastcgi_pass" | "grpc_pass")
}

fn is_folder(root: &str) -> bool {
    root.starts_with('/') && !root.contains('$')
}

/// What `try_files` of a server, or of its location for all, looks for.
fn tried(inside: &[Statement]) -> Vec<String> {
    let own = named(inside, "try_files").next();
    let of_all = || named(inside, "location").filter(|location| location.arguments() == ["/"]);
    let tries = own.or_else(|| of_all().find_map(|location| named(location.inside(), "try_files").next()));
    tries.map(|tries| tries.arguments().to_vec()).unwrap_or_default()
}

/// The target with what `set` says of its variables in the location or the server.
fn resolved(target: &str, inside: &[Statement], server: &[Statement]) -> String {
    let mut target = target.to_owned();
    for set in named(inside, "set").chain(named(server, "set")) {
        if let [variable, value] = set.arguments() {
            target = with_value(&target, variable.trim_start_matches('$'), value);
        }
    }
    // Usual ways to say that the path goes on as it is.
    for rest in ["$request_uri", "$uri$is_args$args", "$uri"] {
        target = target.strip_suffix(rest).map(str::to_owned).unwrap_or(target);
    }
    target
}

/// The text with the value in the place of `$name` and `${name}`.
fn with_value(text: &str, name: &str, value: &str) -> String {
    let text = text.replace(&format!("${{{name}}}"), value);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, behind)) = rest.split_once(&format!("${name}")) {
        let is_whole = !behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        out.push_str(before);
        out.push_str(if is_whole { value } else { "$" });
        rest = if is_whole { behind } else { &rest[before.len() + 1..] };
    }
    out + rest
}

fn doors(inside: &[Statement]) -> Vec<Door> {
    let is_on = value(inside, "ssl") == Some("on");
    let listens = named(inside, "listen").filter(|listen| !listen.argument().starts_with("unix:"));
    listens
        .filter_map(|listen| {
            let is_tls = is_on || listen.arguments().iter().any(|word| matches!(word.as_str(), "ssl" | "quic"));
            let address = listen.argument();
            let has_port = address.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
            if has_port { Door::parse(address, is_tls) } else { Door::parse(&format!("{address}:80"), is_tls) }
        })
        .collect()
}

fn group(statement: &Statement) -> ServerGroup {
    let mut group = ServerGroup { name: statement.argument().to_owned(), ..ServerGroup::default() };
    for line in statement.inside() {
        match (line.name(), line.arguments()) {
            ("server", [address, options @ ..]) if !options.iter().any(|option| option == "down") => {
                let Some(address) = upstream(address) else { continue };
                let weight = options.iter().find_map(|option| option.strip_prefix("weight=")?.parse().ok());
                let is_backup = options.iter().any(|option| option == "backup");
                group.servers.push(GroupedServer { address, weight, is_backup });
            }
            ("least_conn", _) => group.add_line("balance \"least-conn\""),
            ("random", _) => group.add_line("balance \"random\""),
            ("ip_hash", _) => group.add_line("balance \"hash\" key=\"{client.ip}\""),
            ("hash", [key, ..]) if key.contains("remote_addr") => group.add_line("balance \"hash\" key=\"{client.ip}\""),
            ("hash", [key, ..]) if key.contains("uri") => group.add_line("balance \"hash\" key=\"{path}\""),
            _ => {}
        }
    }
    group
}

/// `return 301 https://…`, `return 200 "ok"`
fn returned(arguments: &[String]) -> Option<OutlinedAnswer> {
    let (status, text) = match arguments {
        [to] if to.contains("://") => (302, Some(to)),
        [status] => (status.parse().ok()?, None),
        [status, text, ..] => (status.parse().ok()?, Some(text)),
        [] => return None,
    };
    match (status, text) {
        (301 | 302 | 303 | 307 | 308, Some(to)) => {
            let variables = [
                ("$scheme", "{scheme}"),
                ("$host", "{host}"),
                ("$server_name", "{host}"),
                ("$http_host", "{host}"),
                ("$request_uri", "{uri}"),
                ("$uri$is_args$args", "{uri}"),
                ("$uri", "{path}"),
            ];
            let to = variables.iter().fold(to.clone(), |to, (theirs, ours)| to.replace(theirs, ours));
            (!to.contains('$')).then_some(OutlinedAnswer::Redirect { to, status })
        }
        (200..=599, Some(body)) if !body.contains(['$', '{', '}']) => {
            Some(OutlinedAnswer::Respond { status, body: Some(body.clone()).filter(|body| !body.is_empty()) })
        }
        (200..=599, None) if status != 444 && status != 499 => Some(OutlinedAnswer::status(status)),
        _ => None,
    }
}

/// `$binary_remote_addr zone=api:10m rate=20r/s`
fn zone(arguments: &[String]) -> Option<(String, String)> {
    let behind = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
    let name = behind("zone=")?.split(':').next()?.to_owned();
    let (count, unit) = behind("rate=")?.split_once("r/")?;
    (count.parse::<u32>().is_ok() && matches!(unit, "s" | "m")).then(|| (name, format!("{count}/{unit}")))
}

/// The lines of ours for those who may come in, in the order that they stand in; `None` when they say something else.
fn access(inside: &[Statement]) -> Option<Vec<String>> {
    let rules: Vec<(&str, &str)> = inside
        .iter()
        .filter(|statement| matches!(statement.name(), "allow" | "deny"))
        .map(|statement| (statement.name(), statement.argument()))
        .collect();
    let end = rules.iter().position(|(_, who)| *who == "all");
    let (named, end) = (&rules[..end.unwrap_or(rules.len())], end.map(|end| rules[end].0));
    let has_allow = named.iter().any(|(word, _)| *word == "allow");
    let is_known = named.iter().all(|(_, who)| parse_network(who).is_ok());
    // Who is named by no line is refused as soon as one allows somebody, here without a word.
    let is_alike = has_allow == (end == Some("deny"));
    (is_known && is_alike).then(|| named.iter().map(|(word, who)| format!("{word} \"{who}\"")).collect())
}
