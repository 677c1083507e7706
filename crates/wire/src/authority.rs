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
/// Refused, each because some server reads it differently: user information, an empty host, an empty port, names with
/// bytes other than letters, digits, `.`, `-` and `_`, empty labels, zones in IPv6 addresses, and more than
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

/// `""` or `:port`.
#[inline]
fn parse_port(text: &[u8]) -> Result<Option<u16>, HeadError> {
    let Some((colon, digits)) = text.split_first() else { return Ok(None) };
    if *colon != b':' || digits.is_empty() || digits.len() > 5 {
        return Err(HeadError::BadAuthority);
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
