//! The API's own description (OpenAPI 3.1), made from the table of addresses and the schemas of their types.

use crate::endpoint::{Endpoint, Verb};
use crate::extract::{JSON_TYPE, MERGE_PATCH_TYPE};
use crate::handlers::{Answer, json as answer};
use crate::problem::{PROBLEM_TYPE, Problem};
use crate::routes::endpoints;
use serde_json::{Map, Value, json};
use tidegate_api::schema::{Components, Described};

/// Errors that every address has, and those of every address that takes a body.
const REFUSALS_OF_ALL: &[u16] = &[400, 401, 403, 405, 409, 500];
const REFUSALS_OF_BODIES: &[u16] = &[413, 415];

pub async fn description() -> Answer {
    answer(&document())
}

pub fn document() -> Value {
    let mut components = Components::new();
    Problem::schema(&mut components);
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints() {
        let operation = operation(&endpoint, &mut components);
        let verb = match endpoint.verb {
            Verb::Get => "get",
            Verb::Post => "post",
            Verb::Put => "put",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        };
        let path = paths.entry(endpoint.path.to_owned()).or_insert_with(|| json!({}));
        path[verb] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate's admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "How a running Tidegate is watched and changed. On a unix socket the socket's permissions decide who may; on TCP a token does.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "token": [] }, {}],
    })
}

fn operation(endpoint: &Endpoint, components: &mut Components) -> Value {
    let mut operation = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "parameters": parameters(endpoint, components),
        "responses": responses(endpoint, components),
    });
    if let Some(body) = endpoint.body {
        let mut content = json!({ JSON_TYPE: { "schema": body(components) } });
        if endpoint.verb == Verb::Patch {
            content[MERGE_PATCH_TYPE] = content[JSON_TYPE].clone();
        }
        operation["requestBody"] = json!({ "required": endpoint.needs_body, "content": content });
    }
    operation
}

fn parameters(endpoint: &Endpoint, components: &mut Components) -> Vec<Value> {
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| {
            let is_number = matches!(name, "n" | "from" | "to");
            let schema = if is_number { u64::schema(components) } else { String::schema(components) };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    for parameter in endpoint.query {
        let schema = (parameter.schema)(components);
        parameters.push(json!({ "name": parameter.name, "in": "query", "description": parameter.about, "schema": schema }));
    }
    if endpoint.is_conditional() {
        let about = "What the change is meant for, as `ETag` has it, or the number of a generation. Something else runs: 412.";
        parameters.push(json!({ "name": "If-Match", "in": "header", "description": about, "schema": { "type": "string" } }));
    }
    parameters
}

fn responses(endpoint: &Endpoint, components: &mut Components) -> Value {
    let mut done =
        json!({ "description": "Done.", "content": { "application/json": { "schema": (endpoint.answer)(components) } } });
    if endpoint.is_tagged {
        done["headers"] = json!({ "ETag": { "description": "The generation that runs, and a mark of its text.", "schema": { "type": "string" } } });
    }
    let mut responses = Map::from_iter([("200".to_owned(), done)]);
    let of_body: &[u16] = if endpoint.body.is_some() { REFUSALS_OF_BODIES } else { &[] };
    for status in REFUSALS_OF_ALL.iter().chain(of_body).chain(endpoint.refusals) {
        let content = json!({ PROBLEM_TYPE: { "schema": Problem::schema(components) } });
        responses.insert(status.to_string(), json!({ "description": reason(*status), "content": content }));
    }
    Value::Object(responses)
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "The request cannot be read; `detail` names the place.",
        401 => "The token is absent or wrong.",
        403 => "Sent by a browser, or no token is configured for an address of the network.",
        404 => "There is no such thing.",
        405 => "The address has no such method.",
        409 => {
            "Another change waits for its confirmation, the file was edited meanwhile, a name is taken, an upgrade is under way, or the process drains."
        }
        412 => "Something else runs than what was expected.",
        413 => "The body is larger than 8 MiB.",
        415 => "The body is not `application/json`.",
        503 => "The storage does not take it.",
        422 => "The configuration has errors or cannot run; `diagnostics` has them all.",
        _ => "The fault is ours.",
    }
}

#[cfg(test)]
mod tests {
    use super::document;
    use crate::routes::endpoints;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn every_address_is_described_once() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(operations, endpoints().len());
        let ids: BTreeSet<_> = endpoints().into_iter().map(|endpoint| endpoint.id).collect();
        assert_eq!(ids.len(), endpoints().len());
        for endpoint in endpoints() {
            assert!(!endpoint.summary.is_empty(), "{}", endpoint.path);
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str));
                    members.values().for_each(|member| references(member, found));
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let target = document.pointer(reference.strip_prefix('#').unwrap()).unwrap_or(&Value::Null);
            assert!(target.is_object(), "{reference}");
        }
    }
}
