//! Files of other proxies: whose they are, what they ask for, and what becomes of each of their statements here.
//! Nothing in them is ever run, and nothing but what is given is read. Whose a text is stands in `signs`; its shape is
//! read by `braces`, `yaml` and `toml`, given a meaning by a file for each proxy, kept in `outline`, and written as
//! lines of ours by `beginning` (the first of them) and `import` (all). What becomes of each statement is said by
//! `accounts`: a line that is told never leaves out in silence what the file has, and none is told for what would stand
//! open without what is left out.

pub mod accounts;
mod alike;
mod apache;
pub mod beginning;
mod braces;
mod caddy;
mod claims;
mod comments;
mod condition_reader;
mod envoy;
pub mod gather;
mod haproxy;
pub mod import;
mod kubernetes;
mod matching;
mod nginx;
mod nginx_dump;
pub mod nginx_words;
pub mod outline;
mod sent_paths;
mod separators;
mod signs;
mod site_logs;
pub mod source;
mod spelling;
mod strangers;
mod texts;
mod toml;
mod traefik;
pub mod traefik_rule;
mod tree;
mod unclaimed;
mod wholeness;
pub mod written;
mod yaml;

pub use alike::joined_alike;
pub use signs::recognise;

use outline::Outline;
use std::ops::Range;
use tree::Tree;

/// The proxy that a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Nginx,
    HaProxy,
    Caddy,
    /// The JSON that Caddy makes of its file.
    CaddyJson,
    Traefik,
    TraefikLabels,
    /// Kinds of Kubernetes that are of Traefik alone.
    TraefikManifest,
    Envoy,
    Apache,
    Kubernetes,
    Compose,
    /// Of nobody that is known: a format alone.
    Yaml,
    Toml,
    Json,
}

impl Peer {
    /// Behind "this is".
    pub fn describe(self) -> &'static str {
        match self {
            Peer::Nginx => "a configuration of nginx",
            Peer::HaProxy => "a configuration of HAProxy",
            Peer::Caddy => "a Caddyfile",
            Peer::CaddyJson => "a configuration of Caddy, as JSON",
            Peer::Traefik => "a configuration of Traefik",
            Peer::TraefikLabels => "a file with labels for Traefik",
            Peer::TraefikManifest => "a manifest of Kubernetes for Traefik",
            Peer::Envoy => "a configuration of Envoy",
            Peer::Apache => "a configuration of Apache httpd",
            Peer::Kubernetes => "a manifest of Kubernetes",
            Peer::Compose => "a file of Docker Compose",
            Peer::Yaml => "YAML",
            Peer::Toml => "TOML",
            Peer::Json => "JSON",
        }
    }

    /// Behind `tidegate import`; nobody reads the files of some.
    pub fn import_word(self) -> Option<&'static str> {
        match self {
            Peer::Nginx => Some("nginx"),
            Peer::HaProxy => Some("haproxy"),
            Peer::Caddy | Peer::CaddyJson => Some("caddy"),
            Peer::Traefik | Peer::TraefikManifest => Some("traefik"),
            Peer::TraefikLabels | Peer::Compose => Some("compose"),
            Peer::Envoy => Some("envoy"),
            Peer::Apache | Peer::Kubernetes | Peer::Yaml | Peer::Toml | Peer::Json => None,
        }
    }

    /// The page on its words and ours.
    pub fn page(self) -> Option<&'static str> {
        match self {
            Peer::Nginx => Some("docs/from-nginx.md"),
            Peer::HaProxy => Some("docs/from-haproxy.md"),
            Peer::Caddy | Peer::CaddyJson => Some("docs/from-caddy.md"),
            Peer::Traefik | Peer::TraefikLabels | Peer::TraefikManifest => Some("docs/from-traefik.md"),
            Peer::Envoy => Some("docs/from-envoy.md"),
            Peer::Apache | Peer::Kubernetes | Peer::Compose | Peer::Yaml | Peer::Toml | Peer::Json => None,
        }
    }
}

/// What a text was known by.
#[derive(Debug, PartialEq, Eq)]
pub struct Recognised {
    pub peer: Peer,
    /// The line that told.
    pub at: Range<usize>,
}

/// What a text of that proxy asks for.
pub fn outline(peer: Peer, text: &str) -> Outline {
    let mut outline = read(peer, text);
    match peer {
        // Each has its own reason to leave such a condition or, behind a proxy that is trusted, to ask it.
        Peer::Nginx | Peer::HaProxy => {}
        Peer::Caddy
        | Peer::CaddyJson
        | Peer::Traefik
        | Peer::TraefikLabels
        | Peer::TraefikManifest
        | Peer::Envoy
        | Peer::Apache
        | Peer::Kubernetes
        | Peer::Compose
        | Peer::Yaml
        | Peer::Toml
        | Peer::Json => claims::close(&mut outline),
    }
    if matches!(peer, Peer::Traefik | Peer::TraefikLabels | Peer::TraefikManifest) {
        traefik::refuse_semicolons(&mut outline);
    }
    accounts::once(&mut outline.statements);
    outline
}

fn read(peer: Peer, text: &str) -> Outline {
    match peer {
        Peer::Nginx => nginx::outline(text),
        Peer::HaProxy => haproxy::outline(text),
        Peer::Caddy => caddy::outline(text),
        Peer::CaddyJson => caddy::json::outline(text),
        Peer::Traefik => traefik::outline(&if signs::has_flags(text) { vec![signs::of_flags(text)] } else { trees(text) }),
        Peer::TraefikLabels => traefik::of_compose(&trees(text)),
        Peer::TraefikManifest => traefik::of_manifests(&trees(text)),
        Peer::Envoy => envoy::outline(&trees(text)),
        Peer::Apache => apache::outline(text),
        Peer::Kubernetes => kubernetes::outline(&trees(text)),
        Peer::Compose | Peer::Yaml | Peer::Toml | Peer::Json => Outline::default(),
    }
}

/// What the labels of one container ask Traefik for, each as its name without `traefik.` in front and its value. A
/// statement stands where its label does in the list.
pub fn outline_of_labels(labels: &[(&str, &str)], entry_points: &[(&str, u16)], server: &str, ports: &[u16]) -> Outline {
    let mut outline = traefik::of_container(labels, entry_points, server, ports);
    claims::refuse(&mut outline);
    outline
}

/// A file as trees, in whichever of the three forms it is; of several files each in its own.
fn trees(text: &str) -> Vec<Tree> {
    if text.trim_start().starts_with('{') {
        return vec![tree::of_json(text)];
    }
    let documents = documents(text);
    if !documents.iter().any(|(_, document)| signs::is_toml(document)) {
        return yaml::read(text);
    }
    let read = |(at, document): (usize, &str)| -> Vec<Tree> {
        let trees = if signs::is_toml(document) { vec![toml::read(document)] } else { yaml::read(document) };
        trees.into_iter().map(|tree| tree.moved(at)).collect()
    };
    documents.into_iter().flat_map(read).collect()
}

/// The parts of a text between lines of `---`, each with where it begins.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            found.push((start, &text[start..at]));
            start = at + line.len();
        }
        at += line.len();
    }
    found.push((start, &text[start..]));
    found
}

/// The configuration of a proxy that a ConfigMap holds.
pub fn within_manifest(text: &str) -> Option<(Peer, String)> {
    let manifests = yaml::read(text);
    let maps = manifests.iter().filter(|tree| tree.get("kind").text() == Some("ConfigMap"));
    let texts = maps.flat_map(|tree| tree.get("data").entries()).filter_map(|(_, value)| value.text());
    texts
        .filter_map(|text| Some((signs::recognise(text)?.peer, text)))
        .find(|(peer, _)| peer.page().is_some())
        .map(|(peer, text)| (peer, text.to_owned()))
}

/// What keeps a text from being a whole file of that proxy, and where: a brace that nothing closes, a quote without an
/// end. What is wrong beside that is for the proxy itself to say.
pub fn fault(peer: Peer, text: &str) -> Option<(usize, String)> {
    match peer {
        Peer::Nginx => braces::fault_of_nginx(text),
        Peer::Caddy => braces::fault_of_caddy(text).or_else(|| caddy::fault(text)),
        Peer::HaProxy => haproxy::fault(text),
        Peer::CaddyJson | Peer::Envoy | Peer::Traefik | Peer::TraefikLabels | Peer::TraefikManifest => {
            if text.trim_start().starts_with(['{', '[']) {
                wholeness::of_json(text).or_else(|| stands_twice(&tree::of_json(text)))
            } else {
                let documents = documents(text);
                if documents.iter().any(|(_, document)| signs::is_toml(document)) {
                    documents.into_iter().find_map(fault_of_document)
                } else {
                    wholeness::of_yaml(text).or_else(|| yaml::fault(text))
                }
            }
        }
        Peer::Apache | Peer::Kubernetes | Peer::Compose | Peer::Yaml | Peer::Toml | Peer::Json => None,
    }
}

fn stands_twice(tree: &Tree) -> Option<(usize, String)> {
    tree.twice().map(|(at, name)| (at, format!("`{name}` stands twice in one block")))
}

/// What keeps one of several documents from being whole, of which each may be in a form of its own.
fn fault_of_document((at, document): (usize, &str)) -> Option<(usize, String)> {
    let fault = if signs::is_toml(document) {
        wholeness::of_toml(document)
    } else {
        wholeness::of_yaml(document).or_else(|| yaml::fault(document))
    };
    fault.map(|(own, fault)| (at + own, fault))
}

/// What to do about a statement of that name that is not carried; `None` where the language's own table has the word.
pub fn remedy(peer: Peer, name: &str) -> Option<&'static str> {
    match peer {
        Peer::HaProxy => haproxy::remedy(name),
        Peer::Envoy => envoy::remedy(name),
        Peer::Nginx => nginx::remedy(name),
        Peer::Caddy | Peer::CaddyJson => caddy::remedy(name),
        Peer::Traefik | Peer::TraefikLabels | Peer::TraefikManifest => traefik::remedy(name),
        Peer::Apache | Peer::Kubernetes | Peer::Compose | Peer::Yaml | Peer::Toml | Peer::Json => None,
    }
}

/// Why nothing has to be said here for a statement of that name; `None` where the language's own table has the word.
pub fn why_same(peer: Peer, name: &str) -> Option<&'static str> {
    let of_no_reader = unclaimed::why_same(name);
    if of_no_reader.is_some() {
        return of_no_reader;
    }
    match peer {
        Peer::Nginx => nginx::why_same(name),
        Peer::HaProxy => haproxy::why_same(name),
        Peer::Caddy | Peer::CaddyJson => caddy::why_same(name),
        Peer::Traefik | Peer::TraefikLabels | Peer::TraefikManifest => traefik::why_same(name),
        Peer::Envoy => envoy::why_same(name),
        Peer::Apache | Peer::Kubernetes | Peer::Compose | Peer::Yaml | Peer::Toml | Peer::Json => None,
    }
}
