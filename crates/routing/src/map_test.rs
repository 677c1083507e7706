//! Conditions on what a `map` has for a request, and the key that is looked up for it: from what is known when a route
//! is looked for. What steps find out later is no part of such a key; `config` refuses it.

use crate::client_certificate::client_certificate_text;
use crate::condition::RequestFacts;
use crate::cookie::cookie_values;
use crate::text_test::TextTest;
use std::io::Write;
use tidegate_model::{Field, Placeholder, Template, TemplatePart};
use tidegate_tables::{Map, Value};

/// Keys that are looked up for one condition: two fields of a head can be as many, three cannot be had in their place.
const KEYS_MAX: usize = 4096;

/// `map="blocked"`, or `map="tier=gold*"`.
#[derive(Debug)]
pub struct MapTest {
    name: Box<str>,
    value: TextTest,
}

impl MapTest {
    /// Fails only on a regular expression that does not compile, which `config` refuses before.
    pub fn new(field: &Field) -> Result<MapTest, regex::Error> {
        Ok(MapTest { name: field.name.as_str().into(), value: TextTest::new(&field.value)? })
    }

    /// Without a pattern there has to be a row of the key; with one, the value has to fit, which may be that of all
    /// other keys.
    pub fn holds(&self, facts: &RequestFacts<'_>) -> bool {
        facts.maps.see(&self.name, |map| {
            let Some(map) = map else { return false };
            let mut key = Vec::new();
            push_key(map.key(), facts, None, &mut key);
            self.fits(map, &key) || self.fits_one_of_several(map, facts, &mut key)
        })
    }

    fn fits(&self, map: &Map, key: &[u8]) -> bool {
        match &self.value {
            TextTest::Present => map.find(key).is_some(),
            pattern => match map.value_of(key) {
                Some(Value::Text(text)) => pattern.fits(text.as_bytes()),
                Some(filled @ Value::Filled(_)) => {
                    let mut text = Vec::new();
                    filled.each_part(key, |part, _| text.extend_from_slice(part));
                    pattern.fits(&text)
                }
                None => false,
            },
        }
    }

    /// A field or a cookie that a client sends several times is each of its values, as it is for `header=` and
    /// `cookie=`: else somebody would get past a `deny` by a second one.
    fn fits_one_of_several(&self, map: &Map, facts: &RequestFacts<'_>, key: &mut Vec<u8>) -> bool {
        let parts = || map.key().parts.iter().filter_map(|part| count_of_values(part, facts));
        if parts().all(|count| count <= 1) {
            return false;
        }
        let counts: Vec<usize> = parts().map(|count| count.max(1)).collect();
        let all = counts.iter().fold(1, |all: usize, count| all.saturating_mul(*count));
        let mut chosen = vec![0; counts.len()];
        for _ in 0..all.min(KEYS_MAX) {
            key.clear();
            push_key(map.key(), facts, Some(&chosen), key);
            if self.fits(map, key) {
                return true;
            }
            for (chosen, count) in chosen.iter_mut().zip(&counts) {
                *chosen += 1;
                if *chosen < *count {
                    break;
                }
                *chosen = 0;
            }
        }
        false
    }
}

/// How often a field or a cookie of a key stands in the request; `None` for all that stands once.
fn count_of_values(part: &TemplatePart, facts: &RequestFacts<'_>) -> Option<usize> {
    let fields = &facts.head.fields;
    if let TemplatePart::Placeholder(Placeholder::RequestCookie(name)) = part {
        return Some(cookie_values(fields, name.as_bytes()).count());
    }
    let TemplatePart::Placeholder(Placeholder::RequestHeader(name)) = part else { return None };
    (name != "upgrade").then(|| fields.all_named(name.as_bytes()).count())
}

/// As templates render it, of what is known by now. `chosen`: which value each field and cookie has, in their order;
/// else fields have all of theirs, and cookies the first.
fn push_key(key: &Template, facts: &RequestFacts<'_>, chosen: Option<&[usize]>, out: &mut Vec<u8>) {
    let head = facts.head;
    let mut chosen = chosen.map(|chosen| chosen.iter().copied());
    let mut next = || chosen.as_mut().map(|chosen| chosen.next().unwrap_or_default());
    for part in &key.parts {
        let placeholder = match part {
            TemplatePart::Literal(text) => {
                out.extend_from_slice(text.as_bytes());
                continue;
            }
            TemplatePart::Capture(_) => continue,
            TemplatePart::Placeholder(placeholder) => placeholder,
        };
        match placeholder {
            Placeholder::Host => push_host(head.authority(), out),
            Placeholder::Path => out.extend_from_slice(facts.path),
            Placeholder::Query => out.extend_from_slice(facts.query.unwrap_or_default()),
            Placeholder::QuerySuffix => push_query(facts.query, out),
            Placeholder::Uri | Placeholder::AskedUri => {
                out.extend_from_slice(facts.path);
                push_query(facts.query, out);
            }
            Placeholder::Method => out.extend_from_slice(head.method_name()),
            Placeholder::Scheme => out.extend_from_slice(facts.scheme.as_str().as_bytes()),
            Placeholder::ClientIp => write!(out, "{}", facts.client_ip.to_canonical()).expect("a Vec takes every write"),
            Placeholder::TlsClient(field) => {
                out.extend_from_slice(client_certificate_text(facts.client_certificate, *field).as_bytes());
            }
            Placeholder::Geo(field) => facts.geo.see(facts.client_ip, *field, |text| out.extend_from_slice(text.as_bytes())),
            Placeholder::RequestHeader(name) if name == "upgrade" => out.extend_from_slice(facts.upgrade.unwrap_or_default()),
            Placeholder::RequestHeader(name) => {
                let mut values = head.fields.all_named(name.as_bytes());
                if let Some(position) = next() {
                    out.extend_from_slice(values.nth(position).unwrap_or_default());
                    continue;
                }
                let between: &[u8] = if name == "cookie" { b"; " } else { b", " };
                for (position, value) in values.enumerate() {
                    out.extend_from_slice(if position > 0 { between } else { b"" });
                    out.extend_from_slice(value);
                }
            }
            Placeholder::RequestCookie(name) => {
                let mut values = cookie_values(&head.fields, name.as_bytes());
                out.extend_from_slice(values.nth(next().unwrap_or_default()).unwrap_or_default());
            }
            Placeholder::RequestQuery(_)
            | Placeholder::AskedUriEscaped
            | Placeholder::Port
            | Placeholder::ForwardedFor
            | Placeholder::ClientPort
            | Placeholder::ProxyAuthority
            | Placeholder::ProxyUniqueId
            | Placeholder::JwtClaim(_)
            | Placeholder::TlsSni
            | Placeholder::TlsVersion
            | Placeholder::TlsJa4
            | Placeholder::ResponseHeader(_)
            | Placeholder::UpstreamAddress
            | Placeholder::RequestId
            | Placeholder::AuthUser
            | Placeholder::TimeUnixMs
            | Placeholder::Map(_)
            | Placeholder::StatusText
            | Placeholder::LogOwn(_)
            | Placeholder::Log(_) => {}
        }
    }
}

/// With its question mark.
fn push_query(query: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// The host of an authority in the one spelling that sites are found by.
fn push_host(authority: &[u8], out: &mut Vec<u8>) {
    let host = host_of(authority);
    out.extend(host.strip_suffix(b".").unwrap_or(host).iter().map(u8::to_ascii_lowercase));
}

/// The host of an authority as a URL needs it: an IPv6 address keeps its brackets.
pub fn host_of(authority: &[u8]) -> &[u8] {
    let end = if authority.first() == Some(&b'[') {
        authority.iter().position(|byte| *byte == b']').map(|bracket| bracket + 1)
    } else {
        authority.iter().position(|byte| *byte == b':')
    };
    &authority[..end.unwrap_or(authority.len())]
}
