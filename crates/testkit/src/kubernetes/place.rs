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
    /// The only name that is asked for (`fieldSelector=metadata.name=…`).
    pub selected: Option<String>,
}

/// How kinds are called whose names do not follow from that of their collection.
const KINDS: &[(&str, &str)] = &[
    ("configmaps", "ConfigMap"),
    ("endpointslices", "EndpointSlice"),
    ("ingressclasses", "IngressClass"),
    ("gatewayclasses", "GatewayClass"),
    ("listenersets", "ListenerSet"),
    ("httproutes", "HTTPRoute"),
    ("grpcroutes", "GRPCRoute"),
    ("tlsroutes", "TLSRoute"),
    ("tcproutes", "TCPRoute"),
    ("udproutes", "UDPRoute"),
    ("backendtlspolicies", "BackendTLSPolicy"),
    ("referencegrants", "ReferenceGrant"),
    ("tidegatepolicies", "TidegatePolicy"),
];
/// What the API server itself has, and what others have brought is not: it writes their objects differently.
const OWN_GROUPS: &[&str] =
    &["", "apps", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "networking.k8s.io", "rbac.authorization.k8s.io"];

impl Place {
    /// Whether the program is to list no more than its metadata.
    pub fn is_known_by_metadata(&self) -> bool {
        ["secrets", "configmaps"].contains(&self.plural())
    }

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
        let selected = asked.parameter("fieldSelector").and_then(|text| Some(text.strip_prefix("metadata.name=")?.to_owned()));
        Some(Place { collection: format!("{group}/{plural}"), namespace, name, is_status, is_by_metadata, selected })
    }

    /// What is shown of an object.
    pub fn cut(&self, object: &Value) -> Value {
        if !self.is_by_metadata {
            return object.clone();
        }
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
    }

    /// What is shown of an object in a list.
    pub fn item(&self, object: &Value) -> Value {
        let mut item = self.cut(object);
        if !self.is_by_metadata && OWN_GROUPS.contains(&self.group()) {
            item.as_object_mut().map(|item| (item.remove("kind"), item.remove("apiVersion")));
        }
        item
    }

    /// Version and kind of a list.
    pub fn list_kind(&self) -> (String, String) {
        let (version, kind) = self.kind();
        (version, format!("{kind}List"))
    }

    /// Version and kind of what is shown.
    fn kind(&self) -> (String, String) {
        if self.is_by_metadata {
            return ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata".to_owned());
        }
        let group = self.collection.rsplit_once('/').map_or("", |(group, _)| group);
        let version = group.trim_start_matches("/apis/").trim_start_matches("/api/").to_owned();
        let plural = self.plural();
        let known = KINDS.iter().find(|(of, _)| *of == plural).map(|(_, kind)| (*kind).to_owned());
        let regular = || {
            let singular = plural.strip_suffix("sses").map(|stem| format!("{stem}ss"));
            let singular = singular.unwrap_or_else(|| plural.trim_end_matches('s').to_owned());
            singular[..1].to_uppercase() + &singular[1..]
        };
        (version, known.unwrap_or_else(regular))
    }

    /// Says that nothing else has happened up to a version.
    pub fn bookmark(&self, version: u64, annotations: &Value) -> Value {
        let (api_version, kind) = self.kind();
        let mut bookmark = json!({"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": version.to_string()}});
        if !annotations.is_null() {
            bookmark["metadata"]["annotations"] = annotations.clone();
        }
        bookmark
    }

    /// Whom a refusal is about.
    pub fn details(&self, name: &str) -> Value {
        let mut details = json!({"kind": self.plural()});
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !self.group().is_empty() {
            details["group"] = self.group().into();
        }
        details
    }

    /// What is answered to whom an object was removed.
    pub fn removed(&self, name: &str, object: Value) -> Value {
        if self.plural() == "services" {
            return object;
        }
        let mut details = self.details(name);
        details["uid"] = object["metadata"]["uid"].clone();
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
    }

    /// Empty of what was there first.
    fn group(&self) -> &str {
        self.collection.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default()
    }

    /// As messages name it, as `ingresses.networking.k8s.io`.
    pub fn resource_with_group(&self) -> String {
        match self.group() {
            "" => self.plural().to_owned(),
            group => format!("{}.{group}", self.plural()),
        }
    }

    pub fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace.as_deref().unwrap_or_default())
    }

    pub fn plural(&self) -> &str {
        self.collection.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is in the namespace that the path names, and selected.
    pub fn has(&self, collection: &str, object: &Value) -> bool {
        let is_of_namespace = self.namespace.as_deref().is_none_or(|namespace| object["metadata"]["namespace"] == namespace);
        let is_selected = self.selected.as_deref().is_none_or(|name| object["metadata"]["name"] == name);
        collection == self.collection && is_of_namespace && is_selected
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
        let group = self.group();
        let scope = match &self.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let (plural, resource) = (self.resource_with_group(), self.resource());
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
