//! Nodes as JSON, in the form that `schema` describes. Values are shown as they are written: what `{env.X}` and
//! `{file.X}` bring in is never looked up, and a secret is `"***"`. The way back is in `nodes`.

use crate::directives::LANGUAGE;
use crate::language::{Directive, Lower};
use crate::syntax::{Entry, Literal, Node};
use crate::table::{Argument, Block, Count, Kind, Place, Property, Repeat};
use serde_json::{Map, Number, Value};

/// Stands for a secret, and in a change for one that stays as it is.
pub const SECRET: &str = "***";
pub const STEPS: &str = "steps";
pub const NOT: &str = "not";
/// In a list of `not` blocks of a `match`: the conditions that have the word in front of them.
pub const LINE: &str = "line";

/// The directives of a block as members of an object. What the language does not know is left out.
pub fn members<'n>(nodes: impl IntoIterator<Item = &'n Node>, place: Place) -> Map<String, Value> {
    let mut members = Map::new();
    for node in nodes {
        let Some(directive) = in_json(&node.name.text, place) else { continue };
        let values = values(directive, node);
        match directive.repeat {
            Repeat::Once => members.extend(values.into_iter().next().map(|value| (directive.name.to_string(), value))),
            Repeat::Many => {
                let list = members.entry(directive.name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.extend(values);
                }
            }
        }
    }
    members
}

/// The directive of that name, when it is one that JSON knows: an `include` is gone when its files are read.
pub fn in_json(name: &str, place: Place) -> Option<&'static Directive> {
    LANGUAGE.find(name, place).filter(|directive| !matches!(directive.lower, Lower::Reading))
}

/// The lines of a site or a route, in order.
pub fn steps(nodes: &[Node], place: Place) -> Vec<Value> {
    let known = nodes.iter().filter_map(|node| Some((in_json(&node.name.text, place)?, node)));
    known.flat_map(|(directive, node)| values(directive, node).into_iter().map(|value| step(directive, value))).collect()
}

pub fn step(directive: &Directive, value: Value) -> Value {
    Value::Object(Map::from_iter([(directive.name.to_string(), value)]))
}

/// What a node is in JSON. It is one value, unless the order of its properties means something that an object cannot
/// say: then it is several, one behind the other.
pub fn values(directive: &'static Directive, node: &Node) -> Vec<Value> {
    let mut parts: Vec<Vec<WrittenEntry<'_>>> = vec![Vec::new()];
    let is_ordered = matches!(directive.lower, Lower::Step(_));
    // What can be said once is said for the whole of the line, wherever it stands.
    let (for_all, in_order): (Vec<_>, Vec<_>) = written(directive, node).into_iter().partition(WrittenEntry::is_for_all);
    for entry in in_order {
        let part = parts.last_mut().expect("there is one from the start");
        if is_ordered && part.last().is_some_and(|before| before.rank > entry.rank) {
            parts.push(vec![entry]);
        } else {
            part.push(entry);
        }
    }
    for part in &mut parts {
        part.extend(&for_all);
    }
    parts.iter().map(|part| value(directive, part, node.children.as_deref())).collect()
}

/// An entry together with what the table says about it.
#[derive(Clone, Copy)]
pub struct WrittenEntry<'n> {
    pub entry: &'n Entry,
    /// The word that turns this condition round.
    pub not: Option<&'n Entry>,
    pub slot: Slot,
    /// In which order the entries of a node are written in the canonical layout.
    pub rank: usize,
}

/// What an entry is to its directive. Those with equal slots are a list, or one of the arguments after the other.
#[derive(Debug, Clone, Copy)]
pub enum Slot {
    Argument,
    Property(&'static Property),
}

impl WrittenEntry<'_> {
    fn is_for_all(&self) -> bool {
        match self.slot {
            Slot::Argument => false,
            Slot::Property(property) => property.repeat == Repeat::Once,
        }
    }

    /// Entries of the same key take one another's place.
    pub fn key(&self) -> (Option<&'static str>, bool) {
        match self.slot {
            Slot::Argument => (None, false),
            Slot::Property(property) => (Some(property.name), self.not.is_some()),
        }
    }
}

/// The entries that the table knows.
pub fn written<'n>(directive: &'static Directive, node: &'n Node) -> Vec<WrittenEntry<'n>> {
    let mut not = None;
    let mut found = Vec::with_capacity(node.entries.len());
    for entry in &node.entries {
        let Some(name) = &entry.name else {
            if is_match(directive) {
                not = Some(entry);
            } else {
                found.push(WrittenEntry { entry, not: None, slot: Slot::Argument, rank: 0 });
            }
            continue;
        };
        let not = not.take();
        let Some(index) = directive.properties.iter().position(|property| property.name == name.text) else { continue };
        let rank = 1 + index + if not.is_some() { directive.properties.len() } else { 0 };
        found.push(WrittenEntry { entry, not, slot: Slot::Property(&directive.properties[index]), rank });
    }
    found
}

/// `match` has no arguments in JSON: its only one is the word in front of a condition.
pub fn is_match(directive: &Directive) -> bool {
    directive.name == "match"
}

/// Of the argument at that position.
pub fn argument_at(directive: &'static Directive, position: usize) -> Option<&'static Argument> {
    directive.arguments.get(position).or_else(|| directive.arguments.last().filter(|last| is_list(last.count)))
}

pub fn is_list(count: Count) -> bool {
    match count {
        Count::One | Count::Optional => false,
        Count::OneOrMore | Count::Any => true,
    }
}

/// Whether the directive is its argument and nothing else. One that may be left out is none: something has to say then
/// that the directive is there.
pub fn bare(directive: &'static Directive) -> Option<&'static Argument> {
    match (directive.arguments, directive.properties, directive.block) {
        ([argument], [], Block::None) if argument.count != Count::Optional => Some(argument),
        _ => None,
    }
}

fn value(directive: &'static Directive, entries: &[WrittenEntry<'_>], children: Option<&[Node]>) -> Value {
    let mut arguments: Vec<&Entry> = Vec::new();
    let mut members = Map::new();
    let mut negated = Map::new();
    for one in entries {
        match one.slot {
            Slot::Argument => arguments.push(one.entry),
            Slot::Property(property) => {
                let target = if one.not.is_some() { &mut negated } else { &mut members };
                add(target, property.name, property.repeat == Repeat::Many, literal(property.kind, &one.entry.value.literal));
            }
        }
    }
    for (position, entry) in arguments.into_iter().enumerate() {
        let Some(argument) = argument_at(directive, position) else { continue };
        add(&mut members, argument.name, is_list(argument.count), literal(argument.kind, &entry.value.literal));
    }
    if let Some(argument) = bare(directive) {
        return members.remove(argument.name).unwrap_or(Value::Null);
    }
    match directive.block {
        Block::None => {}
        // Nothing is asked for in an `auth "off"`.
        Block::Optional(Place::AuthAny) if children.is_none() => {}
        Block::Optional(place) | Block::Required(place) if has_steps(place) => {
            members.insert(STEPS.into(), steps(children.unwrap_or_default(), place).into());
        }
        Block::Optional(place) | Block::Required(place) => members.extend(self::members(children.unwrap_or_default(), place)),
    }
    if !negated.is_empty() {
        match members.get_mut(NOT) {
            // Beside blocks of that name, so that they are one member.
            Some(Value::Array(blocks)) => blocks.insert(0, serde_json::json!({ LINE: negated })),
            _ => {
                members.insert(NOT.into(), negated.into());
            }
        }
    }
    members.into()
}

fn add(members: &mut Map<String, Value>, name: &str, is_list: bool, value: Value) {
    if !is_list {
        members.insert(name.into(), value);
    } else if let Value::Array(list) = members.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
        list.push(value);
    }
}

/// Whether the lines of the block run in order, rather than set something each.
pub fn has_steps(place: Place) -> bool {
    match place {
        Place::Site | Place::Route | Place::Arm | Place::AuthAny => true,
        Place::Top
        | Place::Header
        | Place::Log
        | Place::Split
        | Place::Tcp
        | Place::Sni
        | Place::TcpSplit
        | Place::FastCgi
        | Place::Pool
        | Place::Tls
        | Place::Acme
        | Place::Listener
        | Place::Limits
        | Place::BasicAuth
        | Place::Jwt
        | Place::Oidc
        | Place::OidcProvider
        | Place::ForwardAuth
        | Place::ErrorPage
        | Place::ApiKey
        | Place::Match
        | Place::Conditions
        | Place::Map
        | Place::Docker => false,
    }
}

pub fn literal(kind: Kind, literal: &Literal) -> Value {
    match literal {
        Literal::Text(text) => text_value(kind, text),
        Literal::Integer(number) => i64::try_from(*number).map_or_else(|_| Value::from(number.to_string()), Value::from),
        Literal::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Literal::Switch(switch) => Value::from(*switch),
        Literal::Null => Value::Null,
    }
}

fn text_value(kind: Kind, text: &str) -> Value {
    match kind {
        // Where to find it is no secret, and what somebody wants to see.
        Kind::Secret(_) if !is_one_placeholder(text) => SECRET.into(),
        Kind::Integer { .. } | Kind::AutoOrInteger { .. } => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
        Kind::Switch if text == "on" => true.into(),
        Kind::Switch if text == "off" => false.into(),
        Kind::Text(_)
        | Kind::Secret(_)
        | Kind::Template(_)
        | Kind::Path
        | Kind::Choice(_)
        | Kind::ChoiceOr(..)
        | Kind::Duration { .. }
        | Kind::Size { .. }
        | Kind::ByteRate { .. }
        | Kind::Sample
        | Kind::Statuses
        | Kind::Percent { .. }
        | Kind::Switch => text.into(),
    }
}

fn is_one_placeholder(text: &str) -> bool {
    is_filled_in(text) && text.starts_with('{') && text.find('}') == Some(text.len() - 1)
}

/// Whether the environment or a file says what the value is.
pub fn is_filled_in(text: &str) -> bool {
    text.contains("{env.") || text.contains("{file.")
}
