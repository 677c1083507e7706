//! What people write before they know KDL: addresses and paths without quotes, `#` comments, commas, single quotes.
//! The parser speaks of such a slip at the outermost block around it; this names the word and what to write in its
//! place.

use crate::diagnostics::shortened;
use std::ops::Range;
use tidegate_kdl::{Fault, Token, TokenKind, Tokens, is_closed_comment, read_text, read_word};
use tidegate_model::Placeholder;

/// One slip a line, since what follows it is misread.
#[derive(Debug, PartialEq, Eq)]
pub struct Slip {
    pub fault: Fault,
    /// Whether the text is KDL, and cannot be meant: `proxy http://host` hands the request to `http:`, with a comment
    /// behind.
    pub is_kdl: bool,
}

impl Slip {
    fn new(span: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Slip {
        Slip { fault: Fault { span, message: message.into(), help: Some(help.into()) }, is_kdl: false }
    }

    fn in_kdl(self) -> Slip {
        Slip { is_kdl: true, ..self }
    }
}

/// Whether a text may have slips that are KDL; a quick look for those that have none.
pub fn may_be_kdl(text: &str) -> bool {
    let mut before: [Option<Token>; 2] = [None, None];
    Tokens::of(text).any(|token| {
        let written = &text[token.span.clone()];
        let [first, second] = &before;
        let is_kind = |token: &Option<Token>, kind| token.as_ref().is_some_and(|token| token.kind == kind);
        let may_be = match token.kind {
            TokenKind::Bare => written.starts_with(OTHER_QUOTES) || written.starts_with(',') || written.ends_with(','),
            TokenKind::LineComment => is_kind(second, TokenKind::Bare) && text[..token.span.start].ends_with(':'),
            TokenKind::Close => is_kind(first, TokenKind::Open) && is_kind(second, TokenKind::Bare),
            _ => false,
        };
        before = [before[1].take(), Some(token)];
        may_be
    })
}

/// The slips of a text, at most `count_max`. Unless it `is_kdl`, a slip only means something when the parser refuses
/// the text.
pub fn find(text: &str, count_max: usize) -> Vec<Slip> {
    let tokens: Vec<Token> = Tokens::of(text).collect();
    let mut slips = Vec::new();
    let mut line = LineState { place: Position::Start, is_continued: false };
    let mut index = 0;
    while index < tokens.len() && slips.len() < count_max {
        if let Some(slip) = slip_at(text, &tokens, index, &line) {
            slips.push(slip);
            while tokens.get(index + 1).is_some_and(|token| token.kind != TokenKind::Newline) {
                index += 1;
            }
            line.place = Position::Inside;
        } else {
            line.step(tokens[index].kind);
        }
        index += 1;
    }
    slips
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
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
    place: Position,
    is_continued: bool,
}

impl LineState {
    fn step(&mut self, kind: TokenKind) {
        match kind {
            TokenKind::Space | TokenKind::LineComment | TokenKind::BlockComment => {}
            TokenKind::Newline if self.is_continued => self.is_continued = false,
            TokenKind::Newline | TokenKind::Semicolon | TokenKind::Open => self.place = Position::Start,
            TokenKind::Close => self.place = Position::Closed,
            TokenKind::Continuation => self.is_continued = true,
            TokenKind::Bare | TokenKind::Text if self.place == Position::Start => self.place = Position::Name,
            TokenKind::Slashdash
            | TokenKind::Bare
            | TokenKind::Text
            | TokenKind::Equals
            | TokenKind::ParenOpen
            | TokenKind::ParenClose => self.place = Position::Inside,
        }
    }
}

fn slip_at(text: &str, tokens: &[Token], index: usize, line: &LineState) -> Option<Slip> {
    let token = &tokens[index];
    let written = &text[token.span.clone()];
    let next = tokens.get(index + 1);
    let slip = |message: String, help: &str| Some(Slip::new(token.span.clone(), message, help));
    match token.kind {
        TokenKind::Bare
            if written.starts_with('#') && (line.place == Position::Start || written.trim_matches('#').is_empty()) =>
        {
            slip("a comment does not begin with `#`".into(), "a comment begins with `//`")
        }
        TokenKind::Bare | TokenKind::Text if line.place == Position::Closed && !written.starts_with(',') => slip(
            format!("`{}` begins a directive on the line of another", shortened(written)),
            "put a `;` in front of it, or begin a new line",
        ),
        TokenKind::Bare => word_slip(text, token, next),
        TokenKind::Text => match read_text(written) {
            Ok(_) => adjoining_slip(text, token, next?),
            Err(fault) => Some(Slip { fault: fault.behind(token.span.start), is_kdl: false }),
        },
        TokenKind::ParenOpen | TokenKind::ParenClose => {
            slip(format!("`{written}` can only stand in quotes"), "write the whole text in quotes, as in `path=\"~^/(a|b)/\"`")
        }
        TokenKind::Equals if line.place == Position::Name => slip(
            "no `=` stands behind the name of a directive".into(),
            "its values follow after a blank, as in `site \"example.com\"`; only properties have a `=`",
        ),
        TokenKind::Equals if !has_value(&tokens[index + 1..]) => {
            slip("a value is missing behind this `=`".into(), "a property is `name=\"value\"`")
        }
        TokenKind::Open if is_placeholder(text, tokens, index) => {
            Some(quotes_needed(text, token.span.start, |word| format!("`{word}` needs quotes")).in_kdl())
        }
        TokenKind::Continuation => {
            let follows_directly = next.is_some_and(|next| matches!(next.kind, TokenKind::Bare | TokenKind::Text));
            follows_directly.then(|| quotes_needed(text, token.span.start, |word| format!("`{word}` needs quotes")))
        }
        TokenKind::Open if line.place == Position::Start && !line.is_continued => {
            slip("this `{` belongs to no directive".into(), "it has to stand on the line of its directive")
        }
        TokenKind::BlockComment if line.place != Position::Start && !is_closed_comment(written) => Some(Slip::new(
            token.span.start..token.span.start + 2,
            "this comment is never closed",
            "`/*` begins a comment; a path with a `*` stands in quotes, as in `\"/api/*\"`",
        )),
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
    Some(Slip::new(token.span.clone(), message, help))
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
        return Some(Slip::new(token.span.end..token.span.end + 1, "a `\"` cannot stand in a word", help));
    }
    if written.starts_with(',') || written.ends_with(',') {
        let comma = written.find(',').map_or(token.span.start, |position| token.span.start + position);
        let help = "a blank stands between two, as in `header \"Server\" \"tidegate\"`";
        return Some(Slip::new(comma..comma + 1, "there are no commas between values", help).in_kdl());
    }
    let comment = next.map(|next| (next.kind, &text[next.span.clone()]));
    if written.ends_with(':') && matches!(comment, Some((TokenKind::LineComment, _))) {
        let message = |_: &str| "`//` begins a comment; put the address in quotes".into();
        return Some(quotes_needed(text, token.span.start, message).in_kdl());
    }
    let runs_into_comment = matches!(comment, Some((TokenKind::BlockComment, comment)) if !is_closed_comment(comment));
    match read_word(written) {
        // What is wrong with a keyword is known better than that it needs quotes.
        Err(fault) if fault.help.is_some() => Some(Slip { fault: fault.behind(token.span.start), is_kdl: false }),
        Ok(_) if !runs_into_comment => None,
        Ok(_) | Err(_) => Some(quotes_needed(text, token.span.start, |word| format!("`{word}` needs quotes"))),
    }
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
    Slip::new(start..start + word.len(), message(&shortened(word)), help)
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
    Slip::new(start..start + length, "a text stands in double quotes", help).in_kdl()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let slips = find(text, 5);
        let seen: Vec<(&str, &str)> =
            slips.iter().map(|slip| (&text[slip.fault.span.clone()], slip.fault.message.as_str())).collect();
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
}
