//! Files of Caddy 1, whose words are others and which Caddy 2 refuses.

use super::is_address_line;
use crate::braces::{self, Statement, has_within};

/// Words of its sites that no module of version 2 has.
const WORDS: [&str; 8] = ["proxy", "fastcgi", "gzip", "browse", "ext", "markdown", "mime", "ipfilter"];
/// Words of version 2, which it has not.
const NEWER: [&str; 8] = ["reverse_proxy", "php_fastcgi", "file_server", "encode", "handle", "handle_path", "route", "respond"];

/// Where a word of it stands, and what to do.
pub fn fault(text: &str) -> Option<(usize, String)> {
    let statements = braces::of_caddy(text);
    if NEWER.iter().any(|name| has_within(&statements, name)) {
        return None;
    }
    let of_sites = statements.iter().filter(|statement| is_address_line(statement)).flat_map(Statement::inside);
    let is_bare = statements.first().is_some_and(|first| first.block.is_none() && is_address_line(first));
    let bare: &[Statement] = if is_bare { &statements } else { &[] };
    let own = of_sites.chain(bare).find(|line| WORDS.contains(&line.name()))?;
    Some((
        own.start(),
        format!(
            "`{}` is a word of Caddy 1, whose files Caddy 2 refuses: bring it to version 2 (`reverse_proxy`, `php_fastcgi`, \
             `encode`, `file_server`; https://caddyserver.com/docs/v2-upgrade), and import what comes of it",
            own.name()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn words_of_version_one_are_told() {
        let check = |text: &str, word: Option<&str>| {
            let found = fault(text).map(|(at, _)| text[at..].split_whitespace().next().unwrap_or_default().to_owned());
            assert_eq!(found.as_deref(), word, "{text}");
        };
        check("a.example.com {\n proxy / localhost:3000 {\n  transparent\n }\n}\n", Some("proxy"));
        check("a.example.com\ngzip\nroot /srv\n", Some("gzip"));
        check("a.example.com {\n encode gzip\n reverse_proxy a:80\n}\n", None);
        check("{\n layer4 {\n  :80 {\n   route {\n    proxy a:80\n   }\n  }\n }\n}\n", None);
    }
}
