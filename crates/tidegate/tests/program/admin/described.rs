//! Whether an answer is what the API's description says, and a part of a configuration what its schema says: as much of
//! JSON Schema as those two use, and no member that they lack.

use serde_json::Value;

/// `place` is for messages.
pub fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(fault) = fault(document, schema, value) {
        panic!("{place}: {fault}\n{value:#}");
    }
}

fn fault(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).expect("the reference leads somewhere");
        return fault(document, target, value).map(|fault| format!("{reference}: {fault}"));
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let faults: Option<Vec<String>> = choices.iter().map(|choice| fault(document, choice, value)).collect();
        return faults.map(|faults| faults.join("; or "));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices.iter().filter(|choice| fault(document, choice, value).is_none()).count();
        return (fitting != 1).then(|| format!("{value} is {fitting} of the choices"));
    }
    if let Some(words) = schema["enum"].as_array() {
        return (!words.contains(value)).then(|| format!("{value} is none of {words:?}"));
    }
    if let Some(word) = schema.get("const") {
        return (word != value).then(|| format!("{value} is not {word}"));
    }
    if let Some(types) = schema["type"].as_array() {
        let faults: Option<Vec<String>> =
            types.iter().map(|one| fault(document, &serde_json::json!({ "type": one }), value)).collect();
        return faults.map(|faults| faults.join("; or "));
    }
    let fits = match schema["type"].as_str().expect("a schema has a type") {
        "object" => return object_fault(document, schema, value),
        "array" => {
            let Some(items) = value.as_array() else { return Some(format!("{value} is no array")) };
            let of_items = schema.get("items")?;
            return items.iter().find_map(|item| fault(document, of_items, item));
        }
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("the description uses the type {other}"),
    };
    (!fits).then(|| format!("{value} is no {}", schema["type"]))
}

fn object_fault(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    let Some(members) = value.as_object() else { return Some(format!("{value} is no object")) };
    let properties = schema["properties"].as_object()?;
    // The API leaves nothing out; a configuration says what has to be there.
    let required: Vec<&str> = match (schema.get("additionalProperties"), schema["required"].as_array()) {
        (None, _) => properties.keys().map(String::as_str).collect(),
        (Some(_), required) => required.into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    if let Some(missing) = required.into_iter().find(|name| !members.contains_key(*name)) {
        return Some(format!("`{missing}` is described and absent"));
    }
    members.iter().find_map(|(name, member)| match properties.get(name) {
        Some(property) => fault(document, property, member).map(|fault| format!("{name}: {fault}")),
        None => Some(format!("`{name}` is not described")),
    })
}
