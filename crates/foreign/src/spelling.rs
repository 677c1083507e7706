//! Paths of other proxies that are compared with what a client's path stands for, in the spelling in which routes of
//! ours see it: percent-encoded but for what may stand in a path as it is.

/// What stands in a path raw or encoded, and is the same to whoever decodes before comparing.
const EITHER: &str = "!$&'()*+,;=:@";

/// Whether a byte is sent as it is.
fn is_sent(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'%' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'[' | b']')
}

/// A path as clients send it, where what that stands for is compared.
pub fn encoded(path: &str) -> String {
    let one = |byte: u8| if is_sent(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(one).collect()
}

/// Letters of an expression that clients send encoded, outside of sets, as they send them.
pub fn encoded_in_expression(text: &str) -> String {
    let (mut out, mut is_in_set, mut is_escaped) = (String::new(), false, false);
    for c in text.chars() {
        match c {
            '[' if !is_escaped => is_in_set = true,
            ']' if !is_escaped => is_in_set = false,
            _ => {}
        }
        if !is_in_set && (c == ' ' || !c.is_ascii()) {
            if is_escaped {
                out.pop();
            }
            out.push_str(&format!("(?:{})", encoded(&c.to_string())));
        } else {
            out.push(c);
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    out
}

/// An expression of what a path stands for, as one of what clients send. `None` where it asks in a set, or by a class,
/// for what is sent in several letters.
pub fn sent_expression(text: &str) -> Option<String> {
    let (mut is_in_set, mut is_escaped) = (false, false);
    for c in text.chars() {
        match c {
            's' | 'S' | 'p' | 'P' | 'x' | 'u' | 'U' if is_escaped => return None,
            '[' if !is_escaped => is_in_set = true,
            ']' if !is_escaped => is_in_set = false,
            '%' => return None,
            c if is_in_set && (c == ' ' || !c.is_ascii()) => return None,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    Some(encoded_in_expression(text))
}

/// Whether clients may send parts of it in two spellings, of which a plain pattern takes one.
pub fn has_two_spellings(path: &str) -> bool {
    path.contains(|c| EITHER.contains(c))
}

/// A part of an expression that takes the text in each of its spellings.
pub fn in_either_spelling(path: &str) -> String {
    let one = |c: char| {
        if EITHER.contains(c) {
            format!("(?:{}|%{:02X})", regex_syntax::escape(&c.to_string()), u32::from(c))
        } else {
            regex_syntax::escape(&encoded(&c.to_string()))
        }
    };
    path.chars().map(one).collect()
}

/// What is said of conditions on spellings that no path has here.
pub const RAW: &str = "it looks for a spelling of a path that is none here: dots are resolved, letters decoded and slashes made one before any \
                       condition is asked; `path-policy` refuses what is spelled so";

/// Whether an expression looks for a spelling that no path has where conditions are asked: `/../`, `//`, `%2e`.
pub fn asks_for_raw(expression: &str) -> bool {
    let bare = expression.replace('\\', "");
    let is_decoded =
        |code: &str| u8::from_str_radix(code, 16).is_ok_and(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    let has_code = expression.split('%').skip(1).any(|rest| rest.get(..2).is_some_and(is_decoded));
    bare.contains("//") || expression.contains("\\.\\.") || expression.contains("/\\./") || has_code
}

/// Whether it looks for such a spelling, or for an encoded slash, which `path-policy` may decode.
pub fn asks_for_raw_or_slash(expression: &str) -> bool {
    asks_for_raw(expression) || expression.to_ascii_lowercase().contains("%2f")
}

/// An expression that takes codes with small and capital digits, of which paths have the latter and queries both.
pub fn with_any_codes(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len());
    for (index, part) in expression.split('%').enumerate() {
        let code = part.get(..2).filter(|code| index > 0 && code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        out.push_str(if index > 0 { "%" } else { "" });
        for digit in code.unwrap_or_default().chars() {
            if digit.is_ascii_digit() {
                out.push(digit);
            } else {
                out.push_str(&format!("[{}{}]", digit.to_ascii_uppercase(), digit.to_ascii_lowercase()));
            }
        }
        out.push_str(&part[code.map_or(0, str::len)..]);
    }
    out
}

/// A part of an expression where what is sent encoded is to be so, in the normal form: `%c3%a9` as `%C3%A9`. `None`
/// where one of its codes is a slash, or nothing that is kept encoded; `%40` is `@` to routes where `path-policy` says
/// so.
pub fn encoded_part(path: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&in_either_spelling(&rest[..at]));
        let byte = u8::from_str_radix(rest.get(at + 1..at + 3)?, 16).ok()?;
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let has_two_spellings = EITHER.contains(char::from(byte)) || b"[]".contains(&byte);
        if is_unreserved || has_two_spellings || matches!(byte, b'/' | b'\\' | 0) {
            return None;
        }
        out.push_str(&format!("%{byte:02X}"));
        rest = &rest[at + 3..];
    }
    Some(out + &in_either_spelling(rest))
}

#[cfg(test)]
mod tests {
    use super::{
        asks_for_raw, encoded, encoded_in_expression, encoded_part, in_either_spelling, sent_expression, with_any_codes,
    };

    #[test]
    fn paths_are_compared_as_clients_send_them() {
        assert_eq!(encoded("/a b/é%~*"), "/a%20b/%C3%A9%25~*");
        assert_eq!(encoded_in_expression("^/é\\ [a b]"), "^/(?:%C3%A9)(?:%20)[a b]");
        assert_eq!(encoded_in_expression("^/q{2}\\.php$"), "^/q{2}\\.php$");
        assert_eq!(in_either_spelling("/@a b."), "/(?:@|%40)a%20b\\.");
    }

    #[test]
    fn what_is_sent_in_several_letters_is_no_part_of_a_set() {
        assert_eq!(sent_expression("^/a b$").as_deref(), Some("^/a(?:%20)b$"));
        for text in ["^/[a é]$", "^/a\\s", "^/a%20b", "\\x20"] {
            assert_eq!(sent_expression(text), None, "{text}");
        }
    }

    #[test]
    fn spellings_that_no_path_has_are_known() {
        for text in ["\\.\\./", "^//", "%2e%2e", "a/\\./b", "%41"] {
            assert!(asks_for_raw(text), "{text}");
        }
        for text in ["\\.php$", "%2f", "^/a..b", "100%"] {
            assert!(!asks_for_raw(text), "{text}");
        }
        assert_eq!(with_any_codes("^/a%2f%3A%zz%"), "^/a%2[Ff]%3[Aa]%zz%");
    }

    #[test]
    fn encoded_parts_are_in_the_normal_form() {
        assert_eq!(encoded_part("/caf%c3%a9 x.@").as_deref(), Some("/caf%C3%A9%20x\\.(?:@|%40)"));
        for text in ["/a%2fb", "/a%40", "/a%3a", "/a%5B", "/%41", "/a%", "/a%zz", "/a%é"] {
            assert_eq!(encoded_part(text), None, "{text}");
        }
    }
}
