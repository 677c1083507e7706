//! Nodes as canonical text: what `fmt` would leave as it is. Strings are raw where that spares escapes.

use crate::document::json::NOT;
use crate::syntax::{Entry, Literal, Node};
use tidegate_kdl::quoted_where;

/// How lines are begun and ended where the text goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What stands in front of the lines of the node.
    pub indentation: String,
    /// One level more.
    pub level: &'static str,
    pub line_break: &'static str,
}

impl Layout {
    pub const TOP: Layout = Layout { indentation: String::new(), level: "    ", line_break: "\n" };

    pub fn inner(&self) -> Layout {
        Layout { indentation: format!("{}{}", self.indentation, self.level), ..self.clone() }
    }

    pub fn new_line(&self) -> String {
        format!("{}{}", self.line_break, self.indentation)
    }
}

/// The node from its name to the end of its block, for a place that is indented already.
pub fn node(node: &Node, layout: &Layout) -> String {
    let mut out = node.name.text.clone();
    for one in &node.entries {
        out.push(' ');
        out.push_str(&entry(node, one));
    }
    if let Some(children) = &node.children {
        out.push(' ');
        out.push_str(&block(children, layout));
    }
    out
}

/// With its braces; the layout is that of the node.
pub fn block(children: &[Node], layout: &Layout) -> String {
    if children.is_empty() {
        return "{}".into();
    }
    let inner = layout.inner();
    let mut out = String::from("{");
    for child in children {
        out.push_str(&inner.new_line());
        out.push_str(&node(child, &inner));
    }
    out.push_str(&layout.new_line());
    out.push('}');
    out
}

pub fn entry(owner: &Node, entry: &Entry) -> String {
    match &entry.name {
        Some(name) => format!("{}={}", name.text, literal(&entry.value.literal)),
        None if owner.name.text == "match" => NOT.into(),
        None => literal(&entry.value.literal),
    }
}

pub fn literal(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => quoted(text),
        Literal::Integer(number) => number.to_string(),
        Literal::Float(number) => number.to_string(),
        Literal::Switch(true) => "#true".into(),
        Literal::Switch(false) => "#false".into(),
        Literal::Null => "#null".into(),
    }
}

fn quoted(text: &str) -> String {
    // With more, the raw form is no easier to read.
    const HASHES_MAX: usize = 3;
    let needs_escapes = text.contains(needs_escape) || text.starts_with('"');
    if !needs_escapes && text.contains(['"', '\\']) {
        let mut hashes = (1..=HASHES_MAX).map(|count| "#".repeat(count));
        if let Some(hashes) = hashes.find(|hashes| !text.contains(&format!("\"{hashes}"))) {
            return format!("{hashes}\"{text}\"{hashes}");
        }
    }
    quoted_where(text, needs_escape)
}

/// Line breaks, and what KDL does not let stand in a text as it is: control characters, and those that turn the
/// direction of writing.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::{SourceFile, Sources};
    use crate::syntax;

    #[test]
    fn every_text_reads_back() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let written = format!("a {}\n", quoted(text));
            let mut sources = Sources::default();
            let file =
                sources.add(SourceFile { name: "t".into(), text: written.as_str().into(), directory: std::path::PathBuf::new() });
            let nodes = syntax::parse(&sources, file).unwrap_or_else(|errors| panic!("{errors:?} for {written}"));
            assert_eq!(nodes[0].entries[0].value.literal, Literal::Text(text.clone()), "for {written}");
        });
    }

    #[test]
    fn texts_are_raw_where_that_spares_escapes() {
        let check = |text: &str, expected: &str| assert_eq!(quoted(text), expected);
        check("/api/*", "\"/api/*\"");
        check("~^/v\\d+/", "#\"~^/v\\d+/\"#");
        check("a\"b", "#\"a\"b\"#");
        check("a\"#b", "##\"a\"#b\"##");
        check("\"a\"", "\"\\\"a\\\"\"");
        check("a\n\\", "\"a\\n\\\\\"");
        check("\u{feff}", "\"\\u{feff}\"");
    }
}
