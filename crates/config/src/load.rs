//! From a file, or a text, to a configuration or to everything that is wrong with it. Reads included files, then lowers the whole.
//! Also the only place that knows where environment variables come from.

use crate::checks;
use crate::diagnostics::{Diagnostic, FileId, Location, Severity, SourceFile, Sources};
use crate::directives::edition;
use crate::directives::include::INCLUDE;
use crate::directives::pool;
use crate::lowering::{self, Line, Lowering, Read};
use crate::placeholders::Text;
use crate::syntax::{self, FILE_BYTES_MAX, Node};
use crate::table::{Lower, Place};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tidegate_model::{Configuration, SiteAddress, UpstreamAddress};

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
    /// All files that the configuration depends on: itself, included ones, certificates, `{file.X}`.
    pub read_files: Vec<PathBuf>,
    pub spans: Spans,
}

impl Loaded {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// Where things were written that are checked again when the configuration is put to work.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// Every address of every site, in file order.
    pub addresses: Vec<(SiteAddress, Location)>,
    /// Certificate and key files, by their full path, as often as they are named.
    pub files: Vec<(PathBuf, Location)>,
    pub admin: Option<Location>,
    /// The path of the access log, when it is a file.
    pub access_log: Option<Location>,
    /// In the order of [`Configuration::listeners`].
    pub listeners: Vec<Location>,
    /// Every server of every pool, named or written in place, as often as it is named.
    pub servers: Vec<(UpstreamAddress, Location)>,
    /// The addresses of each site, and which of `files` are named in it.
    pub(crate) files_of_sites: Vec<(Vec<SiteAddress>, Range<usize>)>,
}

impl Spans {
    pub fn of_address(&self, address: &SiteAddress) -> Option<&Location> {
        self.addresses.iter().find(|(known, _)| known == address).map(|(_, at)| at)
    }

    /// The first place that names the certificate or key file.
    pub fn of_file(&self, path: &Path) -> Option<&Location> {
        self.files.iter().find(|(known, _)| known == path).map(|(_, at)| at)
    }

    /// Where the site of that address names the certificate or key file; the first place of all when it does not.
    pub fn of_file_in_site(&self, path: &Path, address: &SiteAddress) -> Option<&Location> {
        let in_site = self
            .files_of_sites
            .iter()
            .find(|(addresses, _)| addresses.contains(address))
            .and_then(|(_, files)| self.files.get(files.clone())?.iter().find(|(known, _)| known == path));
        in_site.map(|(_, at)| at).or_else(|| self.of_file(path))
    }

    /// The first place that names the server.
    pub fn of_server(&self, address: &UpstreamAddress) -> Option<&Location> {
        self.servers.iter().find(|(known, _)| known == address).map(|(_, at)| at)
    }
}

/// Where `{env.X}` is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Environment {
    /// The variables of this process.
    Process,
    Given(BTreeMap<String, String>),
}

impl Environment {
    pub fn variable(&self, name: &str) -> Option<String> {
        match self {
            // A name with `=` or NUL cannot exist, and std panics on neither.
            Environment::Process => std::env::var(name).ok(),
            Environment::Given(variables) => variables.get(name).cloned(),
        }
    }
}

/// Loads a file with the environment of this process.
pub fn load_path(path: &Path) -> Loaded {
    let mut loader = Loader::new(&Environment::Process);
    let nodes = loader.read_main(path);
    loader.finish(nodes)
}

/// Loads a text, such as standard input. Relative paths in it are relative to `base_dir`.
pub fn load_text(name: &str, text: &str, base_dir: &Path) -> Loaded {
    load_with(name, text, base_dir, &Environment::Process)
}

/// Loads a text with an environment of the caller's choice.
pub fn load_with(name: &str, text: &str, base_dir: &Path, environment: &Environment) -> Loaded {
    let mut loader = Loader::new(environment);
    let file = loader.sources.add(SourceFile { name: name.into(), text: text.into(), directory: base_dir.into() });
    let nodes = loader.nodes_of(file);
    loader.finish(nodes)
}

/// An error of the system in the words of this language.
pub fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "it is a directory".into(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".into(),
        _ => error.to_string(),
    }
}

struct Loader<'e> {
    sources: Sources,
    environment: &'e Environment,
    diagnostics: Vec<Diagnostic>,
    read_files: Vec<PathBuf>,
    /// The files that are being read, from the main one to the innermost.
    open: Vec<PathBuf>,
}

impl<'e> Loader<'e> {
    fn new(environment: &'e Environment) -> Loader<'e> {
        Loader { sources: Sources::default(), environment, diagnostics: Vec::new(), read_files: Vec::new(), open: Vec::new() }
    }

    fn read_main(&mut self, path: &Path) -> Vec<Node> {
        self.read_files.push(path.to_path_buf());
        let text = read_text(path);
        let file = self.sources.add(SourceFile {
            name: path.display().to_string(),
            text: text.as_ref().map_or_else(|_| String::new(), String::clone),
            directory: directory_of(path),
        });
        if let Err(reason) = text {
            let location = Location { file, span: 0..0 };
            self.diagnostics.push(Diagnostic::error(
                "cannot-read",
                location,
                format!("cannot read `{}`: {reason}", path.display()),
            ));
            return Vec::new();
        }
        self.open.push(identity(path));
        self.nodes_of(file)
    }

    /// The nodes of a file with its includes in their place.
    fn nodes_of(&mut self, file: FileId) -> Vec<Node> {
        match syntax::parse(&self.sources, file) {
            Ok(nodes) => self.expand(nodes),
            Err(diagnostics) => {
                self.diagnostics.extend(diagnostics);
                Vec::new()
            }
        }
    }

    fn expand(&mut self, nodes: Vec<Node>) -> Vec<Node> {
        let mut expanded = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            if node.name.text == INCLUDE.name {
                self.include(&node, &mut expanded);
                continue;
            }
            // Elsewhere an `include` stays, and is reported as a word that cannot stand there.
            if matches!(node.name.text.as_str(), "site" | "route" | "pool" | "proxy") {
                node.children = node.children.map(|children| self.expand(children));
            }
            expanded.push(node);
        }
        expanded
    }

    fn include(&mut self, node: &Node, expanded: &mut Vec<Node>) {
        let mut lowering = Lowering::new(&self.sources, self.environment);
        let line = Line { node, directive: &INCLUDE };
        line.check_shape(&mut lowering);
        let patterns: Vec<Text> = line.read_arguments(&mut lowering).into_iter().map(Read::text).collect();
        let (diagnostics, read_files) = (lowering.diagnostics, lowering.read_files);
        self.diagnostics.extend(diagnostics);
        self.read_files.extend(read_files);
        for pattern in patterns {
            if self.open.len() > INCLUDE_DEPTH_MAX {
                let message = format!("includes are nested more than {INCLUDE_DEPTH_MAX} deep");
                self.diagnostics.push(Diagnostic::error("include-depth", pattern.location.clone(), message));
                return;
            }
            for path in self.files_of(&pattern) {
                self.include_file(&path, &pattern, expanded);
            }
        }
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
        // A mounted volume keeps its old and new versions in hidden folders.
        let options =
            glob::MatchOptions { require_literal_leading_dot: true, require_literal_separator: true, case_sensitive: true };
        match glob::glob_with(&absolute, options) {
            Ok(paths) => {
                let mut files: Vec<PathBuf> =
                    paths.filter_map(Result::ok).filter(|path| path.is_file()).take(FILES_MAX).collect();
                files.sort();
                files
            }
            Err(error) => {
                self.diagnostics.push(pattern.error("bad-pattern", format!("this pattern is not valid: {}", error.msg)));
                Vec::new()
            }
        }
    }

    fn include_file(&mut self, path: &Path, pattern: &Text, expanded: &mut Vec<Node>) {
        let identity = identity(path);
        if self.open.contains(&identity) {
            let message =
                if pattern.secret { "a file includes itself".into() } else { format!("`{}` includes itself", path.display()) };
            self.diagnostics.push(Diagnostic::error("include-cycle", pattern.location.clone(), message));
            return;
        }
        if self.sources.len() >= FILES_MAX {
            let message = format!("more than {FILES_MAX} files are included");
            self.diagnostics.push(Diagnostic::error("include-count", pattern.location.clone(), message));
            return;
        }
        self.read_files.push(path.to_path_buf());
        let text = match read_text(path) {
            Ok(text) => text,
            Err(reason) => {
                let shown = if pattern.secret { pattern.shown().to_string() } else { path.display().to_string() };
                let message = format!("cannot read `{shown}`: {reason}");
                self.diagnostics.push(Diagnostic::error("cannot-read", pattern.location.clone(), message));
                return;
            }
        };
        let file = self.sources.add(SourceFile { name: path.display().to_string(), text, directory: directory_of(path) });
        self.open.push(identity);
        expanded.extend(self.nodes_of(file));
        self.open.pop();
    }

    fn finish(self, nodes: Vec<Node>) -> Loaded {
        let Loader { sources, environment, diagnostics, mut read_files, .. } = self;
        let main_file = sources.first().expect("the main file was added before anything else");
        let mut lowering = Lowering::new(&sources, environment);
        lowering.diagnostics = diagnostics;
        let readable = !lowering.diagnostics.iter().any(|diagnostic| matches!(diagnostic.code, "syntax" | "cannot-read"));
        lower_top(&mut lowering, &nodes);
        checks::check(&mut lowering, main_file);
        if !readable {
            // The part that could not be read may hold the pools that seem to be missing.
            lowering.diagnostics.retain(|diagnostic| diagnostic.code != "unknown-pool");
        }
        let has_errors = lowering.has_errors();
        let Lowering { mut configuration, mut diagnostics, pools_in_place, spans, read_files: more_files, .. } = lowering;
        configuration.pools.extend(pools_in_place.into_values());
        read_files.extend(more_files);
        read_files.sort();
        read_files.dedup();
        diagnostics.sort_by_key(|diagnostic| (diagnostic.primary.location.file, diagnostic.primary.location.span.start));
        Loaded { configuration: (!has_errors).then_some(configuration), diagnostics, files: sources, read_files, spans }
    }
}

fn lower_top(lowering: &mut Lowering<'_>, nodes: &[Node]) {
    edition::check_first(lowering, nodes);
    lowering.pools_written = pool::collect_names(lowering, nodes);
    for line in lowering::lines(lowering, nodes, Place::Top) {
        match line.directive.lower {
            Lower::Top(lower) => lower(lowering, &line),
            Lower::Reading => {}
            Lower::Site(_) | Lower::Route(_) | Lower::Step(_) | Lower::Terminal(_) => {
                unreachable!("the table has no such directive at the top level")
            }
            Lower::Pool(_) | Lower::Tls(_) | Lower::Listener(_) | Lower::Limits(_) => {
                unreachable!("the table has no such directive at the top level")
            }
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| reason(&error))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(|error| reason(&error))?;
    if text.len() > FILE_BYTES_MAX {
        return Err("it is larger than 8 MiB".into());
    }
    Ok(text)
}

/// What tells that two paths are one file.
fn identity(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

fn directory_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}
