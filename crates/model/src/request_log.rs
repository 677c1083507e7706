//! `log` in a site or a route: which of its requests have a line in the access log, and what of their own stands there.
//! Where lines go and what they look like is the process's, in `process`.

use crate::placeholder::Template;
use crate::traffic::Sample;

/// What is `None` is as the site says, and without it: every request has a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteLog {
    pub is_on: Option<bool>,
    /// Part of the requests that have a line; those that failed have one always.
    pub sample: Option<Sample>,
    /// In the order written. Names are unique.
    pub fields: Vec<RouteLogField>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteLogField {
    pub name: String,
    pub value: Template,
}

impl RouteLog {
    /// Of a site and of a route, each.
    pub const FIELDS_MAX: usize = 16;
    pub const NAME_BYTES_MAX: usize = 64;

    /// These settings, and where `inner` says something, that: a route's words count before its site's. Fields of both
    /// are there.
    pub fn and(mut self, inner: &RouteLog) -> RouteLog {
        self.is_on = inner.is_on.or(self.is_on);
        self.sample = inner.sample.or(self.sample);
        for field in &inner.fields {
            match self.fields.iter_mut().find(|known| known.name == field.name) {
                Some(known) => known.value = field.value.clone(),
                None => self.fields.push(field.clone()),
            }
        }
        self
    }
}

/// Keys of a line's JSON form, which no field of a route can have.
pub const LINE_KEYS: [&str; 42] = [
    "time",
    "request_id",
    "trace_id",
    "client_ip",
    "client_port",
    "user",
    "site",
    "route",
    "origin",
    "method",
    "scheme",
    "host",
    "path",
    "query",
    "protocol",
    "status",
    "request_bytes",
    "response_bytes",
    "duration_us",
    "pool",
    "arm",
    "upstream",
    "upstream_status",
    "upstream_protocol",
    "queue_us",
    "upstream_connect_us",
    "upstream_tls_us",
    "upstream_first_byte_us",
    "upstream_body_us",
    "upstream_reused",
    "retries",
    "cache",
    "tls_version",
    "tls_cipher",
    "tls_sni",
    "tls_resumed",
    "referer",
    "user_agent",
    "reason",
    "setting",
    // Of lines that are not requests, in logs that are read together.
    "level",
    "message",
];

#[cfg(test)]
mod tests {
    use super::{RouteLog, RouteLogField};
    use crate::placeholder::Template;
    use crate::traffic::Sample;

    #[test]
    fn the_innermost_word_counts_and_fields_of_both_are_there() {
        let field = |name: &str, value: &str| RouteLogField { name: name.into(), value: Template::literal(value) };
        let one = Sample::from_millionths(1);
        let site = RouteLog { is_on: Some(false), sample: Some(one), fields: vec![field("a", "1"), field("b", "1")] };
        let route = RouteLog { is_on: Some(true), sample: None, fields: vec![field("b", "2"), field("c", "2")] };
        let expected =
            RouteLog { is_on: Some(true), sample: Some(one), fields: vec![field("a", "1"), field("b", "2"), field("c", "2")] };
        assert_eq!(site.and(&route), expected);
    }
}
