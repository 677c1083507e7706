//! The variables of nginx, and what they are called here. One table, which `docs/from-nginx.md` shows as well.

use super::request_uris::ASKED;
use super::tables::Tables;
use crate::texts::literal;

/// A variable, and the placeholder that has the same.
pub const VARIABLES: &[(&str, &str)] = &[
    ("host", "{host}"),
    ("http_host", "{host}"),
    ("scheme", "{scheme}"),
    ("request_uri", ASKED),
    ("uri", "{path}"),
    ("document_uri", "{path}"),
    ("args", "{query}"),
    ("query_string", "{query}"),
    ("request_method", "{method}"),
    ("remote_addr", "{client.ip}"),
    ("binary_remote_addr", "{client.ip}"),
    ("realip_remote_addr", "{client.ip}"),
    ("proxy_protocol_addr", "{client.ip}"),
    ("remote_port", "{client.port}"),
    ("remote_user", "{auth.user}"),
    ("request_id", "{request.id}"),
    ("ssl_protocol", "{tls.version}"),
    ("ssl_server_name", "{tls.sni}"),
    ("ssl_client_s_dn", "{tls.client.subject}"),
    ("ssl_client_i_dn", "{tls.client.issuer}"),
    ("ssl_client_serial", "{tls.client.serial}"),
    ("geoip_country_code", "{geo.country}"),
    ("geoip2_data_country_code", "{geo.country}"),
    ("geoip2_data_country_iso_code", "{geo.country}"),
    ("geoip_city", "{geo.city}"),
    ("geoip_city_continent_code", "{geo.continent}"),
    ("proxy_add_x_forwarded_for", "{client.ip}"),
];

/// Variables that there are only when there is an answer.
const OF_ANSWERS: &[(&str, &str)] = &[("upstream_addr", "{upstream.address}")];

/// Variables that only lines of the log have.
pub const OF_LOGS: &[(&str, &str)] = &[
    ("status", "{status}"),
    ("body_bytes_sent", "{response_bytes}"),
    ("bytes_sent", "{response_bytes}"),
    ("time_iso8601", "{time}"),
    ("time_local", "{time}"),
    ("server_protocol", "{protocol}"),
    ("request", "{method} {uri} {protocol}"),
    ("server_name", "{site}"),
    ("upstream_status", "{upstream_status}"),
    ("http_x_forwarded_for", "{request.header.X-Forwarded-For}"),
];

/// What stands for a variable with the cookies of an auth server's answer, which clients get without a line.
pub const COOKIES_OF_ANSWER: &str = "\u{1}cookies";

/// Where a text is used, which decides what is known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Request,
    Response,
}

/// What variables are worth in a block.
#[derive(Debug, Clone, Default)]
pub struct Values<'s> {
    /// What `set` makes of them, the last of a name first.
    pub set: Vec<(&'s str, &'s str, usize)>,
    /// The first name of the server, its port and its folder.
    pub server_name: Option<String>,
    pub server_port: Option<u16>,
    pub document_root: Option<String>,
    /// What groups of an expression are called here.
    pub captures: Vec<(String, String)>,
}

/// Values that name one another grow no further.
const TEXT_BYTES_MAX: usize = 4096;
/// How deep values may name variables themselves.
const DEPTH_MAX: usize = 4;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart<'t> {
    Plain(&'t str),
    /// Without its `$`.
    Variable(&'t str),
}

/// A text in its plain parts and variables.
pub fn parts(text: &str) -> Vec<TextPart<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        let behind = &rest[dollar + 1..];
        let (name, length) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => {
                let is_number = behind.starts_with(|c: char| c.is_ascii_digit());
                let end = |c: char| if is_number { !c.is_ascii_digit() } else { !(c.is_ascii_alphanumeric() || c == '_') };
                let length = if is_number { 1 } else { behind.find(end).unwrap_or(behind.len()) };
                (&behind[..length], length)
            }
        };
        if name.is_empty() {
            found.push(TextPart::Plain(&rest[..=dollar]));
            rest = behind;
            continue;
        }
        if dollar > 0 {
            found.push(TextPart::Plain(&rest[..dollar]));
        }
        found.push(TextPart::Variable(name));
        rest = &behind[length..];
    }
    if !rest.is_empty() {
        found.push(TextPart::Plain(rest));
    }
    found
}

/// Whether a text names that variable.
pub fn names(text: &str, variable: &str) -> bool {
    parts(text).contains(&TextPart::Variable(variable))
}

impl Values<'_> {
    /// The text with what `set` and the server itself say in the place of variables.
    pub fn filled(&self, text: &str, used: &mut Vec<usize>) -> String {
        self.filled_deep(text, used, 0)
    }

    fn filled_deep(&self, text: &str, used: &mut Vec<usize>, depth: usize) -> String {
        let mut out = String::new();
        for part in parts(text) {
            if out.len() > TEXT_BYTES_MAX {
                return out;
            }
            match part {
                TextPart::Plain(plain) => out.push_str(plain),
                TextPart::Variable(name) => {
                    let own = self.set.iter().rev().find(|(known, ..)| *known == name);
                    match (own, name) {
                        (Some((_, value, at)), _) if depth < DEPTH_MAX => {
                            used.push(*at);
                            out.push_str(&self.filled_deep(value, used, depth + 1));
                        }
                        (None, "document_root" | "realpath_root") if self.document_root.is_some() => {
                            out.push_str(self.document_root.as_deref().unwrap_or_default());
                        }
                        _ => out.push_str(&format!("${{{name}}}")),
                    }
                }
            }
        }
        out
    }

    /// A template of ours that has the same; `None` where a variable has no name here.
    pub fn template(&self, text: &str, moment: Moment, tables: &Tables<'_>, used: &mut Vec<usize>) -> Option<String> {
        let text = self.filled(text, used);
        let mut out = String::new();
        let parts = parts(&text);
        let mut index = 0;
        while let Some(part) = parts.get(index) {
            index += 1;
            match part {
                TextPart::Plain(plain) => out.push_str(&literal(plain)),
                TextPart::Variable("uri" | "document_uri") if is_query(&parts[index..]) => {
                    out.push_str("{uri}");
                    index += 2;
                }
                TextPart::Variable(name) => out.push_str(&self.placeholder(name, moment, tables)?),
            }
        }
        Some(out)
    }

    fn placeholder(&self, name: &str, moment: Moment, tables: &Tables<'_>) -> Option<String> {
        if let Some((_, ours)) = self.captures.iter().find(|(known, _)| known == name) {
            return Some(ours.clone());
        }
        if let Some(ours) = tables.placeholder(name) {
            return Some(ours);
        }
        if let Some((_, ours)) = VARIABLES.iter().find(|(known, _)| *known == name) {
            return Some((*ours).to_owned());
        }
        match name {
            "server_name" => return self.server_name.as_deref().map(literal),
            "server_port" => return self.server_port.map(|port| port.to_string()),
            _ => {}
        }
        if let Some(cookie) = name.strip_prefix("cookie_") {
            return Some(format!("{{cookie.{cookie}}}"));
        }
        if let Some(field) = name.strip_prefix("http_") {
            return Some(format!("{{request.header.{}}}", field_name(field)));
        }
        if moment == Moment::Request {
            return None;
        }
        let of_answer = name.strip_prefix("sent_http_").or_else(|| name.strip_prefix("upstream_http_"));
        if let Some(field) = of_answer {
            return Some(format!("{{response.header.{}}}", field_name(field)));
        }
        OF_ANSWERS.iter().find(|(known, _)| *known == name).map(|(_, ours)| (*ours).to_owned())
    }
}

/// Whether the path goes on with its query.
fn is_query(parts: &[TextPart<'_>]) -> bool {
    matches!(parts, [TextPart::Variable("is_args"), TextPart::Variable("args" | "query_string"), ..])
}

/// `x_api_key` as `X-Api-Key`.
pub fn field_name(variable: &str) -> String {
    let words = variable.split('_').map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::{Moment, TextPart, Values, field_name, parts};
    use crate::nginx::tables::Tables;

    #[test]
    fn a_text_is_its_plain_parts_and_variables() {
        use TextPart::{Plain, Variable};
        let check = |text: &str, expected: &[TextPart<'_>]| assert_eq!(parts(text), expected, "for {text}");
        check("a$b", &[Plain("a"), Variable("b")]);
        check("${a}b", &[Variable("a"), Plain("b")]);
        check("/$1x$12", &[Plain("/"), Variable("1"), Plain("x"), Variable("1"), Plain("2")]);
        check("5$ ${", &[Plain("5$"), Plain(" $"), Plain("{")]);
    }

    #[test]
    fn variables_become_placeholders() {
        let values =
            Values { set: vec![("to", "https://$host", 3)], server_name: Some("shop.example.com".into()), ..Values::default() };
        let check = |text: &str, expected: Option<&str>| {
            let seen = values.template(text, Moment::Request, &Tables::default(), &mut Vec::new());
            assert_eq!(seen.as_deref(), expected, "for {text}");
        };
        check("https://$host$request_uri", Some("https://{host}{asked.uri}"));
        check("$to/a", Some("https://{host}/a"));
        check("$uri$is_args$args", Some("{uri}"));
        check("$http_x_api_key-$cookie_id", Some("{request.header.X-Api-Key}-{cookie.id}"));
        check("$server_name {x}", Some("shop.example.com {{x}}"));
        check("$request_body", None);
        check("$sent_http_etag", None);
        assert_eq!(field_name("x_forwarded_for"), "X-Forwarded-For");
    }
}
