//! What handlers have changed of a request beside its path, as matchers behind them see it: conditions of ours look at
//! what clients send. What a field is set to is known where it is said of all requests, and nothing else is.

use crate::matching::{Asked, AskedLiteral, Matching};
use crate::texts::fits;
use std::collections::BTreeMap;

pub const CHANGED: &str = "it asks for what a line before it has changed, and routes are chosen by what the client has sent: say by `match` in a \
                           `route` which clients those are";

/// What is known of a changed field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldValue {
    Absent,
    Is(String),
    Unknown,
}

#[derive(Debug, Clone, Default)]
pub struct ChangedRequest {
    /// By names in lower case.
    fields: BTreeMap<String, FieldValue>,
    is_query: bool,
}

impl ChangedRequest {
    /// Notes a line of ours; `is_always` is whether it is done for all requests that come there.
    pub fn note(&mut self, line: &str, is_always: bool) {
        if let Some(rest) = line.strip_prefix("request-header ") {
            let (name, value) = changed_field(rest);
            self.fields.insert(name.to_ascii_lowercase(), if is_always { value } else { FieldValue::Unknown });
        } else if line.starts_with("forward-auth ") {
            let copied = line.split("copy ").nth(1).unwrap_or_default().split([';', '}']).next().unwrap_or_default();
            for name in copied.split('"').skip(1).step_by(2) {
                self.fields.insert(name.to_ascii_lowercase(), FieldValue::Unknown);
            }
        }
    }

    /// Notes a new path, which may have a query.
    pub fn note_path(&mut self, line: &str) {
        self.is_query |= line.starts_with("rewrite ") && line.contains('?');
    }

    /// What clients have to send so that this holds here; `None` where it cannot be said.
    pub fn seen(&self, matching: &Matching) -> Option<Matching> {
        if self.fields.is_empty() && !self.is_query {
            return Some(matching.clone());
        }
        matching.replaced(|literal| self.literal(literal))
    }

    fn literal(&self, literal: &AskedLiteral) -> Option<Matching> {
        let as_it_is = || Matching { clauses: vec![vec![literal.clone()]] };
        let is_host_changed = self.fields.contains_key("host");
        let text = match &literal.asked {
            Asked::Paths(_) => return Some(as_it_is()),
            Asked::Hosts(_) => return (!is_host_changed).then(as_it_is),
            Asked::Condition(text) => text,
        };
        if (text.starts_with("query=") && self.is_query) || (text.starts_with("host=") && is_host_changed) {
            return None;
        }
        let Some(field) = text.strip_prefix("header=\"").and_then(|rest| rest.strip_suffix('"')) else {
            return Some(as_it_is());
        };
        let field = field.replace("\\\"", "\"").replace("\\\\", "\\");
        let (name, pattern) =
            field.split_once(':').map_or((field.as_str(), None), |(name, value)| (name, Some(value.trim_start())));
        let holds = match (self.fields.get(&name.to_ascii_lowercase()), pattern) {
            (None, _) => return Some(as_it_is()),
            (Some(FieldValue::Unknown), _) => return None,
            (Some(FieldValue::Absent), _) => false,
            (Some(FieldValue::Is(_)), None) => true,
            (Some(FieldValue::Is(value)), Some(pattern)) => takes(pattern, value),
        };
        Some(if holds == literal.is_negated { Matching::never() } else { Matching::always() })
    }
}

/// The name and what becomes of it: `remove="X"`, `add="X: y"`, `"X" "y"`.
fn changed_field(rest: &str) -> (&str, FieldValue) {
    let quoted: Vec<&str> = rest.split('"').skip(1).step_by(2).collect();
    let first = quoted.first().copied().unwrap_or_default();
    let (name, behind) = first.split_once(": ").map_or((first, None), |(name, value)| (name, Some(value)));
    let literal = |value: &str| {
        let is_literal = !value.contains(['{', '\\']) && rest.matches('"').count() == quoted.len() * 2;
        if is_literal { FieldValue::Is(value.to_owned()) } else { FieldValue::Unknown }
    };
    let value = match rest.split(['=', '"']).next().unwrap_or_default() {
        "remove" => FieldValue::Absent,
        "set" => behind.map_or(FieldValue::Unknown, literal),
        "" => quoted.get(1).map_or(FieldValue::Unknown, |value| literal(value)),
        _ => FieldValue::Unknown,
    };
    (name, value)
}

/// Whether a value is one that the pattern takes.
fn takes(pattern: &str, value: &str) -> bool {
    match (pattern.strip_prefix('~'), pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(regex), ..) => fits(regex, value),
        (None, Some(end), _) => value.ends_with(end),
        (None, None, Some(start)) => value.starts_with(start),
        (None, None, None) => value == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::ChangedRequest;
    use crate::matching::Matching;

    #[test]
    fn fields_are_asked_for_as_they_are_then() {
        let mut changed = ChangedRequest::default();
        changed.note("request-header \"X-Role\" \"admin\"", true);
        changed.note("request-header remove=\"X-Gone\"", true);
        changed.note("request-header set=\"X-Of: {client.ip}\"", true);
        changed.note("request-header \"X-Some\" \"a\" { match method=\"GET\"; }", false);
        changed.note("forward-auth \"http://a\" { copy \"Remote-User\" \"Remote-Groups\"; tls verify=#false; }", true);
        changed.note("request-header add=\"X-More: b\"", true);
        let check = |text: &str, expected: Option<bool>| {
            let seen = changed.seen(&Matching::condition(text));
            assert_eq!(seen.map(|seen| (seen.is_always(), seen.is_never())), expected.map(|holds| (holds, !holds)), "{text}");
        };
        check("header=\"x-role: admin\"", Some(true));
        check("header=\"X-Role: a*\"", Some(true));
        check("header=\"X-Role: ~^b\"", Some(false));
        check("header=\"X-Gone\"", Some(false));
        for unknown in ["X-Of", "X-Some: a", "Remote-Groups: admins", "X-More"] {
            check(&format!("header=\"{unknown}\""), None);
        }
        let other = Matching::condition("header=\"X-Other\"");
        assert_eq!(changed.seen(&other), Some(other));
    }
}
