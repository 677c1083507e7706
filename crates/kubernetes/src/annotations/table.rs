//! All annotations of ingress-nginx, and what becomes of each.

/// What becomes of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Taken as ingress-nginx has it.
    Same,
    /// Taken, and not quite as ingress-nginx has it.
    Remarked,
    /// Nothing is to be done for it here, or it says something of another one only.
    Needless,
    /// Not taken: what it asks for is missing, and everything is served all the same.
    Open,
    /// Not taken, and nothing is served that it is about: it protects, or what it is about would be something else.
    Closed,
}

use Standing::{Closed, Needless, Open, Remarked, Same};

/// By name, behind the prefix; sorted.
pub const ANNOTATIONS: &[(&str, Standing)] = &[
    ("affinity", Same),
    ("affinity-canary-behavior", Same),
    ("affinity-mode", Remarked),
    ("allowlist-source-range", Same),
    ("app-root", Same),
    ("auth-always-set-cookie", Remarked),
    ("auth-cache-duration", Remarked),
    ("auth-cache-key", Remarked),
    ("auth-keepalive", Needless),
    ("auth-keepalive-requests", Needless),
    ("auth-keepalive-share-vars", Needless),
    ("auth-keepalive-timeout", Needless),
    ("auth-method", Same),
    ("auth-proxy-set-headers", Same),
    ("auth-realm", Same),
    ("auth-request-redirect", Same),
    ("auth-response-headers", Same),
    ("auth-secret", Same),
    ("auth-secret-type", Same),
    ("auth-signin", Remarked),
    ("auth-signin-redirect-param", Same),
    ("auth-snippet", Remarked),
    ("auth-tls-error-page", Remarked),
    ("auth-tls-match-cn", Same),
    ("auth-tls-pass-certificate-to-upstream", Remarked),
    ("auth-tls-secret", Same),
    ("auth-tls-verify-client", Same),
    ("auth-tls-verify-depth", Remarked),
    ("auth-type", Same),
    ("auth-url", Remarked),
    ("backend-protocol", Remarked),
    ("canary", Remarked),
    ("canary-by-cookie", Same),
    ("canary-by-header", Same),
    ("canary-by-header-pattern", Same),
    ("canary-by-header-value", Same),
    ("canary-weight", Same),
    ("canary-weight-total", Same),
    ("client-body-buffer-size", Needless),
    ("configuration-snippet", Remarked),
    ("connection-proxy-header", Remarked),
    ("cors-allow-credentials", Remarked),
    ("cors-allow-headers", Same),
    ("cors-allow-methods", Same),
    ("cors-allow-origin", Same),
    ("cors-expose-headers", Same),
    ("cors-max-age", Same),
    ("custom-headers", Same),
    ("custom-http-errors", Same),
    ("default-backend", Same),
    ("denylist-source-range", Same),
    ("disable-proxy-intercept-errors", Same),
    ("enable-access-log", Same),
    ("enable-cors", Same),
    ("enable-global-auth", Same),
    ("enable-modsecurity", Closed),
    ("enable-opentelemetry", Open),
    ("enable-owasp-core-rules", Closed),
    ("enable-rewrite-log", Needless),
    ("fastcgi-index", Needless),
    ("fastcgi-params-configmap", Needless),
    ("force-ssl-redirect", Same),
    ("from-to-www-redirect", Same),
    ("global-rate-limit", Open),
    ("global-rate-limit-ignored-cidrs", Needless),
    ("global-rate-limit-key", Needless),
    ("global-rate-limit-window", Needless),
    ("http2-push-preload", Needless),
    ("limit-allowlist", Same),
    ("limit-burst-multiplier", Same),
    ("limit-connections", Remarked),
    ("limit-rate", Open),
    ("limit-rate-after", Needless),
    ("limit-rpm", Remarked),
    ("limit-rps", Remarked),
    ("limit-whitelist", Same),
    ("load-balance", Same),
    ("mirror-host", Remarked),
    ("mirror-request-body", Remarked),
    ("mirror-target", Remarked),
    ("modsecurity-snippet", Closed),
    ("modsecurity-transaction-id", Needless),
    ("opentelemetry-operation-name", Needless),
    ("opentelemetry-trust-incoming-span", Needless),
    ("permanent-redirect", Same),
    ("permanent-redirect-code", Same),
    ("preserve-trailing-slash", Remarked),
    ("proxy-body-size", Same),
    ("proxy-buffer-size", Needless),
    ("proxy-buffering", Needless),
    ("proxy-buffers-number", Needless),
    ("proxy-busy-buffers-size", Needless),
    ("proxy-connect-timeout", Same),
    ("proxy-cookie-domain", Same),
    ("proxy-cookie-path", Same),
    ("proxy-http-version", Remarked),
    ("proxy-max-temp-file-size", Needless),
    ("proxy-next-upstream", Remarked),
    ("proxy-next-upstream-timeout", Same),
    ("proxy-next-upstream-tries", Remarked),
    ("proxy-read-timeout", Remarked),
    ("proxy-redirect-from", Same),
    ("proxy-redirect-to", Same),
    ("proxy-request-buffering", Needless),
    ("proxy-send-timeout", Remarked),
    ("proxy-ssl-ciphers", Remarked),
    ("proxy-ssl-name", Same),
    ("proxy-ssl-protocols", Remarked),
    ("proxy-ssl-secret", Same),
    ("proxy-ssl-server-name", Remarked),
    ("proxy-ssl-verify", Remarked),
    ("proxy-ssl-verify-depth", Remarked),
    ("relative-redirects", Same),
    ("rewrite-target", Same),
    ("satisfy", Remarked),
    ("server-alias", Remarked),
    ("server-snippet", Remarked),
    ("service-upstream", Same),
    ("session-cookie-change-on-failure", Same),
    ("session-cookie-conditional-samesite-none", Open),
    ("session-cookie-domain", Same),
    ("session-cookie-expires", Same),
    ("session-cookie-max-age", Same),
    ("session-cookie-name", Same),
    ("session-cookie-path", Same),
    ("session-cookie-samesite", Same),
    ("session-cookie-secure", Same),
    ("ssl-ciphers", Remarked),
    ("ssl-passthrough", Remarked),
    ("ssl-prefer-server-ciphers", Remarked),
    ("ssl-redirect", Same),
    ("stream-snippet", Open),
    ("temporal-redirect", Same),
    ("temporal-redirect-code", Same),
    ("upstream-hash-by", Same),
    ("upstream-hash-by-subset", Open),
    ("upstream-hash-by-subset-size", Needless),
    ("upstream-vhost", Same),
    ("use-port-in-redirects", Same),
    ("use-regex", Same),
    ("whitelist-source-range", Same),
    ("x-forwarded-prefix", Same),
];

pub fn standing(name: &str) -> Option<Standing> {
    let place = ANNOTATIONS.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
    ANNOTATIONS.get(place).map(|(_, standing)| *standing)
}

/// The name that was probably meant.
pub fn alike(name: &str) -> Option<&'static str> {
    nearest(name, ANNOTATIONS.iter().map(|(known, _)| *known))
}

/// The one of these names that was probably meant.
pub fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    /// Slips of a name; more of them make another word.
    const SLIPS_MAX: usize = 3;
    /// The longest name that there is, and some letters.
    const BYTES_MAX: usize = 64;
    if name.len() > BYTES_MAX {
        return None;
    }
    let near = known.map(|known| (distance(name, known), known)).min()?;
    (near.0 <= SLIPS_MAX.min(name.len() / 3)).then_some(near.1)
}

/// How many letters are to be put, taken or changed.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, a) in left.bytes().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, b) in right.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::{ANNOTATIONS, alike, standing};

    #[test]
    fn names_are_sorted_and_found() {
        assert!(ANNOTATIONS.is_sorted_by(|a, b| a.0 < b.0));
        for (name, expected) in ANNOTATIONS {
            assert_eq!(standing(name), Some(*expected), "{name}");
        }
        assert_eq!(standing("websocket-services"), None);
    }

    #[test]
    fn a_slip_is_noticed() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(alike(name), expected, "{name}");
        check("rewrite-targt", Some("rewrite-target"));
        check("ssl_redirect", Some("ssl-redirect"));
        check("proxy-body-sizes", Some("proxy-body-size"));
        check("websocket-services", None);
        check("x", None);
        check("", None);
        check(&"rewrite-target".repeat(20), None);
    }
}
