//! YAML into the values of JSON, as Kubernetes reads it. Pure. What stands in a text is repeated by no fault of it: it
//! may be a key.

use granit_parser::{Event, Options, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;

/// Values of one text, those that aliases stand for counted each time: a short text can mean more than there is memory.
const VALUES_MAX: usize = 500_000;
/// Maps and lists inside of one another.
const DEPTH_MAX: usize = 64;

/// The documents of a text that are not empty. `Err` says what is wrong and where, without its subject.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let mut whole = Vec::new();
    read_documents(text, &mut whole).map(|()| whole)
}

/// Puts the documents of a text that are not empty behind `whole`, up to the one that is broken.
pub fn read_documents(text: &str, whole: &mut Vec<Value>) -> Result<(), String> {
    let mut options = Options::default();
    (options.flow_nesting_limit, options.block_nesting_limit) = (DEPTH_MAX, DEPTH_MAX);
    let mut reading =
        Reading { parser: Parser::new_from_str_with_options(text, options), anchors: HashMap::new(), values_left: VALUES_MAX };
    while let Some((event, span)) = reading.next()? {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
            node => {
                let document = reading.value(node, span, 0)?;
                reading.anchors.clear();
                if !document.is_null() {
                    whole.push(document);
                }
            }
        }
    }
    Ok(())
}

struct Reading<'t> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    /// What aliases stand for, with how many values it is.
    anchors: HashMap<usize, (Value, usize)>,
    values_left: usize,
}

impl<'t> Reading<'t> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, String> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => {
                let mark = error.marker();
                Err(format!("is no YAML at line {} column {}", mark.line(), mark.col() + 1))
            }
        }
    }

    fn inside(&mut self, at: Span) -> Result<(Event<'t>, Span), String> {
        self.next()?.ok_or_else(|| format!("ends in the middle of what begins {}", place(at)))
    }

    fn value(&mut self, event: Event<'t>, at: Span, depth: usize) -> Result<Value, String> {
        self.take(1)?;
        if depth > DEPTH_MAX {
            return Err(format!("is too deep {}", place(at)));
        }
        let before = self.values_left;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
                (if is_text { Value::from(&*text) } else { plain(&text) }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list(at, depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(at, depth)?, anchor),
            Event::Alias(anchor) => {
                let unknown = || format!("has an alias of nothing, or of what it stands in, {}", place(at));
                let (value, values) = self.anchors.get(&anchor).cloned().ok_or_else(unknown)?;
                self.take(values)?;
                return Ok(value);
            }
            // The others stand for no value.
            _ => return Err(format!("has something else than a value {}", place(at))),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), before - self.values_left));
        }
        Ok(value)
    }

    fn list(&mut self, began: Span, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        loop {
            match self.inside(began)? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                (event, at) => items.push(self.value(event, at, depth + 1)?),
            }
        }
    }

    fn map(&mut self, began: Span, depth: usize) -> Result<Value, String> {
        let mut fields = Map::new();
        loop {
            let (key, at) = match self.inside(began)? {
                (Event::MappingEnd, _) => return Ok(Value::Object(fields)),
                (Event::Scalar(key, ..), at) => (key.into_owned(), at),
                (_, at) => return Err(format!("has a key that is no text {}", place(at))),
            };
            let (event, value_at) = self.inside(began)?;
            let value = self.value(event, value_at, depth + 1)?;
            if fields.insert(key, value).is_some() {
                return Err(format!("has a key a second time {}", place(at)));
            }
        }
    }

    fn take(&mut self, values: usize) -> Result<(), String> {
        let left = self.values_left.checked_sub(values);
        self.values_left = left.ok_or_else(|| format!("has more than {VALUES_MAX} values"))?;
        Ok(())
    }
}

fn place(at: Span) -> String {
    format!("at line {} column {}", at.start.line(), at.start.col() + 1)
}

/// A text without quotes, by the core schema of YAML 1.2: it may be a number, a switch or nothing.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::from(text), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Number::from).filter(|_| unsigned.len() == text.len());
    }
    if let Some(digits) = unsigned.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Number::from).filter(|_| unsigned.len() == text.len());
    }
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    let whole = || text.parse::<i64>().ok().map(Number::from).or_else(|| text.parse::<u64>().ok().map(Number::from));
    let broken = || text.parse::<f64>().ok().and_then(Number::from_f64);
    is_number.then(|| whole().or_else(broken)).flatten()
}

#[cfg(test)]
mod tests {
    use super::documents;
    use serde_json::{Value, json};

    #[test]
    fn texts_are_read_as_the_values_of_json() {
        let check = |text: &str, expected: &[Value]| {
            assert_eq!(documents(text).as_deref(), Ok(expected), "{text}");
        };
        check("", &[]);
        check("# nothing\n---\n---\n~\n", &[]);
        check("a: 1\n---\n[b, 'c']\n", &[json!({"a": 1}), json!(["b", "c"])]);
        check("{\"a\": {\"b\": [1, true, null]}}", &[json!({"a": {"b": [1, true, null]}})]);
        check("a: |\n  x\n  y\nb: >-\n  x\n  y\n", &[json!({"a": "x\ny\n", "b": "x y"})]);
        check("a: &one {x: 1}\nb: *one\n", &[json!({"a": {"x": 1}, "b": {"x": 1}})]);
        check("a: !!str 1\nb: \"1\"\nc: '1'\n", &[json!({"a": "1", "b": "1", "c": "1"})]);
        check("1: x\ntrue: y\n", &[json!({"1": "x", "true": "y"})]);
        check("a:\n- b\n- c: d\n  e: f\n", &[json!({"a": ["b", {"c": "d", "e": "f"}]})]);
    }

    #[test]
    fn plain_texts_may_be_numbers_and_switches() {
        let check = |text: &str, expected: Value| assert_eq!(documents(text), Ok(vec![expected]), "{text}");
        check("0", json!(0));
        check("-17", json!(-17));
        check("18446744073709551615", json!(u64::MAX));
        check("0x1F", json!(31));
        check("0o17", json!(15));
        check("1.5e3", json!(1500.0));
        check(".5", json!(0.5));
        check("True", json!(true));
        // Texts, although they look like something.
        for text in ["1.2.3", "2026-11-01", "10.0.0.1", "1e", "+", ".", "e3", "yes", "on", "inf", "nan", "1_000"] {
            check(text, json!(text));
        }
    }

    #[test]
    fn what_cannot_be_read_is_located_and_not_shown() {
        let check = |text: &str, expected: &str| assert_eq!(documents(text), Err(expected.to_owned()), "{text}");
        check("a: [hush", "is no YAML at line 1 column 4");
        check("a: 1\na: 2\n", "has a key a second time at line 2 column 1");
        check("? [a]\n: 1\n", "has a key that is no text at line 1 column 3");
        check("a: *one\n", "is no YAML at line 1 column 4");
    }

    #[test]
    fn what_a_short_text_can_become_has_bounds() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let before = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", ")));
        }
        assert_eq!(documents(&bomb), Err("has more than 500000 values".to_owned()));
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        assert!(documents(&deep).is_err());
        let deep: Vec<String> = (0..500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        assert!(documents(&deep.concat()).is_err());
    }

    #[test]
    fn no_text_makes_it_panic() {
        bolero::check!().for_each(|bytes: &[u8]| _ = documents(&String::from_utf8_lossy(bytes)));
    }
}
