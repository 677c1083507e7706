//! One Rust file as the rules see it: syntax tree, lines that hold code, comments, and where the word `unsafe` stands.
//! proc-macro2 gives every token its place, so a comment is what no token covers, and there is no lexer of our own.

use crate::finding::Finding;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::ops::Range;

pub struct Source<'a> {
    pub path: &'a str,
    pub text: &'a str,
    pub file: syn::File,
    /// Lines from 1 that hold at least one token. Comments and doc comments are not code.
    pub code_lines: BTreeSet<usize>,
    /// Doc comments included, one entry per line, with the marks that start it.
    pub comments: Vec<Comment>,
    pub unsafe_lines: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    pub line: usize,
    pub text: String,
}

impl Source<'_> {
    /// `Err` when the file is not Rust.
    pub fn parse<'a>(path: &'a str, text: &'a str) -> Result<Source<'a>, Finding> {
        let refuse = |line: usize, message: String| Finding::at(path, line, "syntax", message);
        let tokens: TokenStream =
            text.parse().map_err(|error: proc_macro2::LexError| refuse(error.span().start().line, error.to_string()))?;
        let file =
            syn::parse2(tokens.clone()).map_err(|error: syn::Error| refuse(error.span().start().line, error.to_string()))?;
        let mut walk = Walk { text, covered: Vec::new(), unsafe_at: Vec::new() };
        walk.stream(tokens);
        let lines = Lines::of(text);
        let code_lines = walk.covered.iter().flat_map(|range| lines.of_range(range)).collect();
        let unsafe_lines = walk.unsafe_at.iter().map(|offset| lines.at(*offset)).collect();
        let comments = comments(text, &lines, &walk.covered);
        Ok(Source { path, text, file, code_lines, comments, unsafe_lines })
    }
}

struct Walk<'a> {
    text: &'a str,
    /// Byte ranges of the tokens, in order.
    covered: Vec<Range<usize>>,
    unsafe_at: Vec<usize>,
}

impl Walk<'_> {
    fn stream(&mut self, tokens: TokenStream) {
        for token in tokens {
            let range = token.span().byte_range();
            // A doc comment arrives as an attribute whose every token has the comment's own place; no other token
            // starts so.
            if self.text.get(range.clone()).is_some_and(|text| text.starts_with("//") || text.starts_with("/*")) {
                continue;
            }
            match token {
                TokenTree::Group(group) => {
                    self.covered.push(group.span_open().byte_range());
                    self.stream(group.stream());
                    self.covered.push(group.span_close().byte_range());
                }
                TokenTree::Ident(ident) => {
                    if ident == "unsafe" {
                        self.unsafe_at.push(range.start);
                    }
                    self.covered.push(range);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.covered.push(range),
            }
        }
    }
}

/// Where each line begins.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset + 1);
        Lines(std::iter::once(0).chain(after_breaks).collect())
    }

    /// The line, from 1, that holds the byte.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }

    fn of_range(&self, range: &Range<usize>) -> std::ops::RangeInclusive<usize> {
        self.at(range.start)..=self.at(range.end.saturating_sub(1).max(range.start))
    }
}

fn comments(text: &str, lines: &Lines, covered: &[Range<usize>]) -> Vec<Comment> {
    let mut found = Vec::new();
    let mut end_of_last = 0;
    let tail = text.len()..text.len();
    for range in covered.iter().chain(std::iter::once(&tail)) {
        let gap = text.get(end_of_last..range.start).unwrap_or_default();
        let mut offset = end_of_last;
        for line in gap.split('\n') {
            if !line.trim().is_empty() {
                found.push(Comment { line: lines.at(offset), text: line.trim().to_owned() });
            }
            offset += line.len() + 1;
        }
        end_of_last = end_of_last.max(range.end);
    }
    found
}

/// `#[cfg(test)]` alone or among other conditions, `#[test]`, and the test attributes of libraries, which end in
/// `test`.
pub fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test_attribute = attribute.path().segments.last().is_some_and(|segment| segment.ident == "test");
        let conditions = attribute.meta.require_list().ok().filter(|list| list.path.is_ident("cfg"));
        let words = conditions.map(|list| list.tokens.to_string()).unwrap_or_default();
        let has = |wanted: &str| words.split(|c: char| !c.is_alphanumeric()).any(|word| word == wanted);
        is_test_attribute || (has("test") && !has("not") && !has("any"))
    })
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn check(text: &str, code: &[usize], comments: &[(usize, &str)], unsafe_lines: &[usize]) {
        let source = Source::parse("a.rs", text).expect("valid Rust");
        assert_eq!(source.code_lines.iter().copied().collect::<Vec<_>>(), code, "code lines of {text:?}");
        let seen: Vec<(usize, &str)> = source.comments.iter().map(|comment| (comment.line, comment.text.as_str())).collect();
        assert_eq!(seen, comments, "comments of {text:?}");
        assert_eq!(source.unsafe_lines, unsafe_lines, "unsafe in {text:?}");
    }

    #[test]
    fn code_and_comments_are_told_apart() {
        check("", &[], &[], &[]);
        check("//! What.\n\nuse a::B; // why\n", &[3], &[(1, "//! What."), (3, "// why")], &[]);
        check("/// Doc.\nfn f() {\n    // inside\n\n    g();\n}\n", &[2, 5, 6], &[(1, "/// Doc."), (3, "// inside")], &[]);
        check("const A: &str = \"// no\n comment\";\n", &[1, 2], &[], &[]);
        check("const A: &str = r#\"/* no */\"#; /* a\n b */ const B: u8 = b'\\'';", &[1, 2], &[(1, "/* a"), (2, "b */")], &[]);
        check("// é ü\nfn f() {} // ö\n", &[2], &[(1, "// é ü"), (2, "// ö")], &[]);
    }

    #[test]
    fn the_word_unsafe_counts_as_code_only() {
        check("// unsafe\nconst A: &str = \"unsafe\";\n", &[2], &[(1, "// unsafe")], &[]);
        check("fn f() {\n    unsafe { g() }\n}\n", &[1, 2, 3], &[], &[2]);
        check("m! {\n    unsafe fn f() {}\n}\n", &[1, 2, 3], &[], &[2]);
        check("#![allow(unsafe_code)]\n", &[1], &[], &[]);
    }

    #[test]
    fn what_is_not_rust_is_a_finding() {
        let finding = Source::parse("a.rs", "fn f( {").err().expect("refused");
        assert_eq!((finding.path.as_str(), finding.rule), ("a.rs", "syntax"));
    }
}
