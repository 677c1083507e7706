//! Every directive, one file each (or one small family): its table entry, its lowering and its tests.
//! [`LANGUAGE`] is all of this version, with the words that later versions bring and those of other proxies.

pub mod access_log;
pub mod acme;
pub mod acme_dns;
pub mod admin;
pub mod allow;
pub mod basic_auth;
pub mod body_limit;
pub mod cache;
pub mod client_auth;
pub mod compress;
pub mod concurrency_limit;
pub mod cors;
pub mod count_by;
pub mod decompress;
pub mod drain;
pub mod edition;
pub mod error_page;
pub mod fastcgi;
pub mod files;
pub mod header;
pub mod include;
pub mod limits;
pub mod listener;
pub mod log;
pub mod matching;
pub mod memory;
pub mod mirror;
pub mod path_policy;
pub mod pem;
pub mod pool;
pub mod proxy;
pub mod rate_limit;
pub mod redirect;
pub mod respond;
pub mod rewrite;
pub mod route;
pub mod site;
pub mod split;
pub mod storage;
pub mod tcp;
pub mod threads;
pub mod ticket_keys;
pub mod timeout;
pub mod tls;

use crate::language::{Directive, Language, Said};
use crate::table::Place;

/// The whole language.
pub static LANGUAGE: Language = Language { directives: ALL, reserved: RESERVED, said_otherwise: SAID_OTHERWISE };

/// In the order of the reference.
static ALL: &[&Directive] = &[
    &edition::EDITION,
    &include::INCLUDE,
    &site::SITE,
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
    &proxy::PROXY,
    &split::SPLIT,
    &split::SPLIT_PROXY,
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
    &allow::ALLOW,
    &allow::DENY,
    &cors::CORS,
    &basic_auth::BASIC_AUTH,
    &client_auth::CLIENT_AUTH,
    &rate_limit::RATE_LIMIT,
    &concurrency_limit::CONCURRENCY_LIMIT,
    &error_page::ERROR_PAGE,
    &compress::COMPRESS,
    &decompress::DECOMPRESS,
    &cache::CACHE,
    &timeout::ROUTE_TIMEOUT,
    &mirror::MIRROR,
    &log::ROUTE_LOG,
    &log::FIELD,
    &tcp::TCP,
    &tcp::SNI,
    &tcp::TCP_PROXY,
    &pool::POOL,
    &pool::server::SERVER,
    &pool::discover::DISCOVER,
    &pool::balance::BALANCE,
    &pool::server::ZONE,
    &pool::balance::STICKY,
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
    &admin::ADMIN,
    &access_log::ACCESS_LOG,
    &log::LOG,
    &threads::THREADS,
    &memory::MEMORY,
    &cache::CACHE_STORE,
    &acme::ACME,
    &acme::CA,
    &acme::CHALLENGES,
    &acme_dns::DNS,
    &storage::STORAGE,
    &ticket_keys::TICKET_KEYS,
    &listener::LISTENER,
    &listener::TRUSTED_PROXIES,
    &listener::ACCEPT_PROXY_PROTOCOL,
    &listener::WEBSOCKET_OVER_HTTP2,
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
    &basic_auth::USER,
];

/// Words of the language that this version does not have, and where they will stand.
static RESERVED: &[(Place, &[&str])] = &[
    (Place::Top, &["udp", "telemetry"]),
    (Place::Site, RESERVED_STEPS),
    (Place::Route, RESERVED_STEPS),
    (Place::Listener, &["http3"]),
];

static RESERVED_STEPS: &[&str] = &["forward-auth", "jwt", "oidc", "trace", "wasm"];

/// Words of other proxies, and how the same is said here.
static SAID_OTHERWISE: &[Said] = &[
    (&["proxy_pass", "reverse_proxy"], "requests are handed on with `proxy`, as in `proxy \"127.0.0.1:9000\"`"),
    (
        &["fastcgi_pass", "php_fastcgi", "php"],
        "scripts of a FastCGI server answer with `fastcgi`, as in `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\"`",
    ),
    (
        &["fastcgi_param", "fastcgi_params"],
        "params stand in the block of `fastcgi`, as in `env \"APP_ENV\" \"production\"`; the usual ones are there without a word",
    ),
    (
        &["fastcgi_index", "fastcgi_split_path_info", "try_files"],
        "`fastcgi` has `index=`, `split=` and `fallback=`, and `files` has `index=` and `fallback=`",
    ),
    (
        &["fastcgi_read_timeout", "fastcgi_connect_timeout", "fastcgi_send_timeout"],
        "in the block of `fastcgi` it is `timeout connect=\"5s\" first-byte=\"60s\" idle=\"1h\"`",
    ),
    (&["fastcgi_keep_conn"], "in the block of `fastcgi` it is `keep-alive connections=2`"),
    (&["location", "handle", "handle_path"], "a part of a site is a `route`, as in `route \"/api/*\" { … }`"),
    (&["upstream", "upstreams", "backend", "backends"], "servers that do the same work are a `pool`, as in `pool \"api\" { … }`"),
    (
        &["listen", "server_name", "frontend", "vhost", "virtualhost", "entryPoints", "entrypoints"],
        "addresses stand behind `site`, as in `site \"example.com\" { … }` or `site \"http://:8080\" { … }`",
    ),
    (
        &["stream", "ssl_preread", "IngressRouteTCP", "HostSNI", "layer4", "passthrough", "filter_chains"],
        "connections are handed on as they are with `tcp`, as in `tcp \":443\" { sni \"db.example.com\" { proxy \"10.0.0.9:443\" } }`",
    ),
    (&["return", "redir"], "answers are given with `respond 404`, or with `redirect \"https://example.com{uri}\"`"),
    (
        &["ssl_certificate", "ssl_certificate_key"],
        "certificates stand in the site, as in `tls cert=\"cert.pem\" key=\"key.pem\"`",
    ),
    (
        &["proxy_cache", "proxy_cache_valid", "proxy_cache_path", "proxy_cache_key", "cache-use", "cache-store", "souin"],
        "answers are kept with `cache` in a site or route, as in `cache fresh=\"404 30s\"`; where, with `cache` at the top level",
    ),
    (
        &["ssl_session_ticket_key", "tls-ticket-keys", "session_ticket_keys"],
        "ticket keys that hosts share stand at the top level, as in `ticket-keys shared=#true` or `ticket-keys \"/run/secrets/ticket.key\"`",
    ),
    (&["ssl_early_data", "allow_0rtt", "allow-0rtt", "zero-rtt", "0rtt"], "in a site's `tls` it is `early-data #true`"),
    (
        &["ssl_stapling", "SSLUseStapling"],
        "it is on where a certificate names a responder; `ocsp-stapling #false` in a site's `tls` turns it off",
    ),
    (&["ssl_session_tickets", "session_tickets"], "in a site's `tls` it is `tickets #false`"),
    (&["merge_slashes"], "what is made of `//` and `%2F` is said with `path-policy`, as in `path-policy slashes=\"keep\"`"),
    (
        &[
            "limit_req",
            "limit_req_zone",
            "rate_limit",
            "ratelimit",
            "rateLimit",
            "local_ratelimit",
            "throttle",
            "rate_limits",
            "stick-table",
        ],
        "how often a client may ask is said with `rate-limit`, as in `rate-limit \"10/s\" burst=20 by=\"client-ip\"`",
    ),
    (
        &["limit_conn", "limit_conn_zone", "inFlightReq", "inflightreq", "in-flight-req"],
        "how many requests of a client may be on their way at once is said with `concurrency-limit`, as in `concurrency-limit 10 by=\"client-ip\"`",
    ),
    (
        &["split_clients", "weighted_clusters", "weighted"],
        "requests are spread over pools with `split`, as in `split { proxy \"web\" weight=95; proxy \"canary\" weight=5; }`",
    ),
    (
        &["mirroring", "mirror_request_body", "request_mirror_policies"],
        "copies of requests go to another pool with `mirror`, as in `mirror \"shadow\" sample=\"10%\"`",
    ),
    (
        &["proxy_connect_timeout", "proxy_read_timeout", "proxy_send_timeout", "response_header_timeout"],
        "how long requests may take is said with `timeout`, as in `timeout connect=\"2s\" first-byte=\"30s\"`, in a route or for a pool",
    ),
    (
        &["access_log", "log_skip", "skip_log", "accessLog"],
        "where requests are logged is said with `access-log` at the top level; which of a site or a route, with `log \"off\"` or `log sample=\"1%\"` in it",
    ),
    (
        &["auth_basic", "auth_basic_user_file", "basicauth", "basic_auth", "basicAuth", "http_basic_auth"],
        "names and passwords are asked for with `basic-auth`, as in `basic-auth file=\"/etc/tidegate/htpasswd\" realm=\"Staff\"`",
    ),
    (
        &["error_page", "handle_errors", "errorfile", "errorfiles", "proxy_intercept_errors", "errors"],
        "what errors look like is said with `error-page`, as in `error-page 404 file=\"404.html\"`; `from=\"all\"` is those of upstreams too",
    ),
    (
        &["accept-proxy", "proxy_protocol", "proxyProtocol", "proxy-protocol"],
        "headers of the PROXY protocol are taken with `listener \":443\" { accept-proxy-protocol from=\"10.0.0.0/8\" }`, and sent with `send-proxy-protocol` in a pool",
    ),
    (&["add_header", "proxy_set_header"], "header fields are changed with `header`, `response-header` and `request-header`"),
];

#[cfg(test)]
pub mod tests {
    use super::{ALL, LANGUAGE};
    use crate::language::{Directive, Lower};
    use crate::load::load_with;
    use crate::lowering::Environment;
    use crate::table::{Count, Place};
    use std::path::Path;

    /// The example inside what has to be around it.
    fn surrounded(directive: &Directive, place: Place) -> String {
        let pem = |name: &str| format!("{}/tests/diagnostics/pem/{name}.pem", env!("CARGO_MANIFEST_DIR"));
        let example = directive.example.replace("clients-ca.pem", &pem("cert")).replace("revoked.pem", &pem("list"));
        let asked = format!("tls {{ client-auth ca=\"{}\" mode=\"request\"; }}", pem("cert"));
        let answers = match directive.name {
            _ if matches!(directive.lower, Lower::Terminal(_)) => "",
            "route" => "",
            // What they do is done on the way to an upstream.
            "mirror" | "timeout" => "proxy \"10.0.0.7:80\"",
            _ => "respond 200",
        };
        let site = "site \"localhost\" { respond 200; }";
        match place {
            Place::Top if directive.name == "site" => example,
            Place::Top if directive.name == "pool" => format!("{example}\nsite \"localhost\" {{ proxy \"api\"; }}"),
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
            Place::Tcp => format!("tcp \":5432\" {{\n{example}\n}}"),
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
            Place::Listener => format!("listener \":443\" {{\n{example}\n}}\n{site}"),
            Place::Limits => format!("limits {{\n{example}\n}}\n{site}"),
            Place::BasicAuth => format!("site \"localhost\" {{ basic-auth {{\n{example}\n}}; respond 200; }}"),
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
                let messages: Vec<&str> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
                assert!(messages.is_empty() || directive.name == "site", "{messages:?} for\n{text}");
                assert!(loaded.configuration.is_some(), "{messages:?} for\n{text}");
            }
        }
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
        for (words, _) in LANGUAGE.said_otherwise {
            for word in *words {
                assert!(LANGUAGE.places_of(word).is_empty(), "{word} is a word of this language too");
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
