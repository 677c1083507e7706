//! Where a URL leads: with TLS or without, to which host and port. Pure; what cannot be a destination is refused here.

use crate::fault::OutboundFault;
use http::Uri;
use rustls_pki_types::ServerName;
use std::fmt;
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    pub is_tls: bool,
    /// An IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
}

impl Destination {
    pub fn of(uri: &Uri) -> Result<Destination, OutboundFault> {
        let refuse = |problem: &str| OutboundFault::Url { url: without_secrets(uri), problem: problem.to_owned() };
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(refuse("it has to begin with `https://` or `http://`")),
        };
        let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("it carries a user's name; give tokens by their own setting"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err(refuse("it names no host"));
        }
        let port = match (authority.port_u16(), is_tls) {
            (Some(0), _) => return Err(refuse("its port is 0")),
            (Some(port), _) => port,
            (None, true) => 443,
            (None, false) => 80,
        };
        let destination = Destination { is_tls, host, port };
        destination.server_name()?;
        Ok(destination)
    }

    pub fn server_name(&self) -> Result<ServerName<'static>, OutboundFault> {
        ServerName::try_from(self.host.clone()).map_err(|_| OutboundFault::Url {
            url: self.to_string(),
            problem: "its host is neither a name nor an IP address".to_owned(),
        })
    }

    /// For `Host`: the port only where it is not the scheme's own.
    pub fn authority(&self) -> String {
        let host = match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
            Ok(IpAddr::V4(_)) | Err(_) => self.host.clone(),
        };
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority())
    }
}

/// Faults are logged, and people put tokens into queries and user names.
fn without_secrets(uri: &Uri) -> String {
    let scheme = uri.scheme_str().map(|scheme| format!("{scheme}://")).unwrap_or_default();
    let host = uri.host().unwrap_or_default();
    format!("{scheme}{host}{}", uri.path())
}

/// A text as a part of a path or of a query may be written (RFC 3986, unreserved).
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte as char),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{Destination, percent_encoded};

    #[test]
    fn names_cannot_leave_their_place() {
        assert_eq!(percent_encoded("web-1.a_b~"), "web-1.a_b~");
        assert_eq!(percent_encoded("a/b?c=d&é %"), "a%2Fb%3Fc%3Dd%26%C3%A9%20%25");
    }

    #[test]
    fn urls_lead_somewhere_or_are_refused() {
        let check = |url: &str, expected: Result<(bool, &str, u16, &str), &str>| {
            let found = Destination::of(&url.parse().expect("a URI"));
            let found = found.map(|at| (at.is_tls, at.host.clone(), at.port, at.authority())).map_err(|fault| fault.to_string());
            let expected = expected
                .map(|(is_tls, host, port, authority)| (is_tls, host.to_owned(), port, authority.to_owned()))
                .map_err(str::to_owned);
            assert_eq!(found, expected, "{url}");
        };
        check("https://Acme.example/dir", Ok((true, "acme.example", 443, "acme.example")));
        check("https://acme.example:14000/dir?a=b", Ok((true, "acme.example", 14000, "acme.example:14000")));
        check("http://127.0.0.1:8080/", Ok((false, "127.0.0.1", 8080, "127.0.0.1:8080")));
        check("http://[::1]/", Ok((false, "::1", 80, "[::1]")));
        check("https://[::1]:443/", Ok((true, "::1", 443, "[::1]")));
        check("ftp://a.example/", Err("cannot be asked at ftp://a.example/: it has to begin with `https://` or `http://`"));
        check("/dir", Err("cannot be asked at /dir: it has to begin with `https://` or `http://`"));
        check(
            "https://user:word@a.example/?token=word",
            Err("cannot be asked at https://a.example/: it carries a user's name; give tokens by their own setting"),
        );
        check("http://a.example:0/", Err("cannot be asked at http://a.example/: its port is 0"));
        check("https://a..example/", Err("cannot be asked at a..example: its host is neither a name nor an IP address"));
    }
}
