//! What a Caddyfile asks for: its sites by their addresses, with what stands in `handle`, `route` and behind matchers.

use super::braces::{self, Statement, named, value};
use super::outline::{
    Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service, below, is_plain, upstream,
};
use tidegate_model::SiteAddress;

const NO_SITE: &str = "it has no site: global options and snippets alone";
const BY_VARIABLE: &str = "names or servers in it are variables of the environment, which are `{env.NAME}` here";
const NOTHING_ANSWERS: &str = "none of its sites hands requests on or serves files, as far as this can be told";

const GUARDS: [&str; 9] =
    ["basic_auth", "basicauth", "forward_auth", "remote_ip", "client_ip", "rate_limit", "client_auth", "jwtauth", "authorize"];
const DEPTH_MAX: usize = 8;

pub fn outline(text: &str) -> Outline {
    let statements = braces::of_caddy(text);
    let mut outline = Outline::default();
    let has_blocks = statements.iter().any(|statement| statement.block.is_some() && is_address_line(statement));
    let snippets: Vec<&Statement> = statements.iter().filter(|statement| statement.name().starts_with('(')).collect();
    if let Some(options) = statements.first().filter(|first| first.words.is_empty()) {
        named(options.inside(), "layer4").flat_map(Statement::inside).for_each(|server| layer4(server, &mut outline));
    }
    if has_blocks {
        for statement in statements.iter().filter(|statement| statement.block.is_some() && is_address_line(statement)) {
            site(&statement.words, statement.inside(), &snippets, &mut outline);
        }
    } else {
        // One site needs no braces; a part of one has no address either.
        let mut rest = statements.iter().filter(|statement| !statement.words.is_empty() && !statement.name().starts_with('('));
        let all: Vec<Statement> = rest.by_ref().cloned().collect();
        match all.split_first() {
            Some((first, rest)) if first.block.is_none() && is_address_line(first) => {
                site(&first.words, rest, &snippets, &mut outline);
            }
            Some(_) => site(&[], &all, &snippets, &mut outline),
            None => {}
        }
    }
    let has_variables = text.contains("{$") || text.contains("{env.");
    let has_site = statements.iter().any(is_address_line);
    outline.or_without(match (has_variables, has_site) {
        (true, _) => BY_VARIABLE,
        (false, true) => NOTHING_ANSWERS,
        (false, false) => NO_SITE,
    })
}

fn is_address_line(statement: &Statement) -> bool {
    !statement.words.is_empty()
        && statement.words.iter().all(|word| {
            let word = word.trim_end_matches(',');
            let is_named = word.contains(['.', ':', '*']) || matches!(word, "localhost") || word.starts_with("{$");
            is_named
                && !word.starts_with(['(', '@', '/'])
                && !word.contains('=')
                && (word.contains("{$")
                    || word.contains("{env.")
                    || SiteAddress::parse(word.split('/').next().filter(|_| !word.contains("://")).unwrap_or(word)).is_ok())
        })
}

/// An address as we write it. Without a name, what Caddy listens on is plain HTTP but on its port for HTTPS.
fn address(written: &str) -> Option<String> {
    let written = variables(written.trim_end_matches(','));
    let (scheme, rest) = match written.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, written.as_str()),
    };
    let rest = rest.split('/').next().unwrap_or_default();
    if rest.contains("{env.") {
        return Some(format!("{}{rest}", scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default()));
    }
    if !is_plain(rest) {
        return None;
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok()?)),
        None => (rest, None),
    };
    let host = Some(host).filter(|host| !host.is_empty() && *host != "*");
    let is_http = match (scheme, port, host) {
        (Some(scheme), _, _) => scheme == "http",
        (None, Some(443), _) => false,
        (None, Some(80), _) | (None, _, None) => true,
        (None, Some(_) | None, Some(_)) => false,
    };
    let port = port.unwrap_or(if is_http { 80 } else { 443 });
    Door { is_tls: !is_http, port, ip: None }.address(host)
}

/// `{$NAME}` and `{$NAME:default}` in our words.
fn variables(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{$") {
        let Some((name, after)) = behind.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&format!("{{env.{}}}", name.replacen(':', ":-", 1)));
        rest = after;
    }
    out + rest
}

fn site(words: &[String], inside: &[Statement], snippets: &[&Statement], outline: &mut Outline) {
    let inside = with_snippets(inside, snippets, 0);
    let addresses: Vec<String> = words.iter().filter_map(|word| address(word)).collect();
    if addresses.is_empty() && !words.is_empty() {
        outline.without.get_or_insert(BY_VARIABLE);
        return;
    }
    let guards: Vec<String> =
        GUARDS.iter().filter(|guard| has_word_within(&inside, guard)).map(|guard| (*guard).to_owned()).collect();
    // Of its own CA, where it is asked for.
    let is_internal = named(&inside, "tls").any(|tls| tls.argument() == "internal");
    let steps: Vec<String> = is_internal.then(|| "tls \"internal\"".to_owned()).into_iter().collect();
    let mut reader = CaddySite { all: &inside, by_host: Vec::new(), routes: Vec::new(), answer: None };
    reader.read(&inside, 0);
    let CaddySite { by_host, mut routes, answer, .. } = reader;
    // What is longer is more special, and Caddy looks at it first.
    routes.sort_by_key(|route| std::cmp::Reverse((route.patterns.iter().map(String::len).max(), route.conditions.len())));
    for (hosts, answer) in by_host {
        let addresses: Vec<String> = hosts.iter().filter_map(|host| address(host)).collect();
        if !addresses.is_empty() {
            let site = OutlinedSite {
                addresses,
                answer: Some(answer),
                guards: guards.clone(),
                steps: steps.clone(),
                ..OutlinedSite::default()
            };
            outline.services.push(Service::Site(site));
        }
    }
    if answer.is_some() || !routes.is_empty() {
        // A name that only the environment has cannot be looked at; the reader's stands in its place.
        let is_known = addresses.iter().all(|address| !address.contains("{env.") || address.contains(":-"));
        let site = OutlinedSite {
            addresses: if is_known { addresses } else { Vec::new() },
            routes,
            answer,
            guards,
            steps,
            ..OutlinedSite::default()
        };
        outline.services.push(Service::Site(site));
    }
}

/// Guards stand at the beginning of a line, or behind the name of a matcher.
fn has_word_within(statements: &[Statement], word: &str) -> bool {
    statements.iter().any(|statement| {
        let is_matcher = statement.name().starts_with('@') && statement.words.iter().any(|own| own == word);
        statement.name() == word || is_matcher || has_word_within(statement.inside(), word)
    })
}

fn with_snippets(inside: &[Statement], snippets: &[&Statement], depth: usize) -> Vec<Statement> {
    let mut all = Vec::new();
    for statement in inside {
        let snippet = (statement.name() == "import" && depth < DEPTH_MAX)
            .then(|| snippets.iter().find(|snippet| snippet.name() == format!("({})", statement.argument())))
            .flatten();
        match snippet {
            Some(snippet) => all.extend(
                with_snippets(snippet.inside(), snippets, depth + 1).into_iter().map(|own| filled(own, statement.arguments())),
            ),
            None => all.push(statement.clone()),
        }
    }
    all
}

/// The statement with what is handed to the snippet, `{args[0]}` or `{args.0}`.
fn filled(statement: Statement, arguments: &[String]) -> Statement {
    let fill = |word: String| {
        arguments.iter().skip(1).enumerate().fold(word, |word, (index, argument)| {
            word.replace(&format!("{{args[{index}]}}"), argument).replace(&format!("{{args.{index}}}"), argument)
        })
    };
    let block = statement.block.map(|block| block.into_iter().map(|own| filled(own, arguments)).collect());
    Statement { words: statement.words.into_iter().map(fill).collect(), block }
}

/// What a directive is about.
enum CaddyMatch {
    All,
    Paths(Vec<String>),
    Hosts(Vec<String>),
    /// As they stand behind `match`, beside patterns of paths.
    Conditions(Vec<String>, Vec<String>),
    /// Conditions that are not understood.
    Other,
}

struct CaddySite<'s> {
    all: &'s [Statement],
    by_host: Vec<(Vec<String>, OutlinedAnswer)>,
    routes: Vec<OutlinedRoute>,
    answer: Option<OutlinedAnswer>,
}

impl CaddySite<'_> {
    fn read(&mut self, inside: &[Statement], depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        for statement in inside {
            let matched = self.matched(statement.argument());
            let is_plain_match = matches!(matched, CaddyMatch::All);
            match statement.name() {
                "handle" | "handle_path" | "route" if is_plain_match && statement.arguments().is_empty() => {
                    self.read(statement.inside(), depth + 1);
                }
                "handle" | "handle_path" | "route" => {
                    let Some(mut answer) = self.answer(statement.inside()) else { continue };
                    if statement.name() == "handle_path" {
                        take_off(&mut answer, statement.argument());
                    }
                    self.put(matched, answer);
                }
                _ => {}
            }
        }
        // Directives with a path of their own, then what is left for all.
        for statement in inside {
            let matched = self.matched(statement.argument());
            if !matches!(matched, CaddyMatch::All)
                && let Some(answer) = self.of_directive(statement, inside, &statement.arguments()[1..])
            {
                self.put(matched, answer);
            }
        }
        if let Some(answer) = self.answer(inside) {
            self.put(CaddyMatch::All, answer);
        }
    }

    fn put(&mut self, matched: CaddyMatch, answer: OutlinedAnswer) {
        match matched {
            CaddyMatch::All => {
                self.answer.get_or_insert(answer);
            }
            CaddyMatch::Paths(patterns) if self.routes.iter().all(|route| route.patterns != patterns) => {
                self.routes.push(OutlinedRoute::of(patterns, answer));
            }
            CaddyMatch::Hosts(hosts) => self.by_host.push((hosts, answer)),
            CaddyMatch::Conditions(patterns, conditions) => {
                self.routes.push(OutlinedRoute { conditions, ..OutlinedRoute::of(patterns, answer) });
            }
            CaddyMatch::Paths(_) | CaddyMatch::Other => {}
        }
    }

    fn matched(&self, word: &str) -> CaddyMatch {
        if word.starts_with('/') {
            return CaddyMatch::Paths(vec![pattern(word)]);
        }
        if !word.starts_with('@') {
            return CaddyMatch::All;
        }
        let Some(matcher) = named(self.all, word).next() else { return CaddyMatch::Other };
        // On its line, or alone in its block.
        let criterion = match (matcher.words.len(), matcher.inside()) {
            (1, [one]) => one.words.as_slice(),
            (1, all) => return conditions(all),
            _ => &matcher.words[1..],
        };
        match criterion.split_first() {
            Some((name, paths)) if name == "path" && !paths.is_empty() => {
                CaddyMatch::Paths(paths.iter().map(|path| pattern(path)).collect())
            }
            Some((name, hosts)) if name == "host" && !hosts.is_empty() => CaddyMatch::Hosts(hosts.to_vec()),
            Some((name, [.., regex])) if name == "path_regexp" => CaddyMatch::Paths(vec![format!("~{regex}")]),
            _ => conditions(&[Statement { words: criterion.to_vec(), block: None }]),
        }
    }

    /// What answers in a block for all that comes there.
    fn answer(&self, inside: &[Statement]) -> Option<OutlinedAnswer> {
        const IN_ORDER: [&str; 7] = ["redir", "respond", "handle", "route", "reverse_proxy", "php_fastcgi", "file_server"];
        IN_ORDER.iter().flat_map(|name| named(inside, name)).find_map(|statement| {
            let is_all = matches!(self.matched(statement.argument()), CaddyMatch::All);
            if !is_all {
                return None;
            }
            if matches!(statement.name(), "handle" | "route") {
                return self.answer(statement.inside());
            }
            let arguments = statement.arguments();
            let arguments = if statement.argument() == "*" { &arguments[1..] } else { arguments };
            self.of_directive(statement, inside, arguments)
        })
    }

    fn of_directive(&self, statement: &Statement, inside: &[Statement], arguments: &[String]) -> Option<OutlinedAnswer> {
        match statement.name() {
            "reverse_proxy" => {
                let mut answer = OutlinedAnswer::proxy(group(arguments, statement.inside())?);
                for uri in named(inside, "uri").filter(|uri| uri.argument() == "strip_prefix") {
                    take_off(&mut answer, uri.arguments().last().map_or("", String::as_str));
                }
                Some(answer)
            }
            "php_fastcgi" => {
                let server = upstream(&arguments.first()?.replace("unix//", "unix:/"))?;
                let root = self.root(inside);
                Some(OutlinedAnswer::Scripts {
                    server,
                    fallback: root.is_some().then(|| "/index.php".into()),
                    is_static: root.is_some() && has_files(inside, self.all),
                    root,
                })
            }
            "file_server" => {
                let root = value(statement.inside(), "root").map(str::to_owned).or_else(|| self.root(inside))?;
                let tries = named(inside, "try_files").next().map(Statement::arguments).unwrap_or_default();
                let fallback = tries.last().filter(|last| last.starts_with('/') && !last.contains('{')).cloned();
                Some(OutlinedAnswer::Files {
                    root,
                    strip: None,
                    fallback,
                    is_listing: arguments.iter().any(|word| word == "browse"),
                })
            }
            "respond" => responded(arguments),
            "redir" => redirected(arguments),
            _ => None,
        }
    }

    fn root(&self, inside: &[Statement]) -> Option<String> {
        let root = named(inside, "root").chain(named(self.all, "root")).find_map(|root| root.arguments().last())?;
        (root.starts_with('/') && !root.contains('{')).then(|| root.clone())
    }
}

/// Lines of a matcher, all of which have to hold.
fn conditions(lines: &[Statement]) -> CaddyMatch {
    let mut patterns = Vec::new();
    let mut conditions = Vec::new();
    let is_upgrade = |line: &Statement| line.name() == "header" && line.argument().eq_ignore_ascii_case("Upgrade");
    for line in lines {
        let has_text = |text: &str| !text.contains('"') && !text.contains('\\') && text.trim_matches('*').find('*').is_none();
        match (line.name(), line.arguments()) {
            ("path", paths) if !paths.is_empty() => patterns.extend(paths.iter().map(|path| pattern(path))),
            ("method", methods) if !methods.is_empty() => conditions.push(format!("method=\"{}\"", methods.join(","))),
            ("remote_ip" | "client_ip", networks) if networks.iter().all(|network| is_plain(network)) && !networks.is_empty() => {
                conditions.push(format!("client=\"{}\"", networks.join(",")));
            }
            // What goes with an upgrade needs no condition of its own.
            ("header", [name, _]) if name.eq_ignore_ascii_case("Connection") && lines.iter().any(is_upgrade) => {}
            ("header", [name, value]) if has_text(value) && is_plain(name) => {
                conditions.push(format!("header=\"{name}: {value}\""));
            }
            ("query", [pair]) if has_text(pair) => conditions.push(format!("query=\"{pair}\"")),
            _ => return CaddyMatch::Other,
        }
    }
    if patterns.is_empty() && conditions.is_empty() { CaddyMatch::Other } else { CaddyMatch::Conditions(patterns, conditions) }
}

fn has_files(inside: &[Statement], all: &[Statement]) -> bool {
    named(inside, "file_server").chain(named(all, "file_server")).next().is_some()
}

/// `/api/*` is below a path; `/api*` is whatever begins so, of which that is meant.
fn pattern(path: &str) -> String {
    match path.strip_suffix('*') {
        Some(stem) if !stem.contains('*') => below(stem),
        _ if path.contains('*') => format!("~^{}$", regex_syntax::escape(path).replace("\\*", ".*")),
        _ => path.to_owned(),
    }
}

fn take_off(answer: &mut OutlinedAnswer, prefix: &str) {
    let prefix = prefix.trim_end_matches('*').trim_end_matches('/');
    if let OutlinedAnswer::Proxy { strip, .. } | OutlinedAnswer::Files { strip, .. } = answer
        && prefix.len() > 1
    {
        *strip = Some(prefix.to_owned());
    }
}

fn group(arguments: &[String], inside: &[Statement]) -> Option<ServerGroup> {
    let mut group = ServerGroup { name: "app".into(), ..ServerGroup::default() };
    let to = named(inside, "to").flat_map(Statement::arguments);
    for written in arguments.iter().chain(to) {
        let written = variables(written).replace("unix//", "unix:/");
        if let Some((_, default)) = written.split_once(":-").filter(|_| written.starts_with("{env.")) {
            let default = default.replacen('}', "", 1);
            group.servers.extend(upstream(&default).map(super::outline::GroupedServer::at));
            continue;
        }
        if written.starts_with("h2c://") {
            group.add_line("protocol \"h2c\"");
        }
        group.servers.extend(upstream(&written).map(super::outline::GroupedServer::at));
    }
    for dynamic in named(inside, "dynamic").filter(|dynamic| dynamic.argument() == "a") {
        let parts = dynamic.arguments();
        let (name, port) = match parts {
            [_, name, port, ..] => (name.as_str(), port.as_str()),
            _ => (value(dynamic.inside(), "name")?, value(dynamic.inside(), "port")?),
        };
        group.add_line(format!("discover dns=\"{name}:{port}\""));
    }
    match value(inside, "lb_policy") {
        Some("least_conn") => group.add_line("balance \"least-conn\""),
        Some("ip_hash" | "client_ip_hash") => group.add_line("balance \"hash\" key=\"{client.ip}\""),
        Some("uri_hash") => group.add_line("balance \"hash\" key=\"{path}\""),
        Some("random") => group.add_line("balance \"random\""),
        Some("cookie") => group.add_line("sticky cookie=\"tg_route\""),
        Some(_) | None => {}
    }
    if let Some(path) = value(inside, "health_uri").filter(|path| path.starts_with('/') && is_plain(path)) {
        group.add_line(format!("health \"{path}\""));
    }
    let is_tls = named(inside, "transport").any(|transport| transport.inside().iter().any(|line| line.name().starts_with("tls")));
    let is_unverified =
        named(inside, "transport").any(|transport| braces::has_within(transport.inside(), "tls_insecure_skip_verify"));
    if is_tls {
        group = group.over_tls();
    }
    let name = named(inside, "transport").find_map(|transport| value(transport.inside(), "tls_server_name"));
    if is_unverified {
        group.add_line("tls verify=#false");
    } else if let Some(name) = name.filter(|name| is_plain(name)) {
        group.add_line(format!("tls sni=\"{name}\""));
    }
    (!group.is_empty()).then_some(group)
}

/// `"text" 200`, `404`
fn responded(arguments: &[String]) -> Option<OutlinedAnswer> {
    let status = arguments.iter().find_map(|word| word.parse::<u16>().ok().filter(|status| (200..=599).contains(status)));
    let body = arguments.iter().find(|word| word.parse::<u16>().is_err()).filter(|body| !body.contains(['{', '}'])).cloned();
    let is_said = status.is_some() || body.is_some();
    is_said.then(|| OutlinedAnswer::Respond { status: status.unwrap_or(200), body })
}

/// `https://www.example.com{uri} permanent`
fn redirected(arguments: &[String]) -> Option<OutlinedAnswer> {
    let to = arguments.first()?;
    let status = match arguments.get(1).map(String::as_str) {
        Some("permanent") => 301,
        Some("temporary") | None => 302,
        Some("html") => return None,
        Some(status) => status.parse().ok()?,
    };
    let to = to.replace("{http.request.uri}", "{uri}").replace("{labels.", "{").replace("{http.request.host}", "{host}");
    let is_known = to
        .split('{')
        .skip(1)
        .all(|part| ["uri}", "host}", "path}", "scheme}", "query}"].iter().any(|known| part.starts_with(known)));
    is_known.then_some(OutlinedAnswer::Redirect { to, status })
}

/// A server of the layer4 app: an address, with routes by name or for all.
fn layer4(server: &Statement, outline: &mut Outline) {
    let Some(door) = Door::parse(server.name().trim_end_matches(',').trim_start_matches("tcp/"), false) else { return };
    let mut tcp = OutlinedTcp { address: format!(":{}", door.port), ..OutlinedTcp::default() };
    let inside = server.inside();
    for route in named(inside, "route") {
        let targets: Vec<String> = named(route.inside(), "proxy")
            .flat_map(|proxy| proxy.arguments().iter().chain(named(proxy.inside(), "upstream").flat_map(Statement::arguments)))
            .cloned()
            .collect();
        let Some(group) = group(&targets, &[]) else { continue };
        let matcher = named(inside, route.argument()).next().filter(|_| route.argument().starts_with('@'));
        let names = matcher.map(|matcher| {
            let words = matcher.words.iter().chain(
                matcher.inside().iter().flat_map(|tls| tls.words.iter().chain(tls.inside().iter().flat_map(|line| &line.words))),
            );
            words.skip_while(|word| *word != "sni").skip(1).cloned().collect::<Vec<_>>()
        });
        match names {
            Some(names) if !names.is_empty() => tcp.by_name.push((names, group)),
            None if route.argument().is_empty() => tcp.otherwise = Some(group),
            Some(_) | None => {}
        }
    }
    let direct: Vec<String> = named(inside, "proxy").flat_map(Statement::arguments).cloned().collect();
    tcp.otherwise = tcp.otherwise.or_else(|| group(&direct, &[]));
    if tcp.otherwise.is_some() || !tcp.by_name.is_empty() {
        outline.services.push(Service::Tcp(tcp));
    }
}
