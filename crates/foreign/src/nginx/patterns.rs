//! Values and expressions of conditions in nginx, as patterns of ours.

use super::tables::number_of_group;

pub fn is_host(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
}

/// A value that is meant as it stands.
pub fn pattern_of(value: &str) -> String {
    if value.starts_with(['~', '*']) || value.ends_with('*') {
        format!("~^{}$", regex_syntax::escape(value))
    } else {
        value.to_owned()
    }
}

pub fn key_of(value: &str) -> String {
    if value.starts_with(['~', '*', '\\']) || value.ends_with('*') { format!("\\{value}") } else { value.to_owned() }
}

/// `^(GET|HEAD)$` as `GET,HEAD`.
pub fn alternatives(pattern: &str) -> Option<String> {
    let inner = pattern.trim_start_matches('^').trim_end_matches('$');
    let inner = inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(inner);
    let words: Vec<&str> = inner.split('|').map(|word| word.trim_start_matches('^').trim_end_matches('$')).collect();
    let is_word = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
    words.iter().all(is_word).then(|| words.join(","))
}

pub fn has_groups(pattern: &str) -> bool {
    number_of_group(pattern, "1").is_some() && pattern.replace("\\(", "").replace("(?:", "").contains('(')
}

pub fn group_names(pattern: &str) -> Vec<String> {
    let behind = pattern.split("(?").skip(1);
    let name = |text: &str| text.trim_start_matches('P').strip_prefix('<')?.split('>').next().map(str::to_owned);
    behind.filter_map(name).filter(|name| !name.is_empty() && !name.starts_with(['=', '!'])).collect()
}

/// Whether an expression of path and query can fit nothing but the beginning of a path.
pub fn is_of_path(pattern: &str) -> bool {
    pattern.strip_prefix("^/").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_alphanumeric() || "/_-~(|)".contains(c)))
}

/// What a `Referer` has behind `https://` where it is of this host.
pub fn host_expression(written: &str) -> String {
    let (host, path) = written.find('/').map_or((written, ""), |slash| written.split_at(slash));
    let host = match (host.strip_prefix("*."), host.strip_prefix('.'), host.strip_suffix(".*")) {
        (Some(domain), ..) => format!("[^/]*\\.{}", regex_syntax::escape(domain)),
        (_, Some(domain), _) => format!("([^/]*\\.)?{}", regex_syntax::escape(domain)),
        (.., Some(start)) => format!("{}\\.[^/:]+", regex_syntax::escape(start)),
        _ => regex_syntax::escape(host),
    };
    format!("{host}(:[0-9]+)?({}|$)", if path.is_empty() { "/".to_owned() } else { regex_syntax::escape(path) })
}
