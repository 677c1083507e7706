//! Changes of header fields, in all of Caddy's forms.

use super::placeholders::template;
use crate::accounts::Origin;
use crate::braces::Statement;
use tidegate_kdl::quoted;
use tidegate_model::is_of_framing;

/// Whose fields are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Answer,
    /// Of answers of servers alone.
    ServerAnswer,
    Request,
}

impl Whose {
    fn word(self) -> &'static str {
        match self {
            Whose::Answer | Whose::ServerAnswer => "header",
            Whose::Request => "request-header",
        }
    }
}

/// A line of ours, and what it is made of.
pub struct FieldChange {
    pub line: String,
    /// Whether it takes out or replaces what clients send, and no line says it.
    pub is_unsaid: bool,
    pub origin: Origin,
}

/// What servers are told without a word, whatever is written of it.
const TOLD: [&str; 4] = ["upgrade", "connection", "x-forwarded-server", "via"];
/// What servers are told of clients without a word, as Caddy writes it.
const TOLD_OF_CLIENTS: [(&str, &[&str]); 5] = [
    ("host", &["{host}", "{http.request.host}", "{hostport}", "{http.request.hostport}"]),
    (
        "x-forwarded-for",
        &[
            "{remote}",
            "{remote_host}",
            "{http.request.remote}",
            "{http.request.remote.host}",
            "{client_ip}",
            "{http.vars.client_ip}",
        ],
    ),
    ("x-forwarded-proto", &["{scheme}", "{http.request.scheme}"]),
    ("x-forwarded-host", &["{host}", "{http.request.host}", "{hostport}", "{http.request.hostport}"]),
    ("x-forwarded-port", &["{port}", "{server_port}", "{http.request.port}"]),
];

/// A field and what is said of it, as words: `X y`, `+X y`, `-X`, `?X y`, `>X y`. `None` where no line of ours says it.
pub fn change(whose: Whose, words: &[String]) -> Option<String> {
    let (written, rest) = words.split_first()?;
    let (sign, name) = match written.chars().next()? {
        sign @ ('+' | '-' | '?' | '>') => (Some(sign), &written[1..]),
        _ => (None, written.as_str()),
    };
    let name = name.trim_end_matches(':');
    let is_field = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !is_field || is_of_framing(name) {
        return None;
    }
    let is_host = whose == Whose::Request && name.eq_ignore_ascii_case("host");
    let word = whose.word();
    let pair = |value: &str| told(value).map(|value| quoted(&format!("{name}: {value}")));
    match (sign, rest) {
        (Some('-'), []) if !is_host => Some(format!("{word} remove={}", quoted(name))),
        (Some('+'), [value]) if !is_host => Some(format!("{word} add={}", pair(value)?)),
        (Some('?'), [value]) if !is_host => Some(format!("{word} default={}", pair(value)?)),
        (Some('>'), [value]) => Some(format!("{word} set={}", pair(value)?)),
        (None, [value]) if whose == Whose::ServerAnswer => Some(format!("{word} set={}", pair(value)?)),
        (None, [value]) if value.is_empty() => None,
        (None, [value]) => Some(format!("{word} {} {}", quoted(name), quoted(&told(value)?))),
        _ => None,
    }
}

/// A value as a text of ours. A variable of the environment that is not set is nothing there, and no fault.
fn told(value: &str) -> Option<String> {
    let text = template(value)?;
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, behind)) = rest.split_once("{env.") {
        let (name, after) = behind.split_once('}')?;
        let end = if name.contains(":-") { "" } else { ":-" };
        out.push_str(&format!("{before}{{env.{name}{end}}}"));
        rest = after;
    }
    Some(out + rest)
}

/// Why lines of a statement may not be carried, where that changes fields.
pub fn reasons(statement: &Statement) -> Vec<(usize, &'static str)> {
    let words = statement.arguments();
    match statement.name() {
        "header_up" | "header_down" => vec![(statement.start(), why_not(words))],
        "header" | "request_header" => {
            let has_matcher = words.first().is_some_and(|word| word.starts_with(['@', '/', '*']));
            let words = &words[usize::from(has_matcher)..];
            let own = (!words.is_empty()).then(|| (statement.start(), why_not(words)));
            own.into_iter().chain(statement.inside().iter().map(|line| (line.start(), why_not(&line.words)))).collect()
        }
        _ => Vec::new(),
    }
}

fn why_not(words: &[String]) -> &'static str {
    let name = words.first().map_or("", |name| name.trim_start_matches(['+', '-', '?', '>']).trim_end_matches(':'));
    if is_of_framing(name) {
        return "fields that frame messages are the proxy's own";
    }
    match words {
        [_, _, _, ..] => "a part of a field's value is not replaced: `header` says the whole value",
        [_, value] if template(value).is_none() => {
            "a placeholder in its value has no equal here: those that there are stand in the manual, under `header`"
        }
        _ if name.contains('*') => "fields are named one by one: `header remove=\"X-One\"`",
        _ => "the field is changed under a condition, or in a way, that no `header` of ours has",
    }
}

/// Whether it takes a field out, or puts something in its place: what a client sends is not what servers get.
pub fn replaces(words: &[String]) -> bool {
    let Some(written) = words.first() else { return false };
    let name = written.trim_start_matches(['-', '>']).trim_end_matches(':');
    !written.starts_with(['+', '?']) && !is_of_framing(name) && !TOLD.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether servers are told it without a word.
pub fn is_told(words: &[String]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    let name = name.trim_start_matches(['+', '>', '?']).to_ascii_lowercase();
    if TOLD.contains(&name.as_str()) {
        return true;
    }
    let [value] = rest else { return false };
    let is_of_itself = || {
        let field = ["{header.", "{http.request.header.", "{>"].iter().find_map(|start| value.strip_prefix(start));
        name != "host" && field.and_then(|field| field.strip_suffix('}')).is_some_and(|field| field.eq_ignore_ascii_case(&name))
    };
    TOLD_OF_CLIENTS.iter().any(|(own, values)| *own == name && (values.contains(&value.as_str()) || is_of_itself()))
}

/// `header` and `request_header`, on a line or in a block; `words` are those behind the matcher.
pub fn changes(whose: Whose, statement: &Statement, words: &[String]) -> Vec<FieldChange> {
    let mut found = Vec::new();
    let at = statement.start();
    if !words.is_empty() {
        let mut origin = Origin::default();
        origin.within.insert(at);
        let line = change(whose, words);
        if line.is_some() {
            origin.carry(at);
        }
        found.push(FieldChange { line: line.unwrap_or_default(), is_unsaid: replaces(words), origin });
        return found;
    }
    let mut head = Origin::default();
    head.carry(at);
    found.push(FieldChange { line: String::new(), is_unsaid: false, origin: head });
    let is_deferred = statement.inside().iter().any(|line| line.name() == "defer");
    let status = statement.inside().iter().find(|line| line.name() == "match").map(statuses);
    for line in statement.inside() {
        let mut origin = Origin::default();
        origin.within.insert(line.start());
        let of_line = match line.name() {
            "defer" => {
                origin.carry(line.start());
                None
            }
            "match" if matches!(status, Some(Some(_))) => {
                origin.carry_all(super::words::places([line]));
                None
            }
            "match" => None,
            _ if matches!(status, Some(None)) => None,
            _ => {
                let mut words = line.words.clone();
                let is_set = !words[0].starts_with(['+', '-', '?', '>']);
                if is_set && is_deferred && whose == Whose::Answer {
                    words[0].insert(0, '>');
                }
                change(whose, &words)
            }
        };
        let of_line = of_line.map(|text| match &status {
            Some(Some(statuses)) => format!("{text} status=\"{statuses}\""),
            Some(None) | None => text,
        });
        if of_line.is_some() {
            origin.carry(line.start());
        }
        found.push(FieldChange { line: of_line.unwrap_or_default(), is_unsaid: replaces(&line.words), origin });
    }
    found
}

/// Statuses of a `match` in a block of changes, where it has nothing else.
fn statuses(line: &Statement) -> Option<String> {
    let lines: Vec<Statement> = super::matchers::criteria(line);
    let [one] = lines.as_slice() else { return None };
    let is_status = |word: &String| {
        word.len() == 3
            && (word.parse::<u16>().is_ok() || (word.ends_with("xx") && word.starts_with(|c: char| c.is_ascii_digit())))
    };
    let is_all = one.name() == "status" && !one.arguments().is_empty() && one.arguments().iter().all(is_status);
    is_all.then(|| one.arguments().join(","))
}
