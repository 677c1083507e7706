//! From a file, or a text, to a configuration or to everything that is wrong with it. Reads included files, then lowers
//! the whole. Also the only place that knows where environment variables come from.

use crate::arguments::Arguments;
use crate::checks;
use crate::diagnostics::{Diagnostic, FileId, Location, Severity, SourceFile, Sources};
use crate::directives::LANGUAGE;
use crate::directives::include::{INCLUDE, takes_includes};
use crate::directives::{edition, pool};
use crate::foreign;
use crate::kept_back::{BroughtIn, keep_back};
use crate::language::{Line, Lower, Seen};
use crate::lowering::{Environment, Lowering, WrittenPool};
use crate::patch::{LastLoad, LoadMemory, changed};
use crate::pieces::{PieceMemory, Recall, TopNode};
use crate::placeholders::Text;
use crate::presets::{Preset, presets_in};
use crate::reading::Read;
use crate::regular::{read_bounded, read_regular, reason};
use crate::remembered::Lowered;
use crate::spans::Spans;
use crate::syntax::{Entry, Literal, Node};
use crate::table::Place;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_model::Configuration;
use tidegate_parallel::in_parallel;

const INCLUDE_DEPTH_MAX: usize = 16;
/// Included files, all together.
const FILES_MAX: usize = 4096;

/// What a load came to.
#[derive(Debug)]
pub struct Loaded {
    /// `Some` when there is no error; warnings do not stand in the way.
    pub configuration: Option<Configuration>,
    /// In the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// For rendering the diagnostics.
    pub files: Sources,
    /// All files that the configuration depends on: itself, included ones, certificates, `{file.X}`. Also those that
    /// should be there and are not; relative paths as they were given.
    pub read_files: Vec<PathBuf>,
    /// The includes with a wildcard as absolute patterns: a file that comes to match one of them belongs to the
    /// configuration too. [`include_matches`] tells which do.
    pub include_patterns: Vec<PathBuf>,
    pub spans: Arc<Spans>,
    pub(crate) written: Written,
}

/// What was written, before it was given a meaning; for reading and changing it as JSON.
#[derive(Debug, Default)]
pub struct Written {
    /// Includes are replaced by what they include.
    pub nodes: Arc<Vec<TopNode>>,
    /// For each file of the sources: what tells it from others, and its path as it was given.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// The `include` line of a file, by its texts, and what it brought in.
    pub includes: Vec<(FileId, Vec<String>, Vec<FileId>)>,
    pub memory: PieceMemory,
}

impl Loaded {
    /// Where a map is asked, each as `file:line`.
    pub fn users_of_map(&self, name: &str) -> Vec<String> {
        let places = self.spans.maps_used.iter().filter(|(used, _)| used.name == name).map(|(_, at)| at);
        let mut users: Vec<String> =
            places.map(|at| format!("{}:{}", self.files.file(at.file).name, self.files.position(at).0)).collect();
        users.dedup();
        users
    }

    /// Lists of networks that ship with the program and are named.
    pub fn presets(&self) -> Vec<&'static Preset> {
        let nodes: Vec<_> = self.written.nodes.iter().map(|top| top.remembered.node()).collect();
        presets_in(nodes.iter().map(|node| &**node))
    }

    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// What the main file may be. All others that a configuration names are regular files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainFile {
    /// What can be read to its end, such as a pipe: for a command that was given it, and has nothing else to do.
    AnyKind,
    /// For a process that must not wait for whoever writes into a pipe.
    Regular,
}

/// Loads a file of any kind with the environment of this process.
pub fn load_path(path: &Path) -> Loaded {
    load_path_again(path, MainFile::AnyKind, &mut LoadMemory::default())
}

/// What a text says of requests, as far as that can be told: also where certificates or variables that it names are on
/// another machine. Nothing runs by it.
pub fn shape(text: &str) -> Configuration {
    let environment = Environment::Process;
    let mut memory = LoadMemory::default();
    let mut loader = Loader::new(&environment, &mut memory);
    let file = loader.sources.add(SourceFile { name: String::new(), text: text.into(), directory: Path::new("/").into() });
    let nodes = loader.nodes_of(file);
    let mut lowering = Lowering::new(&loader.sources, &environment);
    lower_top(&mut lowering, &nodes);
    lowering.configuration
}

/// Loads again, at the cost of what has changed since the last load with this memory.
pub fn load_path_again(path: &Path, kind: MainFile, memory: &mut LoadMemory) -> Loaded {
    let mut loader = Loader::new(&Environment::Process, memory);
    let nodes = loader.read_main(path, kind);
    loader.finish(nodes)
}

/// Loads a text, such as standard input. Relative paths in it are relative to `base_dir`.
pub fn load_text(name: &str, text: &str, base_dir: &Path) -> Loaded {
    load_with(name, text, base_dir, &Environment::Process)
}

/// Loads again, at the cost of what has changed since the last load with this memory.
pub fn load_text_again(name: &str, text: &str, base_dir: &Path, memory: &mut LoadMemory) -> Loaded {
    load_with_again(name, text, base_dir, &Environment::Process, memory)
}

/// Loads a text with an environment of the caller's choice.
pub fn load_with(name: &str, text: &str, base_dir: &Path, environment: &Environment) -> Loaded {
    load_with_again(name, text, base_dir, environment, &mut LoadMemory::default())
}

/// Loads again, at the cost of what has changed since the last load with this memory; the environment may be another
/// one.
pub fn load_with_again(name: &str, text: &str, base_dir: &Path, environment: &Environment, memory: &mut LoadMemory) -> Loaded {
    let mut loader = Loader::new(environment, memory);
    loader.written.files.push((PathBuf::from(name), PathBuf::from(name)));
    let file = loader.sources.add(SourceFile { name: name.into(), text: text.into(), directory: base_dir.into() });
    let nodes = loader.nodes_of(file);
    loader.finish(nodes)
}

/// Texts that are taken instead of what is on disk.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    /// By the path as it would be read: that of the main file, or what an `include` names.
    pub by_path: BTreeMap<PathBuf, Arc<str>>,
    /// There are no other files: what was read once is read again as it was, and patterns match only these.
    pub is_complete: bool,
}

/// Loads a main text that was read before, or is about to be written. Certificates, `{file.X}` and `{env.X}` are as
/// they are now.
pub fn load_instead(name: &str, text: Arc<str>, base_dir: &Path, texts: &Texts, memory: &mut LoadMemory) -> Loaded {
    let mut loader = Loader::new(&Environment::Process, memory);
    loader.texts = Some(texts);
    loader.read_files.extend(Path::new(name).is_absolute().then(|| PathBuf::from(name)));
    loader.written.files.push((identity(Path::new(name)), PathBuf::from(name)));
    let file = loader.sources.add(SourceFile { name: name.into(), text, directory: base_dir.into() });
    loader.open.push(identity(Path::new(name)));
    let nodes = loader.nodes_of(file);
    loader.finish(nodes)
}

/// The files that match one of [`Loaded::include_patterns`] now, in the order in which they are read. At most 4,096.
pub fn include_matches(pattern: &Path) -> Vec<PathBuf> {
    pattern.to_str().and_then(|pattern| matches(pattern).ok()).unwrap_or_default()
}

/// A mounted volume keeps its old and new versions in hidden folders.
const MATCH_OPTIONS: glob::MatchOptions =
    glob::MatchOptions { require_literal_leading_dot: true, require_literal_separator: true, case_sensitive: true };

fn matches(pattern: &str) -> Result<Vec<PathBuf>, glob::PatternError> {
    let paths = glob::glob_with(pattern, MATCH_OPTIONS)?;
    let mut files: Vec<PathBuf> = paths.filter_map(Result::ok).filter(|path| path.is_file()).take(FILES_MAX).collect();
    files.sort();
    Ok(files)
}

struct Loader<'e> {
    sources: Sources,
    environment: &'e Environment,
    recall: Recall<'e>,
    last: &'e mut Option<Arc<LastLoad>>,
    diagnostics: Vec<Diagnostic>,
    read_files: Vec<PathBuf>,
    include_patterns: Vec<PathBuf>,
    texts: Option<&'e Texts>,
    written: Written,
    /// What includes had filled in.
    brought_in: Vec<BroughtIn>,
    /// The files that are being read, from the main one to the innermost.
    open: Vec<PathBuf>,
    /// What the `include` of the file that is being read has handed to it.
    arguments: Option<Arguments>,
}

impl<'e> Loader<'e> {
    fn new(environment: &'e Environment, memory: &'e mut LoadMemory) -> Loader<'e> {
        let mut sources = Sources::default();
        sources.hide(LANGUAGE.secret_properties(), LANGUAGE.with_secret_arguments(), LANGUAGE.property_names(), |word| {
            LANGUAGE.is_known_word(word)
        });
        Loader {
            sources,
            environment,
            recall: Recall::new(&mut memory.pieces),
            last: &mut memory.last,
            diagnostics: Vec::new(),
            read_files: Vec::new(),
            include_patterns: Vec::new(),
            texts: None,
            written: Written::default(),
            brought_in: Vec::new(),
            open: Vec::new(),
            arguments: None,
        }
    }

    fn read_main(&mut self, path: &Path, kind: MainFile) -> Vec<TopNode> {
        self.read_files.push(path.to_path_buf());
        let text = read_text(path, kind);
        self.written.files.push((identity(path), path.to_path_buf()));
        let file = self.sources.add(SourceFile {
            name: path.display().to_string(),
            text: text.as_ref().map_or_else(|_| Arc::default(), Arc::clone),
            directory: directory_of(path),
        });
        if let Err(reason) = text {
            let location = Location { file, span: 0..0 };
            let diagnostic = Diagnostic::error("cannot-read", location, format!("cannot read `{}`: {reason}", path.display()));
            self.diagnostics.push(diagnostic.help("`--config FILE` names another one"));
            return Vec::new();
        }
        self.open.push(identity(path));
        self.nodes_of(file)
    }

    /// The nodes of a file with its includes in their place.
    fn nodes_of(&mut self, file: FileId) -> Vec<TopNode> {
        let nodes = match self.recall.nodes_of(&self.sources, file) {
            Ok(nodes) => nodes,
            Err(diagnostics) => {
                let text = &self.sources.file(file).text;
                self.diagnostics.extend(diagnostics.into_iter().map(|fault| foreign::of_a_line(&LANGUAGE, text, fault)));
                return Vec::new();
            }
        };
        let nodes = self.with_arguments(nodes);
        if !nodes.iter().any(|top| top.name() == INCLUDE.name || top.remembered.has_includes) {
            return nodes;
        }
        let mut expanded = Vec::with_capacity(nodes.len());
        for top in nodes {
            if top.name() == INCLUDE.name {
                expanded.extend(self.include(&top.placed()));
            } else if top.remembered.has_includes {
                let node = self.expand(top.placed());
                expanded.push(TopNode::for_once(node));
            } else {
                expanded.push(top);
            }
        }
        expanded
    }

    /// The nodes with what their `include` hands to them.
    fn with_arguments(&mut self, nodes: Vec<TopNode>) -> Vec<TopNode> {
        let Some(arguments) = &mut self.arguments else { return nodes };
        let fill = |top: TopNode| {
            let mut node = top.placed();
            arguments.fill(&mut node, &mut self.diagnostics);
            TopNode::for_once(node)
        };
        nodes.into_iter().map(fill).collect()
    }

    fn expand(&mut self, mut node: Node) -> Node {
        if !takes_includes(&node) {
            return node;
        }
        let Some(children) = node.children.take() else { return node };
        let mut expanded = Vec::with_capacity(children.len());
        for child in children {
            if child.name.text == INCLUDE.name {
                expanded.extend(self.include(&child).iter().map(TopNode::placed));
            } else {
                expanded.push(self.expand(child));
            }
        }
        node.children = Some(expanded);
        node
    }

    fn include(&mut self, node: &Node) -> Vec<TopNode> {
        let mut files_alone = node.clone();
        let given = Arguments::take(&mut files_alone);
        let of_outer = std::mem::replace(&mut self.arguments, given);
        let included = self.include_files(&files_alone);
        let given = std::mem::replace(&mut self.arguments, of_outer);
        if !included.is_empty() {
            self.diagnostics.extend(given.and_then(|given| given.unused()));
        }
        included
    }

    fn include_files(&mut self, node: &Node) -> Vec<TopNode> {
        let mut lowering = Lowering::new(&self.sources, self.environment);
        let line = Line { node, directive: &INCLUDE, language: &LANGUAGE };
        line.check_shape(&mut lowering);
        let patterns: Vec<Text> = line.read_arguments(&mut lowering).into_iter().map(Read::text).collect();
        let (diagnostics, read_files) = (lowering.diagnostics, lowering.read_files);
        self.brought_in.extend(lowering.brought_in);
        self.diagnostics.extend(diagnostics);
        self.read_files.extend(read_files);
        let mut included = Vec::new();
        let mut files = Vec::new();
        for pattern in patterns {
            if self.open.len() > INCLUDE_DEPTH_MAX {
                let message = format!("includes are nested more than {INCLUDE_DEPTH_MAX} deep");
                self.diagnostics.push(Diagnostic::error("include-depth", pattern.location.clone(), message));
                return included;
            }
            for path in self.files_of(&pattern) {
                included.extend(self.include_file(&path, &pattern, &mut files));
            }
        }
        self.written.includes.push((node.location.file, texts_of(node), files));
        included
    }

    /// The files that an include names, in the order of their names.
    fn files_of(&mut self, pattern: &Text) -> Vec<PathBuf> {
        let directory = self.sources.file(pattern.location.file).directory.clone();
        if !pattern.value.contains(['*', '?', '[']) {
            return vec![directory.join(&pattern.value)];
        }
        let absolute = if Path::new(&pattern.value).is_absolute() {
            pattern.value.clone()
        } else {
            let directory = glob::Pattern::escape(&directory.display().to_string());
            if directory.is_empty() { pattern.value.clone() } else { format!("{directory}/{}", pattern.value) }
        };
        match self.matches(&absolute) {
            Ok(files) => {
                self.include_patterns.push(std::path::absolute(&absolute).unwrap_or_else(|_| PathBuf::from(&absolute)));
                files
            }
            Err(error) => {
                self.diagnostics.push(pattern.error("bad-pattern", format!("this pattern is not valid: {}", error.msg)));
                Vec::new()
            }
        }
    }

    fn matches(&self, pattern: &str) -> Result<Vec<PathBuf>, glob::PatternError> {
        let Some(texts) = self.texts else { return matches(pattern) };
        let compiled = glob::Pattern::new(pattern)?;
        let given = texts.by_path.keys().filter(|path| compiled.matches_path_with(path, MATCH_OPTIONS)).cloned();
        let mut files: Vec<PathBuf> = given.collect();
        if !texts.is_complete {
            files.extend(matches(pattern)?);
            files.sort();
            files.dedup();
        }
        Ok(files)
    }

    fn read_text(&self, path: &Path) -> Result<Arc<str>, String> {
        match self.texts {
            Some(texts) => match texts.by_path.get(path) {
                Some(text) => Ok(text.clone()),
                None if texts.is_complete => Err("it was not there at that time".into()),
                None => read_text(path, MainFile::Regular),
            },
            None => read_text(path, MainFile::Regular),
        }
    }

    fn include_file(&mut self, path: &Path, pattern: &Text, files: &mut Vec<FileId>) -> Vec<TopNode> {
        let identity = identity(path);
        if self.open.contains(&identity) {
            let message =
                if pattern.secret { "a file includes itself".into() } else { format!("`{}` includes itself", path.display()) };
            self.diagnostics.push(Diagnostic::error("include-cycle", pattern.location.clone(), message));
            return Vec::new();
        }
        if self.sources.len() >= FILES_MAX {
            let message = format!("more than {FILES_MAX} files are included");
            self.diagnostics.push(Diagnostic::error("include-count", pattern.location.clone(), message));
            return Vec::new();
        }
        self.read_files.push(path.to_path_buf());
        let text = match self.read_text(path) {
            Ok(text) => text,
            Err(reason) => {
                let shown = if pattern.secret { pattern.shown().to_string() } else { path.display().to_string() };
                let message = format!("cannot read `{shown}`: {reason}");
                self.diagnostics.push(Diagnostic::error("cannot-read", pattern.location.clone(), message));
                return Vec::new();
            }
        };
        let file = self.sources.add(SourceFile { name: path.display().to_string(), text, directory: directory_of(path) });
        self.written.files.push((identity.clone(), path.to_path_buf()));
        files.push(file);
        self.open.push(identity);
        let included = self.nodes_of(file);
        self.open.pop();
        included
    }

    fn finish(self, nodes: Vec<TopNode>) -> Loaded {
        let nodes = Arc::new(nodes);
        let Loader {
            sources,
            environment,
            recall,
            last,
            diagnostics,
            mut read_files,
            include_patterns,
            mut written,
            brought_in,
            ..
        } = self;
        written.memory = recall.finish();
        written.nodes = Arc::clone(&nodes);
        // Others bring places in several files, and what they match.
        let is_one_file = sources.len() == 1 && diagnostics.is_empty() && include_patterns.is_empty();
        let patched = last.take().filter(|_| is_one_file).and_then(|last| patched(&last, &nodes, &sources, environment));
        if let Some(now) = patched {
            read_files.extend(now.read_files.iter().cloned());
            let read_files = sorted(read_files);
            let (configuration, diagnostics, spans) =
                (Some(now.configuration.clone()), now.diagnostics.clone(), Arc::clone(&now.spans));
            *last = Some(Arc::new(now));
            return Loaded { configuration, diagnostics, files: sources, read_files, include_patterns, spans, written };
        }
        let main_file = sources.first().expect("the main file was added before anything else");
        let mut lowering = Lowering::new(&sources, environment);
        lowering.diagnostics = diagnostics;
        lowering.brought_in = brought_in;
        let readable = !lowering.diagnostics.iter().any(|diagnostic| matches!(diagnostic.code, "syntax" | "cannot-read"));
        lower_top(&mut lowering, &nodes);
        checks::check(&mut lowering, main_file);
        if !readable {
            // The part that could not be read may hold the pools that seem to be missing.
            lowering.diagnostics.retain(|diagnostic| diagnostic.code != "unknown-pool");
        }
        let has_errors = lowering.has_errors();
        let is_patchable = is_one_file && !has_errors && !lowering.looks_outside;
        let pools_written = Arc::clone(&lowering.pools_written);
        let Lowering {
            mut configuration,
            mut diagnostics,
            pools_in_place,
            mut spans,
            servers,
            read_files: more_files,
            filled,
            brought_in,
            ..
        } = lowering;
        configuration.filled = Arc::new(filled);
        spans.servers.push(servers.into(), None);
        configuration.pools.extend(pools_in_place.into_values());
        read_files.extend(more_files.iter().cloned());
        let (read_files, include_patterns) = (sorted(read_files), sorted(include_patterns));
        make_presentable(&mut diagnostics, &brought_in, &sources);
        let (configuration, spans) = ((!has_errors).then_some(configuration), Arc::new(spans));
        *last = configuration.as_ref().filter(|_| is_patchable).map(|configuration| {
            Arc::new(LastLoad {
                directory: sources.file(main_file).directory.clone(),
                nodes,
                configuration: configuration.clone(),
                pools_written,
                diagnostics: diagnostics.clone(),
                spans: Arc::clone(&spans),
                read_files: more_files,
            })
        });
        Loaded { configuration, diagnostics, files: sources, read_files, include_patterns, spans, written }
    }
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    paths
}

/// Without what nobody may see, and in the order of the text.
fn make_presentable(diagnostics: &mut Vec<Diagnostic>, brought_in: &[BroughtIn], sources: &Sources) {
    let accepts = |text: &str| {
        let loaded = load_with("", text, Path::new("/"), &Environment::Process);
        first_against(text, &loaded.diagnostics).is_none()
    };
    foreign::of_whole_files(diagnostics, sources, &accepts);
    keep_back(diagnostics, brought_in, sources);
    diagnostics.iter_mut().for_each(Diagnostic::hide_passwords);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.primary.location.file, diagnostic.primary.location.span.start));
}

/// What is against a text wherever it is read: a file or a variable that it names may be on another machine, and what
/// a value is that is not set there is not known.
pub fn first_against<'d>(text: &str, diagnostics: &'d [Diagnostic]) -> Option<&'d Diagnostic> {
    let is_wrong = |fault: &Diagnostic| fault.is_error() || fault.code == "redirect-to-itself";
    let line_of = |fault: &Diagnostic| {
        let start = fault.primary.location.span.start.min(text.len());
        text[..start].matches('\n').count()
    };
    let unset: Vec<usize> = diagnostics.iter().filter(|fault| fault.message.contains("is not set")).map(line_of).collect();
    let is_against = |fault: &&Diagnostic| is_wrong(fault) && !fault.is_of_this_machine() && !unset.contains(&line_of(fault));
    diagnostics.iter().find(is_against)
}

/// The load, when it differs from the last in one node that has nothing to do with others.
fn patched(last: &LastLoad, nodes: &Arc<Vec<TopNode>>, sources: &Sources, environment: &Environment) -> Option<LastLoad> {
    if sources.iter().any(|file| file.directory != last.directory) {
        return None;
    }
    let changed = changed(last, nodes)?;
    let top = &nodes[changed.position];
    if top.remembered.lowered.get().is_none() {
        let Apart::Anew(lowered, Influence::Text) = lowered_apart(sources, environment, &last.pools_written, top) else {
            return None;
        };
        let _ = top.remembered.lowered.set(lowered.relative(top.placement?)?);
    }
    let now = top.remembered.lowered.get().filter(|lowered| lowered.holds(&last.pools_written))?;
    last.with(&changed, now, Arc::clone(nodes))
}

/// The texts behind the name, by which an `include` is known again.
pub fn texts_of(node: &Node) -> Vec<String> {
    let text = |entry: &Entry| match &entry.value.literal {
        Literal::Text(text) => Some(text.clone()),
        Literal::Integer(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => None,
    };
    node.entries.iter().filter_map(text).collect()
}

fn lower_top(lowering: &mut Lowering<'_>, nodes: &[TopNode]) {
    edition::check_first(lowering, nodes);
    lowering.pools_written = Arc::new(pool::collect_names(lowering, nodes));
    let mut seen = Seen::default();
    for batch in nodes.chunks(BATCH) {
        let apart = {
            let (sources, environment, pools) = (lowering.sources, lowering.environment, &lowering.pools_written);
            let lower = |top| lowered_apart(sources, environment, pools, top);
            // After a small change nearly all of them are known.
            let unknown = batch.iter().filter(|top| top.remembered.lowered.get().is_none()).count();
            if unknown < PARALLEL_MIN { batch.iter().map(lower).collect() } else { in_parallel(batch, lower) }
        };
        for (top, apart) in batch.iter().zip(apart) {
            match apart {
                Apart::Not => lower_node(lowering, &top.placed(), &mut seen),
                Apart::AsBefore(lowered) => lowered.merge(lowering, top.placement),
                Apart::Anew(lowered, influence) => take_up(lowering, top, &lowered, influence),
            }
        }
    }
}

/// So many are lowered before they are merged: what each of them adds takes memory until then.
const BATCH: usize = 2_048;
/// Fewer are lowered in milliseconds. What threads allocate lies in parts of the heap of their own, which a process
/// that is reloaded often would hold.
const PARALLEL_MIN: usize = 1_024;

/// What a line at the top level adds when it is looked at by itself.
enum Apart<'t> {
    /// The diagnostic is about the whole.
    Not,
    AsBefore(&'t Lowered),
    Anew(Box<Lowered>, Influence),
}

/// What decided how something came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Influence {
    /// The text, and the names of pools.
    Text,
    /// The folder and the text of its file as well.
    Files,
    /// The environment, or the content of other files.
    Outside,
}

/// Sites and pools, of which there may be thousands, do not look at one another but by the names of pools.
fn lowered_apart<'t>(
    sources: &Sources,
    environment: &Environment,
    pools_written: &Arc<BTreeMap<String, WrittenPool>>,
    top: &'t TopNode,
) -> Apart<'t> {
    if !matches!(top.name(), "site" | "pool") {
        return Apart::Not;
    }
    if let Some(lowered) = top.remembered.lowered.get().filter(|lowered| lowered.holds(pools_written)) {
        return Apart::AsBefore(lowered);
    }
    let mut alone = Lowering::new(sources, environment);
    alone.pools_written = Arc::clone(pools_written);
    lower_node(&mut alone, &top.placed(), &mut Seen::default());
    let influence = match (alone.looks_outside, alone.is_by_text) {
        (true, _) => Influence::Outside,
        (false, true) => Influence::Text,
        (false, false) => Influence::Files,
    };
    Apart::Anew(Box::new(Lowered::of(alone)), influence)
}

fn take_up(lowering: &mut Lowering<'_>, top: &TopNode, lowered: &Lowered, influence: Influence) {
    lowering.looks_outside |= influence == Influence::Outside;
    let placement = top.placement.filter(|_| influence == Influence::Text);
    let Some((placement, relative)) = placement.and_then(|placement| Some((placement, lowered.relative(placement)?))) else {
        lowered.merge(lowering, None);
        return;
    };
    relative.merge(lowering, Some(placement));
    // What is kept already, and did not hold because a pool is missing, holds again when the pool is back.
    let _ = top.remembered.lowered.set(relative);
}

fn lower_node(lowering: &mut Lowering<'_>, node: &Node, seen: &mut Seen) {
    // An `include` has been replaced by now.
    if let Some(line) = LANGUAGE.line(lowering, node, Place::Top, seen)
        && let Lower::Top(lower) = line.directive.lower
    {
        lower(lowering, &line);
    }
}

fn read_text(path: &Path, kind: MainFile) -> Result<Arc<str>, String> {
    let text = match kind {
        MainFile::AnyKind => std::fs::File::open(path).and_then(read_bounded),
        MainFile::Regular => read_regular(path),
    };
    text.map(Arc::from).map_err(|error| reason(&error))
}

/// What tells that two paths are one file.
fn identity(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

fn directory_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}
