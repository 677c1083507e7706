//! KDL text as a tree of nodes that know where they were written. The `kdl` crate parses; this keeps what lowering needs.
//! Nothing here knows any directive. Text that would cost the parser too much is refused before it is parsed.

use crate::diagnostics::{Diagnostic, FileId, Location, Sources};
use crate::lexer::{self, TokenKind};
use crate::slips::{self, Slip};
use kdl::{KdlDiagnostic, KdlDocument, KdlEntry, KdlNode, KdlValue};
use std::ops::Range;

/// More than any configuration needs. The parser takes about 15 µs a line, so this much would take some seconds.
pub const FILE_BYTES_MAX: usize = 8 << 20;
/// Blocks in blocks. The parser recurses, and five levels are the deepest that mean anything.
const BLOCK_DEPTH_MAX: usize = 32;
/// `/-` inside something switched off by `/-`. The parser reads such a part twice on each level.
const SLASHDASH_DEPTH_MAX: usize = 6;
/// A syntax error early in a file makes the rest look wrong too.
const SYNTAX_ERRORS_MAX: usize = 5;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: Name,
    pub entries: Vec<Entry>,
    /// `None` without a block; `{ }` is `Some` of nothing.
    pub children: Option<Vec<Node>>,
    /// The name and the entries, without the block.
    pub location: Location,
    /// Where a `(type)` was written, which no directive takes.
    pub annotation: Option<Location>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    pub text: String,
    pub location: Location,
}

/// An argument, or with a name a property. In the order written, duplicates included.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: Option<Name>,
    pub value: Value,
    pub location: Location,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    pub literal: Literal,
    pub location: Location,
    /// Bytes from the start of `location` to the first character of the text, when the text stands in the file as it is: no escapes.
    pub verbatim_from: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Text(String),
    Integer(i128),
    Float(f64),
    Switch(bool),
    Null,
}

impl Value {
    /// The place of a part of the text, or the whole value when escapes make that unknowable.
    pub fn part(&self, part: Range<usize>) -> Location {
        match self.verbatim_from {
            None => self.location.clone(),
            Some(offset) => {
                let start = self.location.span.start + offset;
                Location { file: self.location.file, span: start + part.start..start + part.end }
            }
        }
    }
}

impl Node {
    /// The same, elsewhere.
    pub fn relocated(&self, place: &dyn Fn(&Location) -> Location) -> Node {
        let name = |name: &Name| Name { text: name.text.clone(), location: place(&name.location) };
        let entry = |entry: &Entry| Entry {
            name: entry.name.as_ref().map(name),
            value: Value { location: place(&entry.value.location), ..entry.value.clone() },
            location: place(&entry.location),
        };
        Node {
            name: name(&self.name),
            entries: self.entries.iter().map(entry).collect(),
            children: self.children.as_ref().map(|children| children.iter().map(|child| child.relocated(place)).collect()),
            location: place(&self.location),
            annotation: self.annotation.as_ref().map(place),
        }
    }
}

/// The nodes of a file, or everything that keeps it from being KDL.
pub fn parse(sources: &Sources, file: FileId) -> Result<Vec<Node>, Vec<Diagnostic>> {
    parse_text(&sources.file(file).text, file)
}

/// The same for a text that belongs to that file; the places count from its start.
pub fn parse_text(text: &str, file: FileId) -> Result<Vec<Node>, Vec<Diagnostic>> {
    let at = |span| Location { file, span };
    let slips = slips::find(text, SYNTAX_ERRORS_MAX);
    if slips.iter().any(|slip| slip.is_kdl) {
        return Err(slip_errors(slips, file));
    }
    let readable = match without_comments(text) {
        Ok(readable) => readable,
        Err(Refusal::Unfinished(..)) if !slips.is_empty() => return Err(slip_errors(slips, file)),
        Err(Refusal::Unfinished(span, message) | Refusal::TooDeep(span, message)) => {
            return Err(vec![Diagnostic::error("syntax", at(span), message)]);
        }
    };
    match KdlDocument::parse_v2(&readable) {
        Ok(document) => Ok(document.nodes().iter().map(|node| read_node(node, file)).collect()),
        Err(_) if !slips.is_empty() => Err(slip_errors(slips, file)),
        Err(error) => Err(syntax_errors(&error.diagnostics, text, file)),
    }
}

fn slip_errors(slips: Vec<Slip>, file: FileId) -> Vec<Diagnostic> {
    let diagnostic = |slip: Slip| Diagnostic::error("syntax", Location { file, span: slip.span }, slip.message).help(slip.help);
    slips.into_iter().map(diagnostic).collect()
}

/// Why a text never reaches the parser.
enum Refusal {
    Unfinished(Range<usize>, String),
    TooDeep(Range<usize>, String),
}

/// The same text, byte for byte as long, with blanks for comments: the parser recurses for each `*` in a comment.
fn without_comments(text: &str) -> Result<String, Refusal> {
    struct Block {
        slashdash_depth: usize,
        slashdash_in_this_node: bool,
    }
    // A line break between `/-` and what it switches off belongs to it.
    let mut just_after_slashdash = false;
    let mut blanked = String::with_capacity(text.len());
    let mut blocks = vec![Block { slashdash_depth: 0, slashdash_in_this_node: false }];
    for token in lexer::tokens(text) {
        let block = blocks.last_mut().expect("the file itself is never taken off");
        match token.kind {
            TokenKind::LineComment | TokenKind::BlockComment => {
                if token.kind == TokenKind::BlockComment && !text[token.span.clone()].ends_with("*/") {
                    let opening = token.span.start..token.span.start + 2;
                    return Err(Refusal::Unfinished(opening, "this comment is never closed".into()));
                }
                blanked.extend(std::iter::repeat_n(' ', token.span.len()));
                continue;
            }
            TokenKind::Newline | TokenKind::Semicolon => block.slashdash_in_this_node &= just_after_slashdash,
            TokenKind::Slashdash => {
                just_after_slashdash = true;
                block.slashdash_in_this_node = true;
                if block.slashdash_depth >= SLASHDASH_DEPTH_MAX {
                    return Err(Refusal::TooDeep(token.span, format!("`/-` is nested more than {SLASHDASH_DEPTH_MAX} times")));
                }
            }
            TokenKind::Open => {
                let slashdash_depth = block.slashdash_depth + usize::from(block.slashdash_in_this_node);
                blocks.push(Block { slashdash_depth, slashdash_in_this_node: false });
                if blocks.len() > BLOCK_DEPTH_MAX {
                    return Err(Refusal::TooDeep(token.span, format!("blocks are nested more than {BLOCK_DEPTH_MAX} deep")));
                }
            }
            TokenKind::Close if blocks.len() > 1 => {
                blocks.pop();
            }
            _ => {}
        }
        just_after_slashdash &= matches!(token.kind, TokenKind::Slashdash | TokenKind::Newline | TokenKind::Space);
        blanked.push_str(&text[token.span]);
    }
    Ok(blanked)
}

fn syntax_errors(errors: &[KdlDiagnostic], text: &str, file: FileId) -> Vec<Diagnostic> {
    let unclosed = slips::unclosed_block(text);
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    for error in errors {
        let start = error.span.offset().min(text.len());
        let end = (start + error.span.len()).min(text.len());
        // A fault that spans lines is shown by its first line; the rest is what the parser skipped.
        let line_end = text.get(start..end).and_then(|skipped| skipped.find(['\n', '\r'])).map_or(end, |length| start + length);
        let mut location = Location { file, span: start..line_end };
        if diagnostics.iter().any(|known| known.primary.location.span.start == start) {
            continue;
        }
        if error.message.as_deref() == Some("No closing '}' for child block") {
            // With every brace in its pair, the parser gave up inside the block and blames the brace.
            let Some(unclosed) = &unclosed else { continue };
            location.span = unclosed.clone();
        }
        let fault = fault_of(error.message.as_deref().unwrap_or_default(), &text[location.span.clone()]);
        let Some(Fault { message, help, is_last }) = fault else { continue };
        let help = help.or_else(|| error.help.as_deref().map(lower_first));
        diagnostics.push(Diagnostic { help, ..Diagnostic::error("syntax", location, message) });
        if is_last || diagnostics.len() == SYNTAX_ERRORS_MAX {
            break;
        }
    }
    if diagnostics.is_empty() {
        diagnostics.push(Diagnostic::error("syntax", Location { file, span: 0..0 }, "this is not KDL"));
    }
    diagnostics
}

struct Fault {
    message: String,
    help: Option<String>,
    /// What follows it in the text is misread, so what the parser says about that is noise.
    is_last: bool,
}

/// The parser's faults in words that say what to do. `None` repeats one that was reported already.
fn fault_of(parser_message: &str, written: &str) -> Option<Fault> {
    let fault = |message: &str, help: Option<String>, is_last: bool| Some(Fault { message: message.to_string(), help, is_last });
    let bare = written.trim_end_matches(';');
    match parser_message {
        "Found child block instead of node name" => {
            fault("this `{` belongs to no directive", Some("it has to stand on the line of its directive".into()), true)
        }
        "No closing '}' for child block" => fault("this block is never closed", Some("a `}` is missing".into()), true),
        "Closing '}' was not found after nodes" => None,
        "Unexpected newline in single-line quoted string" | "missing string closing quote" => fault(
            "this text is not closed on its line",
            Some("a `\"` is missing; a text over several lines stands in `\"\"\"`".into()),
            true,
        ),
        "Expected end of document" if written.starts_with('}') => fault("this `}` closes nothing", None, true),
        "Expected end of document" => fault("this cannot stand here", None, true),
        "Found invalid node name" => fault("a directive begins with its name", Some("a name is a word or a text".into()), true),
        "Expected quoted string" => fault("this text cannot be read", None, true),
        "matching multiline string prefix" | "Matching multiline string prefix" => fault(
            "the lines of this text are not indented alike",
            Some("each line begins with the same blanks as the `\"\"\"` behind the text".into()),
            true,
        ),
        "Expected identifier string" if matches!(bare, "true" | "false" | "null") => {
            fault(&format!("`{bare}` needs a `#` in front"), Some(format!("write `#{bare}`, or in quotes `\"{bare}\"`")), false)
        }
        "Expected keyword" => fault(
            &format!("`{bare}` is no keyword"),
            Some("there are `#true`, `#false` and `#null`; a text stands in quotes".into()),
            false,
        ),
        "" => fault("this is not KDL", None, false),
        other => fault(&lower_first(other), None, false),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect::<String>().trim_end_matches('.').to_string(),
        None => String::new(),
    }
}

fn read_node(node: &KdlNode, file: FileId) -> Node {
    let written_name = node.name().repr().map_or(node.name().value().len(), str::len);
    let node_start = node.span().offset();
    let (annotation, name_start) = match node.ty() {
        None => (None, node_start),
        Some(_) => {
            let name_start = node.name().span().offset().max(node_start);
            (Some(Location { file, span: node_start..name_start }), name_start)
        }
    };
    let name =
        Name { text: node.name().value().to_string(), location: Location { file, span: name_start..name_start + written_name } };
    let entries: Vec<Entry> = node.entries().iter().map(|entry| read_entry(entry, file)).collect();
    let end = entries.last().map_or(name.location.span.end, |entry| entry.location.span.end);
    let annotation = annotation.or_else(|| {
        let typed = node.entries().iter().position(|entry| entry.ty().is_some())?;
        entries.get(typed).map(|entry| entry.location.clone())
    });
    Node {
        location: Location { file, span: name_start..end },
        children: node.children().map(|children| children.nodes().iter().map(|child| read_node(child, file)).collect()),
        name,
        entries,
        annotation,
    }
}

fn read_entry(entry: &KdlEntry, file: FileId) -> Entry {
    let span = entry.span().offset()..entry.span().offset() + entry.span().len();
    let written = entry.format().map_or("", |format| format.value_repr.as_str());
    let value_start = span.end.saturating_sub(written.len()).max(span.start);
    let literal = match entry.value() {
        KdlValue::String(text) => Literal::Text(text.clone()),
        KdlValue::Integer(integer) => Literal::Integer(*integer),
        KdlValue::Float(float) => Literal::Float(*float),
        KdlValue::Bool(switch) => Literal::Switch(*switch),
        KdlValue::Null => Literal::Null,
    };
    let verbatim_from = match &literal {
        Literal::Text(text) => {
            let opening = written.len() - written.trim_start_matches('#').trim_start_matches('"').len();
            (written.get(opening..opening + text.len()) == Some(text)).then_some(opening)
        }
        _ => None,
    };
    Entry {
        name: entry.name().map(|name| {
            let length = name.repr().map_or(name.value().len(), str::len);
            Name { text: name.value().to_string(), location: Location { file, span: span.start..span.start + length } }
        }),
        value: Value { literal, location: Location { file, span: value_start..span.end }, verbatim_from },
        location: Location { file, span },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::SourceFile;

    fn parse_text(text: &str) -> Result<Vec<Node>, Vec<Diagnostic>> {
        let mut sources = Sources::default();
        let file = sources.add(SourceFile { name: "t".into(), text: text.into(), directory: std::path::PathBuf::new() });
        parse(&sources, file)
    }

    #[test]
    fn names_entries_and_values_know_their_place() {
        let text = "/* x */ site \"a\" {\r\n\t\u{fc} b = \"c\" #\"d\"# 5 \"\\n\" // end\r\n}\r\n";
        let nodes = parse_text(text).expect("valid KDL");
        let written = |location: &Location| &text[location.span.clone()];
        assert_eq!(written(&nodes[0].name.location), "site");
        assert_eq!(written(&nodes[0].location), "site \"a\"");
        let child = &nodes[0].children.as_ref().expect("a block")[0];
        assert_eq!(written(&child.name.location), "\u{fc}");
        let values: Vec<&str> = child.entries.iter().map(|entry| written(&entry.value.location)).collect();
        assert_eq!(values, ["\"c\"", "#\"d\"#", "5", "\"\\n\""]);
        assert_eq!(written(&child.entries[0].name.as_ref().expect("a property").location), "b");
        assert_eq!(written(&child.entries[1].value.part(0..1)), "d");
        assert_eq!(child.entries[3].value.verbatim_from, None);
    }

    #[test]
    fn text_that_would_exhaust_the_parser_is_refused_quickly() {
        let check = |text: &str, expected: &str| {
            let diagnostics = parse_text(text).expect_err("refused");
            assert_eq!(diagnostics[0].message, expected);
        };
        check(&"a {".repeat(10_000), "blocks are nested more than 32 deep");
        check(&"a {\n/-".repeat(30), "`/-` is nested more than 6 times");
        check(&"/*".repeat(100_000), "this comment is never closed");
        assert_eq!(parse_text(&format!("/{}/ a", "*".repeat(100_000))).expect("a comment").len(), 1);
    }

    #[test]
    fn parsing_never_panics() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let _ = parse_text(text);
        });
    }
}
