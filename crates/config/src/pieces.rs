//! A file as nodes at the top level that are remembered by their text, so that a load after a small change parses
//! little. What is remembered counts its places from its own start, so that it may move. What a node means is
//! remembered in `remembered`; who asks for nodes is `load`.

use crate::diagnostics::{Diagnostic, FileId, Location, Sources};
use crate::directives::include::includes;
use crate::remembered::Lowered;
use crate::slips;
use crate::spans::Placement;
use crate::syntax::{self, Node};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tidegate_kdl::Parser;

/// What the last load read, for the next one: text that is still there is not parsed again, and what it means is known.
///
/// Bounded by that load: it holds the text of its files, and about 3 KB for each site of three lines. Whatever it
/// holds, a load gives the same with it as without it.
#[derive(Debug, Clone, Default)]
pub struct LoadMemory {
    /// In the order in which they were read, which is mostly the order in which they are asked for.
    pieces: Vec<Arc<Piece>>,
}

/// A node with all that stands in front of it, up to the line break or `;` behind it: nothing that follows has a say in
/// what it is.
#[derive(Debug)]
struct Piece {
    text: Arc<str>,
    /// `None` behind the last node of a file.
    node: Option<Arc<Remembered>>,
    /// The end of its file cut it off. More text there might have belonged to it.
    ends_file: bool,
}

/// A node at the top level, and what lowering made of it when that follows from its text alone.
#[derive(Debug)]
pub struct Remembered {
    pub node: Node,
    /// Whether an `include` stands within it that is to be replaced.
    pub has_includes: bool,
    pub lowered: OnceLock<Lowered>,
}

impl Remembered {
    fn new(node: Node) -> Arc<Remembered> {
        Arc::new(Remembered { has_includes: includes(&node), node, lowered: OnceLock::new() })
    }
}

/// A node at the top level of a load, wherever it was written.
#[derive(Debug, Clone)]
pub struct TopNode {
    pub remembered: Arc<Remembered>,
    /// `None` for a node that is of this load only: its places are those of the files already, which may be several by
    /// its includes.
    pub placement: Option<Placement>,
}

impl TopNode {
    pub fn for_once(node: Node) -> TopNode {
        TopNode { remembered: Remembered::new(node), placement: None }
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
    /// How many pieces in a row did not.
    misses: usize,
    /// The pieces of the memory by their text; made when more than one in a row did not come next.
    by_text: Option<HashMap<Arc<str>, usize>>,
    used: Vec<Arc<Piece>>,
}

impl<'m> Recall<'m> {
    pub fn new(memory: &'m mut LoadMemory) -> Recall<'m> {
        let used = Vec::with_capacity(memory.pieces.len());
        Recall { memory, next: 0, misses: 0, by_text: None, used }
    }

    /// What this load did not use is forgotten. The memory keeps what the copy holds, so the copy costs little.
    pub fn finish(self) -> LoadMemory {
        self.memory.pieces.clone_from(&self.used);
        LoadMemory { pieces: self.used }
    }

    /// The nodes of a file, or everything that keeps it from being KDL.
    pub fn nodes_of(&mut self, sources: &Sources, file: FileId) -> Result<Vec<TopNode>, Vec<Diagnostic>> {
        let text = &*sources.file(file).text;
        let mut nodes = Vec::new();
        // A byte order mark belongs to the file and to no piece.
        let mut offset = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
        while offset < text.len() {
            let Some(piece) = self.known_piece(&text[offset..]).or_else(|| self.parsed_piece(text, offset, file)) else {
                // What is wrong here is told as a fault of the whole text.
                return Ok(syntax::parse(sources, file)?.into_iter().map(TopNode::for_once).collect());
            };
            let placement = Some(Placement { file, offset, length: piece.text.len() });
            nodes.extend(piece.node.iter().map(|node| TopNode { remembered: Arc::clone(node), placement }));
            offset += piece.text.len();
            self.used.push(piece);
        }
        Ok(nodes)
    }

    /// The piece that begins the text, when it is one of those that are likely to.
    fn known_piece(&mut self, rest: &str) -> Option<Arc<Piece>> {
        let next = [self.next, self.next + 1];
        let begins = |piece: &Arc<Piece>| rest.starts_with(&*piece.text) && piece.ends_file == (piece.text.len() == rest.len());
        let position = next.into_iter().find(|next| self.memory.pieces.get(*next).is_some_and(begins))?;
        (self.next, self.misses) = (position + 1, 0);
        Some(Arc::clone(&self.memory.pieces[position]))
    }

    /// The piece that begins there; `None` when it is not KDL, or cannot be meant.
    fn parsed_piece(&mut self, text: &str, offset: usize, file: FileId) -> Option<Arc<Piece>> {
        let mut parser = Parser::new(text, offset, file);
        let node = parser.next_node().ok()?;
        let written = &text[offset..parser.offset()];
        if slips::may_be_kdl(written) && slips::find(written, 1).iter().any(|slip| slip.is_kdl) {
            return None;
        }
        let ends_file = parser.offset() == text.len();
        self.misses += 1;
        if self.misses > 1 && !self.memory.pieces.is_empty() {
            let pieces = &self.memory.pieces;
            let by_text = self.by_text.get_or_insert_with(|| {
                pieces.iter().enumerate().map(|(position, piece)| (Arc::clone(&piece.text), position)).collect()
            });
            if let Some(position) = by_text.get(written).filter(|position| pieces[**position].ends_file == ends_file) {
                (self.next, self.misses) = (position + 1, 0);
                return Some(Arc::clone(&pieces[*position]));
            }
        }
        let node = node.map(Remembered::new);
        Some(Arc::new(Piece { text: written.into(), node, ends_file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::SourceFile;

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
                let file = sources.add(SourceFile { name: "t".into(), text: text.into(), directory: std::path::PathBuf::new() });
                let whole = syntax::parse(&sources, file);
                let mut recall = Recall::new(&mut memory);
                let pieces = recall.nodes_of(&sources, file).map(|nodes| nodes.iter().map(TopNode::placed).collect());
                recall.finish();
                assert_eq!(pieces, whole, "for {:?}", sources.file(file).text);
            }
        });
    }
}
