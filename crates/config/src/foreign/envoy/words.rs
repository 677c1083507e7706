//! Every statement of a configuration of Envoy, and how much it is where no line of ours says it.

use crate::foreign::accounts::{FileStatement, StatementKind, Weight, WordTable};
use crate::foreign::tree::Tree;
use crate::language::joined_alike;

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
        "admin",
        "node",
        "tracing",
        "layered_runtime",
        "stats_config",
        "stats_sinks",
        "generate_request_id",
        "use_remote_address",
        "upgrade_configs",
        "http_protocol_options",
        "common_http_protocol_options",
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
        tree.each_statement(&mut Vec::new(), &label, &mut |at, path, value| found.push(statement(at, path, value)));
    }
    found
}

fn statement(at: usize, path: &[&str], value: &Tree) -> FileStatement {
    let is = |name: &str| path.last().is_some_and(|last| joined_alike(last) == joined_alike(name));
    let own = |kind: StatementKind| FileStatement { at, name: path.last().copied().unwrap_or_default().to_owned(), kind };
    // A filter that is not told is one, whatever else is said of it.
    let filter = path.iter().rev().find(|key| FILTERS.contains(key)).filter(|_| is("name") || is("@type"));
    if let Some(filter) = filter {
        return WORDS.statement(at, &[filter]);
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
        Some("NONE") if is("require_tls") => own(StatementKind::SameByDefault),
        Some("false") if is("require_client_certificate") => own(StatementKind::SameByDefault),
        _ => WORDS.statement(at, path),
    }
}
