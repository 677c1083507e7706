//! `csrf`: a page of another origin must not have its visitor's browser change something here, with the cookies that it
//! has of this site. Browsers say which page a request comes from; no token has to be put into forms. What neither says
//! that it comes from a page nor where it does is no browser.

use tidegate_model::{Csrf, OriginPattern};
use tidegate_wire::head::{HeaderId, RequestHead};

#[derive(Debug)]
pub struct CompiledCsrf {
    origins: Box<[OriginPattern]>,
}

/// These change nothing (RFC 9110 section 9.2.1).
const SAFE_METHODS: [&[u8]; 4] = [b"GET", b"HEAD", b"OPTIONS", b"TRACE"];

impl CompiledCsrf {
    pub fn new(csrf: &Csrf) -> CompiledCsrf {
        CompiledCsrf { origins: csrf.origins.clone().into() }
    }

    /// Pages of the same site that are of another origin (`same-site`) are others: a forgotten subdomain is taken over
    /// more easily than the application.
    pub fn lets_through(&self, head: &RequestHead) -> bool {
        if SAFE_METHODS.contains(&head.method_name()) && !opens_websocket(head) {
            return true;
        }
        let mut origins = head.fields.all(HeaderId::Origin);
        let (origin, another) = (origins.next(), origins.next());
        if another.is_some() {
            return false;
        }
        if origin.is_some_and(|origin| self.origins.iter().any(|pattern| pattern.fits(origin))) {
            return true;
        }
        let mut said = head.fields.all_named(b"sec-fetch-site");
        match (said.next(), said.next()) {
            (Some(b"same-origin" | b"none"), None) => true,
            // Older browsers say the origin alone, and not over plain HTTP.
            (None, _) => origin.is_none_or(|origin| is_of_host(origin, head.authority())),
            (Some(_), _) => false,
        }
    }
}

/// A page of any origin can open one, and reads what comes: nothing else asks browsers for more than the origin. They
/// send this field over HTTP/1.1 and HTTP/2 (RFC 6455 section 4.1, RFC 8441 section 5), and no script can. What speaks
/// of the connection (`Upgrade`) is not there any more when steps run.
fn opens_websocket(head: &RequestHead) -> bool {
    head.fields.all_named(b"sec-websocket-version").next().is_some()
}

/// Whether an origin is that of the host, whose scheme may be another one behind a proxy. A port that belongs to the
/// scheme may be there or not.
fn is_of_host(origin: &[u8], authority: &[u8]) -> bool {
    const SCHEMES: [(&[u8], &[u8]); 2] = [(b"https://", b":443"), (b"http://", b":80")];
    SCHEMES.iter().any(|(scheme, port)| {
        let is_scheme = origin.len() > scheme.len() && origin[..scheme.len()].eq_ignore_ascii_case(scheme);
        is_scheme && origin[scheme.len()..].eq_ignore_ascii_case(authority.strip_suffix(*port).unwrap_or(authority))
    })
}

#[cfg(test)]
mod tests {
    use super::CompiledCsrf;
    use crate::fixtures::request;
    use tidegate_model::{Csrf, OriginPattern};

    #[test]
    fn only_own_pages_change_something() {
        let origins = vec![
            OriginPattern::Exact("https://admin.test".into()),
            OriginPattern::Below { start: "https://".into(), end: ".apps.test".into() },
        ];
        let csrf = CompiledCsrf::new(&Csrf { origins });
        let check = |method: &str, lines: &[&str], expected: bool| {
            let mut head = request("/", "example.com:8443", lines);
            head.method_name = head.fields.append(&[method.as_bytes()]);
            assert_eq!(csrf.lets_through(&head), expected, "{method} {lines:?}");
        };
        check("GET", &["Sec-Fetch-Site: cross-site", "Origin: https://evil.test"], true);
        check("OPTIONS", &["Sec-Fetch-Site: cross-site", "Origin: https://evil.test"], true);
        check("POST", &["Sec-Fetch-Site: cross-site", "Origin: https://evil.test"], false);
        check("DELETE", &["Sec-Fetch-Site: cross-site"], false);
        check("get", &["Sec-Fetch-Site: cross-site"], false);
        check("POST", &["Sec-Fetch-Site: same-site"], false);
        check("POST", &["Sec-Fetch-Site: same-origin"], true);
        check("POST", &["Sec-Fetch-Site: none"], true);
        check("POST", &["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"], false);
        check("POST", &["Sec-Fetch-Site: something"], false);
        check("POST", &[], true);
        check("POST", &["Origin: https://example.com:8443"], true);
        check("POST", &["Origin: http://EXAMPLE.com:8443"], true);
        check("POST", &["Origin: https://example.com"], false);
        check("POST", &["Origin: https://evil.test"], false);
        check("POST", &["Origin: null"], false);
        check("POST", &["Origin: https://example.com:8443", "Origin: https://evil.test"], false);
        check("POST", &["Sec-Fetch-Site: cross-site", "Origin: https://admin.test"], true);
        check("POST", &["Sec-Fetch-Site: cross-site", "Origin: https://a.apps.test"], true);
        check("GET", &["Sec-WebSocket-Version: 13", "Sec-Fetch-Site: cross-site", "Origin: https://evil.test"], false);
        check("GET", &["Sec-WebSocket-Version: 13", "Origin: https://evil.test"], false);
        check("GET", &["Sec-WebSocket-Version: 13", "Origin: https://example.com:8443"], true);
        check("CONNECT", &["Origin: https://evil.test"], false);
    }

    #[test]
    fn a_port_of_the_scheme_may_be_left_out() {
        let check = |origin: &str, authority: &str, expected: bool| {
            assert_eq!(super::is_of_host(origin.as_bytes(), authority.as_bytes()), expected, "{origin} {authority}");
        };
        check("https://a.test", "a.test", true);
        check("https://a.test", "a.test:443", true);
        check("http://a.test", "a.test:80", true);
        check("https://a.test", "a.test:80", false);
        check("https://a.test.evil", "a.test", false);
        check("ftp://a.test", "a.test", false);
        check("", "", false);
    }
}
