//! The labels of a file of Compose, with the services that they are of, what flags of Traefik say there, and files of
//! Traefik beside it.

use super::labels::{ContainerServers, fill_services, labels_of, merge, path_of, variables};
use super::services_of_compose::{self, unread, whole};
use super::words::{NOT_ENABLED, OF_FILES, TWICE};
use super::{constraints, outline};
use crate::outline::Outline;
use crate::tree::Tree;
use std::collections::BTreeSet;

const UNREAD: &str = "the constraints of its provider are none that is read, so which containers have routers is not known";

/// All of these files as one configuration. Containers are asked under the names of their services, as those of one
/// network are.
pub fn of_compose(trees: &[Tree]) -> Outline {
    let mut all = Tree::of_entries(Vec::new());
    let mut owned: Vec<Tree> = Vec::new();
    let is_other = |tree: &&Tree| !is_compose(tree) && !tree.has(services_of_compose::OVER);
    for tree in trees.iter().filter(is_other) {
        merge(&mut all, tree.clone());
    }
    let mut is_unread = false;
    // What stands over a file may say no more of a service than its labels.
    let files = services_of_compose::files(&trees.iter().filter(|tree| !is_other(tree)).cloned().collect::<Vec<Tree>>());
    for tree in &files {
        let services = tree.get("services");
        let mut statics = statics_of(tree);
        merge(&mut statics, Tree::of_entries(vec![("providers".to_owned(), all.get("providers").clone())]));
        let is_exposed = is_exposed(&statics);
        let of_all = unread_of_proxy(tree);
        for (name, _) in services.entries() {
            let service = &whole(services, name);
            let (mut own, enabled) = own_labels(service);
            let is_enabled = match enabled {
                Some(value) => is_yes(&value),
                None => is_exposed,
            };
            for (key, said) in unread(service) {
                *all.place(&[OF_FILES, name, key].map(str::to_owned)) = said.clone();
            }
            let is_allowed = is_enabled && own.entries().iter().len() > 0 && {
                let allowed = is_allowed(&statics, service);
                is_unread |= allowed.is_none();
                allowed == Some(true)
            };
            if is_allowed {
                fill_services(&mut own, &servers_of(name, service));
                guard(&mut own, unread(service).into_iter().chain(of_all.iter().map(|(key, said)| (*key, said))));
                owned.push(own);
            } else if own.entries().iter().len() > 0 {
                *all.place(&[NOT_ENABLED.to_owned(), name.clone()]) = own;
            }
        }
        for (key, said) in of_all {
            *all.place(&[OF_FILES, key].map(str::to_owned)) = said;
        }
        merge(&mut all, statics);
    }
    add_all(&mut all, owned);
    let outline = outline(&[all]);
    if is_unread { outline.or_without(UNREAD) } else { outline }
}

/// What comes from files that are not read, and may say what Traefik does itself: entry points with middlewares, or
/// which containers have routers.
fn unread_of_proxy(tree: &Tree) -> Vec<(&'static str, Tree)> {
    let services = tree.get("services");
    let mut found = vec![("include", tree.get("include").clone())];
    for (name, _) in services.entries() {
        let service = whole(services, name);
        if service.get("image").text().is_some_and(|image| image.contains("traefik")) {
            found.extend(["extends", "env_file"].map(|key| (key, service.get(key).clone())));
        }
    }
    found.retain(|(_, said)| !said.is_nothing());
    found
}

/// Puts what is not read before all routers of a container.
fn guard<'t>(own: &mut Tree, unread: impl Iterator<Item = (&'static str, &'t Tree)>) {
    let unread: Vec<(&str, &Tree)> = unread.collect();
    for kind in ["http", "tcp"] {
        let names: Vec<String> = own.at(&[kind, "routers"]).entries().iter().map(|(name, _)| name.clone()).collect();
        for (name, (key, said)) in names.iter().flat_map(|name| unread.iter().map(move |one| (name, one))) {
            *own.place(&[kind, "routers", name, key].map(str::to_owned)) = (*said).clone();
        }
    }
}

/// Whether a file is one of Compose, and none of Traefik.
pub fn is_compose(tree: &Tree) -> bool {
    let words = ["labels", "image", "deploy", "build", "command", "ports", "extends", "label_file"];
    let is_service = |(_, service): &(String, Tree)| words.iter().any(|word| service.has(word));
    tree.get("services").entries().iter().any(is_service) && !tree.has("http") && !tree.has("tcp")
}

/// The labels of a service without `traefik.` in front, and what the one says by which it is enabled.
fn own_labels(service: &Tree) -> (Tree, Option<String>) {
    let mut own = Tree::of_entries(Vec::new());
    let mut enabled = None;
    for labels in [service.get("labels"), service.at(&["deploy", "labels"])] {
        for (key, value, at) in labels_of(labels) {
            let Some(key) = key.strip_prefix("traefik.") else { continue };
            if key.eq_ignore_ascii_case("enable") {
                enabled = Some(value.clone());
            }
            let value = value.trim_matches(['"', '\'']);
            let place = own.place(&path_of(key));
            // What is said of it in more words counts.
            if !place.is_map() {
                let is_rule = key.len() > 5 && key.to_ascii_lowercase().ends_with(".rule");
                let value = if is_rule { value.to_owned() } else { variables(value) };
                *place = Tree::of_text(value).standing_at(at);
            }
        }
    }
    (own, enabled)
}

/// Where the containers of a service are reached: those in the network of another one by its name.
fn servers_of(name: &str, service: &Tree) -> ContainerServers {
    let mode = service.get("network_mode").text().unwrap_or_default();
    let host = match mode.split_once(':') {
        Some(("service" | "container", other)) => other,
        Some(_) | None if mode == "host" => "127.0.0.1",
        Some(_) | None => name,
    };
    let of_container = |port: &Tree| -> Option<u16> {
        let text = port.text().or_else(|| port.get("target").text())?;
        text.rsplit(':').next()?.split(['/', '-']).next()?.trim().parse().ok()
    };
    let ports = service.get("expose").items().iter().chain(service.get("ports").items()).filter_map(of_container).collect();
    let replicas = service.at(&["deploy", "replicas"]).number().or_else(|| service.get("scale").number()).unwrap_or(1);
    ContainerServers { host: host.to_owned(), ports, is_port_known: false, replicas }
}

/// What the flags of Traefik say in a file of Compose, and its variables of the environment.
fn statics_of(tree: &Tree) -> Tree {
    let mut statics = Tree::of_entries(Vec::new());
    let mut add = |key: &str, separator: char, value: &str, at: usize| {
        let path: Vec<String> = key.split(separator).map(str::to_owned).take(12).collect();
        let place = statics.place(&path);
        if !place.is_map() {
            *place = Tree::of_text(variables(value)).standing_at(at);
        }
    };
    let services = tree.get("services");
    let all = services.entries().iter().map(|(name, _)| whole(services, name)).collect::<Vec<Tree>>();
    for service in all.iter().filter(|service| is_proxy(service)) {
        let command = service.get("command");
        for item in command.items() {
            let text = item.text().unwrap_or_default();
            // One item of a list is one flag, with the blanks in it.
            let flags: Vec<&str> = if command.is_list() { vec![text] } else { text.split_whitespace().collect() };
            for flag in flags {
                let Some(flag) = flag.trim_matches(['"', '\'']).strip_prefix('-') else { continue };
                let (key, value) = flag.trim_start_matches('-').split_once('=').unwrap_or((flag.trim_start_matches('-'), "true"));
                add(key, '.', value, item.start());
            }
        }
        for (key, value, at) in labels_of(service.get("environment")) {
            if let Some(key) = key.trim().to_ascii_lowercase().strip_prefix("traefik_") {
                add(key, '_', &value, at);
            }
        }
    }
    statics
}

/// Of other programs the flags say nothing of routers.
fn is_proxy(service: &Tree) -> bool {
    match service.get("image").text() {
        Some(image) => image.contains("traefik"),
        None => {
            let flags = ["entrypoints", "providers", "api", "certificatesresolvers", "log", "accesslog"];
            let is_flag = |item: &Tree| {
                let text = item.text().unwrap_or_default().trim_start_matches('-').to_ascii_lowercase();
                flags.iter().any(|flag| text.strip_prefix(flag).is_some_and(|rest| rest.starts_with(['.', '='])))
            };
            service.get("command").items().iter().any(is_flag) || !service.has("command")
        }
    }
}

/// Whether containers without a word of theirs have routers; without a word they have. What is neither of both words is
/// taken for the one that serves less.
fn is_exposed(statics: &Tree) -> bool {
    let said = ["docker", "swarm"].map(|provider| statics.at(&["providers", provider, "exposedByDefault"]));
    said.iter().all(|said| said.text().is_none_or(is_yes))
}

/// Whether a text is one of the ways in which Traefik takes a boolean for true.
pub fn is_yes(value: &str) -> bool {
    matches!(value.trim(), "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Whether the constraints of the provider let a service in; `None` where they are none that is read.
fn is_allowed(statics: &Tree, service: &Tree) -> Option<bool> {
    let mut labels = Vec::new();
    for said in [service.get("labels"), service.at(&["deploy", "labels"])] {
        labels.extend(labels_of(said).into_iter().map(|(key, value, _)| (key, variables(&value))));
    }
    let mut allowed = true;
    for provider in ["docker", "swarm"] {
        if let Some(text) = statics.at(&["providers", provider, "constraints"]).text().filter(|text| !text.trim().is_empty()) {
            allowed &= constraints::hold(text, &labels)?;
        }
    }
    Some(allowed)
}

/// The labels of all containers. What two of them say differently of one name is said by neither, and servers of one
/// service are one after another.
fn add_all(all: &mut Tree, owned: Vec<Tree>) {
    let mut known =
        Tree::of_entries(vec![("http".to_owned(), all.get("http").clone()), ("tcp".to_owned(), all.get("tcp").clone())]);
    let mut differing: BTreeSet<[String; 3]> = BTreeSet::new();
    for own in &owned {
        for path in named_parts(own) {
            let said = own.at(&path.each_ref().map(String::as_str));
            let other = known.at(&path.each_ref().map(String::as_str));
            if !other.is_nothing() && !is_alike(&path[1], other, said) {
                differing.insert(path);
            } else {
                *known.place(&path) = said.clone();
            }
        }
    }
    for (index, own) in owned.into_iter().enumerate() {
        let mut kept = Tree::of_entries(own.entries().iter().filter(|(key, _)| key != "http" && key != "tcp").cloned().collect());
        for path in named_parts(&own) {
            let said = own.at(&path.each_ref().map(String::as_str)).clone();
            if differing.contains(&path) {
                *all.place(&[TWICE.to_owned(), path[2].clone(), format!("{} {index}", path.join("."))]) = said;
            } else if path[1] == "services" && !all.at(&path.each_ref().map(String::as_str)).is_nothing() {
                add_servers(all.place(&path), &said);
            } else {
                *kept.place(&path) = said;
            }
        }
        merge(all, kept);
    }
}

/// Routers, middlewares and all else that has a name, by these names.
fn named_parts(own: &Tree) -> Vec<[String; 3]> {
    let mut paths = Vec::new();
    for kind in ["http", "tcp"] {
        for (section, parts) in own.get(kind).entries() {
            let section = section.to_ascii_lowercase();
            paths.extend(parts.entries().iter().map(|(name, _)| [kind.to_owned(), section.clone(), name.clone()]));
        }
    }
    paths
}

/// Whether two containers say the same; of services, but for their servers.
fn is_alike(section: &str, one: &Tree, other: &Tree) -> bool {
    let bare = |service: &Tree| {
        let entries = service.get("loadBalancer").entries().iter();
        Tree::of_entries(entries.filter(|(key, _)| !key.eq_ignore_ascii_case("server") && key != "servers").cloned().collect())
    };
    if section == "services" { bare(one) == bare(other) } else { one == other }
}

fn add_servers(known: &mut Tree, other: &Tree) {
    let balancer = |part: &str| ["loadBalancer".to_owned(), part.to_owned()];
    for part in ["servers", "server"] {
        let more = other.at(&["loadBalancer", part]);
        let items = known.at(&["loadBalancer", part]).items().iter().chain(more.items()).cloned().collect();
        *known.place(&balancer(part)) = Tree::of_items(items);
    }
}
