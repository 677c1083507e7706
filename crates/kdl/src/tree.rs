//! The tree of a text: nodes with their entries and blocks, and the place of each. What is switched off by `/-` is not
//! in it.

use std::ops::Range;

/// A file of one load; only valid for the list of files it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub usize);

/// A piece of one file, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub file: FileId,
    pub span: Range<usize>,
}

impl Location {
    /// For what was never written.
    pub const NOWHERE: Location = Location { file: FileId(usize::MAX), span: 0..0 };
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: Name,
    pub entries: Vec<Entry>,
    /// `None` without a block; `{ }` is `Some` of nothing.
    pub children: Option<Vec<Node>>,
    /// The name and the entries, without the block.
    pub location: Location,
    /// Where a `(type)` was written, which no directive takes.
    pub annotation: Option<Location>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    pub text: String,
    pub location: Location,
}

/// An argument, or with a name a property. In the order written, duplicates included.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: Option<Name>,
    pub value: Value,
    pub location: Location,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    pub literal: Literal,
    pub location: Location,
    /// Bytes from the start of `location` to the first character of the text, when the text stands in the file as it
    /// is: no escapes.
    pub verbatim_from: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Text(String),
    Integer(i128),
    Float(f64),
    Switch(bool),
    Null,
}

impl Value {
    /// The place of a part of the text, or the whole value when escapes make that unknowable.
    pub fn part(&self, part: Range<usize>) -> Location {
        match self.verbatim_from {
            None => self.location.clone(),
            Some(offset) => {
                let start = self.location.span.start + offset;
                Location { file: self.location.file, span: start + part.start..start + part.end }
            }
        }
    }
}

impl Node {
    /// Changes all places of the node.
    pub fn relocate(&mut self, place: &dyn Fn(&Location) -> Location) {
        let change = |location: &mut Location| *location = place(location);
        change(&mut self.name.location);
        for entry in &mut self.entries {
            entry.name.iter_mut().for_each(|name| change(&mut name.location));
            change(&mut entry.value.location);
            change(&mut entry.location);
        }
        self.children.iter_mut().flatten().for_each(|child| child.relocate(place));
        change(&mut self.location);
        self.annotation.iter_mut().for_each(change);
    }
}
