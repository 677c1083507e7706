//! Pieces that differ in nothing but what stands between their quotes are parsed once. A script that writes ten thousand sites gives all of them one
//! shape, and the parser took more than a third of a start with 50,000 of them. Who asks is `pieces`; what a shape is, no parser decides
//! again: texts are put in the place of other texts in a tree that the parser made.

use crate::diagnostics::{FileId, Location};
use crate::lexer::{TokenKind, Tokens};
use crate::syntax::{Entry, Literal, Name, Node, Value};
use std::collections::HashMap;
use std::ops::Range;

/// Who writes by hand has about as many; with one more, all are forgotten.
const SHAPES_MAX: usize = 64;
/// Longer pieces are seldom alike, and the trees of all shapes are held until the load is over.
const PIECE_BYTES_MAX: usize = 16 << 10;
/// Stands for a text in the key of a shape. KDL does not allow it anywhere.
const HOLE: char = '\u{1}';

/// Of one load.
#[derive(Debug, Default)]
pub struct Shapes {
    /// By their text with holes in it; `None` where texts decided more than their own value.
    known: HashMap<String, Option<Shape>>,
}

#[derive(Debug)]
struct Shape {
    nodes: Vec<Node>,
    /// What stands between the quotes of each text, in the piece that was parsed.
    texts: Vec<Range<usize>>,
}

impl Shapes {
    /// The nodes of a piece; `parse` is asked for the first of each shape. `context` is what besides the text decides what comes out.
    pub fn nodes_of(
        &mut self,
        text: &str,
        context: bool,
        file: FileId,
        parse: impl FnOnce() -> Option<Vec<Node>>,
    ) -> Option<Vec<Node>> {
        let Some((key, texts)) = outline(text, context) else { return parse() };
        if let Some(Some(shape)) = self.known.get(&key) {
            return Some(shape.filled(text, &texts, file));
        }
        let nodes = parse()?;
        if self.known.len() == SHAPES_MAX {
            // Those that follow may be alike, whatever stood before them.
            self.known.clear();
        }
        self.known.entry(key).or_insert_with(|| Shape::of(&nodes, text, texts));
        Some(nodes)
    }
}

/// The text with holes for the contents of its plain texts, and where those are. `None` where it is not worth it.
fn outline(text: &str, context: bool) -> Option<(String, Vec<Range<usize>>)> {
    if text.len() > PIECE_BYTES_MAX || text.contains(HOLE) {
        return None;
    }
    let mut key = String::with_capacity(text.len() + 1);
    key.push(if context { '1' } else { '0' });
    let mut texts = Vec::new();
    for token in Tokens::of(text) {
        let written = &text[token.span.clone()];
        if token.kind == TokenKind::Text && is_plain(written) {
            key.push_str("\"\u{1}\"");
            texts.push(token.span.start + 1..token.span.end - 1);
        } else {
            key.push_str(written);
        }
    }
    (!texts.is_empty()).then_some((key, texts))
}

/// A text in single quotes on one line, without escapes: whatever it holds, the parser makes the same of it.
fn is_plain(written: &str) -> bool {
    let content = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    content.is_some_and(|content| {
        !content.is_empty() && content.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
    })
}

impl Shape {
    /// `None` unless each text is a value or a name of its own in the tree, or in no part of it.
    fn of(nodes: &[Node], text: &str, texts: Vec<Range<usize>>) -> Option<Shape> {
        let is_apart = |at: &Location| texts.iter().all(|hole| !cuts(&at.span, hole));
        let fits = |value: Option<&str>, at: &Location| match hole_at(&texts, &at.span) {
            Some(hole) => value == Some(&text[texts[hole].clone()]),
            None => texts.iter().all(|hole| at.span.end < hole.start || hole.end < at.span.start),
        };
        let fits_name = |name: &Name| fits(Some(&name.text), &name.location);
        let fits_entry = |entry: &Entry| {
            let value = match &entry.value.literal {
                Literal::Text(text) => Some(text.as_str()),
                Literal::Integer(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => None,
            };
            is_apart(&entry.location) && fits(value, &entry.value.location) && entry.name.as_ref().is_none_or(fits_name)
        };
        let is_whole = all(nodes, &|node| {
            is_apart(&node.location)
                && node.annotation.as_ref().is_none_or(is_apart)
                && fits_name(&node.name)
                && node.entries.iter().all(fits_entry)
        });
        is_whole.then(|| Shape { nodes: nodes.to_vec(), texts })
    }

    /// The tree for a piece of this shape with these texts.
    fn filled(&self, text: &str, texts: &[Range<usize>], file: FileId) -> Vec<Node> {
        let filling = Filling { before: &self.texts, text, texts, file };
        self.nodes.iter().map(|node| filling.node(node)).collect()
    }
}

fn all(nodes: &[Node], check: &impl Fn(&Node) -> bool) -> bool {
    nodes.iter().all(|node| check(node) && node.children.as_deref().is_none_or(|children| all(children, check)))
}

/// Whether a place begins or ends within a text.
fn cuts(span: &Range<usize>, hole: &Range<usize>) -> bool {
    let is_within = |at: usize| hole.start <= at && at <= hole.end;
    is_within(span.start) || is_within(span.end)
}

/// Which text the place is of, with its quotes.
fn hole_at(texts: &[Range<usize>], span: &Range<usize>) -> Option<usize> {
    let index = texts.partition_point(|hole| hole.start <= span.start);
    texts.get(index).filter(|hole| hole.start == span.start + 1 && hole.end + 1 == span.end).map(|_| index)
}

/// Puts texts in the place of those that a tree was made with.
struct Filling<'f> {
    before: &'f [Range<usize>],
    text: &'f str,
    texts: &'f [Range<usize>],
    file: FileId,
}

impl Filling<'_> {
    fn node(&self, node: &Node) -> Node {
        Node {
            name: self.name(&node.name),
            entries: node.entries.iter().map(|entry| self.entry(entry)).collect(),
            children: node.children.as_ref().map(|children| children.iter().map(|child| self.node(child)).collect()),
            location: self.location(&node.location),
            annotation: node.annotation.as_ref().map(|at| self.location(at)),
        }
    }

    fn name(&self, name: &Name) -> Name {
        let text = self.text_of(&name.location).unwrap_or(&name.text);
        Name { text: text.to_owned(), location: self.location(&name.location) }
    }

    fn entry(&self, entry: &Entry) -> Entry {
        let literal = match (&entry.value.literal, self.text_of(&entry.value.location)) {
            (Literal::Text(_), Some(text)) => Literal::Text(text.to_owned()),
            (literal, _) => literal.clone(),
        };
        Entry {
            name: entry.name.as_ref().map(|name| self.name(name)),
            value: Value { literal, location: self.location(&entry.value.location), verbatim_from: entry.value.verbatim_from },
            location: self.location(&entry.location),
        }
    }

    /// What stands now where there was another text.
    fn text_of(&self, before: &Location) -> Option<&str> {
        let hole = hole_at(self.before, &before.span)?;
        self.text.get(self.texts.get(hole)?.clone())
    }

    fn location(&self, before: &Location) -> Location {
        Location { file: self.file, span: self.moved(before.span.start)..self.moved(before.span.end) }
    }

    /// Where a place is now that lies outside of all texts: as far behind the text in front of it as it was.
    fn moved(&self, at: usize) -> usize {
        match self.before.partition_point(|hole| hole.end < at).checked_sub(1) {
            None => at,
            Some(hole) => self.texts[hole].end + (at - self.before[hole].end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shapes;
    use crate::diagnostics::{FileId, SourceFile, Sources};
    use crate::syntax;

    fn file() -> FileId {
        Sources::default().add(SourceFile { name: "t".into(), text: String::new(), directory: std::path::PathBuf::new() })
    }

    /// Parsed one after the other, `count` of them by the parser.
    fn check(pieces: &[&str], count: usize) {
        let (mut shapes, mut parsed) = (Shapes::default(), 0);
        for piece in pieces {
            let expected = syntax::parse_text(piece, file()).ok();
            let nodes = shapes.nodes_of(piece, true, file(), || {
                parsed += 1;
                expected.clone()
            });
            assert_eq!(nodes, expected, "{piece}");
        }
        assert_eq!(parsed, count, "{pieces:?}");
    }

    #[test]
    fn pieces_that_differ_in_their_texts_are_parsed_once() {
        check(
            &[
                "site \"https://a.example\" { tls cert=\"a.pem\"; proxy \"x\" \"y\"; }\n",
                "site \"https://longer.example\" { tls cert=\"b\"; proxy \"y\" \"-\"; }\n",
                "site \"b\" { tls cert=\"/etc/ssl/b.pem\"; proxy \"y\" \"}\"; }\n",
            ],
            1,
        );
        check(&["a \"b\" /- \"c\" \"d\" // \"e\"\n", "a \"bb\" /- \"ccc\" \"dd\" // \"e\"\n"], 1);
        check(&["\"a\" \"b\"=\"c\" (\"t\")\"d\"\n", "\"aa\" \"bb\"=\"cc\" (\"tt\")\"dd\"\n"], 1);
        check(&["\"a\" \"b\"=\"c\"\n", "\"aa\" \"bb\"=\"cc\"\n"], 1);
    }

    #[test]
    fn what_is_not_plain_belongs_to_the_shape() {
        check(&["a \"\\n\" \"b\"\n", "a \"\\t\" \"b\"\n"], 2);
        check(&["a #\"x\"# \"b\"\n", "a #\"y\"# \"b\"\n"], 2);
        check(&["a \"\" \"b\"\n", "a \"x\" \"b\"\n", "a \"y\" \"b\"\n"], 2);
        check(&["a \"\u{e9}\" \"b\"\n", "a \"\u{e8}\" \"b\"\n"], 2);
        check(&["a \"\"\"\nx\n\"\"\" \"b\"\n", "a \"\"\"\ny\n\"\"\" \"b\"\n"], 2);
        check(&["a 1 \"b\"\n", "a 2 \"b\"\n"], 2);
        check(&["a \"b\" \u{1}", "a \"c\" \u{1}"], 2);
        check(&["a \"b", "a \"c"], 2);
    }

    #[test]
    fn any_texts_in_any_shape_are_what_the_parser_makes_of_them() {
        bolero::check!().with_type::<(Vec<u8>, Vec<u8>)>().for_each(|(choices, others): &(Vec<u8>, Vec<u8>)| {
            const WORDS: [&str; 22] = [
                "a",
                "b=",
                " ",
                "\n",
                "{",
                "}",
                "{ c ",
                ";",
                "/-",
                "\\\n",
                "#\"r\"#",
                "x=1",
                "// y\n",
                "/* \"z\" */",
                "(",
                ")",
                "=",
                "\"\"",
                "\"\\u{41}\"",
                "'",
                "#true",
                "\"\"\"\n\"\"\"",
            ];
            const TEXTS: [&str; 8] = ["p", "site", "https://x.example:8443", "{", "// q", "#", "a b  c", "~"];
            let written = |seed: &[u8]| -> String {
                let word = |(index, choice): (usize, &u8)| match *choice {
                    choice if choice >= 160 => {
                        let other = seed.get(index).copied().unwrap_or_default();
                        format!("\"{}\"", TEXTS[(choice ^ other) as usize % TEXTS.len()])
                    }
                    choice => WORDS[choice as usize % WORDS.len()].to_owned(),
                };
                choices.iter().enumerate().map(word).collect()
            };
            let mut shapes = Shapes::default();
            for text in [written(&[]), written(others)] {
                let expected = syntax::parse_text(&text, file()).ok();
                let nodes = shapes.nodes_of(&text, true, file(), || expected.clone());
                assert_eq!(nodes, expected, "{text:?}");
            }
        });
    }
}
