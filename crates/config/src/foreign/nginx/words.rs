//! Every statement of a file of nginx, and how much it is where no line of ours says it.

use crate::foreign::accounts::{FileStatement, StatementKind, Weight};
use crate::foreign::braces::{Statement, has_within, named};
use std::collections::BTreeSet;

/// Blocks that say nothing by themselves.
const STRUCTURE: [&str; 4] = ["http", "events", "stream", "server"];
/// Blocks whose rows are no statements.
const TABLES: [&str; 5] = ["types", "geo", "split_clients", "charset_map", "match"];

/// Done here without a word, or about the process, its buffers and its logs.
const SAME: &[&str] = &[
    "user",
    "pid",
    "daemon",
    "master_process",
    "error_log",
    "access_log",
    "log_format",
    "log_not_found",
    "load_module",
    "use",
    "multi_accept",
    "accept_mutex",
    "sendfile",
    "tcp_nopush",
    "tcp_nodelay",
    "aio",
    "directio",
    "server_tokens",
    "default_type",
    "charset",
    "keepalive",
    "keepalive_timeout",
    "keepalive_requests",
    "keepalive_time",
    "zone",
    "http2",
    "http2_push",
    "http3",
    "ssl_prefer_server_ciphers",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "ssl_buffer_size",
    "ssl_stapling",
    "ssl_stapling_verify",
    "ssl_reject_handshake",
    "resolver",
    "resolver_timeout",
    "proxy_http_version",
    "proxy_pass_request_headers",
    "proxy_pass_request_body",
    "proxy_ssl_server_name",
    "proxy_ssl_session_reuse",
    "client_body_buffer_size",
    "client_body_temp_path",
    "client_header_buffer_size",
    "large_client_header_buffers",
    "reset_timedout_connection",
    "fastcgi_param",
    "fastcgi_index",
    "fastcgi_split_path_info",
    "ssl_preread",
    "preread_buffer_size",
    "preread_timeout",
    "limit_req_zone",
    "limit_conn_zone",
    "auth_basic_user_file",
    "pcre_jit",
    "thread_pool",
    "env",
    "port_in_redirect",
    "absolute_redirect",
    "least_time",
];
const SAME_BEGINNINGS: &[&str] = &[
    "worker_",
    "open_file_cache",
    "types_hash_",
    "server_names_hash_",
    "variables_hash_",
    "map_hash_",
    "proxy_headers_hash_",
    "proxy_buffer",
    "proxy_request_buffering",
    "proxy_busy_buffers_",
    "proxy_temp_",
    "proxy_max_temp_",
    "fastcgi_buffer",
    "fastcgi_busy_buffers_",
    "fastcgi_temp_",
    "grpc_buffer",
    "ssl_session_",
];
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
    "ssl_trusted_certificate",
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

pub fn statements(all: &[Statement]) -> Vec<FileStatement> {
    let mut found = Vec::new();
    for statement in all {
        add(statement, "", &mut found);
    }
    found
}

/// Where the statements of a block begin.
pub fn places<'s>(all: impl IntoIterator<Item = &'s Statement>) -> BTreeSet<usize> {
    let mut found = Vec::new();
    all.into_iter().for_each(|statement| add(statement, "", &mut found));
    found.into_iter().map(|statement| statement.at).collect()
}

/// Whether it says what is answered, or to whom.
pub fn answers_or_protects(statement: &Statement) -> bool {
    let is_weighty = |kind: StatementKind| matches!(kind, StatementKind::Needed(Weight::Protection | Weight::Answer));
    statements(std::slice::from_ref(statement)).iter().any(|statement| is_weighty(statement.kind))
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
    if matches!(name, "if" | "map" | "limit_except") || TABLES.contains(&name) || name.ends_with("_by_lua_block") {
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
        "satisfy" => needed(Weight::Protection, argument == "any"),
        "if" if refuses(statement) => StatementKind::Needed(Weight::Protection),
        "include" => included(argument),
        "map" => needed(Weight::Answer, argument != "$http_upgrade"),
        "types" | "charset_map" => StatementKind::SameByDefault,
        "client_max_body_size" => needed(Weight::Limit, argument != "0"),
        "ssl_protocols" => needed(Weight::Tls, !statement.arguments().iter().any(|version| version == "TLSv1.2")),
        "ssl" | "autoindex" | "gzip" | "proxy_protocol" | "proxy_ssl" | "proxy_intercept_errors" | "proxy_cache" | "expires"
            if argument == "off" =>
        {
            StatementKind::SameByDefault
        }
        "index" => needed(Weight::Answer, !argument.starts_with("index.")),
        "proxy_redirect" => needed(Weight::Setting, !matches!(argument, "off" | "default")),
        "proxy_cache_bypass" | "proxy_no_cache" => needed(Weight::Setting, argument != "$http_upgrade"),
        "proxy_set_header" | "grpc_set_header" => header(statement.arguments()),
        _ if SAME.contains(&name) || SAME_BEGINNINGS.iter().any(|start| name.starts_with(start)) => StatementKind::SameByDefault,
        _ => StatementKind::Needed(weight(name)),
    }
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
    const OF_ADDRESS: [&str; 6] = ["$scheme", "$https", "$host", "$http_host", "$server_port", "$http_x_forwarded_proto"];
    let is_of_address = OF_ADDRESS.iter().any(|variable| condition.argument().trim_start_matches('(').starts_with(variable));
    let is_refusal = |status: &str| match status.parse::<u16>() {
        Ok(400..=599) => true,
        Ok(300..=399) => !is_of_address,
        Ok(_) | Err(_) => false,
    };
    named(condition.inside(), "return").any(|answer| is_refusal(answer.argument()))
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
        "upgrade" | "connection" | "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" | "x-forwarded-port"
        | "accept-encoding" | "te" | "early-data" => true,
        _ => false,
    };
    match (is_same, name.eq_ignore_ascii_case("host")) {
        (true, _) => StatementKind::SameByDefault,
        (false, true) => StatementKind::Needed(Weight::Answer),
        (false, false) => StatementKind::Needed(Weight::Setting),
    }
}
