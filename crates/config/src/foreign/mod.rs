//! Files and lines of other proxies that were given to us: which proxy's they are, and where to read on. A file is only
//! looked at when it was refused, so that what is right costs nothing. Single words of others are in `directives`, what
//! tells a file by is in `signs`, what its first line would be here in `beginning`.

mod beginning;
mod signs;

use crate::diagnostics::{Diagnostic, Location, Sources};
use crate::language::Language;
use crate::traefik_rule;
use std::ops::Range;

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
    fn describe(self) -> &'static str {
        match self {
            Peer::Nginx => "a configuration of nginx",
            Peer::HaProxy => "a configuration of HAProxy",
            Peer::Caddy => "a Caddyfile",
            Peer::CaddyJson => "a configuration of Caddy, as JSON",
            Peer::Traefik => "a configuration of Traefik",
            Peer::TraefikLabels => "a file with labels for Traefik",
            Peer::Envoy => "a configuration of Envoy",
            Peer::Apache => "a configuration of Apache httpd",
            Peer::Kubernetes => "a manifest of Kubernetes",
            Peer::Compose => "a file of Docker Compose",
            Peer::Yaml => "YAML",
            Peer::Toml => "TOML",
            Peer::Json => "JSON",
        }
    }

    /// The page on its words and ours.
    fn page(self) -> Option<&'static str> {
        match self {
            Peer::Nginx => Some("docs/from-nginx.md"),
            Peer::HaProxy => Some("docs/from-haproxy.md"),
            Peer::Caddy | Peer::CaddyJson => Some("docs/from-caddy.md"),
            Peer::Traefik | Peer::TraefikLabels => Some("docs/from-traefik.md"),
            Peer::Envoy => Some("docs/from-envoy.md"),
            Peer::Apache | Peer::Kubernetes | Peer::Compose | Peer::Yaml | Peer::Toml | Peer::Json => None,
        }
    }

    fn note(self) -> String {
        match (self, self.page()) {
            (Peer::TraefikLabels, Some(page)) => format!(
                "routes stand in a file of our own; servers of a pool can be found by labels, with `discover docker=\"api\"`. Its words and ours, \
                 side by side: {page}"
            ),
            (_, Some(page)) => {
                format!("its words and ours, and one configuration written twice: {page}; step by step: docs/steps-elsewhere.md")
            }
            (Peer::Apache, None) => "step by step, as nginx and others have it: docs/steps-elsewhere.md".to_owned(),
            (Peer::Kubernetes, None) => {
                "no Ingress and no Gateway is read in this version; what stands in a file is in docs/getting-started.md"
                    .to_owned()
            }
            (Peer::Json, None) => {
                "a configuration as JSON is what the API takes, at `/v1/config` of `admin`: docs/admin-api.md".to_owned()
            }
            (_, None) => {
                "a configuration is KDL: names, values in quotes and blocks in braces; docs/getting-started.md".to_owned()
            }
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

/// One diagnostic in the place of all others of a file that is another proxy's.
pub fn of_whole_files(diagnostics: &mut Vec<Diagnostic>, sources: &Sources) {
    if !diagnostics.iter().any(Diagnostic::is_error) {
        return;
    }
    for file in sources.ids() {
        let is_refused = |fault: &Diagnostic| fault.primary.location.file == file && fault.is_error();
        if !diagnostics.iter().any(is_refused) {
            continue;
        }
        let text = &sources.file(file).text;
        let Some(Recognised { peer, at }) = signs::recognise(text) else { continue };
        diagnostics.retain(|fault| fault.primary.location.file != file);
        let diagnostic = Diagnostic::error("other-proxy", Location { file, span: at }, format!("this is {}", peer.describe()))
            .note(peer.note());
        let help = format!("files of others are not read; here it begins with `{}`", beginning::of(peer, text));
        diagnostics.push(diagnostic.help(help));
    }
}

/// A line that is no KDL is told of by its word where that is another proxy's: quotes are not what it lacks. The word
/// that begins the line says most, then the one that is nearest.
pub fn of_a_line(language: &Language, text: &str, fault: Diagnostic) -> Diagnostic {
    let at = fault.primary.location.span.start;
    let file = fault.primary.location.file;
    let before = &text[..at];
    let starts =
        [before.rfind('\n'), before.rfind(['\n', ';', '{', '}'])].map(|position| position.map_or(0, |position| position + 1));
    let line = &text[starts[0]..];
    if let Some(rule) = line
        .split(" {")
        .next()
        .and_then(|head| head.split_once(' '))
        .and_then(|(_, rule)| traefik_rule::help(rule.lines().next()?))
    {
        return Diagnostic { help: Some(rule.into()), ..fault };
    }
    for start in starts {
        let rest = text[start..].trim_start_matches([' ', '\t']);
        let start = text.len() - rest.len();
        let mut words =
            rest.lines().next().unwrap_or_default().split(|c: char| c.is_whitespace() || matches!(c, ';' | '{' | '(' | '='));
        let word = words.next().unwrap_or_default();
        if word.is_empty() || start > at || !language.places_of(word).is_empty() {
            continue;
        }
        if let Some(help) = language.said_otherwise(word, words.next().unwrap_or_default()) {
            let location = Location { file, span: start..start + word.len() };
            return Diagnostic::error("unknown-word", location, format!("unknown word `{word}`")).help(help);
        }
    }
    fault
}
