//! In what an annotation that is taken is not quite as ingress-nginx has it, for whoever moves.

/// By name, behind the prefix; sorted. Each is one sentence without a full stop.
const REMARKS: &[(&str, &str)] = &[
    ("affinity-mode", "`balanced` is as `persistent`: a session stays where it is as long as its server does"),
    ("auth-always-set-cookie", "cookies of the one who decides are handed on with every answer"),
    ("auth-cache-duration", "good answers alone are remembered, and for an hour at most"),
    ("auth-cache-key", "its variables have to say who asks; without that the server is asked about each request"),
    ("auth-signin", "its variables are `$host` and the address to come back to"),
    ("auth-snippet", "statements of a closed set are read, each as it is said"),
    ("auth-tls-error-page", "clients without a certificate are sent there; one that is not good ends the handshake"),
    ("auth-tls-pass-certificate-to-upstream", "servers are always told, as with `true`"),
    ("auth-tls-verify-depth", "chains are followed as far as they have to be"),
    ("auth-url", "who decides is asked over a pool, with its time-outs and limits"),
    ("backend-protocol", "`FCGI` is not spoken, and answered with 503"),
    ("canary", "one canary for a path: of several the oldest"),
    ("configuration-snippet", "statements of a closed set are read, each as it is said"),
    ("connection-proxy-header", "connections to servers are kept, as with `keep-alive`, and WebSockets go on all the same"),
    ("cors-allow-credentials", "with `*` as origin it is not sent: browsers refuse both together"),
    ("limit-connections", "requests at a time are counted, since one connection of HTTP/2 carries many"),
    ("limit-rpm", "each host of an Ingress counts for itself, and clients with IPv6 by their /64"),
    ("limit-rps", "each host of an Ingress counts for itself, and clients with IPv6 by their /64"),
    ("mirror-host", "copies have the host of the request"),
    ("mirror-request-body", "with `off` requests that have a body are not copied"),
    ("mirror-target", "a Service of the same namespace, with `$request_uri`; bodies are copied to 64 KiB"),
    ("preserve-trailing-slash", "a slash at the end of a path stays in any case, as with `true`"),
    ("proxy-http-version", "servers are spoken to by HTTP/1.1"),
    ("proxy-next-upstream", "`non_idempotent` is not taken: only what is safe to repeat, or was not sent, is tried again"),
    ("proxy-next-upstream-tries", "`0` is as many as there are at most, not without end"),
    ("proxy-read-timeout", "it is the time for the first byte; of it and `proxy-send-timeout` the longer is the idle time"),
    ("proxy-send-timeout", "of it and `proxy-read-timeout` the longer is the idle time"),
    ("proxy-ssl-ciphers", "the suites of rustls are used: all that is left of TLS 1.2 and 1.3"),
    ("proxy-ssl-protocols", "TLS 1.2 and 1.3 are spoken, nothing older"),
    ("proxy-ssl-server-name", "the name of the server is always sent"),
    ("proxy-ssl-verify", "`on` needs certificates of authorities in `proxy-ssl-secret`"),
    ("proxy-ssl-verify-depth", "chains are followed as far as they have to be"),
    ("satisfy", "with `any` too nobody comes in whom `denylist-source-range` or a snippet refuses"),
    ("server-alias", "names and wildcards; expressions are left out"),
    ("server-snippet", "statements of a closed set are read, each as it is said"),
    ("ssl-ciphers", "those of them that are safe, for TLS 1.2; without one there are the usual ones"),
    ("ssl-passthrough", "where an Ingress of the host protects something nothing is handed on, since that would be past it"),
    ("ssl-prefer-server-ciphers", "has no effect: the order is that of the server"),
];

pub fn remark(name: &str) -> Option<&'static str> {
    let place = REMARKS.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
    REMARKS.get(place).map(|(_, remark)| *remark)
}

#[cfg(test)]
mod tests {
    use super::{REMARKS, remark};
    use crate::annotations::table::{ANNOTATIONS, Standing};

    #[test]
    fn what_is_not_quite_the_same_has_its_remark() {
        assert!(REMARKS.is_sorted_by(|a, b| a.0 < b.0));
        for (name, standing) in ANNOTATIONS {
            assert!(*standing != Standing::Remarked || remark(name).is_some(), "{name}");
        }
    }
}
