//! Where a node stands in its text: its block, its line, what belongs to it when it goes, where another can follow.
//! It reads tokens, not meaning; what is to be changed is decided in `sync`.

use crate::document::write::Layout;
use crate::format::format_text;
use crate::syntax::Node;

use std::ops::Range;
use tidegate_kdl::{Token, TokenKind, Tokens};

/// From the first byte of its name to behind its last brace or value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    pub span: Range<usize>,
    /// With its braces.
    pub block: Option<Range<usize>>,
}

/// A place where text is put in, and what has to be around it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    pub offset: usize,
    pub before: String,
    pub after: &'static str,
    pub layout: Layout,
}

impl Extent {
    pub fn of(text: &str, node: &Node) -> Extent {
        let start = node.name.location.span.start;
        let mut extent = Extent { span: start..node.location.span.end, block: None };
        let mut is_continued = false;
        let mut is_switched_off = false;
        let mut tokens = Tokens::from(text, node.location.span.end);
        while let Some(token) = tokens.next() {
            match token.kind {
                TokenKind::Space | TokenKind::BlockComment => {}
                TokenKind::Continuation => is_continued = true,
                TokenKind::LineComment if is_continued => {}
                TokenKind::Newline if is_continued || is_switched_off => is_continued = false,
                TokenKind::Newline | TokenKind::Semicolon | TokenKind::Close | TokenKind::LineComment => break,
                TokenKind::Slashdash => is_switched_off = true,
                TokenKind::Open => {
                    let end = closing(&mut tokens).unwrap_or(text.len());
                    if !is_switched_off {
                        extent.block = Some(token.span.start..end);
                    }
                    is_switched_off = false;
                    extent.span.end = end;
                }
                TokenKind::Text | TokenKind::Bare | TokenKind::Equals | TokenKind::ParenOpen | TokenKind::ParenClose => {
                    is_switched_off = false;
                    extent.span.end = token.span.end;
                }
            }
        }
        extent
    }

    /// What goes with the node: its line, when it has one to itself, with the comment behind it.
    pub fn removal(&self, text: &str) -> Range<usize> {
        let end = self.end_of_statement(text);
        let tail = end + blanks(&text[end..]);
        let line_start = line_start(text, self.span.start);
        let begins_line = is_blank(&text[line_start..self.span.start]);
        let Some(line_end) = line_end(text, tail) else {
            // Another node or a brace follows on the line.
            let takes_blanks_behind = end > self.span.end || begins_line;
            let blanks_before = text[..self.span.start].len() - text[..self.span.start].trim_end_matches([' ', '\t']).len();
            return if takes_blanks_behind { self.span.start..tail } else { self.span.start - blanks_before..end };
        };
        if !begins_line {
            let before = text[..self.span.start].trim_end_matches([' ', '\t']).len();
            return before..self.span.end.max(end);
        }
        let mut range = line_start..line_end;
        // Of two blank lines that would meet, one goes as well.
        let before = &text[..line_start];
        let is_blank_before = before.is_empty() || before.ends_with("\n\n") || before.ends_with("\n\r\n");
        let next = &text[line_end..];
        let next_line = next.find('\n').map_or(next.len(), |position| position + 1);
        if is_blank_before && next_line > 0 && is_blank(next[..next_line].trim_end_matches(['\n', '\r'])) {
            range.end += next_line;
        }
        range
    }

    /// Where a node can follow this one.
    pub fn gap_behind(&self, text: &str) -> Gap {
        let end = self.end_of_statement(text);
        let tail = end + blanks(&text[end..]);
        let layout = layout_at(text, self.span.start);
        match line_end(text, tail) {
            Some(line_end) => {
                let offset = text[..line_end].trim_end_matches(['\n', '\r']).len().max(tail);
                Gap { offset, before: layout.new_line(), after: "", layout }
            }
            None if end > self.span.end => Gap { offset: end, before: " ".into(), after: ";", layout },
            None => Gap { offset: end, before: "; ".into(), after: "", layout },
        }
    }

    /// Where the first node of the block can stand. `None` when the block is not there, or stands on one line.
    pub fn gap_in_block(&self, text: &str) -> Option<Gap> {
        let block = self.block.clone()?;
        let behind = block.start + 1;
        let end = line_end(text, behind + blanks(&text[behind..]))?;
        let layout = layout_at(text, self.span.start).inner();
        let offset = text[..end].trim_end_matches(['\n', '\r']).len().max(behind);
        Some(Gap { offset, before: layout.new_line(), after: "", layout })
    }

    pub fn is_on_one_line(&self, text: &str) -> bool {
        self.block.clone().is_some_and(|block| !text[block].contains(['\n', '\r']))
    }

    /// The block with each node on a line of its own.
    pub fn unfolded_block(&self, text: &str) -> Option<String> {
        let block = self.block.clone()?;
        let inner = text.get(block.start + 1..block.end - 1)?;
        let layout = layout_at(text, self.span.start);
        if inner.trim().is_empty() {
            return Some(format!("{{{}}}", layout.new_line()));
        }
        let formatted = format_text("", &format!("a {{\n{inner}\n}}\n")).ok()?;
        let formatted = formatted.strip_prefix("a ")?.trim_end_matches('\n');
        let lines = formatted.lines().map(|line| match line.strip_prefix("    ") {
            Some(rest) => format!("{}{rest}", layout.level),
            None => line.to_string(),
        });
        Some(lines.collect::<Vec<String>>().join(&layout.new_line()))
    }

    /// Behind the `;` of the node, or its end when it has none.
    fn end_of_statement(&self, text: &str) -> usize {
        let behind = self.span.end + blanks(&text[self.span.end..]);
        if text[behind..].starts_with(';') { behind + 1 } else { self.span.end }
    }
}

/// How the lines around that offset are laid out.
pub fn layout_at(text: &str, offset: usize) -> Layout {
    let line = &text[line_start(text, offset)..];
    let indentation = line[..blanks(line)].to_string();
    let level = if indentation.contains('\t') { "\t" } else { "    " };
    let is_windows = text.find('\n').is_some_and(|position| text[..position].ends_with('\r'));
    Layout { indentation, level, line_break: if is_windows { "\r\n" } else { "\n" } }
}

/// The end of a block whose `{` was taken.
fn closing(tokens: &mut impl Iterator<Item = Token>) -> Option<usize> {
    let mut depth = 1_usize;
    for token in tokens {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(token.span.end);
        }
    }
    None
}

fn line_start(text: &str, offset: usize) -> usize {
    text[..offset].rfind(['\n', '\r']).map_or(0, |position| position + 1)
}

/// Behind the line break, when nothing but a comment stands before it.
fn line_end(text: &str, offset: usize) -> Option<usize> {
    for token in Tokens::from(text, offset) {
        match token.kind {
            TokenKind::Space | TokenKind::LineComment => {}
            TokenKind::BlockComment if !text[token.span.clone()].contains(['\n', '\r']) => {}
            TokenKind::Newline => return Some(token.span.end),
            _ => return None,
        }
    }
    Some(text.len())
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

fn is_blank(text: &str) -> bool {
    blanks(text) == text.len()
}
