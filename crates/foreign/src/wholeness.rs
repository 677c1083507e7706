//! What keeps a text from being whole JSON, YAML or TOML: a brace that nothing closes, a quote without an end, a tab
//! that indents. Readers take what they understand of a text; what is cut in the middle is told before.

use crate::tree::is_closed;

/// Deeper ones are no configuration.
const DEPTH_MAX: usize = 512;

/// The first fault of a JSON text, and where it is.
pub fn of_json(text: &str) -> Option<(usize, String)> {
    let mut scan = Scan::default();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (scan.quote, c) {
            (Some(_), '\\') => {
                chars.next();
            }
            (Some(_), '"') => scan.quote = None,
            (Some(opened), '\n') => return Some(unended(text, opened)),
            (Some(_), _) => {}
            (None, '"') => scan.quote = Some(at),
            (None, c) => {
                if let Some(fault) = scan.bracket(text, at, c) {
                    return Some(fault);
                }
            }
        }
    }
    scan.end(text)
}

/// The first fault of a YAML text, and where it is. Only what stands in braces and quotes has an end.
pub fn of_yaml(text: &str) -> Option<(usize, String)> {
    let mut scan = Scan::default();
    // Texts over several lines hold whatever they like.
    let mut literal: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_empty = line.trim().is_empty();
        if literal.is_some_and(|around| is_empty || indent > around) {
            continue;
        }
        literal = None;
        let is_within = scan.quote.is_some() || !scan.open.is_empty();
        if !is_within && !is_empty && line[indent..].starts_with('\t') && !line.trim_start().starts_with('#') {
            let place = placed(text, start + indent);
            return Some((start + indent, format!("a tab indents at {place}: YAML takes blanks alone")));
        }
        if let Some(fault) = of_line(text, line, start, &mut scan) {
            return Some(fault);
        }
        let head = line.split(" #").next().unwrap_or_default().trim_end();
        let last = head.rsplit([' ', ':']).next().unwrap_or_default();
        let is_literal =
            last.starts_with(['|', '>']) && last.len() <= 3 && last[1..].chars().all(|c| matches!(c, '+' | '-' | '0'..='9'));
        if is_literal && scan.open.is_empty() {
            literal = Some(indent);
        }
    }
    scan.end(text)
}

/// The first fault of a TOML text, and where it is: a list or a table in braces, as a value, that nothing closes.
pub fn of_toml(text: &str) -> Option<(usize, String)> {
    /// A value of more lines is not looked at.
    const LINES_OPEN_MAX: usize = 400;
    let mut at = 0;
    let mut open: Option<(usize, String, usize)> = None;
    for line in text.split_inclusive('\n') {
        let code = line.trim().split(" #").next().unwrap_or_default();
        let value = code.split_once('=').map_or("", |(_, value)| value).trim_start();
        match &mut open {
            Some((_, text, lines)) => {
                text.push_str(code);
                *lines += 1;
                if is_closed(text) || *lines > LINES_OPEN_MAX {
                    open = None;
                }
            }
            None if value.starts_with(['[', '{']) && !is_closed(value) => {
                open = Some((at + (line.len() - line.trim_start().len()), value.to_owned(), 0));
            }
            None => {}
        }
        at += line.len();
    }
    open.map(|(at, _, _)| (at, format!("nothing closes the value of {}: the file may be cut", placed(text, at))))
}

fn of_line(text: &str, line: &str, start: usize, scan: &mut Scan) -> Option<(usize, String)> {
    let mut before = ' ';
    // Outside of braces a value begins behind a key, behind a dash, or with the line.
    let mut begins = true;
    let mut chars = line.char_indices().peekable();
    while let Some((offset, c)) = chars.next() {
        let at = start + offset;
        let is_within = !scan.open.is_empty();
        match (scan.quote, c) {
            (Some(opened), '\\') if text[opened..].starts_with('"') => {
                chars.next();
            }
            (Some(opened), c) if text[opened..].starts_with(c) => scan.quote = None,
            (Some(_), _) => {}
            (None, '#') if before.is_whitespace() => break,
            (None, '"' | '\'') if begins || (is_within && matches!(before, ' ' | '[' | '{' | ',' | ':')) => scan.quote = Some(at),
            (None, '[' | '{' | ']' | '}') if begins || is_within => {
                if let Some(fault) = scan.bracket(text, at, c) {
                    return Some(fault);
                }
            }
            (None, _) => {}
        }
        begins = match c {
            ' ' => begins || matches!(before, ':' | '-'),
            '-' => begins,
            _ => false,
        };
        before = c;
    }
    None
}

/// What is open at a place.
#[derive(Default)]
struct Scan {
    quote: Option<usize>,
    open: Vec<(char, usize)>,
}

impl Scan {
    fn bracket(&mut self, text: &str, at: usize, c: char) -> Option<(usize, String)> {
        let closes = match c {
            '[' | '{' => {
                self.open.push((c, at));
                let is_deep = self.open.len() > DEPTH_MAX;
                return is_deep.then(|| (at, format!("braces go deeper than {DEPTH_MAX} at {}", placed(text, at))));
            }
            ']' => '[',
            '}' => '{',
            _ => return None,
        };
        match self.open.pop() {
            Some((opened, _)) if opened == closes => None,
            Some((opened, since)) => Some((
                at,
                format!(
                    "`{c}` at {} closes the `{opened}` of {}: something is missing between them",
                    placed(text, at),
                    placed(text, since)
                ),
            )),
            None => Some((at, format!("`{c}` at {} closes nothing", placed(text, at)))),
        }
    }

    fn end(&self, text: &str) -> Option<(usize, String)> {
        if let Some(opened) = self.quote {
            return Some(unended(text, opened));
        }
        let (c, at) = self.open.last()?;
        Some((*at, format!("nothing closes the `{c}` at {}: the file may be cut", placed(text, *at))))
    }
}

fn unended(text: &str, at: usize) -> (usize, String) {
    (at, format!("the quote at {} has no end: the file may be cut", placed(text, at)))
}

/// `line 3, column 7`
fn placed(text: &str, at: usize) -> String {
    let before = &text[..at];
    let column = before.rfind('\n').map_or(before, |end| &before[end + 1..]).chars().count() + 1;
    format!("line {}, column {column}", before.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::{of_json, of_toml, of_yaml};

    #[test]
    fn half_texts_are_told() {
        let json = |text: &str, expected: &str| {
            let (_, fault) = of_json(text).expect("a fault");
            assert!(fault.contains(expected), "{fault}");
        };
        json("{\"a\": [1, 2", "`[` at line 1, column 7");
        json("{\"a\": \"b\n}", "the quote at line 1, column 7");
        json("{\"a\": [}", "`}` at line 1, column 8 closes the `[`");
        json("{}\n}", "line 2, column 1 closes nothing");
        let yaml = |text: &str, expected: &str| {
            let (_, fault) = of_yaml(text).expect("a fault");
            assert!(fault.contains(expected), "{fault}");
        };
        let (_, toml) = of_toml("a = 1\nb = [\n  \"c\",\n").expect("a fault");
        assert!(toml.contains("line 2, column 1"), "{toml}");
        assert_eq!(of_toml("[a]\nb = [\n  \"c\", # [\n]\nd = { e = 1 }\n"), None);
        yaml("a:\n\tb: 1\n", "line 2, column 1");
        yaml("a: { b: [1, 2 }\n", "closes the `[`");
        yaml("a: { b: 1\nc: 2\n", "`{` at line 1, column 4");
        yaml("a: \"b\nc: 2\n", "the quote at line 1, column 4");
    }

    #[test]
    fn whole_texts_have_no_fault() {
        let check = |text: &str| assert_eq!(of_yaml(text), None, "for {text}");
        check("a: it's [ fine\nb: ^/v[0-9]+{2}\n- x: {a: \"}\", b: ['[']} # {\n");
        check("code: |\n  if a then { [ \"\n    b\nc: { d: 1 }\n");
        check("a: {\n\tb: 1 }\n");
        check("a:\n- \"b # c\": 'd''e'\n- [x, \"y\"]\n");
        assert_eq!(of_json("{\"a\": \"\\\"}\", \"b\": []}\n"), None);
    }

    #[test]
    fn no_text_makes_it_panic() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            of_json(text);
            of_toml(&format!("a = [{text}"));
            for head in ["", "a: ", "a: {", "a: |\n ", "- \""] {
                of_yaml(&format!("{head}{text}"));
            }
        });
    }
}
