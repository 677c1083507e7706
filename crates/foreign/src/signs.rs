//! What tells whose a file is: its shape, and words that only one proxy has. Several signs have to agree, so that a
//! file of ours with a foreign word in it is told of by that word.

use super::tree::Tree;
use super::{Peer, Recognised, braces};
use std::ops::Range;

/// A head of a file tells as well as all of it.
const LINES_MAX: usize = 4_000;

pub fn recognise(text: &str) -> Option<Recognised> {
    let lines = lines_of(text);
    if lines.is_empty() || lines.iter().any(|line| is_ours(line.text)) {
        return None;
    }
    by_labels(&lines)
        .or_else(|| by_flags(&lines))
        .or_else(|| json(text, &lines))
        .or_else(|| apache(&lines))
        .or_else(|| haproxy(&lines))
        .or_else(|| nginx(text, &lines))
        .or_else(|| caddy(&lines))
        .or_else(|| toml(&lines))
        .or_else(|| yaml(text, &lines))
}

/// A line that says something.
#[derive(Debug, Clone, Copy)]
struct TextLine<'t> {
    /// Without blanks around it.
    text: &'t str,
    start: usize,
    indent: usize,
}

impl<'t> TextLine<'t> {
    fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    fn word(&self) -> &'t str {
        self.text.split(|c: char| c.is_whitespace() || matches!(c, ';' | '{' | '(' | '=')).next().unwrap_or_default()
    }

    fn is(&self, peer: Peer) -> Recognised {
        Recognised { peer, at: self.span() }
    }
}

fn lines_of(text: &str) -> Vec<TextLine<'_>> {
    let mut start = 0;
    let mut lines = Vec::new();
    for written in text.split_inclusive('\n').take(LINES_MAX) {
        let trimmed = written.trim();
        let indent = written.len() - written.trim_start().len();
        if !trimmed.is_empty() && !trimmed.starts_with('#') && !trimmed.starts_with("//") {
            lines.push(TextLine { text: trimmed, start: start + indent, indent });
        }
        start += written.len();
    }
    lines
}

/// What nobody else writes: a word of ours at the start of a line, and a text in quotes behind it.
fn is_ours(line: &str) -> bool {
    ["site", "edition", "pool", "route", "listener", "tcp"].iter().any(|word| {
        line.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('"'))
    })
}

fn by_labels(lines: &[TextLine<'_>]) -> Option<Recognised> {
    let is_label = |line: &&TextLine<'_>| {
        ["traefik.http.", "traefik.tcp.", "traefik.udp.", "traefik.enable"].iter().any(|label| line.text.contains(label))
    };
    lines.iter().find(is_label).map(|line| line.is(Peer::TraefikLabels))
}

/// Flags of a command line, which are the other way to write the static configuration of Traefik.
fn by_flags(lines: &[TextLine<'_>]) -> Option<Recognised> {
    lines.iter().find(|line| is_flag(line.text)).map(|line| line.is(Peer::Traefik))
}

fn is_flag(line: &str) -> bool {
    const STATIC: [&str; 8] =
        ["entrypoints", "providers", "certificatesresolvers", "api", "log", "accesslog", "metrics", "serverstransport"];
    let flag = line.trim_start_matches(['-', ' ', '"', '\'']);
    let has_dashes = line.trim_start_matches(['-', ' ', '"', '\'']).len() < line.len() && line.contains("--");
    let (name, _) = flag.split_once('=').unwrap_or((flag, ""));
    let head = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    has_dashes && name.contains('.') && STATIC.contains(&head.as_str())
}

pub fn has_flags(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .is_some_and(|line| line.starts_with("--") && is_flag(line))
}

/// The flags as what they are written in elsewhere.
pub fn of_flags(text: &str) -> Tree {
    let mut tree = Tree::of_entries(Vec::new());
    for written in text.split_whitespace().filter(|flag| flag.trim_matches(['"', '\'', '\\']).starts_with("--")) {
        let start = written.as_ptr() as usize - text.as_ptr() as usize;
        let flag = written.trim_matches(['"', '\'', '\\']).trim_start_matches('-');
        let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
        let path: Vec<String> = name.split('.').map(str::to_owned).take(12).collect();
        *tree.place(&path) = Tree::of_text(value).standing_at(start);
    }
    tree
}

fn json(text: &str, lines: &[TextLine<'_>]) -> Option<Recognised> {
    let start = lines[0].start;
    let trimmed = &text[start..];
    // Members that were cut out of what is around them.
    let is_excerpt = lines[0].text.starts_with('"') && lines[0].text.contains("\":") && lines[0].text.ends_with(['{', '[', ',']);
    let inside = if is_excerpt { trimmed } else { trimmed.strip_prefix(['{', '['])?.trim_start() };
    let is_object = is_excerpt || (trimmed.starts_with('{') && inside.starts_with(['"', '}', '/', '.', '…']));
    let is_list = trimmed.starts_with('[') && inside.strip_prefix('{').is_some_and(|first| first.trim_start().starts_with('"'));
    if !is_object && !is_list {
        return None;
    }
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    let is_any = |keys: &[&str]| keys.iter().any(|key| has(key));
    let peer = if is_any(&[
        "static_resources",
        "staticResources",
        "dynamic_resources",
        "dynamicResources",
        "filter_chains",
        "filterChains",
        "typed_config",
        "typedConfig",
        "virtual_hosts",
        "load_assignment",
        "socket_address",
    ]) {
        Peer::Envoy
    } else if has("apps") || has("handler") || (has("routes") && has("handle")) {
        Peer::CaddyJson
    } else if has("entryPoints") || has("routers") {
        Peer::Traefik
    } else if has("apiVersion") && has("kind") {
        Peer::Kubernetes
    } else {
        Peer::Json
    };
    Some(lines[0].is(peer))
}

fn apache(lines: &[TextLine<'_>]) -> Option<Recognised> {
    let is_section = |line: &&TextLine<'_>| {
        ["<VirtualHost", "<Directory", "<Location", "<IfModule", "<Proxy"].iter().any(|section| line.text.starts_with(section))
    };
    lines.iter().find(is_section).map(|line| line.is(Peer::Apache))
}

const HAPROXY_SECTIONS: &[&str] = &[
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "resolvers",
    "peers",
    "cache",
    "program",
    "mailers",
    "ring",
    "crt-store",
    "fcgi-app",
    "http-errors",
    "log-forward",
    "traces",
];
const HAPROXY_WORDS: &[&str] = &[
    "bind",
    "mode",
    "server",
    "timeout",
    "balance",
    "option",
    "acl",
    "use_backend",
    "default_backend",
    "log",
    "maxconn",
    "http-request",
    "http-response",
    "stats",
    "default-server",
    "nbthread",
    "cookie",
    "redirect",
    "stick-table",
    "tcp-request",
    "daemon",
    "chroot",
    "errorfile",
    "user",
    "nameserver",
    "retries",
    "http-check",
    "server-template",
];

/// Sections stand at the beginning of a line and have no braces.
fn haproxy(lines: &[TextLine<'_>]) -> Option<Recognised> {
    // Conditions stand in braces, and end with them.
    let is_open =
        |line: &&TextLine<'_>| !line.text.ends_with(['{', ';', ':']) && (!line.text.ends_with('}') || line.text.contains(" { "));
    let section = lines.iter().filter(is_open).find(|line| line.indent == 0 && HAPROXY_SECTIONS.contains(&line.word()))?;
    let has_words = lines.iter().filter(is_open).any(|line| HAPROXY_WORDS.contains(&line.word()) && line.start != section.start);
    has_words.then(|| section.is(Peer::HaProxy))
}

/// Words that stand in nearly every file of nginx and in none of ours.
const NGINX_STRONG: &[&str] = &[
    "server_name",
    "listen",
    "proxy_pass",
    "location",
    "worker_processes",
    "worker_connections",
    "fastcgi_pass",
    "ssl_certificate",
    "proxy_set_header",
    "events",
    "upstream",
    "root",
    "try_files",
    "uwsgi_pass",
    "grpc_pass",
    "ssl_preread",
    "stream",
    "http",
];

fn nginx(text: &str, lines: &[TextLine<'_>]) -> Option<Recognised> {
    let statements = |line: &TextLine<'_>| {
        let code = line.text.split(" #").next().unwrap_or_default().trim_end();
        let is_one = code.ends_with([';', '{', '}']);
        let is_strong = |statement: &&str| NGINX_STRONG.iter().any(|word| statement.split_whitespace().next() == Some(word));
        if is_one { code.split([';', '{', '}']).filter(is_strong).count() } else { 0 }
    };
    let count: usize = lines.iter().map(statements).sum();
    let ends = lines.iter().filter(|line| line.text.contains(';')).count();
    let first = lines.iter().find(|line| statements(line) > 0);
    if let Some(first) = first.filter(|_| count >= 2 && ends >= 2) {
        return Some(first.is(Peer::Nginx));
    }
    // A file of one block: servers of an upstream, rows of a map.
    let is_block = |line: &TextLine<'_>| {
        line.indent == 0
            && matches!(line.word(), "upstream" | "map" | "geo" | "split_clients" | "server" | "location" | "stream" | "http")
    };
    let block = lines.iter().find(|line| is_block(line) && line.text.contains('{'))?;
    let tree = braces::of_nginx(text);
    let is_row = |row: &braces::Statement| {
        row.words.len() >= 2 || row.block.is_some() || matches!(row.name(), "least_conn" | "ip_hash" | "random" | "hostnames")
    };
    let is_all_rows = tree.iter().all(|statement| {
        let has_server =
            statement.name() != "upstream" || braces::named(statement.inside(), "server").any(|server| server.block.is_none());
        let inside = statement.inside();
        statement.block.is_none() || (has_server && !inside.is_empty() && inside.iter().all(is_row))
    });
    (ends >= 1 && is_all_rows && !text.contains("\" {")).then(|| block.is(Peer::Nginx))
}

const CADDY_STRONG: &[&str] = &[
    "reverse_proxy",
    "file_server",
    "php_fastcgi",
    "encode",
    "handle",
    "handle_path",
    "handle_errors",
    "basic_auth",
    "basicauth",
    "redir",
    "header_up",
    "lb_policy",
    "try_files",
    "root",
    "import",
    "request_header",
    "request_body",
    "forward_auth",
    "acme_ca",
    "email",
    "auto_https",
    "layer4",
    "on_demand_tls",
    "local_certs",
    "admin",
    "tls",
    "respond",
    "log",
    "@",
];

/// Addresses at the beginning of a line, and directives without `;` below them.
fn caddy(lines: &[TextLine<'_>]) -> Option<Recognised> {
    let is_answer = |line: &TextLine<'_>| line.text.starts_with("respond \"") || line.text.starts_with("respond /");
    let is_sign = |line: &&TextLine<'_>| CADDY_STRONG.contains(&line.word()) || is_answer(line) || line.text.starts_with('@');
    let sign = lines.iter().find(|line| is_sign(line) && !line.text.ends_with(';'))?;
    let is_block = |line: &TextLine<'_>| {
        let head = line.text.strip_suffix('{').map(str::trim_end);
        let is_address = |word: &str| {
            let is_named = word.contains(['.', ':', '*']) && tidegate_model::SiteAddress::parse(word).is_ok();
            is_named || word == "localhost" || word.starts_with('(') || word.contains("{$")
        };
        line.indent == 0
            && !line.text.contains(['"', ';'])
            && head.is_some_and(|head| head.is_empty() || head.split([',', ' ']).next().is_some_and(is_address))
    };
    let is_bare_address = |line: &TextLine<'_>| {
        line.indent == 0
            && (line.text.contains(['.', ':']) || line.text == "localhost")
            && !line.text.contains(['{', '"', '='])
            && !line.text.contains(": ")
            && tidegate_model::SiteAddress::parse(line.text.split([',', ' ']).next().unwrap_or_default()).is_ok()
    };
    // A part of a site has words that are nobody else's, and blocks behind them.
    let is_strong = |line: &&TextLine<'_>| matches!(line.word(), "reverse_proxy" | "php_fastcgi" | "file_server" | "handle_path");
    let is_part = || {
        let has_quotes = lines.iter().any(|line| line.text.contains('"'));
        let is_alone = lines.len() > 1 && !lines.iter().any(|line| line.text.ends_with(';'));
        is_alone && !has_quotes && lines.iter().any(|line| is_strong(&line) && line.text.contains(':'))
    };
    let has_site = lines.iter().any(is_block) || is_bare_address(&lines[0]);
    (has_site || is_part()).then(|| sign.is(Peer::Caddy))
}

/// The name between the brackets.
fn section<'t>(line: &TextLine<'t>) -> Option<&'t str> {
    let name = line.text.strip_prefix('[')?.strip_suffix(']')?.trim_matches(['[', ']']);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '"'));
    is_name.then_some(name)
}

pub fn is_toml(text: &str) -> bool {
    toml(&lines_of(text)).is_some()
}

fn toml(lines: &[TextLine<'_>]) -> Option<Recognised> {
    let first = lines.iter().find(|line| section(line).is_some())?;
    let is_of_traefik = |name: &str| {
        let head = name.split('.').next().unwrap_or_default();
        matches!(head, "entryPoints" | "providers" | "certificatesResolvers" | "accessLog" | "http" | "tcp" | "udp")
    };
    let traefik = lines.iter().find(|line| section(line).is_some_and(is_of_traefik));
    let has_values = lines.iter().any(|line| line.text.contains('='));
    has_values.then(|| match traefik {
        Some(line) => line.is(Peer::Traefik),
        None => first.is(Peer::Toml),
    })
}

fn yaml(text: &str, lines: &[TextLine<'_>]) -> Option<Recognised> {
    let key = |line: &TextLine<'_>| {
        let written = line.text.trim_start_matches(['-', ' ']);
        let (key, rest) = written.split_once(':')?;
        let is_key = !key.is_empty() && !key.contains([' ', '{', '}', '(']) && (rest.is_empty() || rest.starts_with([' ', '\t']));
        is_key.then_some(())
    };
    let is_yaml = |line: &&TextLine<'_>| key(line).is_some() || line.text.starts_with("- ") || line.text.starts_with("---");
    let count = lines.iter().filter(is_yaml).count();
    // Flow maps and texts over several lines are no keys.
    if count * 10 < lines.len() * 6 || count < 2 {
        return None;
    }
    let at_top = |name: &str| {
        lines.iter().find(|line| line.indent == 0 && line.text.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
    };
    let of = |peer: Peer, names: &[&str]| names.iter().find_map(|name| at_top(name)).map(|line| line.is(peer));
    if at_top("apiVersion").is_some() {
        let is_of_traefik = |line: &&TextLine<'_>| line.text.starts_with("apiVersion:") && line.text.contains("traefik");
        return match lines.iter().find(is_of_traefik) {
            Some(line) => Some(line.is(Peer::TraefikManifest)),
            None => of(Peer::Kubernetes, &["kind", "apiVersion"]),
        };
    }
    of(Peer::Envoy, &["dynamic_resources", "static_resources", "resources"])
        .filter(|_| text.contains("cluster") || text.contains("listener"))
        .or_else(|| {
            lines
                .iter()
                .find(|line| line.text.contains("envoy.filters.") || line.text.contains("filter_chains:"))
                .map(|line| line.is(Peer::Envoy))
        })
        .or_else(|| {
            // Parts that Envoy gets one by one.
            let is_of_envoy = [
                "load_assignment",
                "socket_address",
                "lb_policy",
                "connect_timeout",
                "domains:",
                "typed_config",
                "outlier_detection",
                "type.googleapis.com",
            ];
            let parts =
                ["clusters", "listeners", "virtual_hosts", "route_config", "load_assignment", "name", "cluster_name", "filters"];
            of(Peer::Envoy, &parts)
                .or_else(|| lines[0].text.starts_with("- ").then(|| lines[0].is(Peer::Envoy)))
                .filter(|_| is_of_envoy.iter().any(|word| text.contains(word)))
        })
        .or_else(|| {
            let known = [
                "entryPoints",
                "providers",
                "certificatesResolvers",
                "http",
                "tcp",
                "udp",
                "tls",
                "accessLog",
                "serversTransport",
            ];
            of(Peer::Traefik, &known)
        })
        .or_else(|| of(Peer::Compose, &["services"]).filter(|_| text.contains("image:") || text.contains("build:")))
        .or_else(|| Some(lines[0].is(Peer::Yaml)))
}
