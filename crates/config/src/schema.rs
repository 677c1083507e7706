//! JSON Schema (2020-12) of a configuration as JSON, made from the directive table. A directive is a key; one that may
//! be repeated is a list. What runs in order, the lines of a site or a route, is a list `steps` of objects with one key
//! each.

use crate::directives::LANGUAGE;
use crate::document::has_steps;
use crate::language::{Directive, Lower};
use crate::table::{Argument, Block, Count, Kind, Place, Property, Repeat};
use crate::units::{show_duration, show_size};
use serde_json::{Map, Value, json};

pub fn schema() -> Value {
    let mut definitions = Map::new();
    for directive in LANGUAGE.directives.iter().filter(|directive| is_in_json(directive)) {
        for place in directive.places {
            definitions.insert(definition_name(directive, *place), definition(directive));
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tidegate configuration",
        "type": "object",
        "properties": members(Place::Top),
        "additionalProperties": false,
        "$defs": definitions,
    })
}

/// `include` is a matter of files, and gone when they are read.
fn is_in_json(directive: &Directive) -> bool {
    !matches!(directive.lower, Lower::Reading)
}

fn definition_name(directive: &Directive, place: Place) -> String {
    let place = match place {
        Place::Top => "top",
        // A step is the same wherever it stands.
        Place::Site | Place::Route | Place::Arm | Place::AuthAny => "step",
        Place::Header => "header",
        Place::Log => "log",
        Place::Split => "split",
        Place::Tcp => "tcp",
        Place::Sni => "sni",
        Place::TcpSplit => "tcp-split",
        Place::Pool => "pool",
        Place::FastCgi => "fastcgi",
        Place::Tls => "tls",
        Place::Acme => "acme",
        Place::Listener => "listener",
        Place::Limits => "limits",
        Place::BasicAuth => "basic-auth",
        Place::Jwt => "jwt",
        Place::Oidc => "oidc",
        Place::OidcProvider => "oidc-provider",
        Place::ForwardAuth => "forward-auth",
        Place::ErrorPage => "error-page",
        Place::ApiKey => "api-key",
        Place::Match | Place::Conditions => "condition",
        Place::Map => "map",
        Place::Docker => "docker",
    };
    format!("{place}.{}", directive.name)
}

fn reference_to(directive: &Directive, place: Place) -> Value {
    json!({ "$ref": format!("#/$defs/{}", definition_name(directive, place)) })
}

/// The directives of a block as members of an object.
fn members(place: Place) -> Map<String, Value> {
    let mut members = Map::new();
    for directive in LANGUAGE.at(place).filter(|directive| is_in_json(directive)) {
        // What a `fastcgi` or a `forward-auth` takes of a pool is the same there.
        let defined_in = if directive.places.contains(&place) { place } else { Place::Pool };
        let one = reference_to(directive, defined_in);
        let member = match directive.repeat {
            Repeat::Once => one,
            Repeat::Many => json!({ "type": "array", "items": one }),
        };
        members.insert(directive.name.into(), member);
    }
    members
}

/// The lines of a site or a route, in order.
fn steps(place: Place) -> Value {
    let alternatives: Vec<Value> = LANGUAGE
        .at(place)
        .filter(|directive| is_in_json(directive))
        .map(|directive| {
            json!({
                "type": "object",
                "properties": { directive.name: reference_to(directive, place) },
                "required": [directive.name],
                "additionalProperties": false,
            })
        })
        .collect();
    json!({ "type": "array", "description": "In the order in which they run.", "items": { "oneOf": alternatives } })
}

fn definition(directive: &Directive) -> Value {
    let description = match (directive.details, directive.default) {
        ("", "") => directive.summary.to_string(),
        ("", default) => format!("{} Default: {default}.", directive.summary),
        (details, "") => format!("{}\n\n{details}", directive.summary),
        (details, default) => format!("{}\n\n{details}\n\nDefault: {default}.", directive.summary),
    };
    let mut schema = match (directive.arguments, directive.properties, directive.block) {
        ([argument], [], Block::None) if argument.count != Count::Optional => argument_schema(argument),
        _ => object(directive),
    };
    if let Value::Object(members) = &mut schema {
        members.insert("description".into(), description.into());
    }
    schema
}

fn object(directive: &Directive) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<&str> = Vec::new();
    let is_match = directive.name == "match";
    for argument in directive.arguments.iter().filter(|_| !is_match) {
        properties.insert(argument.name.into(), argument_schema(argument));
        if matches!(argument.count, Count::One | Count::OneOrMore) {
            required.push(argument.name);
        }
    }
    for property in directive.properties {
        properties.insert(property.name.into(), property_schema(property));
    }
    if is_match {
        // In the text a word in front of a condition; in JSON the conditions that must not hold.
        let negated: Map<String, Value> = properties.clone();
        properties.insert("not".into(), json!({ "type": "object", "properties": negated, "additionalProperties": false }));
    }
    match directive.block {
        Block::None => {}
        Block::Optional(place) | Block::Required(place) if has_steps(place) => {
            properties.insert("steps".into(), steps(place));
            if place != Place::AuthAny {
                required.push("steps");
            }
        }
        Block::Optional(place) | Block::Required(place) => {
            let negated = properties.remove("not");
            properties.extend(members(place));
            if let Some(negated) = negated {
                let line = json!({ "type": "object", "properties": { "line": negated }, "additionalProperties": false });
                let blocks = json!({ "type": "array", "items": { "anyOf": [properties["not"]["items"], line] } });
                properties.insert("not".into(), json!({ "anyOf": [negated, blocks] }));
            }
        }
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn argument_schema(argument: &Argument) -> Value {
    let one = with_description(kind_schema(argument.kind), argument.summary);
    match argument.count {
        Count::One | Count::Optional => one,
        Count::OneOrMore => json!({ "type": "array", "items": one, "minItems": 1 }),
        Count::Any => json!({ "type": "array", "items": one }),
    }
}

fn property_schema(property: &Property) -> Value {
    let one = with_description(kind_schema(property.kind), property.summary);
    match property.repeat {
        Repeat::Once => one,
        Repeat::Many => json!({ "type": "array", "items": one }),
    }
}

fn with_description(mut schema: Value, description: &str) -> Value {
    if let Value::Object(members) = &mut schema {
        members.insert("description".into(), description.into());
    }
    schema
}

fn kind_schema(kind: Kind) -> Value {
    match kind {
        Kind::Text(_) | Kind::Secret(_) | Kind::Template(_) => json!({ "type": "string" }),
        Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Choice(names) | Kind::ChoiceOr(names, "") => json!({ "anyOf": [{ "enum": names }, filled_in()] }),
        Kind::ChoiceOr(names, _) => json!({ "anyOf": [{ "enum": names }, { "type": "string" }] }),
        Kind::AutoOrInteger { min, max } => {
            json!({ "anyOf": [{ "const": "auto" }, { "type": "integer", "minimum": min, "maximum": max }, filled_in()] })
        }
        Kind::Statuses => json!({ "type": ["integer", "string"] }),
        // The bounds are for the number, the pattern is for the text.
        Kind::Integer { min, max } => {
            json!({ "type": ["integer", "string"], "minimum": min, "maximum": max, "pattern": FILLED_IN })
        }
        Kind::Duration { min, max } => json!({
            "type": "string",
            "pattern": format!("^([0-9]+(\\.[0-9]+)?(ms|s|m|h|d))+$|{FILLED_IN}"),
            "$comment": format!("{} to {}", show_duration(min), show_duration(max)),
        }),
        Kind::Size { min, max } => json!({
            "anyOf": [
                { "type": "integer", "minimum": min, "maximum": max },
                { "type": "string", "pattern": format!("^[0-9]+(\\.[0-9]+)?([kKMGT]?i?B)?$|{FILLED_IN}") },
            ],
            "$comment": format!("{} to {}", show_size(min), show_size(max)),
        }),
        Kind::ByteRate { min, max } => json!({
            "anyOf": [
                { "type": "integer", "minimum": min, "maximum": max },
                { "type": "string", "pattern": format!("^[0-9]+(\\.[0-9]+)?([kKMGT]?i?B)?(/s)?$|{FILLED_IN}") },
            ],
            "$comment": format!("{} to {} a second", show_size(min), show_size(max)),
        }),
        Kind::Sample => json!({ "type": "string", "pattern": format!("^[0-9]+(\\.[0-9]{{1,4}})?%$|{FILLED_IN}") }),
        Kind::Percent { min, max } => json!({
            "type": "string",
            "pattern": format!("^[0-9]+%$|{FILLED_IN}"),
            "$comment": format!("{min}% to {max}%"),
        }),
        Kind::Switch => json!({ "anyOf": [{ "type": "boolean" }, { "enum": ["on", "off"] }, filled_in()] }),
    }
}

/// What the environment or a file fills in, wherever a value stands.
const FILLED_IN: &str = "\\{(env|file)\\.[^{}]+\\}";

fn filled_in() -> Value {
    json!({ "type": "string", "pattern": FILLED_IN })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` names a definition, and every definition is named by some `$ref`.
    #[test]
    fn references_resolve() {
        fn collect(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(target)) = members.get("$ref") {
                        found.push(target.trim_start_matches("#/$defs/").to_string());
                    }
                    members.values().for_each(|member| collect(member, found));
                }
                Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
                _ => {}
            }
        }
        let schema = schema();
        let mut found = Vec::new();
        collect(&schema, &mut found);
        let definitions = schema["$defs"].as_object().expect("definitions");
        for target in &found {
            assert!(definitions.contains_key(target), "{target} is not defined");
        }
        for name in definitions.keys() {
            assert!(found.contains(name), "{name} is never used");
        }
    }

    #[test]
    fn bounds_and_words_come_from_the_table() {
        let schema = schema();
        let check = |pointer: &str, expected: Value| assert_eq!(schema.pointer(pointer), Some(&expected), "at {pointer}");
        check("/$defs/pool.server/properties/weight/maximum", json!(256));
        check("/$defs/pool.server/required", json!(["address"]));
        check("/$defs/top.site/required", json!(["addresses", "steps"]));
        check(
            "/$defs/pool.balance/properties/method/anyOf/0/enum",
            json!(["p2c", "round-robin", "least-conn", "ewma", "random", "hash"]),
        );
        check("/properties/drain", json!({ "$ref": "#/$defs/top.drain" }));
        assert_eq!(schema.pointer("/properties/include"), None);
    }
}
