//! Every statement of a configuration of Envoy, and how much it is where no line of ours says it.

use crate::accounts::{FileStatement, Reasons, StatementKind, Weight, WordTable, reason};
use crate::alike::joined_alike;
use crate::outline::Outline;
use crate::tree::Tree;

/// Filters that are known by their names, beside what stands in them.
const FILTERS: [&str; 18] = [
    "rbac",
    "jwt_authn",
    "ext_authz",
    "local_ratelimit",
    "ratelimit",
    "basic_auth",
    "oauth2",
    "admission_control",
    "csrf",
    "connection_limit",
    "api_key_auth",
    "ip_tagging",
    "buffer",
    "lua",
    "wasm",
    "ext_proc",
    "proxy_protocol",
    "golang",
];
const WORDS: WordTable = WordTable {
    protections: &[
        "rbac",
        "jwt_authn",
        "ext_authz",
        "local_ratelimit",
        "ratelimit",
        "basic_auth",
        "oauth2",
        "admission_control",
        "csrf",
        "connection_limit",
        "api_key_auth",
        "source_prefix_ranges",
        "direct_source_prefix_ranges",
        "source_type",
        "source_ports",
        "require_client_certificate",
        "rate_limits",
        "lua",
        "wasm",
        "ext_proc",
        "golang",
        "typed_per_filter_config",
        "require_tls",
        "matcher",
        "filter_chain_matcher",
    ],
    same: &[
        "@type",
        "name",
        "stat_prefix",
        "codec_type",
        "access_log",
        "access_log_path",
        "node",
        "layered_runtime",
        "stats_config",
        "generate_request_id",
        "use_remote_address",
        "upgrade_configs",
        "http_protocol_options",
        "normalize_path",
        "dns_lookup_family",
        "dns_refresh_rate",
        "type",
        "ipv4_compat",
        "respect_dns_ttl",
        "cluster_name",
        "alt_stat_name",
        "metadata",
        "alpn_protocols",
        "traffic_direction",
        "version_info",
        "last_updated",
        "resource_api_version",
        "runtime_key",
        "validate_clusters",
        "drain_timeout",
        "per_connection_buffer_limit_bytes",
        "enable_reuse_port",
        "reuse_port",
        "socket_options",
        "upgrade_type",
        "id",
        "preserve_external_request_id",
        "always_set_request_id_in_response",
        "flush_access_log_on_new_request",
        "locality",
    ],
    tls: &[
        "transport_socket",
        "tls_context",
        "common_tls_context",
        "tls_certificates",
        "tls_params",
        "validation_context",
        "trusted_ca",
        "sni",
        "certificate_chain",
        "private_key",
        "match_typed_subject_alt_names",
        "match_subject_alt_names",
    ],
    addresses: &[
        "address",
        "socket_address",
        "port_value",
        "additional_addresses",
        "protocol",
        "use_original_dst",
        "destination_port",
        "prefix_ranges",
        "application_protocols",
        "xff_num_trusted_hops",
        "proxy_protocol",
        "transparent",
        "bind_to_port",
        "pipe",
        "listener_filters",
    ],
    limits: &["circuit_breakers", "max_request_bytes", "buffer", "max_connect_attempts", "max_concurrent_streams"],
    answers: &[
        "cluster",
        "weighted_clusters",
        "redirect",
        "direct_response",
        "match",
        "virtual_hosts",
        "domains",
        "prefix_rewrite",
        "regex_rewrite",
        "host_rewrite_literal",
        "auto_host_rewrite",
        "request_mirror_policies",
        "cluster_header",
        "rds",
        "dynamic_resources",
        "hosts",
    ],
};

/// What a filter is, by its name or its type.
fn label(tree: &Tree) -> Option<&'static str> {
    let texts = [tree.get("name").text(), tree.at(&["typed_config", "@type"]).text(), tree.at(&["typedConfig", "@type"]).text()];
    let last = |text: &str| {
        let parts: Vec<String> = text.split(['.', '/']).map(joined_alike).collect();
        FILTERS.into_iter().find(|filter| parts.contains(&joined_alike(filter)))
    };
    texts.into_iter().flatten().filter(|text| text.starts_with("envoy.") || text.contains("envoy.extensions")).find_map(last)
}

pub fn statements(trees: &[Tree]) -> Vec<FileStatement> {
    let mut found = Vec::new();
    for tree in trees {
        let is_repeated = has_lists(tree);
        tree.each_statement(&mut Vec::new(), &label, &mut |at, path, value| {
            let is_bootstrap =
                (path.contains(&"bootstrap") && path.contains(&"static_resources")) || path.contains(&"static_route_configs");
            let same = |name: &str| FileStatement { at, name: name.to_owned(), kind: StatementKind::SameByDefault };
            found.push(match () {
                () if is_repeated && is_bootstrap => same("bootstrap"),
                () if path.contains(&"node") && path.contains(&"extensions") => same("extensions"),
                () if path.contains(&"node") => same("node"),
                () => statement(at, path, value),
            });
        });
    }
    found
}

/// Whether a dump has the lists of what is there, in which what is static stands as well.
pub fn has_lists(dump: &Tree) -> bool {
    let lists = ["static_listeners", "dynamic_listeners", "static_clusters", "dynamic_active_clusters"];
    dump.get("configs").items().iter().any(|one| lists.iter().any(|list| !one.get(list).is_nothing()))
}

fn statement(at: usize, path: &[&str], value: &Tree) -> FileStatement {
    let is = |name: &str| path.last().is_some_and(|last| joined_alike(last) == joined_alike(name));
    let own = |kind: StatementKind| FileStatement { at, name: path.last().copied().unwrap_or_default().to_owned(), kind };
    if path.first() == Some(&"admin") {
        return FileStatement { at, name: "admin".into(), kind: StatementKind::Needed(Weight::Setting) };
    }
    if let Some(kind) =
        ["tracing", "http_tracing"].into_iter().find(|kind| path.iter().any(|key| joined_alike(key) == joined_alike(kind)))
    {
        return FileStatement { at, name: kind.into(), kind: StatementKind::Needed(Weight::Setting) };
    }
    // A filter that is not told is one, whatever else is said of it.
    let filter = path.iter().rev().find(|key| FILTERS.contains(key)).filter(|_| is("name") || is("@type"));
    if let Some(filter) = filter {
        return WORDS.statement(at, &[filter]);
    }
    // The name of a filter says what it does, in Envoy.
    for said in ["hash_policy", "weighted_clusters"] {
        if path.iter().any(|key| joined_alike(key) == joined_alike(said)) && is("name") {
            return FileStatement { at, name: said.into(), kind: StatementKind::Needed(Weight::Answer) };
        }
    }
    let is_within = |name: &str| path.iter().any(|key| joined_alike(key) == joined_alike(name));
    if is_within("stats_sinks") {
        return FileStatement { at, name: "stats_sinks".into(), kind: StatementKind::Needed(Weight::Setting) };
    }
    // Lines in a file are said, and what is off is on here.
    if is("path") && is_within("access_log") && value.text().is_some_and(|file| !file.starts_with("/dev/std")) {
        return FileStatement { at, name: "access_log".into(), kind: StatementKind::Needed(Weight::Setting) };
    }
    if is("enabled") && is_within("upgrade_configs") && value.text() == Some("false") {
        return FileStatement { at, name: "upgrade_configs".into(), kind: StatementKind::Needed(Weight::Protection) };
    }
    // A filter that is off in one place is on there as well, which lets fewer in.
    if is("disabled") && is_within("typed_per_filter_config") && value.is_true() {
        return FileStatement { at, name: "disabled".into(), kind: StatementKind::Needed(Weight::Setting) };
    }
    let is_refusal = value.number().is_some_and(|status| (400..=599).contains(&status));
    match value.text() {
        Some(_) if is("status") && is_refusal => {
            FileStatement { at, name: "direct_response".into(), kind: StatementKind::Needed(Weight::Protection) }
        }
        Some("TCP") if is("protocol") => own(StatementKind::SameByDefault),
        Some("tls") if is("transport_protocol") => own(StatementKind::SameByDefault),
        Some("ROUND_ROBIN" | "round_robin") if is("lb_policy") => own(StatementKind::SameByDefault),
        Some("TLSv1_2" | "TLS_AUTO") if is("tls_minimum_protocol_version") => own(StatementKind::SameByDefault),
        Some("SANITIZE") if is("forward_client_cert_details") => own(StatementKind::SameByDefault),
        Some("NONE") if is("require_tls") => own(StatementKind::SameByDefault),
        Some("false") if is("require_client_certificate") => own(StatementKind::SameByDefault),
        _ => WORDS.statement(at, path),
    }
}

/// What the process does in its own way, without a line of its own.
const DIFFERS: Reasons = &[
    (
        &[
            "stream_idle_timeout",
            "request_timeout",
            "request_headers_timeout",
            "max_stream_duration",
            "max_connection_duration",
            "transport_socket_connect_timeout",
        ],
        "clients are bounded for all sites: `limits { header-timeout \"10s\"; keep-alive \"75s\"; body-rate \"100/s\" }`, and answers by `timeout`",
    ),
    (
        &["max_request_headers_kb", "max_headers_count"],
        "heads have at most 64 KiB: `limits { header-bytes; header-count }` makes it less",
    ),
    (
        &["initial_stream_window_size", "initial_connection_window_size", "per_connection_buffer_limit_bytes"],
        "windows and buffers grow with what is read, within bounds of the process",
    ),
    (&["max_concurrent_streams"], "`limits { h2-streams }` bounds them for all sites"),
];

/// Says of statements that no line is made of what is different.
pub fn told_alone(outline: &mut Outline) {
    for statement in &outline.statements {
        if let Some(how) = reason(DIFFERS, &super::snake(&statement.name)) {
            outline.told.differ(statement.at, how);
        }
    }
}

/// Why a statement of that name needs no word here.
pub fn why_same(name: &str) -> Option<&'static str> {
    reason(WHY_SAME, &super::snake(name))
}

/// What to do about a statement of that name that is not carried.
pub fn remedy(name: &str) -> Option<&'static str> {
    reason(REMEDIES, &super::snake(name))
}

/// Reasons for what needs no word here.
const WHY_SAME: Reasons = &[
    (
        &["@type", "name", "cluster_name", "stat_prefix", "alt_stat_name", "id", "metadata", "decorator"],
        "names of parts, which are known by their words and addresses here",
    ),
    (
        &["node", "version_info", "last_updated", "resource_api_version", "locality", "region", "zone", "sub_zone", "cluster"],
        "who this proxy is for a control plane",
    ),
    (
        &[
            "codec_type",
            "alpn_protocols",
            "http_protocol_options",
            "upgrade_type",
            "upgrade_configs",
            "allow_chunked_length",
            "accept_http_10",
            "allow_connect",
        ],
        "HTTP/1.1 and HTTP/2 are both spoken, and what asks for an upgrade, as a WebSocket does, is handed on",
    ),
    (
        &[
            "access_log",
            "access_log_path",
            "path",
            "format",
            "text_format",
            "json_format",
            "log_format",
            "flush_access_log_on_new_request",
            "text_format_source",
            "inline_string",
        ],
        "`access-log` has a line for each request, as JSON unless `format=` says otherwise",
    ),
    (
        &["generate_request_id", "preserve_external_request_id", "always_set_request_id_in_response"],
        "each request has an identifier, in `X-Request-Id`; `request-id client=#true` sends it back",
    ),
    (
        &["use_remote_address", "skip_xff_append"],
        "the client is the address that connects, unless `trusted-proxies` in a `listener` says whose word counts",
    ),
    (
        &[
            "normalize_path",
            "strip_matching_host_port",
            "strip_any_host_port",
            "strip_trailing_host_dot",
            "path_with_escaped_slashes_action",
        ],
        "paths are brought into one form, and names compared without a port, before anything looks at them",
    ),
    (
        &[
            "type",
            "dns_lookup_family",
            "dns_refresh_rate",
            "respect_dns_ttl",
            "dns_resolvers",
            "dns_failure_refresh_rate",
            "use_tcp_for_dns_lookups",
            "typed_dns_resolver_config",
        ],
        "names are looked up in both families, and again as the TTL of their records says",
    ),
    (&["forward_client_cert_details"], "what clients send in `X-Forwarded-Client-Cert` is taken out"),
    (&["extensions"], "a list of what that program was built with"),
    (&["bootstrap"], "it stands once more in the lists of listeners and clusters of the dump"),
    (&["lb_policy"], "requests are balanced by what is in flight (`p2c`), or as `balance` says"),
    (
        &[
            "protocol",
            "ipv4_compat",
            "enable_reuse_port",
            "reuse_port",
            "socket_options",
            "traffic_direction",
            "tcp_backlog_size",
            "drain_timeout",
            "drain_type",
            "continue_on_listener_filters_timeout",
            "listener_filters_timeout",
            "delayed_close_timeout",
            "use_original_dst",
        ],
        "sockets are set up as they serve best, and what is in flight at the end has the time of `drain`",
    ),
    (&["transport_protocol"], "a site with a certificate speaks TLS"),
    (&["tls_minimum_protocol_version", "tls_maximum_protocol_version"], "TLS 1.2 and 1.3 are all that is spoken"),
    (
        &["cipher_suites", "ecdh_curves", "signature_algorithms"],
        "all suites that are offered are strong; `ciphers` in the `tls` of a site names fewer",
    ),
    (&["require_tls", "require_client_certificate"], "nothing is asked for unless a line says so"),
    (
        &[
            "runtime_key",
            "validate_clusters",
            "ignore_global_conn_limit",
            "layered_runtime",
            "layers",
            "static_layer",
            "admin_layer",
            "overload_manager",
        ],
        "settings are changed by a new configuration, without a restart",
    ),
    (
        &["stats_config", "stats_flush_interval", "stats_tags", "use_all_default_tags"],
        "counters are at `/metrics` of `admin`, for Prometheus",
    ),
    (
        &["suppress_envoy_headers", "server_header_transformation"],
        "no fields of the proxy's own are added for servers and clients but the standard ones",
    ),
    (
        &[
            "connection_pool_per_downstream_connection",
            "upstream_connection_options",
            "tcp_keepalive",
            "keepalive_time",
            "keepalive_interval",
            "keepalive_probes",
            "close_connections_on_host_health_failure",
            "ignore_health_on_host_removal",
            "http2_protocol_options",
            "http3_protocol_options",
        ],
        "connections to servers are kept, asked for a sign of life and shared",
    ),
];

/// What to do about what is not carried.
const REMEDIES: Reasons = &[
    (&["disabled"], "the step of the site holds here as well: write it into the routes that need it, and not into the site"),
    (
        &["typed_per_filter_config", "matcher", "filter_chain_matcher", "xds_matcher", "check_settings"],
        "what a filter does in one place alone is a step of the route or the site there",
    ),
    (
        &[
            "grpc_timeout_header_max",
            "max_grpc_timeout",
            "grpc_timeout_offset",
            "timeout",
            "interval",
            "connect_timeout",
            "idle_timeout",
        ],
        "`timeout connect= first-byte= idle=` in a pool or a route, `total=` for the whole of an answer",
    ),
    (
        &["max_requests", "max_pending_requests", "priority", "max_connection_pools", "track_remaining"],
        "`max-requests total=1000 queue=100` bounds what a pool has in flight; one bound holds for all requests",
    ),
    (
        &["numerator", "denominator", "default_value", "runtime_fraction"],
        "a part of the requests is shared out by `split`, copied by `mirror sample=`, and counted by `rate-limit dry-run=`",
    ),
    (
        &["healthy_threshold", "unhealthy_threshold", "hostname", "health_checks", "send", "receive"],
        "servers are asked by `health` in the pool",
    ),
    (
        &["domains"],
        "a site is known by whole names, or by `*.` and a name: what begins with a name and ends with `*` is a route with `match header=\"Host: name.*\"`",
    ),
    (
        &["admin"],
        "the interface of the process is `admin`: `tidegate status` and `top`, `/metrics` and `/v1` (docs/admin-api.md)",
    ),
    (
        &["tracing", "provider", "http_tracing"],
        "traces are not sent in this version: `traceparent` goes on, `request-id trace=\"1%\"` begins one, and the log has `trace_id`",
    ),
    (
        &[
            "dynamic_resources",
            "rds",
            "ads",
            "ads_config",
            "cds_config",
            "lds_config",
            "config_source",
            "eds_config",
            "eds_cluster_config",
            "route_config_name",
            "set_node_on_first_message_only",
            "api_config_source",
            "grpc_services",
            "service_name",
        ],
        "there is no control plane: a file has all of it, the API changes it, and `discover dns=`, `docker=` and `consul=` find servers",
    ),
    (
        &["lua", "wasm", "golang", "ext_proc", "inline_code", "default_source_code"],
        "no code is run: `forward-auth` asks a server who may come in, and steps change requests and answers",
    ),
    (
        &["jwt_authn", "providers", "rules", "requires", "remote_jwks", "issuer", "audiences"],
        "tokens are asked for by `jwt jwks=\"https://idp.example.com/jwks.json\" issuer=\"…\"` in the site or the route that needs it",
    ),
    (
        &["ext_authz"],
        "another server says who may come in by `forward-auth \"http://127.0.0.1:9091/check\"`, or `\"grpc://127.0.0.1:9001\"` where it is made for Envoy",
    ),
    (&["stats_sinks"], "counters are asked for at `/metrics` of `admin`, by Prometheus or an agent: none are sent"),
    (
        &["access_log", "access_log_path"],
        "`access-log \"/var/log/tidegate/app.log\" site=\"app.example.com\"` writes into a file",
    ),
    (&["internal_only_headers"], "fields are taken out of requests by `request-header remove=`"),
    (
        &["forward_client_cert_details", "set_current_client_cert_details"],
        "servers are told of the certificate of a client by `client-auth … forward=\"xfcc\"`",
    ),
    (&["headers_with_underscores_action"], "names with `_` in them are dropped or refused by `header-names`"),
    (
        &["max_requests_per_connection"],
        "how many requests a connection of a client may have is not bounded; `drain` ends connections",
    ),
    (
        &["rbac", "policies", "permissions", "principals"],
        "who may come in is said by `allow` and `deny`, by conditions of a route, and by log-ins",
    ),
    (
        &["local_ratelimit", "ratelimit", "rate_limits", "token_bucket", "descriptors"],
        "how often is said by `rate-limit \"100/s\"` of a site or a route, by client unless `by=` says otherwise",
    ),
    (&["basic_auth", "users"], "names and passwords are asked for by `basic-auth file=\"htpasswd\"`"),
    (&["oauth2"], "browsers log in by `oidc issuer=\"https://idp.example.com\" client=\"…\"`"),
    (&["csrf"], "pages of other origins are kept out by `csrf`"),
    (&["fault", "delay", "abort", "fixed_delay", "http_status"], "faults are not made"),
    (
        &["grpc_json_transcoder", "proto_descriptor", "services"],
        "gRPC goes on as it is: what speaks JSON for it is a server of its own",
    ),
    (
        &[
            "transport_socket",
            "tls_context",
            "certificate_chain",
            "private_key",
            "tls_certificates",
            "filename",
            "inline_bytes",
            "tls_certificate_sds_secret_configs",
            "validation_context_sds_secret_config",
            "sds_config",
            "trusted_chain",
        ],
        "a certificate is `tls cert=\"site.pem\" key=\"site.key\"` in its site, and of a pool `tls ca= cert= key=`; without one a site gets its own by ACME",
    ),
    (
        &[
            "trusted_ca",
            "match_typed_subject_alt_names",
            "match_subject_alt_names",
            "verify_certificate_hash",
            "verify_certificate_spki",
            "san_type",
        ],
        "a server is verified by its name, `tls sni=` of its pool, and a client by `client-auth ca=` and `match client-san=`",
    ),
    (
        &["xff_num_trusted_hops", "original_ip_detection_extensions", "internal_address_config"],
        "whose word counts for the client's address is said by `trusted-proxies` in a `listener`",
    ),
    (&["server_name"], "`header \"Server\" \"…\"` of a site sets it"),
    (
        &["match", "prefix", "path", "safe_regex", "regex", "headers", "query_parameters"],
        "what differs by request is a `route` with `match`",
    ),
    (&["weighted_clusters", "weight"], "pools share requests by `split { proxy \"a\" weight=90; proxy \"b\" weight=10 }`"),
    (&["hash_policy"], "`balance \"hash\" key=\"{request.header.X}\"` of a pool, or `sticky`"),
    (
        &[
            "lb_subset_config",
            "subset_selectors",
            "ring_hash_lb_config",
            "maglev_lb_config",
            "least_request_lb_config",
            "common_lb_config",
            "load_balancing_policy",
            "minimum_ring_size",
            "maximum_ring_size",
        ],
        "`balance` is `p2c`, `round-robin`, `least-conn`, `ewma`, `random` or `hash`; parts of a pool are pools of their own",
    ),
    (&["local_reply_config", "mappers", "custom_response"], "pages of errors are `error-page 503 file=\"503.html\"`"),
    (&["cache", "http_cache"], "answers are kept by `cache` of a site or a route"),
    (
        &[
            "max_retries",
            "retry_budget",
            "retry_back_off",
            "retry_host_predicate",
            "host_selection_retry_max_attempts",
            "retriable_headers",
        ],
        "requests are tried again on another server: `retry attempts=2 on=\"connect,reset\" budget=\"20%\"`",
    ),
    (&["cluster_header", "cluster_specifier_plugin"], "which pool is asked is said by `split to=\"{request.header.X}\"`"),
    (
        &["request_headers_to_add", "response_headers_to_add", "key", "value", "append_action", "append"],
        "fields are changed by `request-header` and `header`; those that frame messages are the proxy's own",
    ),
    (
        &[
            "bind_to_port",
            "filter_chain_match",
            "destination_port",
            "prefix_ranges",
            "application_protocols",
            "source_prefix_ranges",
            "additional_addresses",
            "api_listener",
        ],
        "sites and ports are known by their addresses and by the name that clients ask for",
    ),
    (
        &["connection_limit", "max_connections"],
        "`limits { connections-per-ip 10000 }` bounds clients, `max-connections` of a pool servers",
    ),
    (&["buffer", "max_request_bytes"], "`body-limit \"10MB\"` of a site or a route"),
    (
        &[
            "redis_proxy",
            "mongo_proxy",
            "mysql_proxy",
            "thrift_proxy",
            "zookeeper_proxy",
            "kafka_broker",
            "dubbo_proxy",
            "prefix_routes",
            "settings",
            "op_timeout",
        ],
        "other protocols are handed on by `tcp`, byte by byte",
    ),
    (&["dynamic_forward_proxy", "dns_cache_config", "cluster_type"], "there is no forward proxy: `proxy` names its servers"),
    (
        &[
            "load_stats_config",
            "hds_config",
            "watchdog",
            "watchdogs",
            "flags_path",
            "bootstrap_extensions",
            "default_socket_interface",
            "cluster_manager",
            "fatal_actions",
        ],
        "about the process alone, which is watched by the service manager",
    ),
    (
        &["socket_address", "address", "port_value", "pipe"],
        "an address is not told: a server is `host:port` or `unix:/path`, and a site has a port and perhaps an address",
    ),
];
