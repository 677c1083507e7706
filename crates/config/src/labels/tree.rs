//! Nodes that stand in no file: what labels mean, as a file would have it. Their places are those of the labels.

use crate::diagnostics::{FileId, Location, SourceFile, Sources};
use crate::syntax::{Entry, Literal, Name, Node, Value};
use std::path::PathBuf;

/// A label of a container, as a text that diagnostics can point into.
#[derive(Debug, Clone)]
pub struct LabelText {
    pub file: FileId,
    pub text: String,
}

impl LabelText {
    /// `what`: `label tidegate.site`, or `variable VIRTUAL_HOST`.
    pub fn new(sources: &mut Sources, container: &str, what: &str, text: &str) -> LabelText {
        let name = format!("container {container}, {what}");
        let file = sources.add(SourceFile { name, text: text.into(), directory: PathBuf::from("/") });
        LabelText { file, text: text.to_owned() }
    }

    pub fn whole(&self) -> Location {
        Location { file: self.file, span: 0..self.text.len() }
    }

    /// The parts between blanks and `separators`, each where it stands.
    pub fn parts(&self, separators: &[char]) -> Vec<Value> {
        let is_between = |c: char| c.is_whitespace() || separators.contains(&c);
        let mut parts = Vec::new();
        let mut start = None;
        for (at, c) in self.text.char_indices().chain(std::iter::once((self.text.len(), ' '))) {
            match (start, is_between(c)) {
                (None, false) => start = Some(at),
                (Some(from), true) => {
                    parts.push(self.part(from..at));
                    start = None;
                }
                (None, true) | (Some(_), false) => {}
            }
        }
        parts
    }

    pub fn part(&self, span: std::ops::Range<usize>) -> Value {
        let literal = Literal::Text(self.text[span.clone()].to_owned());
        Value { literal, location: Location { file: self.file, span }, verbatim_from: Some(0) }
    }
}

/// The quote that stands around a text, which YAML keeps as a part of a value.
pub fn quote_around(text: &str) -> Option<char> {
    text.trim().chars().next().filter(|c| matches!(c, '"' | '\'' | '`' | '“' | '„' | '‘'))
}

/// A text of the program's own, for what a label has asked for.
pub fn text(text: impl Into<String>, at: &Location) -> Value {
    Value { literal: Literal::Text(text.into()), location: at.clone(), verbatim_from: None }
}

pub fn number(number: impl Into<i128>, at: &Location) -> Value {
    Value { literal: Literal::Integer(number.into()), location: at.clone(), verbatim_from: None }
}

/// A line, to be filled.
pub fn line(name: &str, at: &Location) -> Node {
    let name = Name { text: name.to_owned(), location: at.clone() };
    Node { name, entries: Vec::new(), children: None, location: at.clone(), annotation: None }
}

/// Adds to a line.
pub trait Fill {
    #[must_use]
    fn argument(self, value: Value) -> Self;
    #[must_use]
    fn property(self, name: &str, value: Value) -> Self;
    #[must_use]
    fn block(self, children: Vec<Node>) -> Self;
    /// The words and values of a line, without where they stand.
    fn write_shape(&self, into: &mut String);
}

impl Fill for Node {
    fn argument(mut self, value: Value) -> Node {
        let location = value.location.clone();
        self.entries.push(Entry { name: None, value, location });
        self
    }

    fn property(mut self, name: &str, value: Value) -> Node {
        let location = value.location.clone();
        let name = Some(Name { text: name.to_owned(), location: location.clone() });
        self.entries.push(Entry { name, value, location });
        self
    }

    fn block(mut self, children: Vec<Node>) -> Node {
        self.children = Some(children);
        self
    }

    fn write_shape(&self, into: &mut String) {
        into.push_str(&self.name.text);
        for entry in &self.entries {
            let name = entry.name.as_ref().map(|name| name.text.as_str());
            into.push_str(&format!(" {name:?}{:?}", entry.value.literal));
        }
        for child in self.children.iter().flatten() {
            into.push('{');
            child.write_shape(into);
            into.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LabelText;
    use crate::diagnostics::Sources;
    use crate::syntax::Literal;

    #[test]
    fn parts_know_where_they_stand() {
        let check = |text: &str, expected: &[(&str, usize)]| {
            let label = LabelText::new(&mut Sources::default(), "a", "label b", text);
            let seen: Vec<(String, usize)> = label
                .parts(&[','])
                .into_iter()
                .map(|value| {
                    let Literal::Text(text) = value.literal else { unreachable!("parts are texts") };
                    (text, value.location.span.start)
                })
                .collect();
            let expected: Vec<(String, usize)> = expected.iter().map(|(text, at)| ((*text).to_owned(), *at)).collect();
            assert_eq!(seen, expected, "for {text:?}");
        };
        check("a.test", &[("a.test", 0)]);
        check(" a.test,  ü.test\n", &[("a.test", 1), ("ü.test", 10)]);
        check(",,", &[]);
        check("", &[]);
    }
}
