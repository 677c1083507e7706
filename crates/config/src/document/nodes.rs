//! JSON as nodes, checked against the directive table; what does not fit is named by its JSON pointer. The nodes stand
//! nowhere yet. What a value means (whether an address is one, say) is not looked at: that is found when the text is
//! loaded.

use crate::diagnostics::{Location, nearest, quoted_list, shortened};
use crate::directives::LANGUAGE;
use crate::document::json::{self, LINE, NOT, STEPS, is_filled_in};
use crate::document::{EditError, EditFault};
use crate::language::Directive;
use crate::syntax::{Entry, Literal, Name, Node, Value as NodeValue};
use crate::table::{Block, Count, Kind, Place, Repeat};
use crate::units;
use serde_json::{Map, Value};

/// The nodes of a whole configuration, in the order of the directive table.
pub fn document(value: &Value) -> Result<Vec<Node>, Vec<EditError>> {
    let mut reader = Reader::default();
    let nodes = match value {
        Value::Object(members) => {
            reader.unknown_members(members, &names_at(Place::Top), "", "a configuration");
            reader.members(members, Place::Top, "")
        }
        _ => {
            reader.wrong_type("", "a configuration", "an object", value);
            Vec::new()
        }
    };
    reader.finish(nodes)
}

/// The node of one directive.
pub fn node(directive: &'static Directive, value: &Value) -> Result<Node, Vec<EditError>> {
    let mut reader = Reader::default();
    let node = reader.node(directive, value, "");
    reader.finish(node)
}

fn names_at(place: Place) -> Vec<&'static str> {
    LANGUAGE.names_at(place).into_iter().filter(|name| json::in_json(name, place).is_some()).collect()
}

#[derive(Default)]
struct Reader {
    errors: Vec<EditError>,
}

impl Reader {
    fn finish<T>(self, value: T) -> Result<T, Vec<EditError>> {
        if self.errors.is_empty() { Ok(value) } else { Err(self.errors) }
    }

    fn report(&mut self, pointer: &str, message: String, help: Option<String>) {
        self.errors.push(EditError { fault: EditFault::Invalid, pointer: pointer.to_string(), message, help });
    }

    fn wrong_type(&mut self, pointer: &str, owner: &str, expected: &str, value: &Value) {
        let seen = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        let help = matches!(value, Value::Null).then(|| "leave out what is not to be set".to_string());
        self.report(pointer, format!("{owner} is {expected}, not {seen}"), help);
    }

    fn unknown_members(&mut self, members: &Map<String, Value>, known: &[&str], pointer: &str, owner: &str) {
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            let help = match nearest(name, known.iter().copied()) {
                Some(candidate) => format!("did you mean `{candidate}`?"),
                None if known.is_empty() => "it has no members".to_string(),
                None => format!("it has {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
            };
            self.report(&join(pointer, name), format!("{owner} has no member `{}`", shortened(name)), Some(help));
        }
    }

    /// The directives of a block, in the order of the table.
    fn members(&mut self, members: &Map<String, Value>, place: Place, pointer: &str) -> Vec<Node> {
        let mut nodes = Vec::new();
        for name in names_at(place) {
            let (Some(directive), Some(value)) = (json::in_json(name, place), members.get(name)) else { continue };
            let pointer = join(pointer, name);
            match (directive.repeat, value) {
                (Repeat::Once, value) => nodes.push(self.node(directive, value, &pointer)),
                // The word in front of a condition, and no block.
                (Repeat::Many, Value::Object(_)) if place == Place::Match && name == NOT => {}
                (Repeat::Many, Value::Array(list)) => {
                    let is_block = |(_, item): &(usize, &Value)| place != Place::Match || name != NOT || item.get(LINE).is_none();
                    let items = list.iter().enumerate().filter(is_block);
                    nodes.extend(items.map(|(index, item)| self.node(directive, item, &join(&pointer, &index.to_string()))));
                }
                (Repeat::Many, other) => self.wrong_type(&pointer, &format!("`{name}`"), "a list", other),
            }
        }
        nodes
    }

    fn steps(&mut self, value: &Value, place: Place, pointer: &str) -> Vec<Node> {
        let Value::Array(list) = value else {
            self.wrong_type(pointer, "`steps`", "a list", value);
            return Vec::new();
        };
        let known = names_at(place);
        let mut nodes = Vec::new();
        for (index, item) in list.iter().enumerate() {
            let pointer = join(pointer, &index.to_string());
            let Some(members) = item.as_object().filter(|members| members.len() == 1) else {
                let message = "a step is an object with one member, the name of its directive".to_string();
                self.report(&pointer, message, Some("for example `{\"respond\": {\"status\": 204}}`".into()));
                continue;
            };
            self.unknown_members(members, &known, &pointer, "a step");
            for (name, value) in members {
                let Some(directive) = json::in_json(name, place) else { continue };
                nodes.push(self.node(directive, value, &join(&pointer, name)));
            }
        }
        nodes
    }

    fn node(&mut self, directive: &'static Directive, value: &Value, pointer: &str) -> Node {
        let mut node = Node {
            name: name(directive.name),
            entries: Vec::new(),
            children: matches!(directive.block, Block::Required(_)).then(Vec::new),
            location: Location::NOWHERE,
            annotation: None,
        };
        let owner = format!("`{}`", directive.name);
        if let Some(argument) = json::bare(directive) {
            node.entries = self.entries(argument.kind, json::is_list(argument.count), None, value, pointer, &owner);
            if argument.count == Count::OneOrMore && value.as_array().is_some_and(Vec::is_empty) {
                self.report(pointer, format!("{owner} is an empty list"), None);
            }
            return node;
        }
        let Value::Object(members) = value else {
            self.wrong_type(pointer, &owner, "an object", value);
            return node;
        };
        self.unknown_members(members, &known_members(directive), pointer, &owner);
        self.arguments(directive, members, pointer, &mut node);
        self.properties(directive, members, pointer, &mut node);
        match members.get(NOT).filter(|_| json::is_match(directive)) {
            Some(Value::Array(blocks)) => {
                let line = blocks.iter().enumerate().find_map(|(index, item)| Some((index, item.get(LINE)?)));
                if let Some((index, negated)) = line {
                    self.negated(directive, negated, &join(&join(pointer, NOT), &format!("{index}/{LINE}")), &mut node);
                }
            }
            Some(negated) => self.negated(directive, negated, &join(pointer, NOT), &mut node),
            None => {}
        }
        match directive.block {
            Block::None => {}
            Block::Optional(place) | Block::Required(place) if json::has_steps(place) => match members.get(STEPS) {
                Some(steps) => node.children = Some(self.steps(steps, place, &join(pointer, STEPS))),
                // An `auth "off"` has none; whether an `any` needs some is told where it is read.
                None if place == Place::AuthAny => {}
                None => self.report(pointer, format!("{owner} needs the member `{STEPS}`"), None),
            },
            Block::Optional(place) | Block::Required(place) => {
                let children = self.members(members, place, pointer);
                if !children.is_empty() {
                    node.children = Some(children);
                }
            }
        }
        node
    }

    fn arguments(&mut self, directive: &'static Directive, members: &Map<String, Value>, pointer: &str, node: &mut Node) {
        let mut missing: Option<&str> = None;
        for argument in directive.arguments.iter().filter(|_| !json::is_match(directive)) {
            let pointer_of = join(pointer, argument.name);
            let owner = format!("`{}`", argument.name);
            let is_needed = matches!(argument.count, Count::One | Count::OneOrMore);
            let Some(value) = members.get(argument.name) else {
                missing = Some(argument.name);
                if is_needed {
                    self.report(pointer, format!("`{}` needs the member {owner}", directive.name), None);
                }
                continue;
            };
            if let Some(missing) = missing.filter(|_| !is_needed) {
                self.report(&pointer_of, format!("{owner} stands behind `{missing}`, which is missing"), None);
            }
            let entries = self.entries(argument.kind, json::is_list(argument.count), None, value, &pointer_of, &owner);
            if argument.count == Count::OneOrMore && entries.is_empty() && value.is_array() {
                self.report(&pointer_of, format!("{owner} is an empty list"), None);
            }
            node.entries.extend(entries);
        }
    }

    fn properties(&mut self, directive: &'static Directive, members: &Map<String, Value>, pointer: &str, node: &mut Node) {
        for property in directive.properties {
            let Some(value) = members.get(property.name) else { continue };
            let is_list = property.repeat == Repeat::Many;
            let owner = format!("`{}`", property.name);
            let pointer = join(pointer, property.name);
            node.entries.extend(self.entries(property.kind, is_list, Some(property.name), value, &pointer, &owner));
        }
    }

    fn negated(&mut self, directive: &'static Directive, value: &Value, pointer: &str, node: &mut Node) {
        let Value::Object(members) = value else {
            self.wrong_type(pointer, "`not`", "an object", value);
            return;
        };
        let known: Vec<&str> = directive.properties.iter().map(|property| property.name).collect();
        self.unknown_members(members, &known, pointer, "`not`");
        let before = std::mem::take(&mut node.entries);
        self.properties(directive, members, pointer, node);
        let conditions = std::mem::replace(&mut node.entries, before);
        for condition in conditions {
            node.entries.push(entry(None, Literal::Text(NOT.into())));
            node.entries.push(condition);
        }
    }

    fn entries(
        &mut self,
        kind: Kind,
        is_list: bool,
        name: Option<&str>,
        value: &Value,
        pointer: &str,
        owner: &str,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        if !is_list {
            entries.extend(self.literal(kind, value, pointer, owner).map(|literal| entry(name, literal)));
        } else if let Value::Array(list) = value {
            for (index, item) in list.iter().enumerate() {
                let pointer = join(pointer, &index.to_string());
                entries.extend(self.literal(kind, item, &pointer, owner).map(|literal| entry(name, literal)));
            }
        } else {
            self.wrong_type(pointer, owner, "a list", value);
        }
        entries
    }

    fn literal(&mut self, kind: Kind, value: &Value, pointer: &str, owner: &str) -> Option<Literal> {
        if let Value::String(text) = value
            && is_filled_in(text)
        {
            return Some(Literal::Text(text.clone()));
        }
        let refusal = match (kind, value) {
            (Kind::Text(_) | Kind::Secret(_) | Kind::Template(_) | Kind::Path | Kind::Statuses, Value::String(text)) => {
                return Some(Literal::Text(text.clone()));
            }
            (Kind::Choice(names) | Kind::ChoiceOr(names, ""), Value::String(text)) => {
                if names.contains(&text.as_str()) {
                    return Some(Literal::Text(text.clone()));
                }
                let help = match nearest(text, names.iter().copied()) {
                    Some(candidate) => format!("did you mean `\"{candidate}\"`?"),
                    None => format!("it can be {}", quoted_list(names)),
                };
                Refusal::Value(format!("{owner} cannot be `{}`", shortened(text)), Some(help))
            }
            (Kind::ChoiceOr(..), Value::String(text)) => return Some(Literal::Text(text.clone())),
            (Kind::AutoOrInteger { .. }, Value::String(text)) if text == "auto" => return Some(Literal::Text(text.clone())),
            (Kind::Integer { min, max } | Kind::AutoOrInteger { min, max }, Value::Number(number)) => match number.as_u64() {
                Some(number) if (min..=max).contains(&number) => return Some(Literal::Integer(number.into())),
                Some(_) | None => Refusal::Value(format!("{owner} goes from {min} to {max}"), None),
            },
            (Kind::Statuses, Value::Number(number)) if number.is_u64() => return number.as_u64().map(whole),
            (Kind::Size { min, max } | Kind::ByteRate { min, max }, Value::Number(number)) => match number.as_u64() {
                Some(number) if (min..=max).contains(&number) => return Some(Literal::Integer(number.into())),
                Some(_) | None => {
                    Refusal::Value(format!("{owner} goes from {} to {}", units::show_size(min), units::show_size(max)), None)
                }
            },
            (Kind::Size { .. } | Kind::ByteRate { .. } | Kind::Duration { .. } | Kind::Sample, Value::String(text)) => {
                match has_unit(kind, text) {
                    Ok(()) => return Some(Literal::Text(text.clone())),
                    Err(reason) => Refusal::Value(reason, None),
                }
            }
            (Kind::Percent { min, max }, Value::String(text)) => match units::parse_percent(text) {
                Ok(percent) if (min..=max).contains(&percent) => return Some(Literal::Text(text.clone())),
                Ok(_) => Refusal::Value(format!("{owner} goes from {min}% to {max}%"), None),
                Err(reason) => Refusal::Value(reason, None),
            },
            (Kind::Switch, Value::Bool(switch)) => return Some(Literal::Switch(*switch)),
            (Kind::Switch, Value::String(text)) if text == "on" || text == "off" => {
                return Some(Literal::Switch(text == "on"));
            }
            (Kind::Text(_) | Kind::Secret(_) | Kind::Template(_) | Kind::Path, _) => Refusal::Type("a string"),
            (Kind::Choice(_) | Kind::ChoiceOr(..), _) => Refusal::Type("a string"),
            (Kind::Integer { .. } | Kind::Statuses, _) => Refusal::Type("a number"),
            (Kind::AutoOrInteger { .. }, _) => Refusal::Type("a number or `\"auto\"`"),
            (Kind::Size { .. }, _) => Refusal::Type("a number of bytes or a size such as `\"64KiB\"`"),
            (Kind::ByteRate { .. }, _) => Refusal::Type("a number of bytes or a rate such as `\"1KiB/s\"`"),
            (Kind::Duration { .. }, _) => Refusal::Type("a duration such as `\"5s\"`"),
            (Kind::Percent { .. } | Kind::Sample, _) => Refusal::Type("a share such as `\"20%\"`"),
            (Kind::Switch, _) => Refusal::Type("a boolean"),
        };
        match refusal {
            Refusal::Type(expected) => self.wrong_type(pointer, owner, expected, value),
            Refusal::Value(message, help) => self.report(pointer, message, help),
        }
        None
    }
}

/// Whether the text is a number with a unit of the kind.
fn has_unit(kind: Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::Size { .. } => units::parse_size(text).map(drop),
        Kind::ByteRate { .. } => units::parse_byte_rate(text).map(drop),
        Kind::Duration { .. } => units::parse_duration(text).map(drop),
        Kind::Sample => units::parse_sample(text).map(drop),
        _ => Ok(()),
    }
}

enum Refusal {
    Type(&'static str),
    Value(String, Option<String>),
}

fn known_members(directive: &'static Directive) -> Vec<&'static str> {
    let arguments = directive.arguments.iter().map(|argument| argument.name).filter(|_| !json::is_match(directive));
    let mut known: Vec<&str> = arguments.chain(directive.properties.iter().map(|property| property.name)).collect();
    if json::is_match(directive) {
        known.push(NOT);
    }
    match directive.block {
        Block::None => {}
        Block::Optional(place) | Block::Required(place) if json::has_steps(place) => known.push(STEPS),
        Block::Optional(place) | Block::Required(place) => known.extend(names_at(place)),
    }
    known
}

fn name(text: &str) -> Name {
    Name { text: text.to_string(), location: Location::NOWHERE }
}

fn entry(of: Option<&str>, literal: Literal) -> Entry {
    let value = NodeValue { literal, location: Location::NOWHERE, verbatim_from: None };
    Entry { name: of.map(name), value, location: Location::NOWHERE }
}

/// A JSON pointer with a token more at its end (RFC 6901).
fn join(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

fn whole(number: u64) -> Literal {
    Literal::Integer(number.into())
}
