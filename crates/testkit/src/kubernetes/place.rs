//! Where objects are: what a path names, and what an object says of itself.

use crate::api::Asked;
use serde_json::{Value, json};

/// What a path names.
pub struct Place {
    /// Without the namespace.
    pub collection: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub is_status: bool,
    /// Whether metadata are asked for, and nothing else.
    pub is_by_metadata: bool,
}

impl Place {
    pub fn of(asked: &Asked) -> Option<Place> {
        let is_by_metadata = asked.header("accept").is_some_and(|accept| accept.contains("as=PartialObjectMetadata"));
        let parts: Vec<&str> = asked.path().trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => (format!("/api/{version}"), rest),
            ["apis", group, version, rest @ ..] => (format!("/apis/{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, more @ ..] => (Some((*namespace).to_owned()), [&[*plural], more].concat()),
            rest => (None, rest.to_vec()),
        };
        let (plural, name, is_status) = match rest.as_slice() {
            [plural] => (plural, None, false),
            [plural, name] => (plural, Some((*name).to_owned()), false),
            [plural, name, "status"] => (plural, Some((*name).to_owned()), true),
            _ => return None,
        };
        Some(Place { collection: format!("{group}/{plural}"), namespace, name, is_status, is_by_metadata })
    }

    /// What is shown of an object.
    pub fn cut(&self, object: &Value) -> Value {
        if !self.is_by_metadata {
            return object.clone();
        }
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
    }

    pub fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace.as_deref().unwrap_or_default())
    }

    pub fn plural(&self) -> &str {
        self.collection.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is in the namespace that the path names.
    pub fn has(&self, collection: &str, object: &Value) -> bool {
        let is_of_namespace = self.namespace.as_deref().is_none_or(|namespace| object["metadata"]["namespace"] == namespace);
        collection == self.collection && is_of_namespace
    }

    /// What RBAC calls it that is asked for.
    pub fn verb(&self, asked: &Asked) -> &'static str {
        match (asked.method.as_str(), &self.name) {
            ("GET", None) if asked.parameter("watch").as_deref() == Some("true") => "watch",
            ("GET", None) => "list",
            ("GET", Some(_)) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            _ => "delete",
        }
    }

    /// As RBAC names what it is, with what is beneath it.
    pub fn resource(&self) -> String {
        if self.is_status { format!("{}/status", self.plural()) } else { self.plural().to_owned() }
    }

    /// As the server says it, for whom RBAC has no rule.
    pub fn forbidden(&self, verb: &str) -> String {
        let group = self.collection.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let scope = match &self.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let (plural, resource) = (self.plural(), self.resource());
        let named = self.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
        format!(
            "{plural}{named} is forbidden: User \"system:serviceaccount:edge:tidegate\" cannot {verb} resource \
             \"{resource}\" in API group \"{group}\" {scope}"
        )
    }
}

/// Collection and key of an object, by what it says of itself.
pub fn place_of(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]).to_lowercase());
    let group = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = match kind.strip_suffix('s') {
        Some(_) => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    let metadata = &object["metadata"];
    (format!("{group}/{plural}"), format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])))
}

/// As RFC 7396 has it.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        match value {
            Value::Null => {
                target.as_object_mut().map(|target| target.remove(name));
            }
            _ => merge(&mut target[name], value),
        }
    }
}
