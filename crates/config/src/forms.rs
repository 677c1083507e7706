//! Forms of text that several directives take: tokens, networks, addresses to listen on, statuses, URLs.

use ipnet::IpNet;
use std::borrow::Cow;
use std::net::IpAddr;
use tidegate_model::{ListenerPlace, SocketName, StatusRange, Template, TemplatePart};

/// Fields that speak of one connection (RFC 9110 section 7.6.1), which are taken out of a request before anything looks
/// at it. What `Upgrade` asks for is known all the same.
pub fn is_of_connection(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "transfer-encoding",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// What to write in the place of such a field.
pub fn instead_of_connection(name: &str, upgrade: &str) -> String {
    if !name.eq_ignore_ascii_case("connection") {
        return "leave it out: what such a field says counts for one connection, and is acted on by the proxy".to_owned();
    }
    let both = "over HTTP/1.1 and HTTP/2 alike; `Connection` need not be looked at besides";
    format!("what a client asks to switch to is in {upgrade}, {both}")
}

/// RFC 9110 section 5.6.2.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// A line break in a value would start a header field of its own.
pub fn has_control_character(template: &Template) -> bool {
    template.parts.iter().any(|part| match part {
        TemplatePart::Literal(text) => text.chars().any(|c| c != '\t' && c.is_control()),
        TemplatePart::Placeholder(_) | TemplatePart::Capture(_) => false,
    })
}

/// A single address without its prefix length, as it may be written.
pub fn show_network(network: &IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() { network.addr().to_string() } else { network.to_string() }
}

/// Ports that speak TLS wherever they are met: 443, and those that are chosen to look like it.
pub fn is_port_of_tls(port: u16) -> bool {
    matches!(port, 443 | 1443 | 2443 | 3443 | 4443 | 5443 | 6443 | 7443 | 8443 | 9443 | 10443)
}

/// `:443`, `192.0.2.1:443`, `[2001:db8::1]:443` or `unix:/run/tidegate.sock`
pub fn parse_listener_place(text: &str) -> Result<ListenerPlace, String> {
    match text.strip_prefix("unix:").or(text.strip_prefix("http://unix:")) {
        Some(name) => SocketName::parse(name).map(ListenerPlace::Unix),
        None => parse_listen_address(text).map(|(ip, port)| ListenerPlace::Tcp { ip, port }),
    }
}

/// `:443`, `192.0.2.1:443`, `[2001:db8::1]:443`
pub fn parse_listen_address(text: &str) -> Result<(Option<IpAddr>, u16), String> {
    let port_of = |digits: &str| match digits.parse::<u16>() {
        Ok(0) | Err(_) => Err(format!("`{digits}` is not a port")),
        Ok(port) if digits.starts_with('+') => Err(format!("`+{port}` is not a port")),
        Ok(port) => Ok(port),
    };
    if let Some(digits) = text.strip_prefix(':') {
        return Ok((None, port_of(digits)?));
    }
    match text.parse::<std::net::SocketAddr>() {
        Ok(address) if address.port() == 0 => Err("port 0 cannot be listened on".into()),
        Ok(address) => Ok((Some(address.ip()), address.port())),
        Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => Err(format!("`{text}` has no `:` in front of the port")),
        Err(_) => Err(format!("`{text}` is not an address to listen on")),
    }
}

/// Of an answer; one below is not the last one.
const STATUS_MIN: u16 = 200;
const STATUS_MAX: u16 = 599;
/// What is wrong with a text, and what to write instead.
pub type Fault = (Cow<'static, str>, Cow<'static, str>);

/// `200-299,404,5xx`
pub fn status_ranges(text: &str) -> Result<Vec<StatusRange>, Fault> {
    let read = |part: &str| {
        status_range(part).ok_or_else(|| {
            let help = format!("statuses go from {STATUS_MIN} to {STATUS_MAX}, as in `200-399,401,5xx`");
            (format!("`{part}` is neither a status nor a range of them").into(), help.into())
        })
    };
    text.split(',').map(|part| read(part.trim())).collect()
}

fn status_range(text: &str) -> Option<StatusRange> {
    let status = |text: &str| {
        let is_status = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|status| is_status && (STATUS_MIN..=STATUS_MAX).contains(status))
    };
    if let Some(class @ ("2" | "3" | "4" | "5")) = text.strip_suffix("xx") {
        let first = class.parse::<u16>().ok()? * 100;
        return Some(StatusRange { first, last: first + 99 });
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = StatusRange { first: status(first.trim())?, last: status(last.trim())? };
    (range.first <= range.last).then_some(range)
}

/// `200-299`, `404`
pub fn show_status_range(range: &StatusRange) -> String {
    if range.first == range.last { range.first.to_string() } else { format!("{}-{}", range.first, range.last) }
}

const URL_CHARS_MAX: usize = 1_000;

/// An absolute URL with a host, with one of these schemes.
pub fn check_url(text: &str, owner: &str, schemes: &[&str]) -> Result<String, Fault> {
    let rest = text.split_once("://").filter(|(scheme, _)| schemes.contains(scheme)).map(|(_, rest)| rest);
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_url = text.len() <= URL_CHARS_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && host.is_some_and(|host| !host.is_empty() && !host.contains('@'));
    if is_url {
        return Ok(text.to_owned());
    }
    let message = format!("{owner} is not a URL with `{}://`", schemes.join("://` or `"));
    Err((message.into(), format!("for example `{}://host.example.com/path`", schemes[0]).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let check = |text: &str, expected: bool| assert_eq!(is_token(text), expected, "for {text}");
        check("X-A_b.1", true);
        check("", false);
        check("a b", false);
        check(":path", false);
        check("ä", false);
    }

    #[test]
    fn listen_addresses() {
        let check = |text: &str, expected: Result<(Option<&str>, u16), &str>| {
            let expected = expected.map(|(ip, port)| (ip.map(|ip| ip.parse().expect("an IP")), port)).map_err(str::to_string);
            assert_eq!(parse_listen_address(text), expected, "for {text}");
        };
        check(":443", Ok((None, 443)));
        check("192.0.2.1:443", Ok((Some("192.0.2.1"), 443)));
        check("[2001:db8::1]:443", Ok((Some("2001:db8::1"), 443)));
        check("443", Err("`443` has no `:` in front of the port"));
        check(":0", Err("`0` is not a port"));
        check(":https", Err("`https` is not a port"));
        check("example.com:443", Err("`example.com:443` is not an address to listen on"));
    }
}
