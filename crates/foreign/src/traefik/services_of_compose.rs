//! Services of Compose with what they have of others: of one that they extend, and of the same one in a file that
//! stands over it, as `compose.override.yml` does. What comes from files that are not read may be a guard.

use super::labels::labels_of;
use crate::tree::Tree;

/// The key of a document that stands over those before it; no file has it.
pub const OVER: &str = "x-over-the-files-before";
/// Services that extend services that extend services go no deeper.
const DEPTH_MAX: usize = 16;

/// Each file, and what stands over it put into it.
pub fn files(trees: &[Tree]) -> Vec<Tree> {
    let mut files: Vec<Tree> = Vec::new();
    let mut is_over = false;
    for tree in trees {
        is_over |= tree.has(OVER);
        if tree.get("services").is_nothing() {
            continue;
        }
        match files.last_mut().filter(|_| is_over) {
            Some(file) => *file = over(file, tree),
            None => files.push(tree.clone()),
        }
    }
    files
}

/// A file with what another one says of its services, and with its own where it has none of that name.
fn over(file: &Tree, other: &Tree) -> Tree {
    let mut entries: Vec<(String, Tree)> = file.entries().iter().filter(|(key, _)| key != "services").cloned().collect();
    entries.extend(other.entries().iter().filter(|(key, _)| key == "include").cloned());
    let mut services: Vec<(String, Tree)> = file.get("services").entries().to_vec();
    for (name, service) in other.get("services").entries() {
        match services.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = joined(known, service),
            None => services.push((name.clone(), service.clone())),
        }
    }
    entries.push(("services".to_owned(), Tree::of_entries(services)));
    Tree::of_entries(entries)
}

/// A service with all that it has of those that it extends in its file. What it extends elsewhere stays `extends`.
pub fn whole(services: &Tree, name: &str) -> Tree {
    extended(services, services.get(name), 0)
}

fn extended(services: &Tree, service: &Tree, depth: usize) -> Tree {
    let extends = service.get("extends");
    let (named, is_elsewhere) = match extends.text() {
        Some(name) => (Some(name), false),
        None => (extends.get("service").text(), extends.has("file")),
    };
    let base = named.filter(|_| !is_elsewhere && depth < DEPTH_MAX).map(|name| services.get(name));
    let Some(base) = base.filter(|base| !base.is_nothing()) else { return service.clone() };
    let own = service.entries().iter().filter(|(key, _)| key != "extends").cloned().collect();
    joined(&extended(services, base, depth + 1), &Tree::of_entries(own))
}

/// What two places say of one service: labels and variables of both, of which those of the second count, and else what
/// the second says.
fn joined(base: &Tree, own: &Tree) -> Tree {
    let mut entries: Vec<(String, Tree)> = Vec::new();
    let keys = base.entries().iter().chain(own.entries().iter().filter(|(key, _)| !base.has(key))).map(|(key, _)| key);
    for key in keys {
        let (first, second) = (base.get(key), own.get(key));
        let value = match key.as_str() {
            "labels" | "environment" => {
                let pair = |(key, value, at): (String, String, usize)| Tree::of_text(format!("{key}={value}")).standing_at(at);
                Tree::of_items(labels_of(first).into_iter().chain(labels_of(second)).map(pair).collect())
            }
            "deploy" => joined(first, second),
            "label_file" | "env_file" | "expose" | "ports" => {
                Tree::of_items(first.items().iter().chain(second.items()).cloned().collect())
            }
            _ if second.is_nothing() => first.clone(),
            _ => second.clone(),
        };
        entries.push((key.clone(), value));
    }
    Tree::of_entries(entries)
}

/// What a service has of files that are not read, where labels may come from.
pub fn unread(service: &Tree) -> Vec<(&'static str, &Tree)> {
    let of = |name: &'static str| Some((name, service.get(name))).filter(|(_, said)| !said.is_nothing());
    [of("extends"), of("label_file")].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{OVER, files, unread, whole};
    use crate::yaml;

    #[test]
    fn services_have_what_they_extend_and_what_stands_over_them() {
        let text = "services:\n  base:\n    labels:\n      a: base\n      b: base\n  app:\n    extends: base\n    image: app\n    labels: [b=app]\n  far:\n    extends:\n      file: other.yml\n      service: base\n";
        let text = format!("{text}---\n{OVER}: true\n---\nservices:\n  app:\n    labels:\n      c: over\n");
        let all = files(&yaml::read(&text));
        assert_eq!(all.len(), 1);
        let services = all[0].get("services");
        assert_eq!(whole(services, "app").get("labels").shown(), "[a=base, b=base, b=app, c=over]");
        assert_eq!(unread(&whole(services, "far")).len(), 1);
        assert!(unread(&whole(services, "app")).is_empty());
    }
}
