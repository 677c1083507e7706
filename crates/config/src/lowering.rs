//! The state of one load while nodes become the model, and the checks that the directive table makes possible for every
//! line: known words, known properties, arguments that are there, values of the right kind. What a value means is said
//! in `directives`.

pub use crate::reading::{Read, expect_text, read, read_choice_or};

use crate::diagnostics::{Diagnostic, Location, Severity, Sources, nearest, shortened};
use crate::directives::{self, client_auth};
use crate::load::{Environment, Spans};
use crate::placeholders::Text;
use crate::syntax::{Entry, Node, Value};
use crate::table::{Argument, Block, Count, Directive, Kind, Place, Repeat};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_model::{Configuration, Pool, PoolName, SiteAddress, Template};

/// Everything that is collected on the way. Faults are reported and lowering goes on, so that all of them show at once.
pub struct Lowering<'a> {
    pub sources: &'a Sources,
    /// Variables are read through [`Lowering::variable`].
    pub environment: &'a Environment,
    /// Nothing but the text and the names of pools that are there has decided so far what comes out.
    pub is_by_text: bool,
    pub diagnostics: Vec<Diagnostic>,
    pub configuration: Configuration,
    /// Every named pool that is written, also the faulty ones, so that a use of them is not one more fault.
    pub pools_written: Arc<BTreeMap<String, Location>>,
    pub pools_used: BTreeSet<String>,
    /// Pools written in place, by the name that is made from their content.
    pub pools_in_place: BTreeMap<PoolName, Arc<Pool>>,
    pub spans: Spans,
    /// Files that were read besides the configuration itself.
    pub read_files: Vec<PathBuf>,
    /// What wants certificates of clients, in the site that is being read.
    pub client_auth_uses: Vec<client_auth::Use>,
}

impl<'a> Lowering<'a> {
    pub fn new(sources: &'a Sources, environment: &'a Environment) -> Lowering<'a> {
        Lowering {
            sources,
            environment,
            is_by_text: true,
            diagnostics: Vec::new(),
            configuration: Configuration::default(),
            pools_written: Arc::default(),
            pools_used: BTreeSet::new(),
            pools_in_place: BTreeMap::new(),
            spans: Spans::default(),
            read_files: Vec::new(),
            client_auth_uses: Vec::new(),
        }
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// A value as messages may show it: what was written instead, when `{env.X}` or `{file.X}` brought it in.
    pub fn shown(&self, value: &str, at: &Location) -> String {
        let written = self.sources.file(at.file).text.get(at.span.clone()).unwrap_or_default();
        if written.contains("{env.") || written.contains("{file.") {
            written.trim_matches(['"', '#']).to_string()
        } else {
            value.to_string()
        }
    }

    /// A path as written, made absolute against the directory of the file it is written in.
    pub fn path(&mut self, written: &str, at: &Location) -> PathBuf {
        self.note_influence();
        self.sources.file(at.file).directory.join(written)
    }

    pub fn variable(&mut self, name: &str) -> Option<String> {
        self.note_influence();
        self.environment.variable(name)
    }

    /// Something besides the text decides what comes out.
    pub fn note_influence(&mut self) {
        self.is_by_text = false;
    }
}

/// The lines of a block that name a directive of that place. Everything else about them is reported here, so that fewer
/// lines than nodes mean that something in the block was not understood.
pub fn lines<'n>(lowering: &mut Lowering<'_>, nodes: &'n [Node], place: Place) -> Vec<Line<'n>> {
    let mut seen = Seen::default();
    nodes.iter().filter_map(|node| line(lowering, node, place, &mut seen)).collect()
}

/// Where the directives of a block that may be there once were written.
pub type Seen = BTreeMap<&'static str, Location>;

/// Reads a node as the line of a directive that may stand at this place.
pub fn line<'n>(lowering: &mut Lowering<'_>, node: &'n Node, place: Place, seen: &mut Seen) -> Option<Line<'n>> {
    let Some(directive) = directives::find(&node.name.text, place) else {
        lowering.report(unknown_word(node, place));
        return None;
    };
    if directive.repeat == Repeat::Once {
        if let Some(first) = seen.get(directive.name) {
            let message = format!("`{}` is written twice", directive.name);
            let diagnostic = Diagnostic::error("duplicate-directive", node.name.location.clone(), message)
                .label(first.clone(), "the first one")
                .help("remove one of them");
            lowering.report(diagnostic);
            return None;
        }
        seen.insert(directive.name, node.name.location.clone());
    }
    let line = Line { node, directive };
    line.check_shape(lowering);
    Some(line)
}

fn unknown_word(node: &Node, place: Place) -> Diagnostic {
    let word = node.name.text.as_str();
    let at = node.name.location.clone();
    if directives::is_not_available(word, place) {
        return not_available(at, word);
    }
    let places: Vec<&str> = directives::places_of(word).iter().map(|place| place.describe()).collect();
    if !places.is_empty() {
        let message = format!("`{word}` cannot stand {}", place.describe());
        let belongs = format!("it belongs {}", listed(&places, "or"));
        let help = match (word, place) {
            ("server", Place::Top) => format!("{belongs}; what clients reach is a `site`, as in `site \"example.com\" {{ … }}`"),
            _ => belongs,
        };
        return Diagnostic::error("misplaced-word", at, message).help(help);
    }
    let candidates = directives::names_at(place);
    let diagnostic = Diagnostic::error("unknown-word", at, format!("unknown word `{}`", shortened(word)));
    if let Some(help) = directives::said_here(word) {
        return diagnostic.help(help);
    }
    if place == Place::Top && word.contains(['.', ':']) && SiteAddress::parse(word).is_ok() {
        return diagnostic.help(format!("an address stands behind `site`, as in `site \"{}\" {{ … }}`", shortened(word)));
    }
    match nearest(word, candidates.iter().copied()) {
        Some(candidate) => diagnostic.help(format!("did you mean `{candidate}`?")),
        None => diagnostic.help(format!("known {} are {}", place.describe(), listed(&candidates, "and"))),
    }
}

/// The error for a word that the language has, and this version does not.
pub fn not_available(at: Location, word: &str) -> Diagnostic {
    Diagnostic::error("not-available", at, format!("`{word}` is not available in this version"))
        .note("it is part of the language, and a later version brings it")
}

/// A node together with what the table says about it.
#[derive(Debug, Clone, Copy)]
pub struct Line<'n> {
    pub node: &'n Node,
    pub directive: &'static Directive,
}

impl<'n> Line<'n> {
    /// Name and entries.
    pub fn location(&self) -> Location {
        self.node.location.clone()
    }

    pub fn children(&self) -> &'n [Node] {
        self.node.children.as_deref().unwrap_or_default()
    }

    /// What is wrong with a line that switches its directive off and says how it should be all the same.
    pub fn settings_of_off(&self) -> Option<Diagnostic> {
        let property = self.node.entries.iter().find(|entry| entry.name.is_some()).map(|entry| entry.location.clone());
        let at = property.or_else(|| self.children().first().map(|child| child.location.clone()))?;
        let message = format!("`{} \"off\"` has no settings", self.directive.name);
        Some(Diagnostic::error("settings-of-off", at, message).help("remove `\"off\"` or the settings"))
    }

    /// Reports what the table alone can tell: properties, arguments and a block that should be there or should not.
    pub fn check_shape(&self, lowering: &mut Lowering<'_>) {
        if let Some(annotation) = &self.node.annotation {
            let message = "a `(type)` cannot be given here";
            lowering.report(Diagnostic::error("type-annotation", annotation.clone(), message).help("remove it"));
        }
        self.check_properties(lowering);
        self.check_arguments(lowering);
        self.check_block(lowering);
    }

    fn check_properties(&self, lowering: &mut Lowering<'_>) {
        let mut seen: BTreeMap<&str, &Location> = BTreeMap::new();
        for entry in &self.node.entries {
            let Some(name) = &entry.name else { continue };
            let Some(property) = self.directive.properties.iter().find(|property| property.name == name.text) else {
                lowering.report(self.unknown_property(&name.text, name.location.clone()));
                continue;
            };
            if property.repeat == Repeat::Once {
                if let Some(first) = seen.get(property.name) {
                    let message = format!("`{}` is given twice", property.name);
                    let diagnostic = Diagnostic::error("duplicate-property", name.location.clone(), message)
                        .label((*first).clone(), "the first one");
                    lowering.report(diagnostic);
                }
                seen.entry(property.name).or_insert(&name.location);
            }
        }
    }

    fn unknown_property(&self, word: &str, at: Location) -> Diagnostic {
        let directive = self.directive.name;
        if directives::is_not_available_property(directive, word) {
            return not_available(at, &format!("{directive} {word}="));
        }
        let diagnostic =
            Diagnostic::error("unknown-property", at, format!("`{directive}` has no property `{}`", shortened(word)));
        if let Some(help) = directives::property_said_here(self.directive, word) {
            return diagnostic.help(help);
        }
        let names: Vec<&str> = self.directive.properties.iter().map(|property| property.name).collect();
        if let Some(candidate) = nearest(word, names.iter().copied()) {
            return diagnostic.help(format!("did you mean `{candidate}=`?"));
        }
        if let Block::Optional(place) | Block::Required(place) = self.directive.block
            && directives::find(word, place).is_some()
        {
            return diagnostic.help(format!("`{word}` stands in the block: `{directive} {{ {word} … }}`"));
        }
        if names.is_empty() {
            return diagnostic.help("it has no properties");
        }
        diagnostic.help(format!("it has {}", names.iter().map(|name| format!("`{name}=`")).collect::<Vec<_>>().join(", ")))
    }

    fn check_arguments(&self, lowering: &mut Lowering<'_>) {
        let given: Vec<&Value> = self.arguments().collect();
        let needed =
            self.directive.arguments.iter().filter(|argument| matches!(argument.count, Count::One | Count::OneOrMore)).count();
        if given.len() < needed {
            let missing = &self.directive.arguments[given.len().min(self.directive.arguments.len() - 1)];
            let message = format!("`{}` needs {}", self.directive.name, describe_argument(missing));
            lowering.report(
                Diagnostic::error("missing-argument", self.node.location.clone(), message)
                    .help(format!("for example `{}`", short_example(self.directive.example))),
            );
        }
        let open_ended =
            self.directive.arguments.last().is_some_and(|argument| matches!(argument.count, Count::OneOrMore | Count::Any));
        if !open_ended && given.len() > self.directive.arguments.len() {
            let extra = given[self.directive.arguments.len()];
            let message = match self.directive.arguments.len() {
                0 => format!("`{}` takes no argument", self.directive.name),
                1 => format!("`{}` takes one argument", self.directive.name),
                count => format!("`{}` takes {count} arguments", self.directive.name),
            };
            let diagnostic = Diagnostic::error("too-many-arguments", extra.location.clone(), message);
            lowering.report(match directives::log_said_here(self.directive) {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            });
        }
    }

    fn check_block(&self, lowering: &mut Lowering<'_>) {
        let at = self.node.location.clone();
        match (self.directive.block, &self.node.children) {
            (Block::None, Some(_)) => {
                let message = format!("`{}` takes no block", self.directive.name);
                let help = directives::log_said_here(self.directive).unwrap_or("remove the `{ … }`");
                lowering.report(Diagnostic::error("unexpected-block", at, message).help(help));
            }
            (Block::Required(_), None) => {
                let message = format!("`{}` needs a block", self.directive.name);
                let help = format!("for example `{}`", short_example(self.directive.example));
                lowering.report(Diagnostic::error("missing-block", at, message).help(help));
            }
            (Block::None | Block::Optional(_), None) | (Block::Optional(_) | Block::Required(_), Some(_)) => {}
        }
    }

    pub fn arguments(&self) -> impl Iterator<Item = &'n Value> + use<'n> {
        self.node.entries.iter().filter(|entry| entry.name.is_none()).map(|entry| &entry.value)
    }

    pub fn argument(&self, index: usize) -> Option<&'n Value> {
        self.arguments().nth(index)
    }

    /// The first property of that name.
    pub fn property(&self, name: &str) -> Option<&'n Value> {
        self.properties(name).next().map(|entry| &entry.value)
    }

    pub fn properties<'q>(&self, name: &'q str) -> impl Iterator<Item = &'n Entry> + use<'n, 'q> {
        self.node.entries.iter().filter(move |entry| entry.name.as_ref().is_some_and(|written| written.text == name))
    }

    /// The value of a property, read as the kind that the table gives it.
    pub fn read(&self, lowering: &mut Lowering<'_>, name: &str) -> Option<Read> {
        let property = self.directive.properties.iter().find(|property| property.name == name);
        let property = property.expect("lowering asks for properties that are in its table entry");
        let value = self.property(name)?;
        read(lowering, value, property.kind, &format!("`{name}=`"))
    }

    /// The argument at that place, read as the kind that the table gives it.
    pub fn read_argument(&self, lowering: &mut Lowering<'_>, index: usize) -> Option<Read> {
        let argument = &self.directive.arguments[index.min(self.directive.arguments.len() - 1)];
        let value = self.argument(index)?;
        read(lowering, value, argument.kind, &format!("`{}`", self.directive.name))
    }

    /// All arguments, each read as the kind of its place in the table. Faulty ones are reported and left out.
    pub fn read_arguments(&self, lowering: &mut Lowering<'_>) -> Vec<Read> {
        (0..self.arguments().count()).filter_map(|index| self.read_argument(lowering, index)).collect()
    }

    pub fn text(&self, lowering: &mut Lowering<'_>, name: &str) -> Option<Text> {
        self.read(lowering, name).map(Read::text)
    }

    /// The values of a property that may be given several times.
    pub fn texts(&self, lowering: &mut Lowering<'_>, name: &str) -> Vec<Text> {
        let property = self.directive.properties.iter().find(|property| property.name == name);
        let property = property.expect("lowering asks for properties that are in its table entry");
        let what = format!("`{name}=`");
        self.properties(name).filter_map(|entry| read(lowering, &entry.value, property.kind, &what)).map(Read::text).collect()
    }

    pub fn duration(&self, lowering: &mut Lowering<'_>, name: &str) -> Option<Duration> {
        self.read(lowering, name).map(Read::duration)
    }

    pub fn number(&self, lowering: &mut Lowering<'_>, name: &str) -> Option<u64> {
        self.read(lowering, name).map(Read::number)
    }

    pub fn switch(&self, lowering: &mut Lowering<'_>, name: &str) -> Option<bool> {
        self.read(lowering, name).map(Read::switch)
    }

    pub fn template(&self, lowering: &mut Lowering<'_>, name: &str) -> Option<Template> {
        self.read(lowering, name).map(Read::template)
    }
}

fn describe_argument(argument: &Argument) -> String {
    match argument.kind {
        Kind::Text(form) | Kind::Secret(form) => form.to_string(),
        Kind::Template(_) => "a text".into(),
        Kind::Path => "a path".into(),
        Kind::Choice(names) => format!("one of {}", quoted_list(names)),
        Kind::ChoiceOr(names, form) => choice_or(names, form),
        Kind::Statuses => "a status, as in `404`, or a range, as in `\"400-499\"`".into(),
        Kind::AutoOrInteger { .. } => "`\"auto\"` or a number".into(),
        Kind::Integer { .. } => "a number".into(),
        Kind::Duration { .. } => "a duration".into(),
        Kind::Size { .. } => "a size".into(),
        Kind::ByteRate { .. } => "a rate".into(),
        Kind::Percent { .. } | Kind::Sample => "a share".into(),
        Kind::Switch => "`#true` or `#false`".into(),
    }
}

pub fn choice_or(names: &[&str], form: &str) -> String {
    if form.is_empty() { quoted_list(names) } else { format!("{}, or {form}", quoted_list(names)) }
}

/// An example on one line.
fn short_example(example: &str) -> String {
    let first = example.lines().next().unwrap_or_default();
    if first.ends_with('{') { format!("{first} … }}") } else { first.to_string() }
}

/// `"a"`, `"b"` or `"c"`, each in code quotes.
pub fn quoted_list(names: &[&str]) -> String {
    const NAMES_SHOWN_MAX: usize = 6;
    if names.len() > NAMES_SHOWN_MAX {
        return format!("one of {} names such as `\"{}\"`", names.len(), names[0]);
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`\"{name}\"`")).collect();
    listed(&quoted.iter().map(String::as_str).collect::<Vec<_>>(), "or")
}

/// `a, b or c`
fn listed(names: &[&str], conjunction: &str) -> String {
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_string(),
        Some((last, others)) => format!("{} {conjunction} {last}", others.join(", ")),
    }
}
