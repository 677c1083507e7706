//! Every statement of a Caddyfile, and how much it is where no line of ours says it.

use crate::accounts::{FileStatement, Reasons, StatementKind, Weight, reason};
use crate::braces::Statement;
use crate::outline::Outline;
use StatementKind::{Needed, SameByDefault};
use std::collections::{BTreeMap, BTreeSet};

/// What stands in blocks of these is theirs alone.
const WHOLE: &[&str] = &[
    "log",
    "basic_auth",
    "basicauth",
    "rate_limit",
    "client_auth",
    "authorize",
    "authenticate",
    "authentication",
    "authorization",
    "jwtauth",
    "dns",
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
    "proxy_protocol",
    "copy_headers",
    "health_headers",
    "intercept",
    "cache",
    "security",
    "events",
    "replace",
    "acme_server",
    "tracing",
];
/// Lines in blocks of these begin with names of fields.
const OF_FIELDS: &[&str] = &["header", "request_header"];
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
    "default_bind",
    "waf",
    "coraza_waf",
    "ip_filter",
    "maxmind_geolocation",
    "geoblock",
    "security",
    "authentication",
    "authorization",
    "authenticate",
    "verify",
    "handle_response",
    "replace_status",
    "intercept",
];
/// Words that need none here, with the reason.
const SAME: Reasons = &[
    (
        &["log"],
        "every request has a line on standard output here; `access-log` says where else lines go, `log` in a route which have none",
    ),
    (&["order"], "the steps stand in the order that this gives"),
    (
        &["admin", "persist_config"],
        "the API is on a socket of this machine, `admin.sock` in the state folder, for this program's user",
    ),
    (&["storage"], "what was obtained is kept in the state folder; `storage` names another place"),
    (&["grace_period", "shutdown_delay"], "requests in flight have 30 seconds to end; `drain` says another time"),
    (&["metrics"], "metrics are at `/metrics` of `127.0.0.1:9180` without a word"),
    (&["skip_install_trust", "pki"], "nothing is ever put into the machine's trust store"),
    (
        &["flush_interval", "request_buffers", "response_buffers", "read_buffer", "write_buffer", "enable_full_duplex"],
        "bodies and streams pass as they come, in both directions at once",
    ),
    (&["ocsp_stapling", "ocsp_interval"], "what a responder says of a certificate is sent along without a word"),
    (&["alpn"], "HTTP/2 and HTTP/1.1 are offered"),
    (&["email"], "certificates are obtained without an address; `acme email=` at the top level gives one"),
    (
        &["keepalive", "keepalive_idle_conns", "keepalive_idle_conns_per_host", "keepalive_interval", "keepalive_probes"],
        "connections to servers are kept and used again without a word",
    ),
    (&["compression"], "what a server has compressed goes on as it came"),
    (&["expect_continue_timeout", "tls_timeout", "tls_renegotiation"], "bounds that are there without a word"),
    (&["push"], "browsers have dropped HTTP/2 push, and none is sent"),
    (&["stream_close_delay", "stream_timeout"], "tunnels and WebSockets outlive a change of the configuration without a word"),
    (&["strict_sni_host"], "a request for a site with client certificates has to come on a connection that was made for it"),
    (&["auto_https_prefer_wildcard"], "a site that names a wildcard has its certificate"),
    (&["timeouts", "read_body", "read_header", "write", "idle", "read_timeout"], "clients that are slow are held to `limits`"),
    (&["to", "transport", "servers", "layer4", "listener_wrappers"], "what stands in its block is looked at by itself"),
    (
        &["renew_interval", "cert_lifetime", "renewal_window_ratio", "preferred_chains"],
        "certificates are renewed when their CA says so, or after two thirds of their life",
    ),
];
/// Words that need none here in some of their places alone, with the reason.
const CONDITIONAL: Reasons = &[
    (&["debug"], "the process says what matters; `log level=\"debug\"` says more"),
    (&["tls_except_ports"], "bounds that are there without a word"),
    (&["prefer_wildcard"], "a site that names a wildcard has its certificate"),
    (&["protocols"], "TLS 1.2 and 1.3 and HTTP/1.1 and HTTP/2 are spoken"),
    (&["hide"], "names that begin with a dot are not served"),
    (&["tls"], "a public name has its certificate obtained without a word"),
    (&["lb_policy"], "servers are chosen by two draws and their requests in flight, so each has its share"),
    (&["header_up"], "servers are told it without a word"),
    (&["request_body"], "what stands in its block is looked at by itself"),
    (&["auto_https"], "certificates are obtained, and plain HTTP is sent to HTTPS"),
    (
        &["handler", "terminal", "group", "module", "@id", "subjects", "policy", "protocol", "name", "try_policy"],
        "names of parts, and in which order they are asked",
    ),
    (&["index"], "`index.html` and `index.php` are looked for without a word"),
    (&["root"], "the folder is said where files are served"),
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
const ADDRESSES: &[&str] = &["http_port", "https_port", "auto_https", "trusted_proxies", "client_ip_headers", "proxy_protocol"];
const LIMITS: &[&str] = &["max_header_size", "max_size", "request_body", "max_conns_per_host", "unhealthy_request_count"];
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
        if is_head || statement.name().starts_with('(') || statement.name().starts_with("&(") {
            statement.inside().iter().for_each(|inner| add(inner, "", &mut found));
        } else if !is_site(statement) {
            add(statement, "", &mut found);
        }
    }
    // What names a condition that nobody asks for changes nothing.
    let asked: BTreeSet<&str> = all.iter().flat_map(asked_for).collect();
    for statement in found.iter_mut().filter(|statement| statement.name.starts_with('@')) {
        if !asked.contains(statement.name.as_str()) {
            statement.kind = SameByDefault;
        }
    }
    found
}

fn asked_for(statement: &Statement) -> Vec<&str> {
    let own = statement.arguments().iter().map(String::as_str).filter(|word| word.starts_with('@'));
    own.chain(statement.inside().iter().flat_map(asked_for)).collect()
}

/// Whether its words are addresses.
fn is_site(statement: &Statement) -> bool {
    super::is_address_line(statement)
}

/// Where the statements of a block begin.
pub fn places<'s>(all: impl IntoIterator<Item = &'s Statement>) -> BTreeSet<usize> {
    let mut found = Vec::new();
    all.into_iter().for_each(|statement| add(statement, "", &mut found));
    found.into_iter().map(|statement| statement.at).collect()
}

fn add(statement: &Statement, around: &str, found: &mut Vec<FileStatement>) {
    let name = statement.name();
    // Where a snippet stands for what it is given.
    if name.is_empty() || name == "{block}" || name.starts_with("{blocks.") {
        return;
    }
    let is_word = name.len() <= 40 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_shown = name.len() <= 40 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-@+?>.".contains(c));
    let kind = match name.chars().next() {
        _ if OF_FIELDS.contains(&around) => Needed(Weight::Setting),
        Some('@') => Needed(Weight::Answer),
        // Whole lines may come of the environment.
        Some('{') if name.starts_with("{$") => Needed(Weight::Protection),
        _ if is_word => kind(statement),
        // Names of what stands in a layer4 block count where something answers.
        _ if around == "layer4" => SameByDefault,
        _ => Needed(Weight::Setting),
    };
    let shown = if is_shown { name.to_owned() } else { "…".to_owned() };
    found.push(FileStatement { at: statement.start(), name: shown, kind });
    if !WHOLE.contains(&name) && !name.starts_with('@') {
        let count = found.len();
        statement.inside().iter().for_each(|inner| add(inner, name, found));
        // A page of errors keeps nobody out.
        if name == "handle_errors" {
            found[count..]
                .iter_mut()
                .filter(|own| own.kind == Needed(Weight::Protection))
                .for_each(|own| own.kind = Needed(Weight::Answer));
        }
    } else if name == "log" {
        let filter =
            |line: &Statement| FileStatement { at: line.start(), name: FILTER.to_owned(), kind: Needed(Weight::Setting) };
        found.extend(statement.inside().iter().filter(|line| is_filter(line)).map(filter));
    }
}

/// Lines within statements that are looked at as a whole, each with where that begins.
pub fn parts(all: &[Statement]) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    for statement in all {
        let is_whole = WHOLE.contains(&statement.name()) || (statement.name().starts_with('@') && !statement.words.is_empty());
        if is_whole {
            let mut left: Vec<(&Statement, usize)> = statement.inside().iter().map(|line| (line, statement.start())).collect();
            while let Some((line, whole)) = left.pop() {
                found.insert(line.start(), whole);
                // The fields of a filter are its own.
                let whole = if is_filter(line) { line.start() } else { whole };
                left.extend(line.inside().iter().map(|line| (line, whole)));
            }
        } else {
            found.extend(parts(statement.inside()));
        }
    }
    found
}

/// What takes fields out of the lines of a `log`, such as secrets.
const FILTER: &str = "format filter";

/// Where the filters of a `log` begin.
pub fn filters(log: &Statement) -> BTreeSet<usize> {
    log.inside().iter().filter(|line| is_filter(line)).map(Statement::start).collect()
}

fn is_filter(line: &Statement) -> bool {
    line.name() == "format" && matches!(line.argument(), "filter" | "append" | "transform")
}

fn kind(statement: &Statement) -> StatementKind {
    let (name, argument) = (statement.name(), statement.argument());
    match name {
        "respond" if is_refusal(statement) => Needed(Weight::Protection),
        "hide" => {
            let is_hidden = |word: &String| word.starts_with('.') || word.starts_with("./.");
            if statement.arguments().iter().all(is_hidden) { SameByDefault } else { Needed(Weight::Protection) }
        }
        "root" => {
            let folder = statement.arguments().last().map_or("", String::as_str);
            let is_known = matches!(super::serving::ServedFolder::of(folder), super::serving::ServedFolder::Known(_));
            if is_known { SameByDefault } else { Needed(Weight::Answer) }
        }
        "log" if super::log_targets::target(statement).is_none() => Needed(Weight::Setting),
        // What is in a file or a snippet that is not here may keep clients out.
        "import" | "invoke" => Needed(Weight::Protection),
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
                _ if super::headers::is_told(statement.arguments()) => SameByDefault,
                _ if super::headers::replaces(statement.arguments()) => Needed(Weight::Protection),
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
        None if reason(SAME, name).is_some() => SameByDefault,
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

/// Whether what a directive of that name does is known, be it carried or not.
pub fn is_known(name: &str) -> bool {
    of_word(name) != Needed(Weight::Setting) || reason(NOT_CARRIED, name).is_some() || reason(SAME, name).is_some()
}

/// Why a statement of that name needs no word here.
pub fn why_same(name: &str) -> Option<&'static str> {
    if name.starts_with('@') {
        return Some("no line of the file asks for this matcher");
    }
    reason(SAME, name).or_else(|| reason(CONDITIONAL, name))
}

/// What to do with words that are not carried, where the language has no word of its own for them.
const NOT_CARRIED: Reasons = &[
    (
        &[FILTER],
        "lines are not filtered by fields here, so look at what they show: `log` in a site says what of a request stands in them",
    ),
    (
        &["proxy", "fastcgi", "gzip", "transparent", "websocket", "ext", "websockets", "if", "r", "status_codes", "without"],
        "this is a word of Caddy 1: what it became in version 2 (`reverse_proxy`, `php_fastcgi`, `encode`, `handle`) is read",
    ),
    (&["rewrite"], "a new path that matchers or scripts make is said by `rewrite \"~^/old/(.*)$\" \"/new/$1\"` in a route"),
    (
        &["php_server", "php", "worker", "frankenphp", "num_threads", "max_threads", "num"],
        "FrankenPHP runs scripts in its own process: PHP-FPM runs them for `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\"`",
    ),
    (&["acme_server"], "no certificates are issued to others here: a CA of your own, such as step-ca, does that"),
    (
        &["lb_retry_match", "lb_query", "fallback"],
        "which requests are sent again is decided by whether that is safe; `retry on=` says after which failures",
    ),
    (
        &["import", "invoke"],
        "the snippet or the file that it names is not here, and may keep clients out: import the file together with it",
    ),
    (&["templates"], "pages are sent as they are: an application makes them of templates"),
    (&["map", "vars"], "what differs by request is a `map` at the top level, or routes with `match`"),
    (
        &["handle_response", "replace_status", "copy_response", "copy_response_headers", "intercept"],
        "answers of servers are changed by `error-page … from=\"upstream\"`, `header … status=` and `send-file`",
    ),
    (&["method"], "the method of a request goes on as it came"),
    (&["uri"], "parameters of the query go on as they came; `rewrite \"~^/old$\" \"/new?a=b\"` writes a new query"),
    (
        &["dns", "acme_dns"],
        "a provider that is not here is asked by a program or a service: `acme { dns \"exec\" command=\"/usr/local/bin/dns\"; }` or `dns \"webhook\" url=`",
    ),
    (
        &["propagation_timeout", "propagation_delay", "resolvers", "dns_ttl", "dns_challenge_override_domain", "tls_resolvers"],
        "how long a record is waited for is `propagation=` on the line of `dns`, and who is asked is `resolver=`",
    ),
    (
        &["on_demand", "on_demand_tls", "interval", "burst"],
        "names that nobody wrote need somebody who allows them: `on-demand ask=\"http://127.0.0.1:9000/allowed\"` in the site's `tls`",
    ),
    (&["get_certificate", "load"], "certificates are files: `tls cert=\"…\" key=\"…\"`, watched for changes"),
    (
        &["ca_root", "acme_ca_root", "trusted_roots"],
        "the roots of a CA of your own stand on its line: `acme { ca \"https://ca.internal/directory\" root=\"ca.pem\"; }`",
    ),
    (&["default_sni", "fallback_sni"], "a client that names nobody gets the certificate of the address's first site"),
    (
        &[
            "dial_fallback_delay",
            "local_address",
            "resolver",
            "network_proxy",
            "forward_proxy_url",
            "max_response_header",
            "tls_curves",
            "versions",
            "stream_buffer_size",
        ],
        "how connections to servers are made beyond that is not said here: the defaults are those of the system",
    ),
    (
        &["tls_trust_pool", "tls_trusted_ca_certs"],
        "several files of authorities are put into one: `tls ca=\"ca.pem\"` in the pool",
    ),
    (
        &["crowdsec", "appsec", "waf", "coraza_waf"],
        "rules of a module are not here: what they ask is said by `deny`, `rate-limit` or `forward-auth`",
    ),
    (&["forward_proxy", "hide_ip", "hide_via", "probe_resistance"], "this is no proxy for outgoing requests"),
    (&["tracing"], "a `traceparent` goes on as it came; spans are not reported"),
    (&["cache", "cache_handler"], "answers are kept by `cache` in a route, with `cache memory=\"512MiB\"` at the top level"),
    (&["bind", "default_bind"], "a site is on one address of the machine by its own: `site \"http://10.0.0.4:8080\"`"),
    (
        &["trusted_proxies", "client_ip_headers", "trusted_proxies_strict", "trusted_proxies_unix"],
        "who may say where a client is stands in `listener \":443\" { trusted-proxies \"10.0.0.0/8\" }`, by networks, and it is read from `X-Forwarded-For`, or from the one field that `client-ip-header` names",
    ),
    (
        &["status", "disable_canonical_uris", "fs", "etag_file_extensions", "reveal_symlinks"],
        "files answer with 200, and from a folder of this machine",
    ),
    (
        &["curves", "key_type", "ca", "reuse_private_keys", "insecure_secrets_log", "alpn", "renewal_window_ratio"],
        "handshakes and keys are as the defaults have them: `min`, `ciphers`, `alpn` and `acme key-type=` say more",
    ),
    (&["log_skip", "skip_log"], "requests of a route have no line by `log \"off\"` in it"),
    (&["log_append"], "a field of its own stands in lines by `log { field \"tenant\" \"{request.header.X-Tenant}\"; }`"),
    (&["log_name"], "lines are told apart by their field `site`, and by the files of several `access-log` with `site=`"),
    (&["log"], "lines go where `access-log` says: standard output, a file, or syslog"),
    (
        &["handle_errors"],
        "what errors look like is said by `error-page 404 file=\"/srv/404.html\"` or `body=`, a line for each page",
    ),
    (&["hide"], super::serving::HIDDEN),
    (&["expression"], "an expression that is more than matchers with `&&`, `||` and `!` is said by `match` lines"),
    (
        &["respond", "error", "abort"],
        "what stands under a condition of its own is a route: `route { match method=\"POST\"; respond 403; }`",
    ),
    (&["request_body", "max_size"], "how much a client may send is `body-limit \"10MB\"`"),
    (
        &["log_credentials", "trace", "per_host", "origins"],
        "the access log never has credentials; metrics are by site without a word",
    ),
    (&["copy_headers"], "fields of a good answer are copied by `copy` in the block of `forward-auth`"),
    (&["split", "env", "capture_stderr", "resolve_root_symlink"], "params of scripts stand in the block of `fastcgi`"),
];
const UNUSED: &str = "no site imports the snippet that it stands in, so it does nothing there either";
const PLACEHOLDER: &str = "what the environment puts here is not known: import the file with its text in its place";
const OF_CONDITION: &str = "its condition is none of ours, or comes behind a change of the path: say it by `match` in a `route`";

/// What to do with a statement of that name that is not carried.
pub fn remedy(name: &str) -> Option<&'static str> {
    match name {
        name if name.starts_with('@') => Some(OF_CONDITION),
        "…" => Some(PLACEHOLDER),
        name => reason(NOT_CARRIED, name),
    }
}

/// Says of statements in snippets that nobody imports that they do nothing.
pub fn explain(all: &[Statement], outline: &mut Outline) {
    let imports: BTreeSet<&str> = all.iter().flat_map(imported).collect();
    for snippet in all.iter().filter(|statement| statement.name().starts_with('(')) {
        if imports.contains(snippet.name().trim_matches(['(', ')'])) {
            continue;
        }
        for at in places(snippet.inside()) {
            outline.told.differ(at, UNUSED);
        }
    }
}

fn imported(statement: &Statement) -> Vec<&str> {
    let own = Some(statement.argument()).filter(|_| matches!(statement.name(), "import" | "invoke"));
    own.into_iter().chain(statement.inside().iter().flat_map(imported)).collect()
}
