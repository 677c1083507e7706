//! What one directive is, all of them together, and one line that is read by its entry: known words, known properties,
//! arguments that are there, values of the right kind. The entries are in `directives`, which says what they mean.

use crate::diagnostics::{Diagnostic, Location, choice_or, nearest, not_available, quoted_list, shortened};
use crate::directives::pool::draft::PoolDraft;
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::{Read, read};
use crate::syntax::{Entry, Literal, Node, Value};
use crate::table::{Argument, Block, Count, Kind, Place, Property, Repeat};
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_foreign::joined_alike;
use tidegate_kdl::listed;
use tidegate_model::{Limits, RouteOptions, SiteAddress, Step, Template, Terminal};

/// One entry of the table: what a directive is called, where it stands, what it takes and what it means. The checks,
/// the reference, the JSON Schema and the suggestions are all made from it.
#[derive(Debug)]
pub struct Directive {
    pub name: &'static str,
    pub places: &'static [Place],
    pub repeat: Repeat,
    pub arguments: &'static [Argument],
    pub properties: &'static [Property],
    pub block: Block,
    /// One sentence.
    pub summary: &'static str,
    /// The manual page beyond the summary; Markdown.
    pub details: &'static str,
    /// What holds when the directive is not written; empty where there is nothing to say.
    pub default: &'static str,
    /// KDL that loads as it stands, inside its place.
    pub example: &'static str,
    pub lower: Lower,
    /// What other proxies call properties of it, or where they stand here, and how the same is said.
    pub said_otherwise: &'static [Said],
    /// Properties that a later version brings.
    pub reserved: &'static [&'static str],
    /// What is meant when it gets something that it does not take; empty where nothing is known.
    pub meant: &'static str,
}

impl Directive {
    /// What most have: at most one in a block, and nothing behind the name.
    pub const PLAIN: Directive = Directive {
        name: "",
        places: &[],
        repeat: Repeat::Once,
        arguments: &[],
        properties: &[],
        block: Block::None,
        summary: "",
        details: "",
        default: "",
        example: "",
        lower: Lower::Inside,
        said_otherwise: &[],
        reserved: &[],
        meant: "",
    };
}

/// Words, and the help for whoever writes one of them.
pub type Said = (&'static [&'static str], &'static str);

/// Turns a line into its part of the model. The place decides which of these can occur.
#[derive(Debug, Clone, Copy)]
pub enum Lower {
    Top(fn(&mut Lowering<'_>, &Line<'_>)),
    Step(fn(&mut Lowering<'_>, &Line<'_>) -> Option<Step>),
    /// Of a site or a route, and no matter where it stands among the steps.
    Option(fn(&mut Lowering<'_>, &mut RouteOptions, &Line<'_>)),
    Terminal(fn(&mut Lowering<'_>, &Line<'_>) -> Option<Terminal>),
    Pool(fn(&mut Lowering<'_>, &mut PoolDraft, &Line<'_>)),
    Limits(fn(&mut Lowering<'_>, &mut Limits, &Line<'_>)),
    /// Read by the directive in whose block it stands.
    Inside,
    /// Gone before lowering: `include` is replaced by what it includes.
    Reading,
}

/// All directives of this version, and what is known of other words.
#[derive(Debug)]
pub struct Language {
    /// In the order of the reference.
    pub directives: &'static [&'static Directive],
    /// Words that later versions bring, and where they will stand.
    pub reserved: &'static [(Place, &'static [&'static str])],
    /// Words of other proxies, and how the same is said here.
    pub said_otherwise: &'static [&'static [Said]],
}

impl Language {
    /// The directive of that name in that place.
    pub fn find(&self, name: &str, place: Place) -> Option<&'static Directive> {
        self.at(place).find(|directive| directive.name == name)
    }

    /// What may stand in a block. Those of a `fastcgi`, a `forward-auth` and an `error-page` take what a pool takes as
    /// well.
    pub fn at(&self, place: Place) -> impl Iterator<Item = &'static Directive> + use<> {
        let is_in = move |known: &Place| {
            *known == place || (matches!(place, Place::FastCgi | Place::ForwardAuth | Place::ErrorPage) && *known == Place::Pool)
        };
        self.directives.iter().copied().filter(move |directive| directive.places.iter().any(is_in))
    }

    pub fn names_at(&self, place: Place) -> Vec<&'static str> {
        self.at(place).map(|directive| directive.name).collect()
    }

    /// Where a word may stand, of those that this version has.
    pub fn places_of(&self, name: &str) -> Vec<Place> {
        let is_there =
            |place: &Place| self.directives.iter().any(|directive| directive.name == name && directive.places.contains(place));
        Place::ALL.into_iter().filter(is_there).collect()
    }

    /// Whether the word is reserved for a later version, in that place or, when this version has it nowhere, in any.
    pub fn is_reserved(&self, name: &str, place: Place) -> bool {
        let is_nowhere = self.places_of(name).is_empty();
        self.reserved.iter().any(|(reserved, names)| (is_nowhere || *reserved == place) && names.contains(&name))
    }

    /// Names of properties whose values are never shown.
    pub fn secret_properties(&self) -> impl Iterator<Item = &'static str> + use<> {
        let properties = self.directives.iter().flat_map(|directive| directive.properties);
        properties.filter(|property| matches!(property.kind, Kind::Secret(_))).map(|property| property.name)
    }

    /// Names of the properties of all directives.
    pub fn property_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.directives.iter().flat_map(|directive| directive.properties).map(|property| property.name)
    }

    /// Whether it is a word of ours or of another proxy, however its parts are joined.
    pub fn is_known_word(&self, word: &str) -> bool {
        // What stands behind words of others.
        const BEHIND: &str = "permanent temporary redirect last break always internal default_server consistent backup websocket https strip_prefix cloudflare";
        let alike = joined_alike(word);
        if BEHIND.split(' ').any(|known| joined_alike(known) == alike) {
            return true;
        }
        let of_choices = |kind: &Kind| match kind {
            Kind::Choice(names) | Kind::ChoiceOr(names, _) => names.iter().any(|name| joined_alike(name) == alike),
            Kind::Text(_)
            | Kind::Secret(_)
            | Kind::Template(_)
            | Kind::Path
            | Kind::AutoOrInteger { .. }
            | Kind::Statuses
            | Kind::Integer { .. }
            | Kind::Duration { .. }
            | Kind::Size { .. }
            | Kind::ByteRate { .. }
            | Kind::Sample
            | Kind::Percent { .. }
            | Kind::Switch => false,
        };
        let of_directive = |directive: &Directive| {
            let kinds = directive.arguments.iter().map(|argument| &argument.kind);
            joined_alike(directive.name) == alike
                || directive.properties.iter().any(|property| joined_alike(property.name) == alike)
                || kinds.chain(directive.properties.iter().map(|property| &property.kind)).any(of_choices)
        };
        self.directives.iter().any(|directive| of_directive(directive))
            || said_otherwise(self.said_otherwise.iter().copied().flatten(), word).is_some()
    }

    /// Names of directives that have an argument which is never shown, as their second or a later one.
    pub fn with_secret_arguments(&self) -> impl Iterator<Item = &'static str> + use<> {
        let is_secret = |argument: &Argument| matches!(argument.kind, Kind::Secret(_));
        let with_secret = self.directives.iter().filter(move |directive| directive.arguments.iter().any(is_secret));
        with_secret.map(|directive| directive.name)
    }

    /// Reads a node as the line of a directive that may stand at this place.
    pub fn line<'n>(
        &'static self,
        lowering: &mut Lowering<'_>,
        node: &'n Node,
        place: Place,
        seen: &mut Seen,
    ) -> Option<Line<'n>> {
        let Some(directive) = self.find(&node.name.text, place) else {
            let values = node.entries.iter().map(|entry| entry.value.location.clone());
            let unknown = self.unknown_word(node, place);
            let word = node.name.text.as_str();
            let may_be_shown = !is_about_secrets(word) && self.said_otherwise(word, "").is_some();
            return lowering.refuse(if may_be_shown { unknown } else { unknown.hiding(values) });
        };
        if directive.repeat == Repeat::Once {
            if let Some(first) = seen.get(directive.name) {
                let message = format!("`{}` is written twice", directive.name);
                let diagnostic = Diagnostic::error("duplicate-directive", node.name.location.clone(), message);
                return lowering.refuse(diagnostic.label(first.clone(), "the first one").help("remove one of them"));
            }
            seen.insert(directive.name, node.name.location.clone());
        }
        let line = Line { node, directive, language: self };
        line.check_shape(lowering);
        Some(line)
    }

    fn unknown_word(&self, node: &Node, place: Place) -> Diagnostic {
        let word = node.name.text.as_str();
        let at = node.name.location.clone();
        if self.is_reserved(word, place) {
            return not_available(at, word);
        }
        let places = self.places_of(word);
        if !places.is_empty() {
            let message = format!("`{word}` cannot stand {}", place.describe());
            // The word behind it may tell that another proxy's is meant, as `mode tcp` is HAProxy's.
            let of_others = self.said_of_both(word, &first_argument(node)).map(str::to_owned);
            let help = of_others.unwrap_or_else(|| Language::belongs(word, place, &places));
            return Diagnostic::error("misplaced-word", at, message).help(help);
        }
        let diagnostic = Diagnostic::error("unknown-word", at, format!("unknown word `{}`", shortened(word)));
        let is_of_line = |directive: &&Directive| {
            matches!(directive.block, Block::Optional(of) | Block::Required(of) if of == place)
                && directive.properties.iter().any(|property| property.name == word)
        };
        if let Some(directive) = self.directives.iter().copied().find(is_of_line) {
            return diagnostic.help(format!("`{word}=` stands on the line: `{} {word}=… {{ … }}`", directive.name));
        }
        if let Some(help) = self.said_otherwise(word, &first_argument(node)) {
            return diagnostic.help(help);
        }
        if place == Place::Top && word.contains(['.', ':']) && SiteAddress::parse(word).is_ok() {
            return diagnostic.help(format!("an address stands behind `site`, as in `site \"{}\" {{ … }}`", shortened(word)));
        }
        let candidates = self.names_at(place);
        match nearest(word, candidates.iter().copied()) {
            Some(candidate) => diagnostic.help(format!("did you mean `{candidate}`?")),
            None if candidates.len() > LISTED_MAX => diagnostic.help(format!(
                "what can stand {} is in docs/configuration.md, and what other proxies call it in docs/steps-elsewhere.md",
                place.describe()
            )),
            None => diagnostic.help(format!("known {} are {}", place.describe(), listed(&candidates, "and"))),
        }
    }

    /// Where a word that stands elsewhere belongs, and what may be meant here.
    fn belongs(word: &str, place: Place, places: &[Place]) -> String {
        let described: Vec<&str> = places.iter().map(|place| place.describe()).collect();
        let belongs = format!("it belongs {}", listed(&described, "or"));
        match (word, place) {
            ("server", Place::Top) => {
                format!("{belongs}; what clients reach is a `site`, as in `site \"example.com\" {{ … }}`")
            }
            ("user", Place::Top) => {
                format!("{belongs}; the user that the process runs as is systemd's or the container's business")
            }
            ("match", Place::Site) => {
                format!("{belongs}, as in `route \"/api/*\" {{ match method=\"GET\"; proxy \"127.0.0.1:9000\" }}`")
            }
            ("dns", Place::Tls) => format!(
                "{belongs}: at the top level it is `acme {{ dns \"cloudflare\" token=\"{{file./run/secrets/dns-token}}\" }}`, and for one site alone it stands in the `acme` of its `tls`"
            ),
            (_, Place::Site | Place::Route) if places.contains(&Place::Pool) => {
                format!("{belongs}; the block of `proxy` takes it as well, as in `proxy \"127.0.0.1:9000\" {{ {word} … }}`")
            }
            (_, Place::AuthAny) => {
                format!(
                    "{belongs}; ways to be let in are `allow`, `client-auth`, `basic-auth`, `jwt`, `api-key`, `oidc` and `forward-auth`"
                )
            }
            _ => belongs,
        }
    }

    /// How a word of another proxy is said here. What it stands for may be said by the word behind it alone.
    pub fn said_otherwise(&self, word: &str, behind: &str) -> Option<&'static str> {
        let said = |word: &str| said_otherwise(self.said_otherwise.iter().copied().flatten(), word);
        match word {
            _ if word.starts_with('@') => said("matchers"),
            _ if word.starts_with("traefik.") => said("labels"),
            "option" | "no" => said(behind).or_else(|| said("option")),
            _ => self.said_of_both(word, behind).or_else(|| said(word)),
        }
    }

    /// How a word of another proxy together with the one behind it is said here.
    pub fn said_of_both(&self, word: &str, behind: &str) -> Option<&'static str> {
        said_otherwise(self.said_otherwise.iter().copied().flatten(), &format!("{word} {behind}"))
    }
}

/// What stands behind the name, as far as it is a word or a number.
fn first_argument(node: &Node) -> String {
    let first = node.entries.iter().find(|entry| entry.name.is_none()).map(|entry| &entry.value.literal);
    match first {
        Some(Literal::Text(text)) => text.clone(),
        Some(Literal::Integer(number)) => number.to_string(),
        Some(Literal::Float(_) | Literal::Switch(_) | Literal::Null) | None => String::new(),
    }
}

/// Whether values behind the word of another proxy are none to be shown.
fn is_about_secrets(word: &str) -> bool {
    let word = joined_alike(word);
    [
        "auth", "user", "passw", "token", "secret", "ticket", "key", "header", "param", "env", "cookie", "label", "dns", "set",
        "map",
    ]
    .iter()
    .any(|part| word.contains(part))
}

/// More words than these are not read on a line.
const LISTED_MAX: usize = 16;

fn said_otherwise<'s>(said: impl IntoIterator<Item = &'s Said>, word: &str) -> Option<&'static str> {
    let alike = joined_alike(word);
    said.into_iter().find(|(words, _)| words.iter().any(|known| joined_alike(known) == alike)).map(|(_, help)| *help)
}

/// Where the directives of a block that may be there once were written.
pub type Seen = BTreeMap<&'static str, Location>;

/// A node together with what the table says about it.
#[derive(Debug, Clone, Copy)]
pub struct Line<'n> {
    pub node: &'n Node,
    pub directive: &'static Directive,
    pub language: &'static Language,
}

impl<'n> Line<'n> {
    /// Name and entries.
    pub fn location(&self) -> Location {
        self.node.location.clone()
    }

    pub fn children(&self) -> &'n [Node] {
        self.node.children.as_deref().unwrap_or_default()
    }

    /// The lines of its block. Everything that the table alone can tell about them is reported here, so that fewer
    /// lines than nodes mean that something in the block was not understood.
    pub fn lines(&self, lowering: &mut Lowering<'_>) -> Vec<Line<'n>> {
        let (Block::Optional(place) | Block::Required(place)) = self.directive.block else { return Vec::new() };
        let mut seen = Seen::new();
        self.children().iter().filter_map(|node| self.language.line(lowering, node, place, &mut seen)).collect()
    }

    /// Whether the line is `NAME "off"`, of a directive that has no other argument. What else stands there is reported.
    pub fn is_off(&self, lowering: &mut Lowering<'_>) -> bool {
        let Some(text) = self.read_argument(lowering, 0).map(Read::text) else { return false };
        let name = self.directive.name;
        if text.value != "off" {
            let message = format!("`{name}` cannot be `{}`", shortened(&text.value));
            lowering.report(text.error("bad-value", message).help(format!("write `{name}` alone, or `{name} \"off\"`")));
        } else if let Some(fault) = self.settings_of_off() {
            lowering.report(fault);
        }
        true
    }

    /// What the line does to a request. One that is not understood without anybody having said so is refused: a step
    /// that is left out may be the one that lets nobody in.
    pub fn lower_step(
        &self,
        lowering: &mut Lowering<'_>,
        lower: fn(&mut Lowering<'_>, &Line<'_>) -> Option<Step>,
    ) -> Option<Step> {
        let step = lower(lowering, self);
        if step.is_none() && !lowering.has_errors() {
            let message = format!("this `{}` is not understood", self.directive.name);
            lowering.report(Diagnostic::error("not-understood", self.location(), message));
        }
        step
    }

    /// What is wrong with a line that switches its directive off and says how it should be all the same.
    pub fn settings_of_off(&self) -> Option<Diagnostic> {
        let property = self.node.entries.iter().find(|entry| entry.name.is_some()).map(|entry| entry.location.clone());
        let at = property.or_else(|| self.children().first().map(|child| child.location.clone()))?;
        let message = format!("`{} \"off\"` has no settings", self.directive.name);
        Some(Diagnostic::error("settings-of-off", at, message).help("remove `\"off\"` or the settings"))
    }

    /// One fault in the place of those that the shape of the line has, where it is known what is meant.
    pub fn refuse_whole<T>(&self, lowering: &mut Lowering<'_>, message: &'static str, help: String) -> Option<T> {
        let at = self.location();
        let is_shape = |fault: &Diagnostic| matches!(fault.code, "too-many-arguments" | "unknown-property");
        lowering.diagnostics.retain(|fault| !is_shape(fault) || !is_on(&fault.primary.location, &at));
        lowering.refuse(Diagnostic::error("meant-otherwise", at, message).help(help))
    }

    /// The texts and numbers behind the name, as they are written.
    pub fn written_arguments(&self) -> Vec<String> {
        let written = |value: &Value| match &value.literal {
            Literal::Text(text) => Some(text.clone()),
            Literal::Integer(number) => Some(number.to_string()),
            Literal::Float(_) | Literal::Switch(_) | Literal::Null => None,
        };
        self.arguments().filter_map(written).collect()
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
                let unknown = self.unknown_property(&name.text, name.location.clone());
                let before = lowering.diagnostics.last_mut().filter(|before| {
                    before.code == unknown.code
                        && before.help == unknown.help
                        && is_on(&before.primary.location, &self.node.location)
                });
                match before {
                    // One answer is enough for all that it is about.
                    Some(before) => before.hidden.push(entry.value.location.clone()),
                    None => lowering.report(unknown.hiding([entry.value.location.clone()])),
                }
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
        if self.directive.reserved.contains(&word) {
            return not_available(at, &format!("{directive} {word}="));
        }
        let diagnostic =
            Diagnostic::error("unknown-property", at, format!("`{directive}` has no property `{}`", shortened(word)));
        if let Some(help) = said_otherwise(self.directive.said_otherwise, word) {
            return diagnostic.help(help);
        }
        let names: Vec<&str> = self.directive.properties.iter().map(|property| property.name).collect();
        if let Some(candidate) = nearest(word, names.iter().copied()) {
            return diagnostic.help(format!("did you mean `{candidate}=`?"));
        }
        if !self.directive.meant.is_empty() {
            return diagnostic.help(self.directive.meant);
        }
        if let Block::Optional(place) | Block::Required(place) = self.directive.block
            && self.language.find(word, place).is_some()
        {
            return diagnostic.help(format!("`{word}` stands in the block: `{directive} {{ {word} … }}`"));
        }
        // A plain word may mean anything.
        let is_of_one = word.contains(['_', '-', '.']) || word.contains(|c: char| c.is_ascii_uppercase());
        if is_of_one && let Some(help) = self.language.said_otherwise(word, "") {
            return diagnostic.help(help);
        }
        if self.directive.name.ends_with("header") && word.starts_with(|c: char| c.is_ascii_uppercase()) {
            return diagnostic.help(format!("a field stands in two texts: `{directive} \"{}\" \"…\"`", shortened(word)));
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
            let surplus = given[self.directive.arguments.len()..].iter().map(|value| value.location.clone());
            let diagnostic = Diagnostic::error("too-many-arguments", extra.location.clone(), message).hiding(surplus);
            lowering.report(match self.directive.meant {
                "" => diagnostic.help(format!("for example `{}`", short_example(self.directive.example))),
                help => diagnostic.help(help),
            });
        }
    }

    fn check_block(&self, lowering: &mut Lowering<'_>) {
        let at = self.node.location.clone();
        match (self.directive.block, &self.node.children) {
            (Block::None, Some(_)) => {
                let message = format!("`{}` takes no block", self.directive.name);
                let help = if self.directive.meant.is_empty() { "remove the `{ … }`" } else { self.directive.meant };
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

/// Whether a place is within that of a line.
pub fn is_on(part: &Location, line: &Location) -> bool {
    part.file == line.file && line.span.contains(&part.span.start)
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

/// An example on one line.
fn short_example(example: &str) -> String {
    let first = example.lines().next().unwrap_or_default();
    if first.ends_with('{') { format!("{first} … }}") } else { first.to_string() }
}
