//! Fields by which proxies tell one another of a client's request. Of anybody but a proxy that `trusted-proxies` names
//! they are taken out on arrival, since any client could send them.

/// What a proxy says of its client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Under which URL it came, and with what certificate.
    Url,
    /// Who the client is, which differs from one to the next.
    Client,
    /// No proxy says it. CGI-like servers put it into `HTTP_PROXY`, by which programs find the proxy for what they
    /// ask of others themselves ("httpoxy", CVE-2016-5385).
    Proxy,
}

/// What a whole name says. All in lower case.
pub const CLAIMED_NAMES: &[(&[u8], Claim)] = &[
    (b"ali-cdn-real-ip", Claim::Client),
    (b"cdn-src-ip", Claim::Client),
    // Of Cloudflare's places of a client the country is the one that applications decide by.
    (b"cf-ipcountry", Claim::Client),
    (b"cf-connecting-ip", Claim::Client),
    (b"cf-connecting-ipv6", Claim::Client),
    (b"cf-pseudo-ipv4", Claim::Client),
    (b"client-ip", Claim::Client),
    (b"cloudfront-viewer-address", Claim::Client),
    (b"do-connecting-ip", Claim::Client),
    (b"fastly-client-ip", Claim::Client),
    (b"fly-client-ip", Claim::Client),
    (b"forwarded-for", Claim::Client),
    (b"incap-client-ip", Claim::Client),
    (b"proxy-client-ip", Claim::Client),
    (b"real-ip", Claim::Client),
    // CGI-like servers set it themselves, and programs that look behind proxies look for it under `HTTP_`.
    (b"remote-addr", Claim::Client),
    (b"true-client-ip", Claim::Client),
    (b"wl-proxy-client-ip", Claim::Client),
    (b"x-appengine-user-ip", Claim::Client),
    (b"x-azure-clientip", Claim::Client),
    (b"x-azure-socketip", Claim::Client),
    (b"x-client-ip", Claim::Client),
    (b"x-client-port", Claim::Client),
    (b"x-clientip", Claim::Client),
    (b"x-cluster-client-ip", Claim::Client),
    (b"x-envoy-external-address", Claim::Client),
    (b"x-forward-for", Claim::Client),
    (b"x-forwarded-for", Claim::Client),
    (b"x-forwarded-for-original", Claim::Client),
    (b"x-lb-client-ip", Claim::Client),
    (b"x-nf-client-connection-ip", Claim::Client),
    (b"x-original-forwarded-for", Claim::Client),
    (b"x-originating-ip", Claim::Client),
    (b"x-peer-ip", Claim::Client),
    (b"x-proxyuser-ip", Claim::Client),
    (b"x-real-ip", Claim::Client),
    (b"x-realip", Claim::Client),
    (b"x-remote-addr", Claim::Client),
    (b"x-remote-ip", Claim::Client),
    (b"x-source-ip", Claim::Client),
    (b"x-sucuri-clientip", Claim::Client),
    (b"x-true-client-ip", Claim::Client),
    (b"x-user-ip", Claim::Client),
    (b"x-vercel-forwarded-for", Claim::Client),
    (b"x-vercel-proxied-for", Claim::Client),
    // These say whom a request came to, and how.
    (b"cf-visitor", Claim::Url),
    (b"clientcert", Claim::Url),
    (b"cloudfront-forwarded-proto", Claim::Url),
    (b"fastly-ssl", Claim::Url),
    (b"fly-forwarded-port", Claim::Url),
    (b"fly-forwarded-proto", Claim::Url),
    (b"forwarded", Claim::Url),
    (b"forwarded-host", Claim::Url),
    (b"front-end-https", Claim::Url),
    (b"host-override", Claim::Url),
    // No browser says it: PHP's `HTTP_HTTPS` is what proxies without a name of their own for it have said.
    (b"https", Claim::Url),
    // Gunicorn takes these two for those of WSGI, in this very spelling with `_`.
    (b"path-info", Claim::Url),
    (b"script-name", Claim::Url),
    (b"proxy", Claim::Proxy),
    (b"wl-proxy-client-cert", Claim::Url),
    (b"wl-proxy-ssl", Claim::Url),
    (b"x-arr-clientcert", Claim::Url),
    (b"x-arr-ssl", Claim::Url),
    (b"x-azure-clientcert", Claim::Url),
    (b"x-backend-host", Claim::Url),
    // Beneath which path an application is, for its links.
    (b"x-base-path", Claim::Url),
    (b"x-client-cn", Claim::Url),
    (b"x-client-dn", Claim::Url),
    (b"x-client-fingerprint", Claim::Url),
    (b"x-client-i-dn", Claim::Url),
    (b"x-client-issuer", Claim::Url),
    (b"x-client-s-dn", Claim::Url),
    (b"x-client-san", Claim::Url),
    (b"x-client-serial", Claim::Url),
    (b"x-client-verify", Claim::Url),
    (b"x-clientcert", Claim::Url),
    (b"x-envoy-original-path", Claim::Url),
    (b"x-forwarded", Claim::Url),
    (b"x-front-end-https", Claim::Url),
    (b"x-https", Claim::Url),
    (b"x-ingress-path", Claim::Url),
    (b"x-original-method", Claim::Url),
    (b"x-original-proto", Claim::Url),
    // Both are told by load balancers that know no `X-Forwarded-Proto`.
    (b"x-proto", Claim::Url),
    (b"x-protocol", Claim::Url),
    (b"x-proxy-host", Claim::Url),
    (b"x-proxy-url", Claim::Url),
    (b"x-real-host", Claim::Url),
    (b"x-remote-user", Claim::Url),
    (b"x-scheme", Claim::Url),
    (b"x-script-name", Claim::Url),
    (b"x-ssl", Claim::Url),
    (b"x-url-scheme", Claim::Url),
];

/// Beginnings of names that say under which URL and with what certificate a request came. The first two of certificates
/// are those of RFC 9440 and of nginx; the others are what HAProxy, Envoy, Traefik, the load balancers of clouds and
/// many a manual write.
pub const CLAIMED_FAMILIES: &[&[u8]] = &[
    b"client-cert",
    b"cf-client-cert",
    b"ssl-client",
    b"ssl-cert",
    b"proxy-client-cert",
    b"x-forwarded-",
    b"x-client-subject",
    b"x-ssl-",
    b"x-client-cert",
    b"x-tls-client",
    b"x-tls-cert",
    b"x-goog-client-cert",
    b"x-mtls-",
    b"x-amzn-mtls-",
];

/// Whether a field is one that only a trusted proxy may say, however it is spelled: servers that make variables of
/// names read `X_Forwarded_For` as `X-Forwarded-For`.
pub fn is_claimed(field: &str) -> bool {
    let folded = |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    let field: Vec<u8> = field.bytes().map(folded).collect();
    CLAIMED_NAMES.iter().any(|(name, _)| *name == field) || CLAIMED_FAMILIES.iter().any(|family| field.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::is_claimed;

    #[test]
    fn fields_of_proxies_are_claimed_and_no_others() {
        for field in ["X-Forwarded-For", "x_real_ip", "Forwarded", "Proxy", "X-Forwarded-Proto", "X-SSL-Client-Cert"] {
            assert!(is_claimed(field), "{field}");
        }
        for field in ["X-Key", "Via", "User-Agent", "X-Forward", "Host"] {
            assert!(!is_claimed(field), "{field}");
        }
    }
}
