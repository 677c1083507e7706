//! Which headers are compared, and how: letter by letter, or by what they mean where two servers that serve the same
//! say it differently.

use crate::answer::Answer;
use crate::difference::Origins;
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

/// What is left out unless somebody asks for it: of the moment, of the connection, and of the server itself.
pub const HEADERS_IGNORED: &[&str] = &[
    "age",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "request-id",
    "server",
    "server-timing",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "via",
    "x-correlation-id",
    "x-envoy-upstream-service-time",
    "x-request-id",
    "x-response-time",
    "x-runtime",
    "x-trace-id",
];

/// What is compared.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Only these headers; all but the ignored ones otherwise.
    pub only: BTreeSet<String>,
    /// Beside those that always are.
    pub ignored: BTreeSet<String>,
    /// Letter by letter, even if they are ignored or compared by their meaning otherwise.
    pub exact: BTreeSet<String>,
    /// Left out of bodies, whatever fits.
    pub ignored_in_bodies: Vec<Regex>,
    /// Whether bodies are left out altogether: pages of some applications are others each time.
    pub without_bodies: bool,
}

/// A name, and what each side has under it.
pub type DifferentField = (String, Option<Vec<u8>>, Option<Vec<u8>>);

/// How a header is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Not,
    Exact,
    /// Lists whose order and case mean nothing.
    Set,
    /// Names and attributes without values.
    Cookies,
    /// Whether there is one, and whether it is weak: what it says is each server's own.
    Tag,
    /// How long after the answer.
    Expiry,
    /// Where it leads: what leads to the server itself may be said in many ways.
    Place,
}

impl Rules {
    fn manner(&self, name: &str) -> Manner {
        if !self.only.is_empty() && !self.only.contains(name) {
            return Manner::Not;
        }
        if self.exact.contains(name) {
            return Manner::Exact;
        }
        let is_wanted = self.only.contains(name);
        if !is_wanted && (self.ignored.contains(name) || HEADERS_IGNORED.contains(&name)) {
            return Manner::Not;
        }
        match name {
            "access-control-allow-headers" | "access-control-allow-methods" | "allow" | "vary" => Manner::Set,
            "set-cookie" => Manner::Cookies,
            "etag" => Manner::Tag,
            "expires" => Manner::Expiry,
            "location" | "content-location" => Manner::Place,
            _ => Manner::Exact,
        }
    }

    /// Headers that differ: the name, and what each side has.
    pub fn differing(&self, asked: Asked<'_>, old: &Answer, new: &Answer, origins: &Origins) -> Vec<DifferentField> {
        let (olds, news) = (by_name(&old.headers), by_name(&new.headers));
        let names: BTreeSet<&String> = olds.keys().chain(news.keys()).collect();
        let mut differing = Vec::new();
        for name in names {
            let manner = self.manner(name);
            let (of_old, of_new) = (olds.get(name), news.get(name));
            let form = |values: Option<&Vec<Vec<u8>>>, answer: &Answer, origin: &str| {
                values.map(|values| form_of(manner, values, answer, origin, asked))
            };
            let (old_form, new_form) = (form(of_old, old, &origins.old), form(of_new, new, &origins.new));
            if manner != Manner::Not && !are_alike(old_form.as_ref(), new_form.as_ref()) {
                differing.push((
                    name.clone(),
                    of_old.map(|values| shown(manner, values)),
                    of_new.map(|values| shown(manner, values)),
                ));
            }
        }
        differing
    }

    /// Trailers, all of them letter by letter.
    pub fn differing_trailers(&self, old: &Answer, new: &Answer) -> Vec<DifferentField> {
        let (olds, news) = (by_name(&old.trailers), by_name(&new.trailers));
        let names: BTreeSet<&String> = olds.keys().chain(news.keys()).collect();
        let is_wanted = |name: &&&String| self.manner(name) != Manner::Not && olds.get(**name) != news.get(**name);
        let value = |values: Option<&Vec<Vec<u8>>>| values.map(|values| values.join(&b", "[..]));
        names.iter().filter(is_wanted).map(|name| ((*name).clone(), value(olds.get(*name)), value(news.get(*name)))).collect()
    }
}

fn by_name(fields: &[(String, Vec<u8>)]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut named: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, value) in fields {
        named.entry(name.to_ascii_lowercase()).or_default().push(value.clone());
    }
    named
}

/// What is compared in place of the values.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    Text(Vec<u8>),
    Words(BTreeSet<Vec<u8>>),
    Seconds(i64),
}

/// Two servers that take turns answer a moment apart.
const SECONDS_APART_MAX: i64 = 2;

fn are_alike(old: Option<&Form>, new: Option<&Form>) -> bool {
    match (old, new) {
        (Some(Form::Seconds(old)), Some(Form::Seconds(new))) => (old - new).abs() <= SECONDS_APART_MAX,
        (old, new) => old == new,
    }
}

fn form_of(manner: Manner, values: &[Vec<u8>], answer: &Answer, origin: &str, asked: Asked<'_>) -> Form {
    let joined = || values.join(&b", "[..]);
    match manner {
        Manner::Not | Manner::Exact => Form::Text(joined()),
        Manner::Set => {
            let words = values.iter().flat_map(|value| value.split(|byte| *byte == b','));
            Form::Words(words.map(|word| word.trim_ascii().to_ascii_lowercase()).filter(|word| !word.is_empty()).collect())
        }
        Manner::Cookies => Form::Words(values.iter().map(|value| cookie_form(value)).collect()),
        Manner::Tag => Form::Text(if joined().starts_with(b"W/") { b"weak".to_vec() } else { b"strong".to_vec() }),
        Manner::Expiry => expiry(&joined(), answer).map_or_else(|| Form::Text(joined()), Form::Seconds),
        Manner::Place => Form::Text(place_form(&joined(), origin, asked)),
    }
}

/// What is shown: never the value of a cookie, which may let somebody in.
fn shown(manner: Manner, values: &[Vec<u8>]) -> Vec<u8> {
    match manner {
        Manner::Cookies => values.iter().map(|value| cookie_form(value)).collect::<Vec<_>>().join(&b", "[..]),
        Manner::Not | Manner::Exact | Manner::Set | Manner::Tag | Manner::Expiry | Manner::Place => values.join(&b", "[..]),
    }
}

/// `session=abc; Path=/; Expires=…` is `session=*; expires=*; path=/`.
fn cookie_form(value: &[u8]) -> Vec<u8> {
    let mut parts = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().and_then(|pair| pair.split(|byte| *byte == b'=').next()).unwrap_or_default();
    let mut attributes: Vec<Vec<u8>> = parts.map(attribute_form).collect();
    attributes.sort();
    let mut form = [name, b"=*"].concat();
    for attribute in attributes {
        form.extend_from_slice(b"; ");
        form.extend_from_slice(&attribute);
    }
    form
}

fn attribute_form(attribute: &[u8]) -> Vec<u8> {
    let mut halves = attribute.splitn(2, |byte| *byte == b'=');
    let name = halves.next().unwrap_or_default().to_ascii_lowercase();
    match halves.next() {
        Some(_) if name == b"expires" => b"expires=*".to_vec(),
        Some(value) => [&name, &b"="[..], value].concat(),
        None => name,
    }
}

/// Seconds from the answer on; what is long past is as past as what is just past.
fn expiry(value: &[u8], answer: &Answer) -> Option<i64> {
    let seconds = |value: &[u8]| {
        let moment = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
        i64::try_from(moment.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()).ok()
    };
    let (expires, date) = (seconds(value)?, seconds(answer.header("date")?)?);
    Some((expires - date).max(-1))
}

/// What a request was for: a redirect is read from there.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub host: &'a [u8],
    pub target: &'a [u8],
}

/// A redirect to the server itself is the same for both, however it is said: by its path, from the path of the request
/// on, by the address that was asked, or by the host that the request was for, with the port of either.
fn place_form(value: &[u8], origin: &str, asked: Asked<'_>) -> Vec<u8> {
    let itself = |rest: &[u8]| [b"{itself}", rest].concat();
    if value.starts_with(b"/") && !value.starts_with(b"//") {
        return itself(value);
    }
    if is_relative(value) {
        return itself(&joined(asked.target, value));
    }
    let (Some(place), Some(origin)) = (Url::of(value), Url::of(origin.as_bytes())) else { return value.to_vec() };
    let asked = Url::with_authority(origin.scheme, asked.host, b"");
    let is_named = [origin.host, asked.host].iter().any(|known| known.eq_ignore_ascii_case(place.host));
    let is_there = [origin.port(), asked.port()].contains(&place.port());
    if !place.scheme.eq_ignore_ascii_case(origin.scheme) || !is_named || !is_there {
        return value.to_vec();
    }
    if place.rest.starts_with(b"/") { itself(place.rest) } else { itself(&[b"/", place.rest].concat()) }
}

/// A path that does not begin with a slash: a scheme would have a colon in its first segment.
fn is_relative(value: &[u8]) -> bool {
    let first = value.split(|byte| matches!(byte, b'/' | b'?' | b'#')).next().unwrap_or_default();
    !first.is_empty() && !first.contains(&b':') && !value.starts_with(b"?")
}

/// A relative path from the folder of the target on (RFC 3986 section 5.2.3), with dots at its beginning resolved.
fn joined(target: &[u8], relative: &[u8]) -> Vec<u8> {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let mut folder = path.iter().rposition(|byte| *byte == b'/').map_or(&b"/"[..], |at| &path[..=at]);
    let mut rest = relative;
    loop {
        if let Some(after) = rest.strip_prefix(b"./") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix(b"../") {
            rest = after;
            let above = folder.strip_suffix(b"/").unwrap_or(folder);
            folder = above.iter().rposition(|byte| *byte == b'/').map_or(&b"/"[..], |at| &above[..=at]);
        } else {
            return [folder, rest].concat();
        }
    }
}

/// The parts of an absolute URL.
struct Url<'u> {
    scheme: &'u [u8],
    host: &'u [u8],
    /// Empty where none is written.
    port: &'u [u8],
    rest: &'u [u8],
}

impl<'u> Url<'u> {
    fn of(text: &'u [u8]) -> Option<Url<'u>> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        let behind = text[colon..].strip_prefix(b"://")?;
        let end = behind.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(behind.len());
        Some(Url::with_authority(&text[..colon], &behind[..end], &behind[end..]))
    }

    fn with_authority(scheme: &'u [u8], authority: &'u [u8], rest: &'u [u8]) -> Url<'u> {
        // The colons of an IPv6 address stand within brackets.
        let bracket = authority.iter().rposition(|byte| *byte == b']').unwrap_or(0);
        let colon = authority[bracket..].iter().position(|byte| *byte == b':').map(|at| bracket + at);
        let (host, port) = colon.map_or((authority, &b""[..]), |at| (&authority[..at], &authority[at + 1..]));
        let host = host.strip_suffix(b".").unwrap_or(host);
        Url { scheme, host, port, rest }
    }

    fn port(&self) -> &[u8] {
        match self.port {
            b"" if self.scheme.eq_ignore_ascii_case(b"https") => b"443",
            b"" => b"80",
            port => port,
        }
    }
}
