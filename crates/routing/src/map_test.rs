//! Conditions on what a `map` has for a request, and the key that is looked up for it: from what is known when a route
//! is looked for. What steps find out later is no part of such a key; `config` refuses it.

use crate::client_certificate::client_certificate_text;
use crate::condition::RequestFacts;
use crate::cookie::cookie_value;
use crate::text_test::TextTest;
use std::io::Write;
use tidegate_model::{Field, Placeholder, Template, TemplatePart};
use tidegate_tables::Value;

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
            push_key(map.key(), facts, &mut key);
            match &self.value {
                TextTest::Present => map.find(&key).is_some(),
                pattern => match map.value_of(&key) {
                    Some(Value::Text(text)) => pattern.fits(text.as_bytes()),
                    Some(filled @ Value::Filled(_)) => {
                        let mut text = Vec::new();
                        filled.each_part(&key, |part, _| text.extend_from_slice(part));
                        pattern.fits(&text)
                    }
                    None => false,
                },
            }
        })
    }
}

/// As templates render it, of what is known by now.
fn push_key(key: &Template, facts: &RequestFacts<'_>, out: &mut Vec<u8>) {
    let head = facts.head;
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
            Placeholder::Uri => {
                out.extend_from_slice(facts.path);
                if let Some(query) = facts.query {
                    out.push(b'?');
                    out.extend_from_slice(query);
                }
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
                let between: &[u8] = if name == "cookie" { b"; " } else { b", " };
                for (position, value) in head.fields.all_named(name.as_bytes()).enumerate() {
                    out.extend_from_slice(if position > 0 { between } else { b"" });
                    out.extend_from_slice(value);
                }
            }
            Placeholder::RequestCookie(name) => {
                out.extend_from_slice(cookie_value(&head.fields, name.as_bytes()).unwrap_or_default());
            }
            Placeholder::ClientPort
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
