//! KDL 2 text to tokens that lose nothing, and to a tree whose parts know where they were written.
//! It is no writer and knows no directive. One pass, no recursion, and a text that is not KDL has one fault: the first.
//! Start reading at `parse`; `tokens` splits the text, `value` reads what one token says.

mod parse;
mod tokens;
mod tree;
mod value;
mod wording;

pub use parse::{Parser, parse};
pub use tokens::{Token, TokenKind, Tokens, is_closed_comment};
pub use tree::{Entry, FileId, Literal, Location, Name, Node, Value};
pub use value::{quoted, quoted_where, read_text, read_word};
pub use wording::listed;

use std::ops::Range;

/// What keeps a text from being KDL, in words for whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub span: Range<usize>,
    pub message: String,
    pub help: Option<String>,
}

impl Fault {
    fn new(span: Range<usize>, message: impl Into<String>, help: Option<&str>) -> Fault {
        Fault { span, message: message.into(), help: help.map(str::to_owned) }
    }

    /// The fault of a part, in the text that the part begins at `offset` of.
    pub fn behind(self, offset: usize) -> Fault {
        Fault { span: self.span.start + offset..self.span.end + offset, ..self }
    }
}
