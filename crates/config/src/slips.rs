//! What people write before they know KDL: addresses and paths without quotes, `#` comments, commas, single quotes.
//! The parser speaks of such a slip at the outermost block around it; this names the word and what to write in its place.

use crate::diagnostics::shortened;
use crate::lexer::{self, Token, TokenKind};
use std::ops::Range;
use tidegate_model::Placeholder;

/// One slip a line, since what follows it is misread.
#[derive(Debug, PartialEq, Eq)]
pub struct Slip {
    pub span: Range<usize>,
    pub message: String,
    pub help: String,
    /// It is KDL, and cannot be meant: `proxy http://host` hands the request to `http:`, with a comment behind.
    pub is_kdl: bool,
}

/// The slips of a text, at most `count_max`. Unless it `is_kdl`, a slip only means something when the parser refuses the text.
pub fn find(text: &str, count_max: usize) -> Vec<Slip> {
    let tokens = lexer::tokens(text);
    let mut slips = Vec::new();
    let mut line = LineState { place: Place::Start, is_continued: false };
    let mut index = 0;
    while index < tokens.len() && slips.len() < count_max {
        if let Some(slip) = slip_at(text, &tokens, index, &line) {
            slips.push(slip);
            while tokens.get(index + 1).is_some_and(|token| token.kind != TokenKind::Newline) {
                index += 1;
            }
            line.place = Place::Inside;
        } else {
            line.step(tokens[index].kind);
        }
        index += 1;
    }
    slips
}

/// The `{` whose `}` is missing, if one is. By the indentation where that tells, else the first that is left open.
pub fn unclosed_block(text: &str) -> Option<Range<usize>> {
    let mut open: Vec<(Range<usize>, usize)> = Vec::new();
    let mut closed_by_another = None;
    let mut indentation = 0;
    let mut begins_line = true;
    for token in lexer::tokens(text) {
        let was_line_start = std::mem::replace(&mut begins_line, token.kind == TokenKind::Newline);
        match token.kind {
            TokenKind::Newline => indentation = 0,
            TokenKind::Space if was_line_start => {
                indentation = token.span.len();
                begins_line = true;
            }
            TokenKind::Open => open.push((token.span, indentation)),
            TokenKind::Close => {
                // A brace further to the left than the line of its block was meant for a block around it.
                if let Some((block, block_indentation)) = open.pop()
                    && was_line_start
                    && indentation < block_indentation
                {
                    closed_by_another.get_or_insert(block);
                }
            }
            _ => {}
        }
    }
    let (first_open, _) = open.into_iter().next()?;
    Some(closed_by_another.unwrap_or(first_open))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where a directive may begin.
    Start,
    /// Behind the name of a directive.
    Name,
    /// Behind that.
    Inside,
    /// Behind a block, where a line break or `;` has to come.
    Closed,
}

struct LineState {
    place: Place,
    is_continued: bool,
}

impl LineState {
    fn step(&mut self, kind: TokenKind) {
        match kind {
            TokenKind::Space | TokenKind::LineComment | TokenKind::BlockComment => {}
            TokenKind::Newline if self.is_continued => self.is_continued = false,
            TokenKind::Newline | TokenKind::Semicolon | TokenKind::Open => self.place = Place::Start,
            TokenKind::Close => self.place = Place::Closed,
            TokenKind::Continuation => self.is_continued = true,
            TokenKind::Bare | TokenKind::Text if self.place == Place::Start => self.place = Place::Name,
            TokenKind::Slashdash
            | TokenKind::Bare
            | TokenKind::Text
            | TokenKind::Equals
            | TokenKind::ParenOpen
            | TokenKind::ParenClose => self.place = Place::Inside,
        }
    }
}

fn slip_at(text: &str, tokens: &[Token], index: usize, line: &LineState) -> Option<Slip> {
    let token = &tokens[index];
    let written = &text[token.span.clone()];
    let next = tokens.get(index + 1);
    let slip = |message: String, help: &str| Some(Slip { span: token.span.clone(), message, help: help.into(), is_kdl: false });
    match token.kind {
        TokenKind::Bare if written.starts_with('#') => (line.place == Place::Start || written.trim_matches('#').is_empty())
            .then(|| slip("a comment does not begin with `#`".into(), "a comment begins with `//`"))?,
        TokenKind::Bare | TokenKind::Text if line.place == Place::Closed && !written.starts_with(',') => slip(
            format!("`{}` begins a directive on the line of another", shortened(written)),
            "put a `;` in front of it, or begin a new line",
        ),
        TokenKind::Bare => word_slip(text, token, next),
        TokenKind::Text => text_slip(token, written).or_else(|| adjoining_slip(text, token, next?)),
        TokenKind::ParenOpen | TokenKind::ParenClose => {
            slip(format!("`{written}` can only stand in quotes"), "write the whole text in quotes, as in `path=\"~^/(a|b)/\"`")
        }
        TokenKind::Equals if line.place == Place::Name => slip(
            "no `=` stands behind the name of a directive".into(),
            "its values follow after a blank, as in `site \"example.com\"`; only properties have a `=`",
        ),
        TokenKind::Equals if !has_value(&tokens[index + 1..]) => {
            slip("a value is missing behind this `=`".into(), "a property is `name=\"value\"`")
        }
        TokenKind::Open if is_placeholder(text, tokens, index) => {
            let slip = quotes_needed(text, token.span.start, |word| format!("`{word}` needs quotes"));
            Some(Slip { is_kdl: true, ..slip })
        }
        TokenKind::Continuation => {
            let follows_directly = next.is_some_and(|next| matches!(next.kind, TokenKind::Bare | TokenKind::Text));
            follows_directly.then(|| quotes_needed(text, token.span.start, |word| format!("`{word}` needs quotes")))
        }
        TokenKind::Open if line.place == Place::Start && !line.is_continued => {
            slip("this `{` belongs to no directive".into(), "it has to stand on the line of its directive")
        }
        TokenKind::BlockComment if line.place != Place::Start && is_unclosed(written) => Some(Slip {
            span: token.span.start..token.span.start + 2,
            message: "this comment is never closed".into(),
            help: "`/*` begins a comment; a path with a `*` stands in quotes, as in `\"/api/*\"`".into(),
            is_kdl: false,
        }),
        _ => None,
    }
}

fn adjoining_slip(text: &str, token: &Token, next: &Token) -> Option<Slip> {
    let behind = &text[next.span.clone()];
    let (message, help) = match next.kind {
        TokenKind::Bare if behind.starts_with(',') => return None,
        TokenKind::Bare if behind.starts_with(':') => {
            ("no `:` stands behind a name", "a directive is `name \"value\"`, and a property `name=\"value\"`")
        }
        TokenKind::Bare | TokenKind::Text => ("a blank is missing behind this text", "a blank stands between two values"),
        _ => return None,
    };
    Some(Slip { span: token.span.clone(), message: message.into(), help: help.into(), is_kdl: false })
}

fn has_value(behind: &[Token]) -> bool {
    let next = behind.iter().find(|token| !matches!(token.kind, TokenKind::Space | TokenKind::BlockComment));
    next.is_some_and(|next| {
        matches!(next.kind, TokenKind::Bare | TokenKind::Text | TokenKind::ParenOpen | TokenKind::Continuation)
    })
}

/// `{env.X}` or `{host}` without quotes is a block to KDL.
fn is_placeholder(text: &str, tokens: &[Token], open: usize) -> bool {
    let [_, name, close, ..] = &tokens[open..] else { return false };
    let written = &text[name.span.clone()];
    let is_known = written.starts_with("env.") || written.starts_with("file.") || {
        Placeholder::from_name(written)
            .is_some_and(|placeholder| !matches!(placeholder, Placeholder::Log(_) | Placeholder::LogOwn(_)))
    };
    is_known && close.kind == TokenKind::Close
}

fn word_slip(text: &str, token: &Token, next: Option<&Token>) -> Option<Slip> {
    let written = &text[token.span.clone()];
    if written.starts_with(OTHER_QUOTES) {
        return Some(other_quotes(text, token.span.start));
    }
    if next.is_some_and(|next| next.kind == TokenKind::Text) {
        let help = match written.strip_suffix(':') {
            Some(name) => format!("a property is `{}=\"value\"`", shortened(name)),
            None if written == "~" => "the `~` stands inside the quotes, as in `\"~^/api\"`".into(),
            None => "a blank stands between two values, and a text with a `\"` in it stands as `#\"…\"#`".into(),
        };
        let message = "a `\"` cannot stand in a word".into();
        return Some(Slip { span: token.span.end..token.span.end + 1, message, help, is_kdl: false });
    }
    if written.starts_with(',') || written.ends_with(',') {
        let comma = written.find(',').map_or(token.span.start, |position| token.span.start + position);
        return Some(Slip {
            span: comma..comma + 1,
            message: "there are no commas between values".into(),
            help: "a blank stands between two, as in `header \"Server\" \"tidegate\"`".into(),
            is_kdl: true,
        });
    }
    let comment = next.map(|next| (next.kind, &text[next.span.clone()]));
    if written.ends_with(':') && matches!(comment, Some((TokenKind::LineComment, _))) {
        let slip = quotes_needed(text, token.span.start, |_| "`//` begins a comment; put the address in quotes".into());
        return Some(Slip { is_kdl: true, ..slip });
    }
    let runs_into_comment = matches!(comment, Some((TokenKind::BlockComment, comment)) if is_unclosed(comment));
    let needs_quotes = written.contains(['/', '[', ']', '#']) || is_almost_number(written) || runs_into_comment;
    needs_quotes.then(|| quotes_needed(text, token.span.start, |word| format!("`{word}` needs quotes")))
}

/// All that was meant to be one text, which the lexer has split at a comment or a brace.
fn quotes_needed(text: &str, start: usize, message: impl Fn(&str) -> String) -> Slip {
    let rest = &text[start..];
    let word = rest.split(|c: char| c.is_whitespace() || c == '"').next().unwrap_or_default();
    let mut word = word.trim_end_matches([';', ',']);
    while let Some(shorter) = word.strip_suffix(['{', '}'])
        && !shorter.is_empty()
        && word.matches('{').count() != word.matches('}').count()
    {
        word = shorter.trim_end_matches(';');
    }
    let help = if word.contains('\\') {
        format!("write `#\"{}\"#`: between `#\"` and `\"#` a `\\` stands for itself", shortened(word))
    } else {
        format!("write `\"{}\"`", shortened(word))
    };
    Slip { span: start..start + word.len(), message: message(&shortened(word)), help, is_kdl: false }
}

/// What programs for letters make of a `"`, and what other languages take for it.
const OTHER_QUOTES: [char; 7] = ['\'', '`', '\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}'];

fn other_quotes(text: &str, start: usize) -> Slip {
    let line = text[start..].lines().next().unwrap_or_default();
    let opening = line.chars().next().map_or(0, char::len_utf8);
    let (length, help) = match line[opening..].find(OTHER_QUOTES) {
        Some(inner) => {
            let end = opening + inner;
            let closing = line[end..].chars().next().map_or(0, char::len_utf8);
            (end + closing, format!("write `\"{}\"`", shortened(&line[opening..end])))
        }
        None => (opening, "write `\"`".into()),
    };
    Slip { span: start..start + length, message: "a text stands in double quotes".into(), help, is_kdl: true }
}

/// Begins as a number does and is none: `10s`, `127.0.0.1:9000`.
fn is_almost_number(written: &str) -> bool {
    let digits = written.trim_start_matches(['+', '-']);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && !["0x", "0o", "0b"].iter().any(|prefix| digits.starts_with(prefix))
        && digits.replace('_', "").parse::<f64>().is_err()
}

fn text_slip(token: &Token, written: &str) -> Option<Slip> {
    let opened = written.trim_start_matches('#');
    if let Some(lines) = opened.strip_prefix("\"\"\"") {
        let help = "the text stands on lines of its own, and so does the `\"\"\"` behind it".to_string();
        if !lines.starts_with(['\n', '\r']) {
            let (span, message) = (token.span.clone(), "a line break has to follow the first `\"\"\"`".into());
            return Some(Slip { span: first_line(span, written), message, help, is_kdl: false });
        }
        let last_line = lines.lines().last().unwrap_or_default().trim_end_matches('#');
        if !last_line.trim_start().starts_with("\"\"\"") {
            let message = if last_line.ends_with("\"\"\"") {
                "the last `\"\"\"` has to stand on a line of its own"
            } else {
                "this text is never closed"
            };
            return Some(Slip { span: first_line(token.span.clone(), written), message: message.into(), help, is_kdl: false });
        }
    }
    if written.starts_with('#') {
        return None;
    }
    let mut chars = written.char_indices();
    let mut is_closed = false;
    chars.next();
    while let Some((index, c)) = chars.next() {
        is_closed = c == '"';
        if c != '\\' {
            continue;
        }
        let Some((_, escaped)) = chars.next() else { break };
        if !matches!(escaped, 'n' | 'r' | 't' | '\\' | '"' | 'b' | 'f' | 's' | 'u') && !escaped.is_whitespace() {
            let start = token.span.start + index;
            return Some(Slip {
                span: start..start + 1 + escaped.len_utf8(),
                message: format!("there is no escape `\\{escaped}`"),
                help: format!("write `\\\\{escaped}`, or the whole text as `#\"…\"#`, where a `\\` stands for itself"),
                is_kdl: false,
            });
        }
    }
    (!is_closed && !written.starts_with("\"\"\"")).then(|| Slip {
        span: token.span.clone(),
        message: "this text is not closed on its line".into(),
        help: "a `\"` is missing; a text over several lines stands in `\"\"\"`".into(),
        is_kdl: false,
    })
}

fn first_line(span: Range<usize>, written: &str) -> Range<usize> {
    span.start..span.start + written.find(['\n', '\r']).unwrap_or(written.len())
}

/// A comment that is closed ends the depth it began.
fn is_unclosed(comment: &str) -> bool {
    !comment.ends_with("*/") || comment == "/*/"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let slips = find(text, 5);
        let seen: Vec<(&str, &str)> = slips.iter().map(|slip| (&text[slip.span.clone()], slip.message.as_str())).collect();
        assert_eq!(seen, expected, "for {text:?}");
    }

    #[test]
    fn a_slip_is_named_at_its_word() {
        check("proxy http://a:1 { }", &[("http://a:1", "`//` begins a comment; put the address in quotes")]);
        check("site \"a\" { proxy 10.0.0.1:80; }", &[("10.0.0.1:80", "`10.0.0.1:80` needs quotes")]);
        check("proxy [::1]:80", &[("[::1]:80", "`[::1]:80` needs quotes")]);
        check("a b=/x/{y} { c /z;}", &[("/x/{y}", "`/x/{y}` needs quotes")]);
        check("a {c /z;}", &[("/z", "`/z` needs quotes")]);
        check("a /b/* {\n c 5s\n}", &[("/b/*", "`/b/*` needs quotes")]);
        check("a /* b", &[("/*", "this comment is never closed")]);
        check("a \\.php$ {", &[("\\.php$", "`\\.php$` needs quotes")]);
        check("a 5s; b 6s\nc 7s", &[("5s", "`5s` needs quotes"), ("7s", "`7s` needs quotes")]);
        check("a { b 1 } c 2", &[("c", "`c` begins a directive on the line of another")]);
        check("a = 1", &[("=", "no `=` stands behind the name of a directive")]);
        check("a\n{\n}", &[("{", "this `{` belongs to no directive")]);
        check(
            "# it's /a\nb // # c\nd #",
            &[("#", "a comment does not begin with `#`"), ("#", "a comment does not begin with `#`")],
        );
        check("a 'b c'", &[("'b c'", "a text stands in double quotes")]);
        check("a \u{201c}b\u{201d} c", &[("\u{201c}b\u{201d}", "a text stands in double quotes")]);
        check("a (b", &[("(", "`(` can only stand in quotes")]);
        check("a \"b\"\"c\"", &[("\"b\"", "a blank is missing behind this text")]);
        check("\"b\": \"c\"", &[("\"b\"", "no `:` stands behind a name")]);
        check("a b:\"c\"", &[("\"", "a `\"` cannot stand in a word")]);
        check("a b= ; c", &[("=", "a value is missing behind this `=`")]);
        check("a {env.B} \"c\"", &[("{env.B}", "`{env.B}` needs quotes")]);
        check("a \"\"\"b\"\"\" c", &[("\"\"\"b\"\"\"", "a line break has to follow the first `\"\"\"`")]);
        check("a \"\"\"\n b\"\"\"", &[("\"\"\"", "the last `\"\"\"` has to stand on a line of its own")]);
        check("a \"\"\"\n b", &[("\"\"\"", "this text is never closed")]);
        check("a 'b", &[("'", "a text stands in double quotes")]);
        check("a \"b\", \"c\"", &[(",", "there are no commas between values")]);
        check("a b, c", &[(",", "there are no commas between values")]);
        check("a \"\\\\ \\d\"", &[("\\d", "there is no escape `\\d`")]);
        check("a \"b\nc", &[("\"b", "this text is not closed on its line")]);
    }

    #[test]
    fn what_is_right_is_no_slip() {
        let right = "a b:c -5 0x1f 1_000 1.5e3 #true #\"\\d\"# \"/x\" \\\n d=\"1\" e = 2 { f; g { }; } // h /i\n/* j */ k \"\"\"\n l\n \"\"\" #\"\"\"\n \\d\n \"\"\"#\n";
        check(right, &[]);
        check("a \"b\\n\\u{41}\\\n  c\" { }\n/-b { c; }\n", &[]);
        check("200 5", &[]);
    }

    #[test]
    fn the_block_without_an_end() {
        let check = |text: &str, expected: Option<&str>| {
            let seen = unclosed_block(text).map(|span| text[..span.start].lines().last().unwrap_or_default());
            assert_eq!(seen, expected, "for {text:?}");
        };
        check("a { b \"{\" #\"}\"# // }\n}", None);
        check("a { }\n}\n", None);
        check("a {\n", Some("a "));
        check("a {\n  b {\n}\n", Some("  b "));
        check("a {\n  b {\n  }\n  c {\n    d 1\n}\n", Some("  c "));
        check("a {\nb {\n}\n", Some("a "));
    }
}
