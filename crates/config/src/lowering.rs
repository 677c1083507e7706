//! The state of one load while nodes become the model: what has been collected, what was found wrong, and what besides
//! the text had a say. Nothing here knows a directive; values are read in `reading`, lines in `language`.

use crate::diagnostics::{Diagnostic, Location, Severity, Sources};
use crate::kept_back::BroughtIn;
use crate::spans::Spans;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_model::{Configuration, Filled, Pool, PoolName, UpstreamAddress};

/// Everything that is collected on the way. Faults are reported and lowering goes on, so that all of them show at once.
pub struct Lowering<'a> {
    pub sources: &'a Sources,
    /// Variables are read through [`Lowering::variable`].
    pub environment: &'a Environment,
    /// Nothing but the text and the names of pools that are there has decided so far what comes out.
    pub is_by_text: bool,
    /// The environment or the content of a file had a say, which may be another one at the next load.
    pub looks_outside: bool,
    pub diagnostics: Vec<Diagnostic>,
    pub configuration: Configuration,
    /// Every named pool that is written, also the faulty ones, so that a use of them is not one more fault.
    pub pools_written: Arc<BTreeMap<String, WrittenPool>>,
    pub pools_used: BTreeSet<String>,
    /// Pools written in place, by the name that is made from their content.
    pub pools_in_place: BTreeMap<PoolName, Arc<Pool>>,
    pub spans: Spans,
    /// Servers so far; they are put into `spans` piece by piece.
    pub servers: Vec<(UpstreamAddress, Location)>,
    /// Files that were read besides the configuration itself.
    pub read_files: Vec<PathBuf>,
    /// Texts that came from elsewhere, so that they are not shown.
    pub filled: Filled,
    /// All values that came from elsewhere, for diagnostics.
    pub brought_in: Vec<BroughtIn>,
}

impl<'a> Lowering<'a> {
    pub fn new(sources: &'a Sources, environment: &'a Environment) -> Lowering<'a> {
        Lowering {
            sources,
            environment,
            is_by_text: true,
            looks_outside: false,
            diagnostics: Vec::new(),
            configuration: Configuration::default(),
            pools_written: Arc::default(),
            pools_used: BTreeSet::new(),
            pools_in_place: BTreeMap::new(),
            spans: Spans::default(),
            servers: Vec::new(),
            read_files: Vec::new(),
            filled: Filled::default(),
            brought_in: Vec::new(),
        }
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports what keeps a value from being one.
    pub fn refuse<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.report(diagnostic);
        None
    }

    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Whether something was refused since there were so many diagnostics. Warnings refuse nothing: what they are about
    /// has to be there all the same.
    pub fn has_errors_since(&self, before: usize) -> bool {
        self.diagnostics.iter().skip(before).any(Diagnostic::is_error)
    }

    /// A value as messages may show it: what was written instead, when `{env.X}` or `{file.X}` brought it in.
    pub fn shown(&self, value: &str, at: &Location) -> String {
        if self.is_filled_in(at) { self.written(at).trim_matches(['"', '#']).to_string() } else { value.to_string() }
    }

    /// Whether `{env.X}` or `{file.X}` had a part in the value that stands there.
    pub fn is_filled_in(&self, at: &Location) -> bool {
        let written = self.written(at);
        written.contains("{env.") || written.contains("{file.")
    }

    fn written(&self, at: &Location) -> &str {
        self.sources.file(at.file).text.get(at.span.clone()).unwrap_or_default()
    }

    /// A path as written, made absolute against the directory of the file it is written in.
    pub fn path(&mut self, written: &str, at: &Location) -> PathBuf {
        self.note_influence();
        self.sources.file(at.file).directory.join(written)
    }

    pub fn variable(&mut self, name: &str) -> Option<String> {
        self.note_look_outside();
        self.environment.variable(name)
    }

    /// Something besides the files of the configuration decides what comes out.
    pub fn note_look_outside(&mut self) {
        self.note_influence();
        self.looks_outside = true;
    }

    /// Something besides the text decides what comes out.
    pub fn note_influence(&mut self) {
        self.is_by_text = false;
    }
}

/// What is known of a pool before it is read.
#[derive(Debug, Clone)]
pub struct WrittenPool {
    pub at: Location,
    /// Whether its servers speak FastCGI.
    pub is_fastcgi: bool,
}

/// Where `{env.X}` is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Environment {
    /// The variables of this process.
    Process,
    /// For texts of those who are not trusted: there are no variables, and no file is read.
    Nothing,
    Given(BTreeMap<String, String>),
}

impl Environment {
    pub fn variable(&self, name: &str) -> Option<String> {
        match self {
            // A name with `=` or NUL cannot exist, and std panics on neither.
            Environment::Process => std::env::var(name).ok(),
            Environment::Nothing => None,
            Environment::Given(variables) => variables.get(name).cloned(),
        }
    }
}
