//! The request that is asked about: read from a command line or an API, and made into the very head that the proxy
//! would see. Where it goes is in the parent module.

use std::net::{IpAddr, Ipv4Addr};
use tidegate_model::{Limits, Scheme};
use tidegate_wire::head::{HeaderId, RequestHead};
use tidegate_wire::{HeadError, HeadLimits, Parsed, http1, parse_authority};

/// A request that nobody sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// In any case; methods are case sensitive.
    pub method: String,
    pub scheme: Scheme,
    /// Where the client connects to, and the name in its TLS handshake: a name, or an IP address without brackets.
    pub host: String,
    pub port: u16,
    /// As it is written, not normalised; begins with `/`.
    pub path_and_query: String,
    /// A `Host` among them is the host that is asked for, in the place of that of the URL.
    pub headers: Vec<(String, String)>,
    /// What an extended CONNECT of HTTP/2 asks its stream to become: the header `:protocol` (RFC 8441).
    pub protocol: Option<String>,
    /// Taken to be the client's address as `match client=` sees it.
    pub client_ip: IpAddr,
}

/// How its line begins among the headers of a question.
const PROTOCOL_FIELD: &str = ":protocol:";

/// Whose request it is when nobody says.
const DEFAULT_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Question {
    /// `url` is `http[s]://host[:port][/path][?query]`, `headers` are lines `Name: value`, `from` is the client's IP
    /// address (127.0.0.1 when it is left out). `Err` says what is wrong and how to write it.
    pub fn parse<H: AsRef<str>>(method: &str, url: &str, headers: &[H], from: Option<&str>) -> Result<Question, String> {
        if !is_token(method) {
            return Err(format!("`{}` is not a method\n  help: for example `GET`", method.escape_debug()));
        }
        let (scheme, rest) = split_scheme(url)?;
        let (authority, path_and_query) = split_path(rest)?;
        let parsed = parse_authority(authority.as_bytes())
            .map_err(|_| format!("`{}` is not a host\n  help: for example `https://example.com/`", authority.escape_debug()))?;
        let (protocols, headers): (Vec<&str>, Vec<&str>) =
            headers.iter().map(AsRef::as_ref).partition(|line| line.starts_with(PROTOCOL_FIELD));
        let headers = headers.into_iter().map(header).collect::<Result<Vec<_>, _>>()?;
        let protocol = match protocols[..] {
            [] => None,
            [line] => Some(line[PROTOCOL_FIELD.len()..].trim().to_owned()),
            [_, _, ..] => return Err("there is more than one `:protocol`".to_owned()),
        };
        let client_ip = match from {
            None => DEFAULT_CLIENT,
            Some(text) => text.parse::<IpAddr>().map_err(|_| {
                format!("`{}` is not an IP address\n  help: for example `192.0.2.7` or `2001:db8::1`", text.escape_debug())
            })?,
        };
        let request = Question {
            method: method.to_owned(),
            scheme,
            host: String::from_utf8_lossy(parsed.host).into_owned(),
            port: parsed.port.unwrap_or(scheme.default_port()),
            path_and_query,
            headers,
            protocol,
            client_ip,
        };
        request.check()?;
        Ok(request)
    }

    /// `https://example.com/a`; the port only where it is not the scheme's own.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme.as_str(), self.authority(), self.path_and_query)
    }

    /// The address in the URL, when it is one. A client sends no name in its handshake then.
    pub fn host_ip(&self) -> Option<IpAddr> {
        self.host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
    }

    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    /// What would make another request of this one once it is bytes; anything else that is wrong the proxy refuses, and
    /// that is to be seen.
    fn check(&self) -> Result<(), String> {
        if !is_token(&self.method) {
            return Err(format!("`{}` is not a method", self.method.escape_debug()));
        }
        if parse_authority(self.authority().as_bytes()).is_err() {
            return Err(format!("`{}` is not a host", self.host.escape_debug()));
        }
        let ends_target = |byte: u8| byte <= b' ' || byte == 0x7f;
        if !self.path_and_query.starts_with('/') || self.path_and_query.bytes().any(ends_target) {
            return Err(format!(
                "`{}` is not a path\n  help: it begins with `/`; write a space as `%20`",
                self.path_and_query.escape_debug()
            ));
        }
        if self.protocol.is_some() && self.method != "CONNECT" {
            return Err("`:protocol` stands with CONNECT alone\n  help: for example `explain CONNECT https://example.com/chat -H ':protocol: websocket'`".to_owned());
        }
        for (name, value) in &self.headers {
            if !is_token(name) {
                return Err(format!("`{}` is not a header name", name.escape_debug()));
            }
            if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                return Err(format!("the value of the header `{name}` has a line break in it"));
            }
        }
        Ok(())
    }

    /// The head as the proxy reads it, or why it refuses it.
    pub(super) fn head(&self, limits: &Limits) -> Result<Result<RequestHead, HeadError>, String> {
        self.check()?;
        // An extended CONNECT is made the request that it would be over HTTP/1.1, as the proxy does it.
        let method = if self.protocol.is_some() { "GET" } else { &self.method };
        let target = if method == "CONNECT" {
            // Its target is always with a port (RFC 9112 section 3.2.3).
            let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
            format!("{host}:{}", self.port)
        } else {
            self.path_and_query.clone()
        };
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        if !self.headers.iter().any(|(name, _)| HeaderId::of(name.as_bytes()) == HeaderId::Host) {
            text.push_str(&format!("Host: {}\r\n", self.authority()));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let limits = HeadLimits {
            head_bytes_max: limits.header_bytes,
            request_line_bytes_max: limits.request_line_bytes,
            fields_max: limits.header_count,
        };
        let mut head = RequestHead::default();
        Ok(match http1::parse_request(text.as_bytes(), &limits, &mut head) {
            Ok(Parsed::Complete { .. }) => Ok(head),
            Ok(Parsed::Partial) => Err(HeadError::BadTarget),
            Err(error) => Err(error),
        })
    }
}

fn split_scheme(url: &str) -> Result<(Scheme, &str), String> {
    let starts = |prefix: &str| url.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    for scheme in [Scheme::Http, Scheme::Https] {
        let prefix = format!("{}://", scheme.as_str());
        if starts(&prefix) {
            return Ok((scheme, &url[prefix.len()..]));
        }
    }
    let shown = url.escape_debug();
    Err(match url.split_once("://") {
        Some((other, _)) => format!("the scheme `{}` is not known\n  help: it is `http` or `https`", other.escape_debug()),
        None if url.starts_with('/') => {
            format!("`{shown}` has no host\n  help: write the whole URL, as in `https://example.com{shown}`")
        }
        None => format!("`{shown}` has no scheme\n  help: write `https://{shown}` or `http://{shown}`"),
    })
}

/// The authority, and the path with its query; no path is `/`.
fn split_path(rest: &str) -> Result<(&str, String), String> {
    if let Some((_, fragment)) = rest.split_once('#') {
        return Err(format!("the URL has a fragment, which no client sends\n  help: leave out `#{}`", fragment.escape_debug()));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path_and_query) = rest.split_at(end);
    if authority.contains('@') {
        return Err("the URL has a user name in it, which no client sends there\n  help: use `-H 'Authorization: …'`".to_owned());
    }
    let slash = if path_and_query.starts_with('/') { "" } else { "/" };
    Ok((authority, format!("{slash}{path_and_query}")))
}

fn header(line: &str) -> Result<(String, String), String> {
    let fault = || format!("`{}` is not a header field\n  help: write `Name: value`", line.escape_debug());
    let (name, value) = line.split_once(':').ok_or_else(fault)?;
    if is_token(name) { Ok((name.to_owned(), value.trim().to_owned())) } else { Err(fault()) }
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::Question;

    fn check(method: &str, url: &str, headers: &[&str], from: Option<&str>, expected: &str) {
        let seen = match Question::parse(method, url, headers, from) {
            Ok(request) => format!("{} {} {:?} from {}", request.method, request.url(), request.headers, request.client_ip),
            Err(message) => message.lines().next().unwrap_or_default().to_owned(),
        };
        assert_eq!(seen, expected, "for {method} {url}");
    }

    #[test]
    fn requests_are_read_as_a_client_would_send_them() {
        let check = |url: &str, expected: &str| check("GET", url, &[], None, &format!("GET {expected} [] from 127.0.0.1"));
        check("https://example.com", "https://example.com/");
        check("HTTP://example.com:80/a?b", "http://example.com/a?b");
        check("https://example.com?b", "https://example.com/?b");
        check("https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443/");
        check("https://example.com/a/../%7e", "https://example.com/a/../%7e");
    }

    #[test]
    fn header_fields_and_the_client() {
        check(
            "POST",
            "http://a.test/",
            &["X-A:  b : c ", "Host: b.test", "Empty:"],
            Some("2001:db8::7"),
            r#"POST http://a.test/ [("X-A", "b : c"), ("Host", "b.test"), ("Empty", "")] from 2001:db8::7"#,
        );
    }

    #[test]
    fn an_extended_connect_names_its_protocol() {
        let parse = |method: &str, headers: &[&str]| Question::parse(method, "https://a.test/chat", headers, None);
        assert_eq!(parse("CONNECT", &[":protocol: websocket"]).expect("a question").protocol.as_deref(), Some("websocket"));
        assert!(parse("CONNECT", &["a: b"]).expect("a question").protocol.is_none());
        check("GET", "https://a.test/", &[":protocol: websocket"], None, "`:protocol` stands with CONNECT alone");
        check("CONNECT", "https://a.test/", &[":protocol: a", ":protocol: b"], None, "there is more than one `:protocol`");
    }

    #[test]
    fn faults_say_what_is_wrong() {
        let get = |url: &str, expected: &str| check("GET", url, &[], None, expected);
        get("example.com/a", "`example.com/a` has no scheme");
        get("/a", "`/a` has no host");
        get("ftp://example.com/", "the scheme `ftp` is not known");
        get("https:///a", "`` is not a host");
        get("https://exa mple.com/", "`exa mple.com` is not a host");
        get("https://example.com/a b", "`/a b` is not a path");
        get("https://example.com/a#b", "the URL has a fragment, which no client sends");
        get("https://me@example.com/", "the URL has a user name in it, which no client sends there");
        check("G T", "https://example.com/", &[], None, "`G T` is not a method");
        check("GET", "https://example.com/", &["no-colon"], None, "`no-colon` is not a header field");
        check("GET", "https://example.com/", &["a b: c"], None, "`a b: c` is not a header field");
        check("GET", "https://example.com/", &["A: b\r\nC: d"], None, "the value of the header `A` has a line break in it");
        check("GET", "https://example.com/", &[], Some("localhost"), "`localhost` is not an IP address");
    }
}
