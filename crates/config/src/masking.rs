//! What of a text is not repeated where it is shown: secrets that are written out, passwords in URLs, and values that
//! nobody knows the meaning of, unless they have a form that no secret has.

use std::collections::BTreeSet;
use std::ops::Range;

/// What stands between the quotes of every property that is a secret, such as `token="…"`. One without quotes ends at
/// the next blank.
pub fn written_secrets(text: &str, names: &[&str]) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    for name in names {
        let written = format!("{name}=");
        for (start, _) in text.match_indices(&written) {
            let start = start + written.len();
            let value = &text[start..];
            let hashes = value.bytes().take_while(|byte| *byte == b'#').count();
            let span = match value[hashes..].strip_prefix('"') {
                Some(quoted) => start + hashes + 1..start + hashes + 1 + quoted.find(['"', '\n']).unwrap_or(quoted.len()),
                None => start..start + value.find([' ', '\t', '\n', ';', '}']).unwrap_or(value.len()),
            };
            // A file or a variable is named, and what it holds is not shown anyway.
            if !is_named(&text[span.clone()]) {
                spans.push(span);
            }
        }
    }
    spans
}

/// Whether the value is brought in from elsewhere, as `{env.X}` is; `{{` is a brace that stands for itself.
fn is_named(value: &str) -> bool {
    value.starts_with('{') && !value.starts_with("{{")
}

/// What stands behind `name=` where no directive has a property of that name.
pub fn unknown_values(text: &str, known: &BTreeSet<&'static str>) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    for (equals, _) in text.match_indices('=') {
        let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let before = &text[..equals];
        let name = &before[before.trim_end_matches(is_of_name).len()..];
        let is_property = !name.is_empty() && before[..before.len() - name.len()].ends_with([' ', '\t', '\n']);
        if is_property && !known.contains(name) {
            spans.extend(
                arguments_of(&text[equals + 1..]).into_iter().next().map(|span| equals + 1 + span.start..equals + 1 + span.end),
            );
        }
    }
    // A file or a variable is named, and what it holds is not shown anyway.
    spans.retain(|span| !is_named(&text[span.clone()]));
    spans
}

/// Of a value that nobody knows the meaning of. What is too short for a secret helps to find the place, and so does
/// what has the form of something else: an address, a path, an amount, a word that proxies have.
pub fn may_be_secret(text: &str, span: &Range<usize>, is_word: Option<fn(&str) -> bool>) -> bool {
    const BYTES_MIN: usize = 4;
    let Some(value) = text.get(span.clone()).filter(|value| value.len() >= BYTES_MIN) else { return false };
    if matches!(value, "true" | "false" | "null") {
        return false;
    }
    let line = &text[text[..span.start].rfind('\n').map_or(0, |position| position + 1)..span.start];
    if is_about_secrets(line) || is_random(value) || is_hash(value) {
        return true;
    }
    // Names of users, and passwords behind them, may be made of anything but these.
    if is_about_users(line) {
        return !value.starts_with('/') && !value.contains("://") && !value.contains(':');
    }
    let is_plain = |part: &str| has_plain_form(part) || is_word.is_some_and(|is_word| is_word(part));
    !value.split_whitespace().all(is_plain)
}

/// Whether a line says in front of the value that it is one to be kept.
fn is_about_secrets(line: &str) -> bool {
    const WORDS: [&str; 12] = [
        "passw",
        "token",
        "secret",
        "apikey",
        "api_key",
        "api-key",
        "credential",
        "private",
        "bearer",
        "signature",
        "cookie",
        "session",
    ];
    let line = line.to_ascii_lowercase();
    WORDS.iter().any(|word| line.contains(word))
}

fn is_about_users(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["basic", "user", "login"].iter().any(|word| line.contains(word))
}

/// `$2y$…`, `$apr1$…`, `{SHA}…`
fn is_hash(value: &str) -> bool {
    let value = value.split_once(':').map_or(value, |(_, behind)| if behind.starts_with(['$', '{']) { behind } else { value });
    const KINDS: [&str; 14] = ["1", "2", "2a", "2b", "2y", "5", "6", "7", "y", "P", "apr1", "sha1", "argon2i", "argon2id"];
    let kind = value.strip_prefix('$').and_then(|rest| rest.split_once('$')).map(|(kind, _)| kind);
    value.starts_with("{SHA") || value.starts_with("{SSHA") || kind.is_some_and(|kind| KINDS.contains(&kind))
}

/// Letters and digits in a row, as keys and tokens have them and names have not.
fn is_random(value: &str) -> bool {
    const RUN_BYTES_MIN: usize = 12;
    value.split(|c: char| !c.is_ascii_alphanumeric() && c != '+').any(|run| {
        run.len() >= RUN_BYTES_MIN
            && run.bytes().any(|byte| byte.is_ascii_alphabetic())
            && (run.bytes().filter(u8::is_ascii_digit).count() >= 2 || is_mixed(run))
    })
}

/// Capital letters among small ones, more than words that are joined have.
fn is_mixed(run: &str) -> bool {
    const OF_EACH_MIN: usize = 4;
    let capital = run.bytes().filter(u8::is_ascii_uppercase).count();
    capital >= OF_EACH_MIN && run.len() - capital >= OF_EACH_MIN
}

/// An address, a path, a URL, an amount, a variable, a field's name or a pattern.
fn has_plain_form(value: &str) -> bool {
    // What is filled in from elsewhere is named, and not said.
    if value.starts_with('{') && value.ends_with('}') && value.matches('{').count() == 1 {
        return true;
    }
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let is_of = |extra: &str| rest.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c));
    let is_path = rest.starts_with('/') && is_of("/._-*~$%{}");
    let has_port = rest
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.split('/').next().is_some_and(|port| port.parse::<u16>().is_ok()));
    let is_host = is_of(".:-_/*[]$") && (has_port || (rest.contains('.') && !rest.starts_with('.')) || rest.contains("://"));
    let is_network = rest.split('/').next().is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok());
    let is_amount = rest.starts_with(|c: char| c.is_ascii_digit())
        && rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len() <= 4
        && is_of("./%");
    let variable = rest.strip_prefix('$').unwrap_or_default();
    let is_variable = !variable.is_empty() && variable.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let is_field =
        rest.contains('-') && is_of("-") && rest.split('-').all(|part| part.starts_with(|c: char| c.is_ascii_uppercase()));
    let is_shouted = rest.chars().all(|c| c.is_ascii_uppercase() || c == '_') && rest.len() <= 16;
    let setting = rest.split_once('=').is_some_and(|(name, value)| {
        name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
            && !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_pattern = rest.starts_with(['^', '~', '@']);
    is_path || is_host || is_network || is_amount || is_variable || is_field || is_shouted || setting || is_pattern
}

/// A value without its quotes.
pub fn within_quotes(text: &str, span: Range<usize>) -> Range<usize> {
    let value = text.get(span.clone()).unwrap_or_default();
    let is_quote = |c: char| matches!(c, '"' | '#');
    let (start, end) = (value.len() - value.trim_start_matches(is_quote).len(), value.trim_end_matches(is_quote).len());
    if value.contains("{env.") || value.contains("{file.") {
        span.start..span.start
    } else {
        span.start + start..span.start + end.max(start)
    }
}

/// What stands between quotes on a line of such a directive, behind its first argument; where nothing is quoted, each
/// word behind the first.
pub fn written_secret_arguments(text: &str, directives: &[&str]) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    for name in directives {
        for (start, _) in text.match_indices(name) {
            let is_word =
                !text[..start].ends_with(|before: char| before.is_alphanumeric() || matches!(before, '-' | '_' | '"' | '.'));
            let behind = start + name.len();
            if !is_word || !text[behind..].starts_with([' ', '\t']) {
                continue;
            }
            let line = &text[behind..behind + text[behind..].find('\n').unwrap_or(text.len() - behind)];
            let mut arguments = arguments_of(line).into_iter();
            arguments.next();
            // A file or a variable is named, and what it holds is not shown anyway.
            let spans_of_line = arguments.filter(|span| !is_named(&line[span.clone()]));
            spans.extend(spans_of_line.map(|span| behind + span.start..behind + span.end));
        }
    }
    spans
}

/// What stands before the host of a URL, where no password should be and some are. Of a name with a password the
/// password; else all of it, which may be a token.
pub fn passwords_in_urls(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    for (start, scheme_end) in text.match_indices("://") {
        let start = start + scheme_end.len();
        let url = &text[start..start + text[start..].find(['"', '`', ' ', '\t', '\n', ';', '}']).unwrap_or(text.len() - start)];
        // Where a password is expected, as in URLs of Redis, people write what ends an authority elsewhere.
        let is_redis = ["redis", "rediss", "redis+unix"].iter().any(|scheme| text[..start - scheme_end.len()].ends_with(scheme));
        let authority = if is_redis { url } else { &url[..url.find(['/', '?', '#']).unwrap_or(url.len())] };
        let Some(end) = authority.rfind('@') else { continue };
        let password = authority[..end].find(':').map_or(0, |colon| colon + 1);
        spans.push(start + password..start + end);
    }
    spans
}

/// The words of a line up to its end, also in `;` or `}`, without their quotes.
fn arguments_of(line: &str) -> Vec<Range<usize>> {
    let mut arguments = Vec::new();
    let mut at = 0;
    while let Some(found) = line[at..].find(|c: char| !matches!(c, ' ' | '\t' | '#')) {
        let start = at + found;
        match line.as_bytes()[start] {
            b';' | b'}' | b'\n' | b'\r' => break,
            b'"' => {
                let length = line[start + 1..].find('"').unwrap_or(line.len() - start - 1);
                arguments.push(start + 1..start + 1 + length);
                at = (start + length + 2).min(line.len());
            }
            _ => {
                let length = line[start..].find([' ', '\t', ';', '}', '\n', '\r']).unwrap_or(line.len() - start);
                arguments.push(start..start + length);
                at = start + length;
            }
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::may_be_secret;

    #[test]
    fn what_has_another_form_is_no_secret() {
        let is_word: fn(&str) -> bool = |word| word == "least_conn";
        let check = |line: &str, value: &str, expected: bool| {
            let text = format!("x\n{line}\n");
            let start = text.find(value).expect("the value is in the line");
            assert_eq!(may_be_secret(&text, &(start..start + value.len()), Some(is_word)), expected, "{line}");
        };
        for plain in [
            "10.0.0.0/8",
            "/healthz",
            "authelia:9091",
            "https://auth.example.com/verify",
            "120s",
            "$remote_addr",
            "X-Real-IP",
            "POST",
            "max-age=63072000",
            "^/api",
            "least_conn",
            "/etc/nginx/.htpasswd",
            "2001:db8::1",
            "*.example.com",
            "@api",
        ] {
            check(&format!("unknown {plain}"), plain, false);
        }
        for secret in [
            "hunter2hunter2",
            "hunter2",
            "$2y$12$GhvMmNVjRW29ulnudl",
            "bob:$apr1$H6uskkkW$IgXLP6ewTrSuBkTrqE8wj/",
            "{SHA}W6ph5Mm5Pz8Gg",
            "https://hooks.example.com/T024BE7LD/B4X8Kp9Qz1Lm7Rt2",
            "correct horse",
            "sk_live_4eC39HqLyjWDarjtT1",
            "/kJ3h4Gf8Lq0ZxP2vB9nM",
        ] {
            check(&format!("unknown {secret}"), secret, true);
        }
        check("passwrd least_conn", "least_conn", true);
        check("auth_basic_user_file /etc/nginx/htpasswd", "/etc/nginx/htpasswd", false);
        check("basicauth hunter.two", "hunter.two", true);
        check("http-request path_beg /admin", "path_beg /admin", true);
        check("api_token /healthz", "/healthz", true);
    }
}
