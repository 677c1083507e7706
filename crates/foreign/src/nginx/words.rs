//! Every statement of a file of nginx, and how much it is where no line of ours says it.

use crate::accounts::{FileStatement, StatementKind, Weight};
use crate::braces::{Statement, has_within, named};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that say nothing by themselves.
const STRUCTURE: [&str; 4] = ["http", "events", "stream", "server"];
/// Blocks whose rows are no statements.
const TABLES: [&str; 5] = ["types", "geo", "split_clients", "charset_map", "match"];

const PROTECTIONS: &[&str] = &[
    "allow",
    "deny",
    "auth_basic",
    "auth_request",
    "auth_jwt",
    "auth_jwt_require",
    "auth_pam",
    "auth_digest",
    "auth_ldap",
    "limit_req",
    "limit_conn",
    "limit_except",
    "valid_referers",
    "secure_link",
    "internal",
    "ssl_verify_client",
    "modsecurity",
    "access_by_lua",
    "access_by_lua_block",
    "access_by_lua_file",
    "js_access",
    "js_preread",
];
const TLS: &[&str] = &[
    "ssl",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_client_certificate",
    "ssl_crl",
    "ssl_protocols",
    "ssl_password_file",
    "proxy_ssl",
    "proxy_ssl_verify",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_certificate",
    "proxy_ssl_certificate_key",
    "proxy_ssl_name",
    "proxy_ssl_protocols",
    "grpc_ssl_verify",
    "grpc_ssl_trusted_certificate",
];
const ADDRESSES: &[&str] =
    &["listen", "server_name", "set_real_ip_from", "real_ip_header", "real_ip_recursive", "proxy_bind", "proxy_protocol"];
const LIMITS: &[&str] =
    &["client_max_body_size", "limit_rate", "limit_rate_after", "proxy_upload_rate", "proxy_download_rate", "max_conns"];
const ANSWERS: &[&str] = &[
    "location",
    "upstream",
    "map",
    "if",
    "root",
    "alias",
    "return",
    "rewrite",
    "try_files",
    "proxy_pass",
    "grpc_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "error_page",
    "stub_status",
    "autoindex",
    "sub_filter",
    "mirror",
    "index",
    "proxy_method",
    "proxy_set_body",
    "proxy_cache",
];

/// What scripts are told by the files that come with nginx.
pub const PACKAGED_PARAMS: [&str; 24] = [
    "QUERY_STRING",
    "REQUEST_METHOD",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "REQUEST_URI",
    "DOCUMENT_URI",
    "DOCUMENT_ROOT",
    "SERVER_PROTOCOL",
    "REQUEST_SCHEME",
    "HTTPS",
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "SERVER_ADDR",
    "SERVER_PORT",
    "SERVER_NAME",
    "REDIRECT_STATUS",
    "HTTP_HOST",
];

/// Whether it is what scripts are told without a word.
pub fn is_usual_param(name: &str) -> bool {
    name == "HTTP_PROXY" || PACKAGED_PARAMS.contains(&name)
}

pub fn statements(all: &[Statement]) -> Vec<FileStatement> {
    let mut found = Vec::new();
    for statement in all {
        add(statement, "", &mut found);
    }
    found
}

/// Where statements and rows begin within those that are told as a whole, each with the place of that one.
pub fn parts(all: &[Statement]) -> BTreeMap<usize, usize> {
    fn add_rows(rows: &[Statement], whole: usize, found: &mut BTreeMap<usize, usize>) {
        for row in rows {
            found.insert(row.start(), whole);
            add_rows(row.inside(), whole, found);
        }
    }
    let mut found = BTreeMap::new();
    for statement in all {
        if is_told_as_a_whole(statement.name()) {
            add_rows(statement.inside(), statement.start(), &mut found);
        } else {
            found.extend(parts(statement.inside()));
        }
    }
    found
}

fn is_told_as_a_whole(name: &str) -> bool {
    matches!(name, "if" | "map" | "limit_except") || TABLES.contains(&name)
}

/// Where the statements of a block begin.
pub fn places<'s>(all: impl IntoIterator<Item = &'s Statement>) -> BTreeSet<usize> {
    let mut found = Vec::new();
    all.into_iter().for_each(|statement| add(statement, "", &mut found));
    found.into_iter().map(|statement| statement.at).collect()
}

/// Whether something in it keeps clients out.
pub fn protects(statement: &Statement) -> bool {
    statements(std::slice::from_ref(statement)).iter().any(|one| one.kind == StatementKind::Needed(Weight::Protection))
}

fn add(statement: &Statement, parent: &str, found: &mut Vec<FileStatement>) {
    let name = statement.name();
    let is_block = statement.block.is_some();
    if name.is_empty() {
        return;
    }
    if parent == "upstream" && name == "server" {
        found.push(FileStatement { at: statement.start(), name: "server".into(), kind: StatementKind::Needed(Weight::Answer) });
        return found.extend(statement.options().skip(1).map(|(word, at)| of_server_option(word, at)));
    }
    if !(is_block && STRUCTURE.contains(&name)) {
        found.push(FileStatement { at: statement.start(), name: shown(name), kind: kind(statement) });
    }
    if name == "listen" {
        found.extend(statement.options().skip(1).map(|(word, at)| of_listen_option(word, at)));
    }
    if is_told_as_a_whole(name) || name.ends_with("_by_lua_block") {
        return;
    }
    statement.inside().iter().for_each(|inner| add(inner, name, found));
}

/// A word that is one; what may be anything else is not repeated.
fn shown(name: &str) -> String {
    let is_word = name.len() <= 48 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_word { name.to_owned() } else { "…".to_owned() }
}

fn of_listen_option(word: &str, at: usize) -> FileStatement {
    let name = word.split('=').next().unwrap_or_default();
    let kind = match name {
        "udp" | "quic" | "proxy_protocol" => StatementKind::Needed(Weight::Address),
        "ssl" | "http2" | "spdy" | "default_server" | "default" | "reuseport" | "deferred" | "bind" | "backlog" | "ipv6only"
        | "so_keepalive" | "fastopen" | "rcvbuf" | "sndbuf" | "setfib" | "accept_filter" => StatementKind::SameByDefault,
        _ => StatementKind::Needed(Weight::Address),
    };
    FileStatement { at, name: format!("listen … {}", shown(name)), kind }
}

fn of_server_option(word: &str, at: usize) -> FileStatement {
    let name = word.split('=').next().unwrap_or_default();
    let weight = if name == "max_conns" { Weight::Limit } else { Weight::Setting };
    FileStatement { at, name: shown(name), kind: StatementKind::Needed(weight) }
}

fn kind(statement: &Statement) -> StatementKind {
    let (name, argument) = (statement.name(), statement.argument());
    let needed =
        |weight: Weight, is_needed: bool| if is_needed { StatementKind::Needed(weight) } else { StatementKind::SameByDefault };
    match name {
        "auth_basic" | "auth_request" | "auth_jwt" | "ssl_verify_client" | "modsecurity" => {
            needed(Weight::Protection, argument != "off")
        }
        "proxy_pass_request_headers"
        | "proxy_pass_request_body"
        | "fastcgi_pass_request_headers"
        | "fastcgi_pass_request_body" => needed(Weight::Setting, argument == "off"),
        "satisfy" => needed(Weight::Protection, argument == "any"),
        "if" if refuses(statement) => StatementKind::Needed(Weight::Protection),
        "include" => included(argument),
        "map" => needed(Weight::Answer, argument != "$http_upgrade"),
        "types" | "charset_map" => StatementKind::SameByDefault,
        "client_max_body_size" => needed(Weight::Limit, argument != "0"),
        "ssl_protocols" => needed(Weight::Tls, !statement.arguments().iter().any(|version| version == "TLSv1.2")),
        "ssl"
        | "ssl_early_data"
        | "autoindex"
        | "gzip"
        | "proxy_protocol"
        | "proxy_ssl"
        | "proxy_intercept_errors"
        | "proxy_cache"
        | "expires"
            if argument == "off" =>
        {
            StatementKind::SameByDefault
        }
        "index" => needed(Weight::Answer, !argument.starts_with("index.")),
        "proxy_redirect" => needed(Weight::Setting, !matches!(argument, "off" | "default")),
        "proxy_cache_bypass" | "proxy_no_cache" => needed(Weight::Setting, argument != "$http_upgrade"),
        "proxy_set_header" | "grpc_set_header" => header(statement.arguments()),
        "proxy_ignore_headers" | "fastcgi_ignore_headers" => {
            let decides = ["Cache-Control", "Expires", "Set-Cookie", "Vary", "X-Accel-Expires"];
            let is_of_cache = statement.arguments().iter().any(|own| decides.iter().any(|word| word.eq_ignore_ascii_case(own)));
            needed(Weight::Setting, is_of_cache)
        }
        "gzip_static" | "merge_slashes" | "real_ip_recursive" | "stub_status" | "proxy_ssl_verify" | "gunzip_static"
            if matches!(
                (name, argument),
                ("merge_slashes", "on") | ("gzip_static" | "real_ip_recursive" | "proxy_ssl_verify", "off")
            ) =>
        {
            StatementKind::SameByDefault
        }
        "fastcgi_param" => {
            let is_usual = is_usual_param(argument) || statement.arguments().get(1).is_some_and(String::is_empty);
            needed(Weight::Setting, !is_usual)
        }
        "disable_symlinks" => needed(Weight::Setting, argument != "off"),
        "charset" => needed(Weight::Setting, !matches!(argument.to_ascii_lowercase().as_str(), "utf-8" | "off")),
        _ if super::same::is_same(name) => StatementKind::SameByDefault,
        _ => StatementKind::Needed(weight(name)),
    }
}

/// Whether it is a field that makes a browser keep an answer as a file instead of showing it.
pub fn says_how_it_is_kept(statement: &Statement) -> bool {
    let is_one = |field: &String| field.to_ascii_lowercase().starts_with("content-disposition");
    matches!(statement.name(), "add_header" | "more_set_headers") && statement.arguments().iter().any(is_one)
}

fn weight(name: &str) -> Weight {
    let of = [
        (PROTECTIONS, Weight::Protection),
        (TLS, Weight::Tls),
        (ADDRESSES, Weight::Address),
        (LIMITS, Weight::Limit),
        (ANSWERS, Weight::Answer),
    ];
    of.iter().find(|(words, _)| words.contains(&name)).map_or(Weight::Setting, |(_, weight)| *weight)
}

/// Whether a condition shuts somebody out, be it by sending him elsewhere.
fn refuses(condition: &Statement) -> bool {
    const OF_ADDRESS: [&str; 5] = ["$scheme", "$https", "$host", "$http_host", "$server_port"];
    // What says who a client is, so that another page in the place of what he asked for keeps him from it.
    const OF_CLIENTS: [&str; 5] = ["$http_", "$cookie_", "$remote_", "$ssl_client_", "$geoip"];
    let is_of_address = OF_ADDRESS.iter().any(|variable| condition.argument().trim_start_matches('(').starts_with(variable));
    let is_refusal = |status: &str| match status.parse::<u16>() {
        Ok(400..=599) => true,
        Ok(300..=399) => !is_of_address,
        Ok(_) | Err(_) => false,
    };
    let argument = condition.argument().trim_start_matches('(');
    let is_of_clients = !is_of_address && OF_CLIENTS.iter().any(|start| argument.starts_with(start));
    let sends_on = |rewrite: &Statement| rewrite.arguments().get(2).is_none_or(|flag| flag != "break");
    named(condition.inside(), "return").any(|answer| is_refusal(answer.argument()))
        || is_of_clients && named(condition.inside(), "rewrite").any(sends_on)
        || ["deny", "auth_basic", "limit_req", "internal"].iter().any(|word| has_within(condition.inside(), word))
}

/// What a file that is read elsewhere is about, by its name.
fn included(path: &str) -> StatementKind {
    const HARMLESS: [&str; 9] = [
        "mime.types",
        "fastcgi_params",
        "fastcgi.conf",
        "fastcgi-php.conf",
        "proxy_params",
        "uwsgi_params",
        "scgi_params",
        "modules-enabled/",
        "options-ssl-nginx.conf",
    ];
    const GUARDING: [&str; 14] = [
        "auth", "allow", "deny", "block", "acl", "limit", "white", "black", "secur", "bot", "firewall", "restrict", "access",
        "ban",
    ];
    let path = path.to_ascii_lowercase();
    if HARMLESS.iter().any(|file| path.contains(file)) {
        return StatementKind::SameByDefault;
    }
    let is_guarding = GUARDING.iter().any(|word| path.contains(word));
    StatementKind::Needed(if is_guarding { Weight::Protection } else { Weight::Answer })
}

/// Fields that upstreams are sent here too, without a word.
fn header(arguments: &[String]) -> StatementKind {
    let [name, value, ..] = arguments else { return StatementKind::Needed(Weight::Setting) };
    let is_same = match name.to_ascii_lowercase().as_str() {
        "host" => matches!(value.as_str(), "$host" | "$http_host" | "$host:$server_port" | "$http_host:$server_port"),
        "x-forwarded-for" => value.starts_with('$'),
        "upgrade" | "connection" | "x-forwarded-proto" | "x-forwarded-host" | "x-forwarded-port" | "accept-encoding" | "te"
        | "early-data" => true,
        _ => false,
    };
    match (is_same, name.eq_ignore_ascii_case("host")) {
        (true, _) => StatementKind::SameByDefault,
        (false, true) => StatementKind::Needed(Weight::Answer),
        (false, false) => StatementKind::Needed(Weight::Setting),
    }
}

/// Statements that do nothing in this file, since what they are about is nowhere in it.
pub fn without_effect(all: &[Statement]) -> BTreeSet<usize> {
    const ABOUT: [(&[&str], &[&str]); 10] = [
        (&["limit_req"], &["limit_req_"]),
        (&["limit_conn"], &["limit_conn_"]),
        (&["proxy_cache", "fastcgi_cache"], &["proxy_cache_", "fastcgi_cache_"]),
        (&["proxy_pass"], &["proxy_"]),
        (&["fastcgi_pass"], &["fastcgi_"]),
        (&["grpc_pass"], &["grpc_"]),
        (&["uwsgi_pass"], &["uwsgi_"]),
        (&["scgi_pass"], &["scgi_"]),
        (&["ssi"], &["ssi_"]),
        (&["sub_filter"], &["sub_filter_"]),
    ];
    let absent: Vec<&str> = ABOUT
        .iter()
        .filter(|(words, _)| !words.iter().any(|word| has_within(all, word)))
        .flat_map(|(_, beginnings)| beginnings.iter().copied())
        .collect();
    let is_tls = has_within(all, "ssl") || is_over_tls(all);
    let is_absent = |one: &FileStatement| {
        absent.iter().any(|beginning| one.name.starts_with(beginning)) || (!is_tls && one.name.starts_with("ssl_"))
    };
    statements(all).into_iter().filter(is_absent).map(|one| one.at).collect()
}

/// Whether anything listens over TLS.
fn is_over_tls(all: &[Statement]) -> bool {
    let is_one =
        |own: &Statement| own.name() == "listen" && own.arguments().iter().any(|word| matches!(word.as_str(), "ssl" | "quic"));
    all.iter().any(|own| is_one(own) || is_over_tls(own.inside()))
}
