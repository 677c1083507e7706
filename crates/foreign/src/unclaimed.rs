//! What no reader of a file of names and values tells of, so that each of its lines has its account all the same: what
//! Compose says of containers themselves, and the lines of templates.

use super::Peer;
use super::accounts::{FileStatement, StatementKind, Weight, shown};
use super::outline::Outline;
use super::tree::Tree;
use std::collections::BTreeSet;

/// What such statements are called.
const OF_CONTAINER: &str = "of the container";
const TEMPLATE: &str = "{{ … }}";

const CONTAINER_STAYS: &str = "it is about the container itself, which is started as before";
const NOT_RUN: &str = "templates are not run: what stands between them is read as it is written, once; import what Traefik makes of the file, or \
                       write out what the lines come to";

/// Why nothing has to be said here for a statement of that name.
pub fn why_same(name: &str) -> Option<&'static str> {
    (name == OF_CONTAINER).then_some(CONTAINER_STAYS)
}

/// Adds the statements of the text that are not among those that are told of.
pub fn add(peer: Peer, text: &str, outline: &mut Outline) {
    let is_of_compose = match peer {
        Peer::TraefikLabels => true,
        Peer::Traefik | Peer::TraefikManifest | Peer::Envoy => false,
        Peer::Nginx
        | Peer::HaProxy
        | Peer::Caddy
        | Peer::CaddyJson
        | Peer::Apache
        | Peer::Kubernetes
        | Peer::Compose
        | Peer::Yaml
        | Peer::Toml
        | Peer::Json => return,
    };
    let mut known: BTreeSet<usize> = outline.statements.iter().map(|statement| statement.at).collect();
    known.extend(outline.parts.keys());
    for tree in if super::signs::has_flags(text) { Vec::new() } else { super::trees(text) } {
        let of_container = is_of_compose && !tree.get("services").is_nothing();
        let mut found = Vec::new();
        tree.each_statement(&mut Vec::new(), &|_| None, &mut |at, path, value: &Tree| {
            let is_told = known.contains(&at) || value.items().iter().any(|item| known.contains(&item.start()));
            if !is_told {
                found.push(if of_container {
                    FileStatement { at, name: OF_CONTAINER.to_owned(), kind: StatementKind::SameByDefault }
                } else {
                    let name = shown(path.last().copied().unwrap_or_default());
                    FileStatement { at, name, kind: StatementKind::Needed(Weight::Setting) }
                });
            }
        });
        known.extend(found.iter().map(|statement| statement.at));
        outline.statements.append(&mut found);
    }
    for line in text.lines().map(str::trim_start).filter(|line| line.starts_with("{{")) {
        let at = line.as_ptr() as usize - text.as_ptr() as usize;
        if known.insert(at) {
            outline.statements.push(FileStatement {
                at,
                name: TEMPLATE.to_owned(),
                kind: StatementKind::Needed(Weight::Setting),
            });
            outline.reasons.insert(at, NOT_RUN.to_owned());
        }
    }
}
