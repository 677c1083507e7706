//! What a configuration of Traefik asks for: routers with their services, for HTTP and for TCP, in files, in the labels
//! of containers, and in the manifests of Kubernetes.

mod compose;
mod constraints;
mod doors;
mod fields;
mod hosts;
mod labels;
mod manifests;
mod middlewares;
mod points;
mod queries;
mod redirects;
mod router;
pub mod rules;
mod services;
mod services_of_compose;
mod sites;
mod statics;
mod tcp;
mod words;

pub use words::{remedy, why_same};

use super::outline::{NAME_IN_PLACE, Outline};
use super::tree::Tree;
pub use compose::of_compose;
pub use labels::of_container;
pub use manifests::{address_of, of_manifests};
pub use queries::refuse_semicolons;
use services::http_group;
pub use services_of_compose::OVER;
use std::collections::BTreeSet;

const MIDDLEWARES: &str = "its middlewares are for routers in other files: give `import` the folder of all of them";
const OLD_LABELS: &str = "its labels are those of Traefik 1 (`traefik.frontend.rule`), which have other names since version 2";
const STATIC: &str =
    "its routers stand in the dynamic configuration, or in labels: give `check` that file, and `import` the folder of both";
const NONE_ENABLED: &str = "no container of it has routers in Traefik: `traefik.enable` is not true, is needed and not there, or the \
                            constraints of the provider leave it out";
const NO_ROUTER: &str = "it has no router with a rule of names and paths, and servers that are told";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";
const BEHIND: &str = "routers whose rules no line here is told for may take the same requests, and come before the others";
const CHAIN_MAX: usize = 32;

/// Files of either kind.
pub fn outline(trees: &[Tree]) -> Outline {
    let mut outline = Outline { statements: words::statements(trees), ..Outline::default() };
    // Files of one folder are one configuration.
    let mut all = Tree::of_entries(Vec::new());
    for tree in trees {
        labels::merge(&mut all, tree.clone());
    }
    words::strangers(&all).mark(&mut outline.statements, &mut outline.reasons);
    of_tree(&all, &mut outline);
    outline.opens_no_http = doors::opens_no_http(trees);
    if all.has(words::NOT_ENABLED) {
        outline = outline.or_without(NONE_ENABLED);
    }
    let is_static = trees.iter().any(|tree| !tree.get("entryPoints").is_nothing() || !tree.get("providers").is_nothing());
    let has_middlewares = !all.at(&["http", "middlewares"]).is_nothing();
    let is_old = all.has("frontend") || all.has("backend");
    outline.or_without(match (is_static, has_middlewares, is_old) {
        (true, _, _) => STATIC,
        (false, true, _) => MIDDLEWARES,
        (false, false, true) => OLD_LABELS,
        (false, false, false) => NO_ROUTER,
    })
}

fn of_tree(tree: &Tree, outline: &mut Outline) {
    let mut told = Vec::new();
    let mut unknown = Vec::new();
    for (name, router) in tree.at(&["http", "routers"]).entries() {
        match router::told(tree, name, router, outline) {
            Ok(router) => told.extend(router),
            Err(router) => unknown.push(router),
        }
    }
    router::settle_mixed_ports(&mut told);
    let has_sites = sites::put(tree, &told, &unknown, outline);
    tcp::tcp(tree, outline);
    points::settle(tree, outline);
    let mut used: BTreeSet<usize> = outline.services.iter().flat_map(|service| service.whole_origin().within).collect();
    used.extend(told.iter().flat_map(|router| &router.within));
    used.extend(unknown.iter().flat_map(|router| &router.origin.within));
    points::unused(tree, &used, outline);
    let settings = statics::settings(tree, &mut outline.told);
    outline.settings.extend(settings);
    if !has_sites && outline.services.is_empty() && unknown.is_empty() && told.is_empty() {
        let services = tree.at(&["http", "services"]).entries().iter();
        outline.groups.extend(services.filter_map(|(name, _)| http_group(tree, name)));
    }
}

/// The name without the provider that it is of. What Traefik has itself is in no file, whatever stands there.
fn own_name(name: &str) -> String {
    match name.split_once('@') {
        Some((own, provider)) if provider != "internal" => own.to_owned(),
        Some(_) | None => name.to_owned(),
    }
}

/// A text between variables of the environment, or one of these: its name, and what it is without a value.
enum HostPart<'h> {
    Text(&'h str),
    Variable(&'h str, Option<&'h str>),
}

/// `${SUB}.${DOMAIN:-example.com}` in its parts.
fn host_parts(host: &str) -> Vec<HostPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = host;
    while let Some((before, behind)) = rest.split_once('$') {
        parts.push(HostPart::Text(before));
        let (whole, after) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(found) => found,
            None => behind.split_at(behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(behind.len())),
        };
        let end = whole.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(whole.len());
        let (name, more) = whole.split_at(end);
        parts.push(HostPart::Variable(name, more.strip_prefix(":-").or_else(|| more.strip_prefix('-'))));
        rest = after;
    }
    parts.push(HostPart::Text(rest));
    parts
}

/// `${DOMAIN}` as a variable of ours.
fn with_variables(host: &str) -> String {
    let part = |part: HostPart<'_>| match part {
        HostPart::Text(text) => text.to_owned(),
        HostPart::Variable(name, default) => {
            let default = default.map(|default| format!(":-{default}")).unwrap_or_default();
            format!("{{env.{}{default}}}", name.to_ascii_uppercase())
        }
    };
    host_parts(host).into_iter().map(part).collect()
}

/// `$$` is a `$` in a file of Compose.
fn unescaped(rule: &str) -> String {
    let mut rule = rule.replace("$$", "$");
    // What a template of a file has from the environment.
    while let Some((before, behind)) = rule.split_once("{{") {
        let Some((inner, after)) = behind.split_once("}}") else { break };
        let name = inner.trim().strip_prefix("env").map(|name| name.trim().trim_matches(['"', '`', '\\'])).unwrap_or_default();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            break;
        }
        rule = format!("{before}${{{name}}}{after}");
    }
    rule
}

/// What is filled in by the environment is the reader's to write: the last of it as a domain, and what is in front as a
/// label.
fn without_variables(host: &str) -> String {
    let parts = host_parts(host);
    let last = parts.iter().rposition(|part| matches!(part, HostPart::Variable(..)));
    let part = |(index, part): (usize, &HostPart<'_>)| match part {
        HostPart::Text(text) => (*text).to_owned(),
        HostPart::Variable(_, Some(default)) if !default.is_empty() => (*default).to_owned(),
        HostPart::Variable(..) if Some(index) == last => NAME_IN_PLACE.to_owned(),
        HostPart::Variable(name, _) => name.to_ascii_lowercase().replace('_', "-"),
    };
    parts.iter().enumerate().map(part).collect()
}

/// `tls: {}` says what it does by being there.
fn has_key(router: &Tree, name: &str) -> bool {
    router.entries().iter().any(|(key, value)| key == name && value.text() != Some("false"))
}
