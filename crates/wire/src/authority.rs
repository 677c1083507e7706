//! `host[:port]`, as in `Host`, `:authority` and absolute-form targets, read strictly.
//! Which host a request is for is decided in `http1`; which site that is, in `routing`.

use crate::error::HeadError;
use std::net::Ipv6Addr;

/// The longest host name in the DNS is 253 bytes; brackets and port fit in as well for every address.
pub const AUTHORITY_BYTES_MAX: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a> {
    /// As it was written, without the brackets of an IPv6 address. May end with one dot.
    pub host: &'a [u8],
    pub port: Option<u16>,
    /// Whether `host` stood in brackets, and so is an IPv6 address.
    pub is_ipv6: bool,
}

impl Authority<'_> {
    /// Whether both mean the same place. A port that is left out is `default_port`.
    pub fn is_same(&self, other: &Authority<'_>, default_port: u16) -> bool {
        self.host.eq_ignore_ascii_case(other.host) && self.port.unwrap_or(default_port) == other.port.unwrap_or(default_port)
    }
}

/// Reads `name[:port]`, `192.0.2.1[:port]` or `[2001:db8::1][:port]`.
///
/// An empty port is the default one (RFC 3986 section 3.2.3).
///
/// Refused, each because some server reads it differently: user information, an empty host, names with bytes other
/// than letters, digits, `.`, `-` and `_`, empty labels, zones in IPv6 addresses, and more than
/// [`AUTHORITY_BYTES_MAX`] bytes.
pub fn parse_authority(text: &[u8]) -> Result<Authority<'_>, HeadError> {
    if text.len() > AUTHORITY_BYTES_MAX {
        return Err(HeadError::BadAuthority);
    }
    if let Some(rest) = text.strip_prefix(b"[") {
        let close = rest.iter().position(|byte| *byte == b']').ok_or(HeadError::BadAuthority)?;
        let (host, rest) = (&rest[..close], &rest[close + 1..]);
        let address = std::str::from_utf8(host).ok().and_then(|host| host.parse::<Ipv6Addr>().ok());
        if address.is_none() {
            return Err(HeadError::BadAuthority);
        }
        return Ok(Authority { host, port: parse_port(rest)?, is_ipv6: true });
    }
    let end = name_end(text)?;
    Ok(Authority { host: &text[..end], port: parse_port(&text[end..])?, is_ipv6: false })
}

/// Where the name ends; no empty name and no empty label, except behind a final dot.
#[inline]
fn name_end(text: &[u8]) -> Result<usize, HeadError> {
    let mut label_start = 0;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => {}
            b'.' if at > label_start => label_start = at + 1,
            b':' => break,
            _ => return Err(HeadError::BadAuthority),
        }
        at += 1;
    }
    if at == 0 { Err(HeadError::BadAuthority) } else { Ok(at) }
}

/// `""` or `:port`, where the port may be empty.
#[inline]
fn parse_port(text: &[u8]) -> Result<Option<u16>, HeadError> {
    let Some((colon, digits)) = text.split_first() else { return Ok(None) };
    if *colon != b':' || digits.len() > 5 {
        return Err(HeadError::BadAuthority);
    }
    if digits.is_empty() {
        return Ok(None);
    }
    let mut port = 0_u32;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(HeadError::BadAuthority);
        }
        port = port * 10 + u32::from(digit - b'0');
    }
    u16::try_from(port).map(Some).map_err(|_| HeadError::BadAuthority)
}

#[cfg(test)]
mod tests {
    use super::{AUTHORITY_BYTES_MAX, Authority, parse_authority};
    use crate::error::HeadError;

    #[test]
    fn names_and_addresses_with_and_without_ports() {
        let check = |text: &str, host: &str, port: Option<u16>| {
            let is_ipv6 = text.starts_with('[');
            assert_eq!(parse_authority(text.as_bytes()), Ok(Authority { host: host.as_bytes(), port, is_ipv6 }), "{text}");
        };
        check("example.com", "example.com", None);
        check("Example.COM:443", "Example.COM", Some(443));
        check("example.com.", "example.com.", None);
        check("example.com.:8080", "example.com.", Some(8080));
        check("a", "a", None);
        check("my_service-1:0", "my_service-1", Some(0));
        check("a:00080", "a", Some(80));
        check("a:65535", "a", Some(65535));
        check("192.0.2.1:80", "192.0.2.1", Some(80));
        check("[::1]", "::1", None);
        check("[2001:db8::1]:8443", "2001:db8::1", Some(8443));
        check("[::ffff:192.0.2.1]", "::ffff:192.0.2.1", None);
        check("-", "-", None);
        check("a:", "a", None);
        check("a.:", "a.", None);
        check("[::1]:", "::1", None);
    }

    #[test]
    fn everything_else_is_refused() {
        let check = |text: &[u8]| assert_eq!(parse_authority(text), Err(HeadError::BadAuthority), "{}", text.escape_ascii());
        for text in [
            "",
            ":80",
            ".",
            "..",
            ".example.com",
            "a..b",
            "a::",
            "a:b",
            "a:65536",
            "a:000080",
            "a:+80",
            "a:-1",
            "a:80:80",
            "a:8 0",
            "user@example.com",
            "user:password@example.com",
            "a b",
            " a",
            "a ",
            "a/b",
            "a?b",
            "a#b",
            "a\\b",
            "a%41",
            "a,b",
            "a;b",
            "a\tb",
            "*",
            "*.example.com",
            "a!b",
            "[",
            "[]",
            "[::1",
            "::1",
            "[::1]x",
            "[::1]80",
            "[fe80::1%eth0]",
            "[v1.a]",
            "[192.0.2.1]",
            "[a]",
            "[::1]]",
            "[[::1]]",
            "[::1\n]",
            "http://a",
            "a\r\n",
            "a\0",
        ] {
            check(text.as_bytes());
        }
        check("bücher.example".as_bytes());
        check(&[0xff]);
        check("a".repeat(AUTHORITY_BYTES_MAX + 1).as_bytes());
        assert!(parse_authority("a".repeat(AUTHORITY_BYTES_MAX).as_bytes()).is_ok());
    }

    #[test]
    fn a_port_left_out_is_the_default_one() {
        let same = |a: &'static str, b: &'static str| {
            let parse = |text: &'static str| parse_authority(text.as_bytes()).expect("a valid authority");
            parse(a).is_same(&parse(b), 80)
        };
        assert!(same("example.com", "EXAMPLE.com:80"));
        assert!(same("example.com:80", "example.com"));
        assert!(same("example.com:", "example.com:80"));
        assert!(same("[::1]:81", "[::1]:81"));
        assert!(!same("example.com", "example.com:443"));
        assert!(!same("example.com", "example.org"));
        assert!(!same("example.com", "example.com."));
    }
}
