//! Every statement of a Caddyfile, and how much it is where no line of ours says it.

use crate::foreign::accounts::{FileStatement, StatementKind, Weight};
use crate::foreign::braces::Statement;
use StatementKind::{Needed, SameByDefault};
use std::collections::BTreeSet;

/// What stands in blocks of these is theirs alone.
const WHOLE: &[&str] = &[
    "log",
    "handle_errors",
    "basic_auth",
    "basicauth",
    "forward_auth",
    "rate_limit",
    "client_auth",
    "authorize",
    "authenticate",
    "jwtauth",
    "encode",
    "header",
    "dns",
    "issuer",
    "map",
    "on_demand_tls",
    "handle_response",
    "storage",
    "pki",
    "format",
    "output",
    "order",
    "acme_dns",
    "tls_trust_pool",
    "trust_pool",
    "crowdsec",
    "appsec",
    "dynamic",
    "trusted_proxies",
];
const PROTECTIONS: &[&str] = &[
    "basic_auth",
    "basicauth",
    "forward_auth",
    "rate_limit",
    "client_auth",
    "authorize",
    "jwtauth",
    "crowdsec",
    "appsec",
    "abort",
    "error",
    "bind",
    "waf",
    "coraza_waf",
    "ip_filter",
    "maxmind_geolocation",
    "geoblock",
];
const SAME: &[&str] = &[
    "log",
    "debug",
    "order",
    "admin",
    "storage",
    "grace_period",
    "shutdown_delay",
    "metrics",
    "skip_install_trust",
    "flush_interval",
    "log_skip",
    "skip_log",
    "log_name",
    "log_append",
    "persist_config",
    "ocsp_stapling",
    "alpn",
    "email",
    "keepalive",
    "keepalive_idle_conns",
    "read_buffer",
    "write_buffer",
    "compression",
    "to",
    "push",
    "transport",
    "servers",
    "layer4",
    "keepalive_interval",
    "auto_https_prefer_wildcard",
    "pki",
    "stream_close_delay",
    "stream_timeout",
    "request_buffers",
    "response_buffers",
    "max_header_size",
    "enable_full_duplex",
    "strict_sni_host",
    "read_timeout",
    "timeouts",
];
const TLS: &[&str] = &[
    "tls",
    "protocols",
    "dns",
    "ca",
    "ca_root",
    "issuer",
    "on_demand",
    "local_certs",
    "acme_ca",
    "acme_ca_root",
    "acme_dns",
    "cert_issuer",
    "on_demand_tls",
    "tls_server_name",
    "tls_insecure_skip_verify",
    "tls_trusted_ca_certs",
    "tls_trust_pool",
    "tls_client_auth",
    "trust_pool",
    "load",
    "get_certificate",
    "key_type",
];
const ADDRESSES: &[&str] = &[
    "http_port",
    "https_port",
    "default_bind",
    "auto_https",
    "trusted_proxies",
    "listener_wrappers",
    "client_ip_headers",
    "proxy_protocol",
];
const LIMITS: &[&str] = &["max_size", "request_body", "max_conns_per_host", "unhealthy_request_count"];
const ANSWERS: &[&str] = &[
    "handle",
    "handle_path",
    "route",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "respond",
    "redir",
    "root",
    "rewrite",
    "uri",
    "try_files",
    "import",
    "invoke",
    "handle_response",
    "vars",
    "map",
    "templates",
    "method",
    "dynamic",
    "split",
    "index",
    "env",
    "resolve_root_symlink",
    "capture_stderr",
    "proxy",
    "copy_response",
    "acme_server",
];

pub fn statements(all: &[Statement]) -> Vec<FileStatement> {
    let mut found = Vec::new();
    for statement in all {
        let is_head = statement.block.is_some() && (statement.words.is_empty() || is_site(statement));
        if is_head || statement.name().starts_with('(') {
            statement.inside().iter().for_each(|inner| add(inner, &mut found));
        } else if !is_site(statement) {
            add(statement, &mut found);
        }
    }
    found
}

/// Whether its words are addresses.
fn is_site(statement: &Statement) -> bool {
    super::is_address_line(statement)
}

/// Where the statements of a block begin.
pub fn places<'s>(all: impl IntoIterator<Item = &'s Statement>) -> BTreeSet<usize> {
    let mut found = Vec::new();
    all.into_iter().for_each(|statement| add(statement, &mut found));
    found.into_iter().map(|statement| statement.at).collect()
}

fn add(statement: &Statement, found: &mut Vec<FileStatement>) {
    let name = statement.name();
    if name.is_empty() {
        return;
    }
    let is_word = name.len() <= 40 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // Conditions, and the names of what stands in a layer4 block, count where something answers.
    let kind = if is_word { kind(statement) } else { SameByDefault };
    let shown = if is_word { name.to_owned() } else { "…".to_owned() };
    found.push(FileStatement { at: statement.start(), name: shown, kind });
    if !WHOLE.contains(&name) && !name.starts_with('@') {
        statement.inside().iter().for_each(|inner| add(inner, found));
    }
}

fn kind(statement: &Statement) -> StatementKind {
    let (name, argument) = (statement.name(), statement.argument());
    match name {
        "respond" if is_refusal(statement) => Needed(Weight::Protection),
        "hide" => {
            let is_hidden = |word: &String| word.starts_with('.') || word.starts_with("./.");
            if statement.arguments().iter().all(is_hidden) { SameByDefault } else { Needed(Weight::Protection) }
        }
        "import" => included(argument),
        "tls" if statement.block.is_none() && argument.contains('@') => SameByDefault,
        // Only what stands in the block says something.
        "tls" if statement.arguments().is_empty() => SameByDefault,
        "protocols" if argument == "tls1.2" => SameByDefault,
        "lb_policy" if matches!(argument, "round_robin" | "random_choose" | "") => SameByDefault,
        "auto_https" if argument == "disable_redirects" => Needed(Weight::Address),
        "header_up" => {
            let field = argument.to_ascii_lowercase();
            let value = statement.arguments().get(1).map_or("", String::as_str);
            match field.as_str() {
                "host" if !matches!(value, "{host}" | "{http.request.host}") => Needed(Weight::Answer),
                "host" | "upgrade" | "connection" | "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host"
                | "x-forwarded-port" => SameByDefault,
                _ => Needed(Weight::Setting),
            }
        }
        "request_body" if statement.block.is_some() => SameByDefault,
        _ => of_word(name),
    }
}

fn of_word(name: &str) -> StatementKind {
    let of = [
        (PROTECTIONS, Weight::Protection),
        (TLS, Weight::Tls),
        (ADDRESSES, Weight::Address),
        (LIMITS, Weight::Limit),
        (ANSWERS, Weight::Answer),
    ];
    match of.iter().find(|(words, _)| words.contains(&name)) {
        Some((_, weight)) => Needed(*weight),
        None if SAME.contains(&name) => SameByDefault,
        None => Needed(Weight::Setting),
    }
}

/// Whether it shuts somebody out.
pub fn is_refusal(statement: &Statement) -> bool {
    match statement.name() {
        "abort" | "error" => true,
        "respond" => {
            statement.arguments().iter().any(|word| word.parse::<u16>().is_ok_and(|status| (400..=599).contains(&status)))
        }
        _ => false,
    }
}

/// What a file or snippet that is not here is about, by its name.
fn included(name: &str) -> StatementKind {
    let name = name.to_ascii_lowercase();
    let guarding = [
        "auth", "allow", "deny", "block", "acl", "limit", "white", "black", "secur", "bot", "restrict", "private", "internal",
        "lan",
    ];
    Needed(if guarding.iter().any(|word| name.contains(word)) { Weight::Protection } else { Weight::Answer })
}
