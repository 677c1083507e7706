//! The files of a configuration while they are changed: each once, however often it is included, read again after every
//! change. Nothing is read from disk here, and nothing is written there.

use crate::diagnostics::{FileId, SourceFile, Sources};
use crate::directives::include::INCLUDE;
use crate::directives::include::takes_includes;
use crate::document::sync::Replacement;
use crate::document::{ChangedFile, EditError, EditFault};
use crate::load::{Loaded, texts_of};
use crate::pieces::{PieceMemory, Recall, TopNode};
use crate::syntax::Node;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
pub struct Workspace {
    pub sources: Sources,
    pub main: FileId,
    /// Includes are replaced by what they include.
    pub tops: Arc<Vec<TopNode>>,
    paths: Vec<PathBuf>,
    included: HashMap<(FileId, Vec<String>), Vec<FileId>>,
    memory: PieceMemory,
    changed: BTreeSet<FileId>,
}

impl Workspace {
    pub fn of(loaded: &Loaded) -> Result<Workspace, EditError> {
        if let Some(fault) = loaded.diagnostics.iter().find(|diagnostic| matches!(diagnostic.code, "syntax" | "include-cycle")) {
            let (line, _) = loaded.files.position(&fault.primary.location);
            let name = &loaded.files.file(fault.primary.location.file).name;
            let message = format!("the configuration cannot be read: {name}, line {line}: {}", fault.message);
            return Err(EditError::new(EditFault::NotWritable, message).help("repair the file by hand first"));
        }
        let mut sources = Sources::default();
        let mut paths = Vec::new();
        let mut by_identity = HashMap::new();
        let mut same = HashMap::new();
        for (file, (identity, path)) in loaded.files.ids().zip(&loaded.written.files) {
            let one = *by_identity.entry(identity).or_insert_with(|| {
                paths.push(path.clone());
                sources.add(loaded.files.file(file).clone())
            });
            same.insert(file, one);
        }
        let included = loaded.written.includes.iter();
        let included = included
            .map(|(file, texts, files)| ((same[file], texts.clone()), files.iter().map(|file| same[file]).collect()))
            .collect();
        let main = loaded.files.first().map_or_else(|| sources.add(SourceFile::default()), |main| same[&main]);
        let memory = loaded.written.memory.clone();
        let is_each_once = sources.len() == loaded.files.len();
        let tops = Arc::clone(&loaded.written.nodes);
        let mut workspace = Workspace { sources, main, tops, paths, included, memory, changed: BTreeSet::new() };
        if !is_each_once {
            // The nodes of a file that is included twice have places in two files.
            workspace.tops = workspace.read()?;
        }
        Ok(workspace)
    }

    /// Everything as it is, to come back to.
    pub fn snapshot(&self) -> Before {
        (self.sources.clone(), self.tops.clone(), self.changed.clone())
    }

    pub fn restore(&mut self, (sources, tops, changed): Before) {
        self.sources = sources;
        self.tops = tops;
        self.changed = changed;
    }

    /// Changes the texts and reads them again. An error when they cannot be read then.
    pub fn replace(&mut self, mut replacements: Vec<Replacement>) -> Result<(), EditError> {
        replacements.sort_by_key(|one| (one.file, one.span.start, one.span.end));
        for part in replacements.chunk_by(|left, right| left.file == right.file) {
            let file = self.sources.file_mut(part[0].file);
            let mut text = String::with_capacity(file.text.len());
            let mut done = 0;
            for one in part {
                // Of two lines that go, both may claim the blank between them.
                text.push_str(file.text.get(done..one.span.start).unwrap_or_default());
                text.push_str(&one.text);
                done = done.max(one.span.end);
            }
            text.push_str(&file.text[done..]);
            if *text != *file.text {
                self.changed.insert(part[0].file);
                file.text = text.into();
            }
        }
        self.tops = self.read()?;
        Ok(())
    }

    pub fn changed_files(self) -> Vec<ChangedFile> {
        let files = self.sources.ids().zip(self.paths).filter(|(file, _)| self.changed.contains(file));
        files.map(|(file, path)| ChangedFile { path, text: self.sources.file(file).text.clone() }).collect()
    }

    fn read(&mut self) -> Result<Arc<Vec<TopNode>>, EditError> {
        let mut reading = Reading { sources: &self.sources, included: &self.included, recall: Recall::new(&mut self.memory) };
        let tops = reading.nodes_of(self.main, 0);
        reading.recall.finish();
        tops.map(Arc::new)
    }
}

/// Texts, nodes and changed files at one time.
pub type Before = (Sources, Arc<Vec<TopNode>>, BTreeSet<FileId>);

struct Reading<'w> {
    sources: &'w Sources,
    included: &'w HashMap<(FileId, Vec<String>), Vec<FileId>>,
    recall: Recall<'w>,
}

/// A load refuses includes that are nested deeper, and those of files in themselves.
const DEPTH_MAX: usize = 20;

impl Reading<'_> {
    fn nodes_of(&mut self, file: FileId, depth: usize) -> Result<Vec<TopNode>, EditError> {
        let nodes = self.recall.nodes_of(self.sources, file).map_err(|faults| {
            let reason = faults.into_iter().next().map_or_else(String::new, |fault| fault.message.into_owned());
            EditError::new(EditFault::NotWritable, format!("the changed text cannot be read: {reason}"))
        })?;
        let mut expanded = Vec::with_capacity(nodes.len());
        for top in nodes {
            if top.name() == INCLUDE.name {
                expanded.extend(self.include(&top.placed(), depth)?);
            } else if top.remembered.has_includes {
                expanded.push(TopNode::for_once(self.expand(top.placed(), depth)?));
            } else {
                expanded.push(top);
            }
        }
        Ok(expanded)
    }

    fn expand(&mut self, mut node: Node, depth: usize) -> Result<Node, EditError> {
        if !takes_includes(&node) {
            return Ok(node);
        }
        let Some(children) = node.children.take() else { return Ok(node) };
        let mut expanded = Vec::with_capacity(children.len());
        for child in children {
            if child.name.text == INCLUDE.name {
                expanded.extend(self.include(&child, depth)?.iter().map(TopNode::placed));
            } else {
                expanded.push(self.expand(child, depth)?);
            }
        }
        node.children = Some(expanded);
        Ok(node)
    }

    fn include(&mut self, node: &Node, depth: usize) -> Result<Vec<TopNode>, EditError> {
        let files = self.included.get(&(node.location.file, texts_of(node))).cloned().unwrap_or_default();
        let mut nodes = Vec::new();
        for file in files.into_iter().filter(|_| depth < DEPTH_MAX) {
            nodes.extend(self.nodes_of(file, depth + 1)?);
        }
        Ok(nodes)
    }
}

/// Whether two nodes are certainly the same: neither was parsed anew.
pub fn is_untouched(left: &TopNode, right: &TopNode) -> bool {
    Arc::ptr_eq(&left.remembered, &right.remembered)
}
