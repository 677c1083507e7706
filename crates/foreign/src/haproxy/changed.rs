//! What rules of HAProxy have changed in front of others, so that conditions behind them look at something else than
//! the request as the client has sent it; and what servers of ours never see as it is there.

use super::conditions::{Condition, Test};
use super::doors;
use super::lexer::{HaProxyLine, Section, Sections};
use std::collections::BTreeSet;
use tidegate_model::is_of_framing;

/// What rules before have changed.
#[derive(Debug, Clone, Default)]
pub struct Changed {
    pub is_path: bool,
    fields: BTreeSet<String>,
    /// Why the client's address is another one than what lines of ours ask for.
    source: Option<&'static str>,
    /// Cookies by which clients stay with their servers.
    cookies: BTreeSet<String>,
}

const CHANGED: &str = "it looks at what a line before it has changed, and routes are chosen by what the client has asked for";
const SOURCE_CHANGED: &str = "it asks for an address that `set-src` has taken from a field, and `set-src` is not carried: `trusted-proxies` in a \
                              `listener` says whose `X-Forwarded-For` counts";
const SOURCE_OF_PEER: &str =
    "it asks for the address of the proxy in front, and behind `trusted-proxies` the one that it names is asked for";
const OF_STICKY: &str =
    "it asks which server a cookie names, and the cookie of `sticky` is signed and names none: a cookie of its own says it";

impl Changed {
    /// In front of all rules of a section that listens.
    pub fn of(section: &Section, sections: &Sections) -> Changed {
        let source = doors::believed(section).map(|_| SOURCE_OF_PEER);
        Changed { source, cookies: sections.cookies().clone(), ..Changed::default() }
    }

    pub fn note(&mut self, line: &HaProxyLine, section: &Section) {
        match (line.word(0), line.word(1)) {
            ("reqrep" | "reqirep", pattern) => match old_field(pattern) {
                Some(field) => {
                    self.fields.insert(field);
                }
                None => self.is_path = true,
            },
            ("http-request", "set-path" | "set-pathq" | "replace-path" | "replace-pathq" | "set-uri" | "replace-uri") => {
                self.is_path = true;
            }
            ("http-request", "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value") => {
                self.fields.insert(line.word(2).to_ascii_lowercase());
            }
            ("http-request" | "tcp-request", _) if doors::sets_source(line) => {
                let is_carried = doors::believed(section).is_some_and(|believed| believed.at == line.start());
                self.source = (!is_carried).then_some(SOURCE_CHANGED);
            }
            _ => {}
        }
    }

    /// All of it but for the path, which is as in the other.
    pub fn with_path_of(&self, other: &Changed) -> Changed {
        Changed { is_path: other.is_path, ..self.clone() }
    }

    /// Whether conditions behind the line see another path.
    pub fn changes_path(line: &HaProxyLine, section: &Section) -> bool {
        let mut changed = Changed::default();
        changed.note(line, section);
        changed.is_path
    }

    /// Why a text with the client's address in it is not what it is there.
    pub fn source(&self) -> Option<&'static str> {
        self.source
    }

    pub fn looked_at(&self, condition: Condition) -> Condition {
        match condition.tests().into_iter().find_map(|test| self.unlike(test)) {
            Some(why) => Condition::Test(Test::Unknown(why.to_owned())),
            None => condition,
        }
    }

    /// Why a test sees something else.
    fn unlike(&self, test: &Test) -> Option<&'static str> {
        match test {
            Test::Path(_) => self.is_path.then_some(CHANGED),
            Test::Host(_) => self.fields.contains("host").then_some(CHANGED),
            Test::Source(_) | Test::Rate(_) => self.source,
            Test::Written(text) | Test::Loose { text, .. } => {
                let field = text.strip_prefix("header=\"").and_then(|rest| rest.split([':', '"']).next());
                let is_field = field.is_some_and(|field| self.fields.contains(&field.to_ascii_lowercase()));
                if is_field || (self.fields.contains("cookie") && text.starts_with("cookie=")) {
                    return Some(CHANGED);
                }
                self.cookies.iter().any(|cookie| asks_for_server(text, cookie)).then_some(OF_STICKY)
            }
            Test::Sni(_)
            | Test::OverTls
            | Test::Port(_)
            | Test::Login(..)
            | Test::BodyBeyond(_)
            | Test::Status(_)
            | Test::Unknown(_) => None,
        }
    }
}

/// Whether a condition is about what stands in that cookie; that it is there at all is the same here.
fn asks_for_server(text: &str, cookie: &str) -> bool {
    if text.starts_with(&format!("cookie=\"{cookie}=")) {
        return true;
    }
    let is_of_field = text.get(..15).is_some_and(|start| start.eq_ignore_ascii_case("header=\"cookie:"));
    let text = text.replace("[ \\\\t]*", "");
    let value = is_of_field.then(|| text.split_once(&format!("{cookie}="))).flatten().map(|(_, value)| value);
    value.is_some_and(|value| value.starts_with(|c: char| !matches!(c, '"' | '*' | '.' | '$')))
}

/// `^Host:\ (.*)`: the field that an old line changes; none where it changes the line of the request.
fn old_field(pattern: &str) -> Option<String> {
    let name = pattern.trim_start_matches('^').split([':', '\\']).next().unwrap_or_default();
    let is_field = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_field && pattern.contains(':')).then(|| name.to_ascii_lowercase())
}

/// The field of requests that a line sets anew, for servers to believe.
pub fn field_set(line: &HaProxyLine) -> Option<String> {
    let name = line.word(2);
    let is_set = line.word(0) == "http-request" && matches!(line.word(1), "set-header" | "replace-header" | "replace-value");
    (is_set && !is_of_clients(name) && super::actions::is_field_name(name) && !is_of_framing(name)).then(|| name.to_owned())
}

/// Whether a field is one that clients send to all servers, or that is sent here in any case.
fn is_of_clients(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["accept", "content-", "if-", "sec-", "x-forwarded-"].iter().any(|start| lower.starts_with(start))
        || matches!(
            lower.as_str(),
            "host" | "user-agent" | "referer" | "cookie" | "range" | "origin" | "cache-control" | "pragma" | "via" | "expect"
        )
}

#[cfg(test)]
mod tests {
    use super::{asks_for_server, old_field};

    #[test]
    fn cookies_of_servers_are_known_by_their_values() {
        let check = |text: &str, expected: bool| assert_eq!(asks_for_server(text, "node"), expected, "for {text}");
        check("cookie=\"node\"", false);
        check("cookie=\"node=a\"", true);
        check("header=\"cookie: ~node=a\"", true);
        check("header=\"Cookie: ~node=\"", false);
        check("header=\"Cookie: ~other=a\"", false);
        check("header=\"X: node=a\"", false);
    }

    #[test]
    fn old_lines_name_a_field_or_the_request_line() {
        assert_eq!(old_field("^Host:\\ www.(.*)$").as_deref(), Some("host"));
        assert_eq!(old_field("^([^ :]*) /api/(.*)"), None);
    }
}
