//! Every directive, one file each (or one small family): its table entry, its lowering, how it is written, its tests.
//! [`LANGUAGE`] is all of this version, with the words that later versions bring and those of other proxies; below it,
//! which directive writes each option, step and terminal step of the model.

pub mod access_log;
pub mod acme;
pub mod acme_dns;
pub mod admin;
pub mod allow;
pub mod answer_rewrite;
pub mod api_key;
pub mod auth_any;
pub mod basic_auth;
pub mod body_limit;
pub mod cache;
pub mod client_auth;
pub mod compress;
pub mod concurrency_limit;
pub mod cors;
pub mod count_by;
pub mod csrf;
pub mod decompress;
pub mod docker;
pub mod drain;
pub mod driver;
pub mod edition;
pub mod error_page;
pub mod failures;
pub mod fastcgi;
pub mod files;
pub mod forward_auth;
pub mod geoip;
pub mod header;
pub mod header_names;
pub mod include;
pub mod jwt;
pub mod limits;
pub mod listen;
pub mod listener;
pub mod log;
pub mod map;
pub mod matching;
pub mod memory;
pub mod mirror;
mod nested_route;
pub mod oidc;
pub mod origin;
pub mod pass_on;
pub mod path_policy;
pub mod pem;
pub mod pool;
pub mod proxy;
pub mod proxy_status;
pub mod rate_limit;
pub mod redirect;
pub mod request_id;
pub mod respond;
pub mod rewrite;

pub mod route;
pub mod send_file;
pub mod site;
pub mod split;
pub mod storage;
pub mod tcp;
pub mod threads;
pub mod ticket_keys;
pub mod timeout;
pub mod tls;
mod words_of_others;

use crate::language::{Directive, Language};
use crate::table::Place;
use crate::written_line::Writer;
use std::fmt::Debug;
use tidegate_model::{RouteOptions, Step, Terminal};

/// The whole language.
pub static LANGUAGE: Language = Language { directives: ALL, reserved: RESERVED, said_otherwise: words_of_others::SAID_OTHERWISE };

/// In the order of the reference.
static ALL: &[&Directive] = &[
    &edition::EDITION,
    &include::INCLUDE,
    &site::SITE,
    &listen::LISTEN,
    &origin::ORIGIN,
    &tls::TLS,
    &tls::MIN,
    &tls::CIPHERS,
    &tls::ALPN,
    &tls::TICKETS,
    &tls::EARLY_DATA,
    &tls::OCSP_STAPLING,
    &acme::SITE_ACME,
    &acme::ON_DEMAND,
    &client_auth::TLS_CLIENT_AUTH,
    &route::ROUTE,
    &matching::MATCH,
    &matching::ANY,
    &matching::ALL,
    &matching::NOT,
    &proxy::PROXY,
    &split::SPLIT,
    &split::SPLIT_PROXY,
    &split::ARM,
    &respond::RESPOND,
    &redirect::REDIRECT,
    &files::FILES,
    &fastcgi::FASTCGI,
    &fastcgi::ENV,
    &header::HEADER,
    &header::RESPONSE_HEADER,
    &header::REQUEST_HEADER,
    &rewrite::REWRITE,
    &rewrite::STRIP_PREFIX,
    &rewrite::ADD_PREFIX,
    &body_limit::BODY_LIMIT,
    &path_policy::PATH_POLICY,
    &header_names::HEADER_NAMES,
    &pass_on::PASS_ON,
    &request_id::REQUEST_ID,
    &proxy_status::PROXY_STATUS,
    &allow::ALLOW,
    &allow::DENY,
    &cors::CORS,
    &csrf::CSRF,
    &basic_auth::BASIC_AUTH,
    &jwt::JWT,
    &oidc::OIDC,
    &forward_auth::FORWARD_AUTH,
    &api_key::API_KEY,
    &client_auth::CLIENT_AUTH,
    &auth_any::AUTH,
    &rate_limit::RATE_LIMIT,
    &concurrency_limit::CONCURRENCY_LIMIT,
    &error_page::ERROR_PAGE,
    &error_page::PAGE_HEADER,
    &compress::COMPRESS,
    &decompress::DECOMPRESS,
    &cache::CACHE,
    &timeout::ROUTE_TIMEOUT,
    &mirror::MIRROR,
    &send_file::SEND_FILE,
    &answer_rewrite::REWRITE_LOCATION,
    &answer_rewrite::REWRITE_COOKIE_PATH,
    &answer_rewrite::REWRITE_COOKIE_DOMAIN,
    &log::ROUTE_LOG,
    &log::FIELD,
    &geoip::GEOIP,
    &map::MAP,
    &map::ROW,
    &tcp::TCP,
    &tcp::SNI,
    &tcp::TCP_PROXY,
    &tcp::TCP_SPLIT,
    &tcp::TCP_SPLIT_PROXY,
    &pool::POOL,
    &pool::server::SERVER,
    &pool::discover::DISCOVER,
    &pool::balance::BALANCE,
    &pool::server::ZONE,
    &pool::sticky::STICKY,
    &pool::health::HEALTH,
    &pool::outlier::OUTLIER,
    &pool::outlier::SLOW_START,
    &pool::connection::TIMEOUT,
    &pool::retry::RETRY,
    &pool::retry::HEDGE,
    &pool::bounds::MAX_CONNECTIONS,
    &pool::bounds::MAX_REQUESTS,
    &pool::bounds::ADAPTIVE_CONCURRENCY,
    &pool::connection::KEEP_ALIVE,
    &pool::connection::PROTOCOL,
    &pool::connection::UPSTREAM_TLS,
    &pool::connection::SEND_PROXY_PROTOCOL,
    &origin::POOL_ORIGIN,
    &admin::ADMIN,
    &access_log::ACCESS_LOG,
    &log::LOG,
    &threads::THREADS,
    &driver::DRIVER,
    &memory::MEMORY,
    &cache::CACHE_STORE,
    &tls::SHARED_TLS,
    &acme::ACME,
    &acme::CA,
    &acme::CHALLENGES,
    &acme::WILDCARD,
    &acme_dns::DNS,
    &storage::STORAGE,
    &ticket_keys::TICKET_KEYS,
    &listener::LISTENER,
    &listener::TRUSTED_PROXIES,
    &listener::ACCEPT_PROXY_PROTOCOL,
    &listener::CLIENT_IP_HEADER,
    &listener::WEBSOCKET_OVER_HTTP2,
    &listener::MODE,
    &listener::OWNER,
    &drain::DRAIN,
    &limits::LIMITS,
    &limits::HEADER_BYTES,
    &limits::REQUEST_LINE,
    &limits::HEADER_COUNT,
    &limits::CONNECTIONS_PER_IP,
    &limits::HEADER_TIMEOUT,
    &limits::KEEP_ALIVE,
    &limits::BODY_RATE,
    &limits::H2_STREAMS,
    &limits::HANDSHAKES_PER_NETWORK,
    &docker::DOCKER,
    &docker::DOCKER_ALLOW,
    &docker::ENTRY_POINT,
    &basic_auth::USER,
    &jwt::JWT_ISSUER,
    &jwt::REQUIRE,
    &jwt::JWT_HEADER,
    &oidc::PROVIDER,
    &oidc::PARAMETER,
    &forward_auth::REQUEST_HEADERS,
    &forward_auth::QUESTION_HEADER,
    &forward_auth::COPY,
    &forward_auth::COOKIES,
    &forward_auth::REMEMBERED,
    &api_key::KEY,
];

/// Words of the language that this version does not have, and where they will stand.
static RESERVED: &[(Place, &[&str])] = &[
    (Place::Top, &["udp", "telemetry"]),
    (Place::Site, RESERVED_STEPS),
    (Place::Route, RESERVED_STEPS),
    (Place::Listener, &["http3"]),
];

static RESERVED_STEPS: &[&str] = &["trace", "wasm"];

/// Where what one option is written from goes, with what writes its line.
pub type AddLine<'w, 'm> = dyn FnMut(&'m dyn Debug, &dyn Fn(&mut Writer)) + 'w;

/// The options of a site or a route that are set, in the order of the reference.
pub fn write_options<'m>(options: &'m RouteOptions, add: &mut AddLine<'_, 'm>) {
    let RouteOptions {
        path_policy,
        header_names,
        pass_on,
        request_ids,
        proxy_status,
        error_pages,
        compress,
        decompress,
        cache,
        timeouts,
        mirrors,
        send_files,
        answer_rewrites,
        log,
    } = options;
    if let Some(policy) = path_policy {
        add(policy, &|line| path_policy::write(line, policy));
    }
    if let Some(policy) = header_names {
        add(policy, &|line| header_names::write(line, *policy));
    }
    if let Some(pass_on) = pass_on {
        add(pass_on, &|line| pass_on::write(line, pass_on));
    }
    add(request_ids, &|line| line.switched("request-id", request_ids, request_id::write));
    add(proxy_status, &|line| line.switched("proxy-status", proxy_status, proxy_status::write));
    for page in error_pages {
        add(page, &|line| error_page::write(line, page));
    }
    add(compress, &|line| line.switched("compress", compress, compress::write));
    add(decompress, &|line| line.switched("decompress", decompress, decompress::write));
    add(cache, &|line| line.switched("cache", cache, cache::write));
    add(timeouts, &|line| timeout::write(line, timeouts));
    if mirrors.are_off_before {
        add(&mirrors.are_off_before, &|line| line.off("mirror"));
    }
    for mirror in &mirrors.named {
        add(mirror, &|line| mirror::write(line, mirror));
    }
    if send_files.are_off_before {
        add(&send_files.are_off_before, &|line| line.off("send-file"));
    }
    for folder in &send_files.folders {
        add(folder, &|line| send_file::write(line, folder));
    }
    for rule in answer_rewrites {
        add(rule, &|line| answer_rewrite::write(line, rule));
    }
    add(log, &|line| log::write(line, log));
}

/// `strip-prefix "/api"`
pub fn write_step(line: &mut Writer, step: &Step) {
    match step {
        Step::RequestHeader(changes) => header::write(line.name("request-header"), changes),
        Step::ResponseHeader(changes) => header::write(line.name("response-header"), changes),
        Step::Rewrite { pattern, to } => rewrite::write(line, pattern.as_ref(), to),
        Step::StripPrefix(prefix) => rewrite::write_prefix(line, "strip-prefix", prefix),
        Step::AddPrefix(prefix) => rewrite::write_prefix(line, "add-prefix", prefix),
        Step::BodyLimit { bytes_max } => body_limit::write(line, *bytes_max),
        Step::Allow(rule) => allow::write(line.name("allow"), rule),
        Step::Deny(rule) => allow::write(line.name("deny"), rule),
        Step::Cors(cors) => cors::write(line, cors),
        Step::Csrf(None) => line.off("csrf"),
        Step::Csrf(Some(csrf)) => csrf::write(line, csrf),
        Step::BasicAuth(None) => line.off("basic-auth"),
        Step::BasicAuth(Some(auth)) => basic_auth::write(line, auth),
        Step::Jwt(None) => line.off("jwt"),
        Step::Jwt(Some(jwt)) => jwt::write(line, jwt),
        Step::Oidc(None) => line.off("oidc"),
        Step::Oidc(Some(oidc)) => oidc::write(line, oidc),
        Step::ForwardAuth(None) => line.off("forward-auth"),
        Step::ForwardAuth(Some(auth)) => forward_auth::write(line, auth),
        Step::ApiKey(None) => line.off("api-key"),
        Step::ApiKey(Some(auth)) => api_key::write(line, auth),
        Step::AuthAny(None) => line.off("auth"),
        Step::AuthAny(Some(any)) => auth_any::write(line, any),
        Step::ClientAuth(demand) => client_auth::write_step(line, *demand),
        Step::RateLimit(limit) => rate_limit::write(line, limit),
        Step::ConcurrencyLimit(limit) => concurrency_limit::write(line, limit),
    }
}

/// `respond 200 body="ok"`
pub fn write_terminal(line: &mut Writer, terminal: &Terminal) {
    match terminal {
        Terminal::Respond { status, body, content_type } => respond::write(line, *status, body, content_type.as_deref()),
        Terminal::Redirect { to, status, prefix } => redirect::write(line, to, *status, prefix.as_deref()),
        Terminal::Proxy { pool, retry, rewrites_location } => proxy::write(line, pool, retry, *rewrites_location),
        Terminal::Files(files) => files::write(line, files),
        Terminal::FastCgi(fastcgi) => fastcgi::write(line, fastcgi),
        Terminal::Split(split) => split::write(line, split),
    }
}

#[cfg(test)]
pub mod tests {
    use super::{ALL, LANGUAGE, listener};
    use crate::language::{Directive, Lower};
    use crate::load::load_with;
    use crate::lowering::Environment;
    use crate::table::{Count, Place};
    use std::path::Path;
    use tidegate_foreign::joined_alike;

    /// The example inside what has to be around it.
    pub fn surrounded(directive: &Directive, place: Place) -> String {
        let pem = |name: &str| format!("{}/tests/diagnostics/pem/{name}.pem", env!("CARGO_MANIFEST_DIR"));
        let example = directive.example.replace("clients-ca.pem", &pem("cert")).replace("revoked.pem", &pem("list"));
        let example = example.replace("wildcard.pem", &pem("both"));
        let asked = format!("tls {{ client-auth ca=\"{}\" mode=\"request\"; }}", pem("cert"));
        let answers = match directive.name {
            _ if matches!(directive.lower, Lower::Terminal(_)) => "",
            "route" => "",
            // What they do is done on the way to an upstream.
            "mirror" | "timeout" | "send-file" | "rewrite-location" | "rewrite-cookie-path" | "rewrite-cookie-domain" => {
                "proxy \"10.0.0.7:80\""
            }
            _ => "respond 200",
        };
        let site = "site \"localhost\" { respond 200; }";
        match place {
            Place::Top if directive.name == "site" => example,
            Place::Top if directive.name == "pool" => format!("{example}\nsite \"localhost\" {{ proxy \"api\"; }}"),
            Place::Top if directive.name == "map" => {
                format!("{example}\nsite \"localhost\" {{ respond 200 body=\"{{map.tier}}\"; }}")
            }
            Place::Top => format!("{example}\n{site}"),
            Place::Site if directive.name == "client-auth" => {
                format!("site \"localhost\" {{ {asked}; {example}; respond 200; }}")
            }
            Place::Route if directive.name == "client-auth" => {
                format!("site \"localhost\" {{ {asked}; route {{ {example}; respond 200; }}; }}")
            }
            Place::Site => format!("site \"localhost\" {{\n{example}\n{answers}\n}}"),
            Place::Route => format!("site \"localhost\" {{\nroute {{\n{example}\n{answers}\n}}\n}}"),
            Place::Header => format!("site \"localhost\" {{ header \"X-A\" \"1\" {{\n{example}\n}}; respond 200; }}"),
            Place::Log => format!("site \"localhost\" {{ log {{\n{example}\n}}; respond 200; }}"),
            Place::Split => format!("site \"localhost\" {{ split {{\n{example}\n}}; }}"),
            Place::Arm => format!("site \"localhost\" {{ split {{ arm {{\n{example}\n{answers}\n}}; }}; }}"),
            Place::Tcp => format!("tcp \":5432\" {{\n{example}\n}}"),
            Place::TcpSplit => format!("tcp \":5432\" {{\nsplit {{\n{example}\n}}\n}}"),
            Place::Sni => format!("tcp \":5432\" {{\nsni \"a.example.com\" {{\n{example}\n}}\n}}"),
            Place::Pool if directive.name == "protocol" => {
                format!("site \"localhost\" {{ proxy \"10.0.0.9:80\" {{\n{example}\n}}; }}")
            }
            Place::Pool => {
                format!("site \"localhost\" {{ proxy \"https://10.0.0.9:443\" \"https://10.0.0.10:443\" {{\n{example}\n}}; }}")
            }
            Place::FastCgi => {
                format!("site \"localhost\" {{ fastcgi \"php:9000\" root=\"/srv/www\" {{\n{example}\n}}; }}")
            }
            Place::Acme => format!("acme {{\n{example}\n}}\n{site}"),
            Place::Tls => format!("site \"localhost\" {{ tls {{\n{example}\n}}; respond 200; }}"),
            Place::Listener if [listener::MODE.name, listener::OWNER.name].iter().any(|name| example.starts_with(name)) => {
                format!("listener \"unix:/a\" {{\n{example}\n}}\nsite \"http://unix:/a\" {{ respond 200; }}\n{site}")
            }
            Place::Listener => format!("listener \":443\" {{\n{example}\n}}\n{site}"),
            Place::Limits => format!("limits {{\n{example}\n}}\n{site}"),
            Place::Jwt => {
                format!("site \"localhost\" {{ jwt jwks=\"keys.json\" issuer=\"me\" {{\n{example}\n}}; respond 200; }}")
            }
            Place::Oidc if directive.name == "provider" => {
                format!("site \"localhost\" {{ oidc {{\n{example}\n}}; respond 200; }}")
            }
            Place::OidcProvider => format!(
                "site \"localhost\" {{ oidc {{ provider \"a\" issuer=\"https://a.example\" client=\"me\" {{\n{example}\n}}; }}; respond 200; }}"
            ),
            Place::Oidc => {
                format!(
                    "site \"localhost\" {{ oidc issuer=\"https://idp.example.com\" client=\"me\" {{\n{example}\n}}; respond 200; }}"
                )
            }
            Place::ForwardAuth => {
                format!("site \"localhost\" {{ forward-auth \"http://10.0.0.8:9091\" {{\n{example}\n}}; respond 200; }}")
            }
            Place::AuthAny if directive.name == "client-auth" => {
                format!("site \"localhost\" {{ {asked}; auth any {{\n{example}\n}}; respond 200; }}")
            }
            Place::AuthAny => format!("site \"localhost\" {{ auth any {{\n{example}\n}}; respond 200; }}"),
            Place::ErrorPage => {
                format!("site \"localhost\" {{ error-page 404 pool=\"10.0.0.9:80\" {{\n{example}\n}}; respond 200; }}")
            }
            Place::ApiKey => format!("site \"localhost\" {{ api-key {{\n{example}\n}}; respond 200; }}"),
            Place::BasicAuth => format!("site \"localhost\" {{ basic-auth {{\n{example}\n}}; respond 200; }}"),
            Place::Match => format!("site \"localhost\" {{ route {{ match {{\n{example}\n}}; respond 200; }}; }}"),
            Place::Conditions => {
                format!("site \"localhost\" {{ route {{ match {{ any {{\n{example}\n}}; }}; respond 200; }}; }}")
            }
            Place::Docker => format!("docker {{\n{example}\n}}\n{site}"),
            Place::Map => {
                format!("map \"m\" key=\"{{host}}\" {{\n{example}\n}}\nsite \"localhost\" {{ respond 200 body=\"{{map.m}}\"; }}")
            }
        }
    }

    /// What the examples of all directives mean, in every place of each.
    pub fn loaded_examples() -> Vec<tidegate_model::Configuration> {
        let texts = ALL.iter().flat_map(|directive| directive.places.iter().map(move |place| surrounded(directive, *place)));
        let load = |text: String| load_with("example", &text, Path::new("/nonexistent"), &Environment::Given([].into()));
        texts.filter_map(|text| load(text).configuration).collect()
    }

    #[test]
    fn every_example_loads_without_complaint_in_every_place_of_its_directive() {
        for directive in ALL {
            for place in directive.places {
                let text = surrounded(directive, *place);
                let loaded = load_with("example", &text, Path::new("/nonexistent"), &Environment::Given([].into()));
                let messages: Vec<&str> = loaded.diagnostics.iter().map(|diagnostic| &*diagnostic.message).collect();
                assert!(messages.is_empty() || directive.name == "site", "{messages:?} for\n{text}");
                assert!(loaded.configuration.is_some(), "{messages:?} for\n{text}");
            }
        }
    }

    /// `value` of a summary that says "`value` when left out", or "`value`, which is meant when it is left out".
    /// Numbers may stand as they are, and so may words, which are no value.
    fn said_default(summary: &str) -> Option<&str> {
        let (before, _) = summary.split_once(" when left out").or_else(|| summary.split_once(" when it is left out"))?;
        let before = before.strip_suffix(", which is meant").unwrap_or(before);
        match before.strip_suffix('`') {
            Some(written) => Some(&written[written.rfind('`')? + 1..]),
            None => before.rsplit([' ', '(']).next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit())),
        }
    }

    #[test]
    fn values_are_found_in_summaries() {
        let check = |summary: &str, expected: Option<&str>| assert_eq!(said_default(summary), expected, "{summary}");
        check("How long; `10s` when left out.", Some("10s"));
        check("The status; 200 when it is left out.", Some("200"));
        check("`client-ip`, which is meant when it is left out, or `all`.", Some("client-ip"));
        check("They stay (`keep`, which is meant when it is left out).", Some("keep"));
        check("Whose; nobody when left out.", None);
        check("A port.", None);
    }

    /// Properties of which a line with the default is not the same as one without.
    const DEPENDENT: [(&str, &str); 18] = [
        // In a site they stand for what the top level says.
        ("acme", "key-type"),
        ("acme", "http-port"),
        ("acme", "preflight"),
        // Belongs to another property than the one of the example.
        ("discover", "agent"),
        ("error-page", "placeholders"),
        ("error-page", "path"),
        ("error-page", "keep-status"),
        ("error-page", "answer-bytes"),
        ("error-page", "total"),
        ("retry", "for"),
        ("access-log", "facility"),
        ("access-log", "tag"),
        // The number is an answer, or the port of an address.
        ("fastcgi", "fallback"),
        ("discover", "resolver"),
        ("dns", "server"),
        // Three stand for none, and each alone is another list.
        ("oidc", "scope"),
        ("provider", "scope"),
        // Without it a share of the process's memory is a bound as well.
        ("cache", "memory"),
    ];

    #[test]
    fn every_default_that_a_property_is_said_to_have_is_the_one_that_holds() {
        let load = |text: &str| load_with("example", text, Path::new("/nonexistent"), &Environment::Given([].into()));
        let (mut count, mut wrong) = (0, Vec::new());
        for directive in ALL {
            for property in directive.properties {
                let Some(default) = said_default(property.summary) else { continue };
                if DEPENDENT.contains(&(directive.name, property.name)) {
                    continue;
                }
                let text = surrounded(directive, directive.places[0]);
                let written = format!(" {}=", property.name);
                let Some(at) = text.find(&format!("{} ", directive.name)).map(|at| at + directive.name.len()) else { continue };
                let line_end = at
                    + text[at..]
                        .find(" {\n")
                        .or(text[at..].find('\n'))
                        .map_or(text.len() - at, |end| end.min(text[at..].find('\n').unwrap_or(end)));
                // The example may set it to something else.
                let line = &text[at..line_end];
                let kept = match line.find(&written) {
                    None => line.trim_end().to_owned(),
                    Some(start) => {
                        let value = &line[start + written.len()..];
                        let end = match value.strip_prefix('"') {
                            Some(quoted) => 2 + quoted.find('"').unwrap_or(0),
                            None => value.find(' ').unwrap_or(value.len()),
                        };
                        format!("{}{}", &line[..start], &value[end..]).trim_end().to_owned()
                    }
                };
                let is_bare = default.starts_with('#') || default.parse::<u64>().is_ok();
                let value = if is_bare { default.to_owned() } else { format!("\"{}\"", default.trim_matches('"')) };
                let with_line = |line: &str| format!("{}{line} {}", &text[..at], &text[line_end..]);
                let (without, with) = (with_line(&kept), with_line(&format!("{kept}{written}{value}")));
                let meant = |text: &str| load(text).configuration.map(|configuration| format!("{configuration:?}"));
                count += 1;
                if meant(&without).is_none() || meant(&without) != meant(&with) {
                    wrong.push(format!("`{}` {}={value}:\n{with}", directive.name, property.name));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 90, "only {count} defaults are said");
    }

    /// The line that writes out what is said to hold without one; `None` where that is said in words.
    fn default_line(directive: &Directive) -> Option<String> {
        let parts: Vec<&str> = directive.default.split('`').collect();
        let is_code_alone = parts.len() > 1 && parts.iter().step_by(2).all(|between| matches!(*between, "" | ", " | ", then "));
        let value = |code: &&str| {
            let is_written = code.contains('=') || code.starts_with(['"', '#']) || code.parse::<u64>().is_ok();
            if is_written { (*code).to_owned() } else { format!("\"{code}\"") }
        };
        let values: Vec<String> = parts.iter().skip(1).step_by(2).map(value).collect();
        is_code_alone.then(|| format!("{} {}", directive.name, values.join(" ")))
    }

    /// What is written is kept apart from what is not, though it does the same: a route's takes the place of its
    /// site's.
    const KEPT_APART: [&str; 5] = ["path-policy", "header-names", "pass-on", "alpn", "request-id"];

    #[test]
    fn every_default_that_a_directive_is_said_to_have_is_the_one_that_holds() {
        let load = |text: &str| load_with("example", text, Path::new("/nonexistent"), &Environment::Given([].into()));
        let meant = |text: &str| load(text).configuration.map(|configuration| format!("{configuration:?}"));
        let (mut count, mut wrong) = (0, Vec::new());
        for directive in ALL.iter().filter(|directive| !KEPT_APART.contains(&directive.name)) {
            let Some(line) = default_line(directive) else { continue };
            let text = surrounded(directive, directive.places[0]);
            // Where the directive cannot stand alone, its example has lines for those beside it.
            let (with, without) = (text.replace(directive.example, &line), text.replace(directive.example, ""));
            let is_part = directive.name == "server" || text == with;
            if is_part {
                continue;
            }
            count += 1;
            if meant(&without).is_none() || meant(&without) != meant(&with) {
                wrong.push(format!("{with}\n{:?}", load(&with).diagnostics.first().map(|fault| fault.message.clone())));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 15, "only {count} defaults are said");
    }

    #[test]
    fn names_are_unique_in_a_place_and_reserved_words_are_not_taken() {
        for place in Place::ALL {
            let names = LANGUAGE.names_at(place);
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), unique.len(), "{place:?}");
        }
        for (place, words) in LANGUAGE.reserved {
            for word in *words {
                assert!(LANGUAGE.find(word, *place).is_none(), "{word} is both reserved and there");
                assert!(LANGUAGE.is_reserved(word, *place));
            }
        }
        let mut known = std::collections::BTreeSet::new();
        for (words, _) in LANGUAGE.said_otherwise.iter().copied().flatten() {
            for word in *words {
                assert!(LANGUAGE.places_of(word).is_empty(), "{word} is a word of this language too");
                assert!(known.insert(joined_alike(word)), "{word} is there twice");
            }
        }
        assert!(LANGUAGE.places_of("proxy").contains(&Place::Route));
    }

    /// Reading by position relies on it: only the last argument may be left out or repeated.
    #[test]
    fn what_may_be_left_out_stands_last() {
        for directive in ALL {
            let counts: Vec<Count> = directive.arguments.iter().map(|argument| argument.count).collect();
            let open_ended = counts.iter().position(|count| matches!(count, Count::OneOrMore | Count::Any));
            assert!(open_ended.is_none_or(|position| position + 1 == counts.len()), "{}", directive.name);
            let first_optional = counts.iter().position(|count| *count != Count::One).unwrap_or(counts.len());
            assert!(!counts[first_optional..].contains(&Count::One), "{}", directive.name);
        }
    }
}
