//! The canonical layout of a configuration: four spaces a level, one node a line, at most one blank line. It works on
//! tokens, so comments and what `/-` switches off stay as they are. It changes blanks and line breaks only.

use crate::diagnostics::{Diagnostic, SourceFile, Sources};

use crate::syntax;
use std::path::PathBuf;
use tidegate_kdl::{Token, TokenKind, Tokens};

const INDENT: &str = "    ";
/// A block of one node that was written on one line stays there up to this column.
const LINE_CHARS_MAX: usize = 120;

/// The text in canonical layout, or why it cannot be read. Only the syntax has to be right.
pub fn format_text(name: &str, text: &str) -> Result<String, Vec<Diagnostic>> {
    let mut sources = Sources::default();
    let file = sources.add(SourceFile { name: name.into(), text: text.into(), directory: PathBuf::new() });
    syntax::parse(&sources, file)?;
    Ok(Formatter::new(text).run())
}

struct Formatter<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    out: String,
    /// The line being built, without its indentation.
    line: String,
    depth: usize,
    /// The node of this line began on an earlier one, behind a `\`.
    continued: bool,
    /// A `\` ends the line being built.
    continues: bool,
    /// A `;` ended the node of this line: only a comment may still follow on it.
    terminated: bool,
    /// The next token follows without a blank.
    tight: bool,
    /// The last token was `/-`, to which a line break does not matter.
    after_slashdash: bool,
    line_breaks: usize,
    blank_line_wanted: bool,
    /// Nothing stands in the innermost block yet.
    block_is_empty: bool,
    /// Blocks that stay on the line of their node, from the outermost.
    inline_blocks: usize,
}

impl<'t> Formatter<'t> {
    fn new(text: &'t str) -> Formatter<'t> {
        let tokens = Tokens::of(text).filter(|token| token.kind != TokenKind::Space).collect();
        Formatter {
            text,
            tokens,
            out: String::with_capacity(text.len()),
            line: String::new(),
            depth: 0,
            continued: false,
            continues: false,
            terminated: false,
            tight: false,
            after_slashdash: false,
            line_breaks: 0,
            blank_line_wanted: false,
            block_is_empty: true,
            inline_blocks: 0,
        }
    }

    fn run(mut self) -> String {
        for index in 0..self.tokens.len() {
            self.place(index);
        }
        self.end_line();
        self.out
    }

    fn place(&mut self, index: usize) {
        let Token { kind, span } = self.tokens[index].clone();
        let written = &self.text[span];
        let follows_slashdash = std::mem::replace(&mut self.after_slashdash, kind == TokenKind::Slashdash);
        match kind {
            TokenKind::Space => {}
            TokenKind::Newline => self.line_break(follows_slashdash),
            TokenKind::Semicolon => self.terminated = !self.line.is_empty() && self.inline_blocks == 0,
            TokenKind::LineComment => {
                self.terminated = false;
                self.push(written.trim_end());
            }
            TokenKind::BlockComment | TokenKind::Text | TokenKind::Bare => self.push(written),
            TokenKind::Continuation => {
                self.push(written);
                self.continues = true;
            }
            TokenKind::Slashdash | TokenKind::ParenOpen => {
                self.push(written);
                self.tight = true;
            }
            TokenKind::Equals | TokenKind::ParenClose => {
                self.tight = true;
                self.push(written);
                self.tight = true;
            }
            TokenKind::Open => self.open(index),
            TokenKind::Close => self.close(),
        }
    }

    fn push(&mut self, written: &str) {
        if self.terminated {
            self.end_line();
        }
        if !self.line.is_empty() && !self.tight {
            self.line.push(' ');
        }
        self.line.push_str(written);
        self.tight = false;
    }

    fn line_break(&mut self, follows_slashdash: bool) {
        if follows_slashdash {
            self.after_slashdash = true;
            return;
        }
        if self.inline_blocks > 0 {
            return;
        }
        if self.line.is_empty() {
            self.line_breaks += 1;
            self.blank_line_wanted |= self.line_breaks > 1 && !self.block_is_empty;
        } else {
            self.end_line();
            self.line_breaks = 1;
        }
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            if std::mem::take(&mut self.blank_line_wanted) {
                self.out.push('\n');
            }
            for _ in 0..self.depth + usize::from(self.continued) {
                self.out.push_str(INDENT);
            }
            self.out.push_str(&self.line);
            self.out.push('\n');
            self.line.clear();
            self.block_is_empty = false;
        }
        self.continued = std::mem::take(&mut self.continues);
        self.terminated = false;
        self.tight = false;
        self.line_breaks = 0;
    }

    fn open(&mut self, index: usize) {
        if let Some(body) = self.inline_body(index) {
            self.push(if body.is_empty() { "{" } else { "{ " });
            self.tight = true;
            self.inline_blocks += 1;
            return;
        }
        self.push("{");
        // A comment on the line of the brace stays there.
        if let Some(comment) = self.tokens.get_mut(index + 1).filter(|token| token.kind == TokenKind::LineComment) {
            comment.kind = TokenKind::Space;
            let span = comment.span.clone();
            self.push(self.text[span].trim_end());
        }
        self.end_line();
        self.depth += 1;
        self.continued = false;
        self.block_is_empty = true;
    }

    fn close(&mut self) {
        if self.inline_blocks > 0 {
            self.inline_blocks -= 1;
            if self.line.ends_with('{') {
                self.line.push('}');
            } else {
                self.line.push_str(" }");
            }
            self.tight = false;
            return;
        }
        self.end_line();
        self.blank_line_wanted = false;
        self.continued = false;
        self.depth = self.depth.saturating_sub(1);
        self.push("}");
    }

    /// What stands in a block that stays on its line: one node or none, with nothing that needs a line of its own.
    fn inline_body(&self, open: usize) -> Option<String> {
        let mut body = String::new();
        let mut tight = true;
        for (index, token) in self.tokens.iter().enumerate().skip(open + 1) {
            let written = &self.text[token.span.clone()];
            match token.kind {
                TokenKind::Close => {
                    let chars = self.depth * INDENT.len() + self.line.chars().count() + body.chars().count() + " {  }".len();
                    return (chars <= LINE_CHARS_MAX).then_some(body);
                }
                TokenKind::Semicolon if self.tokens.get(index + 1).is_some_and(|next| next.kind == TokenKind::Close) => {}
                TokenKind::Text | TokenKind::Bare if !written.contains(['\n', '\r']) => {
                    if !tight {
                        body.push(' ');
                    }
                    body.push_str(written);
                    tight = false;
                }
                TokenKind::Equals => {
                    body.push('=');
                    tight = true;
                }
                TokenKind::Space => {}
                TokenKind::Newline
                    if body.is_empty() && self.tokens[open + 1..=index].iter().all(|t| t.kind == TokenKind::Newline) =>
                {
                    let next = self.tokens[index + 1..].iter().find(|t| t.kind != TokenKind::Newline);
                    if next.is_none_or(|next| next.kind != TokenKind::Close) {
                        return None;
                    }
                }
                TokenKind::Newline
                | TokenKind::LineComment
                | TokenKind::BlockComment
                | TokenKind::Slashdash
                | TokenKind::Continuation
                | TokenKind::Text
                | TokenKind::Bare
                | TokenKind::Open
                | TokenKind::Semicolon
                | TokenKind::ParenOpen
                | TokenKind::ParenClose => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let formatted = format_text("test", text).expect("valid KDL");
        assert_eq!(formatted, expected, "for {text}");
        assert_eq!(format_text("test", &formatted).expect("valid KDL"), expected, "twice, for {text}");
    }

    #[test]
    fn layout() {
        check("", "");
        check("\n\n", "");
        check("a", "a\n");
        check("\n\na   1  b = 2 ;c\r\n", "a 1 b=2\nc\n");
        check("a{b;c}", "a {\n    b\n    c\n}\n");
        check("a{b}", "a { b }\n");
        check("a { b; }", "a { b }\n");
        check("a {\n}", "a {}\n");
        check("a {\n\n\n b\n\n\n c\n\n}", "a {\n    b\n\n    c\n}\n");
        check("a\n\n\n\nb", "a\n\nb\n");
        check("a {\n\tb {\n\t\tc\n\t}\n}", "a {\n    b {\n        c\n    }\n}\n");
        check("a { b { c; }; }", "a {\n    b { c }\n}\n");
    }

    #[test]
    fn comments_stay() {
        check("// x\n\n\n  // y  \na   // z\n", "// x\n\n// y\na // z\n");
        check("a { // x\n b; // y\n // z\n}", "a { // x\n    b // y\n    // z\n}\n");
        check("/* x */ a /* y */ 1", "/* x */ a /* y */ 1\n");
        check("a /*\n x */ 1", "a /*\n x */ 1\n");
        check("a { /* x */ }", "a {\n    /* x */\n}\n");
        check("a {}\n// end", "a {}\n// end\n");
    }

    #[test]
    fn what_is_switched_off_stays() {
        check("/- a {b}", "/-a { b }\n");
        check("a /-1 /- b=2 3", "a /-1 /-b=2 3\n");
        check("/-\na\nb", "/-a\nb\n");
        check("a /-{ b; } { c; }", "a /-{ b } { c }\n");
    }

    #[test]
    fn long_nodes_and_texts_keep_their_lines() {
        check("a 1 \\\n  2\nb", "a 1 \\\n    2\nb\n");
        check("a {\n b \"\"\"\n   x\n     y\n   \"\"\"\n}", "a {\n    b \"\"\"\n   x\n     y\n   \"\"\"\n}\n");
        check("a #\"x \" y\"#", "a #\"x \" y\"#\n");
        let long = "x".repeat(120);
        check(&format!("a {{ {long} }}"), &format!("a {{\n    {long}\n}}\n"));
    }

    #[test]
    fn text_that_is_not_kdl_is_refused() {
        assert!(format_text("test", "a {").is_err());
    }
}
