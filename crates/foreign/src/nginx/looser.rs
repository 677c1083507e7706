//! Expressions of PCRE that are none of ours, made wider: what only narrows them is left out, so that whatever they
//! take is taken still.

use tidegate_model::expression;

/// An expression of ours that takes all that this one takes, and more.
pub fn looser(text: &str) -> String {
    let wider = without_assertions(text);
    if expression(&wider).build().is_ok() { wider } else { ".".to_owned() }
}

/// Without look-arounds, back-references and what keeps repetitions from going back.
fn without_assertions(text: &str) -> String {
    let mut wider = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '\\' => escape(rest, &mut wider),
            '[' => class(rest, &mut wider),
            '(' if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|start| rest.starts_with(start)) => {
                let end = group_end(rest);
                end + quantifier(&rest[end..])
            }
            '(' if rest.starts_with("(?>") => {
                wider.push_str("(?:");
                3
            }
            '*' | '+' | '?' | '}' if rest[1..].starts_with('+') => {
                wider.push(c);
                2
            }
            _ => {
                wider.push(c);
                c.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    wider
}

/// A back-reference takes what a group has taken, so anything.
fn escape(rest: &str, wider: &mut String) -> usize {
    let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && !rest[1..].starts_with('0') {
        wider.push_str(".*");
        return 1 + digits;
    }
    let named = [("\\k<", '>'), ("\\k{", '}'), ("\\k'", '\''), ("\\g{", '}')];
    for (start, close) in named {
        if let Some(end) = rest.strip_prefix(start).and_then(|name| name.find(close)) {
            wider.push_str(".*");
            return start.len() + end + 1;
        }
    }
    let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
    wider.push_str(&rest[..length]);
    length
}

/// A class as it stands.
fn class(rest: &str, wider: &mut String) -> usize {
    let end = class_end(rest);
    wider.push_str(&rest[..end]);
    end
}

/// Behind the bracket that closes a class; one that comes first is a member.
fn class_end(rest: &str) -> usize {
    let first = 1 + usize::from(rest[1..].starts_with('^'));
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(first) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' if at > first => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Behind the parenthesis that closes a group.
fn group_end(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(c) = rest[at..].chars().next() {
        at += match c {
            '\\' => 1 + rest[at + 1..].chars().next().map_or(0, char::len_utf8),
            '[' => class_end(&rest[at..]),
            _ => c.len_utf8(),
        };
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a repetition behind a group.
fn quantifier(rest: &str) -> usize {
    let length = match rest.chars().next() {
        Some('*' | '+' | '?') => 1,
        Some('{') => rest.find('}').map_or(0, |end| end + 1),
        _ => 0,
    };
    length + usize::from(length > 0 && rest[length..].starts_with(['?', '+']))
}

#[cfg(test)]
mod tests {
    use super::looser;

    #[test]
    fn an_expression_takes_what_it_took_and_more() {
        let check = |text: &str, expected: &str| assert_eq!(looser(text), expected, "{text}");
        check("^(?!www\\.)(.+)\\.example\\.com$", "^(.+)\\.example\\.com$");
        check("^(.+)(?<!-dev)\\.example\\.com$", "^(.+)\\.example\\.com$");
        check("^(?=a(b|[)(]\\)))+?(a.*)$", "^(a.*)$");
        check("^(?<name>a+)\\.\\k<name>\\.x$", "^(?<name>a+)\\..*\\.x$");
        check("^(a+)\\.\\1\\.x$", "^(a+)\\..*\\.x$");
        check("^(?>a|ab)++c[]+]$", "^(?:a|ab)+c[]+]$");
        check("^a(", ".");
        check("", "");
        check("\\", ".");
        check("[", ".");
        check("(?!", "");
        check("ä(?!ö)ü", "äü");
    }
}
