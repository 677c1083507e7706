//! All keys of the ConfigMap of ingress-nginx, and what becomes of each.

use crate::annotations::{self, Standing};

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigKey {
    pub name: &'static str,
    kind: KeyKind,
    /// Values by which it asks for nothing, beside those that are empty or say no.
    usual: &'static [&'static str],
    remark: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    /// As the annotation of the name.
    OfAnnotation,
    Of(Standing),
}

const fn same(name: &'static str) -> ConfigKey {
    ConfigKey { name, kind: KeyKind::Of(Standing::Same), usual: &[], remark: "" }
}

const fn remarked(name: &'static str, remark: &'static str) -> ConfigKey {
    ConfigKey { name, kind: KeyKind::Of(Standing::Remarked), usual: &[], remark }
}

const fn needless(name: &'static str, remark: &'static str) -> ConfigKey {
    ConfigKey { name, kind: KeyKind::Of(Standing::Needless), usual: &[], remark }
}

const fn open(name: &'static str, usual: &'static [&'static str], remark: &'static str) -> ConfigKey {
    ConfigKey { name, kind: KeyKind::Of(Standing::Open), usual, remark }
}

const fn closed(name: &'static str, remark: &'static str) -> ConfigKey {
    ConfigKey { name, kind: KeyKind::Of(Standing::Closed), usual: &[], remark }
}

const fn annotation(name: &'static str) -> ConfigKey {
    ConfigKey { name, kind: KeyKind::OfAnnotation, usual: &[], remark: "" }
}

/// By name; sorted.
pub const KEYS: &[ConfigKey] = &[
    needless("access-log-params", "lines are written as they come"),
    open(
        "access-log-path",
        &["/var/log/nginx/access.log", "/dev/stdout"],
        "lines go to standard output: write `access-log` in the configuration for another place",
    ),
    remarked("add-headers", "its variables are those of annotations; a map that cannot be used is left out"),
    needless("allow-backend-server-header", "`Server` of servers goes on, unless `hide-headers` has it"),
    open("allow-cross-namespace-resources", &["false"], "an Ingress refers to what is in its own namespace"),
    needless("allow-snippet-annotations", "a snippet is read or shuts its Ingress, whoever has written it"),
    needless("annotation-value-word-blocklist", "no value of an annotation is written into a configuration"),
    needless("annotations-risk-level", "no value of an annotation is written into a configuration"),
    annotation("app-root"),
    open("bind-address", &[], "`--http` and `--https` say where clients come in"),
    open("bind-address-ipv4", &[], "`--http` and `--https` say where clients come in"),
    open("bind-address-ipv6", &[], "`--http` and `--https` say where clients come in"),
    same("block-cidrs"),
    remarked("block-referers", "expressions are those of annotations; one that cannot be had shuts"),
    remarked("block-user-agents", "expressions are those of annotations; one that cannot be had shuts"),
    remarked("brotli-level", "how hard to try is up to what a worker has left"),
    same("brotli-min-length"),
    same("brotli-types"),
    needless("client-body-buffer-size", "bodies are passed on as they come"),
    needless("client-body-timeout", "`limits body-rate` ends a body that stalls"),
    needless("client-header-buffer-size", "heads may have 64 KiB"),
    same("client-header-timeout"),
    remarked("compute-full-forwarded-for", "what a peer says that is believed is continued in any case"),
    annotation("custom-http-errors"),
    needless("debug-connections", ""),
    needless("default-type", ""),
    annotation("denylist-source-range"),
    same("disable-access-log"),
    same("disable-http-access-log"),
    open("disable-ipv6", &["false"], "`--http` and `--https` say where clients come in"),
    needless("disable-ipv6-dns", ""),
    annotation("disable-proxy-intercept-errors"),
    needless("disable-stream-access-log", ""),
    needless("enable-access-log-for-default-backend", "its requests are logged as all others are"),
    needless("enable-aio-write", ""),
    needless("enable-auth-access-log", "questions have no lines of their own"),
    remarked("enable-brotli", "answers are compressed as `compress` does it, with zstd left out"),
    closed("enable-modsecurity", "there is no ModSecurity here"),
    needless("enable-multi-accept", ""),
    needless("enable-ocsp", "answers of authorities are stapled in any case"),
    open("enable-opentelemetry", &["false"], "traces are not sent; `traceparent` goes on"),
    closed("enable-owasp-modsecurity-crs", "there is no ModSecurity here"),
    remarked("enable-real-ip", "peers that are believed are believed in all of `X-Forwarded-*`"),
    needless("enable-serial-reloads", ""),
    open("enable-syslog", &["false"], "write `access-log` with `syslog://` in the configuration"),
    remarked("enable-underscores-in-headers", "fields with `_` go on, but for those whose name another field has with `-`"),
    same("error-log-level"),
    needless("error-log-path", "the log of the process goes to standard error"),
    annotation("force-ssl-redirect"),
    same("forwarded-for-header"),
    needless("forwarded-for-proxy-protocol-header", ""),
    open("forwarded-host-header", &["X-Forwarded-Host"], "hosts are read from `X-Forwarded-Host`"),
    needless("generate-request-id", "every request has an identifier"),
    needless("geoip2-autoreload-in-minutes", ""),
    same("global-allowed-response-headers"),
    annotation("global-auth-always-set-cookie"),
    annotation("global-auth-cache-duration"),
    annotation("global-auth-cache-key"),
    annotation("global-auth-method"),
    annotation("global-auth-request-redirect"),
    annotation("global-auth-response-headers"),
    annotation("global-auth-signin"),
    annotation("global-auth-signin-redirect-param"),
    annotation("global-auth-snippet"),
    annotation("global-auth-url"),
    needless("grpc-buffer-size-kb", ""),
    needless("gzip-disable", ""),
    remarked("gzip-level", "how hard to try is up to what a worker has left"),
    same("gzip-min-length"),
    same("gzip-types"),
    same("hide-headers"),
    same("hsts"),
    same("hsts-include-subdomains"),
    same("hsts-max-age"),
    same("hsts-preload"),
    open(
        "http-access-log-path",
        &["/var/log/nginx/access.log", "/dev/stdout"],
        "lines go to standard output: write `access-log` in the configuration for another place",
    ),
    same("http-redirect-code"),
    remarked("http-snippet", "words that only tune have nothing to do; any other statement shuts"),
    same("http2-max-concurrent-streams"),
    needless("http2-max-field-size", "heads may have 64 KiB"),
    needless("http2-max-header-size", "heads may have 64 KiB"),
    needless("http2-max-requests", "connections live as long as they are used"),
    remarked("ignore-invalid-headers", "a field that is none is refused with 400, and its request with it"),
    needless("jaeger-baggage-header", ""),
    needless("jaeger-collector-host", ""),
    needless("jaeger-collector-port", ""),
    needless("jaeger-debug-header", ""),
    needless("jaeger-endpoint", ""),
    needless("jaeger-propagation-format", ""),
    needless("jaeger-sampler-host", ""),
    needless("jaeger-sampler-param", ""),
    needless("jaeger-sampler-port", ""),
    needless("jaeger-sampler-type", ""),
    needless("jaeger-service-name", ""),
    needless("jaeger-trace-baggage-header-prefix", ""),
    needless("jaeger-trace-context-header-name", ""),
    needless("jaeger-tracer-baggage-header-prefix", ""),
    same("keep-alive"),
    needless("keep-alive-requests", "connections live as long as they are used"),
    needless("large-client-header-buffers", "heads may have 64 KiB"),
    same("limit-conn-status-code"),
    open(
        "limit-conn-zone-variable",
        &["$binary_remote_addr", "$remote_addr"],
        "connections are counted by the address of the client",
    ),
    annotation("limit-rate"),
    annotation("limit-rate-after"),
    same("limit-req-status-code"),
    annotation("load-balance"),
    remarked("location-snippet", "statements of a closed set are read, behind those of an Ingress; one that is not known shuts"),
    remarked("log-format-escape-json", "what is odd in a value is written as `\\xHH` in any format"),
    remarked("log-format-escape-none", "what is odd in a value is written as `\\xHH` in any format"),
    open("log-format-stream", &[], "a TCP connection has a line of its own form"),
    remarked(
        "log-format-upstream",
        "times are written as RFC 3339 has them; with a variable that is not known lines are JSON with all that is known",
    ),
    needless("lua-shared-dicts", ""),
    remarked("main-snippet", "words that only tune have nothing to do; any other statement shuts"),
    needless("map-hash-bucket-size", ""),
    needless("max-worker-connections", "descriptors are the bound"),
    needless("max-worker-open-files", "descriptors are the bound"),
    needless("modsecurity-snippet", ""),
    needless("nginx-status-ipv4-whitelist", "there is no such page"),
    needless("nginx-status-ipv6-whitelist", "there is no such page"),
    same("no-auth-locations"),
    same("no-tls-redirect-locations"),
    needless("opentelemetry-config", ""),
    needless("opentelemetry-operation-name", ""),
    needless("opentelemetry-trust-incoming-span", ""),
    needless("otel-max-export-batch-size", ""),
    needless("otel-max-queuesize", ""),
    needless("otel-sampler", ""),
    needless("otel-sampler-parent-based", ""),
    needless("otel-sampler-ratio", ""),
    needless("otel-schedule-delay-millis", ""),
    needless("otel-service-name", ""),
    needless("otlp-collector-host", ""),
    needless("otlp-collector-port", ""),
    annotation("preserve-trailing-slash"),
    same("proxy-add-original-uri-header"),
    annotation("proxy-body-size"),
    annotation("proxy-buffer-size"),
    annotation("proxy-buffering"),
    annotation("proxy-buffers-number"),
    annotation("proxy-busy-buffers-size"),
    annotation("proxy-connect-timeout"),
    annotation("proxy-cookie-domain"),
    annotation("proxy-cookie-path"),
    needless("proxy-headers-hash-bucket-size", ""),
    needless("proxy-headers-hash-max-size", ""),
    annotation("proxy-http-version"),
    annotation("proxy-max-temp-file-size"),
    annotation("proxy-next-upstream"),
    annotation("proxy-next-upstream-timeout"),
    annotation("proxy-next-upstream-tries"),
    needless("proxy-protocol-header-timeout", "`limits header-timeout` bounds it"),
    annotation("proxy-read-timeout"),
    same("proxy-real-ip-cidr"),
    annotation("proxy-redirect-from"),
    annotation("proxy-redirect-to"),
    annotation("proxy-request-buffering"),
    annotation("proxy-send-timeout"),
    remarked(
        "proxy-set-headers",
        "its variables are those of annotations; a map that cannot be used shuts, since servers may decide by its fields",
    ),
    needless("proxy-ssl-location-only", ""),
    needless("proxy-stream-next-upstream", "another server is tried when one cannot be reached"),
    needless("proxy-stream-next-upstream-timeout", "another server is tried when one cannot be reached"),
    needless("proxy-stream-next-upstream-tries", "another server is tried when one cannot be reached"),
    needless("proxy-stream-responses", "UDP is not served"),
    needless("proxy-stream-timeout", "a TCP connection may be silent for as long as its pool says"),
    annotation("relative-redirects"),
    open("retry-non-idempotent", &["false"], "only what is safe to repeat, or was not sent, is tried again"),
    needless("reuse-port", ""),
    needless("server-name-hash-bucket-size", ""),
    needless("server-name-hash-max-size", ""),
    remarked("server-snippet", "statements of a closed set are read, behind those of an Ingress; one that is not known shuts"),
    needless("server-tokens", "no version is told"),
    annotation("service-upstream"),
    open("skip-access-log-urls", &[], "all requests are logged"),
    needless("ssl-buffer-size", ""),
    annotation("ssl-ciphers"),
    needless("ssl-dh-param", "ciphers with DHE are not spoken"),
    open("ssl-early-data", &["false"], "requests wait for the handshake"),
    needless("ssl-ecdh-curve", "the curves are those of rustls"),
    remarked("ssl-protocols", "TLS 1.2 and 1.3 are spoken, nothing older"),
    annotation("ssl-redirect"),
    same("ssl-reject-handshake"),
    needless("ssl-session-cache", "sessions come back by tickets"),
    needless("ssl-session-cache-size", ""),
    needless("ssl-session-ticket-key", "keys of tickets change by themselves"),
    needless("ssl-session-tickets", ""),
    needless("ssl-session-timeout", ""),
    open("stream-access-log-path", &["/var/log/nginx/access.log", "/dev/stdout"], "lines go where those of requests go"),
    open("stream-snippet", &[], "lines of nginx are not read here, and no TCP service is served beside them"),
    needless("strict-validate-path-type", "paths are taken as they are written"),
    needless("syslog-host", ""),
    needless("syslog-port", ""),
    annotation("upstream-hash-by"),
    annotation("upstream-hash-by-subset"),
    annotation("upstream-hash-by-subset-size"),
    same("upstream-keepalive-connections"),
    same("upstream-keepalive-requests"),
    same("upstream-keepalive-time"),
    same("upstream-keepalive-timeout"),
    remarked("use-forwarded-headers", "without `proxy-real-ip-cidr` everybody with IPv4 is believed, as by ingress-nginx"),
    open("use-geoip", &["false"], "write `geoip` in the configuration"),
    open("use-geoip2", &["false"], "write `geoip` in the configuration"),
    same("use-gzip"),
    open("use-http2", &["true"], "clients are offered HTTP/2"),
    annotation("use-port-in-redirects"),
    remarked("use-proxy-protocol", "peers that are not in `proxy-real-ip-cidr` do not begin with its header"),
    needless("variables-hash-bucket-size", ""),
    needless("variables-hash-max-size", ""),
    annotation("whitelist-source-range"),
    needless("worker-cpu-affinity", ""),
    needless("worker-processes", "`threads` in the configuration bounds them"),
    needless("worker-shutdown-timeout", "`drain` says it"),
];

impl ConfigKey {
    /// The annotation whose value it is where an Ingress has none.
    pub fn annotation(&self) -> Option<&'static str> {
        match self.kind {
            KeyKind::OfAnnotation => Some(annotation_of(self.name)),
            KeyKind::Of(_) => None,
        }
    }

    pub fn standing(&self) -> Standing {
        match self.kind {
            KeyKind::OfAnnotation => annotations::standing(annotation_of(self.name)).unwrap_or(Standing::Open),
            KeyKind::Of(standing) => standing,
        }
    }

    /// What is otherwise than with ingress-nginx, or why nothing is to be done. Empty: nothing is to be said.
    pub fn remark(&self) -> &'static str {
        match self.kind {
            KeyKind::OfAnnotation => annotations::remark(annotation_of(self.name)).unwrap_or_default(),
            KeyKind::Of(_) => self.remark,
        }
    }

    /// Whether the value says that nothing is wanted.
    pub fn asks_for_nothing(&self, value: &str) -> bool {
        match self.kind {
            KeyKind::OfAnnotation => annotations::asks_for_nothing(annotation_of(self.name), value),
            KeyKind::Of(_) if self.name.ends_with("-snippet") => value.is_empty(),
            KeyKind::Of(_) if self.usual == ["true"] => matches!(value, "" | "true" | "on" | "1"),
            KeyKind::Of(_) => matches!(value, "" | "false" | "off" | "0") || self.usual.contains(&value),
        }
    }
}

/// Keys of who says who may come in have a word in front.
fn annotation_of(key: &'static str) -> &'static str {
    key.strip_prefix("global-").filter(|rest| rest.starts_with("auth-")).unwrap_or(key)
}

pub fn key(name: &str) -> Option<&'static ConfigKey> {
    let place = KEYS.binary_search_by(|known| known.name.cmp(name)).ok()?;
    KEYS.get(place)
}

/// The name that was probably meant.
pub fn alike(name: &str) -> Option<&'static str> {
    annotations::nearest(name, KEYS.iter().map(|known| known.name))
}

#[cfg(test)]
mod tests {
    use super::{KEYS, alike, key};
    use crate::annotations::{self, Standing};

    #[test]
    fn keys_are_sorted_and_found() {
        assert!(KEYS.is_sorted_by(|a, b| a.name < b.name));
        for known in KEYS {
            assert_eq!(key(known.name), Some(known));
            assert!(known.annotation().is_none_or(|name| annotations::standing(name).is_some()), "{}", known.name);
            let is_said = matches!(known.standing(), Standing::Same | Standing::Needless) || !known.remark().is_empty();
            assert!(is_said || known.annotation().is_some(), "{}", known.name);
        }
        assert_eq!(key("merge-slashes"), None);
        assert_eq!(alike("whitelist-source-ranges"), Some("whitelist-source-range"));
        assert_eq!(alike("merge-slashes"), None);
        assert_eq!(key("global-auth-url").and_then(super::ConfigKey::annotation), Some("auth-url"));
    }

    #[test]
    fn some_values_ask_for_nothing() {
        let check = |name: &str, value: &str, expected: bool| {
            assert_eq!(key(name).map(|key| key.asks_for_nothing(value)), Some(expected), "{name}: {value}");
        };
        check("use-http2", "true", true);
        check("use-http2", "false", false);
        check("enable-modsecurity", "false", true);
        check("enable-modsecurity", "true", false);
        check("http-snippet", "", true);
        check("http-snippet", "off", false);
        check("limit-conn-zone-variable", "$binary_remote_addr", true);
        check("limit-conn-zone-variable", "$http_x_key", false);
        check("global-auth-snippet", "", true);
    }
}
