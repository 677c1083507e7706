//! Tokens to the tree, node by node. A node at the top level ends behind its line break or `;`, and nothing behind that
//! has a say in what it is: who remembers nodes by their text relies on it. Blocks lie on a stack of their own, so
//! depth costs no recursion.

use crate::tokens::{Token, TokenKind, Tokens, is_closed_comment};
use crate::value::{read_text, read_word};
use crate::{Entry, Fault, FileId, Literal, Location, Name, Node, Value};
use std::ops::Range;

/// Blocks in blocks, with the file itself. Five levels are the deepest that mean anything.
const BLOCK_DEPTH_MAX: usize = 32;

/// The nodes of a text, or the first thing that keeps it from being KDL.
pub fn parse(text: &str, file: FileId) -> Result<Vec<Node>, Fault> {
    let mut parser = Parser::new(text, 0, file);
    let mut nodes = Vec::new();
    while let Some(node) = parser.next_node()? {
        nodes.push(node);
    }
    Ok(nodes)
}

/// Reads the nodes at the top level one after the other.
#[derive(Debug)]
pub struct Parser<'t> {
    text: &'t str,
    tokens: Tokens<'t>,
    /// The token that is looked at.
    ahead: Option<Token>,
    file: FileId,
    /// Of the node that is read; empty in between. Its room is used again, so that the list of each node is as long as
    /// it has to be.
    entries: Vec<Entry>,
    /// Where the places of nodes count from.
    base: usize,
    /// Only blanks came so far on this line, which are so many bytes.
    indentation: usize,
    begins_line: bool,
}

/// A block whose `}` has not come.
struct OpenBlock {
    /// The node that the block belongs to.
    node: Node,
    is_node_off: bool,
    is_off: bool,
    /// What the block has so far.
    nodes: Vec<Node>,
    brace: Range<usize>,
    /// Of the line that the brace is on.
    indentation: usize,
}

/// What comes behind the entries of a node.
enum Behind {
    End,
    Block { is_off: bool },
}

impl<'t> Parser<'t> {
    /// Begins at a node at the top level, or what stands in front of one. Places in the nodes count from there.
    pub fn new(text: &'t str, offset: usize, file: FileId) -> Parser<'t> {
        let mut tokens = Tokens::from(text, offset);
        let ahead = tokens.next();
        Parser { text, tokens, ahead, file, entries: Vec::new(), base: offset, indentation: 0, begins_line: true }
    }

    /// How far the text has been read.
    pub fn offset(&self) -> usize {
        self.ahead.as_ref().map_or(self.text.len(), |token| token.span.start)
    }

    /// The next node at the top level; `None` at the end. Its places count from where the parser began; those of a
    /// fault always from the start of the text.
    pub fn next_node(&mut self) -> Result<Option<Node>, Fault> {
        let mut open: Vec<OpenBlock> = Vec::new();
        // The brace of a block that a `}` further to the left has closed, which was meant for a block around it.
        let mut closed_by_another = None;
        loop {
            self.line_space()?;
            let is_off = self.slashdash()?;
            let (mut node, is_node_off, is_behind_block) = match self.kind() {
                None | Some(TokenKind::Close) if is_off => return Err(self.fault("this `/-` switches nothing off", None)),
                None => {
                    let Some(first) = open.into_iter().next() else { return Ok(None) };
                    let help = Some("a `}` is missing");
                    return Err(Fault::new(closed_by_another.unwrap_or(first.brace), "this block is never closed", help));
                }
                Some(TokenKind::Close) => {
                    let Some(block) = open.pop() else { return Err(self.fault("this `}` closes nothing", None)) };
                    if self.begins_line && self.indentation < block.indentation {
                        closed_by_another.get_or_insert(block.brace);
                    }
                    self.step();
                    let mut nodes = block.nodes;
                    nodes.shrink_to_fit();
                    let children = if block.is_off { block.node.children } else { Some(nodes) };
                    (Node { children, ..block.node }, block.is_node_off, true)
                }
                Some(_) => (self.head()?, is_off, false),
            };
            let behind = self.behind(&mut node, is_behind_block)?;
            if !is_behind_block {
                node.entries = self.entries.drain(..).collect();
            }
            match behind {
                Behind::Block { is_off } => {
                    if open.len() + 1 == BLOCK_DEPTH_MAX {
                        let message = format!("blocks are nested more than {BLOCK_DEPTH_MAX} deep");
                        return Err(self.fault(message, None));
                    }
                    let (brace, indentation) = (self.span(), self.indentation);
                    self.step();
                    open.push(OpenBlock { node, is_node_off, is_off, nodes: Vec::new(), brace, indentation });
                }
                Behind::End if is_node_off => {}
                Behind::End => match open.last_mut() {
                    Some(block) => block.nodes.push(node),
                    None if self.kind() == Some(TokenKind::Close) => return Err(self.fault("this `}` closes nothing", None)),
                    None => return Ok(Some(node)),
                },
            }
        }
    }

    /// The type and the name of a node.
    fn head(&mut self) -> Result<Node, Fault> {
        if self.kind() == Some(TokenKind::Open) {
            let help = Some("it has to stand on the line of its directive");
            return Err(self.fault("this `{` belongs to no directive", help));
        }
        let annotation_start = (self.kind() == Some(TokenKind::ParenOpen)).then(|| self.span().start);
        if annotation_start.is_some() {
            self.annotation()?;
        }
        let span = self.span();
        let (literal, _) = self.literal("a directive begins with its name")?;
        let Literal::Text(text) = literal else {
            return Err(Fault::new(span, "a directive begins with its name", Some("a name is a word or a text")));
        };
        let location = self.location(span.clone());
        Ok(Node {
            name: Name { text, location: location.clone() },
            entries: Vec::new(),
            children: None,
            location,
            annotation: annotation_start.map(|start| self.location(start..span.start)),
        })
    }

    /// Reads the entries, and the end of a node that ends.
    fn behind(&mut self, node: &mut Node, is_behind_block: bool) -> Result<Behind, Fault> {
        let mut is_apart = self.node_space()?;
        loop {
            let is_off = self.slashdash()?;
            match self.kind() {
                Some(TokenKind::Open) if is_off || node.children.is_none() => return Ok(Behind::Block { is_off }),
                Some(TokenKind::Bare | TokenKind::Text | TokenKind::ParenOpen) if !is_behind_block => {
                    if !is_apart && !is_off {
                        return Err(self.fault("a blank is missing in front of this", Some("a blank stands between two values")));
                    }
                    let start = self.span().start;
                    let (entry, is_annotated);
                    (entry, is_annotated, is_apart) = self.entry(start)?;
                    if !is_off {
                        node.location.span.end = entry.location.span.end;
                        if is_annotated && node.annotation.is_none() {
                            node.annotation = Some(entry.location.clone());
                        }
                        self.entries.push(entry);
                    }
                }
                _ if is_off => return Err(self.fault("this `/-` switches nothing off", None)),
                Some(TokenKind::LineComment) => {
                    self.step();
                    if self.kind() == Some(TokenKind::Newline) {
                        self.step();
                    }
                    return Ok(Behind::End);
                }
                Some(TokenKind::Newline | TokenKind::Semicolon) => {
                    self.step();
                    return Ok(Behind::End);
                }
                None | Some(TokenKind::Close) => return Ok(Behind::End),
                Some(_) => return Err(self.fault("this cannot stand here", None)),
            }
        }
    }

    /// An argument or a property; whether it has a type, and whether blanks follow.
    fn entry(&mut self, start: usize) -> Result<(Entry, bool, bool), Fault> {
        let mut is_annotated = self.kind() == Some(TokenKind::ParenOpen);
        if is_annotated {
            self.annotation()?;
        }
        let mut span = self.span();
        let (mut literal, mut verbatim_from) = self.literal("a value is missing here")?;
        let mut is_apart = self.node_space()?;
        let mut name = None;
        if self.kind() == Some(TokenKind::Equals) && !is_annotated {
            let Literal::Text(text) = literal else {
                return Err(Fault::new(span, "a property begins with its name", Some("a name is a word or a text")));
            };
            name = Some(Name { text, location: self.location(span) });
            self.step();
            self.node_space()?;
            is_annotated = self.kind() == Some(TokenKind::ParenOpen);
            if is_annotated {
                self.annotation()?;
            }
            span = self.span();
            (literal, verbatim_from) = self.literal("a value is missing behind this `=`")?;
            is_apart = self.node_space()?;
        }
        let location = self.location(start..span.end);
        let value = Value { literal, location: self.location(span), verbatim_from };
        Ok((Entry { name, value, location }, is_annotated, is_apart))
    }

    /// `(type)` with the blanks behind it.
    fn annotation(&mut self) -> Result<(), Fault> {
        self.step();
        self.node_space()?;
        let span = self.span();
        let (literal, _) = self.literal("a type is missing here")?;
        if !matches!(literal, Literal::Text(_)) {
            return Err(Fault::new(span, "a type is a word or a text", None));
        }
        self.node_space()?;
        if self.kind() != Some(TokenKind::ParenClose) {
            return Err(self.fault("a `)` is missing in front of this", None));
        }
        self.step();
        self.node_space()?;
        Ok(())
    }

    /// What a word or a text says, and where the text begins in it when it stands there as it is.
    fn literal(&mut self, missing: &'static str) -> Result<(Literal, Option<usize>), Fault> {
        let span = self.span();
        let written = &self.text[span.clone()];
        let literal = match self.kind() {
            Some(TokenKind::Text) => read_text(written).map(Literal::Text),
            Some(TokenKind::Bare) => read_word(written),
            _ => return Err(self.fault(missing, None)),
        };
        let literal = literal.map_err(|fault| fault.behind(span.start))?;
        let verbatim_from = match &literal {
            Literal::Text(text) => {
                let opening = written.len() - written.trim_start_matches('#').trim_start_matches('"').len();
                (written.get(opening..opening + text.len()) == Some(text)).then_some(opening)
            }
            Literal::Integer(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => None,
        };
        self.step();
        Ok((literal, verbatim_from))
    }

    /// A `/-` with everything that may stand between it and what it switches off.
    fn slashdash(&mut self) -> Result<bool, Fault> {
        if self.kind() != Some(TokenKind::Slashdash) {
            return Ok(false);
        }
        self.step();
        self.line_space()?;
        Ok(true)
    }

    /// Everything that may stand in front of a node.
    fn line_space(&mut self) -> Result<(), Fault> {
        loop {
            self.node_space()?;
            match self.kind() {
                Some(TokenKind::Newline | TokenKind::LineComment) => self.step(),
                _ => return Ok(()),
            }
        }
    }

    /// Everything that may stand within a node; whether there was any.
    fn node_space(&mut self) -> Result<bool, Fault> {
        let mut is_continued = false;
        let mut is_any = false;
        loop {
            match self.kind() {
                Some(TokenKind::Space) => {}
                Some(TokenKind::BlockComment) if is_closed_comment(&self.text[self.span()]) => {}
                Some(TokenKind::BlockComment) => {
                    let start = self.span().start;
                    return Err(Fault::new(start..start + 2, "this comment is never closed", None));
                }
                Some(TokenKind::Continuation) if !is_continued => {
                    is_continued = true;
                    self.step();
                    continue;
                }
                Some(TokenKind::LineComment) if is_continued => {
                    self.step();
                    if self.kind() == Some(TokenKind::Newline) {
                        self.step();
                    }
                    is_continued = false;
                    is_any = true;
                    continue;
                }
                Some(TokenKind::Newline) if is_continued => is_continued = false,
                None => return Ok(is_any),
                Some(_) if is_continued => return Err(self.fault("a line break has to follow the `\\` in front of this", None)),
                Some(_) => return Ok(is_any),
            }
            is_any = true;
            self.step();
        }
    }

    fn kind(&self) -> Option<TokenKind> {
        self.ahead.as_ref().map(|token| token.kind)
    }

    fn span(&self) -> Range<usize> {
        self.ahead.as_ref().map_or(self.text.len()..self.text.len(), |token| token.span.clone())
    }

    fn step(&mut self) {
        if let Some(token) = &self.ahead {
            match token.kind {
                TokenKind::Newline => (self.begins_line, self.indentation) = (true, 0),
                TokenKind::Space if self.begins_line => self.indentation = token.span.len(),
                _ => self.begins_line = false,
            }
        }
        self.ahead = self.tokens.next();
    }

    fn location(&self, span: Range<usize>) -> Location {
        Location { file: self.file, span: span.start - self.base..span.end - self.base }
    }

    fn fault(&self, message: impl Into<String>, help: Option<&str>) -> Fault {
        Fault::new(self.span(), message, help)
    }
}
