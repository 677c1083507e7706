//! KDL text as a tree of nodes that know where they were written, or all that keeps it from being one in words that say
//! what to do. `tidegate_kdl` parses and finds the first fault; `slips` finds what people write before they know KDL.
//! Nothing here knows a directive.

use crate::diagnostics::{Diagnostic, FileId, Location, Sources};
use crate::slips::{self, Slip};
use std::borrow::Cow;
pub use tidegate_kdl::{Entry, Literal, Name, Node, Value};

/// More than any configuration needs.
pub const FILE_BYTES_MAX: usize = 8 << 20;
/// A syntax error early in a file makes the rest look wrong too.
const SYNTAX_ERRORS_MAX: usize = 5;

/// The nodes of a file, or everything that keeps it from being KDL.
pub fn parse(sources: &Sources, file: FileId) -> Result<Vec<Node>, Vec<Diagnostic>> {
    let text = &sources.file(file).text;
    let parsed = tidegate_kdl::parse(text, file);
    if parsed.is_ok() && !slips::may_be_kdl(text) {
        return Ok(parsed.unwrap_or_default());
    }
    let slips = slips::find(text, SYNTAX_ERRORS_MAX);
    let error = |Slip { fault, .. }| {
        let tidegate_kdl::Fault { span, message, help } = fault;
        Diagnostic { help: help.map(Cow::Owned), ..Diagnostic::error("syntax", Location { file, span }, message) }
    };
    match parsed {
        Err(fault) if slips.is_empty() => Err(vec![error(Slip { fault, is_kdl: false })]),
        Ok(nodes) if !slips.iter().any(|slip| slip.is_kdl) => Ok(nodes),
        Ok(_) | Err(_) => Err(slips.into_iter().map(error).collect()),
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
        check(&"a {\n/-b {\n".repeat(10_000), "blocks are nested more than 32 deep");
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
