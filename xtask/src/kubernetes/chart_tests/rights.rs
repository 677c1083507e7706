//! What the process may do in a cluster: the rights that a set of objects gives, and those that its own words ask for.
//! Both have to be the same, so that nothing is missing and nothing is given that nobody uses.

use serde_json::Value;
use std::collections::BTreeSet;

/// One verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// `None`: in the whole cluster.
    namespace: Option<String>,
    group: String,
    resource: String,
    /// `None`: all of them.
    name: Option<String>,
    verb: String,
}

type Rows = &'static [(&'static str, &'static [&'static str], &'static [&'static str])];

const READING: &[&str] = &["get", "list", "watch"];
/// In each namespace that is looked at, or in all.
const READ: Rows = &[
    ("", &["services", "configmaps"], READING),
    ("discovery.k8s.io", &["endpointslices"], READING),
    ("networking.k8s.io", &["ingresses"], READING),
];
const SECRETS_LISTED: Rows = &[("", &["secrets"], READING)];
const SECRETS_NAMED: Rows = &[("", &["secrets"], &["get", "watch"])];
const READ_OF_CLUSTER: Rows = &[("networking.k8s.io", &["ingressclasses"], READING)];
/// Where anything is written at all.
const WRITTEN: Rows =
    &[("networking.k8s.io", &["ingresses/status"], &["patch"]), ("events.k8s.io", &["events"], &["create", "patch"])];
/// Of a ConfigMap in a namespace that is not looked at otherwise.
const OF_EVENTS: Rows = &[("events.k8s.io", &["events"], &["create", "patch"])];

/// Where certificates are obtained: what they are kept in, and Secrets of objects that have none.
const STORAGE: Rows = &[
    ("", &["secrets"], &["get", "list", "create", "update", "delete"]),
    ("coordination.k8s.io", &["leases"], &["get", "create", "update", "delete"]),
];
const OBTAINED: Rows = &[("", &["secrets"], &["create", "patch"])];

/// The rights that a process with these words needs; `namespace` is its own.
pub fn needed(arguments: &[String], namespace: &str) -> BTreeSet<Right> {
    let value = |flag: &str| arguments.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
    let writes = !arguments.iter().any(|word| word == "--shadow" || word == "--status=off");
    let mut rights = BTreeSet::new();
    let scopes = match value("--namespaces") {
        Some(names) => names.split(',').map(|name| Some(name.to_owned())).collect(),
        None => {
            add(&mut rights, None, READ_OF_CLUSTER);
            vec![None]
        }
    };
    for scope in scopes {
        add(&mut rights, scope.as_deref(), READ);
        add(&mut rights, scope.as_deref(), if value("--secrets") == Some("named") { SECRETS_NAMED } else { SECRETS_LISTED });
        if writes && value("--acme").is_some() {
            add(&mut rights, scope.as_deref(), OBTAINED);
        }
        if writes {
            add(&mut rights, scope.as_deref(), WRITTEN);
        }
    }
    for map in [value("--ingress-nginx-config"), value("--tcp-services-configmap")].into_iter().flatten() {
        let Some((scope, name)) = map.split_once('/') else { continue };
        let is_seen = |names: &str| names.split(',').any(|name| name == scope);
        if value("--namespaces").is_none_or(is_seen) {
            continue;
        }
        rights.insert(Right {
            namespace: Some(scope.to_owned()),
            group: String::new(),
            resource: "configmaps".to_owned(),
            name: Some(name.to_owned()),
            verb: "get".to_owned(),
        });
        if writes {
            add(&mut rights, Some(scope), OF_EVENTS);
        }
    }
    if value("--acme").is_some() {
        add(&mut rights, Some(namespace), STORAGE);
    }
    if writes {
        let lease = value("--lease").expect("whoever writes has a Lease");
        let of_lease = |name: Option<&str>, verb: &str| Right {
            namespace: Some(namespace.to_owned()),
            group: "coordination.k8s.io".to_owned(),
            resource: "leases".to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        };
        rights.extend([of_lease(None, "create"), of_lease(Some(lease), "get"), of_lease(Some(lease), "patch")]);
    }
    rights
}

fn add(rights: &mut BTreeSet<Right>, namespace: Option<&str>, rows: Rows) {
    for (group, resources, verbs) in rows {
        for resource in *resources {
            rights.extend(verbs.iter().map(|verb| Right {
                namespace: namespace.map(str::to_owned),
                group: (*group).to_owned(),
                resource: (*resource).to_owned(),
                name: None,
                verb: (*verb).to_owned(),
            }));
        }
    }
}

/// Rights to Secrets of some names are all that a process needs that asks for each by its name.
pub fn of_any_secret(rights: BTreeSet<Right>) -> BTreeSet<Right> {
    let is_named = |right: &Right| right.resource == "secrets" && right.verb != "list";
    rights.into_iter().map(|right| if is_named(&right) { Right { name: None, ..right } } else { right }).collect()
}

/// The rights that these roles give.
pub fn given(roles: &[&Value]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for role in roles {
        let namespace = (role["kind"] == "Role").then(|| text(&role["metadata"]["namespace"]));
        for rule in role["rules"].as_array().into_iter().flatten() {
            let names: Vec<Option<String>> = match &rule["resourceNames"] {
                Value::Array(names) => names.iter().map(|name| Some(text(name))).collect(),
                _ => vec![None],
            };
            for (group, resource, verb) in combinations(rule) {
                rights.extend(names.iter().map(|name| Right {
                    namespace: namespace.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    rights
}

fn combinations(rule: &Value) -> Vec<(String, String, String)> {
    let of = |name: &str| rule[name].as_array().into_iter().flatten().map(text).collect::<Vec<String>>();
    let (groups, resources, verbs) = (of("apiGroups"), of("resources"), of("verbs"));
    let mut combinations = Vec::new();
    for group in &groups {
        for resource in &resources {
            combinations.extend(verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
        }
    }
    combinations
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
