//! What of a listener of Envoy is known to keep nobody out, or is read by itself: filters, and the settings of what
//! they stand in. All else counts as a guard.

use crate::strangers::{Strangers, is_among};
use crate::tree::Tree;

/// A filter of any list: what it is, and its settings. What comes from a control plane is [`DISCOVERED`], and what is
/// of no package of Envoy has its whole type for a name.
pub fn kind(filter: &Tree) -> (String, &Tree) {
    if filter.has("config_discovery") {
        return (DISCOVERED.to_owned(), filter);
    }
    let own = [filter.get("typed_config"), filter.get("config")].into_iter().find(|settings| !settings.is_nothing());
    let settings = own.unwrap_or(filter);
    let of_type = settings.get("@type").text().unwrap_or_default();
    if of_type.ends_with(".TypedStruct") {
        return (kind_of_type(settings.get("type_url").text().unwrap_or_default()), settings.get("value"));
    }
    if !of_type.is_empty() {
        return (kind_of_type(of_type), settings);
    }
    let name = filter.get("name").text().unwrap_or_default();
    let own = if name.starts_with("envoy.") { name.rsplit('.').next().unwrap_or_default() } else { name };
    (own.replace('_', "").to_ascii_lowercase(), settings)
}

/// What no kind is called.
pub const DISCOVERED: &str = "config_discovery";

/// `localratelimit` of `type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit`
fn kind_of_type(text: &str) -> String {
    let own = package_of(text).unwrap_or_else(|| text.rsplit('/').next().unwrap_or_default());
    own.replace('_', "").to_ascii_lowercase()
}

/// The package of a type of Envoy.
fn package_of(text: &str) -> Option<&str> {
    let parts: Vec<&str> = text.rsplit('/').next().unwrap_or_default().split('.').collect();
    let is_version = |part: &&str| part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let at = parts.iter().position(is_version).filter(|_| parts[0] == "envoy")?.checked_sub(1)?;
    parts.get(at).copied()
}

/// Whether nothing stands open without a filter whose settings come from a control plane, whatever they are.
pub fn is_discovered_harmless(filter: &Tree) -> bool {
    let types = filter.at(&["config_discovery", "type_urls"]).texts();
    let is_harmless = |text: &String| is_among(&kind_of_type(text), HARMLESS_HTTP);
    !types.is_empty() && types.iter().all(is_harmless)
}

const BY_CONTROL_PLANE: &str = "what it does is said by a control plane, and may keep clients out: what it stands before is shut until \
                                a line says what it does";
const OF_CONNECTION: &str = "which connections come to its chain hangs on it, and the others come to another or are closed: what it \
                             stands before is shut until a line says who may come in";

/// Without these nobody comes in who was kept out, and no server is told what it was not.
const HARMLESS_HTTP: &[&str] = &[
    "router",
    "cors",
    "grpc_web",
    "grpc_stats",
    "grpc_http1_bridge",
    "grpc_http1_reverse_bridge",
    "grpc_field_extraction",
    "grpc_json_transcoder",
    "connect_grpc_bridge",
    "compressor",
    "decompressor",
    "gzip",
    "cache",
    "set_metadata",
    "tap",
    "on_demand",
    "original_src",
    "bandwidth_limit",
    "file_system_buffer",
    "stateful_session",
    "dynamic_forward_proxy",
    "aws_request_signing",
    "aws_lambda",
    "credential_injector",
    "alternate_protocols_cache",
    "upstream_codec",
];
/// Looked at by themselves: what bounds bodies, and what answers who asks whether the proxy is there.
const READ_HTTP: &[&str] = &["buffer", "health_check"];

fn is_harmless_http(filter: &Tree) -> bool {
    let (kind, settings) = kind(filter);
    match kind.as_str() {
        DISCOVERED => is_discovered_harmless(filter),
        // A field that a client has sent may be taken out.
        "headertometadata" => !settings.has_within("remove"),
        "fault" => !settings.has("abort") && !settings.has("header_abort"),
        _ => is_among(&kind, HARMLESS_HTTP) || is_among(&kind, READ_HTTP),
    }
}

/// Network filters that answer, and some that only look at what passes.
const NETWORK: &[&str] =
    &["http_connection_manager", "tcp_proxy", "mysql_proxy", "mongo_proxy", "zookeeper_proxy", "kafka_broker"];
const LISTENING: &[&str] = &["tls_inspector", "http_inspector", "proxy_protocol", "original_dst", "original_src"];

const LISTENER: &[&str] = &[
    "@type",
    "name",
    "address",
    "additional_addresses",
    "stat_prefix",
    "filter_chains",
    "default_filter_chain",
    "filter_chain_matcher",
    "use_original_dst",
    "per_connection_buffer_limit_bytes",
    "metadata",
    "deprecated_v1",
    "drain_type",
    "listener_filters",
    "listener_filters_timeout",
    "continue_on_listener_filters_timeout",
    "transparent",
    "freebind",
    "socket_options",
    "tcp_fast_open_queue_length",
    "tcp_keepalive",
    "traffic_direction",
    "udp_listener_config",
    "api_listener",
    "internal_listener",
    "connection_balance_config",
    "reuse_port",
    "enable_reuse_port",
    "access_log",
    "tcp_backlog_size",
    "max_connections_to_accept_per_socket_event",
    "bind_to_port",
    "enable_mptcp",
    "ignore_global_conn_limit",
    "bypass_overload_manager",
];
const CHAIN: &[&str] = &[
    "@type",
    "name",
    "filter_chain_match",
    "filters",
    "transport_socket",
    "transport_socket_connect_timeout",
    "tls_context",
    "metadata",
    "use_proxy_proto",
];
const CONNECTION: &[&str] = &[
    "@type",
    "name",
    "codec_type",
    "stat_prefix",
    "rds",
    "route_config",
    "scoped_routes",
    "http_filters",
    "add_user_agent",
    "tracing",
    "common_http_protocol_options",
    "http1_safe_max_connection_duration",
    "http_protocol_options",
    "http2_protocol_options",
    "http3_protocol_options",
    "server_name",
    "server_header_transformation",
    "scheme_header_transformation",
    "max_request_headers_kb",
    "stream_idle_timeout",
    "stream_flush_timeout",
    "request_timeout",
    "request_headers_timeout",
    "drain_timeout",
    "delayed_close_timeout",
    "access_log",
    "access_log_flush_interval",
    "flush_access_log_on_new_request",
    "access_log_options",
    "use_remote_address",
    "xff_num_trusted_hops",
    "original_ip_detection_extensions",
    "internal_address_config",
    "skip_xff_append",
    "via",
    "generate_request_id",
    "preserve_external_request_id",
    "always_set_request_id_in_response",
    "request_id_extension",
    "forward_client_cert_details",
    "set_current_client_cert_details",
    "proxy_100_continue",
    "represent_ipv4_remote_address_as_ipv4_mapped_ipv6",
    "upgrade_configs",
    "normalize_path",
    "merge_slashes",
    "path_with_escaped_slashes_action",
    "path_normalization_options",
    "local_reply_config",
    "strip_matching_host_port",
    "strip_any_host_port",
    "strip_trailing_host_dot",
    "stream_error_on_invalid_http_message",
    "proxy_status_config",
    "append_x_forwarded_port",
    "append_local_overload",
    "add_proxy_protocol_connection_state",
];
const ROUTES: &[&str] = &[
    "@type",
    "name",
    "virtual_hosts",
    "internal_only_headers",
    "request_headers_to_add",
    "request_headers_to_remove",
    "response_headers_to_add",
    "response_headers_to_remove",
    "most_specific_header_mutations_wins",
    "validate_clusters",
    "max_direct_response_body_size_bytes",
    "cluster_specifier_plugins",
    "request_mirror_policies",
    "ignore_port_in_host_matching",
    "typed_per_filter_config",
    "metadata",
];
const VIRTUAL_HOST: &[&str] = &[
    "@type",
    "name",
    "domains",
    "routes",
    "matcher",
    "require_tls",
    "virtual_clusters",
    "rate_limits",
    "request_headers_to_add",
    "request_headers_to_remove",
    "response_headers_to_add",
    "response_headers_to_remove",
    "cors",
    "typed_per_filter_config",
    "include_request_attempt_count",
    "include_attempt_count_in_response",
    "retry_policy",
    "hedge_policy",
    "include_is_timeout_retry_header",
    "per_request_buffer_limit_bytes",
    "request_body_buffer_limit",
    "request_mirror_policies",
    "metadata",
];
const ROUTE: &[&str] = &[
    "name",
    "match",
    "route",
    "redirect",
    "direct_response",
    "metadata",
    "decorator",
    "typed_per_filter_config",
    "request_headers_to_add",
    "request_headers_to_remove",
    "response_headers_to_add",
    "response_headers_to_remove",
    "tracing",
    "per_request_buffer_limit_bytes",
    "request_body_buffer_limit",
    "stat_prefix",
];

/// All that is of no known name in these parts.
pub fn strangers(parts: &[&Tree]) -> Strangers {
    let mut strangers = Strangers::default();
    for part in parts {
        for place in [part.at(&["static_resources", "listeners"]), part.get("listeners")] {
            place.items().iter().for_each(|listener| of_listener(listener, &mut strangers));
        }
        for place in [part.at(&["static_resources", "clusters"]), part.get("clusters")] {
            place.items().iter().for_each(|cluster| of_cluster(cluster, &mut strangers));
        }
        if part.has("filter_chains") || part.has("default_filter_chain") {
            of_listener(part, &mut strangers);
        } else if part.has("virtual_hosts") {
            of_routes(part, &mut strangers);
        } else if part.has("filters") {
            of_chain(part, &mut strangers);
        } else if part.has("load_assignment") {
            of_cluster(part, &mut strangers);
        }
    }
    strangers
}

fn of_listener(listener: &Tree, strangers: &mut Strangers) {
    strangers.add_others(listener, LISTENER);
    for filter in listener.get("listener_filters").items() {
        if !is_among(&kind(filter).0, LISTENING) {
            strangers.add(name_of(filter), filter);
        }
    }
    let last = listener.get("default_filter_chain");
    let chains = listener.get("filter_chains").items().iter().chain(Some(last).filter(|last| !last.is_nothing()));
    chains.for_each(|chain| of_chain(chain, strangers));
}

fn of_chain(chain: &Tree, strangers: &mut Strangers) {
    strangers.add_others(chain, CHAIN);
    let matched = chain.get("filter_chain_match").entries().iter();
    for (key, value) in matched.filter(|(key, _)| !is_among(key, &["server_names", "name"])) {
        strangers.add_because(key, value, OF_CONNECTION);
    }
    for filter in chain.get("filters").items() {
        let (kind, settings) = kind(filter);
        if !is_among(&kind, NETWORK) {
            strangers.add(name_of(filter), filter);
        } else if is_among(&kind, &["http_connection_manager"]) {
            strangers.add_others(settings, CONNECTION);
            of_routes(settings.get("route_config"), strangers);
            of_http_filters(settings, strangers);
        }
    }
}

fn of_routes(routes: &Tree, strangers: &mut Strangers) {
    strangers.add_others(routes, ROUTES);
    for host in routes.get("virtual_hosts").items() {
        strangers.add_others(host, VIRTUAL_HOST);
        host.get("routes").items().iter().for_each(|route| strangers.add_others(route, ROUTE));
    }
}

/// Filters of a connection manager, and those that stand behind its router.
fn of_http_filters(settings: &Tree, strangers: &mut Strangers) {
    for filter in settings.get("http_filters").items() {
        let (kind, settings) = kind(filter);
        match is_harmless_http(filter) {
            true => {}
            false if kind == DISCOVERED => strangers.add_because(name_of(filter), filter, BY_CONTROL_PLANE),
            false => strangers.add(name_of(filter), filter),
        }
        for inner in settings.get("upstream_http_filters").items().iter().filter(|inner| !is_harmless_http(inner)) {
            strangers.add(name_of(inner), inner);
        }
    }
}

/// Filters that stand between the proxy and the servers of a cluster.
fn of_cluster(cluster: &Tree, strangers: &mut Strangers) {
    for (_, options) in cluster.get("typed_extension_protocol_options").entries() {
        of_http_filters(options, strangers);
    }
    cluster.get("filters").items().iter().for_each(|filter| strangers.add(name_of(filter), filter));
}

/// What a filter is, where Envoy has it; else what the file calls it.
fn name_of(filter: &Tree) -> &str {
    let of_type = [filter.get("typed_config"), filter.get("config")].into_iter().find_map(|own| own.get("@type").text());
    let name = filter.get("name").text().unwrap_or_default();
    of_type.and_then(package_of).unwrap_or_else(|| name.rsplit('.').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::kind_of_type;

    #[test]
    fn filters_are_known_by_their_packages() {
        let check = |text: &str, expected: &str| assert_eq!(kind_of_type(text), expected, "{text}");
        check("type.googleapis.com/envoy.extensions.filters.http.grpc_stats.v3.FilterConfig", "grpcstats");
        check("type.googleapis.com/envoy.config.filter.http.jwt_authn.v2alpha.JwtAuthentication", "jwtauthn");
        check("type.googleapis.com/acme.door.v1.Cors", "acme.door.v1.cors");
        check("envoy.Cors", "envoy.cors");
        check("", "");
    }
}
