//! Comments of the files of other proxies, with the places that they stand at. What is in quotes is none.

use super::Peer;

/// A comment without its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileComment {
    pub at: usize,
    pub text: String,
    /// Whether it stands behind something on its line.
    pub is_behind: bool,
}

/// All comments, in their order. JSON has none.
pub fn of(peer: Peer, text: &str) -> Vec<FileComment> {
    let quotes: &[char] = match peer {
        Peer::CaddyJson | Peer::Json => return Vec::new(),
        Peer::Caddy => &['"', '`'],
        Peer::Nginx
        | Peer::HaProxy
        | Peer::Traefik
        | Peer::TraefikLabels
        | Peer::TraefikManifest
        | Peer::Envoy
        | Peer::Apache
        | Peer::Kubernetes
        | Peer::Compose
        | Peer::Yaml
        | Peer::Toml => &['"', '\''],
    };
    let mut found = Vec::new();
    let mut chars = text.char_indices().peekable();
    let (mut before, mut quote, mut is_behind) = (' ', None, false);
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (_, '\\') => {
                chars.next();
            }
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            // In the middle of a word a quote opens nothing, as in `don't`.
            (None, c) if quotes.contains(&c) && !before.is_alphanumeric() => quote = Some(c),
            (None, '#') if before.is_whitespace() || matches!(before, ';' | '{' | '}') => {
                let length = text[at..].find('\n').unwrap_or(text.len() - at);
                let said = text[at..at + length].trim_start_matches('#').trim();
                found.push(FileComment { at, text: said.to_owned(), is_behind });
                while chars.next_if(|(place, _)| *place < at + length).is_some() {}
            }
            (None, _) => {}
        }
        is_behind = match c {
            '\n' => false,
            c => is_behind || !c.is_whitespace(),
        };
        before = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{FileComment, of};
    use crate::Peer;

    #[test]
    fn comments_are_what_is_not_in_quotes() {
        let check = |peer: Peer, text: &str, expected: &[(&str, bool)]| {
            let seen = of(peer, text);
            let seen: Vec<(&str, bool)> =
                seen.iter().map(|FileComment { text, is_behind, .. }| (text.as_str(), *is_behind)).collect();
            assert_eq!(seen, expected, "for {text:?}");
        };
        check(Peer::Nginx, "# one\nroot /srv; # two\n## three\n", &[("one", false), ("two", true), ("three", false)]);
        check(Peer::Nginx, "return 200 \"# no\"; location ~ /#a { }", &[]);
        check(Peer::HaProxy, "log-format a\\#b # yes", &[("yes", true)]);
        check(Peer::Caddy, "respond `# no`\n# yes", &[("yes", false)]);
        check(Peer::Envoy, "a: it's # yes\n", &[("yes", true)]);
        check(Peer::CaddyJson, "{}# no", &[]);
    }
}
