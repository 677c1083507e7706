//! Lines that have the request line in quotes: the common and the combined format of Apache, nginx, Traefik and our
//! own, also with the virtual host in front; HAProxy's `option httplog`; Envoy's text format.

use super::Told;
use crate::request::{LeftOut, Request};
use std::net::IpAddr;

/// A text in quotes with its escapes undone, and what stands around it.
struct Quoted<'l> {
    before: &'l [u8],
    text: Vec<u8>,
    after: &'l [u8],
}

pub fn read(number: usize, line: &[u8]) -> Result<Request, LeftOut> {
    let is_haproxy = is_of_haproxy(line);
    let quoted = match next_quoted(line, is_haproxy) {
        Some(quoted) => quoted,
        // HAProxy ends a line where its message may be no longer.
        None if line.contains(&b'"') => return Err(LeftOut::CutShort),
        None => return Err(LeftOut::Unknown),
    };
    let mut told = Told::default();
    request_line(&quoted.text, &mut told)?;
    if is_haproxy {
        told.status = status_of_haproxy(quoted.before);
        return told.request(number);
    }
    let mut words = quoted.after.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    told.status = number_of(words.next());
    if told.status.is_none() {
        return Err(LeftOut::Unknown);
    }
    let others = rest_of_quoted(quoted.after);
    if quoted.before.starts_with(b"[") {
        fields_of_envoy(others, &mut told);
    } else {
        told.host = virtual_host(quoted.before);
        fields_of_combined(others, &mut told);
    }
    told.request(number)
}

/// `GET /path HTTP/1.1`; in HTTP/0.9 the version is missing.
fn request_line(text: &[u8], told: &mut Told) -> Result<(), LeftOut> {
    let mut words = text.split(|byte| *byte == b' ');
    let (Some(method), Some(target), version, None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(LeftOut::NoRequest);
    };
    match version {
        Some(version) if version.starts_with(b"HTTP/") => {}
        // Cut short within the target, or a request of 1991; neither is one of today.
        None => return Err(LeftOut::CutShort),
        Some(_) => return Err(LeftOut::NoRequest),
    }
    told.method = method.to_vec();
    told.target = target.to_vec();
    Ok(())
}

/// `"referer" "user agent"`
fn fields_of_combined(others: Vec<Vec<u8>>, told: &mut Told) {
    let mut others = others.into_iter();
    if let (Some(referer), Some(user_agent)) = (others.next(), others.next()) {
        told.fields.push(("Referer".to_owned(), referer));
        told.fields.push(("User-Agent".to_owned(), user_agent));
    }
}

/// `"x-forwarded-for" "user agent" "request id" "authority" "upstream"`
fn fields_of_envoy(others: Vec<Vec<u8>>, told: &mut Told) {
    let mut others = others.into_iter().skip(1);
    if let Some(user_agent) = others.next() {
        told.fields.push(("User-Agent".to_owned(), user_agent));
    }
    told.host = others.nth(1);
}

/// `shop.example.com:443 192.0.2.1 - - [`, which is Apache's `vhost_combined`.
fn virtual_host(before: &[u8]) -> Option<Vec<u8>> {
    let mut words = before.split(|byte| *byte == b' ');
    let (first, second) = (words.next()?, std::str::from_utf8(words.next()?).ok()?);
    let is_host =
        second.parse::<IpAddr>().is_ok() && std::str::from_utf8(first).is_ok_and(|first| first.parse::<IpAddr>().is_err());
    is_host.then(|| first.to_vec())
}

/// Texts in quotes in what follows the request line.
fn rest_of_quoted(mut rest: &[u8]) -> Vec<Vec<u8>> {
    const MANY: usize = 8;
    let mut found = Vec::new();
    while found.len() < MANY
        && let Some(quoted) = next_quoted(rest, false)
    {
        rest = quoted.after;
        found.push(quoted.text);
    }
    found
}

/// Escapes are `\"`, `\\` and `\x22`; HAProxy writes `#22` instead.
fn next_quoted(line: &[u8], is_haproxy: bool) -> Option<Quoted<'_>> {
    let start = line.iter().position(|byte| *byte == b'"')?;
    let mut text = Vec::new();
    let mut at = start + 1;
    loop {
        match *line.get(at)? {
            b'"' => return Some(Quoted { before: &line[..start], text, after: &line[at + 1..] }),
            b'#' if is_haproxy => at += escaped(line, at + 1, &mut text).unwrap_or_else(|| plain(b'#', &mut text)),
            b'\\' if !is_haproxy => at += backslash(line, at + 1, &mut text),
            byte => at += plain(byte, &mut text),
        }
    }
}

fn plain(byte: u8, text: &mut Vec<u8>) -> usize {
    text.push(byte);
    1
}

/// How many bytes the escape took, with its first.
fn backslash(line: &[u8], at: usize, text: &mut Vec<u8>) -> usize {
    match line.get(at) {
        Some(b'x' | b'X') => escaped(line, at + 1, text).map_or_else(|| plain(b'\\', text), |taken| taken + 1),
        Some(b'n') => plain(b'\n', text) + 1,
        Some(b'r') => plain(b'\r', text) + 1,
        Some(b't') => plain(b'\t', text) + 1,
        Some(byte) => plain(*byte, text) + 1,
        None => plain(b'\\', text),
    }
}

/// Two hex digits; how many bytes they took, with the one before them.
fn escaped(line: &[u8], at: usize, text: &mut Vec<u8>) -> Option<usize> {
    let digits = std::str::from_utf8(line.get(at..at + 2)?).ok()?;
    text.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
    Some(3)
}

/// `10/0/30/69/109 200 2750 …`: five times between slashes, and the status behind them.
fn status_of_haproxy(before: &[u8]) -> Option<u16> {
    let mut words = before.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.find(|word| is_times(word, 5))?;
    number_of(words.next())
}

fn is_of_haproxy(line: &[u8]) -> bool {
    let before = line.split(|byte| *byte == b'"').next().unwrap_or_default();
    // Times, then counters of connections, then the queues.
    let mut words = before.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.any(|word| is_times(word, 5)) && words.any(|word| is_times(word, 5)) && words.any(|word| is_times(word, 2))
}

fn is_times(word: &[u8], count: usize) -> bool {
    let is_number = |part: &[u8]| {
        let digits = part.strip_prefix(b"+").or_else(|| part.strip_prefix(b"-")).unwrap_or(part);
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    };
    word.split(|byte| *byte == b'/').count() == count && word.split(|byte| *byte == b'/').all(is_number)
}

fn number_of(word: Option<&[u8]>) -> Option<u16> {
    let text = std::str::from_utf8(word?).ok()?;
    (text.len() == 3).then(|| text.parse().ok()).flatten()
}
