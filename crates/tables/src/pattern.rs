//! A row's key as it is written and as it is kept: `beta` exactly, `beta*` from the start, `*beta` at the end,
//! `10.0.0.0/8` a network, `~b.ta` a regular expression, and `\*beta` the very text behind the backslash.

use crate::fault::RowFault;
use crate::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ipnet::IpNet;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// How a row's key is compared. In the order in which rows are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Exact,
    Network,
    Prefix,
    Suffix,
    Regex,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [Kind::Exact, Kind::Network, Kind::Prefix, Kind::Suffix, Kind::Regex];
}

/// A row's key: the text without what says how it is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern<'t> {
    pub kind: Kind,
    pub text: Cow<'t, str>,
}

impl<'t> Pattern<'t> {
    pub fn parse(written: &'t str) -> Result<Pattern<'t>, RowFault> {
        if written.len() > KEY_BYTES_MAX {
            return Err(RowFault::KeyTooLong);
        }
        if written.chars().any(char::is_control) {
            return Err(RowFault::ControlCharacter);
        }
        let of = |kind, text: &'t str| Ok(Pattern { kind, text: Cow::Borrowed(text) });
        if let Some(text) = written.strip_prefix('\\') {
            return of(Kind::Exact, text);
        }
        if let Some(regex) = written.strip_prefix('~') {
            return of(Kind::Regex, regex);
        }
        if let Some(address) = address(written) {
            return Ok(address);
        }
        if written.contains('/')
            && let Ok(network) = written.parse::<IpNet>()
        {
            if network.addr() != network.network() {
                return Err(RowFault::InsideNetwork(network.trunc().to_string()));
            }
            return Ok(Pattern { kind: Kind::Network, text: canonical(network).to_string().into() });
        }
        if is_like_network(written) {
            return Err(RowFault::NoNetwork);
        }
        if is_like_address(written) {
            return Err(RowFault::NoAddress);
        }
        match (written.strip_prefix('*'), written.strip_suffix('*'), written.matches('*').count()) {
            (Some(""), ..) => Err(RowFault::Everything),
            (Some(_), Some(_), _) => Err(RowFault::TwoStars),
            (Some(_), None, 2..) | (None, Some(_), 2..) => Err(RowFault::TwoStars),
            (Some(end), None, _) => of(Kind::Suffix, end),
            (None, Some(start), _) => of(Kind::Prefix, start),
            (None, None, _) => of(Kind::Exact, written),
        }
    }

    /// As it is kept where case means nothing.
    pub fn without_case(self) -> Pattern<'t> {
        match self.kind {
            Kind::Exact | Kind::Prefix | Kind::Suffix if self.text.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                Pattern { text: self.text.to_ascii_lowercase().into(), ..self }
            }
            Kind::Exact | Kind::Prefix | Kind::Suffix | Kind::Network | Kind::Regex => self,
        }
    }
}

/// Whether somebody who writes it means a network, though it is none: an address with a mask, or with a length that is
/// too long. As a text it would fit nothing that is looked up, and a `deny` by it nobody.
fn is_like_network(written: &str) -> bool {
    let Some((address, length)) = written.split_once('/') else { return false };
    let is_length = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_length && (address.parse::<IpAddr>().is_ok() || is_like_address(address))
}

/// Whether somebody who writes it means an address or a range of them, though it is none: with zeros in front of a
/// number or one that is too large, with `-` up to another, with a zone. Versions have three numbers or longer ones.
fn is_like_address(written: &str) -> bool {
    if !written.starts_with(|first: char| first.is_ascii_hexdigit() || first == ':') {
        return false;
    }
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok() || is_like_v4(text);
    let is_end =
        |text: &str| is_address(text) || !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_like_v4(written)
        || is_like_v6(written)
        || written.split_once('-').is_some_and(|(from, to)| is_address(from.trim_end()) && is_end(to.trim_start()))
        || written.split_once('%').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok())
}

/// Four numbers, or `*` for some.
fn is_like_v4(written: &str) -> bool {
    const DIGITS_MAX: usize = 3;
    let is_part = |part: &str| match part.as_bytes() {
        b"*" => true,
        digits => {
            let is_short = digits.len() <= DIGITS_MAX || digits.first() == Some(&b'0');
            !digits.is_empty() && is_short && digits.iter().all(u8::is_ascii_digit)
        }
    };
    written.matches('.').count() == 3 && written.split('.').all(is_part) && !written.ends_with('*')
}

/// Nothing else has two colons side by side among digits.
fn is_like_v6(written: &str) -> bool {
    written.contains("::") && written.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
}

/// An address is one text, in whichever of its spellings: the one that `{client.ip}` has.
fn address(written: &str) -> Option<Pattern<'static>> {
    let address: IpAddr = written.parse().ok()?;
    Some(Pattern { kind: Kind::Exact, text: address.to_canonical().to_string().into() })
}

/// IPv4 written as IPv6 is IPv4.
fn canonical(network: IpNet) -> IpNet {
    const MAPPED_PREFIX_BITS: u8 = 96;
    match (network.addr().to_canonical(), network.prefix_len().checked_sub(MAPPED_PREFIX_BITS)) {
        (address @ IpAddr::V4(_), Some(length)) if network.addr().is_ipv6() => IpNet::new(address, length).unwrap_or(network),
        _ => network,
    }
}

/// As it can be written.
impl fmt::Display for Pattern<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match self.kind {
            Kind::Exact if Pattern::parse(text).is_ok_and(|read| read == *self) => f.write_str(text),
            Kind::Exact => write!(f, "\\{text}"),
            Kind::Network => f.write_str(text),
            Kind::Prefix => write!(f, "{text}*"),
            Kind::Suffix => write!(f, "*{text}"),
            Kind::Regex => write!(f, "~{text}"),
        }
    }
}

/// Whether a text can be a value.
pub(crate) fn check_value(value: &str) -> Result<(), RowFault> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(RowFault::ValueTooLong);
    }
    if value.chars().any(char::is_control) { Err(RowFault::ControlCharacter) } else { Ok(()) }
}
