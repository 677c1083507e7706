//! A file as pieces that are parsed by themselves and remembered by their text, so that a load after a small change parses little.
//! A piece is one line at the top level with its block, or several; its places count from its own start, so that it may move.
//! What a piece means is remembered in `remembered`; who asks for pieces is `load`.

use crate::diagnostics::{Diagnostic, FileId, Location, Sources};
use crate::lexer::{TokenKind, Tokens};
use crate::remembered::Lowered;
use crate::shapes::Shapes;
use crate::syntax::{self, Node};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// What the last load read, for the next one: text that is still there is not parsed again, and what it means is known.
///
/// Bounded by that load: it holds the text of its files, and about 3 KB for each site of three lines. Whatever it holds, a load gives
/// the same with it as without it.
#[derive(Debug, Clone, Default)]
pub struct LoadMemory {
    /// In the order in which they were read, which is mostly the order in which they are asked for.
    pieces: Vec<Arc<Piece>>,
}

#[derive(Debug)]
struct Piece {
    text: Arc<str>,
    nodes: Vec<Arc<Remembered>>,
    /// The end of its file cut it off. The parser may take there what it does not take in front of another node.
    ends_file: bool,
}

/// A node at the top level, and what lowering made of it when that follows from its text alone.
#[derive(Debug)]
pub struct Remembered {
    pub node: Node,
    pub lowered: OnceLock<Lowered>,
}

/// Where a piece stands in this load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    pub file: FileId,
    pub offset: usize,
    pub length: usize,
}

impl Placement {
    pub fn location(&self, relative: &Location) -> Location {
        Location { file: self.file, span: relative.span.start + self.offset..relative.span.end + self.offset }
    }

    /// The other way round; `None` for a place outside of the piece.
    pub fn relative(&self, location: &Location) -> Option<Location> {
        let is_inside = location.file == self.file
            && location.span.start >= self.offset
            && location.span.end <= self.offset + self.length
            && location.span.start <= location.span.end;
        is_inside
            .then(|| Location { file: location.file, span: location.span.start - self.offset..location.span.end - self.offset })
    }
}

/// A node at the top level of a load, wherever it was written.
#[derive(Debug, Clone)]
pub struct TopNode {
    pub remembered: Arc<Remembered>,
    /// `None` for a node that is of this load only: its places are those of the files already, which may be several by its includes.
    pub placement: Option<Placement>,
}

impl TopNode {
    pub fn for_once(node: Node) -> TopNode {
        TopNode { remembered: Arc::new(Remembered { node, lowered: OnceLock::new() }), placement: None }
    }

    pub fn name(&self) -> &str {
        &self.remembered.node.name.text
    }

    /// The node with its places in the file.
    pub fn placed(&self) -> Node {
        match self.placement {
            Some(placement) => self.remembered.node.relocated(&|location| placement.location(location)),
            None => self.remembered.node.clone(),
        }
    }

    /// Where something of the node is in its file.
    pub fn location(&self, written: &Location) -> Location {
        self.placement.map_or_else(|| written.clone(), |placement| placement.location(written))
    }

    pub fn name_location(&self) -> Location {
        self.location(&self.remembered.node.name.location)
    }
}

/// Takes pieces from the last load and collects those of this one.
#[derive(Debug)]
pub struct Recall<'m> {
    memory: &'m mut LoadMemory,
    /// Which piece of the memory is likely to come next.
    next: usize,
    /// The pieces of the memory by their text; made for the first that does not come next.
    by_text: Option<HashMap<Arc<str>, usize>>,
    used: Vec<Arc<Piece>>,
    shapes: Shapes,
}

impl<'m> Recall<'m> {
    pub fn new(memory: &'m mut LoadMemory) -> Recall<'m> {
        let used = Vec::with_capacity(memory.pieces.len());
        Recall { memory, next: 0, by_text: None, used, shapes: Shapes::default() }
    }

    /// What this load did not use is forgotten. The memory keeps what the copy holds, so the copy costs little.
    pub fn finish(self) -> LoadMemory {
        self.memory.pieces.clone_from(&self.used);
        LoadMemory { pieces: self.used }
    }

    /// The nodes of a file, or everything that keeps it from being KDL.
    pub fn nodes_of(&mut self, sources: &Sources, file: FileId) -> Result<Vec<TopNode>, Vec<Diagnostic>> {
        let text = sources.file(file).text.as_str();
        let mut nodes = Vec::new();
        let mut is_whole = can_be_cut(text);
        let mut offset = 0;
        while is_whole && offset < text.len() {
            let (length, piece) = self.piece_at(text, offset, file);
            match piece {
                Some(piece) => {
                    let placement = Some(Placement { file, offset, length });
                    nodes.extend(piece.nodes.iter().map(|node| TopNode { remembered: Arc::clone(node), placement }));
                    self.used.push(piece);
                }
                None => is_whole = false,
            }
            offset += length;
        }
        if is_whole {
            return Ok(nodes);
        }
        // What is wrong with a piece may be that something before it was not closed, so faults are those of the whole text.
        Ok(syntax::parse(sources, file)?.into_iter().map(TopNode::for_once).collect())
    }

    /// Length and content of the piece that begins there; no content when it is not KDL by itself.
    fn piece_at(&mut self, text: &str, offset: usize, file: FileId) -> (usize, Option<Arc<Piece>>) {
        let rest = &text[offset..];
        for next in [self.next, self.next + 1] {
            if let Some(piece) = self.memory.pieces.get(next)
                && begins_with(rest, piece)
            {
                self.next = next + 1;
                return (piece.text.len(), Some(Arc::clone(piece)));
            }
        }
        let length = first_piece_length(rest);
        let piece_text = &rest[..length];
        let pieces = &self.memory.pieces;
        let by_text = self.by_text.get_or_insert_with(|| {
            pieces.iter().enumerate().map(|(position, piece)| (Arc::clone(&piece.text), position)).collect()
        });
        let ends_file = length == rest.len();
        if let Some(position) = by_text.get(piece_text).filter(|position| pieces[**position].ends_file == ends_file) {
            self.next = position + 1;
            return (length, Some(Arc::clone(&pieces[*position])));
        }
        let nodes = self.shapes.nodes_of(piece_text, ends_file, file, || parse_piece(piece_text, ends_file, file));
        let Some(nodes) = nodes else { return (length, None) };
        let nodes = nodes.into_iter().map(|node| Arc::new(Remembered { node, lowered: OnceLock::new() })).collect();
        (length, Some(Arc::new(Piece { text: piece_text.into(), nodes, ends_file })))
    }
}

/// The nodes of a piece; `None` when it is not KDL by itself.
fn parse_piece(text: &str, ends_file: bool, file: FileId) -> Option<Vec<Node>> {
    if ends_file {
        return syntax::parse_text(text, file).ok();
    }
    // Another node stands behind it, and what the parser makes of a `/-` depends on that.
    const NEXT: &str = "next";
    let mut nodes = syntax::parse_text(&format!("{text}{NEXT}"), file).ok()?;
    let next = nodes.pop()?;
    let is_next_alone =
        next.location.span == (text.len()..text.len() + NEXT.len()) && next.name.text == NEXT && next.children.is_none();
    is_next_alone.then_some(nodes)
}

/// Whether cutting the text would give that piece, too. It was cut off in front of a letter or at the end, and nothing else tells where.
fn begins_with(rest: &str, piece: &Piece) -> bool {
    let Some(behind) = rest.strip_prefix(&*piece.text) else { return false };
    if piece.ends_file { behind.is_empty() } else { behind.starts_with(|c: char| c.is_ascii_alphabetic()) }
}

/// A byte order mark may only stand at the start of a file, which a piece would look like.
fn can_be_cut(text: &str) -> bool {
    const BYTE_ORDER_MARK: char = '\u{feff}';
    !text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).contains(BYTE_ORDER_MARK)
}

/// How far it is to where a text can be cut so that the parts mean together what the whole does: in front of a word that begins a line
/// outside of every block. Anything less plain than that stays with what is before it.
fn first_piece_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut begins_line = false;
    let mut is_continued = false;
    let mut follows_slashdash = false;
    for token in Tokens::of(text) {
        match token.kind {
            TokenKind::Newline => {
                begins_line = depth == 0 && !is_continued && !follows_slashdash;
                is_continued = false;
                continue;
            }
            TokenKind::Space => continue,
            TokenKind::Bare if begins_line && text.as_bytes()[token.span.start].is_ascii_alphabetic() => {
                return token.span.start;
            }
            TokenKind::Slashdash => follows_slashdash = true,
            TokenKind::Continuation => is_continued = true,
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            TokenKind::Bare
            | TokenKind::Text
            | TokenKind::Equals
            | TokenKind::Semicolon
            | TokenKind::LineComment
            | TokenKind::BlockComment
            | TokenKind::ParenOpen
            | TokenKind::ParenClose => {}
        }
        begins_line = false;
        follows_slashdash &= matches!(token.kind, TokenKind::Slashdash | TokenKind::LineComment | TokenKind::BlockComment);
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::SourceFile;

    #[test]
    fn texts_are_cut_in_front_of_words_that_begin_a_line_outside_of_blocks() {
        let check = |text: &str, expected: &[&str]| {
            let mut seen = Vec::new();
            let mut rest = text;
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(first_piece_length(rest));
                seen.push(piece);
                rest = behind;
            }
            assert_eq!(seen, expected, "for {text}");
        };
        check("", &[]);
        check("a\nb", &["a\n", "b"]);
        check("// x\na { b\nc }\n\n// y\nd", &["// x\n", "a { b\nc }\n\n// y\n", "d"]);
        check("a; b\nc", &["a; b\n", "c"]);
        check("a \\\nb\nc", &["a \\\nb\n", "c"]);
        check("/-\na\nb", &["/-\na\n", "b"]);
        check("/- // x\na\nb", &["/- // x\na\n", "b"]);
        check("\"a\"\n\"b\"\nc", &["\"a\"\n\"b\"\n", "c"]);
        check("a \"\"\"\nb\n\"\"\"\nc", &["a \"\"\"\nb\n\"\"\"\n", "c"]);
        check("a }\nb", &["a }\n", "b"]);
    }

    #[test]
    fn the_pieces_mean_what_the_whole_does() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|choices: &Vec<u8>| {
            const WORDS: [&str; 24] = [
                "a",
                "b",
                " ",
                "\n",
                "\n",
                "\n",
                "{",
                "}",
                "{ c\n d; }",
                ";",
                "/-",
                "\\",
                "\\\n",
                "\"x\"",
                "\"\"\"\n",
                "x=1",
                "// y\n",
                "/* z */",
                "#\"",
                "\"#",
                "(",
                "/- kdl-version 2\n",
                "\r\n",
                "\u{2028}",
            ];
            let words: Vec<&str> = choices.iter().map(|choice| WORDS[*choice as usize % WORDS.len()]).collect();
            let mut memory = LoadMemory::default();
            for changed in 0..3 {
                // The second time as it was, the third time with a word taken out.
                let text = words.iter().enumerate().filter(|(index, _)| changed < 2 || *index != words.len() / 2);
                let text: String = text.map(|(_, word)| *word).collect();
                let mut sources = Sources::default();
                let file = sources.add(SourceFile { name: "t".into(), text, directory: std::path::PathBuf::new() });
                let whole = syntax::parse(&sources, file);
                let mut recall = Recall::new(&mut memory);
                let pieces = recall.nodes_of(&sources, file).map(|nodes| nodes.iter().map(TopNode::placed).collect());
                recall.finish();
                assert_eq!(pieces, whole, "for {:?}", sources.file(file).text);
            }
        });
    }
}
