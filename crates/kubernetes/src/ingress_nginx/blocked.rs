//! Clients that are refused by what they say of themselves, as a `map` of nginx reads it.

use super::reading::listed;
use tidegate_model::{Condition, ConditionKind, Field, TextPattern, expression};

const PATTERNS_MAX: usize = 1000;

/// Conditions of which one has to hold. `Err` says which cannot be had.
pub fn conditions(text: &str, field: &str) -> Result<Vec<Condition>, String> {
    if listed(text).count() > PATTERNS_MAX {
        return Err(format!("there are more than {PATTERNS_MAX} of them"));
    }
    listed(text).map(|one| condition(one, field)).collect()
}

fn condition(written: &str, field: &str) -> Result<Condition, String> {
    let text = unquoted(written);
    let pattern = match (text.strip_prefix("~*"), text.strip_prefix('~')) {
        (Some(pattern), _) => format!("(?i){pattern}"),
        (None, Some(pattern)) => pattern.to_owned(),
        // A text of a `map` is compared without case, and a backslash in front hides what it would mean.
        (None, None) => format!("(?i)^{}$", escaped(text.strip_prefix('\\').unwrap_or(text))),
    };
    if expression(&pattern).build().is_err() {
        let shown: String = written.chars().filter(|c| !c.is_control()).take(80).collect();
        return Err(format!("`{shown}` is no expression that can be had: look-around and back-references are not"));
    }
    let value = TextPattern::Regex(pattern);
    Ok(Condition { negated: false, kind: ConditionKind::Header(Field { name: field.to_owned(), value }) })
}

fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

/// Stands for itself in an expression.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::conditions;

    #[test]
    fn texts_and_expressions() {
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let seen = conditions(text, "user-agent").map(|all| format!("{all:?}"));
            match (&seen, expected) {
                (Ok(seen), Ok(expected)) => {
                    assert!(expected.iter().all(|pattern| seen.contains(&format!("{pattern:?}"))), "{text}: {seen}");
                }
                (Err(seen), Err(expected)) => assert!(seen.contains(expected), "{text}: {seen}"),
                (seen, _) => panic!("{text}: {seen:?}"),
            }
        };
        check("curl/8.0, ~*bot", Ok(&["(?i)^curl\\/8\\.0$", "(?i)bot"]));
        check("~^Mozilla", Ok(&["^Mozilla"]));
        check("\"a b\"", Ok(&["(?i)^a b$"]));
        check("~(?=a)", Err("no expression"));
    }
}
