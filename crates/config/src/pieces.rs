//! A file as nodes at the top level that are remembered by their text, so that a load after a small change parses
//! little. What is remembered counts its places from its own start, so that it may move. What a node means is
//! remembered in `remembered`; who asks for nodes is `load`.

use crate::diagnostics::{Diagnostic, FileId, Location, Sources};
use crate::directives::include::includes;
use crate::remembered::Lowered;
use crate::slips;
use crate::spans::Placement;
use crate::syntax::{self, Literal, Node, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use tidegate_kdl::Parser;

/// What the last load read, for the next one: text that is still there is not parsed again, and what it means is known.
///
/// Bounded by that load: it holds the text of its files, and about 1 KB for each site of three lines. Whatever it
/// holds, a load gives the same with it as without it.
#[derive(Debug, Clone, Default)]
pub struct PieceMemory(Arc<Pieces>);

/// The files of a load in pieces, in the order in which they were read.
#[derive(Debug, Default)]
struct Pieces {
    pieces: Vec<Arc<Piece>>,
    files: Vec<FilePieces>,
}

/// Which pieces a text consists of.
#[derive(Debug)]
struct FilePieces {
    text: Arc<str>,
    /// The position of the first one.
    first: usize,
    /// Where each ends in the text.
    ends: Vec<usize>,
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

/// A node at the top level, and what lowering made of it when that follows from its text alone. Its tree is several
/// times as large as its text, so that is parsed again where it is needed.
#[derive(Debug)]
pub struct Remembered {
    written: WrittenNode,
    pub head: Head,
    /// Whether an `include` stands within it that is to be replaced.
    pub has_includes: bool,
    pub lowered: OnceLock<Lowered>,
}

#[derive(Debug)]
enum WrittenNode {
    /// A piece that is known to be KDL.
    Text(Arc<str>),
    Tree(Node),
}

/// By what a node at the top level is found.
#[derive(Debug)]
pub struct Head {
    pub name: Cow<'static, str>,
    name_location: Location,
    pub arguments: Box<[Value]>,
    /// The first arguments of the `protocol` lines of a pool.
    pub protocols: Box<[Value]>,
}

impl Head {
    fn of(node: &Node) -> Head {
        let is_protocol = |child: &&Node| node.name.text == "pool" && child.name.text == "protocol";
        Head {
            name: match node.name.text.as_str() {
                "site" => Cow::Borrowed("site"),
                "pool" => Cow::Borrowed("pool"),
                other => Cow::Owned(other.to_owned()),
            },
            name_location: node.name.location.clone(),
            arguments: arguments(node).collect(),
            protocols: node.children.iter().flatten().filter(is_protocol).filter_map(|child| arguments(child).next()).collect(),
        }
    }

    /// The texts among the arguments.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().filter_map(|argument| match &argument.literal {
            Literal::Text(text) => Some(text.as_str()),
            Literal::Integer(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => None,
        })
    }
}

fn arguments(node: &Node) -> impl Iterator<Item = Value> + '_ {
    node.entries.iter().filter(|entry| entry.name.is_none()).map(|entry| entry.value.clone())
}

impl Remembered {
    fn new(node: &Node, written: WrittenNode) -> Arc<Remembered> {
        Arc::new(Remembered { head: Head::of(node), has_includes: includes(node), written, lowered: OnceLock::new() })
    }

    /// The tree; its places count from the start of the piece, if it has one.
    pub fn node(&self) -> Cow<'_, Node> {
        match &self.written {
            WrittenNode::Tree(node) => Cow::Borrowed(node),
            WrittenNode::Text(text) => {
                let node = Parser::new(text, 0, FileId(0)).next_node().ok().flatten();
                Cow::Owned(node.expect("the piece has been parsed to a node"))
            }
        }
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
        TopNode {
            remembered: Arc::new(Remembered {
                head: Head::of(&node),
                has_includes: includes(&node),
                written: WrittenNode::Tree(node),
                lowered: OnceLock::new(),
            }),
            placement: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.remembered.head.name
    }

    /// The node with its places in the file.
    pub fn placed(&self) -> Node {
        let mut node = self.remembered.node().into_owned();
        if let Some(placement) = self.placement {
            node.relocate(&|location| placement.location(location));
        }
        node
    }

    /// Where something of the node is in its file.
    pub fn location(&self, written: &Location) -> Location {
        self.placement.map_or_else(|| written.clone(), |placement| placement.location(written))
    }

    pub fn name_location(&self) -> Location {
        self.location(&self.remembered.head.name_location)
    }
}

/// Takes pieces from the last load and collects those of this one.
#[derive(Debug)]
pub struct Recall<'m> {
    memory: &'m mut PieceMemory,
    known: Arc<Pieces>,
    /// Which piece of the memory is likely to come next.
    next: usize,
    /// How many pieces in a row did not.
    misses: usize,
    /// The pieces of the memory by their text; made when more than one in a row did not come next.
    by_text: Option<HashMap<Arc<str>, usize>>,
    used: Pieces,
}

impl<'m> Recall<'m> {
    pub fn new(memory: &'m mut PieceMemory) -> Recall<'m> {
        let known = Arc::clone(&memory.0);
        let used = Pieces { pieces: Vec::with_capacity(known.pieces.len() + 1), files: Vec::new() };
        Recall { memory, known, next: 0, misses: 0, by_text: None, used }
    }

    /// What this load did not use is forgotten. The memory keeps what the copy holds, so the copy costs little.
    pub fn finish(self) -> PieceMemory {
        self.memory.0 = Arc::new(self.used);
        self.memory.clone()
    }

    /// The nodes of a file, or everything that keeps it from being KDL.
    pub fn nodes_of(&mut self, sources: &Sources, file: FileId) -> Result<Vec<TopNode>, Vec<Diagnostic>> {
        let text = &sources.file(file).text;
        let all = Arc::clone(&self.known);
        let known = all.files.get(self.used.files.len());
        let (front, back) = known.map_or((0, 0), |known| in_common(&known.text, text));
        // A byte order mark belongs to the file and to no piece.
        let mut offset = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
        let mut taken = Taken { first: self.used.pieces.len(), ends: Vec::new(), nodes: Vec::new(), file };
        if let Some(known) = known {
            let room = known.ends.len() + 2;
            (taken.ends, taken.nodes) = (Vec::with_capacity(room), Vec::with_capacity(room));
            let count = known.count_within(front, text.len());
            offset = self.take_run(known, 0..count, offset, &mut taken);
        }
        while offset < text.len() {
            let behind = known.filter(|_| text.len() - offset <= back).and_then(|known| known.behind(text.len() - offset));
            if let (Some(known), Some(position)) = (known, behind) {
                offset = self.take_run(known, position..known.ends.len(), offset, &mut taken);
                continue;
            }
            let Some(piece) = self.known_piece(&text[offset..]).or_else(|| self.parsed_piece(text, offset, file)) else {
                // What is wrong here is told as a fault of the whole text.
                let (first, ends) = (taken.first, taken.ends);
                self.used.files.push(FilePieces { text: Arc::clone(text), first, ends });
                return Ok(syntax::parse(sources, file)?.into_iter().map(TopNode::for_once).collect());
            };
            offset = taken.add(&piece, offset);
            self.used.pieces.push(piece);
        }
        self.used.files.push(FilePieces { text: Arc::clone(text), first: taken.first, ends: taken.ends });
        Ok(taken.nodes)
    }

    /// Takes pieces of a file that follow one another there and here.
    fn take_run(&mut self, known: &FilePieces, run: Range<usize>, offset: usize, taken: &mut Taken) -> usize {
        let pieces = &self.known.pieces[known.first + run.start..known.first + run.end];
        let offset = pieces.iter().fold(offset, |offset, piece| taken.add(piece, offset));
        self.used.pieces.extend(pieces.iter().cloned());
        (self.next, self.misses) = (known.first + run.end, 0);
        offset
    }

    /// The piece that begins the text, when it is one of those that are likely to.
    fn known_piece(&mut self, rest: &str) -> Option<Arc<Piece>> {
        let next = [self.next, self.next + 1];
        let begins = |piece: &Arc<Piece>| rest.starts_with(&*piece.text) && piece.ends_file == (piece.text.len() == rest.len());
        let position = next.into_iter().find(|next| self.known.pieces.get(*next).is_some_and(begins))?;
        (self.next, self.misses) = (position + 1, 0);
        Some(Arc::clone(&self.known.pieces[position]))
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
        if self.misses > 1 && !self.known.pieces.is_empty() {
            let pieces = &self.known.pieces;
            let by_text = self.by_text.get_or_insert_with(|| {
                pieces.iter().enumerate().map(|(position, piece)| (Arc::clone(&piece.text), position)).collect()
            });
            if let Some(position) = by_text.get(written).filter(|position| pieces[**position].ends_file == ends_file) {
                (self.next, self.misses) = (position + 1, 0);
                return Some(Arc::clone(&pieces[*position]));
            }
        }
        let written: Arc<str> = written.into();
        let node = node.map(|node| Remembered::new(&node, WrittenNode::Text(Arc::clone(&written))));
        Some(Arc::new(Piece { text: written, node, ends_file }))
    }
}

/// What has been read of a file.
struct Taken {
    first: usize,
    ends: Vec<usize>,
    nodes: Vec<TopNode>,
    file: FileId,
}

impl Taken {
    /// Gives where the next piece begins.
    fn add(&mut self, piece: &Piece, offset: usize) -> usize {
        let placement = Some(Placement { file: self.file, offset, length: piece.text.len() });
        self.nodes.extend(piece.node.iter().map(|node| TopNode { remembered: Arc::clone(node), placement }));
        let end = offset + piece.text.len();
        self.ends.push(end);
        end
    }
}

impl FilePieces {
    /// How many pieces another text of that length begins with that has the first bytes in common.
    fn count_within(&self, bytes: usize, length: usize) -> usize {
        let count = self.ends.partition_point(|end| *end <= bytes);
        let cuts = |end: usize| (end == self.text.len()) != (end == length);
        count - usize::from(count > 0 && cuts(self.ends[count - 1]))
    }

    /// The piece that begins so many bytes before the end.
    fn behind(&self, bytes: usize) -> Option<usize> {
        let offset = self.text.len() - bytes;
        // A text that could not be read ends too early.
        self.ends.binary_search(&offset).ok().map(|before| before + 1).filter(|next| *next < self.ends.len())
    }
}

/// How many bytes two texts have in common at their beginnings, and behind that at their ends.
/// Neither need be the end of a character.
pub fn in_common(left: &str, right: &str) -> (usize, usize) {
    if std::ptr::eq(left, right) {
        return (left.len(), 0);
    }
    // Runs are compared at the speed of memory.
    const RUN: usize = 4096;
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let runs = left.chunks(RUN).zip(right.chunks(RUN)).take_while(|(left, right)| left == right);
    let front: usize = runs.map(|(run, _)| run.len()).sum();
    let (left, right) = (&left[front..], &right[front..]);
    let more = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let (left, right) = (&left[more..], &right[more..]);
    let runs = left.rchunks(RUN).zip(right.rchunks(RUN)).take_while(|(left, right)| left == right);
    let back: usize = runs.map(|(run, _)| run.len()).sum();
    let (left, right) = (&left[..left.len() - back], &right[..right.len() - back]);
    let rest = left.iter().rev().zip(right.iter().rev()).take_while(|(left, right)| left == right).count();
    (front + more, back + rest)
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
            let mut memory = PieceMemory::default();
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
